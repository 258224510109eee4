/*
 * Does KVM work here? A file /dev/kvm says little: nested, it may be there and
 * hang. So a guest is really booted with it, once for each kernel of the host,
 * QEMU and kernel of guests, behind the walls of any VM and with a time limit.
 * Until it has answered machines are emulated, or refused if the configuration
 * wants KVM.
 *
 * A host that was busy is not one without KVM: a guest that was late is booted
 * again later, or by the next warden, and may take longer each time. Only where
 * it was late with the longest limit, nobody tries for a day.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "sandbox/vm/patience.h"
#include "warden/vm.h"

enum {
	AGAIN_MS = 10 * 60 * 1000,
	AGAIN_S = 24 * 60 * 60,
	RETRY_MS = 5,
	ADOPT_MS = 200,
	SAID_MAX = 4096,
};

/* Time limits of the test boots; see also sandbox/vm/patience.h. */
static const unsigned limits_s[] = { 5, 20, 60 };

/* As they are kept. */
#define YES "yes"
#define NO "no"      /* QEMU ended */
#define LATE "late " /* and with which of the limits */

static const struct launch_spec probe_spec = {
	.id = "kvm",
	.mem_bytes = 64 << 20,
	.cpus_milli = 1000,
};

/* --- what is known --- */

static void add_stat(struct buf *b, const char *path)
{
	struct stat st = { 0 };

	(void)stat(path, &st);
	buf_printf(b, " %lld.%lld", (long long)st.st_size,
		   (long long)st.st_mtime);
}

/* All that an answer is good for, in one line. */
static void make_stamp(struct warden *w)
{
	AUTO(buf_done) struct buf b = { 0 };
	char path[CONF_PATH + 16];
	struct utsname u = { 0 };

	uname(&u);
	buf_puts(&b, u.release);
	add_stat(&b, VM_QEMU);
	add_stat(&b, VM_QEMU_SMALL);
	snprintf(path, sizeof(path), "%s/vmlinux", w->vm.dir);
	add_stat(&b, path);
	snprintf(w->kvm.stamp, sizeof(w->kvm.stamp), "%s", buf_str(&b));
}

static bool is_last(const struct kvm_probe *k)
{
	return k->nth + 1 >= ARRAY_LEN(limits_s);
}

static uint64_t limit_ms(const struct warden *w)
{
	return vm_patience(limits_s[w->kvm.nth] * 1000ULL);
}

static void settle(struct warden *w, bool works, const char *why)
{
	struct kvm_probe *k = &w->kvm;

	w->vm.kvm = works;
	snprintf(k->why, sizeof(k->why), "%s", works ? "" : why);
	err_clear(&w->vm_missing);
	if (!works && strcmp(w->conf.microvm, "kvm") == 0)
		err_set(&w->vm_missing, ENOTSUP,
			"microvm = kvm, but KVM does not work here: %s", why);
}

/* The guest was late with this limit; `next`: what becomes of it. */
static void settle_late(struct warden *w, const char *next)
{
	char why[sizeof(w->kvm.why)];

	snprintf(why, sizeof(why), "no guest came up with KVM in %llu s, %s",
		 (unsigned long long)limit_ms(w) / 1000, next);
	settle(w, false, why);
}

static bool is_old(int fd)
{
	struct stat st;

	return fstat(fd, &st) < 0 || time(NULL) - st.st_mtime > AGAIN_S ||
	       st.st_mtime > time(NULL);
}

static void take_late(struct warden *w, const char *nth)
{
	struct kvm_probe *k = &w->kvm;
	uint64_t n;

	if (parse_u64(nth, ARRAY_LEN(limits_s) - 1, &n) < 0)
		return;
	k->nth = (unsigned)n;
	k->due = !is_last(k) || is_old(k->cache_fd);
	settle_late(w, k->due ? "and it is being tried again"
			      : "it is tried again after a day");
	if (!is_last(k))
		k->nth++;
}

/* "STAMP\nANSWER\n". What is not understood is found out anew. */
static void read_answer(struct warden *w)
{
	char text[512], *line, *end;
	ssize_t n = pread(w->kvm.cache_fd, text, sizeof(text) - 1, 0);

	if (n <= 0)
		return;
	text[n] = '\0';
	line = strchr(text, '\n');
	if (!line)
		return;
	*line++ = '\0';
	end = strchr(line, '\n');
	if (!end || strcmp(text, w->kvm.stamp) != 0)
		return;
	*end = '\0';
	if (strcmp(line, YES) == 0) {
		w->kvm.due = false;
		settle(w, true, "");
	} else if (str_starts(line, LATE)) {
		take_late(w, line + strlen(LATE));
	}
}

