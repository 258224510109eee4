# suite: slow
"""Pause and resume, requests that wake a paused sandbox, and idle ones."""

import contextlib
import functools
import glob
import json
import os
import random
import re
import signal
import socket
import struct
import threading
import time
import unittest

import fake_warden
import harness
import websocket
from fake_warden import PAUSE, RESUME, SNAPSHOT, Api
from harness import SLOW, wait_for

EIO = 5
STORM = float(os.environ.get("PAUSE_STORM", "3"))  # seconds


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

    def test_read_key_does_not_resume_a_paused_sandbox(self):
        key = self.i.api("POST", "/v1/keys", {"scope": "read"}).json["key"]
        auth = {"Authorization": f"Bearer {key}"}
        self.pause(self.box)
        for what in ("files/stat?path=/", "files/content?path=/etc/passwd",
                     "files/list?path=/"):
            r = self.i.api("GET", f"/v1/sandboxes/{self.box}/{what}",
                           headers=auth)
            self.assertEqual((r.status, r.json["error"]), (409, "busy"), r)
            self.assertIn("resume", r.json["message"])
        self.assertEqual(self.state(self.box), "paused")
        self.assertEqual(self.asked(RESUME), 0)

    def give_freezer(self):
        path = f"{self.i.dir}/freezer"
        with open(path, "w"):
            self.warden.freezer = path

    def test_thaws_without_the_warden(self):
        """What came with the pause is written to; the warden is told, and
        before anything else is asked of it."""
        self.give_freezer()
        self.warden.silent.add(RESUME)
        self.pause(self.box)
        self.assertEqual(harness.read(self.warden.freezer), "")
        self.assertEqual(self.resume(self.box)["state"], "running")
        self.assertEqual(harness.read(self.warden.freezer), "0")
        self.assertEqual(self.pause(self.box)["state"], "paused")
        self.assertEqual([op for op, _ in self.warden.seen if op in (
            PAUSE, RESUME)], [PAUSE, RESUME, PAUSE])
        self.assertEqual(self.metric("wakes_total"), 1)

    def test_thaws_not_under_a_snapshot(self):
        """What is under way at the warden may rely on the pause."""
        self.give_freezer()
        self.pause(self.box)
        self.warden.silent.add(SNAPSHOT)
        snapshot = later(lambda: self.i.api(
            "POST", f"/v1/sandboxes/{self.box}/snapshots", '{"name": "s"}'))
        wait_for("the warden is asked", lambda: self.asked(SNAPSHOT))
        self.assertEqual(self.resume(self.box)["state"], "running")
        self.assertEqual(self.asked(RESUME), 1)
        self.assertEqual(harness.read(self.warden.freezer), "")
        self.warden.crash()
        self.warden.listen()
        self.assertNotEqual(snapshot.get().status, 201)

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

    def test_timeout(self):
        box = self.i.create(timeout=1, **{"timeout-action": "pause"})
        wait_for("it is paused", lambda: self.state(box) == "paused", 10 * SLOW)
        reason, = [e["data"]["reason"] for e in wait_for(
            "the log has it", lambda: self.entries(box, "sandbox.pause"))]
        self.assertEqual(reason, "timeout")
        shown = self.i.api("GET", f"/v1/sandboxes/{box}").json
        self.assertEqual(shown["expires_at"], None)
        self.resume(box)
        wait_for("its time counts anew", lambda: self.state(box) == "paused",
                 10 * SLOW)
        r = self.i.api("PATCH", f"/v1/sandboxes/{box}", json.dumps(
            {"timeout": 600}))
        self.assertEqual(r.json["expires_at"], None)
        self.resume(box)
        shown = self.i.api("GET", f"/v1/sandboxes/{box}").json
        self.assertNotEqual(shown["expires_at"], None)
        r = self.i.api("PATCH", f"/v1/sandboxes/{box}", json.dumps(
            {"timeout": 1, "timeout-action": "remove"}))
        self.assertEqual(r.status, 200, r)
        wait_for("its end", lambda: self.state(box) == "ended", 10 * SLOW)

    def test_timeout_over_a_restart(self):
        box = self.i.create(timeout=1, **{"timeout-action": "pause"})
        wait_for("it is paused", lambda: self.state(box) == "paused", 10 * SLOW)
        self.i.kill()
        self.i.start()
        j = self.i.api("GET", f"/v1/sandboxes/{box}").json
        self.assertEqual((j["state"], j["expires_at"]), ("paused", None))
        self.assertEqual(self.run_in(box, "echo", "hi").status, 200)
        j = self.i.api("GET", f"/v1/sandboxes/{box}").json
        self.assertNotEqual(j["expires_at"], None)
        bad = self.i.api("POST", "/v1/sandboxes", json.dumps(
            {"timeout-action": "explode"}))
        self.assertEqual(bad.status, 400, bad)

    def test_a_timeout_goes_on(self):
        box = self.i.create(timeout=4)
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

    def test_changed_meanwhile(self):
        self.suspend()
        r = self.i.api("PATCH", f"/v1/sandboxes/{self.box}",
                       '{"memory": "64M", "labels": {"a": "b"}}')
        self.assertEqual((r.status, r.json["state"]), (200, "suspended"), r)
        j = self.resume(self.box)
        self.assertEqual((j["spec"]["memory"], j["labels"]),
                         (64 << 20, {"a": "b"}))
        spec = struct.unpack(fake_warden.LAUNCH_SPEC,
                             self.warden.boxes[self.box].spec)
        self.assertEqual(spec[8], 64 << 20)

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


