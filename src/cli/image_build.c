/*
 * carrel image build: Debian packages become an image.
 *
 * mmdebstrap makes the tree and writes it as a tar to a pipe, which goes
 * straight to the daemon: nothing is kept on this side. What it says goes to a
 * log file, of which we read the end to tell which phase it is in: a file can
 * never block it, and is there to be read when it failed.
 *
 * A tar that was cut off because mmdebstrap failed must not become an image.
 * So the end of the pipe means success only when the exit code says so.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fd.h"
#include "base/product.h"
#include "base/str.h"
#include "cli/build_file.h"
#include "cli/image.h"
#include "cli/recipe.h"

enum { TICK_MS = 200, TAIL_LINES = 12, TAIL_BYTES = 4096 };

/* The beginning of a line of mmdebstrap, and what we call what follows it. */
static const struct phase {
	const char *line, *text;
} phases[] = {
	{ "I: running apt-get update", "fetching the lists of packages" },
	{ "I: downloading packages", "downloading packages" },
	{ "I: extracting archives", "unpacking the base system" },
	{ "I: installing essential", "installing the base system" },
	{ "I: installing remaining", "installing packages" },
	{ "I: running --customize-hook", "configuring" },
	{ "I: cleaning", "cleaning up" },
	{ "I: creating tarball", "packing" },
};

struct build {
	struct progress progress;
	char log_path[64];
	int log_fd;
	char line[256]; /* of the log, as far as it was read */
	size_t line_n;
	pid_t pid; /* of mmdebstrap; 0 when it was waited for */
	int status;
};

/* For the signal handler: mmdebstrap then cleans up and fails. */
static volatile sig_atomic_t child_pid, interrupted;

static void on_signal(int number)
{
	interrupted = number;
	if (child_pid > 0)
		kill(child_pid, SIGTERM);
}

static void catch_signals(void)
{
	static const int numbers[] = { SIGINT, SIGTERM, SIGHUP };
	struct sigaction a = { .sa_handler = on_signal,
			       .sa_flags = SA_RESTART };
	size_t i;

	for (i = 0; i < ARRAY_LEN(numbers); i++)
		sigaction(numbers[i], &a, NULL);
}

static void take_line(struct build *b)
{
	size_t i;

	b->line[b->line_n] = '\0';
	b->line_n = 0;
	for (i = 0; i < ARRAY_LEN(phases); i++)
		if (str_starts(b->line, phases[i].line))
			progress_phase(&b->progress, phases[i].text);
}

/* Reads what the log has grown by. */
static void read_log(struct build *b)
{
	char piece[4096];
	ssize_t n, i;

	while ((n = read(b->log_fd, piece, sizeof(piece))) > 0)
		for (i = 0; i < n; i++) {
			if (piece[i] == '\n')
				take_line(b);
			else if (b->line_n + 1 < sizeof(b->line))
				b->line[b->line_n++] = piece[i];
		}
	progress_tick(&b->progress);
}

/* Two opens of the log: what the child writes does not move our position. */
static int open_log(struct cli *cli, struct build *b)
{
	const char *tmp = getenv("TMPDIR");
	int fd;

	if (!tmp || *tmp != '/' || strlen(tmp) > 32)
		tmp = "/tmp";
	snprintf(b->log_path, sizeof(b->log_path),
		 "%s/" PRODUCT "-build.XXXXXX", tmp);
	fd = mkostemp(b->log_path, O_CLOEXEC | O_APPEND);
	if (fd < 0)
		fail(cli, "create %s: %m", b->log_path);
	b->log_fd = open(b->log_path, O_RDONLY | O_CLOEXEC);
	if (b->log_fd < 0)
		fail(cli, "open %s: %m", b->log_path);
	return fd;
}

