/* carrel stats and carrel top: what sandboxes use. */
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "cli/server.h"
#include "cli/show.h"
#include "cli/term.h"

enum { ONCE_MS = 500, FIRST_MS = 200, LINE_CAP = 512 };

/* --- stats --- */

static int stats_of(struct cli *cli, const char *ref, bool json)
{
	char base[TARGET_CAP], target[TARGET_CAP + 8];
	json_t *j;

	server_target(cli, base, "/v1/sandboxes/", ref);
	snprintf(target, sizeof(target), "%s/stats", base);
	j = server_get(cli, "GET", target, NULL);
	if (json)
		print_json(j);
	else
		show_tree(j, 0);
	json_decref(j);
	return 0;
}

static void cpu_time(const json_t *b, char out[SHOW_CAP])
{
	json_int_t us = json_integer_value(json_object_get(b, "cpu_us"));

	snprintf(out, SHOW_CAP, "%.2f s", (double)us / 1e6);
}

static int stats_of_all(struct cli *cli, bool json)
{
	static const char *const titles[] = { "ID",     "NAME",  "CPU TIME",
					      "MEMORY", "DISK",  "PIDS",
					      "OUTPUT", "EGRESS" };
	json_t *j = server_get(cli, "GET", "/v1/stats", NULL), *b;
	struct table t;
	size_t i;

	table_init(&t, titles, ARRAY_LEN(titles));
	json_array_foreach (json_object_get(j, "sandboxes"), i, b) {
		char id[SHOW_CAP], cpu[SHOW_CAP], memory[SHOW_CAP],
			disk[SHOW_CAP], pids[SHOW_CAP], output[SHOW_CAP],
			egress[SHOW_CAP];
		const char *name = show_str(b, "name");
		const char *cells[] = { id,     *name ? name : "-",
					cpu,    memory,
					disk,   pids,
					output, egress };

		show_id(b, "id", id);
		cpu_time(b, cpu);
		show_size(b, "memory_bytes", memory);
		show_size(b, "disk_bytes", disk);
		show_number(b, "pids", pids);
		show_size(b, "output_bytes", output);
		show_egress(b, egress);
		table_row(&t, cells);
	}
	if (json)
		print_json(j);
	else
		table_print(&t);
	table_done(&t);
	json_decref(j);
	return 0;
}

int verb_stats(struct cli *cli, int argc, char **argv)
{
	bool json = false;
	const struct opt table[] = {
		{ "json", 0, OPT_FLAG, &json, NULL, "as JSON" },
		OPT_HELP(cli),
		{ 0 },
	};
	int n = cli_operands(cli, table, argc, argv);

	if (n > 1)
		cli_usage_error(cli, "one sandbox, or none for all of them");
	return n == 1 ? stats_of(cli, argv[1], json) : stats_of_all(cli, json);
}

/* --- top --- */

struct sample {
	json_t *j;
	uint64_t at_ms;
};

struct line {
	double cpu; /* per cent of one processor */
	char text[LINE_CAP];
};

static struct sample take_sample(struct cli *cli)
{
	struct sample s = { .at_ms = clock_boot_ms() };

	s.j = server_get(cli, "GET", "/v1/stats", NULL);
	return s;
}

/* The same sandbox in another sample; they come in the same order mostly. */
static const json_t *same_box(const json_t *list, const json_t *b, size_t hint)
{
	const char *id = show_str(b, "id");
	size_t i, n = json_array_size(list);

	for (i = 0; i < n; i++) {
		const json_t *o = json_array_get(list, (hint + i) % n);

		if (strcmp(show_str(o, "id"), id) == 0)
			return o;
	}
	return NULL;
}

static double cpu_share(const json_t *b, const json_t *before, uint64_t ms)
{
	json_int_t d = json_integer_value(json_object_get(b, "cpu_us")) -
		       json_integer_value(json_object_get(before, "cpu_us"));

	return before && ms > 0 && d > 0 ? (double)d / 10.0 / (double)ms : 0;
}

static void make_line(struct line *l, const json_t *b)
{
	char id[SHOW_CAP], memory[SHOW_CAP], disk[SHOW_CAP], pids[SHOW_CAP],
		name[24];

	show_id(b, "id", id);
	show_size(b, "memory_bytes", memory);
	show_size(b, "disk_bytes", disk);
	show_number(b, "pids", pids);
	snprintf(name, sizeof(name), "%s", show_str(b, "name"));
	snprintf(l->text, sizeof(l->text),
		 "%-12s  %-23s %6.1f  %11s  %11s  %5s", id, *name ? name : "-",
		 l->cpu, memory, disk, pids);
}

