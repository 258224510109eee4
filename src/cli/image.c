/* carrel image: the verbs of the group, and the short ones of them. */
#include "cli/image.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/product.h"
#include "base/str.h"
#include "cli/show.h"
#include "http/target.h"

static int image_ls(struct cli *cli, int argc, char **argv)
{
	static const char *const titles[] = { "NAME", "ID", "SIZE", "FILES",
					      "AGE" };
	bool json = false, quiet = false, all = false;
	const struct opt table[] = {
		{ "all", 'a', OPT_FLAG, &all, NULL,
		  "also those that steps of build files left" },
		{ "quiet", 'q', OPT_FLAG, &quiet, NULL, "only names" },
		{ "json", 0, OPT_FLAG, &json, NULL, "as JSON" },
		OPT_HELP(cli),
		{ 0 },
	};
	struct table t;
	json_t *j, *m;
	size_t i;

	if (cli_operands(cli, table, argc, argv) > 0)
		cli_usage_error(cli, "takes no operands");
	j = server_get(cli, "GET", "/v1/images", NULL);
	if (json)
		print_json(json_object_get(j, "images"));
	table_init(&t, titles, ARRAY_LEN(titles));
	json_array_foreach (json_object_get(j, "images"), i, m) {
		char name[SHOW_CAP], id[SHOW_CAP], size[SHOW_CAP],
			files[SHOW_CAP], age[SHOW_CAP];
		const char *cells[] = { name, id, size, files, age };

		clean_text(name, sizeof(name), show_str(m, "name"));
		if (!all && str_starts(name, IMAGE_STEP))
			continue;
		show_id(m, "id", id);
		show_size(m, "size", size);
		show_number(m, "entries", files);
		show_age(m, "created_at", age);
		table_row(&t, cells);
		if (quiet && !json)
			puts(name);
	}
	if (!json && !quiet)
		table_print(&t);
	table_done(&t);
	json_decref(j);
	return 0;
}

static int image_inspect(struct cli *cli, int argc, char **argv)
{
	const struct opt table[] = { OPT_HELP(cli), { 0 } };
	char target[TARGET_CAP];
	json_t *j;

	if (cli_operands(cli, table, argc, argv) != 1)
		cli_usage_error(cli, "which image?");
	server_target(cli, target, "/v1/images/", argv[1]);
	j = server_get(cli, "GET", target, NULL);
	print_json(j);
	json_decref(j);
	return 0;
}

static int image_rm(struct cli *cli, int argc, char **argv)
{
	const struct opt table[] = { OPT_HELP(cli), { 0 } };
	int n = cli_operands(cli, table, argc, argv);

	if (n == 0)
		cli_usage_error(cli, "which image?");
	return remove_each(cli, "/v1/images/", n, argv + 1);
}

static void upload_progress(uint64_t bytes, void *ctx)
{
	struct upload *u = ctx;

	progress_bytes(u->progress, bytes);
}

/* The image is unpacked while it is sent; the answer comes when it is ready. */
json_t *image_upload(struct cli *cli, const struct upload *u)
{
	struct http_client c;
	struct http_call call = { .method = "PUT",
				  .progress = upload_progress,
				  .at_end = u->at_end,
				  .ctx = (void *)u };
	AUTO(buf_done) struct buf with_query = { 0 };
	char target[TARGET_CAP], message[MESSAGE_CAP];
	struct err e = { 0 };
	json_t *j;
	int r;

	server_target(cli, target, "/v1/images/", u->name);
	buf_puts(&with_query, target);
	if (u->start) {
		buf_puts(&with_query, "?start=");
		http_encode(&with_query, u->start);
	}
	call.target = buf_str(&with_query);
	server_open(cli, &c);
	r = http_send_fd(&c, &call, u->fd, &e);
	if (r == 0)
		progress_phase(u->progress, "finishing the image");
	if (r >= 0)
		r = http_recv_head(&c, &e);
	if (r < 0) {
		progress_clear(u->progress);
		complain("image %s: %s", u->name, e.msg);
		http_client_done(&c);
		return NULL;
	}
	r = server_answer(cli, &c, &j);
	http_client_done(&c);
	if (r / 100 == 2)
		return j;
	progress_clear(u->progress);
	server_message(r, j, message);
	complain("image %s: %s", u->name, message);
	json_decref(j);
	return NULL;
}

void image_say(const struct upload *u, const json_t *image)
{
	char size[SHOW_CAP], files[SHOW_CAP], elapsed[ELAPSED_CAP];

	progress_clear(u->progress);
	show_size(image, "size", size);
	show_number(image, "entries", files);
	progress_elapsed(u->progress, elapsed);
	printf("image %s: %s in %s files, made in %s\n", u->name, size, files,
	       elapsed);
}

