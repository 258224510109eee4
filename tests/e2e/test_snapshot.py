
import json
import unittest

import harness
from fake_warden import SNAPSHOT, Api


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


if __name__ == "__main__":
    harness.main()
