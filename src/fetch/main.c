/*
 * carrel-fetch: everything that speaks to registries, in a process that can do
 * nothing else. Requests come on 0, answers go to 1 (wire/fetch.h); the only
 * argument has three lines: the file with the authorities' certificates, the
 * hosts that may be spoken to, those that may be without TLS.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fd.h"
#include "base/log.h"
#include "fetch/confine.h"
#include "fetch/push.h"
#include "fetch/session.h"

enum { CA_MAX = 16 << 20, IN_PIECE = 64 * 1024 };

#define ACCEPTED                                                      \
	"application/vnd.oci.image.index.v1+json, "                   \
	"application/vnd.oci.image.manifest.v1+json, "                \
	"application/vnd.docker.distribution.manifest.list.v2+json, " \
	"application/vnd.docker.distribution.manifest.v2+json"

#ifdef SANITIZED
/* As in the worker: the checker finds no /proc and may start no helper. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "detect_leaks=0";
}
#endif

static struct buf in;
static struct session session;

/* --- records -------------------------------------------------------------- */

static int say(const struct fetch_record *r, struct err *e)
{
	static struct buf out;
	int w;

	buf_clear(&out);
	fetch_record_put(&out, r);
	w = write_full(STDOUT_FILENO, buf_data(&out), buf_len(&out));
	return w < 0 ? err_set(e, -w, "nobody listens") : 0;
}

static int say_done(bool yes, struct err *e)
{
	return say(&(struct fetch_record){ .kind = FETCH_DONE, .flag = yes },
		   e);
}

/*
 * The next record, which stays in `in` until the next call: 1, or 0 at the
 * end.
 */
static int hear(struct fetch_record *r, struct err *e)
{
	static size_t used;
	int n;

	buf_eat(&in, used);
	used = 0;
	while ((n = fetch_record_get(&in, r)) == 0) {
		ssize_t got = buf_read(&in, STDIN_FILENO, IN_PIECE);

		if (got == 0 && buf_len(&in) == 0)
			return 0;
		if (got <= 0)
			return err_set(e, got < 0 ? (int)-got : EPIPE,
				       "the request was cut off");
	}
	if (n < 0)
		return err_set(e, EBADMSG, "not a request");
	used = (size_t)n;
	return 1;
}

/* --- works ---------------------------------------------------------------- */

struct body {
	struct exchange x;
	uint64_t left; /* that may still come */
	bool head_said;
	struct err err;
};

static int pass_on(void *ctx, const void *p, size_t n)
{
	struct body *b = ctx;
	struct fetch_record head = { .kind = FETCH_HEAD,
				     .media_type = b->x.type,
				     .offset = b->x.offset },
			    data = { .kind = FETCH_DATA, .p = p, .n = n };

	if (n > b->left)
		return -EMSGSIZE;
	b->left -= n;
	if (!b->head_said && say(&head, &b->err) < 0)
		return -EPIPE;
	b->head_said = true;
	return say(&data, &b->err) < 0 ? -EPIPE : 0;
}

static int get(struct body *b, const char *what, struct err *e)
{
	int r;

	b->x.method = "GET";
	b->x.sink = pass_on;
	b->x.ctx = b;
	r = session_do(&session, &b->x, what, e);
	if (r == 0 && b->x.status == 404)
		r = err_set(e, ENOENT, "the registry has no such thing: %s",
			    what);
	exchange_done(&b->x);
	return r < 0 ? r : say_done(true, e);
}

static int get_manifest(const struct fetch_record *q, struct err *e)
{
	struct body b = { .left = FETCH_MANIFEST_MAX };
	char what[FETCH_TAG_CAP + 16];

	b.x.accept = ACCEPTED;
	snprintf(what, sizeof(what), "manifest %s", q->reference);
	session_url(&session, &b.x, "manifests/%s", q->reference);
	return get(&b, what, e);
}

static int get_blob(const struct fetch_record *q, struct err *e)
{
	struct body b = { .left = q->size - q->offset };
	char what[FETCH_TAG_CAP + 16];

	if (q->offset > q->size)
		return err_set(e, EBADMSG, "not a request");
	b.x.offset = q->offset;
	snprintf(what, sizeof(what), "blob %s", q->reference);
	session_url(&session, &b.x, "blobs/%s", q->reference);
	return get(&b, what, e);
}

static int has_blob(const struct fetch_record *q, struct err *e)
{
	struct exchange x = { .method = "HEAD" };
	int r;

	session_url(&session, &x, "blobs/%s", q->reference);
	r = session_do(&session, &x, "a look for a blob", e);
	exchange_done(&x);
	return r < 0 ? r : say_done(x.status != 404, e);
}

/* What is left of the FETCH_BYTES that was heard last. */
static const char *bytes_at;
static size_t bytes_left;

