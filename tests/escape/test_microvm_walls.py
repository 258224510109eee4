# suite: microvm
"""MicroVMs: QEMU's posture and devices against a record (microvm.golden), and
what a guest, or a client, could try on the way to the host."""

import contextlib
import difflib
import json
import os
import re
import socket
import stat
import unittest

import attack
import harness
from harness import SLOW

GOLDEN = os.path.join(attack.HERE, "microvm.golden")
STATUS = ("Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb",
          "NoNewPrivs", "Seccomp")
LIMITS = ("Max core file size", "Max open files", "Max locked memory",
          "Max msgqueue size")
SPACES = ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts")


class Monitor:
    """QEMU's own monitor, as the warden uses it."""

    def __init__(self, path):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(20 * SLOW)
        self.sock.connect(path)
        self.file = self.sock.makefile("r")
        json.loads(self.file.readline())
        self.ask("qmp_capabilities")

    def ask(self, what, **args):
        self.sock.sendall(json.dumps({"execute": what, "arguments": args})
                          .encode() + b"\n")
        while True:
            got = json.loads(self.file.readline())
            if "return" in got or "error" in got:
                return got

    def close(self):
        self.file.close()
        self.sock.close()


def kind_of(path):
    """What a descriptor is, without what is particular to this run."""
    path = re.sub(r"socket:\[\d+\]", "socket", path)
    path = re.sub(r"^/pool/images/\w+/", "{image}/", path)
    path = re.sub(r"^.*/box/\w+/(tree/)?", "{box}/", path)
    return path.replace(" (deleted)", "")


