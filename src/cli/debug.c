/*
 * carrel debug bundle: one file of text for who is to help. It has what this
 * host and the daemon are like and what the daemon said last. It is meant to
 * be passed on: environments, labels and commands of sandboxes stay here, and
 * everything goes through scrub().
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/product.h"
#include "cli/scrub.h"
#include "cli/server.h"
#include "cli/show.h"

enum {
	LOG_BYTES = 256 * 1024,
	SECTION_MAX = 8 * 1024 * 1024,
	DAEMON_MS = 10 * 1000,
};

#define REMOVED "(removed)"

struct bundle {
	struct cli *cli;
	struct conf conf;
	struct buf out;
};

static void add_section(struct bundle *b, const char *title, const char *text,
			size_t n)
{
	buf_printf(&b->out, "==> %s <==\n", title);
	scrub(&b->out, text, n);
	buf_puts(&b->out, "\n");
}

static void add_note(struct bundle *b, const char *title, const char *note)
{
	add_section(b, title, note, strlen(note));
}

/* The end of a file, which is what one looks for in a log. */
static void add_file(struct bundle *b, const char *path, off_t most)
{
	AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	struct buf text = { 0 };
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0) {
		add_note(b, path, strerror(errno));
		return;
	}
	if (S_ISREG(st.st_mode) && st.st_size > most)
		lseek(fd, st.st_size - most, SEEK_SET);
	while (buf_len(&text) < (size_t)most &&
	       buf_read(&text, fd, 64 * 1024) > 0)
		;
	add_section(b, path, buf_data(&text), buf_len(&text));
	buf_done(&text);
}

/* What a child writes to its stdout. */
static void add_child(struct bundle *b, const char *title,
		      void (*fn)(struct bundle *b))
{
	struct buf text = { 0 };
	int p[2];
	pid_t pid;

	if (pipe2(p, O_CLOEXEC) < 0)
		fail(b->cli, "make a pipe: %m");
	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		if (dup2(p[1], STDOUT_FILENO) >= 0 &&
		    dup2(p[1], STDERR_FILENO) >= 0)
			fn(b);
		_exit(0);
	}
	close(p[1]);
	while (pid > 0 && buf_len(&text) < SECTION_MAX &&
	       buf_read(&text, p[0], 64 * 1024) > 0)
		;
	close(p[0]);
	while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	add_section(b, title, buf_data(&text), buf_len(&text));
	buf_done(&text);
}

static void run_doctor(struct bundle *b)
{
	char name[] = "doctor", json[] = "--json";
	char *argv[] = { name, json, NULL };

	b->cli->verb = cli_find(all_verbs, name);
	b->cli->group = NULL;
	verb_doctor(b->cli, 2, argv);
	fflush(stdout);
}

static void run_journal(struct bundle *b)
{
	(void)b;
	execlp("journalctl", "journalctl", "--no-pager", "-q", "-n", "1000",
	       "-u", PRODUCT ".service", (char *)NULL);
	printf("journalctl: %s\n", strerror(errno));
	fflush(stdout);
}

/* --- the configuration: keys and values, no remarks --- */

/* Settings that may have a password in them. */
static const char *const closed[] = {
	"upstream_proxy",
	"ask_webhook",
	"vault_key_command",
};

static void add_setting(struct buf *out, const char *line)
{
	size_t i, n = strcspn(line, " \t=");

	for (i = 0; i < ARRAY_LEN(closed); i++)
		if (strlen(closed[i]) == n && memcmp(line, closed[i], n) == 0) {
			buf_printf(out, "%s = " REMOVED "\n", closed[i]);
			return;
		}
	buf_printf(out, "%s\n", line);
}

static void add_conf(struct bundle *b)
{
	const char *path = b->cli->conf_path ? b->cli->conf_path
					     : "/etc/" PRODUCT "/" PRODUCT
					       ".conf";
	AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct buf text = { 0 }, kept = { 0 };
	char *line, *rest;

	if (fd < 0) {
		add_note(b, path, strerror(errno));
		return;
	}
	while (buf_len(&text) < SECTION_MAX &&
	       buf_read(&text, fd, 64 * 1024) > 0)
		;
	for (rest = buf_str(&text); (line = strsep(&rest, "\n"));) {
		line += strspn(line, " \t");
		line[strcspn(line, "#")] = '\0';
		if (*line)
			add_setting(&kept, line);
	}
	add_section(b, path, buf_data(&kept), buf_len(&kept));
	buf_done(&text);
	buf_done(&kept);
}

/* --- what the daemon says --- */

static void hide_values(json_t *object)
{
	const char *key;
	json_t *v;

	json_object_foreach (object, key, v) {
		json_object_set_new(object, key, json_string(REMOVED));
	}
}

