/*
 * The registry's tables, as steps from one version to the next, and the text
 * of every statement. A step that was released is never changed again.
 */
#pragma once

#include <stddef.h>

enum { REGISTRY_VERSION = 3 };
extern const char *const registry_steps[REGISTRY_VERSION];

enum registry_stmt {
	ST_BEGIN,
	ST_COMMIT,
	ST_BOX_ADD,
	ST_BOX_UPDATE,
	ST_BOX_REMOVE,
	ST_BOX_LIST,
	ST_SNAPSHOT_PUT,
	ST_SNAPSHOT_REMOVE,
	ST_SNAPSHOT_LIST,
	ST_IMAGE_PUT,
	ST_IMAGE_REMOVE,
	ST_IMAGE_LIST,
	ST_PROJECT_ADD,
	ST_PROJECT_LIST,
	ST_KEY_ADD,
	ST_KEY_REMOVE,
	ST_KEY_USED,
	ST_KEY_LIST,
	ST_ENDED_ADD,
	ST_ENDED_REMOVE,
	ST_ENDED_LIST,
	ST_USAGE_PUT,
	ST_USAGE_GET,
	ST_USAGE_LIST,
	ST_USAGE_SUM,
	ST_USAGE_NTH,
	ST_USAGE_FOLD,
	ST_USAGE_FOLDED,
	ST_USAGE_CLOSE,
	ST_REPLAY_ADD,
	ST_REPLAY_GET,
	ST_REPLAY_EXPIRE,
	ST_REPLAY_SHRINK,
	ST_DRIVE_ADD,
	ST_DRIVE_OLD,
	ST_DRIVE_FORGET,
	ST_DRIVE_GET,
	ST_DRIVE_NEXT,
	ST_DRIVE_VERSIONS,
	ST_DRIVE_USAGE,
	ST_DRIVE_REFERS,
	ST_COUNT
};
extern const char *const registry_statements[ST_COUNT];
