/*
 * What `carrel exec` hears from an agent (cli/stream_frames.c), with our input
 * and output beside it. What comes in pieces ends as if it had come at once;
 * no more is kept than the window, nothing is acknowledged that was not
 * written, and no input is sent that was not read. The first byte says how we
 * came, the second how large pieces are.
 */
#include <assert.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/auto.h"
#include "base/fd.h"

#include "../../src/cli/sink.c"
#include "../../src/cli/stream_frames.c"
#define room input_room /* names that two files have */
#include "../../src/cli/stream_input.c"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ATTACH = 1, TTY = 2, INPUT = 4, DETACH = 8, LOOK = 16, SLOW = 32 };
enum { BOUNDED = 64, BACK = 128, INPUT_BYTES = 3000 };

static char area[RECEIVE];
static int null_fd, input_fd, full_pipe[2];
static unsigned requests;

/* --- what the rest of the client does --- */

void term_raw(bool signals)
{
	assert(!signals);
}

void term_restore(void)
{
}

void complain(const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
}

void back_done(struct stream *s)
{
	s->lost_ms = 0;
}

void stream_put_resize(struct stream *s, uint16_t fewer_rows)
{
	(void)s;
	assert(fewer_rows <= 1);
}

void stream_put_ack(struct stream *s, uint8_t number)
{
	struct sink *k = &s->sink[number - 1];

	assert(number == 1 || number == 2);
	if (k->written > k->acked)
		k->acked = k->written;
}

void stream_put_request(struct stream *s, struct buf *b)
{
	(void)b;
	assert(s->phase != LIVE);
	requests++;
}

void stream_leave(struct stream *s, int code)
{
	s->code = code;
}

int stream_lost_reader(const struct sink *k, int code)
{
	(void)k;
	return code;
}

/* --- one connection --- */

struct end {
	int r, code;
	uint64_t received[2], written[2], sent;
};

static void check(const struct stream *s)
{
	int i;

	for (i = 0; i < 2; i++) {
		const struct sink *k = &s->sink[i];

		assert(k->received == k->written + buf_len(&k->pending));
		assert(buf_len(&k->pending) <= WIRE_WINDOW);
	}
	assert(s->code >= UNDECIDED && s->code <= 255);
	assert(buf_len(&s->kept) <= WIRE_WINDOW && requests <= ROUNDS_MAX);
	assert(s->phase == LIVE || !s->input_open);
}

static void begin(struct stream *s, uint8_t how)
{
	static const struct spawn spawn;
	static struct cli cli = { .fail_code = 125 };

	*s = (struct stream){
		.o = { .cli = &cli,
		       .spawn = how & ATTACH ? NULL : &spawn,
		       .at = { .number = how & BACK ? 7 : 0 },
		       .input = how & INPUT,
		       .tty = how & TTY,
		       .detach = how & DETACH,
		       .keys = true,
		       .look = how & LOOK,
		       .bounded = how & BOUNDED,
		       .until = { 5, 0 } },
		.fd = -1,
		.phase = how & ATTACH ? ATTACHING : SPAWNING,
		.in = { .p = area },
		.code = UNDECIDED,
		.sink = { { .fd = null_fd, .out_fd = -1 },
			  { .fd = how & SLOW ? full_pipe[1] : null_fd,
			    .out_fd = -1 } },
	};
	requests = 0;
	if (lseek(input_fd, 0, SEEK_SET) != 0)
		abort();
}

/* As much input as may be sent; the agent takes it at once. */
static void type(struct stream *s)
{
	while (s->code == UNDECIDED && input_wanted(s)) {
		input_read(s);
		assert(s->input_sent <= s->input_acked + WIRE_WINDOW);
		buf_clear(&s->out);
	}
}

static int take(struct stream *s, const uint8_t *p, size_t n)
{
	if (s->in.off > 0) {
		memmove(area, area + s->in.off, s->in.len - s->in.off);
		s->in.len -= s->in.off;
		s->in.off = 0;
	}
	if (n > RECEIVE - s->in.len)
		return -ENOBUFS;
	memcpy(area + s->in.len, p, n);
	s->in.len += n;
	return stream_parse(s);
}

static struct end run(uint8_t how, size_t piece, const uint8_t *p, size_t n)
{
	struct end end = { 0 };
	struct stream s;
	int i;

	begin(&s, how);
	while (n > 0 && end.r == 0 && s.code == UNDECIDED) {
		size_t part = n < piece ? n : piece;

		end.r = take(&s, p, part);
		check(&s);
		type(&s);
		buf_clear(&s.out);
		p += part;
		n -= part;
	}
	end.code = s.code;
	for (i = 0; i < 2; i++) {
		end.received[i] = s.sink[i].received;
		end.written[i] = s.sink[i].written;
		if (s.sink[i].out_fd >= 0 && s.sink[i].out_fd != s.sink[i].fd)
			close(s.sink[i].out_fd);
		sink_done(&s.sink[i]);
	}
	buf_done(&s.out);
	buf_done(&s.kept);
	return end;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	static char typed[INPUT_BYTES], fill[64 * 1024];

	(void)argc;
	(void)argv;
	memset(typed, 'x', sizeof(typed));
	typed[100] = CTRL_P;
	null_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	input_fd = memfd_create("input", MFD_CLOEXEC);
	if (null_fd < 0 || dup2(null_fd, STDOUT_FILENO) < 0 || input_fd < 0 ||
	    write_full(input_fd, typed, sizeof(typed)) < 0 ||
	    dup2(input_fd, STDIN_FILENO) < 0 ||
	    pipe2(full_pipe, O_CLOEXEC | O_NONBLOCK) < 0)
		abort();
	while (write(full_pipe[1], fill, sizeof(fill)) > 0)
		;
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct end whole, pieces;

	if (size < 2 || size > RECEIVE)
		return 0;
	whole = run(data[0], size, data + 2, size - 2);
	pieces = run(data[0], data[1] + 1U, data + 2, size - 2);
	/* Of input it matters what was acknowledged when. */
	if (data[0] & INPUT)
		return 0;
	assert(whole.r == pieces.r && whole.code == pieces.code);
	assert(memcmp(whole.received, pieces.received,
		      sizeof(whole.received)) == 0);
	return 0;
}
