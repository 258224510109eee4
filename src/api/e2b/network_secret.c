/*
 * Headers that a sandbox's requests get on their way out, and never sees: each
 * value becomes a secret of the project, sealed for its door before anything
 * else is done with it, and removed with the last sandbox that has it.
 *
 * Who may make a sandbox may give it headers: the value is the client's own,
 * the name of the secret is made here and can be nobody else's. So these are
 * set with the scope of an administrator; all other limits hold.
 */
#include <assert.h>
#include <errno.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "api/e2b/network.h"
#include "api/e2b/sealed.h"
#include "api/e2b/secret.h"
#include "api/secrets.h"
#include "base/auto.h"
#include "base/buf.h"

#define FILL "${e2b."
#define FILL_SECRET "${e2b.secrets."

static_assert(sizeof(OWN_SECRET) + 2 * OWN_SECRET_BYTES <= E2B_SECRET_CAP,
	      "names fit");
static_assert(SEAL_KEY == sizeof(((struct e2b_network *)0)->key), "so do keys");

static void seal_next(struct e2b_network *n);

/* --- "Bearer ${e2b.secrets.NAME}" --- */

static bool is_fill(const struct e2b_header *h)
{
	return strstr(json_string_value(h->value), FILL) != NULL;
}

/* The name, and the value with {} in its place, as templates have it. */
static int read_fill(const struct e2b_header *h, char name[NAME_CAP],
		     struct buf *template, struct err *e)
{
	const char *value = json_string_value(h->value);
	const char *at = strstr(value, FILL_SECRET), *end;
	char given[NAME_CAP * 2];

	end = at ? strchr(at, '}') : NULL;
	if (!end || strstr(end, FILL))
		return err_set(e, EINVAL,
			       "network.rules: '%.64s' is not a text with one "
			       "${e2b.secrets.NAME}; identities are not "
			       "supported",
			       h->field);
	buf_add(template, value, (size_t)(at - value));
	buf_printf(template, "{}%s", end + 1);
	at += strlen(FILL_SECRET);
	snprintf(given, sizeof(given), "%.*s", (int)(end - at), at);
	return e2b_secret_name(given, name, e);
}

static bool goes_to(const struct secret *s, const char *host)
{
	unsigned i;

	for (i = 0; i < s->n_hosts; i++)
		if (strcmp(s->hosts[i], host) == 0)
			return true;
	return false;
}

/* A secret of ours that does just that. */
static bool does(const struct secret *s, const struct e2b_header *h,
		 const char *template)
{
	return s->kind == SECRET_HEADER && goes_to(s, h->host) &&
	       strcasecmp(s->field, h->field) == 0 &&
	       strcmp(s->template, template) == 0;
}

/* --- the end --- */

static void wipe_all(struct e2b_network *n)
{
	size_t i;

	for (i = n->at; i < n->headers.n; i++)
		e2b_wipe(n->headers.all[i].value);
	n->headers.n = 0;
}

void e2b_network_keep(struct e2b_network *n)
{
	n->n_made = 0;
}

void e2b_network_done(struct e2b_network *n)
{
	size_t i;

	if (!n->api)
		return;
	/* A request that is given up may have been read already. */
	n->applying |= n->ask.in.api != NULL;
	inner_ask_close(&n->ask);
	for (i = 0; i < n->n_made; i++)
		(n->applying ? own_secret_drop_late : own_secret_drop)(
			n->api, n->project, n->names[i]);
	n->n_made = 0;
	wipe_all(n);
	n->api = NULL;
}

static void finish(struct e2b_network *n, const struct err *e)
{
	wipe_all(n);
	n->done(n, e);
}

static void add_name(struct e2b_network *n, const char *name)
{
	json_array_append_new(json_object_get(n->spec, "secrets"),
			      json_string(name));
}

/* --- sealing --- */

static void on_set(struct inner_ask *q, int status, json_t *answer)
{
	struct e2b_network *n = container_of(q, struct e2b_network, ask);
	struct err e = { 0 };

	if (status == 200) {
		add_name(n, n->names[n->n_made - 1]);
		seal_next(n);
		return;
	}
	err_set(&e,
		status == 503   ? GATE_AWAY
		: status == 403 ? EPERM
				: EINVAL,
		"network.rules: %.200s", inner_message(status, answer));
	finish(n, &e);
}

static int new_name(char out[E2B_SECRET_CAP], struct err *e)
{
	unsigned char b[OWN_SECRET_BYTES];
	size_t i, at = strlen(OWN_SECRET);

	if (RAND_bytes(b, sizeof(b)) != 1)
		return err_set(e, EIO, "no random numbers");
	snprintf(out, E2B_SECRET_CAP, OWN_SECRET);
	for (i = 0; i < sizeof(b); i++)
		snprintf(out + at + 2 * i, 3, "%02x", b[i]);
	return 0;
}

