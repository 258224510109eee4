/*
 * Shapes of JSON in requests and answers, for the OpenAPI document. The names
 * are those in the tables of routes. A test compares real answers with them.
 */
#pragma once

/*
 * A name with a '?' at its end may be missing. Types: "string", "integer",
 * "number", "boolean", "object", "strings" (an object of strings), "time", or
 * the name of a schema; "[]" behind it makes a list, "?" allows null.
 */
struct schema_field {
	const char *name, *type, *help;
};

struct schema {
	const char *name, *help;
	const struct schema_field *fields; /* end at a NULL name */
};

extern const struct schema schemas[]; /* ends at a NULL name */
