/*
 * Two readers in a row: one takes the compression off, one reads the tar. In
 * between the bytes are hashed, because that is what a config has digests of.
 */
#include "worker/layer.h"

#include "base/list.h"
#include "worker/limits.h"

/* The bytes of the first reader's only entry, as the supply of the second. */
struct plain {
	struct supply supply;
	struct source *raw;
};

static int plain_next(struct supply *s, struct block *b, struct err *e)
{
	return source_data(container_of(s, struct plain, supply)->raw, b, e);
}

struct chain {
	struct source raw, tar;
	struct plain plain;
	struct supply_hashed hashed;
};

static int chain_open(struct chain *c, struct job *j, struct supply *from,
		      struct err *e)
{
	struct archive_entry *only;
	struct supply *supply = &c->plain.supply;
	int r;

	r = source_open(&c->raw, from, SOURCE_RAW, e);
	if (r < 0)
		return r;
	c->raw.paid = &j->archive.in_bytes;
	c->raw.before = j->layers_bytes;
	r = source_next(&c->raw, &only, e);
	if (r < 0)
		return r;
	c->plain = (struct plain){ { plain_next }, &c->raw };
	supply_hashed_init(&c->hashed, supply);
	if (source_is_packed(&c->raw))
		supply = &c->hashed.supply;
	return source_open(&c->tar, supply, SOURCE_PLAIN_TAR, e);
}

/* To the end of everything: the digests are about all bytes. */
static int chain_drain(struct chain *c, struct supply *from, struct err *e)
{
	int r = supply_drain(c->tar.from, e);

	return r < 0 ? r : supply_drain(from, e);
}

int layer_apply(struct job *j, struct supply *from, char diff[OCI_DIGEST_CAP],
		struct err *e)
{
	static struct chain c;
	struct source *outer = j->src;
	uint8_t sum[SHA256_LEN];
	int r;

	seen_clear(&j->seen);
	r = chain_open(&c, j, from, e);
	if (r == 0) {
		j->src = &c.tar;
		j->in_layer = true;
		r = unpack_entries(j, e);
		j->in_layer = false;
		j->src = outer;
	}
	if (r == 0)
		r = chain_drain(&c, from, e);
	diff[0] = '\0';
	if (r == 0 && c.tar.from == &c.hashed.supply) {
		sha256_end(&c.hashed.sum, sum);
		oci_digest_text(diff, sum);
	}
	j->layers_bytes += source_out(&c.raw);
	source_done(&c.tar);
	source_done(&c.raw);
	return r;
}
