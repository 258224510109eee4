/*
 * Two ways of bytes. A way reads from one stream and writes to the other; what
 * it holds meanwhile is in a pipe (spliced: the bytes are never copied) or, if
 * one end is TLS or the bytes must be looked at, in a buffer. While it holds
 * bytes that its reader does not take, it reads no more.
 *
 * A pipe is borrowed while there is something in it. There is a bounded number
 * of them, because the kernel bounds the memory of pipes by user; a way that
 * gets none uses its buffer.
 *
 * Bytes are counted against the budget when they are here and have not left.
 */
#include "gate/tunnel.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "gate/scan.h"

enum {
	PIPE_BYTES = 512 * 1024,
	PIPES_MAX = 96, /* with all full: 48 MiB of the 64 MiB of a user */
	PIPES_FREE = 16,
	PIECE = 16 * 1024,      /* through a buffer */
	TURN = 8 * 1024 * 1024, /* then others have theirs */
};

struct pipe {
	int read_fd, write_fd;
};

struct way {
	struct tunnel *tunnel;
	struct http_stream *from, *to;
	struct scan *scan;
	uint64_t *total;
	bool (*count)(struct budget_hold *h, uint64_t n);
	struct pipe pipe; /* -1: none */
	size_t in_pipe;
	struct buf buf;   /* goes before the pipe */
	bool spliced;     /* may be */
	bool blocked;     /* the reader takes no more */
	bool ended, shut; /* its source, then its reader was told */
};

struct ways {
	struct way up, down;
	uint64_t moved_ms;
	const char *broken; /* before it began */
};

static const char reset[] = "the connection was reset";
static const char over[] = "the budget is used up";
static const char idle[] = "nothing moved for too long";
static const char found[] = "it carried what must not pass";

/* --- pipes --- */

static struct pipe spare[PIPES_FREE];
static unsigned n_spare, n_pipes;

static bool pipe_borrow(struct way *w)
{
	int fd[2];

	if (n_spare > 0) {
		w->pipe = spare[--n_spare];
		return true;
	}
	if (n_pipes >= PIPES_MAX || pipe2(fd, O_CLOEXEC | O_NONBLOCK) < 0)
		return false;
	/* A smaller one is slower, and as good. */
	(void)!fcntl(fd[1], F_SETPIPE_SZ, PIPE_BYTES);
	n_pipes++;
	w->pipe = (struct pipe){ fd[0], fd[1] };
	return true;
}

static void pipe_return(struct way *w)
{
	if (w->pipe.read_fd < 0)
		return;
	/* What is left in it is somebody's: not for the next. */
	if (w->in_pipe == 0 && n_spare < PIPES_FREE) {
		spare[n_spare++] = w->pipe;
	} else {
		close(w->pipe.read_fd);
		close(w->pipe.write_fd);
		n_pipes--;
	}
	w->in_pipe = 0;
	w->pipe = (struct pipe){ -1, -1 };
}

/* --- the end --- */

static void way_done(struct way *w)
{
	pipe_return(w);
	buf_done(&w->buf);
}

void tunnel_end(struct tunnel *t)
{
	struct ways *ways = t->ways;

	if (!ways)
		return;
	t->ways = NULL;
	way_done(&ways->up);
	way_done(&ways->down);
	free(ways);
	timer_del(&t->gate->loop, &t->timer);
	http_stream_close(&t->inside);
	http_stream_close(&t->outside);
}

static void over_with(struct tunnel *t, const char *why)
{
	tunnel_end(t);
	t->done(t, why);
}

/* --- one way --- */

static bool holds(const struct way *w)
{
	return w->in_pipe > 0 || buf_len(&w->buf) > 0;
}

static bool counted(struct way *w, size_t n)
{
	if (w->tunnel->hold && !w->count(w->tunnel->hold, n))
		return false;
	*w->total += n;
	return true;
}

/* 1: bytes came; 0: none now (or the end); or -errno with `*why`. */
static int fill_pipe(struct way *w, const char **why)
{
	ssize_t n = splice(w->from->io.fd, NULL, w->pipe.write_fd, NULL, TURN,
			   SPLICE_F_MOVE | SPLICE_F_NONBLOCK);

	if (n < 0) {
		*why = reset;
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	}
	w->ended = n == 0;
	if (n == 0)
		return 0;
	w->in_pipe += (size_t)n;
	*why = over;
	return counted(w, (size_t)n) ? 1 : -EDQUOT;
}

