"""Pause and resume, requests that wake a paused sandbox, and idle ones."""

import json
import socket
import threading

import fake_warden
import harness
from fake_warden import PAUSE, RESUME, Api
from harness import SLOW, wait_for

EIO = 5


def later(fn):
    """Runs it in a thread; join() gives what it returned."""
    class Later(threading.Thread):
        def run(self):
            self.value = fn()

        def get(self, timeout=20 * SLOW):
            self.join(timeout)
            return self.value
    t = Later(daemon=True)
    t.start()
    return t


class Asking:
    """What both kinds of instances can be asked."""

    def state(self, box):
        return self.i.api("GET", f"/v1/sandboxes/{box}").json["state"]

    def pause(self, box, status=200):
        r = self.i.api("POST", f"/v1/sandboxes/{box}/pause")
        self.assertEqual(r.status, status, r)
        return r.json

    def resume(self, box, status=200):
        r = self.i.api("POST", f"/v1/sandboxes/{box}/resume")
        self.assertEqual(r.status, status, r)
        return r.json

    def entries(self, box, kind):
        r = self.i.api("GET", f"/v1/sandboxes/{box}/log?type={kind}")
        return [json.loads(line) for line in r.body.splitlines()]

    def run_in(self, box, *argv):
        return self.i.api("POST", f"/v1/sandboxes/{box}/run",
                          json.dumps({"argv": argv}))

    def metric(self, name):
        for line in self.i.api("GET", "/metrics").body.decode().splitlines():
            if line.startswith(f"carrel_{name} "):
                return int(line.split()[1])


