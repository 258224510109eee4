/*
 * The builtins of wire/file.h. Each is a child of the agent that has become
 * the user and may do what the user may, nothing more; so a name that turns
 * into something else while we look can only lead where the user could go
 * anyway. What is still taken care of here: never to wait for what will not
 * come (a fifo, a client that is gone), never to leave a tree that is walked
 * (a link, a mount, a directory that moves), never to leave half a file.
 *
 *	job.c		argv, the table of builtins, errors
 *	out.c		records on stdout
 *	place.c		paths: what they are called, their parents
 *	fresh.c		files that appear when they are complete
 *	tar_in.c	a tar on stdin
 *	tree.c		walking and removing directories
 *	entry.c		what is told of a file; names of owners
 *	owner.c		whose is what is made
 */
#pragma once

#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "wire/file.h"

enum {
	IO_BYTES = 256 * 1024, /* of one read or write; the size of our pipes */
	TREE_DEPTH_MAX = 256,  /* of what is copied or packed */
	IDLE_MS = 120 * 1000,  /* without a byte of input: nobody sends any */
};

/* What argv asked for. */
struct file_job {
	const char *path, *to;
	bool follow, parents, recursive, overwrite;
	bool has_mode, has_first, has_last;
	mode_t mode;
	uint64_t depth, limit, first, last;
	const char *after; /* or NULL */
	bool detail;
	const char *owner;  /* or NULL */
	const char *within; /* or NULL */
	bool has_uid, has_gid;
	uint64_t uid, gid;
	const char *attr[FILE_ATTRS_MAX]; /* "NAME=VALUE" */
	size_t n_attrs;
};

typedef int job_fn(const struct file_job *j, struct err *e);

/* One per file of that name, but for change.c: mkdir, move, remove, chmod. */
job_fn job_stat, job_list, job_read, job_write, job_mkdir, job_move, job_copy,
	job_remove, job_chmod, job_watch, job_pack, job_unpack, job_merge,
	job_lay, job_door;

/* out.c: written when there is enough of it, and by out_flush(). */
int out_record(const struct file_record *r, struct err *e) MUST_CHECK;
int out_bytes(const void *p, size_t n, struct err *e) MUST_CHECK;
int out_flush(struct err *e) MUST_CHECK;
/* FILE_NOTE; those beyond FILE_NOTES_MAX are dropped. */
int out_note(struct err *e, const char *fmt, ...) PRINTF_LIKE(2, 3) MUST_CHECK;
/* Up to `n` bytes of stdin: the count, 0 at its end, or -errno. */
ssize_t in_read(void *p, size_t n, struct err *e) MUST_CHECK;
/*
 * `*left` bytes of a file from where it stands to stdout; what is left when it
 * ended before stays in `*left`.
 */
int send_bytes(int fd, const char *path, uint64_t *left,
	       struct err *e) MUST_CHECK;
/* Makes the pipe behind a descriptor larger, if it is one and may be. */
void grow_pipe_of(int fd);

/* place.c */
/* A path as it is told: absolute, without "//", "/./" and a slash at its end;
 * ".." stays, because what it means depends on links. */
int path_show(const char *path, struct buf *shown, struct err *e) MUST_CHECK;
/* An open directory (O_PATH) and a name in it. */
struct place {
	int dir_fd;
	char name[256];
};
/*
 * Where something is, or is to be made. The directory's links are followed,
 * the last one is not. A path that ends in ".", ".." or has no name at all is
 * EINVAL. `parents`: missing directories are made.
 */
int place_open(struct place *p, const char *path, bool parents,
	       struct err *e) MUST_CHECK;
/* The same for something that is there; its links are not followed. */
int place_find(struct place *p, const char *path, struct stat *st,
	       struct err *e) MUST_CHECK;
