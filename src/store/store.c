#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>

#include "base/auto.h"
#include "store/ops.h"

/* Creates need a tenth of the pool free: a full btrfs is hard to empty. */
#define FREE_SHARE 10

static const char *const parts[] = { "images", "box", "stage", "snap",
				     "copy",   "vol", "vm",    "trash" };

/* The sandboxes' directories have the modes we say, whatever the umask. */
static void auto_umask(mode_t *saved)
{
	umask(*saved);
}
#define FIXED_UMASK \
	AUTO(auto_umask) __attribute__((unused)) mode_t saved_ = umask(022)

static int make_parts(struct store *s, struct err *e)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(parts); i++)
		if (mkdirat(s->root_fd, parts[i], 0700) < 0 && errno != EEXIST)
			return err_sys(e, "make %s/ in the pool", parts[i]);
	return 0;
}

int store_open(struct store *s, const struct conf *c, struct err *e)
{
	int r;

	*s = (struct store){ .root_fd = -1, .usage_fd = -1 };
	s->root_fd = pool_open(c, &s->ops, e);
	if (s->root_fd < 0)
		return s->root_fd;
	r = make_parts(s, e);
	if (r == 0)
		r = s->ops->start(s, e);
	if (r < 0)
		store_done(s);
	return r;
}

void store_done(struct store *s)
{
	auto_close(&s->usage_fd);
	auto_close(&s->root_fd);
}

int store_close(const struct conf *c, struct err *e)
{
	return pool_close(c, e);
}

static int space(struct store *s, struct statfs *fs, struct err *e)
{
	if (fstatfs(s->root_fd, fs) < 0)
		return err_sys(e, "free space of the pool");
	return 0;
}

/* Also gives what may be used up before the pool gets too full. */
int pool_check_free(struct store *s, uint64_t *usable, struct err *e)
{
	char have[SIZE_TEXT], all[SIZE_TEXT];
	uint64_t unit, keep;
	struct statfs fs;
	int r = space(s, &fs, e);

	if (r < 0)
		return r;
	unit = (uint64_t)fs.f_bsize;
	keep = fs.f_blocks / FREE_SHARE;
	if (fs.f_bavail > keep &&
	    (fs.f_files == 0 || fs.f_ffree > fs.f_files / FREE_SHARE)) {
		*usable = (fs.f_bavail - keep) * unit;
		return 0;
	}
	size_text(fs.f_bavail * unit, have);
	size_text(fs.f_blocks * unit, all);
	return err_set(e, ENOSPC,
		       "the pool is full: %s of %s free, a tenth is kept; "
		       "remove sandboxes or images, or enlarge it",
		       have, all);
}

void rel_path(char out[REL_PATH], const char *part, const char *id)
{
	snprintf(out, REL_PATH, "%s/%s", part, id);
}

int tree_dir(struct store *s, const char *part, const char *id, bool make,
	     struct err *e)
{
	char path[REL_PATH];
	int fd;

	rel_path(path, part, id);
	if (make && mkdirat(s->root_fd, path, 0700) < 0)
		return err_sys(e, "make %s in the pool", path);
	fd = openat(s->root_fd, path,
		    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? err_sys(e, "open %s in the pool", path) : fd;
}

int tree_make(struct store *s, const char *part, const char *id, uint64_t bytes,
	      struct err *e)
{
	AUTO_CLOSE int dir_fd = tree_dir(s, part, id, true, e);
	int r, fd;

	if (dir_fd < 0)
		return dir_fd;
	r = s->ops->make(s, dir_fd, "tree", bytes, e);
	if (r < 0)
		return err_wrap(e, "%s/%s", part, id);
	fd = openat(dir_fd, "tree",
		    O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return err_sys(e, "open %s/%s in the pool", part, id);
	return fd;
}

int tree_open(struct store *s, const char *part, const char *id, int flags,
	      struct err *e)
{
	char path[REL_PATH];
	int fd;

