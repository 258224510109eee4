/* States of disks, whatever they are of. */
#include <errno.h>
#include <string.h>

#include "api/api.h"
#include "base/auto.h"

static void ready(struct state_ref *r, const struct err *e)
{
	static const struct err ok = { 0 };

	r->ready(r, e ? e : &ok);
}

static void use_snapshot(struct state_ref *r, struct snapshot *snap)
{
	r->held = snap;
	memcpy(r->project, snap->project, sizeof(r->project));
	memcpy(r->snapshot, snap->id, sizeof(r->snapshot));
	memcpy(r->side.image, snap->image_id, sizeof(r->side.image));
	memcpy(r->side.snap, snap->id, sizeof(r->side.snap));
}

static void on_taken(struct snapshot_take *t, struct snapshot *snap,
		     const struct err *e)
{
	struct state_ref *r = container_of(t, struct state_ref, take);

	if (snap)
		use_snapshot(r, snap);
	ready(r, e);
}

/* The disk of a machine is not a tree of files that a worker could walk. */
static int no_tree(struct err *e)
{
	return err_set(e, ENOTSUP,
		       "the disk of a sandbox of tier microvm is a file system "
		       "of its own, which the host does not open: look at its "
		       "files inside");
}

int state_has_tree(const struct snapshot *snap, struct err *e)
{
	AUTO(spec_done) struct spec spec = { 0 };

	if (snapshot_spec(snap, &spec, e) < 0)
		return -e->code;
	return spec_is_vm(&spec) ? no_tree(e) : 0;
}

static int hold_sandbox(struct state_ref *r, struct sandbox *s, struct err *e)
{
	const struct snapshot_ask ask = { .kind = SNAPSHOT_TEMP };
	struct snapshot *disk = snapshot_by_id(s->api, s->disk);

	if (spec_is_vm(&s->spec))
		return no_tree(e);
	memcpy(r->sandbox, s->id, sizeof(r->sandbox));
	memcpy(r->project, s->project, sizeof(r->project));
	if (s->state != BOX_SUSPENDED || !disk)
		return snapshot_take(&r->take, s, &ask, on_taken, e);
	snapshot_hold(disk);
	use_snapshot(r, disk);
	return 1;
}

/* "sandbox:REF" and "REF" fit the word "sandbox". */
static const char *ref_of(const char *word, const char *ref)
{
	size_t n = strlen(word);

	if (!strchr(ref, ':'))
		return ref;
	if (strncmp(ref, word, n) == 0 && ref[n] == ':')
		return ref + n + 1;
	return NULL;
}

/* Names of images may have a colon, too. */
static const char *image_ref(const char *ref)
{
	const char *named = ref_of("image", ref);

	if (named)
		return named;
	return str_starts(ref, "sandbox:") || str_starts(ref, "snapshot:")
		       ? NULL
		       : ref;
}

/* One kind did not have it: the next is asked, unless it has several. */
static bool go_on(struct err *e)
{
	if (e->code != 0 && e->code != ENOENT && e->code != ERR_ENDED)
		return false;
	err_clear(e);
	return true;
}

/* 1: it is ready. 0: it will be. */
static int hold(struct state_ref *r, const struct identity *who,
		const char *ref, struct err *e)
{
	const char *word = ref_of("snapshot", ref);
	struct snapshot *snap;
	const struct image *img;
	struct sandbox *s;

	snap = word ? snapshot_find(r->api, who, word, e) : NULL;
	if (snap) {
		if (state_has_tree(snap, e) < 0)
			return -e->code;
		snapshot_hold(snap);
		use_snapshot(r, snap);
		memcpy(r->sandbox, snap->sandbox, sizeof(r->sandbox));
		return 1;
	}
	if (!go_on(e))
		return -e->code;
	word = ref_of("sandbox", ref);
	s = word ? box_find(r->api, who, word, e) : NULL;
	if (s)
		return hold_sandbox(r, s, e);
	if (!go_on(e))
		return -e->code;
	word = image_ref(ref);
	img = word ? image_find(r->api, word) : NULL;
	if (!img)
		return err_set(e, ENOENT,
			       "no snapshot, sandbox or image '%.64s'", ref);
	memcpy(r->side.image, img->id, sizeof(r->side.image));
	return 1;
}

void state_hold(struct state_ref *r, struct api *a, const struct identity *who,
		const char *ref,
		void (*fn)(struct state_ref *r, const struct err *e))
{
	struct err e = { 0 };
	int rc;

	*r = (struct state_ref){ .api = a, .ready = fn };
	rc = hold(r, who, ref, &e);
	if (rc != 0)
		ready(r, rc < 0 ? &e : NULL);
}

void state_release(struct state_ref *r)
{
	struct snapshot *held = take_ptr(r->held);

	snapshot_leave(&r->take);
	if (held)
		snapshot_release(held);
}
