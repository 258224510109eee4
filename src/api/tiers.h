/*
 * Which sandboxes must be microVMs: those of a policy that says so, and those
 * that the configuration names:
 *
 *	require_microvm = project NAME, image NAME, open
 *
 * `open` are those that may reach any host there is.
 */
#pragma once

#include "base/err.h"

struct api;
struct spec;

/* Is the configuration one? The error says what would be right. */
int tiers_check(struct api *a, struct err *e) MUST_CHECK;
/* EPERM: it has to be of another tier. */
int tiers_allow(struct api *a, const char *project, const struct spec *spec,
		struct err *e) MUST_CHECK;
