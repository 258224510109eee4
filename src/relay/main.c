#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/relro.h"
#include "relay/relay.h"
#include "seccomp/seccomp.h"
#include "wire/relay.h"

static int on_dial(struct mux *m, const struct door_addr *a)
{
	(void)m;
	return mux_dial(a, SOCK_STREAM);
}

static void on_answered(struct mux *m, uint64_t tag, int code)
{
	control_connected(container_of(m, struct relay, mux), tag,
			  (uint32_t)code);
}

static void on_heard(struct mux *m, const struct door_msg *msg)
{
	struct relay *r = container_of(m, struct relay, mux);
	struct door_code made;

	if (msg->kind == DOOR_GRAM)
		gram_send(r, msg);
	if (msg->kind != DOOR_MADE)
		return;
	memcpy(&made, msg->body, sizeof(made));
	control_answer(r, RELAY_DOOR, msg->id, made.code);
}

static void on_changed(struct mux *m)
{
	struct relay *r = container_of(m, struct relay, mux);

	if (m->state == MUX_UP)
		control_up(r);
	else
		grams_drop(r);
}

/* QEMU is gone, or has another relay. */
static void on_ended(struct mux *m)
{
	m->loop->stop = true;
}

static struct relay relay = {
	.mux = { .host = true,
		 .dial = on_dial,
		 .answered = on_answered,
		 .heard = on_heard,
		 .changed = on_changed,
		 .ended = on_ended },
};

static void lock_in(void)
{
	int r;

#ifndef SANITIZED
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		die("make undumpable: %s", strerror(errno));
#endif
	r = seccomp_install(&filter_relay);
	if (r < 0)
		die("install the system-call filter: %s", strerror(-r));
}

int main(void)
{
	struct relay *r = &relay;
	int n = relro_protect();

	log_init("relay", LOG_INFO);
	if (n < 0)
		die("protect tables: %s", strerror(-n));
	signal(SIGPIPE, SIG_IGN);
	prctl(PR_SET_NAME, "relay");
	lock_in();
	n = loop_init(&r->loop);
	r->mux.loop = &r->loop;
	mux_init(&r->mux);
	grams_init(r);
	if (n == 0)
		n = control_start(r, RELAY_FD_LISTEN);
	if (n == 0)
		n = fd_set_nonblock(RELAY_FD_LINE, true);
	if (n == 0)
		n = mux_line(&r->mux, RELAY_FD_LINE);
	if (n == 0)
		n = loop_run(&r->loop);
	if (n < 0)
		die("%s", strerror(-n));
	return 0;
}
