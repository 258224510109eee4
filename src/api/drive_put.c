/*
 * Bytes on their way into the drive:
 *
 *	a file without a row -> all of it on disk -> renamed to its SHA-256
 *	-> the directory on disk -> the row on disk -> the log on disk
 *
 * A crash in front of the row leaves a content that nothing refers to, which
 * the next start removes; behind it the file is there. What the put found at
 * its start may have changed meanwhile, so the condition is looked at again
 * when the row is written: there is one thread, so nobody comes in between.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "api/api.h"
#include "api/drive.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/fd.h"

enum {
	FLUSH_STEP = 4 << 20, /* the disk starts before all is there */
	RESERVE = 1 << 30,    /* of the file system: not for the drive... */
	RESERVE_PART = 20,    /* ...or that part of it, if that is less */
};

/* --- may it? --- */

static int check_condition(const struct drive_put *p, struct drive_row *last,
			   struct err *e)
{
	int r = registry_drive_get(&p->api->registry, p->project, p->path, 0,
				   last, e);
	uint64_t now = r > 0 ? last->version : 0;
	bool there = r > 0 && !last->removed;

	if (r < 0)
		return r;
	last->version = now;
	if ((p->condition == DRIVE_VERSION && p->version != now) ||
	    (p->condition == DRIVE_SOME && !there))
		return err_set(e, ERR_VERSION,
			       "%.150s has version %llu%s: look at it again",
			       p->path, (unsigned long long)now,
			       there ? "" : " (there is no file)");
	if (p->condition == DRIVE_NONE && there)
		return err_set(e, ERR_VERSION,
			       "%.150s is there already, with version %llu",
			       p->path, (unsigned long long)now);
	return 0;
}

static int check_share(const struct drive_put *p, uint64_t more, struct err *e)
{
	const struct drive_share *sh = drive_share(p->api, p->project, e);
	uint64_t max = p->api->conf.drive_bytes;
	char text[SIZE_TEXT];

	if (!sh)
		return -e->code;
	if (sh->bytes + sh->coming <= max &&
	    more <= max - sh->bytes - sh->coming)
		return 0;
	size_text(max, text);
	return err_set(e, ENOSPC,
		       "the drive of project %s is full (%s): purge files, or "
		       "set drive_size higher",
		       p->project, text);
}

