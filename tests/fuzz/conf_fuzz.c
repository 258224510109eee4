/*
 * The configuration and the small texts in it: numbers with units, names, ids,
 * base64. The first byte chooses. What was taken says the same when it is
 * written again.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/base64.h"
#include "base/conf.h"
#include "base/fd.h"
#include "base/str.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void file(const uint8_t *data, size_t n)
{
	AUTO_CLOSE int fd = memfd_create("conf", MFD_CLOEXEC);
	static char flag[] = "--config";
	char path[32];
	char *argv[] = { path, flag, path, NULL };
	struct conf c, again;
	struct err e = { 0 };

	if (fd < 0 || write_full(fd, data, n) < 0)
		abort();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (conf_load(&c, path, &e) < 0) {
		assert(e.code && strstr(e.msg, "line"));
		return;
	}
	assert(memchr(c.state_dir, '\0', sizeof(c.state_dir)));
	assert(memchr(c.registries, '\0', sizeof(c.registries)));
	assert(memchr(c.ask_webhook, '\0', sizeof(c.ask_webhook)));
	assert(c.listen_insecure <= 1 && c.e2b_internet <= 1);
	(void)conf_log_level(&c);
	assert(conf_from_args(&again, 3, argv, &e) == 0);
	assert(memcmp(&c, &again, sizeof(c)) == 0);
	assert(conf_from_args(&again, 2, argv, &e) < 0);
}

static void numbers(const char *s)
{
	char text[SIZE_TEXT];
	uint64_t v = 0, w = 0;

	if (parse_u64(s, 1000, &v) == 0)
		assert(v <= 1000);
	if (parse_u64(s, UINT64_MAX, &v) == 0) {
		snprintf(text, sizeof(text), "%llu", (unsigned long long)v);
		assert(parse_u64(text, UINT64_MAX, &w) == 0 && v == w);
	}
	if (parse_size(s, &v) == 0) {
		size_text(v, text);
		snprintf(text, sizeof(text), "%llu", (unsigned long long)v);
		assert(parse_size(text, &w) == 0 && v == w);
	}
	if (parse_duration(s, &v) == 0) {
		age_text(v, text);
		assert(*text);
	}
	(void)!parse_milli(s, &v);
}

static void names(const char *s, size_t n)
{
	char out[8];

	/* Nothing is both. */
	assert(!id_valid(s) || !name_valid(s));
	assert(!name_valid(s) || strlen(s) < NAME_CAP);
	assert((str_copy(out, sizeof(out), s) == 0) ==
	       (strlen(s) < sizeof(out)));
	(void)str_is_utf8(s, n);
}

static void coded(const char *s, size_t n)
{
	struct buf raw = { 0 }, text = { 0 };

	if (base64_get(&raw, s, n) == 0) {
		base64_add(&text, buf_data(&raw), buf_len(&raw));
		assert(buf_len(&text) == n);
		assert(memcmp(buf_data(&text), s, n) == 0);
	}
	buf_done(&raw);
	buf_done(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	char *s;

	if (n < 1)
		return 0;
	if (data[0] == 'c') {
		file(data + 1, n - 1);
		return 0;
	}
	s = malloc(n);
	memcpy(s, data + 1, n - 1);
	s[n - 1] = '\0';
	numbers(s);
	names(s, n - 1);
	coded(s, n - 1);
	free(s);
	return 0;
}
