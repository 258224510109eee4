/* Requests for processes get what the sandbox's spec says about them. */
#pragma once

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "spec/spec.h"
#include "wire/frame.h"

/*
 * Appends FRAME_SPAWN frames for the request with the user, directory and
 * environment of `spec` added; where both say something, the request wins.
 * `more` (or NULL) are variables that both may say otherwise.
 * Work that the agent does itself has no use for variables. -E2BIG: too large
 * with the addition.
 */
int spawn_put_spec(struct buf *out, uint32_t channel, const struct spawn *s,
		   const struct spec *spec, json_t *more) MUST_CHECK;
