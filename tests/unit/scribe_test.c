/*
 * The chain on real files: taken up after every way in which a writer can
 * end, and checked after every way in which somebody else can change it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "audit/segment.h"
#include "base/auto.h"
#include "base/fd.h"
#include "base/log.h"
#include "check.h"
#include "scribe/chain.h"
#include "scribe/keep.h"
#include "scribe/verify.h"

#define BODY                                                                  \
	"{\"time\":\"2026-01-31T08:15:30.125Z\",\"type\":\"sandbox.create\"," \
	"\"sandbox\":null,\"project\":null,\"who\":null,\"request\":null,"    \
	"\"data\":{}}"

static char dir[] = "/tmp/scribe_test.XXXXXX";
static int dir_fd;

static void run(const char *fmt, ...) PRINTF_LIKE(1, 2);
static void run(const char *fmt, ...)
{
	char cmd[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(cmd, sizeof(cmd), fmt, ap);
	va_end(ap);
	if (system(cmd) != 0) {
		fprintf(stderr, "failed: %s\n", cmd);
		abort();
	}
}

static void fresh(void)
{
	run("rm -rf %s/*", dir);
}

static void open_chain(struct chain *c, uint64_t segment_bytes)
{
	struct err e = { 0 };

	if (chain_open(c, dir_fd, segment_bytes, &e) < 0) {
		fprintf(stderr, "%s\n", e.msg);
		abort();
	}
	chain_start(c);
}

static void settle(struct chain *c)
{
	struct err e = { 0 };

	if (chain_write(c, &e) < 0 || chain_sync(c, &e) < 0)
		abort();
}

static void add(struct chain *c, unsigned n)
{
	while (n-- > 0)
		chain_add(c, &c->writers.v[0], BODY, strlen(BODY),
			  c->writers.v[0].now + 1);
	settle(c);
}

/* A log of three files, all signed. */
static void make_log(void)
{
	struct chain c;
	int i;

	fresh();
	open_chain(&c, 8000);
	for (i = 0; i < 3; i++) {
		add(&c, 30);
		chain_sign(&c);
		settle(&c);
	}
	chain_done(&c);
}

/* The verdict, and what was said in `out`. */
static int verify(char *out, size_t cap)
{
	struct verify_options o = { .dir = dir, .dir_fd = -1 };
	struct err e = { 0 };
	int fds[2], status, r;
	pid_t pid;

	fflush(stdout);
	if (pipe(fds) < 0)
		abort();
	pid = fork();
	if (pid == 0) {
		dup2(fds[1], 1);
		dup2(fds[1], 2);
		r = verify_open(&o, &e);
		if (r < 0)
			fprintf(stderr, "%s\n", e.msg);
		r = r < 0 ? VERIFY_FAILED : verify_run(&o);
		fflush(stdout);
		verify_close(&o);
		_exit(r);
	}
	close(fds[1]);
	r = (int)read_full(fds[0], out, cap - 1);
	out[r > 0 ? r : 0] = '\0';
	close(fds[0]);
	waitpid(pid, &status, 0);
	return WEXITSTATUS(status);
}

static int verdict(void)
{
	char out[8192];

	return verify(out, sizeof(out));
}

/* Makes a log, does `cmd` in its directory; what must be found. */
static void tamper(const char *cmd, const char *says)
{
	char out[8192];
	int r;

	make_log();
	run("cd %s && { %s; }", dir, cmd);
	r = verify(out, sizeof(out));
	CHECK(r == VERIFY_BAD && strstr(out, says));
	if (r != VERIFY_BAD || !strstr(out, says))
		printf("# %s\n# wanted: %s\n# %s\n", cmd, says, out);
}

