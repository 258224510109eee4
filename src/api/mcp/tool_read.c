/*
 * read_file: lines of a text, or an image as such. The file is not kept: its
 * bytes go by, until the lines that were asked for are there. What it is, is
 * decided by how it begins.
 */
#include <string.h>

#include "api/mcp/content.h"
#include "api/mcp/task.h"
#include "api/mcp/tool_file.h"
#include "base/auto.h"
#include "base/base64.h"

enum {
	BEGIN = 8 * 1024, /* bytes that decide what it is */
	LINES = 2000,
	TEXT_MAX = 256 * 1024,        /* of an answer */
	ONE_LINE_MAX = 16 * 1024,     /* of a line; the rest is left out */
	IMAGE_MAX = 3 * 1024 * 1024,  /* as base64 in one message */
	BINARY_MAX = 3 * 1024,        /* shown of what is neither */
	SCAN_MAX = 256 * 1024 * 1024, /* of a file that is read for them */
};

enum kind { KIND_OPEN, KIND_TEXT, KIND_IMAGE, KIND_BINARY };

struct reading {
	struct task task;
	struct task_bytes bytes;
	enum kind kind;
	struct buf begin; /* of the file; all of an image */
	struct buf out;
	bool numbers;
	uint64_t first, last; /* lines that are wanted, from 1 */
	uint64_t line;        /* that the next byte is of */
	uint64_t n_bytes;
	size_t in_line; /* bytes of the line that came */
	bool cut;       /* a line was too long */
};

static struct reading *reading_of(struct task *t)
{
	return container_of(t, struct reading, task);
}

static void reading_done(struct task *t)
{
	struct reading *r = reading_of(t);

	buf_done(&r->begin);
	buf_done(&r->out);
}

static const char *path_of(const struct reading *r)
{
	return task_str(&r->task, "path", "");
}

/* --- text --- */

static void put_note(struct reading *r, bool more, struct buf *note)
{
	uint64_t last = r->in_line > 0 ? r->line : r->line - 1;

	if (r->n_bytes == 0)
		buf_puts(note, "[the file is empty]");
	else if (last < r->first)
		buf_printf(note, "[the file has %llu lines]",
			   (unsigned long long)last);
	else if (more)
		buf_printf(note,
			   "[lines %llu to %llu; the file goes on: offset "
			   "%llu]",
			   (unsigned long long)r->first,
			   (unsigned long long)last,
			   (unsigned long long)last + 1);
	if (r->cut)
		buf_printf(note, "[lines of more than %d bytes are cut]",
			   ONE_LINE_MAX);
}

static void reply_text(struct reading *r, bool more)
{
	AUTO(buf_done) struct buf note = { 0 };
	json_t *content = json_array();

	put_note(r, more, &note);
	if (buf_len(&r->out) > 0)
		json_array_append_new(content, content_text(buf_data(&r->out),
							    buf_len(&r->out)));
	if (buf_len(&note) > 0)
		json_array_append_new(
			content, content_text(buf_data(&note), buf_len(&note)));
	task_reply(&r->task, content);
}

/* A piece of one line; `end`: and its newline. */
static void take_piece(struct reading *r, const char *p, size_t n, bool end)
{
	if (r->line >= r->first) {
		size_t room = r->in_line < ONE_LINE_MAX
				      ? ONE_LINE_MAX - r->in_line
				      : 0;

		if (r->numbers && r->in_line == 0)
			buf_printf(&r->out, "%6llu\t",
				   (unsigned long long)r->line);
		r->cut = r->cut || n > room;
		buf_add(&r->out, p, n < room ? n : room);
		if (end)
			buf_puts(&r->out, "\n");
	}
	r->in_line = end ? 0 : r->in_line + n;
	r->line += end;
}

static void take_text(struct reading *r, const char *p, size_t n)
{
	const char *end = p + n;

	while (p < end) {
		const char *nl = memchr(p, '\n', (size_t)(end - p));
		const char *stop = nl ? nl : end;

		/* There is more: now it is known. */
		if (r->in_line == 0 &&
		    (r->line > r->last || buf_len(&r->out) > TEXT_MAX)) {
			reply_text(r, true);
			return;
		}
		take_piece(r, p, (size_t)(stop - p), nl != NULL);
		p = stop + (nl != NULL);
	}
	if (r->n_bytes <= SCAN_MAX)
		return;
	if (r->line >= r->first)
		reply_text(r, true);
	else
		task_error(&r->task,
			   "line %llu of %s is too far: take a part of it with "
			   "run_command, with tail or sed",
			   (unsigned long long)r->first, path_of(r));
}

