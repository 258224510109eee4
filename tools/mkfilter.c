/*
 * Compiles a seccomp policy (src/seccomp/NAME.policy) to the initialisers of
 * an array of struct sock_filter, on stdout. Runs at build time.
 *
 * A policy is lines of words; `#` starts a comment:
 *
 *	include NAME            everything of NAME.policy; this file overrides
 *	default ACTION          numbers that the table does not know
 *	known ACTION            calls of the table that no line mentions
 *	foreign ACTION          other ABIs (i386, x32)
 *	allow CALL... [IF]
 *	deny ACTION CALL... [IF]
 *	return 0 CALL... [IF]   success, without doing anything
 *	sanitized LINE          only in a build with sanitizers (option -s);
 *	                        overrides what the file says elsewhere
 *
 *	ACTION  allow, kill, or an errno in small letters
 *	IF      if COND [and COND]... [else ACTION]
 *	COND    argN[:64] [& MASK] ==|!=|in VALUE...
 *
 * Lines about the same call are tried from top to bottom, the first that
 * matches decides, and the last must match always. argN is the low half of an
 * argument: the kernel cuts an int argument to it, so a comparison of all 64
 * bits can be passed by setting a high one (CVE-2019-10063). argN:64 is for
 * pointers.
 *
 * The program first refuses foreign ABIs, then finds the number by binary
 * search and returns at once unless the call has conditions. The path of a
 * call without conditions loads nothing but arch and nr, which lets the kernel
 * cache its verdict (since 5.11).
 */
#include <ctype.h>
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/fs.h>
#include <linux/seccomp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "syscalls_x86_64.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

/* All that depends on the processor: this block and the table of calls. */
static const uint32_t native_arch = AUDIT_ARCH_X86_64;
static const uint32_t foreign_bit = 0x40000000; /* x32 shares our arch */
static const bool big_endian = false;

enum {
	NR_MAX = 512, /* beyond the table, so that it ends in `default` */
	CONDS_MAX = 4,
	VALUES_MAX = 16,
	RULES_MAX = 16,
	WORDS_MAX = 64,
	/*
	 * A file's rank is two per include that leads to it, and one less for
	 * its `sanitized` lines: those override the file's own.
	 */
	RANK_STEP = 2,
	RANK_MAX = 8,
	CODE_MAX = BPF_MAXINSNS,
};

enum op { OP_EQ, OP_NE, OP_IN };

struct cond {
	int arg;
	bool wide;
	uint64_t mask;
	enum op op;
	uint64_t values[VALUES_MAX];
	size_t n_values;
};

struct rule {
	struct cond conds[CONDS_MAX];
	size_t n_conds; /* 0: matches always */
	uint32_t ret;
};

struct call {
	const char *name;
	struct rule rules[RULES_MAX];
	size_t n_rules;
	int rank; /* where its rules came from; a lower rank overrides */
};

static struct call calls[NR_MAX];
static uint32_t act_default, act_known, act_foreign;
static bool has_default, has_known, has_foreign;
static bool sanitized;

/* Where we are, for messages. */
static const char *cur_file = "mkfilter";
static int cur_line;

static void __attribute__((noreturn, format(printf, 1, 2)))
fail(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fprintf(stderr, "%s:%d: ", cur_file, cur_line);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	va_end(ap);
	exit(1);
}

/* ---- names ---- */

static const struct {
	const char *name;
	uint32_t ret;
} actions[] = {
	{ "allow", SECCOMP_RET_ALLOW },
	{ "kill", SECCOMP_RET_KILL_PROCESS },
	{ "eacces", SECCOMP_RET_ERRNO | EACCES },
	{ "eafnosupport", SECCOMP_RET_ERRNO | EAFNOSUPPORT },
	{ "enosys", SECCOMP_RET_ERRNO | ENOSYS },
	{ "eopnotsupp", SECCOMP_RET_ERRNO | EOPNOTSUPP },
	{ "eperm", SECCOMP_RET_ERRNO | EPERM },
	{ "eprotonosupport", SECCOMP_RET_ERRNO | EPROTONOSUPPORT },
};

