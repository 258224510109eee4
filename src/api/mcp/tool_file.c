/* Tools about files; paths are absolute, or relative to the home directory. */
#include "api/mcp/tool_file.h"

#include <stdio.h>
#include <string.h>

#include "api/mcp/content.h"
#include "api/mcp/edit.h"
#include "api/mcp/task.h"
#include "base/auto.h"
#include "base/base64.h"
#include "base/str.h"

enum {
	EDIT_MAX = 4 * 1024 * 1024,
	ENTRIES = 500,
	ENTRIES_MAX = 5000,
	DEPTH_MAX = 20,
};

struct change {
	struct task task;
	struct task_bytes bytes;
	struct buf text, result;
	size_t n_replaced;
};

static struct change *change_of(struct task *t)
{
	return container_of(t, struct change, task);
}

static void change_done(struct task *t)
{
	struct change *c = change_of(t);

	buf_done(&c->text);
	buf_done(&c->result);
}

static void content_target(const struct task *t, struct buf *target)
{
	task_target(t, target, "/files/content");
	target_add(target, "path", task_str(t, "path", ""));
}

static void add_text(struct task *t, const char *p, size_t n)
{
	struct change *c = change_of(t);

	if (buf_len(&c->text) + n > EDIT_MAX)
		task_error(t,
			   "%s is larger than %d bytes: change it with "
			   "run_command, with sed or a script",
			   task_str(t, "path", ""), EDIT_MAX);
	else
		buf_add(&c->text, p, n);
}

/* --- write_file --- */

/* The file becomes what is in `result`. */
static void put_file(struct change *c, void (*ended)(struct task *t, int status,
						     json_t *error, bool whole))
{
	static const struct http_field type[] = {
		{ "Content-Type", "application/octet-stream" }, { NULL, NULL }
	};
	AUTO(buf_done) struct buf target = { 0 };
	const char *mode = task_str(&c->task, "mode", NULL);
	struct inner_request q = { .method = "PUT",
				   .fields = type,
				   .body = buf_data(&c->result),
				   .body_n = buf_len(&c->result) };

	content_target(&c->task, &target);
	target_add(&target, "parents", "true");
	if (mode)
		target_add(&target, "mode", mode);
	q.target = buf_str(&target);
	buf_clear(&c->text);
	c->bytes = (struct task_bytes){ .data = add_text, .ended = ended };
	task_fetch(&c->task, &q, &c->bytes);
}

static void on_written(struct task *t, int status, json_t *error, bool whole)
{
	struct change *c = change_of(t);

	(void)whole;
	if (status / 100 != 2)
		task_refused(t, "it was not written", status, error);
	else
		task_text(t, "Wrote %zu bytes to %s.", buf_len(&c->result),
			  task_str(t, "path", ""));
}

static void write_begin(struct task *t)
{
	struct change *c = change_of(t);
	const json_t *text = json_object_get(t->args, "content");
	const char *s = json_string_value(text);
	size_t n = json_string_length(text);

	t->done = change_done;
	if (strcmp(task_str(t, "encoding", "utf-8"), "base64") != 0) {
		buf_add(&c->result, s, n);
	} else if (base64_get(&c->result, s, n) < 0) {
		task_error(t, "content is not base64 (with padding, without "
			      "line ends)");
		return;
	}
	put_file(c, on_written);
}

static void start_write(struct mcp_call *call, const json_t *args)
{
	task_new(call, args, sizeof(struct change), write_begin);
}

/* --- edit_file --- */

static void on_edited(struct task *t, int status, json_t *error, bool whole)
{
	size_t n = change_of(t)->n_replaced;

	(void)whole;
	if (status / 100 != 2)
		task_refused(t, "it was not written", status, error);
	else
		task_text(t, "Replaced %zu place%s in %s.", n, n > 1 ? "s" : "",
			  task_str(t, "path", ""));
}

