"""Tests that are written in JavaScript, with the packages that users have.

	@clients.cases("e2b_files.test.mjs", variants=["e2b", "e2b-old"])
	class Files(clients.Case):
	    pass

makes one test of each test('name', ...) of the file and each variant. The file
runs once per variant, when the first of its tests does.
"""

import json
import os
import re
import subprocess

import harness
from harness import SLOW, TOP
from tcp import free_port

CLIENTS = os.path.join(TOP, "tests/clients")
NPM = os.path.join(TOP, "build/npm")


class Case(harness.Case):
    """One daemon that listens, and a key of it."""
    TIMEOUT = 600  # for a file, on a machine with others at work

    @classmethod
    def setUpClass(cls):
        cls.port = free_port()
        cls.CONF = {"listen": f"127.0.0.1:{cls.port}", **cls.CONF}
        super().setUpClass()
        cls.url = f"http://127.0.0.1:{cls.port}"
        cls.results = {}

    def tearDown(self):
        pass  # the cases of a file share what they make

    def key(self):
        return self.i.cli("key", "create", "--name", "client",
                          check=0).out.strip()

    def environment(self):
        """What the client is told; more of it in subclasses."""
        return {"E2B_API_URL": self.url, "E2B_SANDBOX_URL": self.url,
                "E2B_API_KEY": self.key(), "CARREL_URL": self.url,
                "CARREL_SOCKET": self.i.sock, "PAUSED": harness.PAUSED}

    def run_file(self, file, variant):
        env = {**os.environ, "CARREL_NPM": NPM, **self.environment()}
        p = subprocess.run(
            ["node", os.path.join(CLIENTS, file), variant], env=env, text=True,
            timeout=self.TIMEOUT * SLOW, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT)
        found, rest = {}, []
        for line in p.stdout.splitlines():
            try:
                case = json.loads(line)
                found[case["name"]] = case["error"]
            except (ValueError, TypeError, KeyError):
                rest.append(line)
        return found, "\n".join(rest[-40:])

    def check_case(self, file, variant, name):
        at = (file, variant)
        if at not in self.results:
            self.results[at] = self.run_file(file, variant)
        found, rest = self.results[at]
        self.assertIn(name, found, f"it did not run:\n{rest}")
        if found[name]:
            self.fail(f"{found[name]}\n{rest}")


def cases(file, variants=("",), containers=None):
    """`containers`: cases that make no sense for microVMs, and why."""
    with open(os.path.join(CLIENTS, file)) as f:
        names = re.findall(r"^test\('([^']+)'", f.read(), re.M)
    assert len(names) == len(set(names)), f"{file}: a name is there twice"

    def add(cls):
        for variant in variants:
            for name in names:
                def one(self, name=name, variant=variant):
                    self.check_case(file, variant, name)
                if name in (containers or {}):
                    one = harness.container_only(containers[name])(one)
                words = re.sub(r"\W+", "_", f"{variant} {name}").strip("_")
                setattr(cls, f"test_{words}", one)
        return cls
    return add
