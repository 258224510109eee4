/*
 * The state_dir is locked as a directory: by inode, so that neither another
 * name nor another mount namespace leads around it.
 *
 * The ids are locked in a file that all instances of a host share, and whose
 * offsets are ids: a lock on the bytes of the range meets every lock on a range
 * that overlaps. The same file has, for each range, the state_dir of its owner,
 * in the place of the range's first id. Two ranges that do not overlap are at
 * least 65,536 ids apart (SLOT_STRIDE of the warden), so they have different
 * places. Instances with a /run of their own do not see each other's ids.
 */
#include "daemon/own.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/product.h"

#define IDS_FILE "/run/" PRODUCT ".ids"

/* A daemon that was killed lets go when its last child has begun its program.
 */
enum { WAIT_MS = 1000, STEP_MS = 10, IDS_PER_PLACE = 0x10000 };

static int lock_state_dir(const struct conf *c, struct err *e)
{
	uint64_t until = clock_boot_ms() + WAIT_MS;
	AUTO_CLOSE int fd = -1;

	if (mkdir(c->state_dir, 0755) < 0 && errno != EEXIST)
		return err_sys(e, "create %s", c->state_dir);
	fd = open(c->state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return err_sys(e, "open state_dir %s", c->state_dir);
	while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return err_sys(e, "lock state_dir %s", c->state_dir);
		if (clock_boot_ms() > until)
			return err_set(e, EBUSY,
				       "state_dir %s is in use by another "
				       "instance: give this one its own "
				       "state_dir, run_dir, cgroup, uid_base "
				       "and uid_count",
				       c->state_dir);
		poll(NULL, 0, STEP_MS);
	}
	take_fd(&fd); /* until we end */
	return 0;
}

static off_t place_of(uint64_t id)
{
	return (off_t)(id / IDS_PER_PLACE * CONF_PATH);
}

/* Names the owner of the range that is in the way. */
static int refuse_ids(int fd, const struct conf *c, struct flock *l,
		      struct err *e)
{
	char owner[CONF_PATH] = "";

	if (fcntl(fd, F_OFD_GETLK, l) < 0)
		return err_sys(e, "find the owner of the user ids");
	if (l->l_type != F_UNLCK && pread(fd, owner, sizeof(owner) - 1,
					  place_of((uint64_t)l->l_start)) < 0)
		return err_sys(e, "read " IDS_FILE);
	return err_set(e, EBUSY,
		       "user ids %llu to %llu are in use by another instance, "
		       "with state_dir %s: give this one its own uid_base, "
		       "uid_count and cgroup",
		       (unsigned long long)c->uid_base,
		       (unsigned long long)(c->uid_base + c->uid_count - 1),
		       *owner ? owner : "?");
}

static int lock_ids(const struct conf *c, struct err *e)
{
	const struct flock range = { .l_type = F_WRLCK,
				     .l_whence = SEEK_SET,
				     .l_start = (off_t)c->uid_base,
				     .l_len = (off_t)c->uid_count };
	uint64_t until = clock_boot_ms() + WAIT_MS;
	AUTO_CLOSE int fd = -1;
	struct flock l = range;

	/* No range: the warden says why. */
	if (c->uid_base > UINT32_MAX || c->uid_count > UINT32_MAX ||
	    c->uid_count == 0)
		return 0;
	fd = open(IDS_FILE, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_sys(e, "open " IDS_FILE);
	while (fcntl(fd, F_OFD_SETLK, &l) < 0) {
		if (errno != EAGAIN && errno != EACCES && errno != EINTR)
			return err_sys(e, "lock " IDS_FILE);
		if (clock_boot_ms() > until)
			return refuse_ids(fd, c, &l, e);
		poll(NULL, 0, STEP_MS);
		l = range;
	}
	if (pwrite(fd, c->state_dir, sizeof(c->state_dir),
		   place_of(c->uid_base)) < 0)
		return err_sys(e, "write " IDS_FILE);
	take_fd(&fd); /* until we end */
	return 0;
}

int own_take(const struct conf *c, struct err *e)
{
	return lock_state_dir(c, e) < 0 ? -e->code : lock_ids(c, e);
}
