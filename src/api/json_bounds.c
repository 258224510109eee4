#include "api/json_bounds.h"

#include <stdbool.h>
#include <string.h>

const char *json_beyond(const char *p, size_t n, unsigned depth_max,
			size_t values_max, size_t *values)
{
	unsigned depth = 0;
	bool text = false;
	size_t i;

	*values = 0;
	for (i = 0; i < n; i++) {
		if (text && p[i] == '\\')
			i++;
		else if (p[i] == '"')
			text = !text;
		else if (!text && (p[i] == '{' || p[i] == '['))
			depth++;
		else if (!text && (p[i] == '}' || p[i] == ']') && depth > 0)
			depth--;
		if (i < n && !text && p[i] && strchr(",[{", p[i]))
			++*values;
		if (depth > depth_max)
			return "the JSON is nested too deeply";
		if (*values > values_max)
			return "the JSON has too many values";
	}
	return NULL;
}
