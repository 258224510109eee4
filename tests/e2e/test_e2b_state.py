# suite: both
# suite: npm
"""States of sandboxes over the E2B SDKs: snapshots, forks, figures, logs."""

import clients
import harness


@clients.cases("e2b_state.test.mjs", variants=["e2b", "e2b-old"])
class States(clients.Case):
    CONF = {"max_sandboxes": "24"}


if __name__ == "__main__":
    harness.main()
