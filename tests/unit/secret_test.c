/* Secrets: what they may be, where they go, how they travel. */
#include <errno.h>
#include <sodium.h>
#include <stdlib.h>

#include "check.h"
#include "vault/seal.h"
#include "vault/secret_json.h"

static struct secret make(const char *json)
{
	json_t *j = json_loads(json, 0, NULL);
	struct secret s = { .name = "github" };
	struct err e = { 0 };

	if (!j || secret_from_json(&s, j, &e) < 0)
		printf("# %s: %s\n", json, e.msg);
	json_decref(j);
	return s;
}

static bool refused(const char *json, const char *word)
{
	json_t *j = json_loads(json, 0, NULL);
	struct secret s = { .name = "github" };
	struct err e = { 0 };
	int r = secret_from_json(&s, j, &e);

	json_decref(j);
	secret_done(&s);
	if (r == 0 || strncmp(e.msg, word, strlen(word)) != 0)
		printf("# %s: %d %s\n", json, r, e.msg);
	return r < 0 && strncmp(e.msg, word, strlen(word)) == 0;
}

#define HEADER                                             \
	"\"kind\":\"header\",\"field\":\"Authorization\"," \
	"\"template\":\"Bearer {}\""

static void test_check(void)
{
	CHECK(refused("{" HEADER "}", "hosts"));
	CHECK(refused("{" HEADER ",\"hosts\":[\"*\"]}", "hosts"));
	CHECK(refused("{" HEADER ",\"hosts\":[\"a b\"]}", "hosts"));
	CHECK(refused("{" HEADER ",\"hosts\":[\"a.test:0\"]}", "hosts"));
	CHECK(refused("{" HEADER ",\"hosts\":[\"a.test/x\"]}", "hosts"));
	CHECK(refused("{" HEADER ",\"hosts\":[\"a.test\"],\"x\":\"\"}", "x:"));
	CHECK(refused("{" HEADER ",\"hosts\":[\"a.test\"],\"env\":\"1A\"}",
		      "env"));
	CHECK(refused("{" HEADER ",\"hosts\":[\"a.test\"],\"path\":\"x\"}",
		      "path"));
	CHECK(refused("{" HEADER
		      ",\"hosts\":[\"a.test\"],\"methods\":[\"TRACE\"]}",
		      "methods"));
	CHECK(refused("{\"kind\":\"header\",\"hosts\":[\"a.test\"],"
		      "\"field\":\"Host\",\"template\":\"{}\"}",
		      "field"));
	CHECK(refused("{\"kind\":\"header\",\"hosts\":[\"a.test\"],"
		      "\"field\":\"X\",\"template\":\"{}{}\"}",
		      "template"));
	CHECK(refused("{\"kind\":\"header\",\"hosts\":[\"a.test\"],"
		      "\"field\":\"X\",\"template\":\"a\\r\\nb{}\"}",
		      "template"));
	CHECK(refused("{\"kind\":\"basic\",\"hosts\":[\"a.test\"],"
		      "\"user\":\"a:b\"}",
		      "user"));
	CHECK(refused("{\"kind\":\"query\",\"hosts\":[\"a.test\"],"
		      "\"field\":\"a&b\"}",
		      "field"));
	CHECK(refused("{\"kind\":\"aws\",\"hosts\":[\"a.test\"],"
		      "\"user\":\"AK\",\"region\":\"eu\"}",
		      "region"));
	CHECK(refused("{\"kind\":\"oauth2\",\"hosts\":[\"a.test\"],"
		      "\"user\":\"c\",\"token_url\":\"http://a.test/t\"}",
		      "token_url"));
	CHECK(refused("{\"kind\":\"totp\",\"hosts\":[\"a.test\"]}", "hosts"));
	CHECK(refused("{\"kind\":\"text\",\"hosts\":[\"a.test\"]}", "hosts"));
	CHECK(refused("{\"kind\":\"fill\",\"field\":\"X\","
		      "\"template\":\"{}\"}",
		      "hosts"));
	CHECK(refused("{\"kind\":\"fill\",\"hosts\":[\"a.test\"],"
		      "\"field\":\"X\",\"template\":\"\"}",
		      "template"));
	CHECK(refused("{\"kind\":\"nonsense\"}", "kind"));
	CHECK(refused("{\"sealed\":\"?\"}", "sealed"));
}

static bool binds(const struct secret *s, enum scheme scheme, const char *host,
		  uint16_t port)
{
	const struct request r = { scheme, host, port, "GET", "/a/b" };

	return secret_binds(s, &r);
}

