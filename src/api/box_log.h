/* What the log says of sandboxes that somebody asked for. */
#pragma once

#include <stdbool.h>

struct http_conn;
struct identity;
struct sandbox;

/* `run`: for one process, and gone with it. */
void box_log_create(const struct sandbox *s, const struct identity *who,
		    const struct http_conn *c, bool run);
void box_log_ready(const struct sandbox *s, const struct identity *who,
		   const struct http_conn *c);
