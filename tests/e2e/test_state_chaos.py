# suite: alone
"""Roles are killed at random while state is saved, branched and rolled back:
each thing that was asked for is done or not done, never half.

Each sandbox has a file with a number. What was answered is what there is; what
was not answered (the role died) left the old number or the new one. At the end
every sandbox and every snapshot has a number that it may have, and when all of
it is removed the pool is as it was.

STATE_CHAOS_STEPS and STATE_CHAOS_KILLS set the size.
"""

import contextlib
import http.client
import os
import random
import subprocess
import threading
import time
import unittest

import harness
from harness import SLOW, Instance, wait_for

STEPS = int(os.environ.get("STATE_CHAOS_STEPS", "80"))
KILLS = int(os.environ.get("STATE_CHAOS_KILLS", "14"))
ROLES = ("carrel-api", "carrel-warden", "carrel-scribe")
BROKEN = (OSError, http.client.HTTPException)
FILE = "/home/user/number"
# Not done, and said so: the role was away, or the thing is busy or gone.
REFUSED = (404, 409, 410, 500, 502, 503, 504)


class Killer(threading.Thread):
    """Not for ever: a role that dies young again and again is started later
    and later."""

    def __init__(self, i, rng):
        super().__init__(daemon=True)
        self.i, self.rng, self.stop, self.kills = i, rng, False, 0

    def run(self):
        while not self.stop and self.kills < KILLS:
            time.sleep(self.rng.uniform(0.05, 0.5) * SLOW)
            with contextlib.suppress(OSError, KeyError, IndexError):
                self.i.kill_role(self.rng.choice(ROLES))
                self.kills += 1


class Model:
    """What each sandbox and snapshot may hold: names to sets of numbers."""

    def __init__(self, i, rng):
        self.i, self.rng = i, rng
        self.boxes, self.snaps = {}, {}
        self.source = {}  # of a snapshot: its sandbox
        self.n = 0
        self.told = {}  # (what, done): how often

    def name(self, kind):
        self.n += 1
        return f"{kind}{self.n}"

    def ask(self, method, path, body=None):
        """True: done; False: refused; None: nobody knows."""
        done = self.answer(method, path, body)
        what = f"{method} {path.split('/')[-1]}" if method == "POST" else method
        self.told[what, done] = self.told.get((what, done), 0) + 1
        return done

    def answer(self, method, path, body):
        try:
            r = self.i.api(method, path, body, timeout=60 * SLOW)
        except BROKEN:
            return None
        if r.status in (200, 201, 204):
            return True
        if r.status not in REFUSED:
            raise AssertionError(f"{method} {path}: {r}")
        # A refusal may be about the answer and not about the deed.
        return False if r.status in (404, 409, 410) else None

    def any_box(self):
        return self.rng.choice(sorted(self.boxes))

    def create(self):
        name = self.name("b")
        if self.ask("POST", "/v1/sandboxes", {"name": name}) is not False:
            self.boxes[name] = {""}

    def write(self):
        box, number = self.any_box(), str(self.rng.randrange(10 ** 9))
        done = self.ask("POST", f"/v1/sandboxes/{box}/run",
                        {"command": f"echo {number} > {FILE}"})
        if done:
            self.boxes[box] = {number}
        elif done is None:
            self.boxes[box] = self.boxes[box] | {number}

    def snapshot(self):
        box, name = self.any_box(), self.name("s")
        if self.ask("POST", f"/v1/sandboxes/{box}/snapshots",
                    {"name": name}) is not False:
            self.snaps[name] = set(self.boxes[box])
            self.source[name] = box

    def rollback(self):
        own = [s for s in sorted(self.snaps) if self.source[s] in self.boxes]
        if not own:
            return
        snap = self.rng.choice(own)
        box = self.source[snap]
        done = self.ask("POST", f"/v1/sandboxes/{box}/rollback",
                        {"snapshot": snap})
        if done:
            self.boxes[box] = set(self.snaps[snap])
        elif done is None:
            self.boxes[box] = self.boxes[box] | self.snaps[snap]

    def fork(self):
        box, name = self.any_box(), self.name("f")
        if len(self.boxes) < 12 and self.ask(
                "POST", f"/v1/sandboxes/{box}/fork", {"name": name}) is not False:
            self.boxes[name] = set(self.boxes[box])

    def pause(self):
        self.ask("POST", f"/v1/sandboxes/{self.any_box()}/pause",
                 {"disk_only": self.rng.random() < 0.3})

    def resume(self):
        self.ask("POST", f"/v1/sandboxes/{self.any_box()}/resume", {})

    def drop_snapshot(self):
        if self.snaps:
            name = self.rng.choice(sorted(self.snaps))
            if self.ask("DELETE", f"/v1/snapshots/{name}"):
                del self.snaps[name]

    def drop_box(self):
        if len(self.boxes) > 3:
            box = self.any_box()
            if self.ask("DELETE", f"/v1/sandboxes/{box}"):
                del self.boxes[box]

    STEPS = ((write, 6), (snapshot, 4), (rollback, 4), (fork, 3), (create, 1),
             (pause, 2), (resume, 1), (drop_snapshot, 1), (drop_box, 1))

    def step(self):
        what = self.rng.choices([s for s, _ in self.STEPS],
                                [w for _, w in self.STEPS])[0]
        what(self)
        settled(self.i)


