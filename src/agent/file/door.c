/*
 * host.door: what a machine has to know to go out by its door. The certificate
 * of the authority comes in (PEM), and becomes a part of what programs trust;
 * names are asked for at the door.
 *
 *	/etc/resolv.conf			127.0.0.1
 *	/usr/local/share/ca-certificates/	where update-ca-certificates
 *						looks, and Node
 *	/etc/ssl/certs/ca-certificates.crt	made if there is none
 *	Java's store				if there is one (jks.h)
 *
 * It runs as root of the sandbox and apart from its processes (builtin.h), on
 * a disk that is theirs. So links lead nowhere but inside that disk, a file is
 * read only if it is one and as far as it says it is long, and each is
 * replaced as a whole. What is right already is left as it is: done twice it
 * is as done once. A certificate that an earlier call brought goes.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/file/file.h"
#include "agent/file/jks.h"
#include "base/auto.h"
#include "base/base64.h"
#include "base/fd.h"
#include "base/product.h"
#include "base/str.h"

enum {
	PEM_MAX = 16 * 1024,
	BUNDLE_MAX = 2 << 20, /* some of it is in memory twice */
	SMALL_MAX = 64 * 1024,
};

#define ANCHOR "/usr/local/share/ca-certificates/" PRODUCT ".crt"
#define BUNDLE "/etc/ssl/certs/ca-certificates.crt"

static const char pem_begin[] = "-----BEGIN CERTIFICATE-----";
static const char pem_end[] = "-----END CERTIFICATE-----";
static const char resolv[] = "nameserver 127.0.0.1\n";

/* Where other systems have their bundle: what ours starts as. */
static const char *const bundles[] = {
	BUNDLE,
	"/etc/pki/tls/certs/ca-bundle.crt",
	"/etc/ssl/ca-bundle.pem",
	"/etc/ssl/cert.pem",
};

/* The first one is Debian's, where each of its Javas has a link to. */
static const char *const java_stores[] = {
	"/etc/ssl/certs/java/cacerts",
	"/etc/pki/ca-trust/extracted/java/cacerts",
	"/opt/java/openjdk/lib/security/cacerts",
};

enum { RACE_TRIES = 1024 };

static int open_in(int root_fd, const char *path, int flags)
{
	struct open_how how = { .flags = (uint64_t)flags | O_CLOEXEC,
				.resolve = RESOLVE_IN_ROOT |
					   RESOLVE_NO_MAGICLINKS };

	long fd;
	int i = 0;

	do /* EAGAIN: something was mounted or moved, anywhere on the host */
		fd = syscall(SYS_openat2, root_fd, path, &how, sizeof(how));
	while (fd < 0 && errno == EAGAIN && ++i < RACE_TRIES);
	return (int)fd;
}

