/*
 * Is what was unpacked a whole backup? It may have been made by anybody, and
 * is looked at as root: nothing beside it is opened.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/product.h"
#include "base/sha.h"
#include "base/str.h"
#include "cli/backup.h"

enum {
	SUMS_MAX = 16 * 1024 * 1024,
	DEPTH_MAX = 8, /* of directories; a backup has two */
	SUM_HEX = 2 * SHA256_LEN,
};

/* Files and directories alone: a link would lead us elsewhere. */
static int check_kinds(int at, const char *name, unsigned depth, struct err *e)
{
	int fd = openat(at, name,
			O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	AUTO_DIR DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *ent;
	struct stat st;

	if (!d)
		return err_sys(e, "look at %s of the backup", name);
	while ((ent = readdir(d))) {
		if (strcmp(ent->d_name, ".") == 0 ||
		    strcmp(ent->d_name, "..") == 0)
			continue;
		if (fstatat(fd, ent->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			return err_sys(e, "look at %s", ent->d_name);
		if (S_ISREG(st.st_mode))
			continue;
		if (!S_ISDIR(st.st_mode) || depth == DEPTH_MAX)
			return err_set(e, EBADMSG,
				       "this is no backup: %s is not a file",
				       ent->d_name);
		if (check_kinds(fd, ent->d_name, depth + 1, e) < 0)
			return -e->code;
	}
	return 0;
}

/* Of the backup, not beside it. */
static bool is_inside(const char *name)
{
	const char *at = name;

	for (; *at != '/'; at++) {
		if (at[0] == '.' && at[1] == '.' &&
		    (at[2] == '/' || at[2] == '\0'))
			return false;
		at += strcspn(at, "/");
		if (*at == '\0')
			return true;
	}
	return false;
}

static int sum_file(int dir_fd, const char *name, char hex[SUM_HEX + 1],
		    struct err *e)
{
	static char piece[64 * 1024];
	AUTO_CLOSE int fd =
		openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	uint8_t sum[SHA256_LEN];
	struct sha256 s;
	ssize_t n;
	size_t i;

	if (fd < 0)
		return err_set(e, ENOENT, "the backup lacks %s", name);
	sha256_init(&s);
	while ((n = read_full(fd, piece, sizeof(piece))) > 0)
		sha256_add(&s, piece, (size_t)n);
	if (n < 0)
		return err_set(e, (int)-n, "read %s: %s", name,
			       strerror((int)-n));
	sha256_end(&s, sum);
	for (i = 0; i < SHA256_LEN; i++)
		snprintf(hex + 2 * i, 3, "%02x", sum[i]);
	return 0;
}

/* 64 digits, two spaces and a name. */
static int check_line(int dir_fd, const char *line, struct err *e)
{
	const char *name = line + SUM_HEX + 2;
	char hex[SUM_HEX + 1];

	if (strlen(line) < SUM_HEX + 3 || !is_inside(name))
		return err_set(e, EBADMSG, BACKUP_SUMS " is damaged");
	if (sum_file(dir_fd, name, hex, e) < 0)
		return -e->code;
	if (strncmp(line, hex, SUM_HEX) != 0)
		return err_set(e, EBADMSG, "%s is not what was backed up",
			       name);
	return 0;
}

/* All of the sums; NULL: they are not there. */
static char *read_sums(int dir_fd)
{
	struct stat st;
	AUTO_FREE char *text = NULL;

	if (fstatat(dir_fd, BACKUP_SUMS, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    st.st_size <= 0 || st.st_size > SUMS_MAX)
		return NULL;
	text = xcalloc(1, (size_t)st.st_size + 1);
	if (read_file_at(dir_fd, BACKUP_SUMS, text, (size_t)st.st_size + 1) <=
	    0)
		return NULL;
	return take_ptr(text);
}

static int check_sums(int dir_fd, struct err *e)
{
	AUTO_FREE char *text = read_sums(dir_fd);
	char *line, *rest = text;
	bool registry = false;

	if (!text)
		return err_set(e, EBADMSG,
			       "this is no backup, or it was cut short (no "
			       "%s in it)",
			       BACKUP_SUMS);
	while ((line = strsep(&rest, "\n")) && *line) {
		if (check_line(dir_fd, line, e) < 0)
			return -e->code;
		registry |= strcmp(line + SUM_HEX + 2, BACKUP_REGISTRY) == 0;
	}
	return registry ? 0 : err_set(e, EBADMSG, "the backup has no registry");
}

static int check_format(int dir_fd, struct err *e)
{
	char text[32];
	ssize_t n = read_file_at(dir_fd, BACKUP_FORMAT, text, sizeof(text));
	uint64_t v = 0;

	if (n > 0)
		text[strcspn(text, "\n")] = '\0';
	if (n <= 0 || parse_u64(text, UINT64_MAX, &v) < 0 || v == 0)
		return err_set(e, EBADMSG,
			       "the backup does not say which format it has");
	if (v > STATE_FORMAT)
		return err_set(e, EPROTO,
			       "the backup has format %llu, this version knows "
			       "up to %d: install a newer " PRODUCT,
			       (unsigned long long)v, STATE_FORMAT);
	return 0;
}

static int check_registry(int dir_fd, struct err *e)
{
	static const char magic[] = "SQLite format 3";
	AUTO_CLOSE int fd = openat(dir_fd, BACKUP_REGISTRY,
				   O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	char head[sizeof(magic)];

	if (fd < 0 || read_full(fd, head, sizeof(head)) != sizeof(head) ||
	    memcmp(head, magic, sizeof(magic)) != 0)
		return err_set(e, EBADMSG,
			       "the registry in the backup is no database");
	return 0;
}

int backup_check(int dir_fd, struct err *e)
{
	if (check_kinds(dir_fd, ".", 0, e) < 0 || check_sums(dir_fd, e) < 0 ||
	    check_format(dir_fd, e) < 0)
		return -e->code;
	return check_registry(dir_fd, e);
}
