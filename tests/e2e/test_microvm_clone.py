# suite: slow
# suite: microvm
"""Machines of the tier microvm start as copies of one that was booted once,
and are nobody's twin for it."""

import fcntl
import http.client
import os
import re
import signal
import threading
import time

import harness
from harness import SLOW, wait_for

BOOT = 120 * SLOW  # emulated, beside other tests
# `make test-microvm` has more of them.
MANY = os.environ.get("CARREL_TIER") == "microvm"
CLONES = int(os.environ.get("MICROVM_CLONES", "20" if MANY else "3"))
CYCLES = int(os.environ.get("MICROVM_CYCLES", "200" if MANY else "3"))
# Large enough for what they do, and small: each is a copy of its memory.
SPEC = {"tier": "microvm", "cpus": 2, "memory": "64M", "disk": "64M"}


class Case(harness.Case):
    SPARES = 0

    @classmethod
    def setUpClass(cls):
        cls.CONF = {"vm_dir": harness.vm_dir(), "microvm_spares": cls.SPARES}
        super().setUpClass()

    def create(self, **spec):
        r = self.i.api("POST", "/v1/sandboxes", {**SPEC, **spec}, timeout=BOOT)
        self.assertEqual(r.status, 201, r)
        return r.json["id"]

    def out(self, box, script):
        p = self.i.sh(box, script, timeout=BOOT)
        self.assertEqual(p.returncode, 0, p.err)
        return p.out

    def booted(self):
        return self.i.log().count("event=template_boots")

    def hidden(self):
        """Those that became templates."""
        return re.findall(r"sandbox=(\w+) event=template_boots", self.i.log())

    def booting(self):
        """QEMUs that boot a kernel."""
        return [p for p in self.i.box_pids()
                if "-initrd" in harness.read(f"/proc/{p}/cmdline", "")]

    def templates(self):
        return os.listdir(f"{self.i.pool()}/vm")


