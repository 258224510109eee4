# suite: slow
# suite: both
"""Cycles of create, exec, remove: nothing grows. `make soak` does 5000."""

import os
import subprocess
import time
import unittest

import harness
from harness import wait_for

VM = harness.TIER == "microvm"
CYCLES = int(os.environ.get("SOAK_CYCLES", "20" if VM else "200"))
WARM_UP = 5 if VM else 50


def whole(look):
    """The result of look(), taken while no process that it reads ends: the
    warden's helpers come and go."""
    while True:
        try:
            return look()
        except (FileNotFoundError, ProcessLookupError):
            time.sleep(0.05)


class Leaks(harness.Case):
    CONF = {"log_level": "info", "spares": 2}

    def count(self):
        """What could grow, after things have settled."""
        have = {}
        for name, pids in self.i.pids().items():
            have[f"processes of {name}"] = len(pids)
            have[f"descriptors of {name}"] = sum(
                len(os.listdir(f"/proc/{p}/fd")) for p in pids)
        # The warden's own mount namespace; the others share the host's.
        for p in self.i.pids()["carrel-warden"]:
            have["mounts of the warden"] = len(
                harness.read(f"/proc/{p}/mountinfo").splitlines())
        have["mounts"] = len(self.i.mounts())
        have["cgroups"] = len(self.i.cgroups())
        have["run directories"] = len(os.listdir(f"{self.i.run_dir}/box"))
        have["sandboxes' processes"] = len(self.i.box_pids())
        for sub in ("box", "trash", "stage") + ("vm",) * VM:
            have[f"pool {sub}"] = len(os.listdir(f"{self.i.pool()}/{sub}"))
        for fs in os.listdir("/sys/fs/btrfs") if os.path.isdir("/sys/fs/btrfs") else ():
            groups = f"/sys/fs/btrfs/{fs}/qgroups"
            devices = f"/sys/fs/btrfs/{fs}/devices"
            mine = {os.path.basename(x) for x in self.i.loops()}
            if os.path.isdir(groups) and mine & set(os.listdir(devices)):
                have["qgroups"] = len(os.listdir(groups))
        return have

    def memory(self):
        """Memory of the roles in KiB; what processes of one role share counts
        once."""
        total = 0
        for pids in self.i.pids().values():
            for p in pids:
                for line in harness.read(f"/proc/{p}/smaps_rollup").splitlines():
                    if line.startswith("Pss_Anon:"):
                        total += int(line.split()[1])
        return total

    def cycle(self, n):
        for _ in range(n):
            box = self.i.create()
            w = self.i.exec_wire(box)
            w.spawn(["sh", "-c", "echo x > /home/user/f; echo hi"])
            code, out, _ = w.finish()
            w.close()
            self.assertEqual((code, out), (0, b"hi\n"))
            self.i.rm(box)

    def hurry(self):
        """Volumes go in the background: the kernel is told to be quick."""
        for what in ("filesystem", "subvolume"):
            subprocess.run(["btrfs", what, "sync", self.i.pool()],
                           capture_output=True, timeout=120)

    def settled(self, before=None):
        """The counts when nothing changes and no volume waits any more; given
        those of before, when they are reached or time is up."""
        last = None
        end = time.monotonic() + 90
        while time.monotonic() < end:
            self.hurry()
            now = whole(self.count)
            if not now["pool trash"] and (
                    not self.grown(before, now) if before else now == last):
                break
            last = now
            time.sleep(1)
        return now

    def grown(self, before, after):
        return {k: (before.get(k), v) for k, v in after.items()
                if v > before.get(k, 0) + (4 if k == "qgroups" else 0)}

    def test_nothing_grows(self):
        self.cycle(WARM_UP)
        before, mem = self.settled(), whole(self.memory)
        began = time.monotonic()
        self.cycle(CYCLES)
        took = time.monotonic() - began
        after, mem_after = self.settled(before), whole(self.memory)
        print(f"# {CYCLES} cycles, {1000 * took / CYCLES:.1f} ms each; "
              f"memory {mem} -> {mem_after} KiB; {after}")
        self.assertEqual(self.grown(before, after), {})
        self.assertLess(mem_after - mem, 1024 + CYCLES // 10, "memory of the roles")

    def test_failures_leave_nothing(self):
        before = self.settled()
        for _ in range(30):
            self.i.api("POST", "/v1/sandboxes", {"image": "nowhere"})
            self.i.api("PUT", "/v1/images/broken", os.urandom(5000))
            self.i.api("POST", "/v1/sandboxes", b"{")
        self.assertEqual(self.grown(before, self.settled(before)), {})


if __name__ == "__main__":
    harness.main()