/* clang-format off */
#define V(name) { #name, (uint64_t)(name) }
static const struct {
	const char *name;
	uint64_t value;
} values[] = {
	V(AF_UNIX), V(AF_INET), V(AF_INET6), V(AF_NETLINK),
	V(S_IFMT), V(S_IFREG), V(S_IFIFO), V(S_IFSOCK),
	V(TIOCSTI), V(TIOCLINUX), V(TIOCSETD), V(TIOCCONS),
	V(FS_IOC_FSSETXATTR), V(PROT_EXEC), V(RLIMIT_CORE),
	V(PR_SET_MM),
};
/* clang-format on */
#undef V

static uint32_t action_of(const char *word)
{
	for (size_t i = 0; i < ARRAY_LEN(actions); i++)
		if (strcmp(actions[i].name, word) == 0)
			return actions[i].ret;
	fail("unknown action `%s`", word);
}

static uint64_t value_of(const char *word)
{
	unsigned long long v;
	char *end;

	for (size_t i = 0; i < ARRAY_LEN(values); i++)
		if (strcmp(values[i].name, word) == 0)
			return values[i].value;
	errno = 0;
	v = strtoull(word, &end, 0);
	if (errno || end == word || *end || !isdigit((unsigned char)word[0]))
		fail("`%s` is neither a number nor a known constant", word);
	return v;
}

static struct call *call_of(const char *word)
{
	for (size_t i = 0; i < NR_MAX; i++)
		if (calls[i].name && strcmp(calls[i].name, word) == 0)
			return &calls[i];
	fail("unknown system call `%s`", word);
}

static void calls_init(void)
{
	static const struct {
		int nr;
		const char *name;
	} table[] = {
#define X(nr, name) { nr, #name },
		SYSCALLS(X)
#undef X
	};

	for (size_t i = 0; i < ARRAY_LEN(table); i++) {
		if (table[i].nr >= NR_MAX || calls[table[i].nr].name)
			fail("bad table at %s", table[i].name);
		calls[table[i].nr].name = table[i].name;
	}
}

/* ---- parser ---- */

static bool is(const char *word, const char *what)
{
	return word && strcmp(word, what) == 0;
}

/* Parses `argN[:64] [& MASK] OP VALUE...`; returns the word behind it. */
static char **parse_cond(char **w, struct cond *c)
{
	const char *a = w[0];

	memset(c, 0, sizeof(*c));
	if (!a || strncmp(a, "arg", 3) != 0 || a[3] < '0' || a[3] > '5' ||
	    (a[4] && strcmp(a + 4, ":64") != 0))
		fail("expected arg0 to arg5, found `%s`", a ? a : "nothing");
	c->arg = a[3] - '0';
	c->wide = a[4] != '\0';
	c->mask = c->wide ? UINT64_MAX : UINT32_MAX;
	w++;
	if (is(*w, "&")) {
		if (!w[1])
			fail("no mask behind &");
		c->mask = value_of(w[1]);
		w += 2;
	}
	if (!is(*w, "==") && !is(*w, "!=") && !is(*w, "in"))
		fail("expected ==, != or in");
	c->op = is(*w, "==") ? OP_EQ : is(*w, "!=") ? OP_NE : OP_IN;
	for (w++; *w && !is(*w, "and") && !is(*w, "else"); w++) {
		if (c->n_values == VALUES_MAX)
			fail("more than %d values", VALUES_MAX);
		c->values[c->n_values++] = value_of(*w);
	}
	if (c->n_values == 0 || (c->op != OP_IN && c->n_values != 1))
		fail("wrong number of values");
	if (c->wide && c->op == OP_IN)
		fail("`in` compares 32 bits only");
	for (size_t i = 0; i < c->n_values; i++)
		if (c->values[i] & ~c->mask)
			fail("a value has bits outside the mask");
	if (!c->wide && c->mask > UINT32_MAX)
		fail("the mask is wider than 32 bits: write arg%d:64", c->arg);
	return w;
}

