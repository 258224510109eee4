/*
 * The agent's side of the wire: its connection, channels and processes with all
 * that the host may send, in any order, while processes write, close and end.
 * Nothing is forked here: a spawn makes pipes of which this file has the other
 * ends. Time and the ends of processes are made up as well.
 *
 * The input is a program: each step is a byte and its arguments. The host of
 * it reads with suspicion: each byte of output is a function of its process,
 * stream and offset; offsets must follow on each other or a gap; nothing may
 * exceed the window; an exit comes after all output.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* The agent's files are not in the library, which has this name for another. */
#define conn_flush agent_flush
#include "agent/chan.c"
#include "agent/conn.c"
#include "agent/input.c"
#include "agent/kept.c"
#include "agent/pace.c"
#include "agent/proc.c"
#include "agent/ring.c"
#include "agent/sink.c"
#include "agent/stream.c"
#include "agent/tap.c"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum {
	FAKES = 6, /* processes; their pids are FAKE_PID and on */
	FAKE_PID = 100000,
	CHANS = 8, /* that the host uses; more come from raw frames */
	SETTLE = 4,
};

/* The process's own ends. */
struct fake {
	struct proc *proc; /* NULL: not in use, or exited */
	uint32_t number;
	int in, out[2]; /* -1: closed */
	uint64_t written[2];
	int status; /* of wait4(), once it ended */
	bool ended;
};

/* What the host believes of a channel. */
struct view {
	bool open, greeted, mute;
	bool leaving; /* it will be mute, behind what is under way */
	uint32_t number;
	uint64_t at[2], acked[2];
	bool begun[2], eof[2];
};

static struct agent agent;
static struct io tick;
static struct fake fakes[FAKES];
static struct view views[CHANS + 1];
static struct buf from_agent;
static int host_fd;
static bool host_greeted;
static bool blind; /* raw bytes were sent: the views know nothing */
static uint64_t now_ms;

static void require(int ok)
{
	if (!ok)
		abort();
}

/* ---- What the agent's files call that is made up here. ---- */

int clock_gettime(clockid_t id, struct timespec *ts)
{
	if (id != CLOCK_BOOTTIME)
		return (int)syscall(SYS_clock_gettime, id, ts);
	ts->tv_sec = (time_t)(now_ms / 1000);
	ts->tv_nsec = (long)(now_ms % 1000) * 1000000;
	return 0;
}

static void fake_end(struct fake *f, int status)
{
	if (!f->proc || f->ended)
		return;
	f->ended = true;
	f->status = status;
}

int kill(pid_t pid, int sig)
{
	long i = -(long)pid - FAKE_PID;

	if (pid > 0) /* libFuzzer's own */
		return (int)syscall(SYS_kill, pid, sig);
	require(i >= 0 && i < FAKES && sig >= 1 && sig <= 64);
	if (sig == SIGKILL || sig == SIGHUP)
		fake_end(&fakes[i], sig);
	return 0;
}

pid_t wait4(pid_t pid, int *status, int options, struct rusage *ru)
{
	int i;

	(void)pid;
	(void)options;
	for (i = 0; i < FAKES; i++)
		if (fakes[i].ended) {
			fakes[i].ended = false;
			fakes[i].proc = NULL;
			*status = fakes[i].status;
			*ru = (struct rusage){ 0 };
			return FAKE_PID + i;
		}
	return 0;
}

bool broker_ended(struct agent *a, pid_t pid)
{
	(void)a;
	(void)pid;
	return false;
}

bool spare_ended(struct agent *a, pid_t pid)
{
	(void)a;
	(void)pid;
	return false;
}

/* A byte in its status is a failed exec, its end a start. */
int child_status(int status_fd, struct err *e)
{
	char c;
	ssize_t n = read(status_fd, &c, 1);

	if (n < 0)
		return 0;
	return n == 0 ? 1 : err_set(e, ENOENT, "it does not exist");
}

static void end_pair(int ends[2], int *ours, int *theirs, int ours_is)
{
	require(pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0);
	*ours = ends[ours_is];
	*theirs = ends[1 - ours_is];
}