static void write_answer(struct warden *w, const char *answer)
{
	char text[512];
	int n = snprintf(text, sizeof(text), "%s\n%s\n", w->kvm.stamp, answer);

	if (ftruncate(w->kvm.cache_fd, 0) < 0 ||
	    pwrite(w->kvm.cache_fd, text, (size_t)n, 0) != n)
		log_warn("the answer about KVM is not kept: %s",
			 strerror(errno));
}

int kvm_open(struct warden *w, struct err *e)
{
	struct kvm_probe *k = &w->kvm;
	char path[CONF_PATH + 16];

	k->pid_io.fd = k->console.fd = k->cache_fd = k->talk_fd = -1;
	if (w->vm_missing.code || strcmp(w->conf.microvm, "emulated") == 0) {
		snprintf(k->why, sizeof(k->why),
			 "microvm = emulated in the configuration");
		return 0;
	}
	if (access("/dev/kvm", F_OK) < 0) {
		settle(w, false, "there is no /dev/kvm");
		return 0;
	}
	snprintf(path, sizeof(path), "%s/kvm", w->conf.state_dir);
	k->cache_fd =
		open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (k->cache_fd < 0)
		return err_sys(e, "open %s", path);
	make_stamp(w);
	k->due = true;
	snprintf(k->why, sizeof(k->why), "KVM is being tried");
	if (strcmp(w->conf.microvm, "kvm") == 0)
		err_set(&w->vm_missing, EAGAIN,
			"KVM is being tried: try again in some seconds");
	read_answer(w);
	return 0;
}

/* --- the guest --- */

static void clean(struct timer *t)
{
	struct kvm_probe *k = container_of(t, struct kvm_probe, retry);
	struct warden *w = container_of(k, struct warden, kvm);
	struct err e = { 0 };

	if (cgroup_kill(&w->cg, k->slot, &e) < 0)
		log_warn("%s", e.msg);
	if (cgroup_remove(&w->cg, k->slot) < 0)
		timer_set(&w->loop, t, RETRY_MS, clean);
	else
		slot_free(w, k->slot);
}

static void hear(struct io *io, uint32_t events)
{
	struct kvm_probe *k = container_of(io, struct kvm_probe, console);
	struct warden *w = container_of(k, struct warden, kvm);
	ssize_t n = buf_read(&k->said, io->fd, SAID_MAX);

	(void)events;
	if (n == -EAGAIN)
		return;
	if (n <= 0 || buf_len(&k->said) > SAID_MAX)
		io_close(&w->loop, io);
}

/* A machine that is being launched has its shape, which knows about KVM. */
static bool some_launch(const struct warden *w)
{
	struct list *pos, *tmp;
	size_t i;

	for (i = 0; i < BOX_BUCKETS; i++)
		list_each (pos, tmp, &w->boxes[i]) {
			const struct box *b =
				container_of(pos, struct box, node);

			if (box_is_vm(b) && b->state == BOX_LAUNCHING)
				return true;
		}
	return false;
}

static void adopt(struct timer *t)
{
	struct kvm_probe *k = container_of(t, struct kvm_probe, again);
	struct warden *w = container_of(k, struct warden, kvm);

	if (some_launch(w))
		timer_set(&w->loop, t, ADOPT_MS, adopt);
	else
		settle(w, true, "");
}

static void try_again(struct timer *t)
{
	struct kvm_probe *k = container_of(t, struct kvm_probe, again);
	struct warden *w = container_of(k, struct warden, kvm);

	k->due = true;
	kvm_probe(w);
}

static void was_late(struct warden *w)
{
	struct kvm_probe *k = &w->kvm;
	char answer[32];

	snprintf(answer, sizeof(answer), LATE "%u", k->nth);
	write_answer(w, answer);
	if (is_last(k)) {
		settle_late(w, "it is tried again after a day");
		return;
	}
	settle_late(w, "it is tried again in 10 minutes, for longer");
	k->nth++;
	timer_set(&w->loop, &k->again, AGAIN_MS, try_again);
}

/*
 * Why no guest came up. The launch reports its own error on talk_fd; after a
 * successful exec QEMU explains itself on the console, in its last line.
 */
static void explain_end(struct kvm_probe *k, const siginfo_t *si, char *why,
			size_t cap)
{
	char line[VM_LINE_CAP];
	struct err e = { 0 };

	if (launch_hear(k->talk_fd, &e) < 0) {
		snprintf(why, cap, "QEMU cannot be started: %.130s", e.msg);
		return;
	}
	vm_last_line(&k->said, line);
	if (*line)
		snprintf(why, cap, "QEMU ended: %.140s", line);
	else
		snprintf(why, cap, "QEMU ended without a message, %s %d",
			 si->si_code == CLD_EXITED ? "exit code" : "signal",
			 si->si_status);
}

