/*
 * sudo, without a setuid program. `sudo` inside of the sandbox (sudo_*.c) asks
 * on an abstract unix socket of the sandbox's network namespace; anybody
 * inside may, that is what it is for. The agent never touches such a
 * connection: the peer is hostile and passes descriptors, of which a mere
 * close() can take as long as the peer likes (a lingering socket). For each
 * one it forks a broker, which accepts it, runs the command and reports.
 *
 * On the connection: both hellos; then from the shim FRAME_SPAWN, with stdin,
 * stdout, stderr and the current directory passed along with the first byte,
 * and FRAME_SIGNAL; from the broker FRAME_STARTED, then FRAME_EXIT, or
 * FRAME_FAILED. Everything on channel 1. If the shim goes away the command is
 * ended.
 */
#pragma once

#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/product.h"

#define SUDO_SOCKET PRODUCT "-sudo"

enum { SUDO_CHANNEL = 1, SUDO_FDS = 4 /* 0, 1, 2, directory */ };

static inline socklen_t sudo_address(struct sockaddr_un *a)
{
	*a = (struct sockaddr_un){ .sun_family = AF_UNIX };
	memcpy(a->sun_path + 1, SUDO_SOCKET, sizeof(SUDO_SOCKET) - 1);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) +
			   sizeof(SUDO_SOCKET));
}
