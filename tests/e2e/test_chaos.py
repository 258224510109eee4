# suite: alone
"""Roles are killed at random under load; nothing that a user has may notice.

In each sandbox a process writes numbered lines and a client reads them; when its
connection breaks it comes back with the offsets it has. Meanwhile sandboxes come
and go, commands are run, and a role is killed again and again. At the end every
sandbox is there, every line came once and in order, nothing is orphaned, and the
log verifies.

CHAOS_SANDBOXES and CHAOS_KILLS set the size: `make chaos` is the large one.
"""

import contextlib
import http.client
import os
import random
import secrets
import struct
import threading
import time
import unittest

import harness
from harness import (ACK, ATTACH, ATTACHED, EXIT, FAILED, GAP, OUTPUT, SLOW,
                     STARTED, Instance, WireError, pack_str, wait_for)

SANDBOXES = int(os.environ.get("CHAOS_SANDBOXES", "30"))
KILLS = int(os.environ.get("CHAOS_KILLS", "12"))
ROLES = ("carrel-api", "carrel-warden", "carrel-scribe")
LINES = "i=0; while [ ! -e /tmp/stop ]; do i=$((i+1)); echo line $i; " \
        "[ $((i % 50)) != 0 ] || sleep 0.2; done; exit 7"
BROKEN = (OSError, EOFError, WireError, http.client.HTTPException)


class Reader(threading.Thread):
    """Reads one process to its end, whatever happens in between."""

    def __init__(self, instance, box):
        super().__init__(daemon=True)
        self.i, self.box, self.tag = instance, box, f"chaos-{box}"
        self.data = bytearray()
        self.code = self.problem = None
        self.attached = self.reconnects = 0

    def run(self):
        try:
            while self.code is None:
                with contextlib.suppress(*BROKEN):
                    self.session()
                self.reconnects += 1
                time.sleep(0.05)
        except Exception as e:  # shown by the test, which waits for us
            self.problem = e

    def session(self):
        wire = self.i.exec_wire(self.box)
        try:
            self.begin(wire)
            while self.code is None:
                self.frame(wire, *wire.recv())
        finally:
            wire.close()

    def begin(self, wire):
        if self.attached:
            self.attach(wire)
        else:
            wire.spawn(["sh", "-c", LINES], tag=self.tag)

    def attach(self, wire):
        wire.send(ATTACH, 1, struct.pack("<I", 0) + pack_str(self.tag) +
                  struct.pack("<QQ", len(self.data), 0))

    def frame(self, wire, kind, channel, p):
        if kind in (STARTED, ATTACHED):
            self.attached = 1
        elif kind == FAILED:
            self.failed(wire, *struct.unpack_from("<I", p))
        elif kind == GAP:
            raise AssertionError(f"{self.box}: output was lost")
        elif kind == OUTPUT:
            self.output(wire, p)
        elif kind == EXIT:
            self.code = struct.unpack_from("<BI", p)[1]

    def failed(self, wire, code):
        """The tag is taken: an answer was lost, the process is there."""
        if code == 17:
            self.attached = 1
            self.attach(wire)
        else:
            raise WireError("failed", code)

    def output(self, wire, p):
        stream, offset = struct.unpack_from("<BQ", p)
        if stream == 1:
            if offset != len(self.data):
                raise AssertionError(
                    f"{self.box}: offset {offset}, not {len(self.data)}")
            self.data += p[9:]
        wire.send(ACK, 1, struct.pack("<BQ", stream, offset + len(p) - 9))


class Churn(threading.Thread):
    """Creates and removes. An answer that got lost is asked for again: with the
    same key, so that there is one sandbox and not two."""

    def __init__(self, instance):
        super().__init__(daemon=True)
        self.i, self.stop, self.done = instance, False, 0

    def insist(self, method, path, body, headers, wanted):
        while True:
            with contextlib.suppress(*BROKEN):
                r = self.i.api(method, path, body, headers, timeout=20)
                if r.status in wanted:
                    return r
            time.sleep(0.05)

    def run(self):
        while not self.stop:
            key = {"Idempotency-Key": secrets.token_hex(8)}
            box = self.insist("POST", "/v1/sandboxes", {}, key, (201,)).json
            self.insist("DELETE", f"/v1/sandboxes/{box['id']}", None, None,
                        (204, 404, 410))
            self.done += 1


class Chaos(unittest.TestCase):
    def setUp(self):
        self.i = Instance(max_sandboxes=SANDBOXES + 40, spares=2,
                          memory="64M", disk="64M", pids=64, log_level="info")
        self.addCleanup(self.i.stop)
        self.seed = random.randrange(1 << 32)
        print(f"# seed {self.seed}", flush=True)
        self.random = random.Random(self.seed)

    def wait_roles(self):
        def all_there():
            pids = self.i.pids()
            return all(r in pids for r in ("carreld",) + ROLES)
        wait_for("all roles run", all_there, 20 * SLOW)
        self.i.wait_ready()

    def kill_at_random(self):
        for _ in range(KILLS):
            time.sleep(self.random.uniform(0.05, 1.2))
            pids = self.i.pids().get(self.random.choice(ROLES))
            if pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pids[0], 9)
        self.wait_roles()

    def end_all(self, boxes, readers):
        for box in boxes:
            p = self.i.cli("exec", "-n", box, "--", "touch", "/tmp/stop")
            self.assertEqual(p.returncode, 0, p.err)
        for r in readers:
            r.join(60 * SLOW)
            self.assertFalse(r.is_alive(), f"{r.box}: its output never ended")
            self.assertIsNone(r.problem)

    def check_lines(self, r):
        lines = r.data.decode().splitlines()
        self.assertGreater(len(lines), 50)
        self.assertEqual(lines, [f"line {n + 1}" for n in range(len(lines))])
        self.assertEqual(r.code, 7)

    def test_roles_are_killed_at_random(self):
        boxes = [self.i.create() for _ in range(SANDBOXES)]
        readers = [Reader(self.i, b) for b in boxes]
        churn = Churn(self.i)
        for t in readers + [churn]:
            t.start()
        wait_for("all processes run", lambda: all(r.attached for r in readers),
                 60 * SLOW)
        self.kill_at_random()
        churn.stop = True
        churn.join(60 * SLOW)
        self.end_all(boxes, readers)
        for r in readers:
            self.check_lines(r)
        self.assertGreater(churn.done, 0)
        self.assertGreater(max(r.reconnects for r in readers), 1)
        wait_for("only our sandboxes are left",
                 lambda: set(self.i.ids()) == set(boxes), 20 * SLOW)
        p = self.i.cli("--config", self.i.config, "log", "verify")
        self.assertEqual(p.returncode, 0, p.out + p.err)


if __name__ == "__main__":
    harness.main()
