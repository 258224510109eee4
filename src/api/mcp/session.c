#include "api/mcp/session.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/mcp/stream.h"
#include "api/reply.h"
#include "base/auto.h"
#include "base/clock.h"
#include "http/target.h"

/* --- versions of the protocol --- */

static const char *const versions[] = { "2024-11-05", "2025-03-26",
					"2025-06-18", "2025-11-25" };
static_assert(ARRAY_LEN(versions) == MCP_VERSIONS, "a text for each");

const char *mcp_version_text(enum mcp_version v)
{
	return versions[v];
}

int mcp_version_of(const char *text)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(versions); i++)
		if (strcmp(versions[i], text) == 0)
			return (int)i;
	return -1;
}

/* --- wishes --- */

static const char *const keep_words[] = { "no", "pause", "yes" };

const char *mcp_keep_text(enum mcp_keep keep)
{
	return keep_words[keep];
}

int mcp_keep_of(const char *text, enum mcp_keep *keep)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(keep_words); i++)
		if (strcmp(keep_words[i], text) == 0) {
			*keep = (enum mcp_keep)i;
			return 0;
		}
	return -EINVAL;
}

static int take_text(const struct http_head *h, const char *name, char *out,
		     size_t cap, struct err *e)
{
	int r = http_query(h, name, out, cap);

	if (r == 0)
		*out = '\0';
	if (r < 0)
		return err_set(e, EINVAL,
			       "%s is given twice, too long or not text", name);
	return 0;
}

static int check_names(const struct http_head *h, struct err *e)
{
	static const char *const known[] = { "image", "policy", "sandbox",
					     "keep" };
	const char *p = h->query;
	size_t n, i;

	while (*p) {
		n = strcspn(p, "=&");
		for (i = 0; i < ARRAY_LEN(known); i++)
			if (strlen(known[i]) == n &&
			    memcmp(known[i], p, n) == 0)
				break;
		if (i == ARRAY_LEN(known))
			return err_set(e, EINVAL,
				       "there are the parameters image, "
				       "policy, sandbox and keep");
		p += strcspn(p, "&");
		p += *p == '&';
	}
	return 0;
}

int mcp_wishes_read(struct mcp_wishes *w, const struct http_head *h,
		    struct err *e)
{
	char keep[8];

	*w = (struct mcp_wishes){ 0 };
	if (check_names(h, e) < 0 ||
	    take_text(h, "image", w->image, sizeof(w->image), e) < 0 ||
	    take_text(h, "policy", w->policy, sizeof(w->policy), e) < 0 ||
	    take_text(h, "sandbox", w->sandbox, sizeof(w->sandbox), e) < 0 ||
	    take_text(h, "keep", keep, sizeof(keep), e) < 0)
		return -e->code;
	if (*w->sandbox && (*w->image || *w->policy))
		return err_set(e, EINVAL,
			       "image and policy are of a new sandbox, and "
			       "one that is there was named");
	if (*keep && mcp_keep_of(keep, &w->keep) < 0)
		return err_set(e, EINVAL,
			       "keep: there are 'no', 'pause' and 'yes'");
	return 0;
}

/* --- sessions --- */

void mcp_init(struct api *a)
{
	list_init(&a->mcp.sessions);
}

static bool is_of(const struct mcp_session *s, const struct identity *who)
{
	return strcmp(s->who.project, who->project) == 0 &&
	       strcmp(s->who.name, who->name) == 0;
}

/* Who a session is of that was found again, until its client comes: no name of
 * a user or a key. */
static const char nobody[] = "mcp";

static bool is_unclaimed(const struct mcp_session *s)
{
	return strcmp(s->who.name, nobody) == 0;
}

/* Nobody would notice, but for having to begin again. */
static bool is_empty(const struct mcp_session *s)
{
	struct list *n, *next;

	if (s->n_calls > 0 || *s->box.id || s->box.making)
		return false;
	list_each (n, next, (struct list *)&s->streams)
		if (container_of(n, struct mcp_stream, node)->conn)
			return false;
	return true;
}

/* The one that was not used for longest; NULL: all are in use. */
static struct mcp_session *stalest(struct api *a, const char *project)
{
	struct mcp_session *found = NULL;
	struct list *n, *next;

	list_each (n, next, &a->mcp.sessions) {
		struct mcp_session *s =
			container_of(n, struct mcp_session, node);

		if (strcmp(s->who.project, project) == 0 && is_empty(s) &&
		    (!found || s->touched_ms < found->touched_ms))
			found = s;
	}
	return found;
}

static unsigned count_of(struct api *a, const char *project)
{
	struct list *n, *next;
	unsigned count = 0;

	list_each (n, next, &a->mcp.sessions)
		count += strcmp(container_of(n, struct mcp_session, node)
					->who.project,
				project) == 0;
	return count;
}

/*
 * Many clients never say goodbye: sessions of the same project without a
 * sandbox make room.
 */
