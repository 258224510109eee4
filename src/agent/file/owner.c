/*
 * Work that root does for another user, who is to find it as his own. The
 * descriptor is that of what was made, so a name that turns into something
 * else meanwhile gives nothing away.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "agent/file/file.h"
#include "agent/users.h"

static bool chosen;
static uid_t owner_uid;
static gid_t owner_gid;

int owner_choose(const char *who, struct err *e)
{
	struct err why = { 0 };
	struct user u;

	if (user_find(who, &u, &why) < 0)
		return err_set(e, ESRCH, "%s", why.msg);
	if (geteuid() != 0 && geteuid() != u.uid)
		return err_set(e, EPERM, "only root works for another user");
	/* As for a process: one whose home is missing starts at the top. */
	if (chdir(u.home) < 0 && chdir("/") < 0)
		return err_sys(e, "enter /");
	chosen = true;
	owner_uid = u.uid;
	owner_gid = u.gid;
	return 0;
}

int owner_give(int fd)
{
	if (!chosen || geteuid() != 0)
		return 0;
	return fchownat(fd, "", owner_uid, owner_gid, AT_EMPTY_PATH) < 0
		       ? -errno
		       : 0;
}
