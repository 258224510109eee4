#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "agent/file/file.h"
#include "agent/users.h"
#include "base/auto.h"
#include "base/str.h"

enum file_type type_of(mode_t mode)
{
	static const struct {
		mode_t mode;
		enum file_type type;
	} table[] = {
		{ S_IFREG, FILE_REGULAR }, { S_IFDIR, FILE_DIRECTORY },
		{ S_IFLNK, FILE_SYMLINK }, { S_IFIFO, FILE_FIFO },
		{ S_IFSOCK, FILE_SOCKET }, { S_IFCHR, FILE_CHAR },
		{ S_IFBLK, FILE_BLOCK },
	};
	size_t i;

	for (i = 0; i < ARRAY_LEN(table); i++)
		if ((mode & S_IFMT) == table[i].mode)
			return table[i].type;
	return FILE_NONE;
}

/*
 * The files are read once and searched from front to back; what was found is
 * kept by the lower bits of the id.
 */
struct owners {
	const char *file;
	int (*find)(const char *text, size_t n, uint32_t id, char *name);
	struct buf text;
	bool loaded;
	struct {
		bool known;
		uint32_t id;
		char name[FILE_NAME_MAX + 1];
	} slot[64];
};

static int find_user(const char *text, size_t n, uint32_t id, char *name)
{
	struct user u;

	if (!passwd_find(text, n, NULL, id, &u))
		return 0;
	memcpy(name, u.name, sizeof(u.name));
	return 1;
}

static int find_group(const char *text, size_t n, uint32_t id, char *name)
{
	return group_find(text, n, id, name, FILE_NAME_MAX);
}

static const char *owner_name(struct owners *o, uint32_t id)
{
	size_t i = id % ARRAY_LEN(o->slot);

	if (!o->loaded)
		user_file_read(o->file, &o->text);
	o->loaded = true;
	if (!o->slot[i].known || o->slot[i].id != id) {
		o->slot[i].known = true;
		o->slot[i].id = id;
		o->slot[i].name[0] = '\0';
		if (!o->find(buf_data(&o->text), buf_len(&o->text), id,
			     o->slot[i].name))
			o->slot[i].name[0] = '\0';
	}
	return o->slot[i].name;
}

const char *user_name(uid_t uid)
{
	static struct owners users = { .file = "/etc/passwd",
				       .find = find_user };

	return owner_name(&users, uid);
}

const char *group_name(gid_t gid)
{
	static struct owners groups = { .file = "/etc/group",
					.find = find_group };

	return owner_name(&groups, gid);
}

/* 0 when it cannot be told: it is a link still. */
static void read_link(int at, const char *name, struct file_entry *n,
		      char target[FILE_PATH_MAX + 1])
{
	ssize_t len = readlinkat(at, name, target, FILE_PATH_MAX);
	struct stat st;

	target[len > 0 ? len : 0] = '\0';
	if (fstatat(at, name, &st, 0) == 0)
		n->target_type = type_of(st.st_mode);
}

static bool detailed;

void entry_details(void)
{
	detailed = true;
}

/* One value into `text`, with a NUL; its size, or 0 when it is not told. */
static size_t read_attr(const char *self, const char *name, char *text,
			size_t room)
{
	ssize_t n;

	if (!str_starts(name, "user.") || room == 0)
		return 0;
	n = getxattr(self, name, text, room - 1);
	if (n < 0 || memchr(text, '\0', (size_t)n))
		return 0;
	text[n] = '\0';
	return (size_t)n + 1;
}

/* `text` keeps the names and values. */
static void read_attrs(const char *self, struct file_detail *d,
		       char text[2 * FILE_ATTRS_BYTES])
{
	ssize_t n = listxattr(self, text, FILE_ATTRS_BYTES), at;
	size_t used = 0, size, len;

	for (at = 0; at < n && d->n_attrs < FILE_ATTRS_MAX; at += len) {
		const char *name = text + at;
		char *value = text + FILE_ATTRS_BYTES + used;

		len = strlen(name) + 1;
		if (used + len > FILE_ATTRS_BYTES)
			return;
		size = read_attr(self, name, value,
				 FILE_ATTRS_BYTES - used - len);
		if (size == 0)
			continue;
		d->attr[d->n_attrs].name = name;
		d->attr[d->n_attrs++].value = value;
		used += len + size;
	}
}