def settled(i):
    def ready():
        try:
            return i.api("GET", "/v1/sandboxes?limit=1").status == 200
        except BROKEN:
            return False
    wait_for("the daemon is back", ready, 30 * SLOW)


class StateChaos(unittest.TestCase):
    def number(self, i, box):
        """The content of the file; a sandbox that was paused wakes up."""
        def ask():
            try:
                r = i.api("POST", f"/v1/sandboxes/{box}/run",
                          {"command": f"cat {FILE} 2>/dev/null"})
            except BROKEN:
                return None
            return r if r.status == 200 else None
        return wait_for(f"an answer of {box}", ask,
                        20 * SLOW).json["stdout"].strip()

    def check(self, i, m):
        """Nothing that was answered is missing, nothing holds a number that it
        cannot have."""
        boxes = {b["name"]: b["id"] for b in
                 i.api("GET", "/v1/sandboxes?limit=200").json["sandboxes"]}
        snaps = {s["name"]: s["id"] for s in
                 i.api("GET", "/v1/snapshots").json["snapshots"]}
        for name, box in boxes.items():
            self.assertIn(self.number(i, box), m.boxes.get(name, {"?"}), name)
        for name, snap in snaps.items():
            copy = i.create(snapshot=snap)
            self.assertIn(self.number(i, copy), m.snaps.get(name, {"?"}), name)
            i.rm(copy)
        return boxes, snaps

    def subvolumes(self, i):
        pool = i.pool()
        subprocess.run(["btrfs", "filesystem", "sync", pool], check=True)
        subprocess.run(["btrfs", "subvolume", "sync", pool], check=True,
                       stdout=subprocess.DEVNULL, timeout=120)
        out = subprocess.run(["btrfs", "subvolume", "list", pool], check=True,
                             capture_output=True, text=True).stdout
        return sorted(line.split()[-1] for line in out.splitlines())

    def test_done_or_not_done(self):
        seed = random.randrange(1 << 30)
        print(f"# seed {seed}", flush=True)
        rng = random.Random(seed)
        with Instance(max_sandboxes=60, disk="64M", memory="64M",
                      pool_size="3G") as i:
            before = self.subvolumes(i)
            m = Model(i, rng)
            for _ in range(3):
                m.create()
            killer = Killer(i, random.Random(seed + 1))
            killer.start()
            try:
                for _ in range(STEPS):
                    m.step()
            finally:
                killer.stop = True
                killer.join()
            print(f"# {killer.kills} kills; done, refused or unknown:", m.told)
            settled(i)
            boxes, snaps = self.check(i, m)
            self.assertGreater(killer.kills, 0)
            for box in boxes.values():
                i.rm(box)
            for snap in snaps.values():
                self.assertEqual(i.api("DELETE", f"/v1/snapshots/{snap}").status,
                                 204)
            try:
                wait_for("the pool is as it was",
                         lambda: self.subvolumes(i) == before, 60 * SLOW, 0.5)
            except AssertionError:
                living = i.api("GET", "/v1/sandboxes").json["sandboxes"]
                self.assertEqual((self.subvolumes(i), living), (before, []))


if __name__ == "__main__":
    harness.main()
