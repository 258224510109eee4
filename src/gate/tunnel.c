#include "gate/tunnel.h"

void tunnel_start(struct tunnel *t, struct http_stream *inside,
		  struct http_stream *outside, struct buf *up, struct buf *down)
{
	(void)t;
	(void)up;
	(void)down;
	http_stream_close(inside);
	http_stream_close(outside);
}

void tunnel_end(struct tunnel *t)
{
	(void)t;
}
