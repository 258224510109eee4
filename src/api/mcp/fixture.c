/* The tools of the conformance suite. */
#include "api/mcp/fixture.h"

#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/mcp/stream.h"
#include "base/auto.h"

/* A WAV file without a sample. */
#define WAV "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA="

#define NO_ARGS "{\"type\": \"object\", \"additionalProperties\": false}"

/* --- answers that are always the same --- */

static const struct {
	const char *tool, *content;
} fixed[] = {
	{ "test_simple_text",
	  "[{\"type\": \"text\", \"text\": \"This is a simple text response "
	  "for testing.\"}]" },
	{ "test_image_content",
	  "[{\"type\": \"image\", \"data\": \"" FIXTURE_PNG
	  "\", \"mimeType\": \"image/png\"}]" },
	{ "test_audio_content", "[{\"type\": \"audio\", \"data\": \"" WAV
				"\", \"mimeType\": \"audio/wav\"}]" },
	{ "test_embedded_resource",
	  "[{\"type\": \"resource\", \"resource\": {\"uri\": "
	  "\"test://embedded-resource\", \"mimeType\": \"text/plain\", "
	  "\"text\": \"This is an embedded resource content.\"}}]" },
	{ "test_multiple_content_types",
	  "[{\"type\": \"text\", \"text\": \"Multiple content types test:\"}, "
	  "{\"type\": \"image\", \"data\": \"" FIXTURE_PNG
	  "\", \"mimeType\": \"image/png\"}, {\"type\": \"resource\", "
	  "\"resource\": {\"uri\": \"test://mixed-content-resource\", "
	  "\"mimeType\": \"application/json\", \"text\": "
	  "\"{\\\"test\\\":\\\"data\\\",\\\"value\\\":123}\"}}]" },
	{ "json_schema_2020_12_tool",
	  "[{\"type\": \"text\", \"text\": \"The arguments fit.\"}]" },
};

static void answer_fixed(struct mcp_call *c, const char *tool)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(fixed); i++)
		if (strcmp(fixed[i].tool, tool) == 0)
			mcp_content(c, json_loads(fixed[i].content, 0, NULL),
				    false);
}

#define FIXED(fn, tool)                                        \
	static void fn(struct mcp_call *c, const json_t *args) \
	{                                                      \
		(void)args;                                    \
		answer_fixed(c, tool);                         \
	}
FIXED(simple_text, "test_simple_text")
FIXED(image, "test_image_content")
FIXED(audio, "test_audio_content")
FIXED(embedded, "test_embedded_resource")
FIXED(mixed, "test_multiple_content_types")
FIXED(schema, "json_schema_2020_12_tool")

static void error_handling(struct mcp_call *c, const json_t *args)
{
	(void)args;
	mcp_error(c, "This tool intentionally returns an error for testing");
}

/* --- what takes a while --- */

enum { STEPS = 3, STEP_MS = 50, AWAY_MS = 500 };

struct slow {
	struct mcp_call *call;
	struct timer timer;
	unsigned step;
	void (*tell)(struct mcp_call *c, unsigned step);
};

static void slow_stop(struct mcp_call *c)
{
	struct slow *s = c->state;

	timer_del(&c->api->loop, &s->timer);
	free(s);
}

static void on_step(struct timer *t)
{
	struct slow *s = container_of(t, struct slow, timer);
	struct mcp_call *c = s->call;

	if (s->tell && s->step < STEPS) {
		s->tell(c, s->step++);
		timer_set(&c->api->loop, t, STEP_MS, on_step);
		return;
	}
	free(s);
	mcp_text(c, "Done.");
}

static void slow_start(struct mcp_call *c, uint64_t first_ms,
		       void (*tell)(struct mcp_call *c, unsigned step))
{
	struct slow *s = xcalloc(1, sizeof(*s));

	s->call = c;
	s->tell = tell;
	c->state = s;
	c->stop = slow_stop;
	timer_set(&c->api->loop, &s->timer, first_ms, on_step);
}

static void tell_log(struct mcp_call *c, unsigned step)
{
	static const char *const words[STEPS] = { "Tool execution started",
						  "Tool processing data",
						  "Tool execution completed" };

	mcp_log(c, MCP_INFO, words[step]);
}

static void logging(struct mcp_call *c, const json_t *args)
{
	(void)args;
	slow_start(c, 0, tell_log);
}

static void tell_progress(struct mcp_call *c, unsigned step)
{
	mcp_progress(c, step * 50.0, 100, NULL);
}

static void progress(struct mcp_call *c, const json_t *args)
{
	(void)args;
	slow_start(c, 0, tell_progress);
}

/* The answer comes when the client is back. */
static void reconnection(struct mcp_call *c, const json_t *args)
{
	(void)args;
	mcp_stream_pause(c->stream);
	slow_start(c, AWAY_MS, NULL);
}

/* --- what asks back --- */

static void on_sampled(struct mcp_call *c, const json_t *result,
		       const json_t *error)
{
	const json_t *content = json_object_get(result, "content");
	const json_t *text = json_object_get(content, "text");
	AUTO(buf_done) struct buf b = { 0 };

	if (error || !json_is_string(text)) {
		mcp_error(c, "The client did not answer with text.");
		return;
	}
	buf_printf(&b, "LLM response: %s", json_string_value(text));
	mcp_text(c, buf_str(&b));
}

