/*
 * carrel image pull and push. The daemon speaks to the registry; here are the
 * names, the password, and the line that says how far it is.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fd.h"
#include "base/product.h"
#include "cli/image.h"
#include "cli/long.h"
#include "cli/show.h"
#include "wire/fetch.h"

struct registry_opts {
	const char *platform, *user, *password_file;
	bool json;
};

/* Never an argument: those are seen by everybody on this machine. */
static void read_password(struct cli *cli, const char *path, char *out,
			  size_t cap)
{
	bool from_stdin = strcmp(path, "-") == 0;
	AUTO_CLOSE int fd = from_stdin ? -1 : open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (!from_stdin && fd < 0)
		fail(cli, "open %s: %m", path);
	n = read_full(from_stdin ? STDIN_FILENO : fd, out, cap - 1);
	if (n < 0 || (size_t)n == cap - 1)
		fail(cli, "%s: not a password", path);
	out[n] = '\0';
	out[strcspn(out, "\r\n")] = '\0';
}

static void put_body(struct cli *cli, const struct registry_opts *o,
		     const char *reference, struct buf *body)
{
	static char password[FETCH_SECRET_CAP];
	json_t *j = json_pack("{s:s}", "reference", reference);
	char *text;

	if (!j)
		fail(cli, "'%s' is not text", reference);
	if (o->platform)
		json_object_set_new(j, "platform", json_string(o->platform));
	if (o->user) {
		if (!o->password_file)
			cli_usage_error(cli, "--username needs "
					     "--password-file (- is standard "
					     "input)");
		read_password(cli, o->password_file, password,
			      sizeof(password));
		json_object_set_new(j, "username", json_string(o->user));
		json_object_set_new(j, "password", json_string(password));
	}
	text = json_dumps(j, JSON_COMPACT);
	buf_puts(body, text);
	free(text);
	json_decref(j);
}

static const struct long_phase phases[] = {
	{ "manifest", "asking the registry" },
	{ "fetch", "downloading" },
	{ "unpack", "unpacking" },
	{ "pack", "packing" },
	{ "push", "uploading" },
	{ 0 },
};

/* "host/a/debian:12" is called "debian:12". */
static void default_name(struct cli *cli, const char *reference, char out[64])
{
	const char *slash = strrchr(reference, '/');
	struct fetch_ref r;
	struct err e = { 0 };

	if (fetch_ref_parse(&r, reference, &e) < 0)
		fail(cli, "%s", e.msg);
	snprintf(out, 64, "%.*s", (int)strcspn(slash + 1, "@"), slash + 1);
}

#define REGISTRY_OPTIONS(o)                                  \
	{ "username", 'u',    OPT_TEXT,                      \
	  &(o).user,  "NAME", "user name at the registry" }, \
		{ "password-file", 0,                        \
		  OPT_TEXT,        &(o).password_file,       \
		  "FILE",          "where the password is; - is standard input" }

static void verb_target(struct cli *cli, char target[TARGET_CAP],
			const char *name, const char *verb)
{
	size_t n;

	server_target(cli, target, "/v1/images/", name);
	n = strlen(target);
	if (snprintf(target + n, TARGET_CAP - n, "/%s", verb) >=
	    (int)(TARGET_CAP - n))
		fail(cli, "'%s' is no name", name);
}

int image_pull(struct cli *cli, int argc, char **argv)
{
	static struct registry_opts o;
	struct progress progress;
	const struct opt table[] = {
		{ "platform", 0, OPT_TEXT, &o.platform, "OS/ARCH",
		  "of an image for several (default: this host's)" },
		REGISTRY_OPTIONS(o),
		{ "json", 0, OPT_FLAG, &o.json, NULL,
		  "print the image as JSON" },
		OPT_HELP(cli),
		{ 0 },
	};
	int n = cli_operands(cli, table, argc, argv);
	struct upload u = { .progress = &progress };
	char target[TARGET_CAP], name[64];
	struct buf body = { 0 };
	json_t *j;

	if (n < 1 || n > 2)
		cli_usage_error(cli, "which image of which registry?");
	default_name(cli, argv[1], name);
	u.name = n == 2 ? argv[2] : name;
	put_body(cli, &o, argv[1], &body);
	verb_target(cli, target, u.name, "pull");
	progress_init(&progress);
	j = long_ask(cli, target, &body, phases, &progress);
	if (o.json)
		print_json(j);
	else
		image_say(&u, j);
	json_decref(j);
	buf_done(&body);
	return 0;
}

int image_push(struct cli *cli, int argc, char **argv)
{
	static struct registry_opts o;
	struct progress progress;
	const struct opt table[] = {
		REGISTRY_OPTIONS(o),
		{ "json", 0, OPT_FLAG, &o.json, NULL,
		  "print what the registry has as JSON" },
		OPT_HELP(cli),
		{ 0 },
	};
	char target[TARGET_CAP], digest[SHOW_CAP];
	struct buf body = { 0 };
	json_t *j;

	if (cli_operands(cli, table, argc, argv) != 2)
		cli_usage_error(cli, "an image and its name in a registry are "
				     "needed");
	put_body(cli, &o, argv[2], &body);
	verb_target(cli, target, argv[1], "push");
	progress_init(&progress);
	j = long_ask(cli, target, &body, phases, &progress);
	if (o.json) {
		print_json(j);
	} else {
		clean_text(digest, sizeof(digest), show_str(j, "digest"));
		printf("%s: %s\n", argv[2], digest);
	}
	json_decref(j);
	buf_done(&body);
	return 0;
}
