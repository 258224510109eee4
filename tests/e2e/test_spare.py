"""The agent's child made ahead: what starts from it is as if it had not been."""

import time

import harness

# Sets p: of those that are no user's, PID 1 apart, only the one that waits. Who
# asks has used one itself: it asks until the next one was made.
WAITING = ("p=; until [ -n \"$p\" ]; do p=$(for f in /proc/[0-9]*/cmdline; do "
           "p=${f#/proc/}; p=${p%/*}; [ $p = 1 ] || ! grep -q ^agent $f || "
           "echo $p; done); done; ")


class Spare(harness.Case):
    def setUp(self):
        self.box = self.i.create()

    def waiting(self):
        return self.i.sh(self.box, WAITING + "echo $p").out.split()

    def test_one_waits_and_another_follows(self):
        first, second = self.waiting(), self.waiting()
        self.assertEqual((len(first), len(second)), (1, 1))
        self.assertNotEqual(first, second)

    def test_root_inside_cannot_keep_processes_from_starting(self):
        for sig in ("STOP", "KILL", "TERM"):
            with self.subTest(sig):
                p = self.i.sh(self.box,
                              WAITING + f"sudo kill -{sig} $p && echo told")
                self.assertEqual(p.out, "told\n", p.err)
                self.assertEqual(self.i.sh(self.box, "echo fine",
                                           timeout=20).out, "fine\n")

    def test_others_cannot_signal_it(self):
        p = self.i.sh(self.box, WAITING + "kill -9 $p || sudo kill -0 $p && "
                      "echo lives")
        self.assertEqual(p.out, "lives\n")
        self.assertIn("not permitted", p.err)

    def test_a_large_request_starts_without_it(self):
        time.sleep(0.2)
        p = self.i.cli("exec", self.box, "--", "sh", "-c", "echo ${#1}", "sh",
                       "x" * 50000)
        self.assertEqual(p.stdout, b"50000\n")

    def test_errors_are_told(self):
        time.sleep(0.2)
        p = self.i.cli("exec", self.box, "--", "no-such-program")
        self.assertIn(b"command not found", p.stderr)
        time.sleep(0.2)
        box = self.i.create(sudo=False)
        time.sleep(0.2)
        p = self.i.cli("exec", "--user", "0", box, "--", "true")
        self.assertIn(b"sudo is turned off", p.stderr)


if __name__ == "__main__":
    harness.main()
