"""What is made of snapshots, in real sandboxes."""

import unittest

import harness
from harness import wait_for


class Fork(harness.Case):
    def post(self, path, body=None, status=200):
        r = self.i.api("POST", path, body)
        self.assertEqual(r.status, status, r)
        return r.json

    def snapshot(self, box, name=None):
        return self.post(f"/v1/sandboxes/{box}/snapshots", {"name": name}, 201)

    def out(self, box, script):
        return self.i.sh(box, script).out

    def test_rollback(self):
        """The files come back; id and name stay; the snapshot did not stop
        what ran."""
        box = self.i.create(name="work")
        self.out(box, "echo one > kept; echo one > gone")
        self.i.cli("exec", "-d", "--tag", "counter", box, "--", "sleep", "1000",
                   check=0)
        snap = self.snapshot("work", "before")
        self.assertLess(snap["pause_us"], 5000000)
        self.assertIn("sleep", self.out(box, "ps"))
        self.out(box, "echo two > kept; rm gone; echo three > new")
        j = self.post("/v1/sandboxes/work/rollback", {"snapshot": "before"})
        self.assertEqual((j["id"], j["name"], j["state"]),
                         (box, "work", "running"))
        self.assertEqual(self.out("work", "cat kept gone; ls"),
                         "one\none\ngone\nkept\n")
        self.assertNotIn("sleep 1000", self.out(box, "ps"))
        # And again: what was done since is gone.
        self.out(box, "rm kept")
        self.post("/v1/sandboxes/work/rollback", {"snapshot": snap["id"]})
        self.assertEqual(self.out("work", "cat kept"), "one\n")
        self.i.rm(box)
        self.assertEqual(self.i.api("DELETE", "/v1/snapshots/before").status,
                         204)


if __name__ == "__main__":
    harness.main()
