/* The sandboxes of a door. */
#pragma once

#include "gate/gate.h"

/* GATE_BOX. Descriptors that were taken are -1 in `fds`. -EBADMSG: it is not
 * for this door, or descriptors are missing. */
int box_apply(struct gate *g, const struct gate_msg *m, int *fds) MUST_CHECK;
/* What it has counted came, as a descriptor; -1: it cannot be opened, and its
 * sockets stay shut. */
void box_state_came(struct box *b, int fd);
/* The same for the counters of an account: its members may listen. */
void boxes_account_came(struct account *x, int fd);
/* Its project's keys came, or its secrets changed. */
void box_project_changed(struct box *b);
/* GATE_GONE, GATE_MOVED: connections end. */
void box_end(struct box *b);
bool box_has_sockets(const struct box *b);
