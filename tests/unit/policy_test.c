/* Policies: what each line means, what is refused, which rule decides. */
#include "policy/policy.h"
#include "policy/target.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "base/auto.h"
#include "check.h"

static const char sample[] =
	"# who may do what\n"
	"allow GET,HEAD https://api.test/repos/acme/*\r\n"
	"ask   *        https://api.test\n"
	"allow *        *.files.test   # below it\n"
	"allow tcp      db.internal:5432\n"
	"allow *        http://10.0.0.7:8080/a*z\n"
	"allow *        [fd00::1]:*\n"
	"deny  POST     *\n"
	"\n"
	"budget requests 500/h, up 20MB, down 2GB, connections 7\n"
	"budget *.files.test rate 5/s, requests 9, tokens 2M, cost 5.25\n"
	"budget *.files.test up 1k\n"
	"budget [FD00::1] down 1\n"
	"private 10.0.0.0/8, fd00::/8, [fe80::1], 169.254.169.254\n"
	"private db.internal, .corp.test\n"
	"over pause\n"
	"model api.test anthropic\n";

struct ask {
	const char *method, *url;
	enum verdict verdict;
	unsigned line; /* 0: no rule */
};

static void decides(const struct policy *p, const struct ask *a)
{
	struct err e = { 0 };
	struct url u;
	struct request q;
	struct decision d;

	CHECK(url_read(&u, a->url, &e) == 0);
	q = (struct request){ u.scheme, u.host, u.port, a->method, u.path };
	d = policy_decide(p, &q);
	CHECK(d.verdict == a->verdict);
	CHECK((d.rule ? d.rule->line : 0) == a->line);
}

static void test_decide(void)
{
	static const struct ask asks[] = {
		{ "GET", "https://api.test/repos/acme/x", VERDICT_ALLOW, 2 },
		{ "HEAD", "https://API.test./repos/acme/", VERDICT_ALLOW, 2 },
		{ "GET", "https://api.test/repos/other", VERDICT_ASK, 3 },
		{ "POST", "https://api.test/repos/acme/x", VERDICT_ASK, 3 },
		{ "BREW", "https://api.test/repos/acme/x", VERDICT_ASK, 3 },
		{ "GET", "http://api.test/repos/acme/x", VERDICT_DENY, 0 },
		{ "GET", "https://api.test:444/repos/acme/x", VERDICT_DENY, 0 },
		{ "GET", "https://a.files.test/", VERDICT_ALLOW, 4 },
		{ "GET", "http://a.b.files.test/", VERDICT_ALLOW, 4 },
		{ "GET", "wss://a.b.files.test/", VERDICT_ALLOW, 4 },
		{ "GET", "https://files.test/", VERDICT_DENY, 0 },
		{ "GET", "https://xfiles.test/", VERDICT_DENY, 0 },
		{ "GET", "tcp://db.internal:5432", VERDICT_ALLOW, 5 },
		{ "GET", "tcp://db.internal:5433", VERDICT_DENY, 0 },
		{ "GET", "http://10.0.0.7:8080/abz", VERDICT_ALLOW, 6 },
		{ "GET", "http://[::ffff:10.0.0.7]:8080/az", VERDICT_ALLOW, 6 },
		{ "GET", "http://10.0.0.7:8080/ab", VERDICT_DENY, 0 },
		{ "GET", "http://10.0.0.7:8080/abz?q", VERDICT_ALLOW, 6 },
		{ "PUT", "https://[FD00:0::1]:99/x", VERDICT_ALLOW, 7 },
		{ "POST", "http://else.test/", VERDICT_DENY, 8 },
	};
	AUTO(policy_done) struct policy p = { 0 };
	struct err e = { 0 };
	size_t i;

	CHECK(policy_parse(&p, sample, sizeof(sample) - 1, &e) == 0);
	CHECK(p.n == 7);
	for (i = 0; i < ARRAY_LEN(asks); i++)
		decides(&p, &asks[i]);
	CHECK(p.budget.requests == 500 && p.budget.per_ms == 3600000);
	CHECK(p.budget.up_bytes == 20 << 20 && p.budget.connections == 7);
}