/* --- what is no text --- */

static void take_image(struct reading *r, const char *p, size_t n)
{
	if (buf_len(&r->begin) + n > IMAGE_MAX)
		task_error(&r->task,
			   "%s is an image of more than %d bytes: make it "
			   "smaller with run_command, then read that",
			   path_of(r), IMAGE_MAX);
	else
		buf_add(&r->begin, p, n);
}

static void reply_image(struct reading *r)
{
	const char *p = buf_data(&r->begin);
	size_t n = buf_len(&r->begin);

	task_reply(&r->task,
		   json_pack("[o]", content_image(p, n, image_type(p, n))));
}

static void reply_binary(struct reading *r)
{
	AUTO(buf_done) struct buf coded = { 0 }, size = { 0 };
	size_t n = buf_len(&r->begin);

	if (r->bytes.length != UINT64_MAX)
		buf_printf(&size, " of %llu bytes",
			   (unsigned long long)r->bytes.length);
	n = n < BINARY_MAX ? n : BINARY_MAX;
	base64_add(&coded, buf_data(&r->begin), n);
	task_text(&r->task,
		  "%s is a binary file%s, no text. Use run_command (file, xxd, "
		  "strings) to look into it. Its first %zu bytes as base64:\n"
		  "%s",
		  path_of(r), buf_str(&size), n, buf_str(&coded));
}

/* --- the bytes --- */

/* Enough is known of how it begins. */
static void decide(struct reading *r)
{
	struct buf begin = r->begin;
	const char *p = buf_data(&begin);
	size_t n = buf_len(&begin);

	if (image_type(p, n)) {
		r->kind = KIND_IMAGE;
	} else if (is_binary(p, n)) {
		r->kind = KIND_BINARY;
		reply_binary(r);
	} else {
		r->kind = KIND_TEXT;
		r->begin = (struct buf){ 0 };
		take_text(r, p, n);
		buf_done(&begin);
	}
}

static void on_data(struct task *t, const char *p, size_t n)
{
	struct reading *r = reading_of(t);

	r->n_bytes += n;
	if (r->kind == KIND_TEXT) {
		take_text(r, p, n);
	} else if (r->kind == KIND_IMAGE) {
		take_image(r, p, n);
	} else {
		buf_add(&r->begin, p, n);
		if (buf_len(&r->begin) >= BEGIN)
			decide(r);
	}
}

static void on_end(struct task *t, int status, json_t *error, bool whole)
{
	struct reading *r = reading_of(t);

	if (status / 100 != 2 || !whole) {
		task_refused(t, "it cannot be read", status, error);
		return;
	}
	if (r->kind == KIND_OPEN)
		decide(r);
	if (t->ended)
		return;
	if (r->kind == KIND_IMAGE)
		reply_image(r);
	else
		reply_text(r, false);
}

static void begin(struct task *t)
{
	AUTO(buf_done) struct buf target = { 0 };
	struct reading *r = reading_of(t);
	json_int_t first = task_int(t, "offset", 1);
	json_int_t count = task_int(t, "limit", LINES);
	struct inner_request q = { .method = "GET" };

	t->done = reading_done;
	r->numbers = task_bool(t, "line_numbers", false);
	r->line = 1;
	r->first = first < 1 ? 1 : (uint64_t)first;
	r->last = r->first + (count < 1 ? 1 : (uint64_t)count) - 1;
	r->bytes = (struct task_bytes){ .data = on_data,
					.ended = on_end,
					.length = UINT64_MAX };
	task_target(t, &target, "/files/content");
	target_add(&target, "path", path_of(r));
	q.target = buf_str(&target);
	task_fetch(t, &q, &r->bytes);
}

void start_read_file(struct mcp_call *c, const json_t *args)
{
	task_new(c, args, sizeof(struct reading), begin);
}
