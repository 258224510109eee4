/* The resolver inside: packets, addresses, and what policies say to names. */
#include "gate/names.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "check.h"
#include "gate/decide.h"
#include "gate/dns.h"
#include "gate/record.h"
#include "gate/state.h"

static unsigned n_denied;
static char denied_host[POLICY_HOST_CAP], denied_why[256];

/* Instead of the log. */
void record_denied(struct gate *g, const struct egress *x, const char *why)
{
	(void)g;
	n_denied++;
	snprintf(denied_host, sizeof(denied_host), "%s", x->request->host);
	snprintf(denied_why, sizeof(denied_why), "%s", why);
}

/* --- packets --- */

#define HEAD "\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00"
#define NAME "\3Api\4test\0"
#define OPT "\0\0\x29\x04\xd0\0\0\0\0\0\0"

static const struct {
	const char *p;
	size_t n;
	int code;
} packets[] = {
#define ROW(code, text) { text, sizeof(text) - 1, code }
	ROW(DNS_OK, HEAD "\0" NAME "\0\1\0\1"),
	ROW(DNS_OK, HEAD "\1" NAME "\0\1\0\1" OPT),
	ROW(DNS_OK, HEAD "\0\0\0\1\0\1"),
	/* Too short, an answer. */
	ROW(-EBADMSG, "\x12\x34\x01\x00"),
	ROW(-EBADMSG, "\x12\x34\x81\x00\x00\x01\0\0\0\0\0\0" NAME "\0\1\0\1"),
	/* A notify; two questions; an answer or an authority in it. */
	ROW(DNS_NOTIMP, "\x12\x34\x20\x00\x00\x01\0\0\0\0\0\0" NAME "\0\1\0\1"),
	ROW(DNS_FORMERR, "\x12\x34\x01\x00\0\2\0\0\0\0\0\0" NAME "\0\1\0\1"),
	ROW(DNS_FORMERR, "\x12\x34\x01\x00\0\1\0\1\0\0\0\0" NAME "\0\1\0\1"),
	ROW(DNS_FORMERR, "\x12\x34\x01\x00\0\1\0\0\0\1\0\0" NAME "\0\1\0\1"),
	/* A pointer, a label of 64, a name that does not end. */
	ROW(DNS_FORMERR, HEAD "\0\xc0\x0c\0\1\0\1"),
	ROW(DNS_FORMERR, HEAD "\0\3api\xc0\x0c\0\1\0\1"),
	ROW(DNS_FORMERR, HEAD "\0\x40" NAME "\0\1\0\1"),
	ROW(DNS_FORMERR, HEAD "\0\3api\4tes"),
	ROW(DNS_FORMERR, HEAD "\0" NAME "\0\1\0"),
	/* Something behind it, an OPT that is none or too long. */
	ROW(DNS_FORMERR, HEAD "\0" NAME "\0\1\0\1x"),
	ROW(DNS_FORMERR, HEAD "\1" NAME "\0\1\0\1"),
	ROW(DNS_FORMERR, HEAD "\1" NAME "\0\1\0\1\0\0\x28\0\0\0\0\0\0\0\0"),
	ROW(DNS_FORMERR, HEAD "\1" NAME "\0\1\0\1\0\0\x29\0\0\0\0\0\0\0\1"),
	/* Chaos. */
	ROW(DNS_REFUSED, HEAD "\0" NAME "\0\1\0\3"),
#undef ROW
};

static void test_packets(void)
{
	struct dns_query q;
	size_t i;

	for (i = 0; i < ARRAY_LEN(packets); i++)
		CHECK(dns_read(&q, packets[i].p, packets[i].n) ==
		      packets[i].code);
	CHECK(dns_read(&q, packets[1].p, packets[1].n) == 0);
	CHECK_STR(q.host, "api.test");
	CHECK(q.id == 0x1234 && q.type == DNS_A && q.edns && q.recursion);
	CHECK(dns_read(&q, packets[0].p, packets[0].n) == 0 && !q.edns);
	CHECK(dns_read(&q, packets[2].p, packets[2].n) == 0);
	CHECK_STR(q.host, "");
}

