/* What doors hear of secrets: those of their own project, sealed. */
#include <string.h>

#include "api/api.h"
#include "api/gate_link.h"
#include "api/secrets.h"
#include "base/auto.h"
#include "base/buf.h"

static void send_one(struct gate_link *l, const struct project_secret *p)
{
	AUTO(buf_done) struct buf b = { 0 };
	struct gate_msg m = { .kind = GATE_SECRET,
			      .number = p->updated_ms,
			      .project = p->project };

	secret_pack(&b, &p->secret);
	m.bytes = buf_data(&b);
	m.n_bytes = buf_len(&b);
	gate_send(l, &m, NULL, 0);
}

void gate_send_secrets(struct gate_link *l)
{
	/* That was all: what is not among them was removed. */
	const struct gate_msg all = { .kind = GATE_SYNC };
	struct list *n, *next;

	list_each (n, next, &l->api->secrets.all) {
		const struct project_secret *p =
			container_of(n, struct project_secret, node);

		if (strcmp(p->project, l->door) == 0)
			send_one(l, p);
	}
	gate_send(l, &all, NULL, 0);
}

void gate_secret_sealed(struct api *a, const struct gate_msg *m)
{
	struct project_secret *p = project_secret_find(a, m->project, m->name);

	/* Somebody may have set another one meanwhile: that one stays. */
	if (p && p->updated_ms == m->number)
		project_secret_renewed(a, m->project, m->name, m->bytes,
				       m->n_bytes);
}

/* The door of the project is there, or hears it when it is. */
void gate_secret_changed(struct api *a, const char *project, const char *name)
{
	const struct project_secret *p = project_secret_find(a, project, name);
	struct gate_link *l = gate_link_find(a, project);
	const struct gate_msg gone = { .kind = GATE_SECRET_GONE,
				       .project = project,
				       .name = name };

	if (l && l->ready && p)
		send_one(l, p);
	else if (l && l->ready)
		gate_send(l, &gone, NULL, 0);
	gate_boxes_moved(a, project, name);
}

int gate_secret_settle(struct api *a, const char *project, struct gate_wait *w,
		       gate_wait_fn *fn)
{
	struct gate_link *l = gate_link_find(a, project);

	if (!l || !l->ready)
		return 1;
	gate_sync(l, w, fn);
	return 0;
}
