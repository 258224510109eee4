/*
 * What the gate's processes give up. All of them: the host's files (an empty
 * root instead, read-only), every id and capability, core files, being looked
 * at; the keeper the network too. Each has a filter that kills.
 */
#pragma once

#include "base/err.h"
#include "gate/setup.h"
#include "seccomp/seccomp.h"

/* A child of this process: it ends when this one does, and says what it is. */
int confine_child(const char *name, pid_t parent, struct err *e) MUST_CHECK;
int confine_keeper(struct setup *s, struct err *e) MUST_CHECK;
/* Has the log's directory as GATE_LOG_DIR. */
int confine_starter(struct setup *s, struct err *e) MUST_CHECK;
/* A fork of the starter, that has no descriptor but these two. */
int confine_door(struct err *e) MUST_CHECK;