/* A question for one label, whatever bytes it has. */
static size_t ask(unsigned char *out, const char *name, uint16_t type,
		  bool edns)
{
	size_t n = DNS_HEADER;

	memset(out, 0, DNS_HEADER);
	memcpy(out, "\x12\x34\x01", 3);
	out[5] = 1;
	out[11] = edns;
	while (*name) {
		size_t label = strcspn(name, ".");

		out[n++] = (unsigned char)label;
		memcpy(out + n, name, label);
		n += label;
		name += label + (name[label] == '.');
	}
	memcpy(out + n, "\0\0\0\0\1" OPT, 5 + sizeof(OPT) - 1);
	out[n + 1] = (unsigned char)(type >> 8);
	out[n + 2] = (unsigned char)type;
	return n + 5 + (edns ? sizeof(OPT) - 1 : 0);
}

static void test_odd_names(void)
{
	static const char *const odd[] = {
		"caf\xc3\xa9.test",
		"a b.test",
		"-a.test",
		"a-.test",
		"1.2.3",
		"1.2.3.4",
		"0x7f.1",
		"a\\b.test",
		"x\x01.test",
		"\xef\xbc\x8e.test",
	};
	unsigned char in[DNS_QUERY_MAX];
	struct dns_query q;
	size_t i, n;

	for (i = 0; i < ARRAY_LEN(odd); i++) {
		n = ask(in, odd[i], DNS_A, false);
		CHECK(dns_read(&q, in, n) == DNS_OK);
		CHECK_STR(q.host, "");
	}
	/* A dot, or a NUL, within a label. */
	n = ask(in, "aXb.test", DNS_A, false);
	in[DNS_HEADER + 2] = '.';
	CHECK(dns_read(&q, in, n) == DNS_OK && q.host[0] == '\0');
	in[DNS_HEADER + 2] = '\0';
	CHECK(dns_read(&q, in, n) == DNS_OK && q.host[0] == '\0');
	/* The longest name there is, and one byte more. */
	n = DNS_HEADER;
	for (i = 0; i < 4; i++) {
		in[n] = i < 3 ? 63 : 61;
		memset(in + n + 1, 'a', in[n]);
		n += 1U + in[n];
	}
	memcpy(in + n, "\0\0\1\0\1", 5);
	CHECK(dns_read(&q, in, n + 5) == DNS_OK && strlen(q.host) == 253);
	in[DNS_HEADER + 192] = 62;
	in[n] = 'a';
	memcpy(in + n + 1, "\0\0\1\0\1", 5);
	CHECK(dns_read(&q, in, n + 6) == DNS_FORMERR);
}

/* --- a sandbox --- */

struct rig {
	struct gate gate;
	struct box box;
	struct box_part part;
	int fd; /* of the one who asks */
};

static void rig_policy(struct rig *r, const char *text)
{
	struct err e = { 0 };

	policy_done(&r->part.policy);
	CHECK(policy_parse(&r->part.policy, text, strlen(text), &e) == 0);
}

static void rig_up(struct rig *r, const char *text)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	socklen_t n = sizeof(a);

	*r = (struct rig){ 0 };
	r->box.gate = &r->gate;
	memcpy(r->box.id, "iabcdefghijklmnopqrstuvwxyz", ID_LEN);
	memcpy(r->part.name, "policy research", 16);
	r->box.parts = &r->part;
	r->box.n_parts = 1;
	r->box.state = calloc(1, sizeof(*r->box.state));
	rig_policy(r, text);
	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	r->box.dns.fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	r->fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	CHECK(bind(r->box.dns.fd, (struct sockaddr *)&a, sizeof(a)) == 0);
	CHECK(getsockname(r->box.dns.fd, (struct sockaddr *)&a, &n) == 0);
	CHECK(connect(r->fd, (struct sockaddr *)&a, sizeof(a)) == 0);
}