	snprintf(path, sizeof(path), "%s/%s/tree", part, id);
	fd = openat(s->root_fd, path,
		    flags | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return err_sys(e, "open %s in the pool", path);
	return fd;
}

/*
 * A rename into trash/. The name may be taken there, by the staged twin of a
 * discarded image or by a discard that was cut short.
 */
int tree_discard(struct store *s, const char *part, const char *id)
{
	char from[REL_PATH], to[REL_PATH];
	unsigned n = 0;
	int r;

	rel_path(from, part, id);
	rel_path(to, "trash", id);
	while ((r = renameat2(s->root_fd, from, s->root_fd, to,
			      RENAME_NOREPLACE)) < 0 &&
	       errno == EEXIST)
		snprintf(to, sizeof(to), "trash/%s.%u", id, ++n);
	return r < 0 ? -errno : 0;
}

int pool_check_limit(struct store *s, bool allow_unlimited, struct err *e)
{
	if (s->disk_limit || allow_unlimited)
		return 0;
	return err_set(e, ENOTSUP,
		       "this pool cannot limit disk space: use btrfs, mount it "
		       "with prjquota, or set allow_missing = disk");
}

static int overlay_dirs(int fd, const char *id, struct err *e)
{
	if (mkdirat(fd, "upper", 0755) < 0 || mkdirat(fd, "work", 0700) < 0)
		return err_sys(e, "make upper/ and work/ of volume %s", id);
	return 0;
}

int store_volume_new(struct store *s, const char *id, uint64_t bytes,
		     bool allow_unlimited, struct err *e)
{
	FIXED_UMASK;
	AUTO_CLOSE int fd = -1;
	uint64_t usable;
	int r;

	r = pool_check_limit(s, allow_unlimited, e);
	if (r < 0)
		return r;
	if (bytes == 0)
		return err_set(e, EINVAL, "volume %s: no size", id);
	r = pool_check_free(s, &usable, e);
	if (r < 0)
		return r;
	fd = tree_make(s, "box", id, bytes, e);
	if (fd == -EEXIST)
		return fd;
	r = fd < 0 ? fd : overlay_dirs(fd, id, e);
	if (r < 0) {
		/* What this cannot take away, a start-up sweep finds. */
		(void)tree_discard(s, "box", id);
		return r;
	}
	return take_fd(&fd);
}

int store_volume_open(struct store *s, const char *id, struct err *e)
{
	return tree_open(s, "box", id, O_PATH, e);
}

int store_volume_read(struct store *s, const char *id, struct err *e)
{
	return tree_open(s, "box", id, O_RDONLY, e);
}

int store_volume_discard(struct store *s, const char *id, struct err *e)
{
	int r = tree_discard(s, "box", id);

	if (r < 0)
		return err_set(e, -r, "discard volume %s: %s", id,
			       strerror(-r));
	return 0;
}

int store_volume_usage(struct store *s, const char *id, uint64_t *bytes,
		       struct err *e)
{
	AUTO_CLOSE int fd = tree_open(s, "box", id, O_RDONLY, e);
	int r;

	if (fd < 0)
		return fd;
	r = s->ops->usage(s, fd, bytes, e);
	return r < 0 ? err_wrap(e, "volume %s", id) : 0;
}

int store_volume_limit(struct store *s, const char *id, uint64_t bytes,
		       struct err *e)
{
	AUTO_CLOSE int fd = tree_open(s, "box", id, O_RDONLY, e);
	int r;

