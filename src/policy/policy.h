/*
 * Policies: what a sandbox may reach. A list of rules; the first that matches
 * decides, and what none matches is denied. One form for people:
 *
 *	# comment
 *	allow  GET,HEAD  https://api.example.com/repos/acme*
 *	ask    *         https://api.example.com
 *	allow  *         *.example.org
 *	allow  tcp       db.internal:5432
 *	deny   *
 *	private 10.0.0.0/8, db.internal
 *	budget requests 500/h, rate 5/s, up 20MB, down 2GB, connections 20
 *	budget api.example.com requests 100/h, tokens 2M, cost 5.00
 *	over   ask
 *	model  api.example.com openai
 *	require tier microvm
 *
 * and one for programs, JSON with the same words (policy_from_json()).
 *
 * A target is [SCHEME://]HOST[:PORT][/PATH]. Without a scheme it is http and
 * https; without a port the scheme's own, `:*` is any; without a path any. HOST
 * is a name, `*.NAME` (what is below it, not it itself), `.NAME` (both), `*`,
 * an address ([...] for IPv6), or a network, [ADDRESS/BITS]. In PATH a `*` is
 * any run of characters; it is compared with the decoded path, without the
 * query. A bare `*` is everything there is.
 *
 * A rule that denies an address or a network counts for names, too, when they
 * turn out to have such an address; one that allows is about those who ask for
 * the address itself. A network that is allowed opens no private place.
 *
 * `private` names networks, addresses and hosts that rules may reach although
 * they are nobody's business from outside. `budget` is of the sandbox, or of
 * one HOST; `over` says what happens at its end. `model` marks a host whose
 * answers are counted in tokens. `require` says what a sandbox must be to have
 * the policy.
 */
#pragma once

#include <jansson.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "policy/network.h"

enum {
	POLICY_TEXT_MAX = 64 * 1024,
	POLICY_RULES_MAX = 512,
	POLICY_HOST_CAP = 254,
	POLICY_PATH_CAP = 512,
	POLICY_PRIVATE_MAX = 64,
	POLICY_BUDGETS_MAX = 15, /* of single hosts */
	POLICY_MODELS_MAX = 16,
};

enum effect { EFFECT_DENY, EFFECT_ALLOW, EFFECT_ASK, EFFECTS };
const char *effect_name(enum effect e);

/* Bits; a request has one of them. */
enum scheme {
	SCHEME_HTTP = 1,
	SCHEME_HTTPS = 2,
	SCHEME_TCP = 4,
	SCHEME_WEB = SCHEME_HTTP | SCHEME_HTTPS,
	SCHEME_ALL = SCHEME_WEB | SCHEME_TCP,
};

enum host_kind {
	HOST_ANY,
	HOST_NAME,
	HOST_BELOW,
	HOST_TREE,
	HOST_ADDRESS,
	HOST_NETWORK,
};

enum { PORT_USUAL = 0, PORT_ANY = 0x10000 }; /* else a port */

struct rule {
	enum effect effect;
	unsigned line;    /* in the text; from JSON, its place in the list */
	unsigned schemes; /* enum scheme */
	unsigned methods; /* of method_bit(); 0: any */
	enum host_kind kind;
	uint32_t port;
	size_t host_n;              /* bytes of host */
	char host[POLICY_HOST_CAP]; /* small letters, without "*." or "." */
	struct network network;     /* of an address or a network */
	char path[POLICY_PATH_CAP]; /* "": any */
};

/* HOST of a line that is no rule: a name, `*.NAME`, `.NAME`, or an address. */
struct host_pattern {
	enum host_kind kind; /* never HOST_ANY or HOST_NETWORK */
	char host[POLICY_HOST_CAP];
};
bool host_pattern_fits(const struct host_pattern *p, const char *host);
/* As it is written; each has one spelling. */
void host_pattern_print(const struct host_pattern *p, struct buf *out);

/* 0: no limit. */
struct budget {
	uint64_t requests, per_ms; /* so many in so long; per_ms 0: in all */
	uint64_t rate, rate_ms;    /* the same for short times */
	uint64_t up_bytes, down_bytes;
	uint64_t connections; /* at once */
	uint64_t tokens;      /* of models, in and out together */
	uint64_t cost_micro;  /* of models; millionths */
};

struct host_budget {
	struct host_pattern host;
	struct budget budget;
};

/* "requests 500/h, up 20971520" */
void budget_print(const struct budget *b, struct buf *out);

/* What happens when a budget is used up. */
enum over { OVER_UNSAID, OVER_DENY, OVER_ASK, OVER_PAUSE, OVERS };
const char *over_name(enum over o);

enum model_shape { MODEL_OPENAI, MODEL_ANTHROPIC, MODEL_SHAPES };
const char *model_shape_name(enum model_shape s);

