#include "base/clock.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static uint64_t now_us(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

uint64_t clock_boot_ms(void)
{
	return now_us(CLOCK_BOOTTIME) / 1000;
}

uint64_t clock_boot_us(void)
{
	return now_us(CLOCK_BOOTTIME);
}

uint64_t clock_wall_ms(void)
{
	return now_us(CLOCK_REALTIME) / 1000;
}

void clock_stamp(uint64_t wall_ms, char out[CLOCK_STAMP])
{
	time_t s = (time_t)(wall_ms / 1000);
	struct tm tm;
	size_t n;

	gmtime_r(&s, &tm);
	n = strftime(out, CLOCK_STAMP, "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(out + n, CLOCK_STAMP - n, ".%03uZ",
		 (unsigned)(wall_ms % 1000));
}

int clock_parse(const char *stamp, uint64_t *wall_ms)
{
	struct tm tm = { 0 };
	unsigned ms = 0;
	const char *end = strptime(stamp, "%Y-%m-%dT%H:%M:%S", &tm);
	time_t s;
	int n = 0;

	if (end && *end == '.' && sscanf(end, ".%3u%n", &ms, &n) == 1 && n == 4)
		end += n;
	s = timegm(&tm);
	if (!end || strcmp(end, "Z") != 0 || s < 0)
		return -EINVAL;
	*wall_ms = (uint64_t)s * 1000 + ms;
	return 0;
}
