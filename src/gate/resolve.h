/* Names, for real (resolve.c). */
#pragma once

#include "gate/gate.h"

/*
 * What the host's resolv.conf and hosts say, when a door starts and whenever
 * they change; both may be "". Makes g->resolver the first time.
 */
int resolver_set(struct gate *g, const char *resolv, const char *hosts,
		 struct err *e) MUST_CHECK;
/* NULL is fine. */
void resolver_free(struct resolver *r);
