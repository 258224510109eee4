/* carrel events: what happens, as it happens. */
#include <poll.h>
#include <string.h>

#include "cli/entries.h"
#include "cli/server.h"
#include "http/target.h"

enum { AGAIN_MS = 300, GIVE_UP_MS = 60 * 1000 };

int verb_events(struct cli *cli, int argc, char **argv)
{
	struct entries e = { .cli = cli, .patience_ms = GIVE_UP_MS };
	struct entries_query q = { 0 };
	const char *box = NULL;
	uint64_t after = UINT64_MAX;
	const struct opt table[] = {
		{ "sandbox", 0, OPT_TEXT, &box, "SANDBOX",
		  "only what concerns it" },
		{ "type", 't', OPT_TEXT, &q.type, "START",
		  "only types that start so: sandbox., process.exit" },
		{ "after", 0, OPT_NUMBER, &after, "NUMBER",
		  "also what came behind this entry (0: everything)" },
		{ "json", 0, OPT_FLAG, &e.json, NULL, "entries as they are" },
		OPT_HELP(cli),
		{ 0 },
	};
	struct buf path = { 0 }, target = { 0 };

	if (cli_operands(cli, table, argc, argv) > 0)
		cli_usage_error(cli, "takes no operands");
	buf_puts(&path, "/v1/events");
	if (box) {
		buf_puts(&path, "?sandbox=");
		http_encode(&path, box);
	}
	q.has_after = after != UINT64_MAX;
	q.after = after;
	/*
	 * Until the user interrupts it; meanwhile the daemon may be away for a
	 * minute, to be restarted or upgraded.
	 */
	for (;;) {
		buf_clear(&target);
		entries_target(&target, buf_str(&path), &q);
		entries_read(&e, buf_str(&target));
		if (e.seq > 0) {
			q.has_after = true;
			q.after = e.seq;
		}
		poll(NULL, 0, AGAIN_MS);
	}
}
