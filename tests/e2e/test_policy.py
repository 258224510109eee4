"""`carrel policy`: needs no daemon."""

import json
import os
import subprocess
import tempfile
import unittest

import harness

POLICY = """
allow GET,HEAD https://api.test/repos/acme/*
ask * https://api.test
allow tcp db.internal:5432
deny *
budget requests 500/h, up 20MB
"""


class Policy(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.TemporaryDirectory()
        self.addCleanup(self.dir.cleanup)
        self.file = self.write(POLICY)

    def write(self, text):
        path = os.path.join(self.dir.name, "p")
        with open(path, "w") as f:
            f.write(text)
        return path

    def carrel(self, *args, stdin=""):
        return subprocess.run(
            [os.path.join(harness.BUILD, "bin/carrel"), "policy", *args],
            input=stdin, capture_output=True, text=True)

    def test_verdicts(self):
        for args, code, says in (
                (["https://api.test/repos/acme/x"], 0, "allow: line 2: allow "
                 "GET,HEAD https://api.test/repos/acme/*"),
                (["-X", "POST", "https://api.test/repos/acme/x"], 3,
                 "ask: line 3: ask * https://api.test"),
                (["tcp://db.internal:5432"], 0, "allow: line 4: allow tcp "
                 "db.internal:5432"),
                (["http://else.test/"], 1, "deny: line 5: deny * *")):
            p = self.carrel("test", *args[:-1], self.file, args[-1])
            self.assertEqual((p.returncode, p.stdout.strip()), (code, says),
                             p.stderr)

    def test_no_rule(self):
        p = self.carrel("test", "--json", "-", "http://x.test/", stdin="")
        self.assertEqual(p.returncode, 1)
        self.assertEqual(json.loads(p.stdout), {
            "verdict": "deny", "line": None, "rule": None})

    def test_both_forms(self):
        text = self.carrel("check", self.file).stdout
        as_json = self.carrel("check", "--json", self.file).stdout
        self.assertEqual(self.carrel("check", "-", stdin=as_json).stdout, text)
        self.assertEqual(self.carrel("check", "-", stdin=text).stdout, text)
        self.assertEqual(json.loads(as_json)["budget"],
                         {"requests": "500/h", "up": "20971520"})

    def test_mistakes(self):
        for text, says in (("allow GETS x.test", "line 1: 'GETS' is no method"),
                           ('{"rules": [{}]}', "rule 1: a rule needs"),
                           ("{", "line 1:")):
            p = self.carrel("check", self.write(text))
            self.assertEqual(p.returncode, 1)
            self.assertIn(says, p.stderr)
        p = self.carrel("test", self.write(POLICY), "http://x.test/a/../b")
        self.assertEqual(p.returncode, 1)
        self.assertIn("more than one way", p.stderr)


if __name__ == "__main__":
    harness.main()
