#include "gate/usage.h"

#include <string.h>
#include <strings.h>

enum { TOKENS_MAX = 1 << 30 }; /* nobody has said a larger one in earnest */

/* --- names that matter --- */

enum name {
	NAME_OTHER,
	NAME_MODEL,
	NAME_MAX_TOKENS,
	NAME_CHOICES,
	NAME_STREAM,
	NAME_STREAM_OPTIONS,
	NAME_INCLUDE_USAGE,
	NAME_USAGE,
	NAME_MESSAGE, /* has a usage in it: a first one, or the last */
	NAME_RESPONSE,
	NAME_IN,
	NAME_OUT,
	NAME_CACHED,
	NAME_BACKGROUND,
};

static const struct {
	const char *text;
	enum name name;
} names[] = {
	{ "model", NAME_MODEL },
	{ "max_tokens", NAME_MAX_TOKENS },
	{ "max_completion_tokens", NAME_MAX_TOKENS },
	{ "max_output_tokens", NAME_MAX_TOKENS },
	{ "n", NAME_CHOICES },
	{ "stream", NAME_STREAM },
	{ "stream_options", NAME_STREAM_OPTIONS },
	{ "include_usage", NAME_INCLUDE_USAGE },
	{ "usage", NAME_USAGE },
	{ "message", NAME_MESSAGE },
	{ "response", NAME_RESPONSE },
	{ "prompt_tokens", NAME_IN },
	{ "input_tokens", NAME_IN },
	{ "completion_tokens", NAME_OUT },
	{ "output_tokens", NAME_OUT },
	{ "cache_creation_input_tokens", NAME_CACHED },
	{ "cache_read_input_tokens", NAME_CACHED },
	{ "background", NAME_BACKGROUND },
};

static enum name name_of(const char *s)
{
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (strcasecmp(s, names[i].text) == 0)
			return names[i].name;
	return NAME_OTHER;
}

/* --- values at their places --- */

/* Are these the names down to the value, and no list between them? */
static bool is_at(const struct json_reader *j, unsigned depth, enum name a,
		  enum name b, enum name c)
{
	return j->depth == depth && j->arrays == 0 && j->names[0] == a &&
	       (depth < 2 || j->names[1] == b) &&
	       (depth < 3 || j->names[2] == c);
}

static void keep_most(uint64_t *out, const struct json_reader *j)
{
	uint64_t n = 0;
	unsigned i;

	for (i = 0; i < j->n && j->word[i] >= '0' && j->word[i] <= '9' &&
		    n < TOKENS_MAX;
	     i++)
		n = n * 10 + (uint64_t)(j->word[i] - '0');
	/* "1e9", and numbers that do not end: as much as there can be. */
	if (n >= TOKENS_MAX ||
	    (i > 0 && i < j->n && (j->word[i] == 'e' || j->word[i] == 'E')))
		n = TOKENS_MAX;
	if (n > *out)
		*out = n;
}

static void keep_model(struct usage *u, const struct json_reader *j)
{
	u->torn |= *u->model && strcmp(u->model, j->word) != 0;
	if (u->torn)
		memset(u->model, 0, sizeof(u->model));
	else
		memcpy(u->model, j->word, sizeof(u->model));
}

static void asked(struct usage *u, const struct json_reader *j)
{
	if (is_at(j, 2, NAME_STREAM_OPTIONS, NAME_INCLUDE_USAGE, 0))
		u->include_usage |= !j->text && strcmp(j->word, "true") == 0;
	if (j->depth != 1 || j->arrays != 0)
		return;
	if (j->names[0] == NAME_MODEL && j->text)
		keep_model(u, j);
	else if (j->names[0] == NAME_MAX_TOKENS && !j->text)
		keep_most(&u->max_tokens, j);
	else if (j->names[0] == NAME_CHOICES && !j->text)
		keep_most(&u->choices, j);
	else if (j->names[0] == NAME_STREAM && !j->text)
		u->stream |= strcmp(j->word, "true") == 0;
	else if (j->names[0] == NAME_BACKGROUND && !j->text)
		u->background |= strcmp(j->word, "true") == 0;
}

