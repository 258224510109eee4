/*
 * The door for clients that are not on this host: TCP, with TLS or without.
 * There is none unless the configuration says so.
 */
#pragma once

#include "base/err.h"
#include "http/server.h"

struct api;
struct tls_context;

struct tcp {
	int listen_fd; /* -1: none, or it serves already */
	struct tls_context *tls;
	struct http_server http;
};

/* As root: the socket may have a low port, the key is root's to read. */
int tcp_set_up(struct api *a, struct err *e) MUST_CHECK;
void tcp_serve(struct api *a);
/* Connections that the unix socket may have, as descriptors allow. */
unsigned local_conns_max(void);
