/*
 * Users and groups as the files of a sandbox tell them. The input is a name, a
 * NUL, /etc/passwd, a NUL, /etc/group. Whoever is found has ids that exist
 * inside, and a home and a shell that are paths.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* The agent's files are not in the library. */
#include "agent/users.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check(const struct user *u)
{
	size_t i, k;

	assert(u->uid < SANDBOX_IDS && u->gid < SANDBOX_IDS);
	assert(memchr(u->name, '\0', sizeof(u->name)));
	assert(u->home[0] == '/' && u->shell[0] == '/');
	assert(u->n_groups <= USER_GROUPS_MAX);
	for (i = 0; i < u->n_groups; i++) {
		assert(u->groups[i] < SANDBOX_IDS);
		for (k = 0; k < i; k++)
			assert(u->groups[i] != u->groups[k]);
	}
}

/* Up to a NUL, which is eaten; the rest if there is none. */
static void cut_at_nul(struct slice *rest, struct slice *out)
{
	if (!cut(rest, '\0', out))
		*out = (struct slice){ "", 0 };
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct slice rest = { (const char *)data, n }, who, passwd, group;
	struct user u = { 0 };
	struct buf file = { 0 };
	struct err e = { 0 };
	char name[64], found[8];

	cut_at_nul(&rest, &who);
	cut_at_nul(&rest, &passwd);
	cut_at_nul(&rest, &group);
	if (!slice_copy(who, name, sizeof(name)))
		return 0;
	buf_add(&file, passwd.p, passwd.n);
	if (find_in(&file, name, &u, &e) == 0) {
		add_group(&u, u.gid);
		group_collect(group.p, group.n, &u);
		check(&u);
		if (group_find(group.p, group.n, u.gid, found, sizeof(found)))
			assert(*found && strlen(found) < sizeof(found));
	} else {
		assert(e.code == EINVAL);
	}
	buf_done(&file);
	return 0;
}
