/*
 * carrel cp: files and directories into a sandbox and out of it.
 *
 * Files go as they are, directories as tars, which a second process makes or
 * unpacks while this one talks to the daemon.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fd.h"
#include "cli/archive.h"
#include "cli/progress.h"
#include "cli/server.h"
#include "cli/show.h"
#include "http/target.h"

enum { PROGRESS_AFTER_MS = 1000, LOCAL_PATH = 4096 };

struct copy {
	struct cli *cli;
	const char *user;
	bool parents, quiet;
	bool into; /* several things: the destination is a directory */
	char base[TARGET_CAP]; /* "/v1/sandboxes/work" */
	const char *inside;    /* the path there */
	const char *here;
	struct progress progress;
	uint64_t bytes;
	int out_fd;  /* of a download */
	pid_t child; /* that packs or unpacks; 0: none */
};

/* --- the daemon's side --- */

static void files_target(const struct copy *c, const char *what,
			 const char *path, struct buf *b)
{
	buf_printf(b, "%s/files/%s?path=", c->base, what);
	http_encode(b, path);
	if (c->user) {
		buf_puts(b, "&user=");
		http_encode(b, c->user);
	}
}

static void refused(struct copy *c, int status, const json_t *answer)
{
	char message[MESSAGE_CAP];

	progress_clear(&c->progress);
	server_message(status, answer, message);
	fail(c->cli, "%s", message);
}

/* The entry of a path inside; NULL when there is none. */
static json_t *look(struct copy *c, const char *path)
{
	struct http_call call = { .method = "GET" };
	struct buf target = { 0 };
	struct http_client http;
	json_t *j;
	int status;

	files_target(c, "stat", path, &target);
	call.target = buf_str(&target);
	server_open(c->cli, &http);
	status = server_call(c->cli, &http, &call, &j);
	http_client_done(&http);
	buf_done(&target);
	if (status == 404) { /* the sandbox is there, as we know */
		json_decref(j);
		return NULL;
	}
	if (status / 100 != 2)
		refused(c, status, j);
	return j;
}

/* "file", "directory"...; of a link, what it leads to. */
static const char *type_of(const json_t *entry)
{
	const char *type = show_str(entry, "type");

	return strcmp(type, "symlink") == 0 ? show_str(entry, "target_type")
					    : type;
}

static bool is_dir(const json_t *entry)
{
	return strcmp(type_of(entry), "directory") == 0;
}

static void make_dir_inside(struct copy *c, const char *path)
{
	struct buf target = { 0 }, body = { 0 };

	buf_printf(&target, "%s/files/mkdir", c->base);
	buf_puts(&body, "{\"path\":");
	json_put_str(&body, path, strlen(path));
	if (c->user) {
		buf_puts(&body, ",\"user\":");
		json_put_str(&body, c->user, strlen(c->user));
	}
	buf_puts(&body, c->parents ? ",\"parents\":true}" : "}");
	json_decref(server_get(c->cli, "POST", buf_str(&target), &body));
	buf_done(&target);
	buf_done(&body);
}

/* --- names --- */

/* The last part of a path; "" of "/", "." and what ends in "/.". */
static const char *last_part(const char *path, char out[LOCAL_PATH])
{
	size_t n = strlen(path);
	const char *slash;

	while (n > 0 && path[n - 1] == '/')
		n--;
	snprintf(out, LOCAL_PATH, "%.*s", (int)n, path);
	slash = strrchr(out, '/');
	if (slash)
		memmove(out, slash + 1, strlen(slash));
	if (strcmp(out, ".") == 0 || strcmp(out, "..") == 0)
		*out = '\0';
	return out;
}

/* "dir" and "name" become "dir/name". */
static void join(struct copy *c, const char *dir, const char *name,
		 char out[LOCAL_PATH])
{
	size_t n = strlen(dir);
	const char *slash = n > 0 && dir[n - 1] == '/' ? "" : "/";

	if ((size_t)snprintf(out, LOCAL_PATH, "%s%s%s", dir, slash, name) >=
	    LOCAL_PATH)
		fail(c->cli, "the name %.64s... is too long", dir);
}

/* --- progress --- */

