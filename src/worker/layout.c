/*
 * An archive of an image, in whatever order its files come.
 *
 * What is not understood yet is spooled. After every file we look how far we
 * get: from index.json to the manifest of this host's platform, or to
 * manifest.json of docker; from there through the layers, from the lowest on.
 * A layer that comes when it is the next one is unpacked straight from the
 * stream. Every byte that counts is hashed on its way and compared with the
 * digest by which it was asked for; a mistake anywhere drops the whole volume.
 */
#include "worker/layout.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/list.h"
#include "base/str.h"
#include "worker/entry.h"
#include "worker/layer.h"
#include "worker/limits.h"
#include "worker/path.h"
#include "worker/spool.h"

struct layout {
	struct job *j;
	struct spool spool;
	struct oci_platform host;
	bool is_oci, is_docker;
	struct oci_blob at; /* the document to look at next */
	unsigned nested;    /* indexes on the way to it */
	bool known;         /* the manifest: what follows is right */
	size_t n_layers, next;
	/* Names in the archive; digests and sizes are said by OCI only. */
	struct part {
		char name[OCI_PATH_CAP];
		const struct oci_blob *want; /* or NULL */
	} config, layers[OCI_LAYERS_MAX];
	char diffs[OCI_LAYERS_MAX][OCI_DIGEST_CAP];
	struct oci_manifest manifest;
	struct docker_manifest docker;
	struct oci_config said;
	struct supply_part part;
	struct supply_hashed hashed;
};

/* --- is it one? ------------------------------------------------------------
 */

enum { HEX_LEN = 64 };

static bool is_hex(const char *s, const char *end)
{
	return strspn(s, "0123456789abcdef") == HEX_LEN &&
	       strcmp(s + HEX_LEN, end) == 0;
}

enum layout_guess layout_guess(struct archive_entry *ae)
{
	static const char *const names[] = { "oci-layout",    "index.json",
					     "manifest.json", "repositories",
					     "blobs",         "blobs/sha256" };
	static const char *const ends[] = { "",           ".tar",     ".json",
					    "/layer.tar", "/VERSION", "/json" };
	const char *raw = archive_entry_pathname(ae);
	struct err ignored = { 0 };
	struct path p;
	size_t i;

	if (!raw || path_clean(&p, raw, "entry", &ignored) < 0)
		return GUESS_TREE;
	if (!*p.s)
		return GUESS_NONE;
	for (i = 0; i < ARRAY_LEN(names); i++)
		if (strcmp(p.s, names[i]) == 0)
			return GUESS_IMAGE;
	for (i = 0; i < ARRAY_LEN(ends); i++)
		if (is_hex(p.s, ends[i]))
			return GUESS_IMAGE;
	return str_starts(p.s, "blobs/sha256/") &&
			       is_hex(p.s + strlen("blobs/sha256/"), "")
		       ? GUESS_IMAGE
		       : GUESS_TREE;
}

/* --- the bytes of an entry --------------------------------------------------
 */

struct entry_supply {
	struct supply supply;
	struct source *src;
};

static int entry_next(struct supply *s, struct block *b, struct err *e)
{
	return source_data(container_of(s, struct entry_supply, supply)->src, b,
			   e);
}

static int skip(struct layout *l, struct err *e)
{
	struct block b;
	int r;

	while ((r = source_data(l->j->src, &b, e)) > 0)
		;
	return r;
}

/* What came is what was asked for. */
static int check_blob(const struct part *p, const char *digest, uint64_t size,
		      struct err *e)
{
	if (p->want && size != p->want->size)
		return err_set(e, EBADMSG,
			       "%.80s: %llu bytes where its descriptor says "
			       "%llu",
			       p->name, (unsigned long long)size,
			       (unsigned long long)p->want->size);
	if (p->want && strcmp(digest, p->want->digest) != 0)
		return err_set(e, EBADMSG,
			       "%.80s: its content has another digest",
			       p->name);
	return 0;
}

