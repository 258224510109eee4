/*
 * The warden's validation of requests: whatever bytes a peer sends, handlers
 * see nothing that breaks the rules of wire/warden.h. The input is a series of
 * requests of the real size on one connection; the handlers behind the table
 * are replaced by checks. Includes the files to reach what is static in them.
 */
#include "store/store.h"

/* The pool is not what is tested; what is told of it is. */
static int fake_status(struct store *s, struct store_status *st, struct err *e);
static int fake_identity(struct store *s, char id[STORE_ID_CAP],
			 uint64_t *generation, struct err *e);
static int check_identity(const char *id);
#define store_status(...) fake_status(__VA_ARGS__)
#define store_identity_read(...) fake_identity(__VA_ARGS__)
#define store_identity_write(s, id, ...) check_identity(id)
#define store_has_contents(s) true
#include "../../src/warden/serve.c"
#undef store_status

#include "../../src/warden/import.c"
#include "../../src/warden/lists.c"

/* Names that two files have. */
#define say_failed view_say_failed
#define let_go view_let_go
#include "../../src/warden/view.c"
#undef say_failed
#undef let_go

#include <assert.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { SAYS_HELLO = 1, OTHER_VERSION = 2 }; /* the first byte of an input */

/* A new request has its checks here, and a file in the corpus. */
_Static_assert(WARDEN_OPS == 28, "an op that nobody checks");

static struct warden w;
static struct box one; /* the sandbox that there is */
static unsigned answers;
static unsigned op;           /* of the request... */
static const char *asked_for; /* ...and the id in it */

static void check_id(const char *id)
{
	assert(memchr(id, '\0', ID_CAP) == id + ID_LEN && id_valid(id));
}

/* Where one is mounted: no way up, nothing empty, an end. */
static void check_volumes(const struct launch_volume v[LAUNCH_VOLUMES_MAX])
{
	size_t i;

	for (i = 0; i < LAUNCH_VOLUMES_MAX && v[i].id[0]; i++) {
		const char *p = v[i].path;

		check_id(v[i].id);
		assert(memchr(p, '\0', LAUNCH_PATH_CAP));
		assert(p[0] == '/' && p[1] != '\0' && v[i].read_only <= 1);
		assert(!strstr(p, "//") && !strstr(p, "/../") &&
		       !strstr(p, "/./"));
		assert(strncmp(p, "/proc/", 6) != 0 && strcmp(p, "/dev") != 0);
	}
	for (; i < LAUNCH_VOLUMES_MAX; i++)
		assert(v[i].id[0] == '\0');
}

/* --- what the table leads to --- */

/* Half of all ids are those of a sandbox; what one uses is not asked here. */
struct box *box_find(struct warden *wd, const char *id)
{
	(void)wd;
	check_id(id);
	asked_for = id;
	return id[1] < 'n' && op != WARDEN_STAT ? &one : NULL;
}

static void done_with(const struct box *b, const char *id, struct waiter *wt)
{
	struct err none = { 0 };

	assert(b == &one && id == asked_for);
	answer(wt, &none);
}

void box_launch(struct warden *wd, const struct launch_spec *s,
		struct waiter *wt)
{
	struct err none = { 0 };

	(void)wd;
	check_id(s->id);
	check_id(s->image);
	if (s->from[0])
		check_id(s->from);
	check_volumes(s->volumes);
	assert(memchr(s->hostname, '\0', NAME_CAP) && name_valid(s->hostname));
	assert((s->flags & ~(uint32_t)LAUNCH_FLAGS_ALL) == 0);
	assert(s->pids >= 8 && s->pids <= 65536);
	assert(s->nofile <= 65536);
	assert(s->cpus_milli >= 50 && s->cpus_milli <= 1000000);
	assert(s->mem_bytes >= 16 << 20 && s->mem_bytes <= 1ULL << 46);
	assert(s->disk_bytes >= 16 << 20 && s->disk_bytes <= 1ULL << 50);
	answer(wt, &none);
}

void box_end(struct box *b, struct waiter *wt)
{
	if (wt)
		done_with(b, asked_for, wt);
	else
		assert(b == &one && op == WARDEN_GIVE_UP);
}

void box_snapshot(struct box *b, const struct snapshot_spec *s,
		  struct waiter *wt)
{
	check_id(s->id);
	check_id(s->snap);
	assert((s->flags & ~(uint32_t)SNAPSHOT_FLAGS_ALL) == 0);
	assert(s->copies <= SNAPSHOT_COPIES_MAX);
	done_with(b, s->id, wt);
}

void box_pause(struct box *b, bool on, bool user, struct waiter *wt)
{
	(void)on;
	(void)user;
	done_with(b, asked_for, wt);
}

void box_resize(struct warden *wd, const struct resize_spec *to,
		struct waiter *wt)
{
	struct err none = { 0 };

	(void)wd;
	check_id(to->id);
	assert(to->pids >= 8 && to->pids <= 65536);
	assert(to->cpus_milli >= 50 && to->cpus_milli <= 1000000);
	assert(to->mem_bytes >= 16 << 20 && to->mem_bytes <= 1ULL << 46);
	answer(wt, &none);
}

void pauses_orphan(struct warden *wd, const struct conn *owner)
{
	(void)wd;
	(void)owner;
}

void snapshot_remove(struct warden *wd, const char *id, struct waiter *wt)
{
	struct err none = { 0 };

	(void)wd;
	check_id(id);
	answer(wt, &none);
}

int snapshot_next(struct warden *wd, const char *after, char id[ID_CAP])
{
	(void)wd;
	if (*after != '\0')
		check_id(after);
	memset(id, 0, ID_CAP);
	return -ENOENT;
}

void boxes_hear(struct warden *wd)
{
	(void)wd;
}

