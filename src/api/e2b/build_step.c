#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "api/api.h"
#include "api/e2b/build.h"
#include "api/json_text.h"
#include "base/auto.h"

enum { STEP_ARGS_MAX = 256 };

static const char *arg(const json_t *step, size_t i)
{
	const char *s = json_string_value(
		json_array_get(json_object_get(step, "args"), i));

	return s ? s : "";
}

static const json_t *now(const struct build_work *w)
{
	return json_array_get(json_object_get(w->plan, "steps"), w->i - 1);
}

/* Messages name a command, not all of it. */
static const char *cut(const char *s, char out[BUILD_TAIL])
{
	size_t n = strlen(s);

	snprintf(out, BUILD_TAIL, "%.*s%s", BUILD_TAIL - 8, s,
		 n > BUILD_TAIL - 8 ? "..." : "");
	return out;
}

/* False: it failed, and so has the build. */
static bool ran_well(struct build_work *w, const char *what)
{
	char text[BUILD_TAIL];

	if (w->code == 0 && !*w->why)
		return true;
	cut(what, text);
	/* As E2B's servers say it: clients compare it. */
	if (str_starts(w->why, "user '"))
		build_fail(w,
			   "failed to run command '%s': command failed: "
			   "unauthenticated: invalid username: '%.*s'",
			   text, (int)strcspn(w->why + 6, "'"), w->why + 6);
	else if (*w->why)
		build_fail(w, "failed to run command '%s': %s", text, w->why);
	else if (w->code < 0)
		build_fail(w,
			   "failed to run command '%s': command failed: "
			   "killed by a signal",
			   text);
	else
		build_fail(w,
			   "failed to run command '%s': command failed: exit "
			   "status %d",
			   text, w->code);
	return false;
}

/* --- RUN --- */

/* The shell that people expect, where there is one. */
#define SHELL_SCRIPT                                                  \
	"[ -x /bin/bash ] && exec /bin/bash -c \"$1\"; exec /bin/sh " \
	"-c \"$1\""

static void on_run(struct build_work *w)
{
	if (ran_well(w, arg(now(w), 0)))
		build_step_done(w);
}

static void do_run(struct build_work *w, const json_t *step)
{
	const char *const argv[] = { "/bin/sh", "-c",         SHELL_SCRIPT,
				     "sh",      arg(step, 0), NULL };
	struct build_process p = { .argv = argv };
	char was[BUILD_USER_CAP];
	const char *user = arg(step, 1);

	build_logf(w, "info", "RUN %s", arg(step, 0));
	if (!*user) {
		build_run(w, &p, on_run);
		return;
	}
	/* Another user for this one, in the same directory. */
	memcpy(was, w->user, sizeof(was));
	if (str_copy(w->user, sizeof(w->user), user) < 0) {
		memcpy(w->user, was, sizeof(was));
		build_fail(w, "the name of the user is too long");
		return;
	}
	build_run(w, &p, on_run);
	memcpy(w->user, was, sizeof(was));
}

/* --- COPY --- */

#define COPY_PATH "/.e2b-copy"

/*
 * $1 what it is called, $2 where it goes, $3 owner, $4 mode, $5 the directory
 * that a pattern is about. A directory's contents go into the target, whose
 * own owner and mode stay what they are.
 */
static const char copy_script[] =
	"set -e\n"
	"src=$1 dest=$2 owner=$3 mode=$4 top=$5 a=" COPY_PATH " d=" COPY_PATH
	".d\n"
	"rm -rf $d; mkdir $d\n"
	"tar -xzf $a -C $d 2>/dev/null || tar -xf $a -C $d\n"
	"rm -f $a\n"
	"case $owner in\n"
	"*:*) ;;\n"
	"*) group=$(id -g \"$owner\" 2>/dev/null) && owner=$owner:$group || "
	":;;\n"
	"esac\n"
	"chown -R -h \"$owner\" $d\n"
	"[ -z \"$mode\" ] || find $d -type f -exec chmod \"$mode\" {} +\n"
	"into() {\n"
	"	[ -d \"$dest\" ] || { mkdir -p \"$dest\"; chown \"$owner\" "
	"\"$dest\"; }\n"
	"	for f in \"$@\"; do\n"
	"		[ -e \"$f\" ] || [ -L \"$f\" ] || continue\n"
	"		cp -a \"$f\" \"${dest%/}/\"\n"
	"	done\n"
	"}\n"
	"as() {\n"
	"	if [ -d \"$dest\" ] || [ \"${dest%/}\" != \"$dest\" ]; then\n"
	"		into \"$1\"\n"
	"		return\n"
	"	fi\n"
	"	up=${dest%/*}\n"
	"	[ -d \"$up/\" ] || { mkdir -p \"$up\"; chown \"$owner\" "
	"\"$up\"; "
	"}\n"
	"	cp -a \"$1\" \"$dest\"\n"
	"}\n"
	"all() { into \"$1\"/* \"$1\"/.[!.]* \"$1\"/..?*; }\n"
	"p=$d/$src\n"
	"if [ -d \"$p\" ] && [ ! -L \"$p\" ]; then\n"
	"	all \"$p\"\n"
	"elif [ -e \"$p\" ] || [ -L \"$p\" ]; then\n"
	"	as \"$p\"\n"
	"else\n"
	"	p=$d/$top; set -- \"$p\"/*\n"
	"	if [ $# = 1 ] && [ -f \"$1\" ]; then as \"$1\"; else all "
	"\"$p\"; fi\n"
	"fi\n"
	"rm -rf $d\n";

