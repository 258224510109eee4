/*
 * Names of templates and paths of volumes: what is taken is in its normal
 * form, is taken again as the same, and a path never leaves its volume.
 */
#include "../../src/api/e2b/template_name.c"
#include "../../src/api/e2b/volume_path.c"

#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void name(const char *text)
{
	char full[NAME_CAP + TEMPLATE_NAME_CAP + TEMPLATE_TAG_CAP + 2];
	struct template_name one, two;

	if (template_name_parse(text, &one) < 0)
		return;
	snprintf(full, sizeof(full), "%s%s%s%s%s", one.namespace,
		 *one.namespace ? "/" : "", one.alias, *one.tag ? ":" : "",
		 one.tag);
	assert(strlen(full) == strlen(text));
	assert(template_name_parse(full, &two) == 0);
	assert(memcmp(&one, &two, sizeof(one)) == 0);
}

static void path(const char *text, size_t cap)
{
	char *out = malloc(cap), *again = malloc(cap + sizeof(VOLUME_TOP));

	if (volume_path(text, out, cap) == 0) {
		assert(str_starts(out, VOLUME_TOP));
		assert(strlen(out) < cap && !strstr(out, "/../"));
		assert(!strstr(out, "//"));
		assert(volume_path(out + strlen(VOLUME_TOP), again, cap) == 0);
		assert(strcmp(out, again) == 0);
	}
	free(out);
	free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	char *text = malloc(n + 1);

	memcpy(text, data, n);
	text[n] = '\0';
	name(text);
	(void)is_uuid(text);
	(void)template_tag_valid(text);
	path(text, 64);
	path(text, 4);
	free(text);
	return 0;
}
