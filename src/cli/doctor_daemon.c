/* What the daemon found out about itself (GET /v1/host), as findings. */
#include <string.h>

#include "base/auto.h"
#include "base/last_error.h"
#include "base/product.h"
#include "cli/doctor.h"
#include "cli/show.h"

static void check_version(const json_t *host, struct finding *f)
{
	const char *v = show_str(host, "version");

	if (strcmp(v, PRODUCT_VERSION) == 0)
		found(f, "version %s", v);
	else
		lacks(f, LEVEL_WARNING, "restart it after an update",
		      "version %.40s, but this program is " PRODUCT_VERSION, v);
}

static void check_pool(const json_t *host, struct finding *f)
{
	const json_t *pool = json_object_get(host, "pool");
	json_int_t all = json_integer_value(json_object_get(pool, "bytes"));
	json_int_t left =
		json_integer_value(json_object_get(pool, "free_bytes"));
	char size[SHOW_CAP], unused[SHOW_CAP];

	show_size(pool, "bytes", size);
	show_size(pool, "free_bytes", unused);
	if (json_is_true(json_object_get(pool, "read_only")))
		lacks(f, LEVEL_FAIL,
		      "look for errors of its disk with dmesg, repair it, then "
		      "restart the daemon",
		      "%.15s, read-only: nothing can be created or removed",
		      show_str(pool, "driver"));
	else if (left >= all / 10)
		found(f, "%.15s, %s free of %s", show_str(pool, "driver"),
		      unused, size);
	else
		lacks(f, LEVEL_FAIL,
		      "remove images or sandboxes: below 10 % free no sandbox "
		      "is made",
		      "%s free of %s", unused, size);
}

static void check_limit(const json_t *host, struct finding *f)
{
	const json_t *pool = json_object_get(host, "pool");
	bool simple = json_is_true(json_object_get(pool, "simple_quota"));
	const json_t *defaults =
		json_object_get(json_object_get(host, "limits"), "defaults");
	bool allowed = strcmp(show_str(defaults, "allow-missing"), "disk") == 0;

	if (json_is_true(json_object_get(pool, "disk_limit")))
		found(f, "enforced%s", simple ? " by simple quotas" : "");
	else if (allowed)
		lacks(f, LEVEL_WARNING,
		      "use btrfs for the pool, or a filesystem with project "
		      "quotas",
		      "this pool cannot enforce them, and allow_missing = disk "
		      "does without");
	else
		lacks(f, LEVEL_FAIL,
		      "use btrfs for the pool, or a filesystem with project "
		      "quotas; or set allow_missing = disk",
		      "this pool cannot enforce them, so every create is "
		      "refused");
}

static void check_groups(const json_t *host, struct finding *f)
{
	const json_t *cg = json_object_get(host, "cgroup");

	found(f, "%.10s, sandboxes in %.96s", show_str(cg, "version"),
	      show_str(cg, "path"));
}

static void check_microvm(const json_t *host, struct finding *f)
{
	const json_t *vm = json_object_get(host, "microvm");
	const json_t *slow = json_object_get(vm, "slowdown");
	const char *why = show_str(vm, "why");
	char times[64] = "how slow that is, the first one will show";

	if (json_is_number(slow))
		snprintf(times, sizeof(times),
			 "about %.0f x slower than this machine",
			 json_number_value(slow));
	if (!json_is_true(json_object_get(vm, "available")))
		lacks(f, LEVEL_WARNING,
		      "install qemu-system-x86, run `make vm install`, or look "
		      "at microvm in the configuration",
		      "not there: %.255s", why);
	else if (strcmp(show_str(vm, "isolation"), "vm") == 0)
		found(f, "a guest boots with KVM");
	else
		lacks(f, LEVEL_WARNING,
		      "use a host whose KVM works; microvm = kvm refuses what "
		      "is emulated",
		      "emulated, %s: %.200s", times, why);
}

