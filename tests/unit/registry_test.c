/*
 * The registry on a real file: rows survive a process that ends without
 * closing, names are unique among the living, migrations go forward only.
 */
#include "registry/gate.h"
#include "registry/registry.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "check.h"
#include "registry/drive.h"
#include "registry/migrate.h"
#include "registry/pool.h"
#include "registry/templates.h"

static char dir[] = "/tmp/registry_test.XXXXXX";
static char path[64];

static struct sandbox_row box(const char *id, const char *name)
{
	return (struct sandbox_row){
		.id = id,
		.project = "default",
		.name = name,
		.image_id = "iaaaaaaaaaaaaaaaaaaaaaaaaaa",
		.image = "debian",
		.spec = "{\"cpus\": 2}",
		.created_ms = 1700000000123,
		.boot_id = "b",
		.deadline_boot_ms = 5,
		.deadline_wall_ms = 1700000009000,
		.state = "running",
		.disk = "",
		.base = "",
		.parent = "",
	};
}

struct seen {
	int n, stop_at;
	char names[64], spec[64], project[64];
	struct sandbox_row last;
	struct image_row image;
};

static void note(struct seen *s, const char *text)
{
	size_t n = strlen(s->names);

	snprintf(s->names + n, sizeof(s->names) - n, "%s", text);
}

static int see_box(void *arg, const struct sandbox_row *row)
{
	struct seen *s = arg;

	s->n++;
	s->last = *row;
	note(s, row->name);
	note(s, ",");
	snprintf(s->spec, sizeof(s->spec), "%s", row->spec);
	snprintf(s->project, sizeof(s->project), "%s", row->project);
	return s->n == s->stop_at ? 7 : 0;
}

static int see_image(void *arg, const struct image_row *row)
{
	struct seen *s = arg;

	s->n++;
	s->image = *row;
	note(s, row->id);
	return 0;
}

static int drop_box(void *arg, const struct sandbox_row *row)
{
	struct err e = { 0 };

	return registry_sandbox_remove(arg, row->id, &e);
}

static void clear(struct registry *r)
{
	struct err e = { 0 };

	CHECK(registry_begin(r, &e) == 0);
	CHECK(registry_end(r, registry_sandbox_each(r, drop_box, r, &e), &e) ==
	      0);
}

static void test_sandboxes(void)
{
	struct sandbox_row a = box("a", "one"), b = box("b", ""),
			   c = box("c", "one"), d = box("d", "");
	struct seen seen = { 0 };
	struct registry r;
	struct err e = { 0 };

	CHECK(registry_open(&r, path, &e) == 0);
	CHECK(registry_sandbox_add(&r, &a, &e) == 0);
	CHECK(registry_sandbox_add(&r, &b, &e) == 0);
	CHECK(registry_sandbox_add(&r, &d, &e) == 0); /* no name, twice */
	CHECK(registry_sandbox_add(&r, &c, &e) == -EEXIST);
	err_clear(&e);
	CHECK(registry_sandbox_add(&r, &a, &e) == -EEXIST);
	err_clear(&e);
	CHECK(registry_sandbox_remove(&r, "d", &e) == 0);
	CHECK(registry_sandbox_remove(&r, "d", &e) == 0);
	CHECK(registry_sandbox_each(&r, see_box, &seen, &e) == 0);
	CHECK(seen.n == 2);
	CHECK_STR(seen.names, "one,,");
	CHECK(seen.last.created_ms == 1700000000123);
	CHECK(seen.last.deadline_boot_ms == 5);
	CHECK(seen.last.deadline_wall_ms == 1700000009000);
	CHECK_STR(seen.spec, "{\"cpus\": 2}");
	seen = (struct seen){ .stop_at = 1 };
	CHECK(registry_sandbox_each(&r, see_box, &seen, &e) == 7);
	CHECK(seen.n == 1);

	/* Another project has names of its own. */
	c.project = "other";
	CHECK(registry_sandbox_add(&r, &c, &e) == 0);
	CHECK(registry_sandbox_remove(&r, "c", &e) == 0);
	c.project = "default";

	a.spec = "{}";
	a.deadline_boot_ms = 6;
	CHECK(registry_sandbox_update(&r, &a, &e) == 0);
	seen = (struct seen){ .stop_at = 1 };
	CHECK(registry_sandbox_each(&r, see_box, &seen, &e) == 7);
	CHECK_STR(seen.spec, "{}");
	CHECK(seen.last.deadline_boot_ms == 6);
	CHECK_STR(seen.project, "default");

	/* The name is free again once its owner is gone. */
	CHECK(registry_sandbox_remove(&r, "a", &e) == 0);
	CHECK(registry_sandbox_add(&r, &c, &e) == 0);
	clear(&r);
	seen = (struct seen){ 0 };
	CHECK(registry_sandbox_each(&r, see_box, &seen, &e) == 0);
	CHECK(seen.n == 0);
	registry_close(&r);
}

static int see_snapshot(void *arg, const struct snapshot_row *row)
{
	struct seen *s = arg;

	s->n++;
	note(s, row->id);
	note(s, "=");
	note(s, row->name);
	note(s, "/");
	note(s, row->kind);
	note(s, "/");
	note(s, row->base);
	note(s, ",");
	return row->bytes == 1 && row->pause_us == 2 && row->event == 3 ? 0 : 7;
}

