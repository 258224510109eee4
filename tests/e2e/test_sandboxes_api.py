# suite: sanitized
"""What a spec asks for is there, and what can be done to a sandbox."""

import time
import unittest

import harness
from harness import SLOW, wait_for


class Spec(harness.Case):
    def test_defaults_of_processes(self):
        box = self.i.create(user="root", workdir="/etc", nofile=99,
                            env={"A": "b"})
        out = self.i.sh(box, "id -u; pwd; ulimit -n; ulimit -Hn; echo $A").out
        self.assertEqual(out.split(), ["0", "/etc", "99", "99", "b"])
        # Who asks for something else gets it.
        p = self.i.cli("exec", "-u", "1000", "-w", "/tmp", "-e", "A=c", box, "--",
                       "sh", "-c", "id -u; pwd; echo $A")
        self.assertEqual(p.out.split(), ["1000", "/tmp", "c"])
        self.i.rm(box)

    def test_usual_number_of_files(self):
        box = self.i.create()
        soft, hard = self.i.sh(box, "ulimit -n; ulimit -Hn").out.split()
        self.assertEqual(soft, "1024")
        self.i.rm(box)
        # As many as there may be, on a host that gives less.
        box = self.i.create(nofile=65536)
        self.assertEqual(self.i.sh(box, "ulimit -n; ulimit -Hn").out.split(),
                         [hard, hard])
        self.i.rm(box)

    def test_few_files_among_many_processes(self):
        """The agent's own descriptors do not count."""
        box = self.i.create(nofile=16)
        for _ in range(40):
            self.i.cli("exec", "-d", box, "--", "sleep", "100", check=0)
        self.assertEqual(self.i.sh(box, "ulimit -n; sudo -n id -u").out.split(),
                         ["16", "0"])
        self.i.rm(box)

    def test_start_commands(self):
        p = self.i.cli("create", "--start", "echo one > one; sleep 1000", "--start",
                       "echo $A > two", "-e", "A=two", "--label", "team=core",
                       "--port", "web=8080", "--user", "root", "--workdir", "/var",
                       check=0)
        box = p.out.strip()
        wait_for("both ran", lambda: self.i.sh(box, "cat one two").out ==
                 "one\ntwo\n", 5 * SLOW)
        self.assertIn("sleep", self.i.sh(box, "ps -ef || ps").out)
        j = self.i.api("GET", f"/v1/sandboxes/{box}").json
        self.assertEqual(j["labels"], {"team": "core"})
        self.assertEqual((j["spec"]["ports"], j["spec"]["labels"]),
                         ({"web": 8080}, {"team": "core"}))
        self.assertEqual(len(j["spec"]["start"]), 2)
        # They are of the start, not of every start of the daemon.
        self.i.sh(box, "rm one two")
        self.i.restart()
        time.sleep(0.3)
        self.assertNotIn("one", self.i.sh(box, "ls").out)
        self.assertEqual(self.i.api("GET", f"/v1/sandboxes/{box}").json["spec"],
                         j["spec"])
        self.i.rm(box)

    def test_start_of_a_run(self):
        p = self.i.cli("run", "--start", "echo hi > /tmp/x", "--", "sh", "-c",
                       "until cat /tmp/x 2>/dev/null; do sleep 0.05; done", check=0)
        self.assertEqual(p.out, "hi\n")

    def test_bad_words(self):
        for args, word in ((("--label", "x"), "--label"), (("--port", "=1"), "--port"),
                           (("--port", "web=x"), "web"), (("--label", "a b=c"), "a b")):
            p = self.i.cli("create", *args)
            self.assertNotEqual(p.returncode, 0)
            self.assertIn(word, p.err)
        self.assertEqual(self.i.ids(), [])


if __name__ == "__main__":
    harness.main()
