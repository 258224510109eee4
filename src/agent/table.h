/*
 * Finding things by a number. The rows are fixed; those that were never used
 * cost no memory.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { TABLE_ROWS = 512 };

/* Embedded in what is to be found. */
struct entry {
	struct entry *next;
	uint32_t key;
};

struct table {
	struct entry *row[TABLE_ROWS];
};

static inline void table_add(struct table *t, struct entry *e, uint32_t key)
{
	struct entry **row = &t->row[key % TABLE_ROWS];

	e->key = key;
	e->next = *row;
	*row = e;
}

/* Harmless when it is not there. */
static inline void table_del(struct table *t, struct entry *e)
{
	struct entry **at = &t->row[e->key % TABLE_ROWS];

	while (*at && *at != e)
		at = &(*at)->next;
	if (*at)
		*at = e->next;
}

/* From here on: `e` or a later one that has this key, or NULL. */
static inline struct entry *table_seek(struct entry *e, uint32_t key)
{
	while (e && e->key != key)
		e = e->next;
	return e;
}

/* The latest one; the others that have the same key follow. */
static inline struct entry *table_find(const struct table *t, uint32_t key)
{
	return table_seek(t->row[key % TABLE_ROWS], key);
}

#define table_each(e, t, k) \
	for ((e) = table_find(t, k); (e); (e) = table_seek((e)->next, k))
