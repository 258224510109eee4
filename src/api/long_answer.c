#include "api/long_answer.h"

#include <errno.h>
#include <string.h>

#include "api/api.h"
#include "api/import.h"
#include "api/json_text.h"
#include "api/reply.h"
#include "base/clock.h"

enum { TELL_MS = 200 };

void long_start(struct long_answer *l, struct api *a, struct http_conn *c,
		void (*over)(struct long_answer *l))
{
	static const struct http_field fields[] = {
		{ "Content-Type", "application/x-ndjson" }, { 0 }
	};

	*l = (struct long_answer){ .api = a, .conn = c, .over = over };
	l->lines = http_has_token(http_request(c), "Accept",
				  "application/x-ndjson");
	if (l->lines)
		http_reply_start(c, 200, fields, NULL);
}

static void put_line(struct long_answer *l, const char *key, json_t *value)
{
	json_t *j = json_pack("{s:o}", key, value);
	struct buf b = { 0 };

	json_add(&b, j);
	buf_puts(&b, "\n");
	http_reply_data(l->conn, buf_data(&b), buf_len(&b));
	buf_done(&b);
	json_decref(j);
}

void long_tell(struct long_answer *l, json_t *progress, bool always)
{
	uint64_t now = clock_boot_ms();

	if (!l->lines || !l->conn || http_is_full(l->conn) ||
	    (!always && now - l->told_ms < TELL_MS)) {
		json_decref(progress);
		return;
	}
	l->told_ms = now;
	put_line(l, "progress", progress);
}

static void end(struct long_answer *l)
{
	http_reply_end(l->conn);
	l->conn = NULL;
	l->over(l);
}

static void fail_line(struct long_answer *l, const struct err *e)
{
	const char *word = "bad_image";
	int status = e->code == EBADMSG ? 422 : reply_status(e->code, &word);

	put_line(l, "error",
		 json_pack("{s:i, s:s, s:o, s:s}", "code", status, "error",
			   word, "message", json_lossy(e->msg, strlen(e->msg)),
			   "request_id", http_request_id(l->conn)));
	end(l);
}

void long_fail(struct long_answer *l, const struct err *e)
{
	if (l->lines) {
		fail_line(l, e);
		return;
	}
	import_refuse(l->api, l->conn, e);
	l->conn = NULL;
	l->over(l);
}

static void on_disk(struct audit_wait *w, const struct err *e)
{
	struct long_answer *l = container_of(w, struct long_answer, wait);
	json_t *answer = l->answer;

	l->answer = NULL;
	if (e->code) {
		json_decref(answer);
		fail_line(l, e);
		return;
	}
	put_line(l, "done", answer);
	end(l);
}

void long_done(struct long_answer *l, const struct audit *entry, int status,
	       json_t *answer)
{
	if (l->lines) {
		l->answer = answer;
		audit_add_durable(l->api, entry, &l->wait, on_disk);
		return;
	}
	audit_reply(l->api, l->conn, entry, status, answer);
	l->conn = NULL;
	l->over(l);
}

void long_end(struct long_answer *l, json_t *answer)
{
	if (l->lines) {
		put_line(l, "done", answer);
		end(l);
		return;
	}
	reply_json(l->api, l->conn, 200, answer);
	l->conn = NULL;
	l->over(l);
}

void long_gone(struct long_answer *l)
{
	audit_cancel(&l->wait);
	json_decref(l->answer);
	l->answer = NULL;
	l->conn = NULL;
}
