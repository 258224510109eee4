#include "gate/keys.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "gate/leaf.h"
#include "wire/pack.h"

enum {
	KEYS_MAX = 16 * 1024, /* of a file */
	HEX = 2 * VAULT_KEY,
	COMMAND_MS = 30000,
	PROJECTS_MAX = 16384,
};

_Static_assert(VAULT_KEY == crypto_secretbox_KEYBYTES, "the cipher's");
_Static_assert(PAIR_KEY == crypto_box_PUBLICKEYBYTES, "the cipher's");
_Static_assert(PAIR_KEY == crypto_box_SECRETKEYBYTES, "the cipher's");

static const char magic[8] = "CGKEYS1\n";
static const char key_name[] = "key", suffix[] = ".keys";

static void buf_wipe(struct buf *b)
{
	if (b->p)
		sodium_memzero(b->p, b->cap);
	buf_done(b);
}

/* --- files --- */

/* Whole and on the disk, or not at all. */
static int put_file(int dir_fd, const char *name, const void *p, size_t n,
		    struct err *e)
{
	AUTO_CLOSE int fd = -1, sync_fd = -1;
	char fresh[NAME_CAP + 16];
	int r;

	snprintf(fresh, sizeof(fresh), "%s.new", name);
	fd = openat(dir_fd, fresh,
		    O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC,
		    0600);
	if (fd < 0)
		return err_sys(e, "create %s", fresh);
	r = write_full(fd, p, n);
	if (r < 0)
		return err_set(e, -r, "write %s: %s", fresh, strerror(-r));
	if (fsync(fd) < 0 || renameat(dir_fd, fresh, dir_fd, name) < 0)
		return err_sys(e, "write %s", name);
	sync_fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (sync_fd < 0 || fsync(sync_fd) < 0)
		return err_sys(e, "write %s", name);
	return 0;
}

static bool is_keys(const char *name)
{
	size_t n = strlen(name), k = sizeof(suffix) - 1;

	return n > k && strcmp(name + n - k, suffix) == 0;
}

/* How many projects have keys here. */
static int count_keys(int dir_fd, unsigned *n, struct err *e)
{
	AUTO_DIR DIR *d = NULL;
	struct dirent *x;
	int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	d = fd < 0 ? NULL : fdopendir(fd);
	if (!d) {
		err_sys(e, "open the vault");
		auto_close(&fd);
		return -e->code;
	}
	*n = 0;
	while (errno = 0, (x = readdir(d)))
		*n += is_keys(x->d_name);
	return errno ? err_sys(e, "list the vault") : 0;
}

/* --- the vault's key --- */

static int key_from_hex(struct vault *v, const char *hex, size_t n)
{
	size_t got = 0;

	while (n > 0 && strchr("\r\n \t", hex[n - 1]))
		n--;
	return n == HEX &&
			       sodium_hex2bin(v->key, sizeof(v->key), hex, n,
					      NULL, &got, NULL) == 0 &&
			       got == VAULT_KEY
		       ? 0
		       : -EINVAL;
}

int vault_read_key(struct vault *v, struct err *e)
{
	char hex[HEX + 2];
	ssize_t n = read_file_at(v->dir_fd, key_name, hex, sizeof(hex));
	unsigned n_closed = 0;
	int r;

	if (n >= 0) {
		r = key_from_hex(v, hex, (size_t)n);
		sodium_memzero(hex, sizeof(hex));
		return r < 0 ? err_set(e, EINVAL,
				       "the vault's key is damaged: put the "
				       "file gate/vault/key back")
			     : 0;
	}
	if (n != -ENOENT)
		return err_set(e, (int)-n, "read the vault's key: %s",
			       strerror((int)-n));
	/* Is there something that only a key we do not have can open? */
	if (count_keys(v->dir_fd, &n_closed, e) < 0)
		return -e->code;
	if (n_closed > 0)
		return err_set(e, ENOENT,
			       "the vault's key is gone: put the file "
			       "gate/vault/key back, or set vault_key_command");
	randombytes_buf(v->key, sizeof(v->key));
	sodium_bin2hex(hex, sizeof(hex), v->key, sizeof(v->key));
	hex[HEX] = '\n';
	r = put_file(v->dir_fd, key_name, hex, HEX + 1, e);
	sodium_memzero(hex, sizeof(hex));
	return r;
}

