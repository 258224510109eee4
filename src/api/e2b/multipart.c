#include "api/e2b/multipart.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/auto.h"
#include "base/str.h"

enum {
	ST_FIRST,  /* the first boundary, without its CRLF */
	ST_BEHIND, /* a boundary: CRLF and a part, or "--" */
	ST_HEAD,
	ST_DATA,
	ST_END,
	ST_BAD,
};

static int bad(struct multipart *m, struct err *e, const char *why)
{
	m->state = ST_BAD;
	return err_set(e, EBADMSG, "the body is no multipart/form-data: %s",
		       why);
}

/* --- values with parameters: `form-data; name="x"` --- */

static const char *skip_space(const char *s)
{
	return s + strspn(s, " \t");
}

/* Behind the opening quote; NULL when there is no closing one. */
static const char *take_quoted(const char *s, struct buf *out)
{
	for (; *s && *s != '"'; s++) {
		if (*s == '\\' && (s[1] == '"' || s[1] == '\\'))
			s++;
		buf_add(out, s, 1);
	}
	return *s ? s + 1 : NULL;
}

/*
 * The parameter of that name: 1 and its value, 0, or -EINVAL for a value that
 * is not well-formed, or has the parameter twice.
 */
static int find_param(const char *s, const char *name, struct buf *out)
{
	bool found = false;

	s += strcspn(s, ";");
	while (*s == ';') {
		const char *key = skip_space(s + 1);
		size_t n = strcspn(key, "=; \t\"");
		bool ours = n == strlen(name) && strncasecmp(key, name, n) == 0;
		AUTO(buf_done) struct buf value = { 0 };

		if (n == 0 && key[0] == '\0')
			break; /* a ';' at the end */
		if (n == 0 || key[n] != '=' || (ours && found))
			return -EINVAL;
		s = key + n + 1;
		if (*s == '"') {
			s = take_quoted(s + 1, &value);
			if (!s)
				return -EINVAL;
		} else {
			n = strcspn(s, "; \t\"");
			buf_add(&value, s, n);
			s += n;
		}
		if (ours)
			buf_add(out, buf_data(&value), buf_len(&value));
		found |= ours;
		s = skip_space(s);
	}
	return *s && *s != ';' ? -EINVAL : found;
}

static bool is_value(const char *s, const char *word)
{
	size_t n = strlen(word);

	return strncasecmp(s, word, n) == 0 && strspn(s + n, "; \t") > 0;
}

int multipart_init(struct multipart *m, const char *type, struct err *e)
{
	AUTO(buf_done) struct buf boundary = { 0 };
	size_t n;

	if (!is_value(type, "multipart/form-data") ||
	    find_param(type, "boundary", &boundary) != 1)
		return err_set(e, EINVAL,
			       "Content-Type is no multipart/form-data with a "
			       "boundary");
	n = buf_len(&boundary);
	if (n == 0 || n > MULTIPART_BOUNDARY_MAX)
		return err_set(e, EINVAL, "a boundary has 1 to %d bytes",
			       MULTIPART_BOUNDARY_MAX);
	m->mark_n = (size_t)snprintf(m->mark, sizeof(m->mark), "\r\n--%s",
				     buf_str(&boundary));
	return 0;
}

void multipart_done(struct multipart *m)
{
	buf_done(&m->name);
	buf_done(&m->filename);
	buf_done(&m->in);
}

void multipart_feed(struct multipart *m, const void *p, size_t n)
{
	if (m->state != ST_END && m->state != ST_BAD)
		buf_add(&m->in, p, n);
}

/* --- the head of a part --- */

/* As browsers write what would end a line or the name itself. */
static void decode_name(struct buf *b)
{
	static const struct {
		char code[4], byte;
	} table[] = { { "%22", '"' }, { "%0D", '\r' }, { "%0A", '\n' } };
	AUTO(buf_done) struct buf raw = *b;
	const char *s = buf_str(&raw);
	size_t i;

	*b = (struct buf){ 0 };
	while (*s) {
		for (i = 0; i < ARRAY_LEN(table); i++)
			if (strncasecmp(s, table[i].code, 3) == 0)
				break;
		buf_add(b, i < ARRAY_LEN(table) ? &table[i].byte : s, 1);
		s += i < ARRAY_LEN(table) ? 3 : 1;
	}
	buf_str(b);
}

static const char *take_disposition(struct multipart *m, const char *value)
{
	int r;

	if (!is_value(value, "form-data") ||
	    find_param(value, "name", &m->name) != 1)
		return "a part has no name";
	r = find_param(value, "filename", &m->filename);
	if (r < 0)
		return "a file name is not well-formed";
	m->has_filename = r == 1;
	decode_name(&m->name);
	decode_name(&m->filename);
	return NULL;
}

