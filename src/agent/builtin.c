#include "agent/builtin.h"

#include <string.h>

#include "base/auto.h"

static const struct builtin {
	const char *name;
	builtin_fn *fn;
} builtins[] = {
	{ "ps", builtin_ps }, /* [all] */
	/* wire/file.h */
	{ "file.stat", builtin_file },
	{ "file.list", builtin_file },
	{ "file.read", builtin_file },
	{ "file.write", builtin_file },
	{ "file.mkdir", builtin_file },
	{ "file.move", builtin_file },
	{ "file.copy", builtin_file },
	{ "file.remove", builtin_file },
	{ "file.chmod", builtin_file },
	{ "file.watch", builtin_file },
	{ "file.pack", builtin_file },
	{ "file.unpack", builtin_file },
};

builtin_fn *builtin_find(const char *name)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(builtins); i++)
		if (strcmp(builtins[i].name, name) == 0)
			return builtins[i].fn;
	return NULL;
}
