# suite: microvm
"""Sandboxes of the tier microvm: the same product with a kernel of its own."""

import hashlib
import os
import re
import secrets
import signal
import struct

import harness
from harness import SLOW, wait_for

BOOT = 60 * SLOW  # emulated, beside other tests


def kernel():
    """The release of the guests' kernel."""
    name = harness.read(os.path.join(harness.vm_dir(), "version")).split()[0]
    return name.replace("linux-image-", "")


class Machine(harness.Case):
    """One machine for many tests: only those that end it make their own."""

    @classmethod
    def setUpClass(cls):
        cls.CONF = {"vm_dir": harness.vm_dir()}
        super().setUpClass()
        try:
            cls.box = cls.make(name="vm", cpus=2, memory="64M", disk="64M", pids=96)
        except BaseException:
            cls.i.stop(check=False)
            raise

    def tearDown(self):
        pass

    @classmethod
    def make(cls, **spec):
        box = cls.i.create(tier="microvm", **spec)
        p = cls.i.sh(box, "true", timeout=BOOT)
        if p.returncode:
            raise AssertionError(f"the machine does not answer: {p.err}")
        return box

    def sh(self, script):
        return self.i.sh(self.box, script, timeout=BOOT)

    def qemu(self, pid):
        return "qemu" in harness.read(f"/proc/{pid}/comm", "")

    # -- the same product

    def test_its_own_kernel(self):
        self.assertEqual(self.sh("uname -r").out.strip(), kernel())
        self.assertNotEqual(kernel(), os.uname().release)
        self.assertEqual(self.sh("hostname").out, "vm\n")
        self.assertTrue(all(map(self.qemu, self.i.box_pids())))

    def test_exit_codes_and_streams(self):
        self.assertEqual(self.sh("exit 7").returncode, 7)
        self.assertEqual(self.sh("kill -9 $$").returncode, 128 + signal.SIGKILL)
        p = self.sh("echo out; echo err >&2")
        self.assertEqual((p.out, p.err), ("out\n", "err\n"))
        data = secrets.token_bytes(300000)
        p = self.i.cli("exec", "-i", self.box, "--", "cat", input=data,
                       timeout=BOOT)
        self.assertEqual(p.stdout, data)

    def test_much_output(self):
        """More than all windows on the way hold."""
        w = self.i.exec_wire(self.box)
        w.spawn(["sh", "-c", "yes carrel | head -c 3000000 | tee /tmp/y;"
                             "md5sum < /tmp/y >&2"])
        code, out, err = w.finish()
        w.close()
        self.assertEqual((code, len(out)), (0, 3000000))
        self.assertEqual(err.split()[0].decode(), hashlib.md5(out).hexdigest())

    def test_terminal(self):
        w = self.i.exec_wire(self.box)
        w.spawn(["sh", "-c", "tty; stty size; read x; echo =$x"],
                flags=harness.SPAWN_PTY | harness.SPAWN_STDIN, rows=33, cols=77)
        w.send(harness.INPUT, 1, struct.pack("<Q", 0) + b"typed\r")
        code, out, _ = w.finish()
        w.close()
        self.assertEqual(code, 0, out)
        for want in (b"/dev/pts/", b"33 77", b"=typed"):
            self.assertIn(want, out)

    def test_files(self):
        data = secrets.token_bytes(1 << 20)
        path = f"/v1/sandboxes/{self.box}/files/content?path=/home/user/data"
        r = self.i.api("PUT", path, data)
        self.assertIn(r.status, (200, 201, 204), r)
        self.assertEqual(self.sh("md5sum < /home/user/data").out.split()[0],
                         hashlib.md5(data).hexdigest())
        self.assertEqual(self.i.api("GET", path).body, data)

    def test_users(self):
        self.assertEqual(self.sh("id -un; sudo id -u").out, "user\n0\n")
        # Root of the sandbox is not root of its kernel.
        p = self.sh("sudo sh -c 'echo c > /proc/sysrq-trigger'; echo $?")
        self.assertNotEqual(p.out, "0\n")
        self.assertEqual(self.sh("sudo dmesg").returncode, 1)

    def test_no_way_out(self):
        self.assertEqual(self.sh("cut -d: -f1 /proc/net/dev | tail -n +3").out
                         .split(), ["lo"])

    # -- limits

    def test_processors_and_memory(self):
        self.assertEqual(self.sh("nproc").out, "2\n")
        total = int(re.search(r"MemTotal:\s+(\d+)",
                              self.sh("cat /proc/meminfo").out)[1]) << 10
        self.assertLess(total, 128 << 20)
        # The hog dies and nothing else does.
        p = self.sh("x=0123456789abcdef; while :; do x=$x$x; done")
        self.assertEqual(p.returncode, 137, p.err)
        self.assertEqual(self.sh("echo here").out, "here\n")

    def test_disk_is_bounded(self):
        p = self.sh("dd if=/dev/zero of=/home/user/big bs=1M count=70; "
                    "rm /home/user/big; echo more > /home/user/more && echo room")
        self.assertIn("No space left", p.err)
        self.assertEqual(p.out, "room\n")

    def test_many_processes(self):
        p = self.sh("i=0; while [ $i -lt 100 ]; do sleep 30 & i=$((i+1)); done")
        self.assertIn("fork", p.err)
        self.sh("killall sleep")
        self.assertEqual(self.sh("echo here").out, "here\n")

    # -- its life

    def test_told_to_those_who_ask(self):
        b = self.i.api("GET", f"/v1/sandboxes/{self.box}").json
        self.assertEqual(b["spec"]["tier"], "microvm")
        self.assertIn("microvm", self.i.cli("inspect", "vm", check=0).out)
        self.assertIn("vm", self.i.cli("ls", check=0).out)
        r = self.i.api("POST", "/v1/sandboxes", {"tier": "cloud"})
        self.assertEqual(r.status, 400, r)
        self.assertIn("microvm", r.json["message"])

    def test_run_ends_with_its_machine(self):
        before = set(self.i.box_pids())
        p = self.i.cli("run", "--tier", "microvm", "--", "sh", "-c",
                       "uname -r; exit 5", timeout=BOOT)
        self.assertEqual((p.returncode, p.out.strip()), (5, kernel()), p.err)
        wait_for("its QEMU is gone",
                 lambda: set(self.i.box_pids()) <= before, 10 * SLOW)

    def test_killed_from_outside(self):
        box = self.make()
        mine = [p for p in self.i.box_pids() if self.i_of(p) == box]
        self.assertTrue(mine)
        os.kill(mine[0], signal.SIGKILL)
        wait_for("it has ended", lambda: box not in self.i.ids(), 10 * SLOW)
        self.assertEqual(self.sh("echo here").out, "here\n")

    def i_of(self, pid):
        """The sandbox that a QEMU belongs to, by its command line."""
        m = re.search(r"-name\0(\w+)", harness.read(f"/proc/{pid}/cmdline", ""))
        return m and m[1]


