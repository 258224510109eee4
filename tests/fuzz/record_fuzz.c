/*
 * What the warden finds when it starts: records of sandboxes, and what /proc
 * says of a process. The first byte chooses. What is adopted has a slot that
 * exists and strings that end.
 */
#include <assert.h>

/* The program's files are not in the library. */
#include "warden/record.c"

#include "scratch.h"
#include <sys/stat.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#define BOX_ID "iaaaaaaaaaaaaaaaaaaaaaaaaaa"

static struct warden w;

/* --- what it calls; the rest of the file is not run, and not linked --- */

uint32_t slot_base(const struct warden *wd, unsigned slot)
{
	(void)wd;
	return 1000 + slot;
}

/* --- the files --- */

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	scratch_make();
	log_init("fuzz", LOG_ERR);
	if (mkdirat(top_fd, BOX_ID, 0700) < 0 || mkdirat(top_fd, "7", 0700) < 0)
		abort();
	w.box_fd = top_fd;
	w.n_slots = 16;
	return 0;
}

static void put_file(const char *path, const void *p, size_t n)
{
	AUTO_CLOSE int fd = openat(
		top_fd, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	if (fd < 0 || write_full(fd, p, n) < 0)
		abort();
}

static void check_text(const char *s, size_t cap)
{
	assert(memchr(s, '\0', cap));
}

static void check(const struct record *rec)
{
	size_t i;

	assert(rec->slot < w.n_slots);
	assert(strcmp(rec->spec.id, BOX_ID) == 0);
	check_text(rec->spec.image, ID_CAP);
	check_text(rec->spec.from, ID_CAP);
	check_text(rec->spec.hostname, NAME_CAP);
	for (i = 0; i < LAUNCH_VOLUMES_MAX; i++) {
		check_text(rec->spec.volumes[i].id, ID_CAP);
		check_text(rec->spec.volumes[i].path, LAUNCH_PATH_CAP);
	}
}

/* The beginning is made right if the first byte says so: it is all or
 * nothing. */
static void one_record(bool right, const uint8_t *data, size_t n)
{
	struct record rec, out = { 0 };

	memset(&rec, 0, sizeof(rec));
	memcpy(&rec, data, n < sizeof(rec) ? n : sizeof(rec));
	if (right) {
		memcpy(rec.magic, "BOX\n", 4);
		rec.version = RECORD_VERSION;
		rec.size = sizeof(rec);
		rec.slot %= 2 * w.n_slots;
		rec.base = slot_base(&w, rec.slot);
		memcpy(rec.spec.id, BOX_ID, ID_CAP);
	}
	put_file(BOX_ID "/record", &rec, right ? sizeof(rec) : n);
	if (record_read(&w, BOX_ID, &out) == 0)
		check(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	uint64_t start;
	bool ending;

	if (n < 1)
		return 0;
	if (data[0] & 2) {
		put_file("7/stat", data + 1, n - 1);
		(void)!process_start_time(top_fd, 7, &start, &ending);
		return 0;
	}
	if (!(data[0] & 1) && n - 1 > sizeof(struct record))
		n = sizeof(struct record) + 1;
	one_record(data[0] & 1, data + 1, n - 1);
	return 0;
}
