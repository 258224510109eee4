#include "agent/sudo_args.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/opt.h"
#include "base/product.h"
#include "base/str.h"

extern char **environ;

static struct flags {
	bool quiet, keep_env, set_home, login, shell, forget, validate, list;
	bool help, version, from_stdin;
	const char *user, *prompt;
	const char *keep; /* names of --preserve-env=A,B */
} flags;

static const struct opt options[] = {
	{ "non-interactive", 'n', OPT_FLAG, &flags.quiet, NULL,
	  "never ask (nothing is ever asked)" },
	{ "preserve-env", 'E', OPT_FLAG, &flags.keep_env, NULL,
	  "keep the environment; with =A,B only these variables" },
	{ "set-home", 'H', OPT_FLAG, &flags.set_home, NULL,
	  "set HOME to the user's" },
	{ "login", 'i', OPT_FLAG, &flags.login, NULL,
	  "run a login shell in the user's home" },
	{ "shell", 's', OPT_FLAG, &flags.shell, NULL, "run a shell" },
	{ "user", 'u', OPT_TEXT, &flags.user, "USER",
	  "run as this user, not as root" },
	{ "validate", 'v', OPT_FLAG, &flags.validate, NULL, "do nothing" },
	{ "reset-timestamp", 'k', OPT_FLAG, &flags.forget, NULL, "do nothing" },
	{ "remove-timestamp", 'K', OPT_FLAG, &flags.forget, NULL,
	  "do nothing" },
	{ "list", 'l', OPT_FLAG, &flags.list, NULL, "say what is allowed" },
	{ "stdin", 'S', OPT_FLAG, &flags.from_stdin, NULL, "do nothing" },
	{ "prompt", 'p', OPT_TEXT, &flags.prompt, "TEXT", "do nothing" },
	{ "help", 'h', OPT_FLAG, &flags.help, NULL, "this text" },
	{ "version", 'V', OPT_FLAG, &flags.version, NULL, "the version" },
	{ 0 },
};

/*
 * What stays of the environment without -E: what sudo keeps by default, and
 * the proxies, without which nothing inside reaches the network.
 */
static const char *const kept[] = {
	"TERM",       "COLORTERM",  "LANG",          "LANGUAGE",
	"LC_*",       "TZ",         "LS_COLORS",     "DISPLAY",
	"XAUTHORITY", "NO_COLOR",   "SSL_CERT_FILE", "SSL_CERT_DIR",
	"http_proxy", "HTTP_PROXY", "https_proxy",   "HTTPS_PROXY",
	"ftp_proxy",  "FTP_PROXY",  "all_proxy",     "ALL_PROXY",
	"no_proxy",   "NO_PROXY",
};
/* With -E these are the target user's all the same. */
static const char *const never_kept[] = { "PATH", "USER", "LOGNAME", "MAIL",
					  "SUDO_*" };

static bool matches(const char *word, size_t n, const char *pattern)
{
	size_t p = strlen(pattern);

	if (pattern[p - 1] == '*')
		return n >= p - 1 && memcmp(word, pattern, p - 1) == 0;
	return n == p && memcmp(word, pattern, n) == 0;
}

static bool in_table(const char *word, size_t n, const char *const *t,
		     size_t rows)
{
	size_t i;

	for (i = 0; i < rows; i++)
		if (matches(word, n, t[i]))
			return true;
	return false;
}

static bool in_list(const char *word, size_t n, const char *list)
{
	while (list) {
		size_t m = strcspn(list, ",");

		if (m == n && memcmp(list, word, n) == 0)
			return true;
		list = list[m] ? list + m + 1 : NULL;
	}
	return false;
}

static bool keep(const char *word)
{
	size_t n = strcspn(word, "=");

	if (!word[n] || n == 0)
		return false;
	if (in_list(word, n, flags.keep))
		return true;
	if (!flags.keep_env)
		return in_table(word, n, kept, ARRAY_LEN(kept));
	if (flags.set_home && matches(word, n, "HOME"))
		return false;
	return !in_table(word, n, never_kept, ARRAY_LEN(never_kept));
}

static void add_env(struct spawn *s, const char *word)
{
	s->env[s->envc++] = word;
}

static char *make_word(const char *name, const char *value)
{
	struct buf b = { 0 };

	buf_printf(&b, "%s=%s", name, value);
	return buf_str(&b);
}

static char *make_id(const char *name, unsigned id)
{
	char text[16];

	snprintf(text, sizeof(text), "%u", id);
	return make_word(name, text);
}

