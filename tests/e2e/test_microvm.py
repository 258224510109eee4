# suite: slow
# suite: microvm
"""Sandboxes of the tier microvm: the same product with a kernel of its own."""

import contextlib
import hashlib
import json
import os
import re
import secrets
import signal
import socket
import struct
import subprocess
import tempfile
import time
import unittest

import evil_guest
import harness
from harness import SLOW, wait_for

BOOT = 60 * SLOW  # emulated, beside other tests
MANY = os.environ.get("CARREL_TIER") == "microvm"


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
        host = self.i.api("GET", "/v1/host").json["microvm"]
        self.assertTrue(host["available"])
        self.assertEqual(host["isolation"] == "vm", host["why"] is None)
        if host["isolation"] == "emulated":
            self.slowdown(host["slowdown"])
        for shown in (b, *self.i.api("GET", "/v1/sandboxes").json["sandboxes"]):
            self.assertEqual(shown["isolation"], host["isolation"])
        self.assertIn(host["isolation"], self.i.cli("ls", check=0).out)
        self.assertIn(host["isolation"], self.i.cli("inspect", "vm", check=0).out)
        r = self.i.api("POST", "/v1/sandboxes", {"tier": "cloud"})
        self.assertEqual(r.status, 400, r)
        self.assertIn("microvm", r.json["message"])

    def slowdown(self, times):
        """Measured when the template was made, and kept."""
        self.assertTrue(1 < times < 1000, times)
        said = f"emulated, about {times:.0f} x slower than this machine"
        self.assertIn(said, self.i.cli("doctor").out)
        self.assertIn(said, self.i.cli("doctor", "--json").out)
        _, kept = harness.read(f"{self.i.state_dir}/emulation").split()
        self.assertEqual(int(kept), round(10 * times))
        self.assertEqual(self.i.log().count("emulation is about"), 1)

    def test_what_it_cannot_do(self):
        """Is refused with words, and nothing is half done."""
        self.assertEqual(self.i.api("POST", "/v1/volumes", {
            "name": "data", "size": "16M"}).status, 201)
        for method, path, body in (
                ("PATCH", f"/v1/sandboxes/{self.box}", {"memory": "128M"}),
                ("POST", "/v1/sandboxes", {"tier": "microvm",
                                           "volumes": ["data:/data"]}),
                ("GET", f"/v1/diff?to={self.box}", None),
                ("POST", "/v1/images/saved", {"snapshot": self.box})):
            with self.subTest(path):
                r = self.i.api(method, path, body)
                self.assertEqual(r.json["error"], "not_supported", r)
                self.assertIn("microvm", r.json["message"])
        self.assertEqual(self.i.api("DELETE", "/v1/volumes/data").status, 204)

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


class Ends(evil_guest.Case):
    """A machine that ends by itself, and what is said of it then."""

    def test_kernel_panic(self):
        box = self.i.create(tier="microvm")
        self.turn_evil(box, "echo c > /proc/sysrq-trigger")
        wait_for("it has ended", lambda: box not in self.i.ids(), 30 * SLOW, 0.1)
        end = self.i.api("GET", f"/v1/sandboxes/{box}").json["ended"]
        self.assertIn("the machine ended", end["reason"])
        self.assertIn("panic", end["reason"])
        p = self.i.cli("exec", box, "--", "true")
        self.assertIn("panic", p.err)
        wait_for("nothing is left of it", lambda: not self.i.box_pids(), 10 * SLOW)


