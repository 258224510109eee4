/*
 * Entries of the log as the daemon sends them to `carrel log` (cli/entries.c).
 * In pieces they are the same as at once; what is held stays within its
 * bounds, and nothing that a terminal obeys is written. The first byte says
 * how they are shown, the second how large pieces are.
 */
#include <assert.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../src/cli/entries.c"
#include "../../src/cli/say.c"
#include "base/auto.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { JSON = 1, TAKE = 2, LAST = 4, SHOWN_MAX = 256 * 1024 };

static int out_fd;
static char shown[2][SHOWN_MAX];

/* --- what is not asked for here --- */

void term_restore(void)
{
}

bool term_is_raw(void)
{
	return false;
}

void term_screen(bool other)
{
	(void)other;
}

const char *show_str(const json_t *j, const char *key)
{
	const char *s = json_string_value(json_object_get(j, key));

	return s ? s : "";
}

void show_id(const json_t *j, const char *key, char out[SHOW_CAP])
{
	snprintf(out, SHOW_CAP, "%.12s", show_str(j, key));
}

bool server_try(struct cli *cli, struct http_client *c, char why[MESSAGE_CAP])
{
	(void)cli;
	(void)c;
	(void)why;
	abort();
}

int server_answer(struct cli *cli, struct http_client *c, json_t **out)
{
	(void)cli;
	(void)c;
	(void)out;
	abort();
}

void server_message(int status, const json_t *answer, char out[MESSAGE_CAP])
{
	(void)status;
	(void)answer;
	(void)out;
	abort();
}

/* --- --- */

static void on_entry(void *arg, const json_t *entry)
{
	assert(json_is_object(entry));
	++*(unsigned *)arg;
}

struct end {
	int r;
	uint64_t seq;
	unsigned taken;
	size_t n;
};

static struct end run(const uint8_t *p, size_t n, size_t piece, uint8_t how,
		      char *to)
{
	struct end end = { 0 };
	struct entries e = { .json = how & JSON,
			     .last = how & LAST ? 3 : 0,
			     .take = how & TAKE ? on_entry : NULL,
			     .arg = &end.taken };
	struct err err = { 0 };
	ssize_t got;

	if (ftruncate(out_fd, 0) < 0 || lseek(out_fd, 0, SEEK_SET) < 0)
		abort();
	while (n > 0 && end.r == 0) {
		size_t part = n < piece ? n : piece;

		end.r = on_piece((const char *)p, part, &e, &err);
		assert(end.r < 0 || buf_len(&e.rest) <= LINE_MAX_BYTES);
		p += part;
		n -= part;
	}
	end.seq = e.seq;
	entries_done(&e);
	fflush(stdout);
	got = pread(out_fd, to, SHOWN_MAX, 0);
	if (got < 0)
		abort();
	end.n = (size_t)got;
	return end;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	out_fd = memfd_create("out", MFD_CLOEXEC);
	if (out_fd < 0 || dup2(out_fd, STDOUT_FILENO) < 0)
		abort();
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct end a, b;
	size_t i;

	if (size < 2)
		return 0;
	a = run(data + 2, size - 2, size, data[0], shown[0]);
	b = run(data + 2, size - 2, data[1] + 1U, data[0], shown[1]);
	/* A line without an end is noticed sooner in small pieces. */
	if (a.r == 0 && b.r == 0)
		assert(a.seq == b.seq && a.taken == b.taken && a.n == b.n &&
		       memcmp(shown[0], shown[1], a.n) == 0);
	for (i = 0; i < a.n && !(data[0] & JSON); i++)
		assert(shown[0][i] == '\n' || (unsigned char)shown[0][i] >= 32);
	return 0;
}
