/* carrel image export and save: images for others, and from our own states. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fd.h"
#include "base/product.h"
#include "cli/image.h"
#include "cli/show.h"

struct to {
	int fd;
	uint64_t bytes;
	struct progress progress;
};

static int take_piece(const char *p, size_t n, void *ctx, struct err *e)
{
	struct to *to = ctx;
	int r = write_full(to->fd, p, n);

	if (r < 0)
		return err_set(e, -r, "write: %s", strerror(-r));
	to->bytes += n;
	progress_bytes(&to->progress, to->bytes);
	return 0;
}

static void receive(struct cli *cli, const char *target, struct to *to)
{
	const struct http_call call = { .method = "GET", .target = target };
	char message[MESSAGE_CAP];
	struct http_client c;
	struct err e = { 0 };
	json_t *answer = NULL;
	int status;

	server_open(cli, &c);
	if (http_send(&c, &call, &e) < 0 || http_recv_head(&c, &e) < 0)
		fail(cli, "%s", e.msg);
	if (c.head.status != 200) {
		status = server_answer(cli, &c, &answer);
		progress_clear(&to->progress);
		server_message(status, answer, message);
		fail(cli, "%s", message);
	}
	progress_phase(&to->progress, "receiving");
	status = http_recv_stream(&c, take_piece, to, &e);
	http_client_done(&c);
	progress_clear(&to->progress);
	if (status < 0)
		fail(cli, "%s", e.msg);
}

static void export_target(struct cli *cli, const char *name, const char *format,
			  char target[TARGET_CAP])
{
	size_t n;

	server_target(cli, target, "/v1/images/", name);
	n = strlen(target);
	if (snprintf(target + n, TARGET_CAP - n, "/export?format=%s", format) >=
	    (int)(TARGET_CAP - n))
		fail(cli, "'%s' is no name", name);
}

int image_export(struct cli *cli, int argc, char **argv)
{
	static struct to to;
	const char *format = "oci";
	const struct opt table[] = {
		{ "format", 'f', OPT_TEXT, &format, "FORMAT",
		  "oci (default), docker, or rootfs: the files alone" },
		OPT_HELP(cli),
		{ 0 },
	};
	char target[TARGET_CAP], size[SIZE_TEXT];
	bool to_stdout;

	if (cli_operands(cli, table, argc, argv) != 2)
		cli_usage_error(cli, "an image and a file (or -) are needed");
	if (strcmp(format, "oci") != 0 && strcmp(format, "docker") != 0 &&
	    strcmp(format, "rootfs") != 0)
		cli_usage_error(cli, "--format is oci, docker or rootfs");
	to_stdout = strcmp(argv[2], "-") == 0;
	if (to_stdout && isatty(STDOUT_FILENO))
		fail(cli, "a tar on a terminal is no use: name a file");
	export_target(cli, argv[1], format, target);
	to.fd = STDOUT_FILENO;
	if (!to_stdout) {
		cli_unfinished(argv[2]);
		to.fd = open(argv[2], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
			     0644);
		if (to.fd < 0) {
			cli_unfinished(NULL);
			fail(cli, "create %s: %m", argv[2]);
		}
	}
	progress_init(&to.progress);
	progress_phase(&to.progress, "packing");
	receive(cli, target, &to);
	if (to_stdout)
		return 0;
	if (close(to.fd) < 0)
		fail(cli, "write %s: %m", argv[2]);
	cli_unfinished(NULL);
	size_text(to.bytes, size);
	printf("%s: %s\n", argv[2], size);
	return 0;
}

int image_save(struct cli *cli, int argc, char **argv)
{
	static struct progress p;
	struct upload u = { .progress = &p };
	bool json = false;
	const struct opt table[] = {
		{ "json", 0, OPT_FLAG, &json, NULL, "print the image as JSON" },
		OPT_HELP(cli),
		{ 0 },
	};
	char target[TARGET_CAP];
	struct buf body = { 0 };
	json_t *j;

	if (cli_operands(cli, table, argc, argv) != 2)
		cli_usage_error(cli, "a snapshot or sandbox and a name are "
				     "needed");
	u.name = argv[2];
	server_target(cli, target, "/v1/images/", u.name);
	buf_puts(&body, "{\"snapshot\":");
	json_put_str(&body, argv[1], strlen(argv[1]));
	buf_puts(&body, "}");
	progress_init(&p);
	progress_phase(&p, "saving");
	j = server_get(cli, "POST", target, &body);
	if (json)
		print_json(j);
	else
		image_say(&u, j);
	json_decref(j);
	buf_done(&body);
	return 0;
}
