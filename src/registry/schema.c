#include "registry/schema.h"

#include <assert.h>

#include "base/auto.h"

#define V1                                                                  \
	"CREATE TABLE sandboxes ("                                          \
	" id TEXT PRIMARY KEY NOT NULL, name TEXT,"                         \
	" image_id TEXT NOT NULL, image TEXT NOT NULL, spec TEXT NOT NULL," \
	" created_ms INTEGER NOT NULL, boot_id TEXT NOT NULL,"              \
	" deadline_boot_ms INTEGER NOT NULL,"                               \
	" deadline_wall_ms INTEGER NOT NULL) WITHOUT ROWID;"                \
	"CREATE UNIQUE INDEX sandbox_names ON sandboxes (name)"             \
	" WHERE name IS NOT NULL;"                                          \
	"CREATE TABLE images ("                                             \
	" name TEXT PRIMARY KEY NOT NULL, id TEXT NOT NULL UNIQUE,"         \
	" size INTEGER NOT NULL, entries INTEGER NOT NULL,"                 \
	" created_ms INTEGER NOT NULL) WITHOUT ROWID;"

/*
 * Projects and their keys; names are unique per project; what became of
 * sandboxes that ended; what each has used (`usage`, older ones summed up per
 * day in `usage_days`); answers to creates that may be asked for again.
 */
#define V2                                                                 \
	"CREATE TABLE projects (name TEXT PRIMARY KEY NOT NULL,"           \
	" created_ms INTEGER NOT NULL) WITHOUT ROWID;"                     \
	"INSERT INTO projects VALUES"                                      \
	" ('default', CAST(strftime('%s', 'now') AS INTEGER) * 1000);"     \
	"CREATE TABLE keys (id TEXT PRIMARY KEY NOT NULL,"                 \
	" hash BLOB NOT NULL UNIQUE, name TEXT NOT NULL,"                  \
	" project TEXT NOT NULL, scope INTEGER NOT NULL,"                  \
	" created_ms INTEGER NOT NULL, used_ms INTEGER NOT NULL)"          \
	" WITHOUT ROWID;"                                                  \
	"ALTER TABLE sandboxes"                                            \
	" ADD COLUMN project TEXT NOT NULL DEFAULT 'default';"             \
	"DROP INDEX sandbox_names;"                                        \
	"CREATE UNIQUE INDEX sandbox_names ON sandboxes (project, name)"   \
	" WHERE name IS NOT NULL;"                                         \
	"CREATE TABLE ended (id TEXT PRIMARY KEY NOT NULL,"                \
	" name TEXT NOT NULL, project TEXT NOT NULL,"                      \
	" image TEXT NOT NULL, reason TEXT NOT NULL,"                      \
	" created_ms INTEGER NOT NULL, ended_ms INTEGER NOT NULL)"         \
	" WITHOUT ROWID;"                                                  \
	"CREATE TABLE usage (sandbox TEXT PRIMARY KEY NOT NULL,"           \
	" project TEXT NOT NULL, cpu_us INTEGER NOT NULL,"                 \
	" memory_byte_s INTEGER NOT NULL,"                                 \
	" disk_byte_s INTEGER NOT NULL, output_bytes INTEGER NOT NULL,"    \
	" started_ms INTEGER NOT NULL, updated_ms INTEGER NOT NULL,"       \
	" ended_ms INTEGER NOT NULL) WITHOUT ROWID;"                       \
	"CREATE INDEX usage_started ON usage (started_ms);"                \
	"CREATE INDEX usage_ended ON usage (ended_ms) WHERE ended_ms > 0;" \
	"CREATE TABLE usage_days (project TEXT NOT NULL,"                  \
	" day_ms INTEGER NOT NULL, sandboxes INTEGER NOT NULL,"            \
	" cpu_us INTEGER NOT NULL, memory_byte_s REAL NOT NULL,"           \
	" disk_byte_s REAL NOT NULL, output_bytes INTEGER NOT NULL,"       \
	" PRIMARY KEY (project, day_ms)) WITHOUT ROWID;"                   \
	"CREATE TABLE replays (project TEXT NOT NULL, key TEXT NOT NULL,"  \
	" digest BLOB NOT NULL, answer TEXT NOT NULL,"                     \
	" created_ms INTEGER NOT NULL, PRIMARY KEY (project, key))"        \
	" WITHOUT ROWID;"

