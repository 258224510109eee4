# suite: both
# suite: npm
"""The official conformance suite of MCP against /mcp."""

import clients
import harness


@clients.cases("mcp_conformance.test.mjs")
class Conformance(clients.Case):
    CONF = {"mcp_fixture": "yes"}

    def environment(self):
        return {**super().environment(), "CARREL_KEY": self.key()}


if __name__ == "__main__":
    harness.main()
