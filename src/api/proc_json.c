#include "api/proc_json.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/json_text.h"
#include "api/reply.h"
#include "base/auto.h"
#include "base/str.h"
#include "http/target.h"

/* --- requests --- */

typedef int take_fn(struct proc_request *q, const json_t *v, struct err *e);

static int not_a(struct err *e, const char *what)
{
	return err_set(e, EINVAL, "is not %s", what);
}

static int take_argv(struct proc_request *q, const json_t *v, struct err *e)
{
	size_t n = json_array_size(v), i;

	if (!json_is_array(v) || n == 0 || n > ARGS_MAX)
		return not_a(e, "a list of 1 to 8192 words");
	if (q->spawn.argv)
		return err_set(e, EINVAL, "command is given, too");
	q->spawn.argv = xcalloc(n + 1, sizeof(*q->spawn.argv));
	for (i = 0; i < n; i++) {
		q->spawn.argv[i] = json_string_value(json_array_get(v, i));
		if (!q->spawn.argv[i])
			return not_a(e, "a list of strings");
	}
	q->spawn.argc = n;
	return 0;
}

static int take_command(struct proc_request *q, const json_t *v, struct err *e)
{
	if (!json_is_string(v) || json_string_length(v) == 0)
		return not_a(e, "a line for the shell");
	if (q->spawn.argv)
		return err_set(e, EINVAL, "argv is given, too");
	q->spawn.argv = xcalloc(4, sizeof(*q->spawn.argv));
	q->spawn.argv[0] = "/bin/sh";
	q->spawn.argv[1] = "-c";
	q->spawn.argv[2] = json_string_value(v);
	q->spawn.argc = 3;
	return 0;
}

static int take_env(struct proc_request *q, const json_t *v, struct err *e)
{
	size_t n = json_object_size(v), i = 0;
	const char *key, *at;
	json_t *value;

	if (!json_is_object(v) || n > ARGS_MAX)
		return not_a(e, "an object of strings");
	json_object_foreach ((json_t *)v, key, value) {
		if (*key == '\0' || strchr(key, '=') || !json_is_string(value))
			return not_a(e, "an object of strings");
		buf_printf(&q->env_text, "%s=%s", key,
			   json_string_value(value));
		buf_add(&q->env_text, "", 1);
	}
	q->spawn.env = xcalloc(n + 1, sizeof(*q->spawn.env));
	for (at = buf_data(&q->env_text); i < n; at += strlen(at) + 1)
		q->spawn.env[i++] = at;
	q->spawn.envc = n;
	return 0;
}

static int take_cwd(struct proc_request *q, const json_t *v, struct err *e)
{
	q->spawn.cwd = json_string_value(v);
	return q->spawn.cwd ? 0 : not_a(e, "a path");
}

static int take_user(struct proc_request *q, const json_t *v, struct err *e)
{
	q->spawn.user = json_string_value(v);
	return q->spawn.user ? 0 : not_a(e, "a name or a number, as a string");
}

static int take_tag(struct proc_request *q, const json_t *v, struct err *e)
{
	q->spawn.tag = json_string_value(v);
	if (!q->spawn.tag || !proc_tag_valid(q->spawn.tag))
		return not_a(e, "1 to 64 letters, digits and \"._-\"");
	return 0;
}

static int take_flag(struct proc_request *q, const json_t *v, uint32_t flag,
		     struct err *e)
{
	if (!json_is_boolean(v))
		return not_a(e, "true or false");
	if (json_is_true(v))
		q->spawn.flags |= flag;
	return 0;
}

static int take_tty(struct proc_request *q, const json_t *v, struct err *e)
{
	return take_flag(q, v, SPAWN_PTY, e);
}

static int take_stdin(struct proc_request *q, const json_t *v, struct err *e)
{
	return take_flag(q, v, SPAWN_STDIN, e);
}

static int take_detach(struct proc_request *q, const json_t *v, struct err *e)
{
	q->detach = json_is_true(v);
	return take_flag(q, v, SPAWN_DETACHED, e);
}

static int take_u16(const json_t *v, uint16_t *out, struct err *e)
{
	json_int_t n = json_integer_value(v);

	if (!json_is_integer(v) || n < 1 || n > UINT16_MAX)
		return not_a(e, "a number from 1 to 65535");
	*out = (uint16_t)n;
	return 0;
}

