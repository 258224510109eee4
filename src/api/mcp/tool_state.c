/* Tools about the state of the sandbox as a whole. */
#include <stdio.h>
#include <string.h>

#include "api/mcp/content.h"
#include "api/mcp/task.h"
#include "base/auto.h"
#include "base/str.h"
#include "http/target.h"

enum {
	CHANGES = 500, /* lines of a diff */
	CHANGES_MAX = 5000,
	CHANGE_LINE_MAX = 64 * 1024,
};

static const char *text_of(const json_t *j, const char *name)
{
	const char *s = json_string_value(json_object_get(j, name));

	return s ? s : "";
}

/* --- snapshot, rollback, list_snapshots --- */

static void on_snapshot(struct task *t, int status, json_t *answer)
{
	const char *name = text_of(answer, "name");

	if (status != 201)
		task_refused(t, "no snapshot was taken", status, answer);
	else
		task_text(t,
			  "Took snapshot %s%s%s%s. rollback brings the sandbox "
			  "back to it.",
			  *name ? name : text_of(answer, "id"),
			  *name ? " (" : "", *name ? text_of(answer, "id") : "",
			  *name ? ")" : "");
}

static void snapshot_begin(struct task *t)
{
	AUTO(buf_done) struct buf target = { 0 };
	const char *name = task_str(t, "name", NULL);
	json_t *body = json_pack("{s:b}", "own", 1);

	if (name)
		json_object_set_new(body, "name", json_string(name));
	task_target(t, &target, "/snapshots");
	task_ask(t, "POST", buf_str(&target), body, on_snapshot);
}

static void start_snapshot(struct mcp_call *c, const json_t *args)
{
	task_new(c, args, sizeof(struct task), snapshot_begin);
}

static void on_rollback(struct task *t, int status, json_t *answer)
{
	if (status != 200)
		task_refused(t,
			     "nothing was rolled back (list_snapshots shows "
			     "what there is)",
			     status, answer);
	else
		task_text(t,
			  "The disk is as it was at snapshot %s. Processes "
			  "that ran have ended; what was written since is "
			  "gone.",
			  task_str(t, "snapshot", ""));
}

static void rollback_begin(struct task *t)
{
	AUTO(buf_done) struct buf target = { 0 };

	task_target(t, &target, "/rollback");
	task_ask(t, "POST", buf_str(&target),
		 json_pack("{s:s}", "snapshot", task_str(t, "snapshot", "")),
		 on_rollback);
}

static void start_rollback(struct mcp_call *c, const json_t *args)
{
	task_new(c, args, sizeof(struct task), rollback_begin);
}

static void on_snapshots(struct task *t, int status, json_t *answer)
{
	AUTO(buf_done) struct buf text = { 0 };
	const json_t *s;
	size_t i;

	if (status != 200) {
		task_refused(t, "snapshots cannot be listed", status, answer);
		return;
	}
	json_array_foreach (json_object_get(answer, "snapshots"), i, s) {
		const char *name = text_of(s, "name");

		buf_printf(&text, "%s  %s  %s%s\n", text_of(s, "created_at"),
			   text_of(s, "id"), *name ? name : "-",
			   strcmp(text_of(s, "kind"), "auto") == 0
				   ? "  (automatic)"
				   : "");
	}
	if (i == 0)
		buf_puts(&text, "There are no snapshots of this sandbox.");
	task_reply(t, content_one(buf_data(&text), buf_len(&text)));
}

static void snapshots_begin(struct task *t)
{
	AUTO(buf_done) struct buf target = { 0 };

	buf_printf(&target, "/v1/snapshots?sandbox=%s", t->box);
	task_ask(t, "GET", buf_str(&target), NULL, on_snapshots);
}

static void start_snapshots(struct mcp_call *c, const json_t *args)
{
	task_new(c, args, sizeof(struct task), snapshots_begin);
}

/* --- fork, switch_sandbox --- */

