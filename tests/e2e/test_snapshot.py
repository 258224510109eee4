
import itertools
import json
import sqlite3
import struct
import threading
import unittest

import harness
from fake_warden import KILL, LAUNCH, LAUNCH_SPEC, SNAPSHOT, Api


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
        # The log may have had a word of its own in between.
        self.assertLessEqual(abs(lines[0]["seq"] - snap["event"]), 3)

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
        t.join(60)
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
            t.join(60)
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
        t.join(60)
        r.join(60)
        self.get("/v1/sandboxes/work", 404)
        self.assertEqual(self.names(), ["before"])


class Forks(Case):
    """All of them or none."""

    def setUp(self):
        super().setUp()
        self.box = self.a.create(name="work", labels={"a": "b", "c": "d"},
                                 timeout=3600, env={"X": "y"})

    def fork(self, ref="work", status=201, **body):
        j = self.post(f"/v1/sandboxes/{ref}/fork", body, status)
        return j["sandboxes"] if status == 201 else j

    def only(self, *boxes):
        """These live, and no snapshot that nobody needs."""
        harness.wait_for("the others are gone",
                         lambda: set(self.w.boxes) == set(boxes))
        # The api hears of it a moment later.
        harness.wait_for("the api knows of no others",
                         lambda: set(self.a.ids()) == set(boxes))

    def test_what_they_are(self):
        many = self.fork(count=3, name="try", labels={"a": None, "e": "f"},
                         spec={"memory": "64M", "timeout": 0})
        self.assertEqual([x["name"] for x in many], ["try-1", "try-2", "try-3"])
        for x in many:
            self.assertEqual(x["labels"], {"c": "d", "e": "f"})
            self.assertEqual((x["spec"]["memory"], x["spec"]["env"],
                              x["expires_at"]), (64 << 20, {"X": "y"}, None))
        # One snapshot was the start of all of them, and nobody sees it.
        starts = {self.w.boxes[x["id"]].source for x in many}
        self.assertEqual(starts, set(self.w.snapshots))
        self.assertEqual(len(starts), 1)
        self.assertEqual(self.names(), [])
        self.assertEqual(self.fork(name="one")[0]["name"], "one")
        self.assertIsNone(self.fork()[0]["name"])
        self.restart()
        self.assertEqual(len(self.a.ids()), 6)
        self.assertEqual(len(self.w.snapshots), 3)
        for x in self.a.ids():
            self.a.rm(x)
        harness.wait_for("all snapshots are gone",
                         lambda: not self.w.snapshots)

    def test_what_is_refused(self):
        self.fork(status=400, count=0)
        self.fork(status=400, count=101)
        self.fork(status=400, count="2")
        self.fork(status=400, other=1)
        self.fork(status=400, name="Nein")
        self.fork(status=400, name="x" * 62, count=10)
        self.fork(status=400, spec={"image": "img"})
        self.fork(status=400, spec={"memory": 1})
        self.fork(status=409, name="work")
        self.fork(status=429, count=50)
        self.fork(status=404, ref="nobody")
        self.assertEqual(self.w.snapshots, {})
        self.only(self.box)

    def test_one_fails(self):
        """The third one cannot be launched: there are none."""
        launch, tries = self.w.launch, []

        def third_fails(box_id, spec):
            tries.append(box_id)
            return 28 if len(tries) == 3 else launch(box_id, spec)
        self.w.launch = third_fails
        self.assertIn("of 5", self.fork(status=507, count=5)["message"])
        self.only(self.box)
        harness.wait_for("its snapshot is gone", lambda: not self.w.snapshots)

    def test_killed_on_the_way(self):
        self.w.silent.add(LAUNCH)

        def ask():
            try:
                self.a.api("POST", "/v1/sandboxes/work/fork", {"count": 2})
            except OSError:
                pass
        t = threading.Thread(target=ask, daemon=True)
        self.w.seen.clear()
        t.start()
        harness.wait_for("both are asked for", lambda: 2 == sum(
            op == LAUNCH for op, _ in self.w.seen))
        self.a.kill()
        t.join(60)
        self.w.silent.clear()
        self.a.start()
        self.only(self.box)
        harness.wait_for("its snapshot is gone", lambda: not self.w.snapshots)

    def test_of_a_snapshot_that_is_removed(self):
        snap = self.snapshot(self.box, "base")["id"]
        one = self.post("/v1/sandboxes", {"snapshot": "base", "name": "a"}, 201)
        self.assertEqual(one["spec"]["env"], {"X": "y"})
        self.assertEqual(self.w.boxes[one["id"]].source, snap)
        self.post("/v1/sandboxes", {"snapshot": "base", "image": "img"}, 400)
        self.post("/v1/sandboxes", {"snapshot": "none"}, 404)
        self.delete("/v1/snapshots/base")
        self.assertEqual(self.names(), [])
        self.restart()
        self.assertEqual(list(self.w.snapshots), [snap])
        # Its name is free for another one.
        self.snapshot(self.box, "base")
        self.a.rm(one["id"])
        harness.wait_for("it is gone", lambda: snap not in self.w.snapshots)

    def test_generations_leave_no_chain(self):
        """Fork, go on with the fork, forget the original: again and again."""
        box = self.box
        for _ in range(5):
            box, old = self.fork(box)[0]["id"], box
            self.a.rm(old)
        harness.wait_for("only the last one is needed",
                         lambda: len(self.w.snapshots) == 1)
        for n in range(5):
            self.snapshot(box, f"s{n}")
            self.post(f"/v1/sandboxes/{box}/rollback", {"snapshot": f"s{n}"})
            if n:
                self.delete(f"/v1/snapshots/s{n - 1}")
        self.delete("/v1/snapshots/s4")
        harness.wait_for("only the last one is needed",
                         lambda: len(self.w.snapshots) == 1)
        self.restart()
        self.assertEqual(len(self.w.snapshots), 1)
        self.a.rm(box)
        harness.wait_for("nothing is left", lambda: not self.w.snapshots)

    def test_a_snapshot_of_one_that_is_not_told_yet(self):
        """A fork that is given up: what was taken of a child of it still
        knows where that one started, also after a restart."""
        launches = itertools.count()

        class AllButOne:
            def __contains__(self, op):
                return op == LAUNCH and next(launches) > 0
        self.w.silent = AllButOne()
        c = harness.UnixHTTP(self.a.sock, 60)
        c.request("POST", "/v1/sandboxes/work/fork", '{"count": 2}',
                  {"Content-Type": "application/json"})
        child, = harness.wait_for("one runs", lambda: [
            b for b in self.w.boxes.keys() - {self.box} if self.a.api(
                "GET", f"/v1/sandboxes/{b}").json.get("state") == "running"])
        snap = self.snapshot(child, "s")["id"]
        start, = self.w.snapshots.keys() - {snap}
        c.close()
        harness.wait_for("it is given up", lambda: child not in self.w.boxes)
        self.w.silent = set()
        self.restart()
        self.assertEqual(self.names(), ["s"])
        self.assertEqual(self.w.snapshots.keys(), {start, snap})
        self.a.kill()
        with sqlite3.connect(f"{self.a.state_dir}/registry/registry.db") as db:
            rows = db.execute("SELECT base FROM snapshots WHERE id = ?", (
                snap,)).fetchall()
        db.close()
        self.a.start()
        self.assertEqual(rows, [(start,)])

    def test_tree(self):
        snap = self.snapshot("work", "base")["id"]
        a, b = self.fork(count=2, name="a")
        c = self.fork("base", name="c")[0]
        self.post("/v1/sandboxes/work/rollback", {"snapshot": "base"})
        other = self.a.create()
        nodes = self.get("/v1/sandboxes/c/tree")["nodes"]
        self.assertEqual({n["id"]: n["parent"] for n in nodes[1:]},
                         {self.box: nodes[0]["id"], snap: self.box,
                          a["id"]: self.box, b["id"]: self.box, c["id"]: snap})
        self.assertEqual((nodes[0]["type"], nodes[0]["name"]),
                         ("image", "img"))
        self.assertNotIn(other, [n["id"] for n in nodes])
        # Brothers stay brothers when their parent is gone.
        self.a.rm("work")
        nodes = self.get("/v1/sandboxes/a-1/tree")["nodes"]
        up = {n["id"]: n["parent"] for n in nodes}
        self.assertEqual(up[a["id"]], up[b["id"]])
        self.get("/v1/sandboxes/base/tree")
        self.get("/v1/sandboxes/nobody/tree", 404)