/* Of what the name leads to. What cannot be looked at has no details. */
static int put_detail(int at, const char *name, bool link, struct err *e)
{
	AUTO_CLOSE int fd = openat(at, name, O_PATH | O_CLOEXEC);
	struct file_record r = { .kind = FILE_DETAIL, .detail.path = "" };
	char self[32], real[FILE_PATH_MAX + 1], text[2 * FILE_ATTRS_BYTES];
	struct stat st;
	ssize_t n;

	if (fd < 0 || fstat(fd, &st) < 0)
		return out_record(&r, e);
	snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
	r.detail.mode = st.st_mode & FILE_MODE_MAX;
	n = link ? readlink(self, real, FILE_PATH_MAX) : 0;
	if (n > 0) {
		real[n] = '\0';
		r.detail.path = real;
	}
	read_attrs(self, &r.detail, text);
	return out_record(&r, e);
}

static int put(int at, const char *name, const char *path, int flags,
	       bool unreadable, struct err *e)
{
	char target[FILE_PATH_MAX + 1] = "";
	struct file_record r = { .kind = FILE_ENTRY };
	struct file_entry *n = &r.entry;
	struct stat st;

	if (fstatat(at, name, &st, flags) < 0)
		return err_sys(e, "%.160s", path);
	*n = (struct file_entry){
		.type = type_of(st.st_mode),
		.mode = st.st_mode & FILE_MODE_MAX,
		.uid = st.st_uid,
		.gid = st.st_gid,
		.size = (uint64_t)st.st_size,
		.mtime_ms = (int64_t)st.st_mtim.tv_sec * 1000 +
			    st.st_mtim.tv_nsec / 1000000,
		.unreadable = unreadable,
		.path = path,
		.target = target,
		.user = user_name(st.st_uid),
		.group = group_name(st.st_gid),
	};
	if (n->type == FILE_SYMLINK)
		read_link(at, name, n, target);
	if (detailed && put_detail(at, name, n->type == FILE_SYMLINK, e) < 0)
		return -e->code;
	return out_record(&r, e);
}

int out_entry(int at, const char *name, const char *path, bool follow,
	      struct err *e)
{
	return put(at, name, path, follow ? 0 : AT_SYMLINK_NOFOLLOW, false, e);
}

int out_entry_unreadable(int at, const char *name, const char *path,
			 struct err *e)
{
	return put(at, name, path, AT_SYMLINK_NOFOLLOW, true, e);
}

int out_entry_of(int fd, const char *path, struct err *e)
{
	char self[32];

	snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
	return out_entry(AT_FDCWD, self, path, true, e);
}

static int stat_within(const struct file_job *j, const char *shown,
		       struct err *e)
{
	AUTO(place_done) struct place p = { .dir_fd = -1 };
	AUTO_CLOSE int fd = -1;

	if (!j->follow)
		return place_look(&p, j->path, e) < 0
			       ? -e->code
			       : out_entry(p.dir_fd, p.name, shown, false, e);
	fd = path_open(j->path, O_PATH);
	return fd < 0 ? err_sys(e, "%.160s", j->path)
		      : out_entry_of(fd, shown, e);
}

int job_stat(const struct file_job *j, struct err *e)
{
	AUTO(buf_done) struct buf shown = { 0 };
	int r = path_show(j->path, &shown, e);

	if (r < 0)
		return r;
	if (j->within)
		return stat_within(j, buf_data(&shown), e);
	return out_entry(AT_FDCWD, j->path, buf_data(&shown), j->follow, e);
}