static void on_read(struct task *t, int status, json_t *error, bool whole)
{
	AUTO(buf_done) struct buf why = { 0 };
	struct change *c = change_of(t);
	const struct edit x = {
		.text = buf_data(&c->text),
		.n = buf_len(&c->text),
		.from = task_str(t, "old_string", ""),
		.to = task_str(t, "new_string", ""),
		.all = task_bool(t, "replace_all", false),
		.max = 2 * EDIT_MAX,
	};

	if (status / 100 != 2 || !whole) {
		task_refused(t, "it cannot be read", status, error);
		return;
	}
	c->n_replaced = edit_text(&x, &c->result, &why);
	if (buf_len(&why) == 0)
		put_file(c, on_edited);
	else if (c->n_replaced > 0 && (c->n_replaced == 1 || x.all))
		task_error(t, "%s: %s", task_str(t, "path", ""), buf_str(&why));
	else if (c->n_replaced > 1)
		task_error(t,
			   "old_string is not unique in %s: %s. Add lines "
			   "around it, or set replace_all.",
			   task_str(t, "path", ""), buf_str(&why));
	else
		task_error(t,
			   "old_string was not found in %s: %s. Read the file "
			   "and copy the text exactly.",
			   task_str(t, "path", ""), buf_str(&why));
}

static void edit_begin(struct task *t)
{
	AUTO(buf_done) struct buf target = { 0 };
	const char *from = task_str(t, "old_string", "");
	struct change *c = change_of(t);
	struct inner_request q = { .method = "GET" };

	t->done = change_done;
	if (!*from || strcmp(from, task_str(t, "new_string", "")) == 0) {
		task_error(t, "%s",
			   *from ? "old_string and new_string are the "
				   "same: nothing was changed"
				 : "old_string is empty: write_file "
				   "makes new files");
		return;
	}
	c->bytes = (struct task_bytes){ .data = add_text, .ended = on_read };
	content_target(t, &target);
	q.target = buf_str(&target);
	task_fetch(t, &q, &c->bytes);
}

static void start_edit(struct mcp_call *call, const json_t *args)
{
	task_new(call, args, sizeof(struct change), edit_begin);
}

/* --- list_files --- */

static void put_entry(struct buf *out, const json_t *e)
{
	const char *type = json_string_value(json_object_get(e, "type"));
	const char *path = json_string_value(json_object_get(e, "path"));
	const char *target = json_string_value(json_object_get(e, "target"));
	long long size =
		(long long)json_integer_value(json_object_get(e, "size"));
	bool dir = type && strcmp(type, "directory") == 0;

	buf_printf(out, "%-9s ", type ? type : "other");
	if (type && strcmp(type, "file") == 0)
		buf_printf(out, "%10lld ", size);
	else
		buf_printf(out, "%10s ", "-");
	buf_printf(out, " %s%s", path ? path : "?", dir ? "/" : "");
	if (target)
		buf_printf(out, " -> %s", target);
	buf_puts(out, "\n");
}

static void on_listed(struct task *t, int status, json_t *answer)
{
	AUTO(buf_done) struct buf text = { 0 };
	const json_t *e;
	size_t i;

	if (status != 200) {
		task_refused(t, "it cannot be listed", status, answer);
		return;
	}
	json_array_foreach (json_object_get(answer, "entries"), i, e) {
		put_entry(&text, e);
	}
	if (i == 0)
		buf_puts(&text, "The directory is empty.");
	if (json_is_string(json_object_get(answer, "next")))
		buf_puts(&text, "[there is more: list a directory below, or "
				"raise limit]\n");
	task_reply(t, content_one(buf_data(&text), buf_len(&text)));
}

static void add_number(struct buf *target, const char *name, json_int_t n,
		       json_int_t max)
{
	char text[24];

	n = n < 1 ? 1 : n > max ? max : n;
	snprintf(text, sizeof(text), "%lld", (long long)n);
	target_add(target, name, text);
}

static void list_begin(struct task *t)
{
	AUTO(buf_done) struct buf target = { 0 };

	task_target(t, &target, "/files/list");
	target_add(&target, "path", task_str(t, "path", "."));
	add_number(&target, "depth", task_int(t, "depth", 1), DEPTH_MAX);
	add_number(&target, "limit", task_int(t, "limit", ENTRIES),
		   ENTRIES_MAX);
	task_ask(t, "GET", buf_str(&target), NULL, on_listed);
}

static void start_list(struct mcp_call *call, const json_t *args)
{
	task_new(call, args, sizeof(struct task), list_begin);
}

#define PATH_SCHEMA                                                      \
	"\"path\":{\"type\":\"string\",\"minLength\":1,\"description\":" \
	"\"Absolute, or relative to the home directory\"}"

