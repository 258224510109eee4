/*
 * The steps of a build file, one after another in a sandbox. After each that
 * changes the disk, the disk is saved as an image that is called by the key of
 * the step; a later build starts from the last step whose image is there.
 *
 * A step is a process of its own: whatever it does with signals, and however it
 * ends, this one goes on to remove the sandbox. The sandbox has a time limit,
 * for the case that we are killed ourselves.
 */
#include "cli/build_file.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/str.h"
#include "cli/build_plan.h"
#include "cli/image.h"
#include "cli/process.h"
#include "cli/progress.h"
#include "cli/server.h"
#include "cli/show.h"
#include "image/oci.h"

enum { TIME_LIMIT_S = 6 * 3600, KEPT_STEPS = 64, CACHE_NAME_CAP = 64 };

struct build {
	struct cli *cli;
	const struct build_file *f;
	struct plan plan;
	char name[64];
	char box[ID_CAP]; /* "": none */
	bool is_step; /* this process does one, and the sandbox is not its */
	struct process_opts process;
	json_t *base;   /* the image that it starts from */
	json_t *config; /* that the new one gets */
	struct progress progress;
};

static struct build b;
static volatile sig_atomic_t child_pid, interrupted;

/* --- the sandbox does not outlive us --- */

static void remove_box(void)
{
	struct http_call call = { .method = "DELETE" };
	char target[TARGET_CAP], why[MESSAGE_CAP];
	struct buf answer = { 0 };
	struct http_client c;
	struct err e = { 0 };

	if (!*b.box || b.is_step)
		return;
	server_target(b.cli, target, "/v1/sandboxes/", b.box);
	call.target = target;
	if (!server_try(b.cli, &c, why) ||
	    http_do(&c, &call, ANSWER_MAX, &answer, &e) < 0)
		complain("the sandbox %s is left; its time ends by itself",
			 b.box);
	*b.box = '\0';
}

static const int ends[] = { SIGINT, SIGTERM, SIGHUP };

/* A step hears of it, and may go on; the second time it may not. */
static void on_signal(int number)
{
	if (child_pid > 0)
		kill(child_pid, interrupted ? SIGKILL : number);
	interrupted = number;
}

static void set_signals(void (*handler)(int))
{
	struct sigaction a = { .sa_handler = handler, .sa_flags = SA_RESTART };
	size_t i;

	for (i = 0; i < ARRAY_LEN(ends); i++)
		sigaction(ends[i], &a, NULL);
}

/* SIG_BLOCK or SIG_UNBLOCK: none gets lost around a fork. */
static void hold_signals(int how)
{
	sigset_t set;
	size_t i;

	sigemptyset(&set);
	for (i = 0; i < ARRAY_LEN(ends); i++)
		sigaddset(&set, ends[i]);
	sigprocmask(how, &set, NULL);
}

/* --- the daemon --- */

/* The status; a refusal has been complained about, with `s` in front. */
static int ask(const struct step *s, const char *method, const char *target,
	       json_t *body, json_t **out)
{
	AUTO_FREE char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
	struct http_call call = { .method = method,
				  .target = target,
				  .body = text,
				  .body_n = text ? strlen(text) : 0 };
	char message[MESSAGE_CAP];
	struct http_client c;
	int status;

	json_decref(body);
	server_open(b.cli, &c);
	status = server_call(b.cli, &c, &call, out);
	http_client_done(&c);
	if (status / 100 == 2 || !s)
		return status;
	progress_clear(&b.progress);
	server_message(status, *out, message);
	complain("%s:%u: %s", b.plan.path, s->line, message);
	return status;
}

static json_t *find_image(const char *name)
{
	char target[TARGET_CAP];
	json_t *j = NULL;

	server_target(b.cli, target, "/v1/images/", name);
	if (ask(NULL, "GET", target, NULL, &j) / 100 == 2)
		return j;
	json_decref(j);
	return NULL;
}