static void test_tampering(void)
{
	make_log();
	CHECK(verdict() == VERIFY_GOOD);
	tamper("sed -i '5s/default/defaul7/;5s/null,\"who\"/\"me\",\"who\"/' "
	       "*01.log",
	       "000000000001.log line 5: entry 5 was changed");
	tamper("sed -i '5s/:30.125Z/:31.125Z/' *01.log",
	       "line 5: entry 5 was changed");
	tamper("sed -i '5s/\"seq\":5/\"seq\":6/' *01.log",
	       "line 5: entry 6 was changed");
	tamper("sed -i '5s/\"spool\":4/\"spool\":9/' *01.log",
	       "entry 5 was changed");
	tamper("sed -i '5s/\"prev\":\"./\"prev\":\"x/' *01.log",
	       "line 5: not an entry");
	tamper("sed -i '5s/{\"seq/ {\"seq/' *01.log", "line 5: not an entry");
	tamper("sed -i 7d *01.log", "line 7: entries 7 to 7 are missing");
	tamper("sed -i 1d *01.log", "entries 1 to 1 are missing, and no");
	tamper("sed -i 7p *01.log", "line 8: entry 7 stands behind entry 7");
	tamper("sed -i -e 7h -e 7d -e 8G *01.log",
	       "line 8: entry 7 stands behind entry 8");
	tamper("rm *01.log", "are missing, and no log.prune says");
	tamper("rm $(ls *.log | sed -n 2p)", "are missing");
	tamper("rm $(ls *.log | tail -n 1)", "its end is missing");
	tamper("f=$(ls *.log | tail -n 1); sed -i '$d' $f",
	       "its end is missing");
	tamper("f=$(ls *.log | tail -n 1); truncate -s -3 $f", "half a line");
	tamper("f=$(ls *.log | tail -n 1); : > $f", "its end is missing");
	tamper("f=$(ls *.log | tail -n 1); echo hello >> $f", "not an entry");
	tamper("f=$(ls *.log | tail -n 1); printf '\\0\\0' >> $f",
	       "half a line");
	tamper("a=$(ls *.log | sed -n 1p); b=$(ls *.log | sed -n 2p); "
	       "mv $a x; mv $b $a; mv x $b",
	       "the name says");
	tamper("rm head", "head: is missing");
	tamper("sed -i 's/\"seq\":/\"seq\":1/' head", "head: is not an entry");
	tamper("rm *.log", "there is no file of a log");
	tamper("head -c 200000 /dev/zero | tr '\\0' x >> $(ls *.log | tail "
	       "-n1)",
	       "longer than any entry");
}

/* No byte of a log can be another one. */
static void test_every_byte(void)
{
	AUTO_CLOSE int fd = -1;
	unsigned wrong = 0;
	struct chain c;
	struct stat st;
	off_t i;

	fresh();
	open_chain(&c, 1 << 20);
	add(&c, 2);
	chain_sign(&c);
	settle(&c);
	chain_done(&c);
	fd = segment_open(dir_fd, 1, O_RDWR);
	if (fd < 0 || fstat(fd, &st) < 0)
		abort();
	for (i = 0; i < st.st_size; i++) {
		char was, now;

		if (pread(fd, &was, 1, i) != 1)
			abort();
		now = (char)(was ^ (1 << i % 8));
		if (pwrite(fd, &now, 1, i) != 1)
			abort();
		wrong += verdict() != VERIFY_BAD;
		if (pwrite(fd, &was, 1, i) != 1)
			abort();
	}
	CHECK(wrong == 0 && verdict() == VERIFY_GOOD);
}

/* Rewrites entry 5 and all behind it, hashes and all; only the key lacks. */
static void test_forgery(void)
{
	struct chain c;
	char out[8192];

	make_log();
	run("mkdir -p %s.other && mv %s/key %s/key.pub "
	    "%s.other/",
	    dir, dir, dir, dir);
	run("rm %s/*.log %s/head", dir, dir);
	open_chain(&c, 8000); /* with a key of its own */
	add(&c, 100);
	chain_sign(&c);
	settle(&c);
	chain_done(&c);
	CHECK(verdict() == VERIFY_GOOD);
	run("mv %s.other/* %s/ && rmdir %s.other", dir, dir, dir);
	CHECK(verify(out, sizeof(out)) == VERIFY_BAD);
	CHECK(strstr(out, "(log.start): not signed by the log's key") != NULL);
}

