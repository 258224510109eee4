/*
 * The real agent, as PID 1 of a sandbox made by agent_box.h. AGENT_LONG=1 runs
 * the large sizes (1 GB, 1000 processes); AGENT_BIN names the programs'
 * directory. Needs root: else it is skipped.
 */
#include "agent_box.h"
#include "agent_client.h"
#include "check.h"
#include "wire/ps.h"

#include <dirent.h>
#include <sys/ioctl.h>

static struct client c;
static bool large;

#define SH(...) client_sh(&c, 0, "", __VA_ARGS__)
#define OUT(r) buf_data(&(r).out[0])
#define ERRORS(r) buf_data(&(r).out[1])

static bool fine(const struct result *r)
{
	bool ok = r->started && r->ended && !r->broken && r->failed == 0 &&
		  r->exit.signaled == 0 && r->exit.code == 0;

	if (!ok)
		printf("# started %d ended %d broken %d failed %d (%s) "
		       "signaled %d code %u out '%s' err '%s'\n",
		       r->started, r->ended, r->broken, r->failed, r->message,
		       r->exit.signaled, r->exit.code, buf_data(&r->out[0]),
		       buf_data(&r->out[1]));
	return ok;
}

static bool says(struct result *r, const char *text)
{
	bool same = fine(r) && strcmp(OUT(*r), text) == 0;

	if (!same)
		printf("# said '%s' '%s'\n", OUT(*r), ERRORS(*r));
	result_done(r);
	return same;
}

static void test_basics(void)
{
	struct result r = SH("echo hi; echo oh >&2; exit 3");

	CHECK(r.started && !r.broken && r.exit.code == 3);
	CHECK_STR(OUT(r), "hi\n");
	CHECK_STR(ERRORS(r), "oh\n");
	CHECK(r.eof[0] && r.eof[1]);
	CHECK(r.exit.max_rss_bytes > 100000);
	result_done(&r);
	r = SH("id -u; id -g; id -G; pwd; umask");
	CHECK(says(&r, "1000\n1000\n1000 29\n/home/user\n0022\n"));
	r = SH("echo $HOME $USER $LOGNAME $SHELL $LANG $TERM; echo $PATH");
	CHECK(says(&r, "/home/user user user /bin/sh C.UTF-8\n"
		       "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:"
		       "/sbin:/bin\n"));
	r = SH("kill -9 $$");
	CHECK(r.exit.signaled == 1 && r.exit.code == 9);
	result_done(&r);
	client_frame(&c, FRAME_PING, 0, "abc", 3);
	CHECK(client_next(&c, REPLY_MS) == 1 && c.f.type == FRAME_PONG &&
	      c.f.len == 3 && memcmp(c.f.payload, "abc", 3) == 0);
}

static void test_confinement(void)
{
	struct result r = SH("grep -E '^Cap|NoNew|Seccomp:|SigIgn|SigBlk' "
			     "/proc/self/status");

	CHECK(says(&r, "SigBlk:\t0000000000000000\n"
		       "SigIgn:\t0000000000000000\n"
		       "CapInh:\t0000000000000000\n"
		       "CapPrm:\t0000000000000000\n"
		       "CapEff:\t0000000000000000\n"
		       "CapBnd:\t0000000000000000\n"
		       "CapAmb:\t0000000000000000\n"
		       "NoNewPrivs:\t1\n"
		       "Seccomp:\t2\n"));
	r = client_sh(&c, 0, "root",
		      "grep -E '^Cap' /proc/self/status; id -u; pwd");
	CHECK(says(&r, "CapInh:\t0000000000000000\n"
		       "CapPrm:\t00000000000000fb\n"
		       "CapEff:\t00000000000000fb\n"
		       "CapBnd:\t00000000000000fb\n"
		       "CapAmb:\t0000000000000000\n"
		       "0\n/tmp\n"));
	r = SH("exec ls /proc/self/fd");
	CHECK(says(&r, "0\n1\n2\n3\n")); /* 3 is the directory */
	r = SH("ulimit -Hc; ulimit -n; "
	       "cat /proc/self/oom_score_adj; cat /proc/1/oom_score_adj; "
	       "nproc; cut -d' ' -f5,6 /proc/$$/stat | grep -c \"^$$ $$\"");
	CHECK(says(&r, "0\n1024\n500\n0\n1\n1\n"));
	r = client_sh(&c, 0, "0",
		      "for f in environ mem maps exe fd/0 cwd root ns/user; do "
		      "cat /proc/1/$f >/dev/null 2>&1 && echo $f; done; "
		      "kill -9 1; kill -STOP 1; renice 5 1; "
		      "echo 1 > /proc/1/oom_score_adj; true");
	CHECK(strcmp(OUT(r), "") == 0);
	result_done(&r);
	r = client_sh(&c, 0, "bin", "id -u; id -G; pwd");
	CHECK(says(&r, "2\n2 29\n/\n"));
	r = client_sh(&c, 0, "4711", "id -u; id -g; echo $HOME");
	CHECK(says(&r, "4711\n4711\n/\n"));
}