static void start_progress(struct copy *c, uint64_t total)
{
	progress_init(&c->progress);
	if (c->quiet || !c->progress.tty)
		return;
	c->progress.phase = "copying";
	c->progress.total = total;
	/* What takes no time is not worth a line. */
	c->progress.shown_ms = clock_boot_ms() + PROGRESS_AFTER_MS;
}

static void on_progress(uint64_t bytes, void *ctx)
{
	struct copy *c = ctx;

	c->bytes = bytes;
	progress_bytes(&c->progress, bytes);
}

/* --- the process that packs or unpacks --- */

typedef int archive_fn(int a_fd, int b_fd, struct err *e);

/* Runs fn(a, b) in a child, where `keep` is closed. */
static void start_child(struct copy *c, archive_fn *fn, int a, int b, int keep)
{
	struct err e = { 0 };

	c->child = fork();
	if (c->child < 0)
		fail(c->cli, "start a process: %m");
	if (c->child > 0)
		return;
	close(keep);
	if (fn(a, b, &e) < 0) {
		complain("%s", e.msg);
		_exit(EXIT_FAILED);
	}
	_exit(0);
}

/* Whether it did all; it has said why not. */
static bool child_done(struct copy *c)
{
	int status = 0;
	pid_t pid = c->child;

	c->child = 0;
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static int packed(void *ctx, struct err *e)
{
	if (child_done(ctx))
		return 0;
	return err_set(e, ECANCELED, "not all could be sent");
}

/* --- in --- */

static json_t *send_body(struct copy *c, struct http_call *call, int fd)
{
	struct http_client http;
	struct err e = { 0 };
	json_t *j;
	int r;

	call->method = "PUT";
	call->progress = on_progress;
	call->ctx = c;
	server_open(c->cli, &http);
	r = http_send_fd(&http, call, fd, &e);
	if (r >= 0)
		r = http_recv_head(&http, &e);
	if (r < 0) {
		progress_clear(&c->progress);
		fail(c->cli, "%s", e.msg);
	}
	r = server_answer(c->cli, &http, &j);
	http_client_done(&http);
	if (r / 100 != 2)
		refused(c, r, j);
	progress_clear(&c->progress);
	return j;
}

static void send_file(struct copy *c, int fd, const struct stat *st,
		      const char *to)
{
	struct buf target = { 0 };
	struct http_call call = { 0 };
	json_int_t size;
	json_t *j;

	files_target(c, "content", to, &target);
	if (S_ISREG(st->st_mode))
		buf_printf(&target, "&mode=%04o", st->st_mode & 0777);
	if (c->parents)
		buf_puts(&target, "&parents=true");
	call.target = buf_str(&target);
	start_progress(c, S_ISREG(st->st_mode) ? (uint64_t)st->st_size : 0);
	j = send_body(c, &call, fd);
	size = json_integer_value(json_object_get(j, "size"));
	if (size < 0 || (uint64_t)size != c->bytes)
		fail(c->cli, "%s: %llu bytes were sent, %lld have arrived", to,
		     (unsigned long long)c->bytes, (long long)size);
	json_decref(j);
	buf_done(&target);
}

static void send_dir(struct copy *c, int dir_fd, const char *to)
{
	struct buf target = { 0 };
	struct http_call call = { .at_end = packed };
	int p[2];
	json_t *j, *note;
	size_t i;

	if (pipe2(p, O_CLOEXEC) < 0)
		fail(c->cli, "make a pipe: %m");
	files_target(c, "tar", to, &target);
	call.target = buf_str(&target);
	start_progress(c, 0);
	start_child(c, archive_pack, dir_fd, p[1], p[0]);
	close(p[1]);
	j = send_body(c, &call, p[0]);
	close(p[0]);
	json_array_foreach (json_object_get(j, "notes"), i, note) {
		const char *text = json_string_value(note);

		complain("%s", text ? text : "");
	}
	json_decref(j);
	buf_done(&target);
}

static bool ends_in_slash(const char *path)
{
	size_t n = strlen(path);

	return n > 0 && path[n - 1] == '/';
}

/*
 * The entry of the destination, NULL when it is to be made by the copy. As
 * with cp: several things, and a file to "dir/", need a directory; -p makes it.
 */
static json_t *look_target(struct copy *c, bool dir)
{
	json_t *entry = look(c, c->inside);

	if (!c->into && (dir || !ends_in_slash(c->inside)))
		return entry;
	if (!entry && c->parents) {
		make_dir_inside(c, c->inside);
		entry = look(c, c->inside);
	}
	if (!entry)
		fail(c->cli, "directory %s does not exist inside: -p makes it",
		     c->inside);
	if (!is_dir(entry))
		fail(c->cli, "%s is not a directory inside", c->inside);
	return entry;
}

static void copy_in(struct copy *c)
{
	bool std = strcmp(c->here, "-") == 0;
	AUTO_CLOSE int fd = std ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
				: open(c->here, O_RDONLY | O_CLOEXEC);
	char to[LOCAL_PATH], name[LOCAL_PATH];
	struct stat st;
	json_t *entry;

	if (fd < 0 || fstat(fd, &st) < 0)
		fail(c->cli, "%s: %m", c->here);
	entry = look_target(c, S_ISDIR(st.st_mode));
	snprintf(to, sizeof(to), "%s", c->inside);
	last_part(c->here, name);
	if (is_dir(entry) && std)
		fail(c->cli,
		     "%s is a directory: say what the file is to be "
		     "called",
		     c->inside);
	if (is_dir(entry) && *name)
		join(c, c->inside, name, to);
	if (!S_ISDIR(st.st_mode)) {
		send_file(c, fd, &st, to);
	} else {
		/* What "dir/." has goes into what is there. */
		if (!entry || *name) {
			json_t *there = entry ? look(c, to) : NULL;

			if (!there)
				make_dir_inside(c, to);
			json_decref(there);
		}
		send_dir(c, fd, to);
	}
	json_decref(entry);
}

/* --- out --- */

static int take_piece(const char *p, size_t n, void *ctx, struct err *e)
{
	struct copy *c = ctx;
	int r = write_full(c->out_fd, p, n);

	/* Who unpacks has said why it stopped. */
	if (r < 0 && c->child)
		return err_set(e, -r, "not all was unpacked");
	if (r < 0)
		return err_set(e, -r, "write %s: %s", c->here, strerror(-r));
	on_progress(c->bytes + n, c);
	return 0;
}

static void receive(struct copy *c, const char *what, uint64_t total)
{
	struct http_call call = { .method = "GET" };
	struct buf target = { 0 };
	struct http_client http;
	struct err e = { 0 };
	json_t *j;

	files_target(c, what, c->inside, &target);
	call.target = buf_str(&target);
	server_open(c->cli, &http);
	if (http_send(&http, &call, &e) < 0 || http_recv_head(&http, &e) < 0)
		fail(c->cli, "%s", e.msg);
	if (http.head.status / 100 != 2) {
		int status = server_answer(c->cli, &http, &j);

		refused(c, status, j);
	}
	start_progress(c, total);
	if (http_recv_stream(&http, take_piece, c, &e) < 0) {
		progress_clear(&c->progress);
		fail(c->cli, "%s", e.msg);
	}
	progress_clear(&c->progress);
	http_client_done(&http);
	buf_done(&target);
}

/* The permissions of an entry: "0644". */
static mode_t mode_of(const json_t *entry)
{
	unsigned long mode = strtoul(show_str(entry, "mode"), NULL, 8);

	return mode ? (mode_t)(mode & 0777) : 0644;
}

static uint64_t size_of(const json_t *entry)
{
	json_int_t n = json_integer_value(json_object_get(entry, "size"));

	return n > 0 ? (uint64_t)n : 0;
}

/* A file that is there all at once, or not. */
static void receive_file(struct copy *c, const json_t *entry, const char *to)
{
	static char tmp[LOCAL_PATH + 16];
	struct stat st;

	/* What is no file (a device, a pipe) is written to. */
	if (stat(to, &st) == 0 && !S_ISREG(st.st_mode)) {
		c->out_fd = open(to, O_WRONLY | O_CLOEXEC);
		if (c->out_fd < 0)
			fail(c->cli, "%s: %m", to);
		receive(c, "content", size_of(entry));
		return;
	}
	snprintf(tmp, sizeof(tmp), "%s.XXXXXX", to);
	c->out_fd = mkostemp(tmp, O_CLOEXEC);
	if (c->out_fd < 0)
		fail(c->cli, "create %s: %m", to);
	cli_unfinished(tmp);
	receive(c, "content", size_of(entry));
	if (fchmod(c->out_fd, mode_of(entry)) < 0 || close(c->out_fd) < 0 ||
	    rename(tmp, to) < 0)
		fail(c->cli, "write %s: %m", to);
	cli_unfinished(NULL);
}

static void receive_dir(struct copy *c, const char *to)
{
	AUTO_CLOSE int dir_fd = -1;
	int p[2];

	if (mkdir(to, 0755) < 0 && errno != EEXIST)
		fail(c->cli, "create %s: %m", to);
	dir_fd = open(to, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir_fd < 0)
		fail(c->cli, "open %s: %m", to);
	if (pipe2(p, O_CLOEXEC) < 0)
		fail(c->cli, "make a pipe: %m");
	start_child(c, archive_unpack, p[0], dir_fd, p[1]);
	close(p[0]);
	c->out_fd = p[1];
	signal(SIGPIPE, SIG_IGN);
	receive(c, "tar", 0);
	close(p[1]);
	if (!child_done(c))
		exit(EXIT_FAILED);
}

static void copy_out(struct copy *c)
{
	json_t *entry = look(c, c->inside);
	char to[LOCAL_PATH], name[LOCAL_PATH];
	struct stat st;
	bool there;

	if (!entry)
		fail(c->cli, "there is no %s inside", c->inside);
	if (strcmp(c->here, "-") == 0) {
		c->out_fd = STDOUT_FILENO;
		receive(c, is_dir(entry) ? "tar" : "content", size_of(entry));
		json_decref(entry);
		return;
	}
	snprintf(to, sizeof(to), "%s", c->here);
	last_part(c->inside, name);
	there = stat(c->here, &st) == 0 && S_ISDIR(st.st_mode);
	if (!there && (c->into || (!is_dir(entry) && ends_in_slash(c->here))))
		fail(c->cli, "directory %s does not exist here", c->here);
	if (there && *name)
		join(c, c->here, name, to);
	if (is_dir(entry))
		receive_dir(c, to);
	else
		receive_file(c, entry, to);
	json_decref(entry);
}

/* "work:notes/x" is inside; what has a slash in front of the colon is not. */
static const char *colon_of(const char *word)
{
	const char *colon = strchr(word, ':');

	return colon && colon > word && !memchr(word, '/', colon - word) ? colon
									 : NULL;
}

static void copy_one(struct copy *c, const char *src, const char *dst)
{
	const char *from = colon_of(src), *to = colon_of(dst);
	const char *colon = from ? from : to;
	char *ref;

	if (!from == !to)
		cli_usage_error(
			c->cli,
			"either SRC or DST is SANDBOX:PATH, the other a "
			"file here (./a:b when it has a ':')");
	ref = strndup(from ? src : dst, (size_t)(colon - (from ? src : dst)));
	if (!ref)
		abort();
	c->inside = colon[1] ? colon + 1 : ".";
	c->here = from ? dst : src;
	c->bytes = 0;
	server_target(c->cli, c->base, "/v1/sandboxes/", ref);
	free(ref);
	json_decref(server_get(c->cli, "GET", c->base, NULL));
	if (from)
		copy_out(c);
	else
		copy_in(c);
}

int verb_cp(struct cli *cli, int argc, char **argv)
{
	static struct copy c;
	const struct opt table[] = {
		{ "user", 'u', OPT_TEXT, &c.user, "USER",
		  "user inside who reads or writes" },
		{ "parents", 'p', OPT_FLAG, &c.parents, NULL,
		  "make directories inside that are missing" },
		{ "quiet", 'q', OPT_FLAG, &c.quiet, NULL, "no progress" },
		OPT_HELP(cli),
		{ 0 },
	};
	int i, n = cli_operands(cli, table, argc, argv);

	if (n < 2)
		cli_usage_error(cli, "what is to be copied, and where to?");
	c.cli = cli;
	c.into = n > 2;
	for (i = 1; i < n; i++)
		copy_one(&c, argv[i], argv[n]);
	return 0;
}
