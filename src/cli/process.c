#include "cli/process.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "cli/server.h"
#include "cli/spec_opts.h"
#include "cli/stream.h"
#include "cli/term.h"
#include "wire/frame.h"

#define WIRE_PROTOCOL "carrel-wire/1"

size_t process_rows(struct process_opts *p, struct opt table[PROCESS_ROWS])
{
	const struct opt rows[] = {
		{ "stdin", 'i', OPT_FLAG, &p->input, NULL,
		  "forward standard input (the default)" },
		{ "no-stdin", 'n', OPT_FLAG, &p->no_input, NULL,
		  "do not: the command reads /dev/null" },
		{ "tty", 't', OPT_FLAG, &p->tty, NULL,
		  "give the command a terminal" },
		{ "user", 'u', OPT_TEXT, &p->user, "USER",
		  "user inside, a name or a number" },
		{ "workdir", 'w', OPT_TEXT, &p->workdir, "DIR",
		  "directory to start in" },
		{ "env", 'e', OPT_LIST, &p->env, "K[=V]",
		  "set a variable; without =V to your own value" },
	};

	memcpy(table, rows, sizeof(rows));
	return ARRAY_LEN(rows);
}

/* A program that draws on a terminal must know which one. */
static void add_term(struct process_opts *p)
{
	static char term[72];
	const char *own = getenv("TERM");
	size_t i;

	for (i = 0; i < p->env.n; i++)
		if (strncmp(p->env.v[i], "TERM=", 5) == 0)
			return;
	if (!own || strlen(own) > 64 || p->env.n == OPT_LIST_MAX)
		return;
	snprintf(term, sizeof(term), "TERM=%s", own);
	p->env.v[p->env.n++] = term;
}

static void put_spawn(struct cli *cli, struct process_opts *p, char **argv,
		      struct buf *out)
{
	/* No nonce: we never come back to a connection. */
	struct hello hello = { .version_min = WIRE_VERSION,
			       .version_max = WIRE_VERSION };
	struct spawn s = { .user = p->user,
			   .cwd = p->workdir,
			   .argv = (const char **)argv,
			   .env = p->env.v,
			   .envc = p->env.n };

	while (argv[s.argc])
		s.argc++;
	if (p->detach)
		s.flags = SPAWN_DETACHED;
	else if (!p->no_input)
		s.flags = SPAWN_STDIN;
	if (p->tty) {
		s.flags |= SPAWN_PTY;
		term_size(&s.rows, &s.cols);
	}
	hello_put(out, &hello);
	if (spawn_put(out, 1, &s) < 0)
		fail(cli,
		     "the command and its environment are larger than "
		     "%d KiB or %d words",
		     SPAWN_MAX / 1024, ARGS_MAX);
}

static void refused(struct cli *cli, struct http_client *c)
{
	char message[MESSAGE_CAP];
	json_t *j;
	int status = server_answer(cli, c, &j);

	server_message(status, j, message);
	fail(cli, "%s", message);
}

int process_run(struct cli *cli, struct process_opts *p, const char *target,
		const struct buf *body, char **argv)
{
	static struct http_client c;
	static struct buf first, leftover;
	struct http_call call = { .method = "POST",
				  .target = target,
				  .upgrade = WIRE_PROTOCOL };
	struct stream_opts o = { .input = !p->no_input && !p->detach,
				 .tty = p->tty,
				 .detach = p->detach };
	AUTO_CLOSE int fd = -1;
	struct err e = { 0 };
	int status, code;

	env_complete(cli, &p->env);
	if (p->tty)
		add_term(p);
	put_spawn(cli, p, argv, &first);
	call.first = buf_data(&first);
	call.first_n = buf_len(&first);
	if (body) {
		call.body = buf_data(body);
		call.body_n = buf_len(body);
	}
	server_open(cli, &c);
	status = http_client_upgrade(&c, &call, &fd, &leftover, &e);
	if (status < 0)
		fail(cli, "%s", e.msg);
	if (status != 101)
		refused(cli, &c);
	code = stream_run(fd, &leftover, &o);
	buf_done(&first);
	buf_done(&leftover);
	http_client_done(&c);
	return code;
}
