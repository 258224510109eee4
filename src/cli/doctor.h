/* Findings of `doctor`: what a check says about this host. */
#pragma once

#include <jansson.h>
#include <stddef.h>

#include "base/conf.h"
#include "base/err.h"

enum level { LEVEL_OK, LEVEL_WARNING, LEVEL_FAIL, LEVELS };

struct finding {
	enum level level;
	char is[320];     /* what there is */
	char remedy[320]; /* advice, or "" */
};

struct check {
	const char *group, *name;
	const char *means; /* why it matters */
	void (*fn)(const struct conf *c, struct finding *f);
};

/* About what the daemon says; `row.fn` is not used. */
struct daemon_check {
	struct check row;
	void (*fn)(const json_t *host, struct finding *f);
};

/* Each ends at name NULL. */
extern const struct check host_checks[], hardening_checks[], role_checks[];
/* The first one is whether it runs at all. */
extern const struct daemon_check daemon_checks[];

/* doctor_state.c */
void check_state(const json_t *host, struct finding *f);

/* Set a finding. */
void found(struct finding *f, const char *fmt, ...) PRINTF_LIKE(2, 3);
void lacks(struct finding *f, enum level level, const char *remedy,
	   const char *fmt, ...) PRINTF_LIKE(4, 5);

/* A row of host_checks: features that need a newer kernel. */
void check_kernel_features(const struct conf *c, struct finding *f);

/* Splits an error of the form "the missing thing; the remedy" (needs.h). */
void lacks_need(struct finding *f, enum level level, const struct err *e);

/* Real probes, for root; each leaves nothing behind. 0 or -errno. */
int probe_idmap(const char *dir);
int probe_into_cgroup(const char *cgroup_dir);
int probe_socket_lookup(void);
