/* The identity of a request, and the rights of its key. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "api/auth.h"
#include "api/inner.h"
#include "api/keys.h"
#include "api/routes.h"
#include "check.h"

static struct api api;
static struct http_head head;
static struct key key = { .id = "k1", .project = "p" };
static const struct identity *inner;
static bool is_local;
static const char *address = "192.0.2.1";
static unsigned uses;

int http_peer(struct http_conn *c, struct ucred *peer)
{
	(void)c;
	peer->uid = 1000;
	return is_local ? 0 : -ENOTSOCK;
}

void http_peer_text(const struct http_conn *c, char out[HTTP_PEER_TEXT])
{
	(void)c;
	snprintf(out, HTTP_PEER_TEXT, "%s", address);
}

const struct http_head *http_request(const struct http_conn *c)
{
	(void)c;
	return &head;
}

void http_trust(struct http_conn *c, bool known)
{
	(void)c;
	(void)known;
}

const struct identity *inner_who(const struct http_conn *c)
{
	(void)c;
	return inner;
}

struct key *key_by_secret(struct api *a, const char *secret)
{
	(void)a;
	return strcmp(secret, "good") == 0 ? &key : NULL;
}

void key_used(struct api *a, struct key *k)
{
	(void)a;
	(void)k;
	uses++;
}

const char *scope_word(enum scope s)
{
	return s == SCOPE_READ ? "read" : "more";
}

static struct identity who;

static int check(const char *name, const char *value, enum scope scope,
		 unsigned flags)
{
	const struct route r = { .scope = scope, .flags = flags };
	struct err e = { 0 };

	head.n_fields = name != NULL;
	head.field[0] = (struct http_field){ name, value };
	return auth_check(&api, NULL, &r, &who, &e);
}

static int by_bearer(const char *secret, enum scope scope)
{
	char value[64];

	snprintf(value, sizeof(value), "Bearer %s", secret);
	return check("Authorization", value, scope, 0);
}

static void test_keys(void)
{
	key.scope = SCOPE_USE;
	CHECK(by_bearer("good", SCOPE_USE) == 0 && uses == 1);
	CHECK_STR(who.project, "p");
	CHECK_STR(who.name, "key:k1");
	CHECK(who.scope == SCOPE_USE);
	CHECK(check("X-API-Key", "good", SCOPE_USE, 0) == 0);
	CHECK(check("Authorization", "bearer good", SCOPE_USE, 0) == 0);
	CHECK(check("Authorization", "Secret good", SCOPE_USE, 0) == -EACCES);
	CHECK(by_bearer("bad", SCOPE_READ) == -EACCES);
	CHECK(by_bearer("", SCOPE_READ) == -EACCES);
	CHECK_STR(who.project, "-");
	CHECK(check(NULL, NULL, SCOPE_READ, 0) == -EACCES);
	CHECK_STR(who.project, "-");
}

static void test_scopes(void)
{
	enum scope has, wants;

	for (has = SCOPE_READ; has <= SCOPE_ADMIN; has++)
		for (wants = SCOPE_READ; wants <= SCOPE_ADMIN; wants++) {
			key.scope = has;
			CHECK(by_bearer("good", wants) ==
			      (has >= wants ? 0 : -EPERM));
		}
	/* A key of one project, and a route about all of them. */
	key.scope = SCOPE_ADMIN;
	CHECK(check("X-API-Key", "good", SCOPE_READ, ROUTE_OPERATOR) == -EPERM);
	key.project[0] = '\0';
	CHECK(check("X-API-Key", "good", SCOPE_READ, ROUTE_OPERATOR) == 0);
	key.project[0] = 'p';
}

static void test_local(void)
{
	is_local = true;
	CHECK(check(NULL, NULL, SCOPE_ADMIN, ROUTE_OPERATOR) == 0);
	CHECK_STR(who.name, "uid:1000");
	CHECK_STR(who.project, "");
	/* A key in the request counts, also over the unix socket. */
	key.scope = SCOPE_READ;
	CHECK(by_bearer("good", SCOPE_USE) == -EPERM);
	CHECK(by_bearer("bad", SCOPE_READ) == -EACCES);
	is_local = false;
}

/* Routes without a key see no project. */
static void test_open(void)
{
	CHECK(check(NULL, NULL, SCOPE_ADMIN, ROUTE_OPEN) == 0);
	CHECK_STR(who.project, "-");
	CHECK(check(NULL, NULL, SCOPE_ADMIN, ROUTE_TOKEN) == 0);
}

/* Internal requests have the rights of the client that caused them. */
static void test_inner(void)
{
	const struct identity agent = { .project = "q", .scope = SCOPE_USE };

	inner = &agent;
	CHECK(check(NULL, NULL, SCOPE_USE, 0) == 0);
	CHECK_STR(who.project, "q");
	CHECK(check(NULL, NULL, SCOPE_APPROVE, 0) == -EPERM);
	CHECK(check(NULL, NULL, SCOPE_READ, ROUTE_OPERATOR) == -EPERM);
	inner = NULL;
}

/* Tries come back every two seconds: far fewer than 100 in this loop. */
static unsigned tries(const char *from)
{
	unsigned n = 0;

	address = from;
	while (n < 100 && by_bearer("bad", SCOPE_READ) == -EACCES)
		n++;
	return n;
}

static void test_wrong_keys(void)
{
	unsigned n;

	memset(&api.auth, 0, sizeof(api.auth));
	n = tries("192.0.2.1");
	CHECK(n >= 10 && n < 100);
	CHECK(by_bearer("bad", SCOPE_READ) == -EUSERS);
	/* Another address has its own tries; a good key always opens. */
	CHECK(tries("192.0.2.77") >= 10);
	address = "192.0.2.1";
	key.scope = SCOPE_USE;
	CHECK(by_bearer("good", SCOPE_USE) == 0);
	/* Of IPv6 all that a site has to itself is one peer. */
	CHECK(tries("2001:db8:1:1::1") >= 10);
	address = "2001:db8:1:1::2";
	CHECK(by_bearer("bad", SCOPE_READ) == -EUSERS);
}

int main(void)
{
	test_keys();
	test_scopes();
	test_local();
	test_open();
	test_inner();
	test_wrong_keys();
	return CHECK_DONE();
}