static struct result run(const char *file, const char *cwd, const char *user)
{
	const char *argv[] = { file, NULL }, *env[] = { "A=b", NULL };
	struct spawn s = { .cwd = cwd, .user = user, .argv = argv, .env = env };
	struct result r = { 0 };

	client_spawn(&c, 9, &s);
	client_wait(&c, &r);
	buf_str(&r.out[0]);
	return r;
}

/* It was not started, and the message names the object. */
static bool refused(struct result *r, int code, const char *object)
{
	bool ok = r->failed == code && strstr(r->message, object) &&
		  !r->started && !r->broken;

	if (!ok)
		printf("# failed %d: %s\n", r->failed, r->message);
	result_done(r);
	return ok;
}

static void test_failures(void)
{
	struct result r = run("no-such-thing", "", "");

	CHECK(refused(&r, ENOENT, "no-such-thing"));
	r = run("/nowhere/x", "", "");
	CHECK(refused(&r, ENOENT, "/nowhere/x"));
	r = run("/tmp/not-run", "", "");
	CHECK(refused(&r, EACCES, "/tmp/not-run"));
	r = run("/tmp", "", "");
	CHECK(refused(&r, EACCES, "/tmp"));
	r = run("", "", "");
	CHECK(refused(&r, ENOENT, "not found"));
	r = run("true", "/not/there", "");
	CHECK(refused(&r, ENOENT, "/not/there"));
	r = run("true", "/proc/self/fd/3", "");
	CHECK(refused(&r, ENOTDIR, "/proc/self/fd/3"));
	r = run("true", "", "nobody-of-this-name");
	CHECK(refused(&r, EINVAL, "nobody-of-this-name"));
	r = run("true", "", "65536");
	CHECK(refused(&r, EINVAL, "65536"));
	r = run("pwd", "/usr", "");
	CHECK(says(&r, "/usr\n"));
	r = run("env", "", "");
	CHECK(strncmp(OUT(r), "A=b\n", 4) == 0);
	result_done(&r);
	r = SH("printf 'echo script $1\\n' > s; chmod 755 s; "
	       "printf '#!/not/there\\n' > t; chmod 755 t");
	CHECK(fine(&r));
	result_done(&r);
	r = run("./s", "", "");
	CHECK(says(&r, "script\n"));
	r = run("./t", "", "");
	CHECK(refused(&r, ENOENT, "interpreter"));
}

