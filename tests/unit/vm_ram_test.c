/*
 * The memory of machines: children of this one map a sealed file privately, as
 * QEMU does with a template, and write to it.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "check.h"
#include "qemu/track.h"
#include "sandbox/vm/ram.h"
#include "sandbox/vm/written.h"

enum { PAGES = 1000, SIZE = PAGES * RAM_PAGE, SEALS = 0xf };

static struct err e;

#define REFUSED(call, why)               \
	do {                             \
		err_clear(&e);           \
		CHECK((call) == -(why)); \
	} while (0)

static int template(void)
{
	static uint8_t page[RAM_PAGE];
	int fd = memfd_create(RAM_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING), i;
	size_t written = 0;

	for (i = 0; i < PAGES; i++) {
		memset(page, i % 5, sizeof(page));
		written += (size_t)write(fd, page, sizeof(page));
	}
	CHECK(written == SIZE);
	CHECK(fcntl(fd, F_ADD_SEALS, SEALS) == 0);
	return fd;
}

/* A process with the file mapped; does what it is told by one byte at a time */
struct machine {
	pid_t pid;
	int in, out, dir_fd, pid_fd;
};

static void write_page(uint8_t *ram, int page, int value)
{
	memset(ram + page * RAM_PAGE, value, RAM_PAGE);
}

static void work(uint8_t *ram, int word)
{
	int i;

	if (word == 'a') {
		write_page(ram, 0, 11);
		write_page(ram, 1, 0);
		for (i = 300; i < 700; i++)
			write_page(ram, i, 12);
	} else {
		write_page(ram, 1, 13);
		write_page(ram, 350, 0);
		write_page(ram, 351, 12);
		write_page(ram, PAGES - 1, 14);
	}
}

/* As the library does it in QEMU. */
static void track(void)
{
	struct uffdio_api api = { .api = UFFD_API, .features = TRACK_FEATURES };
	int fd = (int)syscall(SYS_userfaultfd, TRACK_FLAGS);

	close(TRACK_FD);
	if (fd >= 0 && ioctl(fd, UFFDIO_API, &api) == 0)
		dup2(fd, TRACK_FD);
}

static struct machine start(int fd)
{
	int in[2], out[2];
	struct machine m;
	char dir[32];

	CHECK(pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0);
	m.pid = fork();
	if (m.pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		in[0] = fcntl(in[0], F_DUPFD_CLOEXEC, TRACK_FD + 1);
		out[1] = fcntl(out[1], F_DUPFD_CLOEXEC, TRACK_FD + 1);
		fd = fcntl(fd, F_DUPFD_CLOEXEC, TRACK_FD + 1);
		track();
		uint8_t *ram = mmap(NULL, SIZE, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE, fd, 0);
		char word = 'r';

		if (ram == MAP_FAILED)
			_exit(1);
		while (write(out[1], &word, 1) == 1 &&
		       read(in[0], &word, 1) == 1) {
			if (word == '?' && write(out[1], ram, SIZE) != SIZE)
				_exit(1);
			if (word != '?')
				work(ram, word);
		}
		_exit(0);
	}
	close(in[0]);
	close(out[1]);
	m.in = in[1];
	m.out = out[0];
	snprintf(dir, sizeof(dir), "/proc/%d", (int)m.pid);
	m.dir_fd = open(dir, O_PATH | O_CLOEXEC);
	m.pid_fd = (int)syscall(SYS_pidfd_open, m.pid, 0);
	return m;
}

static void await(const struct machine *m)
{
	char word;

	CHECK(read(m->out, &word, 1) == 1);
}

static void tell(const struct machine *m, char word)
{
	CHECK(write(m->in, &word, 1) == 1);
	await(m);
}

static void look(const struct machine *m, uint8_t *ram)
{
	char word = '?';
	size_t have = 0;

	CHECK(write(m->in, &word, 1) == 1);
	while (have < SIZE) {
		ssize_t n = read(m->out, ram + have, SIZE - have);

		if (n <= 0)
			break;
		have += (size_t)n;
	}
	CHECK(have == SIZE);
	await(m);
}

static void stop(struct machine *m)
{
	close(m->in);
	close(m->out);
	close(m->dir_fd);
	close(m->pid_fd);
	kill(m->pid, SIGKILL); /* another one may have its pipe, too */
	waitpid(m->pid, NULL, 0);
}

/* A page in the file that was not written since is not looked at again, so what
 * is changed there by others stays. */
enum { QUIET = 400, FILE_START = 2 * RAM_PAGE };

static void hide(int file_fd)
{
	CHECK(pwrite(file_fd, "x", 1, FILE_START + QUIET * RAM_PAGE) == 1);
}

static void shown(int file_fd)
{
	char c = 0;

	CHECK(pread(file_fd, &c, 1, FILE_START + QUIET * RAM_PAGE) == 1);
	CHECK(c == 'x');
	CHECK(pwrite(file_fd, "\014", 1, FILE_START + QUIET * RAM_PAGE) == 1);
}

