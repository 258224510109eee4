"""Two instances on one host. What one owns, the other does not touch."""

import os
import signal
import subprocess

import harness
from harness import SLOW, read, wait_for


class Instances(harness.Case):
    def setUp(self):
        super().setUp()
        self.box = self.i.create()
        self.i.cli("exec", "-d", self.box, "--", "sleep", "100000", check=0)
        self.pids = wait_for("it sleeps", self.sleepers, 10 * SLOW)

    def tearDown(self):
        if self.i.daemon.poll() is not None:
            self.i.start()
        super().tearDown()

    def second(self, **conf):
        """An instance that has all of the first but what `conf` says."""
        path = f"{self.i.dir}/second.conf"
        conf = {**self.i.conf, "run_dir": f"{self.i.dir}/run2",
                "state_dir": f"{self.i.dir}/state2", **conf}
        with open(path, "w") as f:
            f.writelines(f"{k} = {v}\n" for k, v in conf.items())
        log = open(f"{self.i.dir}/second.log", "wb")
        p = subprocess.Popen([f"{self.i.bin}/carreld", "--config", path],
                             stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                             env=self.i.env(), start_new_session=True)
        log.close()
        self.addCleanup(self.end, p)
        return p

    def end(self, p):
        if p.poll() is None:
            p.terminate()
            p.wait(20 * SLOW)

    def sleepers(self):
        return [p for p in self.i.box_pids()
                if read(f"/proc/{p}/comm", "") == "sleep\n"]

    def said(self):
        return read(f"{self.i.dir}/second.log")

    def check_alive(self):
        """Before anything is done to the daemon, and after."""
        self.assertEqual(self.sleepers(), self.pids)
        if self.i.daemon.poll() is not None:
            self.i.start()
        self.assertEqual(self.i.ids(), [self.box])
        self.assertEqual(self.i.sh(self.box, "echo ok").out, "ok\n")

    def other_ids(self):
        """A range of its own, as another test instance would have."""
        slot, lock = harness._slot()
        self.addCleanup(lock.close)
        return {"uid_base": harness.UID_BASE + slot * harness.UIDS_PER_SLOT}

    def test_second_instance_with_the_same_ids_and_cgroup_is_refused(self):
        """Only state_dir, run_dir and port differ."""
        p = self.second()
        self.assertNotEqual(p.wait(20 * SLOW), 0)
        for word in (self.i.state_dir + ":", "uid_base", "uid_count", "cgroup"):
            self.assertIn(word, self.said())
        self.check_alive()

    def test_second_instance_with_overlapping_ids_is_refused(self):
        for first in (0, 0x10100):
            p = self.second(cgroup=self.i.cgroup + "-2", uid_count=0x20200,
                            uid_base=int(self.i.conf["uid_base"]) + first)
            self.assertNotEqual(p.wait(20 * SLOW), 0)
            self.assertIn(self.i.state_dir + ":", self.said())
        self.check_alive()

    def test_second_instance_with_the_same_state_dir_is_refused(self):
        p = self.second(state_dir=self.i.state_dir, **self.other_ids())
        self.assertNotEqual(p.wait(20 * SLOW), 0)
        for word in (self.i.state_dir, "another instance"):
            self.assertIn(word, self.said())
        self.check_alive()

    def test_second_instance_with_the_same_cgroup_is_refused(self):
        """While the first one runs, and while only its sandboxes do."""
        ids = self.other_ids()
        for stopped in (False, True):
            with self.subTest(stopped=stopped):
                if stopped:
                    self.i.end_daemon()
                p = self.second(**ids)
                wait_for("it says why", lambda: "uid_count" in self.said(),
                         20 * SLOW)
                self.assertIn(self.i.state_dir + ":", self.said())
                self.assertNotIn("warden ready", self.said())
                self.end(p)
                self.check_alive()

    def test_killed_daemon_starts_again(self):
        """Its locks go with it."""
        os.kill(self.i.daemon.pid, signal.SIGKILL)
        self.i.daemon.wait()
        self.i.start()
        self.check_alive()


if __name__ == "__main__":
    harness.main()
