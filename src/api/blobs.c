#include "api/blobs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "api/api.h"
#include "base/auto.h"
#include "base/fd.h"

#define NAMELESS "new-" /* no digest starts with it */
enum { HEX_LEN = 64, HASH_PIECE = 1 << 20, READ_PIECE = 64 * 1024 };
/* The host's disk is not filled up by a cache. */
#define DISK_RESERVE (UINT64_C(256) << 20)

static const char *hex(const char *digest)
{
	return digest + strlen("sha256:");
}

static void name_of(char out[OCI_PATH_CAP], const char *digest,
		    const char *ending)
{
	snprintf(out, OCI_PATH_CAP, "%.64s%s", hex(digest), ending);
}

void blob_use(struct api *a, struct blob_use *u, const char *digest)
{
	snprintf(u->digest, sizeof(u->digest), "%s", digest);
	list_add(&a->blobs.uses, &u->node);
}

void blob_unuse(struct blob_use *u)
{
	if (u->node.next)
		list_del(&u->node);
	*u = (struct blob_use){ 0 };
}

/* `writing`: by somebody who writes it. */
static bool is_used(struct api *a, const char *name, bool writing)
{
	struct list *n, *next;

	list_each (n, next, &a->blobs.uses) {
		struct blob_use *u = container_of(n, struct blob_use, node);

		if (strncmp(hex(u->digest), name, HEX_LEN) == 0 &&
		    (u->writing || !writing))
			return true;
	}
	return false;
}

/* --- room ----------------------------------------------------------------- */

struct census {
	uint64_t bytes;
	char oldest[NAME_MAX + 1]; /* that nobody uses; "": none */
	struct timespec at;
};

