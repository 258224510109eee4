#include "mux/mux.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "mux/stream.h"

enum { HELLO_MS = 200, PIECE = 64 * 1024 };

void mux_init(struct mux *m)
{
	m->state = MUX_DOWN;
	m->line.fd = -1;
	list_init(&m->streams);
}

/* --- the line --- */

static void arm_streams(struct mux *m)
{
	struct list *pos, *tmp;

	list_each (pos, tmp, &m->streams)
		stream_arm(container_of(pos, struct stream, node));
}

static void arm_line(struct mux *m)
{
	io_set(m->loop, &m->line,
	       (buf_len(&m->out) > MUX_OUT_HARD ? 0 : EPOLLIN) |
		       (buf_len(&m->out) > 0 ? EPOLLOUT : 0));
}

static void flush(struct mux *m)
{
	while (m->line.fd >= 0 && buf_len(&m->out) > 0)
		if (buf_write(&m->out, m->line.fd) < 0)
			break; /* reading tells why */
	if (m->full && buf_len(&m->out) < MUX_OUT_LEAST) {
		m->full = false;
		arm_streams(m);
	}
	if (m->line.fd >= 0)
		arm_line(m);
}

/* What was said goes at once if the line takes it, or with what waits. */
static void said(struct mux *m, bool waiting)
{
	if (buf_len(&m->out) > MUX_OUT_MAX)
		m->full = true;
	if (waiting)
		arm_line(m); /* which is not read from any more, perhaps */
	else
		flush(m);
}

void mux_put(struct mux *m, enum door_kind kind, uint32_t id, const void *body,
	     size_t len)
{
	const bool waiting = buf_len(&m->out) > 0;

	door_put(&m->out, m->word,
		 &(struct door_msg){
			 .kind = kind, .id = id, .body = body, .len = len });
	said(m, waiting);
}

bool mux_say(struct mux *m, enum door_kind kind, uint32_t id, const void *body,
	     size_t len)
{
	if (m->state != MUX_UP || (m->full && kind == DOOR_GRAM))
		return false;
	mux_put(m, kind, id, body, len);
	return true;
}

/* --- finding each other --- */

static void sync_say(struct mux *m, enum door_step step)
{
	const bool waiting = buf_len(&m->out) > 0;

	door_sync_put(&m->out, step, m->ours, m->theirs);
	said(m, waiting);
}

static void on_hello(struct timer *t)
{
	struct mux *m = container_of(t, struct mux, hello);

	if (buf_len(&m->out) == 0)
		sync_say(m, DOOR_HELLO);
	timer_set(m->loop, t, HELLO_MS, on_hello);
}

static void cut_all(struct mux *m)
{
	while (!list_empty(&m->streams))
		stream_cut(container_of(m->streams.next, struct stream, node),
			   ENOTCONN);
}

static void set_state(struct mux *m, enum mux_state to)
{
	bool was = m->state == MUX_UP;

	m->state = to;
	if (was || to == MUX_UP)
		m->changed(m);
}

static void seek(struct mux *m)
{
	memset(m->theirs, 0, sizeof(m->theirs));
	if (getrandom(m->ours, sizeof(m->ours), 0) != (ssize_t)sizeof(m->ours))
		abort(); /* it never fails for so little */
	set_state(m, MUX_SEEK);
	cut_all(m);
	door_fill(&m->out);
	sync_say(m, m->host ? DOOR_HELLO : DOOR_HEARD);
	if (m->host)
		timer_set(m->loop, &m->hello, HELLO_MS, on_hello);
}

static bool is_to_us(const struct mux *m, const struct door_sync *s)
{
	return memcmp(s->theirs, m->ours, sizeof(m->ours)) == 0;
}

static void found(struct mux *m, const struct door_sync *s)
{
	memcpy(m->theirs, s->ours, sizeof(m->theirs));
	m->word = door_word(m->ours, m->theirs);
	timer_del(m->loop, &m->hello);
	if (m->host)
		sync_say(m, DOOR_BEGIN);
	set_state(m, MUX_UP);
}

/* True: something was found, there may be more. */
static bool look(struct mux *m)
{
	struct door_sync s;

	if (!door_sync_get(&m->in, &s))
		return false;
	if (!m->host && s.step == DOOR_HELLO) {
		memcpy(m->theirs, s.ours, sizeof(m->theirs));
		sync_say(m, DOOR_HEARD);
	} else if (s.step == (m->host ? DOOR_HEARD : DOOR_BEGIN) &&
		   is_to_us(m, &s)) {
		found(m, &s);
	}
	return true;
}

/* --- what comes --- */

static int take_open(struct mux *m, const struct door_msg *msg)
{
	struct door_code why = { 0 };
	struct door_addr a;
	int fd = -EMFILE;

	memcpy(&a, msg->body, sizeof(a));
	/* Of its own places, one that is free. */
	if ((msg->id & DOOR_BY_HOST ? 1 : 0) == m->host || a.port == 0 ||
	    m->place[!m->host][msg->id & DOOR_PLACE_MASK])
		return -EBADMSG;
	if (m->n_streams < MUX_STREAMS_MAX)
		fd = m->dial(m, &a);
	if (fd >= 0) {
		stream_arm(stream_new(m, fd, msg->id, true));
		return 0;
	}
	why.code = (uint32_t)-fd;
	mux_put(m, DOOR_RESET, msg->id, &why, sizeof(why));
	return 0;
}

static int hear(struct mux *m, const struct door_msg *msg)
{
	struct stream *s;

	switch (msg->kind) {
	case DOOR_OPEN:
		return take_open(m, msg);
	case DOOR_GRAM:
	case DOOR_MAKE:
	case DOOR_MADE:
		m->heard(m, msg);
		return 0;
	case DOOR_OPENED:
	case DOOR_DATA:
	case DOOR_END:
	case DOOR_RESET:
	case DOOR_ROOM:
		/* Late words about what is over reach nobody. */
		s = stream_find(m, msg->id);
		return s ? stream_hears(s, msg) : 0;
	case DOOR_KINDS:
		break;
	}
	return -EBADMSG;
}

