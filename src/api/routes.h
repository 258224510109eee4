/* The table of requests, and one handler for each. */
#pragma once

struct api;
struct http_conn;

/* http_server's on_request; `ctx` is the struct api. */
void route(struct http_conn *c, void *ctx);

/* `ref` is the {part} of the path; copied by who needs it for longer. */
typedef void handler_fn(struct api *a, struct http_conn *c, const char *ref);

handler_fn h_sandbox_create, h_sandbox_list, h_sandbox_get, h_sandbox_delete;
handler_fn h_sandbox_delete_all, h_exec, h_run;
handler_fn h_image_list, h_image_put, h_image_delete;
handler_fn h_host, h_metrics;
