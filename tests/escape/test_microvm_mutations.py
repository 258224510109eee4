# suite: microvm
"""A microVM without one of its walls: see test_mutations.py."""

import errno
import os
import unittest

import harness
from puppet import Puppet

BUILD = os.path.join(harness.TOP, "build-walls")


class Machines(unittest.TestCase):
    """The walls of QEMU: somebody who has taken it over."""

    def test_without_seccomp(self):
        normal, harness.BUILD = harness.BUILD, BUILD
        try:
            i = harness.Instance(wall_off="seccomp", vm_dir=harness.vm_dir())
        finally:
            harness.BUILD = normal
        with i:
            i.create(tier="microvm", memory="64M")
            pid = next(p for p in i.box_pids() if "qemu" in
                       harness.read(f"/proc/{p}/comm", ""))
            with Puppet(pid) as p:
                # It has them now: test_microvm_walls would notice.
                self.assertEqual(p.names("/usr/bin"), ["qemu-system-x86_64"])
                for call, *args in (("socket", 1, 1, 0), ("memfd_create", "x", 0),
                                    ("openat", -100, "/dev/null", os.O_WRONLY)):
                    self.assertEqual(p.error(call, *args), "", call)
                # Other walls stand behind: nobody is there to be reached.
                for name in (i.sock, f"{i.run_dir}/roles/warden.sock"):
                    with self.assertRaises(OSError) as e:
                        p.connect(name, 1)
                    self.assertEqual(e.exception.errno, errno.ENOENT)


if __name__ == "__main__":
    harness.main()
