#include "scribe/verify.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audit/segment.h"
#include "base/auto.h"
#include "base/fd.h"
#include "base/str.h"
#include "scribe/chain.h"
#include "scribe/sign.h"

enum {
	KEYS_MAX = 8,
	PROBLEMS_SHOWN = 20,
	TAIL_TRIES = 6, /* the log may be growing: half a line is no damage */
	TAIL_WAIT_MS = 50,
};

struct verify_keys {
	size_t n;
	char hex[KEYS_MAX][2 * crypto_sign_PUBLICKEYBYTES + 1];
};

struct verify {
	const struct verify_options *o;
	char file[SEGMENT_NAME];
	uint64_t line;
	bool begun;      /* `last` is an entry */
	unsigned unsure; /* lines behind it that are not entries */
	struct chain_pos last;
	struct writers writers; /* the numbers of their records */
	uint64_t first, sealed, pruned;
	uint64_t files, bytes;
	bool has_head, head_seen;
	struct entry head;
	unsigned problems;
};

static void problem(struct verify *v, const char *fmt, ...) PRINTF_LIKE(2, 3);
static void problem(struct verify *v, const char *fmt, ...)
{
	va_list ap;

	if (++v->problems > PROBLEMS_SHOWN)
		return;
	if (*v->file && v->line > 0)
		printf("%s line %llu: ", v->file, (unsigned long long)v->line);
	else if (*v->file)
		printf("%s: ", v->file);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
}

#define ULL(x) ((unsigned long long)(x))

/* Of the last record of the same writer. */
static uint64_t record_number(struct verify *v, const struct entry *e)
{
	const struct writer *w =
		e->source.p
			? writers_find(&v->writers, e->source.p, e->source.n)
			: writers_api(&v->writers);

	return w ? w->now : 0;
}

/* Is it behind the entry before? */
static void check_link(struct verify *v, const struct entry *e)
{
	uint64_t due = v->last.seq + 1, most = due + v->unsure;

	if (e->seq < due)
		problem(v,
			"entry %llu stands behind entry %llu: out of order, or "
			"twice",
			ULL(e->seq), ULL(v->last.seq));
	else if (e->seq > most)
		problem(v, "entries %llu to %llu are missing", ULL(due),
			ULL(e->seq - 1));
	else if (!v->unsure && memcmp(e->prev.p, v->last.hash, HASH_HEX) != 0)
		problem(v,
			"entry %llu was not written behind entry %llu as it is "
			"now",
			ULL(e->seq), ULL(v->last.seq));
	else if (record_number(v, e) > e->spool)
		problem(v, "entry %llu: the number of its record goes back",
			ULL(e->seq));
}

static void check_first(struct verify *v, const struct entry *e)
{
	size_t i;

	v->first = e->seq;
	if (e->seq != 1)
		return;
	for (i = 0; i < HASH_HEX; i++)
		if (e->prev.p[i] != '0') {
			problem(v, "entry 1 names an entry before it");
			return;
		}
}

/* A file's first entry, and only that, is log.start. */
static void check_place(struct verify *v, const struct entry *e, uint64_t name)
{
	bool start = span_is(e->type, "log.start");

	if (v->line == 1 && e->seq != name)
		problem(v, "entry %llu is the first, the name says %llu",
			ULL(e->seq), ULL(name));
	if (v->line == 1 && !start)
		problem(v, "entry %llu is the first and not log.start",
			ULL(e->seq));
	if (v->line > 1 && start)
		problem(v, "entry %llu: log.start inside a file", ULL(e->seq));
}

static void check_signature(struct verify *v, const char *line,
			    const struct entry *e)
{
	const struct verify_keys *k = v->o->known;
	bool own = span_starts(e->type, ENTRY_OWN_TYPES);
	size_t i;

	if (!own && e->signature.p)
		problem(v, "entry %llu: only the log's own are signed",
			ULL(e->seq));
	if (!own)
		return;
	for (i = 0; i < k->n; i++)
		if (entry_signed_by(line, e, k->hex[i])) {
			v->sealed = e->seq;
			return;
		}
	problem(v, "entry %llu (%.*s): not signed by the log's key",
		ULL(e->seq), (int)e->type.n, e->type.p);
}

