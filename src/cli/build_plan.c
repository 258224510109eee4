#include "cli/build_plan.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/sha.h"
#include "cli/tree_hash.h"

static const char *const words[] = { "from", "run",     "copy", "env",
				     "user", "workdir", "start" };
static_assert(ARRAY_LEN(words) == STEP_KINDS, "a word for each kind");

const char *step_word(const struct step *s)
{
	return words[s->kind];
}

bool step_is_disk(const struct step *s)
{
	return s->kind == STEP_RUN || s->kind == STEP_COPY ||
	       s->kind == STEP_WORKDIR;
}

static int wrong(const struct plan *p, unsigned line, const char *what,
		 struct err *e)
{
	return err_set(e, EINVAL, "%.100s:%u: %s", p->path, line, what);
}

/* Two words; the rest of the line is cut up for it. */
static int check_copy(const struct plan *p, struct step *s, struct err *e)
{
	char *at = (char *)s->text, *end;

	s->from = at;
	at += strcspn(at, " \t");
	if (*at)
		*at++ = '\0';
	s->to = at + strspn(at, " \t");
	end = s->to + strcspn(s->to, " \t");
	if (!*s->to || *end)
		return wrong(p, s->line,
			     "copy takes a file or directory, and "
			     "where it goes: copy SRC DST",
			     e);
	if (*s->from == '/' || strcmp(s->from, "..") == 0 ||
	    strncmp(s->from, "../", 3) == 0 || strstr(s->from, "/../"))
		return wrong(p, s->line,
			     "what is copied lies beside the build file: "
			     "neither / in front nor ..",
			     e);
	return 0;
}

static int check_env(const struct plan *p, const struct step *s, struct err *e)
{
	const char *at = s->text;

	if (!isalpha((unsigned char)*at) && *at != '_')
		return wrong(p, s->line, "env takes NAME=VALUE", e);
	while (isalnum((unsigned char)*at) || *at == '_')
		at++;
	if (*at != '=')
		return wrong(p, s->line, "env takes NAME=VALUE", e);
	return 0;
}

static int check_step(const struct plan *p, struct step *s, struct err *e)
{
	if (!*s->text)
		return wrong(p, s->line, "something is missing behind the word",
			     e);
	if ((s == p->steps) != (s->kind == STEP_FROM))
		return wrong(p, s->line,
			     s == p->steps ? "the first step is: from IMAGE"
					   : "there is one from, and it is the "
					     "first step",
			     e);
	if ((s->kind == STEP_FROM || s->kind == STEP_USER) &&
	    s->text[strcspn(s->text, " \t")])
		return wrong(p, s->line, "one word is wanted here", e);
	if (s->kind == STEP_WORKDIR && *s->text != '/')
		return wrong(p, s->line, "workdir takes a path from / on", e);
	if (s->kind == STEP_COPY)
		return check_copy(p, s, e);
	return s->kind == STEP_ENV ? check_env(p, s, e) : 0;
}

static int take_line(struct plan *p, char *at, unsigned line, struct err *e)
{
	struct step *s = &p->steps[p->n];
	char *end = at + strlen(at);
	size_t n;
	int kind;

	at += strspn(at, " \t");
	while (end > at && strchr(" \t\r", end[-1]))
		*--end = '\0';
	if (!*at || *at == '#')
		return 0;
	if (p->n == PLAN_STEPS_MAX)
		return wrong(p, line, "over 256 steps", e);
	n = strcspn(at, " \t");
	for (kind = 0; kind < STEP_KINDS; kind++)
		if (strlen(words[kind]) == n && memcmp(at, words[kind], n) == 0)
			break;
	if (kind == STEP_KINDS)
		return wrong(p, line,
			     "a step starts with from, run, copy, env, user, "
			     "workdir or start",
			     e);
	at += n;
	*s = (struct step){ .kind = (enum step_kind)kind,
			    .line = line,
			    .text = at + strspn(at, " \t") };
	p->n++;
	return check_step(p, s, e);
}

/* A backslash at the end of a line, and what separates it, become blanks. */
static char *whole_line(char **rest, unsigned *lines)
{
	char *start = *rest, *end = start;

	*lines = 1;
	for (;;) {
		end += strcspn(end, "\n");
		if (!*end || end == start || end[-1] != '\\')
			break;
		end[-1] = *end = ' ';
		(*lines)++;
	}
	*rest = *end ? end + 1 : end;
	*end = '\0';
	return start;
}

int plan_parse(struct plan *p, const char *path, const char *bytes, size_t n,
	       struct err *e)
{
	unsigned line = 1, lines;
	char *rest;
	int r;

	*p = (struct plan){ .path = path };
	if (n > PLAN_BYTES_MAX)
		return err_set(e, EFBIG, "%.100s: over 256 KiB", path);
	if (memchr(bytes, '\0', n))
		return err_set(e, EINVAL, "%.100s: not a text file", path);
	p->bytes = xcalloc(n + 1, 1);
	memcpy(p->bytes, bytes, n);
	rest = p->bytes;
	while (*rest) {
		char *at = whole_line(&rest, &lines);

		r = take_line(p, at, line, e);
		if (r < 0)
			return r;
		line += lines;
	}
	return p->n ? 0 : err_set(e, EINVAL, "%.100s: no steps in it", path);
}

int plan_load(struct plan *p, const char *path, struct err *e)
{
	AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
	AUTO(buf_done) struct buf b = { 0 };
	ssize_t n;

	*p = (struct plan){ .path = path };
	if (fd < 0)
		return err_sys(e, "open %.100s", path);
	do
		n = buf_read(&b, fd, 64 * 1024);
	while (n > 0 && buf_len(&b) <= PLAN_BYTES_MAX);
	if (n < 0) {
		errno = (int)-n;
		return err_sys(e, "read %.100s", path);
	}
	return plan_parse(p, path, buf_data(&b), buf_len(&b), e);
}

void plan_done(struct plan *p)
{
	free(p->bytes);
	*p = (struct plan){ 0 };
}

void step_source(const struct plan *p, const struct step *s, struct buf *out)
{
	const char *slash = strrchr(p->path, '/');

	buf_clear(out);
	if (slash)
		buf_add(out, p->path, (size_t)(slash - p->path) + 1);
	buf_puts(out, s->from);
}

static void add_text(struct sha256 *h, const char *s)
{
	sha256_add(h, s, strlen(s) + 1);
}

static int make_key(struct plan *p, struct step *s, const char *before,
		    struct err *e)
{
	AUTO(buf_done) struct buf source = { 0 };
	uint8_t sum[SHA256_LEN];
	struct sha256 h;
	size_t i;
	int r;

	sha256_init(&h);
	add_text(&h, before);
	add_text(&h, step_word(s));
	add_text(&h, s->text);
	if (s->kind == STEP_COPY) {
		add_text(&h, s->to);
		step_source(p, s, &source);
		r = tree_hash(buf_str(&source), &h, e);
		if (r < 0)
			return err_wrap(e, "%.100s:%u", p->path, s->line);
	}
	sha256_end(&h, sum);
	for (i = 0; i < SHA256_LEN; i++)
		snprintf(s->key + 2 * i, 3, "%02x", sum[i]);
	return 0;
}

int plan_keys(struct plan *p, const char *image_id, struct err *e)
{
	const char *before = image_id;
	size_t i;
	int r;

	for (i = 0; i < p->n; i++) {
		r = make_key(p, &p->steps[i], before, e);
		if (r < 0)
			return r;
		before = p->steps[i].key;
	}
	return 0;
}