static void rig_down(struct rig *r)
{
	policy_done(&r->part.policy);
	free(r->box.state);
	close(r->box.dns.fd);
	close(r->fd);
}

/* The code of the answer; the address it has, or 0. */
static int resolve(struct rig *r, const char *name, uint16_t type, bool edns,
		   uint32_t *address, char *why)
{
	unsigned char p[DNS_QUERY_MAX];
	size_t n = ask(p, name, type, edns);
	size_t question = n - DNS_HEADER - (edns ? sizeof(OPT) - 1 : 0);
	ssize_t got;

	*address = 0;
	if (send(r->fd, p, n, 0) != (ssize_t)n)
		return -1;
	names_read(&r->box, &r->box.dns);
	got = recv(r->fd, p, sizeof(p), MSG_DONTWAIT);
	if (got < DNS_HEADER)
		return -1;
	if (p[7]) {
		memcpy(address, p + DNS_HEADER + question + 12, 4);
		*address = ntohl(*address);
	}
	if (why) {
		p[got] = '\0';
		snprintf(why, 256, "%s", (char *)p + got - strlen(denied_why));
	}
	return p[3] & 15;
}

static struct in6_addr mapped(uint32_t v4)
{
	struct in6_addr a = { .s6_addr = { [10] = 0xff, [11] = 0xff } };

	v4 = htonl(v4);
	memcpy(&a.s6_addr[12], &v4, sizeof(v4));
	return a;
}

static void test_answers(void)
{
	struct in6_addr a;
	struct rig r;
	uint32_t v4, again;
	char why[256];

	rig_up(&r, "allow GET api.test/x\nallow tcp db.internal:5432\n"
		   "deny * *.evil.test:*\nallow * *\n");
	CHECK(resolve(&r, "api.test", DNS_A, false, &v4, NULL) == DNS_OK);
	CHECK(v4 >> 17 == 0xc6120000U >> 17);
	a = mapped(v4);
	CHECK(names_is_synthetic(&a));
	CHECK_STR(names_host(&r.box, &a), "api.test");
	CHECK(resolve(&r, "API.Test", DNS_A, true, &again, NULL) == DNS_OK);
	CHECK(again == v4);
	CHECK(resolve(&r, "db.internal", DNS_A, false, &again, NULL) == DNS_OK);
	CHECK(again != v4 && again != 0);
	/* Other types of what is known: nothing, and no error. */
	CHECK(resolve(&r, "api.test", 28, false, &v4, NULL) == DNS_OK);
	CHECK(v4 == 0);
	CHECK(resolve(&r, "api.test", 65, true, &v4, NULL) == DNS_OK);
	CHECK(v4 == 0);
	CHECK(resolve(&r, "localhost", DNS_A, true, &v4, NULL) == DNS_OK);
	CHECK(v4 == INADDR_LOOPBACK);
	CHECK(n_denied == 0);
	rig_policy(&r, "allow * api.test");
	CHECK(resolve(&r, "else.test", DNS_A, true, &v4, why) == DNS_NXDOMAIN);
	CHECK(v4 == 0 && n_denied == 1);
	CHECK_STR(denied_host, "else.test");
	CHECK_STR(denied_why, "no rule of policy research allows it");
	CHECK_STR(why, denied_why);
	CHECK(resolve(&r, "1.2.3.4", DNS_A, true, &v4, NULL) == DNS_NXDOMAIN);
	r.box.flags = GATE_OBSERVE;
	CHECK(resolve(&r, "else.test", DNS_A, true, &v4, NULL) == DNS_OK);
	CHECK(v4 != 0 && n_denied == 1);
	rig_down(&r);
}

