#include "wire/tar.h"

#include <errno.h>
#include <linux/limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/str.h"

struct ustar {
	char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], sum[8];
	char type, link[100], magic[6], version[2], user[32], group[32];
	char major[8], minor[8], prefix[155], pad[12];
};
_Static_assert(sizeof(struct ustar) == TAR_BLOCK, "a header is a block");

/* --- reading --- */

/*
 * Octal digits between spaces, ended by a space, a NUL or the field; or, with
 * the highest bit set, a binary number, most significant byte first.
 */
static int get_number(const char *p, size_t n, int64_t *out)
{
	const uint8_t *u = (const uint8_t *)p;
	uint64_t v = 0;
	size_t i = 0;

	if (u[0] & 0x80) {
		bool minus = u[0] & 0x40;

		v = minus ? UINT64_MAX << 6 | (u[0] & 0x3f) : u[0] & 0x3f;
		for (i = 1; i < n; i++) {
			uint64_t top = v >> 55;

			if (top != (minus ? 0x1ff : 0))
				return -ERANGE;
			v = v << 8 | u[i];
		}
		*out = (int64_t)v;
		return 0;
	}
	while (i < n && p[i] == ' ')
		i++;
	for (; i < n && p[i] >= '0' && p[i] <= '7'; i++)
		v = v << 3 | (uint64_t)(p[i] - '0');
	if (i < n && p[i] != ' ' && p[i] != '\0')
		return -EINVAL;
	*out = (int64_t)v; /* at most 12 digits: 36 bits */
	return 0;
}

static bool sum_is_right(const uint8_t *block, const struct ustar *h)
{
	int64_t want, plain = 0, with_sign = 0;
	size_t i, from = offsetof(struct ustar, sum);

	if (get_number(h->sum, sizeof(h->sum), &want) < 0)
		return false;
	for (i = 0; i < TAR_BLOCK; i++) {
		uint8_t v = i >= from && i < from + 8 ? ' ' : block[i];

		plain += v;
		with_sign += (int8_t)v; /* some very old ones */
	}
	return want == plain || want == with_sign;
}

/* Joins the two halves of a ustar name; cannot be too long. */
static void get_name(const struct ustar *h, char out[FILE_PATH_MAX + 1])
{
	size_t n = 0;

	if (memcmp(h->magic, "ustar\0", 6) == 0 && h->prefix[0]) {
		n = strnlen(h->prefix, sizeof(h->prefix));
		memcpy(out, h->prefix, n);
		out[n++] = '/';
	}
	memcpy(out + n, h->name, strnlen(h->name, sizeof(h->name)));
	out[n + strnlen(h->name, sizeof(h->name))] = '\0';
}

static bool is_zero(const uint8_t *p)
{
	return p[0] == 0 && memcmp(p, p + 1, TAR_BLOCK - 1) == 0;
}

/* Some types have no content, whatever the size says. */
static bool has_content(char type)
{
	return type != TAR_HARDLINK && type != TAR_SYMLINK &&
	       type != TAR_CHAR && type != TAR_BLOCKDEV && type != TAR_DIR &&
	       type != TAR_FIFO;
}

int tar_head_get(const uint8_t block[TAR_BLOCK], struct tar_entry *t,
		 struct err *e)
{
	const struct ustar *h = (const struct ustar *)block;
	int64_t mode, uid, gid, size, mtime;

	if (is_zero(block))
		return 0;
	if (!sum_is_right(block, h))
		return err_set(e, EBADMSG,
			       "this is not a tar archive: a "
			       "header has a wrong checksum");
	*t = (struct tar_entry){ 0 };
	get_name(h, t->path);
	if (get_number(h->mode, sizeof(h->mode), &mode) < 0 ||
	    get_number(h->uid, sizeof(h->uid), &uid) < 0 ||
	    get_number(h->gid, sizeof(h->gid), &gid) < 0 ||
	    get_number(h->size, sizeof(h->size), &size) < 0 || size < 0 ||
	    get_number(h->mtime, sizeof(h->mtime), &mtime) < 0)
		return err_set(e, EBADMSG,
			       "%.100s: a number in its header is "
			       "malformed",
			       t->path);
	t->mode = (mode_t)(mode & FILE_MODE_MAX);
	t->uid = (uint32_t)uid;
	t->gid = (uint32_t)gid;
	t->size = (uint64_t)size;
	t->mtime.tv_sec = mtime;
	memcpy(t->link, h->link, strnlen(h->link, sizeof(h->link)));
	t->type = h->type;
	return 1;
}

