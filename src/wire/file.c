#include "wire/file.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/str.h"
#include "wire/pack.h"

enum {
	ERRNO_MAX = 4095,  /* the kernel's */
	NUMBER_DIGITS = 4, /* of it */
};

static const char *const types[] = {
	[FILE_REGULAR] = "file",       [FILE_DIRECTORY] = "directory",
	[FILE_SYMLINK] = "symlink",    [FILE_FIFO] = "fifo",
	[FILE_SOCKET] = "socket",      [FILE_CHAR] = "char_device",
	[FILE_BLOCK] = "block_device",
};
static_assert(ARRAY_LEN(types) == FILE_TYPES, "every type has a name");

static const char *const events[] = {
	[EVENT_READY] = "ready",       [EVENT_CREATE] = "create",
	[EVENT_WRITE] = "write",       [EVENT_REMOVE] = "remove",
	[EVENT_RENAME] = "rename",     [EVENT_CHMOD] = "chmod",
	[EVENT_OVERFLOW] = "overflow", [EVENT_UNWATCHED] = "unwatched",
};
static_assert(ARRAY_LEN(events) == FILE_EVENTS, "every event has a name");

const char *file_type_name(enum file_type t)
{
	return t < FILE_TYPES ? types[t] : NULL;
}

const char *file_event_name(enum file_event e)
{
	return e < FILE_EVENTS ? events[e] : NULL;
}

static void put_entry(struct buf *b, const struct file_record *r)
{
	const struct file_entry *n = &r->entry;

	pack_u8(b, (uint8_t)n->type);
	pack_u8(b, (uint8_t)n->target_type);
	pack_u8(b, n->unreadable);
	pack_u32(b, n->mode);
	pack_u32(b, n->uid);
	pack_u32(b, n->gid);
	pack_u64(b, n->size);
	pack_u64(b, (uint64_t)n->mtime_ms);
	pack_str(b, n->path);
	pack_str(b, n->target);
	pack_str(b, n->user);
	pack_str(b, n->group);
}

static bool get_path(struct unpack *u, const char **path)
{
	*path = unpack_str(u);
	return strlen(*path) <= FILE_PATH_MAX;
}

static bool get_name(struct unpack *u, const char **name)
{
	*name = unpack_str(u);
	return strlen(*name) <= FILE_NAME_MAX;
}

static bool get_type(struct unpack *u, enum file_type *t)
{
	uint8_t v = unpack_u8(u);

	*t = v < FILE_TYPES ? (enum file_type)v : FILE_NONE;
	return v < FILE_TYPES;
}

static bool get_bool(struct unpack *u, bool *out)
{
	uint8_t v = unpack_u8(u);

	*out = v == 1;
	return v <= 1;
}

static bool get_entry(struct unpack *u, struct file_record *r)
{
	struct file_entry *n = &r->entry;

	if (!get_type(u, &n->type) || !get_type(u, &n->target_type) ||
	    !get_bool(u, &n->unreadable))
		return false;
	n->mode = unpack_u32(u);
	n->uid = unpack_u32(u);
	n->gid = unpack_u32(u);
	n->size = unpack_u64(u);
	n->mtime_ms = (int64_t)unpack_u64(u);
	return n->type != FILE_NONE && n->mode <= FILE_MODE_MAX &&
	       n->size <= INT64_MAX && get_path(u, &n->path) &&
	       get_path(u, &n->target) && get_name(u, &n->user) &&
	       get_name(u, &n->group);
}

static void put_end(struct buf *b, const struct file_record *r)
{
	pack_u8(b, r->more);
}

static bool get_end(struct unpack *u, struct file_record *r)
{
	return get_bool(u, &r->more);
}

static void put_content(struct buf *b, const struct file_record *r)
{
	pack_u64(b, r->content.size);
	pack_u64(b, r->content.first);
	pack_u64(b, r->content.length);
}

static bool get_content(struct unpack *u, struct file_record *r)
{
	uint64_t size = r->content.size = unpack_u64(u);
	uint64_t first = r->content.first = unpack_u64(u);
	uint64_t length = r->content.length = unpack_u64(u);

	if (length == FILE_TO_END)
		return first == 0 && size == 0;
	return size <= INT64_MAX && first <= size && length <= size - first;
}

static void put_written(struct buf *b, const struct file_record *r)
{
	pack_u64(b, r->written.size);
	buf_add(b, r->written.sha, SHA256_LEN);
}

static bool get_written(struct unpack *u, struct file_record *r)
{
	size_t i;

	r->written.size = unpack_u64(u);
	for (i = 0; i < SHA256_LEN; i++)
		r->written.sha[i] = unpack_u8(u);
	return r->written.size <= INT64_MAX;
}

static void put_event(struct buf *b, const struct file_record *r)
{
	pack_u8(b, (uint8_t)r->event.what);
	pack_u8(b, (uint8_t)r->event.type);
	pack_str(b, r->event.path);
	pack_str(b, r->event.to);
}

