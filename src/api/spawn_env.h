/* Requests for processes get the environment of the sandbox's spec. */
#pragma once

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

/*
 * Appends FRAME_SPAWN frames for the joined request `p` with `env` (an object
 * of strings, or NULL) added; where both name a variable, the request wins.
 * -EBADMSG: not a request; -E2BIG: too large with the addition.
 */
int spawn_with_env(struct buf *out, uint32_t channel, const void *p, size_t n,
		   json_t *env) MUST_CHECK;