static void test_snapshots(void)
{
	struct snapshot_row a = { .id = "a",
				  .project = "p",
				  .name = "one",
				  .kind = "user",
				  .sandbox = "s",
				  .base = "",
				  .image_id = "i",
				  .image = "debian",
				  .spec = "{}",
				  .bytes = 1,
				  .pause_us = 2,
				  .event = 3,
				  .created_ms = 10 },
			    b = a, c = a;
	struct seen seen = { 0 };
	struct registry r;
	struct err e = { 0 };

	b.id = "b";
	c.id = "c";
	c.name = "";
	c.base = "a";
	CHECK(registry_open(&r, path, &e) == 0);
	CHECK(registry_begin_durable(&r, &e) == 0);
	CHECK(registry_end(&r, registry_snapshot_put(&r, &a, &e), &e) == 0);
	CHECK(registry_snapshot_put(&r, &b, &e) == -EEXIST);
	err_clear(&e);
	CHECK(registry_snapshot_put(&r, &c, &e) == 0);
	/* It loses its name, and another one may have it. */
	a.name = "";
	a.kind = "fork";
	CHECK(registry_snapshot_put(&r, &a, &e) == 0);
	CHECK(registry_snapshot_put(&r, &b, &e) == 0);
	CHECK(registry_snapshot_each(&r, see_snapshot, &seen, &e) == 0);
	CHECK_STR(seen.names, "a=/fork/,b=one/user/,c=/user/a,");
	CHECK(registry_snapshot_remove(&r, "a", &e) == 0);
	CHECK(registry_snapshot_remove(&r, "a", &e) == 0);
	CHECK(registry_snapshot_remove(&r, "b", &e) == 0);
	CHECK(registry_snapshot_remove(&r, "c", &e) == 0);
	registry_close(&r);
}

static void test_images(void)
{
	struct image_row one = { "debian", "i1", 10, 2, 3, "{}", "c" },
			 two = { "debian", "i2", 11, 4, 5, "{}", "c2" },
			 other = { "zoo", "i2", 1, 1, 1, "", "" };
	struct seen seen = { 0 };
	struct registry r;
	struct err e = { 0 };

	CHECK(registry_open(&r, path, &e) == 0);
	CHECK(registry_image_put(&r, &one, &e) == 0);
	CHECK(registry_image_put(&r, &two, &e) == 0);
	CHECK(registry_image_each(&r, see_image, &seen, &e) == 0);
	CHECK(seen.n == 1);
	CHECK_STR(seen.names, "i2");
	CHECK(seen.image.size == 11 && seen.image.entries == 4 &&
	      seen.image.created_ms == 5);
	/* An id has one name: the older one gives way. */
	CHECK(registry_image_put(&r, &other, &e) == 0);
	seen = (struct seen){ 0 };
	CHECK(registry_image_each(&r, see_image, &seen, &e) == 0);
	CHECK(seen.n == 1);
	CHECK(registry_image_remove(&r, "zoo", &e) == 0);
	CHECK(registry_image_remove(&r, "zoo", &e) == 0);
	seen = (struct seen){ 0 };
	CHECK(registry_image_each(&r, see_image, &seen, &e) == 0);
	CHECK(seen.n == 0);
	registry_close(&r);
}

/* A writer that dies without closing, as by kill -9. */
static void test_crash(void)
{
	struct sandbox_row a = box("crash", "kept");
	struct seen seen = { 0 };
	struct registry r;
	struct err e = { 0 };
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		if (registry_open(&r, path, &e) < 0 ||
		    registry_sandbox_add(&r, &a, &e) < 0)
			_exit(1);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	CHECK(status == 0);
	CHECK(registry_open(&r, path, &e) == 0);
	CHECK(registry_sandbox_each(&r, see_box, &seen, &e) == 0);
	CHECK_STR(seen.names, "kept,");
	clear(&r);
	CHECK(r.wal_pages > 0);
	CHECK(registry_checkpoint(&r, &e) == 0);
	CHECK(r.wal_pages == 0);
	registry_close(&r);
}

static off_t wal_size(void)
{
	char wal[sizeof(path) + 8];
	struct stat sb = { 0 };

	snprintf(wal, sizeof(wal), "%s-wal", path);
	CHECK(stat(wal, &sb) == 0);
	return sb.st_size;
}

/* A burst of commits does not leave its write-ahead log behind. */
static void test_wal_shrinks_after_a_checkpoint(void)
{
	enum { ROWS = 3000, LEFT = 4 << 20 };
	struct registry r;
	struct err e = { 0 };
	int i, bad = 0;

	CHECK(registry_open(&r, path, &e) == 0);
	for (i = 0; i < ROWS; i++) {
		char id[16];
		struct sandbox_row a;

		snprintf(id, sizeof(id), "w%d", i);
		a = box(id, id);
		bad += registry_sandbox_add(&r, &a, &e) < 0;
	}
	CHECK(bad == 0 && wal_size() > 2 * LEFT);
	CHECK(registry_checkpoint(&r, &e) == 0);
	clear(&r);
	CHECK(registry_checkpoint(&r, &e) == 0);
	CHECK(registry_sandbox_remove(&r, "nobody", &e) == 0);
	{
		struct sandbox_row a = box("one", "one");

		CHECK(registry_sandbox_add(&r, &a, &e) == 0);
	}
	CHECK(wal_size() <= LEFT);
	clear(&r);
	registry_close(&r);
}

