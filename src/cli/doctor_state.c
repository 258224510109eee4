/* Does the daemon's database fit the pool (GET /v1/host, "state")? */
#include "base/product.h"
#include "cli/doctor.h"
#include "cli/show.h"

void check_state(const json_t *host, struct finding *f)
{
	const json_t *state = json_object_get(host, "state");
	const char *held = show_str(state, "held");
	json_int_t strays =
		json_integer_value(json_object_get(state, "strays"));
	json_int_t missing =
		json_integer_value(json_object_get(state, "missing"));

	if (*held)
		lacks(f, LEVEL_FAIL,
		      "put the right half back and restart, or `" PRODUCT
		      " adopt --all`: see " PRODUCT " adopt",
		      "nothing is served: %.130s", held);
	else if (strays || missing)
		lacks(f, LEVEL_WARNING,
		      PRODUCT " adopt lists them; " PRODUCT
			      " adopt --all takes strays back, " PRODUCT
			      " prune --strays removes them",
		      "%lld strays without a row, %lld rows without an object",
		      (long long)strays, (long long)missing);
	else
		found(f, "the database and the pool belong together");
}
