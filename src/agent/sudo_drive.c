/*
 * `drive` inside of a sandbox: files of the project's drive, as far as the
 * sandbox may have them. It asks the agent, which asks the daemon
 * (wire/drive.h); what is allowed is decided there.
 */
#include "agent/sudo_drive.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fd.h"
#include "base/opt.h"
#include "wire/drive.h"

enum { EXIT_USAGE = 2, PATH_CAP = 4096 };

struct ask {
	int conn;
	struct buf in;
	struct drive_record rec;
	int len; /* of `rec` in `in`, to be eaten */
	uint64_t version;
	bool help;
};

static const char usage[] =
	"Usage: drive put [--if-version N] SRC PATH\n"
	"       drive get [--version N] PATH DST\n"
	"       drive ls [PATH]\n"
	"       drive rm PATH...\n"
	"\n"
	"Files of the project's drive, which outlive this sandbox. What may be "
	"read and\n"
	"written was said when the sandbox was made. A PATH that ends in a "
	"slash is a\n"
	"directory. - is standard input or output.\n";

static void fail(const char *fmt, ...)
	__attribute__((noreturn, format(printf, 1, 2)));
static void fail(const char *fmt, ...)
{
	va_list ap;

	fputs("drive: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	exit(1);
}

/* --- the door --- */

static void ask_open(struct ask *a)
{
	struct sockaddr_un addr;
	socklen_t n = drive_address(&addr);

	a->conn = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (a->conn < 0)
		fail("make a socket: %s", strerror(errno));
	if (connect(a->conn, (struct sockaddr *)&addr, n) < 0)
		fail("this sandbox has no drive: it is made with one by "
		     "`create --drive PREFIX[:rw]` (%s)",
		     strerror(errno));
}

static void ask_close(struct ask *a)
{
	auto_close(&a->conn);
	buf_done(&a->in);
	a->len = 0;
}

/* The daemon may have said its last word and not listen any more. */
static bool say(struct ask *a, const struct drive_record *r)
{
	struct buf b = { 0 };
	ssize_t n = 0;

	drive_record_put(&b, r);
	while (buf_len(&b) > 0 && n >= 0) {
		n = send(a->conn, buf_data(&b), buf_len(&b), MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			n = 0;
		if (n > 0)
			buf_eat(&b, (size_t)n);
	}
	buf_done(&b);
	return n >= 0;
}

/* The next word; ends the program when it is an error. */
static struct drive_record *hear(struct ask *a)
{
	ssize_t n;

	if (a->len > 0)
		buf_eat(&a->in, (size_t)a->len);
	while ((a->len = drive_record_get(&a->in, &a->rec)) == 0) {
		n = buf_read(&a->in, a->conn, (size_t)64 * 1024);
		if (n <= 0 && n != -EINTR)
			fail("the connection was lost");
	}
	if (a->len < 0)
		fail("the daemon's answer makes no sense");
	if (a->rec.kind == DRIVE_ERROR)
		fail("%s", a->rec.message);
	return &a->rec;
}

static const struct drive_record *hear_kind(struct ask *a, enum drive_kind k)
{
	if (hear(a)->kind != k)
		fail("the daemon's answer makes no sense");
	return &a->rec;
}

/* --- put --- */

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* "dir/" takes the name of what is put there. */
static void full_path(char out[PATH_CAP], const char *to, const char *source)
{
	size_t n = strlen(to);
	const char *name = base_name(source);

	if (n > 0 && to[n - 1] != '/')
		name = "";
	else if (!*name || strcmp(name, "-") == 0)
		fail("%s is a directory: say what the file is to be called",
		     to);
	if (snprintf(out, PATH_CAP, "%s%s", to, name) > DRIVE_TEXT_MAX)
		fail("%.64s... is too long", to);
}

static void send_content(struct ask *a, int fd, const char *from)
{
	static char piece[DRIVE_DATA_MAX];
	struct drive_record r = { .kind = DRIVE_DATA, .data = piece };
	ssize_t n;

	while ((n = read_full(fd, piece, sizeof(piece))) > 0) {
		r.n = (size_t)n;
		if (!say(a, &r))
			return;
	}
	if (n < 0)
		fail("read %s: %s", from, strerror((int)-n));
	say(a, &(struct drive_record){ .kind = DRIVE_END });
}

static int do_put(struct ask *a, int n, char **argv)
{
	char path[PATH_CAP];
	struct drive_record r = { .kind = DRIVE_REQUEST,
				  .op = DRIVE_PUT,
				  .conditional = a->version > 0,
				  .version = a->version,
				  .path = path };
	const struct drive_record *f;
	struct stat st;
	int fd = STDIN_FILENO;

	if (n != 2)
		return EXIT_USAGE;
	full_path(path, argv[1], argv[0]);
	if (strcmp(argv[0], "-") != 0)
		fd = open(argv[0], O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		fail("%s: %s", argv[0], strerror(errno));
	if (S_ISDIR(st.st_mode))
		fail("%s is a directory: put a tar of it", argv[0]);
	ask_open(a);
	say(a, &r);
	send_content(a, fd, argv[0]);
	f = hear_kind(a, DRIVE_FILE);
	printf("%s: version %llu, %llu bytes\n", f->path,
	       (unsigned long long)f->version, (unsigned long long)f->size);
	hear_kind(a, DRIVE_DONE);
	return 0;
}

/* --- get --- */

static void take_content(struct ask *a, int fd, const char *to)
{
	uint64_t left = hear_kind(a, DRIVE_FILE)->size;
	const struct drive_record *r;
	int rc;

	while ((r = hear(a))->kind == DRIVE_DATA) {
		rc = write_full(fd, r->data, r->n);
		if (rc < 0)
			fail("write %s: %s", to, strerror(-rc));
		left -= r->n;
	}
	if (r->kind != DRIVE_DONE || left != 0)
		fail("%s did not come whole", to);
}

static char unfinished[PATH_CAP + 16];

static void drop_unfinished(void)
{
	if (*unfinished)
		unlink(unfinished);
}

static int do_get(struct ask *a, int n, char **argv)
{
	struct drive_record r = { .kind = DRIVE_REQUEST,
				  .op = DRIVE_GET,
				  .version = a->version };
	mode_t mask = umask(0);
	char to[PATH_CAP];
	struct stat st;
	int fd;

	umask(mask);
	if (n != 2 || strlen(argv[0]) > DRIVE_TEXT_MAX)
		return EXIT_USAGE;
	r.path = argv[0];
	ask_open(a);
	say(a, &r);
	if (strcmp(argv[1], "-") == 0) {
		take_content(a, STDOUT_FILENO, "standard output");
		return 0;
	}
	if (stat(argv[1], &st) == 0 && S_ISDIR(st.st_mode))
		n = snprintf(to, sizeof(to), "%s/%s", argv[1],
			     base_name(argv[0]));
	else
		n = snprintf(to, sizeof(to), "%s", argv[1]);
	if (n >= PATH_CAP)
		fail("%.64s... is too long", argv[1]);
	/* All of it, or nothing. */
	snprintf(unfinished, sizeof(unfinished), "%s.XXXXXX", to);
	fd = mkostemp(unfinished, O_CLOEXEC);
	if (fd < 0) {
		*unfinished = '\0';
		fail("create %s: %s", to, strerror(errno));
	}
	atexit(drop_unfinished);
	take_content(a, fd, to);
	if (fchmod(fd, 0666 & ~mask) < 0 || close(fd) < 0 ||
	    rename(unfinished, to) < 0)
		fail("write %s: %s", to, strerror(errno));
	*unfinished = '\0';
	return 0;
}

/* --- ls, rm --- */

/* One page; whether there is more. */
static bool list_page(struct ask *a, const struct drive_record *r,
		      char last[PATH_CAP])
{
	const struct drive_record *f;
	bool more;

	ask_open(a);
	say(a, r);
	while ((f = hear(a))->kind == DRIVE_FILE) {
		printf("%12llu  v%-5llu %s\n", (unsigned long long)f->size,
		       (unsigned long long)f->version, f->path);
		snprintf(last, PATH_CAP, "%s", f->path);
	}
	more = f->kind == DRIVE_DONE && f->more;
	ask_close(a);
	return more && *last;
}

static int do_ls(struct ask *a, int n, char **argv)
{
	char last[PATH_CAP] = "";
	struct drive_record r = { .kind = DRIVE_REQUEST, .op = DRIVE_LS };

	if (n > 1 || (n == 1 && strlen(argv[0]) > DRIVE_TEXT_MAX))
		return EXIT_USAGE;
	r.path = n == 1 ? argv[0] : "";
	while (list_page(a, &r, last))
		r.after = last;
	return 0;
}

static int do_rm(struct ask *a, int n, char **argv)
{
	int i;

	if (n == 0)
		return EXIT_USAGE;
	for (i = 0; i < n; i++) {
		struct drive_record r = { .kind = DRIVE_REQUEST,
					  .op = DRIVE_RM,
					  .path = argv[i] };

		if (strlen(argv[i]) > DRIVE_TEXT_MAX)
			return EXIT_USAGE;
		ask_open(a);
		say(a, &r);
		hear_kind(a, DRIVE_FILE);
		hear_kind(a, DRIVE_DONE);
		ask_close(a);
	}
	return 0;
}

static const struct {
	const char *name;
	int (*fn)(struct ask *a, int n, char **argv);
	const char *option;
} verbs[] = {
	{ "put", do_put, "if-version" },
	{ "get", do_get, "version" },
	{ "ls", do_ls, NULL },
	{ "rm", do_rm, NULL },
};

static int run(struct ask *a, size_t i, int argc, char **argv)
{
	const struct opt table[] = {
		{ "help", 'h', OPT_FLAG, &a->help, NULL, NULL },
		{ verbs[i].option, 0, OPT_NUMBER, &a->version, "N", NULL },
		{ 0 },
	};
	struct err e = { 0 };
	int first = opt_parse(table, argc, argv, &e), code;

	if (first < 0)
		fail("%s", e.msg);
	if (a->help) {
		fputs(usage, stdout);
		return 0;
	}
	code = verbs[i].fn(a, argc - first, argv + first);
	if (code == EXIT_USAGE)
		fputs(usage, stderr);
	ask_close(a);
	return code;
}

int drive_main(int argc, char **argv)
{
	struct ask a = { .conn = -1 };
	size_t i;
	int code;

	for (i = 0; argc > 1 && i < ARRAY_LEN(verbs); i++) {
		if (strcmp(verbs[i].name, argv[1]) != 0)
			continue;
		code = run(&a, i, argc - 1, argv + 1);
		if (fflush(stdout) == EOF)
			fail("write to standard output: %s", strerror(errno));
		return code;
	}
	if (argc > 1 &&
	    (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
		fputs(usage, stdout);
		return 0;
	}
	fputs(usage, stderr);
	return EXIT_USAGE;
}
