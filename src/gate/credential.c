/* Fields and targets with a secret in them, by kind. */
#include <assert.h>
#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/auto.h"
#include "base/base64.h"
#include "base/clock.h"
#include "base/guards.h"
#include "gate/oauth.h"
#include "gate/opened.h"
#include "http/target.h"
#include "vault/sigv4.h"

#define AUTHORIZATION "Authorization"
#define CONTENT_HASH "x-amz-content-sha256"

static void wipe(char *s)
{
	if (s)
		sodium_memzero(s, strlen(s));
	free(s);
}

static void wipe_buf(struct buf *b)
{
	if (b->p)
		sodium_memzero(b->p, b->cap);
	buf_done(b);
}

void made_done(struct made *m)
{
	unsigned i;

	for (i = 0; i < m->n_owned; i++)
		wipe(m->owned[i]);
	wipe_buf(&m->target);
	for (i = 0; i < m->n_words; i++)
		words_unref(m->words[i]);
	scan_set_free(m->all);
	memset(m, 0, sizeof(*m));
}

/* `name` lives longer than the request; NULL value: the field goes. */
static void put(struct made *m, const char *name, const char *value)
{
	struct http_field *f = &m->fields[m->n++];

	assert(m->n <= MADE_FIELDS);
	f->name = name;
	f->value = value ? m->owned[m->n_owned++] = xstrdup(value) : NULL;
}

static void put_buf(struct made *m, const char *name, struct buf *b)
{
	put(m, name, buf_str(b));
	wipe_buf(b);
}

/* --- kinds --- */

/* The field of `s`, with the value of `o`. */
static int put_header(struct made *m, const struct secret *s,
		      const struct opened *o, struct err *e)
{
	const char *at = strstr(s->template, "{}");
	struct buf b = { 0 };

	if (!at)
		return err_set(e, EACCES, "secret %s has no template", s->name);
	buf_add(&b, s->template, (size_t)(at - s->template));
	buf_puts(&b, o->value.p);
	buf_puts(&b, at + 2);
	m->owned[m->n_owned++] = xstrdup(s->field);
	put_buf(m, m->owned[m->n_owned - 1], &b);
	return 0;
}

static int make_header(struct made *m, const struct inject *j, struct opened *o,
		       struct err *e)
{
	(void)j;
	return put_header(m, o->secret, o, e);
}

static int make_basic(struct made *m, const struct inject *j, struct opened *o,
		      struct err *e)
{
	struct buf pair = { 0 }, b = { 0 };

	(void)j;
	(void)e;
	buf_printf(&pair, "%s:%s", o->secret->user, o->value.p);
	buf_puts(&b, "Basic ");
	base64_add(&b, buf_data(&pair), buf_len(&pair));
	wipe_buf(&pair);
	put_buf(m, AUTHORIZATION, &b);
	return 0;
}

/* The target as the secrets before have left it. */
static const char *target_now(const struct made *m, const struct inject *j)
{
	return buf_len(&m->target) ? buf_str((struct buf *)&m->target)
				   : j->target;
}

static int make_query(struct made *m, const struct inject *j, struct opened *o,
		      struct err *e)
{
	const char *target = target_now(m, j);
	size_t path = strcspn(target, "?");
	struct buf b = { 0 }, rest = { 0 };

	(void)e;
	if (target[path])
		http_query_without(&rest, target + path + 1, o->secret->field);
	buf_add(&b, target, path);
	buf_printf(&b, "?%s%s%s=", buf_str(&rest), buf_len(&rest) ? "&" : "",
		   o->secret->field);
	http_encode(&b, o->value.p);
	wipe_buf(&rest);
	wipe_buf(&m->target);
	m->target = b;
	return 0;
}

bool credential_unsigned(const struct http_head *head)
{
	const char *v = http_header(head, CONTENT_HASH);

	return v && (strcmp(v, "UNSIGNED-PAYLOAD") == 0 ||
		     strcmp(v, "STREAMING-UNSIGNED-PAYLOAD-TRAILER") == 0);
}

/* Fields of the client's that are signed, too. */
static size_t amz_fields(const struct http_head *h, struct sigv4_field *out)
{
	static const char *const ours[] = { "x-amz-date", CONTENT_HASH,
					    "x-amz-security-token" };
	size_t n = 0, i, k;

	for (i = 0; i < h->n_fields; i++) {
		const struct http_field *f = &h->field[i];

		for (k = 0; k < ARRAY_LEN(ours); k++)
			if (strcasecmp(f->name, ours[k]) == 0)
				break;
		if (k == ARRAY_LEN(ours) &&
		    strncasecmp(f->name, "x-amz-", 6) == 0)
			out[n++] = (struct sigv4_field){ f->name, f->value };
	}
	return n;
}

/* What stands for the body. */
static int payload(const struct inject *j, char out[SIGV4_HASH_CAP],
		   struct err *e)
{
	const char *v = http_header(j->head, CONTENT_HASH);

	if (v && credential_unsigned(j->head)) {
		snprintf(out, SIGV4_HASH_CAP, "%s", v);
		return 0;
	}
	if (v && strncmp(v, "STREAMING-", 10) == 0)
		return err_set(e, EACCES,
			       "a body that is signed in chunks cannot be "
			       "signed anew: have the client sign it whole, or "
			       "not at all");
	if (!j->body && j->head->body != HTTP_NO_BODY)
		return err_set(e, E2BIG, "the body is too large to be signed");
	sigv4_hash(j->body ? j->body : "", j->body_n, out);
	return 0;
}

