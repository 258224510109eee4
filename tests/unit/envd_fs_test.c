/* Files in E2B's words: paths, modes as Go prints them, links, errors. */
#include "api/e2b/envd_fs.h"

#include <errno.h>
#include <string.h>

#include "check.h"

static const char *path(const char *given)
{
	static struct buf b;
	struct err e = { 0 };

	return envd_path(given, &b, &e) < 0 ? "refused" : buf_str(&b);
}

static void test_paths(void)
{
	CHECK_STR(path("/a/b"), "/a/b");
	CHECK_STR(path("a/../b"), "a/../b");
	CHECK_STR(path(""), ".");
	CHECK_STR(path("~"), ".");
	CHECK_STR(path("~/"), ".");
	CHECK_STR(path("~//x"), "x");
	CHECK_STR(path("~root/x"), "refused");
	CHECK_STR(path("a/~b"), "a/~b");
}

/* One member of what becomes of a native entry, as text. */
static const char *member(const char *entry, const char *key)
{
	static char text[256];
	json_t *j = json_loads(entry, 0, NULL), *out = envd_entry(j);
	const json_t *v = json_object_get(out, key);

	if (json_is_integer(v))
		snprintf(text, sizeof(text), "%lld",
			 (long long)json_integer_value(v));
	else
		snprintf(text, sizeof(text), "%s",
			 json_is_string(v) ? json_string_value(v) : "none");
	json_decref(out);
	json_decref(j);
	return text;
}

static const char *permissions(const char *type, const char *mode)
{
	char entry[128];

	snprintf(entry, sizeof(entry), "{\"type\":\"%s\",\"mode\":\"%s\"}",
		 type, mode);
	return member(entry, "permissions");
}

static void test_permissions(void)
{
	CHECK_STR(permissions("file", "0644"), "-rw-r--r--");
	CHECK_STR(permissions("file", "4755"), "urwxr-xr-x");
	CHECK_STR(permissions("file", "6711"), "ugrwx--x--x");
	CHECK_STR(permissions("directory", "1777"), "dtrwxrwxrwx");
	CHECK_STR(permissions("directory", "2750"), "dgrwxr-x---");
	CHECK_STR(permissions("symlink", "0777"), "Lrwxrwxrwx");
	CHECK_STR(permissions("fifo", "0600"), "prw-------");
	CHECK_STR(permissions("socket", "0000"), "S---------");
	CHECK_STR(permissions("char_device", "0666"), "Dcrw-rw-rw-");
	CHECK_STR(permissions("block_device", "7660"), "Dugtrw-rw----");
}

static void test_entries(void)
{
	static const char file[] =
		"{\"type\":\"file\",\"mode\":\"4640\",\"size\":9007199254740993"
		",\"uid\":7,\"user\":null,\"gid\":0,\"group\":\"root\","
		"\"modified_at\":null}";
	static const char link[] =
		"{\"type\":\"symlink\",\"mode\":\"0777\",\"target\":\"x\","
		"\"target_type\":\"directory\",\"real_path\":\"/r/x\","
		"\"real_mode\":\"1755\"}";
	static const char dangling[] =
		"{\"type\":\"symlink\",\"mode\":\"0777\",\"target\":\"x\","
		"\"target_type\":null}";

	CHECK_STR(member(file, "type"), "FILE_TYPE_FILE");
	CHECK_STR(member(file, "mode"), "416");
	CHECK_STR(member(file, "size"), "9007199254740993");
	CHECK_STR(member(file, "owner"), "7");
	CHECK_STR(member(file, "group"), "root");
	CHECK_STR(member(file, "modifiedTime"), "none");
	CHECK_STR(member(link, "type"), "FILE_TYPE_DIRECTORY");
	CHECK_STR(member(link, "mode"), "493");
	CHECK_STR(member(link, "symlinkTarget"), "/r/x");
	CHECK_STR(member(dangling, "type"), "FILE_TYPE_UNSPECIFIED");
	CHECK_STR(member(dangling, "symlinkTarget"), "x");
	CHECK_STR(member("{}", "type"), "FILE_TYPE_UNSPECIFIED");
}

static struct envd_error error(int status, const char *word, const char *msg)
{
	const struct envd_fs f = { .user = "who" };
	json_t *j = json_pack("{s:s, s:s}", "error", word, "message", msg);
	struct envd_error e;

	envd_fs_error(&f, status, j, &e);
	json_decref(j);
	return e;
}

static void test_errors(void)
{
	CHECK_STR(error(404, "not_found", "x").word, "not_found");
	CHECK_STR(error(410, "ended", "x").word, "not_found");
	CHECK(error(410, "ended", "x").status == 404);
	CHECK_STR(error(400, "is_a_directory", "x").word, "invalid_argument");
	CHECK_STR(error(500, "internal", "x").word, "internal");
	CHECK(error(0, "", "x").status == 502);
	CHECK(error(400, "no_user", "x").status == 401);
	CHECK_STR(error(400, "no_user", "x").msg, "invalid username: 'who'");
	CHECK_STR(error(400, "bad_request",
			"user 'who' is not in the sandbox's /etc/passwd")
			  .word,
		  "unauthenticated");
	CHECK_STR(error(507, "no_space", "x").word, "resource_exhausted");
}

int main(void)
{
	test_paths();
	test_permissions();
	test_entries();
	test_errors();
	return CHECK_DONE();
}
