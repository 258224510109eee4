/*
 * Network options of an E2B client: whatever they are, they are refused or
 * become lines of policy that can be read, and open no private place. Headers
 * are within their limits, and no value of one is shown.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* The program's files are not in the library. */
#include "api/e2b/network.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check_rules(const json_t *rules)
{
	struct policy p = { 0 };
	struct buf text = { 0 };
	struct err e = { 0 };
	size_t i;

	for (i = 0; i < json_array_size(rules); i++) {
		const char *s = json_string_value(json_array_get(rules, i));

		assert(s && !strchr(s, '\n'));
		buf_printf(&text, "%s\n", s);
	}
	assert(policy_parse(&p, buf_data(&text), buf_len(&text), &e) == 0);
	assert(p.n == json_array_size(rules) && p.n_privates == 0);
	for (i = 0; i < p.n; i++)
		assert(p.rules[i].kind != HOST_ADDRESS);
	policy_done(&p);
	buf_done(&text);
}

static void check_headers(const json_t *network)
{
	struct e2b_headers h = { 0 };
	struct err e = { 0 };
	json_t *shown = e2b_network_shown(network);
	size_t i;

	if (e2b_network_headers(network, &h, &e) == 0) {
		assert(h.n <= SPEC_SECRETS_MAX);
		for (i = 0; i < h.n; i++)
			assert(json_string_length(h.all[i].value) > 0);
		assert(e2b_network_headers(shown, &h, &e) == 0);
		for (i = 0; i < h.n; i++)
			assert(strcmp(json_string_value(h.all[i].value),
				      "***") == 0);
	}
	json_decref(shown);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	json_t *network, *rules;
	struct err e = { 0 };

	if (n < 1)
		return 0;
	network = json_loadb((const char *)data + 1, n - 1, JSON_DECODE_ANY,
			     NULL);
	if (!network)
		return 0;
	rules = e2b_network_rules(network, data[0] & 1 ? json_false() : NULL,
				  data[0] & 2, &e);
	if (rules)
		check_rules(rules);
	check_headers(network);
	json_decref(rules);
	json_decref(network);
	return 0;
}
