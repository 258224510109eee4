# suite: long
"""Escapes that take minutes: random calls, races, bombs (make escape-long).

ESCAPE_SECONDS says how long the random calls go on (300)."""

import os
import subprocess
import threading
import time

import attack
import harness
from harness import SLOW

SECONDS = int(os.environ.get("ESCAPE_SECONDS", "300"))
MIB = 1 << 20
BOMBS = {
    "shell": "b() { b | b & }; b; while :; do b; done",
    "orphans": "while :; do (sleep 0.01 &) ; done",
    "stubborn": "trap '' TERM INT HUP; b() { b & b & wait; }; b; while :; do b; done",
    "traced": f"while :; do {attack.INSIDE} C5 hold=1 >/dev/null; done",
}


class Long(harness.Case):
    CONF = {"pool_size": "1G"}

    def setUp(self):
        self.canaries = attack.Canaries()
        self.addCleanup(self.canaries.close)
        self.log = attack.KernelLog()
        self.addCleanup(self.log.close)

    def sandbox(self, **spec):
        box = self.i.create(**spec)
        attack.put_probe(self.i, box)
        return box

    def unharmed(self, *boxes):
        alarms = [x for x in self.log.lines() if attack.ALARMS.search(x)]
        self.assertEqual(alarms, [])
        self.assertEqual(self.canaries.touched(), [])
        for box in boxes:
            self.assertEqual(self.i.sh(box, "echo alive").out, "alive\n")

    def test_D24_random_calls(self):
        """Two sandboxes at a time, from different seeds."""
        boxes = [self.sandbox(), self.sandbox()]
        seeds = [int(time.time()) + n * 1000000 for n in range(2)]
        print(f"# seeds {seeds}", flush=True)
        found = {}

        def one(n):
            found[n] = attack.probe(self.i, boxes[n], ["D24"], seconds=SECONDS,
                                    seed=seeds[n], timeout=SECONDS * 2 + 60)
        threads = [threading.Thread(target=one, args=(n,)) for n in range(2)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        for n in range(2):
            self.assertEqual(found[n]["D24"].word, "OBSERVED", found)
            print(f"# {found[n]['D24'].detail}", flush=True)
        self.unharmed(*boxes)

    def test_B20_copy_on_write_race(self):
        box = self.sandbox()
        image = self.i.api("GET", f"/v1/sandboxes/{box}").json["image_id"]
        tree = f"{self.i.pool()}/images/{image}/tree"
        before = attack.tree_hash(tree, False)
        for sudo in (False, True):
            v = attack.probe(self.i, box, ["B20"], sudo=sudo, seconds=45)
            self.assertEqual(v["B20"].word, "HELD", v)
        self.assertEqual(attack.tree_hash(tree, False), before)
        self.assertEqual(attack.tree_hash(tree, True), before)
        self.unharmed(box)

    def test_B18_locks_do_not_meet(self):
        """Half a minute of attempts while the other holds."""
        box, other = self.sandbox(), self.sandbox()
        hold = self.i.popen("exec", box, "--", attack.INSIDE, "B18", "lock=hold",
                            "seconds=120", stdin=subprocess.DEVNULL)
        self.assertEqual(hold.stderr.readline(), b"holding\n")
        end, n = time.monotonic() + 30, 0
        while time.monotonic() < end:
            v = attack.probe(self.i, other, ["B18"], lock="try")
            self.assertEqual(v["B18"].word, "HELD", v)
            n += 1
        print(f"# {n} attempts", flush=True)
        hold.kill()
        hold.communicate()
        self.unharmed(box, other)

    def test_D23_many_crashes(self):
        box = self.sandbox()
        began, end, lines = time.monotonic(), time.monotonic() + 60, 0
        while time.monotonic() < end:
            attack.probe(self.i, box, ["D23"], crashes=5000)
            lines += len([x for x in self.log.lines() if "probe" in x])
        # Ten messages of a few lines in five seconds is the kernel's limit.
        took = time.monotonic() - began
        self.assertLess(lines, 100 + took / 5 * 10 * 4)
        self.unharmed(box)

    def bomb(self, name):
        """Half a minute; a neighbour works on, and the end is quick."""
        other = self.sandbox()
        for n in range(3):
            box = self.sandbox(pids=128, memory=128 * MIB, cpus=1)
            base = attack.base_of(self.i, box)
            w = self.i.exec_wire(box)
            w.spawn(["sh", "-c", BOMBS[name]], flags=harness.SPAWN_DETACHED)
            slowest, end = 0, time.monotonic() + 10
            while time.monotonic() < end:
                began = time.monotonic()
                self.assertEqual(self.i.sh(other, "echo ok").out, "ok\n")
                slowest = max(slowest, time.monotonic() - began)
                time.sleep(0.05)
            self.assertLessEqual(len(attack.pids_of(base)), 128)
            began = time.monotonic()
            self.i.rm(box)
            took = time.monotonic() - began
            harness.wait_for("nobody is left",
                             lambda: not attack.pids_of(base), 2 * SLOW)
            print(f"# {name}: neighbour at most {slowest * 1000:.0f} ms, "
                  f"removed in {took * 1000:.0f} ms", flush=True)
            self.assertLess(slowest, 2 * SLOW)
            self.assertLess(took, 2 * SLOW)
            w.close()
        self.unharmed(other)


for _name in BOMBS:
    setattr(Long, f"test_C5_F1_bomb_{_name}",
            lambda self, name=_name: self.bomb(name))


if __name__ == "__main__":
    attack.own_network()
    harness.main()
