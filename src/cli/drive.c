/*
 * carrel drive: files of a project that outlive its sandboxes. With a sandbox
 * named, the bytes go between it and the drive without a detour over here.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/product.h"
#include "cli/progress.h"
#include "cli/server.h"
#include "cli/show.h"
#include "http/target.h"

enum { PROGRESS_AFTER_MS = 1000, LOCAL_PATH = 4096 };

struct drive {
	struct cli *cli;
	const char *project, *user;
	uint64_t version;
	bool json, quiet, all, removed, purge, parents;
	struct progress progress;
	uint64_t bytes;
	int out_fd;
	const char *here;
};

#define OPT_PROJECT(d)                        \
	{ "project",     0,         OPT_TEXT, \
	  &(d)->project, "PROJECT", "whose (default: default)" }

/* --- targets --- */

static void add_query(struct buf *b, char *sep, const char *name,
		      const char *value)
{
	if (!value)
		return;
	buf_printf(b, "%c%s=", *sep, name);
	http_encode(b, value);
	*sep = '&';
}

static void add_version(struct buf *b, char *sep, const struct drive *d)
{
	char text[24];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)d->version);
	add_query(b, sep, "version", d->version ? text : NULL);
}

/* A path has slashes, and each part of it is encoded. */
static void path_target(struct buf *b, const char *prefix, const char *path)
{
	buf_puts(b, prefix);
	while (*path) {
		size_t n = strcspn(path, "/");
		char *part = strndup(path, n);

		if (!part)
			abort();
		http_encode(b, part);
		free(part);
		path += n;
		if (*path == '/')
			buf_puts(b, "/");
		path += *path == '/';
	}
}

/* "dir/" takes the name of what is put there. */
static void full_path(struct cli *cli, struct buf *b, const char *to,
		      const char *source)
{
	size_t n = strlen(to);
	const char *slash = strrchr(source, '/'),
		   *name = slash ? slash + 1 : source;

	buf_puts(b, to);
	if (n > 0 && to[n - 1] != '/')
		return;
	if (!*name || strcmp(name, "-") == 0)
		fail(cli,
		     "%s is a directory: say what the file is to be called",
		     *to ? to : "the top of the drive");
	buf_puts(b, name);
}

/* --- progress --- */

static void start_progress(struct drive *d, uint64_t total)
{
	progress_init(&d->progress);
	if (d->quiet || !d->progress.tty)
		return;
	d->progress.phase = "copying";
	d->progress.total = total;
	d->progress.shown_ms = clock_boot_ms() + PROGRESS_AFTER_MS;
}

static void on_progress(uint64_t bytes, void *ctx)
{
	struct drive *d = ctx;

	d->bytes = bytes;
	progress_bytes(&d->progress, bytes);
}

static void refused(struct drive *d, int status, const json_t *answer)
{
	char message[MESSAGE_CAP];

	progress_clear(&d->progress);
	server_message(status, answer, message);
	fail(d->cli, "%s", message);
}

/* --- a sandbox and the drive --- */

static void put_member(struct buf *b, const char *key, const char *value)
{
	buf_puts(b, buf_len(b) > 1 ? "," : "");
	json_put_str(b, key, strlen(key));
	buf_puts(b, ":");
	json_put_str(b, value, strlen(value));
}

static json_t *copy_inside(struct drive *d, const char *box, const char *what,
			   const char *path, const char *to)
{
	struct buf body = { 0 };
	char target[TARGET_CAP];
	json_t *j;

	server_target(d->cli, target, "/v1/sandboxes/", box);
	if (strlen(target) + sizeof("/drive") > sizeof(target))
		fail(d->cli, "%.64s... is no sandbox", box);
	memcpy(target + strlen(target), "/drive", sizeof("/drive"));
	buf_puts(&body, "{");
	put_member(&body, what, path);
	put_member(&body, "to", to);
	if (d->user)
		put_member(&body, "user", d->user);
	if (d->version)
		buf_printf(&body, ",\"version\":%llu",
			   (unsigned long long)d->version);
	buf_puts(&body, d->parents ? ",\"parents\":true}" : "}");
	j = server_get(d->cli, "POST", target, &body);
	buf_done(&body);
	return j;
}

/* --- put --- */

