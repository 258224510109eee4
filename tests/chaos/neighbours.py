"""Neighbours: what 20 sandboxes that misbehave, each in its own way and within
its limits, do to the 50 others. Windows with and without the attackers take
turns, so that what else the machine does falls on both."""

import contextlib
import ctypes
import os
import socket
import struct
import subprocess
import time

import witness
from harness import SLOW, Instance, read

NEIGHBOURS, ATTACKERS = 50, 20
BOUND = 2.0
PACE_S = 0.02
# All attackers together may use one processor.
LIMITS = {"cpus": 1 / ATTACKERS, "memory": "48M", "pids": 64, "disk": "64M"}

# What runs inside, again and again; and whether somebody reads its output.
ATTACKS = (
    ("fork bomb", "b() { b | b & }; b; sleep 1", False),
    ("memory bomb", "tail /dev/zero", False),
    ("disk filler", "dd if=/dev/zero of=/home/user/x bs=64k; rm -f "
     "/home/user/x", False),
    ("output flood", "yes 0123456789012345678901234567890123456789", False),
    ("output flood, read", "yes 0123456789012345678901234567890123456789",
     True),
)


class Asker:
    """One connection that is kept; no library between us and the answer."""

    def __init__(self, i, box):
        body = b'{"argv":["true"]}'
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(60 * SLOW)
        self.sock.connect(i.sock)
        self.raw = (f"POST /v1/sandboxes/{box}/run HTTP/1.1\r\nHost: localhost"
                    f"\r\nContent-Type: application/json\r\nContent-Length: "
                    f"{len(body)}\r\n\r\n").encode() + body

    def ask(self):
        """Seconds from the question to the exit of the process."""
        began = time.monotonic()
        self.sock.sendall(self.raw)
        got = self.sock.recv(1 << 16)
        while not got.endswith(b"\r\n0\r\n\r\n"):  # the last chunk
            more = self.sock.recv(1 << 16)
            if not more:
                raise AssertionError(f"no answer: {got}")
            got += more
        if b" 200 " not in got[:16] or b'"code":0,' not in got:
            raise AssertionError(f"a neighbour's exec failed: {got}")
        return time.monotonic() - began


def percentile(took, p):
    took = sorted(took)
    return took[min(len(took) - 1, int(len(took) * p))]


def short_slice(ns=200_000):
    """We have the time slice of the roles (base/slice.h): what is measured is
    not how long we ourselves wait for a processor."""
    size, normal, sched_setattr = 48, 0, 314
    attr = struct.pack("<IIQiIQQQ", size, normal, 0, 0, 0, ns, 0, 0)
    if ctypes.CDLL(None).syscall(sched_setattr, 0, attr, 0) < 0:
        raise AssertionError("no time slice for us")


CPU = "/sys/fs/cgroup/cpu"


@contextlib.contextmanager
def foremost(i):
    """The instance comes before whatever else the machine does, as far as the
    scheduler can be told: it is the sandboxes that are compared, with each
    other. Us, the roles and the sandboxes; all with the same weight."""
    group, most = f"{CPU}/{i.name}-roles", "262144"
    if not os.path.exists(f"{CPU}{i.cgroup}/cpu.shares"):
        yield "no v1 cpu controller: other work on this machine counts"
        return

    def put(path, value):
        with open(path, "w") as f:
            f.write(str(value))
    os.mkdir(group)
    try:
        put(f"{group}/cpu.shares", most)
        put(f"{CPU}{i.cgroup}/cpu.shares", most)
        for pid in [os.getpid(), *(p for ps in i.pids().values() for p in ps)]:
            with contextlib.suppress(ProcessLookupError):
                put(f"{group}/cgroup.procs", pid)
        yield None
    finally:
        for pid in read(f"{group}/cgroup.procs").split():
            with contextlib.suppress(OSError):
                put(f"{CPU}/cgroup.procs", pid)
        os.rmdir(group)