class WithoutWarden(Asking, harness.unittest.TestCase):
    """The api alone: the warden is ours, and as slow or broken as we like."""

    def setUp(self):
        self.i = Api()
        self.addCleanup(self.i.stop)
        self.warden = self.i.warden
        self.box = self.i.create()

    def asked(self, op):
        return sum(1 for seen, _ in self.warden.seen if seen == op)

    def test_pause_and_resume(self):
        j = self.pause(self.box)
        self.assertEqual(j["state"], "paused")
        self.assertEqual(j["paused"]["memory_at_pause"], 2)
        self.assertTrue(j["paused"]["since"])
        self.assertEqual(self.pause(self.box)["state"], "paused")
        self.assertEqual(self.asked(PAUSE), 1, "it was so already")
        self.assertEqual(self.metric("paused"), 1)
        r = self.i.api("GET", "/v1/sandboxes?state=paused")
        self.assertEqual([b["id"] for b in r.json["sandboxes"]], [self.box])
        j = self.resume(self.box)
        self.assertEqual((j["state"], "paused" in j), ("running", False))
        self.assertEqual(self.resume(self.box)["state"], "running")
        self.assertEqual(self.asked(RESUME), 1)
        self.assertEqual((self.metric("paused"), self.metric("wakes_total")),
                         (0, 1))
        for kind in ("sandbox.pause", "sandbox.resume"):
            entry, = wait_for("the log has it",
                              lambda: self.entries(self.box, kind))
            self.assertEqual(entry["data"]["reason"], "asked")

    def test_bad_requests(self):
        for path, body in (("pause", "[]"), ("pause", '{"disk": 1}'),
                           ("pause", '{"disk_only": 1}'), ("resume", '{"x":1}')):
            r = self.i.api("POST", f"/v1/sandboxes/{self.box}/{path}", body)
            self.assertEqual(r.status, 400, r)
        r = self.i.api("POST", "/v1/sandboxes/nobody/pause")
        self.assertEqual(r.status, 404)
        self.assertEqual(self.asked(PAUSE), 0)

    def test_who_looks_does_not_wake(self):
        self.pause(self.box)
        for path in ("", "/stats", "/log", "/recordings"):
            r = self.i.api("GET", f"/v1/sandboxes/{self.box}{path}")
            self.assertEqual(r.status, 200, r)
        self.i.api("GET", "/v1/stats")
        self.assertEqual(self.i.api("PATCH", f"/v1/sandboxes/{self.box}",
                                    '{"labels": {"a": "b"}}').status, 200)
        self.assertEqual(self.state(self.box), "paused")
        self.assertEqual(self.asked(RESUME), 0)

    def test_many_share_one_wake(self):
        self.pause(self.box)
        self.warden.silent.add(RESUME)
        runs = [later(lambda: self.run_in(self.box, "echo", "hi"))
                for _ in range(5)]
        wait_for("they wait", lambda: self.metric("held_requests") == 5)
        self.assertEqual(self.state(self.box), "paused")
        # The warden comes back and hears of it again.
        self.warden.silent.clear()
        self.warden.crash()
        self.warden.listen()
        for r in runs:
            self.assertEqual((r.get().status, r.get().json["stdout"]),
                             (200, "hi"))
        self.assertEqual(self.state(self.box), "running")
        self.assertEqual(self.metric("wakes_total"), 1)
        reason, = [e["data"]["reason"] for e in wait_for(
            "the log has it", lambda: self.entries(self.box, "sandbox.resume"))]
        self.assertEqual(reason, "request")

    def test_frames_wake_it(self):
        w = self.i.exec_wire(self.box)
        self.pause(self.box)
        w.spawn(["echo", "first"])
        self.assertEqual(w.finish()[:2], (0, b"first"))
        wait_for("it runs", lambda: self.state(self.box) == "running")
        self.pause(self.box)
        again = self.i.exec_wire(self.box)
        self.assertEqual(self.state(self.box), "running")
        again.spawn(["echo", "second"])
        self.assertEqual(again.finish()[:2], (0, b"second"))

    def test_a_wake_that_fails(self):
        self.pause(self.box)
        self.warden.refuse[RESUME] = (EIO, "the freezer is stuck")
        r = self.run_in(self.box, "echo", "hi")
        self.assertEqual(r.status, 503, r)
        self.assertIn("the freezer is stuck", r.json["message"])
        self.assertEqual(self.state(self.box), "paused")
        self.warden.refuse.clear()
        self.assertEqual(self.run_in(self.box, "echo", "hi").status, 200)

    def test_a_pause_that_fails(self):
        self.warden.refuse[PAUSE] = (EIO, "no freezer")
        self.assertIn("no freezer", self.pause(self.box, 500)["message"])
        self.assertEqual(self.state(self.box), "running")
        self.assertEqual(self.run_in(self.box, "echo", "hi").status, 200)

    def test_resume_behind_a_pause(self):
        """Whoever comes while it is being paused waits, and wakes it."""
        self.warden.silent.add(PAUSE)
        first = later(lambda: self.pause(self.box))
        wait_for("the pause", lambda: self.asked(PAUSE))
        run = later(lambda: self.run_in(self.box, "echo", "hi"))
        wait_for("it waits", lambda: self.metric("held_requests") == 1)
        self.warden.silent.clear()
        self.warden.crash()
        self.warden.listen()
        self.assertEqual(first.get()["state"], "paused")
        self.assertEqual(run.get().status, 200)
        self.assertEqual(self.state(self.box), "running")

    def test_removed_while_requests_wait(self):
        self.pause(self.box)
        self.warden.silent.add(RESUME)
        runs = [later(lambda: self.run_in(self.box, "true")) for _ in range(3)]
        wait_for("they wait", lambda: self.metric("held_requests") == 3)
        self.i.rm(self.box)
        for r in runs:
            self.assertEqual((r.get().status, r.get().json["error"]),
                             (410, "ended"))

    def test_clients_that_leave(self):
        self.pause(self.box)
        self.warden.silent.add(RESUME)
        held = []
        for _ in range(20):
            s = socket.socket(socket.AF_UNIX)
            s.connect(self.i.sock)
            s.sendall(f"POST /v1/sandboxes/{self.box}/run HTTP/1.1\r\n"
                      "Host: localhost\r\nContent-Length: 100\r\n\r\n{"
                      .encode())
            held.append(s)
        wait_for("they wait", lambda: self.metric("held_requests") == 20)
        for s in held:
            s.close()
        wait_for("they are forgotten", lambda: not self.metric("held_requests"))
        wait_for("one wake", lambda: self.asked(RESUME) == 1)
        self.i.rm(self.box)

    def test_the_daemon_restarts(self):
        self.pause(self.box)
        self.i.kill()
        self.i.start()
        j = self.i.api("GET", f"/v1/sandboxes/{self.box}").json
        self.assertEqual((j["state"], j["paused"]["since"]), ("paused", None))
        self.assertEqual(self.run_in(self.box, "echo", "hi").status, 200)
        self.assertEqual(self.state(self.box), "running")

    def test_the_warden_says_what_is(self):
        self.pause(self.box)
        self.warden.boxes[self.box].paused = False
        self.warden.crash()
        self.warden.listen()
        wait_for("it runs", lambda: self.state(self.box) == "running")
        self.warden.boxes[self.box].paused = True
        self.warden.crash()
        self.warden.listen()
        wait_for("it is paused", lambda: self.state(self.box) == "paused")

    def test_idle(self):
        box = self.i.create(**{"idle-timeout": 1, "idle-action": "pause"})
        wait_for("it is paused", lambda: self.state(box) == "paused", 10 * SLOW)
        reason, = [e["data"]["reason"] for e in wait_for(
            "the log has it", lambda: self.entries(box, "sandbox.pause"))]
        self.assertEqual(reason, "idle")
        self.assertEqual(self.run_in(box, "echo", "hi").status, 200)
        self.assertEqual(self.state(box), "running")
        wait_for("it is paused again", lambda: self.state(box) == "paused",
                 10 * SLOW)

    def test_a_timeout_goes_on(self):
        box = self.i.create(timeout=1)
        self.pause(box)
        wait_for("its end", lambda: self.state(box) == "ended", 10 * SLOW)