static int take_rows(struct proc_request *q, const json_t *v, struct err *e)
{
	return take_u16(v, &q->spawn.rows, e);
}

static int take_cols(struct proc_request *q, const json_t *v, struct err *e)
{
	return take_u16(v, &q->spawn.cols, e);
}

static int take_input(struct proc_request *q, const json_t *v, struct err *e)
{
	q->input = json_string_value(v);
	q->input_len = json_string_length(v);
	q->spawn.flags |= SPAWN_STDIN;
	return q->input ? 0 : not_a(e, "a string");
}

static int take_timeout(struct proc_request *q, const json_t *v, struct err *e)
{
	const uint64_t max_ms = 24ULL * 3600 * 1000;
	double s = json_number_value(v);

	if (json_is_string(v)) {
		if (parse_duration(json_string_value(v), &q->timeout_ms) < 0)
			q->timeout_ms = 0;
	} else if (json_is_number(v) && s > 0 && s <= (double)max_ms / 1000) {
		q->timeout_ms = (uint64_t)ceil(s * 1000);
	}
	if (q->timeout_ms == 0 || q->timeout_ms > max_ms)
		return not_a(e, "a time: seconds or \"10m\", at most 24h");
	return 0;
}

static int take_max_output(struct proc_request *q, const json_t *v,
			   struct err *e)
{
	json_int_t n = json_integer_value(v);

	if (!json_is_integer(v) || n < 0 || n > RUN_OUTPUT_MAX)
		return not_a(e, "a number of bytes, at most 4194304");
	q->max_output = (size_t)n;
	return 0;
}

static int take_spec(struct proc_request *q, const json_t *v, struct err *e)
{
	q->spec = (json_t *)v;
	return json_is_object(v) ? 0 : not_a(e, "an object");
}

enum { ANY = PROC_START | PROC_RUN | PROC_ONCE, ENDS = PROC_RUN | PROC_ONCE };

static const struct {
	const char *name;
	unsigned uses;
	take_fn *take;
} keys[] = {
	{ "argv", ANY, take_argv },
	{ "command", ANY, take_command },
	{ "env", ANY, take_env },
	{ "cwd", ANY, take_cwd },
	{ "user", ANY, take_user },
	{ "tag", ANY, take_tag },
	{ "tty", ANY, take_tty },
	{ "rows", ANY, take_rows },
	{ "cols", ANY, take_cols },
	{ "stdin", PROC_START, take_stdin },
	{ "detach", PROC_START, take_detach },
	{ "input", ENDS, take_input },
	{ "timeout", ENDS, take_timeout },
	{ "max_output", ENDS, take_max_output },
	{ "spec", PROC_ONCE, take_spec },
};

static int take_key(struct proc_request *q, const char *key, const json_t *v,
		    enum proc_use use, struct err *e)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(keys); i++) {
		if (strcmp(keys[i].name, key) != 0 || !(keys[i].uses & use))
			continue;
		if (json_is_null(v)) /* as if it were not there */
			return 0;
		if (keys[i].take(q, v, e) < 0)
			return err_wrap(e, "%s", key);
		return 0;
	}
	return err_set(e, EINVAL, "unknown key '%.64s'", key);
}

int proc_request_parse(struct proc_request *q, json_t *j, enum proc_use use,
		       struct err *e)
{
	const char *key;
	json_t *v;
	int r = 0;

	*q = (struct proc_request){ .max_output = RUN_OUTPUT, .json = j };
	json_object_foreach (j, key, v)
		if (r == 0)
			r = take_key(q, key, v, use, e);
	if (r == 0 && !q->spawn.argv)
		r = err_set(e, EINVAL, "argv or command is missing");
	if (r < 0)
		proc_request_done(q);
	return r;
}

void proc_request_done(struct proc_request *q)
{
	spawn_done(&q->spawn);
	buf_done(&q->env_text);
	json_decref(q->json);
	q->json = NULL;
}

/* --- names --- */

bool proc_tag_valid(const char *s)
{
	size_t n = strlen(s), i;

	for (i = 0; i < n; i++)
		if (!isalnum((unsigned char)s[i]) && !strchr("._-", s[i]))
			return false;
	return n > 0 && n <= TAG_MAX;
}