static int by_cpu(const void *a, const void *b)
{
	const struct line *x = a, *y = b;

	return (x->cpu < y->cpu) - (x->cpu > y->cpu);
}

/* At most `rows` lines of `cols` columns, the busiest first. */
static void draw(const struct sample *now, const struct sample *before,
		 size_t rows, size_t cols, const char *end)
{
	const json_t *list = json_object_get(now->j, "sandboxes");
	const json_t *old = json_object_get(before->j, "sandboxes");
	size_t i, n = json_array_size(list);
	struct line *l = xcalloc(n + 1, sizeof(*l));
	double cpu = 0, memory = 0;
	char sum[SIZE_TEXT], clean[LINE_CAP];

	for (i = 0; i < n; i++) {
		const json_t *b = json_array_get(list, i);

		l[i].cpu = cpu_share(b, same_box(old, b, i),
				     now->at_ms - before->at_ms);
		cpu += l[i].cpu;
		memory += json_number_value(json_object_get(b, "memory_bytes"));
		make_line(&l[i], b);
	}
	qsort(l, n, sizeof(*l), by_cpu);
	size_text(memory > 0 ? (uint64_t)memory : 0, sum);
	printf("%zu %s, %.1f %% of a processor, %s of memory%s%s", n,
	       n == 1 ? "sandbox" : "sandboxes", cpu, sum, end, end);
	printf("%-12s  %-23s %6s  %11s  %11s  %5s%s", "ID", "NAME", "CPU %",
	       "MEMORY", "DISK", "PIDS", end);
	for (i = 0; i < n && i < rows; i++) {
		clean_text(clean, cols < LINE_CAP ? cols + 1 : LINE_CAP,
			   l[i].text);
		printf("%s%s", clean, end);
	}
	free(l);
}

/* Whether to go on: no key, or another one than q, in this time. */
static bool wait_key(int signal_fd, int ms)
{
	struct pollfd p[2] = {
		{ .fd = STDIN_FILENO, .events = POLLIN },
		{ .fd = signal_fd, .events = POLLIN },
	};
	char c;

	if (poll(p, 2, ms) <= 0)
		return true;
	if (p[1].revents)
		return false;
	return read(STDIN_FILENO, &c, 1) == 1 && c != 'q' && c != 'Q';
}

static int open_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return signalfd(-1, &set, SFD_CLOEXEC);
}

static int refresh(struct cli *cli, uint64_t every_ms)
{
	struct sample before = take_sample(cli), now;
	AUTO_CLOSE int signal_fd = open_signals();
	uint16_t rows, cols;

	term_raw(true);
	term_screen(true);
	poll(NULL, 0, FIRST_MS); /* a share is of a time */
	do {
		now = take_sample(cli);
		term_size(&rows, &cols);
		fputs("\033[H", stdout);
		draw(&now, &before, rows > 5 ? rows - 5u : 1, cols,
		     "\033[K\r\n");
		fputs("\033[J\r\nq quits", stdout);
		fflush(stdout);
		json_decref(before.j);
		before = now;
	} while (wait_key(signal_fd, (int)every_ms));
	term_screen(false);
	term_restore();
	json_decref(before.j);
	return 0;
}

int verb_top(struct cli *cli, int argc, char **argv)
{
	bool once = false;
	uint64_t every_ms = 2000;
	const struct opt table[] = {
		{ "once", '1', OPT_FLAG, &once, NULL,
		  "print it once, for half a second" },
		{ "interval", 'i', OPT_TIME, &every_ms, "TIME",
		  "between two looks (default: 2s)" },
		OPT_HELP(cli),
		{ 0 },
	};
	struct sample a, b;

	if (cli_operands(cli, table, argc, argv) > 0)
		cli_usage_error(cli, "takes no operands");
	if (every_ms < 100 || every_ms > 3600 * 1000)
		cli_usage_error(cli, "an interval is 100ms to 1h");
	if (!once && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO))
		return refresh(cli, every_ms);
	a = take_sample(cli);
	poll(NULL, 0, ONCE_MS);
	b = take_sample(cli);
	draw(&b, &a, SIZE_MAX, LINE_CAP, "\n");
	json_decref(a.j);
	json_decref(b.j);
	return 0;
}
