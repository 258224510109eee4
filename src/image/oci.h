/*
 * The documents of an OCI image, and of a docker archive: read and written.
 * Pure format: no file, no network. What is read is an attacker's, so every
 * document is at most OCI_DOC_MAX bytes and every list has a limit; digests
 * are sha256 and compared by whoever has the bytes.
 *
 *	index -> (index ->) manifest -> config and layers
 *
 * A layout as a tar: "oci-layout", "index.json", "blobs/sha256/HEX". Written
 * in this order, then manifest, config, layers from the lowest on, it is
 * imported straight from the stream; in any other, blobs are kept until they
 * are understood. A docker archive: "manifest.json", "HEX.json", "HEX.tar".
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/product.h"

enum {
	OCI_DIGEST_CAP = 72, /* "sha256:" and 64 hex digits */
	OCI_MEDIA_CAP = 128,
	OCI_PATH_CAP = 256,
	OCI_DOC_MAX = 1024 * 1024,
	OCI_RUN_MAX = 32 * 1024, /* of what is kept of a config, as JSON */
	OCI_LAYERS_MAX = 256,
	OCI_NESTED_MAX = 4, /* indexes in indexes */
};

#define OCI_MEDIA_INDEX "application/vnd.oci.image.index.v1+json"
#define OCI_MEDIA_MANIFEST "application/vnd.oci.image.manifest.v1+json"
#define OCI_MEDIA_CONFIG "application/vnd.oci.image.config.v1+json"
#define OCI_MEDIA_LAYER "application/vnd.oci.image.layer.v1.tar"
#define OCI_MEDIA_LAYER_GZIP OCI_MEDIA_LAYER "+gzip"
#define OCI_MEDIA_LAYER_ZSTD OCI_MEDIA_LAYER "+zstd"
/* Registries have these as well; the documents are alike. */
#define DOCKER_MEDIA_INDEX \
	"application/vnd.docker.distribution.manifest.list.v2+json"
#define DOCKER_MEDIA_MANIFEST \
	"application/vnd.docker.distribution.manifest.v2+json"

/* The whole text of the file oci-layout. */
#define OCI_LAYOUT_TEXT "{\"imageLayoutVersion\":\"1.0.0\"}"

/* Of one blob. */
#define OCI_BLOB_MAX (INT64_C(64) << 30)

/* --- digests -------------------------------------------------------------- */

/* A descriptor: some bytes by what they are. */
struct oci_blob {
	char digest[OCI_DIGEST_CAP];
	char media_type[OCI_MEDIA_CAP];
	uint64_t size;
};

/* "sha256:" and 64 lower-case hex digits: nothing else is a digest to us. */
bool oci_digest_valid(const char *s);
/* Of a finished struct sha256. */
void oci_digest_text(char out[OCI_DIGEST_CAP], const uint8_t sum[32]);
/* "blobs/sha256/HEX" of a valid digest. */
void oci_blob_path(char out[OCI_PATH_CAP], const char *digest);
/* Describes `n` bytes. */
void oci_blob_of(struct oci_blob *b, const char *media_type, const void *p,
		 size_t n);

/* --- reading -------------------------------------------------------------- */

struct oci_platform {
	char os[32], arch[32], variant[32]; /* "linux", "amd64", "" */
};

/* What this host runs. */
void oci_platform_host(struct oci_platform *p);
/* "linux/arm64" or "linux/arm64/v8". */
int oci_platform_parse(struct oci_platform *p, const char *s,
		       struct err *e) MUST_CHECK;

enum oci_kind { OCI_INDEX, OCI_MANIFEST };

/* Which of both this document is, by its content; else an error. */
int oci_kind(const void *p, size_t n, struct err *e) MUST_CHECK;
/* The first entry of an index for this platform: manifest, or index again. */
int oci_index_pick(const void *p, size_t n, const struct oci_platform *want,
		   struct oci_blob *out, struct err *e) MUST_CHECK;
/* The same of an index.json, in which more than one image is an error. */
int oci_layout_pick(const void *p, size_t n, const struct oci_platform *want,
		    struct oci_blob *out, struct err *e) MUST_CHECK;

struct oci_manifest { /* large: not for a stack */
	struct oci_blob config;
	size_t n_layers;
	struct oci_blob layers[OCI_LAYERS_MAX]; /* the lowest first */
};

int oci_manifest_read(const void *p, size_t n, struct oci_manifest *m,
		      struct err *e) MUST_CHECK;

/* manifest.json of a docker archive: names of entries. One image only. */
struct docker_manifest { /* large: not for a stack */
	char config[OCI_PATH_CAP];
	size_t n_layers;
	char layers[OCI_LAYERS_MAX][OCI_PATH_CAP];
};

int docker_manifest_read(const void *p, size_t n, struct docker_manifest *m,
			 struct err *e) MUST_CHECK;

/*
 * An image's config. `run` is what processes get by default: an object with
 * those of "Env", "Cmd", "Entrypoint", "WorkingDir", "User", "Labels",
 * "ExposedPorts", "StopSignal" that are there and of the right type.
 */
struct oci_config { /* large: not for a stack */
	struct oci_platform platform;
	size_t n_diffs;
	char diffs[OCI_LAYERS_MAX][OCI_DIGEST_CAP];
	json_t *run; /* owned */
};

/*
 * The label with what an image built here runs when a sandbox of it starts:
 * a line for the shell. "Cmd" does not do for it: nearly every image of others
 * has one, and means an interactive shell by it.
 */
#define OCI_LABEL_START PRODUCT ".start"

int oci_config_read(const void *p, size_t n, struct oci_config *c,
		    struct err *e) MUST_CHECK;
void oci_config_done(struct oci_config *c);
/* Is an image for `p` one that `want` can run? Variants are not compared. */
bool oci_platform_fits(const struct oci_platform *p,
		       const struct oci_platform *want);

/*
 * The object `run` as one line of ASCII without spaces, and back. Reading
 * checks what writing promises: keys, types, at most OCI_RUN_MAX bytes.
 */
int oci_run_write(struct buf *b, const json_t *run, struct err *e) MUST_CHECK;
json_t *oci_run_read(const char *s, size_t n, struct err *e) MUST_CHECK;

/* --- writing -------------------------------------------------------------- */

struct oci_layer {
	struct oci_blob blob;         /* as it is stored */
	char diff_id[OCI_DIGEST_CAP]; /* digest of the plain tar */
};

struct oci_image {
	struct oci_platform platform;
	uint64_t created_ms;
	const json_t *run; /* as above, or NULL */
	const struct oci_layer *layers;
	size_t n_layers;
};

/* Each adds a whole document to `b`. */
void oci_config_write(struct buf *b, const struct oci_image *img);
void oci_manifest_write(struct buf *b, const struct oci_image *img,
			const struct oci_blob *config);
/* `name` is its reference ("latest"), or NULL. */
void oci_index_write(struct buf *b, const struct oci_blob *manifest,
		     const struct oci_platform *platform, const char *name);
/*
 * manifest.json, for entries called as docker_config_path() and
 * docker_layer_path() say; `tag` is "name:tag", or NULL.
 */
void docker_manifest_write(struct buf *b, const struct oci_image *img,
			   const struct oci_blob *config, const char *tag);
void docker_config_path(char out[OCI_PATH_CAP], const struct oci_blob *config);
void docker_layer_path(char out[OCI_PATH_CAP], const struct oci_layer *layer);
