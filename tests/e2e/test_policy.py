# suite: both
# suite: sanitized
"""`carrel policy`: what policies say, and those that the daemon keeps."""

import json
import os
import subprocess
import tempfile
import unittest

import harness
from fake_warden import Api

POLICY = """
allow GET,HEAD https://api.test/repos/acme/*
ask * https://api.test
allow tcp db.internal:5432
deny *
budget requests 500/h, up 20MB
"""
MORE = """private 10.0.0.0/8, *.internal
budget api.test rate 5/s, tokens 2M, cost 5.00
over pause
model api.test openai
"""
PRESETS = os.path.join(harness.TOP, "packaging/presets")


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
            self.assertEqual((p.returncode, p.stdout.split("\n")[0]),
                             (code, says),
                             p.stderr)

    def test_no_rule(self):
        p = self.carrel("test", "--json", "-", "http://x.test/", stdin="")
        self.assertEqual(p.returncode, 1)
        self.assertEqual(json.loads(p.stdout), {
            "verdict": "deny", "part": None, "line": None, "rule": None,
            "private": False,
            "budgets": {}, "over": "deny", "model": None})

    def test_both_forms(self):
        text = self.carrel("check", self.file).stdout
        as_json = self.carrel("check", "--json", self.file).stdout
        self.assertEqual(self.carrel("check", "-", stdin=as_json).stdout, text)
        self.assertEqual(self.carrel("check", "-", stdin=text).stdout, text)
        self.assertEqual(json.loads(as_json)["budget"],
                         {"requests": "500/h", "up": "20971520"})

    def test_more_than_rules(self):
        path = self.write(POLICY + MORE)
        j = json.loads(self.carrel("check", "--json", path).stdout)
        self.assertEqual(
            (j["private"], j["budgets"], j["over"], j["models"]),
            (["10.0.0.0/8", "*.internal"],
             {"api.test": {"rate": "5/s", "tokens": "2000000",
                           "cost": "5.000000"}},
             "pause", {"api.test": "openai"}))
        p = self.carrel("test", path, "https://api.test/x")
        self.assertIn("of api.test: rate 5/s, tokens 2000000", p.stdout)
        self.assertIn("over it: pause", p.stdout)
        p = self.carrel("test", "-", "http://10.1.2.3/",
                        stdin="allow * 10.1.2.3")
        self.assertNotIn("private", p.stdout)
        p = self.carrel("test", "--json", path, "https://db.internal/")
        self.assertTrue(json.loads(p.stdout)["private"])

    def test_presets(self):
        for name in os.listdir(PRESETS):
            p = self.carrel("check", os.path.join(PRESETS, name))
            self.assertEqual(p.returncode, 0, p.stderr)

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


