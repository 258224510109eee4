# suite: npm
"""Sandboxes over the E2B SDKs, and what their wire is beyond the SDKs."""

import clients
import harness


@clients.cases("e2b_sandbox.test.mjs", variants=["e2b", "e2b-old"])
class Sandboxes(clients.Case):
    CONF = {"domain": "box.test"}

    def environment(self):
        def make(*args):
            return self.i.cli("key", "create", *args, check=0).out.strip()
        return {**super().environment(),
                "CARREL_READ_KEY": make("--scope", "read"),
                "CARREL_OTHER_KEY": make("--project", "other")}


if __name__ == "__main__":
    harness.main()
