#include "gate/leaf.h"

#include <errno.h>

int ca_make(const char *project, struct buf *cert, struct buf *key,
	    struct err *e)
{
	(void)cert;
	(void)key;
	return err_set(e, ENOSYS, "authority of %s", project);
}

int ca_load(struct ca **out, const char *cert, const char *key, struct err *e)
{
	(void)out;
	(void)cert;
	(void)key;
	return err_set(e, ENOSYS, "authority");
}

void ca_free(struct ca *ca)
{
	(void)ca;
}

int leaves_new(struct leaves **out, struct err *e)
{
	(void)out;
	return err_set(e, ENOSYS, "certificates");
}

void leaves_free(struct leaves *l)
{
	(void)l;
}

struct tls_context *leaf_context(struct gate *g, struct project *p,
				 const char *host, struct err *e)
{
	(void)g;
	(void)p;
	err_set(e, ENOSYS, "certificate of %s", host);
	return NULL;
}
