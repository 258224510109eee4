/*
 * What an instance owns alone: its state_dir and its range of user ids. Another
 * instance that has either of them ends this one with a sentence that names it.
 * The parent control group is claimed by the warden (warden/claim.c).
 */
#pragma once

#include "base/conf.h"

/* The locks go with this process. */
int own_take(const struct conf *c, struct err *e) MUST_CHECK;
