#include <stdio.h>
#include <string.h>

#include "base/sha.h"
#include "base/str.h"
#include "image/oci.h"

static const char algorithm[] = "sha256:";
enum { ALGORITHM_LEN = sizeof(algorithm) - 1, HEX_LEN = 2 * SHA256_LEN };

bool oci_digest_valid(const char *s)
{
	return str_starts(s, algorithm) &&
	       strspn(s + ALGORITHM_LEN, "0123456789abcdef") == HEX_LEN &&
	       s[ALGORITHM_LEN + HEX_LEN] == '\0';
}

void oci_digest_text(char out[OCI_DIGEST_CAP], const uint8_t sum[32])
{
	size_t i;

	memcpy(out, algorithm, ALGORITHM_LEN);
	for (i = 0; i < SHA256_LEN; i++)
		snprintf(out + ALGORITHM_LEN + 2 * i, 3, "%02x", sum[i]);
}

static const char *hex(const char *digest)
{
	return digest + ALGORITHM_LEN;
}

void oci_blob_path(char out[OCI_PATH_CAP], const char *digest)
{
	snprintf(out, OCI_PATH_CAP, "blobs/sha256/%.64s", hex(digest));
}

void docker_config_path(char out[OCI_PATH_CAP], const struct oci_blob *config)
{
	snprintf(out, OCI_PATH_CAP, "%.64s.json", hex(config->digest));
}

void docker_layer_path(char out[OCI_PATH_CAP], const struct oci_layer *layer)
{
	snprintf(out, OCI_PATH_CAP, "%.64s.tar", hex(layer->blob.digest));
}

void oci_blob_of(struct oci_blob *b, const char *media_type, const void *p,
		 size_t n)
{
	uint8_t sum[SHA256_LEN];
	struct sha256 s;

	sha256_init(&s);
	sha256_add(&s, p, n);
	sha256_end(&s, sum);
	oci_digest_text(b->digest, sum);
	snprintf(b->media_type, sizeof(b->media_type), "%s", media_type);
	b->size = n;
}