/* The Host field, as the request will have it. */
static void host_field(const struct request *r, struct buf *b)
{
	bool v6 = strchr(r->host, ':');

	buf_printf(b, "%s%s%s", v6 ? "[" : "", r->host, v6 ? "]" : "");
	if (r->port != (r->scheme == SCHEME_HTTPS ? 443 : 80))
		buf_printf(b, ":%u", r->port);
}

static int make_sigv4(struct made *m, const struct inject *j, struct opened *o,
		      struct err *e)
{
	_Static_assert((int)SIGV4_FIELDS_MAX >= (int)HTTP_FIELDS_MAX, "fit");
	struct sigv4_field fields[HTTP_FIELDS_MAX];
	char date[SIGV4_DATE_CAP], hash[SIGV4_HASH_CAP];
	AUTO(buf_done) struct buf host = { 0 };
	struct buf auth = { 0 }, target = { 0 };
	char *key = xstrdup(o->value.p), *line = strchr(key, '\n');
	struct sigv4 s = { .method = j->request->method,
			   .target = target_now(m, j),
			   .key_id = o->secret->user,
			   .key = key,
			   .token = line ? line + 1 : "",
			   .region = o->secret->region,
			   .service = o->secret->service,
			   .time_s = clock_wall_ms() / 1000,
			   .payload = hash,
			   .fields = fields,
			   .n_fields = amz_fields(j->head, fields) };
	int r = payload(j, hash, e);

	if (line)
		*line = '\0';
	host_field(j->request, &host);
	s.host = buf_str(&host);
	if (r == 0 && sigv4_sign(&s, &auth, date, &target) < 0)
		r = err_set(e, E2BIG, "too many fields to sign");
	if (r == 0) {
		put_buf(m, AUTHORIZATION, &auth);
		put(m, "x-amz-date", date);
		put(m, CONTENT_HASH, hash);
		put(m, "x-amz-security-token", *s.token ? s.token : NULL);
		wipe_buf(&m->target);
		m->target = target;
	} else
		buf_done(&target);
	sodium_memzero(key, o->value.n);
	free(key);
	return r;
}

static int make_oauth2(struct made *m, const struct inject *j, struct opened *o,
		       struct err *e)
{
	const char *token = oauth_token(o->oauth);
	struct buf b = { 0 };

	(void)j;
	if (!token)
		return err_set(e, EACCES, "secret %s has no token",
			       o->secret->name);
	buf_printf(&b, "Bearer %s", token);
	put_buf(m, AUTHORIZATION, &b);
	return 0;
}

static int make_none(struct made *m, const struct inject *j, struct opened *o,
		     struct err *e)
{
	(void)m;
	(void)j;
	return err_set(e, EACCES, "secret %s is not for requests",
		       o->secret->name);
}

static int (*const makers[])(struct made *m, const struct inject *j,
			     struct opened *o, struct err *e) = {
	[SECRET_HEADER] = make_header, [SECRET_BASIC] = make_basic,
	[SECRET_QUERY] = make_query,   [SECRET_SIGV4] = make_sigv4,
	[SECRET_OAUTH2] = make_oauth2, [SECRET_TOTP] = make_none,
	[SECRET_TEXT] = make_none,     [SECRET_FILL] = make_none,
};
static_assert(ARRAY_LEN(makers) == SECRET_KINDS, "a maker each");

void credential_slot(const struct secret *s, char out[NAME_CAP * 2 + 1])
{
	const char *name = AUTHORIZATION;

	if (s->kind == SECRET_HEADER || s->kind == SECRET_FILL ||
	    s->kind == SECRET_QUERY)
		name = s->field;
	snprintf(out, NAME_CAP * 2 + 1, "%s%s",
		 s->kind == SECRET_QUERY ? "?" : "", name);
}

/* What would end a field, or the head. Kinds of several lines look after
 * themselves. */
static bool breaks(const struct opened *o)
{
	enum secret_kind k = o->secret->kind;

	if (k == SECRET_SIGV4 || k == SECRET_OAUTH2)
		return strlen(o->value.p) != o->value.n;
	return strlen(o->value.p) != o->value.n || !http_is_value(o->value.p);
}

/* The text that a fill carries, as it is now. */
static struct opened *carried(const struct opened *fill, struct err *e)
{
	struct secret *text = secret_of(fill->project, fill->value.p);

	if (text && text->kind == SECRET_TEXT)
		return opened_get(fill->project, text, e);
	err_set(e, EACCES, "secret %s is for the text '%.64s', which is gone",
		fill->secret->name, fill->value.p);
	return NULL;
}

int credential_make(struct made *m, const struct inject *j, struct opened *o,
		    struct err *e)
{
	const struct secret *s = o->secret;
	int r;

	if (s->kind == SECRET_FILL)
		o = carried(o, e);
	if (!o)
		return -e->code;
	if (GUARD(VALUE) && breaks(o))
		return err_set(e, EACCES,
			       "the value of secret %s has bytes that no field "
			       "can carry: set it again",
			       o->secret->name);
	r = s->kind == SECRET_FILL ? put_header(m, s, o, e)
				   : makers[s->kind](m, j, o, e);
	if (r == 0)
		m->words[m->n_words++] = words_ref(o->words);
	return r;
}
