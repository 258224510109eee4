# suite: both
# suite: npm
"""Files over the E2B SDKs, and over their wire."""

import clients
import harness


@clients.cases("e2b_files.test.mjs", variants=["e2b", "e2b-old"])
class Files(clients.Case):
    CONF = {"pool_size": "3G"}


if __name__ == "__main__":
    harness.main()
