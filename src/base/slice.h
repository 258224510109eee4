/*
 * Time slices. Who works in many short pieces and has somebody waiting for
 * each wants a short one: when it wakes up it then runs at once, instead of
 * when the slice of a busy process is over. All that it starts has it too.
 *
 * Kernels before 6.12 have one length for everybody, and ignore this.
 */
#pragma once

#include "base/err.h"

int slice_short(struct err *e) MUST_CHECK;
/* As long as everybody's. */
int slice_common(struct err *e) MUST_CHECK;