/* Processor time of a family: also of members that ended. */
static void test_usage_of_a_family(void)
{
	struct usage_row row = { .sandbox = "ia", .project = "p", .cpu_us = 5 };
	struct registry r;
	struct err e = { 0 };
	uint64_t us = 1;

	CHECK(registry_open(&r, ":memory:", &e) == 0);
	CHECK(registry_usage_family(&r, "ia", &us, &e) == 0 && us == 0);
	CHECK(registry_usage_put(&r, &row, &e) == 0);
	row.sandbox = "ib";
	row.account = "ia";
	row.ended_ms = 9;
	CHECK(registry_usage_put(&r, &row, &e) == 0);
	row.sandbox = row.account = "ic";
	CHECK(registry_usage_put(&r, &row, &e) == 0);
	CHECK(registry_usage_family(&r, "ia", &us, &e) == 0 && us == 10);
	CHECK(registry_usage_family(&r, "ic", &us, &e) == 0 && us == 5);
	registry_close(&r);
}

/* Of this process: other work of the machine does not count. */
static uint64_t cpu_us(void)
{
	return (uint64_t)clock() * 1000000 / CLOCKS_PER_SEC;
}

static void test_speed(void)
{
	enum { ROWS = 1000, WANT_US = 100 };
	struct registry r;
	struct err e = { 0 };
	uint64_t t;
	int i, bad = 0;

	CHECK(registry_open(&r, path, &e) == 0);
	t = cpu_us();
	for (i = 0; i < ROWS; i++) {
		char id[16];
		struct sandbox_row a;

		snprintf(id, sizeof(id), "s%d", i);
		a = box(id, id);
		bad += registry_sandbox_add(&r, &a, &e) < 0;
	}
	t = cpu_us() - t;
	printf("# %llu us per row\n", (unsigned long long)t / ROWS);
	CHECK(bad == 0);
	/* Sanitizers are allowed ten times that. */
	CHECK(t / ROWS < 10 * WANT_US);
	clear(&r);
	registry_close(&r);
}

static int see_key(void *arg, const struct key_row *row)
{
	struct seen *s = arg;

	s->n++;
	note(s, row->id);
	note(s, row->project);
	snprintf(s->spec, sizeof(s->spec), "%s %u %llu %02x%02x", row->name,
		 row->scope, (unsigned long long)row->used_ms, row->hash[0],
		 row->hash[31]);
	return 0;
}

static int see_project(void *arg, const char *name, uint64_t created_ms)
{
	struct seen *s = arg;

	CHECK(created_ms > 0);
	note(s, name);
	note(s, ",");
	return 0;
}

static void test_keys(void)
{
	struct key_row a = { "k1", "ci", "web", { 0xaa }, 1, 5, 0 },
		       b = { "k2", "other", "web", { 0xaa }, 1, 5, 0 },
		       all = { "k3", "op", "", { 0xbb }, 2, 5, 0 };
	struct seen seen = { 0 };
	struct registry r;
	struct err e = { 0 };

	a.hash[31] = 0x01;
	b.hash[31] = 0x01;
	CHECK(registry_open(&r, path, &e) == 0);
	CHECK(registry_key_add(&r, &a, &e) == 0);
	CHECK(registry_key_add(&r, &b, &e) == -EEXIST); /* the same hash */
	err_clear(&e);
	CHECK(registry_key_used(&r, "k1", 77, &e) == 0);
	CHECK(registry_key_each(&r, see_key, &seen, &e) == 0);
	CHECK_STR(seen.names, "k1web");
	CHECK_STR(seen.spec, "ci 1 77 aa01");
	CHECK(registry_key_add(&r, &all, &e) == 0);
	CHECK(registry_key_remove(&r, "k1", &e) == 0);
	CHECK(registry_key_remove(&r, "k1", &e) == 0);
	seen = (struct seen){ 0 };
	CHECK(registry_key_each(&r, see_key, &seen, &e) == 0);
	CHECK_STR(seen.names, "k3");
	seen = (struct seen){ 0 };
	CHECK(registry_project_each(&r, see_project, &seen, &e) == 0);
	CHECK_STR(seen.names, "default,web,");
	CHECK(registry_key_remove(&r, "k3", &e) == 0);
	registry_close(&r);
}

static int see_ended(void *arg, const struct ended_row *row)
{
	struct seen *s = arg;

	s->n++;
	note(s, row->id);
	snprintf(s->spec, sizeof(s->spec), "%s %s %s %s %llu %llu", row->name,
		 row->project, row->image, row->reason,
		 (unsigned long long)(row->ended_ms - row->created_ms),
		 (unsigned long long)row->record);
	return 0;
}