/*
 * Snapshots, and what a sandbox has to do with them: `base` is the one that it
 * started from (the ancestor of a merge), `parent` the sandbox whose fork it
 * is, `disk` the snapshot that its disk is while it is suspended. Where images
 * came from and what they want (`config`, JSON), and which build step made
 * them (`cache`). Volumes; files of the drive, each with all its versions.
 */
#define V3                                                                    \
	"ALTER TABLE sandboxes"                                               \
	" ADD COLUMN state TEXT NOT NULL DEFAULT 'running';"                  \
	"ALTER TABLE sandboxes ADD COLUMN disk TEXT NOT NULL DEFAULT '';"     \
	"ALTER TABLE sandboxes ADD COLUMN base TEXT NOT NULL DEFAULT '';"     \
	"ALTER TABLE sandboxes ADD COLUMN parent TEXT NOT NULL DEFAULT '';"   \
	"ALTER TABLE images ADD COLUMN config TEXT NOT NULL DEFAULT '';"      \
	"ALTER TABLE images ADD COLUMN cache TEXT NOT NULL DEFAULT '';"       \
	"CREATE TABLE snapshots (id TEXT PRIMARY KEY NOT NULL,"               \
	" project TEXT NOT NULL, name TEXT, kind TEXT NOT NULL,"              \
	" sandbox TEXT NOT NULL, base TEXT NOT NULL,"                         \
	" image_id TEXT NOT NULL, image TEXT NOT NULL, spec TEXT NOT NULL,"   \
	" bytes INTEGER NOT NULL, pause_us INTEGER NOT NULL,"                 \
	" event INTEGER NOT NULL, created_ms INTEGER NOT NULL)"               \
	" WITHOUT ROWID;"                                                     \
	"CREATE UNIQUE INDEX snapshot_names ON snapshots (project, name)"     \
	" WHERE name IS NOT NULL;"                                            \
	"CREATE TABLE volumes (id TEXT PRIMARY KEY NOT NULL,"                 \
	" project TEXT NOT NULL, name TEXT NOT NULL, bytes INTEGER NOT NULL," \
	" created_ms INTEGER NOT NULL, UNIQUE (project, name))"               \
	" WITHOUT ROWID;"                                                     \
	"CREATE TABLE drive (project TEXT NOT NULL, path TEXT NOT NULL,"      \
	" version INTEGER NOT NULL, removed INTEGER NOT NULL,"                \
	" sha256 TEXT NOT NULL, size INTEGER NOT NULL, who TEXT NOT NULL,"    \
	" sandbox TEXT NOT NULL, created_ms INTEGER NOT NULL,"                \
	" PRIMARY KEY (project, path, version)) WITHOUT ROWID;"               \
	"CREATE INDEX drive_objects ON drive (project, sha256);"

/*
 * The door: policies; secrets, of which `sealed` is the value that nobody here
 * can read and `about` (JSON) the rest; what people have granted to a sandbox
 * (`rule`: a line of policy) until a time (0: without end); what sandboxes have
 * sent and received; the last of numbers that are given once.
 */
