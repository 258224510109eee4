#include "cli/scrub.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "base/auto.h"

#define REMOVED "(removed)"

enum { KEY_DIGITS_MIN = 8 };

/* A name that has one of these in it has a value to hide. */
static const char *const words[] = {
	"secret",    "token",      "passw",         "passphrase", "credential",
	"private",   "api_key",    "apikey",        "api-key",    "access_key",
	"accesskey", "access-key", "authorization", "cookie",     "signature",
};

struct line {
	const char *p, *end;
};

static bool starts(const struct line *l, const char *word)
{
	size_t n = strlen(word);

	return (size_t)(l->end - l->p) >= n && strncasecmp(l->p, word, n) == 0;
}

static bool is_name(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '-' || c == '.';
}

/* Of one of our keys: "e2b_" and digits. */
static size_t key_length(const struct line *l)
{
	size_t n = 4, left = (size_t)(l->end - l->p);

	if (!starts(l, "e2b_"))
		return 0;
	while (n < left && isalnum((unsigned char)l->p[n]))
		n++;
	return n >= 4 + KEY_DIGITS_MIN ? n : 0;
}

/* "//user:password@" behind the slashes; 0 when there is no password. */
static size_t login_length(const struct line *l)
{
	const char *p = l->p;
	bool colon = false;

	for (; p < l->end && !isspace((unsigned char)*p) && *p != '/'; p++) {
		colon |= *p == ':';
		if (*p == '@')
			return colon ? (size_t)(p - l->p) : 0;
	}
	return 0;
}

/* Where a value starts behind the name that ends at `p`; NULL: none. */
static const char *find_value(const char *p, const char *end)
{
	while (p < end && is_name(*p))
		p++;
	while (p < end && strchr("\"' \\]", *p))
		p++;
	if (p == end || (*p != '=' && *p != ':'))
		return NULL;
	for (p++; p < end && strchr(" \t", *p); p++)
		;
	return p;
}

/* In quotes up to their end; else up to what separates values. */
static const char *end_of_value(const char *p, const char *end, bool header)
{
	char quote = p < end && (*p == '"' || *p == '\'') ? *p : '\0';

	if (header && !quote)
		return end;
	for (p += quote != '\0'; p < end; p++) {
		if (quote && *p == '\\' && p + 1 < end)
			p++;
		else if (quote ? *p == quote
			       : isspace((unsigned char)*p) ||
					 strchr("&,;)}]", *p))
			break;
	}
	return p;
}

/* A name that sounds secret, and its value: how far that goes, or NULL. */
static const char *take_secret(struct buf *out, const struct line *l)
{
	const char *value, *end;
	size_t i;

	for (i = 0; i < ARRAY_LEN(words) && !starts(l, words[i]); i++)
		;
	if (i == ARRAY_LEN(words))
		return NULL;
	value = find_value(l->p, l->end);
	if (!value || value == l->end)
		return NULL;
	/* "Authorization: Bearer x" is a value of two words. */
	end = end_of_value(value, l->end,
			   strncmp(words[i], "auth", 4) == 0 ||
				   strcmp(words[i], "cookie") == 0);
	buf_add(out, l->p, (size_t)(value - l->p));
	if (*value == '"' || *value == '\'')
		buf_add(out, value, 1);
	buf_puts(out, REMOVED);
	return end;
}

static void scrub_line(struct buf *out, struct line l)
{
	while (l.p < l.end) {
		const char *after = take_secret(out, &l);
		size_t n;

		if (after) {
			l.p = after;
			continue;
		}
		n = key_length(&l);
		if (n > 0) {
			buf_puts(out, "e2b_" REMOVED);
			l.p += n;
			continue;
		}
		if (starts(&l, "://")) {
			buf_puts(out, "://");
			l.p += 3;
			n = login_length(&l);
			if (n > 0)
				buf_puts(out, REMOVED);
			l.p += n;
			continue;
		}
		buf_add(out,
			iscntrl((unsigned char)*l.p) && *l.p != '\t' ? "?"
								     : l.p,
			1);
		l.p++;
	}
	buf_puts(out, "\n");
}

static bool has(const struct line *l, const char *text)
{
	return memmem(l->p, (size_t)(l->end - l->p), text, strlen(text)) !=
	       NULL;
}

void scrub(struct buf *out, const char *text, size_t n)
{
	const char *end = text + n;
	bool in_key = false;

	while (text < end) {
		const char *nl = memchr(text, '\n', (size_t)(end - text));
		struct line l = { text, nl ? nl : end };

		text = nl ? nl + 1 : end;
		if (has(&l, "-----BEGIN") && has(&l, "PRIVATE KEY")) {
			in_key = true;
			buf_puts(out, REMOVED "\n");
		}
		if (!in_key)
			scrub_line(out, l);
		if (in_key && has(&l, "-----END"))
			in_key = false;
	}
}
