/*
 * The user that processes of a sandbox run as: uid 1000 must have a line in
 * /etc/passwd, gid 1000 one in /etc/group. An image that has its own keeps
 * it; otherwise `user` is added, with a home.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

int users_prepare(int root_fd, struct err *e) MUST_CHECK;

/* The parts that read the image's text. Lines are NAME:X:NUMBER:... */
bool lines_have_id(const char *text, size_t n, unsigned id);
bool lines_have_name(const char *text, size_t n, const char *name);
