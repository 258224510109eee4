/*
 * Tools that start processes and look after them. A command in the foreground
 * is a native run: its output is clipped there, and when nobody waits for it
 * any more it is killed there, because who cancels a call wants it to stop.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "api/clip.h"
#include "api/mcp/content.h"
#include "api/mcp/task.h"
#include "base/auto.h"
#include "base/base64.h"
#include "base/str.h"

enum {
	TIMEOUT_S = 120,
	TIMEOUT_MAX_S = 24 * 3600,
	WAIT_MAX_S = 600,
	OUTPUT = 32 * 1024, /* kept of each stream */
	OUTPUT_MAX = 256 * 1024,
	ESCAPED = 6, /* bytes of JSON for one, at most */
	EVENT_MAX = 4 * 1024 * 1024,
	PROCESS_WORDS = 160,
};

static_assert(EVENT_MAX > 2 * ESCAPED * OUTPUT_MAX + 4096,
	      "the result of a command is one line");

/* Lines of JSON that tell of a process. */
struct command {
	struct task task;
	struct task_bytes bytes;
	struct buf line; /* the start of one */
	void (*told)(struct command *c, json_t *ev);
	size_t charged;
	struct share *share; /* of pools.output; or NULL */
	/* Of one that is looked at: */
	json_int_t number;
	struct clip out[2];
	uint64_t next[2]; /* behind what came */
	uint64_t want[2]; /* with this it is enough */
	bool ended;       /* its exit is to come */
	json_t *exit;     /* NULL: not yet */
	char *error;
	struct timer patience;
};

static struct command *command_of(struct task *t)
{
	return container_of(t, struct command, task);
}

static void command_done(struct task *t)
{
	struct command *c = command_of(t);

	timer_del(&t->api->loop, &c->patience);
	buf_done(&c->line);
	clip_done(&c->out[0]);
	clip_done(&c->out[1]);
	json_decref(c->exit);
	free(c->error);
	share_give(c->share, c->charged);
}

/*
 * How much is kept of each stream, or -1 and answered. It is taken from the
 * pool ahead, because a command whose answer finds no room would be lost.
 */
static json_int_t charge(struct command *c, size_t times)
{
	json_int_t n = task_int(&c->task, "max_output_bytes", OUTPUT);
	struct err e = { 0 };

	n = n < 0 ? 0 : n > OUTPUT_MAX ? OUTPUT_MAX : n;
	if (n == 0)
		return 0;
	c->share = share_take(&c->task.api->pools.output,
			      who_project(c->task.call->who), times * (size_t)n,
			      &e);
	if (!c->share) {
		task_error(&c->task, "%s", e.msg);
		return -1;
	}
	c->charged = times * (size_t)n;
	return n;
}

/* --- lines --- */

static void on_data(struct task *t, const char *p, size_t n)
{
	struct command *c = command_of(t);
	const char *end;

	buf_add(&c->line, p, n);
	while (!t->ended &&
	       (end = memchr(buf_data(&c->line), '\n', buf_len(&c->line)))) {
		size_t len = (size_t)(end - buf_data(&c->line));
		json_t *ev = json_loadb(buf_data(&c->line), len, 0, NULL);

		buf_eat(&c->line, len + 1);
		c->told(c, ev);
		json_decref(ev);
	}
	if (!t->ended && buf_len(&c->line) > EVENT_MAX)
		task_error(t, "what it wrote could not be read");
}

static const char *type_of(const json_t *ev)
{
	const char *type = json_string_value(json_object_get(ev, "type"));

	return type ? type : "";
}

/* --- what became of it --- */

static void put_exit(struct buf *out, const json_t *exit)
{
	const json_t *code = json_object_get(exit, "code");
	const json_t *sig = json_object_get(exit, "signal");

	if (json_is_integer(code))
		buf_printf(out, "exit code %lld",
			   (long long)json_integer_value(code));
	else
		buf_printf(out, "ended by signal %lld",
			   (long long)json_integer_value(sig));
}

/* A part of the answer, which ends with its line. */
static void put_part(struct buf *out, const char *title, const char *p,
		     size_t n)
{
	if (n == 0)
		return;
	buf_puts(out, title);
	buf_add(out, p, n);
	if (p[n - 1] != '\n')
		buf_puts(out, "\n");
}

#define STDERR "[stderr]\n"

static void answer(struct command *c, struct buf *text, bool is_error)
{
	json_t *content = content_one(buf_data(text), buf_len(text));
	struct mcp_call *call = c->task.call;

	task_end(&c->task);
	mcp_content(call, content, is_error);
}

/* --- run_command --- */