static void test_output(void)
{
	uint64_t n = large ? 1000000000 : 200000000, i, sum = 0;
	const char *argv[] = { "sh", "-c", NULL, NULL };
	char line[160];
	struct spawn s = { .argv = argv };
	struct result r = { .quiet = true };
	uint64_t t = clock_boot_ms();

	/* 64-byte lines that differ: a lost or doubled byte changes the sum. */
	snprintf(line, sizeof(line), "yes 0123456789abcde | head -c %llu",
		 (unsigned long long)n);
	argv[2] = line;
	client_spawn(&c, 5, &s);
	client_wait(&c, &r);
	t = clock_boot_ms() - t;
	for (i = 0; i < n; i++)
		sum = sum * 31 + (uint8_t)"0123456789abcde\n"[i % 16];
	CHECK(fine(&r));
	CHECK(r.end[0] == n && r.sum == sum);
	printf("# %llu MB in %llu ms\n", (unsigned long long)n / 1000000,
	       (unsigned long long)t);
}

/* Nothing beyond the window comes before it is acknowledged. */
static void test_slow_reader(void)
{
	const char *argv[] = { "sh", "-c", "head -c 1000000 /dev/zero; exit 4",
			       NULL };
	struct spawn s = { .argv = argv };
	struct result r = { .quiet = true };

	client_spawn(&c, 6, &s);
	CHECK(client_stops_at(&c, &r, WIRE_WINDOW));
	client_ack(&c, 6, 1, 100000);
	CHECK(client_stops_at(&c, &r, WIRE_WINDOW + 100000));
	client_ack(&c, 6, 1, r.end[0]);
	client_wait(&c, &r);
	CHECK(r.end[0] == 1000000 && r.exit.code == 4 && !r.broken);
}

static void test_input(void)
{
	enum { TOTAL = 20000000, PIECE = 60000 };
	const char *argv[] = { "sh", "-c", "sleep 0.2; md5sum", NULL };
	struct spawn s = { .flags = SPAWN_STDIN, .argv = argv };
	struct result r = { 0 };
	uint64_t sent = 0;
	static char piece[PIECE];

	memset(piece, 'x', sizeof(piece));
	client_spawn(&c, 7, &s);
	while (sent < TOTAL && !r.broken) {
		size_t n = TOTAL - sent < PIECE ? TOTAL - sent : PIECE;

		if (sent + n <= r.input_acked + WIRE_WINDOW) {
			client_input(&c, 7, sent, piece, n);
			sent += n;
		} else if (client_next(&c, REPLY_MS) == 1) {
			client_note(&c, &r, true);
		} else {
			r.broken = true;
		}
	}
	client_frame(&c, FRAME_INPUT_EOF, 7, NULL, 0);
	client_wait(&c, &r);
	buf_str(&r.out[0]);
	CHECK(says(&r, "d52626322ee0b934ba699935cac991b2  -\n"));
	/* A process that does not read: its input is taken and forgotten. */
	argv[2] = "exec <&-; sleep 0.2; echo ok";
	client_spawn(&c, 7, &s);
	client_input(&c, 7, 0, piece, 1000);
	client_wait(&c, &r);
	CHECK(r.exit.code == 0 && !r.broken);
	result_done(&r);
	r = SH("cat; echo end"); /* /dev/null */
	CHECK(says(&r, "end\n"));
}

static void test_signals(void)
{
	const char *argv[] = { "sh", "-c",
			       "trap 'echo got; exit 5' USR1; "
			       "echo on; while :; do sleep 0.05; "
			       "done",
			       NULL };
	struct spawn s = { .argv = argv };
	struct result r = { 0 };

	client_spawn(&c, 3, &s);
	while (r.end[0] < 3 && client_next(&c, REPLY_MS) == 1)
		client_note(&c, &r, true);
	client_signal(&c, 3, SIGUSR1);
	client_wait(&c, &r);
	CHECK(r.exit.code == 5 && !r.broken);
	result_done(&r);
	/* At once behind the request: kept until the program runs. */
	argv[0] = "sleep";
	argv[1] = "100";
	argv[2] = NULL;
	client_spawn(&c, 3, &s);
	client_signal(&c, 3, SIGTERM);
	client_wait(&c, &r);
	CHECK(r.exit.signaled == 1 && r.exit.code == SIGTERM && r.started);
	client_signal(&c, 3, SIGTERM); /* crossed the exit: harmless */
	r = SH("echo still");
	CHECK(says(&r, "still\n"));
}

