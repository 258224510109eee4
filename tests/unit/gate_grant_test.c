/* What people have granted: it counts where a policy asks, nowhere else. */
#include <arpa/inet.h>
#include <string.h>

#include "check.h"
#include "gate/decide.h"

static struct box_part parts[2];
static struct box box = { .parts = parts, .n_parts = 2 };

static void part(unsigned i, const char *name, const char *text)
{
	struct err e = { 0 };

	policy_done(&parts[i].policy);
	snprintf(parts[i].name, sizeof(parts[i].name), "%s", name);
	CHECK(policy_parse(&parts[i].policy, text, strlen(text), &e) == 0);
}

static enum verdict ask(const char *method, const char *host, const char *path)
{
	const struct request q = { .scheme = SCHEME_HTTPS,
				   .host = host,
				   .port = 443,
				   .method = method,
				   .path = path };

	return box_decide(&box, &q).verdict;
}

int main(void)
{
	struct in6_addr a;

	part(0, GATE_PART_GRANTS,
	     "allow * https://api.test\n"
	     "allow * https://other.test\n"
	     "allow * https://10.0.0.1\n");
	part(1, "policy p",
	     "deny DELETE https://api.test\n"
	     "deny * https://api.test/secret*\n"
	     "ask * https://api.test\n"
	     "ask * https://third.test\n"
	     "ask * https://10.0.0.1\n");
	CHECK(ask("GET", "api.test", "/x") == VERDICT_ALLOW);
	CHECK(ask("POST", "api.test", "/x") == VERDICT_ALLOW);
	/* A rule that denies stays one. */
	CHECK(ask("DELETE", "api.test", "/x") == VERDICT_DENY);
	CHECK(ask("GET", "api.test", "/secret/1") == VERDICT_DENY);
	CHECK(ask(NULL, "api.test", NULL) == VERDICT_LOOK);
	/* Nobody was asked about it. */
	CHECK(ask("GET", "other.test", "/") == VERDICT_DENY);
	CHECK(!box_knows_host(&box, "other.test", 443));
	CHECK(box_knows_host(&box, "api.test", 443));
	/* Somebody is to be. */
	CHECK(ask("GET", "third.test", "/") == VERDICT_ASK);
	/* It names no address that is nobody's business. */
	part(1, "policy p", "ask *\n");
	CHECK(inet_pton(AF_INET6, "::ffff:10.0.0.1", &a) == 1);
	CHECK(ask("GET", "10.0.0.1", "/") == VERDICT_ALLOW);
	CHECK(!box_names_address(&box, NULL, true, "10.0.0.1", &a, 443));
	policy_done(&parts[0].policy);
	policy_done(&parts[1].policy);
	return CHECK_DONE();
}