/* --- forged logs --- */

struct forger {
	struct sign_key key;
	struct buf out;
	struct chain_pos last;
	bool wrong_key; /* signs with a key that is not the log's */
};

static void forge_start(struct forger *f)
{
	struct err e = { 0 };

	fresh();
	*f = (struct forger){ 0 };
	if (sign_load(dir_fd, &f->key, &e) < 0)
		abort();
	memset(f->last.hash, '0', HASH_HEX);
}

/* The next entry, with the right number and hash. */
static void forge(struct forger *f, const char *type, const char *data,
		  bool sign)
{
	struct entry_from from = { .spool = 1 };
	char body[512], sig[SIGNATURE_HEX + 1];
	size_t at = buf_len(&f->out);

	from.body = body;
	from.n = (size_t)snprintf(
		body, sizeof(body),
		"{\"time\":\"2026-01-31T08:15:30.125Z\",\"type\":\"%s\","
		"\"sandbox\":null,\"project\":null,\"who\":null,"
		"\"request\":null,\"data\":{%s}}",
		type, data);
	entry_begin(&f->out, ++f->last.seq, &from, f->last.hash);
	if (sign) {
		sign_closed(&f->key, buf_data(&f->out) + at,
			    buf_len(&f->out) - at, sig);
		if (f->wrong_key)
			sig[0] = sig[0] == '0' ? '1' : '0';
		buf_printf(&f->out, ",\"signature\":\"%s\"", sig);
	}
	hash_closed(buf_data(&f->out) + at, buf_len(&f->out) - at,
		    f->last.hash);
	buf_printf(&f->out, ",\"hash\":\"%s\"}\n", f->last.hash);
}

/* Writes it, with its last line as the head, and has it verified. */
static void forged(struct forger *f, uint64_t name, const char *says)
{
	char path[64], out[8192];
	FILE *file;
	int r;

	snprintf(path, sizeof(path), "%s/%012llu.log", dir,
		 (unsigned long long)name);
	file = fopen(path, "w");
	fwrite(buf_data(&f->out), 1, buf_len(&f->out), file);
	fclose(file);
	run("tail -n 1 %s > %s/head", path, dir);
	r = verify(out, sizeof(out));
	CHECK(r == (says ? VERIFY_BAD : VERIFY_GOOD));
	CHECK(!says || strstr(out, says));
	if (says && !strstr(out, says))
		printf("# wanted: %s\n# %s\n", says, out);
	buf_done(&f->out);
}

static void test_forged_entries(void)
{
	struct forger f;

	forge_start(&f);
	forge(&f, "log.start", "", true);
	forge(&f, "sandbox.create", "", false);
	forge(&f, "log.head", "", true);
	forged(&f, 1, NULL);
	/* A writer's entry that carries a signature. */
	forge_start(&f);
	forge(&f, "log.start", "", true);
	forge(&f, "sandbox.create", "", true);
	forge(&f, "log.head", "", true);
	forged(&f, 1, "entry 2: only the log's own are signed");
	/* Each entry is right by itself, and one was taken out. */
	forge_start(&f);
	forge(&f, "log.start", "", true);
	f.last.hash[0] = f.last.hash[0] == '0' ? '1' : '0';
	forge(&f, "log.head", "", true);
	forged(&f, 1, "entry 2 was not written behind entry 1 as it is now");
	forge_start(&f);
	f.last.hash[0] = 'a';
	forge(&f, "log.start", "", true);
	forged(&f, 1, "entry 1 names an entry before it");
	forge_start(&f);
	forge(&f, "log.head", "", true);
	forged(&f, 1, "entry 1 is the first and not log.start");
	forge_start(&f);
	forge(&f, "log.start", "", true);
	forge(&f, "log.start", "", true);
	forged(&f, 1, "entry 2: log.start inside a file");
}

