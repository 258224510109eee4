#include "sandbox/vm/patience.h"

enum { FACTOR_MAX = 1000 };

static uint64_t factor = 1;

void vm_patience_set(uint64_t f)
{
	factor = f < 1 ? 1 : f > FACTOR_MAX ? FACTOR_MAX : f;
}

uint64_t vm_patience(uint64_t ms)
{
	return ms * factor;
}
