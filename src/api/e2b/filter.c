#include "api/e2b/filter.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "http/target.h"

/* In place; a byte of 0 is refused. */
static int decode(char *s)
{
	char *to = s;

	for (; *s; s++) {
		int high = 0, low = 0;

		if (*s == '%') {
			high = http_hex_value(s[1]);
			low = high < 0 ? -1 : http_hex_value(s[2]);
			if (low < 0 || (high == 0 && low == 0))
				return -EINVAL;
			*to++ = (char)(high << 4 | low);
			s += 2;
		} else {
			*to++ = *s == '+' ? ' ' : *s;
		}
	}
	*to = '\0';
	return 0;
}

/* Once by those who write queries, once by those who write filters. */
static char *take(const char *s, size_t n)
{
	char *out = xcalloc(n + 1, 1);
	int i, r = 0;

	memcpy(out, s, n);
	for (i = 0; i < 2 && r == 0; i++)
		r = decode(out);
	if (r == 0 && http_is_utf8(out, strlen(out)))
		return out;
	free(out);
	return NULL;
}

static int take_pair(json_t *to, const char *s, size_t n, struct err *e)
{
	const char *eq = memchr(s, '=', n);
	AUTO_FREE char *key = eq ? take(s, (size_t)(eq - s)) : NULL;
	AUTO_FREE char *value =
		eq ? take(eq + 1, n - (size_t)(eq - s) - 1) : NULL;

	if (!key || !value)
		return err_set(e, EINVAL,
			       "metadata: not pairs of encoded keys and "
			       "values");
	if (json_object_size(to) >= E2B_FILTER_MAX)
		return err_set(e, E2BIG, "metadata: more than %d pairs",
			       E2B_FILTER_MAX);
	json_object_set_new(to, key, json_string(value));
	return 0;
}

json_t *e2b_filter_parse(const char *text, struct err *e)
{
	json_t *out = json_object();
	size_t n;

	for (; *text; text += n + (text[n] != '\0')) {
		n = strcspn(text, "&");
		if (n > 0 && take_pair(out, text, n, e) < 0) {
			json_decref(out);
			return NULL;
		}
	}
	return out;
}

bool e2b_filter_fits(const json_t *filter, const json_t *metadata)
{
	const char *key;
	json_t *want;

	json_object_foreach ((json_t *)filter, key, want)
		if (!json_equal(want, json_object_get(metadata, key)))
			return false;
	return true;
}
