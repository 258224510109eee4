/*
 * The builtin `ps`. It runs in a fork of the agent and so has the agent's
 * table, as it was when it was asked.
 */
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/builtin.h"
#include "base/auto.h"
#include "base/fd.h"
#include "base/str.h"

_Static_assert(PROCS_MAX + KEPT_MAX <= PS_RECORDS_MAX, "all can be told");

static const struct agent *the_agent;

void ps_init(const struct agent *a)
{
	the_agent = a;
}

static int put(const struct ps *record)
{
	struct buf b = { 0 };
	int r;

	ps_put(&b, record);
	r = write_full(STDOUT_FILENO, buf_data(&b), buf_len(&b));
	buf_done(&b);
	return r;
}

static const enum ps_state states[] = {
	[PROC_STARTING] = PS_STARTING,
	[PROC_RUNNING] = PS_RUNNING,
	[PROC_EXITED] = PS_EXITED,
};

static int put_proc(const struct proc *p)
{
	struct ps record = {
		.kind = PS_PROC,
		.args = p->args,
		.args_len = p->args_len,
		.cut = p->args_cut,
		.proc = { .number = p->number,
			  .pid = (uint32_t)p->pid,
			  .state = states[p->state],
			  .pty = p->pty,
			  .told = p->told,
			  .user = p->user,
			  .tag = p->tag,
			  .started_ms = p->started_ms,
			  .out = { p->out[0].end, p->out[1].end },
			  .exit = p->exit },
	};

	return put(&record);
}

/*
 * "PID (NAME) STATE PPID ...": the name may have anything in it, so what is
 * behind the last parenthesis is read. Fields as in proc(5), from the third.
 */
static bool parse_stat(char *text, struct ps_task *t)
{
	enum { STATE = 3, PPID, UTIME = 14, STIME, RSS = 24 };
	char *name = strchr(text, '('), *word;
	char *at = name ? strrchr(name, ')') : NULL;
	unsigned long long v[RSS + 1] = { 0 };
	int i;

	if (!at)
		return false;
	*at++ = '\0';
	for (i = STATE; i <= RSS && (word = strsep(&at, " ")); i++) {
		if (*word == '\0') {
			i--;
			continue;
		}
		if (i == STATE)
			t->state = *word;
		else
			v[i] = strtoull(word, NULL, 10);
	}
	t->ppid = (uint32_t)v[PPID];
	t->cpu_us = (v[UTIME] + v[STIME]) * 1000000 /
		    (unsigned long long)sysconf(_SC_CLK_TCK);
	t->rss_bytes = v[RSS] * (unsigned long long)getpagesize();
	return i > RSS && isalpha((unsigned char)t->state);
}

static uint32_t parse_uid(const char *status)
{
	const char *at = strstr(status, "\nUid:\t");

	return at ? (uint32_t)strtoul(at + strlen("\nUid:\t"), NULL, 10) : 0;
}

/* One that ends while we look is left out. */
static int put_task(int dir_fd, uint32_t pid)
{
	char path[64], stat[1024], status[2048], args[PS_ARGS_MAX + 2];
	struct ps record = { .kind = PS_TASK, .args = args, .task.pid = pid };
	ssize_t n;

	snprintf(path, sizeof(path), "%u/status", pid);
	if (read_file_at(dir_fd, path, status, sizeof(status)) < 0)
		return 0;
	record.task.uid = parse_uid(status);
	snprintf(path, sizeof(path), "%u/stat", pid);
	if (read_file_at(dir_fd, path, stat, sizeof(stat)) < 0 ||
	    !parse_stat(stat, &record.task))
		return 0;
	snprintf(path, sizeof(path), "%u/cmdline", pid);
	n = read_file_at(dir_fd, path, args, sizeof(args));
	/* A zombie has none: its name, as ps(1) shows it. */
	if (n <= 0)
		n = snprintf(args, sizeof(args), "[%s]", strchr(stat, '(') + 1);
	record.args_len = (size_t)n;
	return put(&record);
}

static int put_tasks(void)
{
	AUTO_DIR DIR *proc = opendir("/proc");
	struct dirent *d;
	uint64_t pid;
	int r = 0;

	if (!proc)
		return -errno;
	while (r == 0 && (d = readdir(proc)))
		if (parse_u64(d->d_name, INT32_MAX, &pid) == 0 &&
		    (pid_t)pid != getpid() &&
		    (pid_t)pid != the_agent->spare.pid)
			r = put_task(dirfd(proc), (uint32_t)pid);
	return r;
}

static int put_procs(const struct list *list)
{
	struct list *pos, *tmp;
	int r = 0;

	list_each (pos, tmp, list) {
		const struct proc *p = container_of(pos, struct proc, node);

		if (!p->builtin && r == 0)
			r = put_proc(p);
	}
	return r;
}

int builtin_ps(int argc, char **argv)
{
	int r = put_procs(&the_agent->kept);

	if (r == 0)
		r = put_procs(&the_agent->procs);
	if (r == 0 && argc > 1 && strcmp(argv[1], "all") == 0)
		r = put_tasks();
	if (r < 0)
		dprintf(STDERR_FILENO, "ps: %s\n", strerror(-r));
	return r < 0 ? 1 : 0;
}
