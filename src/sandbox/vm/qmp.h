/*
 * A word with QEMU, over its monitor. Whoever took QEMU over answers here too:
 * lines are bounded, a talk has a time limit, and nothing of an answer is
 * believed but that it is one. It blocks, so it is for children of the warden.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { QMP_LINE_MAX = 16 * 1024, QMP_STATUS_CAP = 24 };

struct qmp {
	int fd;
	unsigned limit_ms; /* for each answer */
	uint64_t until;    /* clock_boot_ms() */
	size_t have;       /* of `in`: bytes that were read... */
	size_t line;       /* ...and how many of them are the line told last */
	char in[QMP_LINE_MAX];
};

/* Waits for its greeting. `fd` is connected and does not block: who does not
 * read is not waited for. It stays the caller's. ETIMEDOUT also of everything
 * that follows. */
int qmp_open(struct qmp *q, int fd, unsigned limit_ms,
	     struct err *e) MUST_CHECK;
/* A command without arguments, or with these (JSON of an object). */
int qmp_run(struct qmp *q, const char *command, const char *arguments,
	    struct err *e) MUST_CHECK;
/* The same, and it takes a descriptor along. */
int qmp_run_fd(struct qmp *q, const char *command, const char *arguments,
	       int fd, struct err *e) MUST_CHECK;
/* Saves the devices of a machine that is stopped into a file. */
int qmp_save_devices(struct qmp *q, int file_fd, struct err *e) MUST_CHECK;
/* Loads them into one that waits for it (`-incoming defer`); it runs then. */
int qmp_load_devices(struct qmp *q, int file_fd, struct err *e) MUST_CHECK;

enum qmp_kind { QMP_RETURN, QMP_ERROR, QMP_EVENT, QMP_GREETING, QMP_NONSENSE };
/*
 * What a line is; `text` becomes the status or the name of an event or the
 * description of an error, if there is one and it fits; else "".
 */
enum qmp_kind qmp_read(const char *line, size_t len, char *text, size_t cap);
