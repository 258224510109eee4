#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "base/fd.h"
#include "base/log.h"
#include "relay/relay.h"
#include "wire/relay.h"
#include "wire/warden.h"

static void say(struct relay *r, const struct relay_rep *rep)
{
	if (r->control.fd < 0)
		return;
	/* Who does not take its answers connects again when it is well. */
	if (send(r->control.fd, rep, sizeof(*rep),
		 MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		io_close(&r->loop, &r->control);
}

void control_answer(struct relay *r, uint16_t op, uint32_t seq, uint32_t code)
{
	say(r, &(struct relay_rep){ RELAY_VERSION, op, seq, code });
}

void control_connected(struct relay *r, uint64_t tag, uint32_t code)
{
	/* Another one asked for it, and has left. */
	if (tag >> 32 != r->wardens)
		return;
	control_answer(r, RELAY_CONNECT, (uint32_t)tag, code);
}

void control_up(struct relay *r)
{
	control_answer(r, RELAY_UP, 0, 0);
}

static void do_connect(struct relay *r, const struct relay_req *q, int *fd)
{
	struct door_addr a = { .port = q->port };
	int n;

	if (q->flags & CONNECT_V6) {
		a.ip[15] = 1;
	} else {
		a.ip[10] = a.ip[11] = 0xff;
		a.ip[12] = 127;
		a.ip[15] = 1;
	}
	if (*fd < 0 || r->mux.state != MUX_UP)
		n = -ENOTCONN;
	else
		n = fd_set_nonblock(*fd, true);
	if (n == 0)
		n = mux_open(&r->mux, take_fd(fd), &a,
			     (uint64_t)r->wardens << 32 | q->seq);
	if (n < 0)
		control_answer(r, RELAY_CONNECT, q->seq, (uint32_t)-n);
}

static void do_request(struct relay *r, const struct relay_req *q, int *fd)
{
	if (q->op == RELAY_CONNECT)
		do_connect(r, q, fd);
	else if (!mux_say(&r->mux, DOOR_MAKE, q->seq, &q->flags,
			  sizeof(q->flags)))
		control_answer(r, RELAY_DOOR, q->seq, ENOTCONN);
}

static bool request_ok(const struct relay_req *q)
{
	return q->version == RELAY_VERSION && q->zero == 0 && q->seq != 0 &&
	       (q->op == RELAY_DOOR || q->op == RELAY_CONNECT);
}

static void on_control(struct io *io, uint32_t events)
{
	struct relay *r = container_of(io, struct relay, control);
	int fds[FD_PASS_MAX], i;
	struct relay_req q;
	ssize_t n = recv_msg_fds(io->fd, &q, sizeof(q), fds);

	(void)events;
	if (n == (ssize_t)sizeof(q) && request_ok(&q))
		do_request(r, &q, &fds[0]);
	else if (n != -EAGAIN)
		io_close(&r->loop, io);
	for (i = 0; i < FD_PASS_MAX; i++)
		auto_close(&fds[i]);
}

/* The last one counts: a warden that was started again. */
static void on_listen(struct io *io, uint32_t events)
{
	struct relay *r = container_of(io, struct relay, listen);
	int fd = accept4(io->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	(void)events;
	if (fd < 0)
		return;
	io_close(&r->loop, &r->control);
	r->wardens++;
	if (io_add(&r->loop, &r->control, fd, EPOLLIN, on_control) < 0)
		io_close(&r->loop, &r->control);
	else if (r->mux.state == MUX_UP)
		control_up(r);
}

int control_start(struct relay *r, int listen_fd)
{
	r->control.fd = -1;
	return io_add(&r->loop, &r->listen, listen_fd, EPOLLIN, on_listen);
}