/* The registry and the log live on the same file system, perhaps. */
static int check_disk(const struct drive_put *p, struct err *e)
{
	struct statfs fs;
	uint64_t left, reserve;

	if (fstatfs(p->api->drive.dir_fd, &fs) < 0)
		return err_sys(e, "look at the disk of the drive");
	left = (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize;
	reserve = (uint64_t)fs.f_blocks * (uint64_t)fs.f_bsize / RESERVE_PART;
	if (reserve > RESERVE)
		reserve = RESERVE;
	if (left >= reserve)
		return 0;
	return err_set(e, ENOSPC, "the disk of %s is nearly full",
		       p->api->conf.state_dir);
}

static int open_temp(struct drive_put *p, struct err *e)
{
	unsigned char random[8];
	unsigned i;

	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return err_sys(e, "random bytes");
	snprintf(p->temp, sizeof(p->temp), "new-");
	for (i = 0; i < sizeof(random); i++)
		snprintf(p->temp + 4 + 2 * i, 3, "%02x", random[i]);
	p->fd = openat(p->api->drive.dir_fd, p->temp,
		       O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
		       0600);
	if (p->fd >= 0)
		return 0;
	p->temp[0] = '\0';
	return err_sys(e, "create a file of the drive");
}

static int begin(struct drive_put *p, uint64_t size, struct err *e)
{
	struct drive_row last;

	p->place = share_take(&p->api->pools.drive_puts, p->project, 1, e);
	if (!p->place)
		return -e->code;
	if (drive_path_check(p->path, false, e) < 0 ||
	    check_condition(p, &last, e) < 0 || check_share(p, size, e) < 0 ||
	    project_disk_check(p->api, p->project, e) < 0 ||
	    check_disk(p, e) < 0)
		return -e->code;
	return open_temp(p, e);
}

/* --- its life --- */

static void free_put(struct deferred *d)
{
	free(container_of(d, struct drive_put, gone));
}

static void put_free(struct drive_put *p)
{
	struct drive *d = &p->api->drive;
	struct err e = { 0 };
	struct drive_share *sh = drive_share(p->api, p->project, &e);

	if (sh)
		sh->coming -= p->size;
	auto_close(&p->fd);
	if (*p->temp)
		unlinkat(d->dir_fd, p->temp, 0);
	list_del(&p->node);
	share_give(p->place, 1);
	/* Its bytes have a name, and perhaps no row. */
	if (p->stored)
		drive_object_drop(p->api, p->project, p->sha_text, 0);
	loop_defer(&p->api->loop, &p->gone, free_put);
}

static void put_over(struct drive_put *p, const struct err *e)
{
	if (p->done)
		p->done(p, e->code ? NULL : &p->row, e);
	put_free(p);
}

struct drive_put *drive_put_new(struct api *a, const struct drive_put *want,
				uint64_t size, struct err *e)
{
	struct drive_put *p = xcalloc(1, sizeof(*p));

	*p = *want;
	p->api = a;
	p->fd = -1;
	sha256_init(&p->sha);
	list_add(&a->drive.puts, &p->node);
	if (begin(p, size, e) == 0)
		return p;
	put_free(p);
	return NULL;
}

int drive_put_add(struct drive_put *p, const void *data, size_t n,
		  struct err *e)
{
	struct drive_share *sh = drive_share(p->api, p->project, e);
	int r;

	if (!sh || check_share(p, n, e) < 0)
		return -e->code;
	r = write_full(p->fd, data, n);
	if (r < 0)
		return err_set(e, -r, "write to the drive: %s", strerror(-r));
	sha256_add(&p->sha, data, n);
	p->size += n;
	sh->coming += n;
	if (p->size - p->started < FLUSH_STEP)
		return 0;
	/* Only so that the disk has less to do at the end. */
	(void)sync_file_range(p->fd, (off64_t)p->started,
			      (off64_t)(p->size - p->started),
			      SYNC_FILE_RANGE_WRITE);
	p->started = p->size;
	return check_disk(p, e);
}

void drive_put_give_up(struct drive_put *p)
{
	if (!p)
		return;
	p->done = NULL;
	/* Otherwise the end is near, and the row perhaps written. */
	if (!p->sync.busy && !p->wait.busy)
		put_free(p);
}

/* --- its end --- */

static void on_logged(struct audit_wait *w, const struct err *e)
{
	put_over(container_of(w, struct drive_put, wait), e);
}

static void write_log(struct drive_put *p)
{
	const struct audit entry = {
		.type = "drive.put",
		.box = *p->by.sandbox ? box_by_id(p->api, p->by.sandbox) : NULL,
		.who = &p->by.who,
		.request_id = *p->by.request ? p->by.request : NULL,
		.data = json_pack("{s:s, s:s, s:I, s:I, s:s}", "project",
				  p->project, "path", p->path, "version",
				  (json_int_t)p->row.version, "size",
				  (json_int_t)p->size, "sha256", p->sha_text),
	};

	audit_add_durable(p->api, &entry, &p->wait, on_logged);
}

static int write_row(struct drive_put *p, struct err *e)
{
	struct drive_share *sh = drive_share(p->api, p->project, e);
	int known, r;

	if (!sh || check_condition(p, &p->row, e) < 0)
		return -e->code;
	known = registry_drive_refers(&p->api->registry, p->project,
				      p->sha_text, e);
	if (known < 0)
		return known;
	p->row = (struct drive_row){ .version = p->row.version + 1,
				     .size = p->size,
				     .created_ms = clock_wall_ms() };
	memcpy(p->row.project, p->project, sizeof(p->row.project));
	memcpy(p->row.path, p->path, sizeof(p->row.path));
	memcpy(p->row.sha256, p->sha_text, sizeof(p->row.sha256));
	snprintf(p->row.who, sizeof(p->row.who), "%s", p->by.who.name);
	snprintf(p->row.sandbox, sizeof(p->row.sandbox), "%s", p->by.sandbox);
	r = drive_row_add(p->api, &p->row, e);
	if (r == 0 && !known)
		sh->bytes += p->size;
	return r;
}

static void on_named(struct disk_sync *s, int result)
{
	struct drive_put *p = container_of(s, struct drive_put, sync);
	struct err e = { 0 };

	if (result < 0)
		err_set(&e, -result, "write the drive to disk: %s",
			strerror(-result));
	else if (p->done && write_row(p, &e) == 0) {
		write_log(p);
		return;
	}
	put_over(p, &e);
}

static void on_disk(struct disk_sync *s, int result)
{
	struct drive_put *p = container_of(s, struct drive_put, sync);
	struct drive *d = &p->api->drive;
	char name[DRIVE_NAME];
	struct err e = { 0 };

	drive_object_name(p->project, p->sha_text, name);
	if (result < 0)
		err_set(&e, -result, "write the drive to disk: %s",
			strerror(-result));
	/* The same bytes are there already, perhaps: as good. */
	else if (renameat(d->dir_fd, p->temp, d->dir_fd, name) < 0)
		err_sys(&e, "name a file of the drive");
	if (e.code || !p->done) {
		put_over(p, &e);
		return;
	}
	p->temp[0] = '\0';
	p->stored = true;
	disk_sync(&p->api->disk_syncs, &p->sync, d->dir_fd, on_named);
}

void drive_put_end(struct drive_put *p,
		   void (*done)(struct drive_put *p,
				const struct drive_row *row,
				const struct err *e))
{
	uint8_t sha[SHA256_LEN];
	int i;

	sha256_end(&p->sha, sha);
	for (i = 0; i < SHA256_LEN; i++)
		snprintf(p->sha_text + (size_t)2 * (size_t)i, 3, "%02x",
			 sha[i]);
	p->done = done;
	disk_sync(&p->api->disk_syncs, &p->sync, p->fd, on_disk);
}
