/* The first message of TLS: OpenSSL's own, and crafted ones. */
#include "gate/hello.h"

#include <errno.h>
#include <openssl/ssl.h>

#include "base/buf.h"
#include "check.h"

/* --- as a real client sends it --- */

static size_t real(char *out, size_t cap, const char *sni, const char *alpn,
		   size_t alpn_n)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
	SSL *ssl = SSL_new(ctx);
	BIO *in = BIO_new(BIO_s_mem()), *to = BIO_new(BIO_s_mem());
	int n;

	SSL_set_bio(ssl, in, to);
	if (sni)
		SSL_set_tlsext_host_name(ssl, sni);
	if (alpn)
		SSL_set_alpn_protos(ssl, (const unsigned char *)alpn,
				    (unsigned)alpn_n);
	SSL_connect(ssl);
	n = BIO_read(to, out, (int)cap);
	SSL_free(ssl);
	SSL_CTX_free(ctx);
	return n > 0 ? (size_t)n : 0;
}

static void test_real(void)
{
	static char p[HELLO_MAX];
	struct hello h;
	size_t n = real(p, sizeof(p), "API.Example.com", NULL, 0), i;
	bool early = false;

	CHECK(hello_read(&h, p, n) == 1);
	CHECK_STR(h.sni, "api.example.com");
	CHECK(!h.ech && h.http1);
	for (i = 0; i < n; i++)
		early |= hello_read(&h, p, i) != 0;
	CHECK(!early);
	CHECK(n + 5 < sizeof(p));
	memcpy(p + n, "\x17\x03\x03\x00\x01", 5); /* early data */
	CHECK(hello_read(&h, p, n + 5) == 1);

	n = real(p, sizeof(p), NULL, "\x02h2", 3);
	CHECK(hello_read(&h, p, n) == 1 && !h.sni[0] && !h.http1);
	n = real(p, sizeof(p), "a.b", "\x02h2\x08http/1.1", 12);
	CHECK(hello_read(&h, p, n) == 1 && h.http1);
}

/* --- crafted --- */

static void put(struct buf *b, size_t v, unsigned bytes)
{
	while (bytes-- > 0)
		buf_add(b, &(char){ (char)(v >> 8 * bytes) }, 1);
}

static void put_sub(struct buf *b, unsigned bytes, const struct buf *x)
{
	put(b, buf_len(x), bytes);
	buf_add(b, buf_data(x), buf_len(x));
}

static void put_ext(struct buf *b, unsigned kind, const struct buf *x)
{
	put(b, kind, 2);
	put_sub(b, 2, x);
}

static void put_name(struct buf *list, unsigned kind, const char *s, size_t n)
{
	put(list, kind, 1);
	put(list, n, 2);
	buf_add(list, s, n);
}

static void put_sni(struct buf *b, const char *s, size_t n)
{
	struct buf list = { 0 }, x = { 0 };

	put_name(&list, 0, s, n);
	put_sub(&x, 2, &list);
	put_ext(b, 0, &x);
	buf_done(&list);
	buf_done(&x);
}

/* The message in records of at most `piece` bytes. */
static void wrap(struct buf *out, const struct buf *exts, size_t piece)
{
	struct buf m = { 0 }, body = { 0 };
	size_t at, n;

	put(&body, 0x0303, 2);
	for (at = 0; at < 32; at++)
		put(&body, at, 1);
	put(&body, 0, 1);
	put(&body, 2, 2);
	put(&body, 0x1301, 2);
	put(&body, 1, 1);
	put(&body, 0, 1);
	if (exts)
		put_sub(&body, 2, exts);
	put(&m, 1, 1);
	put_sub(&m, 3, &body);
	for (at = 0; at < buf_len(&m); at += n) {
		n = buf_len(&m) - at < piece ? buf_len(&m) - at : piece;
		put(out, 22, 1);
		put(out, 0x0301, 2);
		put(out, n, 2);
		buf_add(out, buf_data(&m) + at, n);
	}
	buf_done(&m);
	buf_done(&body);
}

static int said(const struct buf *exts, size_t piece, struct hello *h)
{
	struct buf b = { 0 };
	int r;

	wrap(&b, exts, piece);
	r = hello_read(h, buf_data(&b), buf_len(&b));
	buf_done(&b);
	return r;
}

static void test_names(void)
{
	static const struct {
		const char *s;
		size_t n;
		int want;
	} row[] = {
		{ "a.test", 6, 1 },
		{ "A.tEST", 6, 1 },
		{ "a.test.", 7, -EBADMSG },
		{ "a\0b.test", 8, -EBADMSG },
		{ "a.test\0", 7, -EBADMSG },
		{ "", 0, -EBADMSG },
		{ "127.0.0.1", 9, -EBADMSG },
		{ "[::1]", 5, -EBADMSG },
		{ "::1", 3, -EBADMSG },
		{ "0x7f.1", 6, -EBADMSG },
		{ "a b.test", 8, -EBADMSG },
		{ "a\r\nb", 4, -EBADMSG },
		{ "\xc3\xa4.test", 7, -EBADMSG },
		{ "*.test", 6, -EBADMSG },
	};
	struct hello h;
	size_t i;

	for (i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct buf x = { 0 };

		put_sni(&x, row[i].s, row[i].n);
		CHECK(said(&x, 4096, &h) == row[i].want);
		CHECK(row[i].want != 1 || strcmp(h.sni, "a.test") == 0);
		buf_done(&x);
	}
	CHECK(said(NULL, 4096, &h) == 1 && !h.sni[0]);
}

