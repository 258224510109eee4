#include <errno.h>
#include <string.h>

#include "api/file_json.h"
#include "api/lineage.h"
#include "api/merge.h"

void merge_plan_init(struct merge_plan *p, enum merge_prefer prefer)
{
	*p = (struct merge_plan){ .prefer = prefer,
				  .changes = json_array(),
				  .clashes = json_array() };
}

void merge_plan_done(struct merge_plan *p)
{
	buf_done(&p->list);
	json_decref(p->changes);
	json_decref(p->clashes);
	*p = (struct merge_plan){ 0 };
}

/*
 * What the builtin does: '+' and '-' where ours is as the ancestor was, '*'
 * and '!' where it is not, and gives way. 0: nothing.
 */
static char order_of(struct merge_plan *p, const struct view_record *r)
{
	bool gone = r->step.theirs.type == FILE_NONE;

	switch (r->step.step) {
	case MERGE_PUT:
		p->put++;
		return '+';
	case MERGE_REMOVE:
		p->removed++;
		return '-';
	case MERGE_SAME:
		p->same++;
		return 0;
	case MERGE_CONFLICT:
	case MERGE_STEPS:
	default:
		break;
	}
	p->conflicts++;
	if (p->prefer != PREFER_THEIRS) {
		p->kept++;
		return 0;
	}
	*(gone ? &p->removed : &p->put) += 1;
	return gone ? '!' : '*';
}

static const char *word_of(char order, const struct view_record *r)
{
	if (order == 0)
		return r->step.step == MERGE_SAME ? "same" : "keep";
	return order == '+' || order == '*' ? "put" : "remove";
}

static json_t *change_json(char order, const struct view_record *r)
{
	bool clash = r->step.step == MERGE_CONFLICT;
	json_t *j = json_object();

	json_set_path(j, "path", r->step.theirs.path);
	json_object_set_new(j, "action", json_string(word_of(order, r)));
	json_object_set_new(j, "conflict", json_boolean(clash));
	json_object_set_new(j, "theirs", file_state_json(&r->step.theirs));
	json_object_set_new(j, "ours", file_state_json(&r->step.ours));
	return j;
}

static void list_change(struct merge_plan *p, char order,
			const struct view_record *r)
{
	bool clash = r->step.step == MERGE_CONFLICT;
	json_t *j = NULL;

	if (json_array_size(p->changes) < MERGE_LISTED_MAX) {
		j = change_json(order, r);
		json_array_append(p->changes, j);
	}
	if (clash && json_array_size(p->clashes) < MERGE_LISTED_MAX) {
		if (!j)
			j = change_json(order, r);
		json_array_append(p->clashes, j);
	}
	json_decref(j);
}

int merge_plan_add(struct merge_plan *p, const struct view_record *r,
		   struct err *e)
{
	const char *path = r->step.theirs.path;
	char order;

	if (state_path_is_own(path))
		return 0;
	order = order_of(p, r);
	list_change(p, order, r);
	/* The root itself is nobody's to change. */
	if (order == 0 || strcmp(path, "/") == 0)
		return 0;
	if (p->n_paths++ == MERGE_PATHS_MAX ||
	    buf_len(&p->list) + strlen(path) + 2 > MERGE_LIST_MAX)
		return err_set(e, E2BIG, MERGE_TOO_MUCH);
	buf_add(&p->list, &order, 1);
	buf_add(&p->list, path, strlen(path) + 1);
	return 0;
}

json_t *merge_plan_counts(const struct merge_plan *p)
{
	return json_pack("{s:I, s:I, s:I, s:I, s:I}", "put", (json_int_t)p->put,
			 "removed", (json_int_t)p->removed, "same",
			 (json_int_t)p->same, "kept", (json_int_t)p->kept,
			 "conflicts", (json_int_t)p->conflicts);
}
