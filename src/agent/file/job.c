#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "agent/builtin.h"
#include "agent/file/file.h"
#include "base/auto.h"
#include "base/fd.h"
#include "base/str.h"

/* Options, each a bit. */
enum {
	OPT_FOLLOW = 1,
	OPT_PARENTS = 2,
	OPT_RECURSIVE = 4,
	OPT_OVERWRITE = 8,
	OPT_MODE = 16,
	OPT_DEPTH = 32,
	OPT_LIMIT = 64,
	OPT_AFTER = 128,
	OPT_FIRST = 256,
	OPT_LAST = 512,
	OPT_DETAIL = 1024,
	OPT_OWNER = 2048,
	OPT_ATTR = 4096,
	OPT_WITHIN = 8192,
	OPT_IDS = 16384,
	OPT_BOTH = OPT_DETAIL | OPT_OWNER,
};

static const struct job {
	const char *name;
	job_fn *fn;
	int paths;
	unsigned opts;
} jobs[] = {
	{ "file.stat", job_stat, 1, OPT_FOLLOW | OPT_BOTH | OPT_WITHIN },
	{ "file.list", job_list, 1,
	  OPT_DEPTH | OPT_LIMIT | OPT_AFTER | OPT_BOTH | OPT_WITHIN },
	{ "file.read", job_read, 1,
	  OPT_FIRST | OPT_LAST | OPT_OWNER | OPT_WITHIN },
	{ "file.write", job_write, 1,
	  OPT_MODE | OPT_PARENTS | OPT_ATTR | OPT_BOTH | OPT_WITHIN },
	{ "file.mkdir", job_mkdir, 1,
	  OPT_MODE | OPT_PARENTS | OPT_BOTH | OPT_WITHIN },
	{ "file.move", job_move, 2, OPT_PARENTS | OPT_OVERWRITE | OPT_BOTH },
	{ "file.copy", job_copy, 2,
	  OPT_PARENTS | OPT_OVERWRITE | OPT_RECURSIVE },
	{ "file.remove", job_remove, 1,
	  OPT_RECURSIVE | OPT_OWNER | OPT_WITHIN },
	{ "file.chmod", job_chmod, 1,
	  OPT_MODE | OPT_RECURSIVE | OPT_WITHIN | OPT_IDS },
	{ "file.watch", job_watch, 1, OPT_RECURSIVE | OPT_BOTH },
	{ "file.pack", job_pack, 1, 0 },
	{ "file.unpack", job_unpack, 1, OPT_PARENTS },
	{ "host.merge", job_merge, 1, 0 },
	{ "host.lay", job_lay, 1, 0 },
	{ "host.door", job_door, 1, 0 },
};

static int set_flag(struct file_job *j, size_t field, const char *value)
{
	if (value)
		return -EINVAL;
	*(bool *)((char *)j + field) = true;
	return 0;
}

static int set_number(struct file_job *j, size_t field, const char *value)
{
	if (!value)
		return -EINVAL;
	return parse_u64(value, INT64_MAX, (uint64_t *)((char *)j + field));
}

static int set_first(struct file_job *j, size_t field, const char *value)
{
	j->has_first = true;
	return set_number(j, field, value);
}

static int set_last(struct file_job *j, size_t field, const char *value)
{
	j->has_last = true;
	return set_number(j, field, value);
}

static int set_after(struct file_job *j, size_t field, const char *value)
{
	(void)field;
	j->after = value;
	return value ? 0 : -EINVAL;
}

static int set_owner(struct file_job *j, size_t field, const char *value)
{
	(void)field;
	j->owner = value;
	return value ? 0 : -EINVAL;
}

static int set_within(struct file_job *j, size_t field, const char *value)
{
	(void)field;
	j->within = value;
	return value && *value == '/' ? 0 : -EINVAL;
}

/* The largest number would mean "as it is". */
static int set_id(struct file_job *j, size_t field, const char *value)
{
	if (!value)
		return -EINVAL;
	return parse_u64(value, UINT32_MAX - 1,
			 (uint64_t *)((char *)j + field));
}

static int set_uid(struct file_job *j, size_t field, const char *value)
{
	j->has_uid = true;
	return set_id(j, field, value);
}

static int set_gid(struct file_job *j, size_t field, const char *value)
{
	j->has_gid = true;
	return set_id(j, field, value);
}

/* Only those that say nothing to the kernel. */
static int set_attr(struct file_job *j, size_t field, const char *value)
{
	size_t n = value ? strcspn(value, "=") : 0;

	(void)field;
	if (j->n_attrs == FILE_ATTRS_MAX || n > FILE_ATTR_NAME_MAX ||
	    n <= strlen("user.") || !str_starts(value, "user.") || !value[n])
		return -EINVAL;
	j->attr[j->n_attrs++] = value;
	return 0;
}

