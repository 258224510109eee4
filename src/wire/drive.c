#include "wire/drive.h"

#include <assert.h>
#include <errno.h>

#include "wire/pack.h"

static const char *text(const char *s)
{
	return s ? s : "";
}

void drive_record_put(struct buf *b, const struct drive_record *r)
{
	size_t at = record_begin(b, (uint8_t)r->kind), n;

	switch (r->kind) {
	case DRIVE_REQUEST:
		pack_u8(b, (uint8_t)r->op);
		pack_u8(b, r->conditional);
		pack_u64(b, r->version);
		pack_str(b, text(r->path));
		pack_str(b, text(r->after));
		break;
	case DRIVE_DATA:
		buf_add(b, r->data, r->n);
		break;
	case DRIVE_FILE:
		pack_u64(b, r->version);
		pack_u64(b, r->size);
		pack_str(b, text(r->sha256));
		pack_str(b, text(r->path));
		break;
	case DRIVE_ERROR:
		pack_u32(b, r->code);
		pack_str(b, text(r->message));
		break;
	case DRIVE_DONE:
		pack_u8(b, r->more);
		break;
	case DRIVE_END:
	case DRIVE_GONE:
	case DRIVE_KINDS:
		break;
	}
	n = record_end(b, at);
	assert(n <= DRIVE_RECORD_MAX);
}

static const char *take_text(struct unpack *u)
{
	const char *s = unpack_str(u);

	if (strlen(s) > DRIVE_TEXT_MAX)
		u->bad = true;
	return s;
}

static bool take_bool(struct unpack *u)
{
	uint8_t v = unpack_u8(u);

	if (v > 1)
		u->bad = true;
	return v;
}

static void take_fields(struct unpack *u, struct drive_record *r)
{
	switch (r->kind) {
	case DRIVE_REQUEST:
		r->op = unpack_u8(u);
		if (r->op < DRIVE_PUT || r->op >= DRIVE_OPS)
			u->bad = true;
		r->conditional = take_bool(u);
		r->version = unpack_u64(u);
		r->path = take_text(u);
		r->after = take_text(u);
		break;
	case DRIVE_DATA:
		r->data = unpack_rest(u, &r->n);
		if (r->n == 0)
			u->bad = true;
		break;
	case DRIVE_FILE:
		r->version = unpack_u64(u);
		r->size = unpack_u64(u);
		r->sha256 = take_text(u);
		r->path = take_text(u);
		break;
	case DRIVE_ERROR:
		r->code = unpack_u32(u);
		r->message = take_text(u);
		break;
	case DRIVE_DONE:
		r->more = take_bool(u);
		break;
	case DRIVE_END:
	case DRIVE_GONE:
		break;
	case DRIVE_KINDS:
		u->bad = true;
	}
}

int drive_record_get(const struct buf *b, struct drive_record *r)
{
	struct unpack u;
	uint8_t kind;
	int n = record_next(b, DRIVE_RECORD_MAX, &u, &kind);

	*r = (struct drive_record){
		.path = "", .after = "", .sha256 = "", .message = ""
	};
	if (n <= 0)
		return n;
	r->kind = kind;
	if (r->kind < DRIVE_REQUEST || r->kind >= DRIVE_KINDS)
		return -EBADMSG;
	take_fields(&u, r);
	return unpack_ok(&u) ? n : -EBADMSG;
}
