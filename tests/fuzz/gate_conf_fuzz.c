/*
 * Files that the gate reads: resolv.conf, hosts and the setting beside them,
 * and the prices of models. The first byte chooses; the parts of the former
 * have a NUL between them.
 */
#include <assert.h>

/* The program's files are not in the library. */
#include "gate/address.c"
#include "gate/model.c"
#include "gate/prices.c"
#include "gate/usage.c"
/* A name that two files have. */
#define add_host resolve_add_host
#include "gate/resolve_conf.c"
#undef add_host

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void resolving(char *text, size_t n)
{
	const char *part[3] = { "", "", "" };
	char *at = text, *end = text + n;
	struct resolve_conf c;
	struct err e = { 0 };
	size_t i;

	for (i = 0; i < 3 && at < end; i++, at += strlen(at) + 1)
		part[i] = at;
	if (resolve_conf_read(&c, part[0], part[1], part[2], &e) < 0) {
		assert(e.code == EINVAL && c.n_hosts == 0 && !c.hosts);
		return;
	}
	assert(c.n_servers >= 1 && c.n_servers <= RESOLVE_SERVERS);
	for (i = 0; i < c.n_servers; i++)
		assert(c.servers[i].port > 0);
	for (i = 0; i < c.n_hosts; i++) {
		char again[POLICY_HOST_CAP];
		bool address;

		assert(host_read(c.hosts[i].host, strlen(c.hosts[i].host),
				 again, &address) == 0);
		assert(!address && strcmp(again, c.hosts[i].host) == 0);
	}
	resolve_conf_done(&c);
}

static void models(const char *text, size_t n)
{
	const uint64_t many = 1 << 30;
	struct prices *p = NULL;
	struct err e = { 0 };
	uint64_t one = 0, dearest = 0;
	size_t i;

	if (prices_parse(&p, text, n, &e) < 0) {
		assert(e.code && *e.msg);
		return;
	}
	for (i = 0; i < p->n; i++) {
		assert(prices_cost(p, "", many, many, &dearest));
		if (prices_cost(p, p->v[i].pattern, many, many, &one))
			assert(one <= dearest);
	}
	for (i = 0; i < p->n_hosts; i++)
		assert(p->hosts[i].shape < MODEL_SHAPES);
	(void)prices_host(p, "api.example.com");
	prices_free(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	char *text;

	if (n < 1)
		return 0;
	text = malloc(n);
	memcpy(text, data + 1, n - 1);
	text[n - 1] = '\0';
	if (data[0] == 'r')
		resolving(text, n - 1);
	else
		models(text, n - 1);
	free(text);
	return 0;
}
