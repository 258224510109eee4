# suite: both
"""What leaves a sandbox is in the log, before it leaves; without a log nothing
does; and nobody fills it."""

import contextlib
import json
import os
import signal
import subprocess
import threading

import harness
from harness import SLOW, wait_for
from internet import Inside, Internet, answer

RULES = ["allow * http://api.test", "allow * https://api.test"]


class Egress(harness.Case):
    @classmethod
    def setUpClass(cls):
        cls.net = Internet()
        cls.api = cls.net.web("api.test")
        cls.CONF = {**cls.net.conf, "audit_segment_size": "256K"}
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.net.close()

    def setUp(self):
        super().setUp()
        self.box = self.i.create(rules=RULES)
        self.inside = Inside(self.i, self.box)
        self.addCleanup(self.inside.close)
        self.addCleanup(setattr, self.api, "handler", None)

    def entries(self):
        """Of this sandbox, and of doors."""
        found = []
        top = f"{self.i.state_dir}/audit"
        for name in sorted(os.listdir(top)):
            if name.endswith(".log"):
                with open(f"{top}/{name}", "rb") as f:
                    lines = f.read().split(b"\n")[:-1]
                found += [json.loads(x) for x in lines
                          if self.box.encode() in x]
        return [e for e in found if e.get("source")]

    def until(self, what, fn):
        """The entries, once they are as they should be."""
        def look():
            got = self.entries()
            return got if fn(got) else None
        return wait_for(what, look, 20 * SLOW)

    def kept(self):
        """All bytes that are safe from the death of any process."""
        raw = b""
        for top in (f"{self.i.state_dir}/gate/spool", f"{self.i.state_dir}/audit"):
            for name in os.listdir(top):
                with contextlib.suppress(OSError), open(f"{top}/{name}", "rb") as f:
                    raw += f.read()
        return raw

    def verify(self):
        return subprocess.run(
            [f"{self.i.bin}/carrel-scribe", "--verify",
             f"{self.i.state_dir}/audit"], capture_output=True, text=True,
            timeout=60 * SLOW)

    def assertVerified(self):
        v = self.verify()
        self.assertEqual(v.returncode, 0, v.stdout + v.stderr)

    def test_entries(self):
        r = self.inside.get("http://api.test/a%20b?token=hush", fields=[
            ("Authorization", "Bearer hush")], method="POST", body=b"1234")
        self.assertEqual(r.status, 200, r)
        self.assertEqual(self.inside.get("http://evil.test/x?token=hush").status,
                         403)
        sock, r = self.inside.tunnel("api.test")
        self.assertEqual(r.status, 200)
        sock.close()
        got = self.until("all are there", lambda got: [
            e["type"] for e in got].count("egress.done") == 2 or len(got) > 5)
        first = next(e for e in got if e["type"] == "egress.request")
        done = next(e for e in got if e["type"] == "egress.done")
        denied = next(e for e in got if e["type"] == "egress.denied")
        self.assertEqual((first["source"], first["project"]), ("gate", "default"))
        d = first["data"]
        self.assertEqual((d["kind"], d["method"], d["host"], d["port"], d["path"]),
                         ("http", "POST", "api.test", 80, "/a b"))
        self.assertIn("line 1", d["rule"])
        self.assertEqual(done["data"]["of"], first["spool"])
        self.assertEqual(done["data"]["status"], 200)
        self.assertGreater(done["data"]["up"], 4)
        self.assertGreater(done["data"]["down"], 0)
        self.assertLess(first["seq"], done["seq"])
        self.assertEqual(denied["data"]["host"], "evil.test")
        self.assertNotIn("hush", json.dumps(got))
        for kind in ("sandbox.create", "egress.request", "egress.denied"):
            wait_for(f"{kind} is shown", lambda kind=kind: kind in self.i.cli(
                "log", self.box, check=0).out, 10 * SLOW)
        self.assertVerified()

    def test_before_it_happens(self):
        """When a server outside hears of a request, it is written."""
        seen = []

        def look(r):
            seen.append(r.target.encode() in self.kept())
            return answer(b"ok")
        self.api.handler = look
        for n in range(5):
            self.assertEqual(
                self.inside.get(f"http://api.test/before-{n}").status, 200)
        self.assertEqual(seen, [True] * 5)

    def test_no_scribe_no_egress(self):
        """It is waited for, not for long, and nothing leaves meanwhile."""
        self.assertEqual(self.inside.get("http://api.test/").status, 200)
        got = []

        def ask(fn, *args):
            t = threading.Thread(target=lambda: got.append(fn(*args)))
            t.start()
            return t
        os.kill(self.i.daemon.pid, signal.SIGSTOP)  # it starts no other
        try:
            pid = self.i.kill_role("carrel-scribe")
            wait_for("it is dead", lambda: harness.read(
                f"/proc/{pid}/stat", ") Z").rpartition(") ")[2][0] == "Z",
                10 * SLOW)
            n = len(self.api.requests)
            asked = [ask(self.inside.get, "http://api.test/away")
                     for _ in range(3)]
            asked.append(ask(lambda: self.inside.tunnel("api.test")[1]))
            for t in asked:
                t.join()
            self.assertEqual([r.status for r in got], [503] * 4)
            self.assertEqual(len(self.api.requests), n)
        finally:
            os.kill(self.i.daemon.pid, signal.SIGCONT)
        self.assertEqual({r.reason for r in got}, {"log"})
        self.assertIn("the log does not answer", got[0].text)
        wait_for("the door is open again", lambda: self.inside.get(
            "http://api.test/").status == 200, 20 * SLOW)

    def test_killed_while_it_works(self):
        """Whoever dies: what left is in the log, once."""
        stop = threading.Event()

        def work(k):
            n = 0
            while not stop.is_set():
                with contextlib.suppress(OSError):
                    self.inside.get(f"http://api.test/k{k}-{n}")
                n += 1
        threads = [threading.Thread(target=work, args=(k,)) for k in range(3)]
        for t in threads:
            t.start()
        for _ in range(4):
            for role in ("carrel-gate", "carrel-scribe"):
                n = len(self.api.requests)
                wait_for("requests pass", lambda n=n: len(
                    self.api.requests) > n + 10, 30 * SLOW)
                for pid in self.i.pids().get(role, []):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
        stop.set()
        for t in threads:
            t.join()
        wait_for("the door is open again", lambda: self.inside.get(
            "http://api.test/last").status == 200, 20 * SLOW)
        left = {r.target for r in self.api.requests if r.target.startswith("/k")}

        def paths(got):
            return [e["data"]["path"] for e in got if e["type"] == "egress.request"]
        got = self.until("the last one is there",
                         lambda got: "/last" in paths(got))
        written = [p for p in paths(got) if p.startswith("/k")]
        self.assertEqual(left - set(written), set())
        numbers = [e["spool"] for e in got if e["source"] == "gate"]
        self.assertEqual(numbers, sorted(set(numbers)))
        self.assertVerified()

    def test_a_flood_of_denials(self):
        """Each is counted, few are written out."""
        n = 300
        sock = self.inside.connect()
        for k in range(n):
            r = self.inside.get(f"http://evil.test/{k}", sock=sock)
            self.assertEqual(r.status, 403)
            if r.fields.get("connection") == "close":
                sock.close()
                sock = self.inside.connect()
        sock.close()

        def total(got):
            return sum(e["data"].get("left_out", 1) for e in got
                       if e["type"] == "egress.denied")
        got = self.until("all are counted", lambda got: total(got) == n)
        self.assertLess(len([e for e in got if e["type"] == "egress.denied"]),
                        n / 2)
        self.assertIn("left_out", json.dumps(got))

    def test_a_flood_of_events(self):
        """Who asks and goes away, again and again, is written up to a point."""
        box = self.i.create(rules=["ask * http://api.test"])
        inside = Inside(self.i, box)
        self.addCleanup(inside.close)
        for _ in range(300):
            with inside.connect() as s:
                s.sendall(b"GET http://api.test/ HTTP/1.1\r\nHost: api.test\r\n\r\n")
        self.box = box

        def rest(got):
            return any(e["type"] in ("approval.ask", "egress.limited") for e in got)
        self.until("some are there", rest)
        # A last one: behind it all that came before is written.
        wait_for("one is asked for", lambda: inside.connect().sendall(
            b"GET http://api.test/last HTTP/1.1\r\nHost: api.test\r\n\r\n"
        ) is None and any(e["data"].get("path") == "/last"
                          for e in self.entries()), 20 * SLOW, 0.5)
        seconds = [e["time"][:19] for e in self.entries()
                   if e["type"] == "approval.ask"]
        for second in set(seconds):
            self.assertLessEqual(seconds.count(second), 100)

    def test_a_spool_that_is_lost(self):
        """Numbers go on behind the log's."""
        self.assertEqual(self.inside.get("http://api.test/1").status, 200)
        self.until("it is there", len)
        for top, _, names in os.walk(f"{self.i.state_dir}/gate/spool"):
            for name in names:
                os.unlink(f"{top}/{name}")
        for pid in self.i.pids()["carrel-gate"]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.assertEqual(self.inside.get("http://api.test/2").status, 200)
        got = self.until("the other is there", lambda got: any(
            e["data"].get("path") == "/2" for e in got))
        numbers = [e["spool"] for e in got]
        self.assertEqual(numbers, sorted(set(numbers)))
        self.assertVerified()


if __name__ == "__main__":
    harness.main()
