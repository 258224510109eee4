#include "spec/spec.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/guards.h"
#include "spec/check.h"

#define MIB (1ULL << 20)
#define GIB (1ULL << 30)
#define TIME_MAX (366ULL * 86400 * 1000)
#define AT(f) \
	.at = offsetof(struct spec, f), .cap = sizeof(((struct spec *)0)->f)

const struct spec_field spec_fields[] = {
	{ .name = "image",
	  .kind = SPEC_TEXT,
	  AT(image),
	  .arg = "IMAGE",
	  .help = "image to start from" },
	{ .name = "name",
	  .kind = SPEC_TEXT,
	  AT(name),
	  .arg = "NAME",
	  .help = "a name to call it by, unique in its project" },
	{ .name = "labels",
	  .option = "label",
	  .kind = SPEC_MAP,
	  .flags = SPEC_PATCH,
	  AT(labels),
	  .check = check_labels,
	  .arg = "K=V",
	  .help = "a word of your own about it, to find it by" },
	{ .name = "cpus",
	  .kind = SPEC_MILLI,
	  .flags = SPEC_PATCH,
	  AT(cpus_milli),
	  .min = 50,
	  .max = 512 * 1000,
	  .arg = "N",
	  .help = "processors, in parts of a thousand: 2, 0.5" },
	{ .name = "memory",
	  .kind = SPEC_SIZE,
	  .flags = SPEC_PATCH,
	  AT(mem_bytes),
	  .min = 16 * MIB,
	  .max = 4096 * GIB,
	  .arg = "SIZE",
	  .help = "memory, with everything the kernel holds for it" },
	{ .name = "disk",
	  .kind = SPEC_SIZE,
	  AT(disk_bytes),
	  .min = 16 * MIB,
	  .max = 65536 * GIB,
	  .arg = "SIZE",
	  .help = "disk space for what it writes" },
	{ .name = "pids",
	  .kind = SPEC_NUMBER,
	  .flags = SPEC_PATCH,
	  AT(pids),
	  .min = 8,
	  .max = 65536,
	  .arg = "N",
	  .help = "processes and threads" },
	{ .name = "nofile",
	  .kind = SPEC_NUMBER,
	  AT(nofile),
	  .max = 65536,
	  .arg = "N",
	  .help = "open files of each process; 0 is 1024, which it may raise" },
	{ .name = "timeout",
	  .kind = SPEC_TIME,
	  .flags = SPEC_PATCH,
	  AT(timeout_ms),
	  .max = TIME_MAX,
	  .arg = "TIME",
	  .help = "life span: 90s, 5m, 1h; 0 is without end" },
	{ .name = "timeout-action",
	  .kind = SPEC_TEXT,
	  .flags = SPEC_PATCH,
	  AT(timeout_action),
	  .arg = "ACTION",
	  .help = "what happens then: remove, pause, suspend (keeps the "
		  "disk alone)" },
	{ .name = "idle-timeout",
	  .kind = SPEC_TIME,
	  .flags = SPEC_PATCH,
	  AT(idle_ms),
	  .max = TIME_MAX,
	  .arg = "TIME",
	  .help = "time without a client and without work; 0 is without end" },
	{ .name = "tier",
	  .kind = SPEC_TEXT,
	  AT(tier),
	  .arg = "TIER",
	  .help = "container, or microvm: with a kernel of its own" },
	{ .name = "idle-action",
	  .kind = SPEC_TEXT,
	  .flags = SPEC_PATCH,
	  AT(idle_action),
	  .arg = "ACTION",
	  .help = "what happens then: remove, pause" },
	{ .name = "cpu-budget",
	  .kind = SPEC_TIME,
	  .flags = SPEC_PATCH,
	  AT(cpu_budget_ms),
	  .max = TIME_MAX,
	  .arg = "TIME",
	  .help = "processor time it may use before it ends; 0 is all it can "
		  "get" },
	{ .name = "output-limit",
	  .kind = SPEC_SIZE,
	  .flags = SPEC_PATCH,
	  AT(output_limit),
	  .max = 65536 * GIB,
	  .arg = "SIZE",
	  .help = "output of its processes before it ends; 0 is without end" },
	{ .name = "auto-snapshot",
	  .kind = SPEC_TEXT,
	  .flags = SPEC_PATCH,
	  AT(auto_snapshot),
	  .arg = "WHEN",
	  .help = "snapshots by themselves: none, or exec, before each "
		  "command" },
	{ .name = "snapshot-keep",
	  .kind = SPEC_NUMBER,
	  .flags = SPEC_PATCH,
	  AT(snapshot_keep),
	  .min = 1,
	  .max = 100,
	  .arg = "N",
	  .help = "how many of those stay, the newest ones" },
	{ .name = "user",
	  .kind = SPEC_TEXT,
	  .flags = SPEC_PROCESS,
	  AT(user),
	  .arg = "USER",
	  .help = "user of its processes, a name or a number" },
	{ .name = "workdir",
	  .kind = SPEC_TEXT,
	  .flags = SPEC_PROCESS,
	  AT(workdir),
	  .arg = "DIR",
	  .help = "directory that its processes start in" },
	{ .name = "env",
	  .kind = SPEC_MAP,
	  .flags = SPEC_PROCESS,
	  AT(env),
	  .check = check_env,
	  .arg = "K[=V]",
	  .help = "environment of its processes" },
	{ .name = "ports",
	  .option = "port",
	  .kind = SPEC_PORTS,
	  AT(ports),
	  .check = check_ports,
	  .arg = "NAME=N",
	  .help = "a name for a port that is served inside" },
	{ .name = "files",
	  .option = "file",
	  .kind = SPEC_FILES,
	  .flags = SPEC_START,
	  AT(files),
	  .check = check_files,
	  .arg = "PATH=FILE",
	  .help = "a small file to be there from the start" },
	{ .name = "start",
	  .kind = SPEC_LIST,
	  AT(start),
	  .check = check_start,
	  .arg = "COMMAND",
	  .help = "a line for the shell, run in the background when it runs" },
	{ .name = "volumes",
	  .option = "volume",
	  .kind = SPEC_LIST,
	  AT(volumes),
	  .check = check_volumes,
	  .arg = "NAME:/PATH[:MODE]",
	  .help = "a volume that it has at a path: rw, ro, or shared" },
	{ .name = "drive",
	  .kind = SPEC_LIST,
	  AT(drive),
	  .check = check_drive,
	  .arg = "PREFIX[:rw]",
	  .help = "what its `drive` command may read, or write, of the drive" },
	{ .name = "policy",
	  .kind = SPEC_TEXT,
	  .flags = SPEC_PATCH,
	  AT(policy),
	  .arg = "POLICY",
	  .help = "policy of what it may reach, or a file: ./NAME" },
	{ .name = "allow",
	  .kind = SPEC_LIST,
	  .flags = SPEC_PATCH | SPEC_COMMAS,
	  AT(allow),
	  .check = check_allow,
	  .arg = "PRESET",
	  .help = "what package managers reach: pypi, npm, debian..." },
	{ .name = "rules",
	  .option = "rule",
	  .kind = SPEC_LIST,
	  .flags = SPEC_PATCH,
	  AT(rules),
	  .check = check_rules,
	  .arg = "RULE",
	  .help = "a line of policy, in front of the policy's own" },
	{ .name = "late-rules",
	  .option = "late-rule",
	  .kind = SPEC_LIST,
	  .flags = SPEC_PATCH,
	  AT(late_rules),
	  .check = check_late_rules,
	  .arg = "RULE",
	  .help = "a line of policy, behind the policy's own" },
	{ .name = "secrets",
	  .option = "secret",
	  .kind = SPEC_LIST,
	  .flags = SPEC_PATCH | SPEC_COMMAS,
	  AT(secrets),
	  .check = check_secrets,
	  .arg = "NAME",
	  .help = "a secret that the gate adds to its requests" },
	{ .name = "canaries",
	  .option = "canary",
	  .kind = SPEC_LIST,
	  .flags = SPEC_COMMAS,
	  AT(canaries),
	  .check = check_canaries,
	  .arg = "VARIABLE",
	  .help = "a false secret inside; what carries it out is stopped" },
	{ .name = "observe",
	  .kind = SPEC_BOOL,
	  .flags = SPEC_PATCH,
	  AT(observe),
	  .max = 1,
	  .help = "let pass what no rule allows, and write it down" },
	{ .name = "sudo",
	  .kind = SPEC_BOOL,
	  .flags = SPEC_ON,
	  AT(sudo),
	  .max = 1,
	  .help = "sudo inside" },
	{ .name = "persist",
	  .kind = SPEC_BOOL,
	  AT(persist),
	  .max = 1,
	  .help = "keep its disk when it ends by itself, or with the host" },
	{ .name = "allow-missing",
	  .kind = SPEC_TEXT,
	  AT(allow_missing),
	  .arg = "LIMIT",
	  .help = "start although the host cannot enforce LIMIT (disk)" },
	{ .name = "client",
	  .kind = SPEC_OBJECT,
	  .flags = SPEC_PATCH,
	  AT(client),
	  .check = check_client,
	  .help = "what a client keeps with it, for itself" },
	{ 0 },
};

