#include "agent/builtin.h"

#include <string.h>

#include "base/auto.h"

static const struct builtin builtins[] = {
	{ "ps", builtin_ps, false },            /* [all] */
	{ "drive.door", builtin_drive, false }, /* wire/drive.h */
	/* wire/file.h */
	{ "file.stat", builtin_file, false },
	{ "file.list", builtin_file, false },
	{ "file.read", builtin_file, false },
	{ "file.write", builtin_file, false },
	{ "file.mkdir", builtin_file, false },
	{ "file.move", builtin_file, false },
	{ "file.copy", builtin_file, false },
	{ "file.remove", builtin_file, false },
	{ "file.chmod", builtin_file, false },
	{ "file.watch", builtin_file, false },
	{ "file.pack", builtin_file, false },
	{ "file.unpack", builtin_file, false },
	{ "host.merge", builtin_file, true },
	{ "host.lay", builtin_file, true },
	{ "host.door", builtin_file, true },
};

const struct builtin *builtin_find(const char *name)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(builtins); i++)
		if (strcmp(builtins[i].name, name) == 0)
			return &builtins[i];
	return NULL;
}
