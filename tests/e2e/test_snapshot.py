
import json
import threading
import unittest

import harness
from fake_warden import KILL, LAUNCH, SNAPSHOT, Api


class Case(unittest.TestCase):
    def setUp(self):
        self.a = Api()
        self.addCleanup(self.a.stop)
        self.w = self.a.warden

    def get(self, path, status=200):
        r = self.a.api("GET", path)
        self.assertEqual(r.status, status, r)
        return r.json

    def post(self, path, body=None, status=200):
        r = self.a.api("POST", path, body)
        self.assertEqual(r.status, status, r)
        return r.json

    def delete(self, path, status=204):
        r = self.a.api("DELETE", path)
        self.assertEqual(r.status, status, r)

    def snapshot(self, box, name=None, status=201):
        return self.post(f"/v1/sandboxes/{box}/snapshots", {"name": name},
                         status)

    def names(self, query=""):
        return [s["name"] for s in
                self.get(f"/v1/snapshots{query}")["snapshots"]]

    def restart(self):
        self.a.kill()
        self.a.start()


class Snapshots(Case):
    def test_taken_listed_and_removed(self):
        box = self.a.create(name="work")
        one = self.snapshot("work", "one")
        self.assertEqual((one["name"], one["sandbox"], one["kind"],
                          one["project"], one["pause_us"], one["bytes"]),
                         ("one", box, "user", "default", 1000, 4096))
        self.assertEqual(self.w.snapshots, {one["id"]: box})
        none = self.snapshot(box)
        self.assertIsNone(none["name"])
        self.assertGreater(none["event"], one["event"])
        self.assertEqual(self.names(), ["one", None])
        self.assertEqual(self.names("?name=one&sandbox=work"), ["one"])
        self.assertEqual(self.names("?project=other"), [])
        self.assertEqual(self.get("/v1/snapshots/one"), one)
        self.assertEqual(self.get(f"/v1/snapshots/{one['id'][:9]}"), one)
        # A name is taken once; it is free again at once.
        self.snapshot(box, "one", 409)
        self.snapshot(box, "Not a name", 400)
        self.delete("/v1/snapshots/one")
        self.get("/v1/snapshots/one", 404)
        harness.wait_for("it is gone",
                         lambda: list(self.w.snapshots) == [none["id"]])
        self.snapshot(box, "one")
        self.snapshot("nobody", "two", 404)
        # It outlives its sandbox, and us.
        self.a.rm(box)
        self.restart()
        self.assertEqual(self.names(), [None, "one"])
        self.assertEqual(self.names(f"?sandbox={box}"), [None, "one"])

    def test_the_log_has_them(self):
        box = self.a.create()
        snap = self.snapshot(box, "one")
        self.delete("/v1/snapshots/one")
        r = self.a.api("GET", f"/v1/sandboxes/{box}/log?type=snapshot.")
        lines = [json.loads(x) for x in r.body.decode().splitlines()]
        self.assertEqual([x["type"] for x in lines],
                         ["snapshot.create", "snapshot.remove"])
        self.assertEqual(lines[0]["data"]["id"], snap["id"])
        self.assertEqual(lines[0]["seq"], snap["event"])

    def test_failures_leave_nothing(self):
        box = self.a.create()
        self.w.refuse[SNAPSHOT] = (28, "the pool is full")
        self.assertEqual(self.snapshot(box, "one", 507)["message"],
                         "the pool is full")
        del self.w.refuse[SNAPSHOT]
        self.assertEqual(self.names(), [])
        self.snapshot(box, "one")

    def test_killed_before_its_row(self):
        """The pool has it, nobody was told: it goes."""
        box = self.a.create()
        kept = self.snapshot(box, "kept")
        self.w.snapshots["i" + "a" * 26] = box
        self.restart()
        self.assertEqual(self.names(), ["kept"])
        harness.wait_for("it is gone",
                         lambda: list(self.w.snapshots) == [kept["id"]])

    def test_not_in_the_pool_any_more(self):
        box = self.a.create()
        self.snapshot(box, "one")
        self.w.snapshots.clear()
        self.restart()
        self.assertEqual(self.names(), [])

    def test_an_image_that_a_snapshot_needs(self):
        box = self.a.create()
        self.snapshot(box, "one")
        self.a.rm(box)
        self.delete("/v1/images/img", 409)
        self.a.put_image("img")         # the old one is retired, and stays
        self.restart()
        self.assertEqual(len(self.w.images), 2)
        self.delete("/v1/snapshots/one")
        harness.wait_for("the old image is gone",
                         lambda: len(self.w.images) == 1)

    def test_other_projects_see_nothing(self):
        box = self.a.create()
        snap = self.snapshot(box, "one")
        r = self.a.api("POST", "/v1/keys", {"project": "other"})
        head = {"Authorization": f"Bearer {r.json['key']}"}
        for ref in ("one", snap["id"]):
            r = self.a.api("GET", f"/v1/snapshots/{ref}", headers=head)
            self.assertEqual(r.status, 404)
        r = self.a.api("GET", "/v1/snapshots", headers=head)
        self.assertEqual(r.json["snapshots"], [])


