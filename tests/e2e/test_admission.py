"""How many sandboxes and commands a host takes, and whose share of it is whose."""

import concurrent.futures
import json
import time
import unittest

import harness
from fake_warden import Api
from harness import SLOW, wait_for

# A host of two processors; what an installation has without a configuration.
DEFAULTS = {"cpus": 2, "memory": "2G", "disk": "16G", "pids": 1024, "spares": 2}
MANY = 200


class Keys:
    """Requests of a project's key, to the instance `self.served()`."""

    def key(self, project):
        r = self.served().api("POST", "/v1/keys", {"name": project, "scope": "use",
                                                   "project": project})
        self.assertEqual(r.status, 201, r)
        return {"Authorization": f"Bearer {r.json['key']}"}

    def ask(self, key, method, path, body=None, status=200):
        r = self.served().api(method, path, body, headers=key)
        self.assertEqual(r.status, status, r)
        return r.json

    def start_run(self, key, box, argv, **more):
        """A request to run that is not waited for: its connection."""
        conn = harness.UnixHTTP(self.served().sock, 60 * SLOW)
        self.addCleanup(conn.close)
        conn.request("POST", f"/v1/sandboxes/{box}/run",
                     json.dumps({"argv": argv, **more}), key)
        return conn


class Defaults(harness.Case):
    CONF = {"max_sandboxes": MANY + 20, **DEFAULTS}

    def test_many_default_sandboxes_start(self):
        began = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            boxes = list(pool.map(lambda _: self.i.create(), range(MANY)))
        took = time.monotonic() - began
        self.assertEqual(sorted(self.i.ids()), sorted(boxes))
        for box in (boxes[0], boxes[-1]):
            self.assertEqual(self.i.sh(box, "echo here").out, "here\n")
        print(f"# {MANY} default sandboxes: {took * 1000 / MANY:.1f} ms each")

    def test_limits_of_running_sandboxes_are_shown(self):
        def promised():
            host = self.i.api("GET", "/v1/stats").json["host"]
            return host["promised_memory_bytes"] >> 30, host["promised_cpus"]
        box = self.i.create()
        self.i.create()
        self.assertEqual(promised(), (4, 4))
        self.i.api("POST", f"/v1/sandboxes/{box}/pause")
        self.assertEqual(promised(), (2, 2))
        self.i.api("POST", f"/v1/sandboxes/{box}/resume")
        self.assertEqual(promised(), (4, 4))

    def test_keys_of_earlier_versions_are_accepted(self):
        self.i.conf.update(overcommit_memory=1, overcommit_cpus=1)
        self.addCleanup(self.i.restart)
        self.addCleanup(self.i.conf.pop, "overcommit_memory")
        self.addCleanup(self.i.conf.pop, "overcommit_cpus")
        self.i.restart()
        self.assertIn("the key overcommit_cpus of the configuration has no "
                      "effect any more: remove its line", self.i.log())
        for _ in range(3):
            self.i.create(memory="1T", cpus=64)


