/*
 * Adopting strays: an object that the pool has gets a row again, with what the
 * pool itself knows about it. Lost for good are the rest of the row: labels,
 * policies, secrets, timeouts, the configuration of images, paths of the drive.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "api/api.h"
#include "api/strays.h"
#include "base/auto.h"
#include "registry/volumes.h"
#include "spec/mount.h"

enum { SHORT_ID = 8 };

static void usual_name(const struct stray *s, const struct adopt_ask *ask,
		       char out[NAME_CAP])
{
	if (*ask->name)
		snprintf(out, NAME_CAP, "%s", ask->name);
	else
		snprintf(out, NAME_CAP, "stray-%.*s", SHORT_ID, s->id);
}

static int bad_name(const char *name, struct err *e)
{
	return err_set(e, EINVAL, "invalid name '%.64s': use a-z, 0-9 and '-'",
		       name);
}

/* --- images, volumes, contents of the drive --- */

static int adopt_image(struct api *a, struct stray *s,
		       const struct adopt_ask *ask, char *out, struct err *e)
{
	struct image img = { .created_ms = s->since_ms };

	usual_name(s, ask, img.name);
	memcpy(img.id, s->id, ID_CAP);
	if (!image_name_valid(img.name))
		return bad_name(img.name, e);
	if (image_find(a, img.name))
		return err_set(e, EEXIST, "the name '%s' is taken by an image",
			       img.name);
	img.seen = a->reconcile.round;
	snprintf(out, DRIVE_PATH_CAP, "%s", img.name);
	return image_put(a, &img, e);
}

static int adopt_volume(struct api *a, struct stray *s,
			const struct adopt_ask *ask, char *out, struct err *e)
{
	char name[NAME_CAP];

	usual_name(s, ask, name);
	snprintf(out, DRIVE_PATH_CAP, "%s", name);
	if (!name_valid(name))
		return bad_name(name, e);
	return volume_take_over(
		a,
		&(struct volume_row){ .id = s->id,
				      .project = ask->project,
				      .name = name,
				      .bytes = s->bytes,
				      .created_ms = s->since_ms },
		e);
}

