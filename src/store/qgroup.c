#include "store/qgroup.h"

#include <endian.h>
#include <errno.h>
#include <limits.h>
#include <linux/btrfs.h>
#include <linux/btrfs_tree.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

/* Since Linux 6.7; the headers of Debian 12 are older. */
#define QUOTA_CTL_ENABLE_SIMPLE 4
#define STATUS_FLAG_SIMPLE (1ULL << 3)

#define LEVEL_1 (1ULL << 48)

/*
 * All items of one tree in a range of keys. The kernel compares keys as
 * wholes, so a range spans one item type only if it keeps to one object id or
 * if the objects have no items of other types.
 */
struct search {
	int fd;
	struct btrfs_ioctl_search_args args;
	size_t pos;
	unsigned left;
	bool more;
};

struct item {
	struct btrfs_ioctl_search_header h;
	const char *data;
};

static void search_init(struct search *s, int fd, uint64_t tree, uint32_t type)
{
	memset(s, 0, offsetof(struct search, args.buf));
	s->fd = fd;
	s->pos = 0;
	s->left = 0;
	s->more = true;
	s->args.key.tree_id = tree;
	s->args.key.min_type = s->args.key.max_type = type;
	s->args.key.max_transid = UINT64_MAX;
}

static void search_objects(struct search *s, uint64_t min, uint64_t max)
{
	s->args.key.min_objectid = min;
	s->args.key.max_objectid = max;
}

static void search_offsets(struct search *s, uint64_t min, uint64_t max)
{
	s->args.key.min_offset = min;
	s->args.key.max_offset = max;
}

/* 1 and an item, 0 at the end, or -errno (ENOENT: there is no such tree). */
static int search_next(struct search *s, struct item *it)
{
	*it = (struct item){ 0 };
	if (s->left == 0) {
		if (!s->more)
			return 0;
		s->args.key.nr_items = 4096;
		if (ioctl(s->fd, BTRFS_IOC_TREE_SEARCH, &s->args) < 0)
			return -errno;
		s->left = s->args.key.nr_items;
		s->pos = 0;
		if (s->left == 0)
			return 0;
	}
	if (s->pos + sizeof(it->h) > sizeof(s->args.buf))
		return -EIO;
	memcpy(&it->h, s->args.buf + s->pos, sizeof(it->h));
	s->pos += sizeof(it->h);
	it->data = s->args.buf + s->pos;
	if (it->h.len > sizeof(s->args.buf) - s->pos)
		return -EIO;
	s->pos += it->h.len;
	s->left--;
	s->args.key.min_objectid = it->h.objectid;
	s->args.key.min_type = it->h.type;
	s->args.key.min_offset = it->h.offset + 1;
	s->more = s->args.key.min_offset != 0;
	return 1;
}

/* The flags; ENOENT when quotas are off. */
static int quota_status(int fd, uint64_t *flags)
{
	struct btrfs_qgroup_status_item st;
	struct search s;
	struct item it;
	int r;

	search_init(&s, fd, BTRFS_QUOTA_TREE_OBJECTID, BTRFS_QGROUP_STATUS_KEY);
	r = search_next(&s, &it);
	if (r <= 0)
		return r < 0 ? r : -ENOENT;
	if (it.h.len < sizeof(st))
		return -EIO;
	memcpy(&st, it.data, sizeof(st));
	*flags = le64toh(st.flags);
	return *flags & BTRFS_QGROUP_STATUS_FLAG_ON ? 0 : -ENOENT;
}

static int quota_on(int fd)
{
	struct btrfs_ioctl_quota_ctl_args ctl = {
		.cmd = QUOTA_CTL_ENABLE_SIMPLE,
	};

	if (ioctl(fd, BTRFS_IOC_QUOTA_CTL, &ctl) == 0)
		return 0;
	if (errno != EINVAL && errno != EOPNOTSUPP)
		return -errno;
	ctl.cmd = BTRFS_QUOTA_CTL_ENABLE;
	return ioctl(fd, BTRFS_IOC_QUOTA_CTL, &ctl) < 0 ? -errno : 0;
}

int qgroup_enable(int fd, bool *simple)
{
	uint64_t flags = 0;
	int r = quota_status(fd, &flags);

	if (r == -ENOENT) {
		r = quota_on(fd);
		if (r == 0)
			r = quota_status(fd, &flags);
	}
	if (r < 0)
		return r;
	*simple = (flags & STATUS_FLAG_SIMPLE) != 0;
	r = qgroup_repair(fd);
	return r < 0 ? r : 0;
}

