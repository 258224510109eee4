#include "gate/state.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

enum { STATE_VERSION = 2, STATE_NO_OWN = 1 };

/* Of an earlier door of this sandbox? Else it begins at nothing. */
static bool is_of(const struct box_state *s, const char *id)
{
	return s->magic == STATE_MAGIC &&
	       (s->version == STATE_VERSION || s->version == STATE_NO_OWN) &&
	       memcmp(s->id, id, strlen(id) + 1) == 0;
}

/*
 * Whoever wrote it may have been taken over: texts end where they must. What is
 * right is not written again, so that its page stays clean.
 */
static void end_text(char *host)
{
	if (host[POLICY_HOST_CAP - 1])
		host[POLICY_HOST_CAP - 1] = '\0';
}

static void mend(struct box_state *s)
{
	size_t i;

	for (i = 0; i < STATE_BUDGETS; i++)
		end_text(s->budgets[i].host);
	for (i = 0; i < STATE_NAMES; i++)
		end_text(s->names[i].host);
	end_text(s->own.host);
	if (s->version == STATE_VERSION)
		return;
	/* Before there were accounts the sandbox's budget counted all. */
	s->own = s->budgets[0];
	s->version = STATE_VERSION;
}

/* A new file is empty, and takes no memory until something is written. */
static void begin(struct box_state *s, const char *id)
{
	if (s->magic || s->version)
		memset(s, 0, sizeof(*s));
	memcpy(s->id, id, strlen(id) + 1);
	s->version = STATE_VERSION;
	s->magic = STATE_MAGIC;
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
	if (is_of(s, id))
		mend(s);
	else
		begin(s, id);
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
