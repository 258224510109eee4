/* The agent's parser of passwd and group: files that the sandbox writes. */
#include "agent/users.c"

#include <stdlib.h>

#include "check.h"

#define FIND(text, name, uid, u) \
	passwd_find(text, sizeof(text) - 1, name, uid, u)

static const char passwd[] = "root:x:0:0:root:/root:/bin/bash\n"
			     "\n"
			     "short:x:1:1\n"
			     "long:x:7:7:a:/b:/c:extra\n"
			     "neg:x:-1:0::/:/bin/sh\n"
			     "big:x:65536:0::/:/bin/sh\n"
			     "huge:x:99999999999999999999:0::/:/bin/sh\n"
			     "hex:x:0x10:0::/:/bin/sh\n"
			     "empty:x::0::/:/bin/sh\n"
			     ":x:8:8::/:/bin/sh\n"
			     "user:x:1000:1001:,,,:/home/user:/bin/zsh\n"
			     "user:x:0:0::/root:/bin/sh\n"
			     "rel:x:3:3::home:sh\n"
			     "last:x:65535:4::/l:/bin/last";

static void test_passwd(void)
{
	struct user u;

	CHECK(FIND(passwd, "user", 0, &u) == 1);
	CHECK(u.uid == 1000 && u.gid == 1001 && u.n_groups == 0);
	CHECK_STR(u.home, "/home/user");
	CHECK_STR(u.shell, "/bin/zsh");
	CHECK(FIND(passwd, NULL, 0, &u) == 1);
	CHECK_STR(u.name, "root");
	CHECK(FIND(passwd, "rel", 0, &u) == 1);
	CHECK_STR(u.home, "/");
	CHECK_STR(u.shell, "/bin/sh");
	CHECK(FIND(passwd, "last", 0, &u) == 1 && u.uid == 65535);
	CHECK_STR(u.shell, "/bin/last");
	CHECK(FIND(passwd, NULL, 65535, &u) == 1);
	CHECK(FIND(passwd, NULL, 1, &u) == 0);
	CHECK(FIND(passwd, NULL, 7, &u) == 0);
	CHECK(FIND(passwd, NULL, 8, &u) == 0);
	CHECK(FIND(passwd, "neg", 0, &u) == 0);
	CHECK(FIND(passwd, "big", 0, &u) == 0);
	CHECK(FIND(passwd, "huge", 0, &u) == 0);
	CHECK(FIND(passwd, "hex", 0, &u) == 0);
	CHECK(FIND(passwd, "empty", 0, &u) == 0);
	CHECK(FIND(passwd, "", 0, &u) == 0);
	CHECK(passwd_find(NULL, 0, "root", 0, &u) == 0);
	CHECK(passwd_find("", 0, "root", 0, &u) == 0);
	CHECK(FIND("a\0b:x:5:5::/:/bin/sh\n", NULL, 5, &u) == 0);
	CHECK(FIND("ab:x:5:5::/x\0y:/bin/sh\n", NULL, 5, &u) == 0);
}

/* A field of 511 bytes fits its 512, one of 512 is no line at all. */
static void test_long(void)
{
	struct user u;
	char text[2048];
	int n;

	n = snprintf(text, sizeof(text), "a:x:5:5::/%0510d:/bin/sh\n", 0);
	CHECK(passwd_find(text, (size_t)n, "a", 0, &u) == 1);
	n = snprintf(text, sizeof(text), "a:x:5:5::/%0511d:/bin/sh\n", 0);
	CHECK(passwd_find(text, (size_t)n, "a", 0, &u) == 0);
}

static void test_group(void)
{
	static const char group[] = "root:x:0:\n"
				    "sudo:x:27:user\n"
				    "a:x:30:other,user\n"
				    "b:x:31:user,other\n"
				    "c:x:32:xuser,userx,user2\n"
				    "d:x:x:user\n"
				    "e:x:65536:user\n"
				    "short:x\n"
				    "again:x:27:user,user\n"
				    "end:x:40:user";
	struct user u = { .name = "user", .n_groups = 1, .groups = { 1000 } };
	char *many = malloc(200 * 32);
	size_t n = 0;
	int i;

	group_collect(group, sizeof(group) - 1, &u);
	CHECK(u.n_groups == 5);
	CHECK(u.groups[1] == 27 && u.groups[2] == 30 && u.groups[3] == 31 &&
	      u.groups[4] == 40);
	for (i = 0; i < 200; i++)
		n += (size_t)snprintf(many + n, 32, "g%d:x:%d:user\n", i,
				      100 + i);
	group_collect(many, n, &u);
	CHECK(u.n_groups == USER_GROUPS_MAX);
	free(many);
}

static void test_find(void)
{
	struct err e = { 0 };
	struct user u;

	/* This machine's own files. */
	CHECK(user_find("root", &u, &e) == 0 && u.uid == 0);
	CHECK(user_find("0", &u, &e) == 0 && u.uid == 0);
	CHECK(user_find("54321", &u, &e) == 0 && u.gid == 54321);
	CHECK_STR(u.home, "/");
	CHECK(user_find("65536", &u, &e) == -EINVAL);
	err_clear(&e);
	CHECK(user_find("-1", &u, &e) == -EINVAL);
	err_clear(&e);
	CHECK(user_find("no such user", &u, &e) == -EINVAL);
}

int main(void)
{
	test_passwd();
	test_long();
	test_group();
	test_find();
	return CHECK_DONE();
}
