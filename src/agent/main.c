#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/auto.h"
#include "base/relro.h"
#include "base/str.h"
#include "sandbox/walls.h"
#include "wire/agent_args.h"

static struct agent agent = {
	.confine = { .oom_fd = -1, .into_fd = -1, .join_fd = -1 },
	.listen.fd = -1,
	.conn.fd = -1,
	.sudo.fd = -1,
	.sudo_gate.fd = -1,
	.children.fd = -1,
};

static int take_fd_arg(const char *v, int *fd)
{
	uint64_t n;
	int r = parse_u64(v, 1 << 20, &n);

	if (r < 0)
		return r;
	*fd = (int)n;
	return 0;
}

static int take_listen(const char *v)
{
	return take_fd_arg(v, &agent.listen.fd);
}

static int take_oom(const char *v)
{
	return take_fd_arg(v, &agent.confine.oom_fd);
}

static int take_join(const char *v)
{
	return take_fd_arg(v, &agent.confine.join_fd);
}

static int take_into(const char *v)
{
	return take_fd_arg(v, &agent.confine.into_fd);
}

static int take_cpus(const char *v)
{
	uint64_t n;
	int r = parse_u64(v, CPU_SETSIZE, &n);

	if (r == 0)
		agent.confine.cpus = (unsigned)n;
	return r;
}

static int take_nofile(const char *v)
{
	uint64_t n;
	int r = parse_u64(v, UINT32_MAX, &n);

	if (r == 0)
		agent.confine.nofile = (unsigned)n;
	return r;
}

static int take_sudo(const char *v)
{
	agent.confine.sudo = strcmp(v, "1") == 0;
	return agent.confine.sudo || strcmp(v, "0") == 0 ? 0 : -EINVAL;
}

#ifdef WALLS_TEST
static int take_walls(const char *v)
{
	char *end;

	walls_off = (unsigned)strtoul(v, &end, 16);
	return *end ? -EINVAL : 0;
}
#endif

static const struct word {
	const char *key;
	int (*take)(const char *value);
} words[] = {
	{ "listen=", take_listen }, { "oom=", take_oom },
	{ "join=", take_join },     { "into=", take_into },
	{ "cpus=", take_cpus },     { "sudo=", take_sudo },
	{ "nofile=", take_nofile },
#ifdef WALLS_TEST
	{ "walls=", take_walls },
#endif
};

static int take_word(const char *arg)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(words); i++)
		if (str_starts(arg, words[i].key))
			return words[i].take(arg + strlen(words[i].key));
	return -EINVAL;
}

/*
 * 0, 1 and 2 are /dev/null if nothing else: no descriptor of ours may get
 * these numbers, the child's are put there.
 */
static int open_null(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR | O_CLOEXEC | O_NOCTTY);
	while (fd >= 0 && fd <= STDERR_FILENO);
	return fd < 0 ? -errno : fd;
}

static int MUST_CHECK harden(void)
{
	struct rlimit files;

	/* Nobody inside traces us: also where exec from a memfd is not it. */
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return -errno;
	if (getrlimit(RLIMIT_NOFILE, &files) < 0)
		return -errno;
	files.rlim_cur = files.rlim_max;
	return setrlimit(RLIMIT_NOFILE, &files) < 0 ? -errno : 0;
}

static int MUST_CHECK start(void)
{
	struct agent *a = &agent;
	int r;

	list_init(&a->chans);
	list_init(&a->procs);
	list_init(&a->kept);
	list_init(&a->ready);
	list_init(&a->sinks);
	pace_init(a);
	ps_init(a);
	r = harden();
	if (r < 0)
		return r;
	a->null_fd = open_null();
	if (a->null_fd < 0)
		return a->null_fd;
	if (getrandom(a->nonce, sizeof(a->nonce), 0) != sizeof(a->nonce))
		return -EIO;
	r = loop_init(&a->loop);
	if (r == 0)
		r = reap_init(a);
	if (r == 0) {
		spare_make(a);
		r = sudo_listen(a);
	}
	if (r == 0)
		r = conn_listen(a, a->listen.fd);
	a->loop.before_wait = conn_flush;
	spare_later(a);
	return r;
}

/*
 * No message on failure: descriptor 2 may not be open, and the launcher sees
 * PID 1 end. The exit code is the errno.
 */
int main(int argc, char **argv)
{
	int i, r = relro_protect();

	for (i = 1; i < argc && r == 0; i++)
		r = take_word(argv[i]);
	if (r == 0 && agent.listen.fd < 0)
		r = -EINVAL;
	if (r == 0)
		r = start();
	if (r == 0)
		r = loop_run(&agent.loop);
	return r < 0 ? -r : 0;
}
