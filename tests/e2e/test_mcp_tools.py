# suite: npm
"""The tools and resources of /mcp: with the official client, and those that
need an internet or a person by hand."""

import json
import threading

import clients
import harness
import mcp
from harness import SLOW, wait_for
from internet import answer
from test_gate_life import Case as GateCase


@clients.cases("mcp_tools.test.mjs")
class Tools(clients.Case):
    def test_the_session_leaves_nothing(self):
        """The cases have run, and ended their session."""
        self.check_case("mcp_tools.test.mjs", "", "the log is a resource")
        wait_for("its sandboxes go", lambda: not self.boxes(), 20 * SLOW)

    def boxes(self):
        return [b["id"] for b in
                self.i.api("GET", "/v1/sandboxes").json["sandboxes"]]

    def test_what_is_others_stays_theirs(self):
        """A session may go on in a sandbox that it did not make."""
        box = self.i.create(name="theirs")
        self.addCleanup(self.i.rm, box)
        s = mcp.Session(self.i.sock)
        s.tool("write_file", path="a", content="mine")
        mine = json.loads(s.tool("sandbox_info")["content"][0]["text"])["id"]
        s.tool("switch_sandbox", sandbox="theirs")
        r = s.tool("fork")
        copy = next(b for b in self.boxes() if b not in (box, mine))
        self.addCleanup(self.i.rm, copy)
        self.assertIn(copy, r["content"][0]["text"])
        self.assertEqual(s.end(), 204)
        self.assertEqual(set(self.boxes()), {box, copy})


    def session(self, scope, box):
        key = self.i.cli("key", "create", "--scope", scope, check=0).out.strip()
        s = mcp.Session(self.i.sock, query=f"?sandbox={box}",
                        headers={"Authorization": f"Bearer {key}"})
        self.addCleanup(s.end)
        return s

    def test_a_key_that_may_only_read(self):
        box = self.i.create()
        self.addCleanup(self.i.rm, box)
        may = self.session("use", box)
        may.tool("write_file", path="a", content="there")
        s = self.session("read", box)
        r = s.tool("read_file", path="a")
        self.assertEqual(r["content"][0]["text"], "there", r)
        for name, args in (("write_file", {"path": "a", "content": "b"}),
                           ("run_command", {"command": "true"}),
                           ("snapshot", {}), ("fork", {}),
                           ("preview_port", {"port": 80}),
                           ("request_access", {"url": "a.test",
                                               "reason": "r"})):
            r = s.tool(name, **args)
            self.assertTrue(r.get("isError"), (name, r))
            self.assertIn("tell the user", r["content"][0]["text"])
        self.assertEqual(may.tool("read_file", path="a")["content"][0]["text"],
                         "there")

    def test_a_command_ends_with_its_session(self):
        box = self.i.create()
        self.addCleanup(self.i.rm, box)
        s = mcp.Session(self.i.sock, query=f"?sandbox={box}")
        waits = threading.Thread(target=s.tool, daemon=True,
                                 args=("run_command",),
                                 kwargs={"command": "exec sleep 7100"})
        waits.start()
        wait_for("it runs", lambda: self.running(box), 20 * SLOW)
        self.assertEqual(s.end(), 204)
        wait_for("it is gone", lambda: not self.running(box), 20 * SLOW)
        waits.join(20 * SLOW)

    def running(self, box):
        r = self.i.api("GET", f"/v1/sandboxes/{box}/processes")
        return [p for p in r.json["processes"] if p["state"] == "running"]

    def test_one_that_is_paused_is_woken(self):
        box = self.i.create()
        self.addCleanup(self.i.rm, box)
        s = self.session("use", box)
        self.i.api("POST", f"/v1/sandboxes/{box}/pause", {})
        r = s.tool("run_command", command="echo awake")
        self.assertTrue(r["content"][0]["text"].startswith("awake\n"), r)


class Access(GateCase):
    """Access that is asked for ahead."""
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
        self.assertEqual(self.look(box)["spec"]["rules"],
                         ["ask * http://api.test"])
        # Nothing but that.
        self.refused(box)

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
