/*
 * The registry on a real file: rows survive a process that ends without
 * closing, names are unique among the living, migrations go forward only.
 */
#include "registry/registry.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "check.h"
#include "registry/migrate.h"

static char dir[] = "/tmp/registry_test.XXXXXX";
static char path[64];

static struct sandbox_row box(const char *id, const char *name)
{
	return (struct sandbox_row){
		.id = id,
		.name = name,
		.image_id = "iaaaaaaaaaaaaaaaaaaaaaaaaaa",
		.image = "debian",
		.spec = "{\"cpus\": 2}",
		.created_ms = 1700000000123,
		.boot_id = "b",
		.deadline_boot_ms = 5,
		.deadline_wall_ms = 1700000009000,
	};
}

struct seen {
	int n, stop_at;
	char names[64], spec[64];
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

	/* The name is free again once its owner is gone. */
	CHECK(registry_sandbox_remove(&r, "a", &e) == 0);
	CHECK(registry_sandbox_add(&r, &c, &e) == 0);
	CHECK(registry_sandbox_clear(&r, &e) == 0);
	seen = (struct seen){ 0 };
	CHECK(registry_sandbox_each(&r, see_box, &seen, &e) == 0);
	CHECK(seen.n == 0);
	registry_close(&r);
}

static void test_images(void)
{
	struct image_row one = { "debian", "i1", 10, 2, 3 },
			 two = { "debian", "i2", 11, 4, 5 },
			 other = { "zoo", "i2", 1, 1, 1 };
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
	CHECK(registry_sandbox_clear(&r, &e) == 0);
	CHECK(r.wal_pages > 0);
	CHECK(registry_checkpoint(&r, &e) == 0);
	CHECK(r.wal_pages == 0);
	registry_close(&r);
}

static void test_speed(void)
{
	enum { ROWS = 1000, WANT_US = 100 };
	struct registry r;
	struct err e = { 0 };
	uint64_t t;
	int i, bad = 0;

	CHECK(registry_open(&r, path, &e) == 0);
	t = clock_boot_us();
	for (i = 0; i < ROWS; i++) {
		char id[16];
		struct sandbox_row a;

		snprintf(id, sizeof(id), "s%d", i);
		a = box(id, id);
		bad += registry_sandbox_add(&r, &a, &e) < 0;
	}
	t = clock_boot_us() - t;
	printf("# %llu us per row\n", (unsigned long long)t / ROWS);
	CHECK(bad == 0);
	/* Sanitizers and a busy machine are allowed ten times that. */
	CHECK(t / ROWS < 10 * WANT_US);
	CHECK(registry_sandbox_clear(&r, &e) == 0);
	registry_close(&r);
}

static void test_newer(void)
{
	struct registry r;
	struct err e = { 0 };
	sqlite3 *db;

	CHECK(sqlite3_open(path, &db) == SQLITE_OK);
	CHECK(sqlite3_exec(db, "PRAGMA user_version = 99", NULL, NULL, NULL) ==
	      SQLITE_OK);
	sqlite3_close(db);
	CHECK(registry_open(&r, path, &e) == -ENOTSUP);
	CHECK(strstr(e.msg, "version 99") != NULL);
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

int main(void)
{
	char cmd[80];

	if (!mkdtemp(dir))
		return 1;
	snprintf(path, sizeof(path), "%s/registry.db", dir);
	test_sandboxes();
	test_images();
	test_crash();
	test_speed();
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
