/* Whatever QEMU says, in a whole talk. */
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "sandbox/vm/qmp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ENOUGH = 64 * 1024 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct qmp q;
	struct err e = { 0 };
	int pair[2];

	if (size > ENOUGH ||
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return 0;
	if (send(pair[1], data, size, MSG_DONTWAIT) == (ssize_t)size &&
	    shutdown(pair[1], SHUT_WR) == 0 &&
	    qmp_open(&q, pair[0], 1000, &e) == 0 &&
	    qmp_run(&q, "stop", NULL, &e) == 0 &&
	    qmp_save_devices(&q, 0, &e) == 0 &&
	    qmp_load_devices(&q, 0, &e) == 0)
		err_clear(&e);
	close(pair[0]);
	close(pair[1]);
	return 0;
}