static void put_stream(struct buf *out, const char *title, const json_t *result,
		       const char *name)
{
	AUTO(buf_done) struct buf bytes = { 0 };
	const json_t *text = json_object_get(result, name), *coded;
	char other[32];

	if (json_is_string(text)) {
		put_part(out, title, json_string_value(text),
			 json_string_length(text));
		return;
	}
	snprintf(other, sizeof(other), "%s_base64", name);
	coded = json_object_get(result, other);
	if (coded && base64_get(&bytes, json_string_value(coded),
				json_string_length(coded)) == 0)
		put_part(out, title, buf_data(&bytes), buf_len(&bytes));
}

static void reply_result(struct command *c, const json_t *result)
{
	AUTO(buf_done) struct buf text = { 0 };
	const json_t *exit = json_object_get(result, "exit");
	bool late = json_is_true(json_object_get(result, "timed_out"));
	const json_t *ms = json_object_get(result, "duration_ms");

	put_stream(&text, "", result, "stdout");
	put_stream(&text, STDERR, result, "stderr");
	buf_puts(&text, "[");
	if (late)
		buf_printf(
			&text,
			"killed after %lld s: it had not ended. Give a "
			"longer timeout_s, or run it with background: true",
			(long long)task_int(&c->task, "timeout_s", TIMEOUT_S));
	else
		put_exit(&text, exit);
	buf_printf(&text, ", %.1f s]", (double)json_integer_value(ms) / 1000);
	answer(c, &text, late);
}

static void run_told(struct command *c, json_t *ev)
{
	const char *line = json_string_value(json_object_get(ev, "line"));
	double s =
		(double)json_integer_value(json_object_get(ev, "elapsed_ms")) /
		1000;
	char words[40];

	if (strcmp(type_of(ev), "progress") == 0) {
		snprintf(words, sizeof(words), "running for %.0f s", s);
		mcp_progress(c->task.call, s, 0, line && *line ? line : words);
	} else if (strcmp(type_of(ev), "error") == 0) {
		task_error(&c->task, "the command was lost: %s",
			   inner_message(1, ev));
	} else {
		reply_result(c, ev);
	}
}

static void run_ended(struct task *t, int status, json_t *error, bool whole)
{
	(void)whole;
	if (status / 100 == 2)
		status = 0; /* without a result */
	task_refused(t, "the command did not run", status, error);
}

static json_t *start_body(const struct command *c)
{
	static const char *const same[] = { "command", "argv", "cwd", "env",
					    "user" };
	json_t *body = json_object();
	size_t i;

	for (i = 0; i < ARRAY_LEN(same); i++) {
		json_t *v = json_object_get(c->task.args, same[i]);

		if (v)
			json_object_set(body, same[i], v);
	}
	return body;
}

static void on_background(struct task *t, int status, json_t *answer)
{
	const json_t *number = json_object_get(answer, "number");

	if (status != 201)
		task_refused(t, "the command did not start", status, answer);
	else
		task_text(t,
			  "Process %lld runs in the background. process_output "
			  "reads what it writes, process_kill ends it.",
			  (long long)json_integer_value(number));
}

static void run_background(struct command *c)
{
	AUTO(buf_done) struct buf target = { 0 };
	json_t *body = start_body(c);

	json_object_set_new(body, "detach", json_true());
	task_target(&c->task, &target, "/processes");
	task_ask(&c->task, "POST", buf_str(&target), body, on_background);
}

static void run_foreground(struct command *c)
{
	static const struct http_field json_type[] = {
		{ "Content-Type", "application/json" }, { NULL, NULL }
	};
	AUTO(buf_done) struct buf target = { 0 };
	AUTO_FREE char *text = NULL;
	struct inner_request q = { .method = "POST", .fields = json_type };
	json_int_t s = task_int(&c->task, "timeout_s", TIMEOUT_S);
	json_int_t keep = charge(c, 2 * ESCAPED);
	json_t *body;

	if (keep < 0)
		return;
	s = s < 1 ? 1 : s > TIMEOUT_MAX_S ? TIMEOUT_MAX_S : s;
	body = start_body(c);
	json_object_set_new(body, "timeout", json_integer(s));
	json_object_set_new(body, "max_output", json_integer(keep));
	text = json_dumps(body, JSON_COMPACT);
	json_decref(body);
	task_target(&c->task, &target, "/run");
	if (mcp_wants_progress(c->task.call))
		target_add(&target, "progress", "true");
	q.target = buf_str(&target);
	q.body = text;
	q.body_n = strlen(text);
	c->told = run_told;
	c->bytes = (struct task_bytes){ .data = on_data, .ended = run_ended };
	task_fetch(&c->task, &q, &c->bytes);
}