static void sampling(struct mcp_call *c, const json_t *args)
{
	json_t *prompt = json_object_get(args, "prompt");
	json_t *params;

	if (!c->session->can_sample) {
		mcp_error(c, "The client does not support sampling.");
		return;
	}
	params = json_pack("{s:[{s:s, s:{s:s, s:O}}], s:i}", "messages", "role",
			   "user", "content", "type", "text", "text", prompt,
			   "maxTokens", 100);
	if (!mcp_ask(c, "sampling/createMessage", params, on_sampled))
		mcp_error(c, "The client takes no events.");
}

static void on_elicited(struct mcp_call *c, const json_t *result,
			const json_t *error)
{
	AUTO_FREE char *text = json_dumps(result, JSON_COMPACT);
	AUTO(buf_done) struct buf b = { 0 };

	if (error || !text) {
		mcp_error(c, "The client did not answer.");
		return;
	}
	buf_printf(&b, "Elicitation completed: %s", text);
	mcp_text(c, buf_str(&b));
}

static void elicit(struct mcp_call *c, const char *message, const char *wanted)
{
	json_t *params =
		json_pack("{s:s, s:o}", "message", message, "requestedSchema",
			  json_loads(wanted, 0, NULL));

	if (!c->session->can_elicit) {
		json_decref(params);
		mcp_error(c, "The client does not support elicitation.");
	} else if (!mcp_ask(c, "elicitation/create", params, on_elicited)) {
		mcp_error(c, "The client takes no events.");
	}
}

static void elicitation(struct mcp_call *c, const json_t *args)
{
	elicit(c, json_string_value(json_object_get(args, "message")),
	       "{\"type\": \"object\", \"properties\": {\"username\": "
	       "{\"type\": \"string\", \"description\": \"User's response\"}, "
	       "\"email\": {\"type\": \"string\", \"description\": \"User's "
	       "email address\"}}, \"required\": [\"username\", \"email\"]}");
}

static void defaults(struct mcp_call *c, const json_t *args)
{
	(void)args;
	elicit(c, "Please look at the defaults",
	       "{\"type\": \"object\", \"properties\": {"
	       "\"name\": {\"type\": \"string\", \"default\": \"John Doe\"}, "
	       "\"age\": {\"type\": \"integer\", \"default\": 30}, "
	       "\"score\": {\"type\": \"number\", \"default\": 95.5}, "
	       "\"status\": {\"type\": \"string\", \"enum\": [\"active\", "
	       "\"inactive\", \"pending\"], \"default\": \"active\"}, "
	       "\"verified\": {\"type\": \"boolean\", \"default\": true}}}");
}

static void enums(struct mcp_call *c, const json_t *args)
{
	(void)args;
	elicit(c, "Please choose",
	       "{\"type\": \"object\", \"properties\": {"
	       "\"untitledSingle\": {\"type\": \"string\", \"enum\": "
	       "[\"option1\", \"option2\", \"option3\"]}, "
	       "\"titledSingle\": {\"type\": \"string\", \"oneOf\": ["
	       "{\"const\": \"value1\", \"title\": \"First Option\"}, "
	       "{\"const\": \"value2\", \"title\": \"Second Option\"}]}, "
	       "\"legacyEnum\": {\"type\": \"string\", \"enum\": [\"opt1\", "
	       "\"opt2\", \"opt3\"], \"enumNames\": [\"Option One\", \"Option "
	       "Two\", \"Option Three\"]}, "
	       "\"untitledMulti\": {\"type\": \"array\", \"items\": {\"type\": "
	       "\"string\", \"enum\": [\"option1\", \"option2\", "
	       "\"option3\"]}}, "
	       "\"titledMulti\": {\"type\": \"array\", \"items\": {\"anyOf\": ["
	       "{\"const\": \"value1\", \"title\": \"First Choice\"}, "
	       "{\"const\": \"value2\", \"title\": \"Second Choice\"}]}}}}");
}

#define ONE_TEXT(name)                                    \
	"{\"type\": \"object\", \"properties\": {\"" name \
	"\": {\"type\": \"string\"}}, \"required\": [\"" name "\"]}"

#define TOOL(name, fn, schema) \
	{ name, name, "Of the conformance suite.", schema, MCP_READ_ONLY, fn }

const struct mcp_tool mcp_fixture_tools[] = {
	TOOL("test_simple_text", simple_text, NO_ARGS),
	TOOL("test_image_content", image, NO_ARGS),
	TOOL("test_audio_content", audio, NO_ARGS),
	TOOL("test_embedded_resource", embedded, NO_ARGS),
	TOOL("test_multiple_content_types", mixed, NO_ARGS),
	TOOL("test_tool_with_logging", logging, NO_ARGS),
	TOOL("test_error_handling", error_handling, NO_ARGS),
	TOOL("test_tool_with_progress", progress, NO_ARGS),
	TOOL("test_sampling", sampling, ONE_TEXT("prompt")),
	TOOL("test_elicitation", elicitation, ONE_TEXT("message")),
	TOOL("test_elicitation_sep1034_defaults", defaults, NO_ARGS),
	TOOL("test_elicitation_sep1330_enums", enums, NO_ARGS),
	TOOL("test_reconnection", reconnection, NO_ARGS),
	TOOL("json_schema_2020_12_tool", schema,
	     "{\"$schema\": \"https://json-schema.org/draft/2020-12/schema\", "
	     "\"type\": \"object\", \"$defs\": {\"address\": {\"type\": "
	     "\"object\", \"properties\": {\"street\": {\"type\": "
	     "\"string\"}, \"city\": {\"type\": \"string\"}}}}, "
	     "\"properties\": {\"name\": {\"type\": \"string\"}, \"address\": "
	     "{\"$ref\": \"#/$defs/address\"}}, \"additionalProperties\": "
	     "false}"),
	{ 0 },
};