static bool is_json(enum spec_kind kind)
{
	return kind >= SPEC_MAP;
}

static json_t **json_at(const struct spec *s, const struct spec_field *f)
{
	return (json_t **)((char *)s + f->at);
}

void spec_defaults(struct spec *s, const struct conf *c)
{
	*s = (struct spec){ .cpus_milli = c->cpus_milli,
			    .mem_bytes = c->mem_bytes,
			    .disk_bytes = c->disk_bytes,
			    .pids = c->pids,
			    .timeout_ms = c->timeout_ms,
			    .idle_action = "remove",
			    .timeout_action = "remove",
			    .auto_snapshot = "none",
			    .snapshot_keep = 10,
			    .sudo = 1 };
	snprintf(s->tier, sizeof(s->tier), "%s",
		 *c->tier ? c->tier : "container");
	memcpy(s->image, c->image, sizeof(s->image));
	s->image[sizeof(s->image) - 1] = '\0';
	snprintf(s->allow_missing, sizeof(s->allow_missing), "%.31s",
		 c->allow_missing);
}

void spec_kept(struct spec *s, const struct conf *c)
{
	spec_defaults(s, c);
	snprintf(s->tier, sizeof(s->tier), "container");
}

static void disown(struct spec *s)
{
	s->env = s->labels = s->ports = s->start = s->files = NULL;
	s->drive = s->volumes = NULL;
	s->allow = s->rules = s->late_rules = NULL;
	s->secrets = s->canaries = NULL;
	s->client = NULL;
}