static json_t *upload(struct drive *d, int fd, const char *path)
{
	struct buf target = { 0 };
	struct http_client http;
	struct http_call call = { .method = "PUT",
				  .progress = on_progress,
				  .ctx = d };
	char match[32], sep = '?';
	const struct http_field only[] = { { "If-Match", match }, { 0 } };
	struct err e = { 0 };
	json_t *j;
	int r;

	path_target(&target, "/v1/drive/files/", path);
	add_query(&target, &sep, "project", d->project);
	call.target = buf_str(&target);
	snprintf(match, sizeof(match), "\"%llu\"",
		 (unsigned long long)d->version);
	if (d->version)
		call.fields = only;
	server_open(d->cli, &http);
	r = http_send_fd(&http, &call, fd, &e);
	if (r >= 0)
		r = http_recv_head(&http, &e);
	if (r < 0) {
		progress_clear(&d->progress);
		fail(d->cli, "%s", e.msg);
	}
	r = server_answer(d->cli, &http, &j);
	http_client_done(&http);
	buf_done(&target);
	if (r / 100 != 2)
		refused(d, r, j);
	progress_clear(&d->progress);
	return j;
}

static json_t *put_here(struct drive *d, const char *from, const char *to)
{
	AUTO_CLOSE int fd = strcmp(from, "-") == 0
				    ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
				    : open(from, O_RDONLY | O_CLOEXEC);
	struct buf path = { 0 };
	struct stat st;
	json_t *j;

	if (fd < 0 || fstat(fd, &st) < 0)
		fail(d->cli, "%s: %m", from);
	if (S_ISDIR(st.st_mode))
		fail(d->cli,
		     "%s is a directory: put a tar of it (tar c %s | " PRODUCT
		     " drive put - NAME.tar)",
		     from, from);
	full_path(d->cli, &path, to, from);
	start_progress(d, S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0);
	j = upload(d, fd, buf_str(&path));
	buf_done(&path);
	return j;
}

static int drive_put(struct cli *cli, int argc, char **argv)
{
	struct drive d = { .cli = cli };
	const struct opt table[] = {
		OPT_PROJECT(&d),
		{ "user", 'u', OPT_TEXT, &d.user, "USER",
		  "user inside the sandbox who reads" },
		{ "if-version", 0, OPT_NUMBER, &d.version, "N",
		  "only in place of this version" },
		{ "json", 0, OPT_FLAG, &d.json, NULL, "print it as JSON" },
		{ "quiet", 'q', OPT_FLAG, &d.quiet, NULL, "no progress" },
		OPT_HELP(cli),
		{ 0 },
	};
	int n = cli_operands(cli, table, argc, argv);
	char path[SHOW_CAP], version[SHOW_CAP], size[SHOW_CAP];
	json_t *j;

	if (n != 2 && n != 3)
		cli_usage_error(cli, "what is to be put, and where to?");
	if (n == 3)
		j = copy_inside(&d, argv[1], "put", argv[2], argv[3]);
	else
		j = put_here(&d, argv[1], argv[2]);
	if (d.json) {
		print_json(j);
	} else {
		clean_text(path, sizeof(path), show_str(j, "path"));
		show_number(j, "version", version);
		show_size(j, "size", size);
		printf("%s: version %s, %s\n", path, version, size);
	}
	json_decref(j);
	return 0;
}

/* --- get --- */

static int take_piece(const char *p, size_t n, void *ctx, struct err *e)
{
	struct drive *d = ctx;
	int r = write_full(d->out_fd, p, n);

	if (r < 0)
		return err_set(e, -r, "write %s: %s", d->here, strerror(-r));
	on_progress(d->bytes + n, d);
	return 0;
}

static void download(struct drive *d, const char *path)
{
	struct buf target = { 0 };
	struct http_call call = { .method = "GET" };
	struct http_client http;
	struct err e = { 0 };
	char sep = '?';
	json_t *j;

	path_target(&target, "/v1/drive/files/", path);
	add_query(&target, &sep, "project", d->project);
	add_version(&target, &sep, d);
	call.target = buf_str(&target);
	server_open(d->cli, &http);
	if (http_send(&http, &call, &e) < 0 || http_recv_head(&http, &e) < 0)
		fail(d->cli, "%s", e.msg);
	if (http.head.status / 100 != 2) {
		int status = server_answer(d->cli, &http, &j);

		refused(d, status, j);
	}
	start_progress(d, http.head.body == HTTP_LENGTH ? http.head.length : 0);
	if (http_recv_stream(&http, take_piece, d, &e) < 0) {
		progress_clear(&d->progress);
		fail(d->cli, "%s", e.msg);
	}
	progress_clear(&d->progress);
	http_client_done(&http);
	buf_done(&target);
}

