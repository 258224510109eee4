/* Requests for processes get the environment of the sandbox's spec. */
#pragma once

#include <jansson.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "wire/frame.h"

/*
 * Appends FRAME_SPAWN frames for the request with `env` (an object of strings,
 * or NULL) added; where both name a variable, the request wins. Work that the
 * agent does itself has no use for any. -E2BIG: too large with the addition.
 */
int spawn_put_env(struct buf *out, uint32_t channel, const struct spawn *s,
		  json_t *env) MUST_CHECK;
