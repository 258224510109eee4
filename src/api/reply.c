#include "api/reply.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/json_bounds.h"
#include "base/auto.h"
#include "base/clock.h"

static const struct {
	int code, status;
	const char *word;
} table[] = {
	{ EINVAL, 400, "bad_request" },
	{ ERANGE, 400, "out_of_range" },
	{ E2BIG, 400, "too_large" },
	{ ENAMETOOLONG, 400, "too_large" },
	{ EACCES, 401, "no_key" },
	{ EPERM, 403, "forbidden" },
	{ ENOENT, 404, "not_found" },
	{ ESRCH, 404, "not_found" },
	{ EEXIST, 409, "conflict" },
	{ ERR_ENDED, 410, "ended" },
	{ EBUSY, 409, "busy" },
	{ ERR_VERSION, 412, "version_mismatch" },
	{ EMFILE, 429, "limit_reached" },
	{ ENFILE, 429, "limit_reached" },
	{ EDQUOT, 429, "limit_reached" },
	{ EUSERS, 429, "limit_reached" },
	{ ENOTSUP, 501, "not_supported" },
	{ EPROTO, 502, "agent_failed" },
	{ EREMOTEIO, 502, "registry_failed" },
	{ EHOSTUNREACH, 502, "registry_failed" },
	{ EKEYREJECTED, 403, "registry_refuses" },
	{ EAGAIN, 503, "try_again" },
	{ ERR_HOST_FULL, 503, "host_full" },
	{ ENOMEM, 503, "no_memory" },
	{ ENOTCONN, 503, "agent_unavailable" },
	{ LOG_AWAY, 503, "log_unavailable" },
	{ WARDEN_AWAY, 503, "warden_unavailable" },
	{ ERR_HELD, 503, "state_mismatch" },
	{ GATE_AWAY, 503, "gate_unavailable" },
	{ ETIMEDOUT, 504, "timeout" },
	{ ENOSPC, 507, "no_space" },
	{ ERR_PROJECT_FULL, 507, "project_full" },
};

static void note(struct api *a, struct http_conn *c, int status,
		 const char *msg)
{
	const struct http_head *h = http_request(c);

	a->metrics.requests[status / 100]++;
	/* 503 is told to the client only: it comes as often as they ask. */
	if (status >= 500 && status != 503)
		log_warn("request=%s %s %s status=%d %s", http_request_id(c),
			 h->method, h->path, status, msg);
	else
		log_debug("request=%s %s %s status=%d %s", http_request_id(c),
			  h->method, h->path, status, msg);
}

void reply_error(struct api *a, struct http_conn *c, int status,
		 const char *word, const char *msg)
{
	note(a, c, status, msg);
	http_error(c, status, word, "%s", msg);
}

int reply_status(int code, const char **word)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(table); i++)
		if (table[i].code == code) {
			*word = table[i].word;
			return table[i].status;
		}
	*word = "internal";
	return 500;
}

/* A limit of the kernel: its own text does not say which one to raise. */
static const char *kernel_limit(const struct err *e)
{
	if ((e->code != EMFILE && e->code != ENFILE) ||
	    !strstr(e->msg, strerror(e->code)))
		return "";
	return e->code == EMFILE
		       ? " (the limit of descriptors of a role: raise "
			 "LimitNOFILE of the service, or `ulimit -n`)"
		       : " (the limit of open files of the host: raise "
			 "fs.file-max)";
}

void reply_err(struct api *a, struct http_conn *c, const struct err *e)
{
	char msg[sizeof(e->msg) + 128];
	const char *word;
	int status = reply_status(e->code, &word);

	snprintf(msg, sizeof(msg), "%s%s", e->msg, kernel_limit(e));
	reply_error(a, c, status, word, msg);
}

void reply_json(struct api *a, struct http_conn *c, int status, json_t *j)
{
	AUTO_FREE char *text = json_dumps(j, JSON_COMPACT);

	json_decref(j);
	if (!text) {
		reply_error(a, c, 500, "internal", "no memory");
		return;
	}
	note(a, c, status, "");
	http_reply_json(c, status, text, strlen(text));
}

void reply_text(struct api *a, struct http_conn *c, int status,
		const struct http_field *extra, const char *json)
{
	struct http_field fields[4] = { { "Content-Type",
					  "application/json" } };
	size_t n = 1;

	for (; extra && extra->name && n < ARRAY_LEN(fields) - 1; extra++)
		fields[n++] = *extra;
	note(a, c, status, "");
	http_reply(c, status, fields, json, strlen(json));
}

void reply_empty(struct api *a, struct http_conn *c, int status)
{
	note(a, c, status, "");
	http_reply(c, status, NULL, NULL, 0);
}

json_t *json_time(uint64_t wall_ms)
{
	char text[CLOCK_STAMP];

	if (wall_ms == 0)
		return json_null();
	clock_stamp(wall_ms, text);
	return json_string(text);
}

json_t *parse_body(const char *body, size_t n, struct err *e)
{
	const char *beyond;
	json_error_t why;
	size_t values;
	json_t *j;

	if (n == 0)
		return json_object();
	beyond = json_beyond(body, n, JSON_DEPTH_MAX, SIZE_MAX, &values);
	if (beyond) {
		err_set(e, EINVAL, "%s", beyond);
		return NULL;
	}
	j = json_loadb(body, n, JSON_REJECT_DUPLICATES, &why);
	if (!j) {
		err_set(e, EINVAL, "not JSON: line %d: %.150s", why.line,
			why.text);
		return NULL;
	}
	if (!json_is_object(j)) {
		json_decref(j);
		err_set(e, EINVAL, "the body is not a JSON object");
		return NULL;
	}
	return j;
}
