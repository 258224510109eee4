#include "http/wsframe.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include "http/target.h"

enum {
	FIN = 0x80,
	RESERVED = 0x70,
	OP = 0x0f,
	CONTROL = 0x08,
	MASKED = 0x80,
	LENGTH = 0x7f,
	LENGTH_16 = 126,
	LENGTH_64 = 127,
	MASK_LEN = 4
};

void ws_decoder_done(struct ws_decoder *d)
{
	buf_done(&d->message);
}

static bool is_control(const struct ws_decoder *d)
{
	return d->head[0] & CONTROL;
}

/* The first two bytes have come. */
static int check_start(const struct ws_decoder *d)
{
	unsigned op = d->head[0] & OP, length = d->head[1] & LENGTH;
	bool fin = d->head[0] & FIN;

	if ((d->head[0] & RESERVED) || !(d->head[1] & MASKED))
		return -WS_PROTOCOL_ERROR;
	switch (op) {
	case WS_CONTINUE:
		return d->message_op ? 0 : -WS_PROTOCOL_ERROR;
	case WS_TEXT:
	case WS_BINARY:
		return d->message_op ? -WS_PROTOCOL_ERROR : 0;
	case WS_CLOSE:
	case WS_PING:
	case WS_PONG:
		return fin && length <= WS_CONTROL_MAX ? 0 : -WS_PROTOCOL_ERROR;
	default:
		return -WS_PROTOCOL_ERROR;
	}
}

/* How long the head is, as far as its first two bytes say it. */
static unsigned head_len(const struct ws_decoder *d)
{
	unsigned length;

	if (d->head_n < 2)
		return 2;
	length = d->head[1] & LENGTH;
	return 2 + MASK_LEN +
	       (length == LENGTH_16   ? 2
		: length == LENGTH_64 ? 8
				      : 0);
}

/* The head is complete: how long is the payload? */
static int start_payload(struct ws_decoder *d)
{
	unsigned i, n = head_len(d) - 2 - MASK_LEN;
	uint64_t length = n ? 0 : d->head[1] & LENGTH;

	for (i = 0; i < n; i++)
		length = length << 8 | d->head[2 + i];
	if ((n == 2 && length < LENGTH_16) || (n == 8 && length <= 0xffff) ||
	    length > INT64_MAX)
		return -WS_PROTOCOL_ERROR;
	if (!is_control(d)) {
		if (length > d->max - buf_len(&d->message))
			return -WS_TOO_LARGE;
		if ((d->head[0] & OP) != WS_CONTINUE)
			d->message_op = d->head[0] & OP;
	}
	d->left = length;
	d->mask_at = 0;
	d->in_payload = true;
	return 1;
}

/* 1 when the head is complete, 0 when bytes are missing. */
static int take_head(struct ws_decoder *d, const char *p, size_t n, size_t *at)
{
	int r;

	while (*at < n) {
		d->head[d->head_n++] = (uint8_t)p[(*at)++];
		if (d->head_n == 2) {
			r = check_start(d);
			if (r < 0)
				return r;
		}
		if (d->head_n == head_len(d))
			return start_payload(d);
	}
	return 0;
}

static void unmask(struct ws_decoder *d, char *out, const char *p, size_t n)
{
	const uint8_t *mask = d->head + d->head_n - MASK_LEN;
	size_t i;

	for (i = 0; i < n; i++)
		out[i] = (char)(p[i] ^ mask[(d->mask_at + i) % MASK_LEN]);
	d->mask_at = (unsigned)((d->mask_at + n) % MASK_LEN);
}

static void take_payload(struct ws_decoder *d, const char *p, size_t n,
			 size_t *at)
{
	n = n - *at < d->left ? n - *at : (size_t)d->left;
	if (n == 0)
		return;
	if (is_control(d)) {
		unmask(d, d->control + d->control_n, p + *at, n);
		d->control_n += n;
	} else {
		unmask(d, buf_room(&d->message, n), p + *at, n);
		buf_fill(&d->message, n);
	}
	d->left -= n;
	*at += n;
}

static bool close_ok(const char *p, size_t n)
{
	unsigned code = ws_close_code(p, n);

	if (n == 0)
		return true;
	if (n == 1 || !http_is_utf8(p + 2, n - 2))
		return false;
	return (code >= 1000 && code <= 1014 && code != 1004 &&
		code != WS_NO_CODE && code != WS_LOST) ||
	       (code >= 3000 && code <= 4999);
}

/* What a complete frame means: 0 when it is only a part. */
static int end_frame(struct ws_decoder *d, char **data, size_t *data_n)
{
	unsigned op = d->head[0] & OP;

	d->in_payload = false;
	d->head_n = 0;
	if (is_control(d)) {
		d->control[d->control_n] = '\0';
		*data = d->control;
		*data_n = d->control_n;
		d->control_n = 0;
		if (op == WS_CLOSE && !close_ok(*data, *data_n))
			return -WS_PROTOCOL_ERROR;
		return (int)op;
	}
	if (!(d->head[0] & FIN))
		return 0;
	op = d->message_op;
	d->message_op = 0;
	d->given = true;
	*data = buf_str(&d->message);
	*data_n = buf_len(&d->message);
	if (op == WS_TEXT && !http_is_utf8(*data, *data_n))
		return -WS_BAD_TEXT;
	return (int)op;
}

int ws_decode(struct ws_decoder *d, const char *p, size_t n, size_t *used,
	      char **data, size_t *data_n)
{
	size_t at = 0;
	int r = 1;

	if (d->given)
		buf_clear(&d->message);
	d->given = false;
	do {
		if (!d->in_payload)
			r = take_head(d, p, n, &at);
		if (r <= 0)
			break;
		take_payload(d, p, n, &at);
		if (d->left > 0) {
			r = 0;
			break;
		}
		r = end_frame(d, data, data_n);
	} while (r == 0);
	*used = at;
	return r;
}

unsigned ws_close_code(const char *data, size_t n)
{
	if (n < 2)
		return WS_NO_CODE;
	return (unsigned)(uint8_t)data[0] << 8 | (uint8_t)data[1];
}

void ws_encode(struct buf *out, enum ws_op op, const void *p, size_t n)
{
	uint8_t head[10] = { (uint8_t)(FIN | op) };
	size_t i, len = n > 0xffff ? 8 : n > WS_CONTROL_MAX ? 2 : 0;

	assert(len == 0 || !(op & CONTROL));
	head[1] = (uint8_t)(len == 8 ? LENGTH_64 : len == 2 ? LENGTH_16 : n);
	for (i = 0; i < len; i++)
		head[2 + i] = (uint8_t)(n >> (8 * (len - 1 - i)));
	buf_add(out, head, 2 + len);
	buf_add(out, p, n);
}
