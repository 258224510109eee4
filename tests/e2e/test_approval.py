# suite: both
"""Requests that wait for a person: held by the door, shown, decided, and what
is granted with them."""

import contextlib
import json
import threading

import harness
from harness import SLOW, wait_for
from internet import Inside, answer
from test_gate_life import Case as GateCase

ASK = ["ask * http://api.test", "ask * http://other.test",
       "deny * http://evil.test", "ask tcp db.test:5432"]


class Held:
    """A request inside that is under way."""

    def __init__(self, case, box, url):
        self.reply = None
        self.thread = threading.Thread(target=self._run, args=(case, box, url),
                                       daemon=True)
        self.thread.start()

    def _run(self, case, box, url):
        self.reply = case.get(box, url, timeout=60 * SLOW)

    def get(self, timeout=30 * SLOW):
        self.thread.join(timeout)
        assert self.reply, "it is still held"
        return self.reply


class Case(GateCase):
    def make(self, **spec):
        return super().make(**{"rules": ASK, **spec})

    def hold(self, box, url="http://api.test/x"):
        """A request that is held, and its approval."""
        before = {p["number"] for p in self.pending()}
        h = Held(self, box, url)
        p, = wait_for("it waits", lambda: [p for p in self.pending()
                                           if p["number"] not in before],
                      20 * SLOW)
        return h, p

    def pending(self):
        return self.i.api("GET", "/v1/approvals").json["approvals"]

    def decide(self, number, status=204, **body):
        r = self.i.api("POST", f"/v1/approvals/{number}", body)
        self.assertEqual(r.status, status, r)
        return r

    def entries(self, box, kind):
        r = self.i.api("GET", f"/v1/sandboxes/{box}/log?type={kind}")
        return [json.loads(line)["data"] for line in r.body.splitlines()]

    def logged(self, box, kind):
        return wait_for(f"{kind} in the log", lambda: self.entries(box, kind),
                        10 * SLOW)