static void __attribute__((noreturn)) run_command(const char *command, int out)
{
	static const char *const env[] = {
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:"
		"/sbin:/bin",
		NULL,
	};
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (dup2(out, STDOUT_FILENO) < 0 || chdir("/") < 0)
		_exit(127);
	execle("/bin/sh", "sh", "-c", command, (char *)NULL, env);
	_exit(127);
}

/* What it prints, until it closes its output or the time is over. */
static ssize_t read_answer(int fd, char *out, size_t cap)
{
	uint64_t until = clock_boot_ms() + COMMAND_MS;
	size_t got = 0;

	while (got < cap) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		uint64_t now = clock_boot_ms();
		ssize_t n;

		if (now >= until || poll(&p, 1, (int)(until - now)) == 0)
			return -ETIMEDOUT;
		n = read(fd, out + got, cap - got);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : (ssize_t)got;
		got += (size_t)n;
	}
	return -EMSGSIZE;
}

int vault_run_command(struct vault *v, const char *command, struct err *e)
{
	char hex[HEX + 16];
	int pipe_fds[2], status = -1;
	ssize_t n;
	pid_t pid;

	if (pipe2(pipe_fds, O_CLOEXEC) < 0)
		return err_sys(e, "vault_key_command");
	pid = fork();
	if (pid == 0)
		run_command(command, pipe_fds[1]);
	close(pipe_fds[1]);
	n = pid < 0 ? -errno : read_answer(pipe_fds[0], hex, sizeof(hex));
	close(pipe_fds[0]);
	if (n < 0 && pid > 0)
		kill(pid, SIGKILL);
	if (pid > 0)
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			;
	if (n >= 0 && (status != 0 || key_from_hex(v, hex, (size_t)n) < 0))
		n = -EINVAL;
	sodium_memzero(hex, sizeof(hex));
	if (n < 0)
		return err_set(e, (int)-n,
			       "vault_key_command must print 64 hexadecimal "
			       "digits within %d s (status %#x): %s",
			       COMMAND_MS / 1000, (unsigned)status,
			       strerror((int)-n));
	return 0;
}

void vault_close(struct vault *v)
{
	sodium_memzero(v->key, sizeof(v->key));
}

/* --- a project's keys --- */

void keys_done(struct keys *k)
{
	sodium_memzero(k->private, sizeof(k->private));
	buf_done(&k->cert);
	buf_wipe(&k->key);
}

/* Plain: name, certificate, key, both halves of the pair. */
static void keys_pack(const struct keys *k, const char *project,
		      struct buf *out)
{
	/* At once: what a growing buffer leaves behind is not wiped. */
	buf_room(out, KEYS_MAX);
	pack_str(out, project);
	buf_str((struct buf *)&k->cert);
	buf_str((struct buf *)&k->key);
	pack_str(out, buf_data(&k->cert));
	pack_str(out, buf_data(&k->key));
	buf_add(out, k->public, sizeof(k->public));
	buf_add(out, k->private, sizeof(k->private));
}

static int keys_unpack(struct keys *k, const char *project, const void *p,
		       size_t n)
{
	struct unpack u = unpack_init(p, n);
	const char *name = unpack_str(&u), *cert = unpack_str(&u),
		   *key = unpack_str(&u);
	const unsigned char *pair;
	size_t left;

	pair = unpack_rest(&u, &left);
	if (!unpack_ok(&u) || left != 2 * PAIR_KEY ||
	    strcmp(name, project) != 0)
		return -EBADMSG;
	buf_puts(&k->cert, cert);
	buf_room(&k->key, strlen(key) + 1);
	buf_puts(&k->key, key);
	memcpy(k->public, pair, PAIR_KEY);
	memcpy(k->private, pair + PAIR_KEY, PAIR_KEY);
	return 0;
}

