/* The messages of gate.h, as a table of what each kind consists of. */
#include "wire/gate.h"

#include <errno.h>
#include <string.h>

#include "base/auto.h"
#include "wire/pack.h"

enum field {
	END,
	DOOR, /* a project, or "" */
	PROJECT,
	ID,
	NAME,
	TEXT,
	NUMBER,
	SHOWN,
	ALLOW,
	BOX,     /* account, flags, fds, ask_ms, parts, uses */
	REQUEST, /* of a GATE_ASK */
	COUNT,
	BYTES, /* always the last */
};

enum { FIELDS_MAX = 5 };

static const uint8_t layout[GATE_KINDS][FIELDS_MAX] = {
	[GATE_HELLO] = { DOOR },
	[GATE_PROJECT] = { PROJECT },
	[GATE_SECRET] = { NUMBER, PROJECT, BYTES },
	[GATE_SECRET_GONE] = { PROJECT, NAME },
	[GATE_BOX] = { ID, PROJECT, NAME, BOX },
	[GATE_GONE] = { ID },
	[GATE_ANSWER] = { NUMBER, ALLOW },
	[GATE_CODE] = { NUMBER, PROJECT, NAME },
	[GATE_HAVE] = { ID },
	[GATE_READY] = { END },
	[GATE_KEYS] = { PROJECT, TEXT, BYTES },
	[GATE_ASK] = { NUMBER, ID, SHOWN, REQUEST },
	[GATE_ASK_GONE] = { NUMBER },
	[GATE_PAUSE] = { ID, TEXT },
	[GATE_USE] = { ID, COUNT },
	[GATE_SEALED] = { NUMBER, PROJECT, NAME, BYTES },
	[GATE_CODED] = { NUMBER, NAME, TEXT },
	[GATE_SYNC] = { NUMBER },
	[GATE_SYNCED] = { NUMBER },
	[GATE_MOVED] = { ID },
	[GATE_SHOWN] = { NUMBER, SHOWN },
	[GATE_KEPT] = { ID },
	[GATE_SELF] = { ID, TEXT, BYTES },
	[GATE_HOOK] = { TEXT },
};

static void put_box(struct buf *b, const struct gate_msg *m)
{
	unsigned i;

	pack_str(b, m->account);
	pack_u32(b, m->flags);
	pack_u32(b, m->fds);
	pack_u64(b, m->ask_ms);
	pack_u32(b, m->n_parts);
	for (i = 0; i < m->n_parts; i++) {
		pack_str(b, m->parts[i].name);
		pack_str(b, m->parts[i].text);
	}
	pack_u32(b, m->n_uses);
	for (i = 0; i < m->n_uses; i++) {
		pack_str(b, m->uses[i].name);
		pack_str(b, m->uses[i].placeholder);
		pack_u8(b, m->uses[i].canary);
	}
}

static void get_box(struct unpack *u, struct gate_msg *m)
{
	size_t text = 0;
	unsigned i;

	m->account = unpack_str(u);
	u->bad |= !id_valid(m->account);
	m->flags = unpack_u32(u);
	m->fds = unpack_u32(u);
	m->ask_ms = unpack_u64(u);
	m->n_parts = unpack_u32(u);
	if (m->fds & ~(uint32_t)GATE_FDS_ALL || m->n_parts > GATE_PARTS_MAX) {
		u->bad = true;
		return;
	}
	for (i = 0; i < m->n_parts; i++) {
		m->parts[i].name = unpack_str(u);
		m->parts[i].text = unpack_str(u);
		text += strlen(m->parts[i].text);
		if (strlen(m->parts[i].name) >= GATE_PART_CAP)
			u->bad = true;
	}
	m->n_uses = unpack_u32(u);
	if (text > GATE_TEXT_MAX || m->n_uses > GATE_USES_MAX) {
		u->bad = true;
		return;
	}
	for (i = 0; i < m->n_uses; i++) {
		m->uses[i].name = unpack_str(u);
		m->uses[i].placeholder = unpack_str(u);
		m->uses[i].canary = unpack_u8(u);
		if (strlen(m->uses[i].name) >= NAME_CAP ||
		    strlen(m->uses[i].placeholder) >= GATE_PLACEHOLDER_CAP)
			u->bad = true;
	}
}

static void put_request(struct buf *b, const struct gate_msg *m)
{
	pack_str(b, m->method);
	pack_str(b, m->scheme);
	pack_str(b, m->host);
	pack_str(b, m->path);
	pack_str(b, m->part);
	pack_str(b, m->rule);
	pack_u32(b, m->port);
	pack_u32(b, m->line);
}

