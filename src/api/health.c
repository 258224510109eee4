/*
 * GET /healthz: can this daemon do its work? The request needs no key, so it
 * costs one question to the warden and shows no more than what an operator has
 * to repair. Every problem that is found is told, each with its remedy:
 *
 *	warden	it does not start, or does not answer
 *	pool	the file system went read-only, or is full
 *	log	no record can be written, so nothing is done (audit.h)
 *	disk	the disk of state_dir is full: database, log and pool grow there
 *	scribe, gate	the role does not start
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>

#include "api/api.h"
#include "api/reply.h"
#include "api/routes.h"
#include "base/auto.h"
#include "base/last_error.h"

enum {
	ANSWER_MS = 2000, /* for the warden; probes have short timeouts */
	FREE_SHARE = 10,  /* of the pool: store/store.c refuses below it */
	DISK_MIN_BYTES = 64 << 20, /* as cli/doctor_host.c has it */
};

struct health {
	struct api *api;
	struct http_conn *conn;
	struct warden_call call;
	struct timer late;
	json_t *problems;
};

static void health_free(struct health *h)
{
	timer_del(&h->api->loop, &h->late);
	warden_cancel(&h->call);
	json_decref(h->problems);
	free(h);
}

static void health_gone(struct http_conn *c, void *owner)
{
	(void)c;
	health_free(owner);
}

static void add_problem(struct health *h, const char *part, const char *message)
{
	json_array_append_new(h->problems, json_pack("{s:s, s:s}", "part", part,
						     "message", message));
}

static void check_log(struct health *h)
{
	struct err e = { 0 };

	if (audit_ready(h->api, &e) < 0)
		add_problem(h, "log", e.msg);
	else if (!writer_is_heard(&h->api->audit.w))
		add_problem(h, "log",
			    "the scribe does not answer or cannot write, so "
			    "entries wait in the spool: see the daemon's log");
}

/* The pool is a sparse file there by default: without room for it to grow its
 * file system gets I/O errors and becomes read-only. */
static void check_disk(struct health *h)
{
	const struct api *a = h->api;
	char have[SIZE_TEXT], msg[252];
	struct statfs s;

	if (fstatfs(a->audit.w.spool.fd, &s) < 0 ||
	    s.f_bavail * (uint64_t)s.f_bsize >= DISK_MIN_BYTES)
		return;
	size_text(s.f_bavail * (uint64_t)s.f_bsize, have);
	snprintf(msg, sizeof(msg),
		 "the disk of %.96s is full: %s free, at least 64 MiB are "
		 "needed: free some space there",
		 a->conf.state_dir, have);
	add_problem(h, "disk", msg);
}

static void check_roles(struct health *h)
{
	static const char *const roles[] = { "scribe", "gate" };
	char why[252], msg[300];
	size_t i;

	for (i = 0; i < ARRAY_LEN(roles); i++)
		if (last_error_read(h->api->conf.run_dir, roles[i], why,
				    sizeof(why))) {
			snprintf(msg, sizeof(msg), "the %s is down: %s",
				 roles[i], why);
			add_problem(h, roles[i], msg);
		}
}

static void check_pool(struct health *h, const struct host_info *i)
{
	char have[SIZE_TEXT], all[SIZE_TEXT], msg[200];

	if (i->flags & HOST_POOL_READ_ONLY)
		add_problem(h, "pool",
			    "the pool is read-only: look for errors of its "
			    "disk with dmesg, repair it, then restart the "
			    "daemon");
	if (i->pool_free_bytes > i->pool_bytes / FREE_SHARE)
		return;
	size_text(i->pool_free_bytes, have);
	size_text(i->pool_bytes, all);
	snprintf(msg, sizeof(msg),
		 "the pool is full: %s free of %s, and below 10 %% no sandbox "
		 "is made: remove snapshots, images or sandboxes",
		 have, all);
	add_problem(h, "pool", msg);
}

static void health_answer(struct health *h)
{
	struct api *a = h->api;
	struct http_conn *c = h->conn;
	json_t *problems;
	const char *first;

	check_log(h);
	check_disk(h);
	check_roles(h);
	problems = json_incref(h->problems);
	health_free(h);
	if (json_array_size(problems) == 0) {
		json_decref(problems);
		reply_json(a, c, 200, json_pack("{s:b}", "ok", 1));
		return;
	}
	first = json_string_value(
		json_object_get(json_array_get(problems, 0), "message"));
	reply_json(a, c, 503,
		   json_pack("{s:b, s:i, s:s, s:s, s:o}", "ok", 0, "code", 503,
			     "error", "unhealthy", "message", first, "problems",
			     problems));
}

static void warden_problem(struct health *h)
{
	struct err e = { 0 };

	warden_explain(&h->api->warden, &e);
	add_problem(h, "warden", e.msg);
	health_answer(h);
}

static void on_warden_late(struct timer *t)
{
	warden_problem(container_of(t, struct health, late));
}

static void on_warden_answer(struct warden_call *c,
			     const struct warden_rep *rep, int fds[FD_PASS_MAX])
{
	struct health *h = container_of(c, struct health, call);

	(void)fds;
	if (rep->err.code)
		add_problem(h, "pool", rep->err.msg);
	else
		check_pool(h, &rep->host);
	health_answer(h);
}

void h_health(struct api *a, struct http_conn *c, const struct call *call)
{
	struct health *h = xcalloc(1, sizeof(*h));

	(void)call;
	h->api = a;
	h->conn = c;
	h->problems = json_array();
	http_own(c, h, health_gone);
	if (!warden_is_up(&a->warden)) {
		warden_problem(h);
		return;
	}
	timer_set(&a->loop, &h->late, ANSWER_MS, on_warden_late);
	warden_req_id(&h->call, WARDEN_HOST, "");
	warden_ask(&a->warden, &h->call, on_warden_answer);
}
