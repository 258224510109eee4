/*
 * How a log is taken up again. The last entry that is whole says where it
 * goes on. Behind it may be
 *
 *	nothing			the usual case
 *	bytes without a newline	a writer was killed, or the power went: cut off
 *	whole lines		somebody else wrote them: evidence, left alone
 *
 * and entries may be missing that a signed head on disk speaks of. In the last
 * two cases the log goes on in a new file, behind all numbers ever seen, and
 * `--verify` finds the place.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audit/segment.h"
#include "base/auto.h"
#include "base/fd.h"
#include "base/log.h"
#include "scribe/chain.h"

/* What one file has. */
struct tail {
	bool found; /* an entry; `pos` is it */
	struct chain_pos pos;
	uint64_t end; /* of that entry */
	uint64_t size;
	bool strangers; /* whole lines behind it */
	bool loose;     /* it is not signed */
};

static void set_pos(struct chain_pos *p, const struct entry *e)
{
	p->seq = e->seq;
	memcpy(p->hash, e->hash.p, HASH_HEX);
	p->hash[HASH_HEX] = '\0';
}

/* What only the scribe may say counts when it has signed it. */
static void learn(struct chain *c, const char *line, const struct entry *e)
{
	writers_learn(&c->writers, e);
	if (writers_are_told(e) && entry_signed_by(line, e, c->key.public))
		writers_hear(&c->writers, e);
}

static int read_tail(struct chain *c, int fd, struct tail *t, struct err *e)
{
	struct line_reader lines;
	struct stat st;
	struct span s = { 0 };
	int r;

	*t = (struct tail){ 0 };
	if (fstat(fd, &st) < 0)
		return err_sys(e, "stat");
	t->size = (uint64_t)st.st_size;
	lines_init(&lines, fd);
	while ((r = lines_next(&lines, &s)) > 0) {
		struct entry entry;
		const char *why;

		t->strangers = entry_parse(s.p, s.n, &entry, &why) < 0 ||
			       !entry_hash_ok(s.p, &entry);
		if (t->strangers)
			continue;
		t->found = true;
		t->end = lines.at;
		t->loose = entry.signature.p == NULL;
		set_pos(&t->pos, &entry);
		learn(c, s.p, &entry);
	}
	lines_done(&lines);
	/* Longer than a line without an end: not ours, or a hole of zeros. */
	if (r == -EBADMSG)
		r = 0;
	return r < 0 ? err_set(e, -r, "read: %s", strerror(-r)) : 0;
}

static int cut(struct chain *c, const struct tail *t, struct err *e)
{
	unsigned long long bytes = t->size - t->end;
	char data[64];

	/* Also without a cut: the last writer may have died before its sync. */
	if (ftruncate(c->fd, (off_t)t->end) < 0 || fsync(c->fd) < 0)
		return err_sys(e, "cut off half an entry");
	if (bytes == 0)
		return 0;
	log_warn("the log ended in half an entry, %llu bytes were cut off",
		 bytes);
	snprintf(data, sizeof(data), "\"bytes\":%llu", bytes);
	chain_say(c, "log.cut", data);
	return 0;
}

/* 1 when the file has an entry; goes on in it when it is the last, and ours. */
static int take_up(struct chain *c, uint64_t first, bool last, struct err *e)
{
	AUTO_CLOSE int fd = segment_open(c->dir_fd, first, O_RDWR);
	char name[SEGMENT_NAME];
	struct tail t;

	segment_name(first, name);
	if (fd < 0)
		return err_set(e, -fd, "open %s: %s", name, strerror(-fd));
	if (read_tail(c, fd, &t, e) < 0)
		return err_wrap(e, "%s", name);
	if (t.found)
		c->now = c->written = c->synced = t.pos;
	if (!t.found && !t.strangers) /* its first entry was never whole */
		return unlinkat(c->dir_fd, name, 0) < 0
			       ? err_sys(e, "remove %s", name)
			       : 0;
	if (t.strangers) {
		log_err("%s ends in lines that are not entries, going on in a "
			"new file",
			name);
		snprintf(c->note, sizeof(c->note), "\"damaged\":\"%s\"", name);
	}
	if (t.strangers || !last)
		return t.found;
	c->fd = take_fd(&fd);
	c->segment = first;
	c->size = t.end;
	c->loose = t.loose;
	return cut(c, &t, e) < 0 ? -e->code : 1;
}

static int find_end(struct chain *c, uint64_t *newest, struct err *e)
{
	AUTO(segments_done) struct segments s = { 0 };
	bool last = true;
	size_t i;
	int r;

	if (segments_list(c->dir_fd, &s, e) < 0)
		return -e->code;
	for (i = s.n; i-- > 0;) {
		r = take_up(c, s.first[i], last, e);
		if (r < 0)
			return r;
		if (*c->note) /* a file of strangers is still there */
			last = false;
		if ((r > 0 || *c->note) && s.first[i] > *newest)
			*newest = s.first[i];
		if (r > 0)
			return 0;
	}
	return 0;
}

/*
 * A file is named after its first entry. One with a later name than the last
 * entry is not as we have left it, and in the way of those to come.
 */
static void go_behind(struct chain *c, uint64_t newest)
{
	char name[SEGMENT_NAME];

	if (c->fd >= 0) {
		segment_name(newest, name);
		log_err("%s ends in entries from before it, going on in a new "
			"file",
			name);
		snprintf(c->note, sizeof(c->note), "\"damaged\":\"%s\"", name);
	}
	c->now.seq = newest;
	c->written = c->synced = c->now;
	buf_clear(&c->out);
	auto_close(&c->fd);
}

/* Entries that were signed and on disk, and are gone. */
static void check_head(struct chain *c)
{
	char line[ENTRY_LINE_MAX];
	struct entry head;
	const char *why;
	ssize_t n = read_file_at(c->dir_fd, "head", line, sizeof(line));

	if (n <= 0)
		return;
	line[strcspn(line, "\n")] = '\0';
	if (entry_parse(line, strlen(line), &head, &why) < 0 ||
	    !entry_hash_ok(line, &head) ||
	    !entry_signed_by(line, &head, c->key.public)) {
		log_err("the file 'head' of the log is damaged, ignoring it");
		return;
	}
	if (head.seq <= c->now.seq)
		return;
	log_err("the log ends at entry %llu, but %llu was signed: the end is "
		"missing, going on behind it in a new file",
		(unsigned long long)c->now.seq, (unsigned long long)head.seq);
	snprintf(c->note, sizeof(c->note), "\"missing\":%llu",
		 (unsigned long long)(head.seq - c->now.seq));
	set_pos(&c->now, &head);
	learn(c, line, &head);
	c->written = c->synced = c->now;
	buf_clear(&c->out);
	auto_close(&c->fd);
}

int chain_open(struct chain *c, int dir_fd, uint64_t segment_bytes,
	       struct err *e)
{
	uint64_t newest = 0;

	*c = (struct chain){ .dir_fd = dir_fd,
			     .fd = -1,
			     .segment_bytes = segment_bytes };
	memset(c->now.hash, '0', HASH_HEX);
	c->written = c->synced = c->now;
	writers_init(&c->writers);
	if (sign_load(dir_fd, &c->key, e) < 0)
		return err_wrap(e, "the log's key");
	if (find_end(c, &newest, e) < 0)
		return err_wrap(e, "the log");
	check_head(c);
	if (newest > c->now.seq)
		go_behind(c, newest);
	return 0;
}