static void test_pty(void)
{
	struct result r =
		client_sh(&c, SPAWN_PTY | SPAWN_STDIN, "",
			  "stat -c '%%u:%%g %%a' $(tty); stty size; "
			  "echo $TERM; echo err >&2; ls -x /proc/self/fd");
	const char *argv[] = { "cat", NULL };
	struct spawn s = { .flags = SPAWN_PTY | SPAWN_STDIN,
			   .rows = 10,
			   .cols = 99,
			   .argv = argv };

	CHECK(says(&r, "1000:5 620\r\n24 80\r\nxterm-256color\r\nerr\r\n"
		       "0  1  2  3\r\n"));
	client_spawn(&c, 4, &s);
	client_input(&c, 4, 0, "ab\n", 3);
	client_input(&c, 4, 3, "c", 1);
	client_frame(&c, FRAME_INPUT_EOF, 4, NULL, 0);
	client_wait(&c, &r);
	buf_str(&r.out[0]);
	/* The terminal's echo of "c" comes before or after cat's first line. */
	CHECK(fine(&r) && (strcmp(OUT(r), "ab\r\ncab\r\nc") == 0 ||
			   strcmp(OUT(r), "ab\r\nab\r\ncc") == 0));
	result_done(&r);
	/* The keyboard's interrupt, and a resize. */
	s.argv = (const char *[]){ "sh", "-c",
				   "trap 'stty size; exit 6' WINCH; sleep 0.1; "
				   "echo on; while :; do sleep 0.05; done",
				   NULL };
	client_spawn(&c, 4, &s);
	while (r.end[0] < 3 && client_next(&c, REPLY_MS) == 1)
		client_note(&c, &r, true);
	client_frame(&c, FRAME_RESIZE, 4, "\x28\0\x64\0", 4);
	client_wait(&c, &r);
	CHECK(r.exit.code == 6 && strstr(buf_str(&r.out[0]), "40 100"));
	result_done(&r);
	s.argv = (const char *[]){ "sleep", "100", NULL };
	client_spawn(&c, 4, &s);
	while (!r.started && client_next(&c, REPLY_MS) == 1)
		client_note(&c, &r, true);
	usleep(50000);
	client_input(&c, 4, 0, "\3", 1);
	client_wait(&c, &r);
	CHECK(r.exit.signaled && r.exit.code == SIGINT);
	result_done(&r);
}

static void test_background(void)
{
	struct result r = SH("(while :; do echo x; done; echo bad) & "
			     "sleep 0.2; echo $! > pid; exec >&-; exit 0");

	CHECK(r.ended && !r.broken);
	result_done(&r);
	/* It did not die of its pipe. */
	r = SH("sleep 0.2; kill -0 $(cat pid) && echo lives; kill $(cat pid)");
	CHECK(says(&r, "lives\n"));
	r = SH("(sleep 0.05 &); (sleep 0.05 &); sleep 0.3; "
	       "grep -l '^State:.Z' /proc/[0-9]*/status | wc -l");
	CHECK(says(&r, "0\n"));
	r = client_sh(&c, SPAWN_DETACHED, "", "yes | head -c 10000000");
	CHECK(fine(&r) && r.end[0] == 0);
	result_done(&r);
}

static struct result builtin(const char *user, const char *name,
			     const char *arg)
{
	const char *argv[] = { name, arg, NULL };
	struct spawn s = { .flags = SPAWN_BUILTIN, .user = user, .argv = argv };
	struct result r = { 0 };

	client_spawn(&c, 11, &s);
	client_wait(&c, &r);
	return r;
}

/* The last record of this kind that has this first word. */
static bool listed(const struct result *r, enum ps_kind kind, const char *word,
		   struct ps *found)
{
	struct buf b = r->out[0];
	bool any = false;
	struct ps p;
	int n;

