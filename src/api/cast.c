#include "api/cast.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/api.h"
#include "api/json_text.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/fd.h"

enum { ROWS_DEFAULT = 24, COLS_DEFAULT = 80, FILES_MAX = 100000 };

/* --- files --- */

void cast_path(const struct api *a, const struct cast_info *i,
	       char out[CAST_PATH])
{
	snprintf(out, CAST_PATH, "%s/casts/%s_%s_%s.cast", a->conf.state_dir,
		 i->project, i->box, i->id);
}

static void make_id(struct cast_info *i)
{
	snprintf(i->id, sizeof(i->id), "%013llu-%u",
		 (unsigned long long)i->created_ms, i->process);
}

static bool take_field(const char **s, char end, char *out, size_t cap)
{
	const char *at = strchr(*s, end);
	size_t n = at ? (size_t)(at - *s) : cap;

	if (n >= cap)
		return false;
	memcpy(out, *s, n);
	out[n] = '\0';
	*s = at + 1;
	return true;
}

bool cast_parse_name(const char *name, struct cast_info *out)
{
	char time[24], process[16], id[CAST_ID];
	uint64_t number;

	*out = (struct cast_info){ 0 };
	if (!take_field(&name, '_', out->project, sizeof(out->project)) ||
	    !take_field(&name, '_', out->box, sizeof(out->box)) ||
	    !take_field(&name, '.', id, sizeof(id)) ||
	    strcmp(name, "cast") != 0 || !id_valid(out->box))
		return false;
	name = id;
	if (!take_field(&name, '-', time, sizeof(time)) ||
	    str_copy(process, sizeof(process), name) < 0 ||
	    parse_u64(time, UINT64_MAX, &out->created_ms) < 0 ||
	    parse_u64(process, UINT32_MAX, &number) < 0)
		return false;
	out->process = (uint32_t)number;
	make_id(out);
	return strcmp(out->id, id) == 0;
}

static int by_age(const void *a, const void *b)
{
	const struct cast_info *x = a, *y = b;

	return x->created_ms < y->created_ms ? -1
					     : x->created_ms > y->created_ms;
}

struct cast_info *casts_list(const struct api *a, size_t *n)
{
	char path[CAST_PATH];
	struct cast_info *list = NULL, i;
	const struct dirent *de;
	AUTO_DIR DIR *d = NULL;
	struct stat st;

	*n = 0;
	snprintf(path, sizeof(path), "%s/casts", a->conf.state_dir);
	d = opendir(path);
	while (d && *n < FILES_MAX && (de = readdir(d))) {
		if (!cast_parse_name(de->d_name, &i))
			continue;
		cast_path(a, &i, path);
		if (lstat(path, &st) < 0 || !S_ISREG(st.st_mode))
			continue;
		i.size = (uint64_t)st.st_size;
		list = xrealloc(list, (*n + 1) * sizeof(*list));
		list[(*n)++] = i;
	}
	if (*n > 0)
		qsort(list, *n, sizeof(*list), by_age);
	return list;
}

/* The oldest of this project go until one more fits into its share. */
static void make_room(const struct api *a, const char *project)
{
	size_t n, i, files = 0;
	AUTO_FREE struct cast_info *list = casts_list(a, &n);
	uint64_t bytes = 0;

	for (i = 0; i < n; i++)
		if (strcmp(list[i].project, project) == 0) {
			files++;
			bytes += list[i].size;
		}
	for (i = 0; i < n &&
		    (files >= CAST_PROJECT_FILES || bytes > CAST_PROJECT_BYTES);
	     i++) {
		char path[CAST_PATH];

		if (strcmp(list[i].project, project) != 0)
			continue;
		cast_path(a, &list[i], path);
		unlink(path);
		files--;
		bytes -= list[i].size;
	}
}

/* --- writing --- */

static void put(struct cast *c, const struct buf *line)
{
	int r = write_full(c->fd, buf_data(line), buf_len(line));

	c->size += buf_len(line);
	if (r == 0)
		return;
	log_warn("recording %s: %s, ending it", c->path, strerror(-r));
	cast_close(c);
}

/* [seconds,"o","text"] */
static void put_event(struct cast *c, const char *kind, const char *p, size_t n)
{
	AUTO(buf_done) struct buf line = { 0 }, event = { 0 };
	uint64_t us = clock_boot_us() - c->began_us;
	json_t *j = json_pack("[s, o]", kind, json_lossy(p, n));

	json_add(&event, j);
	json_decref(j);
	/* Behind its bracket. */
	buf_printf(&line, "[%llu.%06llu,%s\n", (unsigned long long)us / 1000000,
		   (unsigned long long)us % 1000000, buf_str(&event) + 1);
	put(c, &line);
}

int cast_open(struct cast *c, const struct sandbox *s, uint32_t process,
	      unsigned rows, unsigned cols, struct err *e)
{
	struct cast_info i = { .created_ms = clock_wall_ms(),
			       .process = process };
	AUTO(buf_done) struct buf line = { 0 };

	memcpy(i.project, s->project, sizeof(i.project));
	memcpy(i.box, s->id, sizeof(i.box));
	make_id(&i);
	make_room(s->api, s->project);
	cast_path(s->api, &i, c->path);
	c->fd = open(c->path,
		     O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
		     0600);
	if (c->fd < 0) {
		err_sys(e, "create %s", c->path);
		c->path[0] = '\0';
		return -e->code;
	}
	c->began_us = clock_boot_us();
	buf_printf(&line,
		   "{\"version\": 2, \"width\": %u, \"height\": %u, "
		   "\"timestamp\": %llu, \"title\": \"%s, process %u\"}\n",
		   cols ? cols : COLS_DEFAULT, rows ? rows : ROWS_DEFAULT,
		   (unsigned long long)(i.created_ms / 1000), s->id, process);
	put(c, &line);
	return 0;
}

void cast_output(struct cast *c, const char *p, size_t n)
{
	static const char end[] = "\r\n[the recording ends here: too long]\r\n";
	size_t whole;

	if (!cast_is_open(c) || c->full)
		return;
	buf_add(&c->cut, p, n);
	whole = utf8_whole(buf_data(&c->cut), buf_len(&c->cut));
	if (whole == 0)
		return;
	put_event(c, "o", buf_data(&c->cut), whole);
	if (!cast_is_open(c))
		return;
	buf_eat(&c->cut, whole);
	if (c->size >= CAST_BYTES) {
		c->full = true;
		put_event(c, "o", end, sizeof(end) - 1);
	}
}

void cast_resize(struct cast *c, unsigned rows, unsigned cols)
{
	char size[32];
	int n = snprintf(size, sizeof(size), "%ux%u", cols, rows);

	if (cast_is_open(c) && !c->full)
		put_event(c, "r", size, (size_t)n);
}

void cast_close(struct cast *c)
{
	if (!cast_is_open(c))
		return;
	auto_close(&c->fd);
	c->path[0] = '\0';
	buf_done(&c->cut);
}