static void on_forked(struct task *t, int status, json_t *answer)
{
	const json_t *list = json_object_get(answer, "sandboxes");
	const char *id = text_of(json_array_get(list, 0), "id");
	bool here = task_bool(t, "switch", false);

	if (status != 201 || !id_valid(id)) {
		task_refused(t, "no fork was made", status, answer);
		return;
	}
	mcp_copied_box(t->call->session, t->box, id);
	if (here)
		mcp_set_box(t->call->session, id);
	task_text(t,
		  here ? "This session goes on in sandbox %s, a copy of %s. "
			 "switch_sandbox goes back."
		       : "Made sandbox %s, a copy of %s, which this session "
			 "stays in. switch_sandbox goes there.",
		  id, t->box);
}

static void fork_begin(struct task *t)
{
	AUTO(buf_done) struct buf target = { 0 };
	const char *name = task_str(t, "name", NULL);
	json_t *body;

	if (!mcp_has_room(t->call->session)) {
		task_error(t, "this session has made too many sandboxes: go on "
			      "in one of them with switch_sandbox");
		return;
	}
	body = json_object();
	if (name)
		json_object_set_new(body, "name", json_string(name));
	task_target(t, &target, "/fork");
	task_ask(t, "POST", buf_str(&target), body, on_forked);
}

static void start_fork(struct mcp_call *c, const json_t *args)
{
	task_new(c, args, sizeof(struct task), fork_begin);
}

static void on_other(struct task *t, int status, json_t *answer)
{
	const char *id = text_of(answer, "id");

	if (status != 200 || !id_valid(id)) {
		task_refused(t, "this session stays where it is", status,
			     answer);
		return;
	}
	if (json_object_get(answer, "ended")) {
		task_error(t, "sandbox %s has ended", id);
		return;
	}
	mcp_set_box(t->call->session, id);
	task_text(t, "This session goes on in sandbox %s.", id);
}

static void switch_begin(struct task *t)
{
	AUTO(buf_done) struct buf target = { 0 };

	buf_puts(&target, "/v1/sandboxes/");
	http_encode(&target, task_str(t, "sandbox", ""));
	task_ask(t, "GET", buf_str(&target), NULL, on_other);
}

static void start_switch(struct mcp_call *c, const json_t *args)
{
	task_new(c, args, sizeof(struct task), switch_begin);
}

/* --- diff --- */

struct diff {
	struct task task;
	struct task_bytes bytes;
	struct buf line, text;
	json_int_t n, most;
	char why[256];
	bool told; /* its last line came */
};

static struct diff *diff_of(struct task *t)
{
	return container_of(t, struct diff, task);
}

static void diff_done(struct task *t)
{
	buf_done(&diff_of(t)->line);
	buf_done(&diff_of(t)->text);
}

static void reply_diff(struct diff *d, const char *note)
{
	if (*note)
		buf_printf(&d->text, "[%s]\n", note);
	task_reply(&d->task,
		   content_one(buf_data(&d->text), buf_len(&d->text)));
}

/* "M /etc/hosts" */
static void take_change(struct diff *d, const json_t *j)
{
	const char *type = text_of(j, "type"), *change = text_of(j, "change");

	if (strcmp(type, "done") == 0) {
		d->told = true;
		if (d->n == 0)
			buf_puts(&d->text, "Nothing has changed.\n");
	} else if (strcmp(type, "error") == 0) {
		snprintf(d->why, sizeof(d->why), "%s", inner_message(1, j));
	} else if (strcmp(type, "change") == 0) {
		const json_t *now = json_object_get(j, "after");
		char letter = strcmp(change, "added") == 0     ? 'A'
			      : strcmp(change, "removed") == 0 ? 'D'
							       : 'M';

		if (!json_is_object(now))
			now = json_object_get(j, "before");
		d->n++;
		buf_printf(&d->text, "%c %s%s\n", letter, text_of(j, "path"),
			   strcmp(text_of(now, "type"), "directory") == 0 ? "/"
									  : "");
	}
}

