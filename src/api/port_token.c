/*
 * Tokens for browsers and others who have no key: one port of one sandbox,
 * until a time. They are signed, not kept: nothing grows with their number,
 * and they outlive a restart. One whose sandbox is gone opens nothing, because
 * ids are never used again.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/api.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/guards.h"

enum { MAC_LEN = 32, PORT_PURPOSE_CAP = 32 };

/* Written under another name first: a crash leaves none or a whole one. */
static int make_key(int dir_fd, unsigned char key[PORT_KEY_LEN], struct err *e)
{
	AUTO_CLOSE int fd = openat(
		dir_fd, "port.key.new",
		O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	int r;

	if (fd < 0)
		return err_sys(e, "create port.key");
	if (getrandom(key, PORT_KEY_LEN, 0) != PORT_KEY_LEN)
		return err_sys(e, "random bytes");
	r = write_full(fd, key, PORT_KEY_LEN);
	if (r < 0)
		return err_set(e, -r, "write port.key: %s", strerror(-r));
	if (fsync(fd) < 0 ||
	    renameat(dir_fd, "port.key.new", dir_fd, "port.key") < 0)
		return err_sys(e, "write port.key");
	return 0;
}

int ports_init(struct api *a, struct err *e)
{
	char path[CONF_PATH + 16];
	AUTO_CLOSE int dir_fd = -1, fd = -1;

	snprintf(path, sizeof(path), "%s/registry", a->conf.state_dir);
	dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir_fd < 0)
		return err_sys(e, "open %s", path);
	fd = openat(dir_fd, "port.key", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 && errno == ENOENT)
		return make_key(dir_fd, a->ports.key, e);
	if (fd < 0)
		return err_sys(e, "open %s/port.key", path);
	if (read_full(fd, a->ports.key, PORT_KEY_LEN) != PORT_KEY_LEN)
		return err_set(e, EINVAL,
			       "%s/port.key is too short: remove it, and a new "
			       "one is made",
			       path);
	return 0;
}

void port_sign(const struct api *a, const char *purpose, const char *text,
	       char out[PORT_MAC_CAP])
{
	unsigned char mac[EVP_MAX_MD_SIZE];
	char signed_text[PORT_PURPOSE_CAP + PORT_TOKEN_CAP];
	unsigned i, n = 0;
	int len = snprintf(signed_text, sizeof(signed_text), "%s %s", purpose,
			   text);

	/* Cut, two texts would have one signature. */
	assert(len > 0 && (size_t)len < sizeof(signed_text));
	if (!HMAC(EVP_sha256(), a->ports.key, PORT_KEY_LEN,
		  (const unsigned char *)signed_text, (size_t)len, mac, &n) ||
	    n != MAC_LEN)
		abort(); /* memory is gone */
	for (i = 0; i < MAC_LEN; i++)
		snprintf(out + (size_t)2 * i, 3, "%02x", mac[i]);
}

void port_token_make(const struct api *a, const char *id, uint16_t port,
		     uint64_t until_s, char out[PORT_TOKEN_CAP])
{
	char mac[PORT_MAC_CAP];
	int n = snprintf(out, PORT_TOKEN_CAP, "%s.%u.%llu", id, port,
			 (unsigned long long)until_s);

	port_sign(a, "port token 1", out, mac);
	snprintf(out + n, PORT_TOKEN_CAP - (size_t)n, ".%s", mac);
}

/*
 * Made again and compared: a token has one form, and no byte of a wrong one
 * is looked at but its time.
 */
bool port_token_opens(const struct api *a, const char *token, const char *id,
		      uint16_t port, uint64_t *until_s)
{
	char want[PORT_TOKEN_CAP], time_text[24];
	const char *dot = strchr(token, '.');
	size_t n;

	dot = dot ? strchr(dot + 1, '.') : NULL;
	n = dot ? strcspn(dot + 1, ".") : 0;
	if (n == 0 || n >= sizeof(time_text) || strlen(token) >= PORT_TOKEN_CAP)
		return false;
	memcpy(time_text, dot + 1, n);
	time_text[n] = '\0';
	if (parse_u64(time_text, UINT32_MAX * 16ULL, until_s) < 0)
		return false;
	port_token_make(a, id, port, *until_s, want);
	return strlen(want) == strlen(token) &&
	       (CRYPTO_memcmp(want, token, strlen(want)) == 0 ||
		!GUARD(TOKEN)) &&
	       clock_wall_ms() / 1000 < *until_s;
}