const struct mcp_tool mcp_file_tools[] = {
	{ "read_file", "Read a file",
	  "Read a file of the sandbox. Text comes back as it is, up to 2000 "
	  "lines or 256 KiB at once; a note says at which offset it goes on. "
	  "PNG, JPEG, GIF and WebP come back as images that you can see, up "
	  "to 3 MiB. Of other binary files you get a note and how they begin.",
	  "{\"type\":\"object\",\"properties\":{" PATH_SCHEMA ","
	  "\"offset\":{\"type\":\"integer\",\"minimum\":1,\"default\":1,"
	  "\"description\":\"The first line\"},"
	  "\"limit\":{\"type\":\"integer\",\"minimum\":1,\"default\":2000,"
	  "\"description\":\"How many lines\"},"
	  "\"line_numbers\":{\"type\":\"boolean\",\"default\":false,"
	  "\"description\":\"Put its number and a tab in front of each line\"}"
	  "},\"required\":[\"path\"],\"additionalProperties\":false}",
	  MCP_READ_ONLY, start_read_file },
	{ "write_file", "Write a file",
	  "Make a file in the sandbox, or replace it as a whole. Directories "
	  "that are missing are made. To change a part of a file use "
	  "edit_file.",
	  "{\"type\":\"object\",\"properties\":{" PATH_SCHEMA ","
	  "\"content\":{\"type\":\"string\",\"description\":\"All of it\"},"
	  "\"encoding\":{\"type\":\"string\",\"enum\":[\"utf-8\",\"base64\"],"
	  "\"default\":\"utf-8\",\"description\":\"base64: content is bytes, "
	  "such as an image\"},"
	  "\"mode\":{\"type\":\"string\",\"description\":\"Octal, such as 0755 "
	  "for a script; default: as it was, or 0644\"}"
	  "},\"required\":[\"path\",\"content\"],"
	  "\"additionalProperties\":false}",
	  MCP_DESTRUCTIVE | MCP_IDEMPOTENT, start_write },
	{ "edit_file", "Change a part of a file",
	  "Replace a piece of text in a file by another. old_string must be "
	  "there exactly as given, spaces and line ends included, and only "
	  "once: give enough lines around it, or set replace_all. When it is "
	  "not, nothing is changed, and the error says how often it is there "
	  "or which line comes nearest.",
	  "{\"type\":\"object\",\"properties\":{" PATH_SCHEMA ","
	  "\"old_string\":{\"type\":\"string\",\"minLength\":1,"
	  "\"description\":\"What is there\"},"
	  "\"new_string\":{\"type\":\"string\",\"description\":\"What will be "
	  "there\"},"
	  "\"replace_all\":{\"type\":\"boolean\",\"default\":false,"
	  "\"description\":\"Every place, not only one\"}"
	  "},\"required\":[\"path\",\"old_string\",\"new_string\"],"
	  "\"additionalProperties\":false}",
	  MCP_DESTRUCTIVE, start_edit },
	{ "list_files", "List a directory",
	  "List what is in a directory: a line for each with type, size in "
	  "bytes and path. With depth also what is in directories below.",
	  "{\"type\":\"object\",\"properties\":{"
	  "\"path\":{\"type\":\"string\",\"default\":\".\",\"description\":"
	  "\"Absolute, or relative to the home directory\"},"
	  "\"depth\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":20,"
	  "\"default\":1,\"description\":\"How many levels of directories\"},"
	  "\"limit\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":5000,"
	  "\"default\":500,\"description\":\"How many entries\"}"
	  "},\"additionalProperties\":false}",
	  MCP_READ_ONLY, start_list },
	{ "search_files", "Search files",
	  "Search below a directory: for lines that match a regular "
	  "expression (pattern), for files whose name matches a glob, or for "
	  "lines in such files. Lines come back as path:number:text. .git is "
	  "left out.",
	  "{\"type\":\"object\",\"properties\":{"
	  "\"pattern\":{\"type\":\"string\",\"minLength\":1,\"description\":"
	  "\"Extended regular expression (grep -E)\"},"
	  "\"glob\":{\"type\":\"string\",\"minLength\":1,\"description\":"
	  "\"Names of files: *.py, or paths: src/**/*.c\"},"
	  "\"path\":{\"type\":\"string\",\"default\":\".\",\"description\":"
	  "\"Where to search: absolute, or relative to the home directory\"},"
	  "\"ignore_case\":{\"type\":\"boolean\",\"default\":false,"
	  "\"description\":\"Capital and small letters are the same\"},"
	  "\"max_results\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":"
	  "1000,\"default\":100,\"description\":\"How many lines or files\"}"
	  "},\"additionalProperties\":false}",
	  MCP_READ_ONLY, start_search_files },
	{ 0 },
};
