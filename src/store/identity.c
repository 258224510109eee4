/*
 * The identity of the pool: the note `identity` in its root, "ID GENERATION".
 * The api has the same pair in its database and compares the two before it
 * removes anything (api/pool_id.h).
 *
 * A note is the target of a symbolic link, and a rename replaces it: a crash
 * leaves the old one or the new one.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "store/ops.h"

static const char note[] = "identity", note_new[] = "identity.new";

int store_identity_read(struct store *s, char id[STORE_ID_CAP],
			uint64_t *generation, struct err *e)
{
	char text[STORE_ID_CAP + 24], *space;
	int r = note_read(s->root_fd, note, text, sizeof(text));

	*id = '\0';
	*generation = 0;
	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return err_set(e, -r, "read the identity of the pool: %s",
			       strerror(-r));
	space = strchr(text, ' ');
	if (space)
		*space++ = '\0';
	if (!space || str_copy(id, STORE_ID_CAP, text) < 0 ||
	    parse_u64(space, UINT64_MAX, generation) < 0)
		return err_set(e, EBADMSG,
			       "the identity of the pool is damaged: it is the "
			       "symbolic link 'identity' in the pool's root");
	return 0;
}

int store_identity_write(struct store *s, const char *id, uint64_t generation,
			 bool sync, struct err *e)
{
	char text[STORE_ID_CAP + 24];

	snprintf(text, sizeof(text), "%s %llu", id,
		 (unsigned long long)generation);
	if (unlinkat(s->root_fd, note_new, 0) < 0 && errno != ENOENT)
		return err_sys(e, "remove %s of the pool", note_new);
	if (note_write(s->root_fd, note_new, text, e) < 0)
		return -e->code;
	if (renameat(s->root_fd, note_new, s->root_fd, note) < 0 ||
	    (sync && fsync(s->root_fd) < 0))
		return err_sys(e, "write the identity of the pool");
	return 0;
}

bool store_has_contents(struct store *s)
{
	static const char *const kept[] = { "images", "snap", "vol" };
	char id[ID_CAP];
	size_t i;

	/* A list that cannot be read is not an empty one. */
	for (i = 0; i < ARRAY_LEN(kept); i++)
		if (tree_next(s, kept[i], "", id) != -ENOENT)
			return true;
	return false;
}