/* Spellings that some servers take for the same path: rules that withhold are
 * about them, rules that allow are not. */
static void test_spellings_of_paths(void)
{
	static const char text[] = "deny * x.test/admin*\n"
				   "ask * x.test/pay/*\n"
				   "allow * x.test\n"
				   "allow * y.test/open/*\n";
	static const struct ask asks[] = {
		{ "GET", "https://x.test/admin", VERDICT_DENY, 1 },
		{ "GET", "https://x.test/Admin/users", VERDICT_DENY, 1 },
		{ "GET", "https://x.test/;a=b/admin", VERDICT_DENY, 1 },
		{ "GET", "https://x.test/ADMIN;x/users", VERDICT_DENY, 1 },
		{ "GET", "https://x.test/PAY;now/1", VERDICT_ASK, 2 },
		{ "GET", "https://x.test/a;admin", VERDICT_ALLOW, 3 },
		{ "GET", "https://x.test/adm/in", VERDICT_ALLOW, 3 },
		{ "GET", "https://y.test/open/;x", VERDICT_ALLOW, 4 },
		{ "GET", "https://y.test/OPEN/x", VERDICT_DENY, 0 },
		{ "GET", "https://y.test/open;x/y", VERDICT_DENY, 0 },
	};
	AUTO(policy_done) struct policy p = { 0 };
	struct err e = { 0 };
	size_t i;

	CHECK(policy_parse(&p, text, sizeof(text) - 1, &e) == 0);
	for (i = 0; i < ARRAY_LEN(asks); i++)
		decides(&p, &asks[i]);
}

/* https on the port of http is another place than https; so is the reverse. */
static void test_usual_ports(void)
{
	static const char text[] = "allow * x.test\n";
	static const struct ask asks[] = {
		{ "GET", "https://x.test:443/", VERDICT_ALLOW, 1 },
		{ "GET", "https://x.test:80/", VERDICT_DENY, 0 },
		{ "GET", "http://x.test:443/", VERDICT_DENY, 0 },
	};
	AUTO(policy_done) struct policy p = { 0 };
	struct err e = { 0 };
	size_t i;

	CHECK(policy_parse(&p, text, sizeof(text) - 1, &e) == 0);
	for (i = 0; i < ARRAY_LEN(asks); i++)
		decides(&p, &asks[i]);
}

/* A raw connection has no path, so a rule with a path never allows one. */
static void test_path_rule_allows_no_raw_connection(void)
{
	static const char text[] = "allow * x.test:*/a\n";
	const struct request q = { SCHEME_TCP, "x.test", 5432, NULL, NULL };
	AUTO(policy_done) struct policy p = { 0 };
	struct err e = { 0 };

	CHECK(policy_parse(&p, text, sizeof(text) - 1, &e) == 0);
	p.rules[0].schemes = SCHEME_ALL;
	CHECK(policy_decide(&p, &q).verdict == VERDICT_DENY);
	p.rules[0].path[0] = '\0';
	CHECK(policy_decide(&p, &q).verdict == VERDICT_ALLOW);
}

static void test_open(void)
{
	AUTO(policy_done) struct policy open = { 0 }, shut = { 0 };
	struct err e = { 0 };

	CHECK(policy_parse(&open, "deny * x.test\nallow *", 21, &e) == 0);
	CHECK(policy_parse(&shut, "allow * x.test\ndeny *", 21, &e) == 0);
	CHECK(policy_is_open(&open) && !policy_is_open(&shut));
}

static void test_hosts(void)
{
	char out[POLICY_HOST_CAP], label[65];
	bool address;

	CHECK(!host_fits(HOST_BELOW, "a.test", 6, ".a.test", 7));
	CHECK(host_fits(HOST_BELOW, "a.test", 6, "b.a.test", 8));
	CHECK(host_read("1.2.3.0x4", 9, out, &address) < 0);
	CHECK(host_read("0x7f000001", 10, out, &address) < 0);
	memset(label, 'a', sizeof(label));
	CHECK(host_read(label, 63, out, &address) == 0);
	CHECK(host_read(label, 64, out, &address) < 0);
}

