#include "fetch/http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/product.h"
#include "base/str.h"

enum {
	CONNECT_MS = 15000,
	SLOW_BYTES = 1024, /* per second; slower for SLOW_S: give up */
	SLOW_S = 60,
	TOTAL_S = 6 * 3600, /* of one request, however steady it is */
	ADDRESSES_MAX = 16, /* of a name */
};

int web_init(struct web *w, const struct policy *p, struct err *e)
{
	w->policy = p;
	w->curl = curl_easy_init();
	return w->curl ? 0 : err_set(e, ENOMEM, "no memory for a connection");
}

void web_done(struct web *w)
{
	curl_easy_cleanup(w->curl);
	w->curl = NULL;
}

void exchange_done(struct exchange *x)
{
	buf_done(&x->text);
}

const char *web_scheme(const struct web *w, const char *host, struct err *e)
{
	if (fetch_host_listed(w->policy->insecure, host))
		return "http";
	if (fetch_host_listed(w->policy->registries, host))
		return "https";
	err_set(e, EPERM,
		"host '%.100s' is not allowed: the operator lists it under "
		"`registries` in the configuration",
		host);
	return NULL;
}

/* --- addresses ------------------------------------------------------------ */

struct place {
	char *scheme, *host, *port;
};

static void place_done(struct place *p)
{
	curl_free(p->scheme);
	curl_free(p->host);
	curl_free(p->port);
}

static int place_of(struct place *p, const char *url)
{
	CURLU *u = curl_url();
	int r = -EINVAL;

	*p = (struct place){ 0 };
	if (u && curl_url_set(u, CURLUPART_URL, url, 0) == CURLUE_OK &&
	    curl_url_get(u, CURLUPART_SCHEME, &p->scheme, 0) == CURLUE_OK &&
	    curl_url_get(u, CURLUPART_HOST, &p->host, 0) == CURLUE_OK &&
	    curl_url_get(u, CURLUPART_PORT, &p->port, CURLU_DEFAULT_PORT) ==
		    CURLUE_OK)
		r = 0;
	curl_url_cleanup(u);
	return r;
}

bool web_same_origin(const char *a, const char *b)
{
	struct place p, q;
	bool same = place_of(&p, a) == 0;

	same = place_of(&q, b) == 0 && same &&
	       strcmp(p.scheme, q.scheme) == 0 &&
	       strcasecmp(p.host, q.host) == 0 && strcmp(p.port, q.port) == 0;
	place_done(&p);
	place_done(&q);
	return same;
}

/* "host", or "host:port" where the scheme has another default. */
static void host_text(const struct place *p, char out[FETCH_HOST_CAP])
{
	bool usual = strcmp(p->port,
			    strcmp(p->scheme, "http") == 0 ? "80" : "443") == 0;
	char *c;

	snprintf(out, FETCH_HOST_CAP, "%s%s%s", p->host, usual ? "" : ":",
		 usual ? "" : p->port);
	for (c = out; *c; c++)
		if (*c >= 'A' && *c <= 'Z')
			*c = (char)(*c - 'A' + 'a');
}

static int check_place(const struct web *w, const struct place *p,
		       struct err *e)
{
	char host[FETCH_HOST_CAP];
	const char *scheme;

	host_text(p, host);
	scheme = web_scheme(w, host, e);
	if (!scheme)
		return -e->code;
	/* A host that may do without TLS may still have it. */
	if (strcmp(p->scheme, "https") != 0 && strcmp(p->scheme, scheme) != 0)
		return err_set(e, EPERM,
			       "host '%.100s' is not spoken to without TLS: "
			       "the operator may list it under "
			       "`registries_insecure`",
			       host);
	return 0;
}

static bool is_address(const char *host)
{
	unsigned char raw[16];

	return *host == '[' || inet_pton(AF_INET, host, raw) == 1;
}

/*
 * Names are looked up here and not by libcurl, which starts a thread for it:
 * this program has one, and its filter allows no more. The entry for libcurl
 * is "host:port:address,address".
 */