static void test_forged_removal(void)
{
	struct forger f;

	forge_start(&f);
	f.last.seq = 4;
	forge(&f, "log.start", "", true);
	forge(&f, "log.prune", "\"through\":4", true);
	forged(&f, 5, NULL);
	/* A log.prune that the log's key did not sign covers no missing entry.
	 */
	forge_start(&f);
	f.last.seq = 4;
	forge(&f, "log.start", "", true);
	f.wrong_key = true;
	forge(&f, "log.prune", "\"through\":4", true);
	f.wrong_key = false;
	forge(&f, "log.head", "", true);
	forged(&f, 5, "entries 1 to 4 are missing, and no log.prune");
}

static void test_head_without_signature(void)
{
	tamper("sed -n 5p *01.log > head",
	       "head: entry 5 is not signed by the log's key");
}

/* The key signed two logs: the head of the first refutes the second. */
static void test_head_of_another_log(void)
{
	struct chain c;
	char out[8192];
	int i;

	fresh();
	for (i = 0; i < 2; i++) {
		open_chain(&c, 1 << 20);
		add(&c, 30);
		chain_sign(&c);
		settle(&c);
		chain_done(&c);
		if (i == 0)
			run("cd %s && mv head seen && rm *.log", dir);
	}
	CHECK(verdict() == VERIFY_GOOD);
	run("cd %s && mv seen head", dir);
	CHECK(verify(out, sizeof(out)) == VERIFY_BAD);
	CHECK(strstr(out, "is not the one that was signed") != NULL);
}

static void test_resume(void)
{
	struct chain c;
	struct err e = { 0 };
	uint64_t seq;

	make_log();
	open_chain(&c, 8000);
	seq = c.now.seq;
	CHECK(c.writers.v[0].now == 90);
	add(&c, 1);
	chain_done(&c);
	CHECK(verdict() == VERIFY_GOOD);
	/* A writer that was killed in the middle of a line. */
	open_chain(&c, 1 << 20);
	CHECK(c.now.seq > seq && c.writers.v[0].now == 91);
	chain_add(&c, &c.writers.v[0], BODY, strlen(BODY), 92);
	CHECK(chain_write(&c, &e) == 0);
	seq = c.written.seq;
	CHECK(ftruncate(c.fd, (off_t)c.size - 10) == 0);
	chain_done(&c);
	CHECK(verdict() == VERIFY_BAD);
	open_chain(&c, 1 << 20);
	CHECK(c.writers.v[0].now == 91 &&
	      c.now.seq == seq); /* log.cut instead */
	add(&c, 1);
	chain_done(&c);
	CHECK(verdict() == VERIFY_GOOD);
	run("grep -q '\"log.cut\".*\"bytes\":' %s/*.log", dir);
	/* Killed right after a file was made. */
	close(openat(dir_fd, "000000009999.log", O_CREAT | O_WRONLY, 0600));
	open_chain(&c, 8000);
	add(&c, 1);
	chain_done(&c);
	CHECK(faccessat(dir_fd, "000000009999.log", F_OK, 0) < 0);
	CHECK(verdict() == VERIFY_GOOD);
	/* What was not written is forgotten. */
	open_chain(&c, 8000);
	seq = c.now.seq;
	chain_add(&c, &c.writers.v[0], BODY, strlen(BODY),
		  c.writers.v[0].now + 1);
	chain_done(&c);
	open_chain(&c, 8000);
	CHECK(c.now.seq == seq);
	chain_done(&c);
}

