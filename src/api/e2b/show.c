/* Sandboxes in the words of E2B. */
#include <openssl/crypto.h>
#include <string.h>

#include "api/api.h"
#include "api/e2b/e2b.h"
#include "api/e2b/sandbox.h"
#include "api/reply.h"

/* One that has no end: a time that all clients can read. */
#define NEVER "9999-12-31T23:59:59.999Z"

const char *e2b_template_of(const struct sandbox *s)
{
	const char *t =
		json_string_value(json_object_get(e2b_kept(s), "template"));

	return t ? t : s->spec.image;
}

const json_t *e2b_metadata(const struct sandbox *s)
{
	const json_t *kept = e2b_kept(s);

	return kept ? json_object_get(kept, "metadata") : s->spec.labels;
}

bool e2b_is_paused(const struct sandbox *s)
{
	return s->state == BOX_PAUSED || s->state == BOX_SUSPENDED;
}

/*
 * Names of sandboxes are "PORT-ID" and this, which may have a port itself.
 * There always is one: without, SDKs would send tokens of ours to the service
 * that they were made for.
 */
static json_t *domain_json(const struct api *a, struct http_conn *c)
{
	const struct conf *conf = &a->conf;
	const char *host =
		http_is_local(c) ? NULL : http_header(http_request(c), "host");
	const char *colon = strrchr(host ? host : conf->listen, ':');

	return json_sprintf("%s%.6s",
			    *conf->domain ? conf->domain : "localhost",
			    colon && !strchr(colon, ']') ? colon : "");
}

static bool is_private(const struct sandbox *s)
{
	const json_t *network = json_object_get(e2b_kept(s), "network");

	return !e2b_kept(s) ||
	       json_is_false(json_object_get(network, "allowPublicTraffic"));
}

static void set_copy(json_t *to, const char *key, const json_t *v)
{
	if (v)
		json_object_set_new(to, key, json_deep_copy(v));
}

json_t *e2b_sandbox_json(struct api *a, struct http_conn *c,
			 const struct sandbox *s)
{
	char token[E2B_TOKEN_CAP], traffic[E2B_TOKEN_CAP];
	json_t *j;

	e2b_token(a, s->id, token);
	e2b_traffic_token(a, s->id, traffic);
	j = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s?, s:o}", "sandboxID",
		      s->id, "templateID", e2b_template_of(s), "clientID",
		      s->project, "envdVersion", E2B_ENVD_VERSION,
		      "envdAccessToken", token, "trafficAccessToken",
		      is_private(s) ? traffic : NULL, "domain",
		      domain_json(a, c));
	OPENSSL_cleanse(token, sizeof(token));
	OPENSSL_cleanse(traffic, sizeof(traffic));
	set_copy(j, "alias", json_object_get(e2b_kept(s), "alias"));
	return j;
}

/* When it ends; of one that is paused, when it began to be. */
static json_t *end_json(const struct sandbox *s)
{
	if (s->deadline_wall_ms)
		return json_time(s->deadline_wall_ms);
	if (e2b_is_paused(s) && s->pause.since_ms)
		return json_time(s->pause.since_ms);
	return json_string(NEVER);
}

json_t *e2b_listed_json(const struct sandbox *s)
{
	const struct spec *spec = &s->spec;
	const json_t *kept = e2b_kept(s), *metadata = e2b_metadata(s);
	json_t *j = json_pack(
		"{s:s, s:s, s:s, s:o, s:o, s:s, s:I, s:I, s:I, s:s, s:o}",
		"sandboxID", s->id, "templateID", e2b_template_of(s),
		"clientID", s->project, "startedAt", json_time(s->created_ms),
		"endAt", end_json(s), "state",
		e2b_is_paused(s) ? "paused" : "running", "cpuCount",
		(json_int_t)((spec->cpus_milli + 999) / 1000), "memoryMB",
		(json_int_t)(spec->mem_bytes >> 20), "diskSizeMB",
		(json_int_t)(spec->disk_bytes >> 20), "envdVersion",
		E2B_ENVD_VERSION, "metadata",
		metadata ? json_deep_copy(metadata) : json_object());

	set_copy(j, "alias", json_object_get(kept, "alias"));
	set_copy(j, "volumeMounts", json_object_get(kept, "volumeMounts"));
	return j;
}

json_t *e2b_detail_json(struct api *a, struct http_conn *c,
			const struct identity *who, const struct sandbox *s)
{
	const json_t *kept = e2b_kept(s);
	const char *action =
		json_string_value(json_object_get(kept, "timeoutAction"));
	char token[E2B_TOKEN_CAP];
	json_t *j = e2b_listed_json(s);

	e2b_token(a, s->id, token);
	if (who->scope >= SCOPE_USE)
		json_object_set_new(j, "envdAccessToken", json_string(token));
	OPENSSL_cleanse(token, sizeof(token));
	json_object_set_new(j, "domain", domain_json(a, c));
	json_object_set_new(
		j, "lifecycle",
		json_pack("{s:s, s:b}", "onTimeout",
			  strcmp(action ? action : s->spec.timeout_action,
				 "remove") == 0
				  ? "kill"
				  : "pause",
			  "autoResume",
			  json_is_true(json_object_get(kept, "autoResume"))));
	set_copy(j, "network", json_object_get(kept, "network"));
	set_copy(j, "allowInternetAccess",
		 json_object_get(kept, "allowInternetAccess"));
	return j;
}