static int look_up(const struct place *p, struct curl_slist **out,
		   struct err *e)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
	struct addrinfo *all = NULL, *a;
	struct buf b = { 0 };
	char text[NI_MAXHOST];
	unsigned n = 0;
	int r;

	if (is_address(p->host))
		return 0;
	r = getaddrinfo(p->host, p->port, &hints, &all);
	if (r != 0)
		return err_set(e, EHOSTUNREACH, "host '%.100s': %s", p->host,
			       gai_strerror(r));
	buf_printf(&b, "%s:%s:", p->host, p->port);
	for (a = all; a && n < ADDRESSES_MAX; a = a->ai_next)
		if (getnameinfo(a->ai_addr, a->ai_addrlen, text, sizeof(text),
				NULL, 0, NI_NUMERICHOST) == 0)
			buf_printf(&b,
				   a->ai_family == AF_INET6 ? "%s[%s]" : "%s%s",
				   n++ ? "," : "", text);
	freeaddrinfo(all);
	*out = curl_slist_append(NULL, buf_str(&b));
	buf_done(&b);
	return 0;
}

/* --- one request ---------------------------------------------------------- */

static const struct field {
	const char *name;
	size_t at, cap;
} fields[] = {
	{ "location", offsetof(struct exchange, location), URL_MAX },
	{ "www-authenticate", offsetof(struct exchange, challenge), FIELD_MAX },
	{ "range", offsetof(struct exchange, range), 64 },
	{ "content-type", offsetof(struct exchange, type), FETCH_MEDIA_CAP },
};

/* "Name: value\r\n"; the first of a name counts, challenges are joined. */
static size_t on_field(char *line, size_t one, size_t n, void *arg)
{
	struct exchange *x = arg;
	size_t i, start, end, room;
	char *to;

	(void)one;
	for (i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		start = strlen(fields[i].name);
		to = (char *)x + fields[i].at;
		room = fields[i].cap;
		if (n <= start || line[start] != ':' ||
		    strncasecmp(line, fields[i].name, start) != 0 ||
		    (*to && to != x->challenge))
			continue;
		if (*to && strlen(to) + 3 < room) {
			room -= strlen(to) + 2;
			to += strlen(to) + 2;
			memcpy(to - 2, ", ", 3);
		}
		for (start++; start < n && strchr(" \t", line[start]); start++)
			;
		for (end = n; end > start && strchr(" \t\r\n", line[end - 1]);
		     end--)
			;
		/* A value that does not fit is as good as none. */
		if (end - start < room) {
			memcpy(to, line + start, end - start);
			to[end - start] = '\0';
		}
	}
	return n;
}

static int pass_on(struct exchange *x, const char *p, size_t n)
{
	size_t drop = x->skip < n ? (size_t)x->skip : n;
	int r;

	x->skip -= drop;
	while (drop < n) {
		size_t piece =
			n - drop < FETCH_DATA_MAX ? n - drop : FETCH_DATA_MAX;

		r = x->sink(x->ctx, p + drop, piece);
		if (r < 0)
			return r;
		x->passed += piece;
		drop += piece;
	}
	return 0;
}

static size_t on_body(char *p, size_t one, size_t n, void *arg)
{
	struct exchange *x = arg;

	(void)one;
	if (x->status == 0)
		return 0;
	if (x->sink && x->status / 100 == 2) {
		if (!x->began && x->status != 206)
			x->skip = x->offset;
		x->began = true;
		x->sink_error = pass_on(x, p, n);
		return x->sink_error < 0 ? 0 : n;
	}
	if (buf_len(&x->text) + n > TEXT_MAX) {
		x->sink_error = -EMSGSIZE;
		return 0;
	}
	buf_add(&x->text, p, n);
	return n;
}

