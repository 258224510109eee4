/*
 * POST /v1/policy-test: what would become of a request, under the policies of
 * a sandbox in the order in which its door tries them, under one by its name,
 * or under a text. Nothing is sent, and nobody is asked.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/policies.h"
#include "api/policy_parts.h"
#include "api/reply.h"
#include "api/routes.h"
#include "base/auto.h"
#include "policy/policy.h"

static const char *const verdicts[] = {
	[VERDICT_DENY] = "deny",
	[VERDICT_ALLOW] = "allow",
	[VERDICT_ASK] = "ask",
	/* Never of a request that is known whole. */
	[VERDICT_LOOK] = "look",
};

struct test {
	struct api *api;
	struct call call;
	struct policy_parts parts;
	bool observe;
};

static void test_free(struct test *t)
{
	policy_parts_done(&t->parts);
	free(t);
}

static void test_gone(struct http_conn *c, void *owner)
{
	(void)c;
	test_free(owner);
}

/* --- whose policies --- */

static int of_sandbox(struct test *t, const char *ref, struct err *e)
{
	struct sandbox *s = box_find(t->api, &t->call.who, ref, e);

	if (!s)
		return -e->code;
	t->observe = s->spec.observe;
	return policy_parts_load(&t->parts, s, e);
}

static int of_policy(struct test *t, struct http_conn *c, const char *name,
		     struct err *e)
{
	const struct saved_policy *p;
	char project[NAME_CAP];

	if (call_project(&t->call, http_request(c), project, e) < 0)
		return -e->code;
	p = policy_find(t->api, project, name);
	if (!p)
		return err_set(e, ENOENT, "project %s has no policy '%.64s'",
			       project, name);
	return policy_parts_add(&t->parts, NULL, p->text, strlen(p->text), e);
}

/* --- what they say --- */

/* As the door decides: what people have granted counts where the others ask,
 * and who observes lets pass what would be denied. */
static json_t *decide(const struct test *t, const struct request *q)
{
	AUTO(buf_done) struct buf rule = { 0 };
	const char *part;
	struct decision d = policy_parts_try(&t->parts, q, &part);
	bool observed = t->observe && d.verdict == VERDICT_DENY;

	if (d.verdict == VERDICT_ASK) {
		struct decision granted = policy_parts_granted(&t->parts, q);

		if (granted.verdict == VERDICT_ALLOW) {
			d = granted;
			part = GATE_PART_GRANTS;
		}
	}
	if (d.rule)
		rule_print(d.rule, &rule);
	return json_pack("{s:s, s:s?, s:o, s:o, s:b}", "verdict",
			 verdicts[observed ? VERDICT_ALLOW : d.verdict], "part",
			 part && *part ? part : NULL, "line",
			 d.rule ? json_integer(d.rule->line) : json_null(),
			 "rule",
			 d.rule ? json_string(buf_str(&rule)) : json_null(),
			 "observed", observed);
}

static json_t *answer(struct test *t, struct http_conn *c, json_t *body,
		      struct err *e)
{
	const char *target = NULL, *method = "GET", *box = NULL, *policy = NULL,
		   *text = NULL;
	size_t text_n = 0;
	json_error_t why;
	struct url url;
	int r;

	if (json_unpack_ex(body, &why, JSON_STRICT,
			   "{s:s, s?:s, s?:s, s?:s, s?:s%}", "url", &target,
			   "method", &method, "sandbox", &box, "policy",
			   &policy, "text", &text, &text_n) < 0) {
		err_set(e, EINVAL, "%.150s", why.text);
		return NULL;
	}
	if (!box + !policy + !text != 2) {
		err_set(e, EINVAL, "one of sandbox, policy and text is needed");
		return NULL;
	}
	if (url_read(&url, target, e) < 0)
		return NULL;
	if (box)
		r = of_sandbox(t, box, e);
	else if (policy)
		r = of_policy(t, c, policy, e);
	else
		r = policy_parts_add(&t->parts, NULL, text, text_n, e);
	if (r < 0)
		return NULL;
	return decide(t, &(struct request){ url.scheme, url.host, url.port,
					    method, url.path });
}

static void test_body(struct http_conn *c, char *text, size_t n, void *owner)
{
	struct test *t = owner;
	struct err e = { 0 };
	json_t *body = parse_body(text, n, &e);
	json_t *j = body ? answer(t, c, body, &e) : NULL;

	json_decref(body);
	if (j)
		reply_json(t->api, c, 200, j);
	else
		reply_err(t->api, c, &e);
	test_free(t);
}

void h_policy_test(struct api *a, struct http_conn *c, const struct call *call)
{
	struct test *t = xcalloc(1, sizeof(*t));

	t->api = a;
	t->call = *call;
	http_own(c, t, test_gone);
	http_read_body(c, BODY_MAX, test_body);
}
