/*
 * Requirements that a host's kernel cannot show by version: privileges, user
 * namespace, a writable cgroup tree. The supervisor checks them before it
 * starts a role, because the roles would only fail one after the other with
 * errors of single system calls; `doctor` shows the same sentences.
 *
 * Each returns 0 or -errno; the message is "the missing thing; the remedy".
 */
#pragma once

#include "base/err.h"

int needs_caps(struct err *e) MUST_CHECK;
int needs_host_ids(struct err *e) MUST_CHECK;
int needs_cgroups(struct err *e) MUST_CHECK;

/* The container that this process runs in ("lxc", "docker"), or "". */
enum { CONTAINER_CAP = 32 };
void needs_container(char out[CONTAINER_CAP]);
