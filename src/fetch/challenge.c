#include "fetch/challenge.h"

#include <string.h>
#include <strings.h>

enum { WORD_CAP = 32 };

static const char token_bytes[] =
	"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	"!#$%&'*+-.^_`|~";

/* Reads a value behind "=": a token, or a quoted string. NULL: neither. */
static const char *read_value(const char *s, char out[CHALLENGE_TEXT])
{
	size_t n = 0;

	out[0] = '\0';
	if (*s != '"') {
		/* Also the '=' at the end of what is base64. */
		size_t len = strspn(s, token_bytes) + strspn(s, "/:=");

		if (len == 0)
			return NULL;
		if (len < CHALLENGE_TEXT) {
			memcpy(out, s, len);
			out[len] = '\0';
		}
		return s + len;
	}
	for (s++; *s && *s != '"'; s++) {
		if (*s == '\\' && s[1])
			s++;
		if (n + 1 < CHALLENGE_TEXT)
			out[n] = *s;
		n++;
	}
	if (*s != '"')
		return NULL;
	if (n >= CHALLENGE_TEXT)
		n = 0; /* a part of it would be something else */
	out[n] = '\0';
	return s + 1;
}

static void take_param(struct challenge *c, const char *name, const char *value)
{
	if (strcasecmp(name, "realm") == 0)
		memcpy(c->realm, value, strlen(value) + 1);
	else if (strcasecmp(name, "service") == 0)
		memcpy(c->service, value, strlen(value) + 1);
}

/* A word and then "=": a parameter of the scheme before; else a scheme. */
bool challenge_find(const char *value, const char *scheme,
		    struct challenge *out)
{
	char word[WORD_CAP], text[CHALLENGE_TEXT];
	bool found = false, in = false;

	*out = (struct challenge){ 0 };
	while (*(value += strspn(value, ", \t"))) {
		size_t n = strspn(value, token_bytes);

		if (n == 0 || n >= sizeof(word))
			return found;
		memcpy(word, value, n);
		word[n] = '\0';
		value += n;
		if (*value == '=') {
			value = read_value(value + 1, text);
			if (!value)
				return found;
			if (in)
				take_param(out, word, text);
		} else if (found) {
			return true; /* the next one */
		} else {
			in = found = strcasecmp(word, scheme) == 0;
		}
	}
	return found;
}