/* usage.X, message.usage.X, response.usage.X */
static bool in_usage(const struct json_reader *j, enum name x)
{
	return is_at(j, 2, NAME_USAGE, x, 0) ||
	       is_at(j, 3, NAME_MESSAGE, NAME_USAGE, x) ||
	       is_at(j, 3, NAME_RESPONSE, NAME_USAGE, x);
}

/* model, message.model, response.model */
static bool is_model(const struct json_reader *j)
{
	return is_at(j, 1, NAME_MODEL, 0, 0) ||
	       is_at(j, 2, NAME_MESSAGE, NAME_MODEL, 0) ||
	       is_at(j, 2, NAME_RESPONSE, NAME_MODEL, 0);
}

static void answered(struct usage *u, const struct json_reader *j)
{
	if (j->text && is_model(j))
		memcpy(u->model, j->word, sizeof(u->model));
	if (j->text || j->n == 0 || j->word[0] < '0' || j->word[0] > '9') {
		u->wrong |= in_usage(j, NAME_IN) || in_usage(j, NAME_OUT);
		return;
	}
	if (in_usage(j, NAME_IN))
		keep_most(&u->tokens_in, j);
	else if (in_usage(j, NAME_OUT))
		keep_most(&u->tokens_out, j);
	else if (in_usage(j, NAME_CACHED))
		keep_most(&u->tokens_cached, j);
	else
		return;
	u->counted = true;
	u->final |= j->names[0] != NAME_MESSAGE;
}

typedef void value_fn(struct usage *u, const struct json_reader *j);

/* --- bytes --- */

enum { BETWEEN, STRING, ESCAPE, UNICODE, SCALAR };

static void word_begin(struct json_reader *j)
{
	j->n = 0;
	j->cut = false;
	j->word[0] = '\0';
}

/* One that is too long is nobody's name. */
static void word_add(struct json_reader *j, char ch)
{
	if (j->n + 1 >= sizeof(j->word) || ch == '\0') {
		j->cut = true;
		return;
	}
	j->word[j->n++] = ch;
	j->word[j->n] = '\0';
}

static void word_end(struct json_reader *j, struct usage *u, value_fn *fn,
		     bool text)
{
	j->text = text;
	j->state = BETWEEN;
	/* Behind it a colon makes it a name; what it was is kept till then. */
	j->key = text;
	if (j->depth > 0 && j->depth <= USAGE_DEPTH && !j->cut)
		fn(u, j);
}

static void named(struct json_reader *j)
{
	if (j->key && j->depth > 0 && j->depth <= USAGE_DEPTH)
		j->names[j->depth - 1] = j->cut ? NAME_OTHER : name_of(j->word);
	j->key = false;
}

static void open_level(struct json_reader *j, bool array)
{
	j->key = false;
	if (j->depth < USAGE_DEPTH) {
		j->names[j->depth] = NAME_OTHER;
		if (array)
			j->arrays |= 1U << j->depth;
	}
	if (j->depth < 1U << 30)
		j->depth++;
}

static void close_level(struct json_reader *j)
{
	j->key = false;
	if (j->depth == 0)
		return;
	j->depth--;
	if (j->depth < USAGE_DEPTH)
		j->arrays &= ~(1U << j->depth);
}

/* The next member has its own name: what stood in front is not it. */
static void next_member(struct json_reader *j)
{
	j->key = false;
	if (j->depth > 0 && j->depth <= USAGE_DEPTH)
		j->names[j->depth - 1] = NAME_OTHER;
}

