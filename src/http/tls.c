/*
 * TLS 1.2 and 1.3 with OpenSSL. A read may have to write first (and the other
 * way round) while keys are exchanged: tls_needs() and tls_means() translate.
 *
 * The memory of an idle connection counts more than the cost of a handshake:
 * buffers are given back between records, and sessions live in tickets that
 * clients keep.
 */
#include "http/tls.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/guards.h"

struct tls_context {
	SSL_CTX *ssl;
	/* Of connections to come, when the context has none itself. */
	X509 *cert;
	EVP_PKEY *key;
};

struct tls {
	SSL *ssl;
	bool read_wants_write, write_wants_read;
	bool broken; /* no more calls to OpenSSL but SSL_free() */
	bool ended;  /* `end` is what every further read returns */
	int end;
	const char *failure;
};

static const unsigned char our_protocol[] = "\x08http/1.1";

static const char *reason(void)
{
	unsigned long code = ERR_get_error();
	const char *s = ERR_SYSTEM_ERROR(code)
				? strerrordesc_np(ERR_GET_REASON(code))
				: ERR_reason_error_string(code);

	return s ? s : "unknown error";
}

/* Who offers only others (h2) is told so in the handshake. */
static int choose_protocol(SSL *ssl, const unsigned char **out,
			   unsigned char *out_n, const unsigned char *in,
			   unsigned in_n, void *ctx)
{
	unsigned char *chosen = NULL;

	(void)ssl;
	(void)ctx;
	if (SSL_select_next_proto(&chosen, out_n, our_protocol,
				  sizeof(our_protocol) - 1, in,
				  in_n) != OPENSSL_NPN_NEGOTIATED)
		return SSL_TLSEXT_ERR_ALERT_FATAL;
	*out = chosen;
	return SSL_TLSEXT_ERR_OK;
}

/* Of both sides. */
static int set_options(SSL_CTX *ssl, struct err *e)
{
	SSL_CTX_set_options(ssl,
			    SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
	SSL_CTX_set_mode(ssl, SSL_MODE_RELEASE_BUFFERS |
				      SSL_MODE_ENABLE_PARTIAL_WRITE |
				      SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF);
	if (SSL_CTX_set_min_proto_version(ssl, TLS1_2_VERSION) != 1 ||
	    SSL_CTX_set_cipher_list(ssl, "ECDHE+AESGCM:ECDHE+CHACHA20") != 1)
		return err_set(e, EINVAL, "set up TLS: %s", reason());
	return 0;
}

static int set_server(SSL_CTX *ssl, size_t tickets, struct err *e)
{
	SSL_CTX_set_alpn_select_cb(ssl, choose_protocol, NULL);
	if (tickets == 0)
		SSL_CTX_set_options(ssl, SSL_OP_NO_TICKET);
	if (SSL_CTX_set_num_tickets(ssl, tickets) != 1)
		return err_set(e, EINVAL, "set up TLS: %s", reason());
	return 0;
}

static int load(SSL_CTX *ssl, const char *cert_path, const char *key_path,
		struct err *e)
{
	if (SSL_CTX_use_certificate_chain_file(ssl, cert_path) != 1)
		return err_set(e, EINVAL, "read the certificate %s: %s",
			       cert_path, reason());
	if (SSL_CTX_use_PrivateKey_file(ssl, key_path, SSL_FILETYPE_PEM) != 1)
		return err_set(e, EINVAL, "read the key %s: %s", key_path,
			       reason());
	if (SSL_CTX_check_private_key(ssl) != 1)
		return err_set(e, EINVAL, "%s is not the key of %s", key_path,
			       cert_path);
	return 0;
}

static struct tls_context *context_new(const SSL_METHOD *method, struct err *e)
{
	struct tls_context *ctx;

	/* Without the host's openssl.cnf: what we speak is decided here. */
	if (OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG, NULL) != 1) {
		err_set(e, EIO, "start OpenSSL: %s", reason());
		return NULL;
	}
	ctx = xcalloc(1, sizeof(*ctx));
	ctx->ssl = SSL_CTX_new(method);
	if (ctx->ssl && set_options(ctx->ssl, e) == 0)
		return ctx;
	if (!ctx->ssl)
		err_set(e, ENOMEM, "set up TLS: %s", reason());
	tls_context_free(ctx);
	return NULL;
}

int tls_context_new(struct tls_context **out, const char *cert_path,
		    const char *key_path, struct err *e)
{
	struct tls_context *ctx = context_new(TLS_server_method(), e);

	if (!ctx)
		return -e->code;
	if (set_server(ctx->ssl, 1, e) < 0 ||
	    load(ctx->ssl, cert_path, key_path, e) < 0) {
		tls_context_free(ctx);
		return -e->code;
	}
	*out = ctx;
	return 0;
}