/* An absolute path, from the directory that steps are in. */
static int resolve(const struct build_work *w, const char *path,
		   char out[BUILD_PATH_CAP])
{
	size_t n = strlen(w->workdir);
	int len =
		*path == '/'
			? snprintf(out, BUILD_PATH_CAP, "%s", path)
			: snprintf(out, BUILD_PATH_CAP, "%s%s%s", w->workdir,
				   n > 0 && w->workdir[n - 1] == '/' ? "" : "/",
				   path);

	return len > 0 && len < BUILD_PATH_CAP ? 0 : -ENAMETOOLONG;
}

/* "a/b/x-*.c" is about "a/b". */
static void pattern_top(const char *src, char out[BUILD_PATH_CAP])
{
	size_t n = strcspn(src, "*?[{");

	snprintf(out, BUILD_PATH_CAP, "%.*s", (int)n, src);
	n = strlen(out);
	while (n > 0 && out[n - 1] != '/')
		n--;
	out[n] = '\0';
}

static void on_copied(struct build_work *w)
{
	char what[BUILD_TAIL];

	snprintf(what, sizeof(what), "COPY %.60s %.60s", arg(now(w), 0),
		 arg(now(w), 1));
	if (ran_well(w, what))
		build_step_done(w);
}

static const char *plain(const char *path)
{
	while (str_starts(path, "./"))
		path += 2;
	return path;
}

static void unpack(struct build_work *w)
{
	const json_t *step = now(w);
	const char *owner = arg(step, 2), *src = plain(arg(step, 0));
	char dest[BUILD_PATH_CAP], top[BUILD_PATH_CAP];
	const char *const argv[] = { "/bin/sh",
				     "-c",
				     copy_script,
				     "sh",
				     src,
				     dest,
				     *owner ? owner : w->user,
				     arg(step, 3),
				     top,
				     NULL };
	const struct build_process p = { .argv = argv, .user = "0" };

	if (resolve(w, arg(step, 1), dest) < 0) {
		build_fail(w, "the path is too long: %.100s", arg(step, 1));
		return;
	}
	pattern_top(src, top);
	build_run(w, &p, on_copied);
}

static void send_more(struct inner *in)
{
	struct build_work *w = container_of(in, struct build_work, run);
	char piece[BUILD_PIECE];

	while (in->sending) {
		ssize_t n = pread(w->file_fd, piece, sizeof(piece),
				  (off_t)w->file_at);

		if (n < 0) {
			inner_close(in);
			build_fail(w, "read the archive: %m");
			return;
		}
		if (n == 0) {
			inner_send_end(in);
			return;
		}
		if (inner_send(in, piece, (size_t)n) == 0)
			return; /* until there is room */
		w->file_at += (uint64_t)n;
	}
}

static void on_sent(struct inner *in, bool whole)
{
	struct build_work *w = container_of(in, struct build_work, run);

	close(w->file_fd);
	w->file_fd = -1;
	if (whole && in->status / 100 == 2)
		unpack(w);
	else
		build_fail(w,
			   "the files could not be sent into the sandbox "
			   "(%d): is its disk full?",
			   in->status);
}

static const struct inner_ops send_ops = { .room = send_more,
					   .ended = on_sent };

static void do_copy(struct build_work *w, const json_t *step)
{
	const char *hash =
		json_string_value(json_object_get(step, "filesHash"));
	const struct build_file *f =
		build_file_find(w->api, w->build->of->project, hash);
	char target[BUILD_TARGET_CAP];
	const struct inner_request q = {
		.method = "PUT",
		.target = build_target(
			w, "/files/content?user=0&mode=0600&path=" COPY_PATH,
			target),
		.stream = true
	};
	struct err e = { 0 };

	build_logf(w, "info", "COPY %s %s", arg(step, 0), arg(step, 1));
	if (!f) {
		build_fail(w,
			   "the files of '%s' were not uploaded, or too "
			   "long ago: build it again",
			   arg(step, 0));
		return;
	}
	w->file_fd = fcntl(f->fd, F_DUPFD_CLOEXEC, 3);
	if (w->file_fd < 0) {
		build_fail(w, "open the archive: %m");
		return;
	}
	w->file_at = 0;
	w->run = (struct inner){ .ops = &send_ops };
	if (inner_start(&w->run, w->api, &w->who, w->request, &q, &e) < 0)
		build_fail(w, "%s", e.msg);
	else
		send_more(&w->run);
}

/* --- WORKDIR, USER --- */

static void on_workdir(struct build_work *w)
{
	if (ran_well(w, "WORKDIR"))
		build_step_done(w);
}