static int next_bytes(void *p, size_t n, struct err *e)
{
	struct fetch_record r;
	char *to = p;
	int got;

	while (n > 0) {
		size_t piece = bytes_left < n ? bytes_left : n;

		memcpy(to, bytes_at, piece);
		to += piece;
		n -= piece;
		bytes_at += piece;
		bytes_left -= piece;
		if (n == 0)
			break;
		got = hear(&r, e);
		if (got < 0)
			return got;
		if (got == 0 || r.kind != FETCH_BYTES)
			return err_set(e, EBADMSG, "the upload was cut off");
		bytes_at = r.p;
		bytes_left = r.n;
	}
	return 0;
}

static int sent(uint64_t bytes, struct err *e)
{
	return say(&(struct fetch_record){ .kind = FETCH_SENT, .size = bytes },
		   e);
}

static int put_blob(const struct fetch_record *q, struct err *e)
{
	char digest[FETCH_TAG_CAP];
	const struct push_source from = { .digest = digest,
					  .size = q->size,
					  .bytes = next_bytes,
					  .sent = sent };
	int r;

	/* The record goes with the next one. */
	snprintf(digest, sizeof(digest), "%s", q->reference);
	bytes_at = "";
	bytes_left = 0;
	r = push_blob(&session, &from, e);
	if (r == 0 && bytes_left > 0)
		r = err_set(e, EBADMSG, "more bytes than the blob has");
	return r < 0 ? r : say_done(true, e);
}

static int put_manifest(const struct fetch_record *q, struct err *e)
{
	static char text[FETCH_MANIFEST_MAX];
	char reference[FETCH_TAG_CAP], type[FETCH_MEDIA_CAP];
	size_t n = (size_t)q->size;
	int r;

	if (q->size > sizeof(text))
		return err_set(e, EBADMSG, "the manifest is too large");
	snprintf(reference, sizeof(reference), "%s", q->reference);
	snprintf(type, sizeof(type), "%s", q->media_type);
	bytes_at = "";
	bytes_left = 0;
	r = next_bytes(text, n, e);
	if (r == 0)
		r = push_manifest(&session, reference, type, text, n, e);
	return r < 0 ? r : say_done(true, e);
}

static int (*const works[FETCH_KINDS])(const struct fetch_record *q,
				       struct err *e) = {
	[FETCH_GET_MANIFEST] = get_manifest, [FETCH_GET_BLOB] = get_blob,
	[FETCH_HAS_BLOB] = has_blob,         [FETCH_PUT_BLOB] = put_blob,
	[FETCH_PUT_MANIFEST] = put_manifest,
};

static int serve(const struct policy *p, struct err *e)
{
	struct fetch_record r;
	int n = hear(&r, e);

	if (n <= 0)
		return n;
	if (r.kind != FETCH_OPEN)
		return err_set(e, EBADMSG, "not a request");
	if (session_open(&session, p, &r, e) < 0)
		return -e->code;
	while ((n = hear(&r, e)) == 1) {
		if (!works[r.kind])
			return err_set(e, EBADMSG, "not a request");
		n = works[r.kind](&r, e);
		if (n < 0)
			return n;
	}
	return n;
}

/* --- start ---------------------------------------------------------------- */

static int read_ca(struct policy *p, const char *path, struct err *e)
{
	AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	ssize_t n;

	/* Missing, it is missed when somebody needs it. */
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) ||
	    st.st_size > CA_MAX)
		return 0;
	p->ca = xcalloc(1, (size_t)st.st_size + 1);
	n = read_full(fd, p->ca, (size_t)st.st_size);
	if (n < 0)
		return err_set(e, (int)-n, "read %s", path);
	p->ca_n = (size_t)n;
	return 0;
}

static int work(char *arg, struct err *e)
{
	static struct policy policy;
	const char *ca = strsep(&arg, "\n");

	policy.registries = strsep(&arg, "\n");
	policy.insecure = strsep(&arg, "\n");
	if (!policy.insecure)
		return err_set(e, EINVAL, "not what is allowed");
	/* Libraries read their files before the host's are gone. */
	if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
		return err_set(e, EIO, "start libcurl");
	if (read_ca(&policy, ca, e) < 0)
		return -e->code;
	if (fetch_confine(e) < 0)
		return err_wrap(e, "confine the worker");
	return serve(&policy, e);
}

int main(int argc, char **argv)
{
	struct fetch_record failed = { .kind = FETCH_ERROR };
	struct err e = { 0 };

	log_init("fetch", LOG_INFO);
	if (argc != 3 || strcmp(argv[1], "fetch") != 0)
		die("usage: the warden starts this program");
	if (work(argv[2], &failed.err) == 0)
		return 0;
	if (say(&failed, &e) < 0)
		log_debug("%s", failed.err.msg);
	return 1;
}
