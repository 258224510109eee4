# suite: slow
# suite: sanitized
"""Streams that last: the daemon is killed or upgraded while commands run in
sandboxes, and not a byte of theirs is lost, doubled or out of order."""

import hashlib
import os
import signal
import subprocess
import threading
import time

import harness
from harness import SANITIZED, SLOW, Case, wait_for

BIG = (12 if SANITIZED else 48) << 20


class Back(Case):
    def setUp(self):
        self.ref = self.i.create(name="work")

    def kill_all(self):
        """Everything of the daemon at once, as when its host takes it."""
        pids = [p for n, ps in self.i.pids().items() for p in ps
                if n in ("carreld", "carrel-api", "carrel-warden",
                         "carrel-scribe")]
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        self.i.daemon.wait()
        self.i.start()

    def exec(self, script, **kw):
        kw.setdefault("stdin", subprocess.DEVNULL)
        return self.i.popen("exec", "work", "--", "sh", "-c", script, **kw)

    def test_exit_code_and_output(self):
        p = self.exec("n=0; while [ $n -lt 20 ]; do n=$((n+1)); echo out $n; "
                      "echo err $n >&2; sleep 0.1; done; exit 9")
        time.sleep(0.5)
        self.i.kill_role("carrel-api")
        time.sleep(0.5)
        self.kill_all()
        out, err = p.communicate(timeout=30 * SLOW)
        self.assertEqual(p.returncode, 9)
        self.assertEqual(out.decode(), "".join(f"out {n}\n" for n in
                                               range(1, 21)))
        self.assertEqual(err.decode(), "".join(f"err {n}\n" for n in
                                               range(1, 21)))

    def test_upgrade(self):
        """SIGTERM to the old one, then a new one: nobody notices."""
        p = self.exec("read x; echo got $x; exit 3", stdin=subprocess.PIPE)
        time.sleep(0.3)
        self.i.restart()
        p.stdin.write(b"hello\n")
        p.stdin.flush()
        out, err = p.communicate(timeout=20 * SLOW)
        self.assertEqual((p.returncode, out, err), (3, b"got hello\n", b""))

    def test_ends_while_nobody_is_there(self):
        p = self.exec("sleep 0.3; echo last words; exit 5")
        time.sleep(0.1)
        self.i.daemon.send_signal(signal.SIGTERM)
        self.i.daemon.wait()
        time.sleep(1)
        self.i.start()
        out, _ = p.communicate(timeout=20 * SLOW)
        self.assertEqual((p.returncode, out), (5, b"last words\n"))

    def during_kills(self, fn):
        """Runs fn while all of the daemon is killed and started again."""
        stop, n = threading.Event(), 0

        def kill():
            nonlocal n
            while not stop.wait(0.3):
                self.kill_all()
                n += 1
        t = threading.Thread(target=kill)
        t.start()
        try:
            fn()
        finally:
            stop.set()
            t.join()
        self.assertGreater(n, 2, "too quick to be killed")

    def test_much_output(self):
        block = BIG // 48
        p = self.exec(f"head -c {block} /dev/urandom > f; sha256sum f >&2; "
                      f"n=0; while [ $n -lt {BIG // block} ]; do cat f; "
                      f"sleep {0.05 * SLOW}; n=$((n+1)); done; exit 7")
        digests = set()

        def read():
            while data := p.stdout.read(block):
                digests.add((len(data), hashlib.sha256(data).hexdigest()))
                self.n += len(data)
        self.n = 0
        self.during_kills(read)
        err = p.stderr.read().decode()
        self.assertEqual((p.wait(60), self.n), (7, BIG), err)
        self.assertEqual(digests, {(block, err.split()[0])})
        p.stdout.close()
        p.stderr.close()

    def test_much_input(self):
        data = os.urandom(BIG // 2)
        p = self.exec("sha256sum; exit 4", stdin=subprocess.PIPE)

        def write():
            step = len(data) // 100
            for at in range(0, len(data), step):
                p.stdin.write(data[at:at + step])
                time.sleep(0.02 * SLOW)
            p.stdin.close()
        self.during_kills(write)
        out, err = p.stdout.read(), p.stderr.read()
        self.assertEqual((p.wait(60), err), (4, b""))
        self.assertEqual(out.split()[0].decode(),
                         hashlib.sha256(data).hexdigest())
        p.stdout.close()
        p.stderr.close()

    def test_started_once(self):
        """However often the daemon dies on the way."""
        def many():
            for n in range(60):
                time.sleep(0.02)
                p = self.i.cli("exec", "work", "sh", "-c",
                               f"echo x >> /tmp/started.{n}; exit 2")
                # Nobody there at all when we first ask is an error.
                self.assertIn(p.returncode, (2, 125), p.err)
                got = self.i.cli("exec", "work", "cat", f"/tmp/started.{n}")
                while got.returncode == 125:
                    time.sleep(0.1)
                    got = self.i.cli("exec", "work", "cat",
                                     f"/tmp/started.{n}")
                if p.returncode == 2:
                    self.assertEqual(got.out, "x\n")
                else:
                    self.assertIn(got.out, ("", "x\n"))
        self.during_kills(many)

    def test_the_sandbox_goes(self):
        p = self.exec("sleep 60")
        time.sleep(0.3)
        self.i.rm("work")
        _, err = p.communicate(timeout=20 * SLOW)
        self.assertNotEqual(p.returncode, 0)
        self.assertTrue(err.startswith(b"carrel: "), err)

    def test_run_ends(self):
        """Its sandbox goes with the daemon: it says so and ends."""
        p = self.i.popen("run", "--", "sh", "-c", "echo ready; sleep 60")
        self.assertEqual(p.stdout.readline(), b"ready\n")
        self.i.kill_role("carrel-api")
        _, err = p.communicate(timeout=20 * SLOW)
        self.assertEqual(p.returncode, 125)
        self.assertIn(b"connection to the sandbox was lost", err)
        self.i.wait_ready()


class Later(Case):
    """Processes that nobody is attached to."""

    def setUp(self):
        self.ref = self.i.create(name="work")

    def test_life_of_a_server(self):
        n = self.i.cli("exec", "-d", "--tag", "server", "work", "sh", "-c",
                       "echo one; echo two >&2; read x; sleep 60",
                       check=0).out.strip()
        rows = self.i.cli("ps", "work", check=0).out.splitlines()
        self.assertEqual(len(rows), 2)
        self.assertRegex(rows[1], rf"^{n} +\d+ +user +- +running .* server +sh "
                                  "-c echo one; .*")
        wait_for("it has spoken", lambda: self.i.cli(
            "logs", "work", n, check=0).err == "two\n", 10 * SLOW)
        for ref in (n, "tag:server"):
            p = self.i.cli("logs", "work", ref, check=0)
            self.assertEqual((p.out, p.err), ("one\n", "two\n"))
        p = self.i.cli("exec", "--tag", "server", "work", "true")
        self.assertEqual(p.returncode, 126)
        p = self.i.popen("attach", "work", "tag:server")
        time.sleep(0.5)
        p.send_signal(signal.SIGTERM)
        p.communicate(timeout=10 * SLOW)
        self.assertEqual(p.returncode, 143)
        self.assertEqual(len(self.i.cli("ps", "work").out.splitlines()), 1)
        self.assertRegex(self.i.cli("ps", "-a", "work").out,
                         rf"(?m)^{n} .* signal 15 ")

    def test_logs_follow(self):
        n = self.i.cli("exec", "-d", "work", "sh", "-c",
                       "for i in 1 2 3 4; do echo $i; sleep 0.3; done; exit 3",
                       check=0).out.strip()
        p = self.i.cli("logs", "-f", "work", n)
        self.assertEqual((p.returncode, p.out), (0, "1\n2\n3\n4\n"))
        self.assertEqual(self.i.cli("logs", "work").out, "1\n2\n3\n4\n")

    def test_logs_of_much(self):
        """The last 256 KiB are kept, and it is said what is not."""
        n = self.i.cli("exec", "-d", "work", "sh", "-c",
                       "seq 100000", check=0).out.strip()
        wait_for("it ends", lambda: len(
            self.i.cli("ps", "work").out.splitlines()) == 1, 10 * SLOW)
        p = self.i.cli("logs", "work", n, check=0)
        whole = "".join(f"{n}\n" for n in range(1, 100001))
        self.assertTrue(whole.endswith(p.out))
        self.assertEqual(len(p.out), 256 << 10)
        self.assertEqual(p.err, f"carrel: the first {len(whole) - (256 << 10)}"
                                " bytes of output are no longer kept\n")

    def test_attach_survives_the_daemon(self):
        n = self.i.cli("exec", "-d", "work", "sh", "-c",
                       "sleep 2; echo end; exit 6", check=0).out.strip()
        p = self.i.popen("attach", "-n", "work", n)
        time.sleep(0.5)
        self.i.kill_role("carrel-api")
        out, err = p.communicate(timeout=20 * SLOW)
        self.assertEqual((p.returncode, out, err), (6, b"end\n", b""))

    @harness.plain_only
    def test_gap(self):
        """Lost to a client that was away while much was written."""
        p = self.i.popen("exec", "work", "--", "sh", "-c",
                         "echo first; sleep 1; seq 200000; echo last",
                         stdin=subprocess.DEVNULL)
        self.assertEqual(p.stdout.readline(), b"first\n")
        self.i.end_daemon()
        # A lost client is waited for 30 s; then the oldest bytes give way.
        time.sleep(35)
        self.i.start()
        out, err = p.communicate(timeout=20 * SLOW)
        self.assertEqual(p.returncode, 0)
        self.assertTrue(out.endswith(b"199999\n200000\nlast\n"))
        self.assertRegex(err, rb"^carrel: \d+ bytes of output were lost\n$")
        lost = int(err.split()[1])
        whole = len("".join(f"{n}\n" for n in range(1, 200001))) + 5
        self.assertEqual(len(out) + lost, whole)


if __name__ == "__main__":
    harness.main()
