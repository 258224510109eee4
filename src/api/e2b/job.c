#include "api/e2b/job.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/reply.h"
#include "api/routes.h"
#include "base/auto.h"

enum { TARGET_CAP = 512 };

void e2b_job_free(struct e2b_job *j)
{
	inner_ask_close(&j->ask);
	if (j->done)
		j->done(j);
	json_decref(j->body);
	free(j);
}

static void job_gone(struct http_conn *c, void *owner)
{
	(void)c;
	e2b_job_free(owner);
}

/* "ID" or "ID-anything", of which the id counts. */
static int take_id(const char *arg, char out[ID_CAP])
{
	size_t n = strcspn(arg, "-");

	if (n >= ID_CAP)
		return -EINVAL;
	memcpy(out, arg, n);
	out[n] = '\0';
	return id_valid(out) ? 0 : -EINVAL;
}

struct e2b_job *e2b_job(struct api *a, struct http_conn *c,
			const struct call *call)
{
	return e2b_job_in(a, c, call, sizeof(struct e2b_job), NULL);
}

struct e2b_job *e2b_job_in(struct api *a, struct http_conn *c,
			   const struct call *call, size_t size,
			   void (*done)(struct e2b_job *j))
{
	struct e2b_job *j;
	char msg[160], id[ID_CAP] = "";

	if (strstr(call->route->path, "/sandboxes/{") &&
	    take_id(call->arg[0], id) < 0) {
		snprintf(msg, sizeof(msg), "no sandbox '%.64s'", call->arg[0]);
		e2b_fail(a, c, 404, msg);
		return NULL;
	}
	j = xcalloc(1, size);
	j->api = a;
	j->done = done;
	j->conn = c;
	j->who = call->who;
	memcpy(j->id, id, ID_CAP);
	http_own(c, j, job_gone);
	return j;
}

static void on_whole(struct http_conn *c, char *body, size_t n, void *owner)
{
	struct e2b_job *j = owner;
	struct err e = { 0 };

	(void)c;
	j->body = parse_body(body, n, &e);
	explicit_bzero(body, n); /* values of secrets come in some */
	if (j->body)
		j->on_body(j);
	else
		e2b_job_err(j, &e);
}

void e2b_job_body(struct e2b_job *j, void (*on_body)(struct e2b_job *j))
{
	j->on_body = on_body;
	http_read_body(j->conn, BODY_MAX, on_whole);
}

static void on_answer(struct inner_ask *q, int status, json_t *answer)
{
	struct e2b_job *j = container_of(q, struct e2b_job, ask);

	j->then(j, status, answer);
}

void e2b_job_ask(struct e2b_job *j, const char *method, json_t *body,
		 void (*then)(struct e2b_job *j, int status, json_t *answer),
		 const char *target, ...)
{
	char text[TARGET_CAP];
	struct err e = { 0 };
	va_list ap;

	va_start(ap, target);
	vsnprintf(text, sizeof(text), target, ap);
	va_end(ap);
	j->then = then;
	if (inner_ask(&j->ask,
		      &(struct inner_json){ j->api, &j->who,
					    http_request_id(j->conn), method,
					    text, body, on_answer },
		      &e) < 0)
		e2b_job_err(j, &e);
}

struct sandbox *e2b_job_box(struct e2b_job *j)
{
	struct err e = { 0 };
	struct sandbox *s = box_find(j->api, &j->who, j->id, &e);

	/* To them it has ended as soon as it is to. */
	if (s && s->state == BOX_ENDING)
		err_set(&e, ENOENT, "sandbox %s has ended: %s", s->id,
			s->reason);
	if (e.code)
		e2b_job_err(j, &e);
	return e.code ? NULL : s;
}

void e2b_job_fail(struct e2b_job *j, int status, const char *msg)
{
	e2b_fail(j->api, j->conn, status, msg);
	e2b_job_free(j);
}

void e2b_job_err(struct e2b_job *j, const struct err *e)
{
	e2b_fail_err(j->api, j->conn, e);
	e2b_job_free(j);
}

void e2b_job_pass(struct e2b_job *j, int status, const json_t *answer)
{
	e2b_pass_error(j->api, j->conn, status, answer);
	e2b_job_free(j);
}

void e2b_job_json(struct e2b_job *j, int status, json_t *answer)
{
	reply_json(j->api, j->conn, status, answer);
	e2b_job_free(j);
}

void e2b_job_empty(struct e2b_job *j, int status)
{
	reply_empty(j->api, j->conn, status);
	e2b_job_free(j);
}
