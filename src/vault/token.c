#include "vault/token.h"

#include <ctype.h>
#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"

enum { TEXT_MAX = 4096 /* of a token */ };

/* --- the value --- */

void token_value_read(struct token_value *v, const char *value)
{
	char *at;
	int i;

	v->text = xstrdup(value);
	at = v->text;
	for (i = 0; i < TOKEN_LINES; i++) {
		v->line[i] = at;
		at += strcspn(at, "\n");
		if (*at)
			*at++ = '\0';
	}
}

void token_value_done(struct token_value *v)
{
	int i;

	for (i = 0; v->text && i < TOKEN_LINES; i++)
		sodium_memzero((char *)v->line[i], strlen(v->line[i]));
	free(v->text);
	memset(v, 0, sizeof(*v));
}

/* --- asking --- */

static void put(struct buf *b, const char *name, const char *value)
{
	if (*value == '\0')
		return;
	buf_printf(b, "%s%s=", buf_len(b) ? "&" : "", name);
	for (; *value; value++)
		if (isalnum((unsigned char)*value) || strchr("-._~", *value))
			buf_add(b, value, 1);
		else
			buf_printf(b, "%%%02X", (unsigned char)*value);
}

void token_request(const struct secret *s, const struct token_value *v,
		   struct buf *out)
{
	bool code = *v->line[TOKEN_CODE], refresh = *v->line[TOKEN_REFRESH];

	put(out, "grant_type",
	    code      ? "authorization_code"
	    : refresh ? "refresh_token"
		      : "client_credentials");
	if (code) {
		put(out, "code", v->line[TOKEN_CODE]);
		put(out, "code_verifier", v->line[TOKEN_VERIFIER]);
		put(out, "redirect_uri", v->line[TOKEN_REDIRECT]);
	} else if (refresh) {
		put(out, "refresh_token", v->line[TOKEN_REFRESH]);
	} else {
		put(out, "scope", s->scope);
	}
	put(out, "client_id", s->user);
	put(out, "client_secret", v->line[TOKEN_CLIENT_SECRET]);
}

/* --- the answer --- */

void token_done(struct token *t)
{
	struct buf *const all[] = { &t->access, &t->refresh, &t->error };
	size_t i;

	for (i = 0; i < ARRAY_LEN(all); i++) {
		if (all[i]->p)
			sodium_memzero(all[i]->p, all[i]->cap);
		buf_done(all[i]);
	}
}

struct reader {
	const char *p, *end;
};

static char peek(struct reader *r)
{
	while (r->p < r->end && strchr(" \t\r\n", *r->p) && *r->p)
		r->p++;
	return r->p < r->end ? *r->p : '\0';
}

static bool take(struct reader *r, char c)
{
	if (peek(r) != c)
		return false;
	r->p++;
	return true;
}

/* The letter behind a backslash; only those of ASCII are read. */
static int take_escape(struct reader *r)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	const char *at;
	int v = 0, i;

	if (r->p == r->end)
		return -1;
	if (*r->p != 'u') {
		at = *r->p ? strchr(from, *r->p) : NULL;
		r->p++;
		return at ? to[at - from] : -1;
	}
	if (r->end - r->p < 5)
		return -1;
	for (i = 1; i < 5; i++) {
		char c = r->p[i];

		if (!isxdigit((unsigned char)c))
			return -1;
		v = v << 4 | (isdigit((unsigned char)c)
				      ? c - '0'
				      : tolower((unsigned char)c) - 'a' + 10);
	}
	r->p += 5;
	return v < 0x80 ? v : '?';
}

/* `out` NULL: it is passed. */
static int take_string(struct reader *r, struct buf *out)
{
	if (!take(r, '"'))
		return -EBADMSG;
	while (r->p < r->end && *r->p != '"') {
		int c = (unsigned char)*r->p++;
		char letter;

		if (c == '\\')
			c = take_escape(r);
		if (c < 0 || (out && buf_len(out) >= TEXT_MAX))
			return -EBADMSG;
		letter = (char)c;
		if (out)
			buf_add(out, &letter, 1);
	}
	return take(r, '"') ? 0 : -EBADMSG;
}

/* Anything, up to what ends a member of the object that it is in. */
static int pass_value(struct reader *r)
{
	unsigned depth = 0;

	for (;;) {
		char c = peek(r);

		if (c == '\0')
			return -EBADMSG;
		if (c == '"') {
			if (take_string(r, NULL) < 0)
				return -EBADMSG;
			continue;
		}
		if (depth == 0 && (c == ',' || c == '}'))
			return 0;
		depth += c == '{' || c == '[';
		if (c == '}' || c == ']') {
			if (depth == 0)
				return -EBADMSG;
			depth--;
		}
		r->p++;
	}
}

static int take_number(struct reader *r, uint64_t *out)
{
	bool quoted = take(r, '"'), minus = take(r, '-');

	*out = 0;
	peek(r);
	while (r->p < r->end && isdigit((unsigned char)*r->p) &&
	       *out < UINT32_MAX)
		*out = *out * 10 + (uint64_t)(*r->p++ - '0');
	/* A negative lifetime means an expired token. */
	if (minus)
		*out = 0;
	if (quoted && !take(r, '"'))
		return -EBADMSG;
	return pass_value(r);
}

static int take_member(struct token *t, struct reader *r)
{
	struct buf name = { 0 }, *to = NULL;
	uint64_t *number = NULL;
	int n = take_string(r, &name);

	if (n == 0 && strcmp(buf_str(&name), "access_token") == 0)
		to = &t->access;
	else if (n == 0 && strcmp(buf_str(&name), "refresh_token") == 0)
		to = &t->refresh;
	else if (n == 0 && strcmp(buf_str(&name), "error") == 0)
		to = &t->error;
	else if (n == 0 && strcmp(buf_str(&name), "expires_in") == 0)
		number = &t->expires_s;
	buf_done(&name);
	if (n < 0 || !take(r, ':'))
		return -EBADMSG;
	if (number) {
		t->expires |= peek(r) == '-' || peek(r) == '"' ||
			      isdigit((unsigned char)peek(r));
		return take_number(r, number);
	}
	if (!to || peek(r) != '"')
		return pass_value(r);
	buf_clear(to);
	return take_string(r, to);
}

/* A token goes into a field: visible letters. */
static bool is_plain(struct buf *b)
{
	const char *s = buf_str(b);

	for (; *s; s++)
		if (*s <= ' ' || *s > '~')
			return false;
	return (size_t)(s - buf_data(b)) == buf_len(b);
}

int token_read(struct token *t, const char *p, size_t n)
{
	struct reader r = { p, p + n };

	if (!take(&r, '{'))
		return -EBADMSG;
	if (!take(&r, '}')) {
		do {
			if (take_member(t, &r) < 0)
				return -EBADMSG;
		} while (take(&r, ','));
		if (!take(&r, '}'))
			return -EBADMSG;
	}
	if (peek(&r) != '\0' || r.p != r.end)
		return -EBADMSG;
	return is_plain(&t->access) && is_plain(&t->refresh) &&
			       is_plain(&t->error)
		       ? 0
		       : -EBADMSG;
}
