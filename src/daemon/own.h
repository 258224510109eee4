/*
 * Exclusive ownership of the state_dir and of the range of user ids. If another
 * instance has either of them, this one ends with a sentence that names it.
 * The parent control group is claimed by the warden (warden/claim.c).
 */
#pragma once

#include "base/conf.h"

/* The locks go with this process. */
int own_take(const struct conf *c, struct err *e) MUST_CHECK;
