/*
 * carrel-gate: see gate.h. Started by the supervisor as root. This process
 * becomes the starter (starter.h); its first child is the keeper.
 */
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/last_error.h"
#include "base/log.h"
#include "gate/confine.h"
#include "gate/dial.h"
#include "gate/gate.h"
#include "gate/keeper.h"
#include "gate/prices.h"
#include "gate/setup.h"
#include "gate/starter.h"
#include "http/tls.h"

static struct setup setup = {
	.listen_fd = -1,
	.lock_fd = -1,
	.vault_fd = -1,
	.spool_fd = -1,
	.state_fd = -1,
	.log_fd = -1,
	.resolv.dir_fd = -1,
	.hosts.dir_fd = -1,
};
static struct gate gate = { .conf = &setup.conf };

/*
 * Libraries listen to their environment: files to write keys into, servers to
 * ask, modules to load. Ours has nothing for them.
 */
static void clear_environment(void)
{
	static const char name[] = "JOURNAL_STREAM"; /* log.c asks for it */
	const char *s = getenv(name);
	char journal[64];

	if (str_copy(journal, sizeof(journal), s ? s : "") < 0)
		journal[0] = '\0';
	if (clearenv() != 0 || (*journal && setenv(name, journal, 1) < 0))
		die("clear the environment");
}

/* Nothing of who started us stays open, and nothing is read from there. */
static void close_inherited(void)
{
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (fd < 0 || dup2(fd, STDIN_FILENO) < 0 ||
	    dup2(fd, STDOUT_FILENO) < 0 ||
	    close_range(STDERR_FILENO + 1, ~0U, 0) < 0)
		die("close descriptors: %s", strerror(errno));
}

static void __attribute__((noreturn)) be_keeper(int link_fd, pid_t parent)
{
	struct err e = { 0 };

	auto_close(&setup.log_fd);
	if (confine_child("carrel-keeper", parent, &e) < 0)
		die("start the keeper: %s", e.msg);
	exit(keeper_run(&setup, link_fd));
}

/* What doors have of the host's files, read while there are files. */
static int load(struct err *e)
{
	struct prices *prices = NULL;

	if (dial_check(&setup.conf, e) < 0 ||
	    prices_read(&prices, setup.conf.models, e) < 0)
		return -e->code;
	gate.prices = prices;
	/* Without authorities no server is believed: https does not work. */
	if (tls_client_context_new(&gate.upstream_tls, setup.conf.gate_ca, e) <
	    0) {
		log_err("gate_ca: %s: no server outside can prove who it is",
			e->msg);
		err_clear(e);
	}
	return 0;
}

static void start(int argc, char **argv)
{
	struct err e = { 0 };

	if (conf_from_args(&setup.conf, argc, argv, &e) < 0)
		die("%s", e.msg);
	log_init("gate", conf_log_level(&setup.conf));
	last_error_open(setup.conf.run_dir, "gate");
	if (sodium_init() < 0)
		die("libsodium does not start");
	if (setup_make(&setup, &e) < 0 || load(&e) < 0)
		die_at_start(&e);
	/* One group, which ends together; a session's first has it already. */
	if (setpgid(0, 0) < 0 && errno != EPERM)
		die("become a process group: %s", strerror(errno));
	last_error_clear(); /* before there is a keeper to inherit the file */
}

int main(int argc, char **argv)
{
	int pair[2];
	pid_t self = getpid(), keeper;
	struct err e = { 0 };

	log_init("gate", LOG_INFO);
	clear_environment();
	close_inherited();
	start(argc, argv);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		die("socketpair: %s", strerror(errno));
	keeper = fork();
	if (keeper < 0)
		die("fork: %s", strerror(errno));
	if (keeper == 0) {
		close(pair[0]);
		be_keeper(pair[1], self);
	}
	close(pair[1]);
	setup_forget_files(&setup);
	if (confine_starter(&setup, &e) < 0)
		die("%s", e.msg);
	return starter_run(&gate, pair[0], keeper, setup.lock_fd);
}
