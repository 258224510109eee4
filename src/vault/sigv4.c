#include "vault/sigv4.h"

#include <ctype.h>
#include <errno.h>
#include <sodium.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/err.h"

#define ALGORITHM "AWS4-HMAC-SHA256"

void sigv4_hash(const void *p, size_t n, char out[SIGV4_HASH_CAP])
{
	unsigned char h[crypto_hash_sha256_BYTES];

	crypto_hash_sha256(h, p, n);
	sodium_bin2hex(out, SIGV4_HASH_CAP, h, sizeof(h));
}

/* --- the target --- */

static void encode(struct buf *b, const char *p, size_t n, const char *keep)
{
	size_t i;

	for (i = 0; i < n; i++) {
		unsigned char c = (unsigned char)p[i];

		if (isalnum(c) || (c && strchr(keep, c)))
			buf_add(b, &p[i], 1);
		else
			buf_printf(b, "%%%02X", c);
	}
}

static int hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)tolower((unsigned char)c);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* What is no "%XX" stands for itself; '+' is a space where `plus` says so. */
static void decode(struct buf *b, const char *p, size_t n, bool plus)
{
	size_t i;

	for (i = 0; i < n; i++) {
		bool coded = p[i] == '%' && n - i > 2;
		int high = coded ? hex_value(p[i + 1]) : -1;
		int low = coded ? hex_value(p[i + 2]) : -1;
		char c = p[i];

		if (high >= 0 && low >= 0) {
			c = (char)(high * 16 + low);
			i += 2;
		} else if (c == '+' && plus) {
			c = ' ';
		}
		buf_add(b, &c, 1);
	}
}

