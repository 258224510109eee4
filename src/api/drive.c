#include "api/drive.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/api.h"
#include "api/reply.h"
#include "base/auto.h"
#include "base/clock.h"

/* --- paths --- */

int drive_path_join(char out[DRIVE_PATH_CAP], const char *to,
		    const char *source, struct err *e)
{
	size_t n = strlen(to);
	const char *slash = strrchr(source, '/');
	int len;

	if (n > 0 && to[n - 1] != '/')
		source = "";
	else if (slash)
		source = slash + 1;
	len = snprintf(out, DRIVE_PATH_CAP, "%s%s", to, source);
	if (len >= DRIVE_PATH_CAP)
		return err_set(e, ENAMETOOLONG,
			       "a path of the drive has more than %d bytes",
			       DRIVE_PATH_MAX);
	return drive_path_check(out, false, e);
}

/* --- shares --- */

struct drive_share *drive_share(struct api *a, const char *project,
				struct err *e)
{
	struct drive_share *sh;
	struct list *n, *next;

	list_each (n, next, &a->drive.projects) {
		sh = container_of(n, struct drive_share, node);
		if (strcmp(sh->project, project) == 0)
			return sh;
	}
	sh = xcalloc(1, sizeof(*sh));
	snprintf(sh->project, sizeof(sh->project), "%s", project);
	if (registry_drive_usage(&a->registry, project, &sh->bytes, &sh->rows,
				 e) < 0) {
		free(sh);
		return NULL;
	}
	list_add(&a->drive.projects, &sh->node);
	return sh;
}

/* --- contents --- */

void drive_object_name(const char *project, const char *sha256,
		       char out[DRIVE_NAME])
{
	snprintf(out, DRIVE_NAME, "%s_%s", project, sha256);
}

static bool is_coming(struct api *a, const char *project, const char *sha256)
{
	struct list *n, *next;

	list_each (n, next, &a->drive.puts) {
		struct drive_put *p = container_of(n, struct drive_put, node);

		if (p->stored && strcmp(p->sha_text, sha256) == 0 &&
		    strcmp(p->project, project) == 0)
			return true;
	}
	return false;
}

void drive_object_drop(struct api *a, const char *project, const char *sha256,
		       uint64_t counted)
{
	struct err e = { 0 };
	struct drive_share *sh = drive_share(a, project, &e);
	char name[DRIVE_NAME];
	int r;

	r = registry_drive_refers(&a->registry, project, sha256, &e);
	if (r > 0)
		return;
	if (sh)
		sh->bytes -= sh->bytes < counted ? sh->bytes : counted;
	if (is_coming(a, project, sha256))
		return;
	drive_object_name(project, sha256, name);
	/* What is not removed now is at the next start. */
	if (r < 0 ||
	    (unlinkat(a->drive.dir_fd, name, 0) < 0 && errno != ENOENT))
		log_warn("drive: %s not removed, ignoring", name);
}

/* Contents whose rows go, until the commit. */
struct gone {
	struct {
		char sha256[DRIVE_SHA];
		uint64_t size;
	} *v;
	size_t n;
};

static int note_gone(void *arg, const char *sha256, uint64_t size)
{
	struct gone *g = arg;
	size_t i;

	for (i = 0; i < g->n; i++)
		if (strcmp(g->v[i].sha256, sha256) == 0)
			return 0;
	g->v = xrealloc(g->v, (g->n + 1) * sizeof(*g->v));
	snprintf(g->v[g->n].sha256, DRIVE_SHA, "%s", sha256);
	g->v[g->n++].size = size;
	return 0;
}

static void drop_gone(struct api *a, const char *project, struct gone *g)
{
	size_t i;

	for (i = 0; i < g->n; i++)
		drive_object_drop(a, project, g->v[i].sha256, g->v[i].size);
	free(g->v);
}

int drive_row_add(struct api *a, const struct drive_row *row, struct err *e)
{
	uint64_t keep = a->conf.drive_versions ? a->conf.drive_versions : 1;
	uint64_t forget = row->version > keep ? row->version - keep : 0;
	struct drive_share *sh = drive_share(a, row->project, e);
	struct gone gone = { 0 };
	int r;

	if (!sh)
		return -e->code;
	if (sh->rows >= DRIVE_ROWS_MAX && forget == 0)
		return err_set(e, EMFILE,
			       "the drive of project %s has %d versions, which "
			       "is the most: purge files that are not needed",
			       row->project, DRIVE_ROWS_MAX);
	r = registry_drive_add(&a->registry, row, forget, note_gone, &gone, e);
	if (r < 0) {
		free(gone.v);
		return r;
	}
	sh->rows++;
	/* The one that made room for this one, if it was kept that long. */
	if (forget > 0)
		sh->rows--;
	drop_gone(a, row->project, &gone);
	api_registry_touched(a);
	pool_id_touch(a);
	return 0;
}

/* --- looking --- */

int drive_find(struct api *a, const char *project, const char *path,
	       uint64_t version, struct drive_row *out, struct err *e)
{
	int r = registry_drive_get(&a->registry, project, path, version, out,
				   e);

	if (r < 0)
		return r;
	if (r == 0 && version > 0)
		return err_set(e, ENOENT,
			       "the drive has no version %llu of "
			       "%.150s",
			       (unsigned long long)version, path);
	if (r == 0 || out->removed)
		return err_set(e, ENOENT, "the drive has no file %.180s", path);
	return 0;
}

