#include "worker/path.h"

#include <errno.h>
#include <string.h>

static int refuse(const char *raw, const char *what, const char *why,
		  struct err *e)
{
	return err_set(e, EBADMSG, "%s %.100s%s: %s", what, raw,
		       strlen(raw) > 100 ? "..." : "", why);
}

int path_clean(struct path *p, const char *raw, const char *what, struct err *e)
{
	const char *at = raw;
	size_t len = 0, n;
	unsigned depth = 0;

	p->name_at = 0;
	p->s[0] = '\0';
	if (!*raw)
		return err_set(e, EBADMSG, "%s without a name", what);
	for (; *at; at += n) {
		while (*at == '/')
			at++;
		n = strcspn(at, "/");
		if (n == 0 || (n == 1 && at[0] == '.'))
			continue;
		if (n == 2 && at[0] == '.' && at[1] == '.')
			return refuse(raw, what, "\"..\" in the name", e);
		if (n > ENTRY_NAME_MAX)
			return refuse(raw, what, "a name over 255 bytes", e);
		if (len + 1 + n > ENTRY_PATH_MAX)
			return refuse(raw, what, "a path over 4095 bytes", e);
		if (++depth > ENTRY_DEPTH_MAX)
			return refuse(raw, what, "over 128 directories deep",
				      e);
		if (len > 0)
			p->s[len++] = '/';
		p->name_at = len;
		memcpy(p->s + len, at, n);
		len += n;
		p->s[len] = '\0';
	}
	return 0;
}
