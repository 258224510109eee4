/*
 * What the log says of processes: that they started and how they ended,
 * whether anybody is attached or not. Work that agents do for us (builtins) is
 * not a process for the log.
 */
#pragma once

#include <stdint.h>

struct exit_info;
struct identity;
struct proc_note;
struct sandbox;
struct spawn;
struct started;

/*
 * What was asked for, until it runs; NULL for builtins. `who` NULL: nobody but
 * the daemon itself. All is copied.
 */
struct proc_note *proc_note_new(const struct sandbox *s, const struct spawn *sp,
				const struct identity *who,
				const char *request_id);
void proc_note_free(struct proc_note *n);

/* Frees the note. */
void proc_log_start(const struct sandbox *s, struct proc_note *n,
		    const struct started *st);
void proc_log_exit(const struct sandbox *s, uint32_t number,
		   const struct exit_info *x);
/*
 * We were away, and are connected to its agent again: exits that nobody heard
 * of are written down, and those to come will be.
 */
void proc_log_resume(struct sandbox *s);
