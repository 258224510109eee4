/* There is no library beside ours yet: system calls are made by hand. */
#pragma once

static inline long call(long what, long a, long b, long c)
{
	long r;

	__asm__ volatile("syscall"
			 : "=a"(r)
			 : "a"(what), "D"(a), "S"(b), "d"(c)
			 : "rcx", "r11", "memory");
	return r;
}
