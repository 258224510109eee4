/*
 * The server over TLS: what is different below must not show above. The client
 * is OpenSSL's own, blocking.
 */
#include "http/tls.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <signal.h>

#include "check.h"
#include "http_rig.h"

#define GET(path) "GET " path " HTTP/1.1\r\nHost: h\r\n\r\n"

enum { TLS_SERVER = 3 };

static char cert_path[64], key_path[64];
static SSL_CTX *client;

/* --- a certificate --- */

static void write_pem(const char *path, EVP_PKEY *key, X509 *cert)
{
	FILE *f = fopen(path, "w");

	if (!f || (cert && !PEM_write_X509(f, cert)) ||
	    (!cert && !PEM_write_PrivateKey(f, key, NULL, NULL, 0, NULL, NULL)))
		abort();
	fclose(f);
}

static void make_certificate(void)
{
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *cert = X509_new();
	X509_NAME *name = X509_get_subject_name(cert);

	X509_set_version(cert, 2);
	ASN1_INTEGER_set(X509_get_serialNumber(cert), 1);
	X509_gmtime_adj(X509_getm_notBefore(cert), 0);
	X509_gmtime_adj(X509_getm_notAfter(cert), 3600);
	X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
				   (const unsigned char *)"h", -1, -1, 0);
	X509_set_issuer_name(cert, name);
	X509_set_pubkey(cert, key);
	if (!X509_sign(cert, key, EVP_sha256()))
		abort();
	write_pem(cert_path, key, cert);
	write_pem(key_path, key, NULL);
	X509_free(cert);
	EVP_PKEY_free(key);
}

/* --- a client --- */

struct peer {
	int fd;
	SSL *ssl;
};

static bool dial_as(struct peer *p, SSL_CTX *ctx)
{
	p->fd = unix_connect(rig.sock[TLS_SERVER], SOCK_STREAM);
	if (p->fd < 0)
		abort();
	p->ssl = SSL_new(ctx);
	SSL_set_fd(p->ssl, p->fd);
	return SSL_connect(p->ssl) == 1;
}

static struct peer dial(void)
{
	struct peer p;

	CHECK(dial_as(&p, client));
	return p;
}

static void hang_up(struct peer *p)
{
	SSL_free(p->ssl);
	close(p->fd);
	ERR_clear_error();
}

static void put(struct peer *p, const void *s, size_t n)
{
	size_t k;

	if (SSL_write_ex(p->ssl, s, n, &k) != 1 || k != n)
		printf("# short write\n");
}

static void say(struct peer *p, const char *s)
{
	put(p, s, strlen(s));
}

/* Everything up to `end` (NULL: until the connection ends). */
static const char *hear(struct peer *p, const char *end)
{
	static char got[32 * 1024];
	size_t n = 0, len = end ? strlen(end) : 0;

	for (;;) {
		size_t k = 0;

		got[n] = '\0';
		if (len > 0 && n >= len && strcmp(got + n - len, end) == 0)
			return got;
		if (n + 1 >= sizeof(got) ||
		    SSL_read_ex(p->ssl, got + n, 1, &k) != 1)
			return got;
		n += k;
	}
}

/* --- tests --- */

static void test_contexts(void)
{
	struct tls_context *ctx = NULL;
	struct err e = { 0 };

	CHECK(tls_context_new(&ctx, "/nonexistent", key_path, &e) < 0);
	CHECK(strstr(e.msg, "/nonexistent"));
	err_clear(&e);
	CHECK(tls_context_new(&ctx, cert_path, cert_path, &e) < 0);
	err_clear(&e);
	CHECK(tls_context_new(&ctx, key_path, key_path, &e) < 0);
	CHECK(!ctx);
}

