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
	struct buf body = { 0 };

	pack_u8(&body, (uint8_t)r->kind);
	switch (r->kind) {
	case DRIVE_REQUEST:
		pack_u8(&body, (uint8_t)r->op);
		pack_u8(&body, r->conditional);
		pack_u64(&body, r->version);
		pack_str(&body, text(r->path));
		pack_str(&body, text(r->after));
		break;
	case DRIVE_DATA:
		buf_add(&body, r->data, r->n);
		break;
	case DRIVE_FILE:
		pack_u64(&body, r->version);
		pack_u64(&body, r->size);
		pack_str(&body, text(r->sha256));
		pack_str(&body, text(r->path));
		break;
	case DRIVE_ERROR:
		pack_u32(&body, r->code);
		pack_str(&body, text(r->message));
		break;
	case DRIVE_DONE:
		pack_u8(&body, r->more);
		break;
	case DRIVE_END:
	case DRIVE_GONE:
	case DRIVE_KINDS:
		break;
	}
	assert(buf_len(&body) <= DRIVE_RECORD_MAX);
	pack_u32(b, (uint32_t)buf_len(&body));
	buf_add(b, buf_data(&body), buf_len(&body));
	buf_done(&body);
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
	struct unpack u = unpack_init(buf_data(b), buf_len(b));
	uint32_t n;

	*r = (struct drive_record){
		.path = "", .after = "", .sha256 = "", .message = ""
	};
	if (buf_len(b) < DRIVE_HEAD)
		return 0;
	n = unpack_u32(&u);
	if (n == 0 || n > DRIVE_RECORD_MAX)
		return -EBADMSG;
	if (u.left < n)
		return 0;
	u.left = n;
	r->kind = unpack_u8(&u);
	if (r->kind < DRIVE_REQUEST || r->kind >= DRIVE_KINDS)
		return -EBADMSG;
	take_fields(&u, r);
	return unpack_ok(&u) ? (int)(DRIVE_HEAD + n) : -EBADMSG;
}
