/*
 * A build file: steps from an image to an image, one per line.
 *
 *	# a comment; a line that ends in \ goes on in the next one
 *	from IMAGE		the first step
 *	run COMMAND		by the shell, as the user, in the workdir
 *	copy SRC DST		of the file's own directory, by root
 *	env NAME=VALUE		for the commands that follow, and the image's
 *	user NAME		root until it is said
 *	workdir PATH		made if it is missing
 *	start COMMAND		run when a sandbox of the image starts
 *
 * Each step has a key: the hash of the one before it, of its text and of the
 * files that it copies. Equal keys make equal disks, so the disk of a key that
 * was made once is taken again.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

enum { PLAN_STEPS_MAX = 256, PLAN_BYTES_MAX = 256 * 1024, KEY_CAP = 65 };

enum step_kind {
	STEP_FROM,
	STEP_RUN,
	STEP_COPY,
	STEP_ENV,
	STEP_USER,
	STEP_WORKDIR,
	STEP_START,
	STEP_KINDS
};

struct step {
	enum step_kind kind;
	unsigned line;
	const char *text; /* behind the word, without blanks at the ends */
	char *from, *to;  /* of a copy */
	char key[KEY_CAP];
};

struct plan {
	const char *path;
	char *bytes; /* of the file: the texts point into it */
	struct step steps[PLAN_STEPS_MAX];
	size_t n;
};

/* Errors start with "PATH:LINE: ". */
int plan_load(struct plan *p, const char *path, struct err *e) MUST_CHECK;
/* The same, of `n` bytes: for tests, and for who has the file. */
int plan_parse(struct plan *p, const char *path, const char *bytes, size_t n,
	       struct err *e) MUST_CHECK;
void plan_done(struct plan *p);
const char *step_word(const struct step *s);
/* Does it change the disk? */
bool step_is_disk(const struct step *s);

/* The keys of all steps, for a base image of this id. Reads what is copied. */
int plan_keys(struct plan *p, const char *image_id, struct err *e) MUST_CHECK;
/* Where the source of a copy is: beside the build file. */
void step_source(const struct plan *p, const struct step *s, struct buf *out);