static void test_ended(void)
{
	struct ended_row x = { "x", "n", "p", "img", "idle", 1, 9, 5 },
			 y = { "y", "", "p", "img", "removed", 1, 4, 6 };
	struct seen seen = { 0 };
	struct registry r;
	struct err e = { 0 };

	CHECK(registry_open(&r, path, &e) == 0);
	CHECK(registry_ended_add(&r, &x, &e) == 0);
	CHECK(registry_ended_add(&r, &y, &e) == 0);
	CHECK(registry_ended_each(&r, see_ended, &seen, &e) == 0);
	CHECK_STR(seen.names, "yx"); /* in the order of their ends */
	CHECK_STR(seen.spec, "n p img idle 8 5");
	CHECK(registry_ended_remove(&r, "x", &e) == 0);
	CHECK(registry_ended_remove(&r, "y", &e) == 0);
	seen = (struct seen){ 0 };
	CHECK(registry_ended_each(&r, see_ended, &seen, &e) == 0);
	CHECK(seen.n == 0);
	registry_close(&r);
}

/* One commit or nothing, and the outermost decides. */
static void test_transactions(void)
{
	struct sandbox_row a = box("a", "one"), b = box("b", "one");
	struct seen seen = { 0 };
	struct registry r;
	struct err e = { 0 };
	int rc;

	CHECK(registry_open(&r, path, &e) == 0);
	CHECK(registry_begin(&r, &e) == 0);
	CHECK(registry_sandbox_add(&r, &a, &e) == 0);
	CHECK(registry_begin(&r, &e) == 0);
	rc = registry_sandbox_add(&r, &b, &e);
	CHECK(rc == -EEXIST);
	CHECK(registry_end(&r, rc, &e) == -EEXIST);
	err_clear(&e);
	CHECK(registry_end(&r, 0, &e) == -EIO);
	err_clear(&e);
	CHECK(registry_sandbox_each(&r, see_box, &seen, &e) == 0);
	CHECK(seen.n == 0);
	/* A step that failed without the database's doing. */
	CHECK(registry_begin(&r, &e) == 0);
	CHECK(registry_sandbox_add(&r, &a, &e) == 0);
	CHECK(registry_begin(&r, &e) == 0);
	CHECK(registry_end(&r, -EBUSY, &e) == -EBUSY);
	CHECK(registry_end(&r, 0, &e) == -EIO);
	err_clear(&e);
	CHECK(registry_sandbox_each(&r, see_box, &seen, &e) == 0);
	CHECK(seen.n == 0);
	CHECK(registry_begin(&r, &e) == 0);
	CHECK(registry_end(&r, registry_sandbox_add(&r, &b, &e), &e) == 0);
	CHECK(registry_sandbox_each(&r, see_box, &seen, &e) == 0);
	CHECK(seen.n == 1);
	clear(&r);
	registry_close(&r);
}

/* --- what waits for the disk --- */

static char traced[1024];

static int trace(unsigned kind, void *arg, void *stmt, void *sql)
{
	const char *text = sql;
	size_t n = strlen(traced);

	(void)kind;
	(void)arg;
	(void)stmt;
	if (strstr(text, "synchronous"))
		text = strstr(text, "FULL") ? "FULL " : "NORMAL ";
	else if (strstr(text, "COMMIT"))
		text = "commit ";
	else if (strstr(text, "INSERT") || strstr(text, "REPLACE"))
		text = "insert ";
	else
		return 0;
	snprintf(traced + n, sizeof(traced) - n, "%s", text);
	return 0;
}

/* An image that was answered for is there after a power cut; so is a
 * transaction that was asked to be. */
static void test_durable(void)
{
	struct image_row image = { .id = "iaaaaaaaaaaaaaaaaaaaaaaaaaa",
				   .name = "x",
				   .config = "{}",
				   .cache = "" };
	struct sandbox_row a = box("a", "one");
	struct registry r;
	struct err e = { 0 };

	CHECK(registry_open(&r, path, &e) == 0);
	sqlite3_trace_v2(r.db, SQLITE_TRACE_STMT, trace, NULL);
	CHECK(registry_image_put(&r, &image, &e) == 0);
	CHECK_STR(traced, "FULL insert NORMAL ");
	*traced = '\0';
	CHECK(registry_begin_durable(&r, &e) == 0);
	CHECK(registry_end(&r, registry_sandbox_add(&r, &a, &e), &e) == 0);
	CHECK_STR(traced, "FULL insert commit NORMAL ");
	*traced = '\0';
	CHECK(registry_sandbox_remove(&r, "a", &e) == 0);
	CHECK(registry_begin(&r, &e) == 0);
	CHECK(registry_end(&r, registry_sandbox_add(&r, &a, &e), &e) == 0);
	CHECK_STR(traced, "insert commit ");
	CHECK(registry_image_remove(&r, image.name, &e) == 0);
	clear(&r);
	registry_close(&r);
}

static int see_parent(void *arg, const struct sandbox_row *row)
{
	char *out = arg;

	snprintf(out, 64, "%s|%s|%s|%s", row->parent, row->disk, row->base,
		 row->state);
	return 0;
}

static void test_parent(void)
{
	struct sandbox_row a = box("a", "one");
	char seen[64] = "";
	struct registry r;
	struct err e = { 0 };

	a.parent = "p";
	a.disk = "d";
	a.base = "b";
	CHECK(registry_open(&r, path, &e) == 0);
	CHECK(registry_sandbox_add(&r, &a, &e) == 0);
	CHECK(registry_sandbox_each(&r, see_parent, seen, &e) == 0);
	CHECK_STR(seen, "p|d|b|running");
	clear(&r);
	registry_close(&r);
}