static bool get_event(struct unpack *u, struct file_record *r)
{
	uint8_t what = unpack_u8(u);

	r->event.what = what;
	return what < FILE_EVENTS && get_type(u, &r->event.type) &&
	       get_path(u, &r->event.path) && get_path(u, &r->event.to);
}

static void put_note(struct buf *b, const struct file_record *r)
{
	pack_str(b, r->note);
}

static bool get_note(struct unpack *u, struct file_record *r)
{
	r->note = unpack_str(u);
	return strlen(r->note) <= FILE_ERROR_MAX;
}

static void put_unpacked(struct buf *b, const struct file_record *r)
{
	pack_u64(b, r->unpacked.entries);
	pack_u64(b, r->unpacked.bytes);
}

static bool get_unpacked(struct unpack *u, struct file_record *r)
{
	r->unpacked.entries = unpack_u64(u);
	r->unpacked.bytes = unpack_u64(u);
	return r->unpacked.entries <= INT64_MAX &&
	       r->unpacked.bytes <= INT64_MAX;
}

static void put_detail(struct buf *b, const struct file_record *r)
{
	const struct file_detail *d = &r->detail;
	uint32_t i;

	pack_u32(b, d->mode);
	pack_str(b, d->path);
	pack_u32(b, d->n_attrs);
	for (i = 0; i < d->n_attrs; i++) {
		pack_str(b, d->attr[i].name);
		pack_str(b, d->attr[i].value);
	}
}

static bool get_detail(struct unpack *u, struct file_record *r)
{
	struct file_detail *d = &r->detail;
	uint32_t i;

	d->mode = unpack_u32(u);
	if (d->mode > FILE_MODE_MAX || !get_path(u, &d->path))
		return false;
	d->n_attrs = unpack_u32(u);
	if (d->n_attrs > FILE_ATTRS_MAX)
		return false;
	for (i = 0; i < d->n_attrs; i++) {
		d->attr[i].name = unpack_str(u);
		d->attr[i].value = unpack_str(u);
		if (strlen(d->attr[i].name) > FILE_ATTR_NAME_MAX)
			return false;
	}
	return true;
}

static const struct {
	void (*put)(struct buf *b, const struct file_record *r);
	bool (*get)(struct unpack *u, struct file_record *r);
} kinds[] = {
	[FILE_ENTRY] = { put_entry, get_entry },
	[FILE_END] = { put_end, get_end },
	[FILE_CONTENT] = { put_content, get_content },
	[FILE_WRITTEN] = { put_written, get_written },
	[FILE_EVENT] = { put_event, get_event },
	[FILE_NOTE] = { put_note, get_note },
	[FILE_UNPACKED] = { put_unpacked, get_unpacked },
	[FILE_SO_FAR] = { put_unpacked, get_unpacked },
	[FILE_DETAIL] = { put_detail, get_detail },
};
static_assert(ARRAY_LEN(kinds) == FILE_KINDS, "every kind is read");

void file_record_put(struct buf *b, const struct file_record *r)
{
	size_t at = record_begin(b, (uint8_t)r->kind), n;

	kinds[r->kind].put(b, r);
	n = record_end(b, at);
	assert(n <= FILE_RECORD_MAX);
}

int file_record_get(const struct buf *b, struct file_record *r)
{
	struct unpack u;
	uint8_t kind;
	int n = record_next(b, FILE_RECORD_MAX, &u, &kind);

	if (n <= 0)
		return n;
	if (kind >= FILE_KINDS || !kinds[kind].get)
		return -EBADMSG;
	r->kind = kind;
	if (!kinds[kind].get(&u, r) || !unpack_ok(&u))
		return -EBADMSG;
	return n;
}

void file_error_put(struct buf *b, const struct err *e)
{
	const char *s;

	buf_printf(b, "%d ", e->code);
	for (s = e->msg; *s; s++)
		buf_add(b, (unsigned char)*s < 0x20 || *s == 0x7f ? "?" : s, 1);
	buf_puts(b, "\n");
}

/* Splits the line at its first space: 0 and the number, or -EINVAL. */
static int read_line(char *line, char **message, uint64_t *code)
{
	char *space = strchr(line, ' ');

	if (!space || space - line > NUMBER_DIGITS)
		return -EINVAL;
	*space = '\0';
	*message = space + 1;
	if (parse_u64(line, ERRNO_MAX, code) < 0 || *code == 0)
		return -EINVAL;
	return 0;
}

void file_error_get(const char *p, size_t n, struct err *e)
{
	char line[FILE_ERROR_MAX + 1], *message = line, *s;
	uint64_t code = EIO;
	size_t len = n < FILE_ERROR_MAX ? n : FILE_ERROR_MAX;

	memcpy(line, p, len);
	line[len] = '\0';
	line[strcspn(line, "\n")] = '\0';
	err_clear(e);
	if (read_line(line, &message, &code) < 0) {
		err_set(e, EIO, "file work failed without saying why");
		return;
	}
	for (s = message; *s; s++)
		if ((unsigned char)*s < 0x20 || *s == 0x7f)
			*s = '?';
	err_set(e, (int)code, "%s", message);
}
