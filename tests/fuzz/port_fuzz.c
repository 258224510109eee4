/*
 * Heads on their way into a sandbox and back (api/port_head.c). Whatever was
 * parsed, what is made of it must parse again, say the same about its body,
 * carry no secret of ours, and be one head and not two. The first byte
 * chooses request or answer and the way it came.
 */
#include "../../src/api/e2b/recognise.c"
#include "../../src/api/hosts.c"
#include "../../src/api/port_head.c"

#include <assert.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

void reply_error(struct api *a, struct http_conn *c, int status,
		 const char *word, const char *msg)
{
	(void)a;
	(void)c;
	(void)status;
	(void)word;
	(void)msg;
	abort();
}

static struct port_way way_of(uint8_t bits, const struct http_head *h)
{
	return (struct port_way){ .port = 8080,
				  .by_host = bits & 2,
				  .prefix = bits & 2 ? "" : "/v1/prefix",
				  .target = h && h->target ? h->target : "/",
				  .by_token = bits & 4,
				  .near = bits & 8,
				  .https = bits & 16,
				  .peer = bits & 32 ? "192.0.2.1" : "" };
}

static const char *const secret[] = { PORT_TOKEN_FIELD, "proxy-authorization",
				      "transfer-encoding", "keep-alive" };

static void check_inside(const struct http_head *was, const struct http_head *h,
			 const struct port_way *way)
{
	char token[PORT_TOKEN_CAP];
	unsigned i;

	assert(strcmp(h->method, was->method) == 0);
	assert(h->body == was->body && h->length == was->length);
	assert(h->minor == 1 && !h->expect_continue);
	for (i = 0; i < h->n_fields; i++) {
		const char *name = h->field[i].name;

		assert(strcasecmp(name, secret[0]) != 0);
		assert(strcasecmp(name, secret[1]) != 0);
		assert(strcasecmp(name, secret[3]) != 0);
		assert(way->by_token || strcasecmp(name, "authorization") != 0);
		assert(strcasecmp(name, "cookie") != 0 ||
		       port_cookie(h->field[i].value,
				   &(const char *){ NULL }) == 0);
	}
	assert(http_query(h, PORT_TOKEN, token, sizeof(token)) == 0);
}

static void fuzz_request(uint8_t bits, const char *p, size_t n)
{
	struct http_head was = { 0 }, h = { 0 };
	struct buf out = { 0 };
	struct port_way way;
	const char *why = "";

	if (http_parse_request(&was, p, n, &why) == 0) {
		way = way_of(bits, &was);
		port_request_head(&out, &was, &way);
		/* What is added may make it longer than we would take. */
		if (buf_len(&out) <= HTTP_HEAD_MAX &&
		    was.n_fields < HTTP_FIELDS_MAX - 6 &&
		    strlen(was.method) + strlen(was.target) < 4000) {
			int r = http_parse_request(&h, buf_data(&out),
						   buf_len(&out), &why);

			assert(r == 0 || r == -431 || r == -414);
			if (r == 0)
				check_inside(&was, &h, &way);
		}
		(void)port_cookie_counts(&was);
	}
	http_head_done(&was);
	http_head_done(&h);
	buf_done(&out);
}

static void fuzz_answer(uint8_t bits, const char *p, size_t n)
{
	struct port_way way = way_of(bits, NULL);
	struct http_field f[PORT_FIELDS];
	struct http_head h = { 0 };
	struct buf text = { 0 };
	const char *why = "";
	unsigned i;

	if (http_parse_response(&h, p, n, "GET", &why) == 0) {
		port_answer_fields(&h, &way, f, &text);
		for (i = 0; f[i].name; i++) {
			assert(i < PORT_FIELDS - 1);
			assert(http_is_token(f[i].name));
			assert(http_is_value(f[i].value));
			assert(strcasecmp(f[i].name, "content-length") != 0);
			assert(strcasecmp(f[i].name, secret[2]) != 0);
			assert(strcasecmp(f[i].name, "set-cookie") != 0 ||
			       strncmp(f[i].value, PRODUCT "_", 7) != 0);
		}
	}
	http_head_done(&h);
	buf_done(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *p = (const char *)data + 1;

	if (size < 1)
		return 0;
	if (data[0] & 1)
		fuzz_request(data[0], p, size - 1);
	else
		fuzz_answer(data[0], p, size - 1);
	return 0;
}
