/*
 * A terminal for the command: a pair made inside, whose slave the command gets
 * as its own, and our terminal in raw mode, so that keys (and the signals they
 * mean) act on the inner one.
 */
#pragma once

#include <poll.h>
#include <stdbool.h>
#include <termios.h>

struct tty {
	int master, slave; /* -1: there is none */
	int screen;        /* where the command's output is shown */
	bool raw;          /* our terminal is in raw mode */
	struct termios saved;
};

#define TTY_NONE { .master = -1, .slave = -1, .screen = -1 }

/* All of these do nothing where there is no terminal. */
int tty_open(struct tty *t);
/* The slave was passed on; raw mode, if we are in the foreground. */
void tty_start(struct tty *t);
void tty_raw(struct tty *t);
void tty_restore(struct tty *t);
void tty_resize(struct tty *t);
/* Shows what is left, and restores. */
void tty_finish(struct tty *t);

struct pollfd tty_poll_outside(const struct tty *t);
struct pollfd tty_poll_inside(const struct tty *t);
void tty_from_outside(struct tty *t);
void tty_from_inside(struct tty *t);
