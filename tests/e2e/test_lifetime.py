# suite: alone
"""Timeouts, rm and the kill switch: within 100 ms whatever the sandbox does."""

import time
import unittest

import harness
from harness import SLOW, wait_for

# `sh` that forks without end, ignoring what can be ignored.
BOMB = "trap '' TERM INT HUP; b() { b | b & }; b; while :; do b; done"
LIMIT = 0.1


class Ending(harness.Case):
    def bomb(self, n=1, **spec):
        boxes = []
        for _ in range(n):
            box = self.i.create(pids=200, cpus=1, **spec)
            self.i.cli("exec", "-d", box, "--", "sh", "-c", BOMB, check=0)
            boxes.append(box)
        wait_for("the bombs are going off",
                 lambda: len(self.i.box_pids()) > 100 * n, 20 * SLOW)
        return boxes

    def timed(self, fn):
        began = time.monotonic()
        fn()
        took = time.monotonic() - began
        self.assertEqual(self.i.box_pids(), [], "a process is left")
        return took

    def test_rm_of_an_idle_one(self):
        times = []
        for _ in range(5):
            box = self.i.create()
            times.append(self.timed(lambda: self.i.rm(box)))
        self.assertLess(sorted(times)[2], LIMIT * SLOW)

    def test_rm_of_a_fork_bomb(self):
        box, = self.bomb()
        self.assertLess(self.timed(lambda: self.i.rm(box)), LIMIT * SLOW)

    def test_kill_switch_over_fork_bombs(self):
        self.bomb(2)
        for _ in range(3):
            self.i.create()
        took = self.timed(lambda: self.i.api("DELETE", "/v1/sandboxes?all=true"))
        self.assertLess(took, LIMIT * SLOW)
        self.assertEqual(self.i.ids(), [])

    def test_stopped_processes_die_too(self):
        box = self.i.create()
        self.i.cli("exec", "-d", box, "--", "sh", "-c", "kill -STOP $$", check=0)
        time.sleep(0.2)
        self.assertLess(self.timed(lambda: self.i.rm(box)), LIMIT * SLOW)

    def test_exec_ends_with_its_sandbox(self):
        box = self.i.create()
        p = self.i.popen("exec", box, "--", "sh", "-c", "echo ready; sleep 1000")
        self.assertEqual(p.stdout.readline(), b"ready\n")
        self.i.rm(box)
        p.communicate(timeout=5 * SLOW)
        self.assertNotEqual(p.returncode, 0)


class Timeout(harness.Case):
    def test_timeout(self):
        began = time.monotonic()
        box = self.i.create(timeout=1)
        wait_for("its end", lambda: box not in self.i.ids(), 5 * SLOW)
        wait_for("its processes' end", lambda: not self.i.box_pids(), 1 * SLOW)
        took = time.monotonic() - began
        self.assertGreaterEqual(took, 1.0)
        self.assertLess(took, 1.0 + (LIMIT + 0.1) * SLOW)

    def test_timeout_of_a_busy_one(self):
        box = self.i.create(timeout=2, pids=200)
        self.i.cli("exec", "-d", box, "--", "sh", "-c", BOMB, check=0)
        wait_for("its end", lambda: box not in self.i.ids(), 6 * SLOW)
        self.assertEqual(self.i.box_pids(), [])

    def test_timeout_of_a_run(self):
        began = time.monotonic()
        p = self.i.cli("run", "--timeout", "1s", "--", "sleep", "1000", timeout=10)
        self.assertNotEqual(p.returncode, 0)
        self.assertLess(time.monotonic() - began, 2 * SLOW)
        self.assertTrue(p.err, "it says why")

    def test_timeout_holds_over_a_restart(self):
        box = self.i.create(timeout=3)
        began = time.monotonic()
        self.i.restart()
        self.assertIn(box, self.i.ids())
        wait_for("its end", lambda: box not in self.i.ids(), 6 * SLOW)
        self.assertLess(time.monotonic() - began, 4 * SLOW)

    def test_timeout_while_the_daemon_is_down(self):
        box = self.i.create(timeout=1)
        self.i.end_daemon()
        time.sleep(1.2)
        self.i.start()
        wait_for("its end", lambda: box not in self.i.ids()
                 and not self.i.box_pids(), 2 * SLOW)


if __name__ == "__main__":
    harness.main()