class Suspended(Asking, harness.unittest.TestCase):
    """Only a disk: its next use starts it again."""

    def setUp(self):
        self.i = Api()
        self.addCleanup(self.i.stop)
        self.warden = self.i.warden
        self.box = self.i.create(name="work")

    def suspend(self, status=200):
        r = self.i.api("POST", f"/v1/sandboxes/{self.box}/pause",
                       '{"disk_only": true}')
        self.assertEqual(r.status, status, r)
        return r.json

    def launches(self):
        return sum(1 for op, _ in self.warden.seen if op == fake_warden.LAUNCH)

    def test_suspend_and_resume(self):
        self.assertEqual(self.suspend()["state"], "suspended")
        self.assertNotIn(self.box, self.warden.boxes)
        self.assertEqual(self.suspend()["state"], "suspended", "it was so")
        self.assertEqual(self.pause(self.box)["state"], "suspended")
        self.assertEqual((self.metric("suspended"), self.metric("paused")),
                         (1, 0))
        j = self.resume(self.box)
        self.assertEqual((j["state"], j["name"]), ("running", "work"))
        self.assertEqual((self.metric("suspended"),
                          self.metric("wakes_total")), (0, 1))
        for kind in ("sandbox.suspend", "sandbox.resume"):
            entry, = wait_for("the log has it",
                              lambda: self.entries(self.box, kind))
            self.assertEqual(entry["data"]["reason"], "asked")

    def test_many_share_one_start(self):
        self.suspend()
        before = self.launches()
        runs = [later(lambda: self.run_in("work", "echo", "hi"))
                for _ in range(5)]
        for r in runs:
            self.assertEqual((r.get().status, r.get().json["stdout"]),
                             (200, "hi"))
        self.assertEqual(self.launches(), before + 1)

    def test_one_that_is_paused(self):
        self.pause(self.box)
        self.assertEqual(self.suspend()["state"], "suspended")
        self.assertEqual(self.run_in(self.box, "echo", "hi").status, 200)

    def test_a_start_that_fails(self):
        self.suspend()
        self.warden.refuse[fake_warden.LAUNCH] = (EIO, "no more room")
        r = self.run_in(self.box, "echo", "hi")
        self.assertEqual(r.status, 503, r)
        self.assertIn("no more room", r.json["message"])
        self.assertEqual(self.state(self.box), "suspended")
        self.warden.refuse.clear()
        self.assertEqual(self.run_in(self.box, "echo", "hi").status, 200)

    def test_used_while_it_is_suspended(self):
        """Who comes in the middle waits, and starts it again."""
        self.warden.silent.add(fake_warden.KILL)
        first = later(self.suspend)
        wait_for("the kill", lambda: (fake_warden.KILL, self.box)
                 in self.warden.seen)
        run = later(lambda: self.run_in(self.box, "echo", "hi"))
        wait_for("it waits", lambda: self.metric("held_requests") == 1)
        self.warden.silent.clear()
        self.warden.crash()
        self.warden.listen()
        self.assertEqual(first.get()["state"], "suspended")
        self.assertEqual(run.get().status, 200)
        self.assertEqual(self.state(self.box), "running")

    def test_removed_while_requests_wait(self):
        self.suspend()
        self.warden.silent.add(fake_warden.LAUNCH)
        run = later(lambda: self.run_in(self.box, "echo", "hi"))
        wait_for("it waits", lambda: self.metric("held_requests") == 1)
        gone = later(lambda: self.i.rm(self.box))
        wait_for("it is being removed",
                 lambda: self.state(self.box) == "removing")
        self.warden.silent.clear()
        self.warden.crash()
        self.warden.listen()
        gone.get()
        self.assertEqual(run.get().status, 410, run.get())

    def test_the_daemon_restarts(self):
        self.suspend()
        self.i.kill()
        self.i.start()
        self.assertEqual(self.state(self.box), "suspended")
        self.assertEqual(self.run_in(self.box, "echo", "hi").status, 200)


