#include "gate/proxy.h"

#include <errno.h>
#include <string.h>

#include "base/base64.h"

enum { PROXY_PORT = 3128 };

static int wrong(struct err *e)
{
	/* The setting may hold a password: it is not repeated. */
	return err_set(
		e, EINVAL,
		"upstream_proxy is not http://[USER:PASSWORD@]HOST:PORT");
}

int proxy_read(struct upstream_proxy *p, const char *url, struct err *e)
{
	static const char scheme[] = "http://";
	const char *at, *colon;
	uint64_t port = PROXY_PORT;
	char text[POLICY_HOST_CAP + 8];
	bool address;
	size_t n;

	*p = (struct upstream_proxy){ 0 };
	if (!str_starts(url, scheme))
		return wrong(e);
	url += sizeof(scheme) - 1;
	at = strrchr(url, '@');
	if (at) {
		n = (size_t)(at - url);
		if (n >= sizeof(p->user) || !memchr(url, ':', n))
			return wrong(e);
		memcpy(p->user, url, n);
		url = at + 1;
	}
	if (str_copy(text, sizeof(text), url) < 0)
		return wrong(e);
	n = strlen(text);
	if (n > 0 && text[n - 1] == '/')
		text[--n] = '\0';
	colon = strrchr(text, ':');
	if (colon && !strchr(colon, ']')) {
		if (parse_u64(colon + 1, UINT16_MAX, &port) < 0 || port == 0)
			return wrong(e);
		n = (size_t)(colon - text);
	}
	p->port = (uint16_t)port;
	return host_read(text, n, p->host, &address) < 0 ? wrong(e) : 0;
}

void proxy_ask(const struct upstream_proxy *p, const char *host, uint16_t port,
	       struct buf *out)
{
	bool v6 = strchr(host, ':');
	const char *open = v6 ? "[" : "", *close = v6 ? "]" : "";

	buf_printf(out, "CONNECT %s%s%s:%u HTTP/1.1\r\n", open, host, close,
		   port);
	buf_printf(out, "Host: %s%s%s:%u\r\n", open, host, close, port);
	if (p->user[0]) {
		buf_puts(out, "Proxy-Authorization: Basic ");
		base64_add(out, p->user, strlen(p->user));
		buf_puts(out, "\r\n");
	}
	buf_puts(out, "\r\n");
}

int proxy_answer(const char *head, size_t n, struct err *e)
{
	struct http_head h = { 0 };
	const char *why = "";
	int r = 0;

	if (http_parse_response(&h, head, n, "CONNECT", &why) < 0)
		r = err_set(e, EPROTO,
			    "the upstream proxy's answer is malformed: %s",
			    why);
	else if (h.status < 200 || h.status > 299)
		r = err_set(e, EPROTO, "the upstream proxy refuses: %d %.60s",
			    h.status, h.reason);
	http_head_done(&h);
	return r;
}
