/*
 * A small file system of its own for a fuzz target that unpacks: `top`, open
 * as `top_fd`. In a mount namespace of its own, so that a crash leaves no mount
 * behind. Needs root.
 */
#pragma once

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <unistd.h>

static char top[] = "/tmp/carrel_fuzz.XXXXXX";
static int top_fd = -1;

static void scratch_gone(void)
{
	umount2(top, MNT_DETACH);
	rmdir(top);
}

static void scratch_make(void)
{
	if (!mkdtemp(top) || unshare(CLONE_NEWNS) < 0 ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("tmpfs", top, "tmpfs", MS_NOSUID | MS_NODEV,
		  "size=64m,nr_inodes=8192,mode=755") < 0) {
		perror("mount a tmpfs (as root)");
		exit(1);
	}
	atexit(scratch_gone);
	top_fd = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (top_fd < 0)
		abort();
}
