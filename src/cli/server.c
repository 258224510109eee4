/* Calls to the daemon: connecting, sending, and what its refusals mean. */
#include "cli/server.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/product.h"
#include "http/target.h"

enum { PAGE = 1000 }; /* entries of a list in one answer */

void server_target(struct cli *cli, char out[TARGET_CAP], const char *prefix,
		   const char *word)
{
	struct buf b = { 0 };

	buf_puts(&b, prefix);
	http_encode(&b, word);
	if (*word == '\0' || buf_len(&b) >= TARGET_CAP)
		fail(cli, "'%.64s' is not a name or id", word);
	memcpy(out, buf_str(&b), buf_len(&b) + 1);
	buf_done(&b);
}

/* Why nobody answers, and what to do about it. */
static void explain(struct cli *cli, const char *path, const struct err *e,
		    char why[MESSAGE_CAP])
{
	struct conf c;

	if (e->code == EACCES || e->code == EPERM) {
		cli_conf(cli, &c);
		snprintf(why, MESSAGE_CAP,
			 "no permission to use %s: join the group '%s' "
			 "(usermod -aG %s USER, then log in again) or be root",
			 path, c.group, c.group);
	} else if (e->code == ENOENT || e->code == ECONNREFUSED ||
		   e->code == ENOTDIR) {
		bool systemd = access("/run/systemd/system", F_OK) == 0;

		snprintf(why, MESSAGE_CAP,
			 "the daemon is not running (nobody listens at %s); "
			 "start it with: %s",
			 path,
			 systemd ? "systemctl start " PRODUCT
				 : PRODUCT "d --background");
	} else {
		snprintf(why, MESSAGE_CAP, "%s", e->msg);
	}
}

/*
 * Started with a closed stdin, stdout or stderr, our socket got its number and
 * would be taken for it. It moves, and what was closed becomes /dev/null.
 */
static void leave_std_fds(struct http_client *c)
{
	int fd = fcntl(c->fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);

	close(c->fd);
	c->fd = fd;
	do
		fd = open("/dev/null", O_RDWR);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
}

/*
 * The SDKs reach the daemon that these variables name. This program reaches
 * only that of its own machine: to do so silently would be a surprise.
 */
static bool elsewhere(char why[MESSAGE_CAP])
{
	static const char *const names[] = { "CARREL_URL", "CARREL_API_KEY" };
	size_t i;

	for (i = 0; i < ARRAY_LEN(names); i++) {
		const char *v = getenv(names[i]);

		if (!v || !*v)
			continue;
		snprintf(why, MESSAGE_CAP,
			 "%s is set, but this program only reaches the daemon "
			 "of this machine, by its socket: unset %s, or name "
			 "the socket (--socket or CARREL_SOCKET)",
			 names[i], names[i]);
		return true;
	}
	return false;
}

bool server_try(struct cli *cli, struct http_client *c, char why[MESSAGE_CAP])
{
	char from_conf[CONF_PATH + 16];
	const char *path = cli->socket;
	struct err e = { 0 };
	struct conf conf;

	*c = (struct http_client){ .fd = -1 };
	if (!path && elsewhere(why))
		return false;
	if (!path) {
		cli_conf(cli, &conf);
		snprintf(from_conf, sizeof(from_conf), "%s/api.sock",
			 conf.run_dir);
		path = from_conf;
	}
	if (http_client_open(c, path, &e) == 0 && c->fd <= STDERR_FILENO)
		leave_std_fds(c);
	if (e.code != 0)
		explain(cli, path, &e, why);
	return e.code == 0;
}

void server_open(struct cli *cli, struct http_client *c)
{
	char why[MESSAGE_CAP];

	if (!server_try(cli, c, why))
		fail(cli, "%s", why);
}

int server_answer(struct cli *cli, struct http_client *c, json_t **out)
{
	struct err e = { 0 };
	struct buf body = { 0 };
	int status = c->head.status;

	*out = NULL;
	if (http_recv_body(c, ANSWER_MAX, &body, &e) < 0)
		fail(cli, "%s", e.msg);
	if (buf_len(&body) > 0)
		*out = json_loadb(buf_data(&body), buf_len(&body), 0, NULL);
	if (!*out && buf_len(&body) > 0 && status / 100 == 2)
		fail(cli, "the daemon's answer is not JSON: its version is not "
			  "that of this program?");
	buf_done(&body);
	return status;
}

int server_call(struct cli *cli, struct http_client *c,
		const struct http_call *call, json_t **out)
{
	struct err e = { 0 };

	if (http_send(c, call, &e) < 0 || http_recv_head(c, &e) < 0)
		fail(cli, "%s", e.msg);
	return server_answer(cli, c, out);
}

void server_message(int status, const json_t *answer, char out[MESSAGE_CAP])
{
	const char *m = json_string_value(json_object_get(answer, "message"));

	if (m)
		clean_text(out, MESSAGE_CAP, m);
	else
		snprintf(out, MESSAGE_CAP, "the daemon answered with status %d",
			 status);
}

json_t *server_get(struct cli *cli, const char *method, const char *target,
		   const struct buf *body)
{
	struct http_client c;
	struct http_call call = { .method = method, .target = target };
	char message[MESSAGE_CAP];
	json_t *j;
	int status;

	if (body) {
		call.body = buf_data(body);
		call.body_n = buf_len(body);
	}
	server_open(cli, &c);
	status = server_call(cli, &c, &call, &j);
	if (status / 100 != 2) {
		server_message(status, j, message);
		fail(cli, "%s", message);
	}
	http_client_done(&c);
	return j;
}

json_t *server_list(struct cli *cli, const char *target, const char *key)
{
	json_t *all = json_array(), *next = NULL;

	do {
		struct buf page = { 0 };
		json_t *j;

		buf_printf(&page, "%s%climit=%d", target,
			   strchr(target, '?') ? '&' : '?', PAGE);
		if (next) {
			buf_puts(&page, "&after=");
			http_encode(&page, json_string_value(next));
		}
		j = server_get(cli, "GET", buf_str(&page), NULL);
		json_array_extend(all, json_object_get(j, key));
		json_decref(next);
		next = json_incref(json_object_get(j, "next"));
		json_decref(j);
		buf_done(&page);
	} while (json_is_string(next));
	json_decref(next);
	return all;
}

/* Whether the thing is gone; says why not. */
static bool remove_one(struct cli *cli, const char *prefix, const char *query,
		       const char *ref)
{
	struct http_client c;
	struct http_call call = { .method = "DELETE" };
	char target[TARGET_CAP], message[MESSAGE_CAP];
	AUTO(buf_done) struct buf whole = { 0 };
	json_t *j;
	int status;

	server_target(cli, target, prefix, ref);
	buf_printf(&whole, "%s%s", target, query);
	call.target = buf_str(&whole);
	server_open(cli, &c);
	status = server_call(cli, &c, &call, &j);
	if (status / 100 != 2) {
		server_message(status, j, message);
		complain("%s: %s", ref, message);
	}
	json_decref(j);
	http_client_done(&c);
	return status / 100 == 2;
}

int remove_each_with(struct cli *cli, const char *prefix, const char *query,
		     int n, char **refs)
{
	int i, code = 0;

	for (i = 0; i < n; i++)
		if (!remove_one(cli, prefix, query, refs[i]))
			code = EXIT_FAILED;
	return code;
}

int remove_each(struct cli *cli, const char *prefix, int n, char **refs)
{
	return remove_each_with(cli, prefix, "", n, refs);
}
