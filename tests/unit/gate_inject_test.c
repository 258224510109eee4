/* Credentials of a sandbox: choice among several secrets, masking of answers,
 * canaries in all parts of a request, one-time codes. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "check.h"
#include "gate/inject.h"
#include "gate/oauth.h"
#include "gate/opened.h"
#include "gate/record.h"

#define ONE "one-value-00001"
#define TWO "two-value-00002"
#define HOLD1 "carrel-placeholder-1111"
#define HOLD2 "carrel-placeholder-2222"
#define CANARY "canary-0123456789abcdef"
#define SEED "JBSWY3DPEHPK3PXP"

/* The door's ends. */
static unsigned canaries, echoes;
static char event[256];

int record_event(struct gate *g, const struct box *b, const char *type,
		 const char *json, struct err *e)
{
	(void)g;
	(void)b;
	(void)e;
	canaries += strcmp(type, "canary.found") == 0;
	echoes += strcmp(type, "secret.echo") == 0;
	snprintf(event, sizeof(event), "%s", json);
	return 0;
}

void record_string(struct buf *out, const char *s)
{
	buf_printf(out, "\"%s\"", s);
}

struct oauth *oauth_new(struct opened *o)
{
	(void)o;
	return NULL;
}

void oauth_free(struct oauth *a)
{
	(void)a;
}

const char *oauth_token(const struct oauth *a)
{
	(void)a;
	return NULL;
}

void oauth_fetch(struct oauth *a, struct oauth_wait *w)
{
	(void)a;
	(void)w;
}

void oauth_cancel(struct oauth_wait *w)
{
	(void)w;
}

/* --- a project with six secrets --- */

static struct project project;
static struct box box = { .id = "ix", .project = &project };
static struct secret secrets[6];

static void close_value(void *open)
{
	struct opened *o = open;

	words_unref(o->words);
	free(o->value.p);
	free(o);
}

static void add_secret(struct secret *s, const char *name, const char *header,
		       const char *value)
{
	struct opened *o = xcalloc(1, sizeof(*o));
	struct err e = { 0 };

	snprintf(s->name, sizeof(s->name), "%s", name);
	s->kind = header ? SECRET_HEADER : SECRET_TOTP;
	if (header)
		CHECK(secret_set_header(s, header, &e) == 0 &&
		      secret_add_host(s, "a.test", &e) == 0);
	o->project = &project;
	o->secret = s;
	o->value.p = xstrdup(value);
	o->value.n = strlen(value);
	o->words = words_new();
	words_add_lines(o->words, value);
	s->open = o;
	s->close = close_value;
	list_add(&project.secrets, &s->node);
}

/* A secret that fills the parameter `key`. */
static void add_query(struct secret *s, const char *name, const char *value)
{
	add_secret(s, name, "X-Key: {}", value);
	s->kind = SECRET_QUERY;
	snprintf(s->field, sizeof(s->field), "key");
}

static void use(const char *name, const char *word, bool canary)
{
	struct box_use *u = &box.uses[box.n_uses++];

	snprintf(u->name, sizeof(u->name), "%s", name);
	snprintf(u->placeholder, sizeof(u->placeholder), "%s", word);
	u->canary = canary;
}

static void set_up(void)
{
	list_init(&project.secrets);
	add_secret(&secrets[0], "one", "X-Key: {}", ONE);
	add_secret(&secrets[1], "two", "X-Key: {}", TWO);
	add_secret(&secrets[2], "codes", NULL, SEED);
	add_secret(&secrets[3], "foreign", NULL, SEED);
	add_query(&secrets[4], "three", ONE);
	add_query(&secrets[5], "four", TWO);
}

/* The sandbox uses these from now on. */
static void fresh_box(void)
{
	inject_forget(&box);
	memset(box.uses, 0, sizeof(box.uses));
	box.n_uses = 0;
	canaries = echoes = 0;
}

/* --- one request --- */

static struct request request = { SCHEME_HTTPS, "a.test", 443, "GET", "/" };
static struct http_field fields[2];
static struct http_head head;
static struct inject inject;
static struct err refused;

static void on_done(struct inject *j, const struct err *e)
{
	(void)j;
	refused = *e;
}

static void start(const char *name, const char *value, const char *target)
{
	memset(&head, 0, sizeof(head));
	fields[0] = (struct http_field){ .name = name, .value = value };
	memcpy(head.field, fields, sizeof(fields[0]));
	head.n_fields = 1;
	inject = (struct inject){ .box = &box,
				  .request = &request,
				  .head = &head,
				  .target = target };
	refused = (struct err){ 0 };
	inject_start(&inject, on_done);
}

static const char *field_sent(const char *name)
{
	const struct http_field *f;

	for (f = inject.fields; f && f->name; f++)
		if (strcmp(f->name, name) == 0)
			return f->value;
	return "";
}

static void masked(const char *text, const char *expected)
{
	AUTO(buf_done) struct buf out = { 0 };

	inject_mask_text(&inject, text, &out);
	CHECK_STR(buf_str(&out), expected);
}

/* Two secrets for the same field of one host: the placeholder chooses. */
static void test_placeholder_chooses(void)
{
	fresh_box();
	use("one", HOLD1, false);
	use("two", HOLD2, false);
	start("X-Key", HOLD2, "/");
	CHECK(!refused.code);
	CHECK_STR(field_sent("X-Key"), TWO);
	CHECK(inject.n_names == 1);
	CHECK_STR(inject.names[0], "two");
	inject_done(&inject);
	start("X-Key", HOLD1, "/");
	CHECK_STR(field_sent("X-Key"), ONE);
	inject_done(&inject);
	start("X-Key", "none", "/");
	CHECK_STR(field_sent("X-Key"), ONE); /* the first of its spec */
	inject_done(&inject);
}

