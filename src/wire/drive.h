/*
 * The drive from inside a sandbox. The program `drive` (agent/sudo_drive.c)
 * connects to an abstract unix socket, where a builtin of the agent listens
 * (agent/drive_door.c, "drive.door"). The builtin passes records on between
 * its stdin and stdout, which are the api role's, and one client at a time.
 *
 *	client			api
 *	REQUEST, DATA..., END	ERROR, or FILE, DONE		put
 *	REQUEST			ERROR, or FILE, DATA..., DONE	get
 *	REQUEST			ERROR, or FILE..., DONE		ls
 *	REQUEST			ERROR, or FILE, DONE		rm
 *
 * Each request has one last word, ERROR or DONE, which may come before the
 * client has sent all. A client that leaves earlier is told of by GONE; the
 * last word comes all the same, and only then another client is heard.
 *
 * Records are little-endian, strings as pack_str() has them:
 *
 *	u32 length of what follows | u8 kind | fields
 *
 * Api believes none of it: whoever has the sandbox may have the agent. What
 * may be read and written is looked up there, in the sandbox's spec.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/product.h"

enum {
	DRIVE_DATA_MAX = 32 * 1024,
	DRIVE_TEXT_MAX = 1024,                 /* a path, a message */
	DRIVE_RECORD_MAX = 1 + DRIVE_DATA_MAX, /* behind the length */
};

enum drive_kind {
	/* u8 op, u8 conditional, u64 version, str path, str after */
	DRIVE_REQUEST = 1,
	DRIVE_DATA, /* bytes, 1 to DRIVE_DATA_MAX */
	DRIVE_END,
	DRIVE_GONE,
	DRIVE_FILE,  /* u64 version, u64 size, str sha256, str path */
	DRIVE_ERROR, /* u32 errno, str message */
	DRIVE_DONE,  /* u8: a list has more, behind the last path */
	DRIVE_KINDS
};

enum drive_op {
	DRIVE_PUT = 1, /* conditional: only in place of `version` */
	DRIVE_GET,     /* version 0: the newest */
	DRIVE_LS,      /* files whose path starts so, behind `after` */
	DRIVE_RM,
	DRIVE_OPS
};

struct drive_record {
	enum drive_kind kind;
	enum drive_op op;
	bool conditional, more;
	uint64_t version, size;
	uint32_t code;
	/* In the buffer; of at most DRIVE_TEXT_MAX bytes. */
	const char *path, *after, *sha256, *message;
	const char *data;
	size_t n;
};

void drive_record_put(struct buf *b, const struct drive_record *r);
/*
 * The next record of `b`: its size, which the caller eats when done with it;
 * 0 when more bytes are needed; or -EBADMSG.
 */
int drive_record_get(const struct buf *b, struct drive_record *r) MUST_CHECK;
/* Is this the last word about a request? */
static inline bool drive_is_last(enum drive_kind k)
{
	return k == DRIVE_ERROR || k == DRIVE_DONE;
}

#define DRIVE_SOCKET PRODUCT "-drive"

static inline socklen_t drive_address(struct sockaddr_un *a)
{
	*a = (struct sockaddr_un){ .sun_family = AF_UNIX };
	memcpy(a->sun_path + 1, DRIVE_SOCKET, sizeof(DRIVE_SOCKET) - 1);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) +
			   sizeof(DRIVE_SOCKET));
}
