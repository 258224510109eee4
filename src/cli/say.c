/*
 * Text for people: messages, tables, JSON. Whatever came from the server, from
 * a sandbox or from a file passes clean_text() on its way to a terminal.
 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fd.h"
#include "base/guards.h"
#include "base/product.h"
#include "cli/cli.h"
#include "cli/term.h"

/* Bytes of the valid UTF-8 character at `s` that may be shown, or 0. */
static size_t printable(const unsigned char *s)
{
	static const struct {
		unsigned char mask, lead;
		unsigned min;
	} forms[] = {
		{ 0xe0, 0xc0, 0xa0 }, /* from U+00A0: no C1 controls */
		{ 0xf0, 0xe0, 0x800 },
		{ 0xf8, 0xf0, 0x10000 },
	};
	size_t i, k;

	if (*s >= 0x20 && *s < 0x7f)
		return 1;
	for (i = 0; i < ARRAY_LEN(forms); i++) {
		unsigned c = *s & (unsigned char)~forms[i].mask;

		if ((*s & forms[i].mask) != forms[i].lead)
			continue;
		for (k = 1; k <= i + 1; k++) {
			if ((s[k] & 0xc0) != 0x80)
				return 0;
			c = c << 6 | (s[k] & 0x3f);
		}
		/* U+200E..F, U+202A..E, U+2066..9 turn text around. */
		if (c < forms[i].min || c > 0x10ffff ||
		    (c >= 0xd800 && c <= 0xdfff) || (c | 1) == 0x200f ||
		    (c >= 0x2028 && c <= 0x202e) ||
		    (c >= 0x2066 && c <= 0x2069))
			return 0;
		return i + 2;
	}
	return 0;
}

void clean_text(char *out, size_t cap, const char *s)
{
	size_t at = 0;

	while (*s) {
		size_t n = printable((const unsigned char *)s);

		if (!GUARD(TERMINAL) && n == 0)
			n = 1;
		if (at + (n ? n : 1) >= cap)
			break;
		if (n == 0) {
			out[at++] = '?';
			s++;
			continue;
		}
		memcpy(out + at, s, n);
		at += n;
		s += n;
	}
	out[at] = '\0';
}

/* One write(), so that lines of several processes do not mix. */
PRINTF_LIKE(1, 0)
static void say_line(const char *fmt, va_list ap)
{
	char raw[1024], line[sizeof(raw) + 16];
	size_t n = strlen(PRODUCT ": ");

	vsnprintf(raw, sizeof(raw), fmt, ap);
	term_screen(false);
	memcpy(line, PRODUCT ": ", n + 1);
	clean_text(line + n, sizeof(line) - n - 2, raw);
	n = strlen(line);
	if (term_is_raw())
		line[n++] = '\r';
	line[n++] = '\n';
	if (write_full(STDERR_FILENO, line, n) < 0)
		return; /* nowhere left to say so */
}

void complain(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say_line(fmt, ap);
	va_end(ap);
}

void fail(const struct cli *cli, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say_line(fmt, ap);
	va_end(ap);
	exit(cli->fail_code);
}

void print_json(const json_t *j)
{
	size_t flags = JSON_INDENT(2) | JSON_ENCODE_ANY;

	if (isatty(STDOUT_FILENO))
		flags |= JSON_ENSURE_ASCII;
	json_dumpf(j, stdout, flags);
	putchar('\n');
}

bool colours_on(int fd)
{
	const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

	return !(no && *no) && isatty(fd) && !(term && !strcmp(term, "dumb"));
}

void json_put_str(struct buf *b, const char *s, size_t n)
{
	const char *end = s + n;

	buf_add(b, "\"", 1);
	for (; s < end; s++) {
		if (*s == '"' || *s == '\\')
			buf_add(b, "\\", 1);
		if ((unsigned char)*s < 0x20)
			buf_printf(b, "\\u%04x", (unsigned char)*s);
		else
			buf_add(b, s, 1);
	}
	buf_add(b, "\"", 1);
}

void table_init(struct table *t, const char *const *titles, size_t columns)
{
	*t = (struct table){ .columns = columns };
	table_row(t, titles);
}

void table_row(struct table *t, const char *const *cells)
{
	size_t i;

	t->cells = xrealloc(t->cells,
			    (t->rows + 1) * t->columns * sizeof(*t->cells));
	for (i = 0; i < t->columns; i++) {
		char cell[256];

		clean_text(cell, sizeof(cell), cells[i]);
		t->cells[t->rows * t->columns + i] = xstrdup(cell);
	}
	t->rows++;
}

static size_t table_width(const struct table *t, size_t column)
{
	size_t r, w = 0;

	for (r = 0; r < t->rows; r++) {
		size_t n = strlen(t->cells[r * t->columns + column]);

		w = n > w ? n : w;
	}
	return w;
}

void table_print(const struct table *t)
{
	int width[TABLE_COLUMNS];
	size_t r, i;

	for (i = 0; i < t->columns; i++)
		width[i] = (int)table_width(t, i);
	for (r = 0; r < t->rows; r++) {
		for (i = 0; i + 1 < t->columns; i++)
			printf("%-*s  ", width[i],
			       t->cells[r * t->columns + i]);
		puts(t->cells[r * t->columns + i]);
	}
}

void table_done(struct table *t)
{
	size_t i;

	for (i = 0; i < t->rows * t->columns; i++)
		free(t->cells[i]);
	free(t->cells);
	*t = (struct table){ 0 };
}