/* A hello that was said twice is heard twice. */
static int hear_again(struct mux *m)
{
	struct door_sync s;
	int r = door_sync_here(&m->in, &s);

	if (r <= 0)
		return r;
	if (!m->host || s.step != DOOR_HEARD || !is_to_us(m, &s) ||
	    memcmp(s.ours, m->theirs, sizeof(s.ours)) != 0)
		return -EBADMSG;
	buf_eat(&m->in, sizeof(s));
	return 1;
}

/* 1: there may be more. */
static int next(struct mux *m)
{
	struct door_msg msg;
	int r = door_get(&m->in, m->word, &msg);

	if (r == -EBADMSG)
		return hear_again(m);
	if (r == 1) {
		r = hear(m, &msg) < 0 ? -EBADMSG : 1;
		buf_eat(&m->in, r == 1 ? msg.whole : 0);
	}
	return r;
}

static void take_all(struct mux *m)
{
	int r = 1;

	while (r > 0 && m->line.fd >= 0) {
		if (m->state == MUX_SEEK)
			r = look(m);
		else
			r = next(m);
		if (r == -EBADMSG) {
			seek(m);
			r = 1;
		}
	}
}

static void on_line(struct io *io, uint32_t events)
{
	struct mux *m = container_of(io, struct mux, line);
	ssize_t n = -EAGAIN;

	if (events & EPOLLOUT)
		flush(m);
	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		n = buf_read(&m->in, io->fd, PIECE);
	if (n > 0)
		take_all(m);
	else if (n != -EAGAIN)
		m->ended(m);
}

/* --- for the owner --- */

int mux_line(struct mux *m, int fd)
{
	int r = io_add(m->loop, &m->line, fd, EPOLLIN, on_line);

	if (r < 0) {
		m->line.fd = -1;
		return r;
	}
	seek(m);
	return 0;
}

void mux_hang_up(struct mux *m)
{
	io_del(m->loop, &m->line);
	m->line.fd = -1;
	timer_del(m->loop, &m->hello);
	buf_clear(&m->in);
	buf_clear(&m->out);
	m->full = false;
	set_state(m, MUX_DOWN);
	cut_all(m);
}

/* The next free place, and a turn that is not the last one's. */
static uint32_t new_id(struct mux *m)
{
	uint32_t by = m->host ? DOOR_BY_HOST : 0;

	while (m->place[m->host][m->next & DOOR_PLACE_MASK])
		m->next++;
	m->turn++;
	return by | ((m->turn * DOOR_STREAMS) & ~DOOR_BY_HOST) |
	       (m->next++ & DOOR_PLACE_MASK);
}

int mux_open(struct mux *m, int fd, const struct door_addr *a, uint64_t tag)
{
	struct stream *s;

	if (!mux_has_place(m)) {
		close(fd);
		return -EAGAIN;
	}
	s = stream_new(m, fd, new_id(m), false);
	s->tag = tag;
	s->unanswered = tag != 0;
	mux_put(m, DOOR_OPEN, s->id, a, sizeof(*a));
	stream_arm(s);
	return 0;
}

int mux_tune(int fd)
{
	const int on = 1, room = MUX_SOCKET;

	return setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) < 0 ||
			       setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room,
					  sizeof(room)) < 0 ||
			       setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room,
					  sizeof(room)) < 0
		       ? -errno
		       : 0;
}

struct door_addr mux_addr(const struct sockaddr_storage *from)
{
	struct sockaddr_in6 a6;
	struct sockaddr_in a4;
	struct door_addr to = { .zero = 0 };

	if (from->ss_family == AF_INET6) {
		memcpy(&a6, from, sizeof(a6));
		memcpy(to.ip, &a6.sin6_addr, sizeof(to.ip));
		to.port = ntohs(a6.sin6_port);
	} else {
		memcpy(&a4, from, sizeof(a4));
		to.ip[10] = to.ip[11] = 0xff;
		memcpy(to.ip + 12, &a4.sin_addr, sizeof(a4.sin_addr));
		to.port = ntohs(a4.sin_port);
	}
	return to;
}

socklen_t mux_sockaddr(const struct door_addr *a, struct sockaddr_storage *to)
{
	struct sockaddr_in6 a6 = { .sin6_family = AF_INET6,
				   .sin6_port = htons(a->port) };
	struct sockaddr_in a4 = { .sin_family = AF_INET,
				  .sin_port = htons(a->port) };

	memcpy(&a6.sin6_addr, a->ip, sizeof(a->ip));
	memset(to, 0, sizeof(*to));
	if (!IN6_IS_ADDR_V4MAPPED(&a6.sin6_addr)) {
		memcpy(to, &a6, sizeof(a6));
		return sizeof(a6);
	}
	memcpy(&a4.sin_addr, a->ip + 12, sizeof(a4.sin_addr));
	memcpy(to, &a4, sizeof(a4));
	return sizeof(a4);
}

int mux_dial(const struct door_addr *a, int type)
{
	struct sockaddr_storage to;
	socklen_t n = mux_sockaddr(a, &to);
	AUTO_CLOSE int fd =
		socket(to.ss_family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int r;

	if (fd < 0)
		return -errno;
	r = type == SOCK_STREAM ? mux_tune(fd) : 0;
	if (r < 0)
		return r;
	if (connect(fd, (const struct sockaddr *)&to, n) < 0 &&
	    errno != EINPROGRESS)
		return -errno;
	return take_fd(&fd);
}
