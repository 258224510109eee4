/*
 * What a sandbox wrote to its disk, told to the host: the same tar of changes
 * that a worker makes of a container's (worker/pack.c), by the same code. The
 * disk was written by another guest, which may have been anybody's: it is
 * opened in here, where there is nothing else, and what comes out of it are
 * records that the host believes as little as those of its workers.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fd.h"
#include "guest/guest.h"
#include "store/store.h"
#include "worker/pack.h"

#define VIEW "/view"

static int open_dir(const char *path, struct err *e)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 ? err_sys(e, "open %s", path) : fd;
}

/* As its sandbox saw it: two layers to be read, none above. */
static int mount_view(const char *upper, const char *image, struct err *e)
{
	char layers[384];

	snprintf(layers, sizeof(layers),
		 "lowerdir=%s:%s,index=off,metacopy=off,redirect_dir=follow",
		 upper, image);
	if (mkdir(VIEW, 0700) < 0 ||
	    mount("view", VIEW, "overlay",
		  MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, layers) < 0)
		return err_sys(e, "mount the view");
	return 0;
}

static int open_sides(const struct guest *g, struct look *l, struct err *e)
{
	char image[96], upper[112];

	snprintf(image, sizeof(image), "/pool/" STORE_IMAGE_TREE,
		 g->spec.image);
	snprintf(upper, sizeof(upper), "/pool/" STORE_VOLUME_TREE "/upper",
		 g->spec.id);
	if (mount_view(upper, image, e) < 0)
		return -e->code;
	l->n = 2;
	l->side[0].fd = open_dir(image, e);
	if (l->side[0].fd < 0)
		return -e->code;
	l->side[1].snap = true;
	l->side[1].fd = open_dir(VIEW, e);
	if (l->side[1].fd < 0)
		return -e->code;
	l->side[1].upper_fd = open_dir(upper, e);
	return l->side[1].upper_fd < 0 ? -e->code : 0;
}

/* It waits at the line until somebody is there, and then as long as that one
 * takes. */
int look_run(struct guest *g, struct err *e)
{
	static struct look l;
	struct err why = { 0 };
	int fd = g->port_fd[GUEST_PORT_AGENT];
	int r = fd_set_nonblock(fd, false);

	if (r < 0)
		return err_set(e, -r, "the line to the host");
	l.say.fd = fd;
	l.ask.flags = VIEW_LAYER | VIEW_EXACT;
	r = open_sides(g, &l, &why);
	if (r == 0)
		r = pack(&l, &why);
	if (r < 0)
		dprintf(STDERR_FILENO, "guest: look: %s\n", why.msg);
	if (say_end(&l.say, &why) < 0)
		return err_set(e, EIO, "nobody listens");
	/* Who heard the last word ends us. */
	for (;;)
		pause();
}