class Saved(unittest.TestCase):
    """Those that the daemon keeps; nobody has them here."""

    @classmethod
    def setUpClass(cls):
        cls.a = Api(presets_dir=PRESETS)
        cls.dir = tempfile.TemporaryDirectory()

    @classmethod
    def tearDownClass(cls):
        cls.a.stop()
        cls.dir.cleanup()

    def tearDown(self):
        for p in self.a.api("GET", "/v1/policies").json["policies"]:
            r = self.a.api("DELETE", f"/v1/policies/{p['name']}"
                           f"?project={p['project']}")
            self.assertEqual(r.status, 204, r)

    def carrel(self, *args, code=0, **kw):
        p = subprocess.run(
            [os.path.join(harness.BUILD, "bin/carrel"), "--socket",
             self.a.sock, "policy", *args], capture_output=True, text=True,
            **kw)
        self.assertEqual(p.returncode, code, p.stderr)
        return p.stderr if code else p.stdout

    def put(self, name, body, status=200, key=None, query=""):
        r = self.a.api("PUT", f"/v1/policies/{name}{query}", body,
                       {"Authorization": f"Bearer {key}"} if key else {})
        self.assertEqual(r.status, status, r)
        return r.json

    def key(self, project):
        return self.a.api("POST", "/v1/keys", {
            "scope": "policy", "project": project}).json["key"]

    def test_verbs(self):
        path = os.path.join(self.dir.name, "p")
        with open(path, "w") as f:
            f.write(POLICY)
        self.carrel("set", "research", path)
        self.assertEqual(self.carrel("show", "research"), POLICY)
        self.assertEqual(self.carrel("ls", "-q"), "research\n")
        self.assertRegex(self.carrel("ls"), r"research +default +0 ")
        j = json.loads(self.carrel("set", "--json", "research", "-",
                                   input="deny *"))
        self.assertEqual((j["text"], j["policy"]["rules"][0]["effect"]),
                         ("deny *", "deny"))
        self.assertIn("line 1: 'permit' is no rule", self.carrel(
            "set", "research", "-", input="permit * x", code=1))
        self.assertEqual(self.carrel("show", "research"), "deny *\n")
        self.carrel("rm", "research")
        self.assertIn("no policy 'research'",
                      self.carrel("rm", "research", code=1))

    def test_presets(self):
        self.assertEqual(self.carrel("presets").split(), [
            "crates", "debian", "github-read", "go", "none", "npm", "pypi"])
        self.assertIn("allow GET,HEAD", self.carrel("presets", "pypi"))
        self.assertIn("no preset 'x'", self.carrel("presets", "x", code=1))

    def test_forms_and_limits(self):
        text = "# caf\u00e9\r\nallow * x.test\n"
        self.assertEqual(self.put("p", text.encode())["text"], text)
        j = self.put("p", {"rules": [{"effect": "deny", "target": "x.test"}]})
        self.assertEqual(j["text"], "deny * x.test\n")
        self.assertEqual(self.put("p", j["policy"])["text"], j["text"])
        for body, status, says in (
                (b"allow * x.test\0", 400, "UTF-8"),
                (b"# \xff\n", 400, "UTF-8"),
                (b"{", 400, "line 1"),
                (b'{"rules": [], "rules": []}', 400, "duplicate"),
                (b"#" * (41 << 10), 400, "at most 40 KiB"),
                (b"deny *\n" * 600, 400, "more than 512 rules")):
            self.assertIn(says, self.put("p", body, status)["message"])
        self.put("No", b"deny *", 400)
        self.assertEqual(self.a.api("GET", "/v1/policies/p").json["text"],
                         "deny * x.test\n")

    def test_try_a_kept_one(self):
        self.put("p", POLICY.encode())
        self.assertEqual(self.carrel("test", "p", "tcp://db.internal:5432"),
                         "allow: policy p, line 4: allow tcp "
                         "db.internal:5432\nbudget: requests 500/h, up 20971520\n"
                         "over it: deny\n")
        self.carrel("test", "p", "http://else.test/", code=1)
        self.assertIn("no policy", self.carrel("test", "nosuch", "http://x.test/",
                                               code=1))
        with open(os.path.join(self.dir.name, "p"), "w") as f:
            f.write("allow *\n")
        self.assertIn("allow: line 1", self.carrel(
            "test", "p", "http://else.test/", cwd=self.dir.name))

    def test_projects(self):
        one, two = self.key("one"), self.key("two")
        self.put("p", b"allow * one.test", key=one)
        self.put("p", b"allow * two.test", key=two)
        self.put("p", b"deny *", 404, key=two, query="?project=one")
        seen = {(p["project"], p["name"])
                for p in self.a.api("GET", "/v1/policies").json["policies"]}
        self.assertEqual(seen, {("one", "p"), ("two", "p")})
        r = self.a.api("GET", "/v1/policies/p",
                       headers={"Authorization": f"Bearer {one}"})
        self.assertEqual(r.json["text"], "allow * one.test")
        # Private places are the operator's to name, also in a spec.
        for text in ("private 10.0.0.0/8", "allow * 127.0.0.1",
                     "ask * [::1]:80", "private db.internal"):
            for r in (self.put("p", text.encode(), 403, key=one),
                      self.a.api("POST", "/v1/sandboxes", {"rules": [text]}, {
                          "Authorization": f"Bearer {one}"}).json):
                self.assertIn("the operator's to allow", r["message"])
        self.put("p", b"deny * 10.0.0.1", key=one)
        self.put("p", b"private 10.0.0.0/8", query="?project=one")
        # None has the places of the others.
        for i in range(127):
            self.put(f"p{i}", b"deny *", key=two)
        self.assertIn("128 policies of a project",
                      self.put("more", b"deny *", 429, key=two)["message"])
        self.put("more", b"deny *", key=one)

    def try_url(self, status=200, key=None, query="", **body):
        r = self.a.api("POST", f"/v1/policy-test{query}", body,
                       {"Authorization": f"Bearer {key}"} if key else {})
        self.assertEqual(r.status, status, r)
        return r.json

    def test_what_would_become_of_a_request(self):
        """The same as `carrel policy test` says, asked of the daemon."""
        self.put("mine", POLICY + MORE)
        for url, method, verdict, line in (
                ("https://api.test/repos/acme/x", "GET", "allow", 2),
                ("https://api.test/repos/acme/x", "POST", "ask", 3),
                ("tcp://db.internal:5432", "GET", "allow", 4),
                ("http://else.test/", "GET", "deny", 5)):
            for where in ({"policy": "mine"}, {"text": POLICY}):
                j = self.try_url(url=url, method=method, **where)
                self.assertEqual((j["verdict"], j["line"], j["part"]),
                                 (verdict, line, None), url)
        self.assertEqual(
            self.try_url(url="http://x.test/", text='{"rules": []}'),
            {"verdict": "deny", "part": None, "line": None, "rule": None,
             "observed": False})
        # What is another project's is nobody's.
        key = self.key("theirs")
        self.try_url(404, key, url="http://x.test/", policy="mine")
        self.try_url(404, key, "?project=default", url="http://x.test/",
                     policy="mine")
        for bad in ({}, {"url": "http://x.test/"}, {"text": "allow *"},
                    {"url": "nowhere", "text": "allow *"},
                    {"url": "http://x.test/", "text": "allow"},
                    {"url": "http://x.test/", "text": "{"},
                    {"url": "http://x.test/", "text": "a\0b"},
                    {"url": "http://x.test/", "text": "deny *\n" * 600},
                    {"url": 1, "text": ""}, {"url": "x" * 5000, "text": ""},
                    {"url": "http://x.test/", "text": "", "policy": "mine"},
                    {"url": "http://x.test/", "text": "", "more": 1}):
            self.try_url(400, **bad)
        self.try_url(404, url="http://x.test/", sandbox="nobody")

    def test_what_a_spec_names(self):
        for spec, says in (
                ({"policy": "nope"}, "no policy 'nope': make it"),
                ({"allow": ["npm", "nope"]}, "no preset 'nope'"),
                ({"rules": ["permit"]}, "rules: line 1")):
            r = self.a.api("POST", "/v1/sandboxes", spec)
            self.assertEqual(r.status, 400, r)
            self.assertIn(says, r.json["message"])

    def test_log_and_restart(self):
        self.put("p", b"allow * x.test")
        r = self.a.api("DELETE", "/v1/policies/p")
        self.assertEqual(r.status, 204, r)
        self.put("q", b"allow * y.test")
        r = self.a.api("GET", "/v1/events?follow=false&after=0&type=policy.")
        seen = [(e["type"], e["data"]["name"], len(e["data"]["sha256"]))
                for e in map(json.loads, r.body.splitlines())]
        self.assertEqual(seen[-3:], [("policy.set", "p", 64),
                                     ("policy.remove", "p", 64),
                                     ("policy.set", "q", 64)])
        self.a.kill()
        self.a.start()
        self.assertEqual(self.a.api("GET", "/v1/policies/q").json["text"],
                         "allow * y.test")


if __name__ == "__main__":
    harness.main()