static bool found_in_frames(struct tunnel *t, const char *p, size_t n)
{
	AUTO(buf_done) struct buf content = { 0 };

	if (!t->frame_scan)
		return false;
	ws_payload_add(&t->frames, p, n, &content);
	return scan_look(t->frame_scan, buf_data(&content), buf_len(&content));
}

/* The bytes that came, past what looks at them. */
static int look(struct way *w, const char *p, size_t n, const char **why)
{
	if (!w->scan) {
		buf_add(&w->buf, p, n);
		return 0;
	}
	if (w == &((struct ways *)w->tunnel->ways)->up) {
		*why = found;
		if (scan_look(w->scan, p, n) ||
		    found_in_frames(w->tunnel, p, n))
			return -EACCES;
		buf_add(&w->buf, p, n);
		return 0;
	}
	scan_mask(w->scan, p, n, w->ended, &w->buf);
	return 0;
}

static int fill_buf(struct way *w, const char **why)
{
	char p[PIECE];
	ssize_t n = http_stream_read(w->from, p, sizeof(p));

	if (n < 0) {
		*why = reset;
		return n == -EAGAIN ? 0 : (int)n;
	}
	w->ended = n == 0;
	*why = over;
	if (!counted(w, (size_t)n))
		return -EDQUOT;
	if (look(w, p, (size_t)n, why) < 0)
		return -EACCES;
	return n > 0;
}

static int fill(struct way *w, const char **why)
{
	if (w->spliced && (w->pipe.read_fd >= 0 || pipe_borrow(w)))
		return fill_pipe(w, why);
	return fill_buf(w, why);
}