class Clones(Case):
    def test_no_twins(self):
        """Names, randomness and time are their own from the first command on,
        and only the first of them was booted."""
        boxes = [self.create() for _ in range(2)]
        self.assertEqual(self.booted(), 1)
        self.assertEqual(len(self.templates()), 1)
        seen = set()
        for box in boxes:
            before = time.time()
            lines = self.out(box, "date +%s; hostname; "
                             "cat /proc/sys/kernel/random/uuid; "
                             "head -c 16 /dev/urandom | md5sum").split("\n")
            self.assertGreaterEqual(int(lines[0]) + 1, before - 1)
            self.assertLessEqual(int(lines[0]), time.time() + 1)
            self.assertEqual(lines[1], box[:12])
            seen |= set(lines[1:4])
        self.assertEqual(len(seen), 3 * len(boxes))
        # What they start from cannot be changed by any of them.
        for pid in self.i.box_pids():
            for seals in self.seals(pid):
                self.assertTrue(seals & fcntl.F_SEAL_WRITE)
                self.assertTrue(seals & fcntl.F_SEAL_SEAL)
        self.assertTrue(any(map(self.seals, self.i.box_pids())))
        # Their disks are their own, too.
        self.out(boxes[0], "echo mine > /home/user/f; sync")
        self.assertEqual(self.out(boxes[1], "ls /home/user"), "")

    def seals(self, pid):
        """Of the memory that a process has open."""
        found = []
        for fd in os.listdir(f"/proc/{pid}/fd"):
            path = f"/proc/{pid}/fd/{fd}"
            if os.readlink(path).startswith("/memfd:") and \
                    "qemu" in harness.read(f"/proc/{pid}/comm"):
                with open(path, "rb") as f:
                    found.append(fcntl.fcntl(f, fcntl.F_GET_SEALS))
        return found

    def test_at_once(self):
        """Many that start at the same time all answer."""
        boxes, bad = [], []

        def one():
            try:
                box = self.create()
                boxes.append((box, self.out(box, "hostname").strip()))
            except BaseException as e:  # of a thread: told below
                bad.append(e)

        threads = [threading.Thread(target=one) for _ in range(CLONES)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(bad, [])
        self.assertEqual({b[:12] for b, _ in boxes}, {n for _, n in boxes})

    def test_nothing_is_left_over(self):
        self.i.rm(self.create())
        had = self.count()
        for n in range(CYCLES):
            box = self.create()
            if n % 8 == 0:  # what takes longest, emulated
                self.assertEqual(self.out(box, "echo hi"), "hi\n")
            self.i.rm(box)
        end = time.monotonic() + 20 * SLOW
        while self.grown(had) and time.monotonic() < end:
            time.sleep(0.2)
        self.assertEqual(self.grown(had), [])

    def grown(self, had):
        return [f"{k}: {had[k]} -> {v}" for k, v in self.count().items()
                if v > had[k]]

    def count(self):
        warden = self.i.pids()["carrel-warden"]
        return {
            "processes": len(self.i.box_pids()),
            "wardens": len(warden),
            "descriptors": sum(len(os.listdir(f"/proc/{p}/fd"))
                               for p in warden[:1]),
            "mounts": len(harness.read(f"/proc/{warden[0]}/mountinfo")
                          .splitlines()),
            "run directories": len(os.listdir(f"{self.i.run_dir}/box")),
            "disks": len(os.listdir(f"{self.i.pool()}/box")),
            "trash": len(os.listdir(f"{self.i.pool()}/trash")),
            "templates": len(self.templates()),
        }


class Templates(Case):
    def create_later(self, **spec):
        """A create that may be cut off."""
        def run():
            try:
                answers.append(self.i.api("POST", "/v1/sandboxes",
                                          {**SPEC, **spec}, timeout=BOOT))
            except (OSError, http.client.HTTPException) as e:
                answers.append(e)

        answers = []
        t = threading.Thread(target=run)
        t.start()
        return t, answers

    def wait_new_warden(self, old):
        wait_for("a new warden", lambda: self.i.pids().get(
            "carrel-warden", [old]) != [old], 10 * SLOW)
        self.i.wait_ready()

    def test_life_of_a_template(self):
        """It is nobody's sandbox while it boots, is gone when the warden dies
        then, outlives the daemon once it is made, and goes with its image."""
        # -- cut off
        had = self.booted()
        t, _ = self.create_later()
        wait_for("its machine boots", self.booting, BOOT)
        hidden = self.hidden()[-1]
        self.assertIn(hidden, os.listdir(f"{self.i.run_dir}/box"))
        self.assertNotIn(hidden, self.i.ids())
        old = self.i.kill_role("carrel-warden")
        t.join()
        self.wait_new_warden(old)
        wait_for("nothing is left", lambda: not self.i.box_pids() and
                 not os.listdir(f"{self.i.run_dir}/box"), 10 * SLOW)
        templates = self.templates()
        # -- made
        box = self.create()
        self.assertEqual(self.booted(), had + 2)
        self.assertEqual(len(self.templates()), len(templates) + 1)
        self.assertEqual(self.out(box, "hostname").strip(), box[:12])
        # -- after a restart
        self.i.restart()
        self.assertEqual(self.out(box, "echo here"), "here\n")
        other = self.create()
        self.assertEqual(self.out(other, "hostname").strip(), other[:12])
        self.assertEqual(self.booted(), had + 2)
        # -- without its image
        for b in (box, other):
            self.i.rm(b)
        r = self.i.api("DELETE", "/v1/images/tiny")
        self.assertEqual(r.status, 204, r)
        self.assertEqual(self.templates(), [])
        self.i.import_image("tiny")

    def test_killed_while_it_boots(self):
        """The machine that becomes a template dies: who waits hears why."""
        had = self.templates()
        t, answers = self.create_later(memory="80M")
        wait_for("its machine boots", self.booting, BOOT)
        for pid in self.booting():
            os.kill(pid, signal.SIGKILL)
        t.join()
        self.assertGreaterEqual(answers[0].status, 500, answers)
        self.assertIn("machine", answers[0].json["message"])
        self.assertEqual(self.templates(), had)


class Spares(Case):
    SPARES = 1

    def spare(self):
        """The machine that waits, if there is one."""
        if self.i.api("GET", "/v1/host").json["counts"]["spares"] != 1 or \
                self.booting():
            return None
        ids = set(os.listdir(f"{self.i.run_dir}/box")) - set(self.i.ids()) - \
            set(self.hidden())
        return min(ids) if len(ids) == 1 else None

    def test_one_waits(self):
        """A create of the default spec gets a machine that was there."""
        first = wait_for("a spare", self.spare, BOOT, 0.1)
        r = self.i.api("POST", "/v1/sandboxes", {"tier": "microvm"},
                       timeout=BOOT)
        self.assertEqual((r.status, r.json["id"]), (201, first))
        self.assertEqual(r.json["spec"]["tier"], "microvm")
        # What was rehearsed in it is no process of its.
        ran = self.i.api("GET", f"/v1/sandboxes/{first}/processes", timeout=BOOT)
        self.assertEqual(ran.json["processes"], [])
        self.assertEqual(self.out(first, "hostname").strip(), first[:12])
        # One of the other tier takes no machine.
        other = self.i.create(tier="container")
        self.assertNotIn("-cloud-", self.out(other, "uname -r"))
        second = wait_for("another spare", self.spare, BOOT, 0.1)
        self.assertNotIn(second, (first, other))
        self.assertEqual(self.booted(), 1)


if __name__ == "__main__":
    harness.main()
