#include "vault/totp.h"

#include <errno.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/str.h"

enum { SEED_MAX = 128 /* bytes */ };

struct totp {
	unsigned char key[SEED_MAX];
	size_t n;
	uint64_t digits, period;
	const EVP_MD *hash;
};

/* Up to `n` letters, or to what ends a parameter. */
static int take_seed(struct totp *t, const char *s, size_t n)
{
	static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
	unsigned bits = 0, have = 0;
	const char *at;
	size_t i;

	for (i = 0; i < n; i++) {
		char c = s[i];

		if (strchr(" -=\r\n", c))
			continue;
		if (c >= 'a' && c <= 'z')
			c = (char)(c - 'a' + 'A');
		at = strchr(letters, c);
		if (!at || t->n == SEED_MAX)
			return -EINVAL;
		bits = bits << 5 | (unsigned)(at - letters);
		have += 5;
		if (have >= 8) {
			have -= 8;
			t->key[t->n++] = (unsigned char)(bits >> have);
			bits &= (1U << have) - 1;
		}
	}
	return t->n > 0 ? 0 : -EINVAL;
}

static int take_number(const char *s, size_t n, uint64_t min, uint64_t max,
		       uint64_t *out)
{
	char text[8];

	if (n >= sizeof(text))
		return -EINVAL;
	memcpy(text, s, n);
	text[n] = '\0';
	return parse_u64(text, max, out) == 0 && *out >= min ? 0 : -EINVAL;
}

static int take_hash(struct totp *t, const char *s, size_t n)
{
	if (n == 4 && strncasecmp(s, "SHA1", n) == 0)
		t->hash = EVP_sha1();
	else if (n == 6 && strncasecmp(s, "SHA256", n) == 0)
		t->hash = EVP_sha256();
	else if (n == 6 && strncasecmp(s, "SHA512", n) == 0)
		t->hash = EVP_sha512();
	else
		return -EINVAL;
	return 0;
}

/* `p` has `n` bytes: NAME=VALUE. Others than these do not matter. */
static int take_parameter(struct totp *t, const char *p, size_t n)
{
	const char *eq = memchr(p, '=', n);
	size_t name = eq ? (size_t)(eq - p) : 0;
	size_t value = eq ? n - name - 1 : 0;

	if (name == 6 && memcmp(p, "secret", 6) == 0)
		return take_seed(t, eq + 1, value);
	if (name == 6 && memcmp(p, "digits", 6) == 0)
		return take_number(eq + 1, value, 6, 8, &t->digits);
	if (name == 6 && memcmp(p, "period", 6) == 0)
		return take_number(eq + 1, value, 5, 600, &t->period);
	if (name == 9 && memcmp(p, "algorithm", 9) == 0)
		return take_hash(t, eq + 1, value);
	return 0;
}

static int take_address(struct totp *t, const char *s)
{
	const char *p = s + strcspn(s, "?");
	size_t n;

	for (; *p; p += n) {
		n = strcspn(++p, "&");
		if (take_parameter(t, p, n) < 0)
			return -EINVAL;
	}
	return t->n > 0 ? 0 : -EINVAL;
}

static int code(const struct totp *t, uint64_t time_s, char out[TOTP_CODE_CAP])
{
	unsigned char mac[EVP_MAX_MD_SIZE], step[8];
	uint64_t count = time_s / t->period;
	unsigned n = sizeof(mac), at, i;
	uint32_t v, mod = 1;

	for (i = 0; i < 8; i++)
		step[i] = (unsigned char)(count >> (56 - 8 * i));
	if (!HMAC(t->hash, t->key, (int)t->n, step, sizeof(step), mac, &n))
		return -EIO;
	at = mac[n - 1] & 15;
	v = (uint32_t)(mac[at] & 0x7f) << 24 | (uint32_t)mac[at + 1] << 16 |
	    (uint32_t)mac[at + 2] << 8 | mac[at + 3];
	for (i = 0; i < t->digits; i++)
		mod *= 10;
	snprintf(out, TOTP_CODE_CAP, "%0*u", (int)t->digits, v % mod);
	sodium_memzero(mac, sizeof(mac));
	return 0;
}

int totp_make(const char *seed, uint64_t time_s, char out[TOTP_CODE_CAP],
	      struct err *e)
{
	struct totp t = { .digits = 6, .period = 30, .hash = EVP_sha1() };
	int r;

	*out = '\0';
	if (str_starts(seed, "otpauth://totp/"))
		r = take_address(&t, seed);
	else
		r = take_seed(&t, seed, strlen(seed));
	if (r == 0)
		r = code(&t, time_s, out);
	sodium_memzero(&t, sizeof(t));
	if (r < 0)
		return err_set(e, EINVAL,
			       "the seed is neither base32 nor an "
			       "otpauth://totp/ address");
	return 0;
}
