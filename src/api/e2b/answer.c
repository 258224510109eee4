/* Answers in the words of E2B. */
#include <string.h>

#include "api/api.h"
#include "api/e2b/e2b.h"
#include "api/inner.h"
#include "api/reply.h"
#include "base/auto.h"

void e2b_fail(struct api *a, struct http_conn *c, int status, const char *msg)
{
	static const struct {
		int status;
		const char *word;
	} words[] = {
		{ 400, "bad_request" },        { 401, "no_key" },
		{ 403, "forbidden" },          { 404, "not_found" },
		{ 405, "method_not_allowed" }, { 409, "conflict" },
		{ 501, "not_supported" },
	};
	const char *word = "failed";
	size_t i;

	for (i = 0; i < ARRAY_LEN(words); i++)
		if (words[i].status == status)
			word = words[i].word;
	reply_error(a, c, status, word, msg);
}

/* What has ended is not there, to them. */
static int their_status(int status)
{
	if (status == 410)
		return 404;
	return status ? status : 502;
}

void e2b_fail_err(struct api *a, struct http_conn *c, const struct err *e)
{
	const char *word;
	int status = reply_status(e->code, &word);

	reply_error(a, c, their_status(status), word, e->msg);
}

void e2b_pass_error(struct api *a, struct http_conn *c, int status,
		    const json_t *answer)
{
	const char *word = json_string_value(json_object_get(answer, "error"));

	reply_error(a, c, their_status(status), word ? word : "failed",
		    inner_message(status, answer));
}

void e2b_not_found(struct api *a, struct http_conn *c, const char *id)
{
	reply_json(a, c, 502,
		   json_pack("{s:s, s:s, s:i}", "sandboxId",
			     id_valid(id) ? id : "", "message",
			     "The sandbox was not found", "code", 502));
}

const json_t *e2b_kept(const struct sandbox *s)
{
	return json_object_get(s->spec.client, "e2b");
}