class Suspend(Case):
    """Processes end, the disk stays."""

    def setUp(self):
        super().setUp()
        self.box = self.a.create(name="work", timeout=3600)

    def show(self):
        return self.get("/v1/sandboxes/work")

    def suspend(self, status=200):
        return self.post("/v1/sandboxes/work/pause", {"disk_only": True},
                         status)

    def resume(self, status=200):
        return self.post("/v1/sandboxes/work/resume", {}, status)

    def reboot(self):
        """The host was restarted: no process is left."""
        self.a.kill()
        while self.w.boxes:
            self.w.boxes.popitem()[1].end()
        with sqlite3.connect(f"{self.a.state_dir}/registry/registry.db") as db:
            db.execute("UPDATE sandboxes SET boot_id = 'other'")
        db.close()
        self.a.start()

    def test_there_and_back(self):
        self.assertEqual(self.suspend()["state"], "suspended")
        self.assertEqual(self.w.boxes, {})
        disk, = self.w.snapshots
        self.assertEqual(self.names(), [])      # nobody's business
        self.get(f"/v1/snapshots/{disk}", 404)
        before = self.show()
        self.restart()
        self.assertEqual(self.show(), before)
        self.assertEqual(self.suspend()["state"], "suspended")  # it is so
        self.assertEqual(self.resume()["state"], "running")
        self.assertEqual(self.w.boxes[self.box].source, disk)
        harness.wait_for("its disk is its own", lambda: not self.w.snapshots)
        self.restart()
        self.assertEqual(self.show()["state"], "running")

    def test_counts_for_nothing(self):
        a = Api(max_sandboxes=1)
        self.addCleanup(a.stop)
        one = a.create()
        self.assertEqual(a.api("POST", "/v1/sandboxes", {}).status, 429)
        a.api("POST", f"/v1/sandboxes/{one}/pause", {"disk_only": True})
        two = a.create()
        r = a.api("POST", f"/v1/sandboxes/{one}/resume", {})
        self.assertEqual(r.status, 429, r)
        a.rm(two)
        r = a.api("POST", f"/v1/sandboxes/{one}/resume", {})
        self.assertEqual(r.status, 200, r)

    def test_removed(self):
        self.suspend()
        self.a.rm("work")
        self.get("/v1/sandboxes/work", 404)
        harness.wait_for("its disk is gone", lambda: not self.w.snapshots)

    def test_over_a_reboot(self):
        other = self.a.create(name="other")
        self.suspend()
        before = self.show()
        self.reboot()
        self.assertEqual(self.get(f"/v1/sandboxes/{other}")["state"], "ended")
        after = self.show()
        self.assertEqual((after["state"], after["expires_at"]),
                         ("suspended", before["expires_at"]))
        self.assertEqual(self.resume()["state"], "running")

    def test_disk_is_lost(self):
        self.suspend()
        self.w.snapshots.clear()
        self.restart()
        j = self.get(f"/v1/sandboxes/{self.box}")
        self.assertIn("disk", j["ended"]["reason"])

    def test_time_goes_on(self):
        self.suspend()
        r = self.a.api("PATCH", "/v1/sandboxes/work", {"timeout": 1})
        self.assertEqual(r.status, 200, r)
        harness.wait_for("its time is over", lambda: not self.a.ids())
        harness.wait_for("its disk is gone", lambda: not self.w.snapshots)

    def test_its_disk_becomes_a_snapshot(self):
        self.suspend()
        disk, = self.w.snapshots
        self.assertEqual(self.snapshot("work", "slept")["id"], disk)
        self.snapshot("work", "again", 409)
        self.assertEqual(self.names(), ["slept"])
        self.resume()
        self.restart()
        self.assertEqual(list(self.w.snapshots), [disk])
        self.post("/v1/sandboxes/work/rollback", {"snapshot": "slept"})
        self.assertEqual(self.show()["base"], disk)

    def test_changed_while_it_sleeps(self):
        self.suspend()
        r = self.a.api("PATCH", "/v1/sandboxes/work", {"memory": "100M"})
        self.assertEqual(r.status, 200, r)
        self.resume()
        spec = struct.unpack(LAUNCH_SPEC, self.w.boxes[self.box].spec)
        self.assertEqual(spec[8], 100 << 20)

    def test_kill_switch(self):
        self.suspend()
        self.delete("/v1/sandboxes?all=true", 200)
        self.assertEqual(self.a.ids(), [])
        harness.wait_for("its disk is gone", lambda: not self.w.snapshots)

    def test_fork_of_a_suspended_one(self):
        self.suspend()
        disk, = self.w.snapshots
        j = self.post("/v1/sandboxes/work/fork", {"name": "f"}, 201)
        fork = j["sandboxes"][0]["id"]
        self.assertEqual(self.w.boxes[fork].source, disk)
        self.resume()
        self.assertEqual(list(self.w.snapshots), [disk])    # the fork's base
        self.a.rm(fork)
        harness.wait_for("nobody needs it", lambda: not self.w.snapshots)

    def stop_at(self, op, path, body):
        self.w.silent.add(op)

        def ask():
            try:
                self.a.api("POST", f"/v1/sandboxes/work/{path}", body)
            except OSError:
                pass
        t = threading.Thread(target=ask, daemon=True)
        self.w.seen.clear()
        t.start()
        harness.wait_for("it is asked",
                         lambda: (op, self.box) in self.w.seen)
        self.a.kill()
        self.w.silent.clear()
        t.join(60)
        self.a.start()

    def test_killed_at_the_snapshot(self):
        self.stop_at(SNAPSHOT, "pause", {"disk_only": True})
        self.assertEqual(self.show()["state"], "running")
        self.assertEqual(self.w.snapshots, {})

    def test_killed_at_the_kill(self):
        self.stop_at(KILL, "pause", {"disk_only": True})
        self.assertEqual(self.show()["state"], "suspended")
        harness.wait_for("it ended", lambda: not self.w.boxes)
        self.assertEqual(self.resume()["state"], "running")

    def test_killed_at_the_launch(self):
        self.suspend()
        self.stop_at(LAUNCH, "resume", {})
        self.assertEqual(self.show()["state"], "suspended")
        self.assertEqual(len(self.w.snapshots), 1)
        self.assertEqual(self.resume()["state"], "running")

    def test_launch_fails_at_the_resume(self):
        self.w.refuse[LAUNCH] = (28, "no room")
        self.suspend()
        self.resume(507)
        self.assertEqual(self.show()["state"], "suspended")
        del self.w.refuse[LAUNCH]
        self.assertEqual(self.resume()["state"], "running")

    def persistent(self):
        self.a.rm("work")
        self.box = self.a.create(name="work", persist=True)

    def test_persistent_ends_by_itself(self):
        self.persistent()
        for _ in range(2):
            self.w.snapshots[self.box] = self.box
            self.w.notice_ended(self.box)
            harness.wait_for("it is a disk",
                             lambda: self.show()["state"] == "suspended")
            self.restart()
            self.assertEqual(self.resume()["state"], "running")
            self.assertEqual(self.w.boxes[self.box].source, self.box)
            harness.wait_for("its disk is its own",
                             lambda: not self.w.snapshots)
        self.a.rm("work")
        self.assertEqual(self.a.ids(), [])

    def test_persistent_over_a_reboot(self):
        self.persistent()
        self.w.snapshots[self.box] = self.box
        self.reboot()
        self.assertEqual(self.show()["state"], "suspended")
        j = self.post("/v1/sandboxes/work/fork", {}, 201)
        self.assertEqual(self.resume()["state"], "running")
        harness.wait_for("its disk is its own", lambda: not self.w.snapshots)
        self.a.rm(j["sandboxes"][0]["id"])

    def test_persistent_whose_disk_is_gone(self):
        self.persistent()
        self.reboot()
        self.assertEqual(self.get(f"/v1/sandboxes/{self.box}")["state"],
                         "ended")


if __name__ == "__main__":
    harness.main()