static void run_begin(struct task *t)
{
	struct command *c = command_of(t);
	bool line = json_object_get(t->args, "command");
	bool words = json_object_get(t->args, "argv");

	t->done = command_done;
	if (line == words)
		task_error(t, "give one of command (a line for /bin/sh) and "
			      "argv (a list of words)");
	else if (task_bool(t, "background", false))
		run_background(c);
	else
		run_foreground(c);
}

static void start_run(struct mcp_call *call, const json_t *args)
{
	task_new(call, args, sizeof(struct command), run_begin);
}

/* --- process_output --- */

static void put_clip(struct buf *out, const char *title, struct clip *c)
{
	clip_close(c);
	put_part(out, title, buf_data(&c->head), buf_len(&c->head));
}

static void reply_look(struct command *c)
{
	AUTO(buf_done) struct buf text = { 0 };

	put_clip(&text, "", &c->out[0]);
	put_clip(&text, STDERR, &c->out[1]);
	buf_printf(&text, "[process %lld: ", (long long)c->number);
	if (c->exit)
		put_exit(&text, c->exit);
	else if (c->error)
		buf_puts(&text, c->error);
	else
		buf_puts(&text, "running");
	buf_printf(&text, "; cursor %llu.%llu]", (unsigned long long)c->next[0],
		   (unsigned long long)c->next[1]);
	answer(c, &text, false);
}

static void on_output(struct command *c, const json_t *ev, int i)
{
	AUTO(buf_done) struct buf bytes = { 0 };
	const json_t *text = json_object_get(ev, "data");
	const json_t *coded = json_object_get(ev, "base64");
	uint64_t at =
		(uint64_t)json_integer_value(json_object_get(ev, "offset"));

	if (json_is_string(text))
		buf_add(&bytes, json_string_value(text),
			json_string_length(text));
	else if (base64_get(&bytes, json_string_value(coded),
			    json_string_length(coded)) < 0)
		return;
	clip_add(&c->out[i], buf_data(&bytes), buf_len(&bytes));
	c->next[i] = at + buf_len(&bytes);
}

static void on_gap(struct command *c, const json_t *ev, int i)
{
	char note[80];

	snprintf(note, sizeof(note), "\n... %lld bytes are lost ...\n",
		 (long long)json_integer_value(json_object_get(ev, "lost")));
	clip_add(&c->out[i], note, strlen(note));
	c->next[i] =
		(uint64_t)json_integer_value(json_object_get(ev, "offset"));
}

static bool is_enough(const struct command *c)
{
	return c->exit ||
	       (!c->ended && !c->patience.slot && c->next[0] >= c->want[0] &&
		c->next[1] >= c->want[1]);
}

static void look_told(struct command *c, json_t *ev)
{
	const char *stream = json_string_value(json_object_get(ev, "stream"));
	int i = stream && strcmp(stream, "stderr") == 0;
	const char *type = type_of(ev);

	if (strcmp(type, "output") == 0)
		on_output(c, ev, i);
	else if (strcmp(type, "gap") == 0)
		on_gap(c, ev, i);
	else if (strcmp(type, "exit") == 0)
		c->exit = json_incref(json_object_get(ev, "exit"));
	else if (strcmp(type, "error") == 0 && !c->error)
		c->error = xstrdup(inner_message(1, ev));
	if (is_enough(c))
		reply_look(c);
}

static void look_ended(struct task *t, int status, json_t *error, bool whole)
{
	(void)whole;
	if (status / 100 == 2)
		reply_look(command_of(t));
	else
		task_refused(t, "the process cannot be read", status, error);
}

static void put_process(struct buf *out, const json_t *p)
{
	AUTO(buf_done) struct buf words = { 0 };
	const json_t *word, *exit = json_object_get(p, "exit");
	size_t i;

	json_array_foreach (json_object_get(p, "argv"), i, word) {
		const char *s = json_string_value(word);

		if (buf_len(&words) > PROCESS_WORDS)
			break;
		buf_printf(&words, "%s%.200s", i ? " " : "", s ? s : "");
	}
	buf_printf(out, "%lld  ",
		   (long long)json_integer_value(json_object_get(p, "number")));
	if (json_is_object(exit))
		put_exit(out, exit);
	else
		buf_puts(out, "running");
	buf_printf(out, "  %s\n", buf_str(&words));
}

static void reply_list(struct task *t, const json_t *list)
{
	AUTO(buf_done) struct buf text = { 0 };
	const json_t *p;
	size_t i;

	json_array_foreach (list, i, p) {
		put_process(&text, p);
	}
	if (buf_len(&text) == 0)
		buf_puts(&text, "No process runs, and none has ended lately.");
	task_reply(t, content_one(buf_data(&text), buf_len(&text)));
}

