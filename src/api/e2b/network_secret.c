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
#include "api/secrets.h"
#include "base/auto.h"
#include "base/base64.h"
#include "base/buf.h"
#include "vault/seal.h"
#include "vault/secret_json.h"

#define FILL "${e2b."
#define FILL_SECRET "${e2b.secrets."

static_assert(sizeof(OWN_SECRET) + 2 * OWN_SECRET_BYTES <= E2B_SECRET_CAP,
	      "names fit");
static_assert(SEAL_KEY == sizeof(((struct e2b_network *)0)->key), "so do keys");

static void seal_next(struct e2b_network *n);

/* --- secrets that there are already: "Bearer ${e2b.secrets.NAME}" --- */

static bool goes_to(const struct secret *s, const char *host)
{
	unsigned i;

	for (i = 0; i < s->n_hosts; i++)
		if (strcmp(s->hosts[i], host) == 0)
			return true;
	return false;
}

/* The header as that secret would write it. */
static int use_secret(const struct e2b_network *n, const struct e2b_header *h,
		      char out[NAME_CAP], struct err *e)
{
	const char *value = json_string_value(h->value);
	const char *at = strstr(value, FILL_SECRET), *end;
	AUTO(buf_done) struct buf line = { 0 };
	const struct project_secret *p;

	end = at ? strchr(at, '}') : NULL;
	if (!end || strstr(end, FILL))
		return err_set(e, EINVAL,
			       "network.rules: '%.64s' is not one "
			       "${e2b.secrets.NAME} in a text; identities are "
			       "not supported",
			       h->field);
	at += strlen(FILL_SECRET);
	snprintf(out, NAME_CAP, "%.*s", (int)(end - at), at);
	p = project_secret_find(n->api, n->project, out);
	if (!p)
		return err_set(e, EINVAL, "there is no secret '%s'", out);
	buf_add(&line, value, (size_t)(at - value) - strlen(FILL_SECRET));
	buf_printf(&line, "{}%s", end + 1);
	if (p->secret.kind == SECRET_HEADER && goes_to(&p->secret, h->host) &&
	    strcasecmp(p->secret.field, h->field) == 0 &&
	    strcmp(p->secret.template, buf_str(&line)) == 0)
		return 0;
	return err_set(e, EINVAL,
		       "secret '%s' is not for the header '%.64s: %.64s' of "
		       "%.64s: a secret says where it goes when it is set",
		       out, h->field, buf_str(&line), h->host);
}

/* --- the end --- */

static void wipe_value(json_t *v)
{
	explicit_bzero((char *)json_string_value(v), json_string_length(v));
	json_string_set(v, "");
}

static void wipe_all(struct e2b_network *n)
{
	size_t i;

	for (i = n->at; i < n->headers.n; i++)
		wipe_value(n->headers.all[i].value);
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
	inner_ask_close(&n->ask);
	for (i = 0; i < n->n_made; i++)
		own_secret_drop(n->api, n->project, n->names[i]);
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
	err_set(&e, status == 503 ? GATE_AWAY : EINVAL, "network.rules: %.200s",
		inner_message(status, answer));
	finish(n, &e);
}

static int new_name(char out[E2B_SECRET_CAP], struct err *e)
{
	unsigned char b[OWN_SECRET_BYTES];
	size_t i, at = strlen(OWN_SECRET);

	if (RAND_bytes(b, sizeof(b)) != 1)
		return err_set(e, EIO, "no random numbers");
	memcpy(out, OWN_SECRET, at);
	for (i = 0; i < sizeof(b); i++)
		snprintf(out + at + 2 * i, 3, "%02x", b[i]);
	return 0;
}