struct sums {
	int n;
	char text[128];
};

static int see_usage(void *arg, const struct usage_row *row)
{
	struct sums *s = arg;
	size_t n = strlen(s->text);

	s->n++;
	snprintf(s->text + n, sizeof(s->text) - n, "%s:%llu ", row->sandbox,
		 (unsigned long long)row->cpu_us);
	return 0;
}

static int see_sum(void *arg, const struct usage_sum *sum)
{
	struct sums *s = arg;
	size_t n = strlen(s->text);

	s->n++;
	snprintf(s->text + n, sizeof(s->text) - n, "%s:%llu:%g:%g:%g:%g ",
		 sum->project, (unsigned long long)sum->sandboxes, sum->cpu_us,
		 sum->mem_byte_s, sum->disk_byte_s, sum->output_bytes);
	return 0;
}

static void put_usage(struct registry *r, const char *id, const char *project,
		      uint64_t from, uint64_t to)
{
	struct usage_row row = { id, project, 1,    UINT64_MAX, 3,
				 4,  from,    from, to,         NULL };
	struct err e = { 0 };

	CHECK(registry_usage_put(r, &row, &e) == 0);
}

static void check_sums(struct registry *r, const struct usage_filter *f,
		       const char *want)
{
	struct sums got = { 0 };
	struct err e = { 0 };

	CHECK(registry_usage_sums(r, f, see_sum, &got, &e) == 0);
	CHECK_STR(got.text, want);
}

static int count_sum(void *arg, const struct egress_row *sum)
{
	(void)sum;
	++*(unsigned *)arg;
	return 0;
}

/* Sandboxes that reached nothing cost nothing when egress is added up. */
static void test_egress_sums_do_not_grow_with_usage(void)
{
	enum { ROWS = 2000, STEPS = 500 };
	struct usage_filter f = { "", "", 0, INT64_MAX, 0 };
	struct egress_row out = { .sandbox = "u7", .project = "p" };
	struct registry r;
	struct err e = { 0 };
	unsigned n = 0;
	int i;

	CHECK(registry_open(&r, ":memory:", &e) == 0);
	CHECK(registry_begin(&r, &e) == 0);
	for (i = 0; i < ROWS; i++) {
		char id[16];

		snprintf(id, sizeof(id), "u%d", i);
		put_usage(&r, id, "p", 100, 200);
	}
	CHECK(registry_end(&r, 0, &e) == 0);
	CHECK(registry_egress_put(&r, &out, &e) == 0);
	CHECK(registry_egress_sums(&r, &f, count_sum, &n, &e) == 0 && n == 1);
	CHECK(sqlite3_stmt_status(r.st[ST_EGRESS_SUM],
				  SQLITE_STMTSTATUS_VM_STEP, 0) < STEPS);
	registry_close(&r);
}

static void test_usage(void)
{
	struct usage_filter f = { "", "", 0, 1ULL << 50, 10 };
	struct usage_row row = { 0 };
	struct sums got = { 0 };
	struct registry r;
	struct err e = { 0 };

	CHECK(registry_open(&r, path, &e) == 0);
	put_usage(&r, "a", "p", 100, 200);
	put_usage(&r, "b", "p", 300, 0);
	put_usage(&r, "c", "q", 150, 160);
	put_usage(&r, "a", "p", 100, 210); /* again: replaced */
	CHECK(registry_usage_get(&r, "a", &row, &e) == 1);
	CHECK(row.ended_ms == 210 && row.mem_byte_s == INT64_MAX);
	CHECK(registry_usage_get(&r, "zzz", &row, &e) == 0);
	CHECK(registry_usage_each(&r, &f, see_usage, &got, &e) == 0);
	CHECK_STR(got.text, "b:1 c:1 a:1 ");
	f.project = "p";
	f.until_ms = 299;
	got = (struct sums){ 0 };
	CHECK(registry_usage_each(&r, &f, see_usage, &got, &e) == 0);
	CHECK_STR(got.text, "a:1 ");
	f = (struct usage_filter){ "", "b", 0, 1ULL << 50, 10 };
	got = (struct sums){ 0 };
	CHECK(registry_usage_each(&r, &f, see_usage, &got, &e) == 0);
	CHECK_STR(got.text, "b:1 ");

	/* Sums do not overflow, and stay the same when rows are folded. */
	f = (struct usage_filter){ "", "", 0, 1ULL << 50, 10 };
	check_sums(&r, &f, "p:2:2:1.84467e+19:6:8 q:1:1:9.22337e+18:3:4 ");
	CHECK(registry_usage_fold(&r, 1, &e) == 0);
	CHECK(registry_usage_get(&r, "c", &row, &e) == 0);
	CHECK(registry_usage_get(&r, "a", &row, &e) == 1);
	CHECK(registry_usage_fold(&r, 0, &e) == 0);
	CHECK(registry_usage_get(&r, "a", &row, &e) == 0);
	CHECK(registry_usage_get(&r, "b", &row, &e) == 1); /* it lives */
	check_sums(&r, &f, "p:2:2:1.84467e+19:6:8 q:1:1:9.22337e+18:3:4 ");
	f.project = "q";
	check_sums(&r, &f, "q:1:1:9.22337e+18:3:4 ");
	/* Nobody's: its sandbox is not in the list. */
	CHECK(registry_usage_close(&r, &e) == 0);
	CHECK(registry_usage_get(&r, "b", &row, &e) == 1 &&
	      row.ended_ms == 300);
	registry_close(&r);
}