/* More names than there are places: old ones go, each address has one name. */
static void test_many_names(void)
{
	struct in6_addr a;
	struct rig r;
	uint32_t v4, first;
	char name[32];
	bool same = true;
	unsigned i;

	rig_up(&r, "allow * *");
	CHECK(resolve(&r, "first.test", DNS_A, false, &first, NULL) == 0);
	for (i = 0; i < 5000; i++) {
		snprintf(name, sizeof(name), "n%u.test", i);
		if (resolve(&r, name, DNS_A, false, &v4, NULL) != 0)
			break;
		a = mapped(v4);
		same = same && names_host(&r.box, &a) &&
		       strcmp(names_host(&r.box, &a), name) == 0;
	}
	CHECK(i == 5000 && same);
	a = mapped(first);
	CHECK(names_host(&r.box, &a) &&
	      strcmp(names_host(&r.box, &a), "first.test") != 0);
	/* Of nobody, of another sandbox, of another network. */
	a = mapped(0xc0000201);
	CHECK(!names_is_synthetic(&a) && names_host(&r.box, &a) == NULL);
	a = mapped(v4);
	r.box.id[5] = 'x';
	CHECK(names_host(&r.box, &a) == NULL);
	a = (struct in6_addr){ .s6_addr = { 0xfd } };
	CHECK(!names_is_synthetic(&a) && names_host(&r.box, &a) == NULL);
	rig_down(&r);
}

/* A full set: the name that was not used for longest goes. */
static void test_oldest_name_goes(void)
{
	enum { WAYS = 16 };
	struct state_name *set;
	struct rig r;
	uint32_t v4;
	unsigned i;

	rig_up(&r, "allow * *");
	CHECK(resolve(&r, "new.test", DNS_A, false, &v4, NULL) == 0);
	for (i = 0; i < STATE_NAMES; i++)
		if (strcmp(r.box.state->names[i].host, "new.test") == 0)
			break;
	set = &r.box.state->names[i / WAYS * WAYS];
	for (i = 0; i < WAYS; i++) {
		snprintf(set[i].host, sizeof(set[i].host), "old%u.test", i);
		set[i].used_ms = i == 11 ? 5 : 10 + i;
	}
	CHECK(resolve(&r, "new.test", DNS_A, false, &v4, NULL) == 0);
	CHECK_STR(set[11].host, "new.test");
	CHECK_STR(set[0].host, "old0.test");
	rig_down(&r);
}

/* --- decisions --- */

static void test_parts(void)
{
	static const char *const texts[] = { "allow * a.test/x",
					     "deny * b.test\nask POST a.test",
					     "allow * a.test\nallow * b.test" };
	const struct request tunnel = { SCHEME_HTTPS, "a.test", 443, NULL,
					NULL };
	const struct request b_test = { SCHEME_HTTPS, "b.test", 443, "GET",
					"/" };
	const struct request none = { SCHEME_HTTPS, "c.test", 443, NULL, NULL };
	struct request q = { SCHEME_HTTPS, "a.test", 443, "POST", "/x" };
	AUTO(buf_done) struct buf text = { 0 };
	struct box_part parts[3] = { 0 };
	struct box b = { .parts = parts, .n_parts = 3 };
	struct err e = { 0 };
	struct ruling r;
	unsigned i;

	for (i = 0; i < 3; i++) {
		snprintf(parts[i].name, sizeof(parts[i].name), "part %u", i);
		CHECK(policy_parse(&parts[i].policy, texts[i], strlen(texts[i]),
				   &e) == 0);
	}
	r = box_decide(&b, &tunnel);
	CHECK(r.verdict == VERDICT_LOOK);
	CHECK_STR(r.part, "part 0");
	r = box_decide(&b, &q);
	CHECK(r.verdict == VERDICT_ALLOW);
	q.path = "/y";
	r = box_decide(&b, &q);
	CHECK(r.verdict == VERDICT_ASK);
	ruling_text(&b, &r, &text);
	CHECK_STR(buf_str(&text), "part 1, line 2");
	q.method = "GET";
	CHECK(box_decide(&b, &q).verdict == VERDICT_ALLOW);
	CHECK(box_decide(&b, &b_test).verdict == VERDICT_DENY);
	CHECK(!box_knows_host(&b, "b.test", 0));
	CHECK(box_knows_host(&b, "a.test", 0));
	r = box_decide(&b, &none);
	CHECK(r.verdict == VERDICT_DENY && !r.rule && !r.observed);
	buf_clear(&text);
	ruling_text(&b, &r, &text);
	CHECK_STR(buf_str(&text), "no rule of part 0, part 1, part 2");
	b.flags = GATE_OBSERVE;
	r = box_decide(&b, &none);
	CHECK(r.verdict == VERDICT_LOOK && r.observed);
	r = box_decide(&b, &b_test);
	CHECK(r.verdict == VERDICT_ALLOW && r.observed && r.rule);
	for (i = 0; i < 3; i++)
		policy_done(&parts[i].policy);
}

