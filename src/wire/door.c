#include "wire/door.h"

#include <errno.h>
#include <string.h>

static const struct {
	uint16_t least, most;
} lens[DOOR_KINDS] = {
	[DOOR_OPEN] = { sizeof(struct door_addr), sizeof(struct door_addr) },
	[DOOR_OPENED] = { 0, 0 },
	[DOOR_DATA] = { 1, DOOR_DATA_MAX },
	[DOOR_END] = { 0, 0 },
	[DOOR_RESET] = { sizeof(struct door_code), sizeof(struct door_code) },
	[DOOR_ROOM] = { sizeof(uint32_t), sizeof(uint32_t) },
	[DOOR_GRAM] = { 1, sizeof(struct door_addr) + DOOR_GRAM_MAX },
	[DOOR_MAKE] = { sizeof(uint32_t), sizeof(uint32_t) },
	[DOOR_MADE] = { sizeof(struct door_code), sizeof(struct door_code) },
};

/* Its first byte is no kind of message. */
static const uint8_t mark[12] = "\xd0\x0f.door.\x01\n\xff\xd0";

void door_put(struct buf *out, uint32_t word, const struct door_msg *m)
{
	const struct door_head h = { .kind = (uint8_t)m->kind,
				     .len = (uint16_t)m->len,
				     .id = m->id };

	buf_add(out, &h, sizeof(h));
	buf_add(out, m->body, m->len);
	buf_add(out, &word, sizeof(word));
}

int door_get(const struct buf *in, uint32_t word, struct door_msg *m)
{
	struct door_head h;
	uint32_t end;

	if (buf_len(in) < sizeof(h))
		return 0;
	memcpy(&h, buf_data(in), sizeof(h));
	if (h.kind == 0 || h.kind >= DOOR_KINDS || h.zero != 0 ||
	    h.len < lens[h.kind].least || h.len > lens[h.kind].most)
		return -EBADMSG;
	*m = (struct door_msg){ .kind = h.kind,
				.id = h.id,
				.body = buf_data(in) + sizeof(h),
				.len = h.len,
				.whole = sizeof(h) + h.len + sizeof(end) };
	if (buf_len(in) < m->whole)
		return 0;
	memcpy(&end, m->body + m->len, sizeof(end));
	return end == word ? 1 : -EBADMSG;
}

void door_sync_put(struct buf *out, enum door_step step,
		   const uint8_t ours[DOOR_NUMBER],
		   const uint8_t theirs[DOOR_NUMBER])
{
	struct door_sync s = { .step = step };

	memcpy(s.mark, mark, sizeof(mark));
	memcpy(s.ours, ours, DOOR_NUMBER);
	memcpy(s.theirs, theirs, DOOR_NUMBER);
	buf_add(out, &s, sizeof(s));
}

void door_fill(struct buf *out)
{
	static const char nothing[sizeof(struct door_head) + DOOR_DATA_MAX +
				  sizeof(uint32_t)];

	buf_add(out, nothing, sizeof(nothing));
}

bool door_sync_get(struct buf *in, struct door_sync *s)
{
	for (;;) {
		const char *p = buf_data(in);
		const char *at = memmem(p, buf_len(in), mark, sizeof(mark));

		if (!at) {
			/* Its beginning may be the end of what is here. */
			if (buf_len(in) >= sizeof(mark))
				buf_eat(in, buf_len(in) - sizeof(mark) + 1);
			return false;
		}
		buf_eat(in, (size_t)(at - p));
		if (buf_len(in) < sizeof(*s))
			return false;
		memcpy(s, buf_data(in), sizeof(*s));
		if (s->step >= DOOR_HELLO && s->step <= DOOR_BEGIN) {
			buf_eat(in, sizeof(*s));
			return true;
		}
		buf_eat(in, 1);
	}
}

int door_sync_here(const struct buf *in, struct door_sync *s)
{
	size_t n = buf_len(in) < sizeof(mark) ? buf_len(in) : sizeof(mark);

	if (memcmp(buf_data(in), mark, n) != 0)
		return -EBADMSG;
	if (buf_len(in) < sizeof(*s))
		return 0;
	memcpy(s, buf_data(in), sizeof(*s));
	return s->step >= DOOR_HELLO && s->step <= DOOR_BEGIN ? 1 : -EBADMSG;
}

uint32_t door_word(const uint8_t ours[DOOR_NUMBER],
		   const uint8_t theirs[DOOR_NUMBER])
{
	uint32_t a, b;

	memcpy(&a, ours, sizeof(a));
	memcpy(&b, theirs, sizeof(b));
	return a ^ b;
}