static void test_binds(void)
{
	struct secret s =
		make("{" HEADER ",\"hosts\":[\"API.test\",\"*.x.test:8443\","
		     "\"http://plain.test\",\"[2001:DB8::1]\"]}");
	const struct request other = { SCHEME_HTTPS, "api.test", 443, "POST",
				       "/b" };
	const struct request other_method = { SCHEME_HTTPS, "api.test", 443,
					      "POST", "/a/b" };
	const struct request other_path = { SCHEME_HTTPS, "api.test", 443,
					    "GET", "/b" };
	const struct request unknown = { SCHEME_HTTPS, "api.test", 443, NULL,
					 NULL };

	CHECK(binds(&s, SCHEME_HTTPS, "api.test", 443));
	CHECK(!binds(&s, SCHEME_HTTP, "api.test", 80));
	CHECK(!binds(&s, SCHEME_HTTPS, "api.test", 8443));
	CHECK(!binds(&s, SCHEME_HTTPS, "xapi.test", 443));
	CHECK(!binds(&s, SCHEME_HTTPS, "api.test.evil.test", 443));
	CHECK(binds(&s, SCHEME_HTTPS, "a.x.test", 8443));
	CHECK(binds(&s, SCHEME_HTTPS, "a.b.x.test", 8443));
	CHECK(!binds(&s, SCHEME_HTTPS, "x.test", 8443));
	CHECK(!binds(&s, SCHEME_HTTPS, "ax.test", 8443));
	CHECK(!binds(&s, SCHEME_HTTPS, "a.bx.test", 8443));
	CHECK(binds(&s, SCHEME_HTTP, "plain.test", 80));
	CHECK(!binds(&s, SCHEME_HTTPS, "plain.test", 443));
	CHECK(binds(&s, SCHEME_HTTPS, "2001:db8::1", 443));
	CHECK(!binds(&s, SCHEME_TCP, "api.test", 443));
	secret_done(&s);

	s = make("{" HEADER ",\"hosts\":[\"api.test\"],"
		 "\"methods\":[\"GET\",\"HEAD\"],\"path\":\"/a/*\"}");
	CHECK(binds(&s, SCHEME_HTTPS, "api.test", 443));
	CHECK(!secret_binds(&s, &other));
	CHECK(!secret_binds(&s, &other_method));
	CHECK(!secret_binds(&s, &other_path));
	CHECK(secret_binds(&s, &unknown));
	/* Secrets of these kinds go to no host. */
	s.kind = SECRET_TOTP;
	CHECK(!binds(&s, SCHEME_HTTPS, "api.test", 443));
	s.kind = SECRET_TEXT;
	CHECK(!binds(&s, SCHEME_HTTPS, "api.test", 443));
	s.kind = SECRET_HEADER;
	secret_done(&s);
}

static void test_pack(void)
{
	struct secret s = make("{" HEADER
			       ",\"hosts\":[\"a.test\",\"*.b.test\"],"
			       "\"sealed\":\"AAECAw==\",\"env\":\"TOKEN\","
			       "\"methods\":[\"PUT\"],\"path\":\"/x*\"}"),
		      t = { 0 };
	struct buf b = { 0 };
	json_t *one = secret_to_json(&s), *two;
	size_t n;

	secret_pack(&b, &s);
	CHECK(secret_unpack(&t, buf_data(&b), buf_len(&b)) == 0);
	two = secret_to_json(&t);
	CHECK(json_equal(one, two));
	CHECK(t.sealed_n == 4 && memcmp(t.sealed, "\0\1\2\3", 4) == 0);
	CHECK_STR(t.env, "TOKEN");
	secret_done(&t);
	for (n = 0; n + 4 < buf_len(&b); n++)
		if (secret_unpack(&t, buf_data(&b), n) == 0)
			break;
	CHECK(n + 4 == buf_len(&b));
	json_decref(one);
	json_decref(two);
	buf_done(&b);
	secret_done(&s);
}

static void test_seal(void)
{
	struct secret s = make("{" HEADER ",\"hosts\":[\"a.test\"]}");
	unsigned char pub[SEAL_KEY], private[SEAL_KEY], pub2[SEAL_KEY],
		private2[SEAL_KEY];
	struct sealed_value v;
	struct buf b = { 0 };
	struct err e = { 0 };

	CHECK(sodium_init() >= 0);
	crypto_box_keypair(pub, private);
	crypto_box_keypair(pub2, private2);
	CHECK(secret_seal(&s, pub, "s3cret\nword", 11, &b, &e) == 0);
	s.sealed_n = buf_len(&b);
	s.sealed = xcalloc(1, s.sealed_n);
	memcpy(s.sealed, buf_data(&b), s.sealed_n);
	CHECK(secret_open(&s, pub, private, &v, &e) == 0);
	CHECK(v.n == 11 && strcmp(v.p, "s3cret\nword") == 0);
	sealed_free(&v);
	CHECK(secret_open(&s, pub2, private2, &v, &e) == -EBADMSG);
	err_clear(&e);
	/* Somebody on the way wants it elsewhere, or as another one. */
	strcpy(s.hosts[0], "b.test");
	CHECK(secret_open(&s, pub, private, &v, &e) == -EBADMSG);
	CHECK(strstr(e.msg, "other hosts"));
	err_clear(&e);
	strcpy(s.hosts[0], "a.test");
	strcpy(s.name, "gitlab");
	CHECK(secret_open(&s, pub, private, &v, &e) == -EBADMSG);
	err_clear(&e);
	CHECK(secret_seal(&s, pub, "", 0, &b, &e) == -EINVAL);
	buf_done(&b);
	secret_done(&s);
}

int main(void)
{
	test_check();
	test_binds();
	test_pack();
	test_seal();
	return CHECK_DONE();
}
