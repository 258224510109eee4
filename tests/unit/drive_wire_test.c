/*
 * Records of the drive from inside (wire/drive.h); grants and volumes of a
 * spec.
 */
#include "wire/drive.h"

#include <errno.h>
#include <stdlib.h>

#include "check.h"
#include "spec/grant.h"
#include "spec/mount.h"
#include "wire/pack.h"

static void test_round(void)
{
	static char big[DRIVE_DATA_MAX];
	const struct drive_record all[] = {
		{ .kind = DRIVE_REQUEST,
		  .op = DRIVE_PUT,
		  .conditional = true,
		  .version = 7,
		  .path = "a/b",
		  .after = "" },
		{ .kind = DRIVE_DATA, .data = big, .n = sizeof(big) },
		{ .kind = DRIVE_END },
		{ .kind = DRIVE_GONE },
		{ .kind = DRIVE_FILE,
		  .version = 1,
		  .size = 1ULL << 40,
		  .sha256 = "00",
		  .path = "x" },
		{ .kind = DRIVE_ERROR, .code = ENOENT, .message = "no" },
		{ .kind = DRIVE_DONE, .more = true },
	};
	struct drive_record r;
	struct buf b = { 0 };
	size_t i;
	int n;

	for (i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		drive_record_put(&b, &all[i]);
	for (i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		n = drive_record_get(&b, &r);
		CHECK(n > 0 && r.kind == all[i].kind);
		CHECK(r.version == all[i].version && r.size == all[i].size);
		CHECK(r.n == all[i].n && r.more == all[i].more);
		CHECK_STR(r.path, all[i].path ? all[i].path : "");
		buf_eat(&b, (size_t)n);
	}
	CHECK(drive_record_get(&b, &r) == 0);
	buf_done(&b);
}

static int get(const void *p, size_t n)
{
	struct drive_record r;
	struct buf b = { 0 };
	int rc;

	buf_add(&b, p, n);
	rc = drive_record_get(&b, &r);
	buf_done(&b);
	return rc;
}

static void test_bad(void)
{
	struct buf b = { 0 };
	char *text = calloc(1, DRIVE_TEXT_MAX + 2);

	CHECK(get("\0\0\0\0", 4) == -EBADMSG);
	CHECK(get("\xff\xff\xff\xff", 4) == -EBADMSG);
	CHECK(get("\1\0\0\0\0", 5) == -EBADMSG);
	CHECK(get("\1\0\0\0\x63", 5) == -EBADMSG);
	CHECK(get("\1\0\0\0\2", 5) == -EBADMSG);   /* no data */
	CHECK(get("\2\0\0\0\7\2", 6) == -EBADMSG); /* no bool */
	CHECK(get("\2\0\0\0\3x", 6) == -EBADMSG);  /* too much */
	CHECK(get("\2\0\0\0\3", 5) == 0);
	memset(text, 'a', DRIVE_TEXT_MAX + 1);
	drive_record_put(&b, &(struct drive_record){ .kind = DRIVE_REQUEST,
						     .op = DRIVE_GET,
						     .path = text });
	CHECK(get(buf_data(&b), buf_len(&b)) == -EBADMSG);
	buf_clear(&b);
	drive_record_put(&b, &(struct drive_record){ .kind = DRIVE_REQUEST,
						     .op = DRIVE_OPS,
						     .path = "x" });
	CHECK(get(buf_data(&b), buf_len(&b)) == -EBADMSG);
	buf_done(&b);
	free(text);
}

static bool covers(const char *grant, const char *path, bool *write)
{
	struct drive_grant g;

	CHECK(drive_grant_parse(grant, &g) == 0);
	*write = g.write;
	return drive_grant_covers(&g, path);
}

static void test_grants(void)
{
	struct drive_grant g;
	struct err e = { 0 };
	bool w;

	CHECK(covers("a:rw", "a/b", &w) && w);
	CHECK(covers("a/", "a/b", &w) && !w);
	CHECK(covers("a:ro", "a", &w) && !w);
	CHECK(!covers("a", "ab", &w));
	CHECK(!covers("a/b", "a", &w));
	CHECK(covers("/:rw", "x/y", &w) && w);
	CHECK(covers("a:b:rw", "a:b/c", &w) && w);
	CHECK(drive_grant_parse("", &g) < 0);
	CHECK(drive_grant_parse(":rw", &g) < 0);
	CHECK(drive_grant_parse("../x", &g) < 0);
	CHECK(drive_grant_parse("a//b", &g) < 0);
	CHECK(drive_grant_parse("/a", &g) < 0);
	CHECK(drive_path_check("a/b", false, &e) == 0);
	CHECK(drive_path_check("a/", false, &e) < 0);
	CHECK(drive_path_check("a/", true, &e) == 0);
	CHECK(drive_path_check("", true, &e) == 0);
}

static void test_mounts(void)
{
	static const char *const bad[] = {
		"",         "data",        "data:",        "data:d",
		":/d",      "DATA:/d",     "data:/",       "data:/a//b",
		"data:/..", "data:/a/./b", "data:/proc/x", "data:/dev",
		"data:/d/", "data:/d:rx/", "data:/a\x01",  "data:ro",
	};
	struct volume_mount m;
	size_t i;

	CHECK(volume_mount_parse("data:/a/b", &m) == 0);
	CHECK_STR(m.name, "data");
	CHECK_STR(m.path, "/a/b");
	CHECK(!m.read_only);
	CHECK(volume_mount_parse("d:/a b:ro", &m) == 0 && m.read_only);
	CHECK_STR(m.path, "/a b");
	CHECK(volume_mount_parse("d:/x:y:rw", &m) == 0 && !m.read_only);
	CHECK_STR(m.path, "/x:y");
	CHECK(volume_mount_parse("d:/x:shared", &m) == 0 && m.shared);
	CHECK(!m.read_only && strcmp(m.path, "/x") == 0);
	CHECK(volume_mount_parse("d:/devices", &m) == 0 && !m.shared);
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK(volume_mount_parse(bad[i], &m) == -EINVAL);
}

int main(void)
{
	test_round();
	test_bad();
	test_grants();
	test_mounts();
	return CHECK_DONE();
}
