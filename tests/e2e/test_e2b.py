# suite: npm
"""Sandboxes over the E2B SDKs, and what their wire is beyond the SDKs."""

import clients
import harness


@clients.cases("e2b_sandbox.test.mjs", variants=["e2b", "e2b-old"])
class Sandboxes(clients.Case):
    CONF = {"domain": "box.test"}


if __name__ == "__main__":
    harness.main()
