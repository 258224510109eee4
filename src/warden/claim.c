/*
 * The claim on the parent control group. Everything below that group is swept
 * at a start, so exactly one instance may own it.
 *
 * The claim has two parts. A lock on the group's directory says that a warden
 * is at work there. A mark on it, an extended attribute, says whose sandboxes
 * are inside, also while no warden runs: it names the directory of the records
 * by device and inode, because only with these records can the sandboxes be
 * adopted. The mark lives and dies with the group and is the same in every
 * mount namespace.
 *
 * A group that is locked by another instance, or that holds processes under
 * another mark, is not ours: the warden refuses to start.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "base/log.h"
#include "base/product.h"
#include "warden/warden.h"

#define MARK "trusted." PRODUCT ".owner"

enum { MARK_CAP = 2 * CONF_PATH + 64 };

/* "DEVICE:INODE\nSTATE_DIR\nRUN_DIR" */
struct mark {
	char text[MARK_CAP];
	char *state_dir, *run_dir; /* of the text */
};

/* The parts that a damaged mark lacks are "". */
static void mark_split(struct mark *m)
{
	char *end = m->text + strlen(m->text);

	m->state_dir = strchr(m->text, '\n');
	m->state_dir = m->state_dir ? m->state_dir + 1 : end;
	m->run_dir = strchr(m->state_dir, '\n');
	if (m->run_dir)
		*m->run_dir++ = '\0';
	else
		m->run_dir = end;
}

static int mark_ours(const struct warden *w, struct mark *m, struct err *e)
{
	struct stat st;

	if (fstat(w->box_fd, &st) < 0)
		return err_sys(e, "stat %s/box", w->conf.run_dir);
	snprintf(m->text, sizeof(m->text), "%llu:%llu\n%s\n%s",
		 (unsigned long long)st.st_dev, (unsigned long long)st.st_ino,
		 w->conf.state_dir, w->conf.run_dir);
	return 0;
}

/* "" when the group has none. */
static int mark_read(const struct warden *w, struct mark *m, struct err *e)
{
	ssize_t n =
		fgetxattr(w->cg.unified_fd, MARK, m->text, sizeof(m->text) - 1);

	if (n < 0 && errno != ENODATA)
		return err_sys(e, "read the owner of cgroup %s", w->cg.path);
	m->text[n < 0 ? 0 : n] = '\0';
	mark_split(m);
	return 0;
}

/* The records decide; the names are for people. */
static bool same_records(const struct mark *a, const struct mark *b)
{
	size_t n = strcspn(a->text, "\n");

	return n > 0 && n == strcspn(b->text, "\n") &&
	       strncmp(a->text, b->text, n) == 0;
}

static int refuse_running(const struct warden *w, const struct mark *found,
			  struct err *e)
{
	return err_set(
		e, EBUSY,
		"cgroup %s is in use by another instance, with state_dir "
		"%s: give this one its own cgroup, uid_base and "
		"uid_count",
		w->cg.path, *found->state_dir ? found->state_dir : "?");
}

static int refuse_inside(const struct warden *w, const struct mark *found,
			 unsigned slot, struct err *e)
{
	if (strcmp(found->state_dir, w->conf.state_dir) != 0)
		return err_set(e, EBUSY,
			       "cgroup %s holds sandboxes of another instance, "
			       "with state_dir %s: give this one its own "
			       "cgroup, uid_base and uid_count",
			       w->cg.path, found->state_dir);
	return err_set(e, EBUSY,
		       "cgroup %s/b%u holds a sandbox whose record is not in "
		       "%s/box but was in %s/box: set run_dir back, or end it "
		       "by its cgroup.kill",
		       w->cg.path, slot, w->conf.run_dir, found->run_dir);
}

/* Without a mark the group is new, or from before there were marks. */
static int check_inside(const struct warden *w, const struct mark *found,
			struct err *e)
{
	unsigned slot;
	int r = *found->text ? cgroup_find_populated(&w->cg, NULL, 0, &slot, e)
			     : 0;

	return r > 0 ? refuse_inside(w, found, slot, e) : r;
}

/* Children of our last warden may hold the lock a moment longer. */
static int lock_group(const struct warden *w, bool ours,
		      const struct mark *found, struct err *e)
{
	if (flock(w->cg.unified_fd, LOCK_EX | LOCK_NB) == 0)
		return 0;
	if (errno == EWOULDBLOCK && !ours)
		return refuse_running(w, found, e);
	return flock(w->cg.unified_fd, LOCK_EX) < 0
		       ? err_sys(e, "lock cgroup %s", w->cg.path)
		       : 0;
}

int claim_groups(const struct warden *w, struct err *e)
{
	struct mark found, own;

	if (mark_ours(w, &own, e) < 0 || mark_read(w, &found, e) < 0 ||
	    lock_group(w, same_records(&found, &own), &found, e) < 0)
		return -e->code;
	/* Again: another warden may have had the group meanwhile. */
	if (mark_read(w, &found, e) < 0)
		return -e->code;
	if (!same_records(&found, &own) && check_inside(w, &found, e) < 0)
		return -e->code;
	if (fsetxattr(w->cg.unified_fd, MARK, own.text, strlen(own.text), 0) <
	    0)
		return err_sys(e, "mark cgroup %s as ours", w->cg.path);
	return 0;
}
