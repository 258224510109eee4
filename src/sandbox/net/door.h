/* The sockets of a sandbox's door, made in its network. */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "wire/gate.h"

/* Places in the order of enum gate_fd. */
enum door_fd {
	DOOR_FD_PROXY,
	DOOR_FD_DNS,
	DOOR_FD_TCP,
	DOOR_FD_UDP,
	DOOR_FD_LINK,
	DOOR_FD_SELF,
};
/* There is a proxy and a resolver, and no more: `e` says why. */
enum { DOOR_PLAIN = 1 };

/*
 * Those that are missing (-1) of `fds`, in the network that we are in,
 * which is not `home_fd`. 0, DOOR_PLAIN or an error:
 * then there are none. EADDRINUSE: who is inside has a port of theirs, which
 * for DOOR_FD_SELF (`self`) is none.
 */
int door_sockets(int home_fd, bool self, int fds[GATE_FDS_MAX],
		 struct err *e) MUST_CHECK;
void door_sockets_close(int fds[GATE_FDS_MAX]);
