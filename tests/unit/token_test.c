/* Tokens of OAuth 2: requests, and answers of strangers. */
#include <errno.h>
#include <stdlib.h>

#include "check.h"
#include "vault/token.h"

static void test_request(void)
{
	static const struct {
		const char *value, *want;
	} rows[] = {
		{ "s&1", "grant_type=client_credentials&scope=a%20b&"
			 "client_id=me&client_secret=s%261" },
		{ "s\nr", "grant_type=refresh_token&refresh_token=r&"
			  "client_id=me&client_secret=s" },
		{ "\n\nc\nv\nhttp://127.0.0.1:1/",
		  "grant_type=authorization_code&code=c&code_verifier=v&"
		  "redirect_uri=http%3A%2F%2F127.0.0.1%3A1%2F&client_id=me" },
	};
	const struct secret s = { .user = "me", .scope = "a b" };
	size_t i;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct token_value v;
		struct buf b = { 0 };

		token_value_read(&v, rows[i].value);
		token_request(&s, &v, &b);
		CHECK_STR(buf_str(&b), rows[i].want);
		token_value_done(&v);
		buf_done(&b);
	}
}

static int reads(const char *json, const char *access, const char *refresh,
		 uint64_t expires)
{
	struct token t = { 0 };
	int r = token_read(&t, json, strlen(json));

	if (r == 0)
		r = strcmp(buf_str(&t.access), access) == 0 &&
		    strcmp(buf_str(&t.refresh), refresh) == 0 &&
		    t.expires_s == expires;
	token_done(&t);
	return r;
}

static bool expires(const char *json, uint64_t want)
{
	struct token t = { 0 };
	bool r = token_read(&t, json, strlen(json)) == 0 && t.expires &&
		 t.expires_s == want;

	token_done(&t);
	return r;
}

static void test_expiry(void)
{
	CHECK(expires("{\"expires_in\":60}", 60));
	CHECK(expires("{\"expires_in\":\"7\"}", 7));
	/* The token has expired; that differs from an unknown lifetime. */
	CHECK(expires("{\"expires_in\":0}", 0));
	CHECK(expires("{\"expires_in\":-5}", 0));
	CHECK(expires("{\"expires_in\":\"-5\"}", 0));
	CHECK(!expires("{\"expires_in\":null}", 0));
	CHECK(!expires("{}", 0));
}

static void test_answer(void)
{
	CHECK(reads("{\"access_token\":\"a\",\"expires_in\":60}", "a", "",
		    60) == 1);
	CHECK(reads(" { \"x\" : [1,{\"access_token\":\"no\"},\"]\"], "
		    "\"access_token\" : \"a\\u0062\\/\", \"expires_in\":\"7\","
		    "\"refresh_token\":\"r\", \"y\":null } ",
		    "ab/", "r", 7) == 1);
	CHECK(reads("{}", "", "", 0) == 1);
	CHECK(reads("{\"access_token\":null}", "", "", 0) == 1);
	CHECK(reads("{\"access_token\":\"a\\r\\nX: y\"}", "", "", 0) ==
	      -EBADMSG);
	CHECK(reads("{\"access_token\":\"a b\"}", "", "", 0) == -EBADMSG);
	CHECK(reads("", "", "", 0) == -EBADMSG);
	CHECK(reads("[]", "", "", 0) == -EBADMSG);
	CHECK(reads("{\"a\":1", "", "", 0) == -EBADMSG);
	CHECK(reads("{\"a\":\"", "", "", 0) == -EBADMSG);
	CHECK(reads("{\"a\":1}}", "", "", 0) == -EBADMSG);
	CHECK(reads("{\"a\":\"\\u12\"}", "", "", 0) == -EBADMSG);
}

int main(void)
{
	test_request();
	test_answer();
	test_expiry();
	return CHECK_DONE();
}
