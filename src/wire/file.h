/*
 * File work: the agent's builtins whose names start with "file.". Each runs as
 * the user who was asked for, so that names, links and pipes of the sandbox
 * can fool nobody but the sandbox.
 *
 *	name		argv			stdin	stdout
 *	file.stat	PATH			-	ENTRY
 *	file.list	PATH			-	ENTRY... END
 *	file.read	PATH			-	CONTENT, bytes
 *	file.write	PATH			bytes	WRITTEN
 *	file.mkdir	PATH			-	ENTRY
 *	file.move	PATH TO			-	ENTRY
 *	file.copy	PATH TO			-	NOTE... ENTRY
 *	file.remove	PATH			-	-
 *	file.chmod	PATH			-	ENTRY
 *	file.watch	PATH			-	EVENT...
 *	file.pack	PATH			-	a tar
 *	file.unpack	PATH			a tar	NOTE... UNPACKED
 *	host.merge	PATH (a root)	a list, a tar	NOTE... UNPACKED
 *	host.door	PATH (a root)	a certificate	nothing
 *
 * The last two are for the host alone: they run as root, see agent/file/merge.c
 * and door.c.
 *
 * PATH is absolute or relative to the directory of the spawn. Options follow
 * as words of argv: "follow", "parents", "recursive", "overwrite", "detail",
 * and "mode=0644" (octal), "depth=N", "limit=N", "after=PATH", "first=N",
 * "last=N", "attr=NAME=VALUE" (an extended attribute, several times),
 * "owner=USER", "within=DIR", "uid=N", "gid=N". One that a builtin does not
 * have is an error.
 *
 * With "detail" a DETAIL stands in front of each ENTRY, a write has an ENTRY in
 * front of its WRITTEN, and an EVENT one of what it is about, if that is there.
 * With "owner" relative paths start in the home of that user, who owns what is
 * made; only root can do so for others. No such user: ESRCH.
 *
 * With "within" PATH starts with that directory, and no link leads out of it:
 * EPERM.
 *
 * Exit code 0: all was done. 1: stderr has one line, "ERRNO MESSAGE\n", the
 * number decimal; the message names the path and has no control bytes, but
 * may be no UTF-8. Anything else: it was killed, or broke.
 *
 * Records are little-endian, strings as pack_str() has them:
 *
 *	u32 length of what follows | u8 kind | fields
 *
 * Readers believe none of it: the sandbox may have got hold of its agent.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/sha.h"

enum {
	FILE_PATH_MAX = 4095,        /* of a path in a record */
	FILE_NAME_MAX = 64,          /* of a user's or group's name */
	FILE_RECORD_MAX = 16 * 1024, /* two paths, names; or attributes */
	FILE_ERROR_MAX = 512,        /* the line on stderr */
	FILE_LIST_MAX = 10000,       /* entries in one answer */
	FILE_DEPTH_MAX = 64,         /* of a list */
	FILE_NOTES_MAX = 100,        /* of one copy or unpacking */
	FILE_MODE_MAX = 07777,
	FILE_ATTRS_MAX = 64,          /* extended attributes of one file */
	FILE_ATTR_NAME_MAX = 255,     /* of one's name, the kernel's limit */
	FILE_ATTRS_BYTES = 8 * 1024,  /* of all names and values, with NULs */
	MERGE_PATHS_MAX = 200 * 1000, /* of one merge */
	MERGE_LIST_MAX = 16 * 1024 * 1024,
	MERGE_END = 'E', /* behind all that host.merge is told */
};

/* How the message of a merge starts that failed after the first change. */
#define MERGE_HALF "only a part was changed"

/* CONTENT.length: until the end, wherever that is (files of /proc). */
#define FILE_TO_END UINT64_MAX

enum file_type {
	FILE_NONE, /* as the type of a link's target: it has none */
	FILE_REGULAR,
	FILE_DIRECTORY,
	FILE_SYMLINK,
	FILE_FIFO,
	FILE_SOCKET,
	FILE_CHAR,
	FILE_BLOCK,
	FILE_TYPES
};
/* "file", "directory", "symlink"...; NULL for FILE_NONE. */
const char *file_type_name(enum file_type t);

enum file_kind {
	FILE_ENTRY = 1,
	FILE_END,      /* u8: 1 when the limit was reached and there is more */
	FILE_CONTENT,  /* u64 size, first, length: then so many bytes */
	FILE_WRITTEN,  /* u64 size, 32 bytes of SHA-256 */
	FILE_EVENT,    /* u8 enum file_event, u8 type, str path, str to */
	FILE_NOTE,     /* str: something that was left out, and why */
	FILE_UNPACKED, /* u64 entries, u64 bytes */
	/* u32 mode, str path: of what a link leads to; u32 number of
	 * attributes, str name and str value of each */
	FILE_DETAIL,
	FILE_SO_FAR, /* as FILE_UNPACKED, and not all */
	FILE_KINDS
};

enum file_event {
	EVENT_READY, /* all is watched; what happens from now on is told */
	EVENT_CREATE,
	EVENT_WRITE,
	EVENT_REMOVE,
	EVENT_RENAME, /* `to` is the new path */
	EVENT_CHMOD,
	EVENT_OVERFLOW,  /* some were lost; look yourself */
	EVENT_UNWATCHED, /* a directory beyond what can be watched */
	FILE_EVENTS
};
const char *file_event_name(enum file_event e);

struct file_entry {
	enum file_type type, target_type; /* of what a link leads to */
	uint32_t mode;                    /* the lower 12 bits */
	uint32_t uid, gid;
	uint64_t size;
	int64_t mtime_ms;
	bool unreadable; /* a directory whose content is left out */
	const char *path, *target, *user, *group;
};

/* Attributes in "user." whose values are text; those beyond the bounds above
 * are left out. */
struct file_detail {
	uint32_t mode;    /* the lower 12 bits */
	const char *path; /* ""; or where a link leads, without any link */
	uint32_t n_attrs;
	struct {
		const char *name, *value;
	} attr[FILE_ATTRS_MAX];
};

struct file_record {
	enum file_kind kind;
	union {
		struct file_entry entry;
		struct file_detail detail;
		bool more;
		struct {
			uint64_t size, first, length;
		} content;
		struct {
			uint64_t size;
			uint8_t sha[SHA256_LEN];
		} written;
		struct {
			enum file_event what;
			enum file_type type; /* FILE_NONE: not known */
			const char *path, *to;
		} event;
		const char *note;
		struct {
			uint64_t entries, bytes;
		} unpacked;
	};
};

void file_record_put(struct buf *b, const struct file_record *r);
/*
 * The next record of `b`: its size, which the caller eats when done with it;
 * 0 when more bytes are needed; or -EBADMSG. Strings point into the buffer, are
 * within the limits above and may be any bytes but NUL.
 */
int file_record_get(const struct buf *b, struct file_record *r) MUST_CHECK;

/* What goes to stderr. */
void file_error_put(struct buf *b, const struct err *e);
/* What came from there, `n` bytes; always an error, if only EIO. */
void file_error_get(const char *p, size_t n, struct err *e);
