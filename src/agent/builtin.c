#include "agent/builtin.h"

#include <string.h>

#include "base/auto.h"

static const struct builtin {
	const char *name;
	builtin_fn *fn;
} builtins[] = {
	{ "ps", builtin_ps }, /* [all] */
};

builtin_fn *builtin_find(const char *name)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(builtins); i++)
		if (strcmp(builtins[i].name, name) == 0)
			return builtins[i].fn;
	return NULL;
}
