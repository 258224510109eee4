# suite: microvm
# suite: long
"""Guests whose kernel was taken over: whatever they do with their lines to the
host, the host stays well, others are served, and they are ended or said to be
ill. What they do is a script that runs as root of their kernel (evil_guest.py).
"""

import os
import struct
import subprocess
import tempfile
import threading
import time

import evil_guest
import harness
from harness import SLOW, wait_for

SPEC = {"tier": "microvm", "memory": "64M", "disk": "64M"}
AGENT, CONTROL, DOOR = ("/d/vport0p%d" % n for n in (1, 2, 3))
# Who serves its ports goes, the ports are free.
TAKE = "/busybox killall -9 real-init; /busybox sleep 0.2\n"
ANSWER = 20 * SLOW     # of others, meanwhile
SILENCE = int(15 * SLOW)
GROWTH = 24 << 20        # of all our processes together


SPIN = """
#include <sched.h>
int main(void)
{
	struct sched_param p = { .sched_priority = 99 };
	if (sched_setscheduler(0, SCHED_FIFO, &p) < 0)
		return 1;
	for (;;)
		;
}
"""


def printf(data):
    """As a word of a shell's printf."""
    return "'" + "".join("\\%03o" % c for c in data) + "'"


def hello():
    return harness.MAGIC + struct.pack("<HHI", 1, 1, 0) + bytes(16)


def frame(kind, channel, payload=b"", length=None):
    n = len(payload) if length is None else length
    return struct.pack("<IBBHI", n, kind, 0, 0, channel) + payload


class Case(evil_guest.Case):
    CONF = {"microvm_silence": f"{SILENCE}s"}

    def setUp(self):
        self.vm = self.i.create(**SPEC)
        self.neighbour = self.i.create(tier="container")
        self.assertEqual(self.i.sh(self.vm, "echo hi").out, "hi\n")
        self.before = self.memory()

    def memory(self):
        """What our roles have of their own, in bytes."""
        total = 0
        for name, pids in self.i.pids().items():
            for pid in pids if name != "carrel" else ():
                for line in harness.read(f"/proc/{pid}/status", "").splitlines():
                    if line.startswith("RssAnon:"):
                        total += int(line.split()[1]) << 10
        return total

    def exec(self):
        return self.i.cli("exec", self.vm, "--", "true", timeout=150)

    def while_asked(self, ask, until):
        """Others are served while somebody asks for something of it, again
        and again until the answer is that one: which is returned."""
        got = []

        def loop():
            while not got or not until(got[-1]):
                got[:] = [ask()]
        t = threading.Thread(target=loop, daemon=True)
        t.start()
        self.others_are_served()
        t.join(SILENCE + 90 * SLOW)
        self.assertFalse(t.is_alive(), "the request does not end")
        return got[0]

    def others_are_served(self, seconds=4):
        """For a while: API and neighbours answer, and nothing grows."""
        end = time.monotonic() + seconds
        most = 0
        while time.monotonic() < end:
            began = time.monotonic()
            self.assertEqual(self.i.api("GET", "/v1/host").status, 200)
            w = self.i.exec_wire(self.neighbour)
            w.spawn(["echo", "well"])
            self.assertEqual(w.finish()[:2], (0, b"well\n"))
            w.close()
            self.assertLess(time.monotonic() - began, ANSWER)
            most = max(most, self.memory())
        self.assertLess(most - self.before, GROWTH)

    def ends(self, *wants):
        """Who asks hears that it is ill, and then that it has ended."""
        self.while_asked(self.exec, lambda p: self.vm not in self.i.ids())
        end = self.i.api("GET", f"/v1/sandboxes/{self.vm}").json["ended"]
        self.assertRegex(end["reason"], "|".join(wants))
        self.assertIn(end["reason"], self.exec().err)
        self.nothing_is_left()

    def goes(self):
        """It can be removed, at once."""
        began = time.monotonic()
        self.i.rm(self.vm)
        self.assertLess(time.monotonic() - began, ANSWER)
        self.nothing_is_left()

    def nothing_is_left(self):
        wait_for("nothing is left of it", lambda: not [
            p for p in self.i.box_pids()
            if "qemu" in harness.read(f"/proc/{p}/comm", "")], 10 * SLOW)


class Agent(Case):
    """The line to the agent."""

    def lies(self, script):
        """It is refused on the line that it has, and may never get to greet on
        the next."""
        self.turn_evil(self.vm, TAKE + script)
        self.ends("broke the protocol 3 times", "has not answered")

    def test_flood_of_nothing(self):
        """Bytes that are no frames, as fast as it can, and nothing is read."""
        self.lies(f"/busybox cat /d/zero > {AGENT}")

    def test_frame_without_end(self):
        lie = printf(hello() + frame(harness.PONG, 1, length=0xfffffff0))
        self.lies(f"(printf {lie}; /busybox cat /d/zero) > {AGENT}")

    def test_answers_to_nobody(self):
        line = printf(hello() + frame(harness.PONG, 0) * 50)
        self.lies(f"while :; do printf {line}; done > {AGENT}")

    def test_wrong_offsets(self):
        out = printf(hello() + frame(harness.OUTPUT, 1 << 10, struct.pack(
            "<BQ", 1, 1 << 62) + b"x"))
        self.lies(f"while :; do printf {out}; /busybox sleep 0.05; "
                     f"done > {AGENT}")

    def test_comes_and_goes(self):
        self.lies(f"while :; do printf x > {AGENT}; done")