/* libcurl has no callback for "the head is complete" that has the status. */
static size_t on_line(char *line, size_t one, size_t n, void *arg)
{
	struct exchange *x = arg;

	if (n > 9 && strncasecmp(line, "HTTP/", 5) == 0) {
		const char *space = memchr(line, ' ', n);

		x->status = space ? strtol(space, NULL, 10) : 0;
		x->location[0] = x->challenge[0] = '\0';
		x->range[0] = x->type[0] = '\0';
	}
	return on_field(line, one, n, arg);
}

struct source {
	const char *p;
	size_t left;
};

static size_t on_upload(char *to, size_t one, size_t n, void *arg)
{
	struct source *s = arg;

	(void)one;
	if (n > s->left)
		n = s->left;
	memcpy(to, s->p, n);
	s->p += n;
	s->left -= n;
	return n;
}

/* Whoever asked is gone: nobody reads what we say. */
static int on_progress(void *arg, curl_off_t a, curl_off_t b, curl_off_t c,
		       curl_off_t d)
{
	struct pollfd p = { .fd = STDOUT_FILENO };

	(void)arg, (void)a, (void)b, (void)c, (void)d;
	return poll(&p, 1, 0) > 0 && (p.revents & (POLLERR | POLLHUP));
}

static void add_field(struct curl_slist **list, const char *name,
		      const char *value)
{
	struct buf b = { 0 };

	if (!value)
		return;
	buf_printf(&b, "%s: %s", name, value);
	*list = curl_slist_append(*list, buf_str(&b));
	buf_done(&b);
}

static struct curl_slist *request_fields(const struct exchange *x)
{
	struct curl_slist *list = NULL;
	char range[64];

	add_field(&list, "Accept", x->accept ? x->accept : "*/*");
	add_field(&list, "Authorization", x->authorization);
	add_field(&list, "Content-Type", x->content_type);
	add_field(&list, "Content-Range", x->content_range);
	snprintf(range, sizeof(range), "bytes=%llu-",
		 (unsigned long long)x->offset);
	add_field(&list, "Range", x->offset ? range : NULL);
	/* Not asked for: a server that waits for it would hold us up. */
	return curl_slist_append(list, "Expect:");
}

static void set_limits(CURL *c, const struct policy *p)
{
	struct curl_blob ca = { p->ca, p->ca_n, CURL_BLOB_NOCOPY };

	curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(c, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(c, CURLOPT_PROXY, "");
	curl_easy_setopt(c, CURLOPT_USERAGENT, PRODUCT "/" PRODUCT_VERSION);
	curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS);
	curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, (long)SLOW_BYTES);
	curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, (long)SLOW_S);
	curl_easy_setopt(c, CURLOPT_TIMEOUT, (long)TOTAL_S);
	curl_easy_setopt(c, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	curl_easy_setopt(c, CURLOPT_CAINFO, NULL);
	curl_easy_setopt(c, CURLOPT_CAPATH, NULL);
	if (p->ca)
		curl_easy_setopt(c, CURLOPT_CAINFO_BLOB, &ca);
	curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
	curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, on_progress);
}

static void set_method(CURL *c, const struct exchange *x, struct source *s)
{
	bool sends = x->body || strcmp(x->method, "GET") != 0;

	if (strcmp(x->method, "HEAD") == 0) {
		curl_easy_setopt(c, CURLOPT_NOBODY, 1L);
		return;
	}
	if (!sends)
		return;
	curl_easy_setopt(c, CURLOPT_UPLOAD, 1L);
	curl_easy_setopt(c, CURLOPT_CUSTOMREQUEST, x->method);
	curl_easy_setopt(c, CURLOPT_READFUNCTION, on_upload);
	curl_easy_setopt(c, CURLOPT_READDATA, s);
	curl_easy_setopt(c, CURLOPT_INFILESIZE_LARGE, (curl_off_t)x->body_n);
}

/* Data arrived, but too slowly: a retry would not help. */
static bool drips(const struct exchange *x)
{
	return x->passed > 0 && x->passed < (uint64_t)SLOW_BYTES * SLOW_S;
}

