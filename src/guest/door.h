/* The process of the guest's door. */
#pragma once

#include "guest/guest.h"
#include "mux/mux.h"
#include "wire/gate.h"

enum { GRAMS_MAX = 256, GRAM_CONTROL = 64 };

struct door;

struct listener {
	struct io io; /* the first: it is found by it */
	struct door *door;
};

/* Who asked for a name, and where. */
struct gram {
	uint32_t id;
	int fd;
	struct sockaddr_storage from;
	socklen_t from_len;
	_Alignas(max_align_t) char control[GRAM_CONTROL];
	size_t control_len;
};

struct door {
	struct loop loop;
	struct mux mux;
	int port_fd, home_fd; /* home: the machine's own network */
	struct io signals;
	int fds[GATE_FDS_MAX]; /* enum door_fd */
	struct listener listeners[GATE_FDS_MAX];
	struct gram grams[GRAMS_MAX];
	uint32_t next_gram;
};

void door_die(const char *what);
/* Watches those sockets that there is room for. */
void door_arm(struct door *d);

/* door_gram.c */
void grams_read(struct door *d, int fd);
void gram_answer(struct door *d, const struct door_msg *msg);
