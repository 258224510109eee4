/*
 * Scope cleanup: what a function opens or allocates goes away on every exit,
 * unless it was handed over with take_fd() or take_ptr().
 */
#pragma once

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define AUTO(fn) __attribute__((cleanup(fn)))
#define AUTO_CLOSE AUTO(auto_close)
#define AUTO_FREE AUTO(auto_free)
#define AUTO_DIR AUTO(auto_closedir)

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

/* Leaves errno alone: close() must not hide the failure that got us here. */
static inline void auto_close(int *fd)
{
	int saved = errno;

	if (*fd >= 0)
		close(*fd);
	*fd = -1;
	errno = saved;
}

static inline void auto_free(void *p)
{
	free(*(void **)p);
}

static inline void auto_closedir(DIR **d)
{
	int saved = errno;

	if (*d)
		closedir(*d);
	errno = saved;
}

static inline int take_fd(int *fd)
{
	int v = *fd;

	*fd = -1;
	return v;
}

#define take_ptr(p)                         \
	({                                  \
		__typeof__(p) taken_ = (p); \
		(p) = NULL;                 \
		taken_;                     \
	})