static int spool_entry(struct layout *l, const char *name, struct err *e)
{
	struct entry_supply entry = { { entry_next }, l->j->src };
	char digest[OCI_DIGEST_CAP], path[OCI_PATH_CAP];
	uint8_t sum[SHA256_LEN];
	struct block b;
	int r;

	r = spool_begin(&l->spool, name, e);
	if (r < 0)
		return r;
	supply_hashed_init(&l->hashed, &entry.supply);
	while ((r = supply_next(&l->hashed.supply, &b, e)) > 0) {
		r = spool_add(&l->spool, b.p, b.n, e);
		if (r == 0)
			r = check_pool(l->j, b.n, e);
		if (r < 0)
			return r;
	}
	if (r < 0)
		return err_wrap(e, "%.100s", name);
	sha256_end(&l->hashed.sum, sum);
	oci_digest_text(digest, sum);
	oci_blob_path(path, digest);
	if (str_starts(name, "blobs/sha256/") && strcmp(name, path) != 0)
		return err_set(e, EBADMSG,
			       "%.100s: its content has another digest", name);
	spool_end(&l->spool, digest);
	return 0;
}

/* --- layers ----------------------------------------------------------------
 */

static int layer_wrap(const struct layout *l, struct err *e)
{
	const char *base = strrchr(l->layers[l->next].name, '/');

	base = base ? base + 1 : l->layers[l->next].name;
	return err_wrap(e, "layer %zu of %zu (%.12s)", l->next + 1, l->n_layers,
			base);
}

static int apply_spooled(struct layout *l, const struct spooled *f,
			 struct err *e)
{
	char *diff = l->diffs[l->next];
	int r = check_blob(&l->layers[l->next], f->digest, f->size, e);

	if (r < 0)
		return layer_wrap(l, e);
	supply_part_init(&l->part, l->spool.fd, f->offset, f->size);
	r = layer_apply(l->j, &l->part.supply, diff, e);
	if (r < 0)
		return layer_wrap(l, e);
	if (!*diff)
		memcpy(diff, f->digest, OCI_DIGEST_CAP);
	l->next++;
	return 0;
}

static int apply_entry(struct layout *l, struct err *e)
{
	struct entry_supply entry = { { entry_next }, l->j->src };
	char digest[OCI_DIGEST_CAP], *diff = l->diffs[l->next];
	uint8_t sum[SHA256_LEN];
	int r;

	supply_hashed_init(&l->hashed, &entry.supply);
	r = layer_apply(l->j, &l->hashed.supply, diff, e);
	if (r < 0)
		return layer_wrap(l, e);
	sha256_end(&l->hashed.sum, sum);
	oci_digest_text(digest, sum);
	r = check_blob(&l->layers[l->next], digest, l->hashed.n, e);
	if (r < 0)
		return layer_wrap(l, e);
	if (!*diff)
		memcpy(diff, digest, OCI_DIGEST_CAP);
	l->next++;
	return 0;
}

/* --- documents -------------------------------------------------------------
 */

static int set_part(struct part *p, const char *raw, struct err *e)
{
	struct path clean;
	int r = path_clean(&clean, raw, "a file of manifest.json", e);

	if (r < 0)
		return r;
	if (str_copy(p->name, sizeof(p->name), clean.s) < 0)
		return err_set(e, EBADMSG,
			       "a name over 255 bytes in "
			       "manifest.json");
	return 0;
}

static int take_docker(struct layout *l, const struct buf *doc, struct err *e)
{
	size_t i;
	int r = docker_manifest_read(buf_data(doc), buf_len(doc), &l->docker,
				     e);

	if (r == 0)
		r = set_part(&l->config, l->docker.config, e);
	for (i = 0; r == 0 && i < l->docker.n_layers; i++)
		r = set_part(&l->layers[i], l->docker.layers[i], e);
	l->n_layers = l->docker.n_layers;
	l->known = r == 0;
	return r;
}

static void ask_for(struct part *p, const struct oci_blob *want)
{
	oci_blob_path(p->name, want->digest);
	p->want = want;
}

static int take_manifest(struct layout *l, const struct buf *doc, struct err *e)
{
	size_t i;
	int r = oci_manifest_read(buf_data(doc), buf_len(doc), &l->manifest, e);

	if (r < 0)
		return r;
	ask_for(&l->config, &l->manifest.config);
	for (i = 0; i < l->manifest.n_layers; i++)
		ask_for(&l->layers[i], &l->manifest.layers[i]);
	l->n_layers = l->manifest.n_layers;
	l->known = true;
	return 0;
}

/* 1 and the file when it is there, and is what it should be. */
static int find_part(struct layout *l, const struct part *p, struct buf *doc,
		     struct err *e)
{
	const struct spooled *f = spool_find(&l->spool, p->name);
	int r;

