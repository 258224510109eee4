/* Index, manifest and config of OCI; manifest.json of docker. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "image/doc.h"
#include "image/run.h"

int oci_kind(const void *p, size_t n, struct err *e)
{
	AUTO_JSON json_t *j = doc_load(p, n, "manifest", e);
	bool index, manifest;

	if (!j)
		return -e->code;
	index = json_object_get(j, "manifests");
	manifest = json_object_get(j, "layers") || json_object_get(j, "config");
	if (index && manifest)
		return err_set(e, EBADMSG,
			       "a document that is an index and a manifest at "
			       "once");
	if (json_object_get(j, "fsLayers"))
		return err_set(e, EBADMSG,
			       "a manifest of schema 1: save or push the image "
			       "again with a tool of this decade");
	if (!index && !manifest)
		return err_set(e, EBADMSG,
			       "neither an index nor a manifest of an image");
	return index ? OCI_INDEX : OCI_MANIFEST;
}

static void entry_platform(const json_t *entry, struct oci_platform *p)
{
	const json_t *o = json_object_get(entry, "platform");

	doc_text(o, "os", p->os, sizeof(p->os));
	doc_text(o, "architecture", p->arch, sizeof(p->arch));
	doc_text(o, "variant", p->variant, sizeof(p->variant));
}

/* How well an entry answers: 0 not at all, more is better. */
static int score(const struct oci_platform *p, const struct oci_platform *want)
{
	if (!oci_platform_fits(p, want))
		return 0;
	if (!*p->os || !*p->arch)
		return 1; /* it does not say */
	if (*want->variant && strcmp(p->variant, want->variant) == 0)
		return 4;
	return *p->variant ? 2 : 3;
}

static int no_match(const json_t *list, const struct oci_platform *want,
		    struct err *e)
{
	char has[128] = "";
	const json_t *entry;
	size_t i, len = 0;

	json_array_foreach (list, i, entry) {
		struct oci_platform p;

		entry_platform(entry, &p);
		if (len < sizeof(has) - 32)
			len += (size_t)snprintf(has + len, sizeof(has) - len,
						"%s%.12s/%.12s", i ? ", " : "",
						p.os, p.arch);
	}
	return err_set(e, EBADMSG,
		       "no image for %s/%s in the index; there is: %s",
		       want->os, want->arch, *has ? has : "nothing");
}

struct pick {
	struct oci_blob *out;
	int best;
	bool several; /* different ones, in the whole index */
};

static int consider(struct pick *pick, const json_t *entry,
		    const struct oci_platform *want, struct err *e)
{
	struct oci_platform p;
	struct oci_blob b;
	int s;

	entry_platform(entry, &p);
	s = score(&p, want);
	if (s == 0)
		return 0;
	if (doc_blob(entry, "an entry of the index", &b, e) < 0)
		return -e->code;
	if (pick->best && strcmp(b.digest, pick->out->digest) != 0)
		pick->several = true;
	if (s > pick->best) {
		*pick->out = b;
		pick->best = s;
	}
	return 0;
}

static int pick_one(const void *p, size_t n, const struct oci_platform *want,
		    struct pick *pick, struct err *e)
{
	AUTO_JSON json_t *j = doc_load(p, n, "index.json", e);
	const json_t *list = json_object_get(j, "manifests"), *entry;
	size_t i;
	int r;

	if (!j)
		return -e->code;
	if (!json_is_array(list))
		return err_set(e, EBADMSG, "an index without manifests");
	json_array_foreach (list, i, entry) {
		r = consider(pick, entry, want, e);
		if (r < 0)
			return r;
	}
	return pick->best ? 0 : no_match(list, want, e);
}

int oci_index_pick(const void *p, size_t n, const struct oci_platform *want,
		   struct oci_blob *out, struct err *e)
{
	struct pick pick = { .out = out };

	return pick_one(p, n, want, &pick, e);
}

int oci_layout_pick(const void *p, size_t n, const struct oci_platform *want,
		    struct oci_blob *out, struct err *e)
{
	struct pick pick = { .out = out };
	int r = pick_one(p, n, want, &pick, e);

	if (r == 0 && pick.several)
		return err_set(e, EBADMSG,
			       "more than one image in the archive: save the "
			       "wanted one alone");
	return r;
}