/* A file that is there all at once, or not. */
static void get_here(struct drive *d, const char *path, const char *to)
{
	static char tmp[LOCAL_PATH + 16], name[LOCAL_PATH];
	const char *slash = strrchr(path, '/');
	mode_t mask = umask(0);
	struct stat st;

	umask(mask);
	d->here = to;
	d->out_fd = STDOUT_FILENO;
	if (strcmp(to, "-") == 0) {
		download(d, path);
		return;
	}
	if (stat(to, &st) == 0 && S_ISDIR(st.st_mode)) {
		snprintf(name, sizeof(name), "%s/%s", to,
			 slash ? slash + 1 : path);
		d->here = name;
	}
	snprintf(tmp, sizeof(tmp), "%s.XXXXXX", d->here);
	d->out_fd = mkostemp(tmp, O_CLOEXEC);
	if (d->out_fd < 0)
		fail(d->cli, "create %s: %m", d->here);
	cli_unfinished(tmp);
	download(d, path);
	if (fchmod(d->out_fd, 0666 & ~mask) < 0 || close(d->out_fd) < 0 ||
	    rename(tmp, d->here) < 0)
		fail(d->cli, "write %s: %m", d->here);
	cli_unfinished(NULL);
}

static int drive_get(struct cli *cli, int argc, char **argv)
{
	struct drive d = { .cli = cli };
	const struct opt table[] = {
		OPT_PROJECT(&d),
		{ "version", 0, OPT_NUMBER, &d.version, "N",
		  "this one, not the newest" },
		{ "user", 'u', OPT_TEXT, &d.user, "USER",
		  "user inside the sandbox who writes" },
		{ "parents", 'p', OPT_FLAG, &d.parents, NULL,
		  "make directories inside that are missing" },
		{ "quiet", 'q', OPT_FLAG, &d.quiet, NULL, "no progress" },
		OPT_HELP(cli),
		{ 0 },
	};
	int n = cli_operands(cli, table, argc, argv);

	if (n != 2 && n != 3)
		cli_usage_error(cli, "which file, and where to?");
	if (n == 3)
		json_decref(copy_inside(&d, argv[2], "get", argv[1], argv[3]));
	else
		get_here(&d, argv[1], argv[2]);
	return 0;
}

/* --- ls, versions --- */

static void file_row(struct table *t, const json_t *f)
{
	char path[LOCAL_PATH], version[SHOW_CAP], size[SHOW_CAP], age[SHOW_CAP];
	bool dir = strcmp(show_str(f, "type"), "directory") == 0;
	bool removed = json_is_true(json_object_get(f, "removed"));
	const char *who = show_str(f, "who"), *box = show_str(f, "sandbox");
	const char *cells[] = { path, dir ? "-" : version,
				dir       ? "-"
				: removed ? "removed"
					  : size,
				dir ? "-" : age,
				*box  ? box
				: dir ? "-"
				      : who };

	snprintf(path, sizeof(path), "%s%s", show_str(f, "path"),
		 dir ? "/" : "");
	show_number(f, "version", version);
	show_size(f, "size", size);
	show_age(f, "created_at", age);
	table_row(t, cells);
}

static void print_files(const struct drive *d, const json_t *files)
{
	static const char *const titles[] = { "PATH", "VERSION", "SIZE", "AGE",
					      "BY" };
	struct table t;
	const json_t *f;
	size_t i;

	if (d->json) {
		print_json(files);
		return;
	}
	table_init(&t, titles, ARRAY_LEN(titles));
	json_array_foreach (files, i, f) {
		file_row(&t, f);
	}
	table_print(&t);
	table_done(&t);
}

static json_t *list_all(struct drive *d, const char *prefix)
{
	json_t *all = json_array(), *next = NULL;

	do {
		struct buf target = { 0 };
		char sep = '?';
		json_t *j;

		buf_puts(&target, "/v1/drive");
		add_query(&target, &sep, "project", d->project);
		add_query(&target, &sep, "prefix", prefix);
		add_query(&target, &sep, "recursive", d->all ? "true" : NULL);
		add_query(&target, &sep, "removed", d->removed ? "true" : NULL);
		add_query(&target, &sep, "after", json_string_value(next));
		json_decref(next);
		j = server_get(d->cli, "GET", buf_str(&target), NULL);
		json_array_extend(all, json_object_get(j, "entries"));
		next = json_incref(json_object_get(j, "next"));
		json_decref(j);
		buf_done(&target);
	} while (json_is_string(next));
	json_decref(next);
	return all;
}

