/*
 * carrel-api: see api.h. Started by the supervisor as root, works as its own
 * user behind a filter of system calls.
 *
 * The socket exists from the start, but nobody is served before the first
 * reconciliation with the warden: until then clients wait in the kernel's
 * queue. If the warden does not come up, they are told so.
 */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "api/api.h"
#include "api/fetch.h"
#include "api/inner.h"
#include "api/routes.h"
#include "api/tiers.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/last_error.h"
#include "seccomp/seccomp.h"

enum {
	START_WAIT_MS = 15000, /* making the pool takes a while... */
	START_LOOK_MS = 200,   /* ...and a warden that fails says so */
	CHECKPOINT_MS = 500,
	WAL_SOME = 1000,  /* pages: folded in when it is quiet */
	WAL_MANY = 16384, /* folded in now */
	STOP_MAX_MS = 1000,
	STOP_STEP_MS = 2,
};

static struct api api;

static void listen_now(struct api *a)
{
	struct err e = { 0 };

	if (a->listen_fd < 0)
		return;
	a->http.on_request = route;
	a->http.on_answer = audit_answer;
	a->http.ctx = a;
	a->http.max_conns = local_conns_max();
	if (http_server_start(&a->http, &a->loop, take_fd(&a->listen_fd), &e) <
	    0)
		die("serve: %s", e.msg);
	if (inner_init(a, &e) < 0)
		die("serve: %s", e.msg);
	tcp_serve(a);
}

void api_serve(struct api *a)
{
	if (!a->reconciled)
		own_secrets_sweep(a);
	a->reconciled = true;
	timer_del(&a->loop, &a->late);
	gates_start(a);
	mcp_boxes_find(a);
	listen_now(a);
}

void api_hold(struct api *a)
{
	timer_del(&a->loop, &a->late);
	listen_now(a);
}

/* Clients wait for the warden, unless it has failed or takes too long. */
static void on_late(struct timer *t)
{
	struct api *a = container_of(t, struct api, late);
	struct err why = { 0 };

	if (!warden_failed(&a->warden) &&
	    clock_boot_ms() - a->started_ms < START_WAIT_MS) {
		timer_set(&a->loop, t, START_LOOK_MS, on_late);
		return;
	}
	warden_explain(&a->warden, &why);
	log_err("%s; saying so to clients", why.msg);
	listen_now(a);
}

static void on_checkpoint(struct timer *t)
{
	struct api *a = container_of(t, struct api, checkpoint);
	bool quiet = clock_boot_ms() > a->boxes.last_create_ms + CHECKPOINT_MS;
	struct err e = { 0 };

	if (!quiet && a->registry.wal_pages < WAL_MANY)
		timer_set(&a->loop, t, CHECKPOINT_MS, on_checkpoint);
	else if (registry_checkpoint(&a->registry, &e) < 0)
		log_err("%s", e.msg);
}

void api_registry_touched(struct api *a)
{
	if (a->registry.wal_pages > WAL_SOME && a->checkpoint.slot == 0)
		timer_set(&a->loop, &a->checkpoint, CHECKPOINT_MS,
			  on_checkpoint);
}

static void stop_now(struct timer *t)
{
	container_of(t, struct api, late)->loop.stop = true;
}

/* Ends the loop when nothing is left that only we know of. */
static void on_stopping(struct timer *t)
{
	struct api *a = container_of(t, struct api, checkpoint);
	struct list *n, *next;
	bool left = false;

	list_each (n, next, &a->boxes.all) {
		struct sandbox *s = container_of(n, struct sandbox, all);

		left |= s->spare || s->transient;
	}
	if (left && warden_is_up(&a->warden))
		timer_set(&a->loop, t, STOP_STEP_MS, on_stopping);
	else
		a->loop.stop = true;
}

/*
 * Spares and the sandboxes of runs have no one but us: they go first, as long
 * as the warden listens. (After a crash, the next reconciliation finds them.)
 */
static void on_signal(struct io *io, uint32_t events)
{
	struct api *a = container_of(io, struct api, signals);
	struct signalfd_siginfo si;
	struct list *n, *next;

	(void)events;
	if (read(io->fd, &si, sizeof(si)) != sizeof(si))
		return;
	log_info("stopping, sandboxes go on");
	a->boxes.closing = true;
	list_each (n, next, &a->boxes.all) {
		struct sandbox *s = container_of(n, struct sandbox, all);

		if (s->spare || s->transient)
			box_abort(s, EAGAIN, "the daemon is stopping");
	}
	timer_set(&a->loop, &a->late, STOP_MAX_MS, stop_now);
	on_stopping(&a->checkpoint);
}

