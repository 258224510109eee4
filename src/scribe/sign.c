#include "scribe/sign.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fd.h"
#include "base/log.h"

enum { PUBLIC_HEX = 2 * crypto_sign_PUBLICKEYBYTES };

int sign_init(struct err *e)
{
	return sodium_init() < 0 ? err_set(e, EIO, "libsodium does not start")
				 : 0;
}

static int from_hex(const char *hex, size_t n, unsigned char *out, size_t cap)
{
	size_t got = 0;

	return sodium_hex2bin(out, cap, hex, n, NULL, &got, NULL) == 0 &&
			       got == cap
		       ? 0
		       : -EINVAL;
}

/* Written aside and renamed: whoever looks sees all of it or nothing. */
static int write_file(int dir_fd, const char *name, const char *text,
		      unsigned mode, struct err *e)
{
	AUTO_CLOSE int fd = -1;
	char tmp[32];
	int r;

	snprintf(tmp, sizeof(tmp), "%s.new", name);
	if (unlinkat(dir_fd, tmp, 0) < 0 && errno != ENOENT)
		return err_sys(e, "remove %s", tmp);
	fd = openat(dir_fd, tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
	if (fd < 0)
		return err_sys(e, "create %s", tmp);
	r = write_full(fd, text, strlen(text));
	if (r < 0)
		return err_set(e, -r, "write %s: %s", tmp, strerror(-r));
	if (fsync(fd) < 0 || renameat(dir_fd, tmp, dir_fd, name) < 0 ||
	    fsync(dir_fd) < 0)
		return err_sys(e, "write %s", name);
	return 0;
}

int sign_read_public(int dir_fd, const char *path, char out[PUBLIC_HEX + 1],
		     struct err *e)
{
	unsigned char key[crypto_sign_PUBLICKEYBYTES];
	char text[PUBLIC_HEX + 8];
	ssize_t n = read_file_at(dir_fd, path, text, sizeof(text));

	if (n < 0)
		return err_set(e, (int)-n, "read %s: %s", path,
			       strerror((int)-n));
	text[strcspn(text, "\r\n")] = '\0';
	if (from_hex(text, strlen(text), key, sizeof(key)) < 0)
		return err_set(e, EINVAL, "%s is not a public key", path);
	sodium_bin2hex(out, PUBLIC_HEX + 1, key, sizeof(key));
	return 0;
}

static int make_key(int dir_fd, struct sign_key *k, struct err *e)
{
	unsigned char public[crypto_sign_PUBLICKEYBYTES];
	char hex[2 * sizeof(k->secret) + 2];
	int r;

	crypto_sign_keypair(public, k->secret);
	sodium_bin2hex(hex, sizeof(hex), k->secret, sizeof(k->secret));
	hex[sizeof(hex) - 2] = '\n';
	hex[sizeof(hex) - 1] = '\0';
	r = write_file(dir_fd, "key", hex, 0600, e);
	sodium_memzero(hex, sizeof(hex));
	return r;
}

static int read_key(int dir_fd, struct sign_key *k, struct err *e)
{
	char hex[2 * sizeof(k->secret) + 8];
	ssize_t n = read_file_at(dir_fd, "key", hex, sizeof(hex));
	int r;

	if (n == -ENOENT) {
		log_info("making the key that signs the log");
		return make_key(dir_fd, k, e);
	}
	if (n < 0)
		return err_set(e, (int)-n, "read key: %s", strerror((int)-n));
	hex[strcspn(hex, "\n")] = '\0';
	r = from_hex(hex, strlen(hex), k->secret, sizeof(k->secret));
	sodium_memzero(hex, sizeof(hex));
	return r < 0 ? err_set(e, EINVAL, "the file 'key' is not a key") : 0;
}

int sign_load(int dir_fd, struct sign_key *k, struct err *e)
{
	unsigned char public[crypto_sign_PUBLICKEYBYTES];
	char text[PUBLIC_HEX + 2], old[PUBLIC_HEX + 1];
	struct err none = { 0 };

	if (read_key(dir_fd, k, e) < 0)
		return -e->code;
	crypto_sign_ed25519_sk_to_pk(public, k->secret);
	sodium_bin2hex(k->public, sizeof(k->public), public, sizeof(public));
	if (sign_read_public(dir_fd, "key.pub", old, &none) == 0) {
		if (strcmp(old, k->public) == 0)
			return 0;
		log_warn("key.pub was of another key, keeping it as "
			 "key.pub.old");
		if (renameat(dir_fd, "key.pub", dir_fd, "key.pub.old") < 0)
			return err_sys(e, "rename key.pub");
	}
	snprintf(text, sizeof(text), "%s\n", k->public);
	return write_file(dir_fd, "key.pub", text, 0640, e);
}

void hash_closed(const char *p, size_t n, char out[HASH_HEX + 1])
{
	unsigned char sum[crypto_hash_sha256_BYTES];
	crypto_hash_sha256_state st;

	crypto_hash_sha256_init(&st);
	crypto_hash_sha256_update(&st, (const unsigned char *)p, n);
	crypto_hash_sha256_update(&st, (const unsigned char *)"}", 1);
	crypto_hash_sha256_final(&st, sum);
	sodium_bin2hex(out, HASH_HEX + 1, sum, sizeof(sum));
}

/* The text that is signed; short, since only we make such entries. */
static size_t closed_text(const char *p, size_t n, char out[ENTRY_LINE_MAX])
{
	memcpy(out, p, n);
	out[n] = '}';
	return n + 1;
}

void sign_closed(const struct sign_key *k, const char *p, size_t n,
		 char out[SIGNATURE_HEX + 1])
{
	unsigned char sig[crypto_sign_BYTES];
	char text[ENTRY_LINE_MAX];

	n = closed_text(p, n, text);
	crypto_sign_detached(sig, NULL, (unsigned char *)text, n, k->secret);
	sodium_bin2hex(out, SIGNATURE_HEX + 1, sig, sizeof(sig));
}

bool entry_hash_ok(const char *line, const struct entry *e)
{
	char hash[HASH_HEX + 1];

	hash_closed(line, e->hashed_n, hash);
	return memcmp(hash, e->hash.p, HASH_HEX) == 0;
}

bool entry_signed_by(const char *line, const struct entry *e,
		     const char *public_hex)
{
	unsigned char public[crypto_sign_PUBLICKEYBYTES];
	unsigned char sig[crypto_sign_BYTES];
	char text[ENTRY_LINE_MAX];
	size_t n;

	if (!e->signature.p || e->signed_n >= sizeof(text) ||
	    from_hex(public_hex, strlen(public_hex), public, sizeof(public)) <
		    0 ||
	    from_hex(e->signature.p, SIGNATURE_HEX, sig, sizeof(sig)) < 0)
		return false;
	n = closed_text(line, e->signed_n, text);
	return crypto_sign_verify_detached(sig, (unsigned char *)text, n,
					   public) == 0;
}
