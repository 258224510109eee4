/* What must not leave the house does not, and the rest is readable. */
#include "check.h"
#include "cli/scrub.h"

static const char *scrubbed(const char *text)
{
	static struct buf b;

	buf_clear(&b);
	scrub(&b, text, strlen(text));
	return buf_str(&b);
}

static void test_kept(void)
{
	static const char *const lines[] = {
		"nothing special: here = there",
		"tls_key = /etc/carrel/key.pem",
		"info api request=1 GET /v1/host status=200",
		"http://localhost:8080/path?x=1",
		"e2b_ is how keys start, e2b_short too",
		"a token is a word, and so is password",
		"{\"id\": \"i234\", \"memory\": 1048576}",
		"me@example.com",
	};
	char line[128];
	size_t i;

	for (i = 0; i < sizeof(lines) / sizeof(*lines); i++) {
		snprintf(line, sizeof(line), "%s\n", lines[i]);
		CHECK_STR(scrubbed(line), line);
	}
}

static void test_removed(void)
{
	static const struct {
		const char *in, *out;
	} cases[] = {
		{ "key e2b_0123456789abcdef0123456789abcdef01234567.",
		  "key e2b_(removed).\n" },
		{ "PASSWORD=hunter2 next", "PASSWORD=(removed) next\n" },
		{ "db_password = hunter 2", "db_password = (removed) 2\n" },
		{ "{\"api_key\": \"hun\\\"ter2\", \"x\": 1}",
		  "{\"api_key\": \"(removed)\", \"x\": 1}\n" },
		{ "GET /x?carrel_token=hunter2&y=1",
		  "GET /x?carrel_token=(removed)&y=1\n" },
		{ "Authorization: Bearer hunter2",
		  "Authorization: (removed)\n" },
		{ "proxy http://me:hunter2@host/path",
		  "proxy http://(removed)@host/path\n" },
		{ "AWS_SECRET_ACCESS_KEY: hunter2",
		  "AWS_SECRET_ACCESS_KEY: (removed)\n" },
		{ "token='hunter2 and more' end", "token='(removed)' end\n" },
		{ "Set-Cookie: a=hunter2; b=hunter2",
		  "Set-Cookie: (removed)\n" },
		{ "-----BEGIN OPENSSH PRIVATE KEY-----\nhunter2\nhunter2\n"
		  "-----END OPENSSH PRIVATE KEY-----\nafter\n",
		  "(removed)\nafter\n" },
		{ "-----BEGIN PRIVATE KEY-----\nhunter2", "(removed)\n" },
		{ "esc \033[31m", "esc ?[31m\n" },
	};
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		CHECK_STR(scrubbed(cases[i].in), cases[i].out);
}

int main(void)
{
	test_kept();
	test_removed();
	CHECK_STR(scrubbed(""), "");
	CHECK_STR(scrubbed("token="), "token=\n");
	CHECK_STR(scrubbed("token=\""), "token=\"(removed)\n");
	return CHECK_DONE();
}