int tls_context_own(struct tls_context **out, struct err *e)
{
	struct tls_context *ctx = context_new(TLS_server_method(), e);

	if (!ctx)
		return -e->code;
	if (set_server(ctx->ssl, 0, e) < 0) {
		tls_context_free(ctx);
		return -e->code;
	}
	*out = ctx;
	return 0;
}

void tls_context_use(struct tls_context *ctx, X509 *cert, EVP_PKEY *key)
{
	X509_up_ref(cert);
	EVP_PKEY_up_ref(key);
	X509_free(ctx->cert);
	EVP_PKEY_free(ctx->key);
	ctx->cert = cert;
	ctx->key = key;
}

/*
 * A server's certificate must not be one of an authority, which could vouch
 * for others. A certificate that is on the operator's list itself (no issuer in
 * its chain) is believed as it is: self-signed ones usually say CA:TRUE.
 */
static int check_certificate(int ok, X509_STORE_CTX *ctx)
{
	if (!ok || X509_STORE_CTX_get_error_depth(ctx) != 0 ||
	    sk_X509_num(X509_STORE_CTX_get0_chain(ctx)) == 1 ||
	    X509_check_ca(X509_STORE_CTX_get_current_cert(ctx)) == 0)
		return ok;
	X509_STORE_CTX_set_error(ctx, X509_V_ERR_INVALID_CA);
	return 0;
}

int tls_client_context_new(struct tls_context **out, const char *ca_path,
			   struct err *e)
{
	struct tls_context *ctx = context_new(TLS_client_method(), e);

	if (!ctx)
		return -e->code;
	SSL_CTX_set_verify(ctx->ssl,
			   GUARD(CERTS) ? SSL_VERIFY_PEER : SSL_VERIFY_NONE,
			   check_certificate);
	SSL_CTX_set_options(ctx->ssl, SSL_OP_NO_TICKET);
	if (SSL_CTX_set_alpn_protos(ctx->ssl, our_protocol,
				    sizeof(our_protocol) - 1) != 0)
		err_set(e, EINVAL, "set up TLS: %s", reason());
	else if (SSL_CTX_load_verify_file(ctx->ssl, ca_path) != 1)
		err_set(e, EINVAL, "read the authorities in %s: %s", ca_path,
			reason());
	if (e->code) {
		tls_context_free(ctx);
		return -e->code;
	}
	*out = ctx;
	return 0;
}

void tls_context_free(struct tls_context *ctx)
{
	if (!ctx)
		return;
	SSL_CTX_free(ctx->ssl);
	X509_free(ctx->cert);
	EVP_PKEY_free(ctx->key);
	free(ctx);
}

/* Aborts when memory is gone, as all small allocations. */
static struct tls *connection(struct tls_context *ctx, int fd)
{
	struct tls *t = xcalloc(1, sizeof(*t));

	t->ssl = SSL_new(ctx->ssl);
	if (!t->ssl || SSL_set_fd(t->ssl, fd) != 1)
		abort();
	return t;
}

struct tls *tls_new(struct tls_context *ctx, int fd)
{
	struct tls *t = connection(ctx, fd);

	if (ctx->cert && (SSL_use_certificate(t->ssl, ctx->cert) != 1 ||
			  SSL_use_PrivateKey(t->ssl, ctx->key) != 1))
		abort();
	SSL_set_accept_state(t->ssl);
	return t;
}

struct tls *tls_client_new(struct tls_context *ctx, int fd, const char *host)
{
	struct tls *t = connection(ctx, fd);
	X509_VERIFY_PARAM *expected = SSL_get0_param(t->ssl);

