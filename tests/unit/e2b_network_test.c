/* Network options of E2B, as lines of policy. */
#include "api/e2b/network.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "check.h"

static json_t *read_json(const char *text)
{
	json_t *j = json_loads(text, JSON_DECODE_ANY, NULL);

	CHECK(j != NULL);
	return j;
}

static void test_rules(void)
{
	static const struct {
		const char *network;
		int internet; /* -1: not said */
		bool web;
		const char *rules; /* lines; NULL: refused */
	} rows[] = {
		{ "{}", -1, true, "allow * *:*\n" },
		{ "{}", -1, false, "" },
		{ "{}", 1, false, "" },
		{ "{}", 0, true, "" },
		{ "{\"denyOut\": [\"0.0.0.0/0\"]}", -1, true, "" },
		{ "{\"allowOut\": [\"X.test\", \"*.y.test\"]}", 0, true,
		  "allow * x.test\nallow * *.y.test\n" },
		{ "{\"allowOut\": [\"x.test\"]}", -1, true, NULL },
		{ "{\"allowOut\": [\"x.test\"]}", -1, false,
		  "allow * x.test\n" },
		{ "{\"allowOut\": [\"192.0.2.1\"]}", -1, true,
		  "allow * [192.0.2.1/32]:*\nallow tcp [192.0.2.1/32]:*\n"
		  "allow * *:*\n" },
		{ "{\"denyOut\": [\"192.0.2.0/24\"]}", -1, true,
		  "deny * [192.0.2.0/24]:*\ndeny tcp [192.0.2.0/24]:*\n"
		  "allow * *:*\n" },
		{ "{\"allowOut\": [\"0.0.0.0/0\"],"
		  " \"denyOut\": [\"192.0.2.1\"]}",
		  -1, true,
		  "allow * *:*\ndeny * [192.0.2.1/32]:*\n"
		  "deny tcp [192.0.2.1/32]:*\n" },
		/* Not all of IPv4 for who means IPv6. */
		{ "{\"allowOut\": [\"::/0\"]}", 0, true, NULL },
		{ "{\"allowOut\": [\"::/64\"]}", 0, true, NULL },
		{ "{\"allowOut\": [\"2000::/3\"]}", 0, true,
		  "allow * [2000::/3]:*\nallow tcp [2000::/3]:*\n" },
		{ "{\"denyOut\": [\"::/0\"]}", -1, true, "" },
		{ "{\"denyOut\": [\"x.test\"]}", -1, true, NULL },
		{ "{\"allowOut\": \"x\"}", -1, true, NULL },
		{ "{\"allowOut\": [1]}", -1, true, NULL },
		{ "{\"allowOut\": [\"x.test\\nallow * *\"]}", 0, true, NULL },
		{ "{\"allowOut\": [\"x.test # \"]}", 0, true, NULL },
		{ "{\"allowOut\": [\"x.test:22\"]}", 0, true, NULL },
		{ "{\"allowOut\": [\"x.test/a\"]}", 0, true, NULL },
		{ "{\"allowOut\": [\"10.0.0.1/8\"]}", 0, true, NULL },
		{ "{\"egressProxy\": {\"address\": \"x:1\"}}", -1, true, NULL },
		{ "[]", -1, true, NULL },
	};
	size_t i, k;

	for (i = 0; i < ARRAY_LEN(rows); i++) {
		AUTO(buf_done) struct buf text = { 0 };
		json_t *network = read_json(rows[i].network);
		json_t *internet = rows[i].internet < 0
					   ? NULL
					   : json_boolean(rows[i].internet);
		struct err e = { 0 };
		json_t *rules =
			e2b_network_rules(network, internet, rows[i].web, &e);

		CHECK((rules == NULL) == (rows[i].rules == NULL));
		CHECK(rules || e.code == EINVAL);
		for (k = 0; k < json_array_size(rules); k++)
			buf_printf(&text, "%s\n",
				   json_string_value(json_array_get(rules, k)));
		if (rules && rows[i].rules)
			CHECK_STR(buf_str(&text), rows[i].rules);
		json_decref(rules);
		json_decref(internet);
		json_decref(network);
	}
}

static void test_headers(void)
{
	static const struct {
		const char *rules;
		const char *hosts; /* in their order; NULL: refused */
	} rows[] = {
		{ "{}", "" },
		{ "{\"X.test\": [{\"transform\": {\"headers\": {\"A\": "
		  "\"1\"}}}]}",
		  "x.test A=1 " },
		{ "{\"x.test\": [{\"transform\": {\"headers\": {\"A\": "
		  "\"1\"}}},"
		  "{\"transform\": {\"headers\": {\"a\": \"2\"}}}]}",
		  "x.test A=2 " },
		{ "{\"*.test\": [{\"transform\": {\"headers\": {\"A\": "
		  "\"1\"}}}],"
		  "\"b.test\": [{\"transform\": {\"headers\": {\"A\": "
		  "\"2\"}}}],"
		  "\"*.x.test\": [{\"transform\": {\"headers\": {\"A\": "
		  "\"3\"}}}]"
		  "}",
		  "b.test A=2 *.x.test A=3 *.test A=1 " },
		/* What the special one does not say must not be added. */
		{ "{\"*.test\": [{\"transform\": {\"headers\": {\"A\": "
		  "\"1\"}}}],"
		  "\"b.test\": [{\"transform\": {\"headers\": {\"B\": "
		  "\"2\"}}}]}",
		  NULL },
		{ "{\"*\": [{\"transform\": {\"headers\": {\"A\": \"1\"}}}]}",
		  NULL },
		{ "{\"x.test\": {}}", NULL },
		{ "{\"x.test\": [1]}", NULL },
		{ "{\"x.test\": [{\"transform\": {\"headers\": {\"A\": 1}}}]}",
		  NULL },
		{ "{\"x.test\": [{\"transform\": {\"headers\": {\"A\": \"1\","
		  "\"B\": \"1\", \"C\": \"1\", \"D\": \"1\", \"E\": \"1\"}}}]}",
		  NULL },
	};
	size_t i, k;

	for (i = 0; i < ARRAY_LEN(rows); i++) {
		AUTO(buf_done) struct buf text = { 0 };
		json_t *network =
			json_pack("{s:o}", "rules", read_json(rows[i].rules));
		struct e2b_headers h = { 0 };
		struct err e = { 0 };
		int r = e2b_network_headers(network, &h, &e);

		CHECK((r == 0) == (rows[i].hosts != NULL));
		for (k = 0; r == 0 && k < h.n; k++)
			buf_printf(&text, "%s %s=%s ", h.all[k].host,
				   h.all[k].field,
				   json_string_value(h.all[k].value));
		if (r == 0 && rows[i].hosts)
			CHECK_STR(buf_str(&text), rows[i].hosts);
		json_decref(network);
	}
}

static void test_shown(void)
{
	json_t *network = read_json(
		"{\"allowOut\": [\"x.test\"], \"rules\": {\"x.test\":"
		"[{\"transform\": {\"headers\": {\"A\": \"secret\"}}}]},"
		"\"egressProxy\": {\"password\": \"secret\"}}");
	json_t *shown = e2b_network_shown(network);
	char *text = json_dumps(shown, JSON_COMPACT);

	CHECK(strstr(text, "x.test") != NULL);
	CHECK(strstr(text, "secret") == NULL);
	CHECK(strstr(text, "\"A\":\"***\"") != NULL);
	free(text);
	json_decref(shown);
	json_decref(network);
}

int main(void)
{
	test_rules();
	test_headers();
	test_shown();
	return CHECK_DONE();
}