class Neighbours:
    def __init__(self, seconds, say):
        self.seconds, self.say = seconds, say
        self.clients = []
        self.problems = []

    def attack(self, i, k):
        """Starts attacker k, which waits paused."""
        name, what, read = ATTACKS[k % len(ATTACKS)]
        box = i.create(labels={"attack": name.replace(" ", "-").replace(
            ",", "")}, **LIMITS)
        loop = f"while :; do {what}; done"
        if read:
            self.clients.append(subprocess.Popen(
                i.cli_argv("exec", "-n", box, "--", "sh", "-c", loop),
                env=i.env(), stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        else:
            witness.insist(i, "POST", f"/v1/sandboxes/{box}/processes", {
                "command": loop, "detach": True}, (201,))
        return box

    def each(self, i, boxes, what):
        for box in boxes:
            witness.insist(i, "POST", f"/v1/sandboxes/{box}/{what}", {},
                           (200,))

    def window(self, askers, seconds):
        took, end, k = [], time.monotonic() + seconds, 0
        next_at = time.monotonic()
        while time.monotonic() < end:
            took.append(askers[k % len(askers)].ask())
            k += 1
            next_at += PACE_S
            time.sleep(max(0.0, next_at - time.monotonic()))
        return took

    def measure(self, i, askers, attackers):
        """(idle, attacked): seconds of every exec."""
        idle, attacked = [], []
        rounds = max(3, round(self.seconds / 10))
        self.window(askers, 2)
        for _ in range(rounds):
            idle += self.window(askers, self.seconds / rounds / 2)
            self.each(i, attackers, "resume")
            time.sleep(0.5)
            before = self.cpu(i, attackers)
            began = time.monotonic()
            attacked += self.window(askers, self.seconds / rounds / 2)
            self.used.append((self.cpu(i, attackers) - before) /
                             (time.monotonic() - began))
            self.each(i, attackers, "pause")
        return idle, attacked

    def cpu(self, i, boxes):
        """Seconds of processor time that they have used."""
        return sum(witness.insist(i, "GET", f"/v1/sandboxes/{b}", None, (
            200,)).json["usage"]["cpu_us"] for b in boxes) / 1e6

    def run(self):
        self.used = []
        with Instance(spares=0, log_level="info", pool_size="8G", pids=64,
                      memory="64M", disk="256M",
                      max_sandboxes=NEIGHBOURS + ATTACKERS + 5) as i:
            try:
                askers = [Asker(i, i.create()) for _ in range(NEIGHBOURS)]
                attackers = [self.attack(i, k) for k in range(ATTACKERS)]
                time.sleep(1)
                self.each(i, attackers, "pause")
                with foremost(i) as why_not:
                    if why_not:
                        self.say(f"  SKIPPED coming first: {why_not}")
                    short_slice()
                    idle, attacked = self.measure(i, askers, attackers)
                self.report(i, idle, attacked, attackers)
                # What they still have to write may take its time.
                for box in attackers:
                    witness.insist(i, "DELETE", f"/v1/sandboxes/{box}", None,
                                   (204, 404))
            finally:
                for c in self.clients:
                    c.kill()
                    c.wait()
        return self.problems

    def report(self, i, idle, attacked, attackers):
        ratio = percentile(attacked, 0.99) / percentile(idle, 0.99)
        self.say(f"neighbours: {NEIGHBOURS} beside {ATTACKERS} attackers "
                 f"(cpus={LIMITS['cpus']} each, {sum(self.used) / len(self.used):.2f}"
                 " processors together)")
        for name, took in (("idle", idle), ("attacked", attacked)):
            self.say(f"  exec, {name:9}" + "".join(
                f"  p{p * 100:g} {percentile(took, p) * 1e3:8.2f} ms"
                for p in (0.5, 0.9, 0.99)) + f"  ({len(took)})")
        self.say(f"  p99 under attack {ratio:.2f} x idle (bound {BOUND:g})")
        if ratio > BOUND:
            self.problems.append(f"p99 {ratio:.2f} x idle")
        alive = set(i.ids())
        self.problems += [f"attacker {b} is gone" for b in attackers
                          if b not in alive]