static int drive_ls(struct cli *cli, int argc, char **argv)
{
	struct drive d = { .cli = cli };
	const struct opt table[] = {
		OPT_PROJECT(&d),
		{ "recursive", 'r', OPT_FLAG, &d.all, NULL,
		  "files of directories, too" },
		{ "removed", 0, OPT_FLAG, &d.removed, NULL,
		  "also those that were removed and not purged" },
		{ "json", 0, OPT_FLAG, &d.json, NULL, "as JSON" },
		OPT_HELP(cli),
		{ 0 },
	};
	int n = cli_operands(cli, table, argc, argv);
	const json_t *first;
	json_t *all;

	if (n > 1)
		cli_usage_error(cli, "one path at a time");
	all = list_all(&d, n > 0 ? argv[1] : NULL);
	first = json_array_get(all, 0);
	/* "reports" is meant to be what is in it. */
	if (n > 0 && json_array_size(all) == 1 &&
	    strcmp(show_str(first, "type"), "directory") == 0 &&
	    strcmp(show_str(first, "path"), argv[1]) == 0) {
		struct buf inner = { 0 };

		buf_printf(&inner, "%s/", argv[1]);
		json_decref(all);
		all = list_all(&d, buf_str(&inner));
		buf_done(&inner);
	}
	print_files(&d, all);
	json_decref(all);
	return 0;
}

static int drive_versions(struct cli *cli, int argc, char **argv)
{
	struct drive d = { .cli = cli };
	const struct opt table[] = {
		OPT_PROJECT(&d),
		{ "json", 0, OPT_FLAG, &d.json, NULL, "as JSON" },
		OPT_HELP(cli),
		{ 0 },
	};
	struct buf target = { 0 };
	char sep = '?';
	json_t *j;

	if (cli_operands(cli, table, argc, argv) != 1)
		cli_usage_error(cli, "which file?");
	path_target(&target, "/v1/drive/versions/", argv[1]);
	add_query(&target, &sep, "project", d.project);
	j = server_get(cli, "GET", buf_str(&target), NULL);
	buf_done(&target);
	print_files(&d, json_object_get(j, "versions"));
	json_decref(j);
	return 0;
}

/* --- rm --- */

static bool remove_one(struct drive *d, const char *path)
{
	struct buf target = { 0 };
	struct http_client http;
	struct http_call call = { .method = "DELETE" };
	char message[MESSAGE_CAP], sep = '?';
	json_t *j;
	int status;

	path_target(&target, "/v1/drive/files/", path);
	add_query(&target, &sep, "project", d->project);
	add_query(&target, &sep, "purge", d->purge ? "true" : NULL);
	call.target = buf_str(&target);
	server_open(d->cli, &http);
	status = server_call(d->cli, &http, &call, &j);
	if (status / 100 != 2) {
		server_message(status, j, message);
		complain("%s", message);
	}
	json_decref(j);
	http_client_done(&http);
	buf_done(&target);
	return status / 100 == 2;
}

static int drive_rm(struct cli *cli, int argc, char **argv)
{
	struct drive d = { .cli = cli };
	const struct opt table[] = {
		OPT_PROJECT(&d),
		{ "purge", 0, OPT_FLAG, &d.purge, NULL,
		  "all its versions, for ever: this gives space back" },
		OPT_HELP(cli),
		{ 0 },
	};
	int n = cli_operands(cli, table, argc, argv), i, code = 0;

	if (n == 0)
		cli_usage_error(cli, "which file?");
	for (i = 1; i <= n; i++)
		if (!remove_one(&d, argv[i]))
			code = EXIT_FAILED;
	return code;
}

const struct verb drive_verbs[] = {
	{ .name = "put",
	  .fn = drive_put,
	  .args = "[OPTIONS] [SANDBOX] SRC DST",
	  .help = "make a file of this host, or of a sandbox, one of the drive",
	  .notes = "A DST that ends in a slash is a directory. - is standard "
		   "input. What is there\n"
		   "already gets a new version; with --if-version N only if "
		   "nobody else was faster.",
	  .examples = PRODUCT " drive put work /home/user/report.pdf "
			      "reports/\n" PRODUCT
			      " drive put notes.txt notes.txt\n" },
	{ .name = "get",
	  .fn = drive_get,
	  .args = "[OPTIONS] PATH [SANDBOX] DST",
	  .help = "copy a file of the drive to this host, or into a sandbox",
	  .notes = "- is standard output.",
	  .examples = PRODUCT " drive get reports/report.pdf .\n" },
	{ .name = "ls",
	  .fn = drive_ls,
	  .args = "[OPTIONS] [PATH]",
	  .help = "list files of the drive" },
	{ .name = "versions",
	  .fn = drive_versions,
	  .args = "[OPTIONS] PATH",
	  .help = "list the versions of a file, and who wrote them" },
	{ .name = "rm",
	  .fn = drive_rm,
	  .args = "[OPTIONS] PATH...",
	  .help = "remove files; their versions stay until they are purged" },
	{ 0 },
};