static void test_addresses(void)
{
	static const struct {
		const char *host, *address;
		uint16_t port;
		bool named;
	} rows[] = {
		{ "a.test", "::ffff:10.1.2.3", 443, true },
		{ "a.test", "::ffff:11.1.2.3", 443, false },
		{ "a.test", "fd12::1", 443, true },
		{ "a.test", "fe80::1", 443, false },
		{ "db.internal", "::ffff:192.168.0.1", 443, true },
		{ "x.corp.test", "::ffff:127.0.0.1", 443, true },
		{ "corp.test", "::ffff:127.0.0.1", 443, false },
		/* A rule names it for who asks for it, at its port. */
		{ "192.168.9.9", "::ffff:192.168.9.9", 8080, true },
		{ "192.168.9.9", "::ffff:192.168.9.9", 8081, false },
		{ "a.test", "::ffff:192.168.9.9", 8080, false },
		{ "192.168.9.8", "::ffff:192.168.9.8", 8080, false },
		/* Metadata: neither by a network nor by a name. */
		{ "169.254.169.254", "::ffff:169.254.169.254", 80, false },
		{ "db.internal", "::ffff:169.254.169.254", 80, false },
		{ "fd00:ec2::254", "fd00:ec2::254", 80, false },
		{ "100.100.100.200", "::ffff:100.100.100.200", 80, true },
		{ "a.test", "::ffff:169.254.170.2", 80, true },
	};
	static const char policy[] = "allow * *\n"
				     "allow * 192.168.9.9:8080\n"
				     "deny * 192.168.9.8:8080\n"
				     "allow * 100.100.100.200\n"
				     "private 10.0.0.0/8, fd00::/8\n"
				     "private 169.254.169.0/24, 169.254.170.2\n"
				     "private db.internal, *.corp.test\n";
	struct box_part part = { 0 };
	struct box b = { .parts = &part, .n_parts = 1 };
	struct in6_addr a;
	struct err e = { 0 };
	size_t i;

	CHECK(policy_parse(&part.policy, policy, sizeof(policy) - 1, &e) == 0);
	for (i = 0; i < ARRAY_LEN(rows); i++) {
		CHECK(inet_pton(AF_INET6, rows[i].address, &a) == 1);
		CHECK(box_names_address(&b, NULL, false, rows[i].host, &a,
					rows[i].port) == rows[i].named);
	}
	policy_done(&part.policy);
}

