/*
 * The probe: attacks of the catalogue, run inside a sandbox, harmless where
 * they succeed. A row reports through the functions below and returns; the
 * runner (probe.c) turns that into one line.
 *
 *	ID HELD n attempts
 *	ID BROKEN breach: ...	an attack did what it should not
 *	ID BROKEN gap: ...	refused, but not by the wall of this row: a
 *				wall is missing, others stand behind it
 *	ID OBSERVED ...		the host must judge
 *	ID SKIP(why)
 */
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define ALL(a) (sizeof(a) / sizeof((a)[0]))
#define PRINTF_LIKE(f, a) __attribute__((format(printf, f, a)))

enum {
	BY_NAME = 1, /* not a part of `all` */
};

struct row {
	const char *id;
	const char *what;
	void (*fn)(void);
	unsigned flags;
	unsigned seconds; /* time limit; 0 means 10 */
};

/* Each ends with an empty row. */
extern const struct row rows_identity[], rows_files[], rows_cgroups[],
	rows_kernel[], rows_sockets[], rows_network[], rows_limits[];

/* key=value of the command line; NULL or `other` without it. */
const char *param(const char *key);
long param_num(const char *key, long other);

void breach(const char *fmt, ...) PRINTF_LIKE(1, 2);
void gap(const char *fmt, ...) PRINTF_LIKE(1, 2);
void observed(const char *fmt, ...) PRINTF_LIKE(1, 2);
void skip(const char *fmt, ...) PRINTF_LIKE(1, 2);
/* An attempt that was refused as it should be. */
void good(void);

/*
 * An attempt: must fail (a negative value) with one of these errors. Success
 * is a breach, another error is a gap.
 */
void refused(const char *what, long rc, int err, const int *want);
#define REFUSED(what, call, ...)                                      \
	do {                                                          \
		long rc_ = (long)(call);                              \
		refused(what, rc_, errno, (int[]){ __VA_ARGS__, 0 }); \
	} while (0)

/* A fact that must be true; `gap` with the text otherwise. */
void wall(bool stands, const char *fmt, ...) PRINTF_LIKE(2, 3);
/*
 * `peer=1`: the sandbox is another product's. Attacks are the same, but any
 * error is a refusal, nothing is asked about the agent or about what honest
 * programs need, and what does not exist there is no gap.
 */
bool peer(void);

/* ---- what several rows need ---- */

/* The file, cut to cap - 1 bytes and terminated; -1 with errno. */
ssize_t slurp(const char *path, char *out, size_t cap);
/* A line `Name:` of /proc/self/status, as number of that base; -1 if none. */
long long status_num(const char *name, int base);
/*
 * Real root of the machine, not of a sandbox: rows then leave out what could
 * hurt, and say that nothing stands.
 */
bool host_root(void);
/* The path of this program on disk. */
const char *probe_path(void);
/* A new empty directory; the runner removes it. */
const char *scratch(void);
/* Descriptors beyond 2 that were open when the program started. */
extern char start_fds[256];
const char *errno_name(int err);
