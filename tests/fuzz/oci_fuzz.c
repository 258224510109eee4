/*
 * Fuzzes the readers of images' documents: every one gets the input. What a
 * reader accepts keeps its promises: sizes, digests, a `run` that can be
 * written and read again.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "image/oci.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check_blob(const struct oci_blob *b)
{
	if (!oci_digest_valid(b->digest) || b->size > OCI_BLOB_MAX ||
	    strlen(b->media_type) >= OCI_MEDIA_CAP)
		abort();
}

static void try_index(const uint8_t *data, size_t n)
{
	static const struct oci_platform want = { "linux", "amd64", "" };
	struct err e = { 0 };
	struct oci_blob b;

	if (oci_index_pick(data, n, &want, &b, &e) == 0)
		check_blob(&b);
	err_clear(&e);
	if (oci_layout_pick(data, n, &want, &b, &e) == 0)
		check_blob(&b);
	err_clear(&e);
	(void)!oci_kind(data, n, &e);
}

static void try_manifests(const uint8_t *data, size_t n)
{
	static struct docker_manifest d;
	static struct oci_manifest m;
	struct err e = { 0 };
	size_t i;

	if (oci_manifest_read(data, n, &m, &e) == 0) {
		check_blob(&m.config);
		for (i = 0; i < m.n_layers; i++)
			check_blob(&m.layers[i]);
	}
	err_clear(&e);
	if (docker_manifest_read(data, n, &d, &e) == 0)
		for (i = 0; i < d.n_layers; i++)
			if (!*d.layers[i])
				abort();
}

static void try_run(const json_t *run)
{
	struct buf b = { 0 };
	struct err e = { 0 };
	json_t *again;
	size_t i;

	if (oci_run_write(&b, run, &e) == 0) {
		for (i = 0; i < buf_len(&b); i++)
			if (buf_data(&b)[i] < ' ' || buf_data(&b)[i] > '~')
				abort();
		again = oci_run_read(buf_data(&b), buf_len(&b), &e);
		if (!again || !json_equal(again, run))
			abort();
		json_decref(again);
	}
	buf_done(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static struct oci_config c;
	struct err e = { 0 };
	json_t *run;

	try_index(data, n);
	try_manifests(data, n);
	if (oci_config_read(data, n, &c, &e) == 0)
		try_run(c.run);
	oci_config_done(&c);
	err_clear(&e);
	run = oci_run_read((const char *)data, n, &e);
	if (run)
		try_run(run);
	json_decref(run);
	return 0;
}
