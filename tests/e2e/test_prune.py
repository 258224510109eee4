"""What a removed sandbox leaves behind, and what prune removes of it."""

import json
import os
import signal
import time

import harness
from harness import SLOW, wait_for
from mcp import Session


class Prune(harness.Case):
    def setUp(self):
        self.box = self.i.create(**{"name": "box", "auto-snapshot": "exec"})

    def tearDown(self):
        super().tearDown()
        for s in self.snapshots():
            self.i.api("DELETE", f"/v1/snapshots/{s['id']}")

    def snapshots(self):
        return self.i.api("GET", "/v1/snapshots").json["snapshots"]

    def kinds(self):
        return sorted(s["kind"] for s in self.snapshots())

    def take(self, **ask):
        r = self.i.api("POST", f"/v1/sandboxes/{self.box}/snapshots", ask)
        self.assertEqual(r.status, 201, r)
        return r.json["id"]

    def prune(self, *args):
        return json.loads(self.i.cli("prune", "--json", *args, check=0).out)

    def in_pool(self):
        return os.listdir(self.i.pool() + "/snap")

    def populate(self):
        self.i.sh(self.box, "true")
        self.take(name="named")
        self.take(name="mine", own=True)
        self.assertEqual(self.kinds(), ["auto", "own", "user"])

    def end_by_itself(self):
        before = set(self.i.ids())
        os.kill(min(self.i.box_pids()), signal.SIGKILL)
        wait_for("the sandbox has ended",
                 lambda: set(self.i.ids()) < before, 10 * SLOW)

    def test_rm_takes_automatic_snapshots_along(self):
        self.populate()
        self.i.cli("rm", "box", check=0)
        self.assertEqual(self.kinds(), ["user"])
        wait_for("one is in the pool", lambda: len(self.in_pool()) == 1,
                 10 * SLOW)

    def test_rm_snapshots_takes_all_along(self):
        self.populate()
        self.i.cli("rm", "--snapshots", "box", check=0)
        self.assertEqual(self.snapshots(), [])
        wait_for("none is in the pool", lambda: not self.in_pool(), 10 * SLOW)

    def test_kill_switch_takes_automatic_snapshots_along(self):
        self.populate()
        self.i.cli("rm", "--all", "--force", check=0)
        self.assertEqual(self.kinds(), ["user"])

    def test_snapshot_of_mcp_goes_with_its_sandbox(self):
        self.i.rm(self.box)
        s = Session(self.i.sock)
        s.tool("run_command", command="true")
        s.tool("snapshot")
        self.assertEqual(self.kinds(), ["own"])
        for box in self.i.ids():
            self.i.rm(box)
        self.assertEqual(self.snapshots(), [])

    def test_snapshots_of_a_sandbox_that_ended_by_itself_stay(self):
        self.populate()
        self.end_by_itself()
        self.assertEqual(self.kinds(), ["auto", "own", "user"])
        would = self.prune("--dry-run")
        self.assertEqual(len(would["removed"]), 2)
        self.assertEqual(len(self.snapshots()), 3)
        self.assertEqual(self.prune()["removed"], would["removed"])
        self.assertEqual(self.kinds(), ["user"])

    def test_prune_leaves_what_lives(self):
        self.populate()
        self.assertEqual(self.prune("--snapshots", "--older-than", "0s")
                         ["removed"], [])
        self.assertEqual(len(self.snapshots()), 3)

    def test_named_snapshots_are_pruned_by_age_only(self):
        self.populate()
        self.i.rm(self.box)
        p = self.i.cli("prune", "--snapshots")
        self.assertEqual(p.returncode, 1)
        self.assertIn("older_than", p.err)
        self.assertEqual(self.prune("--snapshots", "--older-than", "1h")
                         ["removed"], [])
        time.sleep(0.01)  # older than nothing is older than now
        gone, = self.prune("--snapshots", "--older-than", "0s")["removed"]
        self.assertEqual((gone["kind"], gone["name"]), ("snapshot", "named"))
        self.assertEqual(self.snapshots(), [])

    def test_unused_images_are_pruned(self):
        snap = self.take(name="named")
        r = self.i.api("POST", "/v1/images/unused", {"snapshot": "named"})
        self.assertEqual(r.status, 201, r)
        r = self.i.api("POST", "/v1/images/used", {"snapshot": "named"})
        self.assertEqual(r.status, 201, r)
        user = self.i.create(image="used")
        self.i.api("DELETE", f"/v1/snapshots/{snap}")
        gone = self.prune("--images")["removed"]
        self.assertEqual([x["name"] for x in gone], ["unused"])
        names = [x["name"] for x in self.i.api("GET", "/v1/images").json["images"]]
        self.assertEqual(sorted(names), ["tiny", "used"])
        wait_for("two are in the pool", lambda: len(
            os.listdir(self.i.pool() + "/images")) == 2, 10 * SLOW)
        self.i.rm(user)
        self.i.api("DELETE", "/v1/images/used")

    def test_key_of_a_project_prunes_its_own(self):
        self.populate()
        self.end_by_itself()
        key = self.i.api("POST", "/v1/keys", {"name": "other", "scope": "use",
                                              "project": "other"}).json
        auth = {"Authorization": "Bearer " + key["key"]}
        r = self.i.api("POST", "/v1/prune", {}, auth)
        self.assertEqual((r.status, r.json["removed"]), (200, []), r)
        r = self.i.api("POST", "/v1/prune", {"strays": True}, auth)
        self.assertEqual(r.status, 403, r)
        self.assertEqual(len(self.snapshots()), 3)


if __name__ == "__main__":
    harness.main()
