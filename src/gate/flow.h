/* A connection from a sandbox. */
#pragma once

#include "gate/gate.h"

/* A listening socket of the sandbox (box.proxy, box.tcp) has connections. */
void flows_accept(struct box *b, struct io *io);
