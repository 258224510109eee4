"""The programs are replaced by another build and the daemon is restarted: what
runs goes on, its clients come back, and old agents work with the new daemon."""

import os
import signal
import time

import harness
import next_build
from harness import SLOW, wait_for


class Upgrade(harness.Case):
    def upgrade(self):
        build = os.path.join(harness.BUILD, "bin")
        self.assertTrue(next_build.upgrade(build, self.i.bin))
        self.i.restart()

    def test_everything_goes_on(self):
        box = self.i.create(name="work")
        # A process with a client, one without, and a terminal.
        p = self.i.popen("exec", box, "--", "sh", "-c",
                         "echo one; read x; echo $x; exit 5")
        self.assertEqual(p.stdout.readline(), b"one\n")
        self.i.cli("exec", "-d", box, "--", "sh", "-c",
                   "while :; do echo >> /tmp/tick; sleep 0.05; done", check=0)
        before = set(self.i.box_pids())
        self.assertEqual(self.daemon_version(), next_build.version())
        self.upgrade()
        self.assertEqual(self.daemon_version(), next_build.next_version())
        self.assertTrue(before & set(self.i.box_pids()))
        out, err = p.communicate(b"two\n", timeout=30 * SLOW)
        self.assertEqual((p.returncode, out), (5, b"two\n"), err)
        size = self.i.sh(box, "wc -c < /tmp/tick").out
        wait_for("the command goes on",
                 lambda: self.i.sh(box, "wc -c < /tmp/tick").out != size, 10)
        self.assertEqual(self.i.sh("work", "echo $((6*7))").out, "42\n")
        new = self.i.create()
        self.assertEqual(self.i.sh(new, "echo new").out, "new\n")
        self.i.rm(box)
        self.i.rm(new)

    def daemon_version(self):
        return self.i.api("GET", "/v1/host").json["version"]

    def test_output_of_the_time_between(self):
        """What a process writes while there is no daemon is not lost."""
        box = self.i.create()
        p = self.i.popen("exec", box, "--", "sh", "-c",
                         "i=0; while [ $i -lt 200 ]; do i=$((i+1)); echo $i; "
                         "sleep 0.02; done")
        self.assertEqual(p.stdout.readline(), b"1\n")
        self.i.end_daemon()
        time.sleep(1)  # in which it writes to nobody
        self.i.start()
        out, err = p.communicate(timeout=60 * SLOW)
        self.assertEqual(out, b"".join(b"%d\n" % n for n in range(2, 201)), err)
        self.assertEqual(p.returncode, 0)
        self.i.rm(box)

    def test_the_client_is_killed_meanwhile(self):
        box = self.i.create()
        p = self.i.popen("exec", box, "--", "sleep", "1000")
        wait_for("it runs", lambda: "sleep" in
                 self.i.sh(box, "ps 2>/dev/null || cat /proc/*/cmdline").out, 10)
        self.i.end_daemon()
        p.send_signal(signal.SIGKILL)
        p.wait()
        self.i.start()
        self.assertEqual(self.i.sh(box, "echo fine").out, "fine\n")
        self.i.rm(box)


if __name__ == "__main__":
    harness.main()
