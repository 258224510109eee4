#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "api/e2b/template.h"

#define LETTERS "abcdefghijklmnopqrstuvwxyz0123456789-_."

static bool is_word(const char *s, size_t n)
{
	return n > 0 && strspn(s, LETTERS) >= n && *s != '.' && *s != '-';
}

bool is_uuid(const char *s)
{
	size_t i;

	for (i = 0; i < BUILD_ID_CAP - 1; i++) {
		bool dash = i == 8 || i == 13 || i == 18 || i == 23;

		if (dash ? s[i] != '-' : !isxdigit((unsigned char)s[i]))
			return false;
	}
	return s[i] == '\0';
}

bool template_tag_valid(const char *s)
{
	size_t n = strlen(s);

	return n < TEMPLATE_TAG_CAP && is_word(s, n) && !is_uuid(s);
}

static int take_alias(const char *s, size_t n, struct template_name *out)
{
	size_t i;

	if (n >= sizeof(out->alias))
		return -EINVAL;
	for (i = 0; i < n; i++)
		out->alias[i] = (char)tolower((unsigned char)s[i]);
	out->alias[n] = '\0';
	return is_word(out->alias, n) ? 0 : -EINVAL;
}

int template_name_parse(const char *text, struct template_name *n)
{
	const char *slash = strchr(text, '/'), *colon;

	*n = (struct template_name){ 0 };
	if (slash) {
		size_t len = (size_t)(slash - text);

		if (len >= sizeof(n->namespace))
			return -EINVAL;
		memcpy(n->namespace, text, len);
		if (!name_valid(n->namespace))
			return -EINVAL;
		text = slash + 1;
	}
	colon = strchr(text, ':');
	if (take_alias(text, colon ? (size_t)(colon - text) : strlen(text), n) <
	    0)
		return -EINVAL;
	if (!colon)
		return 0;
	return template_tag_valid(colon + 1)
		       ? str_copy(n->tag, sizeof(n->tag), colon + 1)
		       : -EINVAL;
}