void box_connect(struct box *b, const struct connect_spec *s, struct waiter *wt)
{
	check_id(s->id);
	assert(s->port != 0 && (s->flags & ~CONNECT_FLAGS_ALL) == 0);
	done_with(b, s->id, wt);
}

void box_door(struct box *b, uint32_t flags, struct waiter *wt)
{
	assert((flags & ~(uint32_t)DOOR_FLAGS_ALL) == 0);
	done_with(b, asked_for, wt);
}

bool box_uses_image(const struct warden *wd, const char *image)
{
	(void)wd;
	check_id(image);
	return true;
}

bool vm_base_uses_image(const struct warden *wd, const char *image)
{
	(void)wd;
	check_id(image);
	return true;
}

int snapshot_hold(struct warden *wd, const char *id, struct err *e)
{
	(void)wd;
	check_id(id);
	return err_set(e, ENOENT, "no");
}

void snapshot_release(struct warden *wd, const char *id)
{
	(void)wd;
	(void)id;
	abort();
}

int worker_start(struct worker *k, const struct worker_spec *s, int out[2],
		 struct err *e)
{
	(void)k;
	(void)s;
	(void)out;
	return err_set(e, EAGAIN, "no");
}

void worker_stop(struct worker *k)
{
	(void)k;
	abort();
}

int job_start(struct job *j, struct err *e)
{
	(void)j;
	return err_set(e, EAGAIN, "no");
}

int fetch_start(struct warden *wd, const struct conn *owner, int fds[2],
		struct err *e)
{
	(void)wd;
	(void)owner;
	(void)fds;
	return err_set(e, EAGAIN, "no");
}

void fetches_orphan(struct warden *wd, const struct conn *owner)
{
	(void)wd;
	(void)owner;
}

void volume_new(struct warden *wd, const struct volume_spec *s,
		struct waiter *wt)
{
	struct err none = { 0 };

	(void)wd;
	check_id(s->id);
	assert(s->bytes >= 16 << 20 && s->bytes <= 1ULL << 50);
	answer(wt, &none);
}

void volume_remove(struct warden *wd, const char *id, struct waiter *wt)
{
	struct err none = { 0 };

	(void)wd;
	check_id(id);
	answer(wt, &none);
}

void vms_tell(const struct warden *wd, struct host_info *h)
{
	(void)wd;
	h->flags |= HOST_DISK_LIMIT;
}

static int fake_status(struct store *s, struct store_status *st, struct err *e)
{
	static bool fails;

	fails = !fails;
	if (fails)
		return err_set(e, EIO, "no pool");
	(void)s;
	*st = (struct store_status){ .bytes = 1 << 20, .free_bytes = 1 << 10 };
	return 0;
}

static int fake_identity(struct store *s, char id[STORE_ID_CAP],
			 uint64_t *generation, struct err *e)
{
	(void)s;
	(void)e;
	*id = '\0';
	*generation = 0;
	return 0;
}

static int check_identity(const char *id)
{
	assert(strlen(id) == POOL_ID_LEN &&
	       strspn(id, "0123456789abcdef") == POOL_ID_LEN);
	return 0;
}

void about_snapshot(struct warden *wd, const char *id, struct launch_spec *out)
{
	(void)wd;
	(void)id;
	(void)out;
	abort();
}

void sweep_soon(struct warden *wd)
{
	(void)wd;
}

/* --- the connection --- */

static void start(void)
{
	size_t i;

	if (loop_init(&w.loop) < 0)
		abort();
	list_init(&w.conns);
	list_init(&w.imports);
	list_init(&w.views);
	list_init(&w.fetches);
	list_init(&w.kill_all);
	for (i = 0; i < BOX_BUCKETS; i++)
		list_init(&w.boxes[i]);
	w.conf.max_sandboxes = 10;
	w.store.root_fd = -1;
}

/* Every request is answered once, with its own number. */
static void take_answers(int fd, const struct warden_req *q)
{
	struct warden_rep rep;
	ssize_t n;

	while ((n = recv(fd, &rep, sizeof(rep), MSG_DONTWAIT)) > 0) {
		assert(n == sizeof(rep));
		assert(rep.version == WARDEN_VERSION && rep.seq == q->seq);
		assert(rep.op == q->op && rep.zero == 0);
		assert(memchr(rep.err.msg, '\0', sizeof(rep.err.msg)));
		answers++;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct warden_req q = { .version = WARDEN_VERSION, .op = WARDEN_HELLO };
	struct conn *c = xcalloc(1, sizeof(*c));
	int fds[2];
	unsigned asked = 0, first = size > 0 ? data[0] : 0;

	if (!w.loop.batch)
		start();
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, fds) < 0)
		abort();
	c->w = &w;
	c->io.fd = fds[0];
	list_add(&w.conns, &c->node);
	w.n_conns++;
	answers = 0;
	/* Half of the inputs know how to say hello. */
	if (first & SAYS_HELLO) {
		conn_request(c, &q);
		take_answers(fds[1], &q);
		asked++;
	}
	for (; size > sizeof(q) && !c->dead; size -= sizeof(q)) {
		memcpy(&q, data + 1, sizeof(q));
		data += sizeof(q);
		/* So that inputs do not grow old with the protocol. */
		if (!(first & OTHER_VERSION))
			q.version = WARDEN_VERSION;
		op = q.op;
		asked++;
		conn_request(c, &q);
		take_answers(fds[1], &q);
	}
	assert(answers == asked && c->refs == 0);
	conn_close(c);
	close(fds[1]);
	w.loop.stop = true;
	while (!list_empty(&w.loop.deferred)) {
		struct deferred *d = container_of(w.loop.deferred.next,
						  struct deferred, node);

		list_del(&d->node);
		d->fn(d);
	}
	return 0;
}
