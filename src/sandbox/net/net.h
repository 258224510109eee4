/* What leads to the door's sockets. Internal to this directory. */
#pragma once

#include "base/err.h"

/* route.c: where we are, every address is the machine's own. */
int route_all_here(struct err *e) MUST_CHECK;
/* steer.c: every other address of that network leads to these; the link. */
int steer(int net_fd, int tcp_fd, int udp_fd, struct err *e) MUST_CHECK;
