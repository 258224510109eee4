/*
 * What is kept of the past: how sandboxes ended, what they have used, and
 * answers that may be asked for again.
 */
#include "registry/stmt.h"

/* --- ended --- */

int registry_ended_add(struct registry *r, const struct ended_row *row,
		       struct err *e)
{
	sqlite3_stmt *st = r->st[ST_ENDED_ADD];

	put_text(st, 1, row->id);
	put_text(st, 2, row->name);
	put_text(st, 3, row->project);
	put_text(st, 4, row->image);
	put_text(st, 5, row->reason);
	put_u64(st, 6, row->created_ms);
	put_u64(st, 7, row->ended_ms);
	put_u64(st, 8, row->record);
	return stmt_run(r, ST_ENDED_ADD, "note an end", e);
}

int registry_ended_remove(struct registry *r, const char *id, struct err *e)
{
	put_text(r->st[ST_ENDED_REMOVE], 1, id);
	return stmt_run(r, ST_ENDED_REMOVE, "forget an end", e);
}

int registry_ended_each(struct registry *r,
			int (*fn)(void *arg, const struct ended_row *row),
			void *arg, struct err *e)
{
	sqlite3_stmt *st = r->st[ST_ENDED_LIST];
	int rc;

	while ((rc = stmt_row(r, ST_ENDED_LIST, "list what ended", e)) == 1) {
		struct ended_row row = {
			.id = get_text(st, 0),
			.name = get_text(st, 1),
			.project = get_text(st, 2),
			.image = get_text(st, 3),
			.reason = get_text(st, 4),
			.created_ms = get_u64(st, 5),
			.ended_ms = get_u64(st, 6),
			.record = get_u64(st, 7),
		};

		rc = fn(arg, &row);
		if (rc != 0)
			break;
	}
	stmt_reset(r, ST_ENDED_LIST);
	return rc;
}

/* --- usage --- */

int registry_usage_put(struct registry *r, const struct usage_row *row,
		       struct err *e)
{
	sqlite3_stmt *st = r->st[ST_USAGE_PUT];

	put_text(st, 1, row->sandbox);
	put_text(st, 2, row->project);
	put_u64(st, 3, row->cpu_us);
	put_u64(st, 4, row->mem_byte_s);
	put_u64(st, 5, row->disk_byte_s);
	put_u64(st, 6, row->output_bytes);
	put_u64(st, 7, row->started_ms);
	put_u64(st, 8, row->updated_ms);
	put_u64(st, 9, row->ended_ms);
	put_text(st, 10, row->account ? row->account : "");
	return stmt_run(r, ST_USAGE_PUT, "note usage", e);
}

static struct usage_row usage_of(sqlite3_stmt *st)
{
	return (struct usage_row){
		.sandbox = get_text(st, 0),
		.project = get_text(st, 1),
		.cpu_us = get_u64(st, 2),
		.mem_byte_s = get_u64(st, 3),
		.disk_byte_s = get_u64(st, 4),
		.output_bytes = get_u64(st, 5),
		.started_ms = get_u64(st, 6),
		.updated_ms = get_u64(st, 7),
		.ended_ms = get_u64(st, 8),
	};
}

int registry_usage_get(struct registry *r, const char *sandbox,
		       struct usage_row *row, struct err *e)
{
	int rc;

	put_text(r->st[ST_USAGE_GET], 1, sandbox);
	rc = stmt_row(r, ST_USAGE_GET, "look up usage", e);
	if (rc == 1) {
		*row = usage_of(r->st[ST_USAGE_GET]);
		row->sandbox = row->project = "";
	}
	stmt_reset(r, ST_USAGE_GET);
	return rc;
}

int registry_usage_family(struct registry *r, const char *account,
			  uint64_t *cpu_us, struct err *e)
{
	int rc;

	put_text(r->st[ST_USAGE_FAMILY], 1, account);
	rc = stmt_row(r, ST_USAGE_FAMILY, "add up a family's usage", e);
	if (rc == 1)
		*cpu_us = get_u64(r->st[ST_USAGE_FAMILY], 0);
	stmt_reset(r, ST_USAGE_FAMILY);
	return rc < 0 ? rc : 0;
}

static void put_filter(sqlite3_stmt *st, const struct usage_filter *f)
{
	put_text(st, 1, f->project);
	put_text(st, 2, f->sandbox);
	put_u64(st, 3, f->since_ms);
	put_u64(st, 4, f->until_ms);
}