static void add_rule(struct call *c, const struct rule *r, int rank)
{
	if (c->n_rules && rank > c->rank)
		fail("`%s` is decided before this include", c->name);
	if (c->n_rules && rank < c->rank)
		c->n_rules = 0;
	if (c->n_rules && c->rules[c->n_rules - 1].n_conds == 0)
		fail("`%s` is already decided above", c->name);
	if (c->n_rules == RULES_MAX)
		fail("more than %d rules for `%s`", RULES_MAX, c->name);
	c->rules[c->n_rules++] = *r;
	c->rank = rank;
}

/* Parses `CALL... [if ...]` and gives each call the rule. */
static void parse_calls(char **w, uint32_t ret, int rank)
{
	struct rule r = { .ret = ret }, otherwise = { 0 };
	bool has_else = false;
	char **end = w;

	while (*end && !is(*end, "if"))
		end++;
	if (end == w)
		fail("no system call named");
	if (*end) {
		char **c = end;

		do {
			if (r.n_conds == CONDS_MAX)
				fail("more than %d conditions", CONDS_MAX);
			c = parse_cond(c + 1, &r.conds[r.n_conds++]);
		} while (is(*c, "and"));
		has_else = is(*c, "else");
		if (has_else) {
			if (!c[1] || c[2])
				fail("expected one action behind else");
			otherwise.ret = action_of(c[1]);
		}
	}
	for (; w < end; w++) {
		struct call *call = call_of(*w);

		add_rule(call, &r, rank);
		if (has_else)
			add_rule(call, &otherwise, rank);
	}
}

static void parse_file(const char *path, int rank);

static void parse_include(const char *from, const char *name, int rank)
{
	const char *slash = strrchr(from, '/');
	int dir_len = slash ? (int)(slash - from) + 1 : 0;
	char path[4096];
	int n;

	if (rank + RANK_STEP >= RANK_MAX)
		fail("includes nest too deep");
	n = snprintf(path, sizeof(path), "%.*s%s.policy", dir_len, from, name);
	if (n < 0 || (size_t)n >= sizeof(path))
		fail("name too long");
	parse_file(path, rank + RANK_STEP);
}

/* `default`, `known` or `foreign`; false if the word is none of them. */
static bool parse_setting(char **w)
{
	static const struct {
		const char *name;
		uint32_t *act;
		bool *has;
	} settings[] = {
		{ "default", &act_default, &has_default },
		{ "known", &act_known, &has_known },
		{ "foreign", &act_foreign, &has_foreign },
	};

	for (size_t i = 0; i < ARRAY_LEN(settings); i++) {
		if (strcmp(settings[i].name, w[0]) != 0)
			continue;
		if (!w[1] || w[2])
			fail("expected one action");
		*settings[i].act = action_of(w[1]);
		*settings[i].has = true;
		return true;
	}
	return false;
}

static void parse_line(const char *path, char **w, int rank)
{
	if (is(w[0], "sanitized")) {
		if (!w[1])
			fail("nothing behind sanitized");
		if (sanitized)
			parse_line(path, w + 1, rank - 1);
	} else if (is(w[0], "include")) {
		if (!w[1] || w[2])
			fail("expected one name");
		parse_include(path, w[1], rank);
	} else if (is(w[0], "allow")) {
		parse_calls(w + 1, SECCOMP_RET_ALLOW, rank);
	} else if (is(w[0], "deny")) {
		if (!w[1])
			fail("expected an action");
		parse_calls(w + 2, action_of(w[1]), rank);
	} else if (is(w[0], "return") && is(w[1], "0")) {
		parse_calls(w + 2, SECCOMP_RET_ERRNO | 0, rank);
	} else if (!parse_setting(w)) {
		fail("unknown statement `%s`", w[0]);
	}
}

