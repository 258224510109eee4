/*
 * The supervisor: starts the roles, restarts the ones that die (with a
 * growing pause), and ends them when it is told to stop. It reads its own
 * configuration and nothing else, holds no descriptor of anyone, and never
 * touches a sandbox: those belong to no role's lifetime.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/conf.h"
#include "base/fd.h"
#include "base/last_error.h"
#include "base/needs.h"
#include "base/opt.h"
#include "base/privs.h"
#include "base/product.h"
#include "base/slice.h"
#include "daemon/own.h"

enum {
	PAUSE_MIN_MS = 50,
	PAUSE_MAX_MS = 5000,
	STEADY_MS = 10000, /* alive this long: the next pause is short again */
	STOP_MS = 4000,    /* a role that does not stop by then is killed */
	READY_MS = 120000, /* making the pool may take a while */
};

struct role {
	const char *program, *name;
	pid_t pid; /* 0: not running */
	uint64_t started_ms, next_ms, pause_ms;
	bool refuses; /* its settings, at its first start */
	bool again;   /* it was started before */
};

/*
 * What the roles need to start, each of which keeps less: the warden's, and a
 * port below 1024 for the api. Not among them are the ways into the kernel
 * (modules, raw devices, BPF, tracing of it), its log and its clock.
 */
#define CAPS                                                                 \
	(1ULL << CAP_CHOWN | 1ULL << CAP_DAC_OVERRIDE | 1ULL << CAP_FOWNER | \
	 1ULL << CAP_FSETID | 1ULL << CAP_KILL | 1ULL << CAP_SETGID |        \
	 1ULL << CAP_SETUID | 1ULL << CAP_SETPCAP |                          \
	 1ULL << CAP_NET_BIND_SERVICE | 1ULL << CAP_NET_ADMIN |              \
	 1ULL << CAP_SYS_CHROOT | 1ULL << CAP_SYS_PTRACE |                   \
	 1ULL << CAP_SYS_ADMIN | 1ULL << CAP_SYS_RESOURCE |                  \
	 1ULL << CAP_MKNOD | 1ULL << CAP_SETFCAP)

static struct role roles[] = {
	{ .program = PRODUCT "-scribe", .name = "scribe" },
	{ .program = PRODUCT "-warden", .name = "warden" },
	{ .program = PRODUCT "-gate", .name = "gate" },
	{ .program = PRODUCT "-api", .name = "api" },
};

/*
 * Whatever is in the environment of who started us stays here: libraries
 * listen to it, and it may hold what is nobody's business.
 */
static char *const *role_env(void)
{
#ifdef SANITIZED /* the sanitizers' options */
	return environ;
#else
	static const char journal[] = "JOURNAL_STREAM="; /* log.c asks for it */
	static char *env[2];
	size_t i;

	for (i = 0; environ[i]; i++)
		if (strncmp(environ[i], journal, strlen(journal)) == 0)
			env[0] = environ[i];
	return env;
#endif
}

static void role_exec(const struct role *r, const struct conf *c,
		      const char *conf_path, pid_t parent)
{
	char path[CONF_PATH + 64];
	const char *argv[] = { r->program, "--config", conf_path, NULL };
	sigset_t none;
	int code;

	if (!conf_path)
		argv[1] = NULL;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	setsid(); /* a terminal's Ctrl-C is for us, who stop them in order */
	/* A role never outlives us: two wardens at once must not be. */
	if (prctl(PR_SET_PDEATHSIG, SIGTERM) < 0 || getppid() != parent)
		_exit(127);
	snprintf(path, sizeof(path), "%s/%s", c->libexec_dir, r->program);
	execve(path, (char *const *)argv, role_env());
	code = errno;
	last_error_open(c->run_dir, r->name);
	log_err("start %s: %s", path, strerror(code));
	_exit(127);
}

static void role_start(struct role *r, const struct conf *c,
		       const char *conf_path)
{
	uint64_t now = clock_boot_ms();
	pid_t self = getpid();

	r->started_ms = now;
	r->refuses = false;
	r->pid = fork();
	if (r->pid == 0)
		role_exec(r, c, conf_path, self);
	if (r->pid < 0) {
		r->pid = 0;
		r->next_ms = now + PAUSE_MAX_MS;
		log_err("fork: %s", strerror(errno));
	}
}

/* A role that was killed could not leave a last error itself. */
static void note_signal(const struct role *r, const struct conf *c, int status)
{
	char why[64];

	if (!WIFSIGNALED(status))
		return;
	snprintf(why, sizeof(why), "killed by signal %d (%s)", WTERMSIG(status),
		 strsignal(WTERMSIG(status)));
	last_error_open(c->run_dir, r->name);
	last_error_put(why, strlen(why));
	last_error_close();
}

