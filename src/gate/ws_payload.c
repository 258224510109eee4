#include "gate/ws_payload.h"

#include <stdbool.h>
#include <string.h>

/* Of a head whose first two bytes are known. */
static unsigned head_size(const struct ws_payload *w)
{
	unsigned length = w->head[1] & 0x7f;

	return 2 +
	       (length == 126   ? 2
		: length == 127 ? 8
				: 0) +
	       (w->head[1] & 0x80 ? 4 : 0);
}

static void begin_payload(struct ws_payload *w)
{
	unsigned length = w->head[1] & 0x7f, i;
	unsigned wide = length == 126 ? 2 : length == 127 ? 8 : 0;

	w->left = wide ? 0 : length;
	for (i = 0; i < wide; i++)
		w->left = w->left << 8 | w->head[2 + i];
	memset(w->key, 0, sizeof(w->key));
	if (w->head[1] & 0x80)
		memcpy(w->key, w->head + 2 + wide, sizeof(w->key));
	w->head_n = w->key_at = 0;
}

/* Is there a payload to read? Eats bytes of a head until then. */
static bool in_payload(struct ws_payload *w, const char **p, size_t *n)
{
	while (w->left == 0 && *n > 0) {
		w->head[w->head_n++] = (uint8_t)**p;
		(*p)++;
		(*n)--;
		if (w->head_n >= 2 && w->head_n == head_size(w))
			begin_payload(w);
	}
	return *n > 0;
}

void ws_payload_add(struct ws_payload *w, const char *p, size_t n,
		    struct buf *out)
{
	while (in_payload(w, &p, &n)) {
		size_t take = n < w->left ? n : (size_t)w->left, i;
		char *to = buf_room(out, take);

		for (i = 0; i < take; i++)
			to[i] = (char)(p[i] ^ w->key[w->key_at++ % 4]);
		buf_fill(out, take);
		w->left -= take;
		p += take;
		n -= take;
	}
}