/* "120.30" */
static bool take_cursor(struct command *c)
{
	const char *s = task_str(&c->task, "cursor", NULL), *dot;
	char first[24];

	if (!s)
		return true;
	dot = strchr(s, '.');
	if (!dot || (size_t)(dot - s) >= sizeof(first))
		return false;
	memcpy(first, s, (size_t)(dot - s));
	first[dot - s] = '\0';
	return parse_u64(first, INT64_MAX, &c->next[0]) == 0 &&
	       parse_u64(dot + 1, INT64_MAX, &c->next[1]) == 0;
}

static void on_patience(struct timer *tm)
{
	reply_look(container_of(tm, struct command, patience));
}

static uint64_t member(const json_t *j, const char *name)
{
	return (uint64_t)json_integer_value(json_object_get(j, name));
}

static void look_at(struct command *c, const json_t *p)
{
	AUTO(buf_done) struct buf target = { 0 };
	json_int_t wait = task_int(&c->task, "wait_s", 0);
	struct inner_request q = { .method = "GET" };

	c->want[0] = member(p, "stdout_end");
	c->want[1] = member(p, "stderr_end");
	c->ended = json_is_object(json_object_get(p, "exit"));
	wait = wait > WAIT_MAX_S ? WAIT_MAX_S : wait;
	if (wait > 0 && !c->ended) {
		timer_set(&c->task.api->loop, &c->patience,
			  (uint64_t)wait * 1000, on_patience);
	} else if (is_enough(c)) {
		reply_look(c);
		return;
	}
	task_target(&c->task, &target, "/processes/");
	buf_printf(&target, "%lld", (long long)c->number);
	if (json_object_get(c->task.args, "cursor"))
		buf_printf(&target, "?stdout=%llu&stderr=%llu",
			   (unsigned long long)c->next[0],
			   (unsigned long long)c->next[1]);
	q.target = buf_str(&target);
	c->told = look_told;
	c->bytes = (struct task_bytes){ .data = on_data, .ended = look_ended };
	task_fetch(&c->task, &q, &c->bytes);
}

static void on_list(struct task *t, int status, json_t *answer)
{
	struct command *c = command_of(t);
	const json_t *p, *list = json_object_get(answer, "processes");
	size_t i;

	if (status != 200) {
		task_refused(t, "the processes cannot be listed", status,
			     answer);
		return;
	}
	if (c->number == 0) {
		reply_list(t, list);
		return;
	}
	json_array_foreach (list, i, p) {
		if ((json_int_t)member(p, "number") == c->number) {
			look_at(c, p);
			return;
		}
	}
	task_error(t,
		   "there is no process %lld: call process_output without a "
		   "number to see which there are",
		   (long long)c->number);
}

static void output_begin(struct task *t)
{
	AUTO(buf_done) struct buf target = { 0 };
	struct command *c = command_of(t);
	json_int_t keep;

	t->done = command_done;
	c->number = task_int(t, "process", 0);
	if (!take_cursor(c)) {
		task_error(t, "cursor is not one that process_output gave, "
			      "such as \"120.30\"");
		return;
	}
	keep = charge(c, 3); /* two heads, two tails of twice that */
	if (keep < 0)
		return;
	c->out[0].half = c->out[1].half = (size_t)keep / 2;
	task_target(t, &target, "/processes");
	task_ask(t, "GET", buf_str(&target), NULL, on_list);
}

static void start_output(struct mcp_call *call, const json_t *args)
{
	task_new(call, args, sizeof(struct command), output_begin);
}

/* --- process_kill --- */

static void on_waited(struct task *t, int status, json_t *answer)
{
	AUTO(buf_done) struct buf text = { 0 };
	long long number = (long long)task_int(t, "process", 0);

	if (status != 200) {
		task_text(t,
			  "Process %lld has got the signal and still runs. "
			  "Signal KILL ends it for certain.",
			  number);
		return;
	}
	put_exit(&text, json_object_get(answer, "exit"));
	task_text(t, "Process %lld has ended: %s.", number, buf_str(&text));
}

static void on_signalled(struct task *t, int status, json_t *answer)
{
	AUTO(buf_done) struct buf target = { 0 };

	if (status != 204) {
		task_refused(t, "the process gets no signal", status, answer);
		return;
	}
	task_target(t, &target, "/processes/");
	buf_printf(&target, "%lld/wait?timeout=2s",
		   (long long)task_int(t, "process", 0));
	task_ask(t, "GET", buf_str(&target), NULL, on_waited);
}