static int watch_signals(struct api *a)
{
	const struct sigaction ignore = { .sa_handler = SIG_IGN };
	sigset_t set;
	int fd;

	sigaction(SIGPIPE, &ignore, NULL);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigprocmask(SIG_BLOCK, &set, NULL);
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd < 0)
		return -errno;
	return io_add(&a->loop, &a->signals, fd, EPOLLIN, on_signal);
}

static void load(struct api *a)
{
	char path[CONF_PATH + 32];
	struct err e = { 0 };
	ssize_t n = read_file_at(AT_FDCWD, "/proc/sys/kernel/random/boot_id",
				 a->boot_id, sizeof(a->boot_id));

	if (n <= 0)
		die("read the boot id: %s", strerror((int)-n));
	a->boot_id[strcspn(a->boot_id, "\n")] = '\0';
	snprintf(path, sizeof(path), "%s/registry/registry.db",
		 a->conf.state_dir);
	/* Sandboxes that ended meanwhile take what is theirs along: the rest
	 * is there before them. */
	if (audit_start(a, &e) < 0 ||
	    registry_open(&a->registry, path, &e) < 0 ||
	    pool_id_load(a, &e) < 0 || strays_load(a, &e) < 0 ||
	    keys_load(a, &e) < 0 || tiers_check(a, &e) < 0 ||
	    policies_load(a, &e) < 0 || secrets_load(a, &e) < 0 ||
	    grants_load(a, &e) < 0 || ends_load(a, &e) < 0 ||
	    snapshots_load(a, &e) < 0 || boxes_load(a, &e) < 0 ||
	    ledger_start(a, &e) < 0 || images_load(a, &e) < 0 ||
	    ports_init(a, &e) < 0 ||
	    disk_syncs_init(&a->disk_syncs, &a->loop, &e) < 0 ||
	    drive_start(a, &e) < 0 || volumes_load(a, &e) < 0 ||
	    templates_load(a, &e) < 0 || blobs_start(a, &e) < 0 ||
	    fetch_check(&a->conf, &e) < 0)
		die("%s", e.msg);
}

static void start(struct api *a)
{
	struct err e = { 0 };
	int r;

	a->warden.on_up = reconcile_start;
	a->warden.on_ended = reconcile_ended;
	a->warden.ctx = a;
	a->started_ms = clock_boot_ms();
	timer_set(&a->loop, &a->late, START_LOOK_MS, on_late);
	r = seccomp_install(&filter_api);
	if (r < 0)
		die("install the system-call filter: %s", strerror(-r));
	if (warden_start(&a->warden, &a->loop, a->conf.run_dir, &e) < 0)
		die("%s", e.msg);
	audit_connect(a);
}

int main(int argc, char **argv)
{
	struct api *a = &api;
	struct err e = { 0 };
	int r;

	log_init("api", LOG_INFO);
	a->listen_fd = a->tcp.listen_fd = -1;
	if (conf_from_args(&a->conf, argc, argv, &e) < 0)
		die("%s", e.msg);
	log_init("api", conf_log_level(&a->conf));
	last_error_open(a->conf.run_dir, "api");
	gates_init(a);
	if (api_set_up(a, &e) < 0 || api_drop_privileges(a, &e) < 0)
		die_at_start(&e);
	/* Buffers of relays come and go: not with a system call each. */
	mallopt(M_MMAP_THRESHOLD, 4 << 20);
	mallopt(M_TRIM_THRESHOLD, 8 << 20);
	r = loop_init(&a->loop);
	if (r == 0)
		r = watch_signals(a);
	if (r < 0)
		die("event loop: %s", strerror(-r));
	fair_init(a);
	pools_init(&a->pools);
	keys_init(a);
	ends_init(a);
	replays_init(a);
	list_init(&a->views);
	list_init(&a->merges);
	list_init(&a->moves);
	list_init(&a->e2b_watchers);
	ledger_init(a);
	snapshots_init(a);
	boxes_init(a);
	e2b_volumes_init(a);
	approvals_init(a);
	mcp_init(a);
	events_init(a);
	images_init(a);
	load(a);
	admission_start(a);
	start(a);
	last_error_clear();
	r = loop_run(&a->loop);
	if (r < 0)
		die("event loop: %s", strerror(-r));
	ledger_flush(a);
	audit_stop(a);
	registry_close(&a->registry);
	return 0;
}
