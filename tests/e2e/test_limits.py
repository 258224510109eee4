# suite: alone
# suite: both
"""Limits: memory, processes, processor, disk, and what is seen inside of them."""

import ctypes
import glob
import os
import re
import struct
import subprocess
import time
import unittest

import harness
from harness import SLOW

MIB = 1 << 20
# What a machine has beside its sandbox's memory: docs/limits.md.
MACHINE = (64 + 192) * MIB if harness.TIER == "microvm" else 0


def slices(pids):
    """Time slices, in nanoseconds, of those that are still there."""
    attr = ctypes.create_string_buffer(48)
    sched_getattr = 315
    return {struct.unpack_from("<Q", attr, 24)[0] for pid in pids
            if ctypes.CDLL(None).syscall(sched_getattr, pid, attr, len(attr),
                                         0) == 0}


class Memory(harness.Case):
    def test_hog_dies_and_the_sandbox_lives(self):
        box = self.i.create(memory=64 * MIB)
        # Anonymous memory: a shell variable that doubles.
        hog = "x=0123456789abcdef; while :; do x=$x$x; done"
        p = self.i.sh(box, hog, timeout=60)
        self.assertEqual(p.returncode, 137, p.err)
        self.assertEqual(self.i.sh(box, "echo alive").out, "alive\n")
        use = self.i.api("GET", f"/v1/sandboxes/{box}").json["usage"]
        self.assertLessEqual(use["memory_bytes"], 64 * MIB + MACHINE)

    def test_only_the_hog_dies(self):
        box = self.i.create(memory=64 * MIB)
        quiet = self.i.popen("exec", box, "--", "sh", "-c",
                             "echo ready; read x; echo still here")
        self.assertEqual(quiet.stdout.readline(), b"ready\n")
        p = self.i.sh(box, "x=0123456789abcdef; while :; do x=$x$x; done")
        self.assertEqual(p.returncode, 137)
        out, _ = quiet.communicate(b"\n", timeout=10 * SLOW)
        self.assertEqual((quiet.returncode, out), (0, b"still here\n"))

    def test_tmpfs_is_charged(self):
        box = self.i.create(memory=64 * MIB)
        self.i.sh(box, "dd if=/dev/zero of=/dev/shm/x bs=1M count=200")
        size = int(self.i.sh(box, "stat -c %s /dev/shm/x 2>/dev/null || echo 0").out)
        self.assertLess(size, 64 * MIB)
        self.assertEqual(self.i.sh(box, "echo alive").out, "alive\n")

    def test_size_seen_inside(self):
        box = self.i.create(memory=100 * MIB)
        text = self.i.sh(box, "grep MemTotal /proc/meminfo").out
        self.assertEqual(int(text.split()[1]) * 1024, 100 * MIB)

    @unittest.skipIf(harness.TIER == "microvm", "it has its own kernel's")
    def test_files_in_memory_do_not_show_the_hosts_size(self):
        box = self.i.create(memory=100 * MIB)
        for path, files in (("/dev/shm", 1048576), ("/sys", 64)):
            out = self.i.sh(box, f"stat -f {path}").out
            self.assertEqual(int(re.search(r"Inodes: Total: (\d+)", out)[1]),
                             files)


class Processes(harness.Case):
    def test_fork_fails_at_the_limit(self):
        box = self.i.create(pids=20)
        p = self.i.sh(box, "i=0; while [ $i -lt 100 ]; do sleep 100 & i=$((i+1)); "
                      "done; echo not reached", timeout=60)
        self.assertNotIn("not reached", p.out)
        if harness.TIER == "microvm":
            return  # the host does not see them
        running = len(self.i.box_pids())
        self.assertLessEqual(running, 20)
        self.assertGreater(running, 10)

    def test_others_are_not_hit(self):
        full, other = self.i.create(pids=16), self.i.create(pids=16)
        self.i.sh(full, "i=0; while [ $i -lt 100 ]; do sleep 100 & i=$((i+1)); done")
        self.assertEqual(self.i.sh(other, "true & wait; echo ok").out, "ok\n")


