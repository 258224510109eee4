/* Volumes of a spec: "NAME:/path", and ":rw", ":ro" or ":shared" behind it. */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"

enum { MOUNT_PATH_CAP = 128 };

struct volume_mount {
	char name[NAME_CAP];
	char path[MOUNT_PATH_CAP]; /* absolute, without dots and a last '/' */
	bool read_only;
	bool shared; /* others may write it, too, who say so */
};

/* 0 or -EINVAL. */
int volume_mount_parse(const char *text, struct volume_mount *m) MUST_CHECK;