int oci_manifest_read(const void *p, size_t n, struct oci_manifest *m,
		      struct err *e)
{
	AUTO_JSON json_t *j = doc_load(p, n, "manifest", e);
	const json_t *list = json_object_get(j, "layers"), *entry;
	char what[32];
	size_t i;
	int r;

	if (!j)
		return -e->code;
	if (!json_is_array(list) || json_array_size(list) == 0)
		return err_set(e, EBADMSG, "a manifest without layers");
	if (json_array_size(list) > OCI_LAYERS_MAX)
		return err_set(e, E2BIG, "a manifest with over %d layers",
			       OCI_LAYERS_MAX);
	r = doc_blob(json_object_get(j, "config"), "the config", &m->config, e);
	if (r < 0)
		return r;
	m->n_layers = json_array_size(list);
	json_array_foreach (list, i, entry) {
		snprintf(what, sizeof(what), "layer %zu", i + 1);
		r = doc_blob(entry, what, &m->layers[i], e);
		if (r < 0)
			return r;
	}
	return 0;
}

static const json_t *one_image(const json_t *list, struct err *e)
{
	if (!json_is_array(list) || json_array_size(list) == 0)
		err_set(e, EBADMSG, "manifest.json has no image");
	else if (json_array_size(list) > 1)
		err_set(e, EBADMSG,
			"%zu images in the archive: save the wanted one alone",
			json_array_size(list));
	else
		return json_array_get(list, 0);
	return NULL;
}

int docker_manifest_read(const void *p, size_t n, struct docker_manifest *m,
			 struct err *e)
{
	AUTO_JSON json_t *j = doc_load(p, n, "manifest.json", e);
	const json_t *image = j ? one_image(j, e) : NULL;
	const json_t *list = json_object_get(image, "Layers"), *entry;
	size_t i;

	if (!image)
		return -e->code;
	doc_text(image, "Config", m->config, sizeof(m->config));
	if (!*m->config || !json_is_array(list) || json_array_size(list) == 0)
		return err_set(e, EBADMSG,
			       "manifest.json lacks Config or Layers");
	if (json_array_size(list) > OCI_LAYERS_MAX)
		return err_set(e, E2BIG, "manifest.json has over %d layers",
			       OCI_LAYERS_MAX);
	m->n_layers = json_array_size(list);
	json_array_foreach (list, i, entry) {
		const char *s = json_string_value(entry);

		if (!s || !*s || str_copy(m->layers[i], OCI_PATH_CAP, s) < 0)
			return err_set(e, EBADMSG,
				       "layer %zu of manifest.json has no name",
				       i + 1);
	}
	return 0;
}

static int read_diffs(const json_t *list, struct oci_config *c, struct err *e)
{
	const json_t *entry;
	size_t i;

	if (json_array_size(list) > OCI_LAYERS_MAX)
		return err_set(e, E2BIG, "a config with over %d layers",
			       OCI_LAYERS_MAX);
	c->n_diffs = json_array_size(list);
	json_array_foreach (list, i, entry) {
		const char *s = json_string_value(entry);

		if (!s || !oci_digest_valid(s) ||
		    str_copy(c->diffs[i], OCI_DIGEST_CAP, s) < 0)
			return err_set(e, EBADMSG,
				       "the config's digest of layer %zu is "
				       "not \"sha256:\" and 64 hex digits",
				       i + 1);
	}
	return 0;
}

int oci_config_read(const void *p, size_t n, struct oci_config *c,
		    struct err *e)
{
	AUTO_JSON json_t *j = doc_load(p, n, "config", e);
	int r;

	c->run = NULL;
	if (!j)
		return -e->code;
	if (!json_is_object(j))
		return err_set(e, EBADMSG, "the config is no JSON object");
	doc_text(j, "os", c->platform.os, sizeof(c->platform.os));
	doc_text(j, "architecture", c->platform.arch, sizeof(c->platform.arch));
	doc_text(j, "variant", c->platform.variant,
		 sizeof(c->platform.variant));
	r = read_diffs(
		json_object_get(json_object_get(j, "rootfs"), "diff_ids"), c,
		e);
	if (r < 0)
		return r;
	c->run = run_filter(json_object_get(j, "config"));
	return 0;
}

void oci_config_done(struct oci_config *c)
{
	json_decref(c->run);
	c->run = NULL;
}
