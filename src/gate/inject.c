#include "gate/inject.h"

#include <errno.h>

bool inject_needs_look(const struct box *b, const char *host, uint16_t port)
{
	(void)b;
	(void)host;
	(void)port;
	return false;
}

bool inject_wants_body(const struct box *b, const struct request *r,
		       const struct http_head *head, size_t *max)
{
	(void)b;
	(void)r;
	(void)head;
	*max = 0;
	return false;
}

void inject_start(struct inject *j, inject_fn *done)
{
	struct err e = { 0 };

	done(j, &e);
}

void inject_cancel(struct inject *j)
{
	(void)j;
}

void inject_done(struct inject *j)
{
	(void)j;
}

const struct scan_set *inject_canaries(struct box *b)
{
	(void)b;
	return NULL;
}

void inject_canary(struct box *b, const struct request *r, unsigned label,
		   struct err *e)
{
	(void)b;
	(void)r;
	(void)label;
	err_set(e, EACCES, "a canary");
}

void inject_mask_text(struct inject *j, const char *text, struct buf *out)
{
	(void)j;
	buf_puts(out, text);
}

void inject_forget(struct box *b)
{
	(void)b;
}

int totp_code(struct box *b, const char *name, char out[TOTP_CAP],
	      struct err *e)
{
	(void)b;
	*out = '\0';
	return err_set(e, ENOENT, "no secret '%.64s'", name);
}

int totp_code_of(struct project *p, const char *name, char out[TOTP_CAP],
		 struct err *e)
{
	(void)p;
	*out = '\0';
	return err_set(e, ENOENT, "no secret '%.64s'", name);
}
