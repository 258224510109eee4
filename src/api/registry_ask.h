/* What a request to pull or push says about the registry. */
#pragma once

#include <jansson.h>

#include "base/err.h"
#include "image/oci.h"
#include "wire/fetch.h"

struct api;

struct registry_ask {
	struct fetch_ref ref;
	char text[FETCH_HOST_CAP + FETCH_REPO_CAP + FETCH_TAG_CAP];
	struct oci_platform platform; /* of a pull */
	/* Of the JSON, which the caller keeps; "": none. */
	const char *user, *password;
};

/* {"reference", "platform", "username", "password"}; the host is allowed. */
int registry_ask_read(struct registry_ask *q, struct api *a, json_t *body,
		      struct err *e) MUST_CHECK;
