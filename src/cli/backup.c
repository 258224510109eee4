/*
 * carrel backup: the database, the log and the configuration in one file,
 * without the contents of the pool and of the drive's directory.
 */
#include "cli/backup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fd.h"
#include "base/product.h"
#include "base/sha.h"
#include "base/str.h"
#include "cli/server.h"
#include "wire/tar.h"

enum { PIECE = 64 * 1024 };

struct backup {
	struct cli *cli;
	struct conf conf;
	int out_fd;
	struct buf sums;
	uint64_t bytes;
	unsigned log_files;
};

static void write_out(struct backup *b, const void *p, size_t n)
{
	int r = write_full(b->out_fd, p, n);

	if (r < 0)
		fail(b->cli, "write the backup: %s", strerror(-r));
	b->bytes += n;
}

static void put_head(struct backup *b, const char *name, uint64_t size)
{
	static struct tar_entry t;
	struct buf head = { 0 };

	t = (struct tar_entry){ .type = TAR_FILE, .mode = 0600, .size = size };
	t.mtime.tv_sec = time(NULL);
	if (str_copy(t.path, sizeof(t.path), name) < 0)
		fail(b->cli, "the name %.64s... is too long", name);
	tar_head_put(&head, &t);
	write_out(b, buf_data(&head), buf_len(&head));
	buf_done(&head);
}

static void put_sum(struct backup *b, struct sha256 *s, const char *name)
{
	uint8_t sum[SHA256_LEN];
	size_t i;

	sha256_end(s, sum);
	for (i = 0; i < SHA256_LEN; i++)
		buf_printf(&b->sums, "%02x", sum[i]);
	buf_printf(&b->sums, "  %s\n", name);
}

static void put_zeros(struct backup *b, size_t n)
{
	static const char zeros[2 * TAR_BLOCK];

	write_out(b, zeros, n);
}

/* What the file has now; what is added meanwhile is for the next backup. */
static void put_file(struct backup *b, int fd, const char *name)
{
	static char piece[PIECE];
	struct sha256 sum;
	struct stat st;
	uint64_t left;

	if (fstat(fd, &st) < 0)
		fail(b->cli, "%s: %m", name);
	put_head(b, name, (uint64_t)st.st_size);
	sha256_init(&sum);
	for (left = (uint64_t)st.st_size; left > 0;) {
		size_t n = left < PIECE ? (size_t)left : PIECE;
		ssize_t r = read_full(fd, piece, n);

		if (r < 0)
			fail(b->cli, "read %s: %s", name, strerror((int)-r));
		if ((size_t)r < n)
			fail(b->cli, "%s became shorter meanwhile", name);
		sha256_add(&sum, piece, n);
		write_out(b, piece, n);
		left -= n;
	}
	put_zeros(b, tar_padding((uint64_t)st.st_size));
	put_sum(b, &sum, name);
}

static void put_path(struct backup *b, const char *path, const char *name)
{
	AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

	if (fd < 0)
		fail(b->cli, "read %s: %m", path);
	put_file(b, fd, name);
}

static int take_piece(const char *p, size_t n, void *ctx, struct err *e)
{
	int r = write_full(*(int *)ctx, p, n);

	return r < 0 ? err_set(e, -r, "keep the registry: %s", strerror(-r))
		     : 0;
}

/* The daemon makes a copy that no write of its own is in the middle of. */
static void put_registry(struct backup *b)
{
	AUTO_CLOSE int fd = memfd_create("registry", MFD_CLOEXEC);
	struct http_call call = { .method = "POST", .target = "/v1/backup" };
	struct http_client http;
	char message[MESSAGE_CAP];
	struct err e = { 0 };
	json_t *j;
	int status;

	server_open(b->cli, &http);
	if (http_send(&http, &call, &e) < 0 || http_recv_head(&http, &e) < 0)
		fail(b->cli, "%s", e.msg);
	if (http.head.status != 200) {
		status = server_answer(b->cli, &http, &j);
		server_message(status, j, message);
		fail(b->cli, "%s", message);
	}
	if (fd < 0 || http_recv_stream(&http, take_piece, &fd, &e) < 0)
		fail(b->cli, "%s", e.code ? e.msg : strerror(errno));
	http_client_done(&http);
	if (lseek(fd, 0, SEEK_SET) < 0)
		fail(b->cli, "keep the registry: %m");
	put_file(b, fd, BACKUP_REGISTRY);
}

