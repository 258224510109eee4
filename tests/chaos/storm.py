"""The storm: everything works, everything is disturbed, nothing is lost."""

import os
import random
import shutil
import subprocess
import time

import disturb
import witness
from harness import SLOW, TOP, wait_for
from host import Host
from internet import Internet

RULES = ["allow * http://api.test"]
EVIDENCE = os.path.join(TOP, "build/chaos")


def subvolumes(i):
    """Their paths."""
    pool = i.pool()
    subprocess.run(["btrfs", "filesystem", "sync", pool], check=True)
    subprocess.run(["btrfs", "subvolume", "sync", pool], check=True,
                   stdout=subprocess.DEVNULL, timeout=300)
    return {line.split()[-1] for line in subprocess.run(
        ["btrfs", "subvolume", "list", pool], check=True, capture_output=True,
        text=True).stdout.splitlines()}


class Storm:
    def __init__(self, seconds, sandboxes, say, rows=None):
        self.seconds, self.say = seconds, say
        self.n = max(sandboxes, 12)
        self.seed = random.randrange(1 << 30)
        self.rng = random.Random(self.seed)
        self.rows = rows or disturb.table()
        self.problems = []

    def witnesses(self, i, web):
        """A quarter writes files, a tenth has doors, the rest has streams."""
        boxes = [i.create() for _ in range(self.n - self.n // 10)]
        doors = [i.create(rules=RULES) for _ in range(self.n // 10)]
        files = boxes[:self.n // 4]
        self.boxes = boxes + doors
        seed = self.seed
        return [witness.Lines(i, boxes[self.n // 4:]),
                witness.Files(i, seed + 1, files),
                witness.State(i, seed + 2, self.n // 2),
                witness.Drive(i, seed + 3),
                witness.Doors(i, seed + 4, doors, web),
                witness.Churn(i, seed + 5),
                witness.Pulse(i, seed + 6, files[0])]

    def disturb(self, i, work):
        """Each row once before any comes again."""
        def felt():
            return sum(w.refused + w.unanswered for w in work
                       if isinstance(w, witness.Witness))
        rows = [r for r in self.rows if not r.why_not()]
        for r in self.rows:
            if r.why_not():
                self.say(f"  SKIPPED {r.name}: {r.why_not()}")
        end = time.monotonic() + self.seconds
        while time.monotonic() < end or not all(r.times for r in rows):
            self.rng.shuffle(rows)
            for r in rows:
                if time.monotonic() >= end and r.times:
                    continue
                r.happen(i, felt)
                time.sleep(self.rng.uniform(0, 0.5))

    def settle(self, i, work):
        for w in work:
            w.stop()
        for w in work:
            if isinstance(w, witness.Witness):
                w.join(180 * SLOW)
                if w.is_alive() or w.problem:
                    self.problems.append(f"{w.NAME}: {w.problem or 'hangs'}")
        i.wait_up()

    def check(self, i, work):
        for w in work:
            self.problems += [f"{w.NAME}: {x}" for x in w.check()]
        there = {b["id"]: b["name"] for b in witness.insist(
            i, "GET", "/v1/sandboxes?limit=1000", None,
            (200,)).json["sandboxes"]}
        lost = set(self.boxes) - set(there)
        self.problems += [f"sandbox {b} is lost" for b in lost]
        # What is neither ours nor the states' is an answer that nobody got,
        # of a create that was given up: it has no more than one.
        extra = [b for b, name in there.items()
                 if b not in self.boxes and not name]
        if len(extra) > 1:
            self.problems.append(f"sandboxes of nobody: {extra}")

    def clean(self, i, before):
        for s in witness.insist(i, "GET", "/v1/snapshots", None,
                                (200,)).json["snapshots"]:
            witness.insist(i, "DELETE", f"/v1/snapshots/{s['id']}", None,
                           (204, 404, 409))
        witness.insist(i, "DELETE", "/v1/sandboxes?all=true", None, (200, 204))
        try:
            wait_for("the pool is as it was",
                     lambda: len(subvolumes(i)) <= len(before), 120 * SLOW, 0.5)
        except AssertionError as e:
            self.problems.append(
                f"{e}: {sorted(subvolumes(i) - before)}")

    def keep_evidence(self, i):
        """What the daemon said, and its log, for who looks for the reason."""
        shutil.rmtree(EVIDENCE, ignore_errors=True)
        shutil.copytree(f"{i.state_dir}/audit", f"{EVIDENCE}/audit")
        shutil.copy(i.log_path, f"{EVIDENCE}/daemon.log")
        self.say(f"  see {EVIDENCE}")

    def run(self):
        net = Internet()
        try:
            web = net.web("api.test")
            with Host(spares=2, pool_size="4G", max_sandboxes=self.n + 60,
                      memory="64M", disk="64M", pids=64, log_level="info",
                      cpus=0.5, audit_segment_size="4M", **net.conf) as i:
                before = subvolumes(i)
                work = self.witnesses(i, web)
                for w in work:
                    w.start()
                began = time.monotonic()
                self.disturb(i, work)
                took = time.monotonic() - began
                self.settle(i, work)
                self.check(i, work)
                self.problems += list(witness.check_log(i))
                self.clean(i, before)
                self.report(i, work, took)
                if self.problems:
                    self.keep_evidence(i)
        finally:
            net.close()
        return self.problems

    def report(self, i, work, took):
        self.say(f"storm (seed {self.seed}): {len(self.boxes)} sandboxes, "
                 f"{took:.0f} s")
        self.say("  disturbance                   times  processes  requests  "
                 "back within")
        self.say("                                       that died    failed  "
                 "    seconds")
        for r in self.rows:
            if r.times:
                self.say(f"    {r.name:27}{r.times:6}{r.died:11}{r.felt:10}"
                         f"{max(r.back):13.2f}")
        for w in work:
            self.say(f"  {w.NAME}: {w.figures()}")
        self.say(f"  log: {len(i.acknowledged)} acknowledged changes, "
                 "each there once")