static void diff_data(struct task *t, const char *p, size_t n)
{
	struct diff *d = diff_of(t);
	const char *end;

	buf_add(&d->line, p, n);
	while (d->n < d->most &&
	       (end = memchr(buf_data(&d->line), '\n', buf_len(&d->line)))) {
		size_t len = (size_t)(end - buf_data(&d->line));
		json_t *j = json_loadb(buf_data(&d->line), len, 0, NULL);

		take_change(d, j);
		json_decref(j);
		buf_eat(&d->line, len + 1);
	}
	if (d->n >= d->most)
		reply_diff(d, "there may be more: give path, or raise limit");
	else if (buf_len(&d->line) > CHANGE_LINE_MAX)
		task_error(t, "the difference could not be read");
}

static void diff_ended(struct task *t, int status, json_t *error, bool whole)
{
	struct diff *d = diff_of(t);

	(void)whole;
	if (status / 100 != 2)
		task_refused(t, "they cannot be compared", status, error);
	else if (!d->told)
		task_error(t, "they could not be compared: %s",
			   *d->why ? d->why : "the answer was cut");
	else
		reply_diff(d, "");
}

static void diff_begin(struct task *t)
{
	AUTO(buf_done) struct buf target = { 0 };
	struct diff *d = diff_of(t);
	const char *from = task_str(t, "from", NULL);
	const char *path = task_str(t, "path", NULL);
	struct inner_request q = { .method = "GET" };

	t->done = diff_done;
	d->most = task_int(t, "limit", CHANGES);
	d->most = d->most < 1             ? 1
		  : d->most > CHANGES_MAX ? CHANGES_MAX
					  : d->most;
	buf_puts(&target, "/v1/diff");
	target_add(&target, "to", task_str(t, "to", t->box));
	if (from)
		target_add(&target, "from", from);
	if (path)
		target_add(&target, "path", path);
	q.target = buf_str(&target);
	d->bytes =
		(struct task_bytes){ .data = diff_data, .ended = diff_ended };
	task_fetch(t, &q, &d->bytes);
}

static void start_diff(struct mcp_call *c, const json_t *args)
{
	task_new(c, args, sizeof(struct diff), diff_begin);
}

/* --- sandbox_info --- */

static void on_info(struct task *t, int status, json_t *answer)
{
	static const char *const keys[] = { "id",    "name",       "image",
					    "state", "created_at", "expires_at",
					    "usage", "door" };
	static const char *const of_spec[] = { "cpus",  "memory", "disk",
					       "pids",  "user",   "workdir",
					       "sudo",  "policy", "allow",
					       "rules", "ports" };
	const json_t *spec = json_object_get(answer, "spec");
	AUTO_FREE char *text = NULL;
	json_t *j;
	size_t i;

	if (status != 200) {
		task_refused(t, "it cannot be seen", status, answer);
		return;
	}
	j = json_object();
	for (i = 0; i < ARRAY_LEN(keys); i++)
		json_object_set(j, keys[i], json_object_get(answer, keys[i]));
	for (i = 0; i < ARRAY_LEN(of_spec); i++)
		json_object_set(j, of_spec[i],
				json_object_get(spec, of_spec[i]));
	if (!json_object_get(answer, "door"))
		json_object_set_new(j, "network",
				    json_string("none: this sandbox reaches "
						"nothing outside; "
						"request_access asks for it"));
	text = json_dumps(j, JSON_INDENT(2));
	json_decref(j);
	task_text(t, "%s", text ? text : "{}");
}

static void info_begin(struct task *t)
{
	AUTO(buf_done) struct buf target = { 0 };

	task_target(t, &target, "");
	task_ask(t, "GET", buf_str(&target), NULL, on_info);
}

static void start_info(struct mcp_call *c, const json_t *args)
{
	task_new(c, args, sizeof(struct task), info_begin);
}

