/*
 * Which machines may start as which template: all that have the same shape, on
 * the same host. What differs between them is told by the wake: id and name.
 */
#pragma once

#include "base/str.h"
#include "sandbox/vm/launch.h"

enum { VM_PRINT_TEXT = 16 + 1 };

/* What the host has to do with it: its QEMU, kernel and processor. */
void vm_print(const struct vm_host *h, char out[VM_PRINT_TEXT]);
/* The name of its template, in the form of an id. */
void vm_key(const struct vm_host *h, const struct launch_spec *s,
	    char key[ID_CAP]);
