#include <errno.h>
#include <string.h>

#include "api/e2b/volume.h"

int volume_path(const char *text, char *out, size_t cap)
{
	size_t n = strlen(VOLUME_TOP);

	if (n + 1 > cap)
		return -ENAMETOOLONG;
	memcpy(out, VOLUME_TOP, n);
	while (*text) {
		size_t len = strcspn(text, "/");

		if (len == 2 && text[0] == '.' && text[1] == '.')
			return -EINVAL;
		if (len > 0 && !(len == 1 && text[0] == '.')) {
			if (len + 2 > cap - n)
				return -ENAMETOOLONG;
			out[n++] = '/';
			memcpy(out + n, text, len);
			n += len;
		}
		text += len + (text[len] == '/');
	}
	out[n] = '\0';
	return 0;
}