static void test_requests(void)
{
	struct peer p = dial();

	say(&p, GET("/hello"));
	CHECK(strstr(hear(&p, "hi"), "HTTP/1.1 200 OK\r\n"));
	say(&p, GET("/hello") GET("/later") GET("/empty"));
	CHECK(strstr(hear(&p, "hi"), " 200 "));
	CHECK(strstr(hear(&p, "later"), " 200 "));
	CHECK(strstr(hear(&p, "\r\n\r\n"), " 204 "));
	say(&p, "GET /hello HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
	CHECK(strstr(hear(&p, NULL), "\r\n\r\nhi"));
	/* It said that this is the end. */
	CHECK(SSL_get_shutdown(p.ssl) & SSL_RECEIVED_SHUTDOWN);
	hang_up(&p);
}

/* Records that hold more than is taken at a time, and less. */
static void upload(const char *path, size_t piece)
{
	static char body[300000];
	char head[128], want[64];
	unsigned long long sum = 0;
	struct peer p = dial();
	size_t i;

	for (i = 0; i < sizeof(body); i++) {
		body[i] = (char)(i * 7 + i / 256);
		sum = sum * 31 + (unsigned char)body[i];
	}
	snprintf(want, sizeof(want), "%zu %llu", sizeof(body), sum);
	snprintf(head, sizeof(head),
		 "POST %s HTTP/1.1\r\nHost: h\r\nContent-Length: %zu\r\n\r\n",
		 path, sizeof(body));
	say(&p, head);
	for (i = 0; i < sizeof(body); i += piece)
		put(&p, body + i,
		    piece < sizeof(body) - i ? piece : sizeof(body) - i);
	CHECK(strstr(hear(&p, want), " 200 "));
	hang_up(&p);
}

/* A client that reads slowly: the server has to wait, and loses nothing. */
static void test_download(void)
{
	static char got[65536];
	struct peer p = dial();
	size_t n = 0, k = 0;

	say(&p, "GET /stream?n=9000000 HTTP/1.0\r\n\r\n");
	hear(&p, "\r\n\r\n");
	usleep(50000);
	while (SSL_read_ex(p.ssl, got, sizeof(got), &k) == 1)
		n += k;
	CHECK(n == 9000000);
	hang_up(&p);
}

static void test_upgrades(void)
{
	/* Two messages, masked by zeros, in the same record as the request. */
	static const char ask[] =
		"GET /ws HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\n"
		"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
		"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
		"\x81\x85\0\0\0\0hello\x81\x85\0\0\0\0flood";
	static char zeros[RIG_STREAM_PIECE];
	struct peer p = dial();
	size_t n = 0, k, want = 1000 * (size_t)(RIG_STREAM_PIECE + 4);

	say(&p, "GET /up HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\n"
		"Upgrade: test/1\r\n\r\nbehind");
	CHECK(strstr(hear(&p, "[behind]"), " 101 "));
	CHECK_STR(hear(&p, NULL), "");
	hang_up(&p);

	p = dial();
	put(&p, ask, sizeof(ask) - 1);
	CHECK(strstr(hear(&p, "\x81\x05hello"), " 101 "));
	usleep(50000);
	while (n < want && SSL_read_ex(p.ssl, zeros, sizeof(zeros), &k) == 1)
		n += k;
	CHECK(n == want);
	put(&p, "\x88\x80\0\0\0\0", 6);
	CHECK(SSL_read_ex(p.ssl, zeros, 2, &k) == 1 && k == 2 &&
	      memcmp(zeros, "\x88\x00", 2) == 0);
	hang_up(&p);
}

/* Whether the server ends the handshake, and says why by this alert. */
static bool refused(SSL_CTX *ctx, int reason)
{
	struct peer p;
	bool came = dial_as(&p, ctx);
	int said = ERR_GET_REASON(ERR_peek_last_error());

	hang_up(&p);
	if (came || said != reason)
		printf("# connected: %d, reason %d\n", came, said);
	return !came && said == reason;
}

/* Old versions are refused by us, and not only by the host's settings. */
static void allow_everything(void)
{
	char path[] = "/tmp/http_tls_test.XXXXXX";
	static const char conf[] =
		"openssl_conf = c\n[c]\nssl_conf = s\n[s]\n"
		"system_default = d\n[d]\nMinProtocol = TLSv1\n"
		"CipherString = ALL:@SECLEVEL=0\n";
	int fd = mkostemp(path, O_CLOEXEC);

	if (write_full(fd, conf, strlen(conf)) < 0 ||
	    setenv("OPENSSL_CONF", path, 1) < 0 ||
	    OPENSSL_init_ssl(OPENSSL_INIT_LOAD_CONFIG, NULL) != 1)
		abort();
	close(fd);
	unlink(path);
}

/* Without TLS nothing is answered that could be taken for an answer. */
static void test_plain(void)
{
	int fd = unix_connect(rig.sock[TLS_SERVER], SOCK_STREAM);
	char got[256];
	ssize_t n, all = 0;

	if (send(fd, GET("/hello"), strlen(GET("/hello")), MSG_NOSIGNAL) < 0)
		abort();
	while ((n = read(fd, got + all, sizeof(got) - (size_t)all - 1)) > 0)
		all += n;
	got[all] = '\0';
	CHECK(!memmem(got, (size_t)all, "HTTP/", 5));
	close(fd);
}

static void test_refusals(void)
{
	static const unsigned char both[] = "\x02h2\x08http/1.1";
	const unsigned char *proto = NULL;
	unsigned proto_n = 0;
	SSL_CTX *other = SSL_CTX_new(TLS_client_method());
	struct peer p;

	SSL_CTX_set_max_proto_version(other, TLS1_1_VERSION);
	SSL_CTX_set_min_proto_version(other, TLS1_VERSION);
	SSL_CTX_set_cipher_list(other, "ALL:@SECLEVEL=0");
	CHECK(refused(other, SSL_R_TLSV1_ALERT_PROTOCOL_VERSION));
	SSL_CTX_set_min_proto_version(other, 0);
	SSL_CTX_set_max_proto_version(other, TLS1_2_VERSION);
	CHECK(dial_as(&p, other));
	say(&p, GET("/hello"));
	CHECK(strstr(hear(&p, "hi"), " 200 "));
	hang_up(&p);
	SSL_CTX_set_max_proto_version(other, 0);
	SSL_CTX_set_alpn_protos(other, both, 3); /* only h2 */
	CHECK(refused(other, SSL_R_TLSV1_ALERT_NO_APPLICATION_PROTOCOL));
	SSL_CTX_set_alpn_protos(other, both, sizeof(both) - 1);
	CHECK(dial_as(&p, other));
	SSL_get0_alpn_selected(p.ssl, &proto, &proto_n);
	CHECK(proto_n == 8 && memcmp(proto, "http/1.1", 8) == 0);
	hang_up(&p);
	SSL_CTX_free(other);

	test_plain();
	/* Cut off in the middle. */
	p = dial();
	say(&p, "GET /hel");
	close(p.fd);
	SSL_free(p.ssl);
}

int main(void)
{
	struct tls_context *ctx = NULL;
	struct err e = { 0 };

	signal(SIGPIPE, SIG_IGN);
	snprintf(cert_path, sizeof(cert_path), "/tmp/http_tls_test.%d.cert",
		 (int)getpid());
	snprintf(key_path, sizeof(key_path), "/tmp/http_tls_test.%d.key",
		 (int)getpid());
	allow_everything();
	make_certificate();
	test_contexts();
	if (tls_context_new(&ctx, cert_path, key_path, &e) < 0)
		abort();
	rig_tls = ctx;
	client = SSL_CTX_new(TLS_client_method());
	rig_start();
	test_requests();
	upload("/sum", 100);
	upload("/sum", 300000);
	upload("/slow-sum", 300000);
	test_download();
	test_upgrades();
	test_refusals();
	test_requests();
	CHECK(rig_stop() == 0);
	SSL_CTX_free(client);
	tls_context_free(ctx);
	unlink(cert_path);
	unlink(key_path);
	return CHECK_DONE();
}
