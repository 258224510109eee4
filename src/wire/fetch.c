#include "wire/fetch.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "wire/pack.h"

enum { ERRNO_MAX = 4095, DIGEST_HEX = 64 };

#define LOWER "abcdefghijklmnopqrstuvwxyz"
#define DIGITS "0123456789"
#define UPPER "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGEST "sha256:"

static void put_fields(struct buf *b, const struct fetch_record *r)
{
	switch (r->kind) {
	case FETCH_OPEN:
		pack_str(b, r->host);
		pack_str(b, r->repository);
		pack_str(b, r->user);
		pack_str(b, r->password);
		pack_u8(b, r->flag);
		break;
	case FETCH_GET_MANIFEST:
	case FETCH_HAS_BLOB:
		pack_str(b, r->reference);
		break;
	case FETCH_GET_BLOB:
		pack_str(b, r->reference);
		pack_u64(b, r->size);
		pack_u64(b, r->offset);
		break;
	case FETCH_PUT_BLOB:
		pack_str(b, r->reference);
		pack_u64(b, r->size);
		break;
	case FETCH_PUT_MANIFEST:
		pack_str(b, r->reference);
		pack_str(b, r->media_type);
		pack_u64(b, r->size);
		break;
	case FETCH_BYTES:
	case FETCH_DATA:
		buf_add(b, r->p, r->n);
		break;
	case FETCH_HEAD:
		pack_str(b, r->media_type);
		pack_u64(b, r->offset);
		break;
	case FETCH_SENT:
		pack_u64(b, r->size);
		break;
	case FETCH_DONE:
		pack_u8(b, r->flag);
		break;
	case FETCH_ERROR:
		pack_u32(b, (uint32_t)r->err.code);
		pack_str(b, r->err.msg);
		break;
	case FETCH_KINDS:
		break;
	}
}

void fetch_record_put(struct buf *b, const struct fetch_record *r)
{
	size_t at = record_begin(b, (uint8_t)r->kind);

	put_fields(b, r);
	(void)record_end(b, at);
}

/* Of at most `cap` - 1 bytes; what is longer makes the record a bad one. */
static const char *text(struct unpack *u, size_t cap)
{
	const char *s = unpack_str(u);

	if (strlen(s) < cap)
		return s;
	u->bad = true;
	return "";
}

static const char *reference(struct unpack *u)
{
	const char *s = text(u, FETCH_TAG_CAP);

	if (!fetch_reference_valid(s))
		u->bad = true;
	return s;
}

static uint64_t size(struct unpack *u)
{
	uint64_t v = unpack_u64(u);

	if (v > INT64_MAX)
		u->bad = true;
	return v;
}

static bool flag(struct unpack *u)
{
	uint8_t v = unpack_u8(u);

	if (v > 1)
		u->bad = true;
	return v == 1;
}

static void get_open(struct unpack *u, struct fetch_record *r)
{
	r->host = text(u, FETCH_HOST_CAP);
	r->repository = text(u, FETCH_REPO_CAP);
	r->user = text(u, FETCH_SECRET_CAP);
	r->password = text(u, FETCH_SECRET_CAP);
	r->flag = flag(u);
	if (!fetch_host_valid(r->host) ||
	    !fetch_repository_valid(r->repository))
		u->bad = true;
}

static void get_error(struct unpack *u, struct fetch_record *r)
{
	uint32_t code = unpack_u32(u);
	char *c;

	snprintf(r->err.msg, sizeof(r->err.msg), "%s", unpack_str(u));
	for (c = r->err.msg; *c; c++)
		if (*c < ' ' || *c > '~')
			*c = '?';
	r->err.code = (int)code;
	if (code == 0 || code > ERRNO_MAX)
		u->bad = true;
}

static void get_fields(struct unpack *u, struct fetch_record *r)
{
	switch (r->kind) {
	case FETCH_OPEN:
		get_open(u, r);
		break;
	case FETCH_GET_MANIFEST:
	case FETCH_HAS_BLOB:
		r->reference = reference(u);
		break;
	case FETCH_GET_BLOB:
		r->reference = reference(u);
		r->size = size(u);
		r->offset = size(u);
		break;
	case FETCH_PUT_BLOB:
		r->reference = reference(u);
		r->size = size(u);
		break;
	case FETCH_PUT_MANIFEST:
		r->reference = reference(u);
		r->media_type = text(u, FETCH_MEDIA_CAP);
		r->size = size(u);
		break;
	case FETCH_BYTES:
	case FETCH_DATA:
		r->p = unpack_rest(u, &r->n);
		if (r->n == 0 || r->n > FETCH_DATA_MAX)
			u->bad = true;
		break;
	case FETCH_HEAD:
		r->media_type = text(u, FETCH_MEDIA_CAP);
		r->offset = size(u);
		break;
	case FETCH_SENT:
		r->size = size(u);
		break;
	case FETCH_DONE:
		r->flag = flag(u);
		break;
	case FETCH_ERROR:
		get_error(u, r);
		break;
	case FETCH_KINDS:
		u->bad = true;
		break;
	}
}

int fetch_record_get(const struct buf *b, struct fetch_record *r)
{
	struct unpack u;
	uint8_t kind;
	int n = record_next(b, FETCH_RECORD_MAX, &u, &kind);

	if (n <= 0)
		return n;
	if (kind == 0 || kind >= FETCH_KINDS)
		return -EBADMSG;
	*r = (struct fetch_record){ .kind = kind,
				    .host = "",
				    .repository = "",
				    .user = "",
				    .password = "",
				    .reference = "",
				    .media_type = "" };
	get_fields(&u, r);
	return unpack_ok(&u) ? n : -EBADMSG;
}

