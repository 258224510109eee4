# suite: both
# suite: npm
"""The official client of MCP, over Streamable HTTP and over stdio."""

import clients
import harness


@clients.cases("mcp.test.mjs", variants=["http", "stdio"])
class Sdk(clients.Case):
    def environment(self):
        return {**super().environment(), **self.i.env(),
                "CARREL_CLI": f"{self.i.bin}/carrel"}

    def key(self):
        """Of the project that the command line's sandboxes are of."""
        return self.i.cli("key", "create", "--name", "client", "--project",
                          "default", check=0).out.strip()


if __name__ == "__main__":
    harness.main()