class Processor(harness.Case):
    def test_quota(self):
        box = self.i.create(cpus=0.5)
        w = self.i.exec_wire(box)
        began = time.monotonic()
        w.spawn(["sh", "-c", "sleep 3 & s=$!; (while :; do :; done) & a=$!; "
                 "(while :; do :; done) & b=$!; wait $s; kill $a $b; wait"])
        while True:
            kind, _, p = w.recv()
            if kind == harness.EXIT:
                break
        took = time.monotonic() - began
        used = sum(int.from_bytes(p[at:at + 8], "little") for at in (5, 13)) / 1e6
        w.close()
        self.assertLess(used / took, 0.6, f"{used:.2f} s in {took:.2f} s")
        self.assertGreater(used / took, 0.1, f"{used:.2f} s in {took:.2f} s")

    @harness.container_only("a machine's limits do not change")
    def test_weight(self):
        """Less than a processor is less of a claim to one."""
        box = self.i.create(cpus=0.25)

        def weights():
            found = [harness.read(path) for root in harness.cgroup_roots()
                     for name in ("weight", "shares")
                     for path in glob.glob(f"{root}{self.i.cgroup}/b[0-9]*/"
                                           f"cpu.{name}")]
            return {int(x) for x in found}
        self.assertTrue(weights() & {25, 256}, weights())
        r = self.i.api("PATCH", f"/v1/sandboxes/{box}", {"cpus": 2})
        self.assertEqual(r.status, 200, r)
        self.assertTrue(weights() <= {100, 1024}, weights())

    @harness.container_only("a machine's processes are not the host's")
    def test_slice(self):
        """Roles and sandboxes run when they wake up; those that have less
        than a processor when the others have had their slice."""
        release = tuple(map(int, os.uname().release.split(".")[:2]))
        if release < (6, 12):
            self.skipTest("this kernel has one time slice for everybody")
        common, = slices([1])
        ours, = slices(pid for pids in self.i.pids().values() for pid in pids)
        self.assertLess(ours, common)
        for cpus, ns in ((1, ours), (0.25, common)):
            before = set(self.i.box_pids())
            self.i.create(cpus=cpus)

            # What helped with its making is the warden's, and goes; the
            # agent's child made ahead comes.
            def settled():
                made = set(self.i.box_pids()) - before
                return len(made) >= 2 and slices(made) == {ns}
            harness.wait_for(f"a slice of {ns} ns", settled, 5 * SLOW)

    def test_count_seen_inside(self):
        box = self.i.create(cpus=1)
        self.assertEqual(self.i.sh(box, "nproc").out, "1\n")
        if os.cpu_count() >= 2:
            box = self.i.create(cpus=2)
            self.assertEqual(self.i.sh(box, "nproc").out, "2\n")
        info = self.i.sh(box, "grep -c ^processor /proc/cpuinfo").out
        self.assertTrue(info.strip().isdigit())


class Disk(harness.Case):
    def setUp(self):
        if not self.i.api("GET", "/v1/host").json["pool"].get("disk_limit", True):
            self.skipTest("this host's pool has no disk limits")

    def test_limit(self):
        box = self.i.create(disk=32 * MIB)
        p = self.i.sh(box, "dd if=/dev/zero of=/home/user/big bs=64k count=4096")
        self.assertNotEqual(p.returncode, 0)
        self.assertRegex(p.err, r"(?i)quota|no space")
        size = int(self.i.sh(box, "stat -c %s /home/user/big").out)
        self.assertLessEqual(size, 32 * MIB)
        self.assertGreater(size, 20 * MIB)

    def test_room_again_after_removal(self):
        box = self.i.create(disk=32 * MIB)
        self.i.sh(box, "dd if=/dev/zero of=/home/user/big bs=64k count=4096; sync")
        self.i.sh(box, "rm /home/user/big; sync")
        harness.wait_for("room again", lambda: self.i.sh(
            box, "dd if=/dev/zero of=/home/user/big2 bs=64k count=160").returncode
            == 0, 10 * SLOW, 0.3)

    def test_others_are_not_hit(self):
        full, other = self.i.create(disk=32 * MIB), self.i.create(disk=32 * MIB)
        self.i.sh(full, "dd if=/dev/zero of=/home/user/big bs=64k count=4096")
        p = self.i.sh(other, "dd if=/dev/zero of=/home/user/x bs=64k count=100")
        self.assertEqual(p.returncode, 0, p.err)

    def test_usage_is_told(self):
        """As the pool accounts it, which is when btrfs commits."""
        box = self.i.create(disk=64 * MIB)
        self.i.sh(box, "dd if=/dev/urandom of=/home/user/x bs=64k count=160")

        def told():
            subprocess.run(["btrfs", "filesystem", "sync", self.i.pool()],
                           check=True, capture_output=True)
            j = self.i.api("GET", f"/v1/sandboxes/{box}").json
            return j["usage"]["disk_bytes"]
        # A machine's own kernel writes when it likes to, which is soon.
        harness.wait_for("it is told", lambda: told() > 9 * MIB, 10 * SLOW, 0.5)
        used = told()
        self.assertLess(used, 20 * MIB)

    def test_full_sandbox_can_be_removed(self):
        box = self.i.create(disk=32 * MIB)
        self.i.sh(box, "dd if=/dev/zero of=/home/user/big bs=64k count=4096")
        self.i.rm(box)
        self.assertNotIn(box, self.i.ids())


class View(harness.Case):
    def test_cgroup_view(self):
        """What runtimes size themselves by: own limits, read-only."""
        box = self.i.create(memory=96 * MIB, cpus=0.5)
        text = self.i.sh(box, "cat /sys/fs/cgroup/memory.max "
                         "/sys/fs/cgroup/memory/memory.limit_in_bytes "
                         "2>/dev/null").out
        self.assertEqual([int(x) for x in re.findall(r"\d+", text)], [96 * MIB])
        p = self.i.sh(box, "for f in $(find /sys/fs/cgroup -type f); do "
                      "(echo 1 > $f) 2>/dev/null && echo wrote $f; done; true")
        self.assertEqual(p.out, "")
        names = self.i.sh(box, "cat /proc/self/cgroup").out
        self.assertNotIn(self.i.cgroup, names)


if __name__ == "__main__":
    harness.main()
