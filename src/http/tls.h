/*
 * TLS for streams, both sides. What is foreign about OpenSSL stays in tls.c.
 * Nothing of it is initialised before the first context is made.
 *
 * Never blocks; writes to a peer that left raise SIGPIPE: ignore it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct tls_context; /* a certificate and its key, or whom to believe */
struct tls;         /* one connection */
struct x509_st;     /* OpenSSL's X509 and EVP_PKEY */
struct evp_pkey_st;

/*
 * `cert_path`: PEM, the server's certificate first, then the chain. Files are
 * read here, and never again.
 */
int tls_context_new(struct tls_context **out, const char *cert_path,
		    const char *key_path, struct err *e) MUST_CHECK;
/* Without a certificate: tls_context_use() comes before each connection. No
 * session is resumed. */
int tls_context_own(struct tls_context **out, struct err *e) MUST_CHECK;
/* Connections that begin from here on have it. Takes references of its own. */
void tls_context_use(struct tls_context *ctx, struct x509_st *cert,
		     struct evp_pkey_st *key);
/*
 * The client's side: servers are believed when one of the authorities in
 * `ca_path` (PEM) vouches for them, and never without. The file is read here,
 * and never again.
 */
int tls_client_context_new(struct tls_context **out, const char *ca_path,
			   struct err *e) MUST_CHECK;
void tls_context_free(struct tls_context *ctx);

/* `fd` stays the caller's. The handshake is a part of the first read. */
struct tls *tls_new(struct tls_context *ctx, int fd);
/* `host`: a name or an address, that the server has to prove. */
struct tls *tls_client_new(struct tls_context *ctx, int fd, const char *host);
void tls_free(struct tls *t);
/* 0 when keys are exchanged, -EAGAIN (watch for EPOLLIN), or -errno. */
int tls_handshake(struct tls *t);
/* What went wrong, in words ("its certificate has expired"), or NULL. */
const char *tls_failure(const struct tls *t);

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