static void role_ended(struct role *r, const struct conf *c, int status)
{
	uint64_t now = clock_boot_ms();

	note_signal(r, c, status);
	/* Settings that were changed later do not end what runs. */
	r->refuses = !r->again && WIFEXITED(status) &&
		     WEXITSTATUS(status) == EXIT_SETTINGS;
	r->again = true;
	if (now - r->started_ms > STEADY_MS)
		r->pause_ms = 0;
	r->next_ms = now + r->pause_ms;
	log_warn("role=%s ended status=%#x, starting again in %llu ms",
		 r->program, (unsigned)status, (unsigned long long)r->pause_ms);
	r->pause_ms = r->pause_ms ? 2 * r->pause_ms : PAUSE_MIN_MS;
	if (r->pause_ms > PAUSE_MAX_MS)
		r->pause_ms = PAUSE_MAX_MS;
	r->pid = 0;
}

/* Also reaps agents whose warden died: we are their subreaper. */
static void reap(const struct conf *c, bool stopping)
{
	int status;
	pid_t pid;
	size_t i;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		for (i = 0; i < ARRAY_LEN(roles); i++)
			if (roles[i].pid == pid) {
				if (stopping)
					roles[i].pid = 0;
				else
					role_ended(&roles[i], c, status);
			}
}

static void stop_role(const struct role *r, const struct conf *c, int sig_fd)
{
	struct pollfd p = { .fd = sig_fd, .events = POLLIN };
	struct signalfd_siginfo si;
	uint64_t until = clock_boot_ms() + STOP_MS;

	if (r->pid)
		kill(r->pid, SIGTERM);
	for (;;) {
		reap(c, true);
		if (!r->pid)
			return;
		if (clock_boot_ms() > until)
			kill(r->pid, SIGKILL);
		if (poll(&p, 1, 100) > 0)
			(void)!read(sig_fd, &si, sizeof(si));
	}
}

/* The last one first: the api still needs the warden, to end what is only its
 * own (spares, the sandboxes of runs), and the scribe takes its last words. */
static void stop_roles(const struct conf *c, int sig_fd)
{
	size_t i;

	for (i = ARRAY_LEN(roles); i-- > 0;)
		stop_role(&roles[i], c, sig_fd);
}

static int start_due(const struct conf *c, const char *conf_path)
{
	uint64_t now = clock_boot_ms(), wait = 3600 * 1000;
	size_t i;

	for (i = 0; i < ARRAY_LEN(roles); i++) {
		struct role *r = &roles[i];

		if (r->pid)
			continue;
		if (r->next_ms <= now)
			role_start(r, c, conf_path);
		else if (r->next_ms - now < wait)
			wait = r->next_ms - now;
	}
	return (int)wait;
}

/* The role that refuses its settings, or NULL. */
static const struct role *refusing(void)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(roles); i++)
		if (roles[i].refuses)
			return &roles[i];
	return NULL;
}

static int supervise(const struct conf *c, const char *conf_path)
{
	AUTO_CLOSE int sig_fd = -1;
	struct signalfd_siginfo si;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigprocmask(SIG_BLOCK, &set, NULL);
	sig_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (sig_fd < 0)
		die("signalfd: %s", strerror(errno));
	if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
		die("become subreaper: %s", strerror(errno));
	for (;;) {
		struct pollfd p = { .fd = sig_fd, .events = POLLIN };
		int wait = start_due(c, conf_path);

		if (poll(&p, 1, wait) > 0 &&
		    read(sig_fd, &si, sizeof(si)) == sizeof(si) &&
		    si.ssi_signo != SIGCHLD) {
			log_info("stopping, sandboxes go on");
			stop_roles(c, sig_fd);
			return 0;
		}
		reap(c, false);
		if (refusing()) {
			log_err("stopping: correct the setting that %s names "
				"above",
				refusing()->program);
			stop_roles(c, sig_fd);
			return 1;
		}
	}
}

/* One supervisor per run directory; the lock goes with the process. */
static void lock_run_dir(const struct conf *c)
{
	char path[CONF_PATH + 16], pid[24];
	int fd;

	if (mkdir(c->run_dir, 0755) < 0 && errno != EEXIST)
		die("create %s: %s", c->run_dir, strerror(errno));
	snprintf(path, sizeof(path), "%s/daemon.pid", c->run_dir);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (fd < 0)
		die("open %s: %s", path, strerror(errno));
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		die("already running (%s is locked)", path);
	snprintf(pid, sizeof(pid), "%d\n", (int)getpid());
	if (ftruncate(fd, 0) < 0 || write_full(fd, pid, strlen(pid)) < 0)
		die("write %s: %s", path, strerror(errno));
}

/* Errors of an earlier run say nothing about this one. */
static void forget_errors(const struct conf *c)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(roles); i++)
		last_error_remove(c->run_dir, roles[i].name);
}