static int set_mode(struct file_job *j, size_t field, const char *value)
{
	mode_t m = 0;

	(void)field;
	if (!value || !*value || strlen(value) > 5)
		return -EINVAL;
	for (; *value; value++) {
		if (*value < '0' || *value > '7')
			return -EINVAL;
		m = m * 8 + (mode_t)(*value - '0');
	}
	if (m > FILE_MODE_MAX)
		return -ERANGE;
	j->mode = m;
	j->has_mode = true;
	return 0;
}

static const struct option {
	const char *name;
	unsigned bit;
	int (*set)(struct file_job *j, size_t field, const char *value);
	size_t field;
} options[] = {
#define FIELD(f) offsetof(struct file_job, f)
	{ "follow", OPT_FOLLOW, set_flag, FIELD(follow) },
	{ "parents", OPT_PARENTS, set_flag, FIELD(parents) },
	{ "recursive", OPT_RECURSIVE, set_flag, FIELD(recursive) },
	{ "overwrite", OPT_OVERWRITE, set_flag, FIELD(overwrite) },
	{ "mode", OPT_MODE, set_mode, FIELD(mode) },
	{ "depth", OPT_DEPTH, set_number, FIELD(depth) },
	{ "limit", OPT_LIMIT, set_number, FIELD(limit) },
	{ "after", OPT_AFTER, set_after, FIELD(after) },
	{ "first", OPT_FIRST, set_first, FIELD(first) },
	{ "last", OPT_LAST, set_last, FIELD(last) },
	{ "detail", OPT_DETAIL, set_flag, FIELD(detail) },
	{ "owner", OPT_OWNER, set_owner, FIELD(owner) },
	{ "attr", OPT_ATTR, set_attr, FIELD(attr) },
	{ "within", OPT_WITHIN, set_within, FIELD(within) },
	{ "uid", OPT_IDS, set_uid, FIELD(uid) },
	{ "gid", OPT_IDS, set_gid, FIELD(gid) },
#undef FIELD
};

static int take_option(struct file_job *j, const struct job *job,
		       const char *word, struct err *e)
{
	size_t n = strcspn(word, "="), i;
	const char *value = word[n] ? word + n + 1 : NULL;

	for (i = 0; i < ARRAY_LEN(options); i++) {
		const struct option *o = &options[i];

		if (strlen(o->name) != n || memcmp(o->name, word, n) != 0)
			continue;
		if (!(job->opts & o->bit))
			break;
		if (o->set(j, o->field, value) < 0)
			return err_set(e, EINVAL, "%s: bad option %.64s",
				       job->name, word);
		return 0;
	}
	return err_set(e, EINVAL, "%s has no option %.64s", job->name, word);
}

static int take_args(struct file_job *j, const struct job *job, int argc,
		     char **argv, struct err *e)
{
	int i, r = 0;

	if (argc < 1 + job->paths)
		return err_set(e, EINVAL, "%s: a path is missing", job->name);
	j->path = argv[1];
	j->to = job->paths > 1 ? argv[2] : NULL;
	if (!*j->path || (j->to && !*j->to))
		return err_set(e, EINVAL, "%s: a path is empty", job->name);
	for (i = 1 + job->paths; i < argc && r == 0; i++)
		r = take_option(j, job, argv[i], e);
	return r;
}

static const struct job *find(const char *name)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(jobs); i++)
		if (strcmp(jobs[i].name, name) == 0)
			return &jobs[i];
	return NULL;
}

int builtin_file(int argc, char **argv)
{
	const struct job *job = find(argv[0]);
	struct file_job j = { .depth = 1, .limit = FILE_LIST_MAX };
	struct err e = { 0 };
	struct buf line = { 0 };
	int r;

	if (!job)
		return 1; /* the table of builtins has names that ours has not
			   */
	r = take_args(&j, job, argc, argv, &e);
	if (r == 0 && j.detail)
		entry_details();
	if (r == 0 && j.owner)
		r = owner_choose(j.owner, &e);
	if (r == 0 && j.within)
		r = within_choose(j.within, &e);
	if (r == 0)
		r = job->fn(&j, &e);
	if (r == -EXDEV && j.within) {
		e = (struct err){ 0 };
		err_set(&e, EPERM, "%.160s leads out of %.100s", j.path,
			j.within);
	}
	if (r == 0)
		r = out_flush(&e);
	if (r == 0)
		return 0;
	file_error_put(&line, &e);
	r = write_full(STDERR_FILENO, buf_data(&line), buf_len(&line));
	(void)r; /* there is nobody else to tell */
	buf_done(&line);
	return 1;
}
