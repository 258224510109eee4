#include "gate/project.h"

#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "gate/box.h"
#include "gate/door.h"
#include "gate/leaf.h"
#include "gate/opened.h"
#include "vault/secret.h"

static struct project *find(struct gate *g, const char *name)
{
	struct list *n, *next;

	list_each (n, next, &g->projects) {
		struct project *p = container_of(n, struct project, node);

		if (strcmp(p->name, name) == 0)
			return p;
	}
	return NULL;
}

bool project_is_ours(const struct gate *g, const char *name)
{
	return !*g->door || strcmp(g->door, name) == 0;
}

struct project *project_get(struct gate *g, const char *name)
{
	struct project *p = find(g, name);

	if (p)
		return p;
	p = xcalloc(1, sizeof(*p));
	p->gate = g;
	memcpy(p->name, name, strlen(name) + 1);
	list_init(&p->secrets);
	list_add(&g->projects, &p->node);
	(void)sodium_mlock(p->private_key, sizeof(p->private_key));
	keeper_ask(g, WITHIN_KEYS, p->name);
	return p;
}

static void changed(struct project *p)
{
	struct list *n, *next;
	size_t i;

	for (i = 0; i < GATE_BUCKETS; i++)
		list_each (n, next, &p->gate->boxes[i]) {
			struct box *b = container_of(n, struct box, node);

			if (b->project == p)
				box_project_changed(b);
		}
}

/* --- keys --- */

static void tell_keys(struct project *p)
{
	struct gate_msg m = {
		.kind = GATE_KEYS,
		.project = p->name,
		.text = p->cert,
		.bytes = p->public_key,
		.n_bytes = sizeof(p->public_key),
	};

	p->keys_wanted = false;
	gate_tell(p->gate, &m);
}

void project_want_keys(struct project *p)
{
	if (p->ready) {
		tell_keys(p);
		return;
	}
	/* Asked when it was made; again when that came to nothing. */
	if (p->keys_wanted)
		keeper_ask(p->gate, WITHIN_KEYS, p->name);
	p->keys_wanted = true;
}

static int take_keys(struct project *p, const struct within_msg *m,
		     struct err *e)
{
	const unsigned char *pair = m->bytes;
	const size_t n = sizeof(p->public_key);

	if (m->n_bytes != n && m->n_bytes != 2 * n)
		return err_set(e, ENOKEY, "no keys: %s", m->one);
	if (strlen(m->one) > GATE_CA_MAX)
		return err_set(e, EMSGSIZE, "its certificate is too long");
	if (ca_load(&p->ca, m->one, m->two, e) < 0)
		return -e->code;
	p->cert = xstrdup(m->one);
	memcpy(p->public_key, pair, n);
	if (m->n_bytes == 2 * n)
		memcpy(p->private_key, pair + n, sizeof(p->private_key));
	return 0;
}

void project_keys_came(struct project *p, const struct within_msg *m)
{
	struct err e = { 0 };

	if (p->ready)
		return;
	if (take_keys(p, m, &e) < 0) {
		log_err("project %s: %s", p->name, e.msg);
		return;
	}
	p->ready = true;
	if (p->keys_wanted)
		tell_keys(p);
	changed(p);
}

/* --- secrets --- */

static void secret_drop(struct secret *s)
{
	list_del(&s->node);
	secret_done(s);
	free(s);
}

static bool drop_named(struct project *p, const char *name)
{
	struct list *n, *next;

	list_each (n, next, &p->secrets) {
		struct secret *s = container_of(n, struct secret, node);

		if (strcmp(s->name, name) == 0) {
			secret_drop(s);
			return true;
		}
	}
	return false;
}

void project_tell_sealed(struct project *p, const struct secret *s)
{
	gate_tell(p->gate, &(struct gate_msg){ .kind = GATE_SEALED,
					       .number = s->set,
					       .project = p->name,
					       .name = s->name,
					       .bytes = s->sealed,
					       .n_bytes = s->sealed_n });
}

/* Told again. What was renewed while the api was away it hears of now: a token
 * that was used once is worth nothing. */
static bool is_known(struct project *p, const struct secret *s)
{
	struct secret *old = secret_of(p, s->name);

	if (!old || !old->renewed || old->set != s->set)
		return false;
	old->round = p->gate->round;
	project_tell_sealed(p, old);
	return true;
}

int project_secret(struct project *p, uint64_t set, const void *packed,
		   size_t n)
{
	struct secret *s = xcalloc(1, sizeof(*s));
	int r = secret_unpack(s, packed, n);

	s->set = set;
	if (r < 0 || is_known(p, s)) {
		secret_done(s);
		free(s);
		return r;
	}
	drop_named(p, s->name);
	s->round = p->gate->round;
	list_add(&p->secrets, &s->node);
	changed(p);
	return 0;
}

void project_secret_gone(struct project *p, const char *name)
{
	if (drop_named(p, name))
		changed(p);
}

static bool drop_old(struct project *p)
{
	struct list *n, *next;
	bool any = false;

	list_each (n, next, &p->secrets) {
		struct secret *s = container_of(n, struct secret, node);

		if (s->round == p->gate->round)
			continue;
		secret_drop(s);
		any = true;
	}
	return any;
}

void projects_settle(struct gate *g)
{
	struct list *n, *next;

	list_each (n, next, &g->projects) {
		struct project *p = container_of(n, struct project, node);

		if (drop_old(p))
			changed(p);
	}
}

void projects_done(struct gate *g)
{
	struct list *n, *next, *s, *after;

	list_each (n, next, &g->projects) {
		struct project *p = container_of(n, struct project, node);

		list_each (s, after, &p->secrets)
			secret_drop(container_of(s, struct secret, node));
		list_del(&p->node);
		ca_free(p->ca);
		free(p->cert);
		sodium_memzero(p->private_key, sizeof(p->private_key));
		free(p);
	}
}
