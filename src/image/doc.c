#include "image/doc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

json_t *doc_load(const void *p, size_t n, const char *what, struct err *e)
{
	json_error_t why;
	json_t *j;

	if (n > OCI_DOC_MAX) {
		err_set(e, E2BIG, "%s: over 1 MiB", what);
		return NULL;
	}
	/* A key that is there twice means different things to different
	 * readers. */
	j = json_loadb(p, n, JSON_REJECT_DUPLICATES, &why);
	if (!j)
		err_set(e, EBADMSG, "%s: not JSON: %.100s", what, why.text);
	return j;
}

void doc_text(const json_t *o, const char *key, char *out, size_t cap)
{
	const char *s = json_string_value(json_object_get(o, key));

	if (str_copy(out, cap, s ? s : "") < 0)
		out[0] = '\0';
}

int doc_blob(const json_t *o, const char *what, struct oci_blob *b,
	     struct err *e)
{
	const json_t *size = json_object_get(o, "size");

	doc_text(o, "digest", b->digest, sizeof(b->digest));
	doc_text(o, "mediaType", b->media_type, sizeof(b->media_type));
	if (!oci_digest_valid(b->digest))
		return err_set(e, EBADMSG,
			       "%s: its digest is not \"sha256:\" and 64 hex "
			       "digits",
			       what);
	if (!json_is_integer(size) || json_integer_value(size) < 0 ||
	    json_integer_value(size) > OCI_BLOB_MAX)
		return err_set(e, EBADMSG, "%s: its size is no number to 64 G",
			       what);
	b->size = (uint64_t)json_integer_value(size);
	return 0;
}

void doc_add(struct buf *b, json_t *j)
{
	char *s = json_dumps(j, JSON_COMPACT);

	json_decref(j);
	if (!s)
		abort(); /* out of memory; the text is ours */
	buf_puts(b, s);
	free(s);
}
