/* A tar of a state, or of what changed: see pack.c. */
#pragma once

#include "base/err.h"
#include "worker/look.h"

/* All of it, as data of `l->say`. */
int pack(struct look *l, struct err *e) MUST_CHECK;