int qgroup_repair(int fd)
{
	struct btrfs_ioctl_quota_rescan_args args = { 0 };
	uint64_t flags = 0;
	int r = quota_status(fd, &flags);

	if (r < 0 || !(flags & BTRFS_QGROUP_STATUS_FLAG_INCONSISTENT))
		return r;
	if (ioctl(fd, BTRFS_IOC_QUOTA_RESCAN, &args) < 0 &&
	    errno != EINPROGRESS)
		return -errno;
	return 1;
}

static void search_families(struct search *s, int fd, uint64_t end)
{
	search_init(s, fd, BTRFS_QUOTA_TREE_OBJECTID, BTRFS_QGROUP_INFO_KEY);
	search_offsets(s, LEVEL_1 | FAMILY_FIRST, LEVEL_1 | (end - 1));
}

int qgroup_next_family(int fd, uint64_t *next)
{
	struct search s;
	struct item it;
	int r;

	*next = FAMILY_FIRST;
	search_families(&s, fd, FAMILY_END);
	while ((r = search_next(&s, &it)) > 0)
		*next = (it.h.offset & ~LEVEL_1) + 1;
	return r;
}

int qgroup_family_make(int fd, uint64_t family)
{
	struct btrfs_ioctl_qgroup_create_args args = {
		.create = 1,
		.qgroupid = LEVEL_1 | family,
	};

	return ioctl(fd, BTRFS_IOC_QGROUP_CREATE, &args) < 0 ? -errno : 0;
}

int qgroup_family_limit(int fd, uint64_t family, uint64_t bytes)
{
	struct btrfs_ioctl_qgroup_limit_args args = {
		.qgroupid = LEVEL_1 | family,
		.lim = { .flags = BTRFS_QGROUP_LIMIT_MAX_RFER,
			 .max_rfer = bytes },
	};

	return ioctl(fd, BTRFS_IOC_QGROUP_LIMIT, &args) < 0 ? -errno : 0;
}

int qgroup_family_of(int fd, uint64_t *family)
{
	struct btrfs_ioctl_ino_lookup_args root = {
		.objectid = BTRFS_FIRST_FREE_OBJECTID,
	};
	struct search s;
	struct item it;
	int r;

	if (ioctl(fd, BTRFS_IOC_INO_LOOKUP, &root) < 0)
		return -errno;
	search_init(&s, fd, BTRFS_QUOTA_TREE_OBJECTID,
		    BTRFS_QGROUP_RELATION_KEY);
	search_objects(&s, root.treeid, root.treeid);
	search_offsets(&s, LEVEL_1 | FAMILY_FIRST, LEVEL_1 | (FAMILY_END - 1));
	r = search_next(&s, &it);
	if (r <= 0)
		return r < 0 ? r : -ENOENT;
	*family = it.h.offset & ~LEVEL_1;
	return 0;
}

/* ENOENT when there is no such group. */
static int group_usage(int fd, uint64_t id, uint64_t *bytes)
{
	struct btrfs_qgroup_info_item info;
	struct search s;
	struct item it;
	int r;

	search_init(&s, fd, BTRFS_QUOTA_TREE_OBJECTID, BTRFS_QGROUP_INFO_KEY);
	search_offsets(&s, id, id);
	r = search_next(&s, &it);
	if (r <= 0)
		return r < 0 ? r : -ENOENT;
	if (it.h.len < sizeof(info))
		return -EIO;
	memcpy(&info, it.data, sizeof(info));
	*bytes = le64toh(info.rfer);
	return 0;
}

int qgroup_family_usage(int fd, uint64_t family, uint64_t *bytes)
{
	return group_usage(fd, LEVEL_1 | family, bytes);
}

/* `from_fd` -1: an empty one. */
static int subvol_make(int dir_fd, const char *name, int from_fd,
		       uint64_t family, uint64_t flags)
{
	/* The header's last member is the list of groups, one here. */
	union {
		struct btrfs_qgroup_inherit head;
		char room[sizeof(struct btrfs_qgroup_inherit) +
			  sizeof(uint64_t)];
	} inherit = { .head.num_qgroups = 1 };
	struct btrfs_ioctl_vol_args_v2 args = {
		.fd = from_fd,
		.flags = BTRFS_SUBVOL_QGROUP_INHERIT | flags,
		.size = sizeof(inherit),
		.qgroup_inherit = &inherit.head,
	};

	inherit.head.qgroups[0] = LEVEL_1 | family;
	snprintf(args.name, sizeof(args.name), "%s", name);
	return ioctl(dir_fd,
		     from_fd < 0 ? BTRFS_IOC_SUBVOL_CREATE_V2
				 : BTRFS_IOC_SNAP_CREATE_V2,
		     &args) < 0
		       ? -errno
		       : 0;
}