	/* The names of the certificate alone; its subject is prose. */
	X509_VERIFY_PARAM_set_hostflags(
		expected, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS |
				  X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
	if (X509_VERIFY_PARAM_set1_ip_asc(expected, host) != 1) {
		ERR_clear_error();
		if (X509_VERIFY_PARAM_set1_host(expected, host, 0) != 1 ||
		    SSL_set_tlsext_host_name(t->ssl, host) != 1)
			abort();
	}
	SSL_set_connect_state(t->ssl);
	return t;
}

void tls_free(struct tls *t)
{
	if (!t)
		return;
	SSL_free(t->ssl);
	free(t);
}

static const struct {
	long code;
	const char *text;
} distrust[] = {
	{ X509_V_ERR_CERT_HAS_EXPIRED, "its certificate has expired" },
	{ X509_V_ERR_CERT_NOT_YET_VALID, "its certificate is not valid yet" },
	{ X509_V_ERR_HOSTNAME_MISMATCH, "its certificate is of another name" },
	{ X509_V_ERR_IP_ADDRESS_MISMATCH,
	  "its certificate is of another address" },
	{ X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY,
	  "its certificate is of an unknown issuer" },
	{ X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT,
	  "its certificate is of an unknown issuer" },
	{ X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN,
	  "its certificate is of an unknown issuer" },
	{ X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT,
	  "its certificate is of nobody but itself" },
	{ X509_V_ERR_INVALID_CA,
	  "a certificate of its chain is an authority's where it must not be, "
	  "or the other way round (CA:TRUE)" },
};

static const char *failure(const struct tls *t)
{
	long verdict = SSL_get_verify_result(t->ssl);
	size_t i;

	if (verdict == X509_V_OK)
		return reason();
	for (i = 0; i < ARRAY_LEN(distrust); i++)
		if (distrust[i].code == verdict)
			return distrust[i].text;
	return X509_verify_cert_error_string(verdict);
}

const char *tls_failure(const struct tls *t)
{
	return t->failure;
}

/* What the failure `r` of a call means; `*other` is set to "wants the other
 * direction". */
static int why(struct tls *t, int r, int other_code, bool *other)
{
	int code = SSL_get_error(t->ssl, r);

	*other = code == other_code;
	if (code == SSL_ERROR_WANT_READ || code == SSL_ERROR_WANT_WRITE)
		return -EAGAIN;
	if (code == SSL_ERROR_ZERO_RETURN)
		return 0;
	t->broken = true;
	if (code == SSL_ERROR_SSL)
		t->failure = failure(t);
	if (code == SSL_ERROR_SYSCALL && errno)
		return -errno;
	/* Also an end without the peer's saying so: it may have been cut. */
	return -ECONNRESET;
}

int tls_handshake(struct tls *t)
{
	int r;

	if (t->broken)
		return -ECONNRESET;
	ERR_clear_error();
	errno = 0;
	r = SSL_do_handshake(t->ssl);
	if (r == 1) {
		t->read_wants_write = false;
		return 0;
	}
	r = why(t, r, SSL_ERROR_WANT_WRITE, &t->read_wants_write);
	return r == 0 ? -ECONNRESET : r;
}

ssize_t tls_read(struct tls *t, void *p, size_t n)
{
	size_t got = 0;

	while (got < n && !t->ended) {
		size_t k = 0;
		int r;

		ERR_clear_error();
		errno = 0;
		r = SSL_read_ex(t->ssl, (char *)p + got, n - got, &k);
		got += k;
		if (r > 0) {
			t->read_wants_write = false;
			continue;
		}
		r = why(t, r, SSL_ERROR_WANT_WRITE, &t->read_wants_write);
		if (r == -EAGAIN)
			return got > 0 ? (ssize_t)got : r;
		t->ended = true;
		t->end = r;
	}
	return got > 0 || n == 0 ? (ssize_t)got : t->end;
}

ssize_t tls_write(struct tls *t, const void *p, size_t n)
{
	size_t k = 0;
	int r;

	if (t->broken)
		return -EPIPE;
	if (n == 0)
		return 0;
	ERR_clear_error();
	errno = 0;
	r = SSL_write_ex(t->ssl, p, n, &k);
	if (r > 0) {
		t->write_wants_read = false;
		return (ssize_t)k;
	}
	r = why(t, r, SSL_ERROR_WANT_READ, &t->write_wants_read);
	return r == 0 ? -EPIPE : r;
}

void tls_shutdown(struct tls *t)
{
	/* Before the end of a handshake there is nothing to end. */
	if (t->broken || !SSL_is_init_finished(t->ssl))
		return;
	ERR_clear_error();
	if (SSL_shutdown(t->ssl) < 0)
		ERR_clear_error(); /* the peer takes nothing: let it be */
}

bool tls_pending(const struct tls *t)
{
	return t->ended || SSL_pending(t->ssl) > 0;
}

uint32_t tls_needs(const struct tls *t, uint32_t want)
{
	uint32_t needs = want & ~(uint32_t)(EPOLLIN | EPOLLOUT);

	if (want & EPOLLIN)
		needs |= t->read_wants_write ? EPOLLOUT : EPOLLIN;
	if (want & EPOLLOUT)
		needs |= t->write_wants_read ? EPOLLIN : EPOLLOUT;
	return needs;
}

uint32_t tls_means(const struct tls *t, uint32_t events)
{
	uint32_t means = events;

	if ((events & EPOLLIN) && t->write_wants_read)
		means |= EPOLLOUT;
	if ((events & EPOLLOUT) && t->read_wants_write)
		means |= EPOLLIN;
	return means;
}