static void test_more(void)
{
	AUTO(policy_done) struct policy p = { 0 };
	struct err e = { 0 };
	const struct budget *b;

	CHECK(policy_parse(&p, sample, sizeof(sample) - 1, &e) == 0);
	CHECK(p.n_budgets == 2 && p.n_privates == 6 && p.n_models == 1);
	b = &p.budgets[0].budget;
	CHECK(b->rate == 5 && b->rate_ms == 1000);
	CHECK(b->requests == 9 && b->per_ms == 0);
	CHECK(b->tokens == 2000000 && b->cost_micro == 5250000);
	CHECK(b->up_bytes == 1024);
	CHECK(host_pattern_fits(&p.budgets[0].host, "a.files.test"));
	CHECK(!host_pattern_fits(&p.budgets[0].host, "files.test"));
	CHECK(host_pattern_fits(&p.budgets[1].host, "fd00::1"));
	CHECK(p.privates[0].is_network && p.privates[0].network.bits == 104);
	CHECK(p.privates[1].network.bits == 8 &&
	      p.privates[2].network.bits == 128);
	CHECK(p.privates[3].network.bits == 128 && !p.privates[4].is_network);
	CHECK(p.over == OVER_PAUSE);
	CHECK(p.models[0].shape == MODEL_ANTHROPIC);
}

/* Looking is for those whose answer depends on it. */
static void test_several(void)
{
	static const struct {
		const char *text;
		enum verdict verdict;
	} rows[] = {
		{ "allow GET x.test\nallow * x.test", VERDICT_ALLOW },
		{ "allow GET x.test\nask * x.test", VERDICT_LOOK },
		{ "ask * x.test/a\nask * x.test", VERDICT_ASK },
		{ "deny * x.test/a\nallow * x.test", VERDICT_LOOK },
		{ "deny * x.test/a", VERDICT_DENY },
		{ "allow * x.test/a", VERDICT_LOOK },
	};
	const struct request q = { SCHEME_HTTPS, "x.test", 443, NULL, NULL };
	size_t i;

	for (i = 0; i < ARRAY_LEN(rows); i++) {
		AUTO(policy_done) struct policy p = { 0 };
		struct err e = { 0 };

		CHECK(policy_parse(&p, rows[i].text, strlen(rows[i].text),
				   &e) == 0);
		CHECK(policy_decide(&p, &q).verdict == rows[i].verdict);
	}
}

static void test_networks(void)
{
	static const char text[] = "allow * [192.0.2.0/28]:*\n"
				   "allow * named.test\n"
				   "deny * [192.0.2.0/24]:*\n"
				   "deny POST [2001:db8::/32]\n"
				   "deny * 198.51.100.7\n"
				   "allow * *\n";
	static const struct {
		const char *host, *has;
		enum verdict verdict;
	} rows[] = {
		{ "192.0.2.15", NULL, VERDICT_ALLOW },
		{ "192.0.2.16", NULL, VERDICT_DENY },
		{ "192.0.3.1", NULL, VERDICT_ALLOW },
		{ "2001:db8:1::9", NULL, VERDICT_LOOK },
		{ "2001:db9::9", NULL, VERDICT_ALLOW },
		{ "x.test", NULL, VERDICT_ALLOW },
		/* Names that have such an address are denied, not allowed. */
		{ "x.test", "::ffff:192.0.2.77", VERDICT_DENY },
		{ "x.test", "::ffff:192.0.2.1", VERDICT_DENY },
		{ "named.test", "::ffff:192.0.2.77", VERDICT_ALLOW },
		{ "x.test", "::ffff:198.51.100.7", VERDICT_DENY },
		{ "x.test", "::ffff:198.51.100.8", VERDICT_ALLOW },
		{ "x.test", "2001:db8::1", VERDICT_LOOK },
	};
	AUTO(policy_done) struct policy p = { 0 };
	AUTO(buf_done) struct buf out = { 0 };
	struct err e = { 0 };
	size_t i;

	CHECK(policy_parse(&p, text, sizeof(text) - 1, &e) == 0);
	for (i = 0; i < ARRAY_LEN(rows); i++) {
		const struct request q = { SCHEME_HTTPS, rows[i].host, 443,
					   NULL, NULL };
		struct trial t = { 0 };
		struct in6_addr a;

		CHECK(!rows[i].has ||
		      inet_pton(AF_INET6, rows[i].has, &a) == 1);
		(void)policy_try_at(&p, &q, rows[i].has ? &a : NULL, &t);
		CHECK(trial_end(&t).verdict == rows[i].verdict);
	}
	policy_print(&p, &out);
	CHECK_STR(buf_str(&out), text);
}

