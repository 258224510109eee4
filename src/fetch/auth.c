/*
 * Who we are to a registry. Basic: user and password with every request.
 * Bearer: a token from the server that the registry names, which must be
 * listed as the registry is; it gets user and password, if there are any, and
 * is asked for no more than this repository.
 */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "fetch/challenge.h"
#include "fetch/session.h"

enum { TOKEN_MAX = 16 * 1024 };

static void put_basic(const struct session *s, struct buf *out)
{
	struct buf pair = { 0 };

	buf_printf(&pair, "%s:%s", s->user, s->password);
	buf_puts(out, "Basic ");
	base64_add(out, buf_data(&pair), buf_len(&pair));
	explicit_bzero(buf_data(&pair), buf_len(&pair));
	buf_done(&pair);
}

static bool is_token(const char *t)
{
	const char *p = t;

	for (; *p; p++)
		if (*p < '!' || *p > '~')
			return false;
	return p != t && p - t <= TOKEN_MAX;
}

static int take_token(struct session *s, const struct exchange *x,
		      struct err *e)
{
	json_t *j = json_loadb(buf_data(&x->text), buf_len(&x->text), 0, NULL);
	const char *token = json_string_value(json_object_get(j, "token"));

	if (!token)
		token = json_string_value(json_object_get(j, "access_token"));
	if (token && is_token(token)) {
		buf_clear(&s->authorization);
		buf_printf(&s->authorization, "Bearer %s", token);
	} else {
		err_set(e, EREMOTEIO, "the token server gave no token");
	}
	json_decref(j);
	return e->code ? -e->code : 0;
}

static void put_escaped(struct buf *b, CURL *c, const char *name,
			const char *value)
{
	char *text = curl_easy_escape(c, value, 0);

	buf_printf(b, "&%s=%s", name, text ? text : "");
	curl_free(text);
}

static int token_url(const struct session *s, const struct challenge *c,
		     char out[URL_MAX], struct err *e)
{
	struct buf b = { 0 }, scope = { 0 };
	bool fits;

	buf_printf(&scope, "repository:%s:pull%s", s->repository,
		   s->push ? ",push" : "");
	buf_puts(&b, c->realm);
	if (!strchr(c->realm, '?'))
		buf_puts(&b, "?");
	put_escaped(&b, s->web.curl, "service", c->service);
	put_escaped(&b, s->web.curl, "scope", buf_str(&scope));
	fits = buf_len(&b) < URL_MAX;
	if (fits)
		memcpy(out, buf_str(&b), buf_len(&b) + 1);
	buf_done(&b);
	buf_done(&scope);
	return fits ? 0
		    : err_set(e, EREMOTEIO,
			      "the token server's address "
			      "is too long");
}

static int get_token(struct session *s, const struct challenge *c,
		     struct err *e)
{
	struct exchange x = { .method = "GET" };
	struct buf basic = { 0 };
	int r = token_url(s, c, x.url, e);

	if (*s->user) {
		put_basic(s, &basic);
		x.authorization = buf_str(&basic);
	}
	if (r == 0)
		r = web_do(&s->web, &x, e);
	if (r < 0)
		err_wrap(e, "token server");
	else if (x.status == 401 || x.status == 403)
		r = err_set(e, EKEYREJECTED,
			    "the token server refuses %s: is it the right user "
			    "and password?",
			    *s->user ? "this user"
				     : "everybody without a "
				       "user");
	else if (x.status != 200)
		r = err_set(e, EREMOTEIO, "the token server answers %ld",
			    x.status);
	else
		r = take_token(s, &x, e);
	explicit_bzero(buf_data(&basic), buf_len(&basic));
	buf_done(&basic);
	exchange_done(&x);
	return r;
}

int session_authorize(struct session *s, const char *challenge, struct err *e)
{
	struct challenge c;

	if (challenge_find(challenge, "Bearer", &c) && *c.realm)
		return get_token(s, &c, e);
	if (!challenge_find(challenge, "Basic", &c))
		return err_set(e, EKEYREJECTED,
			       "the registry asks for an authorization that is "
			       "not known here");
	if (!*s->user)
		return err_set(e, EKEYREJECTED,
			       "the registry wants a user and a password");
	buf_clear(&s->authorization);
	put_basic(s, &s->authorization);
	return 0;
}
