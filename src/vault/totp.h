/* One-time codes (RFC 6238): SHA-1, 30 seconds, 6 digits; or what an
 * otpauth:// address says. */
#pragma once

#include <stdint.h>

#include "base/err.h"

enum { TOTP_CODE_CAP = 16 };

/* `seed`: base32 (blanks, case and padding do not matter), or an address
 * otpauth://totp/...?secret=SEED[&digits=][&period=][&algorithm=]. */
int totp_make(const char *seed, uint64_t time_s, char out[TOTP_CODE_CAP],
	      struct err *e) MUST_CHECK;