	while ((n = ps_get(&b, &p)) > 0) {
		size_t at = 0;
		const char *first = ps_arg(&p, &at);

		buf_eat(&b, (size_t)n);
		if (p.kind != kind || !first || strcmp(first, word) != 0)
			continue;
		*found = p;
		any = true;
	}
	CHECK(n == 0);
	return any;
}

static void test_builtin(void)
{
	const char *argv[] = { "sleep", "100", NULL };
	struct spawn s = { .argv = argv, .tag = "a tag", .user = "bin" };
	struct result r = { 0 }, sleeper = { 0 };
	struct ps p = { 0 };
	size_t at = 0;

	client_spawn(&c, 10, &s);
	while (!sleeper.started && client_next(&c, REPLY_MS) == 1)
		client_note(&c, &sleeper, true);
	r = builtin("", "ps", NULL);
	CHECK(fine(&r) && listed(&r, PS_PROC, "sleep", &p));
	CHECK(p.proc.number > 0 && p.proc.pid > 1);
	CHECK(p.proc.state == PS_RUNNING && !p.proc.pty && !p.cut);
	CHECK_STR(p.proc.user, "bin");
	CHECK_STR(p.proc.tag, "a tag");
	CHECK(clock_wall_ms() - p.proc.started_ms < 10000);
	CHECK_STR(ps_arg(&p, &at), "sleep");
	CHECK_STR(ps_arg(&p, &at), "100");
	CHECK(!ps_arg(&p, &at));
	CHECK(!listed(&r, PS_PROC, "ps", &p));
	CHECK(!listed(&r, PS_TASK, "sleep", &p));
	result_done(&r);
	usleep(100000); /* until it sleeps */
	r = builtin("root", "ps", "all");
	CHECK(fine(&r) && listed(&r, PS_TASK, "sleep", &p));
	CHECK(p.task.uid == 2 && p.task.ppid == 1 && p.task.state != 'Z');
	CHECK(p.task.rss_bytes > 100000 && p.task.pid > 1);
	CHECK(listed(&r, PS_TASK, "agent", &p) && p.task.pid == 1);
	result_done(&r);
	client_signal(&c, 10, SIGKILL);
	client_wait(&c, &sleeper);
	r = builtin("", "no-such-builtin", NULL);
	CHECK(refused(&r, ENOENT, "no-such-builtin"));
	r = builtin("nobody-of-this-name", "ps", NULL);
	CHECK(refused(&r, EINVAL, "nobody-of-this-name"));
}

static void test_many(void)
{
	int i, bad = 0, n = large ? 1000 : 200;
	const char *argv[] = { "/bin/true", NULL };
	struct spawn s = { .argv = argv };
	uint64_t t = clock_boot_us(), plain;

	for (i = 0; i < n; i++) {
		struct result r = { 0 };

		client_spawn(&c, 1, &s);
		client_wait(&c, &r);
		bad += r.broken || r.exit.code || !r.started;
	}
	t = clock_boot_us() - t;
	CHECK(bad == 0);
	plain = clock_boot_us();
	for (i = 0; i < n; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			execl("/bin/true", "true", NULL);
			_exit(1);
		}
		waitpid(pid, NULL, 0);
	}
	plain = clock_boot_us() - plain;
	printf("# true: %llu us through the agent, %llu us fork+exec\n",
	       (unsigned long long)t / n, (unsigned long long)plain / n);
	/* Side by side, as many as there may be. */
	s.argv = (const char *[]){ "sleep", "30", NULL };
	for (i = 1; i <= CHANNELS_MAX; i++)
		client_spawn(&c, (uint32_t)i, &s);
	client_spawn(&c, CHANNELS_MAX + 1, &s);
	for (i = bad = 0; i < CHANNELS_MAX + 1; i++) {
		uint32_t last = CHANNELS_MAX + 1;

		if (client_next(&c, REPLY_MS) != 1)
			break;
		bad += (c.f.type == FRAME_FAILED) == (c.f.channel == last);
	}
	CHECK(bad == CHANNELS_MAX + 1);
	for (i = 1; i <= CHANNELS_MAX; i++)
		client_signal(&c, (uint32_t)i, SIGKILL);
	for (i = bad = 0; i < 3 * CHANNELS_MAX; i++) {
		if (client_next(&c, REPLY_MS) != 1)
			break;
		bad += c.f.type == FRAME_EXIT;
	}
	CHECK(bad == CHANNELS_MAX);
}

