/* Targets: decoded once, nothing ambiguous survives. */
#include "http/target.h"

#include <errno.h>

#include "base/auto.h"
#include "check.h"

static const struct {
	const char *target, *path, *query; /* path NULL: refused */
} rows[] = {
	{ "/", "/", "" },
	{ "/v1/sandboxes", "/v1/sandboxes", "" },
	{ "/v1/", "/v1/", "" },
	{ "/a%20b", "/a b", "" },
	{ "/a+b", "/a+b", "" },
	{ "/%c3%a4?%C3%A4=1", "/\303\244", "%C3%A4=1" },
	{ "/%2561", "/%61", "" },
	{ "/a:b@c;d=e", "/a:b@c;d=e", "" },
	{ "/...", "/...", "" },
	{ "/.a", "/.a", "" },
	{ "/a?", "/a", "" },
	{ "/a?b?c=/../d", "/a", "b?c=/../d" },
	{ "/a?x[0]={}", "/a", "x[0]={}" },
	{ "", NULL, NULL },
	{ "a", NULL, NULL },
	{ "*", NULL, NULL },
	{ "//", NULL, NULL },
	{ "/a//b", NULL, NULL },
	{ "/.", NULL, NULL },
	{ "/..", NULL, NULL },
	{ "/a/../b", NULL, NULL },
	{ "/a/./b", NULL, NULL },
	{ "/%2e%2E/b", NULL, NULL },
	{ "/a/%2e", NULL, NULL },
	{ "/a%2fb", NULL, NULL },
	{ "/a%2Fb", NULL, NULL },
	{ "/a%5cb", NULL, NULL },
	{ "/a\\b", NULL, NULL },
	{ "/a%00b", NULL, NULL },
	{ "/a%0ab", NULL, NULL },
	{ "/a%7f", NULL, NULL },
	{ "/a%", NULL, NULL },
	{ "/a%4", NULL, NULL },
	{ "/a%4g", NULL, NULL },
	{ "/a%+1", NULL, NULL },
	{ "/%ff", NULL, NULL },
	{ "/%c0%ae", NULL, NULL },       /* overlong '.' */
	{ "/%ed%a0%80", NULL, NULL },    /* surrogate */
	{ "/%f4%90%80%80", NULL, NULL }, /* beyond Unicode */
	{ "/%c3", NULL, NULL },
	{ "/\303\244", NULL, NULL },
	{ "/a#b", NULL, NULL },
	{ "/a b", NULL, NULL },
	{ "/a<b", NULL, NULL },
	{ "/a?b#c", NULL, NULL },
	{ "/a?b c", NULL, NULL },
	{ "/a?%4", NULL, NULL },
	{ "/a?\303\244", NULL, NULL },
};

static void test_split(void)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(rows); i++) {
		const char *query = NULL;
		char path[64];
		int r = http_target_split(rows[i].target, path, &query);

		printf("# %s\n", rows[i].target);
		CHECK(r == (rows[i].path ? 0 : -EINVAL));
		if (r < 0 || !rows[i].path)
			continue;
		CHECK_STR(path, rows[i].path);
		CHECK_STR(query, rows[i].query);
	}
}