	if (fd < 0)
		return fd;
	if (bytes == 0)
		return err_set(e, EINVAL, "volume %s: no size", id);
	r = s->ops->limit(s, fd, bytes, e);
	return r < 0 ? err_wrap(e, "volume %s", id) : 0;
}

/* A part that is missing is not an empty one: -ENOENT is for the end only. */
static DIR *open_part(struct store *s, const char *part)
{
	AUTO_CLOSE int fd =
		openat(s->root_fd, part, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;

	if (dir)
		take_fd(&fd);
	else if (errno == ENOENT)
		errno = ESTALE;
	return dir;
}

int tree_next(struct store *s, const char *part, const char *after,
	      char id[ID_CAP])
{
	AUTO_DIR DIR *dir = open_part(s, part);
	char last[ID_CAP]; /* `after` may be where the answer goes */
	struct dirent *d;
	bool found = false;

	if (!dir)
		return -errno;
	snprintf(last, sizeof(last), "%s", after);
	while (errno = 0, (d = readdir(dir)) != NULL) {
		if (!id_valid(d->d_name) || strcmp(d->d_name, last) <= 0 ||
		    (found && strcmp(d->d_name, id) >= 0))
			continue;
		memcpy(id, d->d_name, ID_CAP);
		found = true;
	}
	/* Half a list has neither an end nor a smallest entry. */
	if (errno)
		return -errno;
	return found ? 0 : -ENOENT;
}

int store_volume_next(struct store *s, const char *after, char id[ID_CAP])
{
	return tree_next(s, "box", after, id);
}

int store_image_stage(struct store *s, const char *id, struct err *e)
{
	FIXED_UMASK;
	uint64_t usable;
	int r = pool_check_free(s, &usable, e);

	if (r < 0)
		return r;
	r = tree_make(s, "stage", id, usable, e);
	if (r < 0 && r != -EEXIST)
		(void)tree_discard(s, "stage", id);
	return r;
}

/* First the content on disk, then the name, then the name on disk. */
int store_image_commit(struct store *s, const char *id, struct err *e)
{
	AUTO_CLOSE int fd = tree_open(s, "stage", id, O_RDONLY, e);
	char from[REL_PATH], to[REL_PATH];
	int r;

	if (fd < 0)
		return fd;
	r = s->ops->seal(fd, e);
	if (r < 0)
		return err_wrap(e, "image %s", id);
	rel_path(from, "stage", id);
	rel_path(to, "images", id);
	if (syncfs(s->root_fd) < 0 ||
	    renameat2(s->root_fd, from, s->root_fd, to, RENAME_NOREPLACE) < 0 ||
	    syncfs(s->root_fd) < 0)
		return err_sys(e, "commit image %s", id);
	return 0;
}

int store_image_open(struct store *s, const char *id, struct err *e)
{
	return tree_open(s, "images", id, O_PATH, e);
}

int store_image_discard(struct store *s, const char *id, struct err *e)
{
	int r = tree_discard(s, "images", id);

	if (r == -ENOENT)
		r = tree_discard(s, "stage", id);
	if (r < 0)
		return err_set(e, -r, "discard image %s: %s", id, strerror(-r));
	return 0;
}

int store_image_next(struct store *s, const char *after, char id[ID_CAP])
{
	return tree_next(s, "images", after, id);
}

int discard_unless(struct store *s, const char *part,
		   int (*keep)(struct store *s, const char *id), struct err *e)
{
	char id[ID_CAP] = "";
	int r, kept;

	while ((r = tree_next(s, part, id, id)) == 0) {
		kept = keep(s, id);
		r = kept != 0 ? kept : tree_discard(s, part, id);
		if (r < 0)
			return err_set(e, -r, "clear %s/%s of the pool: %s",
				       part, id, strerror(-r));
	}
	if (r != -ENOENT)
		return err_set(e, -r, "list %s/ of the pool: %s", part,
			       strerror(-r));
	return 0;
}

static int keep_none(struct store *s, const char *id)
{
	(void)s;
	(void)id;
	return 0;
}

static int discard_all(struct store *s, const char *part, struct err *e)
{
	return discard_unless(s, part, keep_none, e);
}

int store_stage_clear(struct store *s, struct err *e)
{
	return discard_all(s, "stage", e);
}

/* ext4 may say only to writers that it stopped after an error (seen on 6.18).
 */
static bool takes_files(const struct store *s)
{
	AUTO_CLOSE int fd =
		openat(s->root_fd, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);

	return fd >= 0 || errno != EROFS;
}

int store_status(struct store *s, struct store_status *out, struct err *e)
{
	struct statfs fs;
	int r = space(s, &fs, e);

	if (r < 0)
		return r;
	*out = (struct store_status){
		.disk_limit = s->disk_limit,
		.simple_quota = s->simple_quota,
		.read_only = fs.f_flags & ST_RDONLY || !takes_files(s),
		.bytes = fs.f_blocks * (uint64_t)fs.f_bsize,
		.free_bytes = fs.f_bavail * (uint64_t)fs.f_bsize,
	};
	return str_copy(out->driver, sizeof(out->driver), s->ops->name);
}

int store_sweep(struct store *s, struct err *e)
{
	struct err trash = { 0 };
	int t = sweep_trash(s, &trash);
	int r = s->ops->sweep(s, e);

	/* A tree that cannot be removed does not keep the groups of others. */
	if (t < 0) {
		*e = trash;
		return t;
	}
	return r < 0 ? r : t || r;
}

uint64_t store_reserve(struct store *s, unsigned n)
{
	uint64_t first = s->next_family;

	if (s->n_reserved++ == 0)
		s->first_reserved = first;
	s->next_family += n;
	return first;
}

void store_release(struct store *s)
{
	s->n_reserved--;
}

/* For a pool that is not a file of its own. */
static int remove_parts(const struct conf *c, struct err *e)
{
	struct store s;
	size_t i;
	int r = store_open(&s, c, e);

	if (r < 0)
		return r;
	r = store_copy_clear(&s, e);
	for (i = 0; i < ARRAY_LEN(parts) && r == 0; i++)
		if (strcmp(parts[i], "trash") != 0)
			r = discard_all(&s, parts[i], e);
	if (r == 0)
		r = store_sweep(&s, e);
	if (r >= 0 && unlinkat(s.root_fd, "identity", 0) < 0 && errno != ENOENT)
		r = err_sys(e, "remove the identity of the pool");
	for (i = 0; i < ARRAY_LEN(parts) && r >= 0; i++)
		if (unlinkat(s.root_fd, parts[i], AT_REMOVEDIR) < 0)
			r = err_sys(e, "remove %s/ of the pool", parts[i]);
	store_done(&s);
	return r < 0 ? r : 0;
}

int store_destroy(const struct conf *c, struct err *e)
{
	int r = 0;

	if (!pool_has_file(c))
		r = remove_parts(c, e);
	if (r == 0)
		r = pool_close(c, e);
	if (r == 0)
		r = pool_remove(c, e);
	return r;
}
