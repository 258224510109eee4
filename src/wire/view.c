#include "wire/view.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/auto.h"
#include "base/str.h"
#include "wire/pack.h"

enum { ERRNO_MAX = 4095 };

bool view_path_ok(const char *path)
{
	const char *p = path;

	if (strcmp(path, "/") == 0)
		return true;
	while (*p == '/') {
		size_t n = strcspn(++p, "/");

		if (n == 0 || (n == 1 && p[0] == '.') ||
		    (n == 2 && p[0] == '.' && p[1] == '.'))
			return false;
		p += n;
	}
	return p != path && *p == '\0' && p - path <= FILE_PATH_MAX;
}

static void put_side(struct buf *b, const struct file_entry *n)
{
	pack_u8(b, (uint8_t)n->type);
	if (n->type == FILE_NONE)
		return;
	pack_u32(b, n->mode);
	pack_u32(b, n->uid);
	pack_u32(b, n->gid);
	pack_u64(b, n->size);
	pack_u64(b, (uint64_t)n->mtime_ms);
	pack_str(b, n->target);
}

static bool get_side(struct unpack *u, const char *path, struct file_entry *n)
{
	uint8_t type = unpack_u8(u);

	if (type >= FILE_TYPES)
		return false;
	*n = (struct file_entry){ .type = type,
				  .path = path,
				  .target = "",
				  .user = "",
				  .group = "" };
	if (type == FILE_NONE)
		return true;
	n->mode = unpack_u32(u);
	n->uid = unpack_u32(u);
	n->gid = unpack_u32(u);
	n->size = unpack_u64(u);
	n->mtime_ms = (int64_t)unpack_u64(u);
	n->target = unpack_str(u);
	return n->mode <= FILE_MODE_MAX && n->size <= INT64_MAX &&
	       strlen(n->target) <= FILE_PATH_MAX;
}

static bool get_sides(struct unpack *u, struct file_entry *first,
		      struct file_entry *second)
{
	const char *path = unpack_str(u);

	return view_path_ok(path) && get_side(u, path, first) &&
	       get_side(u, path, second);
}

static void put_change(struct buf *b, const struct view_record *r)
{
	pack_u8(b, (uint8_t)r->change.what);
	pack_str(b, r->change.before.path);
	put_side(b, &r->change.before);
	put_side(b, &r->change.after);
}

static bool get_change(struct unpack *u, struct view_record *r)
{
	const struct file_entry *was = &r->change.before;
	const struct file_entry *is = &r->change.after;

	r->change.what = unpack_u8(u);
	if (r->change.what == 0 || r->change.what > WHAT_ALL ||
	    !get_sides(u, &r->change.before, &r->change.after))
		return false;
	/* Of two different types nothing else is compared. */
	return was->type == is->type
		       ? was->type != FILE_NONE && !(r->change.what & WHAT_TYPE)
		       : r->change.what == WHAT_TYPE;
}

static void put_step(struct buf *b, const struct view_record *r)
{
	pack_u8(b, (uint8_t)r->step.step);
	pack_str(b, r->step.theirs.path);
	put_side(b, &r->step.theirs);
	put_side(b, &r->step.ours);
}

static bool get_step(struct unpack *u, struct view_record *r)
{
	uint8_t step = unpack_u8(u);

	r->step.step = step;
	return step < MERGE_STEPS &&
	       get_sides(u, &r->step.theirs, &r->step.ours);
}

static void put_data(struct buf *b, const struct view_record *r)
{
	assert(r->data.n > 0 && r->data.n <= VIEW_DATA_MAX);
	buf_add(b, r->data.p, r->data.n);
}

static bool get_data(struct unpack *u, struct view_record *r)
{
	r->data.p = unpack_rest(u, &r->data.n);
	return r->data.n > 0 && r->data.n <= VIEW_DATA_MAX;
}

static void put_progress(struct buf *b, const struct view_record *r)
{
	pack_u64(b, r->progress.entries);
	pack_u64(b, r->progress.bytes);
}

static bool get_progress(struct unpack *u, struct view_record *r)
{
	r->progress.entries = unpack_u64(u);
	r->progress.bytes = unpack_u64(u);
	return r->progress.entries <= INT64_MAX &&
	       r->progress.bytes <= INT64_MAX;
}

