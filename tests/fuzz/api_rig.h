/*
 * The whole api role in one process, for fuzz targets: its own main.c with a
 * state directory in memory, one sandbox that runs, a warden that says yes,
 * and time that stands still. Around it are those who may say anything: a
 * client, the sandbox's agent, a server behind a port of the sandbox, and a
 * worker that the warden has started.
 *
 * The registry is not made anew for each input: what an input made is there
 * for the next one, up to the limits that projects have.
 */
#pragma once

#include <assert.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int api_main(int argc, char **argv);
#define main api_main
#include "api/main.c"
#undef main

#include "api/e2b/e2b.h"
#include "scratch.h"
#include "wire/frame.h"
#include "wire/warden.h"

enum { RIG_CHANS = 8, RIG_TURNS = 12 };

#define RIG_BOX "iaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define RIG_IMAGE "ibbbbbbbbbbbbbbbbbbbbbbbbbb"

struct rig {
	struct io tick;
	int warden_listen, agent_listen; /* sockets that the api connects to */
	int warden, agent, client;       /* -1: none */
	int server;                /* behind a port of the sandbox; -1: none */
	int worker_in, worker_out; /* the worker's ends of its pipes */
	struct buf to_agent; /* what the api has sent, from a whole frame on */
	bool greeted;
	uint32_t chans[RIG_CHANS]; /* that the api has opened, the last ones */
	unsigned n_chans;
	bool warden_refuses;
	bool client_reads; /* the target itself does */
	char session[64];  /* of MCP: the last that an answer named */
	uint64_t now_ms;
};
static struct rig rig;

/* Time goes on when an input says so: timers are part of what is tried. */
int clock_gettime(clockid_t id, struct timespec *ts)
{
	if (id != CLOCK_BOOTTIME)
		return (int)syscall(SYS_clock_gettime, id, ts);
	ts->tv_sec = (time_t)(rig.now_ms / 1000);
	ts->tv_nsec = (long)(rig.now_ms % 1000) * 1000000;
	return 0;
}

static void rig_close(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* --- the sandbox and the warden ------------------------------------------- */

/* Pipes of a worker: the api's ends are [0] to write to, [1] to read from. */
static void worker_make(int ours[2])
{
	int to[2], from[2];

	rig_close(&rig.worker_in);
	rig_close(&rig.worker_out);
	if (pipe2(to, O_CLOEXEC | O_NONBLOCK) < 0 ||
	    pipe2(from, O_CLOEXEC | O_NONBLOCK) < 0)
		abort();
	ours[0] = to[1];
	ours[1] = from[0];
	rig.worker_in = to[0];
	rig.worker_out = from[1];
}

/* All sandboxes have the one agent. */
static void box_launched(const char *id)
{
	char path[64];

	snprintf(path, sizeof(path), "run/box/%.*s", ID_LEN, id);
	if (mkdirat(top_fd, path, 0700) < 0)
		return; /* it was there before */
	snprintf(path, sizeof(path), "run/box/%.*s/agent.sock", ID_LEN, id);
	if (linkat(top_fd, "run/box/" RIG_BOX "/agent.sock", top_fd, path, 0) <
	    0)
		abort();
}

static void box_killed(const char *id)
{
	char path[64];

	if (strcmp(id, RIG_BOX) == 0)
		return;
	snprintf(path, sizeof(path), "run/box/%.*s/agent.sock", ID_LEN, id);
	unlinkat(top_fd, path, 0);
	snprintf(path, sizeof(path), "run/box/%.*s", ID_LEN, id);
	unlinkat(top_fd, path, AT_REMOVEDIR);
}

/* A socket for a port, or what is wanted to be true. */
static void warden_answer(const struct warden_req *q)
{
	struct warden_rep rep = { .version = WARDEN_VERSION,
				  .op = q->op,
				  .seq = q->seq };
	int ends[2] = { -1, -1 };
	int n = 0;

	switch (q->op) {
	case WARDEN_HELLO:
		break;
	case WARDEN_KILL:
		box_killed(q->id);
		break;
	case WARDEN_LAUNCH:
		box_launched(q->launch.id);
		break;
	case WARDEN_HOST:
		rep.host.max_sandboxes = 100;
		rep.host.flags = HOST_DISK_LIMIT;
		rep.host.pool_bytes = rep.host.pool_free_bytes = 1ULL << 40;
		break;
	case WARDEN_CONNECT:
		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends))
			abort();
		rig_close(&rig.server);
		rig.server = take_fd(&ends[1]);
		n = 1;
		break;
	case WARDEN_IMAGE_IMPORT:
	case WARDEN_VIEW:
	case WARDEN_FETCH:
		worker_make(ends);
		n = 2;
		break;
	case WARDEN_DOOR:
		err_set(&rep.err, EAGAIN, "no door");
		break;
	default:
		if (rig.warden_refuses)
			err_set(&rep.err, EBUSY, "not now");
	}
	if (send_msg_fds(rig.warden, &rep, sizeof(rep), ends, n) < 0)
		abort();
	rig_close(&ends[0]);
	rig_close(&ends[1]);
}

