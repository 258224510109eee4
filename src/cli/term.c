#include "cli/term.h"

#include <stdbool.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

static struct termios saved;
static bool is_raw;

void term_restore(void)
{
	if (is_raw)
		tcsetattr(STDIN_FILENO, TCSADRAIN, &saved);
	is_raw = false;
}

void term_raw(void)
{
	static bool registered;
	struct termios raw;

	if (!is_raw && tcgetattr(STDIN_FILENO, &saved) < 0)
		return;
	if (!registered && atexit(term_restore) != 0)
		return;
	registered = true;
	raw = saved;
	cfmakeraw(&raw);
	is_raw = tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) == 0;
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