	if (!f)
		return 0;
	r = check_blob(p, f->digest, f->size, e);
	if (r == 0)
		r = spool_read(&l->spool, f, doc, e);
	return r < 0 ? r : 1;
}

/* Goes from document to document while they are there. */
static int resolve_oci(struct layout *l, struct buf *doc, struct err *e)
{
	struct part p;
	int r;

	while (!l->known) {
		ask_for(&p, &l->at);
		buf_clear(doc);
		r = find_part(l, &p, doc, e);
		if (r <= 0)
			return r;
		r = oci_kind(buf_data(doc), buf_len(doc), e);
		if (r == OCI_MANIFEST)
			r = take_manifest(l, doc, e);
		else if (r == OCI_INDEX && ++l->nested > OCI_NESTED_MAX)
			r = err_set(e, E2BIG, "over %d indexes in indexes",
				    OCI_NESTED_MAX);
		else if (r == OCI_INDEX)
			r = oci_index_pick(buf_data(doc), buf_len(doc),
					   &l->host, &l->at, e);
		if (r < 0)
			return r;
	}
	return 0;
}

/* The first that comes of both: an archive that has both means the same. */
static int resolve_top(struct layout *l, struct buf *doc, struct err *e)
{
	static const struct part index = { .name = "index.json" },
				 docker = { .name = "manifest.json" };
	int r = find_part(l, &index, doc, e);

	if (r > 0) {
		l->is_oci = true;
		return oci_layout_pick(buf_data(doc), buf_len(doc), &l->host,
				       &l->at, e);
	}
	if (r == 0)
		r = find_part(l, &docker, doc, e);
	if (r <= 0)
		return r;
	l->is_docker = true;
	return take_docker(l, doc, e);
}

static int resolve(struct layout *l, struct err *e)
{
	struct buf doc = { 0 };
	int r = 0;

	if (!l->is_oci && !l->is_docker)
		r = resolve_top(l, &doc, e);
	if (r == 0 && l->is_oci)
		r = resolve_oci(l, &doc, e);
	buf_done(&doc);
	return r;
}

/* As far as it goes with what is there. */
static int advance(struct layout *l, struct err *e)
{
	int r = l->known ? 0 : resolve(l, e);

	while (r == 0 && l->known && l->next < l->n_layers) {
		const struct spooled *f =
			spool_find(&l->spool, l->layers[l->next].name);

		if (!f)
			return 0;
		r = apply_spooled(l, f, e);
	}
	return r;
}

/* --- entries of the archive ------------------------------------------------
 */

/* Is this the layer that is next, and wanted only once? */
static bool is_next(const struct layout *l, const char *name)
{
	size_t i;

	if (!l->known || l->next == l->n_layers ||
	    strcmp(l->layers[l->next].name, name) != 0)
		return false;
	for (i = l->next + 1; i < l->n_layers; i++)
		if (strcmp(l->layers[i].name, name) == 0)
			return false;
	return true;
}

/* With links anything may be needed under another name. */
static bool is_needless(const struct layout *l, const char *name)
{
	size_t i;

	if (!l->known || !l->is_oci || strcmp(name, l->config.name) == 0)
		return spool_find(&l->spool, name) &&
		       str_starts(name, "blobs/sha256/");
	for (i = l->next; i < l->n_layers; i++)
		if (strcmp(l->layers[i].name, name) == 0)
			return spool_find(&l->spool, name);
	return true;
}

/* "../X" beside "DIR/layer.tar": a name in the archive, not a path. */
static int take_symlink(struct layout *l, const struct path *p,
			const char *target, struct err *e)
{
	char joined[2 * ENTRY_PATH_MAX + 2];
	size_t dir = p->name_at;
	struct path to;
	int r;

	while (str_starts(target, "../") && dir > 0) {
		target += 3;
		do
			dir--;
		while (dir > 0 && p->s[dir - 1] != '/');
	}
	snprintf(joined, sizeof(joined), "%.*s%.*s", (int)dir, p->s,
		 ENTRY_PATH_MAX, target);
	r = path_clean(&to, joined, "link to", e);
	return r < 0 ? r : spool_link(&l->spool, p->s, to.s, e);
}

static int take_link(struct layout *l, const struct path *p,
		     struct archive_entry *ae, struct err *e)
{
	const char *hard = archive_entry_hardlink(ae);
	const char *soft = archive_entry_symlink(ae);
	struct path to;
	int r;