void spec_done(struct spec *s)
{
	json_decref(s->env);
	json_decref(s->labels);
	json_decref(s->ports);
	json_decref(s->start);
	json_decref(s->files);
	json_decref(s->drive);
	json_decref(s->volumes);
	json_decref(s->allow);
	json_decref(s->rules);
	json_decref(s->late_rules);
	json_decref(s->secrets);
	json_decref(s->canaries);
	json_decref(s->client);
	disown(s);
}

void spec_move(struct spec *to, struct spec *from)
{
	*to = *from;
	disown(from);
}

void spec_copy(struct spec *to, const struct spec *from)
{
	*to = *from;
	json_incref(to->env);
	json_incref(to->ports);
	json_incref(to->start);
	json_incref(to->files);
	json_incref(to->drive);
	json_incref(to->volumes);
	json_incref(to->allow);
	json_incref(to->rules);
	json_incref(to->late_rules);
	json_incref(to->secrets);
	json_incref(to->canaries);
	json_incref(to->client);
	to->labels = json_copy(from->labels);
}

static int parse_text(const struct spec_field *f, const char *v, uint64_t *n)
{
	switch (f->kind) {
	case SPEC_NUMBER:
		return parse_u64(v, UINT64_MAX, n);
	case SPEC_SIZE:
		return parse_size(v, n);
	case SPEC_MILLI:
		return parse_milli(v, n);
	case SPEC_TIME:
		return parse_duration(v, n);
	case SPEC_TEXT:
	case SPEC_BOOL:
	case SPEC_MAP:
	case SPEC_PORTS:
	case SPEC_LIST:
	case SPEC_FILES:
	case SPEC_OBJECT:
		break;
	}
	return -EINVAL;
}