/* Evidence is not destroyed, numbers are not used again. */
static void test_damage(void)
{
	struct chain c;
	char out[8192];
	uint64_t seq;

	make_log();
	run("echo not an entry >> $(ls %s/*.log | tail -n 1)", dir);
	open_chain(&c, 1 << 20);
	seq = c.now.seq;
	add(&c, 3);
	chain_sign(&c);
	settle(&c);
	CHECK(c.segment == seq);
	chain_done(&c);
	run("grep -q '\"damaged\":\"' %s/*.log", dir);
	run("grep -q '^not an entry$' %s/*.log", dir);
	CHECK(verify(out, sizeof(out)) == VERIFY_BAD);
	CHECK(strstr(out, "not an entry") && strstr(out, "BAD: 1 problems"));
	/* The end was taken away while nobody wrote. */
	make_log();
	open_chain(&c, 1 << 20);
	seq = c.now.seq;
	chain_done(&c);
	run("rm $(ls %s/*.log | tail -n 1)", dir);
	open_chain(&c, 1 << 20);
	CHECK(c.now.seq >= seq);
	add(&c, 3);
	chain_sign(&c);
	settle(&c);
	chain_done(&c);
	CHECK(verify(out, sizeof(out)) == VERIFY_BAD);
	CHECK(strstr(out, "are missing") != NULL);
	/* A file of strangers with a name in the future. */
	make_log();
	run("echo x > %s/000000005000.log", dir);
	open_chain(&c, 1 << 20);
	CHECK(c.now.seq == 5001);
	chain_done(&c);
}

/* Entries from before, in a file with a name in the future. */
static void test_misnamed(void)
{
	static const char *const more[] = {
		"rm head",
		"rm head && echo x >> 000000005000.log",
		"true",
	};
	struct chain c;
	size_t i;

	for (i = 0; i < ARRAY_LEN(more); i++) {
		make_log();
		run("cp $(ls %s/*.log | head -n 1) %s/000000005000.log", dir,
		    dir);
		run("cd %s && %s", dir, more[i]);
		open_chain(&c, 1 << 20);
		CHECK(c.now.seq == 5001);
		add(&c, 3);
		chain_sign(&c);
		settle(&c);
		CHECK(c.segment == 5001);
		chain_done(&c);
		run("grep -qE '\"(damaged|missing)\":' %s/000000005001.log",
		    dir);
	}
}

/* Everybody's last number, however long they were silent. */
static void test_writers(void)
{
	struct chain c;
	char gone[SCRIBE_NAME], name[SCRIBE_NAME];
	struct writer *w;
	unsigned i;

	fresh();
	open_chain(&c, 8000);
	for (i = 0; i < 300; i++) {
		snprintf(name, sizeof(name), "gate.%u", i);
		w = writers_get(&c.writers, name, gone);
		chain_add(&c, w, BODY, strlen(BODY), 1000 + i);
	}
	settle(&c);
	for (i = 0; i < 10; i++)
		add(&c, 30);
	chain_done(&c);
	CHECK(verdict() == VERIFY_GOOD);
	open_chain(&c, 8000);
	CHECK(c.writers.n == 301 && c.writers.v[0].now == 300);
	w = writers_find(&c.writers, "gate.7", 6);
	CHECK(w && w->now == 1007 && w->synced == 1007);
	w = writers_find(&c.writers, "gate.299", 8);
	CHECK(w && w->now == 1299);
	/* A full table: who was silent for longest goes, and it is said. */
	for (i = 300; i < SCRIBE_WRITERS_MAX - 1; i++) {
		snprintf(name, sizeof(name), "gate.%u", i);
		w = writers_get(&c.writers, name, gone);
		chain_add(&c, w, BODY, strlen(BODY), 1);
		if (*gone)
			break;
	}
	CHECK(i == SCRIBE_WRITERS_MAX - 1);
	settle(&c);
	w = writers_find(&c.writers, "gate.5", 6);
	w->seq = 1;
	CHECK(writers_get(&c.writers, "gate.new", gone) == w);
	CHECK_STR(gone, "gate.5");
	chain_say(&c, "log.forget", "\"source\":\"gate.5\"");
	chain_add(&c, w, BODY, strlen(BODY), 1);
	w = writers_find(&c.writers, "gate.9", 6);
	chain_add(&c, w, BODY, strlen(BODY), 2000);
	settle(&c);
	chain_done(&c);
	CHECK(verdict() == VERIFY_GOOD);
	open_chain(&c, 8000);
	CHECK(!writers_find(&c.writers, "gate.5", 6));
	CHECK(writers_find(&c.writers, "gate.new", 8));
	/* Numbers of one writer that go back are somebody's doing. */
	chain_add(&c, writers_find(&c.writers, "gate.9", 6), BODY, strlen(BODY),
		  1999);
	settle(&c);
	chain_done(&c);
	CHECK(verdict() == VERIFY_BAD);
}

