#include "api/audit.h"

#include "api/api.h"
#include "api/call.h"
#include "base/auto.h"

void audit_add(struct api *a, const struct audit *entry)
{
	AUTO_FREE char *text =
		entry->data ? json_dumps(entry->data, JSON_COMPACT) : NULL;

	(void)a;
	log_debug("audit %s sandbox=%s who=%s %s", entry->type,
		  entry->box ? entry->box->id : "-",
		  entry->who ? entry->who->name : "-", text ? text : "");
	json_decref(entry->data);
}