/*
 * A new secret for this header. Sealed with the value, or with the name of the
 * text that it carries; the latter with no more rights than the client has.
 */
static int set_one(struct e2b_network *n, const struct e2b_header *h,
		   const char *template, json_t *value, struct err *e)
{
	struct secret s = { .kind = value == h->value ? SECRET_HEADER
						      : SECRET_FILL };
	struct identity who = n->who;
	char *name = n->names[n->n_made], target[160];
	json_t *j = NULL;

	if (own_secret_allowed(n->api, n->project, e) < 0)
		return -e->code;
	list_init(&s.node);
	memcpy(s.field, h->field, sizeof(s.field));
	if (str_copy(s.template, sizeof(s.template), template) < 0)
		err_set(e, EINVAL, "its value is too long");
	else if (new_name(name, e) == 0 && secret_add_host(&s, h->host, e) == 0)
		memcpy(s.name, name, strlen(name) + 1);
	if (!e->code)
		j = e2b_sealed(&s, n->key, value, e);
	if (!j)
		return err_wrap(e, "network.rules: header '%.64s'", h->field);
	n->n_made++;
	if (s.kind == SECRET_HEADER)
		who.scope = SCOPE_ADMIN;
	snprintf(target, sizeof(target), "/v1/secrets/%s?project=%s", name,
		 n->project);
	inner_ask_close(&n->ask);
	return inner_ask(&n->ask,
			 &(struct inner_json){ n->api, &who, n->request_id,
					       "PUT", target, j, on_set },
			 e);
}

/* 1: there was nothing to wait for. */
static int fill_one(struct e2b_network *n, const struct e2b_header *h,
		    struct err *e)
{
	AUTO(buf_done) struct buf template = { 0 };
	const struct project_secret *p;
	char name[NAME_CAP];
	json_t *value;
	int r;

	if (read_fill(h, name, &template, e) < 0)
		return -e->code;
	p = project_secret_find(n->api, n->project, name);
	if (p && does(&p->secret, h, buf_str(&template))) {
		add_name(n, name);
		return 1;
	}
	if (!p)
		return err_set(e, EINVAL, "there is no secret '%s'", name);
	if (p->secret.kind != SECRET_TEXT)
		return err_set(e, EINVAL,
			       "secret '%s' is not for the header '%.64s: "
			       "%.64s' of %.64s",
			       name, h->field, buf_str(&template), h->host);
	value = json_string(name);
	r = set_one(n, h, buf_str(&template), value, e);
	json_decref(value);
	return r;
}

static void seal_next(struct e2b_network *n)
{
	const struct e2b_header *h;
	struct err e = { 0 };
	int r = 1;

	while (r == 1 && n->at < n->headers.n) {
		h = &n->headers.all[n->at++];
		r = is_fill(h) ? fill_one(n, h, &e)
			       : set_one(n, h, "{}", h->value, &e);
	}
	if (r < 0)
		finish(n, &e);
	else if (r == 1)
		finish(n, NULL);
}

static void on_key(struct inner_ask *q, int status, json_t *answer)
{
	struct e2b_network *n = container_of(q, struct e2b_network, ask);
	struct err e = { 0 };

	if (e2b_vault_key(status, answer, n->key, &e) < 0)
		finish(n, &e);
	else
		seal_next(n);
}

int e2b_network_start(struct e2b_network *n, struct api *a,
		      const struct e2b_network_ask *q, e2b_network_fn *done,
		      struct err *e)
{
	json_t *rules = e2b_network_rules(q->network, q->internet,
					  a->conf.e2b_internet, e);
	char target[128];

	if (!rules)
		return -e->code;
	if (e2b_network_headers(q->network, &n->headers, e) < 0) {
		json_decref(rules);
		return -e->code;
	}
	json_object_set_new(q->spec, "rules", rules);
	json_object_set_new(q->spec, "secrets", json_array());
	if (n->headers.n == 0)
		return 1;
	/* The native request would say so, but only behind the secrets. */
	if (q->who->scope < SCOPE_USE)
		return err_set(e, EPERM,
			       "the scope of this key is '%s', '%s' is needed",
			       scope_word(q->who->scope),
			       scope_word(SCOPE_USE));
	n->api = a;
	n->who = *q->who;
	n->spec = q->spec;
	n->done = done;
	n->at = 0;
	snprintf(n->project, sizeof(n->project), "%s", q->project);
	snprintf(n->request_id, sizeof(n->request_id), "%s", q->request_id);
	snprintf(target, sizeof(target), "/v1/vault/key?project=%s",
		 q->project);
	return inner_ask(&n->ask,
			 &(struct inner_json){ a, q->who, q->request_id, "GET",
					       target, NULL, on_key },
			 e);
}