/* Does this kernel tell? */
static bool is_told(const struct machine *m)
{
	char text[64] = "";

	return readlinkat(m->dir_fd, "fd/10", text, sizeof(text) - 1) > 0 &&
	       strcmp(text, "anon_inode:[userfaultfd]") == 0;
}

static void test_moves(bool told)
{
	static uint8_t was[SIZE], is[SIZE];
	AUTO_CLOSE int fd = template();
	AUTO_CLOSE int file_fd = memfd_create("file", MFD_CLOEXEC);
	struct machine a = start(fd), b = start(fd);
	struct ram_map map = { 0 };
	struct ram_save save;

	await(&a);
	await(&b);
	CHECK(ram_find(a.dir_fd, SIZE, &map, &e) == 0);
	CHECK(map.bytes == SIZE);
	if (told && !is_told(&a))
		printf("# this kernel does not tell what was written\n");
	if (told)
		map.pid_fd = a.pid_fd;
	CHECK(ram_save_open(&save, &map, file_fd, &e) == 0);
	tell(&a, 'a');
	CHECK(ram_save_begin(&save, &e) == 0);
	CHECK((save.written_fd >= 0) == (told && is_told(&a)));
	tell(&a, 'b');
	if (save.written_fd >= 0)
		hide(file_fd);
	CHECK(ram_save_end(&save, &e) == 0);
	CHECK(save.pages == 403);
	if (save.written_fd >= 0)
		shown(file_fd);
	ram_save_close(&save);
	look(&a, was);
	CHECK(ram_find(b.dir_fd, SIZE, &map, &e) == 0);
	CHECK(ram_load(file_fd, &map, &e) == 0);
	look(&b, is);
	CHECK(memcmp(was, is, SIZE) == 0);
	CHECK(was[0] == 11 && was[RAM_PAGE] == 13 && was[350 * RAM_PAGE] == 0);
	stop(&a);
	stop(&b);
}

static void test_nothing_changed(void)
{
	AUTO_CLOSE int fd = template(), base_fd = -1;
	AUTO_CLOSE int file_fd = memfd_create("file", MFD_CLOEXEC);
	struct machine a = start(fd);
	struct ram_map map = { 0 };
	struct ram_save save;
	uint8_t page[RAM_PAGE];

	await(&a);
	CHECK(ram_find(a.dir_fd, SIZE, &map, &e) == 0);
	CHECK(ram_save_open(&save, &map, file_fd, &e) == 0);
	CHECK(ram_save_end(&save, &e) == 0);
	CHECK(save.pages == 0);
	base_fd = ram_open(&map, &e);
	CHECK(pread(base_fd, page, sizeof(page), 3 * RAM_PAGE) == RAM_PAGE);
	CHECK(page[0] == 3 && page[RAM_PAGE - 1] == 3);
	ram_save_close(&save);
	CHECK(ram_load(file_fd, &map, &e) == 0);
	stop(&a);
}

/* Files and processes that are not what they should be. */
static void test_refused(void)
{
	AUTO_CLOSE int fd = template();
	AUTO_CLOSE int other_fd = memfd_create("other", MFD_CLOEXEC);
	AUTO_CLOSE int gone_fd = -1;
	struct machine a = start(fd);
	struct ram_map map = { 0 };
	struct ram_head head = { RAM_MAGIC, SIZE, 0 };

	await(&a);
	CHECK(ftruncate(other_fd, SIZE) == 0);
	REFUSED(ram_find(a.dir_fd, 2 * SIZE, &map, &e), EPROTO);
	CHECK(ram_find(a.dir_fd, SIZE, &map, &e) == 0);
	REFUSED(ram_load(other_fd, &map, &e), EPROTO);
	/* A head, and nothing behind it. */
	CHECK(pwrite(other_fd, &head, sizeof(head), 0) == sizeof(head));
	REFUSED(ram_load(other_fd, &map, &e), EPROTO);
	head.bytes = 1ULL << 50;
	CHECK(pwrite(other_fd, &head, sizeof(head), 0) == sizeof(head));
	REFUSED(ram_load(other_fd, &map, &e), EPROTO);
	gone_fd = dup(a.dir_fd);
	stop(&a);
	REFUSED(ram_find(gone_fd, SIZE, &map, &e), ESRCH);
}

/* A process that has not loaded our library is no machine of ours. */
static void test_library(void)
{
	AUTO_CLOSE int self_fd = open("/proc/self", O_RDONLY | O_DIRECTORY);
	AUTO_CLOSE int fd = written_library(&e);
	void *at;

	CHECK(fd >= 0);
	REFUSED(written_loaded(self_fd, &e), EPERM);
	at = mmap(NULL, RAM_PAGE, PROT_READ, MAP_PRIVATE, fd, 0);
	CHECK(at != MAP_FAILED && written_loaded(self_fd, &e) == 0);
	munmap(at, RAM_PAGE);
	REFUSED(written_loaded(self_fd, &e), EPERM);
}

int main(void)
{
	test_library();
	test_moves(false);
	test_moves(true);
	test_nothing_changed();
	test_refused();
	return CHECK_DONE();
}