class Switched(unittest.TestCase):
    """What the configuration says of the tier."""

    def refused(self, want, **conf):
        with harness.Instance(**conf) as i:
            r = i.api("POST", "/v1/sandboxes", {"tier": "microvm"})
            self.assertEqual((r.status, r.json["error"]), (501, "not_supported"))
            self.assertIn(want, r.json["message"])
            host = i.api("GET", "/v1/host").json["microvm"]
            self.assertFalse(host["available"])
            self.assertIn(want, host["why"])
            i.create(tier="container")

    def test_off(self):
        self.refused("microvm = off", vm_dir=harness.vm_dir(), microvm="off")

    def test_nothing_there(self):
        self.refused("make vm", vm_dir="/nonexistent")

    def test_an_unknown_word(self):
        with harness.Instance() as i, tempfile.TemporaryDirectory() as d:
            with open(f"{d}/conf", "w") as f:
                f.write(f"run_dir = {d}/run\nstate_dir = {d}/state\n"
                        "microvm = perhaps\n")
            p = subprocess.run([f"{i.bin}/carrel-warden", "--config", f"{d}/conf"],
                               capture_output=True, text=True, timeout=20 * SLOW)
        self.assertNotEqual(p.returncode, 0)
        self.assertIn("perhaps is none of auto, kvm, emulated, off", p.stderr)


@unittest.skipUnless(os.path.exists("/dev/kvm"), "there is no /dev/kvm")
class Kvm(unittest.TestCase):
    """It is used when a guest has booted with it, whatever /dev/kvm says."""

    def test_tried_once(self):
        with harness.Instance(vm_dir=harness.vm_dir(), microvm="kvm") as i:
            def ask():
                return i.api("POST", "/v1/sandboxes", {"tier": "microvm"})

            r = ask()
            if r.status != 201:
                self.assertIn((r.status, r.json["error"]), (
                    (503, "try_again"), (501, "not_supported")))
            # What QEMU itself has to say about it is beside the answer.
            answer = "info warden kvm: "
            wait_for("an answer", lambda: answer in i.log(), 60 * SLOW)
            works = f"{answer}a guest has booted" in i.log()
            host = i.api("GET", "/v1/host").json["microvm"]
            self.assertEqual(host["available"], works, i.log())
            if not works:
                r = ask()
                self.assertEqual(r.status, 501, r)
                self.assertIn("KVM does not work here", r.json["message"])
            wait_for("nothing is left of it", lambda: works or not i.box_pids(),
                     10 * SLOW)
            # It is known now, and emulation is there for who wants it.
            i.conf["microvm"] = "auto"
            i.restart()
            again = i.api("GET", "/v1/host").json["microvm"]
            self.assertEqual(again["isolation"], "vm" if works else "emulated")
            self.assertEqual(i.log().count(answer), 1)
            if not works:
                self.tried_again(i)

    def tried_again(self, i):
        """A guest that was late is no answer for ever."""
        path = f"{i.state_dir}/kvm"
        stamp = harness.read(path).splitlines()[0]

        def told(answer, age=0):
            i.end_daemon()
            with open(path, "w") as f:
                f.write(f"{stamp}\n{answer}\n")
            os.utime(path, (time.time() - age,) * 2)
            i.start()
            return i.api("GET", "/v1/host").json["microvm"]["why"]
        self.assertEqual(told("late 1"), "no guest came up with KVM in 20 s, and it "
                         "is being tried again")
        wait_for("a guest", i.box_pids, 10 * SLOW)
        self.assertEqual(told("late 2"), "no guest came up with KVM in 60 s, it is "
                         "tried again after a day")
        self.assertEqual(i.box_pids(), [])
        self.assertIn("being tried again", told("late 2", 25 * 3600))
        for strange in ("late 3",):
            self.assertEqual(told(strange), "KVM is being tried", strange)


HOLD, WAKE = 2, 3  # enum guest_op


class Monitor:
    """QEMU's own, for a machine that is to stand still and not know it."""

    def __init__(self, i, box):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(BOOT)
        self.sock.connect(f"{i.run_dir}/box/{box}/qmp.sock")
        self.lines = self.sock.makefile()
        self.lines.readline()
        self.run("qmp_capabilities")

    def run(self, command):
        self.sock.sendall(json.dumps({"execute": command}).encode())
        while True:
            answer = json.loads(self.lines.readline())
            if "error" in answer:
                raise RuntimeError(f"{command}: {answer['error']}")
            if "return" in answer:
                return answer["return"]

    def is_taken(self, line):
        """Is anybody at the host's end?"""
        return not any(c["filename"].startswith("disconnected:")
                       for c in self.run("query-chardev") if c["label"] == line)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.lines.close()
        self.sock.close()


