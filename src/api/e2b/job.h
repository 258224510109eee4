/*
 * A request of E2B's control plane that takes a few native ones, one after
 * the other: memory that ends with it, whatever happens.
 *
 *	e2b_job_body() --> body() --> e2b_job_ask() --> then() --> answer
 *
 * Each of the functions that are called back either asks for more or answers;
 * who answers calls e2b_job_free().
 */
#pragma once

#include "api/e2b/e2b.h"
#include "api/inner.h"

/* A row of the control plane: what may be done is for the native request. */
#define E2B_ROW(method, path, fn, summary)                \
	{ method,  path, fn,   SCOPE_READ, ROUTE_FOREIGN, \
	  summary, NULL, NULL, NULL,       0 }

struct e2b_job {
	struct api *api;
	struct http_conn *conn;
	struct identity who;
	char id[ID_CAP];     /* of the sandbox in the path; "": none */
	json_t *body;        /* an object, after e2b_job_body() */
	uint64_t number;     /* the handler's own */
	bool flag;           /* the same */
	char name[NAME_CAP]; /* the same */

	/* Private. */
	void (*done)(struct e2b_job *j);
	struct inner_ask ask;
	void (*on_body)(struct e2b_job *j);
	void (*then)(struct e2b_job *j, int status, json_t *answer);
};

/*
 * NULL: the id in the path is none, and that was answered. `call->arg[0]` is
 * taken for one when the route has it.
 */
struct e2b_job *e2b_job(struct api *a, struct http_conn *c,
			const struct call *call);
/*
 * The same as the first member of something larger, of `size` zeroed bytes;
 * `done` ends the rest of it, whenever the job ends.
 */
struct e2b_job *e2b_job_in(struct api *a, struct http_conn *c,
			   const struct call *call, size_t size,
			   void (*done)(struct e2b_job *j));
void e2b_job_free(struct e2b_job *j);
/* Reads the body, which may be missing. */
void e2b_job_body(struct e2b_job *j, void (*on_body)(struct e2b_job *j));
/* One native request, with a body (taken) or NULL. */
void e2b_job_ask(struct e2b_job *j, const char *method, json_t *body,
		 void (*then)(struct e2b_job *j, int status, json_t *answer),
		 const char *target, ...) PRINTF_LIKE(5, 6);
/* The sandbox of the path; NULL: it was answered that there is none, and the
 * job is gone. */
struct sandbox *e2b_job_box(struct e2b_job *j);
/* These answer, and end the job. */
void e2b_job_fail(struct e2b_job *j, int status, const char *msg);
void e2b_job_err(struct e2b_job *j, const struct err *e);
void e2b_job_pass(struct e2b_job *j, int status, const json_t *answer);
void e2b_job_json(struct e2b_job *j, int status, json_t *answer);
void e2b_job_empty(struct e2b_job *j, int status);
