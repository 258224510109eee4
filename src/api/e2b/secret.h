/* Secrets as E2B asks for them (h_secret.c). */
#pragma once

#include "base/err.h"
#include "base/str.h"

/*
 * Their names are ours in small letters, with '-' where they have '_' or '.';
 * "sec_" in front of one makes an id of it. EINVAL.
 */
int e2b_secret_name(const char *given, char out[NAME_CAP],
		    struct err *e) MUST_CHECK;
