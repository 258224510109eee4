/*
 * Runs rows of the attack catalogue, each in a child with a time limit.
 *
 *	probe list
 *	probe all [key=value]...
 *	probe ID... [key=value]...
 *
 * Parameters that the driver gives (README.md says which row takes which):
 * port, host, abstract, hostpid, shmkey, shm, hostpath, suid, capfile, flag,
 * hold, lock, seconds, crashes, disk_mb, mem_mb, pids, peer, slow.
 *
 * Exit code: 0 nothing is broken, 1 something is, 2 wrong use.
 */
#include "probe.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const struct row *const groups[] = {
	rows_identity, rows_files,   rows_cgroups, rows_kernel,
	rows_sockets,  rows_network, rows_limits,
};

static char **args;
char start_fds[256];

/* ---- what a row said ---- */

enum verdict { HELD, OBSERVED, SKIP, GAP, BREACH };

static struct {
	enum verdict verdict;
	int attempts;
	char text[800];
} said;

static void __attribute__((format(printf, 2, 0)))
say(enum verdict v, const char *fmt, va_list ap)
{
	size_t n;

	if (v > said.verdict) {
		said.verdict = v;
		said.text[0] = '\0';
	} else if (v < said.verdict) {
		return;
	}
	n = strlen(said.text);
	if (n)
		n += (size_t)snprintf(said.text + n, sizeof(said.text) - n,
				      "; ");
	if (n < sizeof(said.text))
		vsnprintf(said.text + n, sizeof(said.text) - n, fmt, ap);
	for (char *c = said.text; *c; c++)
		if (*c == '\n')
			*c = ' ';
}

#define SAYS(name, verdict)             \
	void name(const char *fmt, ...) \
	{                               \
		va_list ap;             \
                                        \
		va_start(ap, fmt);      \
		say(verdict, fmt, ap);  \
		va_end(ap);             \
		said.attempts++;        \
	}
SAYS(breach, BREACH)
SAYS(gap, GAP)
SAYS(observed, OBSERVED)
SAYS(skip, SKIP)

void good(void)
{
	said.attempts++;
}

void wall(bool stands, const char *fmt, ...)
{
	va_list ap;

	said.attempts++;
	if (stands)
		return;
	va_start(ap, fmt);
	say(GAP, fmt, ap);
	va_end(ap);
}

const char *errno_name(int err)
{
	static char number[24];
	const char *name = strerrorname_np(err);

	if (name)
		return name;
	snprintf(number, sizeof(number), "error %d", err);
	return number;
}

void refused(const char *what, long rc, int err, const int *want)
{
	if (rc >= 0) {
		breach("%s worked", what);
		return;
	}
	if (peer()) {
		good();
		return;
	}
	for (; *want; want++)
		if (*want == err) {
			good();
			return;
		}
	gap("%s: %s", what, errno_name(err));
}

/* ---- helpers of rows ---- */

const char *param(const char *key)
{
	size_t n = strlen(key);

	for (char **a = args; *a; a++)
		if (strncmp(*a, key, n) == 0 && (*a)[n] == '=')
			return *a + n + 1;
	return NULL;
}

bool peer(void)
{
	return param("peer") != NULL;
}

long param_num(const char *key, long other)
{
	const char *v = param(key);

	return v ? strtol(v, NULL, 0) : other;
}

ssize_t slurp(const char *path, char *out, size_t cap)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	size_t n = 0;
	ssize_t r = 0;

	out[0] = '\0';
	if (fd < 0)
		return -1;
	while (n < cap - 1 && (r = read(fd, out + n, cap - 1 - n)) > 0)
		n += (size_t)r;
	out[n] = '\0';
	if (r < 0 && n == 0) {
		int saved = errno;

		close(fd);
		errno = saved;
		return -1;
	}
	close(fd);
	return (ssize_t)n;
}

long long status_num(const char *name, int base)
{
	char text[4096], *at;

	if (slurp("/proc/self/status", text, sizeof(text)) < 0)
		return -1;
	at = strstr(text, name);
	return at ? strtoll(at + strlen(name) + 1, NULL, base) : -1;
}

bool host_root(void)
{
	unsigned long first, base, count;
	char map[128];

	return geteuid() == 0 &&
	       slurp("/proc/self/uid_map", map, sizeof(map)) > 0 &&
	       sscanf(map, "%lu %lu %lu", &first, &base, &count) == 3 &&
	       base == 0;
}

const char *probe_path(void)
{
	static char path[512];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);

	path[n < 0 ? 0 : n] = '\0';
	return path;
}

static char scratch_dir[64];

/* In a sandbox whose ids are wrong only the second may be writable. */
const char *scratch(void)
{
	static const char *const places[] = { "/tmp", "/dev/shm" };

	for (size_t i = 0; !scratch_dir[0] && i < ALL(places); i++) {
		snprintf(scratch_dir, sizeof(scratch_dir), "%s/probe.XXXXXX",
			 places[i]);
		if (!mkdtemp(scratch_dir))
			scratch_dir[0] = '\0';
	}
	if (!scratch_dir[0])
		gap("no scratch directory: %s", errno_name(errno));
	return scratch_dir;
}