static void test_full_disk(void)
{
	struct chain c;
	struct err e = { 0 };
	uint64_t seq;
	int fd;

	make_log();
	open_chain(&c, 1 << 20);
	settle(&c);
	seq = c.written.seq;
	fd = c.fd;
	c.fd = open("/dev/full", O_WRONLY);
	chain_add(&c, &c.writers.v[0], BODY, strlen(BODY),
		  c.writers.v[0].now + 1);
	CHECK(chain_write(&c, &e) == -ENOSPC);
	CHECK(c.now.seq == seq && buf_len(&c.out) == 0);
	if (c.fd >= 0)
		close(c.fd);
	c.fd = fd;
	add(&c, 2);
	chain_sign(&c);
	settle(&c);
	chain_done(&c);
	CHECK(verdict() == VERIFY_GOOD);
}

static void test_keep(void)
{
	struct keep k;
	struct chain c;
	struct err e = { 0 };
	AUTO(segments_done) struct segments s = { 0 };

	CHECK(keep_parse("0", &k, &e) == 0 && !k.bytes && !k.ms);
	CHECK(keep_parse("10G", &k, &e) == 0 && k.bytes == 10ULL << 30);
	CHECK(keep_parse("2d", &k, &e) == 0 && k.ms == 2 * 86400000);
	CHECK(keep_parse("soon", &k, &e) < 0);
	err_clear(&e);
	make_log();
	open_chain(&c, 8000);
	k = (struct keep){ .bytes = 1 << 20 };
	CHECK(keep_apply(&k, &c, &e) == 0);
	CHECK(segments_list(dir_fd, &s, &e) == 0 && s.n >= 3);
	CHECK(s.first[0] == 1);
	k.bytes = 1;
	CHECK(keep_apply(&k, &c, &e) == 0);
	CHECK(segments_list(dir_fd, &s, &e) == 0 && s.n == 1);
	CHECK(s.first[0] > 1);
	CHECK(verdict() == VERIFY_GOOD);
	add(&c, 100);
	add(&c, 1);
	run("touch -d '3 days ago' %s/*.log", dir);
	k = (struct keep){ .ms = 86400000 };
	CHECK(keep_apply(&k, &c, &e) == 0);
	CHECK(segments_list(dir_fd, &s, &e) == 0 && s.n == 1);
	chain_done(&c);
	CHECK(verdict() == VERIFY_GOOD);
	/* One more, and nobody has said so. */
	open_chain(&c, 1);
	add(&c, 1);
	add(&c, 1);
	chain_done(&c);
	run("rm $(ls %s/*.log | head -n 1)", dir);
	CHECK(verdict() == VERIFY_BAD);
}

int main(void)
{
	struct err e = { 0 };

	log_init("test", LOG_ERR);
	if (!mkdtemp(dir) || sign_init(&e) < 0)
		abort();
	dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	test_tampering();
	test_every_byte();
	test_forgery();
	test_forged_entries();
	test_forged_removal();
	test_head_without_signature();
	test_head_of_another_log();
	test_resume();
	test_damage();
	test_misnamed();
	test_writers();
	test_full_disk();
	test_keep();
	run("rm -rf %s", dir);
	return CHECK_DONE();
}
