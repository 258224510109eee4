/*
 * What a registry and its token server say: heads line by line, bodies, and
 * tokens. The first byte chooses. Nothing of it gets longer than its place,
 * and only what can stand in a field becomes a token.
 */
#include <assert.h>

/* The program's files are not in the library. */
#include "fetch/auth.c"
#include "fetch/challenge.c"
#include "fetch/http.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static int sink(void *ctx, const void *p, size_t n)
{
	(void)p;
	*(size_t *)ctx += n;
	return n > 0 && *(const char *)p == '!' ? -EPIPE : 0;
}

/* Lines as libcurl gives them; what is behind an empty one is the body. */
static void answer(uint8_t kind, const char *p, size_t n)
{
	size_t passed = 0, took = 1;
	struct exchange x = { .method = "GET", .offset = kind >> 4 };
	bool body = false;

	if (kind & 1) {
		x.sink = sink;
		x.ctx = &passed;
	}
	while (n > 0 && took > 0) {
		const char *nl = memchr(p, '\n', n);
		size_t len = nl && !body ? (size_t)(nl - p) + 1 : n;
		char *line = malloc(len + 1);

		memcpy(line, p, len);
		line[len] = '\0';
		took = body ? on_body(line, 1, len, &x)
			    : on_line(line, 1, len, &x);
		assert(took == len || took == 0);
		body |= len <= 2;
		free(line);
		p += len;
		n -= len;
	}
	assert(memchr(x.location, '\0', sizeof(x.location)));
	assert(memchr(x.challenge, '\0', sizeof(x.challenge)));
	assert(memchr(x.range, '\0', sizeof(x.range)));
	assert(memchr(x.type, '\0', sizeof(x.type)));
	assert(x.passed <= passed && buf_len(&x.text) <= TEXT_MAX);
	exchange_done(&x);
}

static void token(const char *p, size_t n)
{
	struct session s = { 0 };
	struct exchange x = { .method = "GET" };
	struct err e = { 0 };
	const char *c;

	buf_add(&x.text, p, n);
	if (take_token(&s, &x, &e) == 0) {
		c = buf_str(&s.authorization);
		assert(strncmp(c, "Bearer ", 7) == 0 && c[7]);
		for (c += 7; *c; c++)
			assert(*c > ' ' && *c <= '~');
	} else {
		assert(e.code == EREMOTEIO);
	}
	exchange_done(&x);
	buf_done(&s.authorization);
}

static bool place_is_none(const char *url)
{
	struct place p;
	bool none = place_of(&p, url) < 0;

	place_done(&p);
	return none;
}

/* Whom it would be asked of: only who is listed. */
static void places(const char *url)
{
	static char registries[] = "a.example", insecure[] = "b.example:5000";
	static const struct policy policy = { .registries = registries,
					      .insecure = insecure };
	struct web w = { .policy = &policy };
	struct challenge c;
	struct place p;
	struct err e = { 0 };

	if (place_of(&p, url) == 0 && check_place(&w, &p, &e) == 0)
		assert(strcasecmp(p.host, "a.example") == 0 ||
		       strcasecmp(p.host, "b.example") == 0);
	place_done(&p);
	assert(web_same_origin(url, url) || place_is_none(url));
	if (challenge_find(url, "Bearer", &c)) {
		char out[URL_MAX];
		struct session s = { .repository = "a/b" };

		s.web.curl = curl_easy_init();
		if (token_url(&s, &c, out, &e) == 0)
			assert(strncmp(out, c.realm, strlen(c.realm)) == 0);
		curl_easy_cleanup(s.web.curl);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	char *text;

	if (n < 1)
		return 0;
	text = malloc(n);
	memcpy(text, data + 1, n - 1);
	text[n - 1] = '\0';
	if ((data[0] & 3) == 0)
		token(text, n - 1);
	else if ((data[0] & 3) == 2)
		places(text);
	else
		answer(data[0] >> 1, text, n - 1);
	free(text);
	return 0;
}
