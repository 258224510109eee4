/* A door: its links to the api and to the keeper. */
#pragma once

#include "gate/gate.h"
#include "gate/within.h"

/* Confined already. The exit status. */
int door_run(struct gate *g, int link_fd, int spool_fd);
/* One of WITHIN_KEYS, WITHIN_STATE, WITHIN_DROP. */
void keeper_ask(struct gate *g, enum within_op op, const char *name);
