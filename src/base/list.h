/* Intrusive doubly linked list; an empty head points to itself. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct list {
	struct list *next, *prev;
};

#define container_of(ptr, type, member) \
	((type *)((char *)(ptr) - offsetof(type, member)))

static inline void list_init(struct list *l)
{
	l->next = l->prev = l;
}

static inline bool list_empty(const struct list *l)
{
	return l->next == l;
}

/* Appends `n` at the end of the list whose head is `head`. */
static inline void list_add(struct list *head, struct list *n)
{
	n->prev = head->prev;
	n->next = head;
	head->prev->next = n;
	head->prev = n;
}

/* Safe on a node that was initialised and is in no list. */
static inline void list_del(struct list *n)
{
	n->prev->next = n->next;
	n->next->prev = n->prev;
	list_init(n);
}

/* The current node may be deleted in the body. */
#define list_each(pos, tmp, head)                                        \
	for ((pos) = (head)->next, (tmp) = (pos)->next; (pos) != (head); \
	     (pos) = (tmp), (tmp) = (pos)->next)
