#include "agent/sudo_tty.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fd.h"

enum { CHUNK = 4096 };

/* Output of the terminal goes to the one we are shown on. */
static int open_screen(void)
{
	if (isatty(STDOUT_FILENO))
		return STDOUT_FILENO;
	if (isatty(STDERR_FILENO))
		return STDERR_FILENO;
	return open("/dev/tty", O_WRONLY | O_NOCTTY | O_CLOEXEC);
}

int tty_open(struct tty *t)
{
	AUTO_CLOSE int master =
		open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
	AUTO_CLOSE int slave = -1;
	int unlocked = 0;

	if (master < 0 || ioctl(master, TIOCSPTLCK, &unlocked) < 0)
		return -errno;
	slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (slave < 0)
		return -errno;
	t->screen = open_screen();
	if (t->screen < 0 || tcgetattr(STDIN_FILENO, &t->saved) < 0 ||
	    tcsetattr(slave, TCSANOW, &t->saved) < 0)
		return -errno;
	t->master = take_fd(&master);
	t->slave = take_fd(&slave);
	tty_resize(t);
	return 0;
}

void tty_start(struct tty *t)
{
	auto_close(&t->slave); /* else the end of it would not be seen */
	tty_raw(t);
}

/*
 * Only in the foreground: from behind we would take the shell's terminal. When
 * we are put there, SIGCONT brings us here again.
 */
void tty_raw(struct tty *t)
{
	struct termios raw = t->saved;

	if (t->master < 0 || t->raw || tcgetpgrp(STDIN_FILENO) != getpgrp())
		return;
	cfmakeraw(&raw);
	if (tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) == 0)
		t->raw = true;
	tty_resize(t);
}

void tty_restore(struct tty *t)
{
	if (t->raw)
		tcsetattr(STDIN_FILENO, TCSADRAIN, &t->saved);
	t->raw = false;
}

void tty_resize(struct tty *t)
{
	struct winsize size;

	if (t->master >= 0 && ioctl(STDIN_FILENO, TIOCGWINSZ, &size) == 0)
		ioctl(t->master, TIOCSWINSZ, &size);
}

struct pollfd tty_poll_outside(const struct tty *t)
{
	int fd = t->master >= 0 && t->raw ? STDIN_FILENO : -1;

	return (struct pollfd){ .fd = fd, .events = POLLIN };
}

struct pollfd tty_poll_inside(const struct tty *t)
{
	return (struct pollfd){ .fd = t->master, .events = POLLIN };
}

void tty_from_outside(struct tty *t)
{
	char keys[CHUNK];
	ssize_t n = read(STDIN_FILENO, keys, sizeof(keys));

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	/* Our terminal hung up: so does the inner one. */
	if (n <= 0 || write_full(t->master, keys, (size_t)n) < 0)
		auto_close(&t->master);
}

void tty_from_inside(struct tty *t)
{
	char text[CHUNK];
	ssize_t n = read(t->master, text, sizeof(text));

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n <= 0 || write_full(t->screen, text, (size_t)n) < 0)
		auto_close(&t->master); /* nobody has the slave open */
}

void tty_finish(struct tty *t)
{
	/* What the command wrote before it ended is there without waiting. */
	if (t->master >= 0 && fd_set_nonblock(t->master, true) == 0)
		while (t->master >= 0) {
			struct pollfd p = tty_poll_inside(t);

			if (poll(&p, 1, 0) <= 0)
				break;
			tty_from_inside(t);
		}
	tty_restore(t);
}
