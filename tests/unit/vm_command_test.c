/* Which QEMU is started, and with which words. */
#include "sandbox/vm/command.h"

#include <stdio.h>
#include <string.h>

#include "check.h"

static const struct launch_spec spec = {
	.id = "i1",
	.image = "i2",
	.hostname = "one",
	.cpus_milli = 1500,
	.mem_bytes = 64 << 20,
	.disk_bytes = 64 << 20,
};

/* What follows an option; NULL: it is not there. */
static const char *after(const struct vm_command *c, const char *name)
{
	for (size_t i = 0; i < c->n; i++)
		if (strcmp(c->argv[i], name) == 0)
			return i + 1 < c->n ? c->argv[i + 1] : "";
	return NULL;
}

static void check_choice(bool kvm, bool small)
{
	const struct vm_host h = { .kvm = kvm, .small = small, .tsc_khz = 1 };
	bool full = !kvm || !small;
	struct vm_command c;
	struct err e = { 0 };

	for (enum vm_mode m = VM_TEMPLATE; m <= VM_PROBE; m++) {
		CHECK(vm_command(&c, &h, &spec, m, &e) == 0);
		CHECK(strcmp(c.argv[0], vm_program(&h)) == 0);
		CHECK(strcmp(c.argv[0], full ? VM_QEMU : VM_QEMU_SMALL) == 0);
		/* The small one does not know the word. */
		CHECK((after(&c, "-sandbox") != NULL) == full);
		CHECK(strncmp(after(&c, "-accel"), kvm ? "kvm" : "tcg,", 3) ==
		      0);
		CHECK(strncmp(after(&c, "-cpu"), kvm ? "host" : "max,", 4) ==
		      0);
		CHECK(strstr(after(&c, "-cpu"), ",-vmx,-svm") != NULL);
		CHECK(strstr(after(&c, "-M"), "mem-merge=off") != NULL);
		CHECK(after(&c, "-bios") != NULL);
		CHECK_STR(after(&c, "-bios"), "qboot.rom");
	}
}

/* Is there an argument with both words? */
static bool has(const struct vm_command *c, const char *one, const char *two)
{
	for (size_t i = 0; i < c->n; i++)
		if (strstr(c->argv[i], one) && strstr(c->argv[i], two))
			return true;
	return false;
}

/* Limits that still hold when a guest has taken over QEMU. */
static void check_walls(void)
{
	static const char *const denied[] = { "on,", "obsolete=deny",
					      "elevateprivileges=deny",
					      "spawn=deny",
					      "resourcecontrol=deny" };
	const struct vm_host h = { .kvm = true };
	struct vm_command c;
	struct err e = { 0 };

	CHECK(vm_command(&c, &h, &spec, VM_TEMPLATE, &e) == 0);
	for (size_t i = 0; i < sizeof(denied) / sizeof(*denied); i++)
		CHECK(strstr(after(&c, "-sandbox"), denied[i]) != NULL);
	/* The image's disk is every sandbox's. */
	CHECK(has(&c, "node-name=base,", ",read-only=on,"));
	CHECK(!has(&c, "node-name=disk,", "read-only"));
	CHECK(has(&c, "drive=disk,", "werror=report"));
	CHECK(after(&c, "-nodefaults") && after(&c, "-no-user-config"));
	CHECK(after(&c, "-no-reboot") != NULL);
	CHECK(after(&c, "-netdev") == NULL && after(&c, "-nic") == NULL);
}

static void check_words(void)
{
	const struct vm_host h = { .tsc_khz = 77 };
	struct vm_command c;
	struct err e = { 0 };

	CHECK(vm_command(&c, &h, &spec, VM_TEMPLATE, &e) == 0);
	CHECK_STR(after(&c, "-smp"), "2"); /* of 1.5 */
	CHECK_STR(after(&c, "-m"), "128M");
	CHECK(strstr(after(&c, "-append"), "tsc_early_khz=77 ") != NULL);
	CHECK(strstr(after(&c, "-object"), "share=on") != NULL);
	CHECK(after(&c, "-incoming") == NULL);

	CHECK(vm_command(&c, &h, &spec, VM_RESTORE, &e) == 0);
	CHECK_STR(after(&c, "-incoming"), "defer");
	CHECK(strstr(after(&c, "-object"), "share=off") != NULL);
	CHECK(after(&c, "-kernel") == NULL && after(&c, "-append") == NULL);

	CHECK(vm_command(&c, &h, &spec, VM_PROBE, &e) == 0);
	CHECK(after(&c, "-blockdev") == NULL && after(&c, "-mon") == NULL);
}

int main(void)
{
	check_choice(false, false);
	check_choice(false, true);
	check_choice(true, false);
	check_choice(true, true);
	check_walls();
	check_words();
	return CHECK_DONE();
}
