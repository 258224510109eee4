/*
 * Readers of the log: event streams, and what is asked about the past. Each
 * has its own position in the log's files and reads them itself, so a slow
 * one slows nobody but itself; the scribe's word that there is more wakes
 * those that have come to the end.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "api/call.h"
#include "audit/entry.h"
#include "base/list.h"

struct api;
struct http_conn;

enum {
	READERS_MAX = 64,
	READERS_PROJECT_MAX = 16, /* of one project's keys */
};

struct events {
	struct list readers;
};

/* What somebody wants to see of the log. */
struct event_filter {
	char project[NAME_CAP]; /* "": every one, and what is nobody's */
	char box[ID_CAP];       /* "": any */
	char type[ENTRY_TYPE_MAX +
		  1];      /* its start; "": any but the log's own */
	uint64_t after;    /* entries with a greater number */
	uint64_t since_ms; /* nothing that was written before */
	uint64_t limit;    /* so many, then the end; 0: all */
	bool from_now;     /* only what comes; `after` does not matter */
	bool follow;       /* goes on at the end of the log */
	bool raw;          /* all lines as they are, whatever they are */
};

void events_init(struct api *a);
/* The log has grown. */
void events_wake(struct api *a);
/* Answers with all that `f` lets through; or an error, when there are too
 * many readers. */
void events_send(struct api *a, struct http_conn *c,
		 const struct event_filter *f);
