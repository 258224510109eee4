/* Requests about recordings of terminals (cast.h). */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/api.h"
#include "api/cast.h"
#include "api/ended.h"
#include "api/reply.h"
#include "api/routes.h"
#include "base/auto.h"

enum { PIECE = 64 * 1024 };

/* The sandbox, alive or not, of which this identity may see recordings. */
static int find_box(struct api *a, const struct call *call, char id[ID_CAP],
		    struct err *e)
{
	const char *ref = call->arg[0];
	const struct sandbox *s = box_find(a, &call->who, ref, e);
	const struct ended *x = s ? NULL : ended_find(a, &call->who, ref);

	if (!s && !x && !id_valid(ref))
		return -e->code;
	err_clear(e);
	memcpy(id, s ? s->id : x ? x->id : ref, ID_CAP);
	return 0;
}

static bool is_for(const struct cast_info *i, const struct identity *who,
		   const char *box)
{
	return strcmp(i->box, box) == 0 &&
	       (!*who->project || strcmp(i->project, who->project) == 0);
}

void h_recording_list(struct api *a, struct http_conn *c,
		      const struct call *call)
{
	struct err e = { 0 };
	char box[ID_CAP];
	json_t *list;
	size_t n = 0, i;
	AUTO_FREE struct cast_info *all = NULL;

	if (find_box(a, call, box, &e) < 0) {
		reply_err(a, c, &e);
		return;
	}
	all = casts_list(a, &n);
	list = json_array();
	for (i = 0; i < n; i++)
		if (is_for(&all[i], &call->who, box))
			json_array_append_new(
				list,
				json_pack("{s:s, s:I, s:I, s:o}", "id",
					  all[i].id, "process",
					  (json_int_t)all[i].process, "size",
					  (json_int_t)all[i].size, "created_at",
					  json_time(all[i].created_ms)));
	reply_json(a, c, 200, json_pack("{s:o}", "recordings", list));
}

/* The file of the request, or the error was answered. */
static bool find_one(struct api *a, struct http_conn *c,
		     const struct call *call, char path[CAST_PATH])
{
	struct err e = { 0 };
	char box[ID_CAP];
	size_t n = 0, i;
	AUTO_FREE struct cast_info *all = NULL;

	if (find_box(a, call, box, &e) == 0) {
		all = casts_list(a, &n);
		for (i = 0; i < n; i++)
			if (is_for(&all[i], &call->who, box) &&
			    strcmp(all[i].id, call->arg[1]) == 0) {
				cast_path(a, &all[i], path);
				return true;
			}
		err_set(&e, ENOENT, "no recording '%.32s'", call->arg[1]);
	}
	reply_err(a, c, &e);
	return false;
}

struct play {
	int fd;
	uint64_t left;
};

static void play_free(struct play *p)
{
	close(p->fd);
	free(p);
}

static void play_gone(struct http_conn *c, void *owner)
{
	(void)c;
	play_free(owner);
}

/* As much as the client takes; it may grow behind us meanwhile. */
static void play_on(struct http_conn *c, void *owner)
{
	static char piece[PIECE];
	struct play *p = owner;
	bool room = true;

	while (room && p->left > 0) {
		ssize_t n = read(p->fd, piece,
				 p->left < PIECE ? (size_t)p->left : PIECE);

		if (n <= 0) {
			http_reply_cut(c);
			play_free(p);
			return;
		}
		p->left -= (uint64_t)n;
		room = http_reply_data(c, piece, (size_t)n);
	}
	if (p->left > 0)
		return;
	http_reply_end(c);
	play_free(p);
}

void h_recording_get(struct api *a, struct http_conn *c,
		     const struct call *call)
{
	static const struct http_field type[] = {
		{ "Content-Type", "application/x-asciicast" }, { 0 }
	};
	char path[CAST_PATH];
	struct err e = { 0 };
	struct stat st;
	struct play *p;
	int fd;

	if (!find_one(a, c, call, path))
		return;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 || fstat(fd, &st) < 0) {
		err_sys(&e, "open the recording");
		auto_close(&fd);
		reply_err(a, c, &e);
		return;
	}
	p = xcalloc(1, sizeof(*p));
	p->fd = fd;
	p->left = (uint64_t)st.st_size;
	a->metrics.requests[2]++;
	http_own(c, p, play_gone);
	http_reply_start_sized(c, 200, type, p->left, play_on);
	play_on(c, p);
}

void h_recording_delete(struct api *a, struct http_conn *c,
			const struct call *call)
{
	char path[CAST_PATH];
	struct err e = { 0 };

	if (!find_one(a, c, call, path))
		return;
	if (unlink(path) < 0 && errno != ENOENT) {
		err_sys(&e, "remove the recording");
		reply_err(a, c, &e);
		return;
	}
	audit_add(a, &(struct audit){
			     .type = "recording.remove",
			     .who = &call->who,
			     .request_id = http_request_id(c),
			     .data = json_pack("{s:s, s:s}", "sandbox",
					       call->arg[0], "recording",
					       call->arg[1]),
		     });
	reply_empty(a, c, 204);
}