static void parse_file(const char *path, int rank)
{
	const char *outer_file = cur_file;
	int outer_line = cur_line;
	char line[1024];
	FILE *f = fopen(path, "re");

	if (!f)
		fail("open %s: %s", path, strerror(errno));
	cur_file = path;
	cur_line = 0;
	while (fgets(line, sizeof(line), f)) {
		char *words[WORDS_MAX + 1] = { 0 };
		size_t n = 0;

		cur_line++;
		if (!strchr(line, '\n'))
			fail("line too long, or no newline at its end");
		line[strcspn(line, "#\n")] = '\0';
		for (char *s = line, *p; (p = strtok_r(s, " \t", &s));) {
			if (n == WORDS_MAX)
				fail("more than %d words", WORDS_MAX);
			words[n++] = p;
		}
		if (n)
			parse_line(path, words, rank);
	}
	if (ferror(f))
		fail("read: %s", strerror(errno));
	fclose(f);
	cur_file = outer_file;
	cur_line = outer_line;
}

/* ---- code ---- */

/*
 * From the end to the beginning: a jump only leads forward, so whatever it can
 * lead to is there already. A place is the number of instructions behind and
 * with it. Nothing falls through to what follows but a load to its test, so
 * that an end which many share is needed once: the shorter a filter, the
 * faster it is installed, and each process of a sandbox waits for that.
 */
static struct sock_filter code[CODE_MAX];
static char notes[CODE_MAX][96];
static size_t code_len;

static size_t __attribute__((format(printf, 3, 4)))
emit(unsigned op, uint32_t k, const char *fmt, ...)
{
	va_list ap;

	if (code_len == CODE_MAX)
		fail("more than %d instructions", CODE_MAX);
	code[code_len].code = (uint16_t)op;
	code[code_len].k = k;
	va_start(ap, fmt);
	vsnprintf(notes[code_len], sizeof(notes[0]), fmt, ap);
	va_end(ap);
	return ++code_len;
}

/* A conditional jump has a byte for each way; with what may come between. */
static bool in_reach(size_t place)
{
	return code_len - place < UINT8_MAX - 2;
}

static size_t near(size_t place)
{
	if (in_reach(place))
		return place;
	return emit(BPF_JMP | BPF_JA, (uint32_t)(code_len - place), "far");
}

static size_t emit_if(unsigned op, uint32_t k, size_t yes, size_t no)
{
	struct sock_filter *insn;
	size_t at;

	yes = near(yes);
	no = near(no);
	at = emit(BPF_JMP | op | BPF_K, k, "%s 0x%x",
		  op == BPF_JEQ ? "==" : ">=", k);
	insn = &code[at - 1];
	insn->jt = (uint8_t)(at - 1 - yes);
	insn->jf = (uint8_t)(at - 1 - no);
	return at;
}

static struct {
	uint32_t ret;
	size_t place;
} ends[32];

/* Where this is returned: the last such place, or a new one. */
static size_t end_in(uint32_t ret)
{
	size_t i = 0;

	while (i < ARRAY_LEN(ends) && ends[i].place && ends[i].ret != ret)
		i++;
	if (i == ARRAY_LEN(ends))
		fail("more than %zu actions", ARRAY_LEN(ends));
	if (!ends[i].place || !in_reach(ends[i].place)) {
		ends[i].ret = ret;
		ends[i].place = emit(BPF_RET | BPF_K, ret, "end");
	}
	return ends[i].place;
}

/* One half of an argument, which has to be one of the values. */
static size_t emit_half(const struct cond *c, bool high, size_t yes, size_t no)
{
	uint32_t off = (uint32_t)offsetof(struct seccomp_data, args) +
		       8 * (uint32_t)c->arg + (high != big_endian ? 4 : 0);
	uint32_t mask = (uint32_t)(high ? c->mask >> 32 : c->mask);

	for (size_t i = c->n_values; i > 0; i--) {
		uint64_t v = c->values[i - 1];

		no = emit_if(BPF_JEQ, (uint32_t)(high ? v >> 32 : v), yes, no);
	}
	if (mask != UINT32_MAX)
		emit(BPF_ALU | BPF_AND | BPF_K, mask, "mask");
	return emit(BPF_LD | BPF_W | BPF_ABS, off, "arg%d%s", c->arg,
		    high ? " high" : "");
}

/* The high half only of a wide one, which has one value. */
static size_t emit_cond(const struct cond *c, size_t yes, size_t no)
{
	bool ne = c->op == OP_NE;
	size_t equal = ne ? no : yes, other = ne ? yes : no;

	equal = emit_half(c, false, equal, other);
	return c->wide ? emit_half(c, true, equal, other) : equal;
}

