#include "agent/file/jks.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/sha1.h"

enum {
	JKS_MAGIC = 0xfeedfeed,
	JKS_VERSION = 2,
	JKS_HEAD = 12, /* magic, version, count */
	TAG_CERT = 2,
	DATE_LEN = 8,
	COUNT_MAX = 16384,
};

static const char cert_type[] = "X.509";

/* Numbers are big-endian, a text has its length (u16) before it. */
struct reader {
	const uint8_t *p;
	size_t n;
};

/* What is put into a store. */
struct entry {
	const char *alias;
	const void *der;
	size_t n;
};

/* The next `n` bytes, or NULL. */
static const uint8_t *take(struct reader *r, size_t n)
{
	const uint8_t *at = r->p;

	if (n > r->n)
		return NULL;
	r->p += n;
	r->n -= n;
	return at;
}

static bool take_number(struct reader *r, size_t width, uint32_t *v)
{
	const uint8_t *p = take(r, width);
	size_t i;

	*v = 0;
	for (i = 0; p && i < width; i++)
		*v = *v << 8 | p[i];
	return p != NULL;
}

/* Bytes with their length, of `width` bytes, before them. */
static bool take_bytes(struct reader *r, size_t width, struct reader *out)
{
	uint32_t n;

	if (!take_number(r, width, &n))
		return false;
	out->n = n;
	out->p = take(r, n);
	return out->p != NULL;
}

static bool same(const struct reader *r, const void *p, size_t n)
{
	return r->n == n && memcmp(r->p, p, n) == 0;
}

/* An entry: its name and its certificate. */
static bool take_entry(struct reader *r, struct reader *alias,
		       struct reader *cert)
{
	struct reader type;
	uint32_t tag;

	return take_number(r, 4, &tag) && tag == TAG_CERT &&
	       take_bytes(r, 2, alias) && take(r, DATE_LEN) &&
	       take_bytes(r, 2, &type) &&
	       same(&type, cert_type, strlen(cert_type)) &&
	       take_bytes(r, 4, cert);
}

static void put_number(struct buf *b, size_t width, uint64_t v)
{
	while (width-- > 0) {
		const char c = (char)(v >> (8 * width));

		buf_add(b, &c, 1);
	}
}

static void put_entry(struct buf *b, const struct entry *e)
{
	put_number(b, 4, TAG_CERT);
	put_number(b, 2, strlen(e->alias));
	buf_puts(b, e->alias);
	put_number(b, DATE_LEN, 0);
	put_number(b, 2, strlen(cert_type));
	buf_puts(b, cert_type);
	put_number(b, 4, e->n);
	buf_add(b, e->der, e->n);
}

/* The password as UTF-16, a word of the inventors, the store. */
static void seal(const void *p, size_t n, uint8_t out[SHA1_LEN])
{
	static const uint8_t password[] = "\0c\0h\0a\0n\0g\0e\0i\0t";
	static const char word[] = "Mighty Aphrodite";
	struct sha1 s;

	sha1_init(&s);
	sha1_add(&s, password, sizeof(password) - 1);
	sha1_add(&s, word, sizeof(word) - 1);
	sha1_add(&s, p, n);
	sha1_end(&s, out);
}

/* The entries but the one that has the name, and how many those are. */
static int copy_entries(struct reader r, uint32_t count, const struct entry *e,
			struct buf *out, uint32_t *kept)
{
	uint32_t i;

	*kept = 0;
	for (i = 0; i < count; i++) {
		const uint8_t *start = r.p;
		struct reader name, cert;

		if (!take_entry(&r, &name, &cert))
			return -EBADMSG;
		if (!same(&name, e->alias, strlen(e->alias))) {
			buf_add(out, start, (size_t)(r.p - start));
			(*kept)++;
		} else if (same(&cert, e->der, e->n)) {
			return 0;
		}
	}
	return r.n == 0 ? 1 : -EBADMSG;
}

static int put(struct reader r, const struct entry *e, struct buf *out)
{
	uint32_t magic, version, count, kept;
	uint8_t sum[SHA1_LEN];
	struct buf head = { 0 };
	int done;

	if (!take_number(&r, 4, &magic) || magic != JKS_MAGIC ||
	    !take_number(&r, 4, &version) || version != JKS_VERSION ||
	    !take_number(&r, 4, &count) || count > COUNT_MAX)
		return -EBADMSG;
	buf_room(out, JKS_HEAD);
	buf_fill(out, JKS_HEAD);
	done = copy_entries(r, count, e, out, &kept);
	if (done <= 0)
		return done;
	put_entry(out, e);
	put_number(&head, 4, JKS_MAGIC);
	put_number(&head, 4, JKS_VERSION);
	put_number(&head, 4, kept + 1);
	memcpy(buf_data(out), buf_data(&head), JKS_HEAD);
	buf_done(&head);
	seal(buf_data(out), buf_len(out), sum);
	buf_add(out, sum, sizeof(sum));
	return 1;
}

int jks_put(const void *store, size_t n, const char *alias, const void *der,
	    size_t der_n, struct buf *out)
{
	const struct entry e = { alias, der, der_n };
	struct reader r = { store, n };
	uint8_t sum[SHA1_LEN];
	int done;

	if (n < JKS_HEAD + SHA1_LEN || n > JKS_MAX)
		return -EBADMSG;
	r.n -= SHA1_LEN;
	seal(r.p, r.n, sum);
	if (memcmp(sum, r.p + r.n, SHA1_LEN) != 0)
		return -EBADMSG;
	done = put(r, &e, out);
	if (done <= 0)
		buf_clear(out);
	return done;
}
