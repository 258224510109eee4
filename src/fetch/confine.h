/* The walls of the fetching program. */
#pragma once

#include "base/err.h"

/*
 * Leaves the host's files for a root that has what names are looked up with,
 * read-only, and nothing else; limits memory; drops every capability; installs
 * the filter. The network is the host's: it is what this program is for.
 */
int fetch_confine(struct err *e) MUST_CHECK;