static int bad_pax(struct err *e)
{
	return err_set(e, EBADMSG, "an extended header is malformed");
}

static int pax_text(char out[FILE_PATH_MAX + 1], const char *p, size_t n,
		    struct err *e)
{
	if (n > FILE_PATH_MAX)
		return err_set(e, EBADMSG, "%.100s...: a path over %d bytes", p,
			       FILE_PATH_MAX);
	if (memchr(p, '\0', n))
		return bad_pax(e);
	memcpy(out, p, n);
	out[n] = '\0';
	return 0;
}

/* "1700000000.25", "-3.5": seconds with a fraction. */
static int pax_time(const char *p, size_t n, struct timespec *out)
{
	bool minus = n > 0 && *p == '-';
	long scale = 100000000;
	size_t i = minus;
	int64_t v = 0;

	if (i == n || p[i] < '0' || p[i] > '9')
		return -EINVAL;
	for (; i < n && p[i] >= '0' && p[i] <= '9'; i++) {
		if (v > INT64_MAX / 100)
			return -ERANGE;
		v = v * 10 + (p[i] - '0');
	}
	*out = (struct timespec){ .tv_sec = minus ? -v : v };
	if (i < n && p[i++] != '.')
		return -EINVAL;
	for (; i < n && p[i] >= '0' && p[i] <= '9'; i++) {
		out->tv_nsec += scale * (p[i] - '0');
		scale /= 10;
	}
	if (minus && out->tv_nsec > 0) {
		out->tv_sec--;
		out->tv_nsec = 1000000000 - out->tv_nsec;
	}
	return i == n ? 0 : -EINVAL;
}

static int pax_number(const char *p, size_t n, uint64_t *out)
{
	char text[24];

	if (n >= sizeof(text))
		return -EINVAL;
	memcpy(text, p, n);
	text[n] = '\0';
	return parse_u64(text, INT64_MAX, out);
}

static bool key_is(const char *p, size_t n, const char *key)
{
	return n == strlen(key) && memcmp(p, key, n) == 0;
}

static int pax_record(const char *key, size_t n_key, const char *value,
		      size_t n, struct tar_extra *x, struct err *e)
{
	if (n_key > 10 && memcmp(key, "GNU.sparse", 10) == 0)
		x->sparse = true;
	if (key_is(key, n_key, "path")) {
		x->has_path = n > 0;
		return pax_text(x->path, value, n, e);
	}
	if (key_is(key, n_key, "linkpath")) {
		x->has_link = n > 0;
		return pax_text(x->link, value, n, e);
	}
	if (key_is(key, n_key, "size")) {
		x->has_size = n > 0;
		if (n > 0 && pax_number(value, n, &x->size) < 0)
			return bad_pax(e);
	}
	if (key_is(key, n_key, "mtime")) {
		x->has_mtime = n > 0;
		if (n > 0 && pax_time(value, n, &x->mtime) < 0)
			return bad_pax(e);
	}
	return 0;
}

/* The length of the record at `p` and where its key starts; 0: malformed. */
static size_t record_length(const char *p, size_t n, size_t *key_at)
{
	size_t len = 0, i;

	for (i = 0; i < n && i < 8 && p[i] >= '0' && p[i] <= '9'; i++)
		len = len * 10 + (size_t)(p[i] - '0');
	if (i == 0 || i == n || p[i] != ' ')
		return 0;
	*key_at = i + 1;
	if (len <= *key_at || len > n || p[len - 1] != '\n')
		return 0;
	return len;
}

