/*
 * search_files: find and grep of the sandbox, because nothing there is
 * searched faster than by what is inside. All that the client says is words of
 * argv, never part of the script. Works with the tools of GNU and of busybox.
 */
#include <stdio.h>
#include <string.h>

#include "api/mcp/content.h"
#include "api/mcp/task.h"
#include "api/mcp/tool_file.h"
#include "base/auto.h"
#include "base/base64.h"

enum {
	RESULTS = 100,
	RESULTS_MAX = 1000,
	SEARCH_S = 60,
	OUTPUT_MAX = 512 * 1024,
	GLOB_MAX = 1024,
};

/*
 * Lines are cut, and one more is taken than is shown: then there is more. What
 * may not be read is left out. Exit code 2: it cannot be searched at all.
 */
#define CUT "2> /dev/null | cut -c 1-400 | head -n \"$4\""
#define LOOK                                                              \
	"[ -e \"$1\" ] || { echo \"$1: no such file or directory\" >&2; " \
	"exit 2; }\n"                                                     \
	"find \"$1\" -name .git -prune -o "

static const char by_name[] = LOOK "\"$3\" \"$5\" -print " CUT;
static const char by_text[] =
	"echo | grep -E -e \"$2\" > /dev/null; [ $? -lt 2 ] || exit 2\n"
	"grep -I . /dev/null 2> /dev/null; [ $? -lt 2 ] && i=I\n" LOOK
	"-type f \"$3\" \"$5\" -exec grep -nHE$i$6 -e \"$2\" {} + " CUT;
enum { EXIT_CANNOT = 2 };

/* "*.py" is a name; what has a slash is a path below, in which "**" is any
 * number of directories, as it is written elsewhere. */
static const char *glob_of(const char *glob, struct buf *out)
{
	const char *p;

	while (strncmp(glob, "**/", 3) == 0)
		glob += 3;
	if (!strchr(glob, '/')) {
		buf_puts(out, glob);
		return "-name";
	}
	if (*glob != '/')
		buf_puts(out, "*/");
	for (p = glob; *p; p++) {
		if (strncmp(p, "**/", 3) == 0) {
			buf_puts(out, "*");
			p += 2;
		} else {
			buf_add(out, p, 1);
		}
	}
	return "-path";
}

static size_t most(const struct task *t)
{
	json_int_t n = task_int(t, "max_results", RESULTS);

	return n < 1 ? 1 : n > RESULTS_MAX ? RESULTS_MAX : (size_t)n;
}

/* Where line `n` ends, from 1; NULL: there are not so many. */
static const char *end_of_line(const char *s, size_t n)
{
	while (n > 0 && (s = strchr(s, '\n'))) {
		s++;
		n--;
	}
	return s;
}

static json_int_t exit_code(const json_t *answer)
{
	return json_integer_value(
		json_object_get(json_object_get(answer, "exit"), "code"));
}

static void on_found(struct task *t, int status, json_t *answer)
{
	const char *out = json_string_value(json_object_get(answer, "stdout"));
	const char *err = json_string_value(json_object_get(answer, "stderr"));
	AUTO(buf_done) struct buf bytes = { 0 };
	const json_t *coded = json_object_get(answer, "stdout_base64");
	json_t *content;
	const char *end;

	if (status != 200) {
		task_refused(t, "the search failed", status, answer);
		return;
	}
	/* Names and lines may be no UTF-8. */
	if (coded && base64_get(&bytes, json_string_value(coded),
				json_string_length(coded)) == 0)
		out = buf_str(&bytes);
	if (exit_code(answer) == EXIT_CANNOT) {
		task_error(t, "%.2000s", err ? err : "it cannot be searched");
		return;
	}
	if (!out || !*out) {
		task_text(t, json_is_true(json_object_get(answer, "timed_out"))
				     ? "Nothing was found within a minute."
				     : "Nothing matches.");
		return;
	}
	end = end_of_line(out, most(t));
	end = end ? end : out + strlen(out);
	content = content_one(out, (size_t)(end - out));
	if (*end)
		json_array_append_new(
			content, json_pack("{s:s, s:s}", "type", "text", "text",
					   "[there is more: look in a smaller "
					   "path, or raise max_results]"));
	task_reply(t, content);
}

static void begin(struct task *t)
{
	AUTO(buf_done) struct buf target = { 0 }, glob = { 0 }, path = { 0 };
	const char *pattern = task_str(t, "pattern", NULL);
	const char *name = task_str(t, "glob", NULL);
	const char *where = task_str(t, "path", "."), *kind;
	char count[16];

	if ((!pattern && !name) || (name && strlen(name) > GLOB_MAX)) {
		task_error(t, "give pattern (what lines contain), glob (names "
			      "of files), or both");
		return;
	}
	/* No option of find. */
	buf_printf(&path, "%s%s", *where == '-' ? "./" : "", where);
	kind = glob_of(name && *name ? name : "*", &glob);
	snprintf(count, sizeof(count), "%zu", most(t) + 1);
	task_target(t, &target, "/run");
	task_ask(t, "POST", buf_str(&target),
		 json_pack("{s:[s,s,s,s,s,s,s,s,s,s], s:i, s:i}", "argv",
			   "/bin/sh", "-c", pattern ? by_text : by_name, "sh",
			   buf_str(&path), pattern ? pattern : "", kind, count,
			   buf_str(&glob),
			   task_bool(t, "ignore_case", false) ? "i" : "",
			   "timeout", SEARCH_S, "max_output", OUTPUT_MAX),
		 on_found);
}

void start_search_files(struct mcp_call *c, const json_t *args)
{
	task_new(c, args, sizeof(struct task), begin);
}
