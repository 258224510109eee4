/*
 * How much slower is what is emulated? The first template of a host is asked to
 * do a small piece of work while it is a guest without any user, and the child
 * that asks does the same itself. The answer is kept in state_dir/emulation and
 * holds for one QEMU, kernel and processor; no machine is booted for it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "base/work.h"
#include "sandbox/vm/shape.h"
#include "warden/vm.h"

enum { TIMES = 3, ASK_MS = 10 * 1000, TENTHS_MAX = 10 * 1000 };

/* "PRINT TENTHS\n" */
static void read_answer(struct warden *w)
{
	char text[64], print[VM_PRINT_TEXT], *number;
	ssize_t n = pread(w->speed.cache_fd, text, sizeof(text) - 1, 0);
	uint64_t tenths;

	if (n <= 1 || text[n - 1] != '\n')
		return;
	text[n - 1] = '\0';
	number = strchr(text, ' ');
	if (!number)
		return;
	*number++ = '\0';
	vm_print(&w->vm, print);
	if (strcmp(text, print) == 0 &&
	    parse_u64(number, TENTHS_MAX, &tenths) == 0)
		w->speed.tenths = (uint32_t)tenths;
}

int speed_open(struct warden *w, struct err *e)
{
	char path[CONF_PATH + 16];

	w->speed.cache_fd = -1;
	if (w->vm_missing.code)
		return 0;
	snprintf(path, sizeof(path), "%s/emulation", w->conf.state_dir);
	w->speed.cache_fd =
		open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (w->speed.cache_fd < 0)
		return err_sys(e, "open %s", path);
	read_answer(w);
	return 0;
}

bool speed_wanted(const struct warden *w)
{
	return !w->vm.kvm && w->speed.tenths == 0;
}

/* The shortest of some: others have the processor, too. */
static int shortest(struct control_line *line,
		    int (*ask)(struct control_line *line, uint64_t most_ms,
			       struct err *e),
		    uint64_t *ns, struct err *e)
{
	int i;

	*ns = UINT64_MAX;
	for (i = 0; i < TIMES; i++) {
		uint64_t from = clock_boot_us(), took;

		if (ask(line, ASK_MS, e) < 0)
			return -e->code;
		took = (clock_boot_us() - from) * 1000;
		if (took < *ns)
			*ns = took;
	}
	return 0;
}

static int do_here(struct control_line *line, uint64_t most_ms, struct err *e)
{
	(void)line;
	(void)most_ms;
	/* Also that the compiler leaves it in. */
	return work_do() == 0 ? err_set(e, EIO, "no work was done") : 0;
}

uint32_t speed_measure(struct control_line *line)
{
	uint64_t way, there, here;
	struct err e = { 0 };

	if (shortest(line, control_ask, &way, &e) < 0 ||
	    shortest(line, control_work, &there, &e) < 0 ||
	    shortest(line, do_here, &here, &e) < 0) {
		log_info("emulation was not measured: %s", e.msg);
		return 0;
	}
	if (there <= way || here == 0 ||
	    (there - way) / here > TENTHS_MAX / 10 - 1)
		return 0;
	return (uint32_t)((there - way) * 10 / here);
}

void speed_note(struct warden *w, uint32_t tenths)
{
	char text[64], print[VM_PRINT_TEXT];
	int n;

	if (tenths == 0 || tenths > TENTHS_MAX || !speed_wanted(w))
		return;
	w->speed.tenths = tenths;
	vm_print(&w->vm, print);
	n = snprintf(text, sizeof(text), "%s %u\n", print, tenths);
	if (ftruncate(w->speed.cache_fd, 0) < 0 ||
	    pwrite(w->speed.cache_fd, text, (size_t)n, 0) != n)
		log_warn("how slow emulation is, is not kept: %s",
			 strerror(errno));
	log_info("emulation is about %u.%u x slower than this host",
		 tenths / 10, tenths % 10);
}
