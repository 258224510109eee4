/* Our terminal while a process inside has one of its own. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * Puts the terminal of stdin into raw mode, and back at exit() at the latest;
 * a child sees to it when we are killed. Does nothing when stdin is no
 * terminal. Called again (after SIGCONT: the shell has changed the modes
 * meanwhile) it sets them again. With `signals`, Ctrl-C is still a signal.
 */
void term_raw(bool signals);
void term_restore(void);
/*
 * The other screen of the terminal of stdout, without a cursor, and back: what
 * was there before is there again. Messages go to the usual one.
 */
void term_screen(bool other);
/* Whether a line has to end in "\r\n". */
bool term_is_raw(void);
/* Size of the terminal of stdin or stdout; 0 x 0 when there is none. */
void term_size(uint16_t *rows, uint16_t *cols);
