/*
 * A small piece of work that is always the same: by how long it takes one
 * processor is compared with another, or with one that is emulated. It sorts,
 * so it is what programs mostly do: loads, stores, comparisons and branches
 * that cannot be foreseen. A few milliseconds of a processor of today.
 */
#pragma once

#include <stdint.h>

/* The same number on every machine. */
uint32_t work_do(void);