static size_t emit_block(const struct call *c)
{
	size_t next = 0;

	for (size_t i = c->n_rules; i > 0; i--) {
		const struct rule *r = &c->rules[i - 1];
		size_t at = end_in(r->ret);

		for (size_t k = r->n_conds; k > 0; k--)
			at = emit_cond(&r->conds[k - 1], at, next);
		next = at;
	}
	return next;
}

/* A run of numbers that end alike: in one action, or in one call's block. */
struct span {
	uint32_t first;
	uint32_t ret;
	const struct call *block; /* or NULL */
	size_t place;             /* of the block */
};
static struct span spans[NR_MAX + 1];
static size_t n_spans;

static void find_spans(void)
{
	for (uint32_t nr = 0; nr < NR_MAX; nr++) {
		const struct call *c = &calls[nr];
		struct span s = { .first = nr };
		struct span *last = n_spans ? &spans[n_spans - 1] : NULL;

		if (c->n_rules && c->rules[c->n_rules - 1].n_conds)
			fail("`%s`: the last rule must match always", c->name);
		if (c->n_rules > 1)
			s.block = c;
		else if (c->n_rules == 1)
			s.ret = c->rules[0].ret;
		else
			s.ret = c->name ? act_known : act_default;
		if (!last || s.block || last->block || last->ret != s.ret)
			spans[n_spans++] = s;
	}
}

static size_t span_place(const struct span *s)
{
	return s->block ? s->place : end_in(s->ret);
}

/* One number among others that end alike. */
static bool is_lone(const struct span *s)
{
	return !s[0].block && !s[2].block && s[0].ret == s[2].ret &&
	       s[1].first + 1 == s[2].first;
}

/* The search among spans[lo..hi). */
static size_t emit_search(size_t lo, size_t hi)
{
	size_t mid = lo + (hi - lo) / 2, upper, lower;
	const struct span *s = &spans[lo];

	if (hi - lo == 1)
		return span_place(s);
	if (hi - lo == 3 && is_lone(s)) {
		upper = span_place(&s[1]);
		lower = span_place(s);
		return emit_if(BPF_JEQ, s[1].first, upper, lower);
	}
	upper = emit_search(mid, hi);
	lower = emit_search(lo, mid);
	return emit_if(BPF_JGE, spans[mid].first, upper, lower);
}

static void compile(void)
{
	size_t at;

	find_spans();
	end_in(act_default); /* a program has to end in such */
	for (size_t i = 0; i < n_spans; i++)
		if (spans[i].block)
			spans[i].place = emit_block(spans[i].block);
	at = emit_search(0, n_spans);
	emit_if(BPF_JGE, foreign_bit, end_in(act_foreign), at);
	at = emit(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr),
		  "nr");
	emit_if(BPF_JEQ, native_arch, at, end_in(act_foreign));
	emit(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch),
	     "arch");
}

int main(int argc, char **argv)
{
	sanitized = argc == 3 && strcmp(argv[1], "-s") == 0;
	if (argc != 2 && !sanitized) {
		fprintf(stderr, "usage: mkfilter [-s] FILE.policy\n");
		return 2;
	}
	calls_init();
	parse_file(argv[argc - 1], 0);
	cur_file = argv[argc - 1];
	if (!has_default || !has_known || !has_foreign)
		fail("`default`, `known` and `foreign` must all be set");
	compile();
	printf("/* Made by tools/mkfilter from %s: %zu instructions. */\n",
	       argv[argc - 1], code_len);
	for (size_t i = code_len; i > 0; i--)
		printf("{ 0x%02x, %u, %u, 0x%08x }, /* %zu: %s */\n",
		       code[i - 1].code, code[i - 1].jt, code[i - 1].jf,
		       code[i - 1].k, code_len - i, notes[i - 1]);
	if (fflush(stdout) || ferror(stdout)) {
		fprintf(stderr, "mkfilter: cannot write the output\n");
		return 1;
	}
	return 0;
}