static void warden_turn(void)
{
	int fds[FD_PASS_MAX], i;
	struct warden_req q;

	if (rig.warden < 0)
		rig.warden = accept4(rig.warden_listen, NULL, NULL,
				     SOCK_CLOEXEC | SOCK_NONBLOCK);
	while (rig.warden >= 0 &&
	       recv_msg_fds(rig.warden, &q, sizeof(q), fds) > 0) {
		for (i = 0; i < FD_PASS_MAX; i++)
			rig_close(&fds[i]);
		warden_answer(&q);
	}
}

/* Which channels there are; everything else it says is not believed. */
static void agent_take(const struct frame *f)
{
	if (f->type == FRAME_SPAWN || f->type == FRAME_ATTACH)
		rig.chans[rig.n_chans++ % RIG_CHANS] = f->channel;
}

static void agent_turn(void)
{
	struct hello h;
	struct frame f;
	ssize_t n = 0;

	int fd = accept4(rig.agent_listen, NULL, NULL,
			 SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd >= 0) {
		rig_close(&rig.agent);
		rig.agent = fd;
		buf_clear(&rig.to_agent);
		rig.greeted = false;
	}
	if (rig.agent < 0)
		return;
	do
		n = buf_read(&rig.to_agent, rig.agent, 65536);
	while (n > 0);
	if (!rig.greeted)
		rig.greeted = hello_get(&rig.to_agent, &h) == 1;
	while (rig.greeted && frame_get(&rig.to_agent, &f) == 1) {
		agent_take(&f);
		buf_eat(&rig.to_agent, FRAME_HEAD + f.len);
	}
	if (n == 0)
		rig_close(&rig.agent);
}

static void on_tick(struct io *io, uint32_t events)
{
	(void)io;
	(void)events;
	api.loop.stop = true; /* after this turn */
}

/* What nobody can guess: a client is told it, and so is the fuzzer. */
static void find_session(char *answer, size_t n)
{
	static const char name[] = "Mcp-Session-Id: ";
	const char *at;

	answer[n] = '\0';
	at = strstr(answer, name);
	if (at)
		snprintf(rig.session, sizeof(rig.session), "%.*s",
			 (int)strcspn(at + sizeof(name) - 1, "\r\n"),
			 at + sizeof(name) - 1);
}

static void rig_turns(unsigned n)
{
	char drop[4096];
	ssize_t got;

	while (n-- > 0) {
		api.loop.stop = false;
		if (loop_run(&api.loop) < 0)
			abort();
		warden_turn();
		agent_turn();
		while (rig.client >= 0 && !rig.client_reads &&
		       (got = recv(rig.client, drop, sizeof(drop) - 1,
				   MSG_DONTWAIT)) > 0)
			find_session(drop, (size_t)got);
		while (rig.server >= 0 &&
		       recv(rig.server, drop, sizeof(drop), MSG_DONTWAIT) > 0)
			;
		while (rig.worker_in >= 0 &&
		       read(rig.worker_in, drop, sizeof(drop)) > 0)
			;
	}
}

/* --- what an input may say ------------------------------------------------ */

