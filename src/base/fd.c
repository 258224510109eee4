#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/auto.h"

ssize_t read_full(int fd, void *p, size_t n)
{
	size_t got = 0;

	while (got < n) {
		ssize_t r = read(fd, (char *)p + got, n - got);

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return -errno;
		if (r == 0)
			break;
		got += (size_t)r;
	}
	return (ssize_t)got;
}

int write_full(int fd, const void *p, size_t n)
{
	const char *s = p;

	while (n > 0) {
		ssize_t r = write(fd, s, n);

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return -errno;
		s += r;
		n -= (size_t)r;
	}
	return 0;
}

ssize_t read_file_at(int dir_fd, const char *path, char *out, size_t cap)
{
	AUTO_CLOSE int fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return -errno;
	n = read_full(fd, out, cap - 1);
	if (n < 0)
		return n;
	out[n] = '\0';
	return n;
}

int knob_write_at(int dir_fd, const char *path, const char *value)
{
	AUTO_CLOSE int fd = openat(dir_fd, path, O_WRONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return -errno;
	n = write(fd, value, strlen(value));
	if (n < 0)
		return -errno;
	return (size_t)n == strlen(value) ? 0 : -EIO;
}

int knob_write_u64_at(int dir_fd, const char *path, uint64_t value)
{
	char num[24];

	snprintf(num, sizeof(num), "%llu", (unsigned long long)value);
	return knob_write_at(dir_fd, path, num);
}

union fd_control {
	struct cmsghdr align;
	char space[CMSG_SPACE(FD_PASS_MAX * sizeof(int))];
};

ssize_t send_msg_fds(int sock, const void *p, size_t n, const int *fds,
		     int n_fds)
{
	union fd_control ctl = { 0 };
	struct iovec iov = { .iov_base = (void *)p, .iov_len = n };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t r;

	if (n_fds < 0 || n_fds > FD_PASS_MAX)
		return -EINVAL;
	if (n_fds > 0) {
		struct cmsghdr *c;

		m.msg_control = ctl.space;
		m.msg_controllen = CMSG_SPACE((size_t)n_fds * sizeof(int));
		c = CMSG_FIRSTHDR(&m);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN((size_t)n_fds * sizeof(int));
		memcpy(CMSG_DATA(c), fds, (size_t)n_fds * sizeof(int));
	}
	do
		r = sendmsg(sock, &m, MSG_NOSIGNAL);
	while (r < 0 && errno == EINTR);
	return r < 0 ? -errno : r;
}

static void take_rights(struct msghdr *m, int fds[FD_PASS_MAX])
{
	struct cmsghdr *c;
	int have = 0;

	for (c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		size_t i, n;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (i = 0; i < n; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
			if (have < FD_PASS_MAX)
				fds[have++] = fd;
			else
				close(fd);
		}
	}
}

ssize_t recv_msg_fds(int sock, void *p, size_t n, int fds[FD_PASS_MAX])
{
	union fd_control ctl = { 0 };
	struct iovec iov = { .iov_base = p, .iov_len = n };
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = ctl.space,
			    .msg_controllen = sizeof(ctl.space) };
	ssize_t r;
	int i;

	for (i = 0; i < FD_PASS_MAX; i++)
		fds[i] = -1;
	do
		r = recvmsg(sock, &m, MSG_CMSG_CLOEXEC);
	while (r < 0 && errno == EINTR);
	if (r < 0)
		return -errno;
	take_rights(&m, fds);
	if (m.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) {
		for (i = 0; i < FD_PASS_MAX; i++)
			auto_close(&fds[i]);
		return -EBADMSG;
	}
	return r;
}

static int unix_addr(struct sockaddr_un *a, const char *path)
{
	*a = (struct sockaddr_un){ .sun_family = AF_UNIX };
	if (strlen(path) >= sizeof(a->sun_path))
		return -ENAMETOOLONG;
	memcpy(a->sun_path, path, strlen(path) + 1);
	return 0;
}

/*
 * Bound under a temporary name and renamed: whoever sees the name can connect,
 * and a stale socket of a crashed process is replaced without a gap.
 */
int unix_listen_at(int dir_fd, const char *name, int type, unsigned mode)
{
	AUTO_CLOSE int fd = -1;
	char path[96], tmp[48];
	struct sockaddr_un a;
	int r;

	fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	if (snprintf(tmp, sizeof(tmp), "%s.new", name) >= (int)sizeof(tmp))
		return -ENAMETOOLONG;
	if (dir_fd == AT_FDCWD)
		snprintf(path, sizeof(path), "%s", tmp);
	else
		snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", dir_fd,
			 tmp);
	r = unix_addr(&a, path);
	if (r < 0)
		return r;
	if (unlinkat(dir_fd, tmp, 0) < 0 && errno != ENOENT)
		return -errno;
	if (bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
		return -errno;
	if (fchmodat(dir_fd, tmp, mode, 0) < 0 || listen(fd, 1024) < 0)
		return -errno;
	if (renameat(dir_fd, tmp, dir_fd, name) < 0)
		return -errno;
	return take_fd(&fd);
}

int unix_connect(const char *path, int type)
{
	AUTO_CLOSE int fd = -1;
	struct sockaddr_un a;
	int r = unix_addr(&a, path);

	if (r < 0)
		return r;
	fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
		return -errno;
	return take_fd(&fd);
}

int unix_connect_role(const char *path, int type, uid_t uid)
{
	AUTO_CLOSE int fd = unix_connect(path, type);
	struct ucred peer;
	socklen_t n = sizeof(peer);

	if (fd < 0)
		return fd;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) < 0)
		return -errno;
	if (peer.uid != 0 && peer.uid != uid)
		return -EPERM;
	return take_fd(&fd);
}

int fd_set_nonblock(int fd, bool on)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0)
		return -errno;
	flags = on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK;
	return fcntl(fd, F_SETFL, flags) < 0 ? -errno : 0;
}