#define NAME_SCHEMA(what)                                                 \
	"\"name\":{\"type\":\"string\",\"maxLength\":63,\"description\":" \
	"\"" what ": small letters, digits, hyphens\"}"

const struct mcp_tool mcp_state_tools[] = {
	{ "snapshot", "Take a snapshot",
	  "Keep the state of the sandbox's whole disk, in well under a second, "
	  "while everything goes on. Take one before anything risky; rollback "
	  "brings it back. Memory and processes are not part of it.",
	  "{\"type\":\"object\",\"properties\":{" NAME_SCHEMA(
		  "A name to find it by") "},\"additionalProperties\":false}",
	  0, start_snapshot },
	{ "rollback", "Roll back to a snapshot",
	  "Bring the sandbox's whole disk back to a snapshot. All processes "
	  "end, and what was written since is lost: take a snapshot first if "
	  "it may be needed.",
	  "{\"type\":\"object\",\"properties\":{\"snapshot\":{\"type\":"
	  "\"string\",\"minLength\":1,\"description\":\"Its name or id\"}},"
	  "\"required\":[\"snapshot\"],\"additionalProperties\":false}",
	  MCP_DESTRUCTIVE | MCP_IDEMPOTENT, start_rollback },
	{ "list_snapshots", "List snapshots",
	  "List the snapshots of this sandbox, the oldest first: time, id, "
	  "name.",
	  "{\"type\":\"object\",\"additionalProperties\":false}", MCP_READ_ONLY,
	  start_snapshots },
	{ "fork", "Copy the sandbox",
	  "Make a second sandbox that is a copy of this one: the disk as it is "
	  "now, no processes. Try something in the copy without touching the "
	  "original, or keep the copy as it is. With switch: true all later "
	  "calls work in the copy. Copies of a sandbox that was made for this "
	  "session end with the session.",
	  "{\"type\":\"object\",\"properties\":{" NAME_SCHEMA(
		  "A name of the copy") ",\"switch\":{\"type\":\"boolean\","
					"\"default\":false,\"description\":"
					"\"Go on in the copy\"}},"
					"\"additionalProperties\":false}",
	  0, start_fork },
	{ "switch_sandbox", "Go on in another sandbox",
	  "All later calls of this session work in another sandbox: one that "
	  "fork made, or the one before.",
	  "{\"type\":\"object\",\"properties\":{\"sandbox\":{\"type\":"
	  "\"string\",\"minLength\":1,\"description\":\"Its id or name\"}},"
	  "\"required\":[\"sandbox\"],\"additionalProperties\":false}",
	  MCP_IDEMPOTENT, start_switch },
	{ "diff", "See what has changed",
	  "List the files that differ between two states of disks: A for "
	  "added, M for changed, D for removed. Without from: what has changed "
	  "since the sandbox was made. Contents are not compared line by line: "
	  "read_file and run_command with diff do that.",
	  "{\"type\":\"object\",\"properties\":{"
	  "\"from\":{\"type\":\"string\",\"description\":\"A snapshot or "
	  "sandbox; default: what this one was made from\"},"
	  "\"to\":{\"type\":\"string\",\"description\":\"Another one; default: "
	  "this sandbox as it is now\"},"
	  "\"path\":{\"type\":\"string\",\"description\":\"Only this and what "
	  "is below, absolute\"},"
	  "\"limit\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":5000,"
	  "\"default\":500,\"description\":\"How many lines\"}"
	  "},\"additionalProperties\":false}",
	  MCP_READ_ONLY, start_diff },
	{ "sandbox_info", "About the sandbox",
	  "What this sandbox is: its id, image, limits of processors, memory "
	  "and disk, what it uses, when it ends, and what it may reach "
	  "outside.",
	  "{\"type\":\"object\",\"additionalProperties\":false}", MCP_READ_ONLY,
	  start_info },
	{ 0 },
};