/* Counts the processes with this parent, or only the zombies of them. */
static unsigned children_of(pid_t parent, bool zombies, int sig)
{
	DIR *d = opendir("/proc");
	struct dirent *x;
	unsigned n = 0;

	while ((x = readdir(d))) {
		char path[300], text[300];
		const char *at;
		FILE *f;

		snprintf(path, sizeof(path), "/proc/%s/stat", x->d_name);
		f = x->d_name[0] >= '1' && x->d_name[0] <= '9'
			    ? fopen(path, "r")
			    : NULL;
		if (!f)
			continue;
		at = fgets(text, sizeof(text), f) ? strrchr(text, ')') : NULL;
		fclose(f);
		if (!at || atoi(at + 4) != parent || (zombies && at[2] != 'Z'))
			continue;
		n++;
		if (sig)
			kill(atoi(x->d_name), sig);
	}
	closedir(d);
	return n;
}

/* 400 orphans end at once while the agent is stopped: the kernel sends one
 * SIGCHLD for all of them. */
static void test_orphans_are_reaped(const struct box *b)
{
	enum { N = 400 };
	struct result r = SH("i=0; while [ $i -lt 400 ]; do "
			     "sleep 1000 >/dev/null 2>&1 </dev/null & "
			     "i=$((i+1)); done");
	unsigned i;

	CHECK(fine(&r));
	result_done(&r);
	for (i = 0; i < 1000 && children_of(b->pid, false, 0) < N; i++)
		usleep(10000);
	CHECK(kill(b->pid, SIGSTOP) == 0);
	CHECK(children_of(b->pid, false, SIGKILL) >= N);
	for (i = 0; i < 1000 && children_of(b->pid, true, 0) < N; i++)
		usleep(10000);
	CHECK(children_of(b->pid, true, 0) >= N);
	CHECK(kill(b->pid, SIGCONT) == 0);
	for (i = 0; i < 1000 && children_of(b->pid, true, 0) > 0; i++)
		usleep(10000);
	CHECK(children_of(b->pid, true, 0) == 0);
}

static void test_connection(const struct box *b)
{
	static const struct {
		const char *what;
		uint8_t bytes[40];
		size_t n;
	} wrong[] = {
		{ "type", { 0, 0, 0, 0, 99, 0, 0, 0, 1 }, 12 },
		{ "length", { 1, 0, 1, 0, 1, 0, 0, 0, 1 }, 12 },
		{ "huge", { 255, 255, 255, 255, 1 }, 12 },
		{ "channel", { 0, 0, 0, 0, FRAME_SPAWN }, 12 },
		{ "flag", { 0, 0, 0, 0, FRAME_PING, 1 }, 12 },
		{ "agent's", { 0, 0, 0, 0, FRAME_EXIT, 0, 0, 0, 1 }, 12 },
	};
	const char *argv[] = { "sh", "-c",
			       "yes | head -c 1000000; echo ok > done", NULL };
	struct spawn s = { .argv = argv };
	struct client old = c;
	struct result r;
	size_t i;

	for (i = 0; i < ARRAY_LEN(wrong); i++) {
		CHECK(client_open(&c, b->sock) == 1);
		CHECK(client_next(&old, REPLY_MS) == 0); /* replaced */
		client_close(&old);
		if (write(c.fd, wrong[i].bytes, wrong[i].n) < 0)
			printf("# write failed\n");
		CHECK(client_next(&c, REPLY_MS) == 0);
		old = c;
	}
	client_close(&old);
	CHECK(client_open(&c, b->sock) == 1);
	r = SH("echo fine");
	CHECK(says(&r, "fine\n"));
	/* A bad request is the channel's end, not the connection's. */
	client_frame(&c, FRAME_SPAWN, 1, "bad", 3);
	CHECK(client_next(&c, REPLY_MS) == 1 && c.f.type == FRAME_FAILED);
	/* Its client leaves: the process waits, and goes on after a while. */
	client_spawn(&c, 1, &s);
	while (client_next(&c, 300) == 1)
		continue;
	client_close(&c);
	CHECK(client_open(&c, b->sock) == 1);
	r = SH("cat done 2>/dev/null; echo here");
	CHECK(says(&r, "here\n"));
	if (!large)
		return;
	sleep(31);
	r = SH("cat done");
	CHECK(says(&r, "ok\n"));
}

