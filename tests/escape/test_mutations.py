# suite: slow
"""Mutations: a build that can leave out one wall, and the rows that notice.

Every row is run with every wall away, one at a time. A wall whose absence no row
notices is not tested; a row that never breaks tests nothing, unless what holds
there cannot be taken away (matrix.HELD_BY_OTHERS says what it is).
"""

import os
import re
import unittest

import attack
import harness
import matrix
import test_posture
from harness import SLOW

BUILD = os.path.join(harness.TOP, "build-walls")
MIB = 1 << 20
WALLS = re.findall(r'X\(\w+, "(\w+)"\)',
                   harness.read(f"{harness.TOP}/src/sandbox/walls.h"))

# The filter's own rows, broken for the user and for root.
FILTER = ("A1 A2 A3 A15 A16 B1 B2 B15 B16 B19 C3 D2 D3 D4 D5 D7 D8 D10 D11 D12 "
          "D13 D14 D15 D16 D18 D19 D20 D21 D22 D26 D27 D28 F23 G2")
# What must break when this wall is away: (as the user, by sudo).
MUST = {
    "seccomp": (FILTER, FILTER),
    "nnp": ("A8 A9 A16 " + FILTER, "A8 A9 A16 " + FILTER),
    "caps": ("A7 A14 B6", "A7 A14"),
    "userns": ("A4 A6 A11", "A4 A6 A11 A12 B9"),
    "nslimit": ("A4", "A4"),
    "idmap": ("A11", "A11 A12 B9"),
    "procmask": ("B12", "B12"),
    "procsys": ("B3", "B3"),
    "netns": ("G1 G3 G4 G6 G8 G10", "G1 G3 G4 G6 G8 G10"),
    "pidns": ("A11 D6", "A11 D6"),
    "ipcns": ("G5", "G5"),
    "cgroupns": ("B10 C1" if not attack.is_v2() else "C1",) * 2,
    "cgroupro": ("C1 C3", "C1 C3"),
    "limits": ("C4 F1 F2 F24 F25", "C4 F1 F2 F24 F25"),
    "nosuid": ("A9", "A9"),
    "rlimits": ("D22", "D22"),
    "agentuid": ("A12", ""),
    "closefds": ("B7", ""),
    "devro": ("B14", "B14"),
    "quota": ("F9 E17", "F9 E17"),
}
BY_NAME = ("F1", "F2", "F9", "F24", "F25", "E17")
# The posture record does not have these; or its reader cannot tell the sandbox'
# processes from the host's without them (and stops there, which is a failure of
# the posture test too, but a slow one).
NOT_IN_POSTURE = {"quota", "nslimit", "userns", "idmap", "pidns", "netns"}


class Mutation:
    """One instance without one wall; what its rows said."""

    def __init__(self, wall, canaries):
        self.broken, self.gone = {}, []
        conf = {"wall_off": wall} if wall else {}
        normal, harness.BUILD = harness.BUILD, BUILD
        try:
            i = harness.Instance(pool_size="512M", **conf)
        finally:
            harness.BUILD = normal
        try:
            self.run(i, canaries)
            if wall not in NOT_IN_POSTURE:
                self.posture = test_posture.differences(test_posture.take(i))
        finally:
            # Without pidns or limits the end may be slower: not judged here.
            i.stop(check=not wall)

    def run(self, i, canaries):
        box = i.create(memory=64 * MIB, pids=64, disk=32 * MIB)
        attack.put_probe(i, box)
        params = canaries.params(i, box)
        for who, sudo in (("user", False), ("root", True)):
            found = attack.probe(i, box, sudo=sudo, crashes=1, seconds=0, **params)
            found.update(attack.probe(i, box, BY_NAME, sudo=sudo, pids=64,
                                      mem_mb=64, disk_mb=32))
            self.broken[who] = {k: v.detail for k, v in found.items()
                                if v.word == "BROKEN"}
        self.touched = canaries.touched()


class Matrix(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.canaries = attack.Canaries()
        cls.seen, cls.done = set(), set()

    @classmethod
    def tearDownClass(cls):
        cls.canaries.close()

    def wall(self, wall):
        m = Mutation(wall, self.canaries)
        self.done.add(wall)
        for who, must in zip(("user", "root"), MUST[wall]):
            broken = m.broken[who]
            self.seen.update(broken)
            matrix.record("wall", wall, who, [
                row + "~" * what.startswith("gap") for row, what in
                broken.items()])
            print(f"# without {wall}, {who}: {' '.join(broken) or '-'}", flush=True)
            missing = set(must.split()) - set(broken)
            self.assertEqual(missing, set(), f"still held as {who}")
        if wall == "netns":
            self.assertTrue(m.touched, "the canaries on the host saw nothing")
        else:
            self.assertEqual(m.touched, [], "another wall should have held")
        if wall not in NOT_IN_POSTURE:
            self.assertTrue(m.posture, "the posture is as if it stood")

    def test_0_all_walls_up(self):
        m = Mutation("", self.canaries)
        self.assertEqual(m.broken, {"user": {}, "root": {}})
        self.assertEqual(m.touched, [])
        self.assertEqual(m.posture, [])

    def test_2_every_row_can_break(self):
        """Runs after the walls, by its name."""
        if self.done != set(WALLS):
            self.skipTest("not every wall was taken away in this run")
        rows = {r for r, (_, in_all) in attack.rows().items() if in_all}
        rows |= set(BY_NAME)
        # (F18 may break: the dead of a sandbox without its own numbers are
        # buried by the host's init, when that has time for it.)
        held = rows & set(matrix.HELD_BY_OTHERS) - {"F18"}
        if attack.is_v2():
            held.add("B10")  # its view is a mount of its own
        self.assertEqual(rows - self.seen - {"F18"}, held)


for _wall in WALLS:
    setattr(Matrix, f"test_1_without_{_wall}",
            lambda self, wall=_wall: self.wall(wall))


class Normal(unittest.TestCase):
    def test_walls_have_rows(self):
        self.assertEqual(sorted(WALLS), sorted(MUST))

    def test_normal_build_knows_no_wall_off(self):
        """The key is an error, and nothing starts."""
        class Quick(harness.Instance):
            def start(self, wait=True):
                super().start(wait=False)
        i = Quick(image=None, wall_off="seccomp")
        try:
            code = i.daemon.wait(10 * SLOW)
            self.assertNotEqual(code, 0)
            self.assertRegex(i.log(), r"wall_off")
        finally:
            i.stop(check=False)

    def test_test_build_refuses_unknown_walls(self):
        class Quick(harness.Instance):
            def start(self, wait=True):
                super().start(wait=False)
        normal, harness.BUILD = harness.BUILD, BUILD
        try:
            i = Quick(image=None, wall_off="moat")
        finally:
            harness.BUILD = normal
        try:
            harness.wait_for("it says so", lambda: "no wall is called 'moat'"
                             in i.log(), 10 * SLOW)
        finally:
            i.stop(check=False)


if __name__ == "__main__":
    attack.own_network()
    harness.main()
