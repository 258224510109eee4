/* Variables that processes of a sandbox with a door have, unless its spec or
 * the request says otherwise. */
#pragma once

struct door_var {
	const char *name, *value;
};

extern const struct door_var door_vars[]; /* ends at name NULL */