/* The payload says how it goes: one byte of it. */
int spawn_ask(struct agent *a, struct chan *c, const struct frame *f)
{
	struct err e = { 0 };
	struct proc *p;
	int i, ends[2], how = f->len ? f->payload[0] : 0;

	require(!c || !c->proc);
	if (!c && a->n_chans >= CHANS_MAX)
		return -EBADMSG;
	if (!c)
		c = chan_new(a, f->channel);
	if (f->flags & FRAME_MORE)
		return 0;
	for (i = 0; i < FAKES && (fakes[i].proc || fakes[i].in >= 0); i++)
		continue;
	if (i == FAKES || a->n_chans > CHANNELS_MAX) {
		err_set(&e, EAGAIN, "enough");
		chan_fail(c, &e);
		return 0;
	}
	p = proc_new(a);
	p->pid = FAKE_PID + i;
	p->builtin = how & 1;
	p->tag[0] = (char)('a' + i % 4);
	c->mute = how & 2;
	fakes[i] = (struct fake){ .proc = p, .number = p->number };
	end_pair(ends, &p->in.io.fd, &fakes[i].in, 1);
	end_pair(ends, &p->out[0].io.fd, &fakes[i].out[0], 0);
	end_pair(ends, &p->out[1].io.fd, &fakes[i].out[1], 0);
	require(pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0);
	p->status.fd = ends[0];
	if (how & 4)
		require(write(ends[1], "", 1) == 1);
	close(ends[1]);
	require(proc_watch(p, &e) == 0);
	chan_join(c, p);
	return 0;
}

/* ---- The host. ---- */

static uint8_t byte_of(uint32_t number, unsigned stream, uint64_t offset)
{
	uint64_t v = offset * 0x9e3779b97f4a7c15ULL + number * 31 + stream;

	return (uint8_t)(v >> 56 ^ v >> 20);
}

static void forget_host(void)
{
	memset(views, 0, sizeof(views));
	buf_clear(&from_agent);
	host_greeted = blind = false;
}

static void host_output(struct view *v, const struct frame *f)
{
	struct unpack u = unpack_init(f->payload, f->len);
	unsigned s = unpack_u8(&u) - 1u;
	uint64_t at = unpack_u64(&u);
	size_t i, n;
	const uint8_t *p = unpack_rest(&u, &n);

	require(!u.bad && s < 2 && n > 0 && v->greeted && !v->mute);
	require(!v->eof[s] && at == v->at[s]);
	v->begun[s] = true;
	require(at + n - v->acked[s] <= WIRE_WINDOW);
	for (i = 0; i < n; i++)
		require(p[i] == byte_of(v->number, s, at + i));
	v->at[s] = at + n;
}

static void host_eof(struct view *v, const struct frame *f)
{
	struct unpack u = unpack_init(f->payload, f->len);
	unsigned s = unpack_u8(&u) - 1u;
	uint64_t at = unpack_u64(&u);

	require(unpack_ok(&u) && s < 2 && v->greeted && !v->mute);
	require(!v->eof[s] && at == v->at[s]);
	v->begun[s] = v->eof[s] = true;
}

static void host_gap(struct view *v, const struct frame *f)
{
	struct unpack u = unpack_init(f->payload, f->len);
	unsigned s = unpack_u8(&u) - 1u;

	uint64_t at = unpack_u64(&u);

	require(unpack_ok(&u) && s < 2 && v->greeted && !v->begun[s]);
	require(at > v->at[s]);
	v->at[s] = v->acked[s] = at;
	v->begun[s] = true;
}

static void host_frame(const struct frame *f)
{
	struct view *v = f->channel <= CHANS ? &views[f->channel] : NULL;
	struct exit_info x;
	struct started s;

	if (f->type == FRAME_PONG || !v || !v->open || blind)
		return; /* of raw frames, or under way to one that left */
	switch (f->type) {
	case FRAME_STARTED:
	case FRAME_ATTACHED:
		require(!v->greeted && started_get(f, &s) == 0);
		v->greeted = true;
		v->number = s.number;
		break;
	case FRAME_OUTPUT:
		host_output(v, f);
		break;
	case FRAME_OUTPUT_EOF:
		host_eof(v, f);
		break;
	case FRAME_GAP:
		host_gap(v, f);
		break;
	case FRAME_EXIT:
		require(v->greeted && exit_get(f, &x) == 0);
		require(v->mute || v->leaving || (v->eof[0] && v->eof[1]));
		*v = (struct view){ 0 };
		break;
	case FRAME_FAILED:
		*v = (struct view){ 0 };
		break;
	default:
		require(f->type == FRAME_INPUT_ACK);
	}
}

static void host_connect(void);

static void host_read(void)
{
	struct hello h;
	struct frame f;
	ssize_t n;
	int r;

	do
		n = buf_read(&from_agent, host_fd, 65536);
	while (n > 0);
	if (!host_greeted) {
		r = hello_get(&from_agent, &h);
		require(r >= 0);
		host_greeted = r == 1;
	}
	while (host_greeted && (r = frame_get(&from_agent, &f)) != 0) {
		if (r < 0) { /* the answer to a hello among raw bytes */
			r = hello_get(&from_agent, &h);
			require(blind && r >= 0);
			if (r == 0)
				break;
			continue;
		}
		host_frame(&f);
		buf_eat(&from_agent, FRAME_HEAD + f.len);
	}
	if (n == 0) /* we broke the rules */
		host_connect();
}

