/*
 * Times what a user waits for, and what they would wait for with something
 * else, in one run: the cases take turns in an order that is shuffled each
 * round, so that whatever else the machine does, and whatever a case leaves
 * behind for the next one, hits all of them alike. Only ratios mean anything.
 *
 *	latency ROUNDS GAP_MS CASE... [-- CASE...]
 *
 * A CASE is NAME[/EVERY]=KIND:ARGS and takes part in every EVERYth round. The
 * cases behind `--` come last in each round, in this order: those that leave
 * work in the background, and the pause in which it is done. KIND is one of
 *
 *	run:SOCKET	POST /v1/run of `echo hi`: until its first output
 *	exec:SOCKET,ID	exec of `true` in a living sandbox: until its exit
 *	cmd:WORDS	a command, split at spaces: until its first output
 *	fork:WORDS	fork and exec of a command: until its exit
 *	floor:		clone3 of all namespaces of a sandbox, until its exit
 *	settle:SOCKET,N	no case: waits until N sandboxes are kept ahead
 *
 * Prints one line per case: NAME SAMPLES MEDIAN_US P95_US MIN_US.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/log.h"
#include "wire/frame.h"

enum { CASES_MAX = 24, ROUNDS_MAX = 5000, WORDS_MAX = 64 };

struct bench_case {
	char name[64];
	double (*fn)(struct bench_case *c); /* negative: nothing to count */
	int every, n; /* takes part in these rounds; samples */
	bool last;
	char *args[WORDS_MAX]; /* words, or the parts of SOCKET,ID */
	double us[ROUNDS_MAX];
};

extern char **environ;

static double now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

static int start(struct bench_case *c, int out_fd, pid_t *pid)
{
	posix_spawn_file_actions_t fa;
	int r;

	posix_spawn_file_actions_init(&fa);
	if (out_fd >= 0)
		posix_spawn_file_actions_adddup2(&fa, out_fd, 1);
	r = posix_spawnp(pid, c->args[0], &fa, NULL, c->args, environ);
	posix_spawn_file_actions_destroy(&fa);
	return r;
}

static void reap(struct bench_case *c, pid_t pid)
{
	int status;

	if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status) ||
	    WEXITSTATUS(status) != 0)
		die("%s: failed with status %#x", c->name, (unsigned)status);
}

static double run_command(struct bench_case *c)
{
	int out[2];
	double t0 = now_us(), t1;
	char byte;
	pid_t pid;

	if (pipe2(out, O_CLOEXEC) < 0 || start(c, out[1], &pid) != 0)
		die("%s: cannot start %s", c->name, c->args[0]);
	close(out[1]);
	if (read(out[0], &byte, 1) != 1)
		die("%s: no output", c->name);
	t1 = now_us();
	while (read(out[0], &byte, 1) == 1)
		continue;
	close(out[0]);
	reap(c, pid);
	return t1 - t0;
}

/* What every starter of processes pays, without any wall. */
static double fork_command(struct bench_case *c)
{
	double t0 = now_us();
	pid_t pid = fork();

	if (pid == 0) {
		execv(c->args[0], c->args);
		_exit(127);
	}
	if (pid < 0)
		die("%s: fork: %s", c->name, strerror(errno));
	reap(c, pid);
	return now_us() - t0;
}

static double floor_clone(struct bench_case *c)
{
	struct clone_args a = { .flags = CLONE_NEWNS | CLONE_NEWPID |
					 CLONE_NEWNET | CLONE_NEWIPC |
					 CLONE_NEWUTS | CLONE_NEWCGROUP,
				.exit_signal = SIGCHLD };
	double t0 = now_us();
	long pid = syscall(SYS_clone3, &a, sizeof(a));

	if (pid == 0)
		_exit(0);
	if (pid < 0)
		die("%s: clone3: %s", c->name, strerror(errno));
	reap(c, (pid_t)pid);
	return now_us() - t0;
}