/* Over the unix socket, as root: who comes so may do everything. */
static void client_open(void)
{
	char path[64];

	rig_close(&rig.client);
	snprintf(path, sizeof(path), "%s/run/api.sock", top);
	rig.client = unix_connect(path, SOCK_STREAM | SOCK_NONBLOCK);
	if (rig.client < 0)
		abort();
}

static void rig_send(int fd, const void *p, size_t n)
{
	if (fd >= 0 && n > 0)
		(void)!send(fd, p, n, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* "$S" is the session of MCP, "$T" the token that opens the sandbox. */
static inline void client_send(const uint8_t *p, size_t n)
{
	char token[E2B_TOKEN_CAP];
	struct buf b = { 0 };
	size_t i;

	e2b_token(&api, RIG_BOX, token);
	for (i = 0; i < n; i++) {
		bool two = p[i] == '$' && i + 1 < n;

		if (two && p[i + 1] == 'S')
			buf_puts(&b, rig.session);
		else if (two && p[i + 1] == 'T')
			buf_puts(&b, token);
		else
			buf_add(&b, p + i, 1);
		i += two && (p[i + 1] == 'S' || p[i + 1] == 'T');
	}
	rig_send(rig.client, buf_data(&b), buf_len(&b));
	buf_done(&b);
}

/* A frame of the agent: its type, one of the channels, the payload. */
static void agent_frame(const uint8_t *p, size_t n)
{
	struct buf b = { 0 };
	uint32_t channel;

	if (n < 2)
		return;
	channel = rig.n_chans ? rig.chans[p[1] % RIG_CHANS] : p[1];
	frame_put(&b, (enum frame_type)(FRAME_PONG + p[0] % 10), 0, channel,
		  p + 2, n - 2);
	rig_send(rig.agent, buf_data(&b), buf_len(&b));
	buf_done(&b);
}

static void agent_hello(void)
{
	const struct hello h = { WIRE_VERSION, WIRE_VERSION, 0, { 0 } };
	struct buf b = { 0 };

	hello_put(&b, &h);
	rig_send(rig.agent, buf_data(&b), buf_len(&b));
	buf_done(&b);
}

/* --- from nothing to a sandbox that runs, and back to it ------------------ */

static void make_dirs(void)
{
	static const char *const dirs[] = { "state",           "state/registry",
					    "state/casts",     "state/drive",
					    "state/blobs",     "run",
					    "run/roles",       "run/box",
					    "run/box/" RIG_BOX };
	size_t i;

	for (i = 0; i < ARRAY_LEN(dirs); i++)
		if (mkdirat(top_fd, dirs[i], 0700) < 0)
			abort();
}

static int listen_at(const char *dir, const char *name, int type)
{
	AUTO_CLOSE int dir_fd = openat(top_fd, dir, O_DIRECTORY | O_CLOEXEC);
	int fd = unix_listen_at(dir_fd, name, type, 0600);

	if (fd < 0)
		abort();
	return fd;
}

static void box_make(void)
{
	struct image img = { .name = "debian", .id = RIG_IMAGE };
	struct spec spec = { 0 };
	struct err e = { 0 };
	struct sandbox *s;

	if (!image_find(&api, "debian") && image_put(&api, &img, &e) < 0)
		abort();
	spec_defaults(&spec, &api.conf);
	snprintf(spec.name, sizeof(spec.name), "box");
	s = box_new(&api, RIG_BOX, DEFAULT_PROJECT, &spec, RIG_IMAGE);
	s->state = BOX_RUNNING;
	s->created_ms = clock_wall_ms();
	box_count(s, true);
	meter_resume(s);
	if (box_tell(s, box_spec_shown(s), &e) < 0)
		abort();
}

static void on_up(void *ctx)
{
	(void)ctx;
	warden_ready(&api.warden);
}

static void on_ended(void *ctx, const struct last_use *last,
		     const struct err *e)
{
	(void)ctx;
	(void)last;
	(void)e;
}

static void start_serving(void)
{
	struct err e = { 0 };

	api.http.on_request = route;
	api.http.on_answer = audit_answer;
	api.http.ctx = &api;
	api.reconciled = true;
	api.warden.on_up = on_up;
	api.warden.on_ended = on_ended;
	api.warden.ctx = &api;
	if (http_server_start(
		    &api.http, &api.loop,
		    listen_at("run", "api.sock", SOCK_STREAM | SOCK_NONBLOCK),
		    &e) < 0 ||
	    inner_init(&api, &e) < 0 ||
	    warden_start(&api.warden, &api.loop, api.conf.run_dir, &e) < 0)
		abort();
}

static void init_all(struct api *a)
{
	fair_init(a);
	pools_init(&a->pools);
	keys_init(a);
	ends_init(a);
	replays_init(a);
	list_init(&a->views);
	list_init(&a->merges);
	list_init(&a->e2b_watchers);
	ledger_init(a);
	snapshots_init(a);
	boxes_init(a);
	e2b_volumes_init(a);
	approvals_init(a);
	mcp_init(a);
	events_init(a);
	images_init(a);
}

static void set_conf(struct conf *c)
{
	AUTO_CLOSE int fd = memfd_create("conf", MFD_CLOEXEC);
	struct err e = { 0 };
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (conf_load(c, path, &e) < 0)
		abort();
	snprintf(c->state_dir, sizeof(c->state_dir), "%s/state", top);
	snprintf(c->run_dir, sizeof(c->run_dir), "%s/run", top);
	snprintf(c->registries, sizeof(c->registries), "r.example");
	c->spares = 0;
	c->project_disk = 0;
}

static void rig_start(void)
{
	scratch_make();
	log_init("api", LOG_ERR);
	/* Pipes of workers that are gone are written to. */
	if (signal(SIGPIPE, SIG_IGN) == SIG_ERR)
		abort();
	rig = (struct rig){ .warden = -1,
			    .agent = -1,
			    .client = -1,
			    .server = -1,
			    .worker_in = -1,
			    .worker_out = -1,
			    .now_ms = 1000000 };
	make_dirs();
	api.listen_fd = api.tcp.listen_fd = -1;
	set_conf(&api.conf);
	rig.warden_listen = listen_at("run/roles", "warden.sock",
				      SOCK_SEQPACKET | SOCK_NONBLOCK);
	rig.agent_listen = listen_at("run/box/" RIG_BOX, "agent.sock",
				     SOCK_STREAM | SOCK_NONBLOCK);
	gates_init(&api);
	if (loop_init(&api.loop) < 0 ||
	    io_add(&api.loop, &rig.tick, eventfd(1, EFD_CLOEXEC), EPOLLIN,
		   on_tick) < 0)
		abort();
	init_all(&api);
	load(&api);
	api.admission.host = (struct host_load){ .processors = 64,
						 .mem_bytes = 1ULL << 40,
						 .mem_available = 1ULL << 40 };
	start_serving();
	box_make();
	rig_turns(RIG_TURNS);
}

/* There is no scribe: what waits for one is taken now and then. */
static void take_log(struct spool_file *f)
{
	if (spool_file_bytes(f) < f->size_max / 4)
		return;
	if (spool_file_empty(f, f->next) < 0)
		abort();
}

/* Everybody leaves; what was made goes, and the sandbox is as it was. */
static void rig_reset(void)
{
	struct list *n, *next;
	struct sandbox *s;

	rig_close(&rig.client);
	rig_close(&rig.agent);
	rig_close(&rig.server);
	rig_close(&rig.worker_in);
	rig_close(&rig.worker_out);
	rig.warden_refuses = false;
	rig_turns(2);
	list_each (n, next, &api.boxes.all) {
		s = container_of(n, struct sandbox, all);
		if (strcmp(s->id, RIG_BOX) != 0 || s->state != BOX_RUNNING)
			box_kill(s, NULL);
	}
	rig.now_ms += 3600 * 1000;
	rig_turns(RIG_TURNS);
	rig_close(&rig.agent);
	rig_turns(2);
	take_log(&api.audit.w.spool);
	assert(api.pools.relays.used == 0 && api.pools.output.used == 0);
	assert(api.http.n_conns == 0 && api.inner.n_conns == 0);
	s = box_by_id(&api, RIG_BOX);
	if (!s)
		box_make();
	else
		assert(s->agent.n_chans == s->agent.n_watchers);
	rig.n_chans = 0;
	memset(rig.chans, 0, sizeof(rig.chans));
}