static int is_wanted(const struct dirent *d)
{
	const char *dot = strrchr(d->d_name, '.');

	return d->d_name[0] != '.' && strcmp(d->d_name, AUDIT_SECRET) != 0 &&
	       !(dot && strcmp(dot, ".new") == 0);
}

/*
 * The head in front of the entries it speaks of: a log that is longer than its
 * head is nothing to worry about, one that is shorter is.
 */
static int by_name(const struct dirent **x, const struct dirent **y)
{
	bool a = strcmp((*x)->d_name, "head") == 0;
	bool b = strcmp((*y)->d_name, "head") == 0;

	return a != b ? b - a : strcmp((*x)->d_name, (*y)->d_name);
}

static void put_log(struct backup *b)
{
	char dir[CONF_PATH + 16];
	struct dirent **list;
	int i, n;

	snprintf(dir, sizeof(dir), "%s/" BACKUP_AUDIT, b->conf.state_dir);
	n = scandir(dir, &list, is_wanted, by_name);
	if (n < 0)
		fail(b->cli, "read %s: %m (a backup needs root)", dir);
	for (i = 0; i < n; i++) {
		char path[CONF_PATH + 300], name[300];

		snprintf(path, sizeof(path), "%s/%s", dir, list[i]->d_name);
		snprintf(name, sizeof(name), BACKUP_AUDIT "/%s",
			 list[i]->d_name);
		put_path(b, path, name);
		free(list[i]);
	}
	free(list);
	b->log_files = (unsigned)n;
}

static void put_conf(struct backup *b)
{
	const char *path = b->cli->conf_path ? b->cli->conf_path
					     : "/etc/" PRODUCT "/" PRODUCT
					       ".conf";

	/* None is the defaults, and so it will be when it is restored. */
	if (b->cli->conf_path || access(path, F_OK) == 0)
		put_path(b, path, BACKUP_CONF);
}

static void put_all(struct backup *b)
{
	char path[CONF_PATH + 16];
	size_t n;

	snprintf(path, sizeof(path), "%s/" BACKUP_FORMAT, b->conf.state_dir);
	put_path(b, path, BACKUP_FORMAT);
	put_registry(b);
	put_log(b);
	put_conf(b);
	n = buf_len(&b->sums);
	put_head(b, BACKUP_SUMS, n);
	write_out(b, buf_data(&b->sums), n);
	put_zeros(b, tar_padding(n));
	put_zeros(b, (size_t)2 * TAR_BLOCK);
}

int verb_backup(struct cli *cli, int argc, char **argv)
{
	static struct backup b;
	const struct opt table[] = { OPT_HELP(cli), { 0 } };
	char tmp[PATH_MAX], size[SIZE_TEXT];
	bool std;

	if (cli_operands(cli, table, argc, argv) != 1)
		cli_usage_error(cli, "which file? (- is standard output)");
	std = strcmp(argv[1], "-") == 0;
	b.cli = cli;
	cli_conf(cli, &b.conf);
	snprintf(tmp, sizeof(tmp), "%s.XXXXXX", argv[1]);
	b.out_fd = std ? STDOUT_FILENO : mkostemp(tmp, O_CLOEXEC);
	if (b.out_fd < 0)
		fail(cli, "create %s: %m", argv[1]);
	if (!std)
		cli_unfinished(tmp);
	put_all(&b);
	buf_done(&b.sums);
	if (std)
		return 0;
	if (fsync(b.out_fd) < 0 || close(b.out_fd) < 0 ||
	    rename(tmp, argv[1]) < 0)
		fail(cli, "write %s: %m", argv[1]);
	cli_unfinished(NULL);
	size_text(b.bytes, size);
	printf("%s: %s; the log in %u files, the database (projects, keys, "
	       "policies, usage, names), the configuration\n"
	       "not in it: images, snapshots, disks of sandboxes, volumes, "
	       "contents of the drive, keys that open secrets, the key that "
	       "signs the log\n",
	       argv[1], size, b.log_files);
	return 0;
}