static void test_sudo(void)
{
	struct result r = SH("/tmp/sudo id -u; /tmp/sudo -u user id -u; "
			     "/tmp/sudo -u '#2' id -u; /tmp/sudo -n true && "
			     "/tmp/sudo -v && echo ok");

	CHECK(says(&r, "0\n1000\n2\nok\n"));
	r = SH("cd /usr; A=1 http_proxy=p /tmp/sudo B=2 sh -c "
	       "'pwd; echo $A/$B/$http_proxy/$HOME/$SUDO_USER/$USER'");
	CHECK(says(&r, "/usr\n/2/p//tmp/user/root\n"));
	r = SH("A=1 C=3 /tmp/sudo -E sh -c 'echo $A $HOME'; "
	       "A=1 C=3 /tmp/sudo --preserve-env=C sh -c 'echo $A/$C'");
	CHECK(says(&r, "1 /home/user\n/3\n"));
	r = SH("/tmp/sudo grep CapEff /proc/self/status; "
	       "/tmp/sudo ls /proc/self/fd | tr '\\n' ' '; "
	       "/tmp/sudo cat /proc/self/oom_score_adj");
	CHECK(says(&r, "CapEff:\t00000000000000fb\n0 1 2 3 500\n"));
	r = SH("echo through | /tmp/sudo tr a-z A-Z; /tmp/sudo sh -c 'exit 7' "
	       "|| echo $?; /tmp/sudo nothing-there 2>/dev/null || echo $?; "
	       "/tmp/sudo sh -c 'kill -TERM $$' 2>/dev/null || echo $?");
	CHECK(says(&r, "THROUGH\n7\n127\n143\n"));
	r = SH("/tmp/sudo sleep 100 & sleep 0.3; kill -TERM $!; wait $!; "
	       "echo $?; pgrep -x sleep | wc -l");
	CHECK(says(&r, "143\n0\n"));
	r = SH("/tmp/sudo sleep 100 & sleep 0.3; kill -KILL $!; sleep 0.3; "
	       "pgrep -x sleep | wc -l");
	CHECK(says(&r, "0\n"));
	r = SH("/tmp/sudo -i pwd; /tmp/sudo -s echo 'a  b' '$USER'; "
	       "/tmp/sudo -i echo 'a  b' '$USER'");
	CHECK(says(&r, "/tmp\na  b root\na  b root\n"));
	r = SH("for i in 1 2 3 4 5 6 7 8 9 10; do /tmp/sudo id -u & done; "
	       "wait");
	CHECK(says(&r, "0\n0\n0\n0\n0\n0\n0\n0\n0\n0\n"));
	r = client_sh(&c, SPAWN_PTY | SPAWN_STDIN, "",
		      "/tmp/sudo sh -c 'tty; stty size; id -u'; stty size");
	CHECK(fine(&r) && strstr(OUT(r), "/dev/pts/1\r\n24 80\r\n0\r\n24 80"));
	result_done(&r);
}

/* Reads on until the terminal has shown `text`. */
static bool shown(struct result *r, const char *text)
{
	while (!strstr(buf_str(&r->out[0]), text)) {
		if (r->ended || client_next(&c, REPLY_MS) != 1) {
			printf("# waits for '%s': '%s'\n", text, OUT(*r));
			return false;
		}
		client_note(&c, r, true);
	}
	return true;
}

