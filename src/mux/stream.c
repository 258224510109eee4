#include "mux/stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"

static struct stream **place_of(struct mux *m, uint32_t id)
{
	return &m->place[id & DOOR_BY_HOST ? 1 : 0][id & DOOR_PLACE_MASK];
}

struct stream *stream_find(const struct mux *m, uint32_t id)
{
	struct stream *s = *place_of((struct mux *)m, id);

	return s && s->id == id ? s : NULL;
}

static void on_socket(struct io *io, uint32_t events);
static void fail(struct stream *s, int code);

static void cannot_watch(struct deferred *d)
{
	struct stream *s = container_of(d, struct stream, unwatched);

	if (s->io.fd >= 0)
		fail(s, ENOMEM);
}

/*
 * Not even errors are heard of while there is nothing to do: they would be
 * told again and again. One that cannot be watched ends, but later: callers
 * are in the middle of it, and of others.
 */
void stream_arm(struct stream *s)
{
	struct loop *l = s->m->loop;
	uint32_t want = 0;

	if (s->io.fd < 0 || s->broken)
		return; /* it is over */
	if (!s->connecting && !s->sent_end && s->may_send > 0 && !s->m->full)
		want |= EPOLLIN;
	if (s->connecting || buf_len(&s->in) > 0)
		want |= EPOLLOUT;
	if (want == 0)
		io_del(l, &s->io);
	else if (s->io.armed)
		io_set(l, &s->io, want);
	else if (io_add(l, &s->io, s->io.fd, want, on_socket) < 0) {
		s->broken = true;
		loop_defer(l, &s->unwatched, cannot_watch);
	}
}

struct stream *stream_new(struct mux *m, int fd, uint32_t id, bool connecting)
{
	struct stream *s = xcalloc(1, sizeof(*s));

	s->m = m;
	s->id = id;
	s->io.fd = fd;
	s->connecting = connecting;
	s->may_send = s->may_come = DOOR_ROOM_FIRST;
	s->ours = (id & DOOR_BY_HOST ? 1 : 0) == m->host;
	s->listed = true;
	m->given += s->may_come;
	m->n_streams++;
	m->n_ours += s->ours;
	list_add(&m->streams, &s->node);
	*place_of(m, id) = s;
	return s;
}

static void stream_free(struct deferred *d)
{
	struct stream *s = container_of(d, struct stream, gone);

	buf_done(&s->in);
	free(s);
}

/* Nothing will be said of it any more: its place is free. */
static void unlist(struct stream *s)
{
	if (!s->listed)
		return;
	s->listed = false;
	*place_of(s->m, s->id) = NULL;
	s->m->n_ours -= s->ours;
}

static void stream_drop(struct stream *s)
{
	struct mux *m = s->m;

	unlist(s);
	io_close(m->loop, &s->io);
	m->given -= s->may_come + buf_len(&s->in);
	m->n_streams--;
	list_del(&s->node);
	loop_defer(m->loop, &s->gone, stream_free);
	if (m->freed)
		m->freed(m);
}

static void answer(struct stream *s, int code)
{
	if (!s->unanswered)
		return;
	s->unanswered = false;
	s->m->answered(s->m, s->tag, code);
}

