#include "gate/gate.h"

struct box *box_find(struct gate *g, const char *id)
{
	(void)g;
	(void)id;
	return NULL;
}

void gate_tell(struct gate *g, const struct gate_msg *m)
{
	(void)g;
	(void)m;
}
