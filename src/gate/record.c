#include "gate/record.h"

int recorder_new(struct recorder **out, struct gate *g, int spool_fd,
		 struct err *e)
{
	(void)out;
	(void)g;
	(void)spool_fd;
	(void)e;
	return 0;
}

void recorder_free(struct recorder *r)
{
	(void)r;
}

int record_ready(struct gate *g, struct err *e)
{
	(void)g;
	(void)e;
	return 0;
}

int record_request(struct gate *g, struct egress *x, struct err *e)
{
	(void)g;
	(void)x;
	(void)e;
	return 0;
}

void record_denied(struct gate *g, const struct egress *x, const char *why)
{
	(void)g;
	(void)x;
	(void)why;
}

void record_done(struct gate *g, const struct egress *x,
		 const struct egress_end *end)
{
	(void)g;
	(void)x;
	(void)end;
}

int record_event(struct gate *g, const struct box *b, const char *type,
		 const char *json, struct err *e)
{
	(void)g;
	(void)b;
	(void)type;
	(void)json;
	(void)e;
	return 0;
}

void record_string(struct buf *out, const char *s)
{
	buf_printf(out, "\"%s\"", s);
}