int proc_ref_parse(const char *ref, struct attach *at, struct err *e)
{
	uint64_t n = 0;

	*at = (struct attach){ .tag = "" };
	if (str_starts(ref, "tag:")) {
		at->tag = ref + 4;
		if (proc_tag_valid(at->tag))
			return 0;
	} else if (parse_u64(ref, UINT32_MAX, &n) == 0 && n > 0) {
		at->number = (uint32_t)n;
		return 0;
	}
	return err_set(e, EINVAL,
		       "'%.64s' is neither the number of a process nor "
		       "\"tag:\" and its tag",
		       ref);
}

int proc_signal_parse(const json_t *v)
{
	const char *name = json_string_value(v);
	json_int_t n = json_integer_value(v);
	uint64_t u = 0;
	int i;

	if (json_is_integer(v))
		return n >= 1 && n <= SIGNAL_MAX ? (int)n : 0;
	if (!name)
		return 0;
	if (parse_u64(name, SIGNAL_MAX, &u) == 0)
		return (int)u;
	if (str_starts(name, "SIG"))
		name += 3;
	for (i = 1; i < 32; i++)
		if (strcmp(sigabbrev_np(i), name) == 0)
			return i;
	return 0;
}

int proc_size_parse(const json_t *j, uint16_t *rows, uint16_t *cols,
		    struct err *e)
{
	if (!json_is_object(j))
		return err_set(e, EINVAL, "not an object with rows and cols");
	if (take_u16(json_object_get(j, "rows"), rows, e) < 0)
		return err_wrap(e, "rows");
	if (take_u16(json_object_get(j, "cols"), cols, e) < 0)
		return err_wrap(e, "cols");
	return 0;
}

int query_number(const struct http_head *h, const char *name, uint64_t max,
		 uint64_t *out, struct err *e)
{
	char text[32];
	int r = http_query(h, name, text, sizeof(text));

	if (r == 0)
		return 0;
	if (r < 0 || parse_u64(text, max, out) < 0)
		return err_set(e, EINVAL, "%s is not a number from 0 to %llu",
			       name, (unsigned long long)max);
	return 0;
}

int query_bool(const struct http_head *h, const char *name, bool *out,
	       struct err *e)
{
	char text[8];
	int r = http_query(h, name, text, sizeof(text));

	if (r == 0)
		return 0;
	*out = r > 0 && strcmp(text, "true") == 0;
	if (!*out && (r < 0 || strcmp(text, "false") != 0))
		return err_set(e, EINVAL, "%s is not true or false", name);
	return 0;
}

/* --- answers --- */

json_t *exit_json(const struct exit_info *x)
{
	json_int_t code = (json_int_t)x->code;

	return json_pack(
		"{s:o, s:o, s:I, s:I, s:I}", "code",
		x->signaled ? json_null() : json_integer(code), "signal",
		x->signaled ? json_integer(code) : json_null(), "user_us",
		(json_int_t)x->user_us, "sys_us", (json_int_t)x->sys_us,
		"max_rss_bytes", (json_int_t)x->max_rss_bytes);
}

json_t *started_json(uint32_t number, uint32_t pid, const char *tag)
{
	return json_pack("{s:I, s:I, s:s?}", "number", (json_int_t)number,
			 "pid", (json_int_t)pid, "tag",
			 tag && *tag ? tag : NULL);
}

json_t *error_json(const struct err *e)
{
	const char *word;

	reply_status(e->code, &word);
	return json_pack("{s:s, s:o}", "error", word, "message",
			 json_lossy(e->msg, strlen(e->msg)));
}

bool spawn_err_is_ours(int code)
{
	static const int ours[] = { E2BIG,  EEXIST, EBUSY,    EMFILE, ENFILE,
				    EAGAIN, ENOMEM, ENOTCONN, EPROTO, ESRCH };
	size_t i;

	for (i = 0; i < ARRAY_LEN(ours); i++)
		if (ours[i] == code)
			return true;
	return false;
}

void reply_spawn_err(struct api *a, struct http_conn *c, const struct err *e)
{
	if (spawn_err_is_ours(e->code))
		reply_err(a, c, e);
	else
		reply_error(a, c, 400, "spawn_failed", e->msg);
}
