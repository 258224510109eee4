/*
 * Archives for COPY. A client asks where it may send one, and sends it to an
 * address that is signed: who has it needs no key. The bytes are in a file
 * without a name, looked at by nobody here: they are unpacked inside.
 */
#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "api/api.h"
#include "api/e2b/build.h"
#include "api/e2b/e2b.h"
#include "api/reply.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/fd.h"
#include "http/target.h"

enum { TEMP_CAP = 64, DISK_RESERVE = 64 * 1024 * 1024 };

/* --- those there are --- */

bool build_hash_valid(const char *s)
{
	return strlen(s) == BUILD_HASH_CAP - 1 &&
	       strspn(s, "0123456789abcdef") == BUILD_HASH_CAP - 1;
}

static void file_free(struct deferred *d)
{
	free(container_of(d, struct build_file, gone));
}

static void file_drop(struct api *a, struct build_file *f)
{
	list_del(&f->node);
	a->templates.n_files--;
	a->templates.file_bytes -= f->bytes;
	close(f->fd);
	loop_defer(&a->loop, &f->gone, file_free);
}

static void on_late(struct timer *t);

static void expire(struct api *a)
{
	uint64_t now = clock_boot_ms(), next_ms = UINT64_MAX;
	struct list *n, *next;

	list_each (n, next, &a->templates.files) {
		struct build_file *f = container_of(n, struct build_file, node);

		if (f->until_ms <= now)
			file_drop(a, f);
		else if (f->until_ms < next_ms)
			next_ms = f->until_ms;
	}
	if (next_ms != UINT64_MAX)
		timer_set(&a->loop, &a->templates.files_late, next_ms - now,
			  on_late);
}

static void on_late(struct timer *t)
{
	expire(container_of(t, struct api, templates.files_late));
}

static uint64_t life(void)
{
	return clock_boot_ms() + BUILD_FILE_LIFE_S * 1000ULL;
}

struct build_file *build_file_find(struct api *a, const char *project,
				   const char *hash)
{
	struct list *n, *next;

	list_each (n, next, &a->templates.files) {
		struct build_file *f = container_of(n, struct build_file, node);

		if (strcmp(f->hash, hash) == 0 &&
		    strcmp(f->project, project) == 0) {
			f->until_ms = life();
			return f;
		}
	}
	return NULL;
}

/* The oldest go before a new one. */
static int make_room(struct api *a, uint64_t bytes, struct err *e)
{
	struct templates *t = &a->templates;

	while (t->file_bytes + bytes > BUILD_FILES_BYTES ||
	       t->n_files >= BUILD_FILES_MAX) {
		if (list_empty(&t->files))
			return err_set(e, ENOSPC, "no room for the archive");
		file_drop(a,
			  container_of(t->files.next, struct build_file, node));
	}
	return 0;
}

/* --- who may --- */

void build_file_sign(const struct api *a, const char *template_id,
		     const char *hash, uint64_t until_s,
		     char out[BUILD_SIGN_CAP])
{
	char text[256];

	snprintf(text, sizeof(text), "%s %s %llu", template_id, hash,
		 (unsigned long long)until_s);
	port_sign(a, "template file 1", text, out);
}

static int check_sign(struct api *a, struct http_conn *c,
		      const struct call *call, struct err *e)
{
	char until[24], sign[BUILD_SIGN_CAP + 1], want[BUILD_SIGN_CAP];
	const struct http_head *h = http_request(c);
	uint64_t until_s = 0;

	if (!id_valid(call->arg[0]) || !build_hash_valid(call->arg[1]) ||
	    http_query(h, "until", until, sizeof(until)) != 1 ||
	    http_query(h, "signature", sign, sizeof(sign)) != 1 ||
	    parse_u64(until, UINT32_MAX * 16ULL, &until_s) < 0)
		return err_set(e, EPERM, "this address is not complete");
	build_file_sign(a, call->arg[0], call->arg[1], until_s, want);
	if (strlen(sign) != strlen(want) ||
	    CRYPTO_memcmp(sign, want, strlen(want)) != 0)
		return err_set(e, EPERM, "this address was not made here");
	if (clock_wall_ms() / 1000 >= until_s)
		return err_set(e, EPERM,
			       "the time of this address is over: ask for "
			       "another");
	return 0;
}

/* --- one on its way --- */

struct file_put {
	struct api *api;
	struct http_conn *conn;
	char project[NAME_CAP];
	char hash[BUILD_HASH_CAP];
	int fd;
	uint64_t at;
	struct share *place;
	struct deferred gone;
};

static void put_free(struct deferred *d)
{
	struct file_put *p = container_of(d, struct file_put, gone);

	if (p->fd >= 0)
		close(p->fd);
	free(p);
}

