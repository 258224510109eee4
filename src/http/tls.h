/*
 * TLS for streams, the server's side. What is foreign about OpenSSL stays in
 * tls.c. Nothing of it is initialised before the first tls_context_new().
 *
 * Never blocks; writes to a peer that left raise SIGPIPE: ignore it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct tls_context; /* a certificate and its key */
struct tls;         /* one connection */

/*
 * `cert_path`: PEM, the server's certificate first, then the chain. Files are
 * read here, and never again.
 */
int tls_context_new(struct tls_context **out, const char *cert_path,
		    const char *key_path, struct err *e) MUST_CHECK;
void tls_context_free(struct tls_context *ctx);

/* `fd` stays the caller's. The handshake is a part of the first read. */
struct tls *tls_new(struct tls_context *ctx, int fd);
void tls_free(struct tls *t);

/* As http_stream_read() and http_stream_write(). */
ssize_t tls_read(struct tls *t, void *p, size_t n);
ssize_t tls_write(struct tls *t, const void *p, size_t n);
/* Tells the peer that no more comes. */
void tls_shutdown(struct tls *t);

/* Is there something to read that the socket does not know of? */
bool tls_pending(const struct tls *t);
/* What to watch the socket for, when its owner waits for `want`. */
uint32_t tls_needs(const struct tls *t, uint32_t want);
/* What events of the socket mean for the owner. */
uint32_t tls_means(const struct tls *t, uint32_t events);
