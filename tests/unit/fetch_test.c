#include "wire/fetch.h"

#include <errno.h>
#include <string.h>

#include "check.h"
#include "fetch/challenge.h"

#define HEX "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void test_records(void)
{
	struct fetch_record open = { .kind = FETCH_OPEN,
				     .host = "reg.example:5000",
				     .repository = "a/b",
				     .user = "me",
				     .password = "s e c",
				     .flag = true },
			    blob = { .kind = FETCH_GET_BLOB,
				     .reference = "sha256:" HEX,
				     .size = 7,
				     .offset = 3 },
			    error = { .kind = FETCH_ERROR,
				      .err = { ENOENT, "no\nsuch" } },
			    q;
	struct buf b = { 0 };
	int n;

	fetch_record_put(&b, &open);
	fetch_record_put(&b, &blob);
	fetch_record_put(&b, &error);
	n = fetch_record_get(&b, &q);
	CHECK(n > 0 && q.kind == FETCH_OPEN && q.flag);
	CHECK_STR(q.host, "reg.example:5000");
	CHECK_STR(q.password, "s e c");
	buf_eat(&b, (size_t)n);
	n = fetch_record_get(&b, &q);
	CHECK(n > 0 && q.kind == FETCH_GET_BLOB && q.size == 7 &&
	      q.offset == 3);
	buf_eat(&b, (size_t)n);
	n = fetch_record_get(&b, &q);
	CHECK(n == (int)buf_len(&b) && q.err.code == ENOENT);
	CHECK_STR(q.err.msg, "no?such");
	b.len--;
	CHECK(fetch_record_get(&b, &q) == 0);
	buf_done(&b);
}

static bool refused(struct fetch_record r)
{
	struct buf b = { 0 };
	struct fetch_record q;
	int n;

	fetch_record_put(&b, &r);
	n = fetch_record_get(&b, &q);
	buf_done(&b);
	return n == -EBADMSG;
}

static void test_refused(void)
{
	static const char *const bad[] = { "",         "../x", ".x",
					   "a b",      "a/b",  "sha256:12",
					   "a\r\nX: y" };
	struct fetch_record r = { .kind = FETCH_OPEN,
				  .host = "h",
				  .repository = "r",
				  .user = "",
				  .password = "" };
	size_t i;

	CHECK(!refused(r));
	r.host = "h/x";
	CHECK(refused(r));
	r.host = "h";
	r.repository = "../r";
	CHECK(refused(r));
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK(refused((struct fetch_record){ .kind = FETCH_HAS_BLOB,
						     .reference = bad[i] }));
	CHECK(refused((struct fetch_record){ .kind = FETCH_DATA, .p = "" }));
	CHECK(refused((struct fetch_record){ .kind = FETCH_ERROR }));
}

static void test_refs(void)
{
	static const char *const bad[] = {
		"debian",      "/debian",     "h/",           "h/A",
		"h/a:",        "h/a@sha256:", "h/a@tag",      "H/a",
		"h:0/a",       "h:99999/a",   "u@h/a",        "h/a//b",
		"https://h/a", "h/../a",      "h/a:x/../../", "[::1/a",
	};
	struct fetch_ref r;
	struct err e = { 0 };
	size_t i;

	CHECK(fetch_ref_parse(&r, "localhost:5000/a/b-c", &e) == 0);
	CHECK_STR(r.host, "localhost:5000");
	CHECK_STR(r.repository, "a/b-c");
	CHECK_STR(r.reference, "latest");
	CHECK(fetch_ref_parse(&r, "h/a:1.0-B", &e) == 0);
	CHECK_STR(r.reference, "1.0-B");
	CHECK(fetch_ref_parse(&r, "[::1]:5/a:t@sha256:" HEX, &e) == 0);
	CHECK_STR(r.host, "[::1]:5");
	CHECK_STR(r.repository, "a");
	CHECK_STR(r.reference, "sha256:" HEX);
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		e = (struct err){ 0 };
		CHECK(fetch_ref_parse(&r, bad[i], &e) == -EINVAL);
	}
}

static void test_listed(void)
{
	struct err e = { 0 };
	const char *list = "a.example, b.example:5000 *.c.example,d:443";

	CHECK(fetch_host_listed(list, "a.example"));
	CHECK(fetch_host_listed(list, "a.example:443"));
	CHECK(!fetch_host_listed(list, "a.example:80"));
	CHECK(!fetch_host_listed(list, "x.a.example"));
	CHECK(!fetch_host_listed(list, "b.example"));
	CHECK(fetch_host_listed(list, "b.example:5000"));
	CHECK(fetch_host_listed(list, "x.y.c.example"));
	CHECK(!fetch_host_listed(list, "c.example"));
	CHECK(!fetch_host_listed(list, "evilc.example"));
	CHECK(!fetch_host_listed(list, ".c.example"));
	CHECK(fetch_host_listed(list, "d"));
	CHECK(!fetch_host_listed("", "a"));
	CHECK(fetch_list_check(list, &e) == 0 && fetch_list_check("", &e) == 0);
	CHECK(fetch_list_check("a, https://b", &e) == -EINVAL);
	err_clear(&e);
	CHECK(fetch_list_check("A", &e) == -EINVAL);
	err_clear(&e);
	CHECK(fetch_list_check("*.", &e) == -EINVAL);
}

static void test_challenge(void)
{
	struct challenge c;

	CHECK(challenge_find("Bearer realm=\"https://a/t\",service=\"s\","
			     "scope=\"repository:x:pull\"",
			     "Bearer", &c));
	CHECK_STR(c.realm, "https://a/t");
	CHECK_STR(c.service, "s");
	CHECK(challenge_find("Basic realm=\"one\", Bearer realm=two", "bearer",
			     &c));
	CHECK_STR(c.realm, "two");
	CHECK(challenge_find("Basic realm=\"a \\\"b\\\"\", Bearer realm=two",
			     "Basic", &c));
	CHECK_STR(c.realm, "a \"b\"");
	CHECK(!challenge_find("Digest realm=\"Bearer realm=x\"", "Bearer", &c));
	CHECK(!challenge_find("", "Bearer", &c));
	CHECK(challenge_find("Bearer realm=\"open", "Bearer", &c));
	CHECK_STR(c.realm, "");
}

int main(void)
{
	test_records();
	test_refused();
	test_refs();
	test_listed();
	test_challenge();
	return CHECK_DONE();
}
