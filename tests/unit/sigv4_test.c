/* Signatures and one-time codes, against what their authors published. */
#include <errno.h>
#include <stdlib.h>

#include "check.h"
#include "vault/sigv4.h"
#include "vault/totp.h"

#define EMPTY "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

static struct sigv4 example(const char *target)
{
	return (struct sigv4){
		.method = "GET",
		.host = "examplebucket.s3.amazonaws.com",
		.target = target,
		.key_id = "AKIAIOSFODNN7EXAMPLE",
		.key = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
		.token = "",
		.region = "us-east-1",
		.service = "s3",
		.time_s = 1369353600,
		.payload = EMPTY,
	};
}

static void check(const struct sigv4 *s, const char *target, const char *end)
{
	struct buf auth = { 0 }, to = { 0 };
	char date[SIGV4_DATE_CAP];
	const char *at;

	CHECK(sigv4_sign(s, &auth, date, &to) == 0);
	CHECK_STR(buf_str(&to), target);
	CHECK_STR(date, "20130524T000000Z");
	at = strstr(buf_str(&auth), "SignedHeaders=");
	if (!at || strcmp(at, end) != 0)
		printf("# %s\n", buf_str(&auth));
	CHECK(at && strcmp(at, end) == 0);
	buf_done(&auth);
	buf_done(&to);
}

static void test_sigv4(void)
{
	static const struct sigv4_field range[] = { { "Range", "bytes=0-9" } };
	struct sigv4 s = example("/test.txt");
	char hash[SIGV4_HASH_CAP];

	s.fields = range;
	s.n_fields = 1;
	check(&s, "/test.txt",
	      "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, "
	      "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039"
	      "c6036bdb41");
	s = example("/?lifecycle");
	check(&s, "/?lifecycle=",
	      "SignedHeaders=host;x-amz-content-sha256;x-amz-date, "
	      "Signature=fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a"
	      "0136783543");
	s = example("/?prefix=J&max-keys=2");
	check(&s, "/?max-keys=2&prefix=J",
	      "SignedHeaders=host;x-amz-content-sha256;x-amz-date, "
	      "Signature=34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed571"
	      "1ef69dc6f7");
	sigv4_hash("", 0, hash);
	CHECK_STR(hash, EMPTY);
}

static void code(const char *seed, uint64_t at, const char *want)
{
	char out[TOTP_CODE_CAP];
	struct err e = { 0 };

	CHECK(totp_make(seed, at, out, &e) == 0);
	CHECK_STR(out, want);
}

#define ADDRESS(seed, more) "otpauth://totp/x?secret=" seed "&digits=8" more

static void test_totp(void)
{
	char out[TOTP_CODE_CAP];
	struct err e = { 0 };

	/* RFC 6238, appendix B. */
	code(ADDRESS("GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ", ""), 59, "94287082");
	code(ADDRESS("GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ", ""), 1111111109,
	     "07081804");
	code(ADDRESS("GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQGEZA",
		     "&algorithm=SHA256"),
	     1234567890, "91819424");
	code("gezd gnbv gy3t qojq gezd gnbv gy3t qojq", 59, "287082");
	CHECK(totp_make("not base32!", 0, out, &e) == -EINVAL);
	err_clear(&e);
	CHECK(totp_make("", 0, out, &e) == -EINVAL);
	err_clear(&e);
	CHECK(totp_make("otpauth://totp/x?digits=6", 0, out, &e) == -EINVAL);
	err_clear(&e);
	CHECK(totp_make("otpauth://totp/x?secret=GEZDGNBV&period=0", 0, out,
			&e) == -EINVAL);
}

int main(void)
{
	test_sigv4();
	test_totp();
	return CHECK_DONE();
}
