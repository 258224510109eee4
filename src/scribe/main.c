/*
 * carrel-scribe: see scribe.h. Started by the supervisor as root; works as its
 * own user, without a network, without a program to run, behind a filter of
 * system calls. `--verify` checks a log instead (verify.h).
 */
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/last_error.h"
#include "base/log.h"
#include "base/opt.h"
#include "base/product.h"
#include "scribe/scribe.h"
#include "scribe/verify.h"
#include "seccomp/seccomp.h"

static void lock_in(void)
{
	int r = seccomp_install(&filter_scribe);

	if (r < 0)
		die("install the system-call filter: %s", strerror(-r));
}

static void start(struct scribe *s, int argc, char **argv)
{
	struct err e = { 0 };

	if (conf_from_args(&s->conf, argc, argv, &e) < 0)
		die("%s", e.msg);
	log_init("scribe", conf_log_level(&s->conf));
	last_error_open(s->conf.run_dir, "scribe");
	if (keep_parse(s->conf.audit_keep, &s->keep, &e) < 0 ||
	    scribe_set_up(s, &e) < 0 || scribe_drop_privileges(s, &e) < 0 ||
	    sign_init(&e) < 0)
		die("%s", e.msg);
	lock_in();
	if (chain_open(&s->chain, s->dir_fd, s->conf.audit_segment_bytes, &e) <
		    0 ||
	    serve_start(s, &e) < 0)
		die("%s", e.msg);
	last_error_clear();
	log_info("ready entries=%llu", (unsigned long long)s->chain.now.seq);
}

static int verify(int argc, char **argv)
{
	AUTO(verify_close) struct verify_options o = { .dir_fd = -1 };
	const struct opt opts[] = {
		{ "verify", 0, OPT_TEXT, &o.dir, "DIR", "the log to check" },
		{ "key", 0, OPT_LIST, &o.keys, "FILE",
		  "public keys (default DIR/key.pub)" },
		{ "head", 0, OPT_TEXT, &o.head, "FILE",
		  "a signed entry that must be in it (default DIR/head)" },
		{ 0 },
	};
	struct err e = { 0 };
	int i = opt_parse(opts, argc, argv, &e);

	if (i < 0 || i < argc) {
		fprintf(stderr, "usage: %s --verify DIR [OPTIONS]\n%s%s",
			argv[0], e.msg, i < 0 ? "\n" : "");
		opt_help(opts);
		return VERIFY_FAILED;
	}
	if (sign_init(&e) < 0 || verify_open(&o, &e) < 0) {
		fprintf(stderr, "%s\n", e.msg);
		return VERIFY_FAILED;
	}
	/* It may be root who asks, and the files may be anybody's. */
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		die("set no_new_privs");
	lock_in();
	return verify_run(&o);
}

int main(int argc, char **argv)
{
	static struct scribe s = {
		.api = { .fd = -1, .max = API_CONNS_MAX },
		.gate = { .fd = -1, .max = GATE_CONNS_MAX },
		.dir_fd = -1,
	};
	int r;

	log_init("scribe", LOG_INFO);
	if (argc > 1 && strncmp(argv[1], "--verify", 8) == 0)
		return verify(argc, argv);
	start(&s, argc, argv);
	r = loop_run(&s.loop);
	serve_stop(&s);
	auto_close(&s.dir_fd);
	if (r < 0)
		die("event loop: %s", strerror(-r));
	return 0;
}