class AutoSnapshot(Asking, harness.unittest.TestCase):
    """A snapshot before each command, and only the newest ones."""

    def setUp(self):
        self.i = Api()
        self.addCleanup(self.i.stop)
        self.warden = self.i.warden
        self.box = self.i.create(**{"auto-snapshot": "exec", "snapshot-keep": 3})

    def snapshots(self):
        r = self.i.api("GET", f"/v1/snapshots?sandbox={self.box}")
        return r.json["snapshots"]

    def ways(self):
        """Every way to start something."""
        def frames():
            w = self.i.exec_wire(self.box)
            w.spawn(["echo", "a"])
            code, out, _ = w.finish()
            return (200 if code == 0 else 500), out.decode()

        def run():
            r = self.run_in(self.box, "echo", "a")
            return r.status, r.json.get("stdout", r.json.get("message"))

        def start():
            r = self.i.api("POST", f"/v1/sandboxes/{self.box}/processes",
                           '{"argv": ["echo", "a"]}')
            return (200 if r.status == 201 else r.status), \
                ("a" if r.status == 201 else r.json["message"])
        return frames, run, start

    def test_before_each_command(self):
        seen = []
        for n, way in enumerate(self.ways(), 1):
            self.assertEqual(way(), (200, "a"))
            new = [s for s in self.snapshots() if s["id"] not in seen]
            self.assertEqual([(s["kind"], s["name"]) for s in new],
                             [("auto", None)])
            seen.append(new[0]["id"])
        # Nothing is started here.
        w = self.i.exec_wire(self.box)
        w.close()
        self.i.api("GET", f"/v1/sandboxes/{self.box}/processes/7/wait?timeout=0")
        self.assertEqual([s["id"] for s in self.snapshots()], seen)
        self.assertEqual(self.run_in(self.box, "echo", "a").status, 200)
        left = [s["id"] for s in self.snapshots()]
        self.assertEqual((left[:2], len(left)), (seen[1:], 3), "the oldest went")
        events = [s["event"] for s in self.snapshots()]
        self.assertEqual(events, sorted(events))

    def test_named_ones_stay(self):
        r = self.i.api("POST", f"/v1/sandboxes/{self.box}/snapshots",
                       '{"name": "mine"}')
        self.assertEqual(r.status, 201, r)
        for _ in range(5):
            self.assertEqual(self.run_in(self.box, "echo", "a").status, 200)
        self.assertEqual([s["name"] for s in self.snapshots()],
                         ["mine", None, None, None])
        self.assertEqual(self.i.api("PATCH", f"/v1/sandboxes/{self.box}",
                                    '{"auto-snapshot": "none"}').status, 200)
        before = self.snapshots()
        self.assertEqual(self.run_in(self.box, "echo", "a").status, 200)
        self.assertEqual(self.snapshots(), before)

    def test_no_command_without_one(self):
        self.warden.refuse[fake_warden.SNAPSHOT] = (28, "the disk is full")
        frames, run, start = self.ways()
        for way in (run, start):
            status, text = way()
            self.assertEqual(status, 507)
            self.assertIn("no snapshot before the command: the disk is full",
                          text)
        with self.assertRaises(harness.WireError) as failed:
            frames()
        self.assertIn("the disk is full", str(failed.exception))
        self.assertEqual(self.snapshots(), [])
        self.warden.refuse.clear()
        self.assertEqual(frames(), (200, "a"))

    def test_several_on_one_connection(self):
        w = self.i.exec_wire(self.box)
        for channel in (1, 2, 3):
            w.spawn(["echo", str(channel)], channel=channel)
        got = [w.finish(channel)[1] for channel in (1, 2, 3)]
        self.assertEqual(got, [b"1", b"2", b"3"])
        self.assertEqual(len(self.snapshots()), 3)

    def test_one_that_leaves(self):
        self.warden.silent.add(fake_warden.SNAPSHOT)
        w = self.i.exec_wire(self.box)
        w.spawn(["echo", "a"])
        run = socket.socket(socket.AF_UNIX)
        run.connect(self.i.sock)
        run.sendall(f"POST /v1/sandboxes/{self.box}/run HTTP/1.1\r\n"
                    "Host: localhost\r\nContent-Length: 20\r\n\r\n"
                    .encode())
        wait_for("it waits", lambda: self.metric("held_requests") == 1)
        run.close()
        w.close()
        wait_for("it is forgotten", lambda: not self.metric("held_requests"))
        self.i.rm(self.box)

    def test_a_paused_one(self):
        self.pause(self.box)
        self.assertEqual(self.run_in(self.box, "echo", "a").status, 200)
        self.assertEqual(len(self.snapshots()), 1)
        w = self.i.exec_wire(self.box)
        self.pause(self.box)
        w.spawn(["echo", "a"])
        self.assertEqual(w.finish()[:2], (0, b"a"))
        self.assertEqual(len(self.snapshots()), 2)


