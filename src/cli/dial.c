#include "cli/dial.h"

#include <errno.h>
#include <string.h>

#include "base/auto.h"

/* What the daemon said instead of 101. */
static int refused(struct http_client *c, int status, char why[MESSAGE_CAP])
{
	struct buf body = { 0 };
	struct err e = { 0 };
	json_t *j = NULL;

	if (http_recv_body(c, ANSWER_MAX, &body, &e) < 0) {
		snprintf(why, MESSAGE_CAP, "%s", e.msg);
		buf_done(&body);
		return -EAGAIN;
	}
	if (buf_len(&body) > 0)
		j = json_loadb(buf_data(&body), buf_len(&body), 0, NULL);
	server_message(status, j, why);
	json_decref(j);
	buf_done(&body);
	return status == 503 ? -EAGAIN : -EPERM;
}

int dial(const struct dial *d, const struct buf *first, uint64_t timeout_ms,
	 int *fd, struct buf *leftover, char why[MESSAGE_CAP])
{
	struct http_call call = { .method = "POST",
				  .target = d->target,
				  .upgrade = d->protocol };
	struct http_client c;
	struct err e = { 0 };
	int status = -1, r = 0;

	if (first) {
		call.first = buf_data(first);
		call.first_n = buf_len(first);
	}
	if (d->body) {
		call.body = buf_data(d->body);
		call.body_n = buf_len(d->body);
	}
	if (!server_try(d->cli, &c, why))
		return -EAGAIN;
	if (timeout_ms == 0 || http_client_timeout(&c, timeout_ms, &e) == 0)
		status = http_client_upgrade(&c, &call, fd, leftover, &e);
	if (status < 0) {
		snprintf(why, MESSAGE_CAP, "%s", e.msg);
		r = -EAGAIN;
	} else if (status != 101) {
		r = refused(&c, status, why);
	}
	http_client_done(&c);
	return r;
}