static void put_end(struct file_put *p)
{
	share_give(p->place, 1);
	p->api->templates.put_bytes -= p->at;
	loop_defer(&p->api->loop, &p->gone, put_free);
}

static void put_gone(struct http_conn *c, void *owner)
{
	(void)c;
	put_end(owner);
}

static size_t put_data(struct http_conn *c, const char *p, size_t n,
		       void *owner)
{
	struct file_put *u = owner;
	struct err e = { 0 };
	int r = u->at + n > BUILD_FILE_BYTES ? -E2BIG : 0;

	if (r == 0 && u->api->templates.put_bytes + n > BUILD_FILES_BYTES)
		r = -ENOSPC;
	if (r == 0)
		r = write_full(u->fd, p, n);

	if (r == -E2BIG)
		err_set(&e, E2BIG, "an archive has at most %llu MiB",
			BUILD_FILE_BYTES >> 20);
	else if (r < 0)
		err_set(&e, -r, "write the archive: %s", strerror(-r));
	if (r >= 0) {
		u->at += n;
		u->api->templates.put_bytes += n;
		return n;
	}
	e2b_fail_err(u->api, c, &e);
	put_end(u);
	return n;
}

static void put_whole(struct http_conn *c, void *owner)
{
	struct file_put *u = owner;
	struct build_file *f = build_file_find(u->api, u->project, u->hash);
	struct err e = { 0 };

	if (f)
		file_drop(u->api, f);
	if (make_room(u->api, u->at, &e) < 0) {
		e2b_fail_err(u->api, c, &e);
		put_end(u);
		return;
	}
	f = xcalloc(1, sizeof(*f));
	memcpy(f->project, u->project, sizeof(f->project));
	memcpy(f->hash, u->hash, sizeof(f->hash));
	f->fd = take_fd(&u->fd);
	f->bytes = u->at;
	f->until_ms = life();
	list_add(&u->api->templates.files, &f->node);
	u->api->templates.n_files++;
	u->api->templates.file_bytes += f->bytes;
	expire(u->api);
	reply_empty(u->api, c, 200);
	put_end(u);
}

/* The disk of the registry is not for strangers to fill. */
static int check_disk(struct api *a, uint64_t more, struct err *e)
{
	struct statfs fs;

	if (fstatfs(a->blobs.dir_fd, &fs) < 0)
		return err_sys(e, "look at the disk of %s", a->conf.state_dir);
	if ((uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize > more + DISK_RESERVE)
		return 0;
	return err_set(e, ENOSPC, "the disk of %s is nearly full",
		       a->conf.state_dir);
}

static int open_temp(struct api *a, struct err *e)
{
	char name[TEMP_CAP];
	AUTO_CLOSE int fd = -1;
	char id[ID_CAP];

	if (id_make(id) < 0)
		return err_set(e, EIO, "no random numbers");
	snprintf(name, sizeof(name), "archive-%s", id);
	fd = openat(a->blobs.dir_fd, name,
		    O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return err_sys(e, "create a file for the archive");
	if (unlinkat(a->blobs.dir_fd, name, 0) < 0)
		return err_sys(e, "unlink the file for the archive");
	return take_fd(&fd);
}

void h_build_file_put(struct api *a, struct http_conn *c,
		      const struct call *call)
{
	const struct identity all = { .scope = SCOPE_ADMIN };
	const struct http_head *h = http_request(c);
	const struct template *t = NULL;
	struct err e = { 0 };
	struct share *place = NULL;
	struct file_put *u;
	int fd = -1;

	if (check_sign(a, c, call, &e) == 0)
		t = template_find(a, &all, call->arg[0], &e);
	if (t && h->body == HTTP_LENGTH && h->length > BUILD_FILE_BYTES)
		err_set(&e, E2BIG, "an archive has at most %llu MiB",
			BUILD_FILE_BYTES >> 20);
	if (t && e.code == 0)
		place = share_take(&a->pools.archives, t->project, 1, &e);
	if (place &&
	    check_disk(a, h->body == HTTP_LENGTH ? h->length : 0, &e) == 0)
		fd = open_temp(a, &e);
	if (fd < 0) {
		share_give(place, 1);
		e2b_fail_err(a, c, &e);
		return;
	}
	u = xcalloc(1, sizeof(*u));
	u->api = a;
	u->conn = c;
	memcpy(u->project, t->project, sizeof(u->project));
	memcpy(u->hash, call->arg[1], BUILD_HASH_CAP);
	u->fd = fd;
	u->place = place;
	http_own(c, u, put_gone);
	http_stream_body(c, put_data, put_whole);
}
