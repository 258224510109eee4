/*
 * Build files of strangers. What is taken has a `from` in front and known
 * steps, and what it copies lies beside the file. The same bytes make the same
 * keys.
 */
#include <assert.h>
#include <sys/mman.h>

#include "base/fd.h"
/* The command line's files are not in the library. */
#include "cli/build_plan.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* What a source has is not what this is about. */
int tree_hash(const char *path, struct sha256 *h, struct err *e)
{
	sha256_add(h, path, strlen(path));
	return strstr(path, "gone") ? err_set(e, ENOENT, "%.40s", path) : 0;
}

/* How far a path comes up on its way, at most. */
static bool leaves(const char *path)
{
	int depth = 0;

	while (*path) {
		size_t n = strcspn(path, "/");

		if (n == 2 && memcmp(path, "..", 2) == 0)
			depth--;
		else if (n > 0 && !(n == 1 && *path == '.'))
			depth++;
		if (depth < 0)
			return true;
		path += n + strspn(path + n, "/");
	}
	return false;
}

static void check(struct plan *p)
{
	struct buf source = { 0 };
	size_t i;

	assert(p->n >= 1 && p->n <= PLAN_STEPS_MAX);
	assert(p->steps[0].kind == STEP_FROM);
	for (i = 0; i < p->n; i++) {
		const struct step *s = &p->steps[i];

		assert(step_word(s) && *s->text && s->line > 0);
		assert(i == 0 || s->line > p->steps[i - 1].line);
		assert((i == 0) == (s->kind == STEP_FROM));
		if (s->kind != STEP_COPY)
			continue;
		assert(step_is_disk(s) && *s->from != '/' && *s->to);
		assert(!leaves(s->from));
		step_source(p, s, &source);
		assert(strncmp(buf_str(&source), "dir/", 4) == 0);
	}
	buf_done(&source);
}

/* The whole way, by a file. */
static void load(const uint8_t *data, size_t n, int want)
{
	AUTO_CLOSE int fd = memfd_create("plan", MFD_CLOEXEC);
	static struct plan p;
	struct err e = { 0 };
	char path[32];

	if (fd < 0 || write_full(fd, data, n) < 0)
		abort();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	assert(plan_load(&p, path, &e) == want);
	plan_done(&p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static struct plan p, q;
	struct err e = { 0 };
	int r = plan_parse(&p, "dir/file", (const char *)data, n, &e);

	assert(r == 0 || (r == -e.code && *e.msg));
	load(data, n, r);
	if (r == 0) {
		check(&p);
		assert(plan_parse(&q, "dir/file", (const char *)data, n, &e) ==
		       0);
		if (plan_keys(&p, "i", &e) == 0) {
			assert(plan_keys(&q, "i", &e) == 0);
			assert(strcmp(p.steps[p.n - 1].key,
				      q.steps[q.n - 1].key) == 0);
		}
		plan_done(&q);
	}
	plan_done(&p);
	return 0;
}
