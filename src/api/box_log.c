#include "api/box_log.h"

#include "api/api.h"
#include "api/audit.h"

/* Without its environment: that has people's secrets. */
static json_t *what_was_asked(const struct sandbox *s, bool run)
{
	const struct spec *p = &s->spec;

	return json_pack("{s:s, s:s, s:s?, s:b, s:f, s:I, s:I, s:I, s:I}",
			 "image", p->image, "image_id", s->image_id, "name",
			 *p->name ? p->name : NULL, "run", run, "cpus",
			 (double)p->cpus_milli / 1000, "memory",
			 (json_int_t)p->mem_bytes, "disk",
			 (json_int_t)p->disk_bytes, "pids", (json_int_t)p->pids,
			 "timeout", (json_int_t)(p->timeout_ms / 1000));
}

void box_log_create(const struct sandbox *s, const struct identity *who,
		    const struct http_conn *c, bool run)
{
	audit_add(s->api, &(struct audit){ .type = "sandbox.create",
					   .box = s,
					   .who = who,
					   .request_id = http_request_id(c),
					   .data = what_was_asked(s, run) });
}

void box_log_ready(const struct sandbox *s, const struct identity *who,
		   const struct http_conn *c)
{
	audit_add(s->api, &(struct audit){ .type = "sandbox.ready",
					   .box = s,
					   .who = who,
					   .request_id = http_request_id(c) });
}