class Control(Case):
    """The line over which it is asked to stand still: who takes a snapshot
    hears that it cannot be had."""

    def refused(self, script):
        self.turn_evil(self.vm, TAKE + script)
        r = self.while_asked(lambda: self.i.api(
            "POST", f"/v1/sandboxes/{self.vm}/snapshots", {},
            timeout=150 * SLOW), lambda r: r.status >= 400)
        self.assertIn("machine", r.json["message"])
        self.goes()

    def test_garbage(self):
        self.refused(f"/busybox cat /d/urandom > {CONTROL}")

    def test_answers_to_others(self):
        """Of the right kind, without end."""
        old = struct.pack("<IHHQi", 0x74736775, 1, 2, 1, 0) + bytes(124)
        self.refused(f"while :; do printf {printf(old * 8)}; done > {CONTROL}")

    def test_silence(self):
        self.refused(f"/busybox sleep 1000 < {CONTROL}")


class Door(Case):
    def test_garbage(self):
        self.turn_evil(self.vm, TAKE + f"/busybox cat /d/urandom > {DOOR}")
        self.others_are_served()
        self.goes()

    def test_openings(self):
        """Streams to everywhere, without end."""
        self.turn_evil(self.vm, TAKE + f"/busybox cat /d/zero > {DOOR}")
        self.others_are_served()
        self.goes()


class Itself(Case):
    def test_console(self):
        self.turn_evil(self.vm, "/busybox yes carrel > /d/ttyS0")
        self.others_are_served()
        self.goes()

    def put_program(self, name, *source, **kw):
        """A program for its home, which starts with no library."""
        with tempfile.TemporaryDirectory() as d:
            subprocess.run(["cc", "-static", "-o", f"{d}/it", *source],
                           check=True, **kw)
            with open(f"{d}/it", "rb") as f:
                r = self.i.api("PUT", f"/v1/sandboxes/{self.vm}/files/content"
                               f"?path=/home/user/{name}", f.read())
        self.assertIn(r.status, (200, 201, 204), r)
        return (f"/busybox cp ${{0%/*}}/{name} /{name}\n"
                f"/busybox chmod 755 /{name}\n")

    def test_queues(self):
        """Of its devices, past the drivers: QEMU takes it all. That it did is
        what the guest's kernel says with its last words."""
        take = self.put_program("queues", os.path.join(
            harness.TOP, "tests/e2e/evil_queues.c"))
        self.turn_evil(self.vm, take + "/queues > /d/kmsg 2>&1 && "
                       "echo c > /proc/sysrq-trigger")
        self.ends("sysrq triggered crash")

    def test_spins(self):
        """Nothing but a loop ever runs in it."""
        take = self.put_program("spin", "-x", "c", "-", input=SPIN, text=True)
        self.turn_evil(self.vm, "echo -1 > /proc/sys/kernel/sched_rt_runtime_us\n" +
                       take + "/spin")
        self.ends("has not answered")

    def test_stands_still(self):
        self.turn_evil(self.vm, "kill -STOP $1; /busybox sleep 1000")
        self.ends("has not answered")

    def test_persistent(self):
        """One whose disk outlives it has it when it is given up, too."""
        self.i.rm(self.vm)
        self.vm = self.i.create(persist=True, **SPEC)
        self.assertEqual(self.i.sh(self.vm, "echo kept > kept; sync").err, "")
        # Its next life is to be a good one.
        self.turn_evil(self.vm, "/busybox rm $0; /busybox sync\n"
                       "kill -STOP $1; /busybox sleep 1000")
        self.while_asked(self.exec, lambda p: self.state() == "suspended")
        log = f"/v1/sandboxes/{self.vm}/log?type=sandbox.suspend"
        wait_for("its log says why", lambda: b"has not answered" in
                 self.i.api("GET", log).body, 10 * SLOW)
        self.nothing_is_left()
        r = self.i.api("POST", f"/v1/sandboxes/{self.vm}/resume", {},
                       timeout=150 * SLOW)
        self.assertEqual(r.status, 200, r)
        self.assertEqual(self.i.sh(self.vm, "cat kept").out, "kept\n")
        self.goes()
        end = self.i.api("GET", f"/v1/sandboxes/{self.vm}").json["ended"]
        self.assertEqual(end["reason"], "removed by uid:0")

    def state(self):
        return self.i.api("GET", f"/v1/sandboxes/{self.vm}").json["state"]


if __name__ == "__main__":
    harness.main()