void stream_cut(struct stream *s, int code)
{
	/* Not an end, but an error; it has no meaning for unix sockets. */
	const struct linger now = { .l_onoff = 1 };

	(void)setsockopt(s->io.fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	answer(s, code ? code : ECONNRESET);
	stream_drop(s);
}

/* It failed here: the other end hears so. */
static void fail(struct stream *s, int code)
{
	const struct door_code body = { (uint32_t)code };

	if (s->listed)
		mux_put(s->m, DOOR_RESET, s->id, &body, sizeof(body));
	stream_cut(s, code);
}

/* Both directions: what is over has no place, and lives until all of it is
 * written. */
static void settle(struct stream *s)
{
	if (s->got_end && !s->shut && !s->connecting && buf_len(&s->in) == 0) {
		s->shut = true;
		(void)shutdown(s->io.fd, SHUT_WR);
	}
	if (!s->sent_end || !s->got_end) {
		stream_arm(s);
		return;
	}
	unlist(s);
	if (s->shut)
		stream_drop(s);
	else
		stream_arm(s);
}

static void give_room(struct stream *s)
{
	struct mux *m = s->m;
	size_t have = s->may_come + buf_len(&s->in);
	size_t most = m->given < MUX_ROOM_ALL ? MUX_ROOM : DOOR_ROOM_FIRST;
	uint32_t more;

	if (s->got_end || !s->listed || 2 * have > most)
		return;
	more = (uint32_t)(most - have);
	s->may_come += more;
	m->given += more;
	mux_put(m, DOOR_ROOM, s->id, &more, sizeof(more));
}

/* False: it is gone. */
static bool write_out(struct stream *s)
{
	while (buf_len(&s->in) > 0) {
		ssize_t n = buf_write(&s->in, s->io.fd);

		if (n == -EAGAIN)
			break;
		if (n < 0) {
			fail(s, (int)-n);
			return false;
		}
		s->m->given -= (size_t)n;
	}
	give_room(s);
	return true;
}

/* False: it is gone. */
static bool read_in(struct stream *s)
{
	char piece[DOOR_DATA_MAX];
	size_t most = s->may_send < sizeof(piece) ? s->may_send : sizeof(piece);
	ssize_t n = recv(s->io.fd, piece, most, 0);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return true;
	if (n < 0) {
		fail(s, errno);
		return false;
	}
	if (n == 0) {
		s->sent_end = true;
		mux_put(s->m, DOOR_END, s->id, NULL, 0);
		return true;
	}
	s->may_send -= (uint32_t)n;
	mux_put(s->m, DOOR_DATA, s->id, piece, (size_t)n);
	return true;
}

/* False: it is gone. */
static bool connected(struct stream *s)
{
	socklen_t n = sizeof(int);
	int code = 0;

	if (getsockopt(s->io.fd, SOL_SOCKET, SO_ERROR, &code, &n) < 0)
		code = errno;
	if (code) {
		fail(s, code);
		return false;
	}
	s->connecting = false;
	mux_put(s->m, DOOR_OPENED, s->id, NULL, 0);
	return true;
}

static void on_socket(struct io *io, uint32_t events)
{
	struct stream *s = container_of(io, struct stream, io);

	if (s->connecting) {
		if (!connected(s))
			return;
	} else if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) && !s->sent_end &&
		   s->may_send > 0 && !s->m->full) {
		if (!read_in(s))
			return;
	}
	if (write_out(s))
		settle(s);
}

static int more_room(struct stream *s, const struct door_msg *msg)
{
	uint32_t more;

	memcpy(&more, msg->body, sizeof(more));
	if (more == 0 || more > DOOR_ROOM_MAX - s->may_send)
		return -EBADMSG;
	s->may_send += more;
	stream_arm(s);
	return 0;
}

static int take_data(struct stream *s, const struct door_msg *msg)
{
	if (s->got_end || msg->len > s->may_come)
		return -EBADMSG;
	s->may_come -= (uint32_t)msg->len;
	buf_add(&s->in, msg->body, msg->len);
	if (s->connecting || write_out(s))
		stream_arm(s);
	return 0;
}

static int take_reset(struct stream *s, const struct door_msg *msg)
{
	struct door_code why;

	memcpy(&why, msg->body, sizeof(why));
	unlist(s); /* nothing to say of it */
	stream_cut(s, why.code < 4096 ? (int)why.code : ECONNRESET);
	return 0;
}

int stream_hears(struct stream *s, const struct door_msg *msg)
{
	switch ((int)msg->kind) {
	case DOOR_OPENED:
		if (!s->ours || s->opened)
			return -EBADMSG;
		s->opened = true;
		answer(s, 0);
		return 0;
	case DOOR_DATA:
		return take_data(s, msg);
	case DOOR_END:
		if (s->got_end)
			return -EBADMSG;
		s->got_end = true;
		settle(s);
		return 0;
	case DOOR_RESET:
		return take_reset(s, msg);
	case DOOR_ROOM:
		return more_room(s, msg);
	default:
		return -EBADMSG;
	}
}
