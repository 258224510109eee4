#include "api/door_env.h"

#include "base/product.h"

#define PROXY "http://127.0.0.1:3128"
#define HERE "localhost,127.0.0.1,::1"
/* Both are written by the agent (agent/file/door.c). */
#define BUNDLE "/etc/ssl/certs/ca-certificates.crt"
#define ANCHOR "/usr/local/share/ca-certificates/" PRODUCT ".crt"

/*
 * What knows nothing of these gets to the door all the same; but a proxy is
 * told names, and has better words for a refusal. Programs with a list of
 * authorities of their own hear of the system's.
 */
const struct door_var door_vars[] = {
	{ "HTTP_PROXY", PROXY },
	{ "HTTPS_PROXY", PROXY },
	{ "http_proxy", PROXY },
	{ "https_proxy", PROXY },
	{ "NO_PROXY", HERE },
	{ "no_proxy", HERE },
	{ "SSL_CERT_FILE", BUNDLE },
	{ "CURL_CA_BUNDLE", BUNDLE },
	{ "REQUESTS_CA_BUNDLE", BUNDLE },
	{ "PIP_CERT", BUNDLE },
	{ "GIT_SSL_CAINFO", BUNDLE },
	{ "AWS_CA_BUNDLE", BUNDLE },
	{ "NODE_EXTRA_CA_CERTS", ANCHOR },
	{ "NODE_USE_ENV_PROXY", "1" },
	{ 0 },
};
