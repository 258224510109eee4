/* Time: CLOCK_BOOTTIME for deadlines, wall time only for people. */
#pragma once

#include <stddef.h>
#include <stdint.h>

uint64_t clock_boot_ms(void);
uint64_t clock_boot_us(void);
uint64_t clock_wall_ms(void);
/* RFC 3339 UTC with milliseconds: "2026-01-31T08:15:30.125Z". */
enum { CLOCK_STAMP = 32 };
void clock_stamp(uint64_t wall_ms, char out[CLOCK_STAMP]);
/* The reverse; the fraction may be missing. 0 or -EINVAL. */
int clock_parse(const char *stamp, uint64_t *wall_ms);