static uint64_t type(uint64_t at, const char *keys)
{
	client_input(&c, 2, at, keys, strlen(keys));
	return at + strlen(keys);
}

/* A shell through sudo is a shell: job control, the keyboard's signals. */
static void test_sudo_shell(void)
{
	const char *argv[] = { "/tmp/sudo", "PS1=ready>", "sh", "-i", NULL };
	struct spawn s = { .flags = SPAWN_PTY | SPAWN_STDIN, .argv = argv };
	struct result r = { 0 };
	uint64_t at = 0;

	client_spawn(&c, 2, &s);
	CHECK(shown(&r, "ready>"));
	at = type(at, "echo $((6*7)) $(id -u)\n");
	CHECK(shown(&r, "42 0"));
	at = type(at, "sleep 100; echo over $?\n");
	CHECK(shown(&r, "over $?"));
	usleep(100000);
	at = type(at, "\003");
	at = type(at, "echo next $?\n");
	CHECK(shown(&r, "next 130"));
	at = type(at, "sleep 100\n");
	usleep(100000);
	at = type(at, "\032");
	CHECK(shown(&r, "Stopped"));
	/* The first exit only warns of the stopped job. */
	type(at, "kill -9 %1; exit 9\nexit 9\n");
	client_wait(&c, &r);
	CHECK(r.exit.code == 9 && !r.broken);
	if (r.broken)
		printf("# screen: %s\n", buf_str(&r.out[0]));
	result_done(&r);
}

static uint64_t dirty_kib(pid_t pid)
{
	char path[64], text[4096], *at;

	snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", pid);
	if (read_file_at(AT_FDCWD, path, text, sizeof(text)) < 0)
		return 0;
	at = strstr(text, "Private_Dirty:");
	return at ? strtoull(at + strlen("Private_Dirty:"), NULL, 10) : 0;
}

int main(int argc, char **argv)
{
	struct box b;
	struct result r;
	int skip = box_start(&b, argv[0], true, true);

	(void)argc;
	signal(SIGPIPE, SIG_IGN);
	large = getenv("AGENT_LONG") != NULL;
	if (skip) {
		printf("1..0 # SKIP needs root and namespaces\n");
		return skip;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	CHECK(client_open(&c, b.sock) == 1);
	printf("# idle: %llu KiB private\n",
	       (unsigned long long)dirty_kib(b.pid));
	CHECK(dirty_kib(b.pid) > 0 && dirty_kib(b.pid) < 150);
	r = SH("grep -c '/agent-test-.*/user$' /proc/self/cgroup; "
	       "grep -c '/agent-test-.*/agent$' /proc/1/cgroup");
	if (*b.join)
		CHECK(says(&r, "1\n1\n"));
	result_done(&r);
	test_basics();
	test_confinement();
	test_failures();
	test_output();
	test_slow_reader();
	test_input();
	test_signals();
	test_pty();
	test_background();
	test_builtin();
	test_sudo();
	test_sudo_shell();
	test_many();
	test_orphans_are_reaped(&b);
	printf("# after all that: %llu KiB private\n",
	       (unsigned long long)dirty_kib(b.pid));
	test_connection(&b);
	client_close(&c);
	box_stop(&b);
	/* The other kind of group, and no sudo. */
	if (box_start(&b, argv[0], false, false) == 0) {
		CHECK(client_open(&c, b.sock) == 1);
		r = SH("/tmp/sudo true");
		CHECK(r.exit.code == 1 && strstr(ERRORS(r), "turned off"));
		result_done(&r);
		r = SH("grep -c '/agent-test-' /proc/self/cgroup; "
		       "grep -c '/agent-test-' /proc/1/cgroup; true");
		if (*b.join)
			CHECK(says(&r, "1\n0\n"));
		result_done(&r);
		r = run("true", "", "root");
		CHECK(refused(&r, EPERM, "turned off"));
		client_close(&c);
		box_stop(&b);
	}
	return CHECK_DONE();
}