static void see_replay(void *arg, const struct replay_row *row)
{
	snprintf(arg, 64, "%s %02x", row->answer, row->digest[0]);
}

static void test_replays(void)
{
	struct replay_row row = { "p", "key", { 7 }, "answer", 100 };
	char got[64] = "", key[8];
	struct registry r;
	struct err e = { 0 };
	unsigned i;

	CHECK(registry_open(&r, path, &e) == 0);
	CHECK(registry_replay_add(&r, &row, &e) == 0);
	CHECK(registry_replay_get(&r, "q", "key", 0, see_replay, got, &e) == 0);
	CHECK(registry_replay_get(&r, "p", "key", 101, see_replay, got, &e) ==
	      0);
	CHECK_STR(got, "");
	CHECK(registry_replay_get(&r, "p", "key", 100, see_replay, got, &e) ==
	      1);
	CHECK_STR(got, "answer 07");
	row.key = key;
	for (i = 0; i < 5; i++) {
		snprintf(key, sizeof(key), "k%u", i);
		row.created_ms = 200 + i;
		CHECK(registry_replay_add(&r, &row, &e) == 0);
	}
	CHECK(registry_replay_prune(&r, 101, 3, &e) == 0);
	for (i = 0; i < 5; i++) {
		snprintf(key, sizeof(key), "k%u", i);
		CHECK(registry_replay_get(&r, "p", key, 0, see_replay, got,
					  &e) == (i >= 2));
	}
	CHECK(registry_replay_get(&r, "p", "key", 0, see_replay, got, &e) == 0);
	registry_close(&r);
}

/* A file of the first version, with what it had. */
static void test_from_v1(void)
{
	char file[64], copy[80];
	struct seen seen = { 0 };
	struct registry r;
	struct err e = { 0 };
	struct stat sb;
	sqlite3 *db;

	snprintf(file, sizeof(file), "%s/v1.db", dir);
	snprintf(copy, sizeof(copy), "%s.v1", file);
	CHECK(sqlite3_open(file, &db) == SQLITE_OK);
	CHECK(migrate(db, file, registry_steps, 1, &e) == 0);
	CHECK(sqlite3_exec(db,
			   "INSERT INTO sandboxes VALUES ('old', 'one', 'i',"
			   " 'debian', '{\"cpus\": 2}', 17, 'b', 5, 6);"
			   "INSERT INTO images VALUES ('debian', 'i', 1, 2, 3)",
			   NULL, NULL, NULL) == SQLITE_OK);
	sqlite3_close(db);
	CHECK(registry_open(&r, file, &e) == 0);
	CHECK(stat(copy, &sb) == 0);
	CHECK(registry_sandbox_each(&r, see_box, &seen, &e) == 0);
	CHECK(seen.n == 1);
	CHECK_STR(seen.names, "one,");
	CHECK_STR(seen.project, "default");
	CHECK(seen.last.created_ms == 17 && seen.last.deadline_wall_ms == 6);
	CHECK(registry_image_each(&r, see_image, &seen, &e) == 0);
	CHECK(seen.n == 2);
	seen = (struct seen){ 0 };
	CHECK(registry_project_each(&r, see_project, &seen, &e) == 0);
	CHECK_STR(seen.names, "default,");
	registry_close(&r);
	unlink(copy);
	unlink(file);
}

/* A file of a later version is refused, and left as it is. */
static void test_newer(void)
{
	struct registry r;
	struct err e = { 0 };
	sqlite3 *db;
	char sql[64];

	CHECK(sqlite3_open(path, &db) == SQLITE_OK);
	snprintf(sql, sizeof(sql), "PRAGMA user_version = %d",
		 REGISTRY_VERSION + 1);
	CHECK(sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK);
	sqlite3_close(db);
	snprintf(sql, sizeof(sql), "version %d", REGISTRY_VERSION + 1);
	CHECK(registry_open(&r, path, &e) == -ENOTSUP);
	CHECK(strstr(e.msg, sql) != NULL);
	CHECK(r.db == NULL);
}

