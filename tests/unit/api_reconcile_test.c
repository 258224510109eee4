/* Reconciliation of the api's rows with the warden's objects: missing objects,
 * objects without a row, and lists that cannot be read. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "api/e2b/build.h"
#include "api/reconcile.h"
#include "check.h"

static struct api api;
static enum warden_op op; /* of the last request */
static warden_fn *answer;

static struct image image;
static struct snapshot snap;
static struct sandbox box;
static struct stray stray;

/* Answers of the stubs. */
static bool keeps_strays, rows_stay;

/* Calls of the stubs, counted. */
static unsigned dropped_images, retired, lost_snaps, stray_snaps, gone, kept,
	killed, adopted, walks, complete, served, settled_strays, found_volumes,
	settled_volumes, known, limits;

struct sandbox *box_by_id(struct api *a, const char *id)
{
	(void)a;
	return strcmp(id, box.id) == 0 ? &box : NULL;
}

void box_adopt(struct sandbox *s, bool paused)
{
	s->state = paused ? BOX_PAUSED : BOX_RUNNING;
	adopted++;
}

void box_count(struct sandbox *s, bool on)
{
	(void)s;
	(void)on;
}

void box_gone(struct sandbox *s, const char *why,
	      const struct sandbox_use *last)
{
	(void)s;
	(void)why;
	(void)last;
	gone++;
}

int box_keep_disk(struct sandbox *s, const char *why,
		  const struct sandbox_use *last, struct err *e)
{
	(void)s;
	(void)why;
	(void)last;
	(void)e;
	kept++;
	return 0;
}

void box_respec(struct sandbox *s, struct spec *spec)
{
	s->spec.mem_bytes = spec->mem_bytes;
	limits++;
}

int box_save(struct sandbox *s, struct err *e)
{
	(void)s;
	(void)e;
	return 0;
}

void box_set_disk(struct sandbox *s, const char *disk)
{
	(void)s;
	(void)disk;
}

void spec_copy(struct spec *to, const struct spec *from)
{
	*to = *from;
}

void meter_start(struct sandbox *s)
{
	(void)s;
}

void pause_found(struct sandbox *s, bool paused)
{
	(void)s;
	(void)paused;
}

void agent_lost(struct agent_link *g, int code, const char *msg)
{
	(void)g;
	(void)code;
	(void)msg;
}

void api_serve(struct api *a)
{
	(void)a;
	served++;
}

void builds_settle(struct api *a)
{
	(void)a;
}

void spares_poke(struct api *a)
{
	(void)a;
}

int drive_sweep(struct api *a, struct err *e)
{
	(void)a;
	(void)e;
	return 0;
}

struct image *image_by_id(struct api *a, const char *id)
{
	(void)a;
	return strcmp(id, image.id) == 0 ? &image : NULL;
}

void image_drop(struct api *a, struct image *img)
{
	(void)a;
	(void)img;
	dropped_images++;
}

bool image_in_use(struct api *a, const char *id, bool by_any)
{
	(void)a;
	(void)id;
	(void)by_any;
	return false;
}

void image_retire(struct api *a, const char *id)
{
	(void)a;
	(void)id;
	retired++;
}

void pool_id_check(struct api *a)
{
	(void)a;
	walks++;
}

void pool_id_walked(struct api *a, bool all)
{
	(void)a;
	complete += all;
}

struct snapshot *snapshot_by_id(struct api *a, const char *id)
{
	(void)a;
	return strcmp(id, snap.id) == 0 ? &snap : NULL;
}

void snapshot_lost(struct snapshot *s)
{
	(void)s;
	lost_snaps++;
}

int snapshot_save(struct snapshot *s, struct err *e)
{
	(void)s;
	(void)e;
	return 0;
}

void snapshot_stray(struct api *a, const char *id)
{
	(void)a;
	(void)id;
	stray_snaps++;
}

void snapshots_settle(struct api *a)
{
	(void)a;
}

void stray_found(struct api *a, const char *id)
{
	(void)a;
	(void)id;
	known++;
}

struct stray *stray_keep(struct api *a, enum stray_kind kind, const char *id)
{
	(void)a;
	(void)kind;
	(void)id;
	return keeps_strays ? &stray : NULL;
}