static void count_one(struct api *a, struct census *c, const char *name)
{
	struct stat st;

	if (fstatat(a->blobs.dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    !S_ISREG(st.st_mode))
		return;
	c->bytes += (uint64_t)st.st_size;
	if (is_used(a, name, false))
		return;
	if (!*c->oldest || st.st_mtim.tv_sec < c->at.tv_sec ||
	    (st.st_mtim.tv_sec == c->at.tv_sec &&
	     st.st_mtim.tv_nsec < c->at.tv_nsec)) {
		snprintf(c->oldest, sizeof(c->oldest), "%s", name);
		c->at = st.st_mtim;
	}
}

static void take_census(struct api *a, struct census *c)
{
	int fd = openat(a->blobs.dir_fd, ".",
			O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *d;

	*c = (struct census){ 0 };
	if (!dir) {
		if (fd >= 0)
			close(fd);
		return;
	}
	while ((d = readdir(dir)))
		if (d->d_name[0] != '.')
			count_one(a, c, d->d_name);
	closedir(dir);
}

static bool disk_has(struct api *a, uint64_t more)
{
	struct statfs fs;

	return fstatfs(a->blobs.dir_fd, &fs) == 0 &&
	       (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize >
		       more + DISK_RESERVE;
}

static int make_room(struct api *a, uint64_t more, struct err *e)
{
	struct census c;

	for (;;) {
		take_census(a, &c);
		if (more <= a->conf.blobs_bytes &&
		    c.bytes <= a->conf.blobs_bytes - more && disk_has(a, more))
			return 0;
		if (!*c.oldest)
			break;
		log_debug("blob=%s dropped for newer ones", c.oldest);
		if (unlinkat(a->blobs.dir_fd, c.oldest, 0) < 0)
			return err_sys(e, "remove blob %s", c.oldest);
	}
	return err_set(e, ENOSPC,
		       "no room for %llu bytes of an image: the limit is "
		       "`blobs_size`, and the disk's",
		       (unsigned long long)more);
}

/* --- whole ones ----------------------------------------------------------- */

/* What was being packed when we ended has no other time. */
static void drop_nameless(struct api *a)
{
	int fd = openat(a->blobs.dir_fd, ".",
			O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *d;

	if (!dir) {
		if (fd >= 0)
			close(fd);
		return;
	}
	while ((d = readdir(dir)))
		if (str_starts(d->d_name, NAMELESS))
			(void)unlinkat(a->blobs.dir_fd, d->d_name, 0);
	closedir(dir);
}

int blobs_start(struct api *a, struct err *e)
{
	char path[CONF_PATH + 16];

	list_init(&a->blobs.uses);
	snprintf(path, sizeof(path), "%s/blobs", a->conf.state_dir);
	a->blobs.dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (a->blobs.dir_fd < 0)
		return err_sys(e, "open %s", path);
	drop_nameless(a);
	return 0;
}

bool blob_has(struct api *a, const struct oci_blob *b)
{
	char name[OCI_PATH_CAP];
	AUTO_CLOSE int fd = -1;
	struct stat st;

	name_of(name, b->digest, "");
	fd = openat(a->blobs.dir_fd, name, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 || fstat(fd, &st) < 0 || (uint64_t)st.st_size != b->size)
		return false;
	(void)futimens(fd, NULL);
	return true;
}

int blob_open(struct api *a, const char *digest, struct err *e)
{
	char name[OCI_PATH_CAP];
	int fd;

	name_of(name, digest, "");
	fd = openat(a->blobs.dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	return fd < 0 ? err_sys(e, "open blob %s", digest) : fd;
}

void blob_remove(struct api *a, const char *digest)
{
	char name[OCI_PATH_CAP];

	name_of(name, digest, "");
	if (unlinkat(a->blobs.dir_fd, name, 0) < 0 && errno != ENOENT)
		log_warn("blob=%s not removed: %s, ignoring", digest,
			 strerror(errno));
}

/* --- writing -------------------------------------------------------------- */

static int open_part(struct blob_write *w, int flags, struct err *e)
{
	w->fd = openat(w->api->blobs.dir_fd, w->part,
		       O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
	if (w->fd >= 0)
		return 0;
	err_sys(e, "create blob %s", w->part);
	w->part[0] = '\0';
	blob_unuse(&w->use);
	return -e->code;
}

int blob_write_begin(struct blob_write *w, struct api *a,
		     const struct oci_blob *b, struct err *e)
{
	struct stat st;

	if (is_used(a, hex(b->digest), true))
		return err_set(e, EBUSY, "blob %s is being written", b->digest);
	*w = (struct blob_write){ .api = a, .fd = -1, .size = b->size };
	blob_use(a, &w->use, b->digest);
	w->use.writing = true;
	name_of(w->part, b->digest, ".part");
	if (open_part(w, 0, e) < 0)
		return -e->code;
	if (fstat(w->fd, &st) < 0 || (uint64_t)st.st_size > b->size) {
		st.st_size = 0;
		if (ftruncate(w->fd, 0) < 0)
			err_sys(e, "empty blob %s", w->part);
	}
	w->at = (uint64_t)st.st_size;
	sha256_init(&w->sha);
	if (e->code == 0)
		(void)make_room(a, b->size - w->at, e);
	if (e->code)
		blob_write_stop(w);
	return -e->code;
}

int blob_write_new(struct blob_write *w, struct api *a, struct err *e)
{
	char id[ID_CAP];

	*w = (struct blob_write){ .api = a, .fd = -1 };
	if (id_make(id) < 0)
		return err_set(e, EIO, "no random numbers");
	if (make_room(a, 1, e) < 0)
		return -e->code;
	snprintf(w->part, sizeof(w->part), NAMELESS "%s.part", id);
	/* No digest, but a name: it is not removed as the oldest. */
	snprintf(w->use.digest, sizeof(w->use.digest),
		 "sha256:" NAMELESS "%s.part", id);
	list_add(&a->blobs.uses, &w->use.node);
	sha256_init(&w->sha);
	return open_part(w, O_EXCL, e);
}

int blob_write_hash(struct blob_write *w, struct err *e)
{
	static char piece[READ_PIECE];
	uint64_t end = w->hashed + HASH_PIECE;

	while (w->hashed < w->at && w->hashed < end) {
		size_t n = w->at - w->hashed < sizeof(piece)
				   ? (size_t)(w->at - w->hashed)
				   : sizeof(piece);
		ssize_t got = pread(w->fd, piece, n, (off_t)w->hashed);

		if (got <= 0)
			return err_set(e, got < 0 ? errno : EIO, "read blob %s",
				       w->part);
		sha256_add(&w->sha, piece, (size_t)got);
		w->hashed += (uint64_t)got;
	}
	return w->hashed < w->at;
}

int blob_write_add(struct blob_write *w, const void *p, size_t n, struct err *e)
{
	const char *from = p;
	size_t left = n;

	if (w->size && n > w->size - w->at)
		return err_set(e, EBADMSG, "blob %s is longer than announced",
			       w->use.digest);
	/* Of one whose size is not known the room is looked at as it grows. */
	if (!w->size && (w->at ^ (w->at + n)) >> 26 &&
	    make_room(w->api, n, e) < 0)
		return -e->code;
	while (left > 0) {
		ssize_t got = pwrite(w->fd, from, left, (off_t)w->at);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return err_sys(e, "write blob %s", w->part);
		sha256_add(&w->sha, from, (size_t)got);
		w->at += (uint64_t)got;
		from += got;
		left -= (size_t)got;
	}
	w->hashed = w->at;
	return 0;
}

static void forget(struct blob_write *w, bool remove)
{
	if (!*w->part)
		return;
	if (remove && unlinkat(w->api->blobs.dir_fd, w->part, 0) < 0)
		log_warn("blob=%s not removed: %s, ignoring", w->part,
			 strerror(errno));
	auto_close(&w->fd);
	w->fd = -1;
	w->part[0] = '\0';
	blob_unuse(&w->use);
}

int blob_write_end(struct blob_write *w, char digest[OCI_DIGEST_CAP],
		   struct err *e)
{
	char is[OCI_DIGEST_CAP], name[OCI_PATH_CAP];
	uint8_t sum[SHA256_LEN];

	sha256_end(&w->sha, sum);
	oci_digest_text(is, sum);
	if (oci_digest_valid(w->use.digest) && strcmp(is, w->use.digest) != 0) {
		err_set(e, EBADMSG, "blob %s is not what its digest says",
			w->use.digest);
	} else {
		name_of(name, is, "");
		if (renameat(w->api->blobs.dir_fd, w->part,
			     w->api->blobs.dir_fd, name) < 0)
			err_sys(e, "name blob %s", is);
	}
	if (digest)
		memcpy(digest, is, OCI_DIGEST_CAP);
	forget(w, e->code != 0);
	return -e->code;
}

/* Of one without a digest there is no other time. */
void blob_write_stop(struct blob_write *w)
{
	forget(w, !oci_digest_valid(w->use.digest));
}