static void do_workdir(struct build_work *w, const json_t *step)
{
	static const char script[] =
		"[ -d \"$1\" ] || { mkdir -p \"$1\" && chown \"$2\" \"$1\"; }";
	char dir[BUILD_PATH_CAP];
	const char *const argv[] = { "/bin/sh", "-c",    script, "sh",
				     dir,       w->user, NULL };
	const struct build_process p = { .argv = argv, .user = "0" };

	build_logf(w, "info", "WORKDIR %s", arg(step, 0));
	if (resolve(w, arg(step, 0), dir) < 0) {
		build_fail(w, "the path is too long: %.100s", arg(step, 0));
		return;
	}
	memcpy(w->workdir, dir, sizeof(w->workdir));
	build_run(w, &p, on_workdir);
}

static void on_user(struct build_work *w)
{
	if (ran_well(w, "USER"))
		build_step_done(w);
}

/* Who does not exist is found out here, not by the first who needs it. */
static void do_user(struct build_work *w, const json_t *step)
{
	static const char *const argv[] = { "/bin/sh", "-c", ":", NULL };
	const struct build_process p = { .argv = argv,
					 .user = arg(step, 0),
					 .quiet = true };

	build_logf(w, "info", "USER %s", arg(step, 0));
	if (str_copy(w->user, sizeof(w->user), arg(step, 0)) < 0)
		build_fail(w, "the name of the user is too long");
	else
		build_run(w, &p, on_user);
}

/* --- ENV --- */

static void env_more(struct build_work *w);

static void on_value(struct build_work *w)
{
	const json_t *step = now(w);

	if (!ran_well(w, arg(step, w->arg)))
		return;
	json_object_set_new(w->env, arg(step, w->arg),
			    json_lossy(buf_data(&w->said), buf_len(&w->said)));
	w->arg += 2;
	env_more(w);
}

/* What a value says of other variables is known inside. */
static void env_more(struct build_work *w)
{
	static const char script[] = "eval \"printf %s \\\"$1\\\"\"";
	const json_t *step = now(w);
	size_t n = json_array_size(json_object_get(step, "args"));

	for (; w->arg + 1 < n; w->arg += 2) {
		const char *value = arg(step, w->arg + 1);
		const char *const argv[] = { "/bin/sh", "-c",  script,
					     "sh",      value, NULL };
		const struct build_process p = { .argv = argv, .keep = true };

		if (strchr(value, '$')) {
			build_run(w, &p, on_value);
			return;
		}
		json_object_set_new(w->env, arg(step, w->arg),
				    json_string(value));
	}
	if (json_object_size(w->env) > SPEC_ENV_MAX)
		build_fail(w, "over %d variables", SPEC_ENV_MAX);
	else
		build_step_done(w);
}

static void do_env(struct build_work *w, const json_t *step)
{
	size_t i, n = json_array_size(json_object_get(step, "args"));

	for (i = 0; i + 1 < n; i += 2)
		build_logf(w, "info", "ENV %s", arg(step, i));
	w->arg = 0;
	env_more(w);
}

/* --- all of them --- */

static const struct {
	const char *type;
	size_t min, max; /* arguments */
	void (*fn)(struct build_work *w, const json_t *step);
} kinds[] = {
	{ "RUN", 1, 2, do_run },
	{ "COPY", 2, 4, do_copy },
	{ "WORKDIR", 1, 1, do_workdir },
	{ "USER", 1, 1, do_user },
	{ "ENV", 2, STEP_ARGS_MAX, do_env },
};

static size_t kind_of(const json_t *step)
{
	const char *type = json_string_value(json_object_get(step, "type"));
	size_t i;

	for (i = 0; type && i < ARRAY_LEN(kinds); i++)
		if (strcmp(kinds[i].type, type) == 0)
			return i;
	return ARRAY_LEN(kinds);
}

static int check_hash(const json_t *step, struct err *e)
{
	const char *hash =
		json_string_value(json_object_get(step, "filesHash"));

	return hash && build_hash_valid(hash)
		       ? 0
		       : err_set(e, EINVAL, "filesHash: not a SHA-256");
}

int build_check_step(const json_t *step, struct err *e)
{
	const json_t *args = json_object_get(step, "args"), *v;
	size_t kind = kind_of(step), n = json_array_size(args), i;

	if (kind == ARRAY_LEN(kinds))
		return err_set(e, EINVAL,
			       "type: not RUN, COPY, WORKDIR, USER or ENV");
	if (n < kinds[kind].min || n > kinds[kind].max ||
	    (kinds[kind].fn == do_env && n % 2))
		return err_set(e, EINVAL, "args: too few or too many");
	json_array_foreach (args, i, v)
		if (!json_is_string(v) ||
		    strlen(json_string_value(v)) != json_string_length(v))
			return err_set(e, EINVAL, "args: not strings");
	if (!*arg(step, 0))
		return err_set(e, EINVAL, "args: the first is empty");
	return kinds[kind].fn == do_copy ? check_hash(step, e) : 0;
}

void build_step(struct build_work *w, const json_t *step)
{
	kinds[kind_of(step)].fn(w, step);
}
