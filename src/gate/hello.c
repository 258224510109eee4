/*
 * A ClientHello (RFC 8446, 4.1.2): one handshake message in one or more
 * records. It is read strictly: what a server might read in another way than
 * we do is refused, because in a tunnel the server reads the very same bytes.
 */
#include "gate/hello.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "base/guards.h"

enum {
	RECORD_HEAD = 5,
	RECORD_HANDSHAKE = 22,
	RECORD_MAX = 16 * 1024,
	CLIENT_HELLO = 1,
	MESSAGE_HEAD = 4,
	RANDOM = 32,
	SESSION_MAX = 32,
	NAME_HOST = 0,
	EXT_SNI = 0,
	EXT_ALPN = 16,
	EXT_ECH = 0xfe0d,
	EXT_ECH_OLD = 0xfe08, /* drafts, up to the one above */
	EXT_ESNI = 0xffce,
};

struct cursor {
	const unsigned char *p;
	size_t n;
};

static bool get(struct cursor *c, unsigned bytes, size_t *out)
{
	if (c->n < bytes)
		return false;
	for (*out = 0; bytes > 0; bytes--, c->n--)
		*out = *out << 8 | *c->p++;
	return true;
}

/* What has its length before it, in `bytes` bytes. */
static bool sub(struct cursor *c, unsigned bytes, struct cursor *out)
{
	size_t n;

	if (!get(c, bytes, &n) || c->n < n)
		return false;
	*out = (struct cursor){ c->p, n };
	c->p += n;
	c->n -= n;
	return true;
}

static bool skip(struct cursor *c, size_t n)
{
	if (c->n < n)
		return false;
	c->p += n;
	c->n -= n;
	return true;
}

/* A list with one name in it: a second one would be for somebody else. */
static bool read_sni(struct hello *h, struct cursor ext)
{
	struct cursor list, name;
	bool address;
	size_t kind;

	if (h->sni[0] || !sub(&ext, 2, &list) || ext.n > 0 ||
	    !get(&list, 1, &kind) || kind != NAME_HOST ||
	    !sub(&list, 2, &name) || (GUARD(HELLO) && list.n > 0) ||
	    name.n == 0)
		return false;
	/* A dot at the end is no part of a name here (RFC 6066, 3). */
	return name.p[name.n - 1] != '.' &&
	       host_read((const char *)name.p, name.n, h->sni, &address) == 0 &&
	       !address;
}

static bool read_alpn(struct hello *h, struct cursor ext)
{
	static const char ours[] = "http/1.1";
	struct cursor list, name;

	h->http1 = false;
	if (!sub(&ext, 2, &list) || ext.n > 0 || list.n == 0)
		return false;
	while (list.n > 0) {
		if (!sub(&list, 1, &name) || name.n == 0)
			return false;
		if (name.n == sizeof(ours) - 1 &&
		    memcmp(name.p, ours, name.n) == 0)
			h->http1 = true;
	}
	return true;
}

static bool read_extensions(struct hello *h, struct cursor all)
{
	bool sni = false, alpn = false;
	struct cursor ext;
	size_t kind;

	while (all.n > 0) {
		if (!get(&all, 2, &kind) || !sub(&all, 2, &ext))
			return false;
		if (kind == EXT_SNI) {
			if (sni || !read_sni(h, ext))
				return false;
			sni = true;
		} else if (kind == EXT_ALPN) {
			if (alpn || !read_alpn(h, ext))
				return false;
			alpn = true;
		} else if ((kind >= EXT_ECH_OLD && kind <= EXT_ECH) ||
			   kind == EXT_ESNI) {
			h->ech = true;
		}
	}
	return true;
}

static bool read_message(struct hello *h, struct cursor m)
{
	struct cursor session, ciphers, compressions, extensions;
	size_t version;

	if (!get(&m, 2, &version) || version >> 8 != 3 || !skip(&m, RANDOM) ||
	    !sub(&m, 1, &session) || session.n > SESSION_MAX ||
	    !sub(&m, 2, &ciphers) || ciphers.n == 0 || ciphers.n % 2 != 0 ||
	    !sub(&m, 1, &compressions) || compressions.n == 0)
		return false;
	if (m.n == 0)
		return true;
	return sub(&m, 2, &extensions) && m.n == 0 &&
	       read_extensions(h, extensions);
}

/*
 * Appends the content of the record at the cursor to the message: 1, 0 when
 * not all of the record is there, or -errno.
 */
static int add_record(struct cursor *c, unsigned char *message, size_t *have)
{
	size_t kind, version, n;
	struct cursor at = *c;

	if (!get(&at, 1, &kind))
		return 0;
	if (kind != RECORD_HANDSHAKE)
		return -EPROTO;
	if (at.n > 0 && at.p[0] != 3)
		return -EPROTO;
	if (!get(&at, 2, &version) || !get(&at, 2, &n))
		return 0;
	if (n == 0 || n > RECORD_MAX || n > HELLO_MAX - RECORD_HEAD - *have)
		return -EBADMSG;
	if (at.n < n)
		return 0;
	memcpy(message + *have, at.p, n);
	*have += n;
	skip(&at, n);
	*c = at;
	return 1;
}

int hello_read(struct hello *h, const void *p, size_t n)
{
	struct cursor c = { p, n < HELLO_MAX ? n : HELLO_MAX };
	unsigned char message[HELLO_MAX];
	size_t have = 0, kind, len;
	struct cursor m;
	bool first = true;
	int r;

	*h = (struct hello){ .http1 = true };
	for (;;) {
		r = add_record(&c, message, &have);
		if (r < 0)
			return first ? r : -EBADMSG;
		if (r == 0) /* beyond the limit no more will come */
			return n < HELLO_MAX ? 0 : -EBADMSG;
		first = false;
		m = (struct cursor){ message, have };
		if (!get(&m, 1, &kind))
			continue;
		if (kind != CLIENT_HELLO)
			return -EBADMSG;
		if (!get(&m, MESSAGE_HEAD - 1, &len))
			continue;
		if (len > HELLO_MAX || m.n > len)
			return -EBADMSG;
		if (m.n == len)
			return read_message(h, m) ? 1 : -EBADMSG;
	}
}