static int parse_number(const struct spec_field *f, const json_t *v,
			uint64_t *n)
{
	double d = json_number_value(v), off;

	if (f->kind == SPEC_MILLI || f->kind == SPEC_TIME)
		d *= 1000;
	if (!(d >= 0) || d > 9e15)
		return -EINVAL;
	/* 2.03 is not 2030 thousandths to the last bit. */
	*n = (uint64_t)(d + 0.5);
	off = d - (double)*n;
	return off < 1e-6 && off > -1e-6 ? 0 : -EINVAL;
}

static int take_json(struct spec *s, const struct spec_field *f, json_t *v,
		     struct err *e)
{
	json_t **at = json_at(s, f);
	int r = f->check(v, e);

	if (r < 0)
		return r;
	json_decref(*at);
	*at = json_incref(v);
	return 0;
}

static int take_field(struct spec *s, const struct spec_field *f, json_t *v,
		      struct err *e)
{
	char *at = (char *)s + f->at;
	uint64_t n = 0;
	int r = -EINVAL;

	if (is_json(f->kind))
		return take_json(s, f, v, e);
	if (f->kind == SPEC_TEXT) {
		if (json_is_string(v) &&
		    strlen(json_string_value(v)) == json_string_length(v))
			r = str_copy(at, f->cap, json_string_value(v));
	} else if (f->kind == SPEC_BOOL) {
		if (json_is_boolean(v))
			r = 0;
		n = json_is_true(v);
	} else if (json_is_string(v)) {
		r = parse_text(f, json_string_value(v), &n);
	} else if (json_is_number(v)) {
		r = parse_number(f, v, &n);
	}
	if (r < 0)
		return err_set(e, EINVAL, "%s: not a valid value", f->name);
	if (f->kind != SPEC_TEXT)
		memcpy(at, &n, sizeof(n));
	return 0;
}

static const struct spec_field *find_field(const char *key, struct err *e)
{
	const struct spec_field *f;

	for (f = spec_fields; f->name; f++)
		if (strcmp(f->name, key) == 0)
			return f;
	err_set(e, EINVAL, "unknown key '%.64s'", key);
	return NULL;
}

int spec_from_json(struct spec *s, const json_t *j, struct err *e)
{
	const struct spec_field *f;
	const char *key;
	json_t *v;

	if (!json_is_object(j))
		return err_set(e, EINVAL, "the spec is not a JSON object");
	json_object_foreach ((json_t *)j, key, v) {
		f = find_field(key, e);
		if (!f && !GUARD(FIELDS)) {
			err_clear(e);
			continue;
		}
		if (!f || take_field(s, f, v, e) < 0)
			return -e->code;
	}
	return spec_check(s, e);
}

/* Into a copy, which is checked as a whole. */
static int patch_labels(struct spec *s, const json_t *j, struct err *e)
{
	json_t *all = s->labels ? json_copy(s->labels) : json_object(), *v;
	const char *key;
	int r;

	if (!json_is_object(j)) {
		json_decref(all);
		return err_set(e, EINVAL, "labels: not an object");
	}
	json_object_foreach ((json_t *)j, key, v) {
		if (json_is_null(v))
			json_object_del(all, key);
		else
			json_object_set(all, key, v);
	}
	r = check_labels(all, e);
	if (r < 0) {
		json_decref(all);
		return r;
	}
	json_decref(s->labels);
	s->labels = all;
	return 0;
}