/* "dir/rootfs.tar.xz" is called "rootfs". */
static void default_name(const char *path, char out[64])
{
	const char *base = strrchr(path, '/');

	base = base ? base + 1 : path;
	snprintf(out, 64, "%.*s", (int)strcspn(base, "."), base);
}

static int image_import(struct cli *cli, int argc, char **argv)
{
	bool json = false;
	const struct opt table[] = {
		{ "json", 0, OPT_FLAG, &json, NULL, "print the image as JSON" },
		OPT_HELP(cli),
		{ 0 },
	};
	int n = cli_operands(cli, table, argc, argv);
	AUTO_CLOSE int fd = -1;
	struct progress p;
	struct upload u = { .progress = &p };
	char name[64];
	struct stat st;
	json_t *j;

	if (n < 1 || n > 2)
		cli_usage_error(cli, "a file (or -) and a name are needed");
	default_name(argv[1], name);
	u.name = n == 2 ? argv[2] : name;
	if (n == 1 && (strcmp(argv[1], "-") == 0 || *name == '\0'))
		cli_usage_error(cli,
				"a name is needed: image import FILE NAME");
	if (strcmp(argv[1], "-") != 0) {
		fd = open(argv[1], O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			fail(cli, "open %s: %m", argv[1]);
	}
	u.fd = fd < 0 ? STDIN_FILENO : fd;
	progress_init(&p);
	progress_phase(&p, "importing");
	if (fstat(u.fd, &st) == 0 && S_ISREG(st.st_mode))
		p.total = (uint64_t)st.st_size;
	j = image_upload(cli, &u);
	if (!j)
		return EXIT_FAILED;
	if (json)
		print_json(j);
	else
		image_say(&u, j);
	json_decref(j);
	return 0;
}

const struct verb image_verbs[] = {
	{ .name = "build",
	  .fn = image_build,
	  .args = "[OPTIONS] FILE",
	  .help = "make an image: by the steps of a file, or from packages",
	  .notes = "A FILE has one step per line:\n"
		   "  from IMAGE       where it starts; the first step\n"
		   "  run COMMAND      by the shell; without a network\n"
		   "  copy SRC DST     a file or directory beside FILE; DST/ "
		   "keeps the name\n"
		   "  env NAME=VALUE   for the commands behind it, and in the "
		   "image\n"
		   "  user NAME        who runs them (default: root)\n"
		   "  workdir PATH     where; made if it is missing\n"
		   "  start COMMAND    run when a sandbox of the image starts\n"
		   "Steps that were done before, with the same files, are not "
		   "done again.\n\n"
		   "A recipe in place of FILE: debian. It needs mmdebstrap and "
		   "Debian's packages, and\ntakes a minute or two." },
	{ .name = "export",
	  .fn = image_export,
	  .args = "[OPTIONS] IMAGE FILE",
	  .help = "write an image as an OCI layout or docker archive",
	  .notes = "FILE is a tar; - is standard output.",
	  .examples = PRODUCT " image export mine - | docker load\n" },
	{ .name = "import",
	  .fn = image_import,
	  .args = "[OPTIONS] FILE [NAME]",
	  .help = "make an image of a tar",
	  .notes = "FILE is a root file system, an OCI layout or a docker "
		   "archive,\nperhaps compressed (gzip, xz, zstd); - is "
		   "standard "
		   "input. NAME is by default the\nname of the file without "
		   "its endings.",
	  .examples = "docker export box | " PRODUCT " image import - mine\n" },
	{ .name = "inspect",
	  .fn = image_inspect,
	  .args = "IMAGE",
	  .help = "all that is known about an image, as JSON",
	  .notes = "What it wants of its processes (config) fills what a "
		   "sandbox's spec leaves open:\nenvironment, directory, "
		   "user; root only where the spec allows sudo." },
	{ .name = "ls",
	  .fn = image_ls,
	  .args = "[OPTIONS]",
	  .help = "list the images" },
	{ .name = "pull",
	  .fn = image_pull,
	  .args = "[OPTIONS] HOST/NAME[:TAG] [IMAGE]",
	  .help = "make an image of one in a registry",
	  .notes = "The operator allows registries in the configuration "
		   "(`registries`). IMAGE is by\ndefault the last part of "
		   "the name. What was downloaded before is not downloaded "
		   "again.",
	  .examples =
		  PRODUCT " image pull registry.example/tools/debian:12\n" },
	{ .name = "push",
	  .fn = image_push,
	  .args = "[OPTIONS] IMAGE HOST/NAME[:TAG]",
	  .help = "send an image to a registry",
	  .notes = "The operator allows registries in the configuration "
		   "(`registries`)." },
	{ .name = "rm",
	  .fn = image_rm,
	  .args = "IMAGE...",
	  .help = "remove images that no sandbox uses" },
	{ .name = "save",
	  .fn = image_save,
	  .args = "[OPTIONS] SNAPSHOT|SANDBOX NAME",
	  .help = "make an image of a sandbox's disk, as it is or was" },
	{ 0 },
};