int drive_open(struct api *a, const struct drive_row *row, struct err *e)
{
	char name[DRIVE_NAME];
	int fd;

	drive_object_name(row->project, row->sha256, name);
	fd = openat(a->drive.dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 && errno == ENOENT)
		return err_set(e, ENOENT,
			       "the content of %.150s, version %llu, is lost",
			       row->path, (unsigned long long)row->version);
	return fd < 0 ? err_sys(e, "open %.64s of the drive", name) : fd;
}

json_t *drive_row_json(const struct drive_row *row)
{
	json_t *j = json_pack(
		"{s:s, s:I, s:b, s:I, s:s, s:o, s:o}", "path", row->path,
		"version", (json_int_t)row->version, "removed", row->removed,
		"size", (json_int_t)row->size, "who", row->who, "sandbox",
		*row->sandbox ? json_string(row->sandbox) : json_null(),
		"created_at", json_time(row->created_ms));

	json_object_set_new(j, "sha256",
			    row->removed ? json_null()
					 : json_string(row->sha256));
	return j;
}

/* --- removing --- */

static void log_removal(struct api *a, const struct drive_who *by,
			const char *type, const struct drive_row *row)
{
	audit_add(
		a,
		&(struct audit){
			.type = type,
			.box = *by->sandbox ? box_by_id(a, by->sandbox) : NULL,
			.who = &by->who,
			.request_id = *by->request ? by->request : NULL,
			.data = json_pack("{s:s, s:s, s:I}", "project",
					  row->project, "path", row->path,
					  "version", (json_int_t)row->version),
		});
}

int drive_remove(struct api *a, const struct drive_who *by, const char *project,
		 const char *path, struct drive_row *out, struct err *e)
{
	int r = drive_find(a, project, path, 0, out, e);

	if (r < 0)
		return r;
	out->version++;
	out->removed = true;
	out->sha256[0] = '\0';
	out->size = 0;
	snprintf(out->who, sizeof(out->who), "%s", by->who.name);
	snprintf(out->sandbox, sizeof(out->sandbox), "%s", by->sandbox);
	out->created_ms = clock_wall_ms();
	r = drive_row_add(a, out, e);
	if (r == 0)
		log_removal(a, by, "drive.remove", out);
	return r;
}

int drive_purge(struct api *a, const struct drive_who *by, const char *project,
		const char *path, struct err *e)
{
	struct drive_share *sh = drive_share(a, project, e);
	struct gone gone = { 0 };
	struct drive_row last;
	uint64_t bytes;
	int r;

	if (!sh)
		return -e->code;
	r = registry_drive_get(&a->registry, project, path, 0, &last, e);
	if (r == 0)
		return err_set(e, ENOENT, "the drive has no file %.180s", path);
	if (r > 0)
		r = registry_drive_forget(&a->registry, &last, note_gone, &gone,
					  e);
	if (r < 0) {
		free(gone.v);
		return r;
	}
	drop_gone(a, project, &gone);
	api_registry_touched(a);
	log_removal(a, by, "drive.purge", &last);
	return registry_drive_usage(&a->registry, project, &bytes, &sh->rows,
				    e);
}

/* --- start --- */

/* "PROJECT_SHA256" of a content that a row has. */
static bool is_wanted(struct api *a, const char *name)
{
	char project[NAME_CAP];
	const char *sha = strchr(name, '_');
	size_t n = sha ? (size_t)(sha - name) : NAME_CAP;
	struct err e = { 0 };

	if (n >= NAME_CAP || strlen(sha + 1) != DRIVE_SHA - 1)
		return false;
	memcpy(project, name, n);
	project[n] = '\0';
	return registry_drive_refers(&a->registry, project, sha + 1, &e) != 0;
}

/* An upload that was cut off has a name of another form. */
static bool is_stray(struct api *a, const char *name)
{
	const char *sha = strchr(name, '_');

	return sha && sha - name < NAME_CAP &&
	       strlen(sha + 1) == DRIVE_SHA - 1 &&
	       stray_keep(a, STRAY_DRIVE, name);
}

/* Uploads that were cut off, and contents whose rows went in a crash. */
int drive_sweep(struct api *a, struct err *e)
{
	AUTO_CLOSE int fd = openat(a->drive.dir_fd, ".",
				   O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	AUTO_DIR DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *de;

	if (!d)
		return err_sys(e, "list the drive");
	take_fd(&fd);
	while (errno = 0, (de = readdir(d)))
		if (de->d_name[0] != '.' && !is_wanted(a, de->d_name) &&
		    !is_stray(a, de->d_name) &&
		    unlinkat(a->drive.dir_fd, de->d_name, 0) < 0)
			log_warn("drive: %.100s not removed: %m, ignoring",
				 de->d_name);
	return errno ? err_sys(e, "list the drive") : 0;
}

int drive_start(struct api *a, struct err *e)
{
	char path[CONF_PATH + 16];

	list_init(&a->drive.projects);
	list_init(&a->drive.puts);
	snprintf(path, sizeof(path), "%s/drive", a->conf.state_dir);
	a->drive.dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (a->drive.dir_fd < 0)
		return err_sys(e, "open %s", path);
	return 0;
}