/* The secret as a native request sets it. */
static json_t *sealed_json(struct e2b_network *n, const struct e2b_header *h,
			   const char *name, struct err *e)
{
	AUTO(buf_done) struct buf sealed = { 0 }, text = { 0 };
	struct secret s = { .kind = SECRET_HEADER, .template = "{}" };
	json_t *j;

	list_init(&s.node);
	memcpy(s.name, name, strlen(name) + 1);
	memcpy(s.field, h->field, sizeof(s.field));
	if (secret_add_host(&s, h->host, e) < 0 || secret_check(&s, e) < 0 ||
	    secret_seal(&s, n->key, json_string_value(h->value),
			json_string_length(h->value), &sealed, e) < 0) {
		err_wrap(e, "network.rules: header '%.64s'", h->field);
		return NULL;
	}
	base64_add(&text, buf_data(&sealed), buf_len(&sealed));
	j = secret_to_json(&s);
	json_object_set_new(j, "sealed", json_string(buf_str(&text)));
	return j;
}

static int seal_one(struct e2b_network *n, const struct e2b_header *h,
		    struct err *e)
{
	struct identity who = n->who;
	char *name = n->names[n->n_made], target[160];
	json_t *j = NULL;

	if (new_name(name, e) == 0)
		j = sealed_json(n, h, name, e);
	wipe_value(h->value);
	if (!j)
		return -e->code;
	n->n_made++;
	who.scope = SCOPE_ADMIN;
	snprintf(target, sizeof(target), "/v1/secrets/%s?project=%s", name,
		 n->project);
	inner_ask_close(&n->ask);
	return inner_ask(&n->ask, n->api, &who, n->request_id, "PUT", target, j,
			 on_set, e);
}

static void seal_next(struct e2b_network *n)
{
	const struct e2b_header *h;
	char name[NAME_CAP];
	struct err e = { 0 };

	while (n->at < n->headers.n) {
		h = &n->headers.all[n->at++];
		if (!strstr(json_string_value(h->value), FILL)) {
			if (seal_one(n, h, &e) < 0)
				break;
			return;
		}
		if (use_secret(n, h, name, &e) < 0)
			break;
		add_name(n, name);
	}
	finish(n, e.code ? &e : NULL);
}

static void on_key(struct inner_ask *q, int status, json_t *answer)
{
	struct e2b_network *n = container_of(q, struct e2b_network, ask);
	const char *text =
		json_string_value(json_object_get(answer, "public_key"));
	AUTO(buf_done) struct buf key = { 0 };
	struct err e = { 0 };

	if (status == 200 && text &&
	    base64_get(&key, text, strlen(text)) == 0 &&
	    buf_len(&key) == SEAL_KEY) {
		memcpy(n->key, buf_data(&key), SEAL_KEY);
		seal_next(n);
		return;
	}
	err_set(&e, GATE_AWAY, "network.rules: the vault does not answer: %s",
		inner_message(status, answer));
	finish(n, &e);
}

int e2b_network_start(struct e2b_network *n, struct api *a,
		      const struct identity *who, const char *project,
		      const char *request_id, json_t *network,
		      const json_t *internet, json_t *spec,
		      e2b_network_fn *done, struct err *e)
{
	json_t *rules =
		e2b_network_rules(network, internet, a->conf.e2b_internet, e);
	char target[128];

	if (!rules)
		return -e->code;
	if (e2b_network_headers(network, &n->headers, e) < 0) {
		json_decref(rules);
		return -e->code;
	}
	json_object_set_new(spec, "rules", rules);
	json_object_set_new(spec, "secrets", json_array());
	if (n->headers.n == 0)
		return 1;
	n->api = a;
	n->who = *who;
	n->spec = spec;
	n->done = done;
	n->at = 0;
	snprintf(n->project, sizeof(n->project), "%s", project);
	snprintf(n->request_id, sizeof(n->request_id), "%s", request_id);
	snprintf(target, sizeof(target), "/v1/vault/key?project=%s", project);
	return inner_ask(&n->ask, a, who, request_id, "GET", target, NULL,
			 on_key, e);
}