int qgroup_subvol_make(int dir_fd, const char *name, uint64_t family)
{
	return subvol_make(dir_fd, name, -1, family, 0);
}

int qgroup_snapshot_make(int dir_fd, const char *name, int from_fd,
			 uint64_t family, bool read_only)
{
	return subvol_make(dir_fd, name, from_fd, family,
			   read_only ? BTRFS_SUBVOL_RDONLY : 0);
}

enum member { MEMBER_LIVES, MEMBER_DYING, MEMBER_GONE };

/* Destroying takes the reference from the parent away at once, the root only
 * when everything is freed. */
static int member_state(int fd, uint64_t subvol, enum member *state)
{
	struct search s;
	struct item it;
	int r;

	search_init(&s, fd, BTRFS_ROOT_TREE_OBJECTID, BTRFS_ROOT_ITEM_KEY);
	s.args.key.max_type = BTRFS_ROOT_BACKREF_KEY;
	search_objects(&s, subvol, subvol);
	search_offsets(&s, 0, UINT64_MAX);
	*state = MEMBER_GONE;
	while ((r = search_next(&s, &it)) > 0)
		*state = it.h.type == BTRFS_ROOT_BACKREF_KEY ? MEMBER_LIVES
							     : MEMBER_DYING;
	return r;
}

int qgroup_family_dying(int fd, uint64_t family)
{
	enum member state = MEMBER_LIVES;
	struct search s;
	struct item it;
	int r;

	search_init(&s, fd, BTRFS_QUOTA_TREE_OBJECTID,
		    BTRFS_QGROUP_RELATION_KEY);
	search_objects(&s, LEVEL_1 | family, LEVEL_1 | family);
	search_offsets(&s, 0, UINT64_MAX);
	while ((r = search_next(&s, &it)) > 0 && state != MEMBER_DYING) {
		r = member_state(fd, it.h.offset, &state);
		if (r < 0)
			return r;
	}
	return r < 0 ? r : state == MEMBER_DYING;
}

/*
 * Not while something is counted in it, also when the kernel would allow that:
 * it then takes classic quotas for inconsistent and stops to enforce them all.
 */
static int group_remove(int fd, uint64_t id, bool *wait)
{
	struct btrfs_ioctl_qgroup_create_args args = { .qgroupid = id };
	uint64_t used;
	int r = group_usage(fd, id, &used);

	if (r == 0 && used == 0 &&
	    ioctl(fd, BTRFS_IOC_QGROUP_CREATE, &args) == 0)
		return 0;
	if (r == 0 && used == 0)
		r = -errno;
	if (r == -ENOENT)
		return 0;
	*wait = true;
	return r == -EBUSY || r == -ENOTEMPTY ? 0 : r;
}

static int sweep_family(int fd, uint64_t group, bool *wait)
{
	enum member state;
	struct search s;
	struct item it;
	bool empty = true;
	int r;

	search_init(&s, fd, BTRFS_QUOTA_TREE_OBJECTID,
		    BTRFS_QGROUP_RELATION_KEY);
	search_objects(&s, group, group);
	search_offsets(&s, 0, UINT64_MAX);
	while ((r = search_next(&s, &it)) > 0) {
		r = member_state(fd, it.h.offset, &state);
		if (r < 0)
			return r;
		if (state != MEMBER_GONE) {
			empty = false;
			*wait |= state == MEMBER_DYING;
			continue;
		}
		r = group_remove(fd, it.h.offset, wait);
		if (r < 0)
			return r;
	}
	if (r == 0 && empty)
		r = group_remove(fd, group, wait);
	return r;
}

int qgroup_sweep(int fd, uint64_t end)
{
	struct search s;
	struct item it;
	bool wait;
	int r = qgroup_repair(fd);

	if (r < 0)
		return r;
	wait = r > 0;
	search_families(&s, fd, end);
	while ((r = search_next(&s, &it)) > 0) {
		r = sweep_family(fd, it.h.offset, &wait);
		if (r < 0)
			return r;
	}
	return r < 0 ? r : wait;
}
