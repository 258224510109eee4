/* A connection to a door; for gate_*.c, approvals.c and egress.c alone. */
#pragma once

#include "api/egress.h"
#include "api/gate.h"

/* A project as a door knows it. */
struct gate_project {
	struct list node;
	char name[NAME_CAP];
	char *ca; /* the certificate that its sandboxes trust; NULL: not yet */
};

struct gate_link {
	struct list node;
	struct api *api;
	char door[NAME_CAP];
	struct io io;
	struct timer timer; /* connects again; or looks if anybody needs it */
	unsigned pause_ms;
	bool ready; /* it has said what it has */
	bool told;  /* that it is away, in the log */
	struct list projects;
	struct list boxes; /* struct box_gate */
	struct list waits; /* struct gate_wait */
	struct list gone;  /* sandboxes that it is to forget */
	unsigned n_gone;
	struct list out; /* messages that wait for room */
	unsigned n_out;
	struct egress_ends ends;
	struct deferred end;
};

/* Made, and connected to, when there is none. */
struct gate_link *gate_link_get(struct api *a, const char *door);
struct gate_link *gate_link_find(struct api *a, const char *door);
/* Dropped when it is away. The descriptors are taken, whatever happens. */
void gate_send(struct gate_link *l, const struct gate_msg *m, int *fds,
	       int n_fds);
/* When it is ready: its keys are asked for, once in a connection. */
struct gate_project *gate_project_get(struct gate_link *l, const char *name);
/* `id` is none of its any more; told when it is ready. */
void gate_forget(struct gate_link *l, const char *id, bool ended);
/* All that was said to it before is in force; waits for one that is away. */
void gate_sync(struct gate_link *l, struct gate_wait *w, gate_wait_fn *fn);

/* gate_secret.c: what doors hear and say of secrets. */
void gate_send_secrets(struct gate_link *l);
/* Behind its GATE_BOX: what it hears of itself. */
void gate_send_self(struct gate_link *l, struct sandbox *s);
void gate_secret_sealed(struct api *a, const struct gate_msg *m);

/* gate_box.c: what a door says of its sandboxes. */
void gate_box_have(struct gate_link *l, const char *id);
void gate_box_lost(struct gate_link *l, const char *id);
void gate_boxes_lost(struct gate_link *l);
void gate_boxes_ready(struct gate_link *l);
/* The keys of a project are here. */
void gate_boxes_keys(struct gate_link *l, const struct gate_project *p);
/* A secret of the project is another: who uses it, and who needs another door
 * now. */
void gate_boxes_moved(struct api *a, const char *project, const char *secret);
/* Its budget says that it is to stand still. */
void gate_box_pause(struct sandbox *s, const char *why);
/* The sandbox of this id, when this door has it. */
struct sandbox *gate_box_of(struct gate_link *l, const char *id);