static const struct {
	const char *target, *path, *sent, *kept; /* path NULL: refused */
} proxy_rows[] = {
	{ "/", "/", "/", "/" },
	{ "/a%20b?q", "/a b", "/a%20b", "/a b" },
	{ "/%41%7e%2d", "/A~-", "/A~-", "/A~-" },
	{ "/a%3bb;c%40", "/a;b;c@", "/a%3Bb;c%40", "/a;b;c@" },
	{ "/@x%2fy", "/@x/y", "/@x%2Fy", "/@x%2Fy" },
	{ "/%c3%a4%2F", "/\303\244/", "/%C3%A4%2F", "/\303\244%2F" },
	{ "/100%25", "/100%", "/100%25", "/100%" },
	{ "/a/..%2fb", NULL, NULL, NULL },
	{ "/a%2f..", NULL, NULL, NULL },
	{ "/a%2f%2e%2e%2fb", NULL, NULL, NULL },
	{ "/a%2f/b", NULL, NULL, NULL },
	{ "/%2fb", NULL, NULL, NULL },
	{ "/a/..;/b", NULL, NULL, NULL },
	{ "/a/.;x/b", NULL, NULL, NULL },
	{ "/a/%2e%2e%3b/b", NULL, NULL, NULL },
	{ "/%252e%252e/", NULL, NULL, NULL },
	{ "/a%255cb", NULL, NULL, NULL },
	{ "/a%252fb", NULL, NULL, NULL },
	{ "/a%5cb", NULL, NULL, NULL },
	{ "/a%00", NULL, NULL, NULL },
	{ "/a/../b", NULL, NULL, NULL },
	{ "/\303\244", NULL, NULL, NULL },
	{ "/a#b", NULL, NULL, NULL },
	{ "*", NULL, NULL, NULL },
};

static void test_proxy(void)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(proxy_rows); i++) {
		const char *query = NULL;
		char path[64], sent[64], kept[64];
		bool slashes = false;
		int r = http_target_proxy(proxy_rows[i].target, path, sent,
					  &query, &slashes);

		printf("# %s\n", proxy_rows[i].target);
		CHECK(r == (proxy_rows[i].path ? 0 : -EINVAL));
		if (r < 0 || !proxy_rows[i].path)
			continue;
		http_path_kept(sent, kept);
		CHECK_STR(path, proxy_rows[i].path);
		CHECK_STR(sent, proxy_rows[i].sent);
		CHECK_STR(kept, proxy_rows[i].kept);
		CHECK(slashes == (strcmp(path, kept) != 0));
	}
}

static void test_query(void)
{
	struct http_head h = {
		.query = "all=true&flag&n=a%20b+c&&twice=1&twice=2&%6eame=x"
			 "&bad=%ff&ctl=%0a&eq=a=b&=e"
	};
	char v[8];

	CHECK(http_query(&h, "all", v, sizeof(v)) == 1);
	CHECK_STR(v, "true");
	CHECK(http_query(&h, "flag", v, sizeof(v)) == 1);
	CHECK_STR(v, "");
	CHECK(http_query(&h, "n", v, sizeof(v)) == 1);
	CHECK_STR(v, "a b c");
	CHECK(http_query(&h, "name", v, sizeof(v)) == 1);
	CHECK_STR(v, "x");
	CHECK(http_query(&h, "eq", v, sizeof(v)) == 1);
	CHECK_STR(v, "a=b");
	CHECK(http_query(&h, "al", v, sizeof(v)) == 0);
	CHECK(http_query(&h, "alll", v, sizeof(v)) == 0);
	CHECK(http_query(&h, "twice", v, sizeof(v)) == -EINVAL);
	CHECK(http_query(&h, "bad", v, sizeof(v)) == -EINVAL);
	CHECK(http_query(&h, "ctl", v, sizeof(v)) == -EINVAL);
	CHECK(http_query(&h, "all", v, 4) == -ENAMETOOLONG);
	CHECK(http_query(&h, "all", v, 5) == 1);
	h.query = "";
	CHECK(http_query(&h, "all", v, sizeof(v)) == 0);
}

static void test_encode(void)
{
	AUTO(buf_done) struct buf b = { 0 };
	const char *query;
	char path[128];

	buf_puts(&b, "/");
	http_encode(&b, "a b%c?d#e&f\303\244-._~");
	CHECK_STR(buf_str(&b), "/a%20b%25c%3Fd%23e%26f%C3%A4-._~");
	CHECK(http_target_split(buf_str(&b), path, &query) == 0);
	CHECK_STR(path, "/a b%c?d#e&f\303\244-._~");
}

int main(void)
{
	test_split();
	test_proxy();
	test_query();
	test_encode();
	return CHECK_DONE();
}
