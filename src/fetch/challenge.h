/* WWW-Authenticate (RFC 9110), as a registry sends it. Pure: for a fuzzer. */
#pragma once

#include <stdbool.h>

enum { CHALLENGE_TEXT = 1024 };

struct challenge {
	char realm[CHALLENGE_TEXT], service[CHALLENGE_TEXT];
};

/*
 * Is there a challenge of this scheme ("Bearer") in the value? What it says
 * that we do not need, or that does not fit, is left out.
 */
bool challenge_find(const char *value, const char *scheme,
		    struct challenge *out);
