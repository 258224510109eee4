# suite: both
"""The door of a sandbox over its life and over the lives of the roles: it is
there when a create is answered, after a restart of anything, and in every
other life of the sandbox; and what its spec says is in force when a change of
it was answered."""

import contextlib
import os
import signal

import harness
from harness import SLOW, wait_for
from internet import Inside, Internet

ALLOW = ["allow * http://api.test"]


class Case(harness.Case):
    """A daemon with a small internet."""
    SETTINGS = {}

    @classmethod
    def setUpClass(cls):
        cls.net = Internet()
        cls.web = cls.net.web("api.test")
        cls.other = cls.net.web("other.test")
        cls.CONF = {**cls.net.conf, **cls.SETTINGS}
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.net.close()

    def make(self, **spec):
        return self.i.create(**{"rules": ALLOW, **spec})

    def look(self, box):
        return self.i.api("GET", f"/v1/sandboxes/{box}").json

    def get(self, box, url="http://api.test/x", timeout=20 * SLOW):
        """Of a client inside: the answer."""
        inside = Inside(self.i, box)
        try:
            return inside.get(url, sock=inside.connect(timeout=timeout))
        finally:
            inside.close()

    def works(self, box, url="http://api.test/x"):
        n = len(self.web.requests)
        r = self.get(box, url)
        self.assertEqual(r.status, 200, r)
        self.assertEqual(len(self.web.requests), n + 1)

    def refused(self, box, url="http://other.test/"):
        n = len(self.other.requests)
        r = self.get(box, url)
        self.assertEqual(r.status, 403, r)
        self.assertEqual(len(self.other.requests), n)

    def patch(self, box, **change):
        r = self.i.api("PATCH", f"/v1/sandboxes/{box}", change)
        self.assertEqual(r.status, 200, r)
        return r.json

    def stands(self, box):
        return wait_for("its door stands",
                        lambda: self.look(box).get("door", {}).get("up"),
                        20 * SLOW)

    def tries(self, box):
        try:
            return self.get(box, timeout=0.5 * SLOW).status == 200
        except OSError:
            return False

    def counted(self, box, n):
        """What its door has counted, when that is so many requests."""
        def look():
            used = self.look(box)["door"].get("egress", {})
            return used.get("requests") == n and used
        return wait_for(f"{n} requests are counted", look, 10 * SLOW)

    def gate_ends(self):
        """kill -9 of the keeper and all that is its."""
        old = set(self.i.pids()["carrel-gate"])
        for pid in old:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return lambda: not old & set(self.i.pids().get("carrel-gate", old))


