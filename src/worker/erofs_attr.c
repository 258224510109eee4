/*
 * Extended attributes lie behind their inode. Of an image's there are only
 * `user.*`; those that do not fit there are left out: they are remarks on the
 * file.
 */
#include <endian.h>
#include <errno.h>
#include <linux/limits.h>
#include <string.h>
#include <sys/xattr.h>

#include "base/str.h"
#include "worker/erofs.h"

static const char user[] = "user.";
enum { USER_LEN = sizeof(user) - 1, USER_INDEX = 1 };

struct head {
	uint32_t filter;
	uint8_t shared, zero[7];
};
_Static_assert(sizeof(struct head) == 12, "as on disk");

struct attr {
	uint8_t name_len, index;
	uint16_t size;
};
_Static_assert(sizeof(struct attr) == EROFS_ATTR_UNIT, "as on disk");

static bool wanted(const char *name)
{
	return str_starts(name, user) && name[USER_LEN] &&
	       !str_starts(name, "user.overlay.") &&
	       strlen(name + USER_LEN) <= EROFS_NAME_MAX;
}

/* Where it is too large, nothing is added. */
static int add(struct erofs_attrs *a, int fd, const char *name, struct err *e)
{
	size_t name_len = strlen(name + USER_LEN), used, len = a->len;
	char value[EROFS_ATTRS_MAX];
	ssize_t size = fgetxattr(fd, name, value, sizeof(value));
	struct attr at = { .name_len = (uint8_t)name_len, .index = USER_INDEX };

	if (size < 0)
		return errno == ERANGE ? 0 : err_sys(e, "read an attribute");
	if (len == 0)
		len = sizeof(struct head);
	used = sizeof(at) + name_len + (size_t)size;
	used = (used + EROFS_ATTR_UNIT - 1) / EROFS_ATTR_UNIT * EROFS_ATTR_UNIT;
	if (len + used > sizeof(a->bytes))
		return 0;
	at.size = htole16((uint16_t)size);
	memset(a->bytes + a->len, 0, len + used - a->len);
	memcpy(a->bytes + len, &at, sizeof(at));
	memcpy(a->bytes + len + sizeof(at), name + USER_LEN, name_len);
	memcpy(a->bytes + len + sizeof(at) + name_len, value, (size_t)size);
	a->len = len + used;
	return 0;
}

int erofs_attrs_read(struct erofs_attrs *a, int fd, struct err *e)
{
	static char list[XATTR_LIST_MAX];
	ssize_t n = flistxattr(fd, list, sizeof(list));
	const char *name;
	int r = 0;

	a->len = 0;
	if (n < 0)
		return errno == ENOTSUP ? 0 : err_sys(e, "list its attributes");
	for (name = list; name < list + n && r == 0; name += strlen(name) + 1)
		if (wanted(name))
			r = add(a, fd, name, e);
	return r;
}

unsigned erofs_attrs_count(const struct erofs_attrs *a)
{
	return a->len == 0 ? 0
			   : (unsigned)((a->len - sizeof(struct head)) /
					EROFS_ATTR_UNIT) +
				     1;
}