/* magic | nonce | sealed */
static int keys_write(struct vault *v, const char *project,
		      const struct keys *k, struct err *e)
{
	AUTO(buf_wipe) struct buf plain = { 0 };
	AUTO(buf_done) struct buf out = { 0 };
	unsigned char nonce[crypto_secretbox_NONCEBYTES];
	char name[NAME_CAP + sizeof(suffix)];
	size_t n;

	keys_pack(k, project, &plain);
	n = buf_len(&plain) + crypto_secretbox_MACBYTES;
	randombytes_buf(nonce, sizeof(nonce));
	buf_add(&out, magic, sizeof(magic));
	buf_add(&out, nonce, sizeof(nonce));
	if (crypto_secretbox_easy((unsigned char *)buf_room(&out, n),
				  (unsigned char *)buf_data(&plain),
				  buf_len(&plain), nonce, v->key) < 0)
		return err_set(e, EIO, "encrypt the keys of %s", project);
	buf_fill(&out, n);
	snprintf(name, sizeof(name), "%s%s", project, suffix);
	return put_file(v->dir_fd, name, buf_data(&out), buf_len(&out), e);
}

static int keys_open(struct vault *v, const char *project, struct keys *k,
		     const unsigned char *p, size_t n)
{
	const size_t head = sizeof(magic) + crypto_secretbox_NONCEBYTES;
	AUTO(buf_wipe) struct buf plain = { 0 };
	unsigned char *to;

	if (n < head + crypto_secretbox_MACBYTES ||
	    memcmp(p, magic, sizeof(magic)) != 0)
		return -EBADMSG;
	to = (unsigned char *)buf_room(&plain, n);
	if (crypto_secretbox_open_easy(to, p + head, n - head,
				       p + sizeof(magic), v->key) < 0)
		return -EBADMSG;
	return keys_unpack(k, project, to,
			   n - head - crypto_secretbox_MACBYTES);
}

static int keys_read(struct vault *v, const char *project, struct keys *k,
		     struct err *e)
{
	char name[NAME_CAP + sizeof(suffix)], raw[KEYS_MAX];
	ssize_t n;

	snprintf(name, sizeof(name), "%s%s", project, suffix);
	n = read_file_at(v->dir_fd, name, raw, sizeof(raw));
	if (n < 0)
		return err_set(e, (int)-n, "read %s: %s", name,
			       strerror((int)-n));
	if (keys_open(v, project, k, (unsigned char *)raw, (size_t)n) < 0)
		return err_set(e, EBADMSG,
			       "%s does not open: the file is damaged, or the "
			       "vault's key is another one",
			       name);
	return 0;
}

static int keys_make(struct vault *v, const char *project, struct keys *k,
		     struct err *e)
{
	unsigned n = 0;

	/* A door that was taken over must not fill the disk. */
	if (count_keys(v->dir_fd, &n, e) < 0)
		return -e->code;
	if (n >= PROJECTS_MAX)
		return err_set(e, EDQUOT, "%u projects have keys already", n);
	if (ca_make(project, &k->cert, &k->key, e) < 0)
		return -e->code;
	if (crypto_box_keypair(k->public, k->private) < 0)
		return err_set(e, EIO, "make a pair of keys");
	return keys_write(v, project, k, e);
}

int keys_get(struct vault *v, const char *project, struct keys *out,
	     struct err *e)
{
	int r;

	*out = (struct keys){ 0 };
	r = keys_read(v, project, out, e);
	if (r == -ENOENT) {
		err_clear(e);
		r = keys_make(v, project, out, e);
	}
	if (r < 0)
		keys_done(out);
	return r;
}