bool stray_missing(struct api *a, const char *id)
{
	(void)a;
	(void)id;
	return rows_stay;
}

void strays_settle(struct api *a)
{
	(void)a;
	settled_strays++;
}

void volume_found(struct api *a, const char *id, uint64_t bytes)
{
	(void)a;
	(void)id;
	(void)bytes;
	found_volumes++;
}

void volumes_settle(struct api *a)
{
	(void)a;
	settled_volumes++;
}

void warden_ask(struct warden_link *w, struct warden_call *c, warden_fn *fn)
{
	(void)w;
	(void)c;
	answer = fn;
}

void warden_cancel(struct warden_call *c)
{
	(void)c;
}

void warden_chore(struct warden_link *w, enum warden_op what, const char *id)
{
	(void)w;
	(void)id;
	killed += what == WARDEN_KILL;
}

void warden_ready(struct warden_link *w)
{
	(void)w;
}

void warden_req_id(struct warden_call *c, enum warden_op what, const char *id)
{
	(void)c;
	(void)id;
	op = what;
}

/* --- a walk --- */

static void fresh(void)
{
	memset(&box, 0, sizeof(box));
	memset(&image, 0, sizeof(image));
	memset(&snap, 0, sizeof(snap));
	list_init(&api.images.all);
	list_init(&api.snapshots.all);
	list_init(&api.boxes.all);
	snprintf(image.id, sizeof(image.id), "iimage");
	snprintf(snap.id, sizeof(snap.id), "isnap");
	snprintf(box.id, sizeof(box.id), "ibox");
	box.api = &api;
	box.state = BOX_RUNNING;
	box.told = true;
	list_add(&api.images.all, &image.node);
	list_add(&api.snapshots.all, &snap.node);
	list_add(&api.boxes.all, &box.all);
	api.reconciled = true;
	api.pool_id.current = true;
	keeps_strays = rows_stay = false;
	dropped_images = retired = lost_snaps = stray_snaps = gone = kept = 0;
	killed = adopted = walks = complete = served = settled_strays = 0;
	found_volumes = settled_volumes = known = limits = 0;
	reconcile_walk(&api);
}

static void reply(int code, const char *id, uint32_t flags)
{
	static struct warden_rep rep;
	int fds[FD_PASS_MAX] = { -1, -1, -1, -1, -1 };

	memset(&rep, 0, sizeof(rep));
	rep.err.code = code;
	if (op == WARDEN_NEXT) {
		snprintf(rep.launch.id, ID_CAP, "%s", id);
		rep.launch.flags = flags;
	} else if (op == WARDEN_VOLUME_NEXT) {
		snprintf(rep.volume.id, ID_CAP, "%s", id);
	} else {
		snprintf(rep.id, ID_CAP, "%s", id);
	}
	answer(&api.reconcile.call, &rep, fds);
}

static void end_of_list(void)
{
	reply(ENOENT, "", 0);
}

static void test_all_is_there(void)
{
	fresh();
	reply(0, "ibox", 0);
	end_of_list();
	reply(0, "isnap", 0);
	end_of_list();
	reply(0, "iimage", 0);
	end_of_list();
	reply(0, "ivolume", 0);
	CHECK(served == 0);
	end_of_list();
	CHECK(served == 1 && complete == 1 && settled_strays == 1);
	CHECK(known == 3 && found_volumes == 1 && settled_volumes == 1);
	CHECK(!gone && !killed && !lost_snaps && !dropped_images && !retired &&
	      !stray_snaps);
}

static void nothing_is_there(void)
{
	end_of_list();
	end_of_list();
	end_of_list();
	end_of_list();
}

static void test_nothing_is_there(void)
{
	fresh();
	nothing_is_there();
	CHECK(gone == 1 && lost_snaps == 1 && dropped_images == 1);
	CHECK(complete == 1);
	/* The database is older than the pool, or the other way round: rows
	 * stay. */
	fresh();
	rows_stay = true;
	box.spec.persist = true;
	nothing_is_there();
	CHECK(!gone && !lost_snaps && !dropped_images && kept == 1);
	/* Objects that are being created or removed keep their rows. */
	fresh();
	box.state = BOX_LAUNCHING;
	snap.taking = true;
	image.removing = true;
	nothing_is_there();
	CHECK(!gone && !lost_snaps && !dropped_images);
}

