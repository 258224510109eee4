/*
 * What the daemon answers to `carrel mcp` (cli/mcp_wire.c): heads, bodies,
 * streams of events. In pieces it says the same as at once; it ends once, and
 * says nothing after that or when its owner has closed it. The first byte
 * says how large pieces are, the second when the owner has enough.
 */
#include <assert.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "../../src/cli/mcp_wire.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { INPUT_MAX = 64 * 1024, ENOUGH = 16 };

struct heard {
	struct mcp_wire wire;
	struct buf all; /* messages, each with its end */
	unsigned messages, enough, ends;
	int status;
	bool whole;
};

static int server_fd, client_fd;

bool server_try(struct cli *cli, struct http_client *c, char why[MESSAGE_CAP])
{
	(void)cli;
	(void)why;
	http_client_attach(c, client_fd);
	return true;
}

static void on_message(struct mcp_wire *w, const char *text, size_t n)
{
	struct heard *h = container_of(w, struct heard, wire);

	assert(n > 0 && text[n] == '\0' && h->ends == 0);
	buf_add(&h->all, text, n + 1);
	if (++h->messages == h->enough)
		wire_close(w);
	assert(h->enough == 0 || h->messages <= h->enough);
}

static void on_ended(struct mcp_wire *w, int status, bool whole)
{
	struct heard *h = container_of(w, struct heard, wire);

	assert(status == 0 || (status >= 200 && status <= 999));
	assert(h->ends++ == 0 && !w->loop);
	h->status = status;
	h->whole = whole;
}

/* What waits is heard, and no more. */
static void turn(struct mcp_wire *w)
{
	on_event(&w->io, EPOLLIN);
}

static void talk(struct heard *h, const uint8_t *p, size_t n, size_t piece)
{
	static const struct mcp_wire_ops ops = { on_message, on_ended };
	static const struct http_field fields[] = { { "A", "b" }, { 0 } };
	const struct mcp_wire_request q = { "POST", "/mcp", fields, "{}", 2 };
	const int room = 4 * INPUT_MAX;
	struct loop loop;
	char why[MESSAGE_CAP];
	int pair[2];

	if (loop_init(&loop) < 0 ||
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0 ||
	    setsockopt(pair[1], SOL_SOCKET, SO_SNDBUF, &room, sizeof(room)) < 0)
		abort();
	client_fd = pair[0];
	server_fd = pair[1];
	h->wire.ops = &ops;
	if (wire_start(&h->wire, NULL, &loop, &q, why) < 0)
		abort();
	on_event(&h->wire.io, EPOLLOUT);
	while (n > 0 && h->wire.loop) {
		size_t part = n < piece ? n : piece;

		if (send(server_fd, p, part, MSG_DONTWAIT) != (ssize_t)part)
			abort();
		turn(&h->wire);
		p += part;
		n -= part;
	}
	close(server_fd);
	if (h->wire.loop)
		turn(&h->wire);
	assert(!h->wire.loop);
	assert(h->ends == 1 || (h->enough && h->messages == h->enough));
	loop_done(&loop);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct heard whole = { 0 }, pieces = { 0 };

	if (size < 2 || size > INPUT_MAX)
		return 0;
	signal(SIGPIPE, SIG_IGN);
	whole.enough = pieces.enough = data[1] < ENOUGH ? data[1] : 0;
	talk(&whole, data + 2, size - 2, size);
	talk(&pieces, data + 2, size - 2, data[0] + 1U);
	assert(whole.messages == pieces.messages && whole.ends == pieces.ends);
	assert(whole.status == pieces.status && whole.whole == pieces.whole);
	assert(buf_len(&whole.all) == buf_len(&pieces.all));
	assert(buf_len(&whole.all) == 0 ||
	       memcmp(buf_data(&whole.all), buf_data(&pieces.all),
		      buf_len(&whole.all)) == 0);
	buf_done(&whole.all);
	buf_done(&pieces.all);
	return 0;
}