static void host_send(struct buf *b)
{
	if (send(host_fd, buf_data(b), buf_len(b),
		 MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)buf_len(b))
		blind = true; /* full, or hung up */
	buf_done(b);
}

static void host_connect(void)
{
	struct hello h = { WIRE_VERSION, WIRE_VERSION, 0, { 0 } };
	struct buf b = { 0 };
	int ends[2];

	if (host_fd >= 0)
		close(host_fd);
	forget_host();
	require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0);
	host_fd = ends[0];
	conn_open(&agent, ends[1]);
	hello_put(&b, &h);
	host_send(&b);
}

/* ---- The program. ---- */

struct program {
	const uint8_t *p;
	size_t left;
};

static unsigned next(struct program *g)
{
	if (g->left == 0)
		return 0;
	g->left--;
	return *g->p++;
}

static void on_tick(struct io *io, uint32_t events)
{
	(void)io;
	(void)events;
	agent.loop.stop = true; /* after this turn */
}

static void turn(void)
{
	agent.loop.stop = false;
	require(loop_run(&agent.loop) == 0);
	conn_flush(&agent.loop);
	reap(&agent);
}

static void step_raw(struct program *g)
{
	size_t n = next(g);
	struct buf b = { 0 };

	if (n > g->left)
		n = g->left;
	buf_add(&b, g->p, n);
	g->p += n;
	g->left -= n;
	host_send(&b);
	blind = true;
}

/* A frame that may say anything, also of a channel that a view has. */
static void step_frame(struct program *g)
{
	unsigned type = next(g) % 12, channel = next(g) % 20, n = next(g) % 16;
	struct buf b = { 0 }, p = { 0 };

	/* What the views could not know of. */
	if (channel <= CHANS && (type == FRAME_SPAWN || type == FRAME_ATTACH ||
				 type == FRAME_DETACH || type == FRAME_ACK))
		channel += CHANS + 1;
	while (n-- > 0)
		pack_u8(&p, (uint8_t)next(g));
	frame_put(&b, type, next(g) & 1, channel, buf_data(&p), buf_len(&p));
	buf_done(&p);
	host_send(&b);
}

static void step_spawn(struct program *g)
{
	uint32_t channel = 1 + next(g) % CHANS;
	uint8_t how = (uint8_t)(next(g) & 7);
	struct buf b = { 0 };

	if (views[channel].open)
		return;
	views[channel] = (struct view){ .open = true, .mute = how & 2 };
	frame_put(&b, FRAME_SPAWN, 0, channel, &how, 1);
	host_send(&b);
}

static void step_attach(struct program *g)
{
	uint32_t channel = 1 + next(g) % CHANS;
	struct fake *f = &fakes[next(g) % FAKES];
	struct attach at = { .number = f->number };
	struct view v = { .open = true };
	struct buf b = { 0 };
	int i;

	if (views[channel].open)
		return;
	if (at.number == 0)
		at.tag = "b";
	for (i = 0; i < 2; i++) {
		unsigned where = next(g);

		at.out[i] = f->written[i] * (where & 15) / 15;
		if (where > 240) /* may be beyond the end */
			at.out[i] += next(g);
		if (where == 240)
			at.out[i] = OFFSET_NOW;
		if (at.out[i] != OFFSET_NOW)
			v.at[i] = v.acked[i] = at.out[i];
	}
	views[channel] = v;
	attach_put(&b, channel, &at);
	host_send(&b);
}

static void step_ack(struct program *g)
{
	uint32_t channel = 1 + next(g) % CHANS;
	unsigned s = next(g) % 2, part = next(g) % 4;
	struct view *v = &views[channel];
	struct buf b = { 0 }, p = { 0 };

	if (!v->greeted || v->mute)
		return;
	v->acked[s] += (v->at[s] - v->acked[s]) * (part + 1) / 4;
	pack_u8(&p, (uint8_t)(s + 1));
	pack_u64(&p, v->acked[s]);
	frame_put(&b, FRAME_ACK, 0, channel, buf_data(&p), buf_len(&p));
	buf_done(&p);
	host_send(&b);
}

static void step_detach(struct program *g)
{
	uint32_t channel = 1 + next(g) % CHANS;
	uint8_t flags = next(g) & DETACH_FLAGS_ALL;
	struct buf b = { 0 };

	if (!views[channel].open)
		return;
	/* All that was sent for it is read before the number is used again. */
	frame_put(&b, FRAME_DETACH, 0, channel, &flags, 1);
	host_send(&b);
	views[channel].leaving = true;
	do {
		turn();
		host_read();
	} while (buf_len(&agent.out) > 0);
	if (flags & DETACH_WATCH)
		views[channel].mute = true;
	else
		views[channel] = (struct view){ 0 };
}

