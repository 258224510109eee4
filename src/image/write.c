/* The documents of an image that we hand out. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "image/doc.h"

/* Of our own making: what cannot fail but for memory is not checked. */
static void set(json_t *o, const char *key, json_t *v)
{
	if (json_object_set_new(o, key, v) < 0)
		abort();
}

static void set_text(json_t *o, const char *key, const char *s)
{
	if (*s)
		set(o, key, json_string(s));
}

static json_t *blob_json(const struct oci_blob *b)
{
	json_t *o = json_object();

	set_text(o, "mediaType", b->media_type);
	set_text(o, "digest", b->digest);
	set(o, "size", json_integer((json_int_t)b->size));
	return o;
}

static json_t *rootfs_json(const struct oci_image *img)
{
	json_t *o = json_object(), *list = json_array();
	size_t i;

	for (i = 0; i < img->n_layers; i++)
		json_array_append_new(list,
				      json_string(img->layers[i].diff_id));
	set(o, "type", json_string("layers"));
	set(o, "diff_ids", list);
	return o;
}

/* One line per layer: readers of some tools count on it. */
static json_t *history_json(const struct oci_image *img, const char *created)
{
	json_t *list = json_array();
	size_t i;

	for (i = 0; i < img->n_layers; i++) {
		json_t *o = json_object();

		set_text(o, "created", created);
		json_array_append_new(list, o);
	}
	return list;
}

static void set_platform(json_t *o, const struct oci_platform *p)
{
	set_text(o, "architecture", p->arch);
	set_text(o, "os", p->os);
	set_text(o, "variant", p->variant);
}

void oci_config_write(struct buf *b, const struct oci_image *img)
{
	char created[CLOCK_STAMP];
	json_t *o = json_object();

	clock_stamp(img->created_ms, created);
	set_text(o, "created", created);
	set_platform(o, &img->platform);
	set(o, "config", img->run ? json_deep_copy(img->run) : json_object());
	set(o, "rootfs", rootfs_json(img));
	set(o, "history", history_json(img, created));
	doc_add(b, o);
}

void oci_manifest_write(struct buf *b, const struct oci_image *img,
			const struct oci_blob *config)
{
	json_t *o = json_object(), *list = json_array();
	size_t i;

	for (i = 0; i < img->n_layers; i++)
		json_array_append_new(list, blob_json(&img->layers[i].blob));
	set(o, "schemaVersion", json_integer(2));
	set_text(o, "mediaType", OCI_MEDIA_MANIFEST);
	set(o, "config", blob_json(config));
	set(o, "layers", list);
	doc_add(b, o);
}

void oci_index_write(struct buf *b, const struct oci_blob *manifest,
		     const struct oci_platform *platform, const char *name)
{
	json_t *o = json_object(), *list = json_array();
	json_t *entry = blob_json(manifest), *p = json_object();

	set_platform(p, platform);
	set(entry, "platform", p);
	if (name) {
		json_t *notes = json_object();

		set_text(notes, "org.opencontainers.image.ref.name", name);
		set(entry, "annotations", notes);
	}
	json_array_append_new(list, entry);
	set(o, "schemaVersion", json_integer(2));
	set_text(o, "mediaType", OCI_MEDIA_INDEX);
	set(o, "manifests", list);
	doc_add(b, o);
}

void docker_manifest_write(struct buf *b, const struct oci_image *img,
			   const struct oci_blob *config, const char *tag)
{
	json_t *list = json_array(), *o = json_object();
	json_t *layers = json_array(), *tags = json_array();
	char path[OCI_PATH_CAP];
	size_t i;

	docker_config_path(path, config);
	set_text(o, "Config", path);
	if (tag)
		json_array_append_new(tags, json_string(tag));
	set(o, "RepoTags", tags);
	for (i = 0; i < img->n_layers; i++) {
		docker_layer_path(path, &img->layers[i]);
		json_array_append_new(layers, json_string(path));
	}
	set(o, "Layers", layers);
	json_array_append_new(list, o);
	doc_add(b, list);
}