static void check_images(const json_t *host, struct finding *f)
{
	const json_t *counts = json_object_get(host, "counts");
	char n[SHOW_CAP];

	show_number(counts, "images", n);
	if (strcmp(n, "0") != 0)
		found(f, "%s", n);
	else
		lacks(f, LEVEL_FAIL, PRODUCT " image build debian",
		      "there is none");
}

static void check_sandboxes(const json_t *host, struct finding *f)
{
	const json_t *counts = json_object_get(host, "counts");
	char n[SHOW_CAP], spare[SHOW_CAP], max[SHOW_CAP];

	show_number(counts, "sandboxes", n);
	show_number(counts, "spares", spare);
	show_number(json_object_get(host, "limits"), "max_sandboxes", max);
	found(f, "%s of at most %s, and %s made ahead", n, max, spare);
}

static void check_log(const json_t *host, struct finding *f)
{
	const json_t *log = json_object_get(host, "log");
	char n[SHOW_CAP], waiting[SHOW_CAP], size[SHOW_CAP];

	show_number(log, "entries", n);
	show_number(log, "waiting", waiting);
	show_size(log, "spool_bytes", size);
	if (json_is_string(json_object_get(log, "error")))
		lacks(f, LEVEL_FAIL,
		      "until then what changes something is refused", "%.252s",
		      show_str(log, "error"));
	else if (json_is_true(json_object_get(log, "up")))
		found(f, "%s entries", n);
	else
		lacks(f, LEVEL_FAIL,
		      "look at the daemon's log: when too much waits, requests "
		      "are refused",
		      "its writer does not answer, %s entries wait (%s)",
		      waiting, size);
}

static void check_gate(const json_t *host, struct finding *f)
{
	const json_t *gate = json_object_get(host, "gate");
	char doors[SHOW_CAP], up[SHOW_CAP];

	show_number(gate, "doors", doors);
	show_number(gate, "up", up);
	if (strcmp(doors, "0") == 0)
		found(f, "no sandbox has a way out");
	else if (strcmp(doors, up) == 0)
		found(f, "doors: %s", doors);
	else
		lacks(f, LEVEL_FAIL,
		      "look at the daemon's log: until it answers nothing "
		      "leaves a sandbox",
		      "%s of %s doors answer", up, doors);
}

const struct daemon_check daemon_checks[] = {
	{ { "daemon", "running", "sandboxes are made by it", NULL },
	  check_version },
	{ { "daemon", "pool", "images and volumes live there", NULL },
	  check_pool },
	{ { "daemon", "state", "the database must fit the pool", NULL },
	  check_state },
	{ { "daemon", "disk limits", "one sandbox must not fill the disk",
	    NULL },
	  check_limit },
	{ { "daemon", "cgroups", "where limits are set", NULL }, check_groups },
	{ { "daemon", "microVMs", "sandboxes with a kernel of their own",
	    NULL },
	  check_microvm },
	{ { "daemon", "images", "a sandbox starts from one", NULL },
	  check_images },
	{ { "daemon", "sandboxes", "what runs now", NULL }, check_sandboxes },
	{ { "daemon", "log", "what was done, and by whom", NULL }, check_log },
	{ { "daemon", "gate", "the one way out of sandboxes", NULL },
	  check_gate },
	{ { 0 }, NULL },
};

/* Without an answer of the daemon this is all that there is to see. */
static void check_roles(const struct conf *c, struct finding *f)
{
	static const char *const roles[] = { "warden", "scribe", "gate",
					     "api" };
	char why[252];
	size_t i;

	for (i = 0; i < ARRAY_LEN(roles); i++)
		if (last_error_read(c->run_dir, roles[i], why, sizeof(why))) {
			lacks(f, LEVEL_FAIL,
			      "repair that; the daemon tries again every few "
			      "seconds",
			      "the %s is down: %s", roles[i], why);
			return;
		}
	found(f, "no role has failed to start");
}

const struct check role_checks[] = {
	{ "daemon", "roles", "without one of them no sandbox is made",
	  check_roles },
	{ 0 },
};