static void test_knows(void)
{
	static const struct {
		const char *text, *host;
		unsigned port;
		int knows;
	} rows[] = {
		{ "allow GET x.test/a", "x.test", 0, 1 },
		{ "allow GET x.test/a", "y.test", 0, 0 },
		{ "ask * *.x.test", "a.x.test", 0, 1 },
		{ "ask * *.x.test", "x.test", 0, 0 },
		{ "ask * *.x.test", "evilx.test", 0, 0 },
		{ "allow * .x.test", "x.test", 0, 1 },
		{ "allow * .x.test", "a.b.x.test", 0, 1 },
		{ "allow * .x.test", "evilx.test", 0, 0 },
		{ "allow * .x.test", "x.test.evil", 0, 0 },
		{ "deny *\nallow * x.test", "x.test", 0, -1 },
		{ "deny * x.test\nallow GET x.test", "x.test", 0, 0 },
		{ "deny * x.test\nallow * x.test:81", "x.test", 0, 1 },
		{ "deny * x.test\nallow tcp x.test:81", "x.test", 0, 1 },
		{ "deny * x.test:*\nallow * x.test:81", "x.test", 0, 0 },
		{ "deny GET x.test\nallow * x.test", "x.test", 0, 1 },
		{ "deny * http://x.test\nallow * x.test", "x.test", 0, 1 },
		{ "allow * x.test", "x.test", 443, 1 },
		{ "allow * x.test", "x.test", 444, 0 },
		{ "allow * http://x.test", "x.test", 443, 0 },
		{ "allow tcp x.test:5432", "x.test", 5432, 1 },
		{ "allow * *", "x.test", 22, 1 },
	};
	size_t i;

	for (i = 0; i < ARRAY_LEN(rows); i++) {
		AUTO(policy_done) struct policy p = { 0 };
		struct denied d = { 0 };
		struct err e = { 0 };

		CHECK(policy_parse(&p, rows[i].text, strlen(rows[i].text),
				   &e) == 0);
		CHECK(policy_knows_host(&p, rows[i].host,
					(uint16_t)rows[i].port,
					&d) == rows[i].knows);
	}
}

/* A tunnel: only the place is known. */
static void test_look(void)
{
	static const struct {
		const char *host;
		enum verdict verdict;
		unsigned line;
	} asks[] = {
		{ "api.test", VERDICT_LOOK, 2 },
		{ "a.files.test", VERDICT_ALLOW, 4 },
		/* Whatever it is, it is denied. */
		{ "else.test", VERDICT_DENY, 0 },
	};
	AUTO(policy_done) struct policy p = { 0 };
	struct err e = { 0 };
	size_t i;

	CHECK(policy_parse(&p, sample, sizeof(sample) - 1, &e) == 0);
	for (i = 0; i < ARRAY_LEN(asks); i++) {
		struct request q = { SCHEME_HTTPS, asks[i].host, 443, NULL,
				     NULL };
		struct decision d = policy_decide(&p, &q);

		CHECK(d.verdict == asks[i].verdict);
		CHECK((d.rule ? d.rule->line : 0) == asks[i].line);
	}
}