static void test_migrate(void)
{
	static const char *const good[] = {
		"CREATE TABLE t (a); INSERT INTO t VALUES (1);",
		"ALTER TABLE t ADD COLUMN b; UPDATE t SET b = 2;",
	};
	static const char *const bad[] = { good[0], good[1],
					   "INSERT INTO t (a) VALUES (3);"
					   "INSERT INTO nowhere VALUES (1);" };
	struct err e = { 0 };
	struct stat sb;
	char file[64], copy[80];
	sqlite3 *db;

	snprintf(file, sizeof(file), "%s/m.db", dir);
	snprintf(copy, sizeof(copy), "%s.v1", file);
	CHECK(sqlite3_open(file, &db) == SQLITE_OK);
	CHECK(migrate(db, file, good, 1, &e) == 0);
	CHECK(stat(copy, &sb) < 0); /* an empty file needs no copy */
	CHECK(migrate(db, file, good, 2, &e) == 0);
	CHECK(stat(copy, &sb) == 0);
	CHECK(migrate(db, file, good, 2, &e) == 0);
	/* A step that fails leaves nothing of its own or of earlier steps. */
	CHECK(migrate(db, file, bad, ARRAY_LEN(bad), &e) < 0);
	CHECK(strstr(e.msg, "to version 3") != NULL);
	err_clear(&e);
	CHECK(sqlite3_exec(db,
			   "CREATE TEMP TABLE x AS SELECT 1 / (count(*) = 1)"
			   " AS ok FROM t; DELETE FROM x WHERE ok IS NULL;",
			   NULL, NULL, NULL) == SQLITE_OK);
	CHECK(sqlite3_changes(db) == 0);
	CHECK(migrate(db, file, good, 1, &e) == -ENOTSUP);
	sqlite3_close(db);
}

static int see_gone(void *arg, const char *sha256, uint64_t size)
{
	struct seen *s = arg;

	(void)size;
	s->n++;
	note(s, sha256);
	note(s, ",");
	return 0;
}

static int put_version(struct registry *r, const char *name, uint64_t version,
		       const char *sha, uint64_t forget, struct seen *s)
{
	struct drive_row row = { .project = "p",
				 .version = version,
				 .removed = *sha == '\0',
				 .size = 10 };
	struct err e = { 0 };

	snprintf(row.path, sizeof(row.path), "%s", name);
	snprintf(row.sha256, sizeof(row.sha256), "%s", sha);
	return registry_drive_add(r, &row, forget, see_gone, s, &e);
}

static void test_drive(void)
{
	struct drive_range all = { "p", "", "", false },
			   below = { "p", "a/", "", false };
	struct registry r;
	struct err e = { 0 };
	struct seen s = { 0 };
	struct drive_row row;
	uint64_t bytes = 0, rows = 0;

	CHECK(registry_open(&r, ":memory:", &e) == 0);
	CHECK(put_version(&r, "a/x", 1, "s1", 0, &s) == 0);
	CHECK(put_version(&r, "a/x", 1, "s1", 0, &s) == -EEXIST);
	CHECK(put_version(&r, "a/x", 2, "s2", 0, &s) == 0);
	CHECK(put_version(&r, "b", 1, "s2", 0, &s) == 0);
	CHECK(registry_drive_usage(&r, "p", &bytes, &rows, &e) == 0);
	CHECK(bytes == 20 && rows == 3);
	CHECK(registry_drive_get(&r, "p", "a/x", 0, &row, &e) == 1);
	CHECK(row.version == 2);
	CHECK_STR(row.sha256, "s2");
	CHECK(registry_drive_get(&r, "p", "a/x", 1, &row, &e) == 1);
	CHECK(registry_drive_get(&r, "q", "a/x", 1, &row, &e) == 0);
	CHECK(put_version(&r, "a/x", 3, "", 1, &s) == 0);
	CHECK_STR(s.names, "s1,");
	CHECK(registry_drive_refers(&r, "p", "s1", &e) == 0);
	CHECK(registry_drive_refers(&r, "p", "s2", &e) == 1);
	CHECK(registry_drive_next(&r, &all, &row, &e) == 1);
	CHECK_STR(row.path, "b");
	all.from = "b\x01";
	CHECK(registry_drive_next(&r, &all, &row, &e) == 0);
	CHECK(registry_drive_next(&r, &below, &row, &e) == 0);
	below.removed = true;
	CHECK(registry_drive_next(&r, &below, &row, &e) == 1 && row.removed);
	CHECK(registry_drive_forget(&r, &row, see_gone, &s, &e) == 0);
	CHECK_STR(s.names, "s1,s2,");
	CHECK(registry_drive_refers(&r, "p", "s2", &e) == 1);
	CHECK(registry_drive_next(&r, &below, &row, &e) == 0);
	registry_close(&r);
}

static int see_template(void *arg, const struct template_row *row)
{
	struct seen *s = arg;

	note(s, row->name);
	note(s, row->tags);
	return 0;
}

static int see_build(void *arg, const struct build_row *row)
{
	struct seen *s = arg;

	note(s, row->id);
	note(s, row->state);
	return 0;
}

static int see_step(void *arg, const struct step_row *row)
{
	note(arg, row->key);
	return 0;
}