static int make_room(struct api *a, const struct identity *who, struct err *e)
{
	struct mcp_session *old;

	if (count_of(a, who->project) >= MCP_PROJECT_MAX)
		err_set(e, EUSERS, "too many sessions: end some with DELETE");
	else
		share_give(share_take(&a->pools.sessions, who->project, 1, e),
			   1);
	if (e->code == 0)
		return 0;
	old = stalest(a, who->project);
	if (!old)
		return -e->code;
	*e = (struct err){ 0 };
	mcp_session_end(old, NULL);
	return 0;
}

static void on_idle(struct timer *t);

static void watch(struct mcp_session *s)
{
	uint64_t idle = clock_boot_ms() - s->touched_ms;
	uint64_t max = s->api->conf.mcp_idle_ms;

	/* In use for longer than that: it is looked at again and again. */
	if (max > 0)
		timer_set(&s->api->loop, &s->idle,
			  idle < max ? max - idle : max, on_idle);
}

static bool is_in_use(const struct mcp_session *s)
{
	struct list *n, *next;

	if (s->n_calls > 0)
		return true;
	list_each (n, next, (struct list *)&s->streams)
		if (container_of(n, struct mcp_stream, node)->conn)
			return true;
	return false;
}

static void on_idle(struct timer *t)
{
	struct mcp_session *s = container_of(t, struct mcp_session, idle);

	if (!is_in_use(s) &&
	    clock_boot_ms() - s->touched_ms >= s->api->conf.mcp_idle_ms) {
		mcp_session_end(s, NULL);
		return;
	}
	watch(s);
}

void mcp_session_touch(struct mcp_session *s)
{
	s->touched_ms = clock_boot_ms();
}

/* An `id` of its own, or one that it had. */
static struct mcp_session *
session_add(struct api *a, const struct identity *who, const char *id)
{
	struct mcp_session *s = xcalloc(1, sizeof(*s));
	struct err e = { 0 };

	memcpy(s->id, id, ID_CAP);
	s->api = a;
	s->who = *who;
	s->log_level = MCP_INFO;
	list_init(&s->calls);
	list_init(&s->streams);
	list_init(&s->asks);
	mcp_box_init(s);
	list_add(&a->mcp.sessions, &s->node);
	s->place = share_take(&a->pools.sessions, who->project, 1, &e);
	mcp_session_touch(s);
	watch(s);
	return s;
}

struct mcp_session *mcp_session_new(struct api *a, const struct identity *who,
				    const struct mcp_wishes *w, struct err *e)
{
	struct mcp_session *s;
	char id[ID_CAP];

	if (make_room(a, who, e) < 0)
		return NULL;
	if (id_make(id) < 0) {
		err_set(e, EIO, "no random bytes");
		return NULL;
	}
	s = session_add(a, who, id);
	s->wishes = *w;
	return s;
}

static struct mcp_session *by_id(struct api *a, const char *id)
{
	struct list *n, *next;

	list_each (n, next, &a->mcp.sessions) {
		struct mcp_session *s =
			container_of(n, struct mcp_session, node);

		if (strcmp(s->id, id) == 0)
			return s;
	}
	return NULL;
}

/* Its client came back after a restart of ours. Who may only read has never
 * made a sandbox, and could not end it. */
static bool claim(struct mcp_session *s, const struct identity *who,
		  enum mcp_version v)
{
	if (!is_unclaimed(s) || !who_sees(who, s->who.project) ||
	    who->scope < SCOPE_USE)
		return false;
	s->who = *who;
	s->version = v;
	return true;
}

struct mcp_session *mcp_session_find(struct api *a, const struct identity *who,
				     const char *id, enum mcp_version v)
{
	struct mcp_session *s = by_id(a, id);

	return s && (is_of(s, who) || claim(s, who, v)) ? s : NULL;
}

void mcp_found_box(struct api *a, const struct sandbox *box, const char *id)
{
	struct identity who = { .scope = SCOPE_USE };
	struct mcp_session *s;

	if (by_id(a, id))
		return;
	memcpy(who.project, box->project, sizeof(who.project));
	memcpy(who.name, nobody, sizeof(nobody));
	s = session_add(a, &who, id);
	mcp_box_adopt(s, box);
}

static void bury(struct deferred *d)
{
	free(container_of(d, struct mcp_session, bury));
}

void mcp_session_end(struct mcp_session *s, struct http_conn *c)
{
	struct api *a = s->api;

	timer_del(&a->loop, &s->idle);
	list_del(&s->node);
	share_give(s->place, 1);
	while (!list_empty(&s->calls))
		mcp_drop(container_of(s->calls.next, struct mcp_call, node));
	while (!list_empty(&s->streams))
		mcp_stream_end(
			container_of(s->streams.next, struct mcp_stream, node),
			"the session was ended");
	/* It may have been left before the restart, and be somebody's now. */
	if (is_unclaimed(s) && s->wishes.keep == MCP_PAUSE)
		s->wishes.keep = MCP_KEEP;
	mcp_box_leave(s, c);
	loop_defer(&a->loop, &s->bury, bury);
}