static void test_refused(void)
{
	static const struct {
		const char *text, *says;
	} bad[] = {
		{ "permit * x.test", "line 1: 'permit' is no rule" },
		{ "\n\nallow", "line 3: 'allow' what?" },
		{ "allow x.test", "METHODS TARGET" },
		{ "allow FETCH x.test", "'FETCH' is no method" },
		{ "allow GET,,PUT x.test", "is no method" },
		{ "allow GET x.test y", "'y' is one word too many" },
		{ "allow * ftp://x.test", "is no port" },
		{ "allow * x.test:0", "'0' is no port" },
		{ "allow * x.test:65536", "'65536' is no port" },
		{ "allow * x..test", "is no host" },
		{ "allow * *x.test", "is no host" },
		{ "allow * ..x.test", "is no host" },
		{ "allow * .10.0.0.1", "is no host" },
		{ "allow * x.*.test", "is no host" },
		{ "allow * 0x7f.1", "is no host" },
		{ "allow * 127.1", "is no host" },
		{ "allow * 2130706433", "is no host" },
		{ "allow * *.10.0.0.1", "is no host" },
		{ "allow * [::1", "is no host" },
		{ "allow * 10.0.0.0/8", "only in brackets" },
		{ "deny * [10.0.0.1/8]", "bits behind" },
		{ "deny * [10.0.0.0/33]", "is no prefix length" },
		{ "deny * [x.test/8]", "is no network" },
		{ "budget [10.0.0.0/8] up 1M", "is no host" },
		{ "allow * x.test/a?b", "without query" },
		{ "allow * x.test/%41", "written decoded" },
		{ "allow tcp x.test", "'tcp' takes HOST:PORT" },
		{ "allow tcp https://x.test:1", "'tcp' takes HOST:PORT" },
		{ "allow tcp x.test:1/p", "'tcp' takes HOST:PORT" },
		{ "budget requests", "write 'budget" },
		{ "budget speed 4", "'speed' is unknown" },
		{ "budget up many", "'many' is no value of up" },
		{ "budget requests 5/y", "is no value of requests" },
		{ "budget connections 0", "is no value" },
		{ "budget rate 5", "'5' is no value of rate: write 5/s" },
		{ "budget cost 1.2.3", "is no value of cost" },
		{ "budget cost 1.2345678", "is no value of cost" },
		{ "budget cost -1", "is no value of cost" },
		{ "budget tokens 2X", "is no value of tokens" },
		{ "budget * up 1M", "'*' is no host" },
		{ "budget x..test up 1M", "is no host" },
		{ "budget up 1M, x.test down 1M", "write 'budget" },
		{ "budget up 1M,", "write 'budget" },
		{ "private", "write 'private" },
		{ "private *", "'*' is no host" },
		{ "private 10.0.0.1/8", "bits behind its prefix" },
		{ "private 10.0.0.0/33", "'33' is no prefix length" },
		{ "private fd00::/129", "is no prefix length" },
		{ "private x.test/8", "is no network" },
		{ "private 10.0.0", "is no host" },
		{ "private a.test b.test", "write 'private" },
		{ "over", "write 'over" },
		{ "require tier", "write 'require tier microvm'" },
		{ "require tier gold", "cannot be required" },
		{ "over cry", "'cry' is not deny, ask or pause" },
		{ "model x.test", "write 'model" },
		{ "model x.test llama", "'llama' is not openai" },
		{ "model x.test openai\nmodel x.test openai", "twice" },
	};
	size_t i;

	for (i = 0; i < ARRAY_LEN(bad); i++) {
		struct policy p = { 0 };
		struct err e = { 0 };

		CHECK(policy_parse(&p, bad[i].text, strlen(bad[i].text), &e) <
		      0);
		CHECK(strstr(e.msg, bad[i].says) != NULL);
		CHECK(p.rules == NULL && p.n == 0);
	}
}

static void test_urls(void)
{
	static const char *const bad[] = {
		"example.test",
		"ftp://x.test/",
		"http://",
		"http://x.test:/",
		"http://x.test:99999/",
		"http://u:p@x.test/",
		"http://x.test/a/../b",
		"http://x.test/%2e%2E/b",
		"http://x.test/a%2fb",
		"http://x.test/a\\b",
		"http://x.test/%00",
		"http://x.test/%4",
		"http://x.test/%ff",
		"tcp://x.test",
		"http://0177.0.0.1/",
		"http://1.2.3/",
		"http://x.test\x01/",
		"http://[::1]x/",
	};
	struct err e = { 0 };
	struct url u;
	size_t i;

	for (i = 0; i < ARRAY_LEN(bad); i++) {
		CHECK(url_read(&u, bad[i], &e) < 0);
		err_clear(&e);
	}
	CHECK(url_read(&u, "HTTPS://X.Test?a/../b#c", &e) == 0);
	CHECK_STR(u.host, "x.test");
	CHECK_STR(u.path, "/");
	CHECK(u.port == 443);
	CHECK(url_read(&u, "http://[::1]:81/%41%20%C3%A9", &e) == 0);
	CHECK_STR(u.host, "::1");
	CHECK_STR(u.path, "/A \xc3\xa9");
}

