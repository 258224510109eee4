#include "cli/recipe.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/product.h"
#include "base/str.h"

/* The directory of our own program, without the slash. */
static void own_dir(char out[PATH_MAX])
{
	ssize_t n = readlink("/proc/self/exe", out, PATH_MAX - 1);
	char *slash;

	out[n < 0 ? 0 : n] = '\0';
	slash = strrchr(out, '/');
	if (slash)
		*slash = '\0';
}

/*
 * Beside an installed program, beside one that was just built (build/bin/),
 * or where `make install` puts things by default.
 */
static bool find_dir(struct recipe *r, const char *name)
{
	static const char *const places[] = {
		"/../share/" PRODUCT "/images/",
		"/../../images/",
	};
	const char *share = getenv("CARREL_SHARE");
	char own[PATH_MAX];
	size_t i;

	if (share && *share) {
		snprintf(r->dir, sizeof(r->dir), "%s/images/%s", share, name);
		return access(r->dir, F_OK) == 0;
	}
	own_dir(own);
	for (i = 0; i < ARRAY_LEN(places); i++) {
		int n = snprintf(r->dir, sizeof(r->dir), "%s%s%s", own,
				 places[i], name);

		if (n < (int)sizeof(r->dir) && access(r->dir, F_OK) == 0)
			return true;
	}
	snprintf(r->dir, sizeof(r->dir),
		 "/usr/local/share/" PRODUCT "/images/%s", name);
	return access(r->dir, F_OK) == 0;
}

/* `above`: the recipe's own list, not one that it names. */
static void load_packages(struct cli *cli, struct recipe *r, const char *dir,
			  bool above)
{
	char path[PATH_MAX + 128], line[256];
	FILE *f;

	snprintf(path, sizeof(path), "%s/packages", dir);
	f = fopen(path, "re");
	if (!f)
		fail(cli, "open %s: %s", path, strerror(errno));
	while (fgets(line, sizeof(line), f)) {
		const char *word = line + strspn(line, " \t");
		size_t n = strcspn(word, " \t\r\n#");

		if (n == 0)
			continue;
		if (*word == '@' && above) {
			snprintf(path, sizeof(path), "%s/../%.*s", dir,
				 (int)n - 1, word + 1);
			load_packages(cli, r, path, false);
			continue;
		}
		if (buf_len(&r->packages) > 0)
			buf_puts(&r->packages, ",");
		buf_add(&r->packages, word, n);
	}
	fclose(f);
}

static void load_start(struct recipe *r)
{
	char path[PATH_MAX + 32];
	FILE *f;

	snprintf(path, sizeof(path), "%s/start", r->dir);
	f = fopen(path, "re");
	if (!f)
		return;
	if (fgets(r->start, sizeof(r->start), f))
		r->start[strcspn(r->start, "\n")] = '\0';
	fclose(f);
}

bool recipe_exists(const char *name)
{
	struct recipe r = { 0 };

	return name_valid(name) && find_dir(&r, name);
}

void recipe_load(struct cli *cli, struct recipe *r, const char *name)
{
	*r = (struct recipe){ 0 };
	if (!name_valid(name) || !find_dir(r, name))
		fail(cli,
		     "there is no recipe '%.64s' (looked for %s; set "
		     "CARREL_SHARE to the directory that holds images/)",
		     name, *r->dir ? r->dir : "nothing: not a name");
	load_packages(cli, r, r->dir, true);
	load_start(r);
	snprintf(r->customize, sizeof(r->customize), "%s/customize.sh", r->dir);
	if (access(r->customize, F_OK) < 0)
		r->customize[0] = '\0';
	snprintf(r->dpkg_cfg, sizeof(r->dpkg_cfg), "%s/dpkg.cfg", r->dir);
	if (access(r->dpkg_cfg, F_OK) < 0)
		r->dpkg_cfg[0] = '\0';
}

void recipe_done(struct recipe *r)
{
	buf_done(&r->packages);
}
