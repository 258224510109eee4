/* carrel usage: what was used over time, by project or by sandbox. */
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/product.h"
#include "cli/server.h"
#include "cli/show.h"
#include "http/target.h"

static void show_cpu(const json_t *j, char out[SHOW_CAP])
{
	snprintf(out, SHOW_CAP, "%.2f s",
		 json_number_value(json_object_get(j, "cpu_us")) / 1e6);
}

/* Byte-seconds as people pay for them. */
static void show_hours(const json_t *j, const char *key, char out[SHOW_CAP])
{
	double v = json_number_value(json_object_get(j, key));

	snprintf(out, SHOW_CAP, "%.3f GiB h", v / 3600 / (1 << 30));
}

static void print_projects(const json_t *list)
{
	static const char *const titles[] = { "PROJECT",  "SANDBOXES",
					      "CPU TIME", "MEMORY",
					      "DISK",     "OUTPUT",
					      "EGRESS" };
	struct table t;
	json_t *p;
	size_t i;

	table_init(&t, titles, ARRAY_LEN(titles));
	json_array_foreach ((json_t *)list, i, p) {
		char n[SHOW_CAP], cpu[SHOW_CAP], memory[SHOW_CAP],
			disk[SHOW_CAP], output[SHOW_CAP], egress[SHOW_CAP];
		const char *cells[] = { show_str(p, "project"),
					n,
					cpu,
					memory,
					disk,
					output,
					egress };

		show_number(p, "sandboxes", n);
		show_cpu(p, cpu);
		show_hours(p, "memory_byte_s", memory);
		show_hours(p, "disk_byte_s", disk);
		show_size(p, "output_bytes", output);
		show_egress(p, egress);
		table_row(&t, cells);
	}
	table_print(&t);
	table_done(&t);
}

static void print_sandboxes(const json_t *list)
{
	static const char *const titles[] = { "SANDBOX", "PROJECT", "CPU TIME",
					      "MEMORY",  "DISK",    "OUTPUT",
					      "EGRESS",  "STARTED", "ENDED" };
	struct table t;
	json_t *b;
	size_t i;

	table_init(&t, titles, ARRAY_LEN(titles));
	json_array_foreach ((json_t *)list, i, b) {
		char id[SHOW_CAP], cpu[SHOW_CAP], memory[SHOW_CAP],
			disk[SHOW_CAP], output[SHOW_CAP], egress[SHOW_CAP];
		const char *ended = show_str(b, "ended_at");
		const char *cells[] = { id,
					show_str(b, "project"),
					cpu,
					memory,
					disk,
					output,
					egress,
					show_str(b, "started_at"),
					*ended ? ended : "-" };

		show_id(b, "sandbox", id);
		show_cpu(b, cpu);
		show_hours(b, "memory_byte_s", memory);
		show_hours(b, "disk_byte_s", disk);
		show_size(b, "output_bytes", output);
		show_egress(b, egress);
		table_row(&t, cells);
	}
	table_print(&t);
	table_done(&t);
}

static void add_query(struct buf *b, const char *name, const char *value)
{
	if (!value)
		return;
	buf_printf(b, "%s%s=", strchr(buf_str(b), '?') ? "&" : "?", name);
	http_encode(b, value);
}

/* "2026-01-31T08:15:30Z", or a time ago: "7d". */
static const char *when(const char *word, char out[CLOCK_STAMP])
{
	uint64_t ago, now = clock_wall_ms();

	if (!word || parse_duration(word, &ago) < 0)
		return word;
	clock_stamp(ago < now ? now - ago : 0, out);
	return out;
}

int verb_usage(struct cli *cli, int argc, char **argv)
{
	const char *project = NULL, *since = NULL, *until = NULL;
	bool each = false, json = false;
	const struct opt table[] = {
		{ "project", 0, OPT_TEXT, &project, "PROJECT",
		  "only of this one" },
		{ "since", 0, OPT_TEXT, &since, "TIME",
		  "sandboxes that lived after it: 7d (ago), or "
		  "2026-01-31T08:15:30Z" },
		{ "until", 0, OPT_TEXT, &until, "TIME",
		  "sandboxes that lived before it" },
		{ "sandboxes", 's', OPT_FLAG, &each, NULL,
		  "each sandbox, the newest first, instead of sums" },
		{ "json", 0, OPT_FLAG, &json, NULL, "as JSON" },
		OPT_HELP(cli),
		{ 0 },
	};
	char from[CLOCK_STAMP], to[CLOCK_STAMP];
	struct buf target = { 0 };
	json_t *j;

	if (cli_operands(cli, table, argc, argv) > 0)
		cli_usage_error(cli, "takes no operands");
	buf_puts(&target, "/v1/usage");
	add_query(&target, "project", project);
	add_query(&target, "since", when(since, from));
	add_query(&target, "until", when(until, to));
	j = server_get(cli, "GET", buf_str(&target), NULL);
	buf_done(&target);
	if (json)
		print_json(j);
	else if (each)
		print_sandboxes(json_object_get(j, "usage"));
	else
		print_projects(json_object_get(j, "projects"));
	json_decref(j);
	return 0;
}
