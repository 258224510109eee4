/*
 * How long a sandbox lives: by the clock, without work, by its processor time
 * and by what it writes. Each ends it with a reason, which is kept (ended.h).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct sandbox;

/* Why it ends, for its clients and for later; the first reason stays. */
void box_reason(struct sandbox *s, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* A limit (its name in the spec, if it is there) is reached: it is removed. The
 * reason has been set. */
void box_over(struct sandbox *s, const char *limit);
/* The same for what is the fault of its machine: one that is persistent, or has
 * the disk that it moves from, ends as if by itself, and keeps that. */
void box_give_up(struct sandbox *s, const char *limit);

/* Its time counts from now; that of a microVM, whose first may have to boot
 * another, from when it is ready. */
void lifetime_start(struct sandbox *s);
void lifetime_ready(struct sandbox *s);
/* A fork has no more time than what it was forked of had left, if that ends
 * with its time. */
void lifetime_inherit(struct sandbox *s, const struct sandbox *from);
/* Its spec says something else: about the time itself, or what comes then. */
void lifetime_changed(struct sandbox *s, bool timeout);
/*
 * It is paused or suspended, or runs again. The time of one that does not end
 * with it stops then, and counts anew.
 */
void lifetime_asleep(struct sandbox *s);
void lifetime_awake(struct sandbox *s);
/* It goes on as the registry says. */
void lifetime_resume(struct sandbox *s);
/* Looks at new figures of its meter: it may be over. */
void lifetime_check(struct sandbox *s);
/* How many milliseconds may pass before the next look at its figures. */
uint64_t lifetime_wait_ms(const struct sandbox *s);
/* Its agent has sent so many bytes of output. */
void box_output(struct sandbox *s, size_t n);
/* How long nobody has had to do with it, nor it with anything. */
uint64_t box_idle_ms(const struct sandbox *s);
