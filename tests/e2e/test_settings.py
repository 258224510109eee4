"""Settings that a role would refuse again and again: the daemon ends, with the
role's own sentence."""

import os
import resource
import subprocess

import harness
from harness import SLOW, wait_for


class Settings(harness.Case):
    def daemon(self, **conf):
        """The instance, which does not run, with other settings."""
        path = f"{self.i.dir}/other.conf"
        with open(path, "w") as f:
            f.writelines(f"{k} = {v}\n" for k, v in {**self.i.conf,
                                                     **conf}.items())
        return subprocess.run(
            [f"{self.i.bin}/carreld", "--config", path],
            env=self.i.env(), timeout=60 * SLOW, text=True,
            stdin=subprocess.DEVNULL, capture_output=True)

    def test_wrong_setting_ends_the_daemon(self):
        self.i.end_daemon()
        try:
            for conf, said in (
                    ({"user": "no-such-user"}, "user 'no-such-user' does not"),
                    ({"gate_user": "no-such-user"}, "set `gate_user` in the"),
                    ({"group": "no-such-group"}, "group 'no-such-group'"),
                    ({"listen": "127.0.0.1:0"}, "is not an address and a port")):
                with self.subTest(conf=conf):
                    p = self.daemon(**conf)
                    self.assertEqual(p.returncode, 1, p.stderr)
                    self.assertIn(said, p.stderr)
        finally:
            self.i.start()

    def test_setting_that_became_wrong_does_not_end_what_runs(self):
        good = dict(self.i.conf)
        self.i.conf["listen"] = "127.0.0.1:0"
        self.i.write_conf()
        try:
            self.i.kill_role("carrel-api")
            wait_for("the api refuses it", lambda: self.i.log().count(
                "is not an address and a port") > 1, 20 * SLOW)
            self.assertIsNone(self.i.daemon.poll())
        finally:
            self.i.conf = good
            self.i.write_conf()
            self.i.wait_ready()

    def test_low_limit_of_descriptors_does_not_loop_the_scribe(self):
        self.i.end_daemon()
        began = len(self.i.log())
        with open(self.i.log_path, "ab") as log:
            self.i.daemon = subprocess.Popen(
                [f"{self.i.bin}/carreld", "--config", self.i.config],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env=self.i.env(), start_new_session=True,
                preexec_fn=lambda: resource.setrlimit(
                    resource.RLIMIT_NOFILE, (512, 512)))
        self.i.wait_ready()
        wait_for("the log works", lambda: self.i.api(
            "GET", "/v1/host").json["log"]["up"], 20 * SLOW)
        self.assertNotIn("role=carrel-scribe ended", self.i.log()[began:])
        self.i.end_daemon()
        self.i.start()

    def test_background_roles_outlive_sandboxes_when_memory_is_short(self):
        if not os.path.exists("/proc/self/oom_score_adj"):
            self.skipTest("no oom_score_adj")
        try:
            with open("/proc/self/oom_score_adj", "r+") as f:
                was = f.read().strip()
                f.write("-1")
                f.flush()
                f.write(was)
        except PermissionError:
            self.skipTest("this host lacks CAP_SYS_RESOURCE")
        self.i.end_daemon()
        subprocess.run([f"{self.i.bin}/carreld", "--background", "--config",
                        self.i.config], env=self.i.env(), check=True,
                       timeout=120 * SLOW)
        try:
            for name, pids in self.i.pids().items():
                if name in ("carreld", "carrel-api", "carrel-warden",
                            "carrel-scribe"):
                    self.assertEqual(harness.read(
                        f"/proc/{pids[0]}/oom_score_adj").strip(), "-900", name)
        finally:
            pid = int(harness.read(f"{self.i.run_dir}/daemon.pid"))
            os.kill(pid, 15)
            wait_for("it ends", lambda: not os.path.exists(f"/proc/{pid}"),
                     30 * SLOW)
            self.i.start()


if __name__ == "__main__":
    harness.main()