/* Sends request, hello and spawn in one write, as the command line does. */
static int ask(struct bench_case *c, const char *target, const char *body,
	       const char **argv, size_t argc)
{
	struct buf b = { 0 };
	const struct hello h = { WIRE_VERSION, WIRE_VERSION, 0, { 0 } };
	const struct spawn s = { .argc = argc, .argv = argv };
	int fd = unix_connect(c->args[0], SOCK_STREAM);

	if (fd < 0)
		die("%s: connect %s: %s", c->name, c->args[0], strerror(-fd));
	buf_printf(&b,
		   "POST %s HTTP/1.1\r\nHost: localhost\r\n"
		   "Connection: Upgrade\r\nUpgrade: carrel-wire/1\r\n"
		   "Content-Type: application/json\r\n"
		   "Content-Length: %zu\r\n\r\n%s",
		   target, strlen(body), body);
	hello_put(&b, &h);
	if (spawn_put(&b, 1, &s) < 0 ||
	    write_full(fd, buf_data(&b), buf_len(&b)) < 0)
		die("%s: send", c->name);
	buf_done(&b);
	return fd;
}

/* Skips the 101 and the hello; 0 when more bytes are needed. */
static int skip_head(struct bench_case *c, struct buf *b)
{
	struct hello h;
	char *end = strstr(buf_str(b), "\r\n\r\n");

	if (!end)
		return 0;
	if (strncmp(buf_data(b), "HTTP/1.1 101 ", 13) != 0)
		die("%s: %s", c->name, buf_data(b));
	if (buf_len(b) < (size_t)(end + 4 - buf_data(b)) + HELLO_LEN)
		return 0;
	buf_eat(b, (size_t)(end + 4 - buf_data(b)));
	if (hello_get(b, &h) != 1)
		die("%s: bad hello", c->name);
	return 1;
}

/* Reads to the end of channel 1; the time of the first frame of `type`. */
static double await(struct bench_case *c, int fd, uint8_t type)
{
	struct buf b = { 0 };
	struct frame f;
	double t = 0;
	int head = 0, ended = 0, r;

	while (!ended) {
		if (buf_read(&b, fd, 65536) <= 0)
			die("%s: connection ended early", c->name);
		if (!head && !(head = skip_head(c, &b)))
			continue;
		while ((r = frame_get(&b, &f)) == 1) {
			if (f.type == FRAME_FAILED)
				die("%s: spawn failed", c->name);
			if (f.type == type && t == 0)
				t = now_us();
			ended |= f.type == FRAME_EXIT;
			buf_eat(&b, FRAME_HEAD + f.len);
		}
		if (r < 0)
			die("%s: bad frame", c->name);
	}
	buf_done(&b);
	close(fd);
	return t;
}

static double socket_run(struct bench_case *c)
{
	const char *argv[] = { "/bin/echo", "hi", NULL };
	double t0 = now_us();

	return await(c, ask(c, "/v1/run", "{}", argv, 2), FRAME_OUTPUT) - t0;
}

static double socket_exec(struct bench_case *c)
{
	const char *argv[] = { "/bin/true", NULL };
	double t0 = now_us();
	char target[128];

	snprintf(target, sizeof(target), "/v1/sandboxes/%s/exec", c->args[1]);
	return await(c, ask(c, target, "", argv, 1), FRAME_EXIT) - t0;
}

/* The number behind "\nNAME " in the daemon's metrics. */
static long metric(struct bench_case *c, const char *name)
{
	static const char ask_it[] =
		"GET /metrics HTTP/1.1\r\nHost: localhost\r\n"
		"Connection: close\r\n\r\n";
	AUTO_CLOSE int fd = unix_connect(c->args[0], SOCK_STREAM);
	struct buf b = { 0 };
	char line[64], *at;
	long value = -1;

	if (fd < 0 || write_full(fd, ask_it, sizeof(ask_it) - 1) < 0)
		die("%s: no metrics from %s", c->name, c->args[0]);
	while (buf_read(&b, fd, 65536) > 0)
		continue;
	snprintf(line, sizeof(line), "\n%s ", name);
	at = strstr(buf_str(&b), line);
	if (at)
		value = strtol(at + strlen(line), NULL, 10);
	buf_done(&b);
	return value;
}

static double settle(struct bench_case *c)
{
	long want = strtol(c->args[1], NULL, 10);
	double until = now_us() + 5e6;

	while (metric(c, "carrel_spares") < want) {
		if (now_us() > until)
			die("%s: fewer than %ld sandboxes are kept ahead",
			    c->name, want);
		poll(NULL, 0, 2);
	}
	poll(NULL, 0, 2); /* the last one is launched, or nearly */
	return -1;
}

