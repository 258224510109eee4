#include "api/path_list.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/file_json.h"
#include "base/auto.h"
#include "base/buf.h"
#include "http/target.h"

enum { TEXT_MAX = 2 * FILE_PATH_MAX };

typedef int take_fn(const char *name, const char *text, size_t n,
		    struct buf *path, struct err *e);

/* As text, and as bytes in base64. */
static const struct form {
	const char *one, *many;
	take_fn *take;
} forms[] = {
	{ "path", "paths", path_take_text },
	{ "path_base64", "paths_base64", path_take_base64 },
};

int path_clean(const char *path, struct buf *out, struct err *e)
{
	const char *at = path;
	size_t n;

	if (*path != '/')
		return err_set(e, EINVAL, "%.160s: not an absolute path", path);
	for (; *at; at += n) {
		at += strspn(at, "/");
		n = strcspn(at, "/");
		if (n == 0 || (n == 1 && *at == '.'))
			continue;
		if (n == 2 && at[0] == '.' && at[1] == '.')
			return err_set(e, EINVAL, "%.160s: has a \"..\"", path);
		buf_puts(out, "/");
		buf_add(out, at, n);
	}
	if (buf_len(out) == 0)
		buf_puts(out, "/");
	buf_str(out);
	return 0;
}

static int add(struct path_list *l, const struct form *f, const char *text,
	       size_t n, struct err *e)
{
	AUTO(buf_done) struct buf path = { 0 };
	AUTO(buf_done) struct buf clean = { 0 };
	int r = f->take(f->one, text, n, &path, e);

	if (r >= 0)
		r = path_clean(buf_data(&path), &clean, e);
	if (r < 0)
		return r;
	if (l->n == VIEW_PATHS_MAX)
		return err_set(e, EINVAL, "more than %d paths", VIEW_PATHS_MAX);
	if (!l->v)
		l->v = xcalloc(VIEW_PATHS_MAX, sizeof(*l->v));
	l->v[l->n++] = xstrdup(buf_data(&clean));
	return 0;
}

int path_list_query(struct path_list *l, const struct http_head *h,
		    struct err *e)
{
	char text[TEXT_MAX];
	size_t i;

	for (i = 0; i < ARRAY_LEN(forms); i++) {
		const struct form *f = &forms[i];
		const char *at = h->query;
		int r;

		while ((r = http_query_next(&at, f->one, text, sizeof(text))) >
		       0)
			if (add(l, f, text, strlen(text), e) < 0)
				return -e->code;
		if (r < 0)
			return err_set(e, EINVAL,
				       "%s is too long, not UTF-8 or has "
				       "control bytes (use path_base64)",
				       f->one);
	}
	return 0;
}

int path_list_json(struct path_list *l, const json_t *body, struct err *e)
{
	size_t i, k;
	json_t *v;

	for (i = 0; i < ARRAY_LEN(forms); i++) {
		const struct form *f = &forms[i];
		const json_t *list = json_object_get(body, f->many);

		if (!list || json_is_null(list))
			continue;
		if (!json_is_array(list))
			return err_set(e, EINVAL, "%s is not a list", f->many);
		json_array_foreach (list, k, v) {
			if (!json_is_string(v))
				return err_set(e, EINVAL,
					       "%s: not a list of strings",
					       f->many);
			if (add(l, f, json_string_value(v),
				json_string_length(v), e) < 0)
				return -e->code;
		}
	}
	return 0;
}

void path_list_done(struct path_list *l)
{
	size_t i;

	for (i = 0; i < l->n; i++)
		free(l->v[i]);
	free(l->v);
	*l = (struct path_list){ 0 };
}
