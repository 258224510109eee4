#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/auto.h"
#include "base/str.h"
#include "image/oci.h"

/* The kernel's words for processors, and those of images. */
static const struct {
	const char *machine, *arch, *variant;
} machines[] = {
	{ "x86_64", "amd64", "" },    { "aarch64", "arm64", "v8" },
	{ "riscv64", "riscv64", "" }, { "ppc64le", "ppc64le", "" },
	{ "s390x", "s390x", "" },
};

void oci_platform_host(struct oci_platform *p)
{
	struct utsname u = { 0 };
	size_t i;

	*p = (struct oci_platform){ .os = "linux" };
	if (uname(&u) < 0)
		return;
	snprintf(p->arch, sizeof(p->arch), "%.31s", u.machine);
	for (i = 0; i < ARRAY_LEN(machines); i++)
		if (strcmp(u.machine, machines[i].machine) == 0) {
			snprintf(p->arch, sizeof(p->arch), "%s",
				 machines[i].arch);
			snprintf(p->variant, sizeof(p->variant), "%s",
				 machines[i].variant);
		}
}

int oci_platform_parse(struct oci_platform *p, const char *s, struct err *e)
{
	char text[96], *at = text, *part;
	char *const out[] = { p->os, p->arch, p->variant };
	size_t n = 0;

	*p = (struct oci_platform){ 0 };
	if (str_copy(text, sizeof(text), s) < 0)
		goto bad;
	while ((part = strsep(&at, "/")))
		if (n == ARRAY_LEN(out) || !*part ||
		    str_copy(out[n++], sizeof(p->os), part) < 0)
			goto bad;
	if (n >= 2)
		return 0;
bad:
	return err_set(e, EINVAL,
		       "'%.64s' is not a platform like linux/amd64 or "
		       "linux/arm64/v8",
		       s);
}

/* What is not said fits everywhere. */
static bool same(const char *a, const char *b)
{
	return !*a || !*b || strcmp(a, b) == 0;
}

bool oci_platform_fits(const struct oci_platform *p,
		       const struct oci_platform *want)
{
	return same(p->os, want->os) && same(p->arch, want->arch);
}
