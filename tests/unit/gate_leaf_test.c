/*
 * Authorities, certificates and both sides of TLS: a door's server meets a
 * client that verifies, over a pair of sockets.
 */
#include "gate/leaf.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "check.h"
#include "http/stream.h"
#include "http/tls.h"

static struct gate gate;
static struct project one = { .name = "one" }, two = { .name = "two" };
static char dir[] = "/tmp/leaf_test.XXXXXX", ca_path[64];
static struct tls_context *client;

static void authority(struct project *p, bool trusted)
{
	struct buf cert = { 0 }, key = { 0 };
	struct err e = { 0 };

	CHECK(ca_make(p->name, &cert, &key, &e) == 0);
	CHECK(ca_load(&p->ca, buf_str(&cert), buf_str(&key), &e) == 0);
	if (trusted) {
		FILE *f = fopen(ca_path, "w");

		if (!f || fputs(buf_str(&cert), f) < 0 || fclose(f) != 0)
			abort();
		CHECK(tls_client_context_new(&client, ca_path, &e) == 0);
	}
	buf_done(&cert);
	buf_done(&key);
}

struct pair {
	struct http_stream server, client;
	int server_end, client_end;
};

static void meet(struct pair *p, struct tls_context *server, const char *host)
{
	int fd[2], i;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0,
		       fd) < 0)
		abort();
	http_stream_open(&p->server, &gate.loop, fd[0], server);
	http_stream_open_client(&p->client, &gate.loop, fd[1], client, host);
	p->server_end = p->client_end = -EAGAIN;
	for (i = 0; i < 8; i++) {
		if (p->client_end == -EAGAIN)
			p->client_end = http_stream_handshake(&p->client);
		if (p->server_end == -EAGAIN)
			p->server_end = http_stream_handshake(&p->server);
	}
}

static void part(struct pair *p)
{
	http_stream_close(&p->client);
	http_stream_close(&p->server);
}

/* NULL: they agree; else why the client does not. */
static const char *trusts(struct project *project, const char *made_for,
			  const char *wanted)
{
	struct tls_context *server;
	struct err e = { 0 };
	const char *why = NULL;
	struct pair p;

	server = leaf_context(&gate, project, made_for, &e);
	if (!server)
		return e.msg[0] ? "no certificate" : "no reason";
	meet(&p, server, wanted);
	if (p.client_end != 0)
		why = http_stream_failure(&p.client);
	part(&p);
	return why;
}

static void test_trust(void)
{
	char longest[POLICY_HOST_CAP];
	size_t i;

	CHECK(!trusts(&one, "api.test", "api.test"));
	CHECK(!trusts(&one, "api.test", "api.test")); /* the same again */
	CHECK(!trusts(&one, "203.0.113.9", "203.0.113.9"));
	CHECK(!trusts(&one, "2001:db8::1", "2001:db8::1"));
	CHECK_STR(trusts(&one, "api.test", "other.test"),
		  "its certificate is of another name");
	CHECK_STR(trusts(&one, "203.0.113.9", "203.0.113.8"),
		  "its certificate is of another address");
	CHECK_STR(trusts(&two, "api.test", "api.test"),
		  "its certificate is of an unknown issuer");
	for (i = 0; i < sizeof(longest) - 1; i++)
		longest[i] = i % 50 == 49 ? '.' : 'a';
	longest[i] = '\0';
	CHECK(!trusts(&one, longest, longest));
}

static void test_bytes(void)
{
	struct tls_context *server;
	struct err e = { 0 };
	struct pair p;
	char got[8];

	server = leaf_context(&gate, &one, "api.test", &e);
	meet(&p, server, "api.test");
	CHECK(http_stream_write(&p.client, "up", 2) == 2);
	CHECK(http_stream_read(&p.server, got, sizeof(got)) == 2);
	CHECK(http_stream_write(&p.server, "down", 4) == 4);
	CHECK(http_stream_read(&p.client, got, sizeof(got)) == 4);
	http_stream_shutdown(&p.server);
	CHECK(http_stream_read(&p.client, got, sizeof(got)) == 0);
	part(&p);
}

