/*
 * The keeper: has the files and no network. It hears the api's first message
 * on each connection, and the requests of doors (within.h).
 */
#pragma once

#include <stdbool.h>

#include "base/list.h"
#include "base/loop.h"
#include "base/str.h"
#include "gate/keys.h"
#include "gate/outbox.h"
#include "gate/setup.h"
#include "gate/within.h"

enum {
	DOORS_MAX = 512,
	HELLOS_MAX = 64, /* connections that have not said who they mean */
	HELLO_WAIT_MS = 10000,
	FILES_LOOK_MS = 5000, /* resolv.conf and hosts */
};

/* resolv.conf and hosts as they were read last. */
struct name_files {
	struct buf resolv, hosts;
};

struct keeper {
	const struct setup *setup;
	struct loop loop;
	struct vault vault;
	struct io listen, signals, starter;
	struct outbox to_starter;
	struct list doors, hellos;
	unsigned n_doors, n_hellos;
	struct name_files files;
	struct timer look;
};

/* In its process, as root still; confines itself. The exit status. */
int keeper_run(struct setup *s, int starter_fd);
