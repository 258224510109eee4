# suite: slow
# suite: microvm
"""MicroVMs with their memory: snapshots, rollbacks, forks and pauses in which
processes go on, and disk and memory are of one moment."""

import os
import threading
import time
import unittest

import harness
from harness import SLOW, wait_for

BOOT = 60 * SLOW  # emulated, beside other tests

# Counts on the disk and in memory at once: one is ahead of the other by one
# at most, in any state that is of one moment.
COUNT = ("i=0; while :; do i=$((i+1)); echo $i > /dev/shm/n.new;"
         "mv /dev/shm/n.new /dev/shm/n; echo $i > /home/user/n.new;"
         "mv /home/user/n.new /home/user/n; sleep 0.02; done")


QEMUS = ("/usr/bin/qemu-system-x86_64", "/usr/bin/qemu-system-x86_64-microvm")


class State(harness.Case):
    @classmethod
    def setUpClass(cls):
        cls.CONF = {"vm_dir": harness.vm_dir()}
        super().setUpClass()

    def make(self, count=True):
        box = self.i.create(tier="microvm", cpus=2, memory="64M", disk="64M")
        if count:
            p = self.sh(box, f"({COUNT}) > /dev/null 2>&1 & "
                             "echo $! > /dev/shm/counter")
            self.assertEqual(p.returncode, 0, p.err)
            wait_for("it counts", lambda: self.count(box) > 2, BOOT)
        return box

    def sh(self, box, script):
        return self.i.sh(box, script, timeout=BOOT)

    def count(self, box):
        p = self.sh(box, "cat /dev/shm/n /home/user/n")
        if p.returncode:
            return 0
        memory, disk = map(int, p.out.split())
        self.assertIn(memory - disk, (-1, 0, 1), "disk and memory do not fit")
        return memory

    def goes_on(self, box):
        n = self.count(box)
        wait_for("it goes on", lambda: self.count(box) > n, BOOT)
        return n

    def api(self, path, body=None, want=(200, 201)):
        r = self.i.api("POST", f"/v1/sandboxes/{path}", body or {}, timeout=BOOT)
        self.assertIn(r.status, want, r)
        return r.json

    def files(self, kind, name):
        return set(os.listdir(f"{self.i.pool()}/{kind}/{name}/tree"))

    def qemus(self):
        return [p for p in self.i.box_pids()
                if "qemu" in harness.read(f"/proc/{p}/comm", "")]

    def test_rollback_brings_processes_back(self):
        box = self.make()
        snap = self.api(f"{box}/snapshots", {"name": "before"})
        self.assertGreater(snap["pause_us"], 0)
        # It went on before it was copied: the disk of then is another file,
        self.assertIn("held", self.files("snap", snap["id"]))
        self.assertNotIn("held", self.files("box", box))
        self.goes_on(box)
        self.sh(box, "echo changed > /home/user/x; echo changed > /dev/shm/x; "
                     "kill -9 $(cat /dev/shm/counter)")
        self.api(f"{box}/rollback", {"snapshot": "before"})
        # which is the one that is gone back to.
        self.assertNotIn("held", self.files("box", box))
        self.goes_on(box)
        p = self.sh(box, "ls /home/user/x /dev/shm/x")
        self.assertNotEqual(p.returncode, 0, p.out)
        # And once more: the state is not used up.
        self.api(f"{box}/rollback", {"snapshot": "before"})
        self.goes_on(box)

    def test_forks_go_on_as_others(self):
        box = self.make()
        got = self.api(f"{box}/fork", {"count": 2})
        forks = [s["id"] for s in got["sandboxes"]]
        machines = [box] + forks
        for m in machines:
            self.goes_on(m)
        names = [self.sh(m, "hostname").out for m in machines]
        self.assertEqual(len(set(names)), 3, names)
        rnd = [self.sh(m, "head -c 16 /dev/urandom | od -An -tx1; "
                          "cat /proc/sys/kernel/random/uuid").out
               for m in machines]
        self.assertEqual(len(set(rnd)), 3, rnd)
        for m in machines:
            t = float(self.sh(m, "date +%s").out)
            self.assertLess(abs(time.time() - t), 1 + 5 * SLOW)

    def kvm_works(self, yes):
        """A new daemon, that believes so where there is a file to try."""
        self.i.end_daemon()
        self.i.conf["microvm"] = "auto" if yes else "emulated"
        if yes:
            stamp = [os.uname().release]
            for path in (*QEMUS, f"{self.i.conf['vm_dir']}/vmlinux"):
                st = os.stat(path) if os.path.exists(path) else None
                stamp.append(f"{st.st_size}.{int(st.st_mtime)}" if st else "0.0")
            with open(f"{self.i.state_dir}/kvm", "w") as f:
                f.write(f"{' '.join(stamp)}\nyes\n")
        self.i.start()
        host = self.i.api("GET", "/v1/host").json["microvm"]
        self.assertEqual(host["isolation"], "vm" if yes else "emulated", host)

    def test_pause_is_on_disk(self):
        box = self.make()
        n = self.count(box)
        before = len(self.qemus())
        self.assertEqual(self.api(f"{box}/pause")["state"], "suspended")
        self.assertLess(len(self.qemus()), before)
        self.i.restart()
        self.api(f"{box}/resume")
        self.assertGreaterEqual(self.goes_on(box), n)
        # What only keeps the disk starts anew.
        self.api(f"{box}/pause", {"disk_only": True})
        self.api(f"{box}/resume")
        p = self.sh(box, "cat /home/user/n; ls /dev/shm")
        self.assertGreater(int(p.out), n)
        self.assertEqual(len(p.out.split()), 1, p.out)

    @unittest.skipUnless(os.path.exists("/dev/kvm"), "there is no /dev/kvm")
    def test_kvm_is_found_later(self):
        """What was emulated goes on so, where new ones have KVM."""
        self.kvm_works(False)
        box = self.make()
        n = self.count(box)
        self.api(f"{box}/pause")
        self.kvm_works(True)
        try:
            self.api(f"{box}/resume")
            self.assertGreaterEqual(self.goes_on(box), n)
            r = self.i.api("GET", f"/v1/sandboxes/{box}")
            self.assertEqual(r.json["isolation"], "emulated", r)
            # And so does what is made of it.
            fork = self.api(f"{box}/fork", {"count": 1})["sandboxes"][0]["id"]
            self.assertGreaterEqual(self.goes_on(fork), n)
        finally:
            self.kvm_works(False)

    def test_killed_while_it_is_saved(self):
        """Whoever has it stand still dies: it goes on."""
        box = self.make()
        done = threading.Event()

        def ask():
            try:
                self.i.api("POST", f"/v1/sandboxes/{box}/snapshots", {},
                           timeout=BOOT)
            except OSError:
                pass
            done.set()
        t = threading.Thread(target=ask)
        t.start()
        time.sleep(0.1)
        self.i.kill_role("carrel-warden")
        done.wait(BOOT)
        t.join()
        self.i.wait_ready()
        self.goes_on(box)
        self.nothing_left(box)
        # A disk that was put aside is not the machine's: it wrote since.
        for name in ("held", "held.new"):
            with open(f"{self.i.pool()}/box/{box}/tree/{name}", "w"):
                pass
        self.i.kill_role("carrel-warden")
        self.i.wait_ready()
        self.nothing_left(box)
        self.goes_on(box)
        self.api(f"{box}/snapshots", {"name": "after"})

    def nothing_left(self, box):
        self.assertFalse(self.files("box", box) & {
            "shape", "changed", "devices", "held", "held.new"})


if __name__ == "__main__":
    harness.main()