void place_done(struct place *p);
/* The same for looking; the directory of within_choose() itself is ".". */
int place_look(struct place *p, const char *path, struct err *e) MUST_CHECK;
/* From now on a path or link that leads out of this directory is EXDEV. */
int within_choose(const char *dir, struct err *e) MUST_CHECK;
/* open() that keeps to it. */
int path_open(const char *path, int flags) MUST_CHECK;
/* mkdir -p; what is there must be a directory. */
int make_parents(const char *path, struct err *e) MUST_CHECK;

/* owner.c */
/* From now on this user owns what is made, and relative paths start there. */
int owner_choose(const char *who, struct err *e) MUST_CHECK;
/* Something new goes to the one who was chosen, if there is one. */
int owner_give(int fd) MUST_CHECK;

/* fresh.c */
struct fresh {
	int dir_fd; /* borrowed */
	int fd;
	char temp[32]; /* ""; or the name it has while it grows */
};
/* `shown` is for messages. */
int fresh_open(struct fresh *f, int dir_fd, const char *shown,
	       struct err *e) MUST_CHECK;
/* Gives it its name; `overwrite`: in place of what has it, else EEXIST. */
int fresh_place(struct fresh *f, const char *name, bool overwrite,
		const char *shown, struct err *e) MUST_CHECK;
/* One that was not placed is gone. */
void fresh_done(struct fresh *f);
/* Such a name: nobody is told of it. */
bool fresh_is_temp(const char *name);

/* tree.c */
/*
 * A directory for reading, never through a link. `one_fs`: EXDEV when
 * something is mounted there. A descriptor or -errno.
 */
int dir_open(int at, const char *name, bool one_fs) MUST_CHECK;
/* `path` below a root ("": the root itself), through no link, out of nothing
 * that is mounted there. A descriptor or -errno. */
int open_within(int root_fd, const char *path, int flags) MUST_CHECK;
/* The name in a path; what is in front of it goes to `dir`. */
const char *path_split(const char *path, char dir[FILE_PATH_MAX + 1]);
/* The same as dir_open(), as a stream; takes the descriptor over, also when it
 * fails. */
DIR *dir_stream(int fd);
/* The next name but "." and ".."; NULL with errno at the end (0) or not. */
const char *dir_next(DIR *d);
/* renameat2(); without `overwrite` -EEXIST when there is such a name. */
int rename_at(int from, const char *name, int to, const char *as,
	      bool overwrite) MUST_CHECK;
/* Appends "/name"; returns the length to go back to. */
size_t path_push(struct buf *path, const char *name);
void path_pop(struct buf *path, size_t len);
/* A directory with all that is in it. */
int tree_unlink(int at, const char *name, const char *shown,
		struct err *e) MUST_CHECK;

/* sparse.c: a piece of a new file at its place, but for whole pages of zeros:
 * they are holes. The file's size is the caller's to set. 0, -errno. */
int sparse_write(int fd, const char *p, size_t n, uint64_t at) MUST_CHECK;

/* copy.c: anything to a new name; with its owner when we may. */
struct copy {
	bool overwrite;
	bool exact; /* all of it or an error: nothing may be left out */
	unsigned depth;
	struct buf path; /* where we are, for messages */
};
int copy_any(struct copy *c, int from, const char *name, int to, const char *as,
	     struct err *e) MUST_CHECK;

/* unpack.c: the tar on stdin, below this directory. */
int unpack_into(int root_fd, struct err *e) MUST_CHECK;

/* entry.c */
/* Of `name` in `at`, told as `path`. */
int out_entry(int at, const char *name, const char *path, bool follow,
	      struct err *e) MUST_CHECK;
/* The open file, told as `path`. */
int out_entry_of(int fd, const char *path, struct err *e) MUST_CHECK;
int out_entry_unreadable(int at, const char *name, const char *path,
			 struct err *e) MUST_CHECK;
/* A FILE_DETAIL in front of each from now on. */
void entry_details(void);
enum file_type type_of(mode_t mode);
/* Names from the sandbox's passwd and group; "" when there is none. */
const char *user_name(uid_t uid);
const char *group_name(gid_t gid);
