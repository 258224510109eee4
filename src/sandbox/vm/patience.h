/*
 * The time limits of microVMs suit hosts whose virtualization is fast. Where it
 * is nested or emulated the operator multiplies all of them
 * (`microvm_patience`). The warden sets the factor once, before its first
 * child.
 */
#pragma once

#include <stdint.h>

void vm_patience_set(uint64_t factor);
/* A limit in milliseconds, multiplied. */
uint64_t vm_patience(uint64_t ms);