static void between(struct json_reader *j, char ch)
{
	switch (ch) {
	case '{':
	case '[':
		open_level(j, ch == '[');
		break;
	case '}':
	case ']':
		close_level(j);
		break;
	case ':':
		named(j);
		break;
	case ',':
		next_member(j);
		break;
	case '"':
		word_begin(j);
		j->state = STRING;
		break;
	case ' ':
	case '\t':
	case '\r':
	case '\n':
		break;
	default:
		word_begin(j);
		word_add(j, ch);
		j->state = SCALAR;
	}
}

static void escaped(struct json_reader *j, char ch)
{
	static const char from[] = "bfnrt", to[] = "\b\f\n\r\t";
	const char *at = ch ? strchr(from, ch) : NULL;

	j->state = STRING;
	if (ch == 'u') {
		j->state = UNICODE;
		j->hex = 0;
		j->left = 4;
		return;
	}
	word_add(j, at ? to[at - from] : ch);
}

static void unicode(struct json_reader *j, char ch)
{
	unsigned v = ch >= '0' && ch <= '9'   ? (unsigned)(ch - '0')
		     : ch >= 'a' && ch <= 'f' ? (unsigned)(ch - 'a') + 10
		     : ch >= 'A' && ch <= 'F' ? (unsigned)(ch - 'A') + 10
					      : 0;

	j->hex = j->hex << 4 | v;
	if (--j->left > 0)
		return;
	j->state = STRING;
	/* Names that matter have no other letters. */
	word_add(j, j->hex < 0x80 ? (char)j->hex : '?');
}

static bool ends_scalar(char ch)
{
	return strchr(",}] \t\r\n:[{\"", ch) != NULL && ch != '\0';
}

static void read_json(struct json_reader *j, struct usage *u, value_fn *fn,
		      char ch)
{
	switch (j->state) {
	case STRING:
		if (ch == '"')
			word_end(j, u, fn, true);
		else if (ch == '\\')
			j->state = ESCAPE;
		else
			word_add(j, ch);
		break;
	case ESCAPE:
		escaped(j, ch);
		break;
	case UNICODE:
		unicode(j, ch);
		break;
	case SCALAR:
		if (ends_scalar(ch)) {
			word_end(j, u, fn, false);
			between(j, ch);
		} else {
			word_add(j, ch);
		}
		break;
	default:
		between(j, ch);
	}
}

void usage_request(struct usage_reader *r, const void *p, size_t n)
{
	const char *s = p;
	size_t i;

	for (i = 0; i < n; i++)
		read_json(&r->json, &r->found, asked, s[i]);
}

/* --- streams of events --- */

static const char data_field[] = "data:";

enum { LINE_DATA = sizeof(data_field) - 1, LINE_OTHER, LINE_DOCUMENT };

static void end_piece(struct usage_reader *r)
{
	/* A number at its very end. */
	read_json(&r->json, &r->found, answered, ' ');
	r->json = (struct json_reader){ 0 };
	r->found.pieces++;
}

static void read_event(struct usage_reader *r, char ch)
{
	if (ch == '\n' || ch == '\r') {
		if (r->line == LINE_DATA)
			end_piece(r);
		r->line = 0;
	} else if (r->line == LINE_DATA) {
		read_json(&r->json, &r->found, answered, ch);
	} else if (r->line < LINE_DATA) {
		r->line = ch == data_field[r->line]
				  ? (unsigned char)(r->line + 1)
				  : LINE_OTHER;
	}
}

void usage_answer(struct usage_reader *r, const void *p, size_t n)
{
	const char *s = p;
	size_t i;

	for (i = 0; i < n; i++) {
		if (!r->begun) {
			if (strchr(" \t\r\n", s[i]) && s[i] != '\0')
				continue;
			r->begun = true;
			if (s[i] == '{' || s[i] == '[') {
				r->line = LINE_DOCUMENT;
				r->found.pieces = 1;
			}
		}
		if (r->line == LINE_DOCUMENT)
			read_json(&r->json, &r->found, answered, s[i]);
		else
			read_event(r, s[i]);
	}
}
