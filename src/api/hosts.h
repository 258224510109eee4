/*
 * Which names a client may call us by, over TCP.
 *
 * A browser sends to 127.0.0.1 whatever a page of evil.example tells it to,
 * and by changing its DNS even as the same origin (DNS rebinding). Two fields
 * tell: Host must be a name of ours, and Origin, which browsers add and pages
 * cannot, must be the same.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/conf.h"
#include "base/str.h"

struct api;
struct http_conn;

/*
 * localhost, 127.0.0.1, [::1], the address of `listen` (every address, when
 * that is a wildcard), `domain` and what is below it, `allowed_hosts`; each
 * with any port or none. `host`: as the field has it.
 */
bool host_is_ours(const struct conf *c, const char *host);
/* localhost, what is below it, 127.0.0.1, [::1]; with any port or none. */
bool host_is_loopback(const char *host);
/* "http://host:port" of the same host and port as `host`? */
bool origin_is_same(const char *origin, const char *host);
/* "8080-iabc....domain": the port of a sandbox, by a name of its own. */
bool host_is_preview(const struct conf *c, const char *host, uint16_t *port,
		     char id[ID_CAP]);

/* May it pass? If not, it was answered. Unix sockets always may. */
bool hosts_check(struct api *a, struct http_conn *c);