static void note_prune(struct verify *v, const struct entry *e)
{
	static const char name[] = "{\"through\":";
	uint64_t through = 0;
	size_t i;

	if (!span_is(e->type, "log.prune") || !span_starts(e->data, name))
		return;
	for (i = sizeof(name) - 1; i < e->data.n && e->data.p[i] >= '0' &&
				   e->data.p[i] <= '9' && through < 1ULL << 53;
	     i++)
		through = through * 10 + (uint64_t)(e->data.p[i] - '0');
	if (through > v->pruned && v->sealed == e->seq)
		v->pruned = through;
}

static void check_entry(struct verify *v, const char *line,
			const struct entry *e, uint64_t name)
{
	if (!entry_hash_ok(line, e))
		problem(v, "entry %llu was changed: it has another hash",
			ULL(e->seq));
	if (v->begun)
		check_link(v, e);
	else
		check_first(v, e);
	check_place(v, e, name);
	check_signature(v, line, e);
	note_prune(v, e);
	if (v->has_head && e->seq == v->head.seq) {
		v->head_seen = true;
		if (memcmp(e->hash.p, v->head.hash.p, HASH_HEX) != 0)
			problem(v, "entry %llu is not the one that was signed",
				ULL(e->seq));
	}
	v->begun = true;
	v->unsure = 0;
	v->last.seq = e->seq;
	writers_learn(&v->writers, e);
	if (v->sealed == e->seq && writers_are_told(e))
		writers_hear(&v->writers, e);
	memcpy(v->last.hash, e->hash.p, HASH_HEX);
}

static void check_line(struct verify *v, struct span s, uint64_t name)
{
	struct entry e;
	const char *why;

	if (entry_parse(s.p, s.n, &e, &why) == 0) {
		check_entry(v, s.p, &e, name);
		return;
	}
	problem(v, "not an entry (%s), behind entry %llu", why,
		ULL(v->last.seq));
	v->unsure++;
}

/* The next line; waits for the rest of one that is being written. */
static int next_line(struct line_reader *r, struct span *s, bool live)
{
	int rc = lines_next(r, s), i;

	for (i = 0; rc == 0 && live && r->n > r->used && i < TAIL_TRIES; i++) {
		poll(NULL, 0, TAIL_WAIT_MS);
		rc = lines_next(r, s);
	}
	return rc;
}

static void check_lines(struct verify *v, int fd, uint64_t name, bool live)
{
	struct line_reader r;
	struct span s = { 0 };
	int rc;

	lines_init(&r, fd);
	while ((rc = next_line(&r, &s, live)) > 0) {
		v->line = r.number;
		check_line(v, s, name);
	}
	v->line = r.number + 1;
	if (rc == -EBADMSG)
		problem(v, "longer than any entry, behind entry %llu",
			ULL(v->last.seq));
	else if (rc < 0)
		problem(v, "cannot be read: %s", strerror(-rc));
	else if (r.n > r.used)
		problem(v, "half a line, behind entry %llu", ULL(v->last.seq));
	v->line = 0;
	v->bytes += r.at;
	lines_done(&r);
}

static void check_file(struct verify *v, uint64_t name, bool live)
{
	AUTO_CLOSE int fd = segment_open(v->o->dir_fd, name, O_RDONLY);
	struct stat st;

	segment_name(name, v->file);
	v->line = 0;
	/* Removed since we looked, as the oldest: log.prune will say so. */
	if (fd == -ENOENT && !v->begun)
		return;
	if (fd < 0)
		problem(v, "cannot be opened: %s", strerror(-fd));
	else if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		problem(v, "is not a file");
	else
		check_lines(v, fd, name, live);
	v->files++;
	*v->file = '\0';
}

static void check_ends(struct verify *v)
{
	if (v->begun && v->first > 1 && v->pruned < v->first - 1)
		problem(v,
			"entries 1 to %llu are missing, and no log.prune says "
			"that they were removed",
			ULL(v->first - 1));
	if (!v->has_head || v->head_seen)
		return;
	if (v->head.seq > v->last.seq)
		problem(v,
			"the log ends with entry %llu, but entry %llu was "
			"signed: its end is missing",
			ULL(v->last.seq), ULL(v->head.seq));
	else if (v->head.seq >= v->first)
		problem(v, "entry %llu was signed and is missing",
			ULL(v->head.seq));
}

