/*
 * POST /v1/backup: the registry as it is at this moment, a file of SQLite.
 *
 * The copy is made at once (it is a few megabytes), under a name that is gone
 * before the first byte leaves: whatever becomes of the client or of us,
 * nothing stays behind. The log is not ours to read; who backs it up has it
 * from the disk.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/api.h"
#include "api/reply.h"
#include "api/routes.h"
#include "base/auto.h"

enum { BACKUPS_MAX = 2, PIECE = 64 * 1024 };

struct backup {
	struct api *api;
	int fd;
	uint64_t left;
};

static void backup_free(struct backup *b)
{
	b->api->n_backups--;
	close(b->fd);
	free(b);
}

static void backup_gone(struct http_conn *c, void *owner)
{
	(void)c;
	backup_free(owner);
}

static void send_some(struct http_conn *c, void *owner)
{
	struct backup *b = owner;
	char piece[PIECE];
	bool more = true;

	while (more && b->left > 0) {
		ssize_t n = read(b->fd, piece, sizeof(piece));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0 || (uint64_t)n > b->left) {
			http_reply_cut(c);
			backup_free(b);
			return;
		}
		b->left -= (uint64_t)n;
		more = http_reply_data(c, piece, (size_t)n);
	}
	if (b->left == 0) {
		http_reply_end(c);
		backup_free(b);
	}
}

/* A descriptor of a fresh copy that has no name. */
static int copy_registry(struct api *a, struct stat *st, struct err *e)
{
	AUTO_CLOSE int fd = -1;
	char path[CONF_PATH + 32];
	int r;

	snprintf(path, sizeof(path), "%s/registry/backup.db",
		 a->conf.state_dir);
	r = registry_copy(&a->registry, path, e);
	if (r < 0)
		return r;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 || fstat(fd, st) < 0)
		err_sys(e, "open the copy of the registry");
	unlink(path);
	return e->code ? -e->code : take_fd(&fd);
}

void h_backup(struct api *a, struct http_conn *c, const struct call *call)
{
	static const struct http_field type[] = {
		{ "Content-Type", "application/vnd.sqlite3" }, { 0 }
	};
	const struct audit entry = { .type = "backup.create",
				     .who = &call->who,
				     .request_id = http_request_id(c) };
	struct err e = { 0 };
	struct stat st = { 0 };
	struct backup *b;
	int fd;

	if (a->n_backups == BACKUPS_MAX)
		err_set(&e, EBUSY, "%d backups are being made already",
			BACKUPS_MAX);
	fd = e.code ? -1 : copy_registry(a, &st, &e);
	if (fd < 0) {
		reply_err(a, c, &e);
		return;
	}
	audit_add(a, &entry);
	b = xcalloc(1, sizeof(*b));
	b->api = a;
	b->fd = fd;
	b->left = (uint64_t)st.st_size;
	a->n_backups++;
	a->metrics.requests[2]++;
	http_own(c, b, backup_gone);
	http_reply_start_sized(c, 200, type, b->left, send_some);
	send_some(c, b);
}
