/*
 * The memory of a machine that was cloned: QEMU maps the template's privately,
 * so what the guest has written since are the pages that are QEMU's own. They
 * are saved into a file, and put into a QEMU that waits for its state.
 *
 *	a page	   struct ram_head
 *	pages	   one bit for each page of the memory: is it in here?
 *	pages	   the memory; what is not in here, or zero, is a hole
 *
 * The file may have been brought from elsewhere: everything in it is checked
 * but the contents of pages, which are the guest's own affair.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

enum { RAM_PAGE = 4096 };
#define RAM_MAGIC 0x31307e6d61722e63ULL /* "c.ram~01" */

struct ram_head {
	uint64_t magic;
	uint64_t bytes; /* of the memory */
	uint64_t pages; /* that are in here */
};

/*
 * Where the memory of a QEMU is. `process_fd` is its directory of /proc, which
 * stays that of this process: another one of its number is never looked at.
 */
struct ram_map {
	int process_fd;
	int pid_fd; /* -1: it is not asked what it wrote */
	uint64_t at, bytes;
};

/*
 * What QEMU was given as memory is a nameless file of this name. Whoever has
 * taken QEMU over may have another one of it: what is read is its own, anyway.
 */
#define RAM_NAME "memory"
/* Where it has mapped its `bytes` of it. */
int ram_find(int process_fd, uint64_t bytes, struct ram_map *m,
	     struct err *e) MUST_CHECK;
/* The file itself, to be read. */
int ram_open(const struct ram_map *m, struct err *e) MUST_CHECK;

/*
 * Saves it, in two steps: ram_save_begin() copies while the machine runs, as
 * often as one likes; ram_save_end() when it stands still copies what is not
 * in the file as it is now. The file is empty at first. Where the kernel tells
 * what was written, all is looked at only the first time.
 */
struct ram_save {
	struct ram_map map;
	int pagemap_fd, mem_fd, file_fd;
	int written_fd; /* -1: what was written is not known */
	bool begun;
	uint8_t *bits;
	uint64_t pages;
	const uint8_t *seen; /* the file's pages, mapped */
};
int ram_save_open(struct ram_save *s, const struct ram_map *m, int file_fd,
		  struct err *e) MUST_CHECK;
int ram_save_begin(struct ram_save *s, struct err *e) MUST_CHECK;
int ram_save_end(struct ram_save *s, struct err *e) MUST_CHECK;
void ram_save_close(struct ram_save *s);

/* Puts what was saved into a QEMU with the same template. */
int ram_load(int file_fd, const struct ram_map *m, struct err *e) MUST_CHECK;
