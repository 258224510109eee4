/*
 * Features that need a newer kernel than the oldest supported one (6.1). Each
 * has a fallback, so an older kernel is a warning; docs/limits.md has the same
 * table with what the fallback costs. Add a row here and there for every new
 * call that 6.1 does not know.
 */
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/auto.h"
#include "cli/doctor.h"

static const struct {
	unsigned major, minor;
	const char *name;
} features[] = {
	{ 6, 7, "simple quotas" },
	{ 6, 7, "tracking of memory that a microVM writes" },
	{ 6, 12, "short time slices for the daemon" },
};

void check_kernel_features(const struct conf *c, struct finding *f)
{
	unsigned major = 0, minor = 0;
	struct utsname u = { 0 };
	char list[256] = "";
	size_t i, n = 0;

	(void)c;
	uname(&u);
	if (sscanf(u.release, "%u.%u", &major, &minor) != 2)
		return;
	for (i = 0; i < ARRAY_LEN(features) && n < sizeof(list); i++)
		if (major < features[i].major ||
		    (major == features[i].major && minor < features[i].minor))
			n += (size_t)snprintf(
				list + n, sizeof(list) - n, "%s%s (%u.%u)",
				n ? ", " : "", features[i].name,
				features[i].major, features[i].minor);
	if (n == 0)
		found(f, "all that is used");
	else
		lacks(f, LEVEL_WARNING,
		      "install a kernel of 6.12 or newer (Debian 13, or "
		      "Debian 12's backports); until then slower ways are used",
		      "kernel %u.%u is without: %s", major, minor, list);
}
