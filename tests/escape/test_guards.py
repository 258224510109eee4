# suite: mutations
# suite: alone
"""Mutations at the doors: a build that can send one guard away (base/guards.h),
and the rows of doors.py that notice.

Every row is run without each guard, one at a time. A guard whose absence no row
notices is not tested; a row that never breaks tests nothing, unless what holds
there cannot be sent away (HELD_BY_OTHERS says what it is). What broke is
compared with matrix.txt.
"""

import os
import re
import unittest

import attack
import doors
import harness
import matrix

BUILD = os.path.join(harness.TOP, "build-walls")
GUARDS = re.findall(r'X\(\w+, "(\w+)"\)',
                    harness.read(f"{harness.TOP}/src/base/guards.h"))
LAST = "H35"  # began with the rig, and takes its time


def mutate(guard):
    """{row: what was seen} without it; and rows that could not be tried."""
    broken, failed = {}, {}
    rig = doors.Rig(BUILD, guard)
    try:
        for name in sorted(doors.ROWS, key=lambda r: r == LAST):
            try:
                seen = doors.run(rig, name)
            except Exception as e:
                failed[name] = f"{type(e).__name__}: {e}"
                continue
            if seen:
                broken[name] = seen
    finally:
        rig.close()
    return broken, failed


class Guards(unittest.TestCase):
    maxDiff = None
    seen, done = set(), set()

    def guard(self, guard):
        broken, failed = mutate(guard)
        self.done.add(guard)
        self.seen.update(broken)
        print(f"# without {guard}: {' '.join(broken) or '-'}", flush=True)
        for name, what in {**broken, **failed}.items():
            print(f"#   {name} {what}", flush=True)
        matrix.record("guard", guard, "-", broken)
        self.assertEqual(failed, {}, "rows that could not be tried")
        self.assertTrue(broken, "nobody noticed")
        missing = matrix.plain(matrix.load()["guard", guard, "-"]) - set(broken)
        self.assertEqual(missing, set(), "still held")

    def test_0_all_are_there(self):
        self.assertEqual(mutate(""), ({}, {}))

    def test_2_every_row_can_break(self):
        """Runs after the guards, by its name."""
        if self.done != set(GUARDS):
            self.skipTest("not every guard was sent away in this run")
        self.assertEqual(set(doors.ROWS) - self.seen,
                         set(matrix.HELD_BY_OTHERS) & set(doors.ROWS))


for _guard in GUARDS:
    setattr(Guards, f"test_1_without_{_guard}",
            lambda self, guard=_guard: self.guard(guard))


if __name__ == "__main__":
    attack.own_network()
    harness.main()
