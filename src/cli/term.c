#include "cli/term.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

static struct termios saved;
static bool is_raw;

/*
 * SIGKILL leaves no time to clean up, and a terminal in raw mode is of no use
 * to anybody. So a child waits for our end; it has the terminal and one end
 * of a pipe, and nothing else. What we write there is whether the terminal is
 * raw.
 */
static int guard_fd = -1;

static void guard(int fd)
{
	char raw = 0, c;
	sigset_t all;

	/* Not with our group; and SIGTTOU would stop us in the background. */
	setpgid(0, 0);
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
	close(STDOUT_FILENO);
	close(STDERR_FILENO);
	if (fd != STDERR_FILENO + 1) {
		dup2(fd, STDERR_FILENO + 1);
		fd = STDERR_FILENO + 1;
	}
	close_range((unsigned)fd + 1, ~0U, 0);
	while (read(fd, &c, 1) == 1)
		raw = c;
	if (raw)
		tcsetattr(STDIN_FILENO, TCSANOW, &saved);
	_exit(0);
}

static void start_guard(void)
{
	int p[2];
	pid_t pid;

	if (pipe(p) < 0)
		return;
	pid = fork();
	if (pid == 0) {
		close(p[1]);
		guard(p[0]);
	}
	close(p[0]);
	if (pid > 0)
		guard_fd = p[1];
	else
		close(p[1]);
}

static void tell_guard(char raw)
{
	/* Without a guard, exit() is still ours. */
	if (guard_fd >= 0 && write(guard_fd, &raw, 1) < 0)
		guard_fd = -1;
}

void term_restore(void)
{
	if (!is_raw)
		return;
	tcsetattr(STDIN_FILENO, TCSADRAIN, &saved);
	is_raw = false;
	tell_guard(0);
}

void term_raw(bool signals)
{
	static bool registered;
	struct termios raw;

	if (!is_raw && tcgetattr(STDIN_FILENO, &saved) < 0)
		return;
	if (!registered) {
		if (atexit(term_restore) != 0)
			return;
		registered = true;
		start_guard();
	}
	raw = saved;
	cfmakeraw(&raw);
	if (signals) {
		raw.c_lflag |= ISIG;
		raw.c_cc[VSUSP] = _POSIX_VDISABLE;
	}
	tell_guard(1);
	is_raw = tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) == 0;
}

void term_screen(bool other)
{
	static bool is_other;

	if (other == is_other)
		return;
	is_other = other;
	fputs(other ? "\033[?1049h\033[?25l" : "\033[?25h\033[?1049l", stdout);
	fflush(stdout);
}

bool term_is_raw(void)
{
	return is_raw;
}

void term_size(uint16_t *rows, uint16_t *cols)
{
	struct winsize w = { 0 };

	if (ioctl(STDIN_FILENO, TIOCGWINSZ, &w) < 0 &&
	    ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) < 0)
		w = (struct winsize){ 0 };
	*rows = w.ws_row;
	*cols = w.ws_col;
}
