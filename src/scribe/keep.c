#include "scribe/keep.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audit/segment.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"

int keep_parse(const char *text, struct keep *k, struct err *e)
{
	size_t n = strlen(text);
	bool days = n > 0 && strchr("dh", text[n - 1]) != NULL;

	*k = (struct keep){ 0 };
	if (days ? parse_duration(text, &k->ms) < 0
		 : parse_size(text, &k->bytes) < 0)
		return err_set(e, EINVAL,
			       "audit_keep = %s is neither a size (10G) nor an "
			       "age (90d)",
			       text);
	return 0;
}

static bool stat_segment(const struct chain *c, uint64_t first, struct stat *st)
{
	char name[SEGMENT_NAME];

	segment_name(first, name);
	return fstatat(c->dir_fd, name, st, AT_SYMLINK_NOFOLLOW) == 0;
}

static uint64_t total_bytes(const struct chain *c, const struct segments *s)
{
	uint64_t sum = 0;
	struct stat st;
	size_t i;

	for (i = 0; i < s->n; i++)
		if (stat_segment(c, s->first[i], &st))
			sum += (uint64_t)st.st_size;
	return sum;
}

/* How many of the oldest files are to go. */
static size_t count_old(const struct keep *k, const struct chain *c,
			const struct segments *s)
{
	uint64_t sum = total_bytes(c, s), now = clock_wall_ms();
	struct stat st;
	size_t i;

	for (i = 0; i + 1 < s->n; i++) {
		bool much = k->bytes > 0 && sum > k->bytes;
		bool old;

		if (!stat_segment(c, s->first[i], &st))
			break;
		old = k->ms > 0 &&
		      (uint64_t)st.st_mtim.tv_sec * 1000 + k->ms < now;
		if (!much && !old)
			break;
		sum -= (uint64_t)st.st_size;
	}
	return i;
}

int keep_apply(const struct keep *k, struct chain *c, struct err *e)
{
	AUTO(segments_done) struct segments s = { 0 };
	char data[64], name[SEGMENT_NAME];
	size_t i, n;

	if (k->bytes == 0 && k->ms == 0)
		return 0;
	if (segments_list(c->dir_fd, &s, e) < 0)
		return -e->code;
	n = count_old(k, c, &s);
	if (n == 0)
		return 0;
	snprintf(data, sizeof(data), "\"through\":%llu",
		 (unsigned long long)(s.first[n] - 1));
	chain_say(c, "log.prune", data);
	if (chain_write(c, e) < 0 || chain_sync(c, e) < 0)
		return -e->code;
	for (i = 0; i < n; i++) {
		segment_name(s.first[i], name);
		if (unlinkat(c->dir_fd, name, 0) < 0)
			return err_sys(e, "remove %s", name);
	}
	log_info("removed %zu files of the log, entries up to %llu", n,
		 (unsigned long long)(s.first[n] - 1));
	return 0;
}