struct host_model {
	struct host_pattern host;
	enum model_shape shape;
};

/* A network or a host. */
struct private_place {
	bool is_network;
	struct network network;
	struct host_pattern host;
};

/* Is this host, a name or an address, one of them? What a name will resolve to
 * is another question. */
bool private_names(const struct private_place *x, const char *host);

/* Zero-initialise. The arrays are owned. */
struct policy {
	struct rule *rules;
	size_t n;
	struct private_place *privates;
	size_t n_privates;
	struct budget budget;
	struct host_budget *budgets;
	size_t n_budgets;
	struct host_model *models;
	size_t n_models;
	enum over over;
	bool microvm; /* only for those of that tier */
};

void policy_done(struct policy *p);
/* `text` has `n` bytes. The error names the line and what would be right. */
int policy_parse(struct policy *p, const char *text, size_t n,
		 struct err *e) MUST_CHECK;
/* {"rules": [{"effect", "methods", "target"}], "budget": {...}, "budgets":
 * {HOST: {...}}, "over", "private": [...], "models": {HOST: SHAPE}, "require":
 * {"tier": "microvm"}} */
int policy_from_json(struct policy *p, const json_t *j,
		     struct err *e) MUST_CHECK;
/* Either form: what starts with a brace is JSON. */
bool policy_is_json(const char *text, size_t n);
int policy_read(struct policy *p, const char *text, size_t n,
		struct err *e) MUST_CHECK;
/* Does it allow whatever host there is? */
bool policy_is_open(const struct policy *p);
/* A new reference, that policy_from_json() makes the same policy of. */
json_t *policy_to_json(const struct policy *p);
/* The text, one rule a line. */
void policy_print(const struct policy *p, struct buf *out);
/* One rule as its line has it, without the end of line. */
void rule_print(const struct rule *r, struct buf *out);

struct request {
	enum scheme scheme;
	/* Small letters without a dot at the end; an address as host_read()
	 * makes it. */
	const char *host;
	uint16_t port;
	const char *method; /* NULL: not known yet (a tunnel) */
	const char *path;   /* decoded; NULL: not known yet */
};

enum verdict {
	VERDICT_DENY,
	VERDICT_ALLOW,
	VERDICT_ASK,
	VERDICT_LOOK, /* it depends on what is not known yet */
};

struct decision {
	enum verdict verdict;
	/* That decided, or made it necessary to look; NULL: none did. */
	const struct rule *rule;
};

struct decision policy_decide(const struct policy *p, const struct request *r);

/*
 * The same for several policies in a row: policy_try() each, until one is
 * true; what it found is in `rule`. Rules that may fit, but for what is not
 * known yet, are kept on the way: the first of them, and what they would say.
 */
struct trial {
	const struct rule *rule, *look;
	unsigned effects; /* bits: 1 << enum effect */
};
bool policy_try(const struct policy *p, const struct request *r,
		struct trial *t);
/* The same for a name that has this address; NULL: not known. */
bool policy_try_at(const struct policy *p, const struct request *r,
		   const struct in6_addr *a, struct trial *t);
/* After the last one. Looking is not necessary when all would say the same. */
struct decision trial_end(const struct trial *t);

/*
 * Could any request to this host (port 0: any port) be allowed or asked for?
 * Over several policies: `denied` is zero at first, and 0 is "not by these
 * rules, ask the next policy"; -1 is "never, whatever comes behind".
 */
struct denied {
	unsigned any_port, usual_port; /* enum scheme */
};
int policy_knows_host(const struct policy *p, const char *host, uint16_t port,
		      struct denied *denied);

/*
 * A host as it is compared: a name in small letters without the last dot, or
 * an address in its shortest form, without brackets. EINVAL for what is
 * neither (other characters, labels that are too long, "1.2.3" and other
 * spellings of addresses that some resolvers understand).
 */
int host_read(const char *s, size_t n, char out[POLICY_HOST_CAP],
	      bool *address) MUST_CHECK;

/*
 * An absolute URL of somebody who asks: host, port and path for a request. The
 * path is decoded, and refused when it could be read in two ways: "." and ".."
 * segments, encoded slashes, control characters.
 */
struct url {
	enum scheme scheme;
	char host[POLICY_HOST_CAP];
	uint16_t port;
	char path[POLICY_PATH_CAP * 4];
};
int url_read(struct url *u, const char *s, struct err *e) MUST_CHECK;

/* The bit of a method that rules may name; 0: it has none. */
unsigned method_bit(const char *s, size_t n);
/* The n-th of those methods, or NULL; its bit is 1 << n. */
const char *method_name(unsigned n);
/* Does a pattern with '*' match this decoded path? */
bool path_matches(const char *pattern, const char *path);
