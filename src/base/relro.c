#include "base/relro.h"

#include <elf.h>
#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

/* Where this program was loaded: the linker's name for its first byte. */
extern const Elf64_Ehdr __ehdr_start __attribute__((visibility("hidden")));

/*
 * The linker sets apart what is written to only while the program is being
 * relocated (PT_GNU_RELRO). musl's static start leaves it writable.
 */
int relro_protect(void)
{
	const Elf64_Ehdr *head = &__ehdr_start;
	uintptr_t base = (uintptr_t)head, page, from, to;
	const Elf64_Phdr *p = (const Elf64_Phdr *)(base + head->e_phoff);
	size_t i;

	page = (uintptr_t)sysconf(_SC_PAGESIZE);
	for (i = 0; i < head->e_phnum; i++) {
		if (p[i].p_type != PT_GNU_RELRO)
			continue;
		from = (base + p[i].p_vaddr) & ~(page - 1);
		to = (base + p[i].p_vaddr + p[i].p_memsz) & ~(page - 1);
		return mprotect((void *)from, to - from, PROT_READ) < 0 ? -errno
									: 0;
	}
	return -ENOEXEC;
}
