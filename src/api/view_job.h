/*
 * A worker that looks at states of disks (WARDEN_VIEW, wire/view.h): asked
 * once, it answers with records. It has read what sandboxes wrote, so its
 * records are checked and bounded; whoever gets them may take his time, and
 * the worker waits.
 *
 * The struct is embedded in its owner. Callbacks come from the loop, never
 * from inside a function called here. After ended(), or after
 * view_job_stop(), none comes and the memory is the owner's again.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "api/warden_link.h"
#include "base/buf.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/str.h"
#include "wire/view.h"

struct api;
struct view_job;

enum {
	/* At once, each with perhaps a second worker; of one project. */
	VIEWS_MAX = 6,
	VIEWS_PROJECT_MAX = 4,
};

enum view_next {
	VIEW_GO_ON,
	VIEW_HOLD, /* no more before view_job_resume() */
	VIEW_OVER, /* the job was stopped */
};

struct view_ops {
	/* Never VIEW_DONE, VIEW_ERROR or VIEW_PROGRESS. */
	enum view_next (*record)(struct view_job *v,
				 const struct view_record *r);
	/* The last one; `e->code` 0: all was said. */
	void (*ended)(struct view_job *v, const struct err *e);
	/* How far it is; may be NULL. */
	void (*progress)(struct view_job *v, const struct view_record *r);
};

/* Zero-initialise. */
struct view_job {
	struct list node; /* in api.views */
	struct api *api;
	const struct view_ops *ops;
	char project[NAME_CAP]; /* who it counts for */
	struct warden_call call;
	struct io ask, words;
	struct timer again;
	struct buf out, in;
	bool busy; /* started, and not ended */
	bool held, inner;
};

struct view_question {
	enum view_work work;
	const struct view_side *side[VIEW_SIDES]; /* NULL: unused */
	unsigned flags;
	const char *const *paths;
	size_t n_paths;
	/* A part of a work that was let in already: not counted again. */
	bool inner;
};

/* EMFILE: too many are at work. */
int view_job_start(struct view_job *v, struct api *a, const char *project,
		   const struct view_question *q, const struct view_ops *ops,
		   struct err *e) MUST_CHECK;
/* The same of one that was not asked, and says them on this descriptor, which
 * is taken. */
int view_job_hear(struct view_job *v, struct api *a, const char *project,
		  int fd, const struct view_ops *ops, struct err *e) MUST_CHECK;
/* Records come again. Harmless when nothing is held. */
void view_job_resume(struct view_job *v);
/* Ends the worker. Harmless when none is at work. */
void view_job_stop(struct view_job *v);