struct pax {
	const char *key, *value;
	size_t n_key, n;
};

/* Each is "LENGTH KEY=VALUE\n", the length in decimal and of all of it. */
static bool pax_next(const char **p, size_t *n, struct pax *x)
{
	size_t at = 0, len = record_length(*p, *n, &at);
	const char *key = *p + at, *eq;

	if (len == 0)
		return false;
	eq = memchr(key, '=', len - at - 1);
	if (!eq)
		return false;
	*x = (struct pax){ key, eq + 1, (size_t)(eq - key),
			   (size_t)(*p + len - 1 - (eq + 1)) };
	*p += len;
	*n -= len;
	return true;
}

int tar_pax_get(const char *p, size_t n, struct tar_extra *x, struct err *e)
{
	struct pax one;
	int r = 0;

	while (n > 0 && r == 0) {
		if (!pax_next(&p, &n, &one))
			return bad_pax(e);
		r = pax_record(one.key, one.n_key, one.value, one.n, x, e);
	}
	return r;
}

int tar_pax_attrs(const char *p, size_t n,
		  int (*fn)(void *ctx, const char *name, const void *value,
			    size_t n),
		  void *ctx)
{
	static const char prefix[] = "SCHILY.xattr.";
	const size_t len = sizeof(prefix) - 1;
	char name[XATTR_NAME_MAX + 1];
	struct pax one;
	int r = 0;

	while (n > 0 && r == 0) {
		if (!pax_next(&p, &n, &one))
			return -EBADMSG;
		if (one.n_key <= len || memcmp(one.key, prefix, len) != 0)
			continue;
		one.n_key -= len;
		if (one.n_key > XATTR_NAME_MAX ||
		    memchr(one.key + len, '\0', one.n_key))
			return -EBADMSG;
		memcpy(name, one.key + len, one.n_key);
		name[one.n_key] = '\0';
		r = fn(ctx, name, one.value, one.n);
	}
	return r;
}

int tar_long_get(char type, const char *p, size_t n, struct tar_extra *x,
		 struct err *e)
{
	n = strnlen(p, n);
	if (type == TAR_LONG_NAME) {
		x->has_path = true;
		return pax_text(x->path, p, n, e);
	}
	x->has_link = true;
	return pax_text(x->link, p, n, e);
}

void tar_finish(struct tar_entry *t, const struct tar_extra *x)
{
	size_t n;

	if (x->has_path)
		memcpy(t->path, x->path, sizeof(t->path));
	if (x->has_link)
		memcpy(t->link, x->link, sizeof(t->link));
	if (x->has_size)
		t->size = x->size;
	if (x->has_mtime)
		t->mtime = x->mtime;
	if (t->type == '\0' || t->type == TAR_CONTIGUOUS)
		t->type = TAR_FILE;
	n = strlen(t->path);
	if (t->type == TAR_FILE && n > 0 && t->path[n - 1] == '/')
		t->type = TAR_DIR;
	if (!has_content(t->type))
		t->size = 0;
}

/* --- writing --- */

/* False when it does not fit: then the field is as good as empty. */
static bool put_octal(char *field, size_t n, uint64_t v)
{
	size_t i = n - 1;
	bool fits = n > 21 || v >> (3 * (n - 1)) == 0;

	field[i] = '\0';
	for (v = fits ? v : 0; i > 0; v >>= 3)
		field[--i] = (char)('0' + (v & 7));
	return fits;
}

/* A name of up to 100 bytes, or two parts that were joined by a slash. */
static bool put_name(struct ustar *h, const char *path)
{
	size_t n = strlen(path), at;

	if (n <= sizeof(h->name)) {
		memcpy(h->name, path, n);
		return true;
	}
	/* The part in front as long as possible; the rest is not empty. */
	for (at = n - 1 < sizeof(h->prefix) ? n - 1 : sizeof(h->prefix); at > 0;
	     at--)
		if (path[at] == '/' && path[at + 1] != '\0' &&
		    n - at - 1 <= sizeof(h->name)) {
			memcpy(h->prefix, path, at);
			memcpy(h->name, path + at + 1, n - at - 1);
			return true;
		}
	memcpy(h->name, path, sizeof(h->name));
	return false;
}