class Places(Keys, unittest.TestCase):
    def served(self):
        return self.a

    def start(self, **conf):
        self.a = Api(**conf)
        self.addCleanup(self.a.stop)

    def create(self, key, n):
        return [self.ask(key, "POST", "/v1/sandboxes", {}, 201)["id"]
                for _ in range(n)]

    def refused(self, key):
        return self.ask(key, "POST", "/v1/sandboxes", {}, 429)["message"]

    def test_a_project_leaves_places_for_others(self):
        self.start(max_sandboxes=8)
        a, b = self.key("a"), self.key("b")
        boxes = self.create(a, 6)
        self.assertIn("project a may have 6 of 8", self.refused(a))
        self.create(b, 2)
        self.assertIn("max_sandboxes", self.refused(b))
        # A place of its own again, and the same after a crash.
        self.ask(a, "DELETE", f"/v1/sandboxes/{boxes[0]}", None, 204)
        self.a.kill()
        self.a.start()
        self.create(a, 1)
        self.assertIn("8 sandboxes live", self.refused(a))

    def test_a_project_alone_has_all_places(self):
        self.start(max_sandboxes=8)
        a = self.key("a")
        self.create(a, 8)
        self.assertIn("max_sandboxes", self.refused(a))

    def test_project_sandboxes_is_the_limit_of_each_project(self):
        self.start(max_sandboxes=8, project_sandboxes=2)
        a = self.key("a")
        self.create(a, 2)
        self.assertIn("project_sandboxes", self.refused(a))
        self.create(self.key("b"), 2)

    def test_a_fork_does_not_take_the_last_places(self):
        self.start(max_sandboxes=8)
        a = self.key("a")
        self.key("b")
        box = self.create(a, 5)[0]
        self.ask(a, "POST", f"/v1/sandboxes/{box}/fork", {"count": 2}, 429)
        self.ask(a, "POST", f"/v1/sandboxes/{box}/fork", {"count": 1}, 201)


class Output(Keys, harness.Case):
    """Output of commands that are waited for, which the daemon holds."""
    MOST = 4 << 20

    def served(self):
        return self.i

    def box(self, key):
        return self.ask(key, "POST", "/v1/sandboxes", {}, 201)["id"]

    def echo(self, key, box):
        r = self.ask(key, "POST", f"/v1/sandboxes/{box}/run",
                     {"argv": ["echo", "here"], "max_output": self.MOST})
        self.assertEqual(r["stdout"], "here\n")

    def begun(self, box, n):
        def all_run():
            r = self.i.api("GET", f"/v1/sandboxes/{box}/processes").json
            return len(r["processes"]) >= n
        wait_for("all commands run", all_run, 60 * SLOW)

    def test_commands_that_sleep_hold_nothing(self):
        a, b = self.key("a"), self.key("b")
        box, other = self.box(a), self.box(b)
        for _ in range(64):
            self.start_run(a, box, ["sleep", "1000"], max_output=self.MOST)
        self.begun(box, 64)
        self.echo(b, other)
        self.echo(a, box)

    def test_a_project_fills_its_share_only(self):
        a, b = self.key("a"), self.key("b")
        box, other = self.box(a), self.box(b)
        early = self.start_run(
            a, box, ["sh", "-c", "while ! test -e /tmp/go; do sleep 0.1; done; "
                                 "seq 1000000"], max_output=self.MOST)
        self.begun(box, 1)

        for _ in range(50):  # each would hold 6 MiB, of 256 MiB
            self.start_run(a, box, ["sh", "-c", "head -c 6291456 /dev/zero; "
                                    "echo >> /tmp/n; sleep 1000"],
                           max_output=self.MOST)
        wait_for("all have written", lambda: self.i.sh(
            box, "test $(wc -l < /tmp/n) = 50").returncode == 0, 60 * SLOW)
        r = self.ask(a, "POST", f"/v1/sandboxes/{box}/run", {"argv": ["true"]}, 429)
        self.assertIn("project a has its share", r["message"])
        self.echo(b, other)
        # A command that ran before ends well: the middle of its output is cut.
        self.i.sh(box, "touch /tmp/go")
        r = json.load(early.getresponse())
        self.assertEqual(r["exit"]["code"], 0)
        self.assertTrue(r["stdout"].startswith("1\n2\n3\n"), r["stdout"][:80])
        self.assertTrue(r["stdout"].endswith("\n1000000\n"), r["stdout"][-80:])
        self.assertIn(f"... {r['truncated']['stdout']} bytes left out ...",
                      r["stdout"])
        self.ask(a, "DELETE", f"/v1/sandboxes/{box}", None, 204)
        again = self.box(a)
        wait_for("the share is free", lambda: self.i.api(
            "POST", f"/v1/sandboxes/{again}/run", {"argv": ["true"]},
            headers=a).status == 200, 10 * SLOW)


if __name__ == "__main__":
    harness.main()