/* A regular file of at most `max` bytes: 1, or 0 when there is none. */
static int slurp(int root_fd, const char *path, size_t max, struct buf *out,
		 struct err *e)
{
	AUTO_CLOSE int fd =
		open_in(root_fd, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
	struct stat st;
	ssize_t n;

	if (fd < 0)
		return errno == ENOENT || errno == ENOTDIR || errno == ELOOP
			       ? 0
			       : err_sys(e, "%s", path);
	if (fstat(fd, &st) < 0)
		return err_sys(e, "%s", path);
	if (!S_ISREG(st.st_mode) || st.st_size > (off_t)max)
		return err_set(e, EINVAL,
			       "%s is no regular file of at most %zu KiB", path,
			       max / 1024);
	n = read_full(fd, buf_room(out, (size_t)st.st_size + 1),
		      (size_t)st.st_size);
	if (n < 0)
		return err_set(e, (int)-n, "%s: %s", path, strerror((int)-n));
	buf_fill(out, (size_t)n);
	return 1;
}

/* The directory `path` of the root; `name` in `up_fd` if it has to be made. */
static int enter(int root_fd, const char *path, int up_fd, const char *name)
{
	int fd = open_in(root_fd, path, O_PATH | O_DIRECTORY);

	if (fd >= 0 || errno != ENOENT || mkdirat(up_fd, name, 0755) < 0)
		return fd;
	return openat(up_fd, name,
		      O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* The directory that a path ends in, with what is missing of it. */
static int open_dir(int root_fd, const char *path, struct err *e)
{
	AUTO_CLOSE int fd = open_in(root_fd, "/", O_PATH | O_DIRECTORY);
	const char *name = path + 1, *end;
	char dir[128];
	int next;

	for (; fd >= 0 && (end = strchr(name, '/')); name = end + 1) {
		char own[NAME_MAX + 1];

		snprintf(dir, sizeof(dir), "%.*s", (int)(end - path), path);
		snprintf(own, sizeof(own), "%.*s", (int)(end - name), name);
		next = enter(root_fd, dir, fd, own);
		close(fd);
		fd = next;
	}
	return fd < 0 ? err_sys(e, "%s", path) : take_fd(&fd);
}

static int replace(int root_fd, const char *path, const void *p, size_t n,
		   struct err *e)
{
	AUTO_CLOSE int dir_fd = open_dir(root_fd, path, e);
	struct fresh f;
	int r;

	if (dir_fd < 0)
		return dir_fd;
	if (fresh_open(&f, dir_fd, path, e) < 0)
		return -e->code;
	r = write_full(f.fd, p, n);
	if (r < 0)
		r = err_set(e, -r, "%s: %s", path, strerror(-r));
	else if (fchmod(f.fd, 0644) < 0)
		r = err_sys(e, "%s", path);
	else
		r = fresh_place(&f, strrchr(path, '/') + 1, true, path, e);
	fresh_done(&f);
	return r;
}

/* Makes a small file what it should be; what it was, in `before`. */
static int settle(int root_fd, const char *path, const void *p, size_t n,
		  struct buf *before, struct err *e)
{
	if (slurp(root_fd, path, SMALL_MAX, before, e) < 0)
		return -e->code;
	if (buf_len(before) == n && memcmp(buf_data(before), p, n) == 0)
		return 0;
	return replace(root_fd, path, p, n, e);
}

static const char *find(const struct buf *in, const struct buf *what)
{
	if (buf_len(what) == 0)
		return NULL;
	return memmem(buf_data(in), buf_len(in), buf_data(what), buf_len(what));
}

/* The bundle with `ca`, without `old` (which may be the same, or empty). */
static int join_bundle(int root_fd, const struct buf *ca, const struct buf *old,
		       struct err *e)
{
	AUTO(buf_done) struct buf was = { 0 }, now = { 0 };
	const char *at;
	size_t i;
	int r = 0;

	for (i = 0; i < ARRAY_LEN(bundles) && r == 0; i++) {
		r = slurp(root_fd, bundles[i], BUNDLE_MAX, &was, e);
		if (r < 0)
			return r;
	}
	if (find(&was, ca) && i == 1)
		return 0;
	at = find(&was, old);
	if (at) {
		const size_t before = (size_t)(at - buf_data(&was));

		buf_add(&now, buf_data(&was), before);
		buf_eat(&was, before + buf_len(old));
	}
	buf_add(&now, buf_data(&was), buf_len(&was));
	if (buf_len(&now) > 0 && buf_data(&now)[buf_len(&now) - 1] != '\n')
		buf_puts(&now, "\n");
	if (!find(&now, ca))
		buf_add(&now, buf_data(ca), buf_len(ca));
	return replace(root_fd, BUNDLE, buf_data(&now), buf_len(&now), e);
}

/* A store that is of another kind, or nobody knows what, stays as it is. */
static int join_java(int root_fd, const char *path, const struct buf *der,
		     struct err *e)
{
	AUTO(buf_done) struct buf was = { 0 }, now = { 0 };
	struct err none = { 0 };

	if (slurp(root_fd, path, JKS_MAX, &was, &none) <= 0 ||
	    jks_put(buf_data(&was), buf_len(&was), PRODUCT, buf_data(der),
		    buf_len(der), &now) <= 0)
		return 0;
	return replace(root_fd, path, buf_data(&now), buf_len(&now), e);
}

/* One certificate: its text, ending in a newline, and its bytes. */
static int read_pem(struct buf *pem, struct buf *der, struct err *e)
{
	AUTO(buf_done) struct buf text = { 0 };
	const char *p, *end;
	ssize_t n;

	do {
		n = in_read(buf_room(pem, PEM_MAX), PEM_MAX, e);
		if (n > 0)
			buf_fill(pem, (size_t)n);
	} while (n > 0 && buf_len(pem) <= PEM_MAX);
	if (n < 0)
		return -e->code;
	p = buf_str(pem);
	end = strstr(p, pem_end);
	if (buf_len(pem) > PEM_MAX || strlen(p) != buf_len(pem) || !end ||
	    !str_starts(p, pem_begin) ||
	    strcmp(end + strlen(pem_end), "\n") != 0)
		return err_set(e, EINVAL, "host.door: not a certificate");
	for (p += strlen(pem_begin); p < end; p++)
		if (*p != '\n')
			buf_add(&text, p, 1);
	if (base64_get(der, buf_data(&text), buf_len(&text)) < 0)
		return err_set(e, EINVAL, "host.door: not a certificate");
	return 0;
}

int job_door(const struct file_job *j, struct err *e)
{
	AUTO(buf_done) struct buf pem = { 0 }, der = { 0 }, old = { 0 };
	AUTO(buf_done) struct buf names = { 0 };
	AUTO_CLOSE int root_fd =
		open(j->path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	size_t i;

	if (root_fd < 0)
		return err_sys(e, "%.160s", j->path);
	if (read_pem(&pem, &der, e) < 0)
		return -e->code;
	/* The bundle goes by what the anchor was: first it, then the anchor. */
	if (slurp(root_fd, ANCHOR, PEM_MAX, &old, e) < 0 ||
	    join_bundle(root_fd, &pem, &old, e) < 0)
		return -e->code;
	for (i = 0; i < ARRAY_LEN(java_stores); i++)
		if (join_java(root_fd, java_stores[i], &der, e) < 0)
			return -e->code;
	buf_clear(&old);
	if (settle(root_fd, ANCHOR, buf_data(&pem), buf_len(&pem), &old, e) < 0)
		return -e->code;
	return settle(root_fd, "/etc/resolv.conf", resolv, strlen(resolv),
		      &names, e);
}
