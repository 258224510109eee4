# suite: alone
"""Timeouts, rm and the kill switch: within 100 ms whatever the sandbox does."""

import time
import unittest

import harness
from harness import SLOW, wait_for, within

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
        def one():
            box = self.i.create()
            return self.timed(lambda: self.i.rm(box))
        within(LIMIT, lambda: sorted(one() for _ in range(5))[2])

    def test_rm_of_a_fork_bomb(self):
        def one():
            box, = self.bomb()
            return self.timed(lambda: self.i.rm(box))
        within(LIMIT, one)

    def test_kill_switch_over_fork_bombs(self):
        def one():
            self.bomb(2)
            for _ in range(3):
                self.i.create()
            took = self.timed(lambda: self.i.api("DELETE",
                                                 "/v1/sandboxes?all=true"))
            self.assertEqual(self.i.ids(), [])
            return took
        within(LIMIT, one)

    def test_stopped_processes_die_too(self):
        def one():
            box = self.i.create()
            self.i.cli("exec", "-d", box, "--", "sh", "-c", "kill -STOP $$",
                       check=0)
            wait_for("it is stopped", lambda: [
                p for p in self.i.box_pids()
                if "State:\tT" in harness.read(f"/proc/{p}/status", " ")],
                20 * SLOW)
            return self.timed(lambda: self.i.rm(box))
        within(LIMIT, one)

    def test_exec_ends_with_its_sandbox(self):
        box = self.i.create()
        p = self.i.popen("exec", box, "--", "sh", "-c", "echo ready; sleep 1000")
        self.assertEqual(p.stdout.readline(), b"ready\n")
        self.i.rm(box)
        p.communicate(timeout=5 * SLOW)
        self.assertNotEqual(p.returncode, 0)


class Timeout(harness.Case):
    def test_timeout(self):
        def one():
            began = time.monotonic()
            box = self.i.create(timeout=1)
            wait_for("its end", lambda: box not in self.i.ids(), 5 * SLOW)
            wait_for("its processes' end", lambda: not self.i.box_pids(), 1 * SLOW)
            took = time.monotonic() - began
            self.assertGreaterEqual(took, 1.0)
            return took - 1.0
        within(LIMIT + 0.1, one)

    def test_timeout_of_a_busy_one(self):
        box = self.i.create(timeout=2, pids=200)
        self.i.cli("exec", "-d", box, "--", "sh", "-c", BOMB, check=0)
        wait_for("its end", lambda: box not in self.i.ids(), 6 * SLOW)
        self.assertEqual(self.i.box_pids(), [])

    def test_timeout_of_a_run(self):
        p = self.i.cli("run", "--timeout", "1s", "--", "sleep", "1000")
        self.assertNotEqual(p.returncode, 0)
        self.assertTrue(p.err, "it says why")

    def test_timeout_holds_over_a_restart(self):
        box = self.i.create(timeout=10)
        left = self.i.api("GET", f"/v1/sandboxes/{box}").json["expires_at"]
        self.i.restart()
        self.assertEqual(left, self.i.api(
            "GET", f"/v1/sandboxes/{box}").json["expires_at"])
        wait_for("its end", lambda: box not in self.i.ids(), 20 * SLOW)

    def test_timeout_while_the_daemon_is_down(self):
        box = self.i.create(timeout=1)
        self.i.end_daemon()
        time.sleep(1.2)
        self.i.start()
        wait_for("its end", lambda: box not in self.i.ids()
                 and not self.i.box_pids(), 2 * SLOW)
        j = self.i.api("GET", f"/v1/sandboxes/{box}").json
        self.assertEqual((j["state"], j["ended"]["reason"]),
                         ("ended", "its time is over: timeout of 1 s"))


class Limits(harness.Case):
    BUSY = "while :; do :; done"

    def ended(self, box, timeout):
        """The reason, once it has one."""
        def look():
            j = self.i.api("GET", f"/v1/sandboxes/{box}").json
            return j["state"] == "ended" and j["ended"]["reason"]
        return wait_for("its end", look, timeout * SLOW)

    def usage(self, box):
        return wait_for("its row", lambda: [
            u for u in self.i.api("GET", f"/v1/usage?sandbox={box}").json["usage"]
            if u["ended_at"]], 5 * SLOW)[0]

    def test_cpu_budget(self):
        box = self.i.create(**{"cpu-budget": 0.5})
        p = self.i.popen("exec", box, "--", "sh", "-c", self.BUSY)
        began = time.monotonic()
        self.assertEqual(self.ended(box, 5), "cpu budget of 0.5 s used")
        self.assertGreaterEqual(time.monotonic() - began, 0.4)
        _, err = p.communicate(timeout=5 * SLOW)
        self.assertIn(b"cpu budget", err)
        self.assertNotEqual(p.returncode, 0)
        self.assertEqual(self.i.box_pids(), [])
        used = self.usage(box)["cpu_us"]
        self.assertGreaterEqual(used, 500000)
        self.assertLess(used, 500000 + 400000 * SLOW)

    def test_cpu_budget_over_a_restart(self):
        box = self.i.create(**{"cpu-budget": 1})
        self.i.cli("exec", "-d", box, "--", "sh", "-c", self.BUSY, check=0)
        self.i.end_daemon()
        time.sleep(1.5 * SLOW)
        self.i.start()
        self.assertEqual(self.ended(box, 3), "cpu budget of 1 s used")

    def test_idle(self):
        began = time.monotonic()
        box = self.i.create(**{"idle-timeout": 1})
        self.assertEqual(self.ended(box, 5), "idle for 1 s")
        self.assertGreater(time.monotonic() - began, 0.9)

    def test_idle_means_nobody_and_nothing(self):
        worker = self.i.create(**{"idle-timeout": 4})
        self.i.cli("exec", "-d", worker, "--", "sh", "-c", self.BUSY, check=0)
        visited = self.i.create(**{"idle-timeout": 4})
        client = self.i.exec_wire(visited)
        sleeper = self.i.create(**{"idle-timeout": 4})
        self.i.cli("exec", "-d", sleeper, "--", "sleep", "100", check=0)
        self.assertEqual(self.ended(sleeper, 20), "idle for 4 s")
        time.sleep(5)
        self.assertEqual(sorted(self.i.ids()), sorted([worker, visited]))
        client.close()
        self.assertEqual(self.ended(visited, 20), "idle for 4 s")
        self.i.rm(worker)

    def test_output_limit(self):
        box = self.i.create(**{"output-limit": "1M"})
        p = self.i.cli("exec", box, "--", "sh", "-c",
                       "head -c 900000 /dev/zero", check=0)
        self.assertEqual(len(p.stdout), 900000)
        p = self.i.cli("exec", box, "--", "sh", "-c", "yes")
        self.assertNotEqual(p.returncode, 0)
        self.assertIn("output limit of 1 MiB reached", p.err)
        self.assertLess(len(p.stdout), 8 << 20)
        self.assertEqual(self.ended(box, 2), "output limit of 1 MiB reached")
        self.assertGreater(self.usage(box)["output_bytes"], 1 << 20)

    def test_a_run_has_them_too(self):
        p = self.i.cli("run", "--cpu-budget", "300ms", "--", "sh", "-c", self.BUSY)
        self.assertNotEqual(p.returncode, 0)
        self.assertIn("cpu budget of 0.3 s used", p.err)
        p = self.i.cli("run", "--output-limit", "64K", "--", "yes")
        self.assertIn("output limit", p.err)
        self.assertEqual(self.i.ids(), [])


if __name__ == "__main__":
    harness.main()
