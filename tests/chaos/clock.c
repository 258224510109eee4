/*
 * Another time of day for one daemon: a library that is loaded before libc's
 * own (LD_PRELOAD) and adds to the wall clock what the file CHAOS_CLOCK says,
 * eight bytes of microseconds that whoever disturbs may change at any moment.
 * The clocks that only go forward are left alone, as on a host whose time is
 * set.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { US = 1000000 };

static const volatile int64_t *shift_us;

static void __attribute__((constructor)) open_shift(void)
{
	const char *path = getenv("CHAOS_CLOCK");
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	void *p = fd < 0 ? MAP_FAILED
			 : mmap(NULL, sizeof(*shift_us), PROT_READ, MAP_SHARED,
				fd, 0);

	/* A clock that does not jump would be a test that cannot fail. */
	if (p == MAP_FAILED)
		abort();
	shift_us = p;
	close(fd);
}

static int64_t shift(void)
{
	return shift_us ? *shift_us : 0;
}

int clock_gettime(clockid_t clock, struct timespec *ts)
{
	int r = (int)syscall(SYS_clock_gettime, clock, ts);
	int64_t us;

	if (r < 0 ||
	    (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE))
		return r;
	us = ts->tv_nsec / 1000 + shift() % US + US;
	ts->tv_sec += shift() / US + us / US - 1;
	ts->tv_nsec = us % US * 1000 + ts->tv_nsec % 1000;
	return 0;
}

int gettimeofday(struct timeval *restrict tv, void *restrict zone)
{
	struct timespec ts;

	(void)zone;
	if (tv && clock_gettime(CLOCK_REALTIME, &ts) == 0) {
		tv->tv_sec = ts.tv_sec;
		tv->tv_usec = ts.tv_nsec / 1000;
	}
	return 0;
}

time_t time(time_t *out)
{
	struct timespec ts;
	time_t t = clock_gettime(CLOCK_REALTIME, &ts) == 0 ? ts.tv_sec : -1;

	if (out)
		*out = t;
	return t;
}
