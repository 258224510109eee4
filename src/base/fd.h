/*
 * Descriptors: whole reads and writes, small files relative to directory
 * descriptors, and descriptors passed over unix sockets.
 * All functions return 0 or a count, or -errno.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

/* Reads until `n` bytes or the end: the count, or -errno. */
ssize_t read_full(int fd, void *p, size_t n);
int write_full(int fd, const void *p, size_t n);

/* A small file of at most `cap`-1 bytes, NUL-terminated: length or -errno. */
ssize_t read_file_at(int dir_fd, const char *path, char *out, size_t cap);
/* One write(2) to an existing file: kernel knobs take the value whole. */
int knob_write_at(int dir_fd, const char *path, const char *value) MUST_CHECK;
int knob_write_u64_at(int dir_fd, const char *path, uint64_t value) MUST_CHECK;

/*
 * One message of a SOCK_SEQPACKET socket with up to FD_PASS_MAX descriptors.
 * Received ones are O_CLOEXEC and land in `fds`, the rest of it is -1; a
 * message that carries more, or is longer than `n`, is an error (EBADMSG) and
 * everything it carried is closed. 0 from recv means that the peer is gone.
 */
enum { FD_PASS_MAX = 8 };
ssize_t send_msg_fds(int sock, const void *p, size_t n, const int *fds,
		     int n_fds);
ssize_t recv_msg_fds(int sock, void *p, size_t n, int fds[FD_PASS_MAX]);

/* A listening or connected unix socket; `path` must fit sun_path. */
int unix_listen_at(int dir_fd, const char *name, int type, unsigned mode);
int unix_connect(const char *path, int type);
/*
 * The same to a role of ours: root has bound it, or the user that it became.
 * Anyone else would be an impostor: -EPERM.
 */
int unix_connect_role(const char *path, int type, uid_t uid);

int fd_set_nonblock(int fd, bool on);
