# suite: both
"""A sandbox and its forks draw on one account: forking, also by an agent over
MCP, gives nobody budgets that the family has spent already."""

import json
import os
import signal

import harness
import mcp
from harness import SLOW, wait_for
from internet import Inside, Internet
from test_budget import MODELS, openai


class Family(harness.Case):
    @classmethod
    def setUpClass(cls):
        cls.net = Internet()
        cls.api = cls.net.web("api.test")
        cls.openai = cls.net.web("openai.test", handler=openai)
        models = os.path.join(cls.net.dir, "models.conf")
        with open(models, "w") as f:
            f.write(MODELS)
        cls.CONF = {**cls.net.conf, "models": models}
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.net.close()

    def inside(self, box):
        wait_for("its door is up", lambda: self.i.api(
            "GET", f"/v1/sandboxes/{box}").json["door"]["up"], 20 * SLOW)
        inside = Inside(self.i, box)
        self.addCleanup(inside.close)
        return inside

    def box(self, *rules, **spec):
        box = self.i.create(rules=["allow * *", *rules], **spec)
        return box, self.inside(box)

    def fork(self, ref, **body):
        r = self.i.api("POST", f"/v1/sandboxes/{ref}/fork", body)
        self.assertEqual(r.status, 201, r)
        return r.json["sandboxes"][0]["id"]

    def agent_forks(self, box):
        """By the MCP tool that an agent has: the fork's id."""
        s = mcp.Session(self.i.sock, query=f"?sandbox={box}")
        self.addCleanup(s.end)
        text = s.tool("fork", switch=True)["content"][0]["text"]
        self.assertIn("This session goes on in sandbox", text)
        return text.split("sandbox ")[1].split(",")[0]

    def statuses(self, inside, n):
        return [inside.get("http://api.test/x").status for _ in range(n)]

    def requests_of(self, box):
        return (self.i.api("GET", f"/v1/sandboxes/{box}").json["door"]
                .get("egress") or {}).get("requests")

    def counters(self):
        """Ids that the gate has counters of."""
        top = f"{self.i.state_dir}/gate/state"
        return {name for _, _, names in os.walk(top) for name in names}

    def test_a_fork_cannot_spend_what_its_parent_spent(self):
        box, inside = self.box("budget requests 4, up 1MB")
        _, stranger = self.box("budget requests 4, up 1MB")
        self.assertEqual(self.statuses(inside, 3), [200] * 3)
        copy = self.agent_forks(box)
        r = self.i.api("GET", f"/v1/sandboxes/{copy}").json
        self.assertEqual(r["account"], box)
        copied = self.inside(copy)
        self.assertEqual(self.statuses(copied, 2), [200, 429])
        r = copied.get("http://api.test/x")
        self.assertIn(f"shared with {box}, is used up (4 requests in all)", r.text)
        self.assertEqual(self.statuses(inside, 1), [429])
        # A fork of the fork, too; and nobody else is touched.
        self.assertEqual(self.statuses(
            self.inside(self.agent_forks(copy)), 1), [429])
        self.assertEqual(self.statuses(stranger, 5), [200] * 4 + [429])
        # What each of them did is told of each alone.
        wait_for("their use is told", lambda: (
            self.requests_of(box), self.requests_of(copy)) == (3, 1), 20 * SLOW)

    def test_restarts_give_nothing_back(self):
        box, inside = self.box("budget requests 3, tokens 100000")
        self.assertEqual(self.statuses(inside, 1), [200])
        copy = self.agent_forks(box)
        copied = self.inside(copy)
        self.assertEqual(self.statuses(copied, 1), [200])
        for pid in self.i.pids()["carrel-gate"]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.i.kill_role("carrel-api")
        self.assertEqual(self.statuses(copied, 2), [200, 429])
        self.i.restart()
        self.assertEqual(self.statuses(self.inside(copy), 1), [429])
        self.assertEqual(self.statuses(self.inside(box), 1), [429])
        self.assertEqual(self.statuses(
            self.inside(self.agent_forks(copy)), 1), [429])

    def test_the_account_outlives_the_first_sandbox(self):
        box, inside = self.box("budget requests 2")
        self.assertEqual(self.statuses(inside, 2), [200, 200])
        copy = self.agent_forks(box)
        self.i.cli("snapshot", copy, "kept", check=0)
        self.i.cli("rm", box, check=0)
        copied = self.inside(copy)
        self.assertEqual(self.statuses(copied, 1), [429])
        self.i.cli("rm", copy, check=0)
        self.i.restart()
        # The snapshot is all that is left of them.
        last = self.fork("kept")
        self.assertEqual(self.statuses(self.inside(last), 1), [429])
        self.i.cli("rm", last, check=0)
        self.i.cli("snapshot", "rm", "kept", check=0)
        wait_for("the gate has forgotten the family",
                 lambda: not self.counters() & {box, copy, last}, 20 * SLOW)

    def test_tokens(self):
        def post(inside):
            sock, r = inside.tunnel("openai.test")
            self.assertEqual(r.status, 200, r)
            tls = inside.tls(sock, "openai.test")
            self.addCleanup(tls.close)
            return inside.get(
                "/v1/x", "POST", fields=[("Host", "openai.test")], sock=tls,
                body=json.dumps({"model": "small-1", "max_tokens": 90}).encode()
            ).status
        box, inside = self.box("budget tokens 120")
        self.assertEqual(post(inside), 200)
        self.assertEqual(post(inside), 200)
        copied = self.inside(self.agent_forks(box))
        self.assertEqual([post(copied), post(copied), post(inside)],
                         [200, 429, 429])

    def test_an_operator_gives_a_fork_its_own(self):
        box, inside = self.box("budget requests 1")
        self.assertEqual(self.statuses(inside, 2), [200, 429])
        own = self.fork(box, own_budget=True)
        self.assertEqual(self.statuses(self.inside(own), 2), [200, 429])
        self.assertEqual(self.statuses(inside, 1), [429])
        cli = self.i.cli("fork", "--own-budget", box, check=0).out.strip()
        self.assertEqual(self.statuses(self.inside(cli), 1), [200])

    def test_a_use_key_gives_nobody_their_own(self):
        box, _ = self.box("budget requests 1")
        key = self.i.api("POST", "/v1/keys", {"scope": "use"}).json["key"]
        r = self.i.api("POST", f"/v1/sandboxes/{box}/fork", {"own_budget": True},
                       {"Authorization": f"Bearer {key}"})
        self.assertEqual(r.status, 403, r)
        self.assertIn("'policy' is needed", r.json["message"])

    BUSY = "while :; do :; done"

    def test_processor_time(self):
        """Of all of them together; an unrelated sandbox goes on."""
        box = self.i.create(**{"cpu-budget": 2})
        other = self.i.create(**{"cpu-budget": 60})
        self.i.cli("exec", box, "--", "timeout", "1.5", "sh", "-c", self.BUSY)
        copy = self.agent_forks(box)
        self.i.cli("exec", "-d", copy, "--", "sh", "-c", self.BUSY, check=0)

        def ended():
            r = self.i.api("GET", f"/v1/sandboxes/{copy}").json
            return r["state"] == "ended" and r["ended"]["reason"]
        self.assertEqual(wait_for("the fork ends", ended, 30 * SLOW),
                         f"cpu budget of 2 s used by sandbox {box} and its forks")
        self.assertEqual(self.i.api("GET", f"/v1/sandboxes/{other}").json["state"],
                         "running")

    def test_time(self):
        """A fork ends with its parent's time, not with as much of its own."""
        box = self.i.create(timeout="600s")
        ends = self.i.api("GET", f"/v1/sandboxes/{box}").json["expires_at"]
        copy = self.i.api(
            "GET", f"/v1/sandboxes/{self.agent_forks(box)}").json["expires_at"]
        self.assertEqual(copy, ends)
        for body in ({"own_budget": True}, {"spec": {"timeout": 1200}}):
            other = self.fork(box, **body)
            self.assertGreater(self.i.api(
                "GET", f"/v1/sandboxes/{other}").json["expires_at"], ends)


if __name__ == "__main__":
    harness.main()
