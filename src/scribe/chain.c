#include "scribe/chain.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "audit/segment.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"

/* Closes the line that was begun at `from` of `out`, and moves on. */
static void finish_line(struct chain *c, size_t from)
{
	hash_closed(buf_data(&c->out) + from, buf_len(&c->out) - from,
		    c->now.hash);
	buf_printf(&c->out, ",\"hash\":\"%s\"}\n", c->now.hash);
}

static void say(struct chain *c, const char *type, const char *data)
{
	static struct buf body;
	char stamp[CLOCK_STAMP], sig[SIGNATURE_HEX + 1];
	size_t from = buf_len(&c->out);
	struct entry_from own;

	clock_stamp(clock_wall_ms(), stamp);
	buf_clear(&body);
	buf_printf(&body,
		   "{\"time\":\"%s\",\"type\":\"%s\",\"sandbox\":null,"
		   "\"project\":null,\"who\":null,\"request\":null,"
		   "\"data\":{%s%s\"key\":\"%s\"}}",
		   stamp, type, data, *data ? "," : "", c->key.public);
	own = (struct entry_from){ .body = buf_data(&body),
				   .n = buf_len(&body),
				   .spool = writers_api(&c->writers)->now };
	c->now.seq++;
	entry_begin(&c->out, c->now.seq, &own, c->now.hash);
	sign_closed(&c->key, buf_data(&c->out) + from, buf_len(&c->out) - from,
		    sig);
	buf_printf(&c->out, ",\"signature\":\"%s\"", sig);
	finish_line(c, from);
	buf_clear(&c->head);
	buf_add(&c->head, buf_data(&c->out) + from, buf_len(&c->out) - from);
	c->head_due = true;
	c->loose = 0;
}

void chain_start(struct chain *c)
{
	struct buf list = { 0 };
	unsigned at = 0;

	if (c->fd >= 0 || buf_len(&c->out) > 0)
		return;
	c->segment = c->now.seq + 1;
	say(c, "log.start", c->note);
	while (writers_list(&c->writers, &at, &list)) {
		say(c, "log.writers", buf_str(&list));
		buf_clear(&list);
	}
	buf_done(&list);
}

void chain_say(struct chain *c, const char *type, const char *data)
{
	chain_start(c);
	say(c, type, data);
}

void chain_add(struct chain *c, struct writer *w, const char *body, size_t n,
	       uint64_t number)
{
	bool api = w == writers_api(&c->writers);
	const struct entry_from it = { .body = body,
				       .n = n,
				       .source = api ? NULL : w->name,
				       .spool = number };
	size_t from;

	chain_start(c);
	from = buf_len(&c->out);
	c->now.seq++;
	w->now = number;
	w->seq = c->now.seq;
	entry_begin(&c->out, c->now.seq, &it, c->now.hash);
	finish_line(c, from);
	if (++c->loose >= CHAIN_SIGN_EACH)
		say(c, "log.head", "");
}

void chain_sign(struct chain *c)
{
	if (c->loose > 0)
		chain_say(c, "log.head", "");
}

static int make_segment(struct chain *c, struct err *e)
{
	int fd = segment_open(c->dir_fd, c->segment,
			      O_WRONLY | O_CREAT | O_EXCL);

	if (fd < 0)
		return err_set(e, -fd, "create a file of the log: %s",
			       strerror(-fd));
	if (fsync(c->dir_fd) < 0) {
		err_sys(e, "sync the log's directory");
		close(fd);
		return -e->code;
	}
	c->fd = fd;
	c->size = 0;
	c->note[0] = '\0';
	return 0;
}

/* As if nothing had been added since the last write. */
static void forget(struct chain *c)
{
	char name[SEGMENT_NAME];

	buf_clear(&c->out);
	c->now = c->written;
	writers_forget(&c->writers);
	c->loose = CHAIN_SIGN_EACH; /* we do not know: sign soon */
	c->head_due = false;
	if (c->fd < 0)
		return;
	if (c->size == 0) {
		segment_name(c->segment, name);
		unlinkat(c->dir_fd, name, 0);
		close(take_fd(&c->fd));
	} else if (ftruncate(c->fd, (off_t)c->size) < 0) {
		log_err("cut a half-written entry: %s, starting over",
			strerror(errno));
		close(take_fd(&c->fd));
	}
}

static int write_all(struct chain *c, struct err *e)
{
	size_t n = buf_len(&c->out), at = 0;

	while (at < n) {
		ssize_t r = pwrite(c->fd, buf_data(&c->out) + at, n - at,
				   (off_t)(c->size + at));

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return err_sys(e, "write the log");
		at += (size_t)r;
	}
	c->size += n;
	return 0;
}

int chain_write(struct chain *c, struct err *e)
{
	if (buf_len(&c->out) == 0)
		return 0;
	if ((c->fd < 0 && make_segment(c, e) < 0) || write_all(c, e) < 0) {
		forget(c);
		return -e->code;
	}
	buf_clear(&c->out);
	c->written = c->now;
	writers_written(&c->writers);
	return 0;
}

static int write_head(struct chain *c, struct err *e)
{
	AUTO_CLOSE int fd = openat(
		c->dir_fd, "head.new",
		O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0640);
	int r;

	if (fd < 0)
		return err_sys(e, "create head.new");
	r = write_full(fd, buf_data(&c->head), buf_len(&c->head));
	if (r < 0)
		return err_set(e, -r, "write head.new: %s", strerror(-r));
	if (fsync(fd) < 0 ||
	    renameat(c->dir_fd, "head.new", c->dir_fd, "head") < 0)
		return err_sys(e, "write head");
	c->head_due = false;
	return 0;
}

int chain_sync(struct chain *c, struct err *e)
{
	struct err head = { 0 };

	if (c->fd >= 0 && c->synced.seq != c->written.seq &&
	    fdatasync(c->fd) < 0) {
		c->broken = true;
		return err_sys(e, "sync the log");
	}
	c->synced = c->written;
	writers_synced(&c->writers);
	/* A full disk must not stop us here: the next sync tries again. */
	if (c->head_due && buf_len(&c->out) == 0 && write_head(c, &head) < 0)
		log_err("%s, trying again", head.msg);
	if (c->fd >= 0 && chain_is_full(c))
		close(take_fd(&c->fd));
	return 0;
}

void chain_done(struct chain *c)
{
	if (c->fd >= 0)
		close(take_fd(&c->fd));
	buf_done(&c->out);
	buf_done(&c->head);
	sodium_memzero(&c->key, sizeof(c->key));
}