static void put_space(struct buf *b, const struct view_record *r)
{
	pack_u64(b, r->space.bytes);
	pack_u64(b, r->space.shared);
	pack_u64(b, r->space.entries);
}

static bool get_space(struct unpack *u, struct view_record *r)
{
	r->space.bytes = unpack_u64(u);
	r->space.shared = unpack_u64(u);
	r->space.entries = unpack_u64(u);
	return r->space.bytes <= INT64_MAX &&
	       r->space.shared <= r->space.bytes &&
	       r->space.entries <= INT64_MAX;
}

static void put_done(struct buf *b, const struct view_record *r)
{
	(void)b;
	(void)r;
}

static bool get_done(struct unpack *u, struct view_record *r)
{
	(void)u;
	(void)r;
	return true;
}

static void put_error(struct buf *b, const struct view_record *r)
{
	pack_u32(b, (uint32_t)r->err.code);
	pack_str(b, r->err.msg);
}

/* Names in a message are the sandbox's: no control byte reaches a terminal. */
static bool get_error(struct unpack *u, struct view_record *r)
{
	uint32_t code = unpack_u32(u);
	const char *msg = unpack_str(u);
	char *s;

	if (code == 0 || code > ERRNO_MAX ||
	    str_copy(r->err.msg, sizeof(r->err.msg), msg) < 0)
		return false;
	r->err.code = (int)code;
	for (s = r->err.msg; *s; s++)
		if ((unsigned char)*s < ' ' || *s == 0x7f)
			*s = '?';
	return true;
}

static void put_sum(struct buf *b, const struct view_record *r)
{
	buf_add(b, r->sum, VIEW_SUM_LEN);
}

static bool get_sum(struct unpack *u, struct view_record *r)
{
	size_t n;

	r->sum = unpack_rest(u, &n);
	return n == VIEW_SUM_LEN;
}

static const struct {
	void (*put)(struct buf *b, const struct view_record *r);
	bool (*get)(struct unpack *u, struct view_record *r);
} kinds[] = {
	[VIEW_CHANGE] = { put_change, get_change },
	[VIEW_STEP] = { put_step, get_step },
	[VIEW_DATA] = { put_data, get_data },
	[VIEW_PROGRESS] = { put_progress, get_progress },
	[VIEW_SPACED] = { put_space, get_space },
	[VIEW_DONE] = { put_done, get_done },
	[VIEW_ERROR] = { put_error, get_error },
	[VIEW_SUM] = { put_sum, get_sum },
};
static_assert(ARRAY_LEN(kinds) == VIEW_KINDS, "every kind is read");

void view_record_put(struct buf *b, const struct view_record *r)
{
	size_t at = record_begin(b, (uint8_t)r->kind), n;

	kinds[r->kind].put(b, r);
	n = record_end(b, at);
	assert(n <= VIEW_RECORD_MAX);
}

int view_record_get(const struct buf *b, struct view_record *r)
{
	struct unpack u;
	uint8_t kind;
	int n = record_next(b, VIEW_RECORD_MAX, &u, &kind);

	if (n <= 0)
		return n;
	if (kind >= VIEW_KINDS || !kinds[kind].get)
		return -EBADMSG;
	r->kind = kind;
	if (!kinds[kind].get(&u, r) || !unpack_ok(&u))
		return -EBADMSG;
	return n;
}

void view_ask_put(struct buf *b, unsigned flags, const char *const *paths,
		  size_t n)
{
	size_t i;

	pack_u32(b, VIEW_MAGIC);
	pack_u32(b, flags);
	pack_u32(b, (uint32_t)n);
	for (i = 0; i < n; i++)
		pack_str(b, paths[i]);
}

int view_ask_get(const void *p, size_t n, struct view_ask *a)
{
	struct unpack u = unpack_init(p, n);
	uint32_t magic = unpack_u32(&u), count;

	a->flags = unpack_u32(&u);
	count = unpack_u32(&u);
	if (magic != VIEW_MAGIC || (a->flags & ~(unsigned)VIEW_FLAGS_ALL) ||
	    count > VIEW_PATHS_MAX || n > VIEW_ASK_MAX)
		return -EBADMSG;
	for (a->n = 0; a->n < count; a->n++) {
		a->paths[a->n] = unpack_str(&u);
		if (!view_path_ok(a->paths[a->n]))
			return -EBADMSG;
	}
	return unpack_ok(&u) ? 0 : -EBADMSG;
}
