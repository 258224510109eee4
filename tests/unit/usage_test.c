/* Transcripts as model APIs make them, split at every byte. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "gate/model.h"

typedef void read_fn(struct usage_reader *r, const void *p, size_t n);

/* The same whatever the pieces are: whole, cut in two anywhere, byte by byte.
 */
static struct usage read_all(read_fn *fn, const char *text)
{
	struct usage_reader whole = { 0 }, bytes = { 0 };
	size_t n = strlen(text), i, wrong = 0;

	fn(&whole, text, n);
	for (i = 0; i < n; i++)
		fn(&bytes, text + i, 1);
	wrong += memcmp(&whole.found, &bytes.found, sizeof(whole.found)) != 0;
	for (i = 0; i <= n; i++) {
		struct usage_reader r = { 0 };

		fn(&r, text, i);
		fn(&r, text + i, n - i);
		wrong += memcmp(&whole.found, &r.found, sizeof(r.found)) != 0;
	}
	CHECK(wrong == 0);
	return whole.found;
}

static void test_requests(void)
{
	struct usage u = read_all(
		usage_request,
		"{\"messages\":[{\"role\":\"user\",\"content\":\"say "
		"\\\"max_tokens\\\":5 {\\\"model\\\":\\\"x\\\"}\","
		"\"max_tokens\":9}],\n \"model\" : \"small-2\", "
		"\"max_tokens\": 512 ,\"stream\":true,\"stream_options\":"
		"{\"include_usage\":true},\"n\":3}");

	CHECK_STR(u.model, "small-2");
	CHECK(u.max_tokens == 512 && u.choices == 3);
	CHECK(u.stream && u.include_usage);
	/* Another spelling of the same name, a second one, a lower one. */
	u = read_all(usage_request,
		     "{\"max_\\u0074okens\":7,\"max_tokens\":3,"
		     "\"metadata\":{\"max_tokens\":99,\"model\":\"no\"},"
		     "\"model\":\"b\\\\c\"}");
	CHECK(u.max_tokens == 7 && !u.stream);
	CHECK_STR(u.model, "b\\c");
	u = read_all(usage_request, "{\"max_completion_tokens\":1e9}");
	CHECK(u.max_tokens == 1 << 30);
	u = read_all(usage_request, "{\"max_output_tokens\":-5,\"stream\":"
				    "\"true\",\"n\":null}");
	CHECK(u.max_tokens == 0 && !u.stream && u.choices == 0);
	u = read_all(usage_request, "{\"max_tokens\":99999999999999999999999}");
	CHECK(u.max_tokens == 1 << 30);
	u = read_all(usage_request, "{\"Max_Tokens\":8,\"MODEL\":\"m\"}");
	CHECK(u.max_tokens == 8);
	CHECK_STR(u.model, "m");
	/* Which of them the server takes is unknown. */
	u = read_all(usage_request, "{\"model\":\"dear\",\"Model\":\"cheap\"}");
	CHECK(u.torn && !*u.model);
	u = read_all(usage_request, "{\"model\":\"a\",\"model\":\"a\","
				    "\"background\":true}");
	CHECK(!u.torn && u.background);
	CHECK_STR(u.model, "a");
	u = read_all(usage_request, "[{\"max_tokens\":4}]");
	CHECK(u.max_tokens == 0);
	u = read_all(usage_request, "]]}}\"\\u12\"{{{{\"model\":");
	CHECK_STR(u.model, "");
}

static void test_documents(void)
{
	struct usage u = read_all(
		usage_answer,
		" {\"id\":\"c1\",\"object\":\"chat.completion\",\"choices\":[{"
		"\"message\":{\"role\":\"assistant\",\"content\":\"\\\"usage"
		"\\\":{\\\"completion_tokens\\\":1}\",\"usage\":{"
		"\"completion_tokens\":777}}}],\"usage\":{\"prompt_tokens\":57,"
		"\"completion_tokens\":40,\"total_tokens\":97,"
		"\"prompt_tokens_details\":{\"cached_tokens\":5}}}\n");

	CHECK(u.counted && u.final && u.pieces == 1);
	CHECK_STR(u.model, "");
	CHECK(u.tokens_in == 57 && u.tokens_out == 40 && u.tokens_cached == 0);
	u = read_all(usage_answer,
		     "{\"output\":[],\"usage\":{\"input_tokens\":11,"
		     "\"output_tokens\":22}}");
	CHECK(u.counted && u.tokens_in == 11 && u.tokens_out == 22);
	u = read_all(usage_answer,
		     "{\"type\":\"message\",\"content\":[{\"text\":\"hi\"}],"
		     "\"usage\":{\"input_tokens\":25,"
		     "\"cache_creation_input_tokens\":100,"
		     "\"cache_read_input_tokens\":300,\"output_tokens\":12}}");
	CHECK(u.tokens_in == 25 && u.tokens_out == 12 &&
	      u.tokens_cached == 300);
	u = read_all(usage_answer, "{\"error\":{\"message\":\"no\"}}");
	CHECK(!u.counted && u.pieces == 1);
	u = read_all(usage_answer, "");
	CHECK(!u.counted && u.pieces == 0);
}

