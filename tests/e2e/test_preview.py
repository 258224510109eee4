# suite: debian
# suite: npm
# suite: slow
"""Previews in Debian's Chromium, with the configuration that is there by
default: the page of a server inside works as it would on a host of its own."""

import os
import shutil
import subprocess

import clients
import harness
from harness import TOP, wait_for

CHROMIUM = shutil.which("chromium")


@clients.cases("preview.test.mjs")
class Previews(clients.Case):
    IMAGE = "debian"

    def serve(self, box):
        self.i.cli("cp", os.path.join(TOP, "tests/fixtures/preview_server.py"),
                   f"{box}:server.py", check=0)
        self.i.cli("exec", "-d", box, "--", "python3", "server.py", "8000",
                   check=0)
        wait_for("the server inside", lambda: self.i.sh(
            box, "python3 -c \"import socket; socket.create_connection("
            "('127.0.0.1', 8000))\"").returncode == 0, 30)

    def e2b_host(self):
        """Of a sandbox that the E2B SDK made, as getHost() says it."""
        p = subprocess.run(
            ["node", "--input-type=module", "-e",
             "import { createRequire } from 'node:module';"
             "const { Sandbox } = createRequire(process.env.CARREL_NPM + '/')"
             "('e2b');"
             "const s = await Sandbox.create('debian');"
             "console.log(s.sandboxId + ' ' + s.getHost(8000))"],
            env={**os.environ, **super().environment(),
                 "CARREL_NPM": clients.NPM}, text=True, capture_output=True)
        self.assertEqual(p.returncode, 0, p.stderr)
        box, host = p.stdout.split()
        self.serve(box)
        return host

    def environment(self):
        self.assertTrue(CHROMIUM, "chromium is missing: make deps")
        box = self.i.create()
        self.serve(box)
        url = self.i.cli("port", "--url", box, "8000", check=0).out.strip()
        self.assertRegex(url, rf"^http://8000-{box}\.localhost:{self.port}/\?")
        return {**super().environment(), "PREVIEW_URL": url,
                "E2B_HOST": self.e2b_host(), "CHROMIUM": CHROMIUM}


if __name__ == "__main__":
    harness.main()