static void cache_name(const struct step *s, char out[CACHE_NAME_CAP])
{
	snprintf(out, CACHE_NAME_CAP, IMAGE_STEP "%.32s", s->key);
}

static bool is_cached(const struct step *s)
{
	char name[CACHE_NAME_CAP];
	json_t *j;
	bool same;

	cache_name(s, name);
	j = find_image(name);
	same = j && strcmp(show_str(j, "cache"), s->key) == 0;
	json_decref(j);
	return same;
}

static bool save(const struct step *s, const char *name, json_t *config,
		 json_t **out)
{
	char target[TARGET_CAP], state[ID_CAP + 16];
	int status;

	server_target(b.cli, target, "/v1/images/", name);
	snprintf(state, sizeof(state), "sandbox:%s", b.box);
	status = ask(s, "POST", target,
		     json_pack("{s:s, s:s, s:o}", "snapshot", state, "cache",
			       s->key, "config", config),
		     out);
	return status / 100 == 2;
}

static bool open_box(const struct step *s, const char *image)
{
	json_t *j = NULL;
	int status = ask(s, "POST", "/v1/sandboxes",
			 json_pack("{s:s, s:b, s:i, s:{s:s}}", "image", image,
				   "sudo", 1, "timeout", TIME_LIMIT_S, "labels",
				   "build", b.name),
			 &j);

	if (status / 100 == 2)
		(void)!str_copy(b.box, sizeof(b.box), show_str(j, "id"));
	json_decref(j);
	return *b.box;
}

/* --- steps --- */

static int do_run(const struct step *s)
{
	char shell[] = "/bin/sh", flag[] = "-c";
	char *argv[] = { shell, flag, (char *)s->text, NULL };

	b.process.no_input = true;
	return process_run(b.cli, &b.process, b.box, NULL, argv);
}

/* Directories: what is in them goes into DST. "DST/": the file in it. */
static int do_copy(const struct step *s)
{
	AUTO(buf_done) struct buf from = { 0 }, to = { 0 };
	const char *name = strrchr(s->from, '/');
	size_t n = strlen(s->to);
	char copy[] = "cp", user[] = "--user=root", parents[] = "--parents";
	struct stat st;

	step_source(&b.plan, s, &from);
	if (stat(buf_str(&from), &st) < 0)
		fail(b.cli, "%s: %m", buf_str(&from));
	buf_printf(&to, "%s:", b.box);
	if (*s->to != '/')
		buf_printf(&to, "%s/",
			   b.process.workdir ? b.process.workdir : "");
	buf_puts(&to, s->to);
	if (S_ISDIR(st.st_mode))
		buf_puts(&from, "/.");
	else if (n > 0 && s->to[n - 1] == '/')
		buf_puts(&to, name ? name + 1 : s->from);
	{
		char *argv[] = { copy,           user,         parents,
				 buf_str(&from), buf_str(&to), NULL };

		return verb_cp(b.cli, 5, argv);
	}
}

static int do_workdir(const struct step *s)
{
	char mkdir_[] = "/bin/mkdir", flag[] = "-p";
	char *argv[] = { mkdir_, flag, (char *)s->text, NULL };
	struct process_opts p = { .no_input = true, .user = "root" };

	return process_run(b.cli, &p, b.box, NULL, argv);
}