#define V4                                                                    \
	"CREATE TABLE policies (project TEXT NOT NULL, name TEXT NOT NULL,"   \
	" text TEXT NOT NULL, updated_ms INTEGER NOT NULL,"                   \
	" PRIMARY KEY (project, name)) WITHOUT ROWID;"                        \
	"CREATE TABLE secrets (project TEXT NOT NULL, name TEXT NOT NULL,"    \
	" about TEXT NOT NULL, sealed BLOB NOT NULL,"                         \
	" created_ms INTEGER NOT NULL, updated_ms INTEGER NOT NULL,"          \
	" PRIMARY KEY (project, name)) WITHOUT ROWID;"                        \
	"CREATE TABLE grants (id INTEGER PRIMARY KEY, sandbox TEXT NOT NULL," \
	" rule TEXT NOT NULL, until_ms INTEGER NOT NULL, who TEXT NOT NULL,"  \
	" created_ms INTEGER NOT NULL);"                                      \
	"CREATE INDEX grant_boxes ON grants (sandbox);"                       \
	"CREATE TABLE egress (sandbox TEXT PRIMARY KEY NOT NULL,"             \
	" project TEXT NOT NULL, requests INTEGER NOT NULL,"                  \
	" denied INTEGER NOT NULL, up_bytes INTEGER NOT NULL,"                \
	" down_bytes INTEGER NOT NULL, tokens_in INTEGER NOT NULL,"           \
	" tokens_out INTEGER NOT NULL, cost_micro INTEGER NOT NULL,"          \
	" updated_ms INTEGER NOT NULL) WITHOUT ROWID;"                        \
	"CREATE TABLE numbers (name TEXT PRIMARY KEY NOT NULL,"               \
	" last INTEGER NOT NULL) WITHOUT ROWID;"

/*
 * Templates of the E2B API: names of a project for disks that were built.
 * `tags` (JSON) says which build each tag means; a build's `about` (JSON) has
 * what its sandboxes are made with, or why it failed. Disks behind the steps of
 * builds, by a hash of all that led to them, are a cache.
 */
#define V5                                                                 \
	"CREATE TABLE templates (id TEXT PRIMARY KEY NOT NULL,"            \
	" project TEXT NOT NULL, name TEXT NOT NULL, tags TEXT NOT NULL,"  \
	" created_ms INTEGER NOT NULL, updated_ms INTEGER NOT NULL,"       \
	" UNIQUE (project, name)) WITHOUT ROWID;"                          \
	"CREATE TABLE template_builds (id TEXT PRIMARY KEY NOT NULL,"      \
	" template TEXT NOT NULL, state TEXT NOT NULL,"                    \
	" snapshot TEXT NOT NULL, about TEXT NOT NULL,"                    \
	" created_ms INTEGER NOT NULL, finished_ms INTEGER NOT NULL)"      \
	" WITHOUT ROWID;"                                                  \
	"CREATE TABLE template_steps (project TEXT NOT NULL,"              \
	" key TEXT NOT NULL, snapshot TEXT NOT NULL, about TEXT NOT NULL," \
	" used_ms INTEGER NOT NULL, PRIMARY KEY (project, key))"           \
	" WITHOUT ROWID;"

/* An end is in the log once: which record it is was decided before. */
#define V6 "ALTER TABLE ended ADD COLUMN record INTEGER NOT NULL DEFAULT 0;"

/*
 * The pool that this database belongs to (one row, api/pool_id.h), and the
 * differences between both: objects of the pool without a row, and (kind
 * `missing`) rows without an object.
 */
#define V7                                                            \
	"CREATE TABLE pool (one INTEGER PRIMARY KEY CHECK (one = 1)," \
	" id TEXT NOT NULL, generation INTEGER NOT NULL,"             \
	" confirmed INTEGER NOT NULL);"                               \
	"CREATE TABLE strays (kind TEXT NOT NULL, id TEXT NOT NULL,"  \
	" since_ms INTEGER NOT NULL, hours INTEGER NOT NULL,"         \
	" PRIMARY KEY (kind, id)) WITHOUT ROWID;"

/*
 * The account whose budgets a sandbox draws on: the id of the sandbox that its
 * family began with. "" is the own one, in rows of before.
 */
#define V8                                                                   \
	"ALTER TABLE sandboxes ADD COLUMN account TEXT NOT NULL DEFAULT '';" \
	"ALTER TABLE snapshots ADD COLUMN account TEXT NOT NULL DEFAULT '';" \
	"ALTER TABLE usage ADD COLUMN account TEXT NOT NULL DEFAULT '';"     \
	"CREATE INDEX usage_accounts ON usage (account)"                     \
	" WHERE account <> sandbox AND account <> '';"

const char *const registry_steps[] = { V1, V2, V3, V4, V5, V6, V7, V8 };
static_assert(ARRAY_LEN(registry_steps) == REGISTRY_VERSION, "a step each");

