/*
 * What an archive may ask of us. Every number here bounds something that the
 * maker of an archive controls.
 */
#pragma once

#include <stdint.h>

/* The archive as a whole. */
#define ARCHIVE_ENTRIES_MAX UINT64_C(2000000)
/* Content of all files; also the size of one, its holes included. */
#define ARCHIVE_BYTES_MAX (UINT64_C(64) << 30)
/*
 * Bytes of tar per byte that came in, once a small archive's worth is out.
 * gzip cannot exceed 1032; an image of real files stays under 20.
 */
#define ARCHIVE_RATIO_MAX UINT64_C(1000)
#define ARCHIVE_RATIO_FREE (UINT64_C(64) << 20)
/* What may follow the end of the tar: padding of large records. */
#define ARCHIVE_TAIL_MAX (UINT64_C(16) << 20)

/* An archive of an image: its own entries, and what is kept of them. */
enum { LAYOUT_ENTRIES_MAX = 65536, SPOOL_FILES_MAX = 4096 };

/* One entry. */
enum {
	ENTRY_NAME_MAX = 255,
	ENTRY_PATH_MAX = 4095,
	ENTRY_DEPTH_MAX = 128,
	ENTRY_XATTRS_MAX = 64,
	ENTRY_XATTR_NAME_MAX = 255,
	ENTRY_XATTR_VALUE_MAX = 64 * 1024,
};

/* Ids inside of an image; larger ones become ID_NOBODY. */
enum { ID_LIMIT = 65536, ID_NOBODY = 65534 };

/*
 * Directories get their time when everything is in them. They are remembered
 * up to this much memory (some 500,000); later ones keep the time of import.
 */
#define LATER_BYTES_MAX (UINT64_C(64) << 20)

/* The pool keeps this much: a full one stops every sandbox. */
enum { POOL_RESERVE_PERCENT = 5 };
#define POOL_CHECK_BYTES (UINT64_C(64) << 20)

/* The process. */
#define WORKER_MEMORY_MAX (UINT64_C(1) << 30)
#define WORKER_CPU_SECONDS UINT64_C(3600)
enum { WORKER_FILES_MAX = 64 };

/* Files of the image that are read to prepare it. */
enum { IMAGE_TEXT_MAX = 1024 * 1024 };
#define SHIM_BYTES_MAX (UINT64_C(16) << 20)

/*
 * Looking at states: names of the directories on the way down, descriptors of
 * as many of them, files whose other names are remembered.
 */
#define WALK_NAMES_MAX (UINT64_C(256) << 20)
enum { WALK_OPEN_LEVELS = 64, WALK_FILES_MAX = 512 };
#define LINKS_BYTES_MAX (UINT64_C(64) << 20)
