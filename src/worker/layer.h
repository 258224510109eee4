/*
 * A layer of an image over what is there: a tar, perhaps compressed, whose
 * entries replace or take away what lower layers brought.
 */
#pragma once

#include "image/oci.h"
#include "worker/unpack.h"

/*
 * Reads `from` to its end. `diff` becomes the digest of the plain tar, or ""
 * when the layer was not compressed: then it is that of its bytes.
 */
int layer_apply(struct job *j, struct supply *from, char diff[OCI_DIGEST_CAP],
		struct err *e) MUST_CHECK;