/* --- names ---------------------------------------------------------------- */

bool fetch_host_valid(const char *s)
{
	const char *port;
	uint64_t number = 443;
	size_t n;

	if (*s == '[') { /* an address of IPv6 */
		n = strspn(s + 1, DIGITS "abcdef:.");
		if (n < 2 || s[n + 1] != ']')
			return false;
		n += 2;
	} else {
		n = strspn(s, LOWER DIGITS ".-");
		if (n == 0 || strchr(".-", s[0]) || strchr(".-", s[n - 1]) ||
		    memmem(s, n, "..", 2))
			return false;
	}
	port = s + n;
	if (*port == ':' &&
	    (parse_u64(port + 1, 65535, &number) < 0 || number == 0))
		return false;
	return (*port == '\0' || *port == ':') && strlen(s) < FETCH_HOST_CAP;
}

/* Parts of a-z, 0-9 with single separators between, joined by slashes. */
bool fetch_repository_valid(const char *s)
{
	const char *p = s;

	for (;;) {
		size_t n = strspn(p, LOWER DIGITS "._-");

		if (n == 0 || strchr("._-", p[0]) || strchr("._-", p[n - 1]) ||
		    memmem(p, n, "..", 2))
			return false;
		p += n;
		if (*p == '\0')
			return p - s < FETCH_REPO_CAP;
		if (*p++ != '/')
			return false;
	}
}

bool fetch_reference_valid(const char *s)
{
	size_t n = strlen(s);

	if (str_starts(s, DIGEST)) {
		s += strlen(DIGEST);
		return strlen(s) == DIGEST_HEX &&
		       strspn(s, DIGITS "abcdef") == DIGEST_HEX;
	}
	return n > 0 && n <= 128 && !strchr(".-", s[0]) &&
	       strspn(s, LOWER UPPER DIGITS "._-") == n;
}

/* What stands behind the name: "@DIGEST", or ":TAG", or nothing. */
static const char *cut_reference(char *name)
{
	char *at = strchr(name, '@'), *colon = strrchr(name, ':'),
	     *slash = strrchr(name, '/');

	if (at) {
		*at = '\0';
		/* "NAME:TAG@DIGEST": the digest is what counts. */
		colon = strrchr(name, ':');
		if (colon && (!slash || colon > slash))
			*colon = '\0';
		return at + 1;
	}
	if (!colon || (slash && colon < slash))
		return "latest";
	*colon = '\0';
	return colon + 1;
}

int fetch_ref_parse(struct fetch_ref *r, const char *s, struct err *e)
{
	char name[FETCH_REPO_CAP + FETCH_TAG_CAP + 2];
	const char *slash = strchr(s, '/'), *reference_text;

	*r = (struct fetch_ref){ 0 };
	if (!slash || (size_t)(slash - s) >= sizeof(r->host) ||
	    str_copy(name, sizeof(name), slash + 1) < 0)
		return err_set(e, EINVAL,
			       "'%.100s' is not HOST[:PORT]/NAME[:TAG]: the "
			       "registry's host is always said",
			       s);
	memcpy(r->host, s, (size_t)(slash - s));
	reference_text = cut_reference(name);
	if (!fetch_host_valid(r->host) || !fetch_repository_valid(name) ||
	    !fetch_reference_valid(reference_text) ||
	    (strchr(slash, '@') && !str_starts(reference_text, DIGEST)) ||
	    str_copy(r->repository, sizeof(r->repository), name) < 0 ||
	    str_copy(r->reference, sizeof(r->reference), reference_text) < 0)
		return err_set(e, EINVAL,
			       "'%.100s' is not HOST[:PORT]/NAME[:TAG] or "
			       "HOST[:PORT]/NAME@sha256:DIGEST",
			       s);
	return 0;
}

/* One of the list, of `n` bytes; `host` has no default port any more. */
static bool matches(const char *one, size_t n, const char *host)
{
	size_t len = strlen(host);

	if (n > 4 && memcmp(one + n - 4, ":443", 4) == 0)
		n -= 4;
	if (n > 2 && one[0] == '*' && one[1] == '.')
		return len > n - 1 &&
		       memcmp(host + len - (n - 1), one + 1, n - 1) == 0;
	return len == n && memcmp(host, one, n) == 0;
}

bool fetch_host_listed(const char *list, const char *host)
{
	char bare[FETCH_HOST_CAP];
	size_t n = strlen(host);

	if (n >= sizeof(bare) || !fetch_host_valid(host))
		return false;
	memcpy(bare, host, n + 1);
	if (n > 4 && strcmp(bare + n - 4, ":443") == 0)
		bare[n - 4] = '\0';
	while (*(list += strspn(list, ", \t"))) {
		n = strcspn(list, ", \t");
		if (matches(list, n, bare))
			return true;
		list += n;
	}
	return false;
}

int fetch_list_check(const char *list, struct err *e)
{
	while (*(list += strspn(list, ", \t"))) {
		char one[FETCH_HOST_CAP];
		size_t n = strcspn(list, ", \t"),
		       skip = str_starts(list, "*.") ? 2 : 0;

		one[0] = '\0';
		if (n < sizeof(one)) {
			memcpy(one, list + skip, n - skip);
			one[n - skip] = '\0';
		}
		if (!fetch_host_valid(one))
			return err_set(e, EINVAL,
				       "'%.*s' is not HOST, HOST:PORT or "
				       "*.DOMAIN, in lower case",
				       n < 100 ? (int)n : 100, list);
		list += n;
	}
	return 0;
}
