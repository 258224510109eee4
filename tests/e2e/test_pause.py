"""Pause and resume, requests that wake a paused sandbox, and idle ones."""

import json
import socket
import threading

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


if __name__ == "__main__":
    harness.main()