class Real(Asking, harness.Case):
    """The whole daemon."""

    CONF = {"domain": "localhost", "spares": 0}
    SERVER = ("mkdir -p /tmp/www; echo hello > /tmp/www/index.html; "
              "httpd -p 127.0.0.1:8080 -h /tmp/www")
    STILL_US = 20000  # what the kernel still writes to its account
    COUNT = "i=0; while :; do i=$((i+1)); echo $i; sleep 0.02; done"

    def start(self, box, command, tag):
        r = self.i.api("POST", f"/v1/sandboxes/{box}/processes", json.dumps(
            {"command": command, "tag": tag, "detach": True}))
        self.assertEqual(r.status, 201, r)

    def cpu(self, box):
        return self.i.api("GET", f"/v1/sandboxes/{box}").json["usage"]["cpu_us"]

    def serve(self):
        box = self.i.create()
        self.start(box, self.SERVER, "server")
        wait_for("the server", lambda: self.i.api(
            "GET", f"/v1/sandboxes/{box}/ports/8080/").status == 200, 20 * SLOW)
        return box

    @staticmethod
    def stop_helper(pid):
        """Stops a helper of the warden that waits for its dismissal. False for
        every other process, and for one that ended before it was stopped."""
        def state():
            return harness.read(f"/proc/{pid}/stat", "").rpartition(")")[2][1:2]
        with contextlib.suppress(OSError):
            status = harness.read(f"/proc/{pid}/status")
            # A sandbox' first process has a number in there as well.
            if "carrel-warden" not in status or \
                    len(re.search("NSpid:(.*)", status)[1].split()) > 1 or \
                    os.readlink(f"/proc/{pid}/ns/user") == \
                    os.readlink("/proc/self/ns/user") or \
                    harness.read(f"/proc/{pid}/syscall").split()[0] != "0":
                return False
            os.kill(int(pid), signal.SIGSTOP)
            wait_for("it stops or ends", lambda: state() in ("T", "Z", ""),
                     20 * SLOW)
            return state() == "T"
        return False

    def stopped_helper(self):
        """A sandbox, and a process of the warden's that helped to make it: it
        has nothing left to do, and was stopped before it could end."""
        warden = self.i.pids()["carrel-warden"][0]
        until = time.monotonic() + 60 * SLOW
        while time.monotonic() < until:
            box = later(self.i.create)
            while box.is_alive():
                for pid in harness.read(
                        f"/proc/{warden}/task/{warden}/children", "").split():
                    if self.stop_helper(pid):
                        return box.get(), int(pid)
            self.i.rm(box.get())
        self.fail("no helper was seen")

    @harness.container_only("a guest has a helper of its own")
    @unittest.skipIf(len(harness.cgroup_roots()) == 1,
                     "on v2 it ends before the sandbox is born")
    def test_nothing_of_the_launch_is_frozen_with_it(self):
        box, helper = self.stopped_helper()
        try:
            paused = later(lambda: self.pause(box))
            paused.join(0.5)
            self.assertTrue(paused.is_alive(), "paused with a helper in it")
        finally:
            os.kill(helper, signal.SIGCONT)
        self.assertTrue(paused.get()["paused"])
        self.assertFalse(os.path.exists(f"/proc/{helper}"))
        self.resume(box)
        self.i.rm(box)

    def test_everything_stands_still(self):
        box = self.i.create()
        self.start(box, "while :; do :; done", "busy")
        self.i.sh(box, "head -c 40000000 /dev/zero > /tmp/x; cat /tmp/x "
                  "> /dev/null; sync")
        had = self.pause(box)["paused"]["memory_at_pause"]
        before = self.cpu(box)
        self.assertGreater(had, 40000000)
        wait_for("what was read is dropped", lambda: self.i.api(
            "GET", f"/v1/sandboxes/{box}").json["usage"]["memory_bytes"]
            < had / 2, 20 * SLOW)
        time.sleep(0.2)
        self.assertLess(self.cpu(box), before + self.STILL_US, "it worked")
        self.assertEqual(self.state(box), "paused")
        self.resume(box)
        wait_for("it works again", lambda: self.cpu(box) > before, 20 * SLOW)

    def test_a_port_wakes_it(self):
        box = self.serve()
        for path, headers in ((f"/v1/sandboxes/{box}/ports/8080/", {}),
                              ("/", {"Host": f"8080-{box}.localhost"})):
            self.pause(box)
            r = self.i.api("GET", path, headers=headers)
            self.assertEqual((r.status, r.body), (200, b"hello\n"))
            self.assertEqual(self.state(box), "running")

    def test_everything_that_is_used_wakes_it(self):
        box = self.i.create(name="sleepy")
        self.i.sh(box, "echo here > /tmp/note")
        content = f"/v1/sandboxes/{box}/files/content?path=/tmp/"
        for ask in (
                lambda: self.assertEqual(self.i.sh(box, "cat /tmp/note").out,
                                         "here\n"),
                lambda: self.assertEqual(
                    self.i.api("GET", content + "note").body, b"here\n"),
                lambda: self.assertEqual(self.i.api(
                    "PUT", content + "big", b"x" * 3000000).status, 200),
                lambda: self.i.cli("cp", "sleepy:/tmp/note", "-", check=0),
                lambda: self.i.cli("ps", "sleepy", check=0)):
            self.pause(box)
            ask()
            self.assertEqual(self.state(box), "running")

    def test_streams_wait(self):
        """Clients that are there neither end nor miss anything."""
        box = self.i.create()
        self.start(box, self.COUNT, "count")
        w = self.i.exec_wire(box)
        w.attach(tag="count", out=(0, 0))
        got = bytearray()

        def lines(n):
            while got.count(b"\n") < n:
                kind, _, p = w.recv()
                if kind == harness.OUTPUT:
                    got.extend(p[9:])
                    w.send(harness.ACK, 1, struct.pack("<BQ", 1, len(got)))
        lines(5)
        self.pause(box)
        seen = got.count(b"\n")
        time.sleep(0.3)
        self.resume(box)
        lines(seen + 20)
        words = got[:got.rindex(b"\n")].split()
        self.assertEqual([int(x) for x in words],
                         list(range(1, len(words) + 1)))
        w.close()

    def test_events_and_terminals_wait(self):
        box = self.i.create()
        self.start(box, self.COUNT, "count")
        conn = harness.UnixHTTP(self.i.sock, 30 * SLOW)
        conn.request("GET", f"/v1/sandboxes/{box}/processes/tag:count",
                     headers={"Accept": "text/event-stream"})
        events = conn.getresponse()
        self.assertEqual(events.status, 200)
        tty = websocket.WebSocket(
            self.i.sock, f"/v1/sandboxes/{box}/terminal?command=cat",
            30 * SLOW)

        def echo(word):
            tty.send(websocket.BINARY, word + b"\n")
            got = b""
            while word not in got:
                op, data = tty.recv()
                got += data if op == websocket.BINARY else b""

        def numbers(n):
            """So many of what is counted, one after the other."""
            text = ""
            while text.count("\n") < n:
                line = events.readline().decode()
                if line.startswith("data:") and '"data"' in line:
                    text += json.loads(line[5:])["data"]
            return [int(x) for x in text.split()]
        echo(b"one")
        first = numbers(5)
        self.pause(box)
        tty.send(websocket.BINARY, b"two\n")
        time.sleep(0.2)
        self.assertEqual(self.state(box), "paused")
        self.resume(box)
        echo(b"three")
        then = numbers(20)
        self.assertEqual(first + then, list(range(1, len(first + then) + 1)))
        conn.close()
        tty.sock.close()

    def test_a_tunnel_waits(self):
        box = self.i.create()
        self.start(box, "nc -l -p 9000 -e cat", "echo")
        ask = (f"POST /v1/sandboxes/{box}/tcp/9000 HTTP/1.1\r\n"
               "Host: localhost\r\nConnection: Upgrade\r\n"
               "Upgrade: carrel-tcp/1\r\n\r\n").encode()

        def connect():
            s = socket.socket(socket.AF_UNIX)
            s.settimeout(20 * SLOW)
            s.connect(self.i.sock)
            s.sendall(ask)
            if b" 101 " in s.recv(4096):
                return s
            s.close()
        s = wait_for("the tunnel", connect, 20 * SLOW, 0.1)
        s.sendall(b"one\n")
        self.assertEqual(s.recv(100), b"one\n")
        self.pause(box)
        s.sendall(b"two\n")
        s.settimeout(0.3)
        with self.assertRaises(TimeoutError):
            s.recv(100)
        self.resume(box)
        s.settimeout(20 * SLOW)
        self.assertEqual(s.recv(100), b"two\n")
        s.close()

    def test_idle_means_asleep(self):
        lazy = self.i.create(**{"idle-timeout": 1.5, "idle-action": "pause"})
        busy = self.i.create(**{"idle-timeout": 1.5, "idle-action": "pause"})
        used = self.i.create(**{"idle-timeout": 1.5, "idle-action": "pause"})
        self.start(lazy, "sleep 1000", "sleep")
        self.start(busy, "while :; do :; done", "busy")
        w = self.i.exec_wire(used)
        wait_for("it is paused", lambda: self.state(lazy) == "paused", 30 * SLOW)
        time.sleep(1)
        self.assertEqual((self.state(busy), self.state(used)),
                         ("running", "running"))
        w.close()
        wait_for("it is paused", lambda: self.state(used) == "paused", 30 * SLOW)

    def test_the_roles_die(self):
        box = self.i.create()
        self.start(box, self.COUNT, "count")
        for role in ("carrel-api", "carrel-warden"):
            self.pause(box)
            before = self.cpu(box)
            self.i.kill_role(role)
            self.i.wait_ready()
            wait_for("it is known", lambda: self.state(box) == "paused")
            self.assertLess(self.cpu(box), before + self.STILL_US)
            self.assertEqual(self.i.sh(box, "echo back").out, "back\n")
            self.assertEqual(self.state(box), "running")
        r = self.i.api("GET", f"/v1/sandboxes/{box}/processes")
        self.assertIn(("count", "running"), [(p["tag"], p["state"])
                                             for p in r.json["processes"]])

    def test_the_warden_dies_behind_a_resume(self):
        """The record still says paused; the freezer knows better. Nothing is
        frozen by the next warden, nor by a later one."""
        box = self.i.create()
        self.pause(box)
        record = f"{self.i.run_dir}/box/{box}/record"
        with open(record, "rb") as f:
            paused = f.read()
        self.resume(box)

        def on_record():
            with open(record, "rb") as f:
                return f.read() != paused
        harness.wait_for("the resume is on record, behind its answer",
                         on_record, 5 * SLOW)
        with open(record, "r+b") as f:
            f.write(paused)
        self.i.kill_role("carrel-warden")
        self.i.wait_ready()
        self.assertEqual(self.state(box), "running")
        self.assertEqual(self.i.sh(box, "echo on").out, "on\n")
        self.assertTrue(on_record())

    def frozen(self):
        """Freezers of sandboxes that stand still."""
        return {path for root in harness.cgroup_roots()
                for path in glob.glob(f"{root}{self.i.cgroup}/b*/cgroup.freeze")
                if harness.read(path) == "1\n"}

    def test_the_api_dies_behind_a_thaw(self):
        """It has let the sandbox go on and did not live to say so: it is not
        paused for ever, and who asks for a pause gets one."""
        box = self.i.create()
        others = self.frozen()
        self.pause(box)
        freezer, = self.frozen() - others
        with open(freezer, "w") as f:
            f.write("0")
        self.i.kill_role("carrel-api")
        self.i.wait_ready()
        wait_for("it is known", lambda: self.state(box) == "running")
        self.pause(box)
        self.assertEqual(self.frozen() - others, {freezer})
        self.resume(box)
        self.assertEqual(self.frozen() - others, set())

    def test_rm(self):
        boxes = [self.i.create() for _ in range(3)]
        for box in boxes:
            self.start(box, "while :; do :; done", "busy")
            self.pause(box)
        self.i.rm(boxes[0])
        self.assertEqual(self.i.ids(), boxes[1:])
        r = self.i.api("DELETE", "/v1/sandboxes?all=true")
        self.assertEqual((r.status, r.json["removed"]), (200, 2))
        self.assertEqual(self.i.box_pids(), [])

    def test_command_line(self):
        for name in ("a1", "a2"):
            self.i.create(name=name)
        p = self.i.cli("pause", "a1", "a2", check=0)
        self.assertEqual((p.out, p.err), ("", ""))
        j = json.loads(self.i.cli("inspect", "a1", "--json", check=0).out)
        self.assertEqual(j["state"], "paused")
        self.assertIn("paused", self.i.cli("ls", check=0).out)
        self.assertRegex(self.i.cli("inspect", "a1", check=0).out,
                         r"memory_at_pause +[0-9.]+ [KM]iB")
        j = json.loads(self.i.cli("resume", "a1", "--json", check=0).out)
        self.assertEqual(j["state"], "running")
        p = self.i.cli("resume", "a2", "nobody", "--json", check=1)
        self.assertEqual([b["name"] for b in json.loads(p.out)], ["a2"])
        self.assertIn("nobody", p.err)

    def test_only_the_disk(self):
        box = self.i.create(name="disk")
        self.start(box, "sleep 1000", "sleep")
        self.i.sh(box, "echo kept > /home/user/note")
        self.i.cli("pause", "--disk-only", "disk", check=0)
        self.assertEqual(self.state(box), "suspended")
        self.assertEqual(self.i.box_pids(), [])
        self.assertEqual(self.i.sh("disk", "cat /home/user/note").out, "kept\n")
        r = self.i.api("GET", f"/v1/sandboxes/{box}/processes")
        self.assertNotIn("sleep", [p["tag"] for p in r.json["processes"]])

    def test_only_the_disk_is_left_in_time(self):
        box = self.i.create(timeout=2, **{"timeout-action": "suspend"})
        self.i.sh(box, "echo kept > /home/user/note")
        wait_for("it is suspended", lambda: self.state(box) == "suspended",
                 20 * SLOW)
        self.assertEqual(self.i.sh(box, "cat /home/user/note").out, "kept\n")
        shown = self.i.api("GET", f"/v1/sandboxes/{box}").json
        self.assertNotEqual(shown["expires_at"], None)

    def storm(self, seed, boxes, until):
        """One of many who pause, use and roll back the same sandboxes."""
        dice = random.Random(seed)
        post = functools.partial(self.i.api, "POST", timeout=60 * SLOW)
        bad = []
        while time.monotonic() < until:
            box, snap = dice.choice(boxes)
            path = f"/v1/sandboxes/{box}"
            r = dice.choice((
                lambda: post(f"{path}/pause"), lambda: post(f"{path}/pause"),
                lambda: post(f"{path}/resume"),
                lambda: post(f"{path}/run", '{"argv": ["echo", "hi"]}'),
                lambda: post(f"{path}/run", '{"argv": ["echo", "hi"]}'),
                lambda: post(f"{path}/snapshots", "{}"),
                lambda: post(f"{path}/pause", '{"disk_only": true}'),
                lambda: post(f"{path}/rollback", json.dumps({"snapshot": snap})),
            ))()
            # Cut off by a rollback, or in the way of another: never an error.
            if r.status not in (200, 201, 404, 409, 503):
                bad.append(r)
        return bad

    def test_storm(self):
        boxes = []
        for more in ({}, {"auto-snapshot": "exec", "snapshot-keep": 2}):
            box = self.i.create(**more)
            r = self.i.api("POST", f"/v1/sandboxes/{box}/snapshots", "{}")
            boxes.append((box, r.json["id"]))
        until = time.monotonic() + STORM
        them = [later(lambda n=n: self.storm(n, boxes, until))
                for n in range(6)]

        def over():
            for box, _ in boxes:  # whose command a pause has stopped
                self.resume(box)
            return not any(t.is_alive() for t in them)
        wait_for("the end of it", over, STORM + 60 * SLOW, 0.3)
        self.assertEqual([b for t in them for b in t.value], [])
        for box, _ in boxes:
            self.assertEqual(self.i.sh(box, "echo fine").out, "fine\n")
        self.assertEqual(self.metric("held_requests"), 0)

    def test_back_to_an_entry(self):
        box = self.i.create(name="steps", **{"auto-snapshot": "exec"})
        marks = []
        for word in ("one", "two", "three"):
            self.i.sh(box, f"echo {word} >> /home/user/steps")
            marks.append(wait_for("the log has it", lambda: [
                e["seq"] for e in self.entries(box, "process.start")
                ][len(marks):])[0])
        # Before the third command there were two words.
        r = self.i.api("POST", f"/v1/sandboxes/{box}/rollback",
                       json.dumps({"event": marks[2]}))
        self.assertEqual(r.status, 200, r)
        r = self.i.api("GET", f"/v1/sandboxes/{box}/files/content"
                       "?path=/home/user/steps")
        self.assertEqual(r.body, b"one\ntwo\n")


if __name__ == "__main__":
    harness.main()
