/* What the gate takes with it from the start as root. */
#pragma once

#include <sys/types.h>

#include "base/conf.h"
#include "base/err.h"

/* A file that is read again and again, by its directory: it is replaced. */
struct watched {
	int dir_fd; /* -1: it was not there */
	char name[64];
};

struct setup {
	struct conf conf;
	uid_t api_uid, uid;
	gid_t gid;
	int listen_fd; /* gate.sock */
	int lock_fd;   /* open as long as one of the gate's processes is */
	/*
	 * Directories as mounts of their own, in nobody's namespace: no way
	 * leads up from them.
	 */
	int vault_fd, spool_fd, state_fd; /* the keeper's */
	int log_fd;                       /* the doors', see record.h */
	struct watched resolv, hosts;
};

int setup_make(struct setup *s, struct err *e) MUST_CHECK;
/* Everything but the doors' is closed. */
void setup_forget_files(struct setup *s);