	if (!hard && !soft)
		return err_set(e, EBADMSG, "entry %.100s: a link to nothing",
			       p->s);
	if (!hard)
		return take_symlink(l, p, soft, e);
	r = path_clean(&to, hard, "link to", e);
	return r < 0 ? r : spool_link(&l->spool, p->s, to.s, e);
}

static int take_entry(struct layout *l, struct archive_entry *ae, struct err *e)
{
	const char *raw = archive_entry_pathname(ae);
	mode_t type = archive_entry_filetype(ae);
	struct path p;
	int r;

	r = path_clean(&p, raw ? raw : "", "entry", e);
	if (r < 0)
		return r;
	if (archive_entry_hardlink(ae) || type == AE_IFLNK) {
		r = take_link(l, &p, ae, e);
		if (r == 0)
			r = skip(l, e);
	} else if (type != AE_IFREG || is_needless(l, p.s)) {
		return skip(l, e);
	} else if (is_next(l, p.s)) {
		r = apply_entry(l, e);
	} else {
		r = spool_entry(l, p.s, e);
	}
	return r < 0 ? r : advance(l, e);
}

/* --- the end ---------------------------------------------------------------
 */

static int missing(const struct layout *l, struct err *e)
{
	if (!l->is_oci && !l->is_docker)
		return err_set(e, EBADMSG,
			       "an archive of an image without index.json or "
			       "manifest.json");
	if (!l->known)
		return err_set(e, EBADMSG,
			       "the manifest %s is not in the archive",
			       l->at.digest);
	if (l->next < l->n_layers)
		return err_set(
			e, EBADMSG,
			"layer %zu of %zu, %.100s, is not in the archive",
			l->next + 1, l->n_layers, l->layers[l->next].name);
	return 0;
}

static int check_diffs(const struct layout *l, struct err *e)
{
	size_t i;

	if (l->said.n_diffs != l->n_layers)
		return err_set(e, EBADMSG,
			       "the config is about %zu layers, the manifest "
			       "about %zu",
			       l->said.n_diffs, l->n_layers);
	for (i = 0; i < l->n_layers; i++)
		if (strcmp(l->said.diffs[i], l->diffs[i]) != 0)
			return err_set(e, EBADMSG,
				       "layer %zu of %zu: its tar has another "
				       "digest than the config says",
				       i + 1, l->n_layers);
	return 0;
}

static int take_config(struct layout *l, const struct buf *doc, struct err *e)
{
	struct buf line = { 0 };
	int r = oci_config_read(buf_data(doc), buf_len(doc), &l->said, e);

	if (r < 0)
		return r;
	if (!oci_platform_fits(&l->said.platform, &l->host))
		return err_set(e, EBADMSG,
			       "an image for %s/%s; this host runs %s/%s",
			       l->said.platform.os, l->said.platform.arch,
			       l->host.os, l->host.arch);
	r = check_diffs(l, e);
	if (r == 0)
		r = oci_run_write(&line, l->said.run, e);
	if (r == 0)
		r = report_config(l->j->report, buf_str(&line), e);
	buf_done(&line);
	return r;
}

static int finish(struct layout *l, struct err *e)
{
	struct buf doc = { 0 };
	int r = missing(l, e);

	if (r < 0)
		return r;
	r = find_part(l, &l->config, &doc, e);
	if (r > 0)
		r = take_config(l, &doc, e);
	else if (r == 0)
		r = err_set(e, EBADMSG,
			    "the config %.100s is not in the "
			    "archive",
			    l->config.name);
	oci_config_done(&l->said);
	buf_done(&doc);
	return r;
}

static int take_all(struct layout *l, struct archive_entry *ae, struct err *e)
{
	unsigned n = 0;
	int r;

	do {
		if (++n > LAYOUT_ENTRIES_MAX)
			return err_set(e, E2BIG,
				       "over %d files in the archive of an "
				       "image",
				       LAYOUT_ENTRIES_MAX);
		r = take_entry(l, ae, e);
		if (r < 0)
			return r;
		r = source_next(l->j->src, &ae, e);
	} while (r > 0);
	return r < 0 ? r : finish(l, e);
}

int layout_unpack(struct job *j, struct archive_entry *ae, struct err *e)
{
	static struct layout l;
	int r;

	memset(&l, 0, sizeof(l));
	l.j = j;
	oci_platform_host(&l.host);
	r = spool_init(&l.spool, j->root_fd, e);
	if (r == 0)
		r = take_all(&l, ae, e);
	spool_done(&l.spool);
	return r;
}