static int remove_one(const char *path, const struct stat *st, int type,
		      struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

/* ---- runner ---- */

static void list_start_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	struct dirent *e;

	while (d && (e = readdir(d))) {
		long fd = strtol(e->d_name, NULL, 10);
		char path[64], to[128];
		size_t used = strlen(start_fds);
		ssize_t n;

		if (fd <= 2 || fd == dirfd(d))
			continue;
		snprintf(path, sizeof(path), "/proc/self/fd/%ld", fd);
		n = readlink(path, to, sizeof(to) - 1);
		to[n < 0 ? 0 : n] = '\0';
		snprintf(start_fds + used, sizeof(start_fds) - used, "%ld=%s ",
			 fd, to);
	}
	if (d)
		closedir(d);
	else
		snprintf(start_fds, sizeof(start_fds), "no /proc/self/fd");
}

static void child(const struct row *r, int out_fd)
{
	static const char *const words[] = { "HELD", "OBSERVED", "SKIP",
					     "BROKEN gap:", "BROKEN breach:" };
	char line[1024];
	int n;

	setsid(); /* also the group that the runner kills */
	r->fn();
	if (scratch_dir[0])
		nftw(scratch_dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	if (said.attempts == 0 && peer())
		skip("there is nothing to try");
	else if (said.attempts == 0)
		gap("nothing was tried");
	if (said.verdict == HELD)
		n = snprintf(line, sizeof(line), "%s HELD %d attempts\n", r->id,
			     said.attempts);
	else
		n = snprintf(line, sizeof(line),
			     said.verdict == SKIP ? "%s %s(%s)\n"
						  : "%s %s %s\n",
			     r->id, words[said.verdict], said.text);
	if (write(out_fd, line, (size_t)n) != n)
		_exit(3);
	_exit(0);
}

/* The child's line, or why there is none. */
static void collect(const struct row *r, pid_t pid, int in_fd, char *line,
		    size_t cap)
{
	int ms = (int)(r->seconds ? r->seconds : 10) * 1000 *
		 (int)param_num("slow", 1);
	struct pollfd p = { .fd = in_fd, .events = POLLIN };
	ssize_t n = 0;
	int status;

	if (poll(&p, 1, ms) == 1)
		n = read(in_fd, line, cap - 1);
	line[n < 0 ? 0 : n] = '\0';
	if (n <= 0 || !param("hold"))
		kill(-pid, SIGKILL);
	if (n <= 0)
		kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	if (n > 0)
		return;
	if (p.revents)
		snprintf(line, cap, "%s BROKEN breach: ended with status %x\n",
			 r->id, status);
	else
		snprintf(line, cap, "%s BROKEN breach: not done after %d ms\n",
			 r->id, ms);
}

static bool run(const struct row *r)
{
	char line[1024];
	int ends[2];
	pid_t pid;

	fflush(stdout);
	if (pipe2(ends, O_CLOEXEC)) {
		printf("%s SKIP(no pipe: %s)\n", r->id, errno_name(errno));
		return true;
	}
	pid = fork();
	if (pid == 0) {
		close(ends[0]);
		child(r, ends[1]);
	}
	close(ends[1]);
	if (pid < 0)
		snprintf(line, sizeof(line), "%s SKIP(no process: %s)\n", r->id,
			 errno_name(errno));
	else
		collect(r, pid, ends[0], line, sizeof(line));
	close(ends[0]);
	fputs(line, stdout);
	fflush(stdout);
	return !strstr(line, " BROKEN ");
}

static const struct row *find(const char *id)
{
	for (size_t g = 0; g < ALL(groups); g++)
		for (const struct row *r = groups[g]; r->id; r++)
			if (strcmp(r->id, id) == 0)
				return r;
	return NULL;
}

static bool run_all(void)
{
	bool ok = true;

	for (size_t g = 0; g < ALL(groups); g++)
		for (const struct row *r = groups[g]; r->id; r++)
			if (!(r->flags & BY_NAME))
				ok = run(r) && ok;
	return ok;
}

static int list(void)
{
	for (size_t g = 0; g < ALL(groups); g++)
		for (const struct row *r = groups[g]; r->id; r++)
			printf("%-4s %s%s\n", r->id, r->what,
			       r->flags & BY_NAME ? " (by name only)" : "");
	return 0;
}

/* What setuid copies of this program are started as (row A9, A8). */
static int whoami(void)
{
	printf("%d %llx\n", (int)geteuid(),
	       (unsigned long long)status_num("CapEff", 16));
	return 0;
}

int main(int argc, char **argv)
{
	bool ok = true;
	int done = 0;

	args = argv + 1;
	if (argc == 2 && strcmp(argv[1], "whoami") == 0)
		return whoami();
	if (argc == 2 && strcmp(argv[1], "noop") == 0)
		return 0;
	if (argc == 2 && strcmp(argv[1], "list") == 0)
		return list();
	list_start_fds();
	for (int i = 1; i < argc; i++) {
		const struct row *r = find(argv[i]);

		if (strchr(argv[i], '='))
			continue;
		done++;
		if (strcmp(argv[i], "all") == 0) {
			ok = run_all() && ok;
		} else if (r) {
			ok = run(r) && ok;
		} else {
			fprintf(stderr, "probe: no row %s\n", argv[i]);
			return 2;
		}
	}
	if (!done) {
		fprintf(stderr,
			"usage: probe list | all | ID... [key=value]\n");
		return 2;
	}
	return ok ? 0 : 1;
}
