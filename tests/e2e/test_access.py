# suite: sanitized
"""Access to a host that is asked for ahead of any request: natively, and by the
tool of MCP."""

import json
import threading

import harness
import mcp
from harness import SLOW, wait_for
from internet import answer
from test_gate_life import Case as GateCase


class Access(GateCase):
    SETTINGS = {"ask_timeout": "120s", "ask_webhook": "http://hook.test/a"}
    RULES = ["ask * http://api.test", "deny * http://evil.test",
             "allow GET http://other.test"]

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.hook = cls.net.web("hook.test", handler=lambda r: answer(b"ok"))

    def tearDown(self):
        for s in getattr(self, "sessions", []):
            s.end()
        super().tearDown()

    def session(self, box):
        s = mcp.Session(self.i.sock, query=f"?sandbox={box}")
        self.sessions = getattr(self, "sessions", []) + [s]
        return s

    def ask(self, s, url, **args):
        r = s.tool("request_access", url=url, reason="to test it", **args)
        return r["content"][0]["text"], r.get("isError", False)

    def pending(self):
        return self.i.api("GET", "/v1/approvals").json["approvals"]

    def native(self, box, status=200, **body):
        r = self.i.api("POST", f"/v1/sandboxes/{box}/approvals", body)
        self.assertEqual(r.status, status, r)
        return r.json

    def test_a_person_decides(self):
        box = self.make(rules=self.RULES)
        s = self.session(box)
        text, error = self.ask(s, "http://api.test/x")
        self.assertRegex(text, r"^Waiting: .*approval \d+")
        self.assertFalse(error)
        p, = self.pending()
        self.assertEqual((p["sandbox"], p["url"], p["reason"]),
                         (box, "http://api.test/x", "to test it"))
        self.assertIn("to test it", self.i.cli("approvals", check=0).out)
        hook = wait_for("the hook is called", lambda: [
            r for r in self.hook.requests
            if json.loads(r.body)["number"] == p["number"]], 20 * SLOW)[0]
        told = json.loads(hook.body)
        self.assertEqual((told["type"], told["sandbox"], told["reason"]),
                         ("approval.ask", box, "to test it"))
        # Asking again is asking for the same.
        self.ask(s, "http://api.test/other")
        self.assertEqual(len(self.pending()), 1)
        with self.waiting(s) as w:
            self.i.cli("approve", p["number"], check=0)
            text = w.get()
        self.assertRegex(text, r"^Granted: .*a person allowed it")
        self.works(box)
        granted, = self.look(box)["door"]["granted"]
        self.assertEqual(granted["rule"], "allow * http://api.test")
        self.assertTrue(granted["until"])
        text, _ = self.ask(s, "http://api.test/y")
        self.assertRegex(text, "^Granted")
        kinds = [json.loads(line) for line in self.i.api(
            "GET", f"/v1/sandboxes/{box}/log?type=approval").body.splitlines()]
        self.assertEqual([k["type"] for k in kinds],
                         ["approval.ask", "approval.allow"])
        self.assertEqual(kinds[0]["data"]["reason"], "to test it")

    def waiting(self, s):
        """A request_access that waits, in a thread."""
        class Waiting:
            def __enter__(me):
                me.thread = threading.Thread(target=me.run, daemon=True)
                me.thread.start()
                return me

            def run(me):
                me.text = self.ask(s, "http://api.test/x", wait_s=60)[0]

            def get(me):
                me.thread.join(30 * SLOW)
                return me.text

            def __exit__(me, *exc):
                me.thread.join(30 * SLOW)
        return Waiting()

    def test_what_is_said_already(self):
        s = self.session(self.make(rules=self.RULES))
        text, error = self.ask(s, "http://other.test/")
        self.assertRegex(text, "^Granted: .*rules, line 3")
        text, error = self.ask(s, "http://evil.test/")
        self.assertTrue(error)
        self.assertRegex(text, "^Denied: .*rules, line 2")
        # Of other.test something is said, only not this.
        text, error = self.ask(s, "http://other.test/", method="POST")
        self.assertTrue(error)
        self.assertRegex(text, "^Denied")
        text, error = self.ask(s, "not a url at all")
        self.assertTrue(error)
        self.assertEqual(self.pending(), [])

    def test_denied_once_is_denied(self):
        box = self.make(rules=self.RULES)
        s = self.session(box)
        self.ask(s, "http://api.test/")
        p, = self.pending()
        self.i.cli("deny", p["number"], check=0)
        text, error = self.ask(s, "http://api.test/")
        self.assertTrue(error)
        self.assertRegex(text, "^Denied: .*a person denied it")
        self.assertEqual(self.pending(), [], "nobody is bothered again")
        r = self.i.cli("approve", p["number"], check=1)
        self.assertIn("no request", r.err)

    def test_without_any_way_out(self):
        """No rule says anything: a person may open it all the same."""
        box = self.i.create()
        s = self.session(box)
        self.assertNotIn("door", self.look(box))
        self.ask(s, "http://api.test/")
        p, = self.pending()
        self.assertEqual((p["part"], p["line"]), ("no rule", 0))
        self.i.cli("approve", p["number"], "--for", "10m", check=0)
        text, _ = self.ask(s, "http://api.test/")
        self.assertRegex(text, "^Granted")
        self.works(box)
        self.assertEqual(self.look(box)["spec"]["late-rules"],
                         ["ask * http://api.test"])
        # Nothing but that.
        self.refused(box)

    def put_policy(self, text):
        r = self.i.api("PUT", "/v1/policies/later", text.encode())
        self.assertEqual(r.status, 200, r)

    def test_a_later_deny_wins(self):
        """A policy that denies the host afterwards, for good and at once."""
        self.put_policy("allow * http://other.test\n")
        box = self.make(rules=[], policy="later")
        self.native(box, url="http://api.test/")
        self.i.cli("approve", self.pending()[0]["number"], "--always", check=0)
        self.works(box)
        self.put_policy("deny * http://api.test\nallow * *\n")
        n = len(self.web.requests)
        self.assertEqual(self.get(box).status, 403)
        self.assertEqual(len(self.web.requests), n)
        self.assertEqual(self.native(box, url="http://api.test/")["state"],
                         "denied")

    def test_withdrawn(self):
        box = self.make(rules=self.RULES, name="open")
        self.native(box, url="http://api.test/")
        self.i.cli("approve", self.pending()[0]["number"], "--always", check=0)
        self.works(box)
        g, = [g for g in self.i.api("GET", "/v1/grants").json["grants"]
              if g["sandbox"] == box]
        self.assertEqual((g["rule"], g["until"], g["name"], g["project"]),
                         ("allow * http://api.test", None, "open", "default"))
        out = self.i.cli("grants", "ls", check=0).out
        self.assertRegex(out, rf"{g['number']} +open +allow \* http://api.test")
        words = self.i.cli("completion", "--words", "--", "grants", "rm", "",
                           check=0).out
        self.assertIn(f"{g['number']}\tallow", words)
        self.assertRegex(self.i.cli("inspect", box, check=0).out,
                         r"granted:\n.*\n? +rule +allow \* http://api.test")
        key = self.i.api("POST", "/v1/keys", {"project": "elsewhere",
                                               "scope": "approve"}).json
        auth = {"Authorization": f"Bearer {key['key']}"}
        path = f"/v1/grants/{g['number']}"
        self.assertEqual(self.i.api("GET", "/v1/grants",
                                    headers=auth).json["grants"], [])
        self.assertEqual(self.i.api("DELETE", path, headers=auth).status, 404)
        self.i.cli("grants", "rm", g["number"], check=0)
        self.assertNotIn("granted", self.look(box)["door"])
        self.assertEqual(self.native(box, url="http://api.test/")["state"],
                         "waiting")
        ends = wait_for("its end is in the log", lambda: self.i.api(
            "GET", f"/v1/sandboxes/{box}/log?type=approval.end").body.strip(),
            10 * SLOW)
        self.assertEqual(json.loads(ends)["data"]["number"], g["number"])
        self.assertIn("no grant", self.i.cli("grants", "rm", g["number"],
                                             check=1).err)
        self.decline_all()

    def test_its_end(self):
        box = self.make(rules=self.RULES)
        s = self.session(box)
        with self.waiting(s) as w:
            wait_for("it waits", self.pending, 20 * SLOW)
            self.i.rm(box)
            text = w.get()
        self.assertRegex(text, "^Denied: .*has ended")
        self.assertEqual(self.pending(), [])

    def test_natively(self):
        box = self.make(rules=self.RULES)
        r = self.native(box, url="http://api.test/", wait=0.2)
        self.assertEqual((r["state"], r["why"]),
                         ("waiting", "a person has to decide"))
        self.assertEqual(self.pending()[0]["number"], r["number"])
        self.assertNotIn("reason", self.pending()[0])
        r = self.native(box, url="http://other.test/")
        self.assertEqual((r["state"], r["number"], r["expires_at"]),
                         ("allowed", None, None))
        r = self.native(box, url="http://10.0.0.1/")
        self.assertEqual(r["state"], "denied", "addresses are policies' matter")
        for bad in ({}, {"url": "x"}, {"url": "http://a.test", "method": "?"},
                    {"url": "http://a.test", "wait": -1},
                    {"url": "http://a.test", "x": 1},
                    {"url": "http://a.test", "reason": "x" * 401},
                    {"url": "http://a.test/" + "x" * 1100}):
            self.native(box, 400, **bad)
        self.native("nobody", 404, url="http://a.test")
        for n in range(31):
            self.native(box, url=f"http://h{n}.test/")
        self.native(box, 429, url="http://h99.test/")
        self.decline_all()

    def decline_all(self):
        for p in self.pending():
            self.i.api("POST", f"/v1/approvals/{p['number']}",
                       {"allow": False})
        self.assertEqual(self.pending(), [])


if __name__ == "__main__":
    harness.main()
