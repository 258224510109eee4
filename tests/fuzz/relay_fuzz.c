/*
 * The relay between a client and an agent: frames of both, in any order, that
 * may say anything. What reaches the client is what an agent may send, inside
 * its windows; when both have left, no channel is left.
 *
 * The input is cut at bytes 0xff; the first byte of a piece says whose it is.
 */
#include "api_rig.h"

#include "api/relay.h"
#include "wire/pack.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum { CHANS = 8 };

/* What the client has seen of a channel. */
struct seen {
	bool started;
	uint64_t at[2], acked[2];
};

static struct seen seen[CHANS];
static struct buf from_api;
static bool upgraded, welcomed;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	rig_start();
	rig.client_reads = true;
	return 0;
}

static void connect_client(void)
{
	static const char head[] =
		"POST /v1/sandboxes/" RIG_BOX "/exec HTTP/1.1\r\n"
		"Host: localhost\r\nConnection: Upgrade\r\n"
		"Upgrade: " WIRE_UPGRADE "\r\n\r\n";
	const struct hello h = { WIRE_VERSION, WIRE_VERSION, 0, { 0 } };
	struct buf b = { 0 };

	client_open();
	buf_puts(&b, head);
	hello_put(&b, &h);
	rig_send(rig.client, buf_data(&b), buf_len(&b));
	buf_done(&b);
	buf_clear(&from_api);
	memset(seen, 0, sizeof(seen));
	upgraded = welcomed = false;
}

/* --- what comes out at the client's end ----------------------------------- */

static void check_output(struct seen *c, const struct frame *f)
{
	struct unpack u = unpack_init(f->payload, f->len);
	unsigned s = unpack_u8(&u) - 1u;
	uint64_t at = unpack_u64(&u);
	size_t n;

	(void)unpack_rest(&u, &n);
	assert(!u.bad && s < 2 && c->started);
	assert(at == c->at[s] && at + n - c->acked[s] <= WIRE_WINDOW);
	c->at[s] += n;
}

static void check_frame(const struct frame *f)
{
	struct seen *c = &seen[f->channel % CHANS];
	struct unpack u = unpack_init(f->payload, f->len);
	unsigned s;

	assert(f->type >= FRAME_PONG && f->flags == 0);
	if (f->type == FRAME_PONG)
		return;
	assert(f->channel < CHANS);
	switch (f->type) {
	case FRAME_STARTED:
	case FRAME_ATTACHED:
		assert(!c->started);
		c->started = true;
		break;
	case FRAME_OUTPUT:
		check_output(c, f);
		break;
	case FRAME_GAP:
		s = unpack_u8(&u) - 1u;
		assert(s < 2);
		c->at[s] = c->acked[s] = unpack_u64(&u);
		break;
	case FRAME_EXIT:
	case FRAME_FAILED:
		*c = (struct seen){ 0 };
		break;
	default:
		break;
	}
}

static void client_read(void)
{
	struct hello h;
	struct frame f;
	char *end;
	ssize_t n;

	do
		n = rig.client < 0 ? 0 : buf_read(&from_api, rig.client, 65536);
	while (n > 0);
	if (!upgraded) {
		end = memmem(buf_data(&from_api), buf_len(&from_api),
			     "\r\n\r\n", 4);
		if (!end)
			return;
		if (strncmp(buf_data(&from_api), "HTTP/1.1 101", 12) != 0) {
			fprintf(stderr, "not let in: %.*s\n",
				(int)buf_len(&from_api), buf_data(&from_api));
			abort();
		}
		buf_eat(&from_api, (size_t)(end - buf_data(&from_api)) + 4);
		upgraded = true;
	}
	if (!welcomed)
		welcomed = hello_get(&from_api, &h) == 1;
	while (welcomed && frame_get(&from_api, &f) == 1) {
		check_frame(&f);
		buf_eat(&from_api, FRAME_HEAD + f.len);
	}
}

/* --- what an input may say ------------------------------------------------ */

/* Channels are few, and numbers of before are used when they are free. */
static void client_frame(const uint8_t *p, size_t n)
{
	uint32_t channel;
	struct buf b = { 0 };

	if (n < 2)
		return;
	channel = 1 + p[1] % (CHANS - 1);
	/* What it has acknowledged opens the window. */
	if (p[0] % 10 == FRAME_ACK && n == 2 + 9 && p[2] - 1u < 2) {
		struct unpack u = unpack_init(p + 3, 8);
		struct seen *c = &seen[channel];
		uint64_t at = unpack_u64(&u);

		if (at >= c->acked[p[2] - 1] && at <= c->at[p[2] - 1])
			c->acked[p[2] - 1] = at;
	}
	frame_put(&b, (enum frame_type)(p[0] % 10), p[1] >> 7, channel, p + 2,
		  n - 2);
	rig_send(rig.client, buf_data(&b), buf_len(&b));
	buf_done(&b);
	/* It may spawn on this number again. */
	if (p[0] % 10 == FRAME_DETACH && n == 3 && p[2] <= 1) {
		rig_turns(1);
		client_read();
		seen[channel] = (struct seen){ 0 };
	}
}

static void spawn_frame(const uint8_t *p, size_t n)
{
	const char *argv[] = { "x", NULL }, *env[] = { NULL };
	struct spawn s = { .user = "",
			   .cwd = "",
			   .tag = "",
			   .argc = 1,
			   .argv = argv,
			   .env = env };
	struct buf b = { 0 };

	if (n < 2)
		return;
	s.flags = p[1] & SPAWN_FLAGS_ALL;
	if (spawn_put(&b, 1 + p[0] % (CHANS - 1), &s) < 0)
		abort();
	rig_send(rig.client, buf_data(&b), buf_len(&b));
	buf_done(&b);
}

static void play(uint8_t who, const uint8_t *p, size_t n)
{
	switch (who) {
	case 'f':
		client_frame(p, n);
		break;
	case 'p':
		spawn_frame(p, n);
		break;
	case 'h':
		agent_hello();
		break;
	case 'a':
		agent_frame(p, n);
		break;
	case 'r':
		rig_send(rig.agent, p, n);
		break;
	case 'c':
		connect_client();
		break;
	case 'x':
		rig_close(&rig.agent);
		break;
	case 'w':
		rig.warden_refuses = !rig.warden_refuses;
		break;
	case 't':
		rig.now_ms += n ? 1000U << p[0] % 12 : 10;
		break;
	default:
		return;
	}
	rig_turns(2);
	client_read();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	connect_client();
	rig_turns(2);
	client_read();
	while (n > 0) {
		const uint8_t *end = memchr(data, 0xff, n);
		size_t len = end ? (size_t)(end - data) : n;

		if (len > 0)
			play(data[0], data + 1, len - 1);
		data += len + (end != NULL);
		n -= len + (end != NULL);
	}
	rig_reset();
	return 0;
}