/* The path is lost: it is found by its content. */
static int adopt_content(struct api *a, struct stray *s,
			 const struct adopt_ask *ask, char *out, struct err *e)
{
	const char *sha = strchr(s->id, '_');
	struct drive_row row = { .who = "adopt", .created_ms = s->since_ms };
	struct drive_row last;
	struct drive_share *sh;
	struct stat st;
	int r;

	if (!sha ||
	    fstatat(a->drive.dir_fd, s->id, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_sys(e, "look at %s of the drive", s->id);
	snprintf(row.project, sizeof(row.project), "%.*s", (int)(sha - s->id),
		 s->id);
	snprintf(row.sha256, sizeof(row.sha256), "%s", sha + 1);
	snprintf(row.path, sizeof(row.path), "%s",
		 *ask->name ? ask->name : "stray/");
	if (!*ask->name)
		snprintf(row.path, sizeof(row.path), "stray/%s", row.sha256);
	if (drive_path_check(row.path, false, e) < 0)
		return -e->code;
	r = registry_drive_get(&a->registry, row.project, row.path, 0, &last,
			       e);
	sh = r < 0 ? NULL : drive_share(a, row.project, e);
	if (!sh)
		return -e->code;
	row.version = r > 0 ? last.version + 1 : 1;
	row.size = (uint64_t)st.st_size;
	snprintf(out, DRIVE_PATH_CAP, "%s", row.path);
	r = drive_row_add(a, &row, e);
	if (r == 0)
		sh->bytes += row.size;
	return r;
}

/* --- sandboxes and snapshots --- */

/* An image or volume that it needs is adopted with it. */
static int need(struct api *a, enum stray_kind kind, const char *id,
		struct err *e)
{
	const struct adopt_ask usual = { "", DEFAULT_PROJECT, "" };
	struct stray *s = stray_find(a, kind, id);
	char name[DRIVE_PATH_CAP];

	return s ? stray_adopt(a, s, &usual, name, e) : 0;
}

static void put_volumes(struct api *a, const struct launch_spec *l,
			struct spec *spec, struct err *e)
{
	size_t i;

	for (i = 0; i < LAUNCH_VOLUMES_MAX && l->volumes[i].id[0]; i++) {
		const struct volume *v;
		char text[NAME_CAP + LAUNCH_PATH_CAP + 8];

		if (need(a, STRAY_VOLUME, l->volumes[i].id, e) < 0)
			return;
		v = volume_by_id(a, l->volumes[i].id);
		if (!v)
			continue;
		snprintf(text, sizeof(text), "%s:%s%s", v->name,
			 l->volumes[i].path,
			 l->volumes[i].read_only ? ":ro" : "");
		if (!spec->volumes)
			spec->volumes = json_array();
		json_array_append_new(spec->volumes, json_string(text));
	}
}

/* The spec of the recorded launch, without a timeout: the deadline is lost. */
static int spec_of(struct api *a, const struct stray *s,
		   const struct adopt_ask *ask, struct spec *spec,
		   struct err *e)
{
	const struct launch_spec *l = &s->launch;
	const char *image = *l->image ? l->image : ask->image;
	const struct image *img;

	if (!*image)
		return err_set(e, EINVAL,
			       "the pool does not know the image of %s: say "
			       "which with --image",
			       s->id);
	if (need(a, STRAY_IMAGE, image, e) < 0)
		return -e->code;
	img = image_find(a, image);
	if (!img)
		return err_set(e, ENOENT, "image %s is missing", image);
	spec_defaults(spec, &a->conf);
	spec->timeout_ms = 0;
	snprintf(spec->image, sizeof(spec->image), "%s", img->name);
	if (!*l->image)
		return 0;
	spec->cpus_milli = l->cpus_milli;
	spec->mem_bytes = l->mem_bytes;
	spec->disk_bytes = l->disk_bytes;
	spec->pids = l->pids;
	spec->nofile = l->nofile;
	spec->sudo = (l->flags & LAUNCH_SUDO) != 0;
	spec->persist = (l->flags & LAUNCH_PERSIST) != 0;
	snprintf(spec->tier, sizeof(spec->tier), "%s",
		 l->flags & LAUNCH_MICROVM ? "microvm" : "container");
	put_volumes(a, l, spec, e);
	return -e->code;
}

static void name_box(struct api *a, const char *id, const struct launch_spec *l,
		     const struct adopt_ask *ask, struct spec *spec)
{
	const char *name = *ask->name ? ask->name : l->hostname;

	/* Without a name of its own the host is called as its id begins. */
	if (*name && !str_starts(id, name) &&
	    !box_by_name(a, ask->project, name))
		snprintf(spec->name, sizeof(spec->name), "%s", name);
}

static int adopt_running(struct api *a, struct stray *s,
			 const struct adopt_ask *ask, char *out, struct err *e)
{
	AUTO(spec_done) struct spec spec = { 0 };
	struct sandbox *box;

	if (spec_of(a, s, ask, &spec, e) < 0)
		return -e->code;
	name_box(a, s->id, &s->launch, ask, &spec);
	snprintf(out, DRIVE_PATH_CAP, "%s", *spec.name ? spec.name : s->id);
	box = box_take_over(
		a,
		&(struct box_found){ s->id, ask->project, s->launch.image, "" },
		&spec, e);
	if (!box)
		return -e->code;
	box->kvm = s->launch.flags & LAUNCH_KVM;
	box_adopt(box, s->launch.flags & LAUNCH_PAUSED);
	return 0;
}

static struct snapshot *snapshot_of(struct api *a, const struct stray *s,
				    const struct adopt_ask *ask,
				    const struct spec *spec,
				    enum snapshot_kind kind)
{
	struct snapshot *snap = snapshot_new(a, s->id, kind);
	const struct image *img = image_find(a, spec->image);
	json_t *j = spec_to_json(spec);

	snprintf(snap->project, sizeof(snap->project), "%s", ask->project);
	memcpy(snap->sandbox, *s->launch.from ? s->launch.from : s->id, ID_LEN);
	memcpy(snap->image_id, img->id, ID_CAP);
	snprintf(snap->image, sizeof(snap->image), "%s", img->name);
	snap->spec = json_dumps(j, JSON_COMPACT);
	snap->created_ms = s->since_ms;
	json_decref(j);
	return snap;
}

/* The disk of a sandbox that has no row: the sandbox is suspended. */
static int adopt_disk(struct api *a, struct stray *s,
		      const struct adopt_ask *ask, char *out, struct err *e)
{
	AUTO(spec_done) struct spec spec = { 0 };
	struct snapshot *disk;

	if (spec_of(a, s, ask, &spec, e) < 0)
		return -e->code;
	name_box(a, s->launch.from, &s->launch, ask, &spec);
	snprintf(out, DRIVE_PATH_CAP, "%s",
		 *spec.name ? spec.name : s->launch.from);
	disk = snapshot_of(a, s, ask, &spec, SNAPSHOT_DISK);
	snapshot_hold(disk);
	if (snapshot_save(disk, e) < 0 ||
	    !box_take_over(a,
			   &(struct box_found){ s->launch.from, ask->project,
						disk->image_id, disk->id },
			   &spec, e)) {
		snapshot_unlist(disk);
		return -e->code;
	}
	snapshot_release(disk);
	return 0;
}

static int adopt_snapshot(struct api *a, struct stray *s,
			  const struct adopt_ask *ask, char *out, struct err *e)
{
	AUTO(spec_done) struct spec spec = { 0 };
	struct snapshot *snap;

	if (*ask->name && !name_valid(ask->name))
		return bad_name(ask->name, e);
	if (spec_of(a, s, ask, &spec, e) < 0)
		return -e->code;
	snap = snapshot_of(a, s, ask, &spec, SNAPSHOT_USER);
	snprintf(snap->name, sizeof(snap->name), "%s", ask->name);
	snprintf(out, DRIVE_PATH_CAP, "%s", *snap->name ? snap->name : s->id);
	if (snapshot_save(snap, e) == 0)
		return 0;
	snapshot_unlist(snap);
	return -e->code;
}

static bool is_disk(struct api *a, const struct stray *s)
{
	const struct launch_spec *l = &s->launch;

	return *l->from && !box_by_id(a, l->from) &&
	       (l->flags & LAUNCH_STAYED || strcmp(l->from, s->id) == 0);
}

int stray_adopt(struct api *a, struct stray *s, const struct adopt_ask *ask,
		char out[DRIVE_PATH_CAP], struct err *e)
{
	int r = -EINVAL;

	switch (s->kind) {
	case STRAY_IMAGE:
		r = adopt_image(a, s, ask, out, e);
		break;
	case STRAY_VOLUME:
		r = adopt_volume(a, s, ask, out, e);
		break;
	case STRAY_SNAPSHOT:
		r = is_disk(a, s) ? adopt_disk(a, s, ask, out, e)
				  : adopt_snapshot(a, s, ask, out, e);
		break;
	case STRAY_SANDBOX:
		r = adopt_running(a, s, ask, out, e);
		break;
	case STRAY_DRIVE:
		r = adopt_content(a, s, ask, out, e);
		break;
	case STRAY_MISSING:
	case STRAY_KINDS:
		r = err_set(e, EINVAL, "%s is missing in the pool", s->id);
		break;
	}
	if (r < 0)
		return err_wrap(e, "%s:%.27s", stray_kind_name(s->kind), s->id);
	stray_forget(a, s);
	return 0;
}
