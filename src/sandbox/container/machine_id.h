/* The identity of a sandbox's machine, see machine_id.c. */
#pragma once

#include <stdbool.h>

/*
 * Where there is a file for it in the root `root_fd`, it becomes that of the
 * sandbox `id`. `copied`: the disk is another sandbox's, so even an empty file
 * is filled. What is in the way is left alone.
 */
void machine_id_set(int root_fd, const char *id, bool copied);
