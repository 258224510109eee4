/* Files of control groups, for the two files that deal with them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* Rows of the v1 hierarchies. */
enum { V1_MEMORY, V1_CPU, V1_PIDS, V1_CPUACCT, V1_CPUSET };

void cgroup_name(unsigned slot, char name[16]);
/* A descriptor of a directory, or -1 with errno. */
int cgroup_dir(int at_fd, const char *path);
/* `may_miss`: some kernels have no swap accounting. */
int cgroup_knob(int dir_fd, const char *file, const char *value, bool may_miss,
		struct err *e) MUST_CHECK;