class Life(Case):
    def test_from_the_create_on(self):
        box = self.make()
        self.assertTrue(self.look(box)["door"]["up"])
        self.works(box)
        self.refused(box)
        self.assertNotIn("door", self.look(self.i.create()))
        run = self.i.cli("run", "--rule", ALLOW[0], "--", "cat",
                         "/etc/resolv.conf", check=0)
        self.assertEqual(run.out, "nameserver 127.0.0.1\n")
        # The last second of one that ends counts, too.
        short = self.make()
        self.works(short)
        self.i.rm(short)
        wait_for("it is counted", lambda: self.used(short) == 1, 10 * SLOW)
        self.assertEqual(self.counted(box, 1)["denied"], 1)

    def used(self, box):
        row, = self.i.api("GET", f"/v1/usage?sandbox={box}").json["usage"]
        return row.get("egress", {}).get("requests")

    def test_changes_are_in_force_when_answered(self):
        box = self.i.create()
        inside = Inside(self.i, box)
        self.assertTrue(inside.refused())
        inside.close()
        self.assertTrue(self.patch(box, rules=ALLOW)["door"]["up"])
        self.works(box)
        self.patch(box, rules=["allow * http://other.test"])
        self.assertEqual(self.get(box).status, 403)
        self.assertEqual(self.get(box, "http://other.test/").status, 200)
        self.patch(box, rules=[])
        self.refused(box)
        self.patch(box, observe=True)
        self.works(box)

    def test_other_lives(self):
        box = self.make(name="first")
        snap = self.i.api("POST", f"/v1/sandboxes/{box}/snapshots", {}).json["id"]
        r = self.i.api("POST", f"/v1/sandboxes/{box}/rollback", {"snapshot": snap})
        self.assertEqual(r.status, 200, r)
        self.works(box)
        fork = self.i.api("POST", f"/v1/sandboxes/{box}/fork", {"count": 1}).json
        self.works(fork["sandboxes"][0]["id"])
        for how in ({}, {"disk_only": True}):
            self.assertEqual(self.i.api(
                "POST", f"/v1/sandboxes/{box}/pause", how).status, 200)
            self.assertEqual(self.i.api(
                "POST", f"/v1/sandboxes/{box}/resume", {}).status, 200)
            self.works(box)
        self.refused(box)

    def test_a_paused_one_gets_a_door(self):
        box = self.i.create()
        self.i.api("POST", f"/v1/sandboxes/{box}/pause", {})
        self.patch(box, rules=ALLOW)
        self.i.api("POST", f"/v1/sandboxes/{box}/resume", {})
        self.stands(box)
        self.works(box)

    def test_the_api_is_killed_before_it_wrote_inside(self):
        box = self.i.create()
        self.i.api("POST", f"/v1/sandboxes/{box}/pause", {})
        self.patch(box, rules=ALLOW)
        self.i.kill_role("carrel-api")
        self.i.wait_ready()
        self.i.api("POST", f"/v1/sandboxes/{box}/resume", {})
        wait_for("the door's files", lambda: self.i.sh(
            box, "grep -q 127.0.0.1 /etc/resolv.conf && test -s "
            "/usr/local/share/ca-certificates/carrel.crt").returncode == 0,
            10 * SLOW)
        self.stands(box)
        self.works(box)

    def test_the_api_is_killed(self):
        box = self.make()
        self.works(box)
        self.i.kill_role("carrel-api")
        self.i.wait_ready()
        self.stands(box)
        self.works(box)
        self.refused(box)
        self.patch(box, rules=[])
        self.assertEqual(self.get(box).status, 403)

    def test_the_gate_is_killed(self):
        box = self.make()
        self.works(box)
        back = self.gate_ends()
        wait_for("another gate", back, 20 * SLOW)
        self.stands(box)
        self.works(box)
        self.refused(box)
        self.i.kill_role("carrel-warden")
        self.works(box)
        self.gate_ends()
        wait_for("it works again", lambda: self.tries(box), 30 * SLOW)
        self.refused(box)

    def test_a_budget_pauses_it(self):
        box = self.make(rules=ALLOW + ["budget requests 1", "over pause"])
        self.works(box)
        inside = Inside(self.i, box)
        self.addCleanup(inside.close)
        s = inside.connect()
        self.addCleanup(s.close)
        s.sendall(b"GET http://api.test/x HTTP/1.1\r\nHost: api.test\r\n\r\n")
        wait_for("it is paused", lambda: self.look(box)["state"] == "paused",
                 10 * SLOW)
        self.assertIn("request", self.look(box)["door"]["paused"])
        path = f"/v1/sandboxes/{box}/log?type=sandbox.pause"
        wait_for("the log says why", lambda: b'"reason":"budget"' in
                 self.i.api("GET", path).body, 10 * SLOW)

    def doors(self):
        """Projects whose doors have sandboxes, as the log of the gate says."""
        return len(self.i.pids()["carrel-gate"])

    def test_secrets_move_it(self):
        """With secrets a project has a door of its own."""
        box = self.make(canaries=["AWS_KEY"])
        self.works(box)
        n = self.doors()
        self.i.cli("secret", "set", "token", "--host", "api.test", "--header",
                   "Authorization: Bearer {}", "--env", "TOKEN",
                   input=b"s3cret-value", check=0)
        self.stands(box)
        self.assertEqual(self.doors(), n + 1)
        self.works(box)
        self.patch(box, secrets=["token"])
        self.works(box)
        env = dict(x.split("=", 1) for x in self.i.sh(box, "env").out.split())
        self.assertRegex(env["TOKEN"], "^carrel-placeholder-[0-9a-f]{32}$")
        self.assertRegex(env["AWS_KEY"], "^[0-9a-f]{48}$")
        fork = self.i.api("POST", f"/v1/sandboxes/{box}/fork", {}).json
        fork = fork["sandboxes"][0]["id"]
        theirs = self.i.sh(fork, "echo $TOKEN $AWS_KEY").out.split()
        self.assertNotEqual(theirs[0], env["TOKEN"])
        self.assertEqual(theirs[1], env["AWS_KEY"], "it is watched for there")
        self.works(fork)
        self.i.kill_role("carrel-api")
        self.i.wait_ready()
        self.stands(box)
        self.works(box)
        self.assertEqual(self.i.sh(box, "echo $TOKEN").out.strip(), env["TOKEN"])
        self.i.rm(fork)
        self.patch(box, secrets=[])
        self.i.cli("secret", "rm", "token", check=0)
        self.stands(box)
        self.works(box)
        self.refused(box)
        self.counted(box, 5)
        self.assertEqual(self.used(box), 5)

    def test_no_gate_no_door(self):
        """A create fails, and what runs has no way out."""
        box = self.make()
        gate = self.i.pids()["carrel-gate"]
        for pid in gate:
            os.kill(pid, signal.SIGSTOP)
        try:
            r = self.i.api("POST", "/v1/sandboxes", {"rules": ALLOW})
            self.assertEqual((r.status, r.json["error"]), (503, "gate_unavailable"))
            self.assertEqual(self.i.api("POST", "/v1/sandboxes", {}).status, 201)
            n = len(self.web.requests)
            self.assertFalse(self.tries(box))
            self.assertEqual(len(self.web.requests), n)
        finally:
            for pid in gate:
                os.kill(pid, signal.SIGCONT)
        self.assertEqual(self.get(box).status, 200)


if __name__ == "__main__":
    harness.main()
