/*
 * The drive from inside a sandbox (wire/drive.h), our end of it: a builtin of
 * the agent that is kept running in every sandbox whose spec has `drive`. What
 * it says comes from the sandbox, whoever speaks there; what may be read and
 * written is what the spec says.
 */
#pragma once

#include <stdbool.h>

struct drive_door;
struct sandbox;

/* It runs, and its agent is heard: has the door opened if it wants one. */
void drive_door_open(struct sandbox *s);
/* It goes. Harmless without one. */
void drive_door_close(struct sandbox *s);
