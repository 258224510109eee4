#include "gate/within.h"

#include <errno.h>
#include <string.h>

#include "base/str.h"
#include "wire/pack.h"

static size_t size_of(const char *s)
{
	return s ? strlen(s) : 0;
}

size_t within_size(const struct within_msg *m)
{
	return 64 + size_of(m->name) + size_of(m->one) + size_of(m->two) +
	       m->n_bytes;
}

void within_put(struct buf *b, const struct within_msg *m)
{
	pack_u8(b, (uint8_t)m->op);
	pack_str(b, m->name ? m->name : "");
	pack_str(b, m->one ? m->one : "");
	pack_str(b, m->two ? m->two : "");
	if (m->n_bytes > 0)
		buf_add(b, m->bytes, m->n_bytes);
}

static bool name_fits(enum within_op op, const char *name)
{
	switch (op) {
	case WITHIN_DOOR:
		return *name == '\0' || name_valid(name);
	case WITHIN_KEYS:
		return name_valid(name);
	case WITHIN_KEPT:
	case WITHIN_STATE:
	case WITHIN_DROP:
		return id_valid(name);
	case WITHIN_CONN:
	case WITHIN_RESOLV:
		return *name == '\0';
	case WITHIN_OPS:
		break;
	}
	return false;
}

int within_get(const void *p, size_t n, struct within_msg *m)
{
	struct unpack u = unpack_init(p, n);

	*m = (struct within_msg){ .op = unpack_u8(&u) };
	m->name = unpack_str(&u);
	m->one = unpack_str(&u);
	m->two = unpack_str(&u);
	m->bytes = unpack_rest(&u, &m->n_bytes);
	return unpack_ok(&u) && name_fits(m->op, m->name) ? 0 : -EBADMSG;
}
