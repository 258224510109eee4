/*
 * Whom the configuration wants called when a request waits (`ask_webhook`): a
 * POST of JSON, once, a few at a time. Nobody waits for what it answers.
 */
#pragma once

#include "gate/gate.h"

enum { HOOKS_MAX = 16 };

/* `json`: an object. */
void ask_hook(struct gate *g, const char *json);
