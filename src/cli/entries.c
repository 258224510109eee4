#include "cli/entries.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/product.h"
#include "cli/server.h"
#include "cli/show.h"
#include "http/target.h"

enum { LINE_MAX_BYTES = 64 * 1024, TEXT_CAP = 512 };

void entries_target(struct buf *out, const char *path,
		    const struct entries_query *q)
{
	char sep = strchr(path, '?') ? '&' : '?';

	buf_puts(out, path);
	if (q->has_after) {
		buf_printf(out, "%cafter=%llu", sep,
			   (unsigned long long)q->after);
		sep = '&';
	}
	if (q->type) {
		buf_printf(out, "%ctype=", sep);
		http_encode(out, q->type);
	}
}

/* "image=debian cpus=2": what is plain; the rest is in --json. */
static void add_data(struct buf *b, json_t *data)
{
	const char *key;
	json_t *v;

	json_object_foreach (data, key, v) {
		char *text;

		if (json_is_null(v) || json_is_object(v))
			continue;
		text = json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY);
		buf_printf(b, "  %s=%s", key, text ? text : "?");
		free(text);
	}
}

static void print_entry(const json_t *j)
{
	struct buf b = { 0 };
	char id[SHOW_CAP], text[TEXT_CAP];

	show_id(j, "sandbox", id);
	buf_printf(&b, "%-24s  %-15s  %-12s  %s", show_str(j, "time"),
		   show_str(j, "type"), *show_str(j, "sandbox") ? id : "-",
		   *show_str(j, "who") ? show_str(j, "who") : "-");
	add_data(&b, json_object_get(j, "data"));
	clean_text(text, sizeof(text), buf_str(&b));
	puts(text);
	buf_done(&b);
}

static void print_line(const struct entries *e, const char *line)
{
	json_t *j;

	if (e->json) {
		puts(line);
		return;
	}
	j = json_loads(line, 0, NULL);
	if (json_is_object(j) && e->take)
		e->take(e->arg, j);
	else if (json_is_object(j))
		print_entry(j);
	json_decref(j);
}

static void keep_line(struct entries *e, const char *line)
{
	uint64_t at = e->n_kept++ % e->last;

	if (!e->kept)
		e->kept = xcalloc(e->last, sizeof(*e->kept));
	free(e->kept[at]);
	e->kept[at] = xstrdup(line);
}

/* Its number, or 0 when it is not an entry (a sign of life). */
static uint64_t seq_of(const char *line)
{
	unsigned long long seq = 0;

	return sscanf(line, "{\"seq\":%llu,", &seq) == 1 ? seq : 0;
}

static void take_line(struct entries *e, const char *line)
{
	uint64_t seq = seq_of(line);

	if (seq == 0)
		return;
	e->seq = seq;
	if (e->last > 0)
		keep_line(e, line);
	else
		print_line(e, line);
}

static int on_piece(const char *p, size_t n, void *ctx, struct err *err)
{
	struct entries *e = ctx;
	char *nl;

	buf_add(&e->rest, p, n);
	while ((nl = memchr(buf_data(&e->rest), '\n', buf_len(&e->rest)))) {
		char *line = buf_data(&e->rest);

		*nl = '\0';
		take_line(e, line);
		buf_eat(&e->rest, (size_t)(nl - line) + 1);
	}
	if (buf_len(&e->rest) > LINE_MAX_BYTES)
		return err_set(err, EBADMSG,
			       "the daemon sent a line without "
			       "an end");
	/* Whoever reads our output may be waiting for this line. */
	if (fflush(stdout) == EOF)
		return err_set(err, errno, "write to standard output: %s",
			       strerror(errno));
	return 0;
}

static bool is_patient(const struct entries *e)
{
	return e->ended_ms > 0 &&
	       clock_boot_ms() < e->ended_ms + e->patience_ms;
}

static bool connect_daemon(struct entries *e, struct http_client *c)
{
	char why[MESSAGE_CAP];

	if (server_try(e->cli, c, why))
		return true;
	if (!is_patient(e))
		fail(e->cli, "%s", why);
	return false;
}

bool entries_read(struct entries *e, const char *target)
{
	const struct http_call call = { .method = "GET", .target = target };
	struct http_client c;
	struct err err = { 0 };
	char message[MESSAGE_CAP];
	json_t *j = NULL;
	int status, r;

	if (!connect_daemon(e, &c))
		return false;
	if (http_send(&c, &call, &err) < 0 || http_recv_head(&c, &err) < 0 ||
	    (c.head.status == 503 && is_patient(e))) {
		http_client_done(&c);
		return false;
	}
	status = c.head.status;
	if (status != 200) {
		server_answer(e->cli, &c, &j);
		server_message(status, j, message);
		fail(e->cli, "%s", message);
	}
	r = http_recv_stream(&c, on_piece, e, &err);
	e->ended_ms = clock_boot_ms();
	http_client_done(&c);
	buf_clear(&e->rest);
	if (r < 0 && (ferror(stdout) || err.code == EBADMSG))
		fail(e->cli, "%s", err.msg);
	return r >= 0;
}

void entries_done(struct entries *e)
{
	uint64_t i, n = e->n_kept < e->last ? e->n_kept : e->last;

	for (i = 0; i < n; i++)
		print_line(e, e->kept[(e->n_kept - n + i) % e->last]);
	for (i = 0; i < n; i++)
		free(e->kept[i]);
	free(e->kept);
	buf_done(&e->rest);
}