/* Both forms say the same, and are read again as what they were. */
static void test_round_trip(void)
{
	AUTO(policy_done) struct policy p = { 0 }, q = { 0 }, r = { 0 };
	AUTO(buf_done) struct buf one = { 0 }, two = { 0 }, three = { 0 };
	struct err e = { 0 };
	json_t *j;

	CHECK(policy_parse(&p, sample, sizeof(sample) - 1, &e) == 0);
	policy_print(&p, &one);
	CHECK(policy_parse(&q, buf_data(&one), buf_len(&one), &e) == 0);
	policy_print(&q, &two);
	CHECK_STR(buf_str(&one), buf_str(&two));
	j = policy_to_json(&p);
	CHECK(policy_from_json(&r, j, &e) == 0);
	json_decref(j);
	policy_print(&r, &three);
	CHECK_STR(buf_str(&one), buf_str(&three));
}

static void test_json_refused(void)
{
	static const char *const bad[] = {
		"[]",
		"{}",
		"{\"rules\": 1}",
		"{\"rules\": [1]}",
		"{\"rules\": [], \"more\": 1}",
		"{\"rules\": [{\"effect\": \"allow\"}]}",
		"{\"rules\": [{\"effect\": \"allow\", \"target\": \"*\", "
		"\"x\": 1}]}",
		"{\"rules\": [{\"effect\": \"allow\", \"target\": \"*\", "
		"\"methods\": []}]}",
		"{\"rules\": [{\"effect\": \"allow\", \"target\": \"*\", "
		"\"methods\": [1]}]}",
		"{\"rules\": [], \"budget\": {\"up\": 5}}",
		"{\"rules\": [], \"budget\": []}",
		"{\"rules\": [], \"budgets\": []}",
		"{\"rules\": [], \"budgets\": {\"x.test\": 1}}",
		"{\"rules\": [], \"budgets\": {\"*\": {}}}",
		"{\"rules\": [], \"private\": [1]}",
		"{\"rules\": [], \"private\": {}}",
		"{\"rules\": [], \"over\": 1}",
		"{\"rules\": [], \"over\": \"\"}",
		"{\"rules\": [], \"models\": {\"x.test\": \"y\"}}",
	};
	size_t i;

	for (i = 0; i < ARRAY_LEN(bad); i++) {
		struct policy p = { 0 };
		struct err e = { 0 };
		json_t *j = json_loads(bad[i], 0, NULL);

		CHECK(j != NULL);
		CHECK(policy_from_json(&p, j, &e) < 0);
		CHECK(p.rules == NULL);
		json_decref(j);
	}
}

static void test_bounds(void)
{
	AUTO(buf_done) struct buf text = { 0 };
	struct policy p = { 0 };
	struct err e = { 0 };
	unsigned i;

	for (i = 0; i <= POLICY_RULES_MAX; i++)
		buf_puts(&text, "deny *\n");
	CHECK(policy_parse(&p, buf_data(&text), buf_len(&text), &e) < 0);
	CHECK(strstr(e.msg, "more than 512 rules") != NULL);
	err_clear(&e);
	buf_clear(&text);
	memset(buf_room(&text, POLICY_TEXT_MAX + 1), ' ', POLICY_TEXT_MAX + 1);
	buf_fill(&text, POLICY_TEXT_MAX + 1);
	CHECK(policy_parse(&p, buf_data(&text), buf_len(&text), &e) < 0);
}

int main(void)
{
	test_decide();
	test_spellings_of_paths();
	test_usual_ports();
	test_path_rule_allows_no_raw_connection();
	test_open();
	test_hosts();
	test_more();
	test_look();
	test_several();
	test_networks();
	test_knows();
	test_refused();
	test_urls();
	test_round_trip();
	test_json_refused();
	test_bounds();
	return CHECK_DONE();
}