static void kill_begin(struct task *t)
{
	AUTO(buf_done) struct buf target = { 0 };

	task_target(t, &target, "/processes/");
	buf_printf(&target, "%lld/signal",
		   (long long)task_int(t, "process", 0));
	task_ask(t, "POST", buf_str(&target),
		 json_pack("{s:s}", "signal", task_str(t, "signal", "TERM")),
		 on_signalled);
}

static void start_kill(struct mcp_call *call, const json_t *args)
{
	task_new(call, args, sizeof(struct task), kill_begin);
}

const struct mcp_tool mcp_command_tools[] = {
	{ "run_command", "Run a command",
	  "Run a command in the sandbox, a Linux machine of your own, and get "
	  "its output and exit code. Use it for everything that has no tool of "
	  "its own: builds, tests, git, package managers. sudo works without "
	  "a password. The command is a line for /bin/sh (pipes, redirections, "
	  "&& work), or argv without a shell. Each call is a process of its "
	  "own: cd and exported variables do not last, so give cwd and env. It "
	  "is killed after timeout_s. Of long output the first and the last "
	  "part come back. For servers and what takes many minutes, say "
	  "background: true and look with process_output.",
	  "{\"type\":\"object\",\"properties\":{"
	  "\"command\":{\"type\":\"string\",\"description\":\"A line for "
	  "/bin/sh -c\"},"
	  "\"argv\":{\"type\":\"array\",\"items\":{\"type\":\"string\"},"
	  "\"description\":\"Instead of command: program and arguments, no "
	  "shell\"},"
	  "\"cwd\":{\"type\":\"string\",\"description\":\"Directory to run in; "
	  "default: the home directory\"},"
	  "\"env\":{\"type\":\"object\",\"additionalProperties\":{\"type\":"
	  "\"string\"},\"description\":\"Variables to add\"},"
	  "\"user\":{\"type\":\"string\",\"description\":\"Run as this user, "
	  "such as root; default: the usual user\"},"
	  "\"timeout_s\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":86400,"
	  "\"default\":120,\"description\":\"Seconds until it is killed\"},"
	  "\"background\":{\"type\":\"boolean\",\"default\":false,"
	  "\"description\":\"Do not wait: returns the number of the "
	  "process\"},"
	  "\"max_output_bytes\":{\"type\":\"integer\",\"minimum\":0,"
	  "\"maximum\":262144,\"default\":32768,\"description\":\"Kept of "
	  "stdout and of stderr, half from the start and half from the end\"}"
	  "},\"additionalProperties\":false}",
	  MCP_DESTRUCTIVE | MCP_OPEN_WORLD, start_run },
	{ "process_output", "Look at a background process",
	  "Read what a process that was started with background: true has "
	  "written, and whether it still runs. The answer ends in a cursor; "
	  "give it back to get only what is new. With wait_s it waits that "
	  "long for the process to end. Without a process number: the list of "
	  "processes.",
	  "{\"type\":\"object\",\"properties\":{"
	  "\"process\":{\"type\":\"integer\",\"minimum\":1,\"description\":"
	  "\"The number that run_command gave\"},"
	  "\"cursor\":{\"type\":\"string\",\"description\":\"From the last "
	  "answer; default: from the oldest output that is kept\"},"
	  "\"wait_s\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":600,"
	  "\"default\":0,\"description\":\"Wait up to so many seconds for its "
	  "end\"},"
	  "\"max_output_bytes\":{\"type\":\"integer\",\"minimum\":0,"
	  "\"maximum\":262144,\"default\":32768,\"description\":\"Kept of "
	  "stdout and of stderr, half from the start and half from the end\"}"
	  "},\"additionalProperties\":false}",
	  MCP_READ_ONLY, start_output },
	{ "process_kill", "End a process",
	  "Send a signal to a background process and all processes of its "
	  "group. TERM asks it to end, KILL makes it.",
	  "{\"type\":\"object\",\"properties\":{"
	  "\"process\":{\"type\":\"integer\",\"minimum\":1,\"description\":"
	  "\"The number that run_command gave\"},"
	  "\"signal\":{\"type\":\"string\",\"enum\":[\"TERM\",\"KILL\",\"INT\","
	  "\"HUP\",\"QUIT\",\"USR1\",\"USR2\",\"STOP\",\"CONT\"],\"default\":"
	  "\"TERM\",\"description\":\"Which signal\"}"
	  "},\"required\":[\"process\"],\"additionalProperties\":false}",
	  MCP_DESTRUCTIVE | MCP_IDEMPOTENT, start_kill },
	{ 0 },
};
