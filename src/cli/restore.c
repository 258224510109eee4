/*
 * carrel restore: a backup becomes the state of this host. The daemon must
 * not run. Everything is unpacked beside its place and checked first; what was
 * there before is renamed, never removed.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/product.h"
#include "cli/archive.h"
#include "cli/backup.h"
#include "cli/server.h"

enum { STAGE_CAP = CONF_PATH + 32 };

struct restore {
	struct cli *cli;
	struct conf conf;
	bool force;
	char stage[STAGE_CAP]; /* a directory in the state directory */
	int state_fd, stage_fd;
	char old[32]; /* ending of what was there before */
};

/* --- taking the stage away, whatever happens --- */

static int staged_parent = -1;
static char staged_name[STAGE_CAP];

static void remove_tree(int at, const char *name, unsigned depth)
{
	int fd = openat(at, name,
			O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *ent;

	while (d && depth < 8 && (ent = readdir(d)))
		if (strcmp(ent->d_name, ".") != 0 &&
		    strcmp(ent->d_name, "..") != 0 &&
		    unlinkat(fd, ent->d_name, 0) < 0)
			remove_tree(fd, ent->d_name, depth + 1);
	if (d)
		closedir(d);
	unlinkat(at, name, AT_REMOVEDIR);
}

static void leave_stage(void)
{
	if (staged_parent >= 0)
		remove_tree(staged_parent, staged_name, 0);
}

static void make_stage(struct restore *r)
{
	const char *dir = r->conf.state_dir;

	if (mkdir(dir, 0755) < 0 && errno != EEXIST)
		fail(r->cli, "create %s: %m", dir);
	r->state_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (r->state_fd < 0)
		fail(r->cli, "open %s: %m", dir);
	snprintf(r->stage, sizeof(r->stage), "%s/restore.XXXXXX", dir);
	if (!mkdtemp(r->stage))
		fail(r->cli, "create %s: %m (a restore needs root)", r->stage);
	snprintf(staged_name, sizeof(staged_name), "%s",
		 strrchr(r->stage, '/') + 1);
	staged_parent = r->state_fd;
	atexit(leave_stage);
	r->stage_fd = open(r->stage, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (r->stage_fd < 0)
		fail(r->cli, "open %s: %m", r->stage);
}

/* --- putting it in place --- */

static bool exists(int at, const char *name)
{
	struct stat st;

	return fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static void own(struct restore *r, int at, const char *name, const char *user,
		mode_t mode)
{
	const struct passwd *pw = getpwnam(user);

	if (!pw)
		fail(r->cli,
		     "user '%s' does not exist: 'make install' creates "
		     "it",
		     user);
	if (fchownat(at, name, pw->pw_uid, pw->pw_gid, AT_SYMLINK_NOFOLLOW) <
		    0 ||
	    fchmodat(at, name, mode, 0) < 0)
		fail(r->cli, "give %s to %s: %m", name, user);
}

static void own_all(struct restore *r, const char *dir, const char *user,
		    mode_t mode)
{
	int fd = openat(r->stage_fd, dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *ent;

	if (!d)
		fail(r->cli, "open %s: %m", dir);
	while ((ent = readdir(d)))
		if (ent->d_name[0] != '.')
			own(r, fd, ent->d_name, user, mode);
	closedir(d);
	own(r, r->stage_fd, dir, user, 0700);
}

/* The secret key of this host goes on signing if it is the log's key. */
static void keep_secret(struct restore *r)
{
	char ours[128], theirs[128];

	if (read_file_at(r->state_fd, BACKUP_AUDIT "/" AUDIT_PUBLIC, ours,
			 sizeof(ours)) < 0 ||
	    read_file_at(r->stage_fd, BACKUP_AUDIT "/" AUDIT_PUBLIC, theirs,
			 sizeof(theirs)) < 0 ||
	    strcmp(ours, theirs) != 0)
		return;
	if (linkat(r->state_fd, BACKUP_AUDIT "/" AUDIT_SECRET, r->stage_fd,
		   BACKUP_AUDIT "/" AUDIT_SECRET, 0) < 0)
		fail(r->cli, "keep the key of the log: %m");
}

static void put_in_place(struct restore *r, const char *name)
{
	char aside[64];

	if (!exists(r->stage_fd, name))
		return;
	if (exists(r->state_fd, name)) {
		snprintf(aside, sizeof(aside), "%s%s", name, r->old);
		if (renameat(r->state_fd, name, r->state_fd, aside) < 0)
			fail(r->cli, "put the old %s aside: %m", name);
		printf("kept: %s/%s\n", r->conf.state_dir, aside);
	}
	if (renameat(r->stage_fd, name, r->state_fd, name) < 0)
		fail(r->cli, "put %s in place: %m", name);
}

static bool same_text(const char *a, int at, const char *b)
{
	char x[16384], y[16384];

	return read_file_at(AT_FDCWD, a, x, sizeof(x)) >= 0 &&
	       read_file_at(at, b, y, sizeof(y)) >= 0 && strcmp(x, y) == 0;
}

/*
 * A configuration that is here is the administrator's of this host: the old
 * one is put beside it.
 */
static void put_conf(struct restore *r)
{
	const char *path = r->cli->conf_path ? r->cli->conf_path
					     : "/etc/" PRODUCT "/" PRODUCT
					       ".conf";
	char to[PATH_MAX], text[16384];
	AUTO_CLOSE int fd = -1;
	ssize_t n = read_file_at(r->stage_fd, BACKUP_CONF, text, sizeof(text));

	if (n < 0 || same_text(path, r->stage_fd, BACKUP_CONF))
		return;
	snprintf(to, sizeof(to), "%s%s", path,
		 access(path, F_OK) == 0 ? ".restored" : "");
	fd = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd < 0 || write_full(fd, text, (size_t)n) < 0)
		fail(r->cli, "write %s: %m", to);
	printf("configuration: %s\n", to);
}

static void check_quiet(struct restore *r)
{
	struct http_client c;
	char why[MESSAGE_CAP];

	if (server_try(r->cli, &c, why))
		fail(r->cli, "the daemon runs: stop it first");
	if (!r->force && (exists(r->state_fd, BACKUP_REGISTRY) ||
			  exists(r->state_fd, BACKUP_AUDIT)))
		fail(r->cli,
		     "%s has a registry or a log already; --force puts them "
		     "aside",
		     r->conf.state_dir);
}

int verb_restore(struct cli *cli, int argc, char **argv)
{
	static struct restore r;
	const struct opt table[] = {
		{ "force", 'f', OPT_FLAG, &r.force, NULL,
		  "put aside what is here" },
		OPT_HELP(cli),
		{ 0 },
	};
	AUTO_CLOSE int fd = -1;
	struct err e = { 0 };

	if (cli_operands(cli, table, argc, argv) != 1)
		cli_usage_error(cli, "which file? (- is standard input)");
	r.cli = cli;
	cli_conf(cli, &r.conf);
	fd = strcmp(argv[1], "-") == 0 ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
				       : open(argv[1], O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		fail(cli, "%s: %m", argv[1]);
	snprintf(r.old, sizeof(r.old), ".old-%llu",
		 (unsigned long long)clock_wall_ms() / 1000);
	make_stage(&r);
	check_quiet(&r);
	if (archive_unpack(fd, r.stage_fd, &e) < 0)
		fail(cli, "%s: %s", argv[1], e.msg);
	if (backup_check(r.stage_fd, &e) < 0)
		fail(cli, "%s", e.msg);
	own_all(&r, "registry", r.conf.user, 0600);
	if (exists(r.stage_fd, BACKUP_AUDIT)) {
		own_all(&r, BACKUP_AUDIT, r.conf.log_user, 0640);
		keep_secret(&r);
	}
	put_in_place(&r, BACKUP_FORMAT);
	put_in_place(&r, "registry");
	put_in_place(&r, BACKUP_AUDIT);
	put_conf(&r);
	puts("restored: the database, the log, the configuration; start the "
	     "daemon.\n"
	     "A backup has no images, snapshots, disks of sandboxes, volumes "
	     "or contents of the drive. Where this\n"
	     "host's pool still has them, they are used, and objects newer "
	     "than the backup are kept as strays\n"
	     "(see `" PRODUCT
	     " adopt`); elsewhere build or import images again, "
	     "and set secrets again.");
	return 0;
}