static void check_host(void)
{
	char container[CONTAINER_CAP];
	struct err e = { 0 };

	needs_container(container);
	if (needs_host_ids(&e) < 0 || needs_caps(&e) < 0 ||
	    needs_cgroups(&e) < 0)
		die("cannot make sandboxes in this %s%s: %s", container,
		    *container ? " container" : "host", e.msg);
	if (*container)
		log_warn("this host is a container (%s): mounts, cgroups and "
			 "limits are those that it is given",
			 container);
}

/* The roles check the same; here nobody is started in vain. */
static void check_users(const struct conf *c)
{
	const char *const users[][2] = { { c->user, "user" },
					 { c->log_user, "log_user" },
					 { c->gate_user, "gate_user" } };
	struct err e = { 0 };
	uid_t uid;
	gid_t gid;
	size_t i;

	for (i = 0; i < ARRAY_LEN(users); i++)
		if (privs_find_user(users[i][0], users[i][1], &uid, &gid, &e) <
		    0)
			die("%s", e.msg);
	if (!getgrnam(c->group))
		die("group '%s' does not exist: 'make install' creates it, or "
		    "set `group` in the configuration",
		    c->group);
}

/* The parent of --background: waits until the api answers. */
static int await_ready(const struct conf *c, pid_t pid, const char *log_path)
{
	char path[CONF_PATH + 16];
	uint64_t until = clock_boot_ms() + READY_MS;

	snprintf(path, sizeof(path), "%s/api.sock", c->run_dir);
	while (clock_boot_ms() < until) {
		AUTO_CLOSE int fd = unix_connect(path, SOCK_STREAM);

		if (fd >= 0)
			return 0;
		if (waitpid(pid, NULL, WNOHANG) == pid)
			break;
		poll(NULL, 0, 20);
	}
	fprintf(stderr, PRODUCT "d: did not start, see %s\n", log_path);
	return 1;
}

static void go_background(const struct conf *c)
{
	char log_path[CONF_PATH + 16];
	int null_fd, log_fd;
	pid_t pid;

	if (mkdir(c->state_dir, 0755) < 0 && errno != EEXIST)
		die("create %s: %s", c->state_dir, strerror(errno));
	snprintf(log_path, sizeof(log_path), "%s/daemon.log", c->state_dir);
	log_fd =
		open(log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
	null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (log_fd < 0 || null_fd < 0)
		die("open %s: %s", log_path, strerror(errno));
	pid = fork();
	if (pid < 0)
		die("fork: %s", strerror(errno));
	if (pid > 0)
		_exit(await_ready(c, pid, log_path));
	setsid();
	if (chdir("/") < 0 || dup2(null_fd, 0) < 0 || dup2(null_fd, 1) < 0 ||
	    dup2(log_fd, 2) < 0)
		die("detach: %s", strerror(errno));
}

/* As the systemd unit does: on a host without memory the kernel kills the
 * sandboxes' processes first. Those set their own. */
static void stay_alive(void)
{
	static const char path[] = "/proc/self/oom_score_adj";
	static const char score[] = "-900";
	AUTO_CLOSE int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, score, strlen(score)) < 0)
		log_warn("set %s to %s: %s, so the kernel may kill a role when "
			 "memory is short",
			 path, score, strerror(errno));
}

int main(int argc, char **argv)
{
	const char *conf_path = NULL;
	bool background = false, help = false;
	const struct opt opts[] = {
		{ "config", 'c', OPT_TEXT, &conf_path, "FILE",
		  "configuration (default " DEFAULT_CONF ")" },
		{ "background", 'b', OPT_FLAG, &background, NULL,
		  "go on in the background once it is ready" },
		{ "help", 'h', OPT_FLAG, &help, NULL, "this text" },
		{ 0 },
	};
	struct conf c;
	struct err e = { 0 };

	log_init("daemon", LOG_INFO);
	if (opt_parse(opts, argc, argv, &e) < 0)
		die("%s", e.msg);
	if (help) {
		printf("usage: " PRODUCT "d [OPTIONS]\n");
		opt_help(opts);
		return 0;
	}
	if (geteuid() != 0)
		die("needs root: try 'sudo %s'", argv[0]);
	if (conf_load(&c, conf_path, &e) < 0)
		die("%s", e.msg);
	if (c.retired)
		log_warn("the key %s of the configuration has no effect any "
			 "more: remove its line",
			 c.retired);
	check_host();
	check_users(&c);
	umask(022);
	if (background) {
		go_background(&c);
		stay_alive();
	}
	lock_run_dir(&c);
	if (own_take(&c, &e) < 0)
		die("%s", e.msg);
	forget_errors(&c);
	if (privs_limit(CAPS, &e) < 0)
		die("%s", e.msg);
	/* The roles', and that of sandboxes, which are born from one. */
	if (slice_short(&e) < 0)
		log_warn("%s, so a busy host answers late", e.msg);
	return supervise(&c, conf_path);
}
