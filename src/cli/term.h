/* Our terminal while a process inside has one of its own. */
#pragma once

#include <stdint.h>

/*
 * Puts the terminal of stdin into raw mode, and back at exit() at the latest.
 * Does nothing when stdin is no terminal. Called again (after SIGCONT: the
 * shell has changed the modes meanwhile) it sets them again.
 */
void term_raw(void);
void term_restore(void);
/* Size of the terminal of stdin or stdout; 0 x 0 when there is none. */
void term_size(uint16_t *rows, uint16_t *cols);