static void put_sum(struct ustar *h)
{
	const uint8_t *p = (const uint8_t *)h;
	uint64_t sum = 0;
	size_t i;

	memset(h->sum, ' ', sizeof(h->sum));
	for (i = 0; i < sizeof(*h); i++)
		sum += p[i];
	put_octal(h->sum, 7, sum);
}

/* The length counts its own digits. */
void tar_pax_put(struct buf *b, const char *key, const void *value,
		 size_t n_value)
{
	size_t n = strlen(key) + n_value + 3, len = n + 1, digits;
	char text[24];

	for (digits = 1; digits < 8; digits++) {
		len = n + digits;
		if ((size_t)snprintf(text, sizeof(text), "%zu", len) == digits)
			break;
	}
	buf_printf(b, "%zu %s=", len, key);
	buf_add(b, value, n_value);
	buf_puts(b, "\n");
}

static void put_pax(struct buf *b, const char *key, const char *value)
{
	tar_pax_put(b, key, value, strlen(value));
}

static void put_pax_number(struct buf *b, const char *key, int64_t v)
{
	char text[24];

	snprintf(text, sizeof(text), "%lld", (long long)v);
	put_pax(b, key, text);
}

static void put_block(struct buf *b, struct ustar *h)
{
	memcpy(h->magic, "ustar", 6);
	memcpy(h->version, "00", 2);
	put_sum(h);
	buf_add(b, h, sizeof(*h));
}

static void put_extra(struct buf *b, const struct buf *pax)
{
	struct ustar h = { .name = "pax", .type = TAR_PAX };
	size_t n = buf_len(pax);

	put_octal(h.mode, sizeof(h.mode), 0644);
	put_octal(h.uid, sizeof(h.uid), 0);
	put_octal(h.gid, sizeof(h.gid), 0);
	put_octal(h.size, sizeof(h.size), n);
	put_octal(h.mtime, sizeof(h.mtime), 0);
	put_block(b, &h);
	buf_add(b, buf_data(pax), n);
	memset(buf_room(b, tar_padding(n)), 0, tar_padding(n));
	buf_fill(b, tar_padding(n));
}

void tar_head_put(struct buf *b, const struct tar_entry *t)
{
	const struct buf none = { 0 };

	tar_head_put_more(b, t, &none);
}

void tar_head_put_more(struct buf *b, const struct tar_entry *t,
		       const struct buf *more)
{
	struct ustar h = { .type = t->type };
	struct buf pax = { 0 };
	size_t n = strlen(t->link);

	if (!put_name(&h, t->path))
		put_pax(&pax, "path", t->path);
	memcpy(h.link, t->link, n < sizeof(h.link) ? n : sizeof(h.link));
	if (n > sizeof(h.link))
		put_pax(&pax, "linkpath", t->link);
	if (!put_octal(h.size, sizeof(h.size), t->size))
		put_pax_number(&pax, "size", (int64_t)t->size);
	if (t->mtime.tv_sec < 0 ||
	    !put_octal(h.mtime, sizeof(h.mtime), (uint64_t)t->mtime.tv_sec)) {
		put_octal(h.mtime, sizeof(h.mtime), 0);
		put_pax_number(&pax, "mtime", t->mtime.tv_sec);
	}
	/* Ids of a sandbox have 16 bits, modes 12. */
	put_octal(h.mode, sizeof(h.mode), t->mode);
	put_octal(h.uid, sizeof(h.uid), t->uid);
	put_octal(h.gid, sizeof(h.gid), t->gid);
	memcpy(h.user, t->user, sizeof(h.user));
	memcpy(h.group, t->group, sizeof(h.group));
	buf_add(&pax, buf_data(more), buf_len(more));
	if (buf_len(&pax) > 0)
		put_extra(b, &pax);
	put_block(b, &h);
	buf_done(&pax);
}
