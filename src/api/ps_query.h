/*
 * What runs in a sandbox, by the agent's builtin `ps`. What it writes is as
 * trustworthy as the sandbox: records are checked and bounded in number, their
 * content is anything.
 */
#pragma once

#include "api/process.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/loop.h"
#include "wire/ps.h"

/* Embedded in its owner; zero-initialise. */
struct ps_query {
	/* A process that somebody asked for; false: that is too much. */
	bool (*found)(struct ps_query *q, const struct ps *r);
	/* All were given (`e` NULL), or not. The last callback. */
	void (*done)(struct ps_query *q, const struct err *e);

	/* Private. */
	struct process proc;
	struct loop *loop;
	struct buf in;
	unsigned n;
	struct timer late;
};

int ps_query_start(struct ps_query *q, struct sandbox *s,
		   struct err *e) MUST_CHECK;
/* Silent. Harmless when it is over. */
void ps_query_stop(struct ps_query *q);