static void step_write(struct program *g)
{
	struct fake *f = &fakes[next(g) % FAKES];
	unsigned s = next(g) % 2;
	size_t n = (size_t)next(g) << next(g) % 10, i;
	static uint8_t data[255 << 9];
	ssize_t w;

	if (!f->proc || f->ended || f->out[s] < 0 || n == 0)
		return;
	for (i = 0; i < n; i++)
		data[i] = byte_of(f->number, s, f->written[s] + i);
	w = write(f->out[s], data, n);
	if (w > 0)
		f->written[s] += (uint64_t)w;
}

static void step_read_input(struct program *g)
{
	struct fake *f = &fakes[next(g) % FAKES];
	static char data[65536];

	if (f->in >= 0 && read(f->in, data, sizeof(data)) < 0)
		return;
}

static void close_end(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static void step_close(struct program *g)
{
	struct fake *f = &fakes[next(g) % FAKES];
	unsigned which = next(g) % 3;

	close_end(which == 2 ? &f->in : &f->out[which]);
}

/* It ends; its output may stay open, as a child in the background has it. */
static void step_end(struct program *g)
{
	struct fake *f = &fakes[next(g) % FAKES];
	unsigned how = next(g);

	fake_end(f, (int)(how & 3) << 8);
	if (how & 4)
		return;
	close_end(&f->in);
	close_end(&f->out[0]);
	close_end(&f->out[1]);
}

static void step_time(struct program *g)
{
	static const unsigned ms[] = { 1, 10, 1000, 31000, 601000 };

	now_ms += ms[next(g) % ARRAY_LEN(ms)];
	turn();
}

static void step_connect(struct program *g)
{
	(void)g;
	host_connect();
}

static void step_turn(struct program *g)
{
	(void)g;
	turn();
	host_read();
}

static void (*const steps[])(struct program *g) = {
	step_turn,  step_raw,    step_frame, step_spawn,   step_attach,
	step_ack,   step_detach, step_write, step_write,   step_read_input,
	step_close, step_end,    step_time,  step_connect,
};

static void check_bounds(void)
{
	require(agent.n_chans <= CHANS_MAX && agent.n_procs <= PROCS_MAX);
	require(agent.n_kept <= KEPT_MAX && agent.kept_bytes <= KEPT_BYTES);
	require(buf_len(&agent.out) <= 2 * OUT_MAX);
}

static void set_up(void)
{
	int i;

	now_ms = 1000;
	host_fd = -1;
	agent = (struct agent){ .conn.fd = -1, .listen.fd = -1 };
	list_init(&agent.chans);
	list_init(&agent.procs);
	list_init(&agent.kept);
	list_init(&agent.ready);
	list_init(&agent.sinks);
	pace_init(&agent);
	require(loop_init(&agent.loop) == 0);
	agent.loop.before_wait = conn_flush;
	require(io_add(&agent.loop, &tick, eventfd(1, EFD_CLOEXEC), EPOLLIN,
		       on_tick) == 0);
	for (i = 0; i < FAKES; i++)
		fakes[i] = (struct fake){ .in = -1, .out = { -1, -1 } };
	host_connect();
}

static void drop_all(struct list *list)
{
	struct list *pos, *tmp;

	list_each (pos, tmp, list)
		proc_drop(container_of(pos, struct proc, node));
}

static void tear_down(void)
{
	struct list *pos, *tmp;
	int i;

	conn_lost(&agent);
	require(agent.n_chans == 0 && list_empty(&agent.ready));
	drop_all(&agent.kept);
	drop_all(&agent.procs);
	require(agent.n_procs == 0 && agent.n_kept == 0);
	require(agent.kept_bytes == 0);
	list_each (pos, tmp, &agent.sinks)
		sink_close(container_of(pos, struct sink, node));
	require(list_empty(&agent.pace.waiting));
	io_close(&agent.loop, &tick);
	loop_done(&agent.loop);
	close_end(&host_fd);
	for (i = 0; i < FAKES; i++) {
		close_end(&fakes[i].in);
		close_end(&fakes[i].out[0]);
		close_end(&fakes[i].out[1]);
	}
	forget_host();
	buf_done(&from_agent);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	signal(SIGPIPE, SIG_IGN); /* as a process that goes on writing */
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct program g = { data, n };
	int i;

	set_up();
	while (g.left > 0) {
		steps[next(&g) % ARRAY_LEN(steps)](&g);
		check_bounds();
	}
	for (i = 0; i < SETTLE; i++) {
		turn();
		host_read();
	}
	tear_down();
	return 0;
}
