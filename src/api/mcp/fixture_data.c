/* The resources and prompts of the conformance suite. */
#include <stdio.h>
#include <string.h>

#include "api/mcp/fixture.h"
#include "api/mcp/rpc.h"
#include "base/auto.h"
#include "base/buf.h"

static const char *text_of(const json_t *object, const char *name)
{
	const char *s = json_string_value(json_object_get(object, name));

	return s ? s : "";
}

/* The answer is written down; `text` is of ours. */
static void reply(struct mcp_call *c, const char *text)
{
	mcp_reply(c, json_loads(text, 0, NULL));
}

/* --- resources --- */

static void resources_list(struct mcp_call *c, const json_t *params)
{
	(void)params;
	reply(c, "{\"resources\": ["
		 "{\"uri\": \"test://static-text\", \"name\": \"static-text\", "
		 "\"description\": \"A text\", \"mimeType\": \"text/plain\"}, "
		 "{\"uri\": \"test://static-binary\", \"name\": "
		 "\"static-binary\", \"description\": \"An image\", "
		 "\"mimeType\": \"image/png\"}, "
		 "{\"uri\": \"test://watched-resource\", \"name\": "
		 "\"watched-resource\", \"description\": \"Can be subscribed "
		 "to\", \"mimeType\": \"text/plain\"}]}");
}

static void resources_templates(struct mcp_call *c, const json_t *params)
{
	(void)params;
	reply(c, "{\"resourceTemplates\": [{\"uriTemplate\": "
		 "\"test://template/{id}/data\", \"name\": \"template\", "
		 "\"description\": \"Data by its id\", \"mimeType\": "
		 "\"application/json\"}]}");
}

static json_t *content(const char *uri, const char *type, const char *key,
		       const char *value)
{
	return json_pack("{s:[{s:s, s:s, s:s}]}", "contents", "uri", uri,
			 "mimeType", type, key, value);
}

/* "test://template/{id}/data"; false: it is not. */
static bool read_template(struct mcp_call *c, const char *uri)
{
	static const char prefix[] = "test://template/";
	char id[32], text[128];
	size_t n;

	if (strncmp(uri, prefix, sizeof(prefix) - 1) != 0)
		return false;
	n = strspn(uri + sizeof(prefix) - 1, "0123456789");
	if (n == 0 || n >= sizeof(id) ||
	    strcmp(uri + sizeof(prefix) - 1 + n, "/data") != 0)
		return false;
	memcpy(id, uri + sizeof(prefix) - 1, n);
	id[n] = '\0';
	snprintf(text, sizeof(text),
		 "{\"id\":\"%s\",\"templateTest\":true,\"data\":\"Data for ID: "
		 "%s\"}",
		 id, id);
	mcp_reply(c, content(uri, "application/json", "text", text));
	return true;
}

static void resources_read(struct mcp_call *c, const json_t *params)
{
	const char *uri = text_of(params, "uri");

	if (strcmp(uri, "test://static-text") == 0)
		mcp_reply(c, content(uri, "text/plain", "text",
				     "This is the content of the static text "
				     "resource."));
	else if (strcmp(uri, "test://static-binary") == 0)
		mcp_reply(c, content(uri, "image/png", "blob", FIXTURE_PNG));
	else if (strcmp(uri, "test://watched-resource") == 0)
		mcp_reply(c, content(uri, "text/plain", "text", "Watched."));
	else if (!read_template(c, uri))
		mcp_fail(c, RPC_NOT_FOUND, "there is no such resource");
}

/* Nothing of it ever changes. */
static void subscribe(struct mcp_call *c, const json_t *params)
{
	if (strcmp(text_of(params, "uri"), "test://watched-resource") == 0)
		mcp_reply(c, json_object());
	else
		mcp_fail(c, RPC_NOT_FOUND, "there is no such resource");
}

/* --- prompts --- */

static void prompts_list(struct mcp_call *c, const json_t *params)
{
	(void)params;
	reply(c,
	      "{\"prompts\": ["
	      "{\"name\": \"test_simple_prompt\", \"description\": \"Text\"}, "
	      "{\"name\": \"test_prompt_with_arguments\", \"description\": "
	      "\"Text with two words of yours\", \"arguments\": [{\"name\": "
	      "\"arg1\", \"description\": \"First test argument\", "
	      "\"required\": true}, {\"name\": \"arg2\", \"description\": "
	      "\"Second test argument\", \"required\": true}]}, "
	      "{\"name\": \"test_prompt_with_embedded_resource\", "
	      "\"description\": \"A resource\", \"arguments\": [{\"name\": "
	      "\"resourceUri\", \"description\": \"URI of the resource\", "
	      "\"required\": true}]}, "
	      "{\"name\": \"test_prompt_with_image\", \"description\": \"An "
	      "image\"}]}");
}

static void reply_messages(struct mcp_call *c, json_t *first, const char *then)
{
	json_t *list = json_array();

	json_array_append_new(list, json_pack("{s:s, s:o}", "role", "user",
					      "content", first));
	if (then)
		json_array_append_new(list,
				      json_pack("{s:s, s:{s:s, s:s}}", "role",
						"user", "content", "type",
						"text", "text", then));
	mcp_reply(c, json_pack("{s:o}", "messages", list));
}

static json_t *text_content(const char *text)
{
	return json_pack("{s:s, s:s}", "type", "text", "text", text);
}

static void with_arguments(struct mcp_call *c, const json_t *args)
{
	AUTO(buf_done) struct buf b = { 0 };

	buf_printf(&b, "Prompt with arguments: arg1='%s', arg2='%s'",
		   text_of(args, "arg1"), text_of(args, "arg2"));
	reply_messages(c, text_content(buf_str(&b)), NULL);
}

static void prompts_get(struct mcp_call *c, const json_t *params)
{
	const json_t *args = json_object_get(params, "arguments");
	const char *name = text_of(params, "name");

	if (strcmp(name, "test_simple_prompt") == 0)
		reply_messages(
			c, text_content("This is a simple prompt for testing."),
			NULL);
	else if (strcmp(name, "test_prompt_with_arguments") == 0)
		with_arguments(c, args);
	else if (strcmp(name, "test_prompt_with_embedded_resource") == 0)
		reply_messages(
			c,
			json_pack("{s:s, s:{s:s, s:s, s:s}}", "type",
				  "resource", "resource", "uri",
				  text_of(args, "resourceUri"), "mimeType",
				  "text/plain", "text",
				  "Embedded resource content for testing."),
			"Please process the embedded resource above.");
	else if (strcmp(name, "test_prompt_with_image") == 0)
		reply_messages(c,
			       json_pack("{s:s, s:s, s:s}", "type", "image",
					 "data", FIXTURE_PNG, "mimeType",
					 "image/png"),
			       "Please analyze the image above.");
	else
		mcp_fail(c, RPC_BAD_PARAMS, "there is no such prompt");
}

static void complete(struct mcp_call *c, const json_t *params)
{
	(void)params;
	mcp_reply(c, json_pack("{s:{s:[], s:i, s:b}}", "completion", "values",
			       "total", 0, "hasMore", 0));
}

const struct mcp_method mcp_fixture_methods[] = {
	{ "resources/list", resources_list },
	{ "resources/templates/list", resources_templates },
	{ "resources/read", resources_read },
	{ "resources/subscribe", subscribe },
	{ "resources/unsubscribe", subscribe },
	{ "prompts/list", prompts_list },
	{ "prompts/get", prompts_get },
	{ "completion/complete", complete },
	{ 0 },
};
