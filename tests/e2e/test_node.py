# suite: npm
"""The native API through Node's fetch and WebSocket, over TCP with a key."""

import subprocess

import harness
from tcp import free_port
from test_openapi import node

STEPS = ["runs", "streams", "files", "terminal", "refusals", "events"]


class Node(harness.Case):
    PORT = free_port()
    CONF = {"listen": f"127.0.0.1:{PORT}"}

    def flags(self):
        """The WebSocket of Node 20 is there when it is asked for."""
        p = subprocess.run(["node", "--experimental-websocket", "-e", "0"],
                           capture_output=True)
        return ["--experimental-websocket"] if p.returncode == 0 else []

    def test_fetch_and_websocket(self):
        key = self.i.cli("key", "create", "--name", "node", check=0).out.strip()
        p = node("native.js", f"http://127.0.0.1:{self.PORT}", key,
                 flags=self.flags())
        steps = [s for s in p.stdout.splitlines() if s in STEPS]
        self.assertEqual((p.returncode, steps), (0, STEPS), p.stdout)


if __name__ == "__main__":
    harness.main()