int registry_usage_each(struct registry *r, const struct usage_filter *f,
			int (*fn)(void *arg, const struct usage_row *row),
			void *arg, struct err *e)
{
	sqlite3_stmt *st = r->st[ST_USAGE_LIST];
	int rc;

	put_filter(st, f);
	put_u64(st, 5, f->limit);
	while ((rc = stmt_row(r, ST_USAGE_LIST, "list usage", e)) == 1) {
		struct usage_row row = usage_of(st);

		rc = fn(arg, &row);
		if (rc != 0)
			break;
	}
	stmt_reset(r, ST_USAGE_LIST);
	return rc;
}

int registry_usage_sums(struct registry *r, const struct usage_filter *f,
			int (*fn)(void *arg, const struct usage_sum *sum),
			void *arg, struct err *e)
{
	sqlite3_stmt *st = r->st[ST_USAGE_SUM];
	int rc;

	put_filter(st, f);
	while ((rc = stmt_row(r, ST_USAGE_SUM, "add up usage", e)) == 1) {
		struct usage_sum sum = {
			.project = get_text(st, 0),
			.sandboxes = get_u64(st, 1),
			.cpu_us = sqlite3_column_double(st, 2),
			.mem_byte_s = sqlite3_column_double(st, 3),
			.disk_byte_s = sqlite3_column_double(st, 4),
			.output_bytes = sqlite3_column_double(st, 5),
		};

		rc = fn(arg, &sum);
		if (rc != 0)
			break;
	}
	stmt_reset(r, ST_USAGE_SUM);
	return rc;
}

static int fold_until(struct registry *r, uint64_t ended_ms, struct err *e)
{
	int rc = registry_begin(r, e);

	if (rc < 0)
		return rc;
	put_u64(r->st[ST_USAGE_FOLD], 1, ended_ms);
	rc = stmt_run(r, ST_USAGE_FOLD, "sum up usage", e);
	if (rc == 0) {
		put_u64(r->st[ST_USAGE_FOLDED], 1, ended_ms);
		rc = stmt_run(r, ST_USAGE_FOLDED, "drop old usage", e);
	}
	return registry_end(r, rc, e);
}

int registry_usage_fold(struct registry *r, unsigned keep, struct err *e)
{
	uint64_t ended_ms = 0;
	int rc;

	put_u64(r->st[ST_USAGE_NTH], 1, keep);
	rc = stmt_row(r, ST_USAGE_NTH, "count usage", e);
	if (rc == 1)
		ended_ms = get_u64(r->st[ST_USAGE_NTH], 0);
	stmt_reset(r, ST_USAGE_NTH);
	return rc == 1 ? fold_until(r, ended_ms, e) : rc;
}

int registry_usage_close(struct registry *r, struct err *e)
{
	return stmt_run(r, ST_USAGE_CLOSE, "close old usage", e);
}

/* --- replays --- */

int registry_replay_add(struct registry *r, const struct replay_row *row,
			struct err *e)
{
	sqlite3_stmt *st = r->st[ST_REPLAY_ADD];

	put_text(st, 1, row->project);
	put_text(st, 2, row->key);
	put_hash(st, 3, row->digest);
	put_text(st, 4, row->answer);
	put_u64(st, 5, row->created_ms);
	return stmt_run(r, ST_REPLAY_ADD, "keep an answer", e);
}

/* NOLINTNEXTLINE(readability-function-size): a question and its callback */
int registry_replay_get(struct registry *r, const char *project,
			const char *key, uint64_t after_ms,
			void (*fn)(void *arg, const struct replay_row *row),
			void *arg, struct err *e)
{
	sqlite3_stmt *st = r->st[ST_REPLAY_GET];
	struct replay_row row = { .project = project, .key = key };
	int rc;

	put_text(st, 1, project);
	put_text(st, 2, key);
	rc = stmt_row(r, ST_REPLAY_GET, "look up an answer", e);
	if (rc == 1) {
		get_hash(st, 0, row.digest);
		row.answer = get_text(st, 1);
		row.created_ms = get_u64(st, 2);
		if (row.created_ms < after_ms)
			rc = 0;
		else
			fn(arg, &row);
	}
	stmt_reset(r, ST_REPLAY_GET);
	return rc;
}

int registry_replay_prune(struct registry *r, uint64_t before_ms, unsigned keep,
			  struct err *e)
{
	int rc;

	put_u64(r->st[ST_REPLAY_EXPIRE], 1, before_ms);
	rc = stmt_run(r, ST_REPLAY_EXPIRE, "drop old answers", e);
	if (rc < 0)
		return rc;
	put_u64(r->st[ST_REPLAY_SHRINK], 1, keep);
	return stmt_run(r, ST_REPLAY_SHRINK, "drop answers", e);
}