class Walls(harness.Case):
    @classmethod
    def setUpClass(cls):
        cls.CONF = {"vm_dir": harness.vm_dir()}
        super().setUpClass()
        try:
            cls.box = cls.i.create(tier="microvm", name="vm", memory="64M")
            cls.pid = next(p for p in cls.i.box_pids() if "qemu" in
                           harness.read(f"/proc/{p}/comm", ""))
        except BaseException:
            cls.i.stop(check=False)
            raise

    def tearDown(self):
        pass

    def words(self):
        with open(f"/proc/{self.pid}/cmdline") as f:
            return f.read().split("\0")

    @contextlib.contextmanager
    def monitor(self):
        m = Monitor(f"{self.i.run_dir}/box/{self.box}/qmp.sock")
        try:
            yield m
        finally:
            m.close()

    # -- the record

    def posture(self):
        status = dict(line.split(":\t", 1) for line in
                      harness.read(f"/proc/{self.pid}/status").splitlines()
                      if ":\t" in line)
        yield from (f"{k} {status[k].strip()}".rstrip() for k in STATUS)
        for name in SPACES:
            own = os.readlink(f"/proc/{self.pid}/ns/{name}") != \
                os.readlink(f"/proc/self/ns/{name}")
            yield f"ns {name} {'own' if own else 'OF THE HOST'}"
        for line in harness.read(f"/proc/{self.pid}/limits").splitlines():
            if line.startswith(LIMITS):
                yield "limit " + " ".join(line.split()[1:-2])
        for line in harness.read(f"/proc/{self.pid}/mountinfo").splitlines():
            f = line.split()
            yield f"mount {f[4]} {f[5].replace(',relatime', '')}"
        fds = {kind_of(os.readlink(f"/proc/{self.pid}/fd/{n}"))
               for n in os.listdir(f"/proc/{self.pid}/fd")}
        yield from (f"fd {x}" for x in sorted(fds))
        root = f"/proc/{self.pid}/root"
        yield f"root {' '.join(sorted(os.listdir(root)))}"
        yield f"dev {' '.join(sorted(os.listdir(root + '/dev')))}"

    def devices(self):
        with self.monitor() as m:
            tree = m.ask("human-monitor-command",
                         **{"command-line": "info qtree"})["return"]
        seen = re.findall(r"^\s*dev: ([\w-]+)", tree, re.M)
        for name in sorted(set(seen)):
            # Places for devices; how many there are is QEMU's affair.
            n = "" if name == "virtio-mmio" else f" {seen.count(name)}"
            yield f"device {name}{n}"

    def test_record(self):
        """L1, L3, L6: exact, so that nothing is added without a look."""
        got = [*self.posture(), *self.devices()]
        want = harness.read(GOLDEN).splitlines()
        want = [line for line in want if line and not line.startswith("#")]
        if os.environ.get("ESCAPE_RECORD"):
            print("\n".join(got))
        self.assertEqual(got, want, "\n" + "\n".join(
            difflib.unified_diff(want, got, "record", "now", lineterm="")))

    def test_its_ids_are_nobody_elses(self):
        ids = [int(x) for x in re.search(
            r"Uid:\t(.*)", harness.read(f"/proc/{self.pid}/status"))[1].split()]
        self.assertEqual(len(set(ids)), 1)
        base = int(self.i.conf["uid_base"])
        self.assertTrue(base <= ids[0] < base + int(self.i.conf["uid_count"]))

    # -- what it is told

    def test_disks_are_raw(self):
        """L4: no format is guessed from what a guest wrote."""
        words = self.words()
        self.assertNotIn("-drive", words)
        self.assertNotIn("-hda", words)
        disks = [words[n + 1] for n, w in enumerate(words) if w == "-blockdev"]
        self.assertEqual(len(disks), 2)
        for disk in disks:
            self.assertTrue(disk.startswith("driver=raw,"), disk)

    def test_no_words_of_a_client(self):
        """L14: what a client says is on no command line."""
        for name in ("init=/bin/sh", "a b", "x,driver=qcow2", "vm\nroot", "-snapshot"):
            r = self.i.api("POST", "/v1/sandboxes",
                           {"tier": "microvm", "name": name})
            self.assertEqual(r.status, 400, (name, r))
        r = self.i.api("PATCH", f"/v1/sandboxes/{self.box}",
                       {"labels": {"k": "init=/bin/sh"}})
        self.assertEqual(r.status, 200, r)
        self.assertNotIn("init=", " ".join(self.words()))

    def test_monitor_is_the_wardens(self):
        """L12: only root reaches it."""
        for name in ("qmp.sock", "control.sock", "door.sock"):
            st = os.stat(f"{self.i.run_dir}/box/{self.box}/{name}")
            self.assertEqual((st.st_uid, stat.S_IMODE(st.st_mode)), (0, 0o600), name)
        words = self.words()
        for way in ("-gdb", "-s", "-monitor", "-vnc", "-spice"):
            self.assertNotIn(way, words)

    def test_no_dump_of_memory(self):
        """L13."""
        self.assertIn("dump-guest-core=off", ",".join(self.words()))

    # -- inside

    def test_no_nested_virtualisation(self):
        """L9."""
        flags = self.i.sh(self.box, "grep -m1 ^flags /proc/cpuinfo").out.split()
        self.assertIn("sse2", flags)
        self.assertFalse({"vmx", "svm"} & set(flags))
        self.assertNotEqual(self.i.sh(self.box, "ls /dev/kvm").returncode, 0)

    def test_no_lines_of_the_host(self):
        """A sandbox sees neither ports nor disks of its machine."""
        p = self.i.sh(self.box, "ls /dev; sudo sh -c 'mknod /tmp/d b 254 16 && "
                                "head -c1 /tmp/d'")
        self.assertFalse([x for x in p.out.split() if x.startswith(("vd", "vport"))])
        self.assertNotEqual(p.returncode, 0)

    def test_two_are_not_twins(self):
        """L10: what is random in one is not in the other."""
        other = self.i.create(tier="microvm", memory="64M")
        ask = "cat /proc/sys/kernel/random/uuid; head -c 16 /dev/urandom | md5sum"
        a, b = (self.i.sh(x, ask).out.split() for x in (self.box, other))
        self.assertEqual(len(a), len(b))
        self.assertFalse((set(a) - {"-"}) & (set(b) - {"-"}))
        self.i.rm(other)


if __name__ == "__main__":
    harness.main()
