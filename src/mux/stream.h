/* One connection of a line. Internal to this directory. */
#pragma once

#include "mux/mux.h"

/* A message; what is too much for the line is its owner's to avoid. */
void mux_put(struct mux *m, enum door_kind kind, uint32_t id, const void *body,
	     size_t len);

/* Takes the socket. `connecting`: it is not connected yet. */
struct stream *stream_new(struct mux *m, int fd, uint32_t id, bool connecting);
struct stream *stream_find(const struct mux *m, uint32_t id);
/* Watches what can be done with it now. */
void stream_arm(struct stream *s);
/* Ends it here, with an error for who is at the socket. */
void stream_cut(struct stream *s, int code);
/* What the other end says of it: 0, or -EBADMSG. */
int stream_hears(struct stream *s, const struct door_msg *msg) MUST_CHECK;