class Rollback(Case):
    """Rows, kill, launch: done or not done, wherever it stops."""

    def setUp(self):
        super().setUp()
        self.box = self.a.create(name="work", labels={"a": "b"}, timeout=3600)
        self.snap = self.snapshot(self.box, "before")["id"]

    def show(self):
        return self.get(f"/v1/sandboxes/{self.box}")

    def rollback(self, status=200, **to):
        return self.post("/v1/sandboxes/work/rollback",
                         to or {"snapshot": "before"}, status)

    def in_background(self):
        t = threading.Thread(target=self.try_rollback, daemon=True)
        t.start()
        return t

    def try_rollback(self):
        try:
            self.a.api("POST", "/v1/sandboxes/work/rollback",
                       {"snapshot": "before"})
        except OSError:
            pass

    def test_same_sandbox_other_disk(self):
        before = self.show()
        old = self.w.boxes[self.box]
        j = self.rollback()
        for key in ("id", "name", "labels", "created_at", "expires_at", "spec"):
            self.assertEqual(j[key], before[key])
        self.assertEqual(j["state"], "running")
        self.assertIsNot(self.w.boxes[self.box], old)
        self.assertEqual(self.w.boxes[self.box].source, self.snap)
        w = self.a.exec_wire(self.box)
        w.spawn(["echo", "hi"])
        w.close()
        # Snapshots of it stay, and it can be done again, also after a crash.
        self.restart()
        self.rollback()
        self.assertEqual(self.names(), ["before"])

    def test_what_is_refused(self):
        self.rollback(404, snapshot="nothing")
        self.rollback(400, snapshot="before", event=3)
        self.rollback(400, event=-1)
        self.rollback(404, event=1)
        self.rollback(event=1 << 40)
        other = self.a.create()
        mine = self.snapshot(other, "other")
        self.assertIn("fork", self.rollback(400, snapshot=mine["id"])["message"])

    def test_clients_hear_why(self):
        w = self.a.exec_wire(self.box)
        w.spawn(["sleep", "100"])
        self.assertEqual(w.recv()[0], harness.STARTED)
        self.rollback()
        kind, _, payload = w.recv()
        self.assertEqual(kind, harness.FAILED)
        self.assertIn(b"rolled back", payload)
        w.close()

    def test_launch_fails(self):
        """It stays what it is: a disk."""
        self.w.refuse[LAUNCH] = (28, "no room")
        self.assertEqual(self.rollback(507)["message"], "no room")
        self.assertEqual(self.show()["state"], "suspended")
        del self.w.refuse[LAUNCH]
        self.restart()
        self.assertEqual(self.show()["state"], "suspended")
        self.rollback()         # of a disk it is only a word
        self.assertEqual(self.show()["state"], "suspended")
        self.assertEqual(self.w.boxes, {})
        self.a.rm("work")
        self.assertEqual(self.names(), ["before"])

    def stop_at(self, op):
        self.w.silent.add(op)
        t = self.in_background()
        harness.wait_for("it is asked",
                         lambda: (op, self.box) in self.w.seen)
        self.a.kill()
        self.w.silent.clear()
        t.join(20)
        self.a.start()

    def test_killed_before_the_kill(self):
        self.stop_at(KILL)
        harness.wait_for("it ended", lambda: not self.w.boxes)
        self.assertEqual(self.show()["state"], "suspended")

    def test_killed_at_the_launch(self):
        self.w.seen.clear()
        self.stop_at(LAUNCH)
        self.assertEqual(self.show()["state"], "suspended")
        self.assertEqual(self.names(), ["before"])

    def test_warden_goes_away(self):
        for op in (KILL, LAUNCH):
            self.w.seen.clear()
            self.w.silent.add(op)
            t = self.in_background()
            harness.wait_for("it is asked",
                             lambda: (op, self.box) in self.w.seen)
            self.w.silent.clear()
            self.w.crash()
            self.w.listen()
            t.join(20)
            harness.wait_for("it rests", lambda: self.show()["state"] in
                             ("suspended", "running"))
            if op == KILL:
                self.assertEqual(self.show()["state"], "running")

    def test_removed_on_the_way(self):
        self.w.seen.clear()
        self.w.silent.add(LAUNCH)
        t = self.in_background()
        harness.wait_for("it is asked",
                         lambda: (LAUNCH, self.box) in self.w.seen)
        r = threading.Thread(target=self.a.rm, args=("work",), daemon=True)
        r.start()
        harness.wait_for("it is to go",
                         lambda: self.show()["state"] == "removing")
        self.w.silent.clear()
        self.w.crash()
        self.w.listen()
        t.join(20)
        r.join(20)
        self.get("/v1/sandboxes/work", 404)
        self.assertEqual(self.names(), ["before"])


if __name__ == "__main__":
    harness.main()