static void conclude(struct warden *w, bool works, const siginfo_t *si)
{
	struct kvm_probe *k = &w->kvm;
	char why[sizeof(k->why)];

	if (works) {
		write_answer(w, YES);
		log_info("kvm: a guest has booted");
		adopt(&k->again);
		return;
	}
	if (k->late) {
		was_late(w);
	} else {
		write_answer(w, NO);
		explain_end(k, si, why, sizeof(why));
		settle(w, false, why);
	}
	log_info("kvm: not used, %s", k->why);
}

/* What QEMU and its guest said, for who wonders. */
static void tell_lines(struct buf *said)
{
	char *p = buf_data(said), *end = p + buf_len(said);

	for (; p < end; p++)
		if ((*p < ' ' && *p != '\n') || *p > '~')
			*p = '?';
	for (p = buf_str(said); *p; p += strcspn(p, "\n"), p += *p == '\n')
		log_debug("kvm: %.*s", (int)strcspn(p, "\n"), p);
}

static void ended(struct io *io, uint32_t events)
{
	struct kvm_probe *k = container_of(io, struct kvm_probe, pid_io);
	struct warden *w = container_of(k, struct warden, kvm);
	siginfo_t si = { 0 };

	(void)events;
	waitid(P_PIDFD, (id_t)io->fd, &si, WEXITED);
	io_close(&w->loop, io);
	timer_del(&w->loop, &k->limit);
	if (k->console.fd >= 0)
		hear(&k->console, 0);
	io_close(&w->loop, &k->console);
	tell_lines(&k->said);
	conclude(w, strstr(buf_str(&k->said), GUEST_PROBED) != NULL, &si);
	buf_done(&k->said);
	auto_close(&k->talk_fd);
	clean(&k->retry);
}

static void too_late(struct timer *t)
{
	struct kvm_probe *k = container_of(t, struct kvm_probe, limit);
	struct warden *w = container_of(k, struct warden, kvm);
	struct err e = { 0 };

	k->late = true;
	if (cgroup_kill(&w->cg, k->slot, &e) < 0)
		log_warn("%s", e.msg);
}

static int start_guest(struct warden *w, struct part *p, struct err *e)
{
	struct vm_host host = w->vm;
	struct kvm_probe *k = &w->kvm;
	AUTO_CLOSE int ram_fd = memfd_create("memory", MFD_CLOEXEC);
	const struct cgroup_limits limits = vm_limits(&probe_spec);
	struct vm_started s = { .pid_fd = -1, .talk_fd = -1 };
	struct vm_files f = {
		.mode = VM_PROBE, .base_fd = -1, .disk_fd = -1, .qmp_fd = -1
	};
	int words[2], r;

	memset(f.port_fd, -1, sizeof(f.port_fd)); /* each is -1 */
	if (ram_fd < 0 ||
	    ftruncate(ram_fd, (off_t)vm_ram_bytes(&probe_spec)) < 0)
		return err_sys(e, "make memory");
	if ((p->unfinished && part_start(&w->cg, p, e) < 0) ||
	    (p->unfinished &&
	     part_finish(&w->cg, w->launch.proc_fd, p, e) < 0) ||
	    cgroup_limit(&w->cg, p->slot, &limits, e) < 0)
		return -e->code;
	if (pipe2(words, O_CLOEXEC | O_NONBLOCK) < 0)
		return err_sys(e, "pipe");
	host.kvm = true;
	f.ram_fd = ram_fd;
	f.console_fd = words[1];
	r = vm_start(&host, &probe_spec, p, &f, &s, e);
	close(words[1]);
	if (r < 0) {
		auto_close(&s.talk_fd);
		close(words[0]);
		return r;
	}
	if (io_add(&w->loop, &k->console, words[0], EPOLLIN, hear) < 0)
		close(words[0]);
	if (io_add(&w->loop, &k->pid_io, s.pid_fd, EPOLLIN, ended) < 0) {
		close(s.pid_fd);
		auto_close(&s.talk_fd);
		return err_set(e, EIO, "watch the guest");
	}
	k->talk_fd = s.talk_fd;
	k->late = false;
	timer_set(&w->loop, &k->limit, limit_ms(w), too_late);
	return 0;
}

/* That says nothing about KVM. */
static void not_tried(struct warden *w, const struct err *e)
{
	log_warn("kvm: not tried: %s, trying again in 10 minutes", e->msg);
	timer_set(&w->loop, &w->kvm.again, AGAIN_MS, try_again);
}

void kvm_probe(struct warden *w)
{
	struct kvm_probe *k = &w->kvm;
	struct err e = { 0 };
	struct part p;

	if (!k->due)
		return;
	k->due = false;
	if (part_take(w, PART_SANDBOX, &p, &e) < 0) {
		not_tried(w, &e);
		return;
	}
	k->slot = p.slot;
	if (start_guest(w, &p, &e) < 0) {
		not_tried(w, &e);
		clean(&k->retry);
	}
	part_close(&p);
}
