# suite: alone
"""Sandboxes that use all they may have get processors of their own."""

import os
import re
import unittest

import harness
from harness import SLOW, read, wait_for


def cpus(text):
    """{0, 1, 2, 5} of "0-2,5"."""
    found = set()
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found


ALL = os.sched_getaffinity(0)
BUSY = "while :; do :; done"


@unittest.skipIf(len(ALL) < 2, "one processor cannot be shared out")
class Hogs(harness.Case):
    """Sandboxes of both kinds."""

    def setUp(self):
        """Whatever else the machine does, ours come first."""
        for root in harness.cgroup_roots():
            for file, most in (("cpu.shares", 262144), ("cpu.weight", 10000)):
                path = f"{root}{self.i.cgroup}/{file}"
                if os.path.exists(path):
                    with open(path, "w") as f:
                        f.write(str(most))

    def create(self, **limits):
        """Remembers its group: it is the new one."""
        old = set(self.i.cgroups())
        box = self.i.create(**limits)
        new = {re.search(r"/(b\d+)", g[g.index(self.i.cgroup):])[1]
               for g in set(self.i.cgroups()) - old}
        self.group = {**getattr(self, "group", {}), box: new.pop()}
        self.assertEqual(new, set())
        return box

    def may_use(self, box):
        """As the kernel has it, for all of its processes together."""
        place, found = f"{self.i.cgroup}/{self.group[box]}", set()
        for pid in self.i.box_pids():
            if place not in re.findall(r"[^:]*?/b\d+", read(
                    f"/proc/{pid}/cgroup", "")):
                continue
            for line in read(f"/proc/{pid}/status", "").splitlines():
                if line.startswith("Cpus_allowed_list:"):
                    found |= cpus(line.split()[1])
        return found

    def hog(self, **limits):
        box = self.create(**limits)
        r = self.i.api("POST", f"/v1/sandboxes/{box}/processes", {
            "command": BUSY, "detach": True})
        self.assertEqual(r.status, 201, r.body)
        return box

    def calm(self, hog):
        for p in self.i.api("GET", f"/v1/sandboxes/{hog}/processes").json[
                "processes"]:
            self.i.sh(hog, f"kill -9 {p['pid']}")

    def apart(self, hog, other):
        a, b = self.may_use(hog), self.may_use(other)
        return a and b and not a & b

    def wait_apart(self, hog, other):
        wait_for(f"{hog} and {other} are apart",
                 lambda: self.apart(hog, other), 20 * SLOW)

    def wait_together(self, *boxes):
        for box in boxes:
            wait_for(f"{box} has all processors",
                     lambda b=box: self.may_use(b) == ALL, 20 * SLOW)


class Apart(Hogs):
    def test_a_hog_is_kept_apart_as_long_as_it_is_one(self):
        quiet = self.create(cpus=1)
        hog = self.hog(cpus=1)
        self.wait_apart(hog, quiet)
        self.assertEqual(len(self.may_use(hog)), 1)
        self.assertEqual(self.may_use(quiet), ALL - self.may_use(hog))
        # Who comes meanwhile is with the others, and can be used.
        late = self.create(cpus=1)
        self.wait_apart(hog, late)
        self.assertEqual(self.i.sh(late, "echo here").out, "here\n")
        self.assertEqual(self.i.sh(hog, "echo here").out, "here\n")
        self.calm(hog)
        self.wait_together(hog, quiet, late)

    def test_many_small_ones_are_one_large_one(self):
        quiet = self.create(cpus=1)
        hogs = [self.hog(cpus=0.1) for _ in range(10)]
        for hog in hogs:
            self.wait_apart(hog, quiet)
        self.assertEqual(len(set().union(*map(self.may_use, hogs))), 1)
        for hog in hogs:
            self.i.api("POST", f"/v1/sandboxes/{hog}/pause")
        self.wait_together(quiet)

    def test_the_next_warden_begins_anew(self):
        quiet = self.create(cpus=1)
        hog = self.hog(cpus=1)
        self.wait_apart(hog, quiet)
        # The one who knew has no time to put things right.
        self.i.kill_role("carrel-warden")
        self.calm(hog)
        self.wait_together(hog, quiet)


class Grown(Hogs):
    CONF = {"spares": 0}

    def allow(self, cpus):
        for root in harness.cgroup_roots():
            path = f"{root}{self.i.cgroup}/cpuset.cpus"
            if os.path.exists(path):
                with open(path, "w") as f:
                    f.write(",".join(map(str, cpus)))

    def test_more_processors_are_for_all(self):
        self.allow({min(ALL)})
        quiet = self.create(cpus=1)
        hog = self.hog(cpus=len(ALL))  # nobody's neighbour: it may use all
        self.i.sh(quiet, "sleep 2")  # it is looked at
        self.assertEqual(self.may_use(hog), {min(ALL)})
        self.allow(ALL)
        self.wait_together(hog, quiet)


class Together(Hogs):
    """Where it is not wanted."""
    CONF = {"keep_apart": "no"}

    def test_a_hog_is_where_it_likes(self):
        quiet, hog = self.create(cpus=1), self.hog(cpus=1)
        self.i.sh(quiet, "sleep 3")
        self.wait_together(hog, quiet)


if __name__ == "__main__":
    harness.main()
