#include "wire/ps.h"

#include <errno.h>
#include <string.h>

#include "wire/pack.h"

enum { LENGTH = 4 }; /* of a record, in front of it */
enum { HAS_PTY = 1, WAS_TOLD = 2, FLAGS_ALL = 3 };

static void put_proc(struct buf *b, const struct ps_proc *p)
{
	pack_u32(b, p->number);
	pack_u32(b, p->pid);
	pack_u8(b, (uint8_t)p->state);
	pack_u8(b, (p->pty ? HAS_PTY : 0) | (p->told ? WAS_TOLD : 0));
	pack_str(b, p->user);
	pack_str(b, p->tag);
	pack_u64(b, p->started_ms);
	pack_u64(b, p->out[0]);
	pack_u64(b, p->out[1]);
	pack_u8(b, p->exit.signaled);
	pack_u32(b, p->exit.code);
	pack_u64(b, p->exit.user_us);
	pack_u64(b, p->exit.sys_us);
	pack_u64(b, p->exit.max_rss_bytes);
}

static bool get_proc(struct unpack *u, struct ps_proc *p)
{
	uint8_t state, flags;

	p->number = unpack_u32(u);
	p->pid = unpack_u32(u);
	state = unpack_u8(u);
	flags = unpack_u8(u);
	p->user = unpack_str(u);
	p->tag = unpack_str(u);
	p->started_ms = unpack_u64(u);
	p->out[0] = unpack_u64(u);
	p->out[1] = unpack_u64(u);
	p->exit.signaled = unpack_u8(u);
	p->exit.code = unpack_u32(u);
	p->exit.user_us = unpack_u64(u);
	p->exit.sys_us = unpack_u64(u);
	p->exit.max_rss_bytes = unpack_u64(u);
	p->state = state;
	p->pty = flags & HAS_PTY;
	p->told = flags & WAS_TOLD;
	return p->number != 0 && state < PS_STATES && flags <= FLAGS_ALL &&
	       p->exit.signaled <= 1 && strlen(p->user) <= PS_USER_MAX &&
	       strlen(p->tag) <= TAG_MAX;
}

static void put_task(struct buf *b, const struct ps_task *t)
{
	pack_u32(b, t->pid);
	pack_u32(b, t->ppid);
	pack_u32(b, t->uid);
	pack_u8(b, (uint8_t)t->state);
	pack_u64(b, t->cpu_us);
	pack_u64(b, t->rss_bytes);
}

static bool get_task(struct unpack *u, struct ps_task *t)
{
	t->pid = unpack_u32(u);
	t->ppid = unpack_u32(u);
	t->uid = unpack_u32(u);
	t->state = (char)unpack_u8(u);
	t->cpu_us = unpack_u64(u);
	t->rss_bytes = unpack_u64(u);
	return t->state > ' ' && t->state < 0x7f;
}

void ps_put(struct buf *b, const struct ps *p)
{
	struct buf r = { 0 };
	bool long_one = p->args_len > PS_ARGS_MAX;
	size_t n = long_one ? PS_ARGS_MAX : p->args_len;

	pack_u8(&r, (uint8_t)p->kind);
	if (p->kind == PS_PROC)
		put_proc(&r, &p->proc);
	else
		put_task(&r, &p->task);
	pack_u8(&r, p->cut || long_one);
	buf_add(&r, p->args, n);
	/* The last word of a list that was cut ends here. */
	if (n > 0 && p->args[n - 1] != '\0')
		buf_add(&r, "", 1);
	pack_u32(b, (uint32_t)buf_len(&r));
	buf_add(b, buf_data(&r), buf_len(&r));
	buf_done(&r);
}

int ps_get(const struct buf *b, struct ps *p)
{
	struct unpack u = unpack_init(buf_data(b), buf_len(b));
	uint32_t n;
	uint8_t cut;
	bool ok;

	if (u.left < LENGTH)
		return 0;
	n = unpack_u32(&u);
	if (n > PS_RECORD_MAX)
		return -EBADMSG;
	if (u.left < n)
		return 0;
	u.left = n;
	*p = (struct ps){ .kind = unpack_u8(&u) };
	if (p->kind == PS_PROC)
		ok = get_proc(&u, &p->proc);
	else
		ok = p->kind == PS_TASK && get_task(&u, &p->task);
	cut = unpack_u8(&u);
	p->cut = cut == 1;
	p->args = unpack_rest(&u, &p->args_len);
	if (!ok || !unpack_ok(&u) || cut > 1 || p->args_len > PS_ARGS_MAX + 1 ||
	    (p->args_len > 0 && p->args[p->args_len - 1] != '\0'))
		return -EBADMSG;
	return (int)(LENGTH + n);
}

const char *ps_arg(const struct ps *p, size_t *at)
{
	const char *word = p->args + *at;

	if (*at >= p->args_len)
		return NULL;
	*at += strlen(word) + 1;
	return word;
}