/* Many hosts: the table does not grow without end. */
static void test_many(void)
{
	struct err e = { 0 };
	size_t before = 0, after;
	unsigned i, bad = 0;
	char host[32];

	for (i = 0; i < 3000; i++) {
		if (i == 1500)
			before = mallinfo2().uordblks;
		snprintf(host, sizeof(host), "h%u.test", i);
		bad += !leaf_context(&gate, &one, host, &e);
	}
	after = mallinfo2().uordblks;
	CHECK(bad == 0);
	printf("# %zu -> %zu KiB of certificates\n", before / 1024,
	       after / 1024);
#ifndef SANITIZED
	CHECK(after < before + before / 10);
#endif
}

/* An idle inspected connection is one of each side. */
static void test_memory(void)
{
	enum { N = 100 };
	static struct pair p[N];
	struct err e = { 0 };
	size_t before, each;
	char got[8];
	unsigned i;

	CHECK(!trusts(&one, "api.test", "api.test"));
	before = mallinfo2().uordblks;
	for (i = 0; i < N; i++) {
		meet(&p[i], leaf_context(&gate, &one, "api.test", &e),
		     "api.test");
		if (http_stream_write(&p[i].client, "up", 2) != 2 ||
		    http_stream_read(&p[i].server, got, 8) != 2 ||
		    http_stream_write(&p[i].server, "down", 4) != 4 ||
		    http_stream_read(&p[i].client, got, 8) != 4)
			abort();
	}
	each = (mallinfo2().uordblks - before) / N;
	printf("# %zu bytes of both sides\n", each);
#ifndef SANITIZED
	/* 33 KiB with OpenSSL 3.0 (Debian 12), 63 KiB with 3.5 (Debian
	 * 13), which also keeps the ML-KEM keys of the handshake. */
	CHECK(each <= 66 * 1024);
#endif
	for (i = 0; i < N; i++)
		part(&p[i]);
}

/* What strict verifiers look for. */
static void test_authority(void)
{
	FILE *f = fopen(ca_path, "r");
	X509 *x = f ? PEM_read_X509(f, NULL, NULL, NULL) : NULL;
	char name[128];

	if (!x)
		abort();
	fclose(f);
	X509_NAME_oneline(X509_get_subject_name(x), name, sizeof(name));
	CHECK_STR(name, "/CN=Carrel one");
	CHECK(X509_check_ca(x) == 1 && X509_get_pathlen(x) == 0);
	CHECK(X509_get_key_usage(x) == (KU_KEY_CERT_SIGN | KU_CRL_SIGN));
	CHECK(X509_get_extension_flags(x) & EXFLAG_BCONS_CRITICAL);
	CHECK(X509_get0_subject_key_id(x));
	CHECK(X509_verify(x, X509_get0_pubkey(x)) == 1);
	X509_free(x);
}

static void test_errors(void)
{
	struct project none = { .name = "none" };
	struct tls_context *ctx = NULL;
	struct ca *ca = NULL;
	struct err e = { 0 };

	CHECK(!leaf_context(&gate, &none, "a.test", &e) && e.code == EAGAIN);
	err_clear(&e);
	CHECK(ca_load(&ca, "nothing", "nothing", &e) < 0 && !ca);
	err_clear(&e);
	CHECK(tls_client_context_new(&ctx, "/nowhere.pem", &e) < 0 && !ctx);
	printf("# %s\n", e.msg);
}

int main(void)
{
	struct err e = { 0 };

	signal(SIGPIPE, SIG_IGN);
	if (!mkdtemp(dir) || loop_init(&gate.loop) < 0)
		abort();
	snprintf(ca_path, sizeof(ca_path), "%s/ca.pem", dir);
	CHECK(leaves_new(&gate.leaves, &e) == 0);
	authority(&one, true);
	authority(&two, false);
	test_authority();
	test_trust();
	test_bytes();
	test_memory();
	test_many();
	test_errors();
	leaves_free(gate.leaves);
	ca_free(one.ca);
	ca_free(two.ca);
	tls_context_free(client);
	loop_done(&gate.loop);
	unlink(ca_path);
	rmdir(dir);
	return CHECK_DONE();
}
