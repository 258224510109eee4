#include "api/clip.h"

#include <string.h>

#include "api/json_text.h"

void clip_add(struct clip *c, const char *p, size_t n)
{
	size_t room = c->half - buf_len(&c->head);
	size_t first = n < room ? n : room;

	c->total += n;
	buf_add(&c->head, p, first);
	p += first;
	n -= first;
	/* Cut only now and then: each cut moves what stays. */
	if (n >= c->half) {
		p += n - c->half;
		n = c->half;
		buf_clear(&c->tail);
	} else if (buf_len(&c->tail) + n > 2 * c->half) {
		buf_eat(&c->tail, buf_len(&c->tail) - c->half);
	}
	buf_add(&c->tail, p, n);
}

void clip_add_still(struct clip *c, const char *p, size_t n)
{
	size_t keep;

	if (buf_len(&c->tail) == 0) { /* the head is its own first and last */
		c->half = buf_len(&c->head) / 2;
		buf_add(&c->tail, buf_data(&c->head) + c->half,
			buf_len(&c->head) - c->half);
		c->head.len = c->head.off + c->half;
	}
	keep = buf_len(&c->tail);
	c->total += n;
	if (n > keep) {
		p += n - keep;
		n = keep;
	}
	buf_eat(&c->tail, n);
	buf_add(&c->tail, p, n);
}

void clip_close(struct clip *c)
{
	size_t n = buf_len(&c->tail);

	if (n > c->half)
		buf_eat(&c->tail, n - c->half);
	c->dropped = c->total - buf_len(&c->head) - buf_len(&c->tail);
	if (c->dropped > 0) {
		size_t whole =
			utf8_whole(buf_data(&c->head), buf_len(&c->head));
		size_t rest = utf8_rest(buf_data(&c->tail), buf_len(&c->tail));

		c->dropped += buf_len(&c->head) - whole + rest;
		c->head.len = c->head.off + whole;
		buf_eat(&c->tail, rest);
		buf_printf(&c->head, "\n... %llu bytes left out ...\n",
			   (unsigned long long)c->dropped);
	}
	buf_add(&c->head, buf_data(&c->tail), buf_len(&c->tail));
	buf_done(&c->tail);
}

void clip_done(struct clip *c)
{
	buf_done(&c->head);
	buf_done(&c->tail);
}

void clip_last_line(const struct clip *c, char *out, size_t cap)
{
	const struct buf *b = buf_len(&c->tail) ? &c->tail : &c->head;
	const char *p = buf_data(b);
	size_t n = buf_len(b), at, len;

	while (n > 0 && strchr("\r\n \t", p[n - 1]))
		n--;
	for (at = n; at > 0 && p[at - 1] != '\n' && p[at - 1] != '\r';)
		at--;
	len = n - at < cap - 1 ? n - at : cap - 1;
	len = utf8_whole(p + at, len);
	memcpy(out, p + at, len);
	out[len] = '\0';
}
