/* The identity of a sandbox's machine, see machine_id.c. */
#pragma once

/*
 * Where there is a file for it in the root `root_fd`, it becomes that of the
 * sandbox `id`. What is in the way is left alone.
 */
void machine_id_set(int root_fd, const char *id);