/* What its user put into it is not ours to pass on. */
static void hide_box(json_t *box)
{
	json_t *spec = json_object_get(box, "spec");
	json_t *start = json_object_get(spec, "start");

	hide_values(json_object_get(box, "env"));
	hide_values(json_object_get(box, "labels"));
	hide_values(json_object_get(spec, "env"));
	hide_values(json_object_get(spec, "labels"));
	if (start)
		json_object_set_new(
			spec, "start",
			json_integer((json_int_t)json_array_size(start)));
}

static void add_answer(struct bundle *b, const char *target)
{
	struct http_call call = { .method = "GET", .target = target };
	struct http_client c;
	struct buf body = { 0 };
	struct err e = { 0 };
	char why[MESSAGE_CAP], *text;
	json_t *j, *box;
	size_t i;

	if (!server_try(b->cli, &c, why)) {
		add_note(b, target, why);
		return;
	}
	if (http_client_timeout(&c, DAEMON_MS, &e) < 0 ||
	    http_do(&c, &call, SECTION_MAX, &body, &e) < 0) {
		add_note(b, target, e.msg);
		http_client_done(&c);
		buf_done(&body);
		return;
	}
	j = json_loadb(buf_data(&body), buf_len(&body), 0, NULL);
	json_array_foreach (json_object_get(j, "sandboxes"), i, box) {
		hide_box(box);
	}
	text = j ? json_dumps(j, JSON_INDENT(2)) : NULL;
	if (text)
		add_section(b, target, text, strlen(text));
	else
		add_section(b, target, buf_data(&body), buf_len(&body));
	free(text);
	json_decref(j);
	buf_done(&body);
	http_client_done(&c);
}

static void add_head(struct bundle *b)
{
	char stamp[CLOCK_STAMP], text[512];
	struct utsname u;

	clock_stamp(clock_wall_ms(), stamp);
	uname(&u);
	snprintf(text, sizeof(text),
		 PRODUCT " " PRODUCT_VERSION "\n%s\n%s %s %s\nuid %u\n", stamp,
		 u.sysname, u.release, u.machine, (unsigned)geteuid());
	add_note(b, "bundle", text);
}

static void collect(struct bundle *b)
{
	static const char *const files[] = { "/etc/os-release", "/proc/meminfo",
					     "/proc/loadavg", "/proc/uptime",
					     "/proc/cgroups" };
	static const char *const answers[] = { "/v1/host",
					       "/v1/sandboxes?limit=1000",
					       "/v1/stats", "/v1/images",
					       "/metrics" };
	char path[CONF_PATH + 16];
	size_t i;

	add_head(b);
	add_child(b, PRODUCT " doctor --json", run_doctor);
	add_conf(b);
	for (i = 0; i < ARRAY_LEN(answers); i++)
		add_answer(b, answers[i]);
	for (i = 0; i < ARRAY_LEN(files); i++)
		add_file(b, files[i], LOG_BYTES);
	snprintf(path, sizeof(path), "%s/daemon.log", b->conf.state_dir);
	add_file(b, path, LOG_BYTES);
	if (access("/run/systemd/system", F_OK) == 0)
		add_child(b, "journalctl -u " PRODUCT, run_journal);
}

static int debug_bundle(struct cli *cli, int argc, char **argv)
{
	static struct bundle b;
	const struct opt table[] = { OPT_HELP(cli), { 0 } };
	char size[SIZE_TEXT];
	int fd, r;

	if (cli_operands(cli, table, argc, argv) != 1)
		cli_usage_error(cli, "which file? (- is standard output)");
	b.cli = cli;
	cli_conf(cli, &b.conf);
	/* Before the work: a name that is wrong is known at once. */
	fd = strcmp(argv[1], "-") == 0
		     ? STDOUT_FILENO
		     : open(argv[1], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
			    0600);
	if (fd < 0)
		fail(cli, "%s: %m", argv[1]);
	collect(&b);
	r = write_full(fd, buf_data(&b.out), buf_len(&b.out));
	if (r < 0)
		fail(cli, "write %s: %s", argv[1], strerror(-r));
	size_text(buf_len(&b.out), size);
	if (fd != STDOUT_FILENO)
		printf("%s: %s of text; read it before you pass it on\n",
		       argv[1], size);
	buf_done(&b.out);
	return 0;
}

const struct verb debug_verbs[] = {
	{ .name = "bundle",
	  .fn = debug_bundle,
	  .args = "[OPTIONS] FILE",
	  .help = "collect what somebody needs to help you",
	  .notes =
		  "One file of text: versions, `doctor`, the configuration, "
		  "what the daemon tells about\n"
		  "itself and its sandboxes, the end of its log. Environments, "
		  "labels and start commands\n"
		  "of sandboxes are left out, and so is what looks like a key, "
		  "a token or a password." },
	{ 0 },
};