/* 0 or -errno; `blocked` when something is left. */
static int drain(struct way *w)
{
	ssize_t n;

	w->blocked = false;
	while (holds(w) && !w->blocked) {
		if (buf_len(&w->buf) > 0) {
			n = http_stream_drain(w->to, &w->buf);
		} else {
			n = splice(w->pipe.read_fd, NULL, w->to->io.fd, NULL,
				   w->in_pipe,
				   SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
			if (n < 0)
				n = -errno;
			else
				w->in_pipe -= (size_t)n;
		}
		if (n == -EAGAIN)
			w->blocked = true;
		else if (n < 0 && n != -EINTR)
			return (int)n;
	}
	if (!holds(w)) {
		pipe_return(w);
		buf_done(&w->buf);
	}
	return 0;
}

/* Moves what can be moved. 0, or -errno with `*why`. */
static int move(struct way *w, const char **why)
{
	uint64_t before = *w->total;
	int r;

	do {
		if (drain(w) < 0) {
			*why = reset;
			return -EPIPE;
		}
		if (w->blocked || w->ended || *w->total - before >= TURN)
			break;
		r = fill(w, why);
		if (r < 0)
			return r;
		if (r == 0 && !w->ended && !holds(w))
			pipe_return(w);
	} while (r > 0 || holds(w));
	if (w->ended && !holds(w) && !w->shut) {
		pipe_return(w);
		http_stream_shutdown(w->to);
		w->shut = true;
	}
	return 0;
}

/* --- both --- */

static void on_inside(struct http_stream *s, uint32_t events);
static void on_outside(struct http_stream *s, uint32_t events);

/*
 * A stream is watched for reading while the way that begins there reads, and
 * for writing while the one that ends there is blocked. For neither: only a
 * reset is of interest, which looks like an end on a side that was shut.
 */
static int watch(struct http_stream *s, const struct way *begins,
		 const struct way *ends, http_stream_fn *fn)
{
	uint32_t want = 0;

	if (!begins->ended && !begins->blocked)
		want |= EPOLLIN;
	if (ends->blocked)
		want |= EPOLLOUT;
	if (want == 0 && ends->shut) {
		http_stream_unwatch(s);
		return 0;
	}
	return http_stream_watch(s, want, fn);
}

static void on_idle(struct timer *t)
{
	struct tunnel *tunnel = container_of(t, struct tunnel, timer);
	struct ways *ways = tunnel->ways;
	uint64_t quiet = clock_boot_ms() - ways->moved_ms;

	if (quiet < tunnel->idle_ms)
		timer_set(&tunnel->gate->loop, t, tunnel->idle_ms - quiet,
			  on_idle);
	else
		over_with(tunnel, idle);
}

static void on_broken(struct timer *t)
{
	struct tunnel *tunnel = container_of(t, struct tunnel, timer);

	over_with(tunnel, ((struct ways *)tunnel->ways)->broken);
}

/* Something happened at the stream where `begins` begins and `ends` ends. */
static void turn(struct tunnel *t, uint32_t events, struct way *begins,
		 struct way *ends)
{
	struct ways *ways = t->ways;
	const char *why = reset;

	if ((events & (EPOLLERR | EPOLLHUP)) && !ends->blocked &&
	    (begins->ended || begins->blocked)) {
		over_with(t, reset);
		return;
	}
	ways->moved_ms = clock_boot_ms();
	if (((events & ~(uint32_t)EPOLLOUT) && move(begins, &why) < 0) ||
	    ((events & ~(uint32_t)EPOLLIN) && move(ends, &why) < 0)) {
		over_with(t, why);
		return;
	}
	if (ways->up.shut && ways->down.shut)
		over_with(t, NULL);
	else if (watch(&t->inside, &ways->up, &ways->down, on_inside) < 0 ||
		 watch(&t->outside, &ways->down, &ways->up, on_outside) < 0)
		over_with(t, reset);
}

static void on_inside(struct http_stream *s, uint32_t events)
{
	struct tunnel *t = container_of(s, struct tunnel, inside);
	struct ways *ways = t->ways;

	turn(t, events, &ways->up, &ways->down);
}

static void on_outside(struct http_stream *s, uint32_t events)
{
	struct tunnel *t = container_of(s, struct tunnel, outside);
	struct ways *ways = t->ways;

	turn(t, events, &ways->down, &ways->up);
}

/* --- the beginning --- */

static void way_init(struct way *w, struct tunnel *t, struct http_stream *from,
		     struct http_stream *to)
{
	*w = (struct way){
		.tunnel = t, .from = from, .to = to, .pipe = { -1, -1 }
	};
}

/* Bytes that were read before the tunnel began. They are written first: the
 * way is blocked until then. */
static void take_first(struct way *w, struct buf *b)
{
	struct ways *ways = w->tunnel->ways;
	const char *why = over;

	w->spliced = !w->scan && !http_stream_is_tls(w->from) &&
		     !http_stream_is_tls(w->to);
	if (!b || buf_len(b) == 0)
		return;
	if (!counted(w, buf_len(b)) ||
	    look(w, buf_data(b), buf_len(b), &why) < 0)
		ways->broken = why;
	buf_eat(b, buf_len(b));
	w->blocked = holds(w);
}

void tunnel_start(struct tunnel *t, struct http_stream *inside,
		  struct http_stream *outside, struct buf *up, struct buf *down)
{
	struct ways *ways = xcalloc(1, sizeof(*ways));
	int one = 1;

	http_stream_move(&t->inside, inside);
	http_stream_move(&t->outside, outside);
	t->ways = ways;
	t->up_bytes = t->down_bytes = 0;
	ways->moved_ms = clock_boot_ms();
	way_init(&ways->up, t, &t->inside, &t->outside);
	ways->up.scan = t->up_scan;
	ways->up.total = &t->up_bytes;
	ways->up.count = budget_up;
	way_init(&ways->down, t, &t->outside, &t->inside);
	ways->down.scan = t->down_scan;
	ways->down.total = &t->down_bytes;
	ways->down.count = budget_down;
	take_first(&ways->up, up);
	take_first(&ways->down, down);
	/* Whoever waited for a whole message does so no more. */
	(void)!setsockopt(t->inside.io.fd, SOL_SOCKET, SO_RCVLOWAT, &one,
			  sizeof(one));
	if (!ways->broken &&
	    (watch(&t->inside, &ways->up, &ways->down, on_inside) < 0 ||
	     watch(&t->outside, &ways->down, &ways->up, on_outside) < 0))
		ways->broken = reset;
	if (ways->broken)
		timer_set(&t->gate->loop, &t->timer, 0, on_broken);
	else if (t->idle_ms)
		timer_set(&t->gate->loop, &t->timer, t->idle_ms, on_idle);
}