class Approvals(Case):
    SETTINGS = {"ask_webhook": "http://hook.test/called?token=1",
                "ask_timeout": "120s"}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.hook = cls.net.web("hook.test", handler=lambda r: answer(b"ok"))

    def test_approved(self):
        box = self.make(name="asks")
        n, called = len(self.web.requests), len(self.hook.requests)
        h, p = self.hold(box, "http://api.test/x?secret=1")
        self.assertEqual(
            (p["sandbox"], p["name"], p["method"], p["url"], p["line"]),
            (box, "asks", "GET", "http://api.test/x?secret=1", 1))
        self.assertEqual(p["about"], "request")
        self.assertIn("rules", p["part"])
        self.assertEqual(len(self.web.requests), n, "nothing has left")
        out = self.i.cli("approvals", check=0).out
        self.assertIn("http://api.test/x", out)
        self.assertIn("asks", out)
        self.logged(box, "approval.ask")
        hook = wait_for("the hook is called", lambda: self.hook.requests[called:],
                        10 * SLOW)[0]
        self.assertEqual((hook.method, hook.target), ("POST", "/called?token=1"))
        told = json.loads(hook.body)
        self.assertEqual((told["number"], told["sandbox"], told["host"]),
                         (p["number"], box, "api.test"))
        self.i.cli("approve", p["number"], check=0)
        self.assertEqual(h.get().status, 200)
        self.assertEqual(self.pending(), [])
        entry, = self.logged(box, "approval.allow")
        self.assertEqual((entry["number"], entry["for"], entry["url"]),
                         (p["number"], "once", "http://api.test/x"))
        # That was for this one.
        h, p = self.hold(box)
        self.i.cli("deny", p["number"], check=0)
        r = h.get()
        self.assertEqual((r.status, len(self.web.requests)), (403, n + 1), r)
        self.logged(box, "approval.deny")
        r = self.i.cli("approve", p["number"], check=1)
        self.assertIn("no request", r.err)

    def test_a_clock_that_is_set_back(self):
        """A grant lasts as long as was said, whatever the clock says since."""
        box = self.make()
        h, p = self.hold(box)
        self.i.cli("approve", p["number"], "--for", "1m", check=0)
        self.assertEqual(h.get().status, 200)
        self.i.end_daemon()
        self.i.sql("UPDATE grants SET created_ms = created_ms + 3600000, "
                   "until_ms = created_ms + 3603000")
        self.i.start()
        self.stands(box)
        wait_for("the grant ends",
                 lambda: "granted" not in self.look(box)["door"], 20 * SLOW)

    def test_where_it_is_cut(self):
        box = self.make()
        h, p = self.hold(box, "http://api.test/" + "x" * 3000)
        self.assertRegex(p["url"], r"x\.\.\.\(cut, of 3001 bytes\)$")
        self.decide(p["number"], allow=False)
        self.assertEqual(h.get().status, 403)

    def test_of_a_host_for_a_time(self):
        box = self.make()
        h, p = self.hold(box)
        other, q = self.hold(box, "http://api.test/y")
        self.i.cli("approve", p["number"], "--for", "2s", check=0)
        self.assertEqual((h.get().status, other.get().status), (200, 200))
        self.assertEqual(self.get(box, "http://api.test/z").status, 200)
        granted, = self.look(box)["door"]["granted"]
        self.assertEqual(granted["rule"], "allow * http://api.test")
        self.assertTrue(granted["until"])
        # Another host is another matter, and what is denied stays so.
        h, p = self.hold(box, "http://other.test/")
        self.decide(p["number"], allow=False)
        self.assertEqual(h.get().status, 403)
        self.assertEqual(self.get(box, "http://evil.test/").status, 403)
        wait_for("the grant ends",
                 lambda: "granted" not in self.look(box)["door"], 10 * SLOW)
        self.logged(box, "approval.end")
        h, p = self.hold(box)
        self.decide(p["number"], allow=False)
        self.assertEqual(h.get().status, 403)

    def test_a_connection(self):
        db = self.net.tcp("db.test", 5432)
        self.addCleanup(db.close)
        inside = Inside(self.i, self.make())
        self.addCleanup(inside.close)
        once = self.connect(inside)
        self.decide(self.asked(1)[0]["number"], allow=True)
        self.echo(once)
        # A grant that ends takes what came with it, not what was approved.
        timed = self.connect(inside)
        p, = self.asked(1)
        self.assertEqual((p["method"], p["url"], p["about"]),
                         ("", "tcp://db.test:5432", "connection"))
        self.assertIn("a whole connection",
                      self.i.cli("approvals", check=0).out)
        self.decide(p["number"], allow=True, **{"for": 1})
        self.echo(timed)
        later = self.connect(inside)
        self.echo(later)
        self.assertEqual(later.recv(1), b"", "it ends with the grant")
        self.echo(once)

    def connect(self, inside):
        s = inside.connect(inside.resolve("db.test"), 5432)
        self.addCleanup(s.close)
        return s

    def echo(self, s):
        s.sendall(b"hello")
        self.assertEqual(s.recv(5), b"hello")

    def asked(self, n):
        return wait_for("it waits", lambda: len(self.pending()) == n and
                        self.pending(), 10 * SLOW)

    def test_for_good_and_over_restarts(self):
        box = self.make(persist=True)
        h, p = self.hold(box)
        self.decide(p["number"], allow=True, **{"for": "always"})
        self.assertEqual(h.get().status, 200)
        self.assertGreater(p["number"], 0)
        waiting, q = self.hold(box, "http://other.test/")
        self.i.kill_role("carrel-api")
        self.i.wait_ready()
        self.stands(box)
        again, = wait_for("it waits still", self.pending, 10 * SLOW)
        self.assertEqual((again["number"], again["url"]),
                         (q["number"], "http://other.test/"))
        self.works(box)
        self.decide(q["number"], allow=True)
        self.assertEqual(waiting.get().status, 200)
        h, p = self.hold(box, "http://other.test/")
        self.assertGreater(p["number"], q["number"])
        # Who waits at a gate that ends is refused, and nobody is asked.
        back = self.gate_ends()
        self.assertNotEqual(h.get().status, 200)
        wait_for("another gate", back, 20 * SLOW)
        self.stands(box)
        wait_for("nobody is asked", lambda: not self.pending(), 10 * SLOW)
        self.works(box)
        # The grant is the sandbox's own, for as long as it lives.
        self.i.api("POST", f"/v1/sandboxes/{box}/pause", {"disk_only": True})
        self.i.api("POST", f"/v1/sandboxes/{box}/resume", {})
        self.works(box)
        fork = self.i.api("POST", f"/v1/sandboxes/{box}/fork", {}).json
        fork = fork["sandboxes"][0]["id"]
        h, p = self.hold(fork)
        self.assertEqual(p["sandbox"], fork)
        self.i.rm(fork)
        wait_for("nobody is asked", lambda: not self.pending(), 10 * SLOW)

    def test_who_may_decide(self):
        key = self.i.api("POST", "/v1/keys", {
            "project": "elsewhere", "scope": "approve"}).json["key"]
        auth = {"Authorization": f"Bearer {key}"}
        own = self.i.api("POST", "/v1/keys", {"scope": "use"}).json["key"]
        box = self.make()
        h, p = self.hold(box)
        path = f"/v1/approvals/{p['number']}"
        r = self.i.api("POST", path, {"allow": True},
                       headers={"Authorization": f"Bearer {own}"})
        self.assertEqual(r.status, 403, r)
        r = self.i.api("GET", "/v1/approvals", headers=auth)
        self.assertEqual(r.json["approvals"], [])
        r = self.i.api("POST", path, {"allow": True}, headers=auth)
        self.assertEqual(r.status, 404, r)
        for bad in ({}, {"allow": 1}, {"allow": True, "for": 0},
                    {"allow": True, "for": "ever"}, {"allow": True, "x": 1},
                    {"allow": False, "for": 60}):
            self.decide(p["number"], 400, **bad)
        self.decide("none", 400, allow=True)
        self.decide(10 ** 9, 404, allow=True)
        # Who goes away is not asked about any more.
        self.assertIsNone(h.reply)
        self.i.rm(box)
        wait_for("nobody is asked", lambda: not self.pending(), 10 * SLOW)
        self.decide(p["number"], 404, allow=True)

    def test_not_too_often(self):
        """Who asks and leaves fills no log, and calls nobody a thousand times."""
        inside = Inside(self.i, self.make())
        self.addCleanup(inside.close)
        for _ in range(500):
            with inside.connect() as s:
                s.sendall(b"GET http://api.test/x HTTP/1.1\r\n"
                          b"Host: api.test\r\n\r\n")
                s.settimeout(0.02 * SLOW)
                with contextlib.suppress(TimeoutError):
                    if b"too often" in s.recv(4096):
                        return
        self.fail("nobody stops it")

    def test_a_change_of_policy_decides(self):
        box = self.make()
        h, _ = self.hold(box)
        self.patch(box, rules=["allow * http://api.test"])
        self.assertEqual(h.get().status, 200)
        self.patch(box, rules=ASK)
        h, _ = self.hold(box)
        self.patch(box, rules=[])
        self.assertEqual(h.get().status, 403)
        wait_for("nobody is asked", lambda: not self.pending(), 10 * SLOW)


class Nobody(Case):
    SETTINGS = {"ask_timeout": "1s"}

    def test_no_answer_is_a_denial(self):
        box = self.make()
        n = len(self.web.requests)
        r = self.get(box)
        self.assertEqual((r.status, len(self.web.requests)), (403, n), r)
        self.logged(box, "approval.expired")
        wait_for("nobody is asked", lambda: not self.pending(), 10 * SLOW)


if __name__ == "__main__":
    harness.main()