static void recode(struct buf *b, const char *p, size_t n, const char *keep,
		   bool plus)
{
	struct buf raw = { 0 };

	decode(&raw, p, n, plus);
	encode(b, buf_data(&raw), buf_len(&raw), keep);
	buf_done(&raw);
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* "name=value", both encoded; a name without a value has an empty one. The
 * '=' sorts behind all that a name may have only as \x01. */
static char *parameter(const char *p, size_t n)
{
	const char *eq = memchr(p, '=', n);
	size_t name = eq ? (size_t)(eq - p) : n;
	struct buf b = { 0 };
	char *s;

	recode(&b, p, name, "-._~", true);
	buf_puts(&b, "\x01");
	if (eq)
		recode(&b, eq + 1, n - name - 1, "-._~", true);
	s = xstrdup(buf_str(&b));
	buf_done(&b);
	return s;
}

static void put_query(struct buf *b, const char *query)
{
	size_t count = 1, n = 0, i;
	const char *at;
	char **list;

	for (at = query; *at; at++)
		count += *at == '&';
	list = xcalloc(count, sizeof(*list));
	for (at = query; *at; at += at[i] == '&' ? i + 1 : i) {
		i = strcspn(at, "&");
		if (i > 0)
			list[n++] = parameter(at, i);
	}
	qsort(list, n, sizeof(*list), by_text);
	for (i = 0; i < n; i++) {
		*strchr(list[i], '\x01') = '=';
		buf_printf(b, "%s%s", i ? "&" : "", list[i]);
		free(list[i]);
	}
	free(list);
}

/* --- fields --- */

/* In small letters, blanks as one each. */
static void put_field(struct buf *b, const char *name, const char *value)
{
	char c;

	for (; *name; name++) {
		c = (char)tolower((unsigned char)*name);
		buf_add(b, &c, 1);
	}
	buf_puts(b, ":");
	value += strspn(value, " \t");
	while (*value) {
		size_t n = strcspn(value, " \t"), gap;

		buf_add(b, value, n);
		value += n;
		gap = strspn(value, " \t");
		value += gap;
		if (gap && *value)
			buf_puts(b, " ");
	}
	buf_puts(b, "\n");
}

/* Those of the same name stay in their order. */
static void sort_fields(struct sigv4_field *f, size_t n)
{
	size_t i, k;

	for (i = 1; i < n; i++) {
		struct sigv4_field x = f[i];

		for (k = i; k > 0 && strcasecmp(f[k - 1].name, x.name) > 0; k--)
			f[k] = f[k - 1];
		f[k] = x;
	}
}

/* A field that comes several times is signed as one, with commas. */
static void put_fields(const struct sigv4_field *f, size_t n,
		       struct buf *canonical, struct buf *names)
{
	size_t i;

	for (i = 0; i < n; i++) {
		bool again = i > 0 && strcasecmp(f[i - 1].name, f[i].name) == 0;
		size_t name;

		if (again) {
			struct buf one = { 0 };

			put_field(&one, f[i].name, f[i].value);
			name = strlen(f[i].name) + 1;
			canonical->len--; /* the end of line */
			buf_puts(canonical, ",");
			buf_add(canonical, buf_data(&one) + name,
				buf_len(&one) - name);
			buf_done(&one);
			continue;
		}
		put_field(canonical, f[i].name, f[i].value);
		buf_puts(names, i ? ";" : "");
		for (name = 0; f[i].name[name]; name++) {
			char c = (char)tolower((unsigned char)f[i].name[name]);

			buf_add(names, &c, 1);
		}
	}
}

/* --- the signature --- */

static void hmac(unsigned char out[crypto_auth_hmacsha256_BYTES],
		 const void *key, size_t key_n, const char *text)
{
	crypto_auth_hmacsha256_state st;

	crypto_auth_hmacsha256_init(&st, key, key_n);
	crypto_auth_hmacsha256_update(&st, (const unsigned char *)text,
				      strlen(text));
	crypto_auth_hmacsha256_final(&st, out);
	sodium_memzero(&st, sizeof(st));
}

static void sign(const struct sigv4 *s, const char *day, const char *text,
		 char out[SIGV4_HASH_CAP])
{
	unsigned char k[crypto_auth_hmacsha256_BYTES];
	struct buf key = { 0 };

	buf_printf(&key, "AWS4%s", s->key);
	hmac(k, buf_data(&key), buf_len(&key), day);
	sodium_memzero(key.p, key.cap);
	buf_done(&key);
	hmac(k, k, sizeof(k), s->region);
	hmac(k, k, sizeof(k), s->service);
	hmac(k, k, sizeof(k), "aws4_request");
	hmac(k, k, sizeof(k), text);
	sodium_bin2hex(out, SIGV4_HASH_CAP, k, sizeof(k));
	sodium_memzero(k, sizeof(k));
}

static void put_request(const struct sigv4 *s, const char *date,
			struct buf *target, struct buf *canonical,
			struct buf *names)
{
	struct sigv4_field all[SIGV4_FIELDS_MAX + 4] = {
		{ "host", s->host },
		{ "x-amz-date", date },
		{ "x-amz-content-sha256", s->payload },
		{ "x-amz-security-token", s->token },
	};
	size_t n = *s->token ? 4 : 3, path = strcspn(s->target, "?");
	struct buf query = { 0 };

	put_query(&query, s->target + path + (s->target[path] == '?'));
	recode(target, s->target, path, "-._~/", false);
	buf_printf(canonical, "%s\n", s->method);
	/* All services but one encode the path a second time. */
	if (strcmp(s->service, "s3") == 0)
		buf_add(canonical, buf_data(target), buf_len(target));
	else
		encode(canonical, buf_data(target), buf_len(target), "-._~/");
	buf_puts(canonical, "\n");
	buf_add(canonical, buf_data(&query), buf_len(&query));
	if (buf_len(&query) > 0) {
		buf_puts(target, "?");
		buf_add(target, buf_data(&query), buf_len(&query));
	}
	buf_done(&query);
	buf_puts(canonical, "\n");
	if (s->n_fields > 0)
		memcpy(all + n, s->fields, s->n_fields * sizeof(*all));
	n += s->n_fields;
	sort_fields(all, n);
	put_fields(all, n, canonical, names);
	buf_printf(canonical, "\n%s\n%s", buf_str(names), s->payload);
}

int sigv4_sign(const struct sigv4 *s, struct buf *authorization,
	       char date[SIGV4_DATE_CAP], struct buf *target)
{
	char day[16], hash[SIGV4_HASH_CAP], signature[SIGV4_HASH_CAP];
	struct buf canonical = { 0 }, names = { 0 }, text = { 0 };
	time_t t = (time_t)s->time_s;
	struct tm tm;

	if (s->n_fields > SIGV4_FIELDS_MAX || !gmtime_r(&t, &tm))
		return -E2BIG;
	strftime(date, SIGV4_DATE_CAP, "%Y%m%dT%H%M%SZ", &tm);
	strftime(day, sizeof(day), "%Y%m%d", &tm);
	put_request(s, date, target, &canonical, &names);
	sigv4_hash(buf_data(&canonical), buf_len(&canonical), hash);
	buf_printf(&text, ALGORITHM "\n%s\n%s/%s/%s/aws4_request\n%s", date,
		   day, s->region, s->service, hash);
	sign(s, day, buf_str(&text), signature);
	buf_printf(authorization,
		   ALGORITHM " Credential=%s/%s/%s/%s/aws4_request, "
			     "SignedHeaders=%s, Signature=%s",
		   s->key_id, day, s->region, s->service, buf_str(&names),
		   signature);
	buf_done(&canonical);
	buf_done(&names);
	buf_done(&text);
	return 0;
}