static bool is_plain(const char *coding)
{
	return strcasecmp(coding, "binary") == 0 ||
	       strcasecmp(coding, "8bit") == 0 ||
	       strcasecmp(coding, "7bit") == 0;
}

/* What is wrong with the line, or NULL. */
static const char *take_line(struct multipart *m, char *line, bool *named)
{
	char *colon = strchr(line, ':');
	const char *value;
	size_t i;

	for (i = 0; line[i]; i++)
		if ((unsigned char)line[i] < 0x20 && line[i] != '\t')
			return "a control byte in the head of a part";
	if (!colon)
		return "a line without a colon in the head of a part";
	*colon = '\0';
	value = skip_space(colon + 1);
	if (strcasecmp(line, "content-transfer-encoding") == 0)
		return is_plain(value) ? NULL : "a part is encoded once more";
	if (strcasecmp(line, "content-disposition") != 0)
		return NULL;
	if (*named)
		return "a part has two names";
	*named = true;
	return take_disposition(m, value);
}

/* `head` is all lines, each with its CRLF, NUL behind them. */
static const char *take_head(struct multipart *m, char *head, size_t n)
{
	const char *why = NULL;
	bool named = false;
	char *end;

	if (memchr(head, '\0', n))
		return "a NUL in the head of a part";
	buf_clear(&m->name);
	buf_clear(&m->filename);
	m->has_filename = false;
	for (; *head && !why; head = end + 2) {
		end = strstr(head, "\r\n");
		*end = '\0';
		why = take_line(m, head, &named);
	}
	return why ? why : named ? NULL : "a part has no name";
}

/* --- states --- */

static int on_first(struct multipart *m, struct err *e)
{
	const char *mark = m->mark + 2;
	size_t n = m->mark_n - 2, have = buf_len(&m->in);

	if (memcmp(buf_data(&m->in), mark, have < n ? have : n) != 0)
		return bad(m, e, "it does not start with its boundary");
	if (have < n)
		return MULTIPART_MORE;
	buf_eat(&m->in, n);
	m->state = ST_BEHIND;
	return multipart_next(m, e);
}

static int on_behind(struct multipart *m, struct err *e)
{
	const char *p = buf_data(&m->in);

	if (buf_len(&m->in) < 2)
		return MULTIPART_MORE;
	if (memcmp(p, "--", 2) == 0) {
		m->state = ST_END;
		buf_done(&m->in);
		return MULTIPART_END;
	}
	if (memcmp(p, "\r\n", 2) != 0)
		return bad(m, e, "something stands behind a boundary");
	/* The CRLF stays: the end of an empty head is found like any other. */
	m->state = ST_HEAD;
	return multipart_next(m, e);
}

static int on_head(struct multipart *m, struct err *e)
{
	char *p = buf_data(&m->in);
	char *end = memmem(p, buf_len(&m->in), "\r\n\r\n", 4);
	const char *why;
	size_t n;

	if ((end ? (size_t)(end - p) : buf_len(&m->in)) > MULTIPART_HEAD_MAX)
		return bad(m, e, "the head of a part is too long");
	if (!end)
		return MULTIPART_MORE;
	n = (size_t)(end + 2 - p);
	end[2] = '\0';
	why = n < 4 ? "a part has no head" : take_head(m, p + 2, n - 2);
	if (why)
		return bad(m, e, why);
	buf_eat(&m->in, n + 2);
	m->state = ST_DATA;
	return MULTIPART_PART;
}

static int on_data(struct multipart *m)
{
	const char *p = buf_data(&m->in);
	size_t have = buf_len(&m->in);
	const char *mark = memmem(p, have, m->mark, m->mark_n);

	if (mark == p && have > 0) {
		buf_eat(&m->in, m->mark_n);
		m->state = ST_BEHIND;
		return MULTIPART_PART_END;
	}
	if (mark)
		have = (size_t)(mark - p);
	else if (have >= m->mark_n)
		have -= m->mark_n - 1; /* it may have begun */
	else
		return MULTIPART_MORE;
	m->data = p;
	m->n = have;
	return MULTIPART_DATA;
}

int multipart_next(struct multipart *m, struct err *e)
{
	switch (m->state) {
	case ST_FIRST:
		return on_first(m, e);
	case ST_BEHIND:
		return on_behind(m, e);
	case ST_HEAD:
		return on_head(m, e);
	case ST_DATA:
		return on_data(m);
	case ST_END:
		return MULTIPART_END;
	default:
		return bad(m, e, "it was not before");
	}
}

void multipart_eat(struct multipart *m, size_t n)
{
	buf_eat(&m->in, n);
}
