# suite: microvm
"""MicroVMs: QEMU's posture and devices against a record (microvm.golden), what
somebody can do who has taken QEMU over, and what a guest, or a client, could try
on the way to the host."""

import contextlib
import ctypes
import difflib
import errno
import json
import os
import re
import signal
import socket
import stat
import struct

import attack
import harness
from harness import SLOW
from puppet import Puppet

GOLDEN = os.path.join(attack.HERE, "microvm.golden")
STATUS = ("Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb",
          "NoNewPrivs", "Seccomp", "Seccomp_filters")
LIMITS = ("Max core file size", "Max open files", "Max locked memory",
          "Max msgqueue size")
IOCTL, PRCTL, TGKILL, DUP3, KCMP, USERFAULTFD = 16, 157, 234, 292, 312, 323  # calls
DUMPABLE, TIOCSTI, UFFDIO_API = 4, 0x5412, 0xc018aa3f
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
    second = None

    @classmethod
    def setUpClass(cls):
        cls.CONF = {"vm_dir": harness.vm_dir()}
        super().setUpClass()
        try:
            cls.canaries = attack.Canaries()
            cls.addClassCleanup(cls.canaries.close)
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
    def monitor(self, box=None):
        m = Monitor(f"{self.i.run_dir}/box/{box or self.box}/qmp.sock")
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
        for name in ("dev", "usr", "usr/bin", "usr/lib", "usr/share"):
            yield f"{name} {' '.join(sorted(os.listdir(f'{root}/{name}')))}"

    def devices(self):
        with self.monitor() as m:
            tree = m.ask("human-monitor-command",
                         **{"command-line": "info qtree"})["return"]
        seen = re.findall(r"^\s*dev: ([\w-]+)", tree, re.M)
        for name in sorted(set(seen)):
            # Places for devices; how many there are is QEMU's affair.
            n = "" if name == "virtio-mmio" else f" {seen.count(name)}"
            yield f"device {name}{n}"

    def lines(self):
        with self.monitor() as m:
            for x in m.ask("query-chardev")["return"]:
                where = re.sub(r"^.*server=on$", "listens", x["filename"])
                where = re.sub(r"^unix:.*", "listens", where)
                yield f"line {x['label']} {where}"
            pci = m.ask("human-monitor-command",
                        **{"command-line": "info pci"})["return"]
            yield f"pci {' '.join(pci.split()) or 'none'}"
            yield f"network {m.ask('query-rx-filter')['return']}"

    def test_record(self):
        """L1, L3, L6: exact, so that nothing is added without a look."""
        got = [*self.posture(), *self.devices(), *sorted(self.lines())]
        want = harness.read(GOLDEN).splitlines()
        want = [line for line in want if line and not line.startswith("#")]
        # Before 6.7 the kernel does not tell, and nothing is in that place.
        if tuple(map(int, os.uname().release.split(".")[:2])) < (6, 7):
            want.remove("fd anon_inode:[userfaultfd]")
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

    # -- taken over: what a guest has who breaks out of its devices

    @contextlib.contextmanager
    def another(self):
        """A machine that is for breaking: its id, and its QEMU."""
        before = set(self.i.box_pids())
        box = self.i.create(tier="microvm", memory="64M")
        try:
            yield box, next(p for p in set(self.i.box_pids()) - before if "qemu" in
                            harness.read(f"/proc/{p}/comm", ""))
        finally:
            r = self.i.api("DELETE", f"/v1/sandboxes/{box}")
            self.assertIn(r.status, (200, 204, 410), r)

    @classmethod
    def victim(cls):
        """Another one, which stays: its id, and its QEMU."""
        if cls.second is None:
            before = set(cls.i.box_pids())
            box = cls.i.create(tier="microvm", memory="64M")
            cls.second = box, next(
                p for p in set(cls.i.box_pids()) - before if "qemu" in
                harness.read(f"/proc/{p}/comm", ""))
        return cls.second

    def refused(self, p, rows):
        for want, call, *args in rows:
            self.assertIn(p.error(call, *args), want.split("|"), (call, args))

    def test_taken_files(self):
        """It sees its own few, and writes to none but its disk."""
        i = self.i
        theirs = [f"{i.run_dir}/box/{self.box}/{n}" for n in
                  ("agent.sock", "qmp.sock", "console")]
        paths = ["/etc/passwd", "/usr/bin/python3", "/usr/share/doc", "/sys", "/run",
                 "/pool", "/dev/kvm", "/dev/mem", "/proc/stat", "/proc/sys/kernel",
                 "/proc/kallsyms", i.state_dir, f"{i.state_dir}/pool.img", i.config,
                 self.canaries.flag, f"/dev/shm/{self.canaries.shm}",
                 f"/proc/{self.canaries.process.pid}/environ", *theirs]
        create = os.O_RDWR | os.O_CREAT
        with Puppet(self.victim()[1]) as p:
            fd = p.call("openat", -100, "/", os.O_RDONLY | os.O_DIRECTORY)
            self.refused(p, [("EPERM", "getdents64", fd, bytes(4096), 4096),
                             ("ENOENT", "openat", fd, "../" * 12 + "etc/passwd",
                              os.O_RDONLY)])
            p.call("close", fd)
            for path in paths:
                self.refused(p, [("ENOENT|EACCES", "openat", -100, path, os.O_RDONLY),
                                 ("ENOENT|EACCES", "openat", -100, path, os.O_RDWR)])
            self.refused(p, [
                ("EROFS|EACCES", "openat", -100, "/vm/initrd", os.O_RDWR),
                ("EROFS|EACCES", "openat", -100, "/usr/lib64/ld-linux-x86-64.so.2",
                 os.O_RDWR),
                ("EACCES", "openat", -100, "/dev/null", os.O_WRONLY),
                *(("EACCES", "openat", -100, path, create, 0o600)
                  for path in ("/x", "/dev/x", "/vm/x", "/proc/self/fd/1"))])
            self.refused(p, [("EPERM", "unlink", "/vm/initrd"),
                             ("EPERM", "rename", "/vm/initrd", "/vm/x"),
                             ("EPERM", "open", "/dev/null", os.O_RDONLY)])
            self.memory_is_sealed(p)

    def memory_is_sealed(self, p):
        """What all of its kind start from, and the image."""
        fds = {os.readlink(f"/proc/{p.pid}/fd/{n}"): int(n)
               for n in os.listdir(f"/proc/{p.pid}/fd")}
        ram = next(n for to, n in fds.items() if "memfd:" in to)
        base = next(n for to, n in fds.items() if to.endswith("/base"))
        self.refused(p, [
            ("EPERM", "write", ram, "x", 1), ("EPERM", "ftruncate", ram, 0),
            ("EPERM|EACCES", "mmap", 0, 4096, 3, 1, ram, 0),  # shared, writable
            ("EBADF|EINVAL", "write", base, "x", 1),
            ("EBADF|EINVAL", "ftruncate", base, 0),
            # Nor by another way to the same file.
            ("EACCES|EROFS|EPERM", "openat", -100, f"/proc/self/fd/{base}",
             os.O_RDWR)])

    def test_taken_calls(self):
        """What is refused, and it goes on."""
        box, pid = self.victim()
        process = self.canaries.process.pid
        with Puppet(pid) as p:
            self.refused(p, [
                ("EPERM", "fchmod", 0, 0o777), ("EPERM", PRCTL, DUMPABLE, 1),
                ("EPERM", IOCTL, 0, TIOCSTI, "x"), ("EPERM", DUP3, 0, 9, 0),
                ("EPERM", IOCTL, 0, UFFDIO_API, bytes(24)),
                ("ENOSYS", "clone3", bytes(88), 88),
                ("ENOSYS|EPERM", "io_uring_setup", 1, bytes(120)),
                ("ENOSYS", "memfd_create", "x", 0),
                ("EPERM", TGKILL, 2, 2, signal.SIGKILL),
                ("EPERM", TGKILL, process, process, signal.SIGKILL),
                ("EPERM", "openat2", -100, "/", bytes(24), 24),
                ("ENOSYS", 511)])
        self.assertEqual(self.i.sh(box, "echo alive").out, "alive\n")

    def test_taken_and_ended(self):
        """What ends it: nobody but an attacker would ask."""
        for call, *args in (("socket", 1, 1, 0), (USERFAULTFD, 0x80801),
                            ("kill", self.canaries.process.pid, 9),
                            ("execve", "/usr/bin/qemu-system-x86_64", 0, 0)):
            with self.subTest(call), self.another() as (box, pid):
                self.assertEqual(Puppet(pid).error(call, *args), "SIGSYS")
                harness.wait_for("its end is told", lambda: self.i.api(
                    "GET", f"/v1/sandboxes/{box}").json.get("state") == "ended",
                    10 * SLOW)
        self.assertEqual(self.canaries.touched(), [])

    def test_taken_floods(self):
        """L8: its console as fast as it can be written to. A machine that
        restarts has ended: there is no loop of these."""
        self.assertIn("-no-reboot", self.words())
        warden = self.i.pids()["carrel-warden"][0]

        def size():
            return int(attack.status(warden)["VmRSS"].split()[0])
        box, pid = self.victim()
        before, sent = size(), 0
        with Puppet(pid) as p:
            at = p.put(b"flood\n" * 10000)
            for n in range(300):
                sent += max(p.raw("write", 1, at, 60000), 0)
                if n % 50 == 0:
                    self.assertEqual(self.i.api("GET", "/v1/host").status, 200)
        self.assertGreater(sent, 1 << 20)
        self.assertLess(size() - before, 2048, "KiB more of the warden")
        self.assertEqual(self.i.sh(box, "echo alive").out, "alive\n")

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

    def test_a_disk_that_says_it_is_another_format(self):
        """L4: what a guest's kernel can write before its file system."""
        with self.another() as (box, pid):
            self.i.sh(box, "echo kept > /home/user/x; sync")
            disk = next(f"/proc/{pid}/fd/{n}" for n in os.listdir(f"/proc/{pid}/fd")
                        if os.readlink(f"/proc/{pid}/fd/{n}").endswith("/disk"))
            name = self.canaries.flag.encode()
            head = struct.pack(">4sIQIIQ", b"QFI\xfb", 2, 104, len(name), 16,
                               1 << 26) + bytes(72)
            with open(disk, "r+b") as f:
                f.write(head + name)
            for step in ("pause", "resume"):  # another QEMU opens it
                r = self.i.api("POST", f"/v1/sandboxes/{box}/{step}", {},
                               timeout=60 * SLOW)
                self.assertEqual(r.status, 200, r)
            self.assertFalse(os.path.exists(f"/proc/{pid}/exe"))
            self.assertEqual(self.i.sh(box, "cat /home/user/x").out, "kept\n")
            with self.monitor(box) as m:
                blocks = m.ask("query-block")["return"]
                disk = next(f"/proc/{pid}/fd/{n}" for pid in self.i.box_pids()
                            for n in os.listdir(f"/proc/{pid}/fd") if re.search(
                                f"{box}/(tree/)?disk$",
                                os.readlink(f"/proc/{pid}/fd/{n}")))
            with open(disk, "rb") as f:
                self.assertEqual(f.read(4), b"QFI\xfb")
            found = [b["inserted"] for b in blocks]
            self.assertEqual([(b["drv"], b.get("backing_file")) for b in found],
                             [("raw", None)] * 2)
        self.assertEqual(self.canaries.touched(), [])

    def test_memory_is_its_own(self):
        """L11, L13: no page of it is merged with another's because it is the
        same, and none is in a dump."""
        maps = harness.read(f"/proc/{self.pid}/smaps").split("VmFlags: ")
        ram = [flags.split("\n")[0].split() for before, flags in
               zip(maps, maps[1:]) if "memfd:memory" in before.split("Size:")[0]]
        self.assertTrue(ram)
        for flags in ram:
            self.assertNotIn("mg", flags)
            self.assertIn("dd", flags)

    def test_no_open_file_of_another(self):
        """One that two have is a word between them: its offset, its flags."""
        libc = ctypes.CDLL(None, use_errno=True)
        pids = [self.pid, self.victim()[1]]
        ours, theirs = ([int(n) for n in os.listdir(f"/proc/{pid}/fd")]
                        for pid in pids)

        def same(a, b):  # KCMP_FILE
            r = libc.syscall(KCMP, pids[0], pids[1], 0, a, b)
            error = ctypes.get_errno()
            if r < 0 and error != errno.EBADF:  # closed since
                raise OSError(error, "kcmp")
            return r == 0
        shared = [os.readlink(f"/proc/{pids[0]}/fd/{a}")
                  for a in ours for b in theirs if same(a, b)]
        self.assertEqual(shared, [])

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
    attack.own_network()
    harness.main()