static void test_placeholder_chooses_in_the_query(void)
{
	fresh_box();
	use("three", HOLD1, false);
	use("four", HOLD2, false);
	start("X-Other", "x", "/?a=1&key=" HOLD2);
	CHECK(!refused.code && inject.n_names == 1);
	CHECK_STR(inject.names[0], "four");
	CHECK_STR(inject.new_target, "/?a=1&key=" TWO);
	inject_done(&inject);
}

static void test_placeholder_elsewhere_is_refused(void)
{
	fresh_box();
	use("one", HOLD1, false);
	start("X-Other", HOLD1, "/");
	CHECK(refused.code == EACCES && strstr(refused.msg, "X-Other"));
	inject_done(&inject);
	start("X-Key", HOLD1, "/?q=" HOLD1);
	CHECK(refused.code == EACCES && strstr(refused.msg, "the address"));
	inject_done(&inject);
	start(HOLD1, "x", "/");
	CHECK(refused.code == EACCES);
	inject_done(&inject);
	/* A secret that is bound to another host stays here. */
	request.host = "b.test";
	start("X-Key", HOLD1, "/");
	CHECK(refused.code == EACCES && !*field_sent("X-Key"));
	inject_done(&inject);
	request.host = "a.test";
}

/* Two secrets in one request: neither comes back. */
static void test_both_are_masked(void)
{
	struct err e = { 0 };

	CHECK(secret_set_header(&secrets[1], "X-Token: {}", &e) == 0);
	fresh_box();
	use("one", HOLD1, false);
	use("two", HOLD2, false);
	start("X-Key", HOLD1, "/");
	CHECK(inject.n_names == 2 && inject.identity);
	masked("a " ONE " b", "a *************** b");
	CHECK(inject.mask.label == 0);
	masked("a " TWO " b", "a *************** b");
	CHECK(inject.mask.label == 1);
	inject_done(&inject);
	CHECK(echoes == 1 && strstr(event, "\"name\":\"two\""));
	CHECK(secret_set_header(&secrets[1], "X-Key: {}", &e) == 0);
}

static void test_mask_of_names(void)
{
	AUTO(buf_done) struct buf out = { 0 };

	fresh_box();
	use("one", HOLD1, false);
	start("X-Key", HOLD1, "/");
	inject_mask_name(&inject, "x-" ONE, &out);
	CHECK_STR(buf_str(&out), "*****************");
	buf_clear(&out);
	inject_mask_name(&inject, "x-plain", &out);
	CHECK_STR(buf_str(&out), "x-plain");
	inject_done(&inject);
	CHECK(echoes == 1);
}

static void canary_in(const char *name, const char *value, const char *target,
		      const char *authority)
{
	start("x", "y", "/");
	inject_done(&inject);
	memset(&head, 0, sizeof(head));
	head.field[0] = (struct http_field){ .name = name, .value = value };
	head.n_fields = 1;
	head.authority = authority;
	inject = (struct inject){ .box = &box,
				  .request = &request,
				  .head = &head,
				  .target = target };
	refused = (struct err){ 0 };
	canaries = 0;
	inject_start(&inject, on_done);
	CHECK(refused.code == EACCES && strstr(refused.msg, "canary bird"));
	CHECK(canaries == 1 && strstr(event, "\"name\":\"bird\""));
	inject_done(&inject);
}

static void test_canaries(void)
{
	fresh_box();
	use("bird", CANARY, true);
	canary_in("x", CANARY, "/", NULL);
	canary_in(CANARY, "x", "/", NULL);
	canary_in("x", "y", "/?q=" CANARY, NULL);
	canary_in("x", "y", "/", CANARY ".test");
	request.host = CANARY ".test";
	canary_in("x", "y", "/", NULL);
	request.host = "a.test";
	CHECK(inject_needs_look(&box, "any.test", 443));
	CHECK(inject_canaries(&box) != NULL);
}

/* A sandbox that sends canaries in a row cannot fill the log. The clock may
 * turn to another second once, on a slow machine more often. */
static void test_canaries_in_the_log(void)
{
	unsigned i;

	fresh_box();
	use("bird", CANARY, true);
	for (i = 0; i < 2000; i++) {
		struct err e = { 0 };

		inject_canary(&box, &request, 0, &e);
	}
	CHECK(canaries >= 10 && canaries <= 1000);
}

static bool gives_code(const char *name)
{
	char code[TOTP_CAP] = "x";
	struct err e = { 0 };

	if (totp_code(&box, name, code, &e) == 0)
		return strlen(code) == 6;
	CHECK(e.code == ENOENT && !*code);
	return false;
}

/* Codes are given only for secrets that the sandbox uses. */
static void test_codes(void)
{
	char code[TOTP_CAP];
	struct err e = { 0 };

	fresh_box();
	use("codes", HOLD1, false);
	use("one", HOLD2, false);
	CHECK(gives_code("codes"));
	CHECK(!gives_code("one")); /* it makes none */
	CHECK(!gives_code("foreign"));
	CHECK(!gives_code("none"));
	CHECK(totp_code_of(&project, "foreign", code, &e) == 0);
	/* A canary of that name gives no code. */
	use("foreign", CANARY, true);
	CHECK(!gives_code("foreign"));
}

int main(void)
{
	unsigned i;

	set_up();
	test_placeholder_chooses();
	test_placeholder_chooses_in_the_query();
	test_placeholder_elsewhere_is_refused();
	test_both_are_masked();
	test_mask_of_names();
	test_canaries();
	test_canaries_in_the_log();
	test_codes();
	inject_forget(&box);
	for (i = 0; i < ARRAY_LEN(secrets); i++)
		secret_done(&secrets[i]);
	return CHECK_DONE();
}