static void get_request(struct unpack *u, struct gate_msg *m)
{
	m->method = unpack_str(u);
	m->scheme = unpack_str(u);
	m->host = unpack_str(u);
	m->path = unpack_str(u);
	m->part = unpack_str(u);
	m->rule = unpack_str(u);
	m->port = unpack_u32(u);
	m->line = unpack_u32(u);
	if (m->port > UINT16_MAX)
		u->bad = true;
}

/* The numbers of a struct gate_count, in order. */
static uint64_t *count_at(struct gate_count *c, size_t i)
{
	uint64_t *const at[] = { &c->requests,   &c->denied,    &c->up_bytes,
				 &c->down_bytes, &c->tokens_in, &c->tokens_out,
				 &c->cost_micro };

	return i < ARRAY_LEN(at) ? at[i] : NULL;
}

static void put_field(struct buf *b, enum field f, const struct gate_msg *m)
{
	struct gate_count c = m->count;
	size_t i;

	switch (f) {
	case END:
		break;
	case DOOR:
		pack_str(b, m->door);
		break;
	case PROJECT:
		pack_str(b, m->project);
		break;
	case ID:
		pack_str(b, m->id);
		break;
	case NAME:
		pack_str(b, m->name);
		break;
	case TEXT:
		pack_str(b, m->text);
		break;
	case NUMBER:
		pack_u64(b, m->number);
		break;
	case SHOWN:
		pack_u64(b, m->shown);
		break;
	case ALLOW:
		pack_u8(b, m->allow);
		break;
	case BOX:
		put_box(b, m);
		break;
	case REQUEST:
		put_request(b, m);
		break;
	case COUNT:
		for (i = 0; count_at(&c, i); i++)
			pack_u64(b, *count_at(&c, i));
		break;
	case BYTES:
		buf_add(b, m->bytes, m->n_bytes);
		break;
	}
}

static const char *get_name(struct unpack *u, bool empty)
{
	const char *s = unpack_str(u);

	if (!(empty && *s == '\0') && !name_valid(s))
		u->bad = true;
	return s;
}

static void get_field(struct unpack *u, enum field f, struct gate_msg *m)
{
	size_t i;

	switch (f) {
	case END:
		break;
	case DOOR:
		m->door = get_name(u, true);
		break;
	case PROJECT:
		m->project = get_name(u, false);
		break;
	case ID:
		m->id = unpack_str(u);
		u->bad |= !id_valid(m->id);
		break;
	case NAME:
		m->name = get_name(u, true);
		break;
	case TEXT:
		m->text = unpack_str(u);
		break;
	case NUMBER:
		m->number = unpack_u64(u);
		break;
	case SHOWN:
		m->shown = unpack_u64(u);
		break;
	case ALLOW:
		m->allow = unpack_u8(u);
		break;
	case BOX:
		get_box(u, m);
		break;
	case REQUEST:
		get_request(u, m);
		break;
	case COUNT:
		for (i = 0; count_at(&m->count, i); i++)
			*count_at(&m->count, i) = unpack_u64(u);
		break;
	case BYTES:
		m->bytes = unpack_rest(u, &m->n_bytes);
		break;
	}
}

void gate_msg_put(struct buf *b, const struct gate_msg *m)
{
	size_t i;

	pack_u16(b, GATE_VERSION);
	pack_u16(b, (uint16_t)m->kind);
	for (i = 0; i < FIELDS_MAX; i++)
		put_field(b, layout[m->kind][i], m);
}

int gate_msg_get(const void *p, size_t n, struct gate_msg *m)
{
	struct unpack u = unpack_init(p, n);
	size_t i;

	*m = (struct gate_msg){ .door = "",
				.project = "",
				.id = "",
				.name = "",
				.text = "",
				.account = "",
				.method = "",
				.scheme = "",
				.host = "",
				.path = "",
				.part = "",
				.rule = "" };
	if (n > GATE_MSG_MAX || unpack_u16(&u) != GATE_VERSION)
		return -EBADMSG;
	m->kind = unpack_u16(&u);
	if (m->kind < GATE_HELLO || m->kind >= GATE_KINDS)
		return -EBADMSG;
	for (i = 0; i < FIELDS_MAX; i++)
		get_field(&u, layout[m->kind][i], m);
	return unpack_ok(&u) ? 0 : -EBADMSG;
}
