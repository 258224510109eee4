/*
 * The first process of the gate: the supervisor knows it. It has no files, no
 * keys, and hears nobody but the keeper, for which it forks doors: a door has
 * never had in its memory what the keeper has. When it ends, all of them do.
 */
#pragma once

#include "gate/gate.h"

/* Confined already; `g` is what every door begins with, and every door holds
 * the lock. Returns at SIGTERM, or
 * when the keeper ends: the exit status. A door never comes back from it. */
int starter_run(struct gate *g, int keeper_fd, pid_t keeper, int lock_fd);