/* Starts `argv` with its stdout in a pipe and its stderr in the log. */
static int start(struct cli *cli, struct build *b, char *const *argv)
{
	AUTO_CLOSE int log_fd = open_log(cli, b);
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) < 0)
		fail(cli, "make a pipe: %m");
	/* Larger pieces on their way to the daemon. */
	fcntl(fds[1], F_SETPIPE_SZ, 1 << 20);
	b->pid = fork();
	if (b->pid < 0)
		fail(cli, "start %s: %m", argv[0]);
	if (b->pid == 0) {
		int null_fd = open("/dev/null", O_RDONLY);

		if (dup2(null_fd, STDIN_FILENO) < 0 ||
		    dup2(fds[1], STDOUT_FILENO) < 0 ||
		    dup2(log_fd, STDERR_FILENO) < 0)
			_exit(EXIT_CANNOT_RUN);
		/* Phases are read from what it says: not in other languages */
		setenv("LC_ALL", "C.UTF-8", 1);
		/* The whole system is unpacked there, and on Debian 13 /tmp
		 * is in memory. */
		setenv("TMPDIR", "/var/tmp", 0);
		execvp(argv[0], argv);
		dprintf(STDERR_FILENO, "%s: %s\n", argv[0], strerror(errno));
		_exit(EXIT_NOT_FOUND);
	}
	child_pid = b->pid;
	close(fds[1]);
	return fds[0];
}

static void wait_child(struct build *b)
{
	if (b->pid == 0)
		return;
	while (waitpid(b->pid, &b->status, 0) < 0 && errno == EINTR)
		;
	b->pid = child_pid = 0;
}

static int at_end(void *ctx, struct err *e)
{
	struct upload *u = ctx;
	struct build *b = u->ctx;

	wait_child(b);
	if (b->status != 0)
		return err_set(e, ECANCELED, "mmdebstrap failed");
	return 0;
}

/* All of mmdebstrap's work is done before the first byte of the tar. */
static void wait_for_tar(struct build *b, int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	for (;;) {
		int n = poll(&p, 1, TICK_MS);

		read_log(b);
		if (n > 0)
			return;
	}
}

static void show_tail(const struct build *b)
{
	char text[TAIL_BYTES + 1], line[256], *at, *next;
	off_t size = lseek(b->log_fd, 0, SEEK_END);
	int lines = 0;
	ssize_t n = pread(b->log_fd, text, TAIL_BYTES,
			  size > TAIL_BYTES ? size - TAIL_BYTES : 0);

	if (n <= 0)
		return;
	while (n > 0 && text[n - 1] == '\n')
		n--;
	text[n] = '\0';
	for (at = text + n; at > text && lines < TAIL_LINES; at--)
		if (at[-1] == '\n' && ++lines == TAIL_LINES)
			break;
	while ((next = strsep(&at, "\n"))) {
		clean_text(line, sizeof(line), next);
		fprintf(stderr, "  %s\n", line);
	}
}

static int failed(struct build *b)
{
	/* An early refusal of the daemon leaves it running. */
	if (b->pid > 0)
		kill(b->pid, SIGTERM);
	wait_child(b);
	if (interrupted) {
		unlink(b->log_path);
		complain("interrupted");
		return EXIT_SIGNAL + interrupted;
	}
	if (b->status != 0) {
		show_tail(b);
		complain("the whole log of mmdebstrap: %s", b->log_path);
	}
	return EXIT_FAILED;
}

/* The exit code; `u` says how the image is called. */
static int build(struct cli *cli, struct upload *u, char *const *argv,
		 bool json)
{
	static struct build b;
	AUTO_CLOSE int fd = -1;
	json_t *image = NULL;

	u->progress = &b.progress;
	u->at_end = at_end;
	u->ctx = &b;
	catch_signals();
	progress_init(&b.progress);
	progress_phase(&b.progress, "starting mmdebstrap");
	fd = u->fd = start(cli, &b, argv);
	wait_for_tar(&b, fd);
	if (!interrupted)
		image = image_upload(cli, u);
	progress_clear(&b.progress);
	if (!image)
		return failed(&b);
	if (json)
		print_json(image);
	else
		image_say(u, image);
	json_decref(image);
	unlink(b.log_path);
	close(b.log_fd);
	return 0;
}