/* What a step does belongs on stderr: stdout has the result. */
static void __attribute__((noreturn)) step_child(const struct step *s)
{
	int code;

	b.is_step = true;
	set_signals(SIG_DFL);
	hold_signals(SIG_UNBLOCK);
	if (dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
		_exit(EXIT_FAILED);
	if (s->kind == STEP_RUN)
		code = do_run(s);
	else
		code = s->kind == STEP_COPY ? do_copy(s) : do_workdir(s);
	fflush(NULL);
	_exit(code);
}

static bool run_step(const struct step *s)
{
	int status = 0;
	pid_t pid;

	fflush(NULL);
	hold_signals(SIG_BLOCK);
	if (interrupted) { /* when there was no step that could be told */
		hold_signals(SIG_UNBLOCK);
		return false;
	}
	pid = fork();
	if (pid < 0)
		fail(b.cli, "start a process: %m");
	if (pid == 0)
		step_child(s);
	child_pid = pid;
	hold_signals(SIG_UNBLOCK);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	child_pid = 0;
	if (status == 0 || interrupted)
		return status == 0;
	if (WIFEXITED(status))
		complain("%s:%u: %s failed with exit code %d", b.plan.path,
			 s->line, step_word(s), WEXITSTATUS(status));
	else
		complain("%s:%u: %s was ended by signal %d", b.plan.path,
			 s->line, step_word(s), WTERMSIG(status));
	return false;
}

/* --- what the image will say --- */

static void put_env(json_t *list, const char *text)
{
	size_t n = strcspn(text, "=") + 1, i;
	json_t *v;

	json_array_foreach (list, i, v)
		if (strncmp(json_string_value(v), text, n) == 0) {
			json_array_set_new(list, i, json_string(text));
			return;
		}
	json_array_append_new(list, json_string(text));
}

/* For us, and for others that run the image one day. */
static void put_start(const char *text)
{
	json_object_set_new(json_object_get(b.config, "Labels"),
			    OCI_LABEL_START, json_string(text));
	json_object_set_new(b.config, "Entrypoint", json_array());
	json_object_set_new(b.config, "Cmd",
			    json_pack("[s, s, s]", "/bin/sh", "-c", text));
}

/* Steps that are said rather than done; also of those that are skipped. */
static void note_step(const struct step *s)
{
	struct process_opts *p = &b.process;

	switch (s->kind) {
	case STEP_ENV:
		if (p->env.n == OPT_LIST_MAX)
			fail(b.cli, "%s:%u: over %d variables", b.plan.path,
			     s->line, OPT_LIST_MAX);
		p->env.v[p->env.n++] = s->text;
		put_env(json_object_get(b.config, "Env"), s->text);
		break;
	case STEP_USER:
		p->user = s->text;
		json_object_set_new(b.config, "User", json_string(s->text));
		break;
	case STEP_WORKDIR:
		p->workdir = s->text;
		json_object_set_new(b.config, "WorkingDir",
				    json_string(s->text));
		break;
	case STEP_START:
		put_start(s->text);
		break;
	case STEP_FROM:
	case STEP_RUN:
	case STEP_COPY:
	case STEP_KINDS:
		break;
	}
}

static void start_config(void)
{
	const json_t *old = json_object_get(b.base, "config");
	const json_t *env = json_object_get(old, "Env");
	const json_t *labels = json_object_get(old, "Labels");

	b.config = json_pack("{s:o, s:o}", "Env",
			     env ? json_deep_copy(env) : json_array(), "Labels",
			     labels ? json_deep_copy(labels) : json_object());
}

/* --- the whole --- */

static void say_step(size_t i, const char *note)
{
	const struct step *s = &b.plan.steps[i];
	char text[256];

	clean_text(text, sizeof(text), s->text);
	fprintf(stderr, "step %zu/%zu: %s %s%s%s%s\n", i + 1, b.plan.n,
		step_word(s), text, s->kind == STEP_COPY ? " " : "",
		s->kind == STEP_COPY ? s->to : "", note);
}

/* The step behind the last one whose disk is there. */
static size_t first_to_do(void)
{
	size_t i;

	for (i = b.f->fresh ? 0 : b.plan.n; i > 0; i--)
		if (step_is_disk(&b.plan.steps[i - 1]) &&
		    is_cached(&b.plan.steps[i - 1]))
			return i;
	return 0;
}

static bool do_step(size_t i)
{
	const struct step *s = &b.plan.steps[i];
	char name[CACHE_NAME_CAP];
	json_t *j = NULL;
	bool ok;

	say_step(i, "");
	if (!step_is_disk(s)) {
		note_step(s);
		return true;
	}
	if (!run_step(s) || interrupted)
		return false;
	note_step(s);
	cache_name(s, name);
	ok = save(s, name, json_object(), &j);
	json_decref(j);
	return ok && !interrupted;
}

static bool do_steps(void)
{
	size_t first = first_to_do(), i;
	char image[CACHE_NAME_CAP];

	(void)!str_copy(image, sizeof(image), b.plan.steps[0].text);
	if (first > 0)
		cache_name(&b.plan.steps[first - 1], image);
	for (i = 0; i < first; i++) {
		say_step(i,
			 step_is_disk(&b.plan.steps[i]) ? " (as before)" : "");
		note_step(&b.plan.steps[i]);
	}
	if (!open_box(&b.plan.steps[first > 0 ? first - 1 : 0], image))
		return false;
	for (i = first; i < b.plan.n; i++)
		if (interrupted || !do_step(i))
			return false;
	return !interrupted;
}

static int by_age(const void *x, const void *y)
{
	return strcmp(show_str(*(json_t *const *)x, "created_at"),
		      show_str(*(json_t *const *)y, "created_at"));
}

/* The oldest disks of steps go, so that they do not fill the pool. */
static void forget_old(void)
{
	json_t *j = server_get(b.cli, "GET", "/v1/images", NULL), *v;
	const json_t *list = json_object_get(j, "images");
	json_t **steps = xcalloc(json_array_size(list) + 1, sizeof(*steps));
	char target[TARGET_CAP];
	size_t i, n = 0;

	json_array_foreach (list, i, v)
		if (str_starts(show_str(v, "name"), IMAGE_STEP))
			steps[n++] = v;
	qsort(steps, n, sizeof(*steps), by_age);
	for (i = 0; i + KEPT_STEPS < n; i++) {
		json_t *answer = NULL;

		server_target(b.cli, target, "/v1/images/",
			      show_str(steps[i], "name"));
		(void)ask(NULL, "DELETE", target, NULL, &answer);
		json_decref(answer);
	}
	free(steps);
	json_decref(j);
}

static void set_name(const char *path)
{
	const char *base = strrchr(path, '/');

	base = base ? base + 1 : path;
	snprintf(b.name, sizeof(b.name), "%.*s", (int)strcspn(base, "."), base);
	if (b.f->name && str_copy(b.name, sizeof(b.name), b.f->name) < 0)
		fail(b.cli, "the name is too long: %s", b.f->name);
}

static void prepare(void)
{
	struct err e = { 0 };

	if (plan_load(&b.plan, b.f->path, &e) < 0)
		fail(b.cli, "%s", e.msg);
	set_name(b.f->path);
	b.base = find_image(b.plan.steps[0].text);
	if (!b.base)
		fail(b.cli, "%s:%u: there is no image '%s' (carrel image ls)",
		     b.f->path, b.plan.steps[0].line, b.plan.steps[0].text);
	if (plan_keys(&b.plan, show_str(b.base, "id"), &e) < 0)
		fail(b.cli, "%s", e.msg);
	b.process.user = "root";
	b.process.workdir = "/";
	start_config();
}

static int finish(void)
{
	struct upload u = { .name = b.name, .progress = &b.progress };
	json_t *j = NULL;

	if (!save(&b.plan.steps[b.plan.n - 1], b.name, b.config, &j)) {
		json_decref(j);
		return EXIT_FAILED;
	}
	remove_box();
	forget_old();
	if (b.f->json)
		print_json(j);
	else
		image_say(&u, j);
	json_decref(j);
	return 0;
}

int build_file(struct cli *cli, const struct build_file *f)
{
	int code = EXIT_FAILED;

	b.cli = cli;
	b.f = f;
	prepare();
	progress_init(&b.progress);
	set_signals(on_signal);
	atexit(remove_box);
	if (do_steps())
		code = finish();
	if (interrupted) {
		complain("interrupted");
		code = EXIT_SIGNAL + interrupted;
	}
	remove_box();
	json_decref(b.base);
	plan_done(&b.plan);
	return code;
}