class ProjectDisk(Asking, harness.unittest.TestCase):
    """A project that has all the disk it may have."""

    def setUp(self):
        self.i = Api(project_disk="10K")
        self.addCleanup(self.i.stop)
        self.box = self.i.create()

    def refused(self, method, path, body=None):
        r = self.i.api(method, path, body)
        self.assertEqual((r.status, r.json["error"]), (507, "project_full"), r)
        self.assertIn("project_disk", r.json["message"])

    def used(self):
        return {p["name"]: p["disk_bytes"] for p in
                self.i.api("GET", "/v1/projects").json["projects"]}["default"]

    def test_limit(self):
        snapshots = f"/v1/sandboxes/{self.box}/snapshots"
        self.assertEqual(self.used(), 0)
        self.assertEqual(self.i.api("POST", snapshots, "{}").status, 201)
        # The snapshot is in what its sandbox has; now it is all that is left.
        self.i.rm(self.box)
        self.assertEqual(self.used(), 4096)
        self.assertEqual(self.i.api("PUT", "/v1/drive/files/a",
                                    b"x" * 8000).status, 200)
        self.assertEqual(self.used(), 12096)
        self.refused("POST", "/v1/sandboxes", "{}")
        self.refused("PUT", "/v1/drive/files/b", b"y")
        self.assertEqual(self.i.api("DELETE", "/v1/drive/files/a?purge=true")
                         .status, 204)
        self.box = self.i.create()
        self.assertEqual(self.i.api("PUT", "/v1/drive/files/c",
                                    b"z" * 8000).status, 200)
        self.refused("POST", f"/v1/sandboxes/{self.box}/snapshots", "{}")


if __name__ == "__main__":
    harness.main()