static void test_streams(void)
{
	struct usage u = read_all(
		usage_answer,
		"data: {\"choices\":[{\"delta\":{\"content\":\"Hel\"}}],"
		"\"usage\":null}\n\n"
		": a comment\r\n"
		"data:{\"choices\":[{\"delta\":{\"content\":\"data: "
		"{}\"}}]}\r\n\r\n"
		"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,"
		"\"completion_tokens\":2}}\n\ndata: [DONE]\n\n");

	CHECK(u.counted && u.final && u.pieces == 4);
	CHECK(u.tokens_in == 9 && u.tokens_out == 2);
	u = read_all(
		usage_answer,
		"event: message_start\ndata: {\"type\":\"message_start\","
		"\"message\":{\"model\":\"m-1\",\"usage\":{\"input_tokens\":25,"
		"\"cache_read_input_tokens\":4,\"output_tokens\":1}}}\n\n"
		"event: content_block_delta\ndata: {\"type\":"
		"\"content_block_delta\",\"delta\":{\"text\":\"x\"}}\n\n"
		"event: message_delta\ndata: {\"type\":\"message_delta\","
		"\"usage\":{\"output_tokens\":15}}\n\n");
	CHECK(u.final && u.tokens_in == 25 && u.tokens_out == 15);
	CHECK(u.tokens_cached == 4 && u.pieces == 3);
	CHECK_STR(u.model, "m-1");
	/* The client went away before its end. */
	u = read_all(usage_answer,
		     "event: message_start\ndata: {\"message\":{\"usage\":{"
		     "\"input_tokens\":25,\"output_tokens\":1}}}\n\n");
	CHECK(u.counted && !u.final && u.tokens_out == 1);
	u = read_all(usage_answer,
		     "event: response.completed\ndata: {\"type\":"
		     "\"response.completed\",\"response\":{\"usage\":{"
		     "\"input_tokens\":3,\"output_tokens\":4}}}\n\n");
	CHECK(u.final && u.tokens_in == 3 && u.tokens_out == 4);
}

static struct model_tokens ask_cut(enum model_shape shape, const char *request,
				   const char *answer, int status, bool cut)
{
	struct model_use m = { .shape = shape, .cut = cut };

	model_request(&m, request, strlen(request));
	model_answer(&m, answer, strlen(answer));
	return model_used(&m, status);
}

static struct model_tokens ask(enum model_shape shape, const char *request,
			       const char *answer)
{
	return ask_cut(shape, request, answer, 200, false);
}

/* Answers that say nothing, or nonsense: what the request allowed, or as many
 * tokens as there are bytes for. */
static void test_unsaid(void)
{
	static const char *const unsaid[] = {
		"{\"choices\":[]}",
		"{\"usage\":null}",
		"{\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":null}}",
		"{\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":-5}}",
		"{\"usage\":{\"prompt_tokens\":-1,\"completion_tokens\":2}}",
		"\x1f\x8b",
	};
	struct model_tokens t;
	size_t i;

	for (i = 0; i < sizeof(unsaid) / sizeof(*unsaid); i++) {
		t = ask(MODEL_OPENAI, "{\"max_tokens\":70,\"n\":2}", unsaid[i]);
		CHECK(t.in >= 6 && t.out == 140);
		t = ask(MODEL_OPENAI, "{}", unsaid[i]);
		CHECK(t.in >= 1 && t.out == strlen(unsaid[i]) / 4 + 1);
	}
	/* A client that leaves a stream: the server may go on. */
	t = ask_cut(MODEL_OPENAI, "{\"max_tokens\":70}",
		    "data: {}\n\ndata: {}\n\n", 200, true);
	CHECK(t.out == 70);
	t = ask_cut(MODEL_ANTHROPIC, "{\"max_tokens\":70}",
		    "data: {\"message\":{\"usage\":{\"input_tokens\":8,"
		    "\"output_tokens\":1}}}\n\ndata: {}\n\n",
		    200, true);
	CHECK(t.in == 8 && t.out == 70);
	/* Without a request body no tokens are estimated. */
	t = ask(MODEL_OPENAI, "", "{\"data\":[]}");
	CHECK(t.in == 0 && t.out == 0);
}

