#include "gate/state.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

enum { STATE_VERSION = 1 };

/* Of an earlier door of this sandbox? Else it begins at nothing. */
static bool is_of(const struct box_state *s, const char *id)
{
	return s->magic == STATE_MAGIC && s->version == STATE_VERSION &&
	       memcmp(s->id, id, strlen(id) + 1) == 0;
}

/* Texts that a crash of the host cut end where they must. */
static void mend(struct box_state *s)
{
	size_t i;

	for (i = 0; i < STATE_BUDGETS; i++)
		s->budgets[i].host[POLICY_HOST_CAP - 1] = '\0';
	for (i = 0; i < STATE_NAMES; i++)
		s->names[i].host[POLICY_HOST_CAP - 1] = '\0';
}

struct box_state *state_map(int fd, const char *id, struct err *e)
{
	struct box_state *s;
	struct stat st;

	if (fstat(fd, &st) < 0)
		goto failed;
	if (!S_ISREG(st.st_mode) || st.st_size < (off_t)sizeof(*s)) {
		err_set(e, EBADMSG, "the state of %s is too short", id);
		return NULL;
	}
	s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (s == MAP_FAILED)
		goto failed;
	if (is_of(s, id)) {
		mend(s);
		return s;
	}
	memset(s, 0, sizeof(*s));
	memcpy(s->id, id, strlen(id) + 1);
	s->version = STATE_VERSION;
	s->magic = STATE_MAGIC;
	return s;
failed:
	err_sys(e, "map the state of %s", id);
	return NULL;
}

void state_unmap(struct box_state *s)
{
	if (s)
		munmap(s, sizeof(*s));
}
