# suite: both
# suite: sanitized
"""kill -9 of any role at any time: sandboxes and their commands go on, and
nothing is left over."""

import contextlib
import http.client
import signal
import threading
import time
import unittest

import harness
from harness import SLOW, wait_for

ROLES = ("carrel-api", "carrel-warden", "carrel-scribe", "carreld")


class Roles(harness.Case):
    def kill(self, role):
        pid = self.i.kill_role(role)
        if role == "carreld":
            self.i.daemon.wait()
            # Its roles end with it; then a new one starts, as systemd does it.
            wait_for("the roles have ended", lambda: not self.i.pids(), 10 * SLOW)
            self.i.start()
        else:
            wait_for(f"a new {role}", lambda: self.i.pids().get(role, [pid]) != [pid]
                     and self.i.pids().get(role), 10 * SLOW)
            self.i.wait_ready()

    def test_sandboxes_go_on(self):
        for role in ROLES:
            with self.subTest(role):
                box = self.i.create(name="kept-" + role[-3:])
                self.i.cli("exec", "-d", box, "--", "sh", "-c",
                           "while :; do echo >> /tmp/tick; sleep 0.05; done",
                           check=0)
                self.i.sh(box, "echo data > /home/user/file")
                before = set(self.i.box_pids())
                self.kill(role)
                self.assertIn(box, self.i.ids())
                self.assertEqual(self.i.sh(box, "cat /home/user/file").out,
                                 "data\n")
                a = self.i.sh(box, "wc -c < /tmp/tick").out
                time.sleep(0.3)
                b = self.i.sh(box, "wc -c < /tmp/tick").out
                self.assertNotEqual(a, b, "the command stopped")
                self.assertTrue(before & set(self.i.box_pids()))
                self.i.rm(box)
                self.assertEqual(self.i.box_pids(), [])

    def test_exec_goes_on_when_the_warden_dies(self):
        box = self.i.create()
        p = self.i.popen("exec", box, "--", "sh", "-c", "echo one; read x; echo $x")
        self.assertEqual(p.stdout.readline(), b"one\n")
        self.kill("carrel-warden")
        out, err = p.communicate(b"two\n", timeout=10 * SLOW)
        self.assertEqual((p.returncode, out), (0, b"two\n"), err)

    def test_a_graceful_restart(self):
        box = self.i.create()
        self.i.cli("exec", "-d", box, "--", "sh", "-c",
                   "echo $$ > /tmp/pid; exec sleep 1000", check=0)
        self.i.restart()
        self.assertEqual(self.i.ids(), [box])
        self.assertEqual(self.i.sh(box, "kill -0 $(cat /tmp/pid)").returncode, 0)

    def test_a_clock_that_was_ahead(self):
        """What is made once it is right again is not of the future."""
        box = self.i.create()
        self.i.end_daemon()
        self.i.sql("UPDATE sandboxes SET created_ms = created_ms + 86400000")
        self.i.start()
        later = self.i.create()
        made = {x["id"]: x["created_at"] for x in
                self.i.api("GET", "/v1/sandboxes").json["sandboxes"]}
        now = time.strftime("%Y-%m-%dT%H:%M:%S~", time.gmtime())
        self.assertGreater(made[box], now)
        self.assertLess(made[later], now)
        self.i.rm(box)
        self.i.rm(later)

    def test_a_sandbox_that_died_meanwhile(self):
        box = self.i.create()
        self.i.end_daemon()
        for pid in self.i.box_pids():
            with contextlib.suppress(ProcessLookupError):
                harness.os.kill(pid, signal.SIGKILL)
        wait_for("it is dead", lambda: not self.i.box_pids(), 5 * SLOW)
        self.i.start()
        wait_for("it is off the list", lambda: self.i.ids() == [], 5 * SLOW)
        wait_for("nothing is left", lambda: not self.boxes_left(), 5 * SLOW)

    def boxes_left(self):
        return [x for x in self.i.leftovers() if "process" not in x]

    def test_kill_during_creates(self):
        """Creates without pause while roles die: afterwards what is on the list
        works, and what is not on it does not exist."""
        keeper = self.i.create(name="keeper")
        self.i.cli("exec", "-d", keeper, "--", "sh", "-c",
                   "echo $$ > /tmp/pid; exec sleep 1000", check=0)
        for role in ("carrel-warden", "carrel-api"):
            for n in range(4):
                stop = threading.Event()

                def creates():
                    while not stop.is_set():
                        with contextlib.suppress(OSError, http.client.HTTPException,
                                                 ValueError):
                            r = self.i.api("POST", "/v1/sandboxes", {}, timeout=20)
                            if r.status == 201 and len(self.i.ids()) > 20:
                                self.i.api("DELETE",
                                           f"/v1/sandboxes/{r.json['id']}")
                threads = [threading.Thread(target=creates) for _ in range(2)]
                for t in threads:
                    t.start()
                time.sleep(0.15 + 0.013 * n)
                with self.subTest(role=role, n=n):
                    self.kill(role)
                    stop.set()
                    for t in threads:
                        t.join()
                    ids = self.i.ids()
                    self.assertIn(keeper, ids)
                    for box in ids:
                        self.assertEqual(self.i.sh(box, "echo ok").out, "ok\n",
                                         f"{box} is listed but does not work")
                        if box != keeper:
                            self.i.rm(box)
                    alone = wait_for("only one sandbox's processes",
                                     lambda: self.only(keeper), 5 * SLOW)
                    self.assertTrue(alone)
        self.assertEqual(self.i.sh(keeper, "kill -0 $(cat /tmp/pid)").returncode, 0)

    def only(self, box):
        """Nothing but this sandbox is there: run directories, groups."""
        run = harness.os.listdir(f"{self.i.run_dir}/box")
        groups = {g.split(self.i.cgroup + "/")[1].split("/")[0]
                  for g in self.i.cgroups()}
        return [x for x in run if harness.re.match("i[a-z2-7]{26}", x)] == [box] \
            and len(groups) == 1

    def tearDown(self):
        super().tearDown()
        if self.i.daemon.poll() is None:
            wait_for(f"nothing is left: {self.boxes_left()}",
                     lambda: not self.boxes_left(), 5 * SLOW)


if __name__ == "__main__":
    harness.main()