static void test_two_names(void)
{
	struct buf x = { 0 }, list = { 0 }, ext = { 0 };
	struct hello h;

	put_sni(&x, "a.test", 6);
	put_sni(&x, "b.test", 6);
	CHECK(said(&x, 4096, &h) == -EBADMSG);
	buf_clear(&x);
	put_name(&list, 0, "a.test", 6);
	put_name(&list, 0, "b.test", 6);
	put_sub(&ext, 2, &list);
	put_ext(&x, 0, &ext);
	CHECK(said(&x, 4096, &h) == -EBADMSG);
	buf_clear(&x);
	buf_clear(&ext);
	put_ext(&x, 0, &ext); /* an empty extension */
	CHECK(said(&x, 4096, &h) == -EBADMSG);
	buf_done(&x);
	buf_done(&list);
	buf_done(&ext);
}

/* Two parsers could read these hellos differently. */
static void test_ambiguous(void)
{
	struct buf x = { 0 }, alpn = { 0 }, b = { 0 };
	char bytes[512];
	struct hello h;

	put(&alpn, 3, 2);
	put(&alpn, 2, 1);
	buf_add(&alpn, "h2", 2);
	put_ext(&x, 16, &alpn);
	CHECK(said(&x, 4096, &h) == 1 && !h.http1);
	put_ext(&x, 16, &alpn);
	CHECK(said(&x, 4096, &h) == -EBADMSG);
	/* A byte behind the extensions, inside the message. */
	buf_clear(&x);
	put_sni(&x, "a.test", 6);
	wrap(&b, &x, 4096);
	put(&b, 0, 1);
	CHECK(buf_len(&b) < sizeof(bytes));
	memcpy(bytes, buf_data(&b), buf_len(&b));
	bytes[4]++; /* of the record */
	bytes[8]++; /* of the message */
	CHECK(hello_read(&h, bytes, buf_len(&b)) == -EBADMSG);
	buf_done(&b);
	buf_done(&x);
	buf_done(&alpn);
}

static void test_pieces_and_ech(void)
{
	struct buf x = { 0 }, none = { 0 }, b = { 0 };
	struct hello h;

	put_sni(&x, "a.test", 6);
	CHECK(said(&x, 1, &h) == 1);
	CHECK_STR(h.sni, "a.test");
	CHECK(said(&x, 7, &h) == 1 && !h.ech);
	put_ext(&x, 0xfe0d, &none);
	CHECK(said(&x, 4096, &h) == 1 && h.ech);
	buf_clear(&x);
	put_ext(&x, 0xffce, &none);
	CHECK(said(&x, 4096, &h) == 1 && h.ech);

	/* A second message in the same record. */
	wrap(&b, &x, 4096);
	put(&b, 0, 1);
	buf_data(&b)[4]++;
	CHECK(hello_read(&h, buf_data(&b), buf_len(&b)) == -EBADMSG);
	buf_done(&b);
	buf_done(&x);
}

static void test_others(void)
{
	static char big[HELLO_MAX + 100];
	struct hello h;

	CHECK(hello_read(&h, "", 0) == 0);
	CHECK(hello_read(&h, "SSH-2.0", 7) == -EPROTO);
	CHECK(hello_read(&h, "GET / HT", 8) == -EPROTO);
	CHECK(hello_read(&h, "\x80\x2e\x01", 3) == -EPROTO); /* SSL 2 */
	CHECK(hello_read(&h, "\x16\x02", 2) == -EPROTO);
	CHECK(hello_read(&h, "\x16\x03\x01\x00\x00", 5) == -EBADMSG);
	CHECK(hello_read(&h, "\x16\x03\x01\xff\xff", 5) == -EBADMSG);
	CHECK(hello_read(&h, "\x16\x03\x01\x00\x01\x02", 6) == -EBADMSG);
	CHECK(hello_read(&h, "\x16\x03\x01\x00\x01\x01\x17", 7) == -EBADMSG);
	CHECK(hello_read(&h, "\x16\x03\x01\x00\x04\x01\xff\xff\xff", 9) ==
	      -EBADMSG);
	memcpy(big, "\x16\x03\x01\x3f\xff\x01\x00\x3f\xf0", 9);
	CHECK(hello_read(&h, big, 1000) == -EBADMSG);
	memcpy(big, "\x16\x03\x01\x3f\x00\x01\x00\x3f\xf0", 9);
	CHECK(hello_read(&h, big, 1000) == 0);
	CHECK(hello_read(&h, big, HELLO_MAX) == -EPROTO ||
	      hello_read(&h, big, HELLO_MAX) == -EBADMSG);
}

int main(void)
{
	test_real();
	test_names();
	test_two_names();
	test_ambiguous();
	test_pieces_and_ech();
	test_others();
	return CHECK_DONE();
}
