# suite: slow
"""The host has a bad day, in short: the disk is full, the pool is full, there is
no memory, there are no descriptors, the clock jumps, the disk is slow, and parts
of the daemon die. Nothing that was acknowledged is lost, and nothing is left.

`make chaos` is the long form (tests/chaos)."""

import os
import sys
import unittest

import harness

sys.path.insert(0, os.path.join(harness.TOP, "tests/chaos"))
import disturb  # noqa: E402
import storm  # noqa: E402

# What other tests do alone is left to them.
ROWS = ("gate's keeper dies", "supervisor dies", "disk full", "pool full",
        "no memory: api", "no memory: for a start", "no descriptors: api",
        "no descriptors: warden", "clock goes forward", "clock goes back",
        "disk slow")


class Disturb(unittest.TestCase):
    def test_nothing_is_lost(self):
        rows = [r for r in disturb.table() if r.name in ROWS]
        self.assertEqual(len(rows), len(ROWS))
        for r in rows:
            r.seconds = min(r.seconds, 0.7)
        found = storm.Storm(0, 12, lambda s: print(f"# {s}", flush=True),
                            rows).run()
        self.assertEqual(found, [])


if __name__ == "__main__":
    harness.main()
