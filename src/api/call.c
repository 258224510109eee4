#include "api/call.h"

#include <errno.h>
#include <stdio.h>

#include "http/target.h"

int call_project(const struct call *call, const struct http_head *h,
		 char out[NAME_CAP], struct err *e)
{
	int r = http_query(h, "project", out, NAME_CAP);

	if (r == 0)
		snprintf(out, NAME_CAP, "%s", who_project(&call->who));
	if (r < 0 || !name_valid(out))
		return err_set(e, EINVAL, "project is no name of a project");
	if (!who_sees(&call->who, out))
		return err_set(e, ENOENT, "no project '%s'", out);
	return 0;
}
