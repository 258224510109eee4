#include "api/pools.h"

#include "api/api.h"
#include "api/e2b/build.h"
#include "api/inner.h"
#include "api/wake.h"
#include "base/auto.h"

/* clang-format off */
static const struct {
	size_t at;
	uint64_t max;
	const char *what;
} table[] = {
	{ offsetof(struct pools, drive_puts), DRIVE_PUTS_MAX, "drive puts" },
	{ offsetof(struct pools, held), HELD_MAX,
	  "requests that wait for sandboxes" },
	{ offsetof(struct pools, relays), RELAYS_MAX, "upgraded connections" },
	{ offsetof(struct pools, ports), PORTS_MAX, "connections to ports" },
	{ offsetof(struct pools, inner), INNER_MAX, "translated requests" },
	{ offsetof(struct pools, surveys), SURVEYS_MAX, "requests for figures" },
	{ offsetof(struct pools, readers), READERS_MAX, "readers of the log" },
	{ offsetof(struct pools, ps_bytes), PS_BYTES_MAX,
	  "bytes of process lists" },
	{ offsetof(struct pools, output), OUTPUT_MAX_ALL,
	  "bytes of command output" },
	{ offsetof(struct pools, archives), BUILD_PUTS_MAX, "archives for builds" },
	{ offsetof(struct pools, volumes), VOLUME_BOXES_MAX,
	  "volumes that are looked at" },
	{ offsetof(struct pools, sessions), MCP_SESSIONS_MAX, "MCP sessions" },
	{ offsetof(struct pools, bodies), MCP_BODIES_MAX,
	  "bytes of MCP messages on their way" },
	{ offsetof(struct pools, messages), MCP_HELD_ALL_MAX,
	  "bytes of MCP messages under way" },
};
/* clang-format on */

void pools_init(struct pools *p)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(table); i++) {
		struct pool *one = (struct pool *)((char *)p + table[i].at);

		*one = (struct pool){ .max = table[i].max,
				      .what = table[i].what };
	}
}
