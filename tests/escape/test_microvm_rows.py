# suite: microvm
"""Escapes, in a sandbox with a kernel of its own: every row of the probe holds
there as it does in a container, and nothing of the host was touched."""

import tempfile

import attack
import harness
import test_escape
from harness import SLOW

MIB = 1 << 20
BOOT = 60 * SLOW  # emulated, beside other tests


class Rows(harness.Case):
    @classmethod
    def setUpClass(cls):
        cls.CONF = {"pool_size": "1G", "vm_dir": harness.vm_dir()}
        super().setUpClass()
        try:
            cls.prepare()
        except BaseException:
            cls.i.stop(check=False)
            raise

    @classmethod
    def prepare(cls):
        i = cls.i
        with tempfile.TemporaryDirectory() as d:
            test_escape.attack_image(f"{d}/attack.tar")
            r = attack.put_image(i, "attack", f"{d}/attack.tar")
        assert r.status == 201, r
        cls.canaries = attack.Canaries()
        cls.log = attack.KernelLog()
        try:
            cls.run_all(i)
            cls.touched = cls.canaries.touched()
            cls.log_lines = cls.log.lines()
        finally:
            cls.canaries.close()
            cls.log.close()

    @classmethod
    def run_all(cls, i):
        cls.box = i.create(tier="microvm", image="attack", memory=96 * MIB,
                           pids=128, disk=64 * MIB)
        assert i.sh(cls.box, "true", timeout=BOOT).returncode == 0
        attack.put_probe(i, cls.box)
        params = {**cls.canaries.params(i, cls.box), "slow": 10,
                  "crashes": 20, "seconds": 0,
                  "suid": "/usr/local/bin/suid-probe",
                  "capfile": "/usr/local/bin/cap-probe"}
        cls.found = {who: attack.probe(i, cls.box, sudo=sudo, timeout=5 * BOOT,
                                       **params)
                     for who, sudo in (("user", False), ("root", True))}

    def tearDown(self):
        """The sandbox is for all tests."""

    def test_rows(self):
        rows = {r for r, (_, in_all) in attack.rows().items() if in_all}
        for who, found in self.found.items():
            self.assertEqual(rows - set(found), set(), f"no verdict as {who}")
            for row, v in found.items():
                with self.subTest(f"{row} as {who}"):
                    self.assertNotEqual(v.word, "BROKEN", v.detail)
                    if v.word == "SKIP":
                        self.assertIn((who, row), {("root", "D26")}, v.detail)

    def test_host_canaries_were_not_touched(self):
        self.assertEqual(self.touched, [])

    def test_crashes_are_the_guest_s_own(self):
        """The host's log says nothing about them."""
        self.assertEqual([x for x in self.log_lines
                          if attack.ALARMS.search(x)], [])

    def test_machine_still_works(self):
        self.assertEqual(self.i.sh(self.box, "echo alive", timeout=BOOT).out,
                         "alive\n")

    def test_host_sees_qemu_alone(self):
        """No process of the guest is one of the host's."""
        names = {harness.read(f"/proc/{p}/comm", "").strip()[:4]
                 for p in self.i.box_pids()}
        self.assertLessEqual(names, {"qemu", "carr"}, names)
        for p in self.i.box_pids():
            s = attack.status(p)
            if "qemu" not in s["Name"]:
                continue
            for k in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
                self.assertEqual(int(s[k], 16), 0, f"{k} of QEMU")
            self.assertEqual((s["NoNewPrivs"], s["Seccomp"]), ("1", "2"))
            self.assertGreater(int(s["Uid"].split()[0]), 1 << 20)


if __name__ == "__main__":
    attack.own_network()
    harness.main()