static void test_model(void)
{
	struct model_use m = { 0 };
	struct model_tokens t = model_most(&m);

	CHECK(t.in == 0 && t.out == 0);
	model_request(&m, "{\"max_tokens\":100,\"n\":2}", 24);
	t = model_most(&m);
	CHECK(t.in == 7 && t.out == 200);
	t = ask(MODEL_ANTHROPIC, "{}",
		"{\"usage\":{\"input_tokens\":1,\"cache_read_input_tokens\":5,"
		"\"output_tokens\":2}}");
	CHECK(t.in == 6 && t.out == 2);
	/* An error, a list of models: nothing was used. */
	t = ask_cut(MODEL_OPENAI, "{\"max_tokens\":10}", "{\"error\":{}}", 400,
		    false);
	CHECK(t.in == 0 && t.out == 0);
	/* A stream that does not say. */
	t = ask(MODEL_OPENAI, "{\"stream\":true}",
		"data: {}\n\ndata: {}\n\ndata: {}\n\n");
	CHECK(t.in == 4 && t.out == 8);
	t = ask(MODEL_ANTHROPIC, "{\"stream\":true}",
		"data: {\"message\":{\"usage\":{\"input_tokens\":8,"
		"\"output_tokens\":1}}}\n\ndata: {}\n\ndata: {}\n\n");
	CHECK(t.in == 8 && t.out > 3);
}

static int parse(struct prices **p, const char *text, struct err *e)
{
	err_clear(e);
	return prices_parse(p, text, strlen(text), e);
}

static void test_prices(void)
{
	struct prices *p = NULL;
	struct err e = { 0 };
	uint64_t micro;
	static const char *const bad[] = {
		"host",
		"host a.test",
		"host a.test grpc",
		"host a..test openai",
		"model x in 1",
		"model x in one out 2",
		"model x in 1 out 2 more",
		"model x in 1001 out 2",
		"model x in 1.0.0 out 2",
		"model x in -1 out 2",
		"price x",
	};
	size_t i;

	CHECK(parse(&p,
		    "# prices\n\nhost api.test openai # main\n"
		    "host *.models.test anthropic\n"
		    "model small-* in 0.15 out 0.6\r\n"
		    "model big in 3 out 15\nmodel *mini* in 0 out 1",
		    &e) == 0);
	CHECK(prices_host(p, "api.test")->shape == MODEL_OPENAI);
	CHECK(prices_host(p, "eu.models.test")->shape == MODEL_ANTHROPIC);
	CHECK(!prices_host(p, "models.test") && !prices_host(p, "x.test"));
	CHECK(!prices_host(NULL, "api.test"));
	CHECK(prices_cost(p, "small-2", 1000000, 500000, &micro) &&
	      micro == 150000 + 300000);
	CHECK(prices_cost(p, "big", 1, 1, &micro) && micro == 3 + 15);
	CHECK(prices_cost(p, "", 1000000, 0, &micro) && micro == 3000000);
	CHECK(prices_cost(p, "a-mini-b", 1, 1, &micro) && micro == 1);
	CHECK(!prices_cost(p, "bigger", 1, 1, &micro) && micro == 0);
	CHECK(!prices_cost(NULL, "big", 1, 1, &micro));
	prices_free(p);
	for (i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		CHECK(parse(&p, bad[i], &e) < 0);
		CHECK(strncmp(e.msg, "line 1: ", 8) == 0);
	}
	err_clear(&e);
	CHECK(prices_read(&p, "/nonexistent/models", &e) == 0);
	prices_free(p);
}

int main(void)
{
	test_requests();
	test_documents();
	test_streams();
	test_model();
	test_unsaid();
	test_prices();
	return CHECK_DONE();
}
