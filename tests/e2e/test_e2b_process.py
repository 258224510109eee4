# suite: npm
"""Commands and terminals over the E2B SDKs."""

import clients
import harness


@clients.cases("e2b_process.test.mjs", variants=["e2b", "e2b-old"])
class Processes(clients.Case):
    IMAGE = "debian"


if __name__ == "__main__":
    harness.main()