class Roles(Machine):
    """kill -9 of any role: machines go on, and are found again."""

    def kill(self, role):
        pid = self.i.kill_role(role)
        wait_for(f"a new {role}", lambda: self.i.pids().get(
            role, [pid]) != [pid] and self.i.pids().get(role), 10 * SLOW)

    def ask(self, op):
        """As the warden asks the machine's first process (wire/guest.h)."""
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(BOOT)
            sock.connect(f"{self.i.run_dir}/box/{self.box}/control.sock")
            sock.sendall(struct.pack(
                "<IHHQQII64s64s28sI", 0x74736775, 1, op, 1, time.time_ns(), 0,
                0, secrets.token_bytes(64), b"vm", self.box.encode(), 0))
            rep = sock.recv(144, socket.MSG_WAITALL)
        self.assertEqual(struct.unpack_from("<IHHQi", rep)[2:], (op, 1, 0), rep)

    def flood(self, w, channels):
        """More than all on the way to the agent have room for: no frame ends
        where the port (128 pages) is full."""
        piece = bytes(60000)
        for n in range(4):
            for channel in channels:
                w.send(harness.INPUT, channel,
                       struct.pack("<Q", n * len(piece)) + piece)

    def test_half_a_frame(self):
        """An api that dies in the middle of one leaves the other half to
        nobody: the next api is heard, also if the machine stood still and
        never saw that there were two."""
        channels = range(1, 9)
        for unseen in (False, True):
            with self.subTest(unseen=unseen), Monitor(self.i, self.box) as q, \
                    contextlib.closing(self.i.exec_wire(self.box, BOOT)) as w:
                for channel in channels:
                    w.spawn(["cat"], channel, harness.SPAWN_STDIN)
                    while w.recv()[:2] != (harness.STARTED, channel):
                        pass
                self.ask(HOLD)
                self.flood(w, channels)
                if unseen:
                    q.run("stop")
                self.kill("carrel-api")
                wait_for("the next", lambda: q.is_taken("agent"), 10 * SLOW)
                q.run("cont")
                self.ask(WAKE)
                self.i.wait_ready()
                p = self.sh("echo hi")
                self.assertEqual((p.returncode, p.out), (0, "hi\n"), p.err)
                self.assertFalse(self.shown()["degraded"])

    def shown(self):
        return self.i.api("GET", f"/v1/sandboxes/{self.box}").json

    if MANY:  # it takes more than a minute
        def test_one_that_is_mute(self):
            """Whose agent says nothing is called ill, and well when it speaks."""
            with Monitor(self.i, self.box) as q:
                q.run("stop")
                self.kill("carrel-api")
                self.i.wait_ready()
                p = self.i.sh(self.box, "true", timeout=180 * SLOW)
                q.run("cont")
            self.assertNotEqual(p.returncode, 0)
            self.assertIn("does not answer", p.err)
            self.assertTrue(self.shown()["degraded"])
            self.assertIn(f"sandbox={self.box} its machine does not answer",
                          self.i.log())
            self.assertEqual(self.sh("echo hi").out, "hi\n")
            wait_for("it is well", lambda: not self.shown()["degraded"],
                     100 * SLOW, 0.2)

    def test_they_go_on(self):
        self.i.cli("exec", "-d", self.box, "--", "sh", "-c",
                   "while :; do echo >> /tmp/tick; sleep 0.05; done", check=0)
        wait_for("its command runs", lambda: self.sh(
            "test -s /tmp/tick").returncode == 0, BOOT, 0.1)
        before = set(self.i.box_pids())
        for role in ("carrel-api", "carrel-warden", "carreld"):
            with self.subTest(role):
                if role == "carreld":
                    self.i.kill_role(role)
                    self.i.daemon.wait()
                    wait_for("the roles have ended", lambda: not self.i.pids(),
                             10 * SLOW)
                    self.i.start()
                else:
                    self.kill(role)
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
