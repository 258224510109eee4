"""The rows of doors.py, with everything in place: one test each."""

import unittest

import attack
import doors
import harness


class Doors(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.rig = doors.Rig()

    @classmethod
    def tearDownClass(cls):
        cls.rig.close()

    def row(self, name):
        self.assertEqual(doors.run(self.rig, name), "")


def add_row(name):
    def test(self):
        self.row(name)
    test.__doc__ = doors.ROWS[name].__name__
    setattr(Doors, f"test_row_{name}", test)


for _name in doors.ROWS:
    add_row(_name)


if __name__ == "__main__":
    attack.own_network()
    harness.main()
