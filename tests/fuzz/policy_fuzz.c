/*
 * Policies of strangers: what is taken is printed as something that is taken
 * again and says the same, in both forms; deciding and reading URLs never
 * leaves the bounds.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "policy/policy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void same(const struct policy *p)
{
	struct buf one = { 0 }, two = { 0 }, three = { 0 };
	struct policy q = { 0 }, r = { 0 };
	struct err e = { 0 };
	json_t *j = policy_to_json(p);

	policy_print(p, &one);
	if (buf_len(&one) <= POLICY_TEXT_MAX) {
		assert(policy_parse(&q, buf_data(&one), buf_len(&one), &e) ==
		       0);
		policy_print(&q, &two);
		assert(strcmp(buf_str(&one), buf_str(&two)) == 0);
	}
	assert(j && policy_from_json(&r, j, &e) == 0);
	policy_print(&r, &three);
	assert(strcmp(buf_str(&one), buf_str(&three)) == 0);
	json_decref(j);
	policy_done(&q);
	policy_done(&r);
	buf_done(&one);
	buf_done(&two);
	buf_done(&three);
}

/* The first line is a URL, the rest the policy. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct policy p = { 0 };
	struct err e = { 0 };
	struct url u;
	const char *text = (const char *)data;
	const char *end = memchr(text, '\n', n);
	size_t len = end ? (size_t)(end - text) : n;
	char *url = calloc(1, len + 1);

	memcpy(url, text, len);
	text += end ? len + 1 : len;
	n -= end ? len + 1 : len;
	if (policy_read(&p, text, n, &e) == 0) {
		same(&p);
		if (url_read(&u, url, &e) == 0) {
			struct denied denied = { 0 };
			struct request q = { u.scheme, u.host, u.port, "GET",
					     u.path };

			(void)policy_decide(&p, &q);
			/* What may be asked for has a name that is known. */
			if (policy_decide(&p, &q).verdict != VERDICT_DENY)
				assert(policy_knows_host(&p, u.host, u.port,
							 &denied) > 0);
			q.method = q.path = NULL;
			(void)policy_decide(&p, &q);
		}
	}
	policy_done(&p);
	free(url);
	return 0;
}