static void test_templates(void)
{
	struct template_row t = { .id = "t1",
				  .project = "p",
				  .name = "app",
				  .tags = "{}",
				  .created_ms = 1 };
	struct build_row b = { .id = "b1",
			       .template_id = "t1",
			       .state = "waiting",
			       .snapshot = "",
			       .about = "{}",
			       .created_ms = 1 };
	struct step_row step = { .project = "p",
				 .key = "k1",
				 .snapshot = "s",
				 .about = "{}",
				 .used_ms = 5 };
	struct seen s = { 0 };
	struct err e = { 0 };
	struct registry r;

	CHECK(registry_open(&r, ":memory:", &e) == 0);
	CHECK(registry_template_put(&r, &t, &e) == 0);
	t.tags = "{1}";
	CHECK(registry_template_put(&r, &t, &e) == 0);
	t.id = "t2"; /* the name is taken in its project */
	CHECK(registry_template_put(&r, &t, &e) == -EEXIST);
	err_clear(&e);
	t.project = "q";
	CHECK(registry_template_put(&r, &t, &e) == 0);
	CHECK(registry_template_remove(&r, "t2", &e) == 0);
	CHECK(registry_template_each(&r, see_template, &s, &e) == 0);
	CHECK(registry_build_put(&r, &b, &e) == 0);
	b.state = "ready";
	CHECK(registry_build_put(&r, &b, &e) == 0);
	b.id = "b2";
	CHECK(registry_build_put(&r, &b, &e) == 0);
	CHECK(registry_build_remove(&r, "b2", &e) == 0);
	CHECK(registry_build_each(&r, see_build, &s, &e) == 0);
	CHECK(registry_step_put(&r, &step, &e) == 0);
	step.key = "k2";
	step.used_ms = 3;
	CHECK(registry_step_put(&r, &step, &e) == 0);
	CHECK(registry_step_each(&r, see_step, &s, &e) == 0);
	CHECK(registry_step_remove(&r, "p", "k1", &e) == 0);
	CHECK(registry_step_each(&r, see_step, &s, &e) == 0);
	CHECK_STR(s.names, "app{1}b1readyk2k1k2");
	registry_close(&r);
}

static int count_stray(void *arg, const struct stray_row *row)
{
	unsigned *n = arg;

	CHECK_STR(row->kind, "image");
	CHECK(row->since_ms == 5 && row->hours == 1);
	++*n;
	return 0;
}

/* A backup may be restored to a host with another pool. */
static void copy_has_no_pool(struct registry *r)
{
	struct pool_row row;
	char copy[200];
	struct registry c;
	struct err e = { 0 };
	unsigned n = 0;
	bool empty;

	snprintf(copy, sizeof(copy), "%s.copy", path);
	CHECK(registry_copy(r, copy, &e) == 0);
	CHECK(registry_open(&c, copy, &e) == 0);
	CHECK(registry_pool_get(&c, &row, &empty, &e) == 0);
	CHECK(*row.id == '\0');
	CHECK(registry_stray_each(&c, count_stray, &n, &e) == 0 && n == 0);
	registry_close(&c);
	unlink(copy);
}

static void test_pool(void)
{
	struct pool_row row;
	struct err e = { 0 };
	struct registry r;
	unsigned n = 0;
	bool empty;

	unlink(path);
	CHECK(registry_open(&r, path, &e) == 0);
	CHECK(registry_pool_get(&r, &row, &empty, &e) == 0);
	CHECK(empty && *row.id == '\0' && row.generation == 0);
	row = (struct pool_row){ .id = "ab", .generation = 3, .confirmed = 2 };
	CHECK(registry_pool_put(&r, &row, true, &e) == 0);
	row.generation = 4;
	CHECK(registry_pool_put(&r, &row, false, &e) == 0);
	CHECK(registry_stray_add(
		      &r,
		      &(struct stray_row){ .kind = "image", .id = "i", 5, 0 },
		      &e) == 0);
	CHECK(registry_strays_age(&r, &e) == 0);
	copy_has_no_pool(&r);
	/* An existing row does not change. */
	CHECK(registry_stray_add(
		      &r,
		      &(struct stray_row){ .kind = "image", .id = "i", 9, 0 },
		      &e) == 0);
	CHECK(registry_stray_each(&r, count_stray, &n, &e) == 0);
	CHECK(n == 1);
	CHECK(registry_stray_remove(&r, "image", "i", &e) == 0);
	CHECK(registry_stray_each(&r, count_stray, &n, &e) == 0);
	CHECK(n == 1);
	CHECK(registry_image_put(&r,
				 &(struct image_row){ .name = "a",
						      .id = "b",
						      .config = "",
						      .cache = "" },
				 &e) == 0);
	CHECK(registry_pool_get(&r, &row, &empty, &e) == 0);
	CHECK(!empty && row.generation == 4 && row.confirmed == 2);
	CHECK_STR(row.id, "ab");
	registry_close(&r);
	unlink(path);
}

int main(void)
{
	char cmd[80];

	if (!mkdtemp(dir))
		return 1;
	snprintf(path, sizeof(path), "%s/registry.db", dir);
	test_sandboxes();
	test_durable();
	test_parent();
	test_snapshots();
	test_images();
	test_keys();
	test_ended();
	test_transactions();
	test_usage();
	test_replays();
	test_drive();
	test_templates();
	test_from_v1();
	test_crash();
	test_wal_shrinks_after_a_checkpoint();
	test_usage_of_a_family();
	test_egress_sums_do_not_grow_with_usage();
	test_speed();
	test_pool();
	test_newer();
	test_migrate();
	snprintf(cmd, sizeof(cmd), "%s/m.db", dir);
	unlink(cmd);
	snprintf(cmd, sizeof(cmd), "%s/m.db.v1", dir);
	unlink(cmd);
	snprintf(cmd, sizeof(cmd), "%s/m.db.v2", dir);
	unlink(cmd);
	unlink(path);
	CHECK(rmdir(dir) == 0);
	return CHECK_DONE();
}