/* Rules of a project next to a policy of the operator's. */
static void test_names_of_others(void)
{
	static const char own[] = "allow *\n";
	static const char policy[] = "private 10.0.0.0/8\n"
				     "allow GET http://db.internal/read*\n"
				     "allow GET http://10.8.8.8/status\n"
				     "ask POST http://db.internal\n";
	static const struct {
		struct request q;
		bool asked, named;
	} rows[] = {
		{ { SCHEME_HTTP, "db.internal", 80, "GET", "/read/1" }, 0, 1 },
		{ { SCHEME_HTTP, "db.internal", 80, "GET", "/x" }, 0, 0 },
		{ { SCHEME_HTTP, "db.internal", 80, "POST", "/x" }, 0, 0 },
		{ { SCHEME_HTTP, "db.internal", 80, "POST", "/x" }, 1, 1 },
		{ { SCHEME_HTTP, "evil.test", 80, "GET", "/read/1" }, 0, 0 },
		{ { SCHEME_TCP, "db.internal", 22, NULL, NULL }, 0, 0 },
		{ { SCHEME_HTTP, "10.8.8.8", 80, "GET", "/status" }, 0, 1 },
		{ { SCHEME_HTTP, "10.8.8.8", 80, "POST", "/admin" }, 0, 0 },
	};
	struct box_part parts[2] = { 0 };
	struct box b = { .parts = parts, .n_parts = 2 };
	struct in6_addr a;
	struct err e = { 0 };
	size_t i;

	CHECK(policy_parse(&parts[0].policy, own, sizeof(own) - 1, &e) == 0);
	CHECK(policy_parse(&parts[1].policy, policy, sizeof(policy) - 1, &e) ==
	      0);
	CHECK(inet_pton(AF_INET6, "::ffff:10.8.8.8", &a) == 1);
	for (i = 0; i < ARRAY_LEN(rows); i++) {
		const struct request *q = &rows[i].q;

		CHECK(box_decide(&b, q).verdict == VERDICT_ALLOW);
		CHECK(box_names_address(&b, q, rows[i].asked, q->host, &a,
					q->port) == rows[i].named);
	}
	policy_done(&parts[0].policy);
	policy_done(&parts[1].policy);
}

/* A name that is allowed has an address that another rule denies. */
static void test_denied_addresses(void)
{
	static const char policy[] = "allow * first.test\n"
				     "deny POST [192.0.2.0/24]:*\n"
				     "deny * 198.51.100.7\n"
				     "allow * *\n";
	static const struct {
		const char *host, *address, *method;
		bool denied;
	} rows[] = {
		{ "x.test", "::ffff:203.0.113.1", "GET", false },
		{ "x.test", "::ffff:198.51.100.7", "GET", true },
		{ "first.test", "::ffff:198.51.100.7", "GET", false },
		{ "x.test", "::ffff:192.0.2.7", "POST", true },
		{ "x.test", "::ffff:192.0.2.7", "GET", false },
		/* The method is unknown: denied, because the connection is open
		   then. */
		{ "x.test", "::ffff:192.0.2.7", NULL, true },
	};
	struct box_part part = { .name = "p" };
	struct box b = { .parts = &part, .n_parts = 1 };
	AUTO(buf_done) struct buf why = { 0 };
	struct in6_addr a;
	struct err e = { 0 };
	size_t i;

	CHECK(policy_parse(&part.policy, policy, sizeof(policy) - 1, &e) == 0);
	for (i = 0; i < ARRAY_LEN(rows); i++) {
		const struct request q = { SCHEME_HTTPS, rows[i].host, 443,
					   rows[i].method,
					   rows[i].method ? "/" : NULL };

		CHECK(inet_pton(AF_INET6, rows[i].address, &a) == 1);
		CHECK(box_denies_address(&b, &q, &a, &why) == rows[i].denied);
	}
	CHECK(strstr(buf_str(&why), "line 3") != NULL);
	CHECK(!box_denies_address(&b, NULL, &a, NULL));
	policy_done(&part.policy);
}

int main(void)
{
	test_denied_addresses();
	test_names_of_others();
	test_packets();
	test_odd_names();
	test_answers();
	test_many_names();
	test_oldest_name_goes();
	test_parts();
	test_addresses();
	return CHECK_DONE();
}
