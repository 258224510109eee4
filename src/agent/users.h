/*
 * Who a process runs as: /etc/passwd and /etc/group of the sandbox, read by a
 * parser of our own. The agent is static and must not load NSS modules, and
 * these files are written by whoever is inside: sizes are bounded, lines that
 * are not well-formed are skipped.
 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"

enum {
	USER_FILE_MAX = 256 * 1024, /* what is behind it is not looked at */
	USER_GROUPS_MAX = 64,
};

struct user {
	uid_t uid;
	gid_t gid;
	char name[64], home[512], shell[256];
	gid_t groups[USER_GROUPS_MAX];
	size_t n_groups;
};

/* "": the default user; a number; or a name, which must be in the file. */
int user_find(const char *who, struct user *u, struct err *e) MUST_CHECK;

/*
 * The first line of a passwd file with this name, or with this id when the
 * name is NULL: 1 and all of `u` but the groups, or 0.
 */
int passwd_find(const char *text, size_t n, const char *name, uid_t uid,
		struct user *u) MUST_CHECK;
/* Adds the groups of a group file that list u->name as a member. */
void group_collect(const char *text, size_t n, struct user *u);
/* The name of the first group with this id, shorter than `cap`: 1, or 0. */
int group_find(const char *text, size_t n, gid_t gid, char *name,
	       size_t cap) MUST_CHECK;
/* One of the two files, up to USER_FILE_MAX of it; nothing if it is not one. */
void user_file_read(const char *path, struct buf *b);