/* An error while listing keeps all rows. */
static void test_unreadable_lists(void)
{
	int lists, i;

	for (lists = 0; lists < 4; lists++) {
		fresh();
		box.seen = snap.seen = image.seen = api.reconcile.round;
		for (i = 0; i < lists; i++)
			end_of_list();
		reply(EIO, "", 0);
		CHECK(served == 1 && complete == 0 && settled_strays == 0);
		CHECK(!gone && !lost_snaps && !dropped_images &&
		      !settled_volumes);
	}
	/* The same with objects that were not listed yet. */
	fresh();
	reply(EIO, "", 0);
	CHECK(!gone && !lost_snaps && !dropped_images && complete == 0);
	fresh();
	end_of_list();
	reply(EIO, "", 0);
	CHECK(!gone && !lost_snaps && !dropped_images && complete == 0);
}

/* The connection broke: the next one starts from the beginning. */
static void test_warden_away(void)
{
	int lists, i;

	for (lists = 0; lists < 4; lists++) {
		fresh();
		box.seen = snap.seen = image.seen = api.reconcile.round;
		for (i = 0; i < lists; i++)
			end_of_list();
		reply(WARDEN_AWAY, "", 0);
		CHECK(served == 0 && complete == 0);
	}
	reconcile_start(&api);
	CHECK(walks == 1);
}

static void test_nobody_knows_them(void)
{
	fresh();
	reply(0, "inew", 0);
	end_of_list();
	reply(0, "inew", 0);
	end_of_list();
	reply(0, "inew", 0);
	CHECK(killed == 1 && stray_snaps == 1 && retired == 1);
	/* The database may be the older one: put aside. */
	fresh();
	keeps_strays = true;
	reply(0, "inew", 0);
	CHECK_STR(stray.launch.id, "inew");
	end_of_list();
	reply(0, "inew", 0);
	end_of_list();
	reply(0, "inew", 0);
	CHECK(!killed && !stray_snaps && !retired);
	/* The sandbox of a run never has a row. */
	fresh();
	keeps_strays = true;
	reply(0, "inew", LAUNCH_EARLY);
	CHECK(killed == 1);
}

static void test_disk_of_one_that_ended(void)
{
	fresh();
	box.spec.persist = true;
	end_of_list();
	reply(0, "ibox",
	      0); /* the disk of the sandbox, in the list of snapshots */
	CHECK(kept == 1 && !stray_snaps);
	end_of_list();
	CHECK(!gone);
}

static void test_found(void)
{
	fresh();
	box.state = BOX_FOUND;
	reply(0, "ibox", LAUNCH_PAUSED);
	CHECK(adopted == 1 && box.state == BOX_PAUSED);
	/* A suspended sandbox has no processes: the api kills them. */
	fresh();
	box.state = BOX_SUSPENDED;
	reply(0, "ibox", 0);
	CHECK(killed == 1 && !adopted);
	/* ... unless the row is older than the pool. */
	fresh();
	api.pool_id.current = false;
	box.state = BOX_SUSPENDED;
	reply(0, "ibox", 0);
	CHECK(!killed && adopted == 1);
}

static void test_ended(void)
{
	struct last_use last = { .id = "ibox" };
	struct err e = { 0 };

	fresh();
	reconcile_ended(&api, &last, &e);
	CHECK(gone == 1 && !kept);
	fresh();
	box.spec.persist = true;
	reconcile_ended(&api, &last, &e);
	CHECK(!gone && kept == 1);
	fresh();
	box.state = BOX_SUSPENDED;
	reconcile_ended(&api, &last, &e);
	CHECK(!gone && !kept);
	fresh();
	box.state = BOX_LAUNCHING;
	reconcile_ended(&api, &last, &e);
	CHECK(!gone && box.ended);
	fresh();
	box.state = BOX_ENDING;
	reconcile_ended(&api, &last, &e);
	CHECK(!gone);
}

int main(void)
{
	test_all_is_there();
	test_nothing_is_there();
	test_unreadable_lists();
	test_warden_away();
	test_nobody_knows_them();
	test_disk_of_one_that_ended();
	test_found();
	test_ended();
	return CHECK_DONE();
}
