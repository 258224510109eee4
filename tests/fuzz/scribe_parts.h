/* The scribe without its start: its files are not in the library. */
#pragma once

#include <dirent.h>

#include "scribe/chain.c"
#include "scribe/keep.c"
#include "scribe/resume.c"
#include "scribe/role.c"
#include "scribe/serve.c"
#include "scribe/sign.c"
#include <poll.h>
/* Nobody writes while it looks: it need not wait for the rest of a line. */
#define poll(p, n, ms) ((void)(ms))
#include "scribe/verify.c"
#undef poll
#include "scribe/writers.c"

#include "scratch.h"

/* What is said of a log goes nowhere. */
static inline void scribe_quiet(void)
{
	int null_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);

	if (null_fd < 0 || dup2(null_fd, STDOUT_FILENO) < 0)
		abort();
	log_init("fuzz", LOG_ERR);
}

/* The log's directory, with the same key each time. */
static inline int log_make(void)
{
	AUTO_CLOSE int fd = -1;
	unsigned char public[crypto_sign_PUBLICKEYBYTES];
	unsigned char secret[crypto_sign_SECRETKEYBYTES];
	static const unsigned char seed[crypto_sign_SEEDBYTES] = "fuzz";
	char hex[2 * sizeof(secret) + 1];
	int dir_fd;

	if (mkdirat(top_fd, "log", 0755) < 0)
		abort();
	dir_fd = openat(top_fd, "log", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	fd = openat(dir_fd, "key", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	crypto_sign_seed_keypair(public, secret, seed);
	sodium_bin2hex(hex, sizeof(hex), secret, sizeof(secret));
	if (fd < 0 || write_full(fd, hex, strlen(hex)) < 0)
		abort();
	return dir_fd;
}

static inline void log_gone(int dir_fd)
{
	DIR *d = fdopendir(dir_fd);
	struct dirent *ent;

	if (!d)
		abort();
	rewinddir(d);
	while ((ent = readdir(d)))
		if (ent->d_name[0] != '.' &&
		    unlinkat(dir_fd, ent->d_name, 0) < 0)
			abort();
	closedir(d);
	if (unlinkat(top_fd, "log", AT_REMOVEDIR) < 0)
		abort();
}

static inline int log_verify(void)
{
	char dir[64];
	struct verify_options o = { .dir = dir, .dir_fd = -1 };
	struct err e = { 0 };
	int r;

	snprintf(dir, sizeof(dir), "%s/log", top);
	r = verify_open(&o, &e) < 0 ? VERIFY_FAILED : verify_run(&o);
	verify_close(&o);
	return r;
}