class Roles(Machine):
    """kill -9 of any role: machines go on, and are found again."""

    def test_they_go_on(self):
        self.i.cli("exec", "-d", self.box, "--", "sh", "-c",
                   "while :; do echo >> /tmp/tick; sleep 0.05; done", check=0)
        wait_for("its command runs", lambda: self.sh(
            "test -s /tmp/tick").returncode == 0, BOOT, 0.1)
        before = set(self.i.box_pids())
        for role in ("carrel-api", "carrel-warden", "carreld"):
            with self.subTest(role):
                pid = self.i.kill_role(role)
                if role == "carreld":
                    self.i.daemon.wait()
                    wait_for("the roles have ended", lambda: not self.i.pids(),
                             10 * SLOW)
                    self.i.start()
                else:
                    wait_for(f"a new {role}", lambda: self.i.pids().get(
                        role, [pid]) != [pid] and self.i.pids().get(role),
                        10 * SLOW)
                    self.i.wait_ready()
                self.assertIn(self.box, self.i.ids())
                p = self.sh("wc -c < /tmp/tick")
                self.assertEqual(p.returncode, 0, p.err)
                a = int(p.out)
                wait_for("its command goes on", lambda: int(
                    self.sh("wc -c < /tmp/tick").out) > a, 10 * SLOW, 0.2)
                self.assertEqual(before, set(self.i.box_pids()))
        self.i.rm(self.box)
        self.assertEqual(self.i.box_pids(), [])


for _name in [n for n in vars(Machine) if n.startswith("test_")]:
    setattr(Roles, _name, None)


if __name__ == "__main__":
    harness.main()