/* `set` are the n words VAR=value in front of the command. */
static int fill_env(struct spawn *s, char **set, size_t n, struct err *e)
{
	const char *me = getenv("LOGNAME");
	size_t have = 0, i;

	while (environ[have])
		have++;
	if (have + n > ARGS_MAX - 8)
		return err_set(e, E2BIG, "the environment is too large");
	s->env = xcalloc(have + n + 8, sizeof(*s->env));
	for (i = 0; i < n; i++)
		add_env(s, set[i]);
	for (i = 0; i < have; i++)
		if (keep(environ[i]))
			add_env(s, environ[i]);
	add_env(s, make_word("SUDO_USER", me ? me : "user"));
	add_env(s, make_id("SUDO_UID", getuid()));
	add_env(s, make_id("SUDO_GID", getgid()));
	add_env(s, make_word("SUDO_COMMAND", s->argv[0]));
	return 0;
}

/* The words as one that a shell takes apart the same way, as sudo -s has it. */
static const char *quote(struct buf *b, char **words)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyz"
				    "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-$";
	bool first = true;

	for (; *words; words++) {
		const char *p;

		if (!first)
			buf_puts(b, " ");
		first = false;
		for (p = *words; *p; p++) {
			if (!strchr(plain, *p))
				buf_puts(b, "\\");
			buf_add(b, p, 1);
		}
	}
	return buf_str(b);
}

static void add_arg(struct spawn *s, const char *word)
{
	s->argv[s->argc++] = word;
}

/* $SHELL is set by the agent, from the user's line in /etc/passwd. */
static void login_argv(struct request *q, char **words)
{
	struct spawn *s = &q->spawn;

	s->cwd = "/";
	add_arg(s, "/bin/sh");
	add_arg(s, "-c");
	add_arg(s, "cd 2>/dev/null; exec \"$SHELL\" -l \"$@\"");
	add_arg(s, "sudo");
	if (*words) {
		add_arg(s, "-c");
		add_arg(s, quote(&q->text, words));
	}
}

static void shell_argv(struct request *q, char **words)
{
	const char *shell = getenv("SHELL");

	add_arg(&q->spawn, shell && *shell == '/' ? shell : "/bin/sh");
	if (*words) {
		add_arg(&q->spawn, "-c");
		add_arg(&q->spawn, quote(&q->text, words));
	}
}

static int fill_argv(struct request *q, int argc, char **words, struct err *e)
{
	struct spawn *s = &q->spawn;

	if (argc > ARGS_MAX)
		return err_set(e, E2BIG, "too many arguments");
	s->argv = xcalloc((size_t)argc + 8, sizeof(*s->argv));
	if (flags.login)
		login_argv(q, words);
	else if (flags.shell)
		shell_argv(q, words);
	else
		while (*words)
			add_arg(s, *words++);
	return 0;
}

/* opt_parse() has no options with an optional value: this is the only one. */
static void take_preserve_list(int argc, char **argv)
{
	static char stand_in[] = "-n";
	static const char name[] = "--preserve-env=";
	int i;

	for (i = 1; i < argc && argv[i][0] == '-'; i++)
		if (str_starts(argv[i], name)) {
			flags.keep = argv[i] + sizeof(name) - 1;
			argv[i] = stand_in;
		}
}

static void print_and_exit(void)
{
	if (flags.version) {
		printf("sudo of %s %s\n", PRODUCT, PRODUCT_VERSION);
		exit(0);
	}
	if (flags.help) {
		printf("usage: sudo [options] [VAR=value...] COMMAND...\n"
		       "Runs a command as root of this sandbox.\n\n");
		opt_help(options);
		exit(0);
	}
	if (flags.list) {
		printf("Everybody in this sandbox may run:\n"
		       "    (ALL : ALL) NOPASSWD: ALL\n");
		exit(0);
	}
}

static bool is_assignment(const char *word)
{
	size_t n = strcspn(word, "=");

	return n > 0 && word[n] == '=' && !memchr(word, '/', n);
}

int request_parse(struct request *q, int argc, char **argv, struct err *e)
{
	int first, r;
	char **set;

	take_preserve_list(argc, argv);
	first = opt_parse(options, argc, argv, e);
	if (first < 0)
		return first;
	print_and_exit();
	set = argv + first;
	while (argv[first] && is_assignment(argv[first]))
		first++;
	if (!argv[first] && !flags.login && !flags.shell) {
		if (flags.validate || flags.forget)
			return 0;
		return err_set(e, EINVAL, "no command (see sudo --help)");
	}
	q->spawn.user = flags.user ? flags.user : "";
	if (q->spawn.user[0] == '#')
		q->spawn.user++;
	q->spawn.cwd = "";
	r = fill_argv(q, argc, argv + first, e);
	if (r < 0)
		return r;
	return fill_env(&q->spawn, set, (size_t)(argv + first - set), e);
}