static bool in_path(const char *program)
{
	char path[PATH_MAX];
	const char *dirs = getenv("PATH");

	if (!dirs)
		dirs = "/usr/sbin:/usr/bin:/sbin:/bin";
	while (*dirs) {
		size_t n = strcspn(dirs, ":");

		snprintf(path, sizeof(path), "%.*s/%s", (int)n, dirs, program);
		if (access(path, X_OK) == 0)
			return true;
		dirs += n + (dirs[n] == ':');
	}
	return false;
}

struct build_opts {
	const char *name, *suite, *mirror;
	struct opt_list include;
	bool json, fresh;
};

static int run_recipe(struct cli *cli, const char *recipe,
		      const struct build_opts *o)
{
	static struct recipe r;
	static struct buf include, hook, dpkg;
	const char *argv[12] = { "mmdebstrap", "--variant=minbase",
				 "--format=tar" };
	struct upload u = { .name = o->name ? o->name : recipe };
	size_t n = 3, i;
	int code;

	recipe_load(cli, &r, recipe);
	u.start = *r.start ? r.start : NULL;
	buf_printf(&include, "--include=%s", buf_str(&r.packages));
	for (i = 0; i < o->include.n; i++)
		buf_printf(&include, ",%s", o->include.v[i]);
	argv[n++] = buf_str(&include);
	if (*r.customize) {
		buf_printf(&hook, "--customize-hook=%s", r.customize);
		argv[n++] = buf_str(&hook);
	}
	if (*r.dpkg_cfg) {
		buf_printf(&dpkg, "--dpkgopt=%s", r.dpkg_cfg);
		argv[n++] = buf_str(&dpkg);
	}
	argv[n++] = o->suite;
	argv[n++] = "-";
	argv[n] = o->mirror;
	code = build(cli, &u, (char *const *)argv, o->json);
	recipe_done(&r);
	buf_done(&include);
	buf_done(&hook);
	buf_done(&dpkg);
	return code;
}

/* A recipe is a bare name; so may be a file that is no recipe's name. */
static bool is_file(const char *word)
{
	return strchr(word, '/') || !recipe_exists(word);
}

int image_build(struct cli *cli, int argc, char **argv)
{
	static struct build_opts o = { .suite = "bookworm" };
	const struct opt table[] = {
		{ "name", 0, OPT_TEXT, &o.name, "NAME",
		  "what to call the image (default: as the recipe or file)" },
		{ "suite", 0, OPT_TEXT, &o.suite, "SUITE",
		  "release of Debian (default: bookworm)" },
		{ "include", 0, OPT_LIST, &o.include, "PKG,...",
		  "more packages" },
		{ "mirror", 0, OPT_TEXT, &o.mirror, "URL",
		  "where packages come from, as mmdebstrap takes it" },
		{ "no-cache", 0, OPT_FLAG, &o.fresh, NULL,
		  "of a file: do every step anew" },
		{ "json", 0, OPT_FLAG, &o.json, NULL,
		  "print the image as JSON" },
		OPT_HELP(cli),
		{ 0 },
	};

	if (cli_operands(cli, table, argc, argv) != 1)
		cli_usage_error(cli, "which file or recipe? (there are: "
				     "debian, code-interpreter)");
	if (is_file(argv[1])) {
		if (access(argv[1], F_OK) < 0)
			fail(cli,
			     "no recipe and no build file '%s' (the recipes "
			     "there are: debian, code-interpreter)",
			     argv[1]);
		const struct build_file f = { argv[1], o.name, o.fresh,
					      o.json };

		return build_file(cli, &f);
	}
	if (!in_path("mmdebstrap"))
		fail(cli, "mmdebstrap is not installed; install it (apt-get "
			  "install mmdebstrap), or use `" PRODUCT
			  " image import` with a tar of a root filesystem");
	/* Better now than when the packages are there. */
	json_decref(server_get(cli, "GET", "/v1/host", NULL));
	return run_recipe(cli, argv[1], &o);
}