static const struct {
	const char *kind;
	double (*fn)(struct bench_case *c);
	const char *split;
	size_t words; /* at least */
} kinds[] = {
	{ "run:", socket_run, ",", 1 },    { "exec:", socket_exec, ",", 2 },
	{ "cmd:", run_command, " ", 1 },   { "fork:", fork_command, " ", 1 },
	{ "floor:", floor_clone, ",", 0 }, { "settle:", settle, ",", 2 },
};

static void parse_kind(struct bench_case *c, char *spec)
{
	char *save = NULL, *word;
	size_t i, n = 0;

	for (i = 0; i < ARRAY_LEN(kinds); i++) {
		size_t len = strlen(kinds[i].kind);

		if (strncmp(spec, kinds[i].kind, len) != 0)
			continue;
		c->fn = kinds[i].fn;
		for (word = strtok_r(spec + len, kinds[i].split, &save);
		     word && n < WORDS_MAX - 1;
		     word = strtok_r(NULL, kinds[i].split, &save))
			c->args[n++] = word;
		if (n >= kinds[i].words)
			return;
	}
	die("%s: '%s' is not KIND:ARGS", c->name, spec);
}

static void parse_case(struct bench_case *c, char *text, bool last)
{
	char *spec = strchr(text, '='), *every;

	if (!spec)
		die("'%s' is not NAME=KIND:ARGS", text);
	*spec++ = '\0';
	every = strchr(text, '/');
	if (every)
		*every++ = '\0';
	c->every = every ? (int)strtol(every, NULL, 10) : 1;
	if (c->every < 1)
		die("'%s': EVERY is a number from 1", text);
	snprintf(c->name, sizeof(c->name), "%s", text);
	c->last = last;
	parse_kind(c, spec);
}

static int parse_cases(struct bench_case *cases, int argc, char **argv)
{
	bool last = false;
	int i, n = 0;

	for (i = 0; i < argc; i++) {
		if (strcmp(argv[i], "--") == 0) {
			last = true;
			continue;
		}
		if (n == CASES_MAX)
			die("more than %d cases", CASES_MAX);
		parse_case(&cases[n++], argv[i], last);
	}
	if (n == 0)
		die("no case");
	return n;
}

/* The same "random" order in every run. */
static void shuffle(struct bench_case **order, int n)
{
	static uint32_t state = 1;
	int i;

	while (n > 0 && order[n - 1]->last)
		n--;
	for (i = n - 1; i > 0; i--) {
		struct bench_case *t = order[i];
		int k;

		state = state * 1664525u + 1013904223u;
		k = (int)((state >> 16) % (uint32_t)(i + 1));
		order[i] = order[k];
		order[k] = t;
	}
}

static void play(struct bench_case *cases, int n, int rounds, int gap)
{
	struct bench_case *order[CASES_MAX];
	int i, r;

	for (i = 0; i < n; i++) {
		order[i] = &cases[i];
		cases[i].fn(&cases[i]); /* warm: not counted */
	}
	for (r = 0; r < rounds; r++) {
		shuffle(order, n);
		for (i = 0; i < n; i++) {
			struct bench_case *c = order[i];
			double us;

			if (r % c->every != 0)
				continue;
			poll(NULL, 0, gap);
			us = c->fn(c);
			if (us >= 0)
				c->us[c->n++] = us;
		}
	}
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	static struct bench_case cases[CASES_MAX];
	int n, rounds, gap, i;

	log_init("latency", LOG_INFO);
	signal(SIGPIPE, SIG_IGN);
	if (argc < 4)
		die("usage: latency ROUNDS GAP_MS NAME=KIND:ARGS...");
	rounds = (int)strtol(argv[1], NULL, 10);
	gap = (int)strtol(argv[2], NULL, 10);
	if (rounds < 1 || rounds > ROUNDS_MAX || gap < 0)
		die("ROUNDS is 1 to %d, GAP_MS from 0", ROUNDS_MAX);
	n = parse_cases(cases, argc - 3, argv + 3);
	play(cases, n, rounds, gap);
	for (i = 0; i < n; i++) {
		struct bench_case *c = &cases[i];

		if (c->n == 0)
			continue;
		qsort(c->us, (size_t)c->n, sizeof(double), compare);
		printf("%s %d %.0f %.0f %.0f\n", c->name, c->n, c->us[c->n / 2],
		       c->us[c->n * 95 / 100], c->us[0]);
	}
	return 0;
}