/* What went wrong, in words that name the host and nothing secret. */
static int transfer_failed(struct exchange *x, const struct place *p,
			   CURLcode r, struct err *e)
{
	if (x->sink_error == -EMSGSIZE)
		return err_set(e, EREMOTEIO,
			       "the registry sends more than it announced");
	if (x->sink_error < 0)
		return err_set(e, -x->sink_error,
			       "pass on what the registry sends");
	x->temporary = r != CURLE_PEER_FAILED_VERIFICATION &&
		       r != CURLE_SSL_CACERT_BADFILE &&
		       r != CURLE_ABORTED_BY_CALLBACK &&
		       !(r == CURLE_OPERATION_TIMEDOUT && drips(x));
	return err_set(e, EREMOTEIO, "%s://%.100s:%s: %s", p->scheme, p->host,
		       p->port, curl_easy_strerror(r));
}

static CURLcode perform(struct web *w, struct exchange *x,
			struct curl_slist *list, struct curl_slist *addresses)
{
	struct source s = { x->body, x->body_n };
	CURL *c = w->curl;

	curl_easy_reset(c);
	set_limits(c, w->policy);
	set_method(c, x, &s);
	curl_easy_setopt(c, CURLOPT_URL, x->url);
	curl_easy_setopt(c, CURLOPT_RESOLVE, addresses);
	curl_easy_setopt(c, CURLOPT_HTTPHEADER, list);
	curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, on_line);
	curl_easy_setopt(c, CURLOPT_HEADERDATA, x);
	curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(c, CURLOPT_WRITEDATA, x);
	return curl_easy_perform(c);
}

static int send_to(struct web *w, struct exchange *x, const struct place *p,
		   struct err *e)
{
	struct curl_slist *addresses = NULL, *list;
	CURLcode r;

	if (check_place(w, p, e) < 0)
		return -e->code;
	if (strcmp(p->scheme, "https") == 0 && !w->policy->ca)
		return err_set(e, ENOENT,
			       "no certificates of authorities: "
			       "`registries_ca` in the configuration names "
			       "the file");
	if (look_up(p, &addresses, e) < 0) {
		x->temporary = true;
		return -e->code;
	}
	list = request_fields(x);
	r = perform(w, x, list, addresses);
	curl_slist_free_all(list);
	curl_slist_free_all(addresses);
	x->type[strcspn(x->type, "; ")] = '\0';
	return r == CURLE_OK ? 0 : transfer_failed(x, p, r, e);
}

int web_do(struct web *w, struct exchange *x, struct err *e)
{
	struct place p;
	int r;

	x->status = 0;
	x->began = x->temporary = false;
	x->skip = 0;
	x->sink_error = 0;
	x->location[0] = x->challenge[0] = x->range[0] = x->type[0] = '\0';
	buf_clear(&x->text);
	r = place_of(&p, x->url);
	if (r == 0)
		r = send_to(w, x, &p, e);
	else
		err_set(e, EREMOTEIO,
			"the registry named an address that is "
			"none");
	place_done(&p);
	return r;
}

int web_location(const struct exchange *x, char out[URL_MAX], struct err *e)
{
	CURLU *u = curl_url();
	char *url = NULL;
	int r = -1;

	if (*x->location && u &&
	    curl_url_set(u, CURLUPART_URL, x->url, 0) == CURLUE_OK &&
	    curl_url_set(u, CURLUPART_URL, x->location, 0) == CURLUE_OK &&
	    curl_url_set(u, CURLUPART_FRAGMENT, NULL, 0) == CURLUE_OK &&
	    curl_url_set(u, CURLUPART_USER, NULL, 0) == CURLUE_OK &&
	    curl_url_set(u, CURLUPART_PASSWORD, NULL, 0) == CURLUE_OK &&
	    curl_url_get(u, CURLUPART_URL, &url, 0) == CURLUE_OK)
		r = str_copy(out, URL_MAX, url);
	curl_free(url);
	curl_url_cleanup(u);
	return r < 0 ? err_set(e, EREMOTEIO,
			       "the registry answered without saying where to "
			       "go on")
		     : 0;
}