#define DRIVE_COLUMNS                                          \
	"project, path, version, removed, sha256, size, who, " \
	"sandbox, created_ms"

#define USAGE_COLUMNS                                           \
	"sandbox, project, cpu_us, memory_byte_s, disk_byte_s," \
	" output_bytes, started_ms, updated_ms, ended_ms"

/* What overlaps the time between ?3 and ?4, of project ?1 ("": of all). */
#define USAGE_WHERE                                                      \
	" WHERE (?1 = '' OR project = ?1) AND (?2 = '' OR sandbox = ?2)" \
	" AND started_ms <= ?4 AND (ended_ms = 0 OR ended_ms >= ?3)"

const char *const registry_statements[] = {
	[ST_BEGIN] = "BEGIN IMMEDIATE",
	[ST_COMMIT] = "COMMIT",
	[ST_BOX_ADD] =
		"INSERT INTO sandboxes (id, name, image_id, image, spec,"
		" created_ms, boot_id, deadline_boot_ms, deadline_wall_ms,"
		" project, state, disk, base, parent, account)"
		" VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12,"
		" ?13, ?14, ?15)",
	[ST_BOX_UPDATE] =
		"UPDATE sandboxes SET spec = ?2, deadline_boot_ms = ?3,"
		" deadline_wall_ms = ?4, boot_id = ?5, state = ?6, disk = ?7,"
		" base = ?8 WHERE id = ?1",
	[ST_BOX_REMOVE] = "DELETE FROM sandboxes WHERE id = ?1",
	[ST_BOX_LIST] =
		"SELECT id, coalesce(name, ''), image_id, image, spec,"
		" created_ms, boot_id, deadline_boot_ms, deadline_wall_ms,"
		" project, state, disk, base, parent, account FROM sandboxes"
		" ORDER BY created_ms, id",
	[ST_SNAPSHOT_PUT] =
		"INSERT INTO snapshots (id, project, name, kind, sandbox,"
		" base, image_id, image, spec, bytes, pause_us, event,"
		" created_ms, account) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8,"
		" ?9, ?10, ?11, ?12, ?13, ?14) ON CONFLICT (id) DO UPDATE SET"
		" name = excluded.name, kind = excluded.kind,"
		" base = excluded.base",
	[ST_SNAPSHOT_REMOVE] = "DELETE FROM snapshots WHERE id = ?1",
	[ST_SNAPSHOT_LIST] =
		"SELECT id, project, coalesce(name, ''), kind, sandbox, base,"
		" image_id, image, spec, bytes, pause_us, event, created_ms,"
		" account FROM snapshots ORDER BY created_ms, id",
	[ST_IMAGE_PUT] = "REPLACE INTO images (name, id, size, entries,"
			 " created_ms, config, cache)"
			 " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
	[ST_IMAGE_REMOVE] = "DELETE FROM images WHERE name = ?1",
	[ST_IMAGE_LIST] = "SELECT name, id, size, entries, created_ms,"
			  " config, cache FROM images ORDER BY name",
	[ST_PROJECT_ADD] = "INSERT OR IGNORE INTO projects VALUES (?1, ?2)",
	[ST_PROJECT_LIST] =
		"SELECT name, created_ms FROM projects ORDER BY name",
	[ST_KEY_ADD] = "INSERT INTO keys (id, hash, name, project, scope,"
		       " created_ms, used_ms)"
		       " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
	[ST_KEY_REMOVE] = "DELETE FROM keys WHERE id = ?1",
	[ST_KEY_USED] = "UPDATE keys SET used_ms = ?2 WHERE id = ?1",
	[ST_KEY_LIST] = "SELECT id, hash, name, project, scope, created_ms,"
			" used_ms FROM keys ORDER BY created_ms, id",
	[ST_ENDED_ADD] = "REPLACE INTO ended (id, name, project, image, reason,"
			 " created_ms, ended_ms, record)"
			 " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
	[ST_ENDED_REMOVE] = "DELETE FROM ended WHERE id = ?1",
	[ST_ENDED_LIST] = "SELECT id, name, project, image, reason,"
			  " created_ms, ended_ms, record FROM ended"
			  " ORDER BY ended_ms, id",
	[ST_USAGE_PUT] = "REPLACE INTO usage (" USAGE_COLUMNS ", account)"
			 " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
	[ST_USAGE_GET] =
		"SELECT " USAGE_COLUMNS " FROM usage WHERE sandbox = ?1",
	[ST_USAGE_FAMILY] =
		"SELECT coalesce(sum(cpu_us), 0) FROM (SELECT cpu_us FROM usage"
		" WHERE sandbox = ?1 UNION ALL SELECT cpu_us FROM usage"
		" WHERE account = ?1 AND account <> sandbox"
		" AND account <> '')",
	[ST_USAGE_LIST] = "SELECT " USAGE_COLUMNS " FROM usage" USAGE_WHERE
			  " ORDER BY started_ms DESC, sandbox LIMIT ?5",
	/* total() is a float: sums of byte-seconds may leave 63 bits. */
	[ST_USAGE_SUM] =
		"SELECT project, sum(n), total(c), total(m), total(d),"
		" total(o) FROM (SELECT project, 1 AS n, cpu_us AS c,"
		" memory_byte_s AS m, disk_byte_s AS d, output_bytes AS o"
		" FROM usage NOT INDEXED" USAGE_WHERE
		" UNION ALL SELECT project, sandboxes, cpu_us, memory_byte_s,"
		" disk_byte_s, output_bytes FROM usage_days"
		" WHERE (?1 = '' OR project = ?1) AND ?2 = ''"
		" AND day_ms <= ?4 AND day_ms + 86400000 >= ?3)"
		" GROUP BY project ORDER BY project",
	[ST_USAGE_NTH] = "SELECT ended_ms FROM usage WHERE ended_ms > 0"
			 " ORDER BY ended_ms DESC LIMIT 1 OFFSET ?1",
	[ST_USAGE_FOLD] =
		"INSERT INTO usage_days SELECT project,"
		" ended_ms / 86400000 * 86400000, count(*), sum(cpu_us),"
		" total(memory_byte_s), total(disk_byte_s), sum(output_bytes)"
		" FROM usage WHERE ended_ms > 0 AND ended_ms <= ?1"
		" GROUP BY 1, 2 ON CONFLICT DO UPDATE SET"
		" sandboxes = sandboxes + excluded.sandboxes,"
		" cpu_us = cpu_us + excluded.cpu_us,"
		" memory_byte_s = memory_byte_s + excluded.memory_byte_s,"
		" disk_byte_s = disk_byte_s + excluded.disk_byte_s,"
		" output_bytes = output_bytes + excluded.output_bytes",
	[ST_USAGE_FOLDED] =
		"DELETE FROM usage WHERE ended_ms > 0 AND ended_ms <= ?1",
	[ST_USAGE_CLOSE] = "UPDATE usage SET ended_ms = max(updated_ms, 1)"
			   " WHERE ended_ms = 0"
			   " AND sandbox NOT IN (SELECT id FROM sandboxes)",
	[ST_REPLAY_ADD] = "REPLACE INTO replays (project, key, digest, answer,"
			  " created_ms) VALUES (?1, ?2, ?3, ?4, ?5)",
	[ST_REPLAY_GET] = "SELECT digest, answer, created_ms FROM replays"
			  " WHERE project = ?1 AND key = ?2",
	[ST_REPLAY_EXPIRE] = "DELETE FROM replays WHERE created_ms < ?1",
	[ST_REPLAY_SHRINK] =
		"DELETE FROM replays WHERE (project, key) IN ("
		"SELECT project, key FROM (SELECT project, key,"
		" row_number() OVER (PARTITION BY project"
		" ORDER BY created_ms DESC) AS n FROM replays) WHERE n > ?1)",
	[ST_VOLUME_ADD] =
		"INSERT INTO volumes (id, project, name, bytes, created_ms)"
		" VALUES (?1, ?2, ?3, ?4, ?5)",
	[ST_VOLUME_MADE] = "UPDATE volumes SET bytes = ?2 WHERE id = ?1",
	[ST_VOLUME_REMOVE] = "DELETE FROM volumes WHERE id = ?1",
	[ST_VOLUME_LIST] = "SELECT id, project, name, bytes, created_ms"
			   " FROM volumes ORDER BY project, name",
	[ST_SECRET_PUT] =
		"INSERT INTO secrets (project, name, about, sealed, created_ms,"
		" updated_ms) VALUES (?1, ?2, ?3, ?4, ?5, ?6)"
		" ON CONFLICT (project, name) DO UPDATE SET about = ?3,"
		" sealed = ?4, updated_ms = ?6",
	[ST_SECRET_SEALED] = "UPDATE secrets SET sealed = ?3"
			     " WHERE project = ?1 AND name = ?2",
	[ST_SECRET_REMOVE] = "DELETE FROM secrets"
			     " WHERE project = ?1 AND name = ?2",
	[ST_SECRET_LIST] = "SELECT project, name, about, sealed, created_ms,"
			   " updated_ms FROM secrets ORDER BY project, name",
	[ST_DRIVE_ADD] = "INSERT INTO drive (" DRIVE_COLUMNS ")"
			 " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
	[ST_DRIVE_OLD] = "SELECT sha256, size FROM drive WHERE project = ?1"
			 " AND path = ?2 AND version <= ?3 AND removed = 0",
	[ST_DRIVE_FORGET] = "DELETE FROM drive WHERE project = ?1"
			    " AND path = ?2 AND version <= ?3",
	[ST_DRIVE_GET] = "SELECT " DRIVE_COLUMNS " FROM drive"
			 " WHERE project = ?1 AND path = ?2"
			 " AND (?3 = 0 OR version = ?3)"
			 " ORDER BY version DESC LIMIT 1",
	/* Columns beside a max() are those of its row. */
	[ST_DRIVE_NEXT] = "SELECT project, path, max(version), removed,"
			  " sha256, size, who, sandbox, created_ms FROM drive"
			  " WHERE project = ?1 AND path >= ?2"
			  " AND (?3 = '' OR path < ?3 || char(1114111))"
			  " GROUP BY path HAVING removed <= ?4"
			  " ORDER BY path LIMIT 1",
	[ST_DRIVE_VERSIONS] = "SELECT " DRIVE_COLUMNS " FROM drive"
			      " WHERE project = ?1 AND path = ?2"
			      " ORDER BY version DESC",
	[ST_DRIVE_USAGE] =
		"SELECT (SELECT coalesce(sum(size), 0) FROM (SELECT max(size)"
		" AS size FROM drive WHERE project = ?1 AND removed = 0"
		" GROUP BY sha256)),"
		" (SELECT count(*) FROM drive WHERE project = ?1)",
	[ST_DRIVE_REFERS] = "SELECT 1 FROM drive WHERE project = ?1"
			    " AND sha256 = ?2 AND removed = 0 LIMIT 1",
	[ST_GRANT_ADD] =
		"INSERT INTO grants (sandbox, rule, until_ms, who, created_ms)"
		" VALUES (?1, ?2, ?3, ?4, ?5)",
	[ST_GRANT_REMOVE] = "DELETE FROM grants WHERE id = ?1",
	[ST_GRANT_SWEEP] = "DELETE FROM grants WHERE sandbox NOT IN"
			   " (SELECT id FROM sandboxes)",
	[ST_GRANT_LIST] = "SELECT id, sandbox, rule, until_ms, who, created_ms"
			  " FROM grants ORDER BY id",
	[ST_EGRESS_PUT] =
		"REPLACE INTO egress (sandbox, project, requests, denied,"
		" up_bytes, down_bytes, tokens_in, tokens_out, cost_micro,"
		" updated_ms) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
	[ST_EGRESS_GET] = "SELECT requests, denied, up_bytes, down_bytes,"
			  " tokens_in, tokens_out, cost_micro FROM egress"
			  " WHERE sandbox = ?1",
	[ST_EGRESS_SUM] =
		"SELECT e.project, sum(e.requests), sum(e.denied),"
		" sum(e.up_bytes), sum(e.down_bytes), sum(e.tokens_in),"
		" sum(e.tokens_out), sum(e.cost_micro) FROM egress e"
		/* By each row of egress: most sandboxes have none. */
		" CROSS JOIN usage u ON u.sandbox = e.sandbox"
		" WHERE (?1 = '' OR u.project = ?1)"
		" AND (?2 = '' OR u.sandbox = ?2) AND u.started_ms <= ?4"
		" AND (u.ended_ms = 0 OR u.ended_ms >= ?3)"
		" GROUP BY e.project",
	[ST_EGRESS_PRUNE] = "DELETE FROM egress WHERE sandbox NOT IN"
			    " (SELECT sandbox FROM usage)",
	[ST_NUMBERS] = "INSERT INTO numbers (name, last) VALUES (?1, ?2)"
		       " ON CONFLICT DO UPDATE SET last = last + excluded.last"
		       " RETURNING last",
	[ST_POLICY_PUT] = "REPLACE INTO policies (project, name, text,"
			  " updated_ms) VALUES (?1, ?2, ?3, ?4)",
	[ST_POLICY_REMOVE] =
		"DELETE FROM policies WHERE project = ?1 AND name = ?2",
	[ST_POLICY_LIST] = "SELECT project, name, text, updated_ms"
			   " FROM policies ORDER BY project, name",
	[ST_TEMPLATE_PUT] =
		"INSERT INTO templates (id, project, name, tags, created_ms,"
		" updated_ms) VALUES (?1, ?2, ?3, ?4, ?5, ?6)"
		" ON CONFLICT (id) DO UPDATE SET tags = ?4, updated_ms = ?6",
	[ST_TEMPLATE_REMOVE] = "DELETE FROM templates WHERE id = ?1",
	[ST_TEMPLATE_LIST] = "SELECT id, project, name, tags, created_ms,"
			     " updated_ms FROM templates ORDER BY created_ms",
	[ST_BUILD_PUT] =
		"REPLACE INTO template_builds (id, template, state, snapshot,"
		" about, created_ms, finished_ms)"
		" VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
	[ST_BUILD_REMOVE] = "DELETE FROM template_builds WHERE id = ?1",
	[ST_BUILD_LIST] =
		"SELECT id, template, state, snapshot, about, created_ms,"
		" finished_ms FROM template_builds ORDER BY created_ms, id",
	[ST_STEP_PUT] = "REPLACE INTO template_steps (project, key, snapshot,"
			" about, used_ms) VALUES (?1, ?2, ?3, ?4, ?5)",
	[ST_STEP_REMOVE] = "DELETE FROM template_steps"
			   " WHERE project = ?1 AND key = ?2",
	[ST_STEP_LIST] = "SELECT project, key, snapshot, about, used_ms"
			 " FROM template_steps ORDER BY used_ms",
	[ST_POOL_GET] = "SELECT id, generation, confirmed FROM pool",
	[ST_POOL_PUT] = "REPLACE INTO pool (one, id, generation, confirmed)"
			" VALUES (1, ?1, ?2, ?3)",
	[ST_POOL_EMPTY] = "SELECT EXISTS (SELECT 1 FROM sandboxes)"
			  " OR EXISTS (SELECT 1 FROM images)"
			  " OR EXISTS (SELECT 1 FROM snapshots)"
			  " OR EXISTS (SELECT 1 FROM volumes)"
			  " OR EXISTS (SELECT 1 FROM drive)"
			  " OR EXISTS (SELECT 1 FROM keys)",
	[ST_STRAY_ADD] = "INSERT OR IGNORE INTO strays (kind, id, since_ms,"
			 " hours) VALUES (?1, ?2, ?3, 0)",
	[ST_STRAY_REMOVE] = "DELETE FROM strays WHERE kind = ?1 AND id = ?2",
	[ST_STRAY_AGE] = "UPDATE strays SET hours = hours + 1",
	[ST_STRAY_LIST] = "SELECT kind, id, since_ms, hours FROM strays"
			  " ORDER BY kind, id",
};
static_assert(ARRAY_LEN(registry_statements) == ST_COUNT,
	      "a text for each statement");