static int report(const struct verify *v)
{
	size_t i;

	if (v->problems > PROBLEMS_SHOWN)
		printf("... and %u more\n", v->problems - PROBLEMS_SHOWN);
	if (v->problems > 0) {
		printf("BAD: %u problems in entries %llu to %llu\n",
		       v->problems, ULL(v->first), ULL(v->last.seq));
		return VERIFY_BAD;
	}
	printf("good: entries %llu to %llu, %llu files, %llu bytes\n",
	       ULL(v->first), ULL(v->last.seq), ULL(v->files), ULL(v->bytes));
	printf("signed up to entry %llu; behind it %llu that no signature "
	       "covers yet\n",
	       ULL(v->sealed), ULL(v->last.seq - v->sealed));
	for (i = 0; i < v->o->known->n; i++)
		printf("key %s\n", v->o->known->hex[i]);
	return VERIFY_GOOD;
}

static void take_head(struct verify *v)
{
	const struct verify_keys *k = v->o->known;
	const char *line = v->o->head_line, *why;
	size_t i;

	if (!line) {
		problem(v, "head: is missing, so a missing end of the log "
			   "cannot be noticed");
		return;
	}
	if (entry_parse(line, strlen(line), &v->head, &why) < 0 ||
	    !entry_hash_ok(line, &v->head)) {
		problem(v, "head: is not an entry of the log");
		return;
	}
	for (i = 0; i < k->n && !v->has_head; i++)
		v->has_head = entry_signed_by(line, &v->head, k->hex[i]);
	if (!v->has_head)
		problem(v, "head: entry %llu is not signed by the log's key",
			ULL(v->head.seq));
}

int verify_run(const struct verify_options *o)
{
	static struct verify v;
	AUTO(segments_done) struct segments s = { 0 };
	struct err e = { 0 };
	size_t i;

	v = (struct verify){ .o = o };
	writers_init(&v.writers);
	if (segments_list(o->dir_fd, &s, &e) < 0) {
		fprintf(stderr, "%s: %s\n", o->dir, e.msg);
		return VERIFY_FAILED;
	}
	take_head(&v);
	for (i = 0; i < s.n; i++)
		check_file(&v, s.first[i], i + 1 == s.n);
	check_ends(&v);
	if (s.n == 0)
		problem(&v, "there is no file of a log in %s", o->dir);
	return report(&v);
}

static int read_keys(struct verify_options *o, struct err *e)
{
	struct verify_keys *k = o->known;
	size_t i;

	if (o->keys.n > KEYS_MAX)
		return err_set(e, E2BIG, "more than %d keys", KEYS_MAX);
	if (o->keys.n == 0) {
		k->n = 1;
		return sign_read_public(o->dir_fd, "key.pub", k->hex[0], e);
	}
	for (i = 0; i < o->keys.n; i++)
		if (sign_read_public(AT_FDCWD, o->keys.v[i], k->hex[k->n++],
				     e) < 0)
			return -e->code;
	return 0;
}

int verify_open(struct verify_options *o, struct err *e)
{
	char line[ENTRY_LINE_MAX];
	ssize_t n;

	o->dir_fd = open(o->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (o->dir_fd < 0)
		return err_sys(e, "open %s", o->dir);
	o->known = xcalloc(1, sizeof(*o->known));
	if (read_keys(o, e) < 0)
		return -e->code;
	n = o->head ? read_file_at(AT_FDCWD, o->head, line, sizeof(line))
		    : read_file_at(o->dir_fd, "head", line, sizeof(line));
	if (n < 0 && (o->head || n != -ENOENT))
		return err_set(e, (int)-n, "read %s: %s",
			       o->head ? o->head : "head", strerror((int)-n));
	if (n >= 0) {
		line[strcspn(line, "\n")] = '\0';
		o->head_line = xstrdup(line);
	}
	return 0;
}

void verify_close(struct verify_options *o)
{
	if (o->dir_fd >= 0)
		close(o->dir_fd);
	free(o->known);
	free(o->head_line);
}
