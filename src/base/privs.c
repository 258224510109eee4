#include "base/privs.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/guards.h"

enum { CAP_MAX = 64 };

int privs_find_user(const char *name, const char *key, uid_t *uid, gid_t *gid,
		    struct err *e)
{
	const struct passwd *p = getpwnam(name);

	if (!p)
		return err_set(e, ENOENT,
			       "user '%s' does not exist: 'make install' "
			       "creates it, or set `%s` in the configuration",
			       name, key);
	if (p->pw_uid == 0)
		return err_set(e, EINVAL,
			       "user '%s' is root: set `%s` in the "
			       "configuration to one without privileges",
			       name, key);
	*uid = p->pw_uid;
	*gid = p->pw_gid;
	return 0;
}

static int drop_ids(uid_t uid, gid_t gid, const gid_t *groups, size_t n_groups,
		    struct err *e)
{
	int cap;

	for (cap = 0; cap < CAP_MAX; cap++)
		if (prctl(PR_CAPBSET_DROP, cap) < 0 && errno != EINVAL)
			return err_sys(e, "drop capability %d", cap);
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
		return err_sys(e, "drop ambient capabilities");
	/* From root to another id: the kernel drops all capabilities. */
	if (setgroups(n_groups, groups) < 0 || setresgid(gid, gid, gid) < 0 ||
	    setresuid(uid, uid, uid) < 0)
		return err_sys(e, "become the role's user");
	if (setresuid(0, 0, 0) == 0)
		return err_set(e, EPERM, "could become root again");
	return 0;
}

int privs_drop(uid_t uid, gid_t gid, const gid_t *groups, size_t n_groups,
	       struct err *e)
{
	const struct rlimit none = { 0, 0 };
	pid_t parent = getppid();
	int death_signal = 0;

	if (setrlimit(RLIMIT_CORE, &none) < 0)
		return err_sys(e, "set limits");
	prctl(PR_GET_PDEATHSIG, &death_signal);
	if (drop_ids(uid, gid, groups, n_groups, e) < 0)
		return -e->code;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_sys(e, "set no_new_privs");
#ifndef SANITIZED
	if (prctl(PR_SET_DUMPABLE, !GUARD(UNDUMPABLE), 0, 0, 0) < 0)
		return err_sys(e, "make undumpable");
#endif
	/* The change of ids has cleared what the supervisor had set. */
	if (death_signal &&
	    (prctl(PR_SET_PDEATHSIG, death_signal) < 0 || getppid() != parent))
		return err_set(e, ESRCH, "the supervisor has gone");
	return 0;
}

int privs_limit(uint64_t caps, struct err *e)
{
	struct __user_cap_header_struct head = {
		.version = _LINUX_CAPABILITY_VERSION_3,
	};
	struct __user_cap_data_struct data[2] = { 0 };
	int cap, i;

	for (cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++)
		if (!(cap < CAP_MAX && caps >> cap & 1) &&
		    prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0)
			return err_sys(e, "drop capability %d", cap);
	if (syscall(SYS_capget, &head, data) < 0)
		return err_sys(e, "read the capabilities");
	for (i = 0; i < 2; i++) {
		data[i].permitted &= (uint32_t)(caps >> (32 * i));
		data[i].effective = data[i].permitted;
		data[i].inheritable = 0;
	}
	if (syscall(SYS_capset, &head, data) < 0)
		return err_sys(e, "drop capabilities");
	return 0;
}

int privs_keep(uint32_t caps, struct err *e)
{
	struct __user_cap_header_struct head = {
		.version = _LINUX_CAPABILITY_VERSION_3,
	};
	struct __user_cap_data_struct data[2] = {
		{ .effective = caps, .permitted = caps },
	};
	int cap;

	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
		return err_sys(e, "clear the ambient capabilities");
	for (cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++)
		if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0)
			return err_sys(e, "drop capability %d", cap);
	if (syscall(SYS_capset, &head, data) < 0)
		return err_sys(e, "drop capabilities");
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_sys(e, "set no_new_privs");
#ifndef SANITIZED /* the leak checker looks at the process from outside */
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return err_sys(e, "forbid dumps");
#endif
	return 0;
}