int spec_patch(struct spec *s, const json_t *j, struct err *e)
{
	const struct spec_field *f;
	const char *key;
	json_t *v;

	if (!json_is_object(j))
		return err_set(e, EINVAL, "the change is not a JSON object");
	json_object_foreach ((json_t *)j, key, v) {
		f = find_field(key, e);
		if (!f)
			return -e->code;
		if (!(f->flags & SPEC_PATCH))
			return err_set(e, EINVAL,
				       "%s: cannot be changed while it lives",
				       key);
		if ((f->kind == SPEC_MAP ? patch_labels(s, v, e)
					 : take_field(s, f, v, e)) < 0)
			return -e->code;
	}
	return spec_check(s, e);
}

static json_t *field_json(const struct spec *s, const struct spec_field *f)
{
	const char *at = (const char *)s + f->at;
	uint64_t n = 0;

	if (f->kind == SPEC_TEXT)
		return json_string(at);
	if (is_json(f->kind))
		return json_incref(*json_at(s, f));
	memcpy(&n, at, sizeof(n));
	if (f->kind == SPEC_BOOL)
		return json_boolean(n);
	if ((f->kind == SPEC_MILLI || f->kind == SPEC_TIME) && n % 1000)
		return json_real((double)n / 1000);
	if (f->kind == SPEC_MILLI || f->kind == SPEC_TIME)
		n /= 1000;
	return json_integer((json_int_t)n);
}

json_t *spec_to_json(const struct spec *s)
{
	const struct spec_field *f;
	json_t *j = json_object(), *v;

	for (f = spec_fields; f->name; f++) {
		if (f->flags & SPEC_START)
			continue;
		v = field_json(s, f);
		if (v)
			json_object_set_new_nocheck(j, f->name, v);
	}
	return j;
}

/* Words that only some values make sense for. */
static int check_words(const struct spec *s, struct err *e)
{
	if (*s->name && !name_valid(s->name))
		return err_set(e, EINVAL,
			       "name: '%s' is not 1 to 63 of a-z, 0-9 and -",
			       s->name);
	if (*s->allow_missing && strcmp(s->allow_missing, "disk") != 0)
		return err_set(e, EINVAL,
			       "allow-missing: only 'disk' may be missing");
	if (strcmp(s->tier, "container") != 0 && !spec_is_vm(s))
		return err_set(e, EINVAL,
			       "tier: there are 'container' and 'microvm'");
	if (strcmp(s->idle_action, "remove") != 0 &&
	    strcmp(s->idle_action, "pause") != 0)
		return err_set(e, EINVAL,
			       "idle-action: there are 'remove' and 'pause'");
	if (strcmp(s->timeout_action, "remove") != 0 &&
	    strcmp(s->timeout_action, "pause") != 0 &&
	    strcmp(s->timeout_action, "suspend") != 0)
		return err_set(e, EINVAL,
			       "timeout-action: there are 'remove', 'pause' "
			       "and 'suspend'");
	if (strcmp(s->auto_snapshot, "none") != 0 &&
	    strcmp(s->auto_snapshot, "exec") != 0)
		return err_set(e, EINVAL,
			       "auto-snapshot: there are 'none' and 'exec'");
	if (s->nofile > 0 && s->nofile < 16)
		return err_set(e, ERANGE, "nofile: at least 16");
	return 0;
}

int spec_check(const struct spec *s, struct err *e)
{
	const struct spec_field *f;

	for (f = spec_fields; f->name; f++) {
		uint64_t n;

		if (f->kind == SPEC_TEXT || is_json(f->kind))
			continue;
		memcpy(&n, (const char *)s + f->at, sizeof(n));
		if (n < f->min || n > f->max)
			return err_set(e, ERANGE,
				       "%s: out of bounds (see --help)",
				       f->name);
	}
	return check_words(s, e);
}
