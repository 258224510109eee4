# suite: both
# suite: sanitized
"""What a user sees: run, create, exec, ls, rm; streams as if local."""

import hashlib
import json
import os
import pty
import signal
import subprocess
import threading
import unittest

import harness
from harness import SLOW, wait_for


class Run(harness.Case):
    def test_output_and_exit_code(self):
        p = self.i.cli("run", "--", "sh", "-c", "echo out; echo err >&2; exit 3")
        self.assertEqual((p.returncode, p.out, p.err), (3, "out\n", "err\n"))

    def test_exit_codes(self):
        for script, code in (("true", 0), ("false", 1), ("exit 124", 124),
                             ("kill -TERM $$", 128 + 15),
                             ("kill -KILL $$", 128 + 9)):
            with self.subTest(script):
                p = self.i.cli("run", "--", "sh", "-c", script)
                self.assertEqual(p.returncode, code, p.err)

    def test_command_not_found(self):
        p = self.i.cli("run", "--", "no-such-command")
        self.assertEqual(p.returncode, 127)
        self.assertIn("no-such-command", p.err)
        self.assertEqual(len(p.err.splitlines()), 1)

    def test_command_not_executable(self):
        p = self.i.cli("run", "--", "/etc/passwd")
        self.assertEqual(p.returncode, 126)
        self.assertIn("/etc/passwd", p.err)

    def test_stdin(self):
        data = os.urandom(3 << 20)
        p = self.i.cli("run", "--", "sha256sum", input=data)
        self.assertEqual(p.out.split()[0], hashlib.sha256(data).hexdigest())

    def test_stdin_there_and_back(self):
        data = os.urandom(8 << 20)
        p = self.i.cli("run", "--", "cat", input=data)
        self.assertEqual(p.returncode, 0, p.err)
        self.assertEqual(hashlib.sha256(p.stdout).digest(),
                         hashlib.sha256(data).digest())

    def test_no_stdin_is_the_end(self):
        p = self.i.cli("run", "--", "cat")
        self.assertEqual((p.returncode, p.out), (0, ""))

    def test_words_arrive_as_they_are(self):
        words = ["a b", "", "'", '"', "$x", "*", "\n", "\\", "-n", "ü"]
        p = self.i.cli("run", "--", "sh", "-c",
                       'for w; do printf "%s\\000" "$w"; done', "sh", *words)
        self.assertEqual(p.stdout, b"".join(w.encode() + b"\0" for w in words))

    def test_environment(self):
        p = self.i.cli("run", "-e", "COLOR=red", "-e", "EMPTY=", "--", "env")
        self.assertIn("COLOR=red\n", p.out)
        self.assertIn("EMPTY=\n", p.out)
        self.assertIn("HOME=/home/user\n", p.out)
        self.assertNotIn("CARREL", p.out)

    def test_user_and_directory(self):
        p = self.i.cli("run", "--", "sh", "-c", "id -u; id -g; pwd; touch x && ls")
        self.assertEqual(p.out.split(), ["1000", "1000", "/home/user", "x"])
        p = self.i.cli("run", "-w", "/tmp", "--", "pwd")
        self.assertEqual(p.out, "/tmp\n")

    def test_posture_in_short(self):
        p = self.i.cli("run", "--", "grep", "-E", "^(Cap|NoNew|Seccomp:)",
                       "/proc/self/status")
        have = dict(line.split(":\t") for line in p.out.splitlines())
        for cap in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
            self.assertEqual(int(have[cap], 16), 0, cap)
        self.assertEqual(have["NoNewPrivs"], "1")
        self.assertEqual(have["Seccomp"], "2")

    def test_gone_afterwards(self):
        p = self.i.cli("run", "--", "sh", "-c", "sleep 1000 & echo hi")
        self.assertEqual((p.returncode, p.out), (0, "hi\n"))
        wait_for("the sandbox is gone", lambda: not self.i.ids(), 2 * SLOW)
        wait_for("its processes are gone", lambda: not self.i.box_pids(),
                 2 * SLOW)

    def test_two_runs_do_not_meet(self):
        self.i.cli("run", "--", "sh", "-c", "echo secret > /tmp/x; echo > ~/x",
                   check=0)
        p = self.i.cli("run", "--", "sh", "-c", "ls /tmp ~")
        self.assertNotIn("x", p.out.split())

    def test_interrupt_reaches_inside(self):
        p = self.i.popen("run", "--", "sh", "-c",
                         "trap 'echo caught; exit 9' INT; echo ready;"
                         "while :; do sleep 0.1; done")
        self.assertEqual(p.stdout.readline(), b"ready\n")
        p.send_signal(signal.SIGINT)
        out, err = p.communicate(timeout=10 * SLOW)
        self.assertEqual((p.returncode, out), (9, b"caught\n"), err)
        wait_for("the sandbox is gone", lambda: not self.i.ids(), 2 * SLOW)

    def test_killed_client_ends_the_sandbox(self):
        p = self.i.popen("run", "--", "sh", "-c", "echo ready; sleep 1000")
        self.assertEqual(p.stdout.readline(), b"ready\n")
        self.assertEqual(len(self.i.ids()), 1)
        p.kill()
        p.communicate()
        wait_for("the sandbox is gone", lambda: not self.i.ids(), 3 * SLOW)

    def test_terminal(self):
        here, there = pty.openpty()
        try:
            p = self.i.popen("run", "-t", "--", "sh", "-c",
                             "tty; stty size; exit 5",
                             stdin=there, stdout=there, stderr=there)
            os.close(there)
            got = b""
            while True:
                try:
                    data = os.read(here, 4096)
                except OSError:
                    break
                if not data:
                    break
                got += data
            self.assertEqual(p.wait(10 * SLOW), 5, got)
            self.assertIn(b"/dev/pts/", got)
        finally:
            os.close(here)

    def test_closed_output_stops_the_command(self):
        """`carrel run yes | head -1` ends."""
        p = self.i.popen("run", "--", "yes", stdin=subprocess.DEVNULL)
        self.assertEqual(p.stdout.readline(), b"y\n")
        p.stdout.close()
        p.wait(10 * SLOW)
        p.stderr.close()
        wait_for("the sandbox is gone", lambda: not self.i.ids(), 3 * SLOW)

    def test_result_of_a_pipe(self):
        a = self.i.popen("run", "--", "seq", "100000", stdin=subprocess.DEVNULL,
                         stderr=None)
        b = self.i.popen("run", "--", "tail", "-n", "1", stdin=a.stdout,
                         stderr=None)
        a.stdout.close()
        out, _ = b.communicate(timeout=30 * SLOW)
        self.assertEqual(out, b"100000\n")
        self.assertEqual(a.wait(60), 0)


class MuchOutput(harness.Case):
    # Emulation is slow, and does the same with the 64th megabyte.
    SIZE = (64 << 20) if harness.SANITIZED or harness.TIER == "microvm" else \
        (1 << 30)

    def rss(self):
        """Resident memory of the roles, in bytes."""
        total = 0
        for name, pids in self.i.pids().items():
            for pid in pids:
                if name != "carrel":
                    total += int(harness.read(f"/proc/{pid}/statm").split()[1])
        return total * 4096

    def test_every_byte_and_no_buffer(self):
        """Much: neither buffered nor short of a byte."""
        before = self.rss()
        most = before
        script = f"yes 0123456789abcde | head -c {self.SIZE}"
        want = hashlib.sha256()
        block = b"0123456789abcde\n" * 65536
        for _ in range(self.SIZE // len(block)):
            want.update(block)
        p = self.i.popen("run", "--", "sh", "-c", script,
                         stdin=subprocess.DEVNULL, bufsize=0)
        got, n = hashlib.sha256(), 0
        mark = 0
        while data := p.stdout.read(1 << 20):
            got.update(data)
            n += len(data)
            if n - mark > 64 << 20:
                mark = n
                most = max(most, self.rss())
        self.assertEqual(p.wait(60), 0, p.stderr.read())
        p.stdout.close()
        p.stderr.close()
        self.assertEqual(n, self.SIZE)
        self.assertEqual(got.digest(), want.digest())
        if not harness.SANITIZED:
            self.assertLess(most - before, 16 << 20, "the roles grew")

    def test_a_slow_reader_blocks_the_writer(self):
        box = self.i.create()
        w = self.i.exec_wire(box)
        w.spawn(["sh", "-c", "yes & echo $! > /tmp/pid; wait"])
        # Nothing is acknowledged: a window comes, and then no more.
        got = 0
        try:
            while True:
                w.sock.settimeout(60 * SLOW if got < harness.WINDOW else 0.5)
                kind, _, p = w.recv()
                if kind == harness.OUTPUT:
                    got += len(p) - 9
        except TimeoutError:
            pass
        self.assertEqual(got, harness.WINDOW)
        used = self.i.sh(box, "cat /proc/$(cat /tmp/pid)/wchan; "
                         "awk '/State/{print $2}' /proc/$(cat /tmp/pid)/status")
        self.assertIn("S", used.out)
        w.close()


class Life(harness.Case):
    def test_create_exec_ls_rm(self):
        p = self.i.cli("create", "--name", "work", "--cpus", "1", "--memory",
                       "128M", "--disk", "64M", "--timeout", "1h", check=0)
        box = p.out.strip()
        self.assertRegex(p.out, r"\Ai[a-z2-7]{26}\n\Z")
        self.assertEqual(p.err, "")
        self.i.cli("exec", "work", "--", "sh", "-c", "echo hello > note", check=0)
        self.assertEqual(self.i.cli("exec", box, "--", "cat", "note").out,
                         "hello\n")
        self.assertEqual(self.i.cli("exec", box[:8], "--", "cat", "note").out,
                         "hello\n")
        self.assertIn("work", self.i.cli("ls").out)
        self.assertEqual(self.i.cli("ls", "-q").out.split(), [box])
        spec = json.loads(self.i.cli("ls", "--json").out)[0]["spec"]
        self.assertEqual((spec["memory"], spec["disk"], spec["cpus"],
                          spec["timeout"]), (128 << 20, 64 << 20, 1, 3600))
        self.i.cli("rm", "work", check=0)
        self.assertEqual(self.i.cli("ls", "-q").out, "")
        p = self.i.cli("exec", "work", "--", "true")
        self.assertEqual(p.returncode, 125)
        self.assertIn("work", p.err)

    def test_client_that_leaves_at_once(self):
        """Gone between its request and the start: nobody's fault."""
        box = self.i.cli("create", check=0).out.strip()
        for _ in range(40):
            w = self.i.exec_wire(box)
            w.spawn(["true"])
            w.close()
        self.assertEqual(self.i.cli("exec", box, "--", "echo", "on").out, "on\n")
        self.assertFalse(self.i.api("GET", f"/v1/sandboxes/{box}")
                         .json["degraded"])
        self.i.cli("rm", box, check=0)

    def test_rm_of_several(self):
        for name in ("one", "two", "three"):
            self.i.cli("create", "--name", name, check=0)
        p = self.i.cli("rm", "one", "no-such", "two")
        self.assertNotEqual(p.returncode, 0)
        self.assertIn("no-such", p.err)
        self.assertEqual(len(self.i.ids()), 1, "the others are gone all the same")
        self.i.cli("rm", "three", check=0)

    def test_names_are_unique(self):
        self.i.cli("create", "--name", "twin", check=0)
        p = self.i.cli("create", "--name", "twin")
        self.assertNotEqual(p.returncode, 0)
        self.assertIn("twin", p.err)
        self.assertEqual(len(self.i.ids()), 1)
        self.i.cli("rm", "twin", check=0)
        self.i.cli("create", "--name", "twin", check=0)

    def test_hostname_is_the_name(self):
        self.i.cli("create", "--name", "my-host", check=0)
        self.assertEqual(self.i.sh("my-host", "hostname").out, "my-host\n")

    def test_kill_switch(self):
        for _ in range(5):
            self.i.create()
        p = self.i.cli("rm", "--all")
        self.assertNotEqual(p.returncode, 0, "without --force it must ask")
        p = self.i.cli("rm", "--all", "--force", check=0)
        self.assertEqual(self.i.ids(), [])
        self.assertEqual(self.i.box_pids(), [])

    def test_files_and_processes_stay_between_execs(self):
        box = self.i.create()
        self.i.cli("exec", "-d", box, "--", "sh", "-c",
                   "echo $$ > /tmp/pid; exec sleep 1000", check=0)
        wait_for("it runs", lambda: self.i.sh(
            box, "kill -0 $(cat /tmp/pid)").returncode == 0, 5 * SLOW)

    def test_many_at_once(self):
        errors = []

        def one(n):
            p = self.i.cli("run", "--", "sh", "-c", f"echo {n}; exit {n}")
            if (p.returncode, p.out) != (n, f"{n}\n"):
                errors.append((n, p.returncode, p.out, p.err))
        threads = [threading.Thread(target=one, args=(n,)) for n in range(20)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(errors, [])

    def test_many_channels_on_one_connection(self):
        box = self.i.create()
        w = self.i.exec_wire(box)
        for n in range(1, 21):
            w.spawn(["sh", "-c", f"exit {n}"], channel=n)
        codes = {}
        while len(codes) < 20:
            kind, chan, p = w.recv()
            if kind == harness.EXIT:
                codes[chan] = int.from_bytes(p[1:5], "little")
        self.assertEqual(codes, {n: n for n in range(1, 21)})
        w.close()


class Errors(harness.Case):
    """Each a line that names the object and the remedy."""

    def refused(self, *args, has, code=None):
        p = self.i.cli(*args)
        self.assertNotEqual(p.returncode, 0, args)
        if code:
            self.assertEqual(p.returncode, code, p.err)
        self.assertEqual(len(p.err.strip().splitlines()), 1, p.err)
        for word in has if isinstance(has, tuple) else (has,):
            self.assertIn(word, p.err)

    def test_wrong_specs(self):
        for args, word in (
                (("--memory", "1"), "memory"), (("--memory", "lots"), "memory"),
                (("--cpus", "0"), "cpus"), (("--pids", "1"), "pids"),
                (("--disk", "1K"), "disk"), (("--name", "No_Good"), "name"),
                (("--image", "nowhere"), "nowhere")):
            with self.subTest(args):
                self.refused("create", *args, has=word)
        self.assertEqual(self.i.ids(), [])

    def test_run_of_a_missing_image(self):
        self.refused("run", "--image", "nowhere", "--", "true",
                     has=("nowhere", "image"), code=125)

    def test_unknown_things(self):
        self.refused("exec", "nobody", "--", "true", has="nobody", code=125)
        self.refused("rm", "nobody", has="nobody")
        self.refused("image", "rm", "nothing", has="nothing")

    def test_api_errors(self):
        r = self.i.api("POST", "/v1/sandboxes", {"colour": "red"})
        self.assertEqual(r.status, 400)
        self.assertIn("colour", r.json["message"])
        self.assertEqual(r.json["code"], 400)
        self.assertTrue(r.json["request_id"])
        self.assertEqual(self.i.api("GET", "/v1/nothing").status, 404)
        self.assertEqual(self.i.api("PATCH", "/v1/sandboxes").status, 405)
        self.assertEqual(self.i.api("POST", "/v1/sandboxes", b"{").status, 400)

    def test_broken_image_is_refused(self):
        r = self.i.api("PUT", "/v1/images/broken", os.urandom(100000))
        self.assertIn(r.status, (400, 422))
        names = [m["name"] for m in self.i.api("GET", "/v1/images").json["images"]]
        self.assertNotIn("broken", names)

    def test_image_in_use_is_kept(self):
        self.i.create()
        self.assertEqual(self.i.api("DELETE", "/v1/images/tiny").status, 409)


class NotRunning(unittest.TestCase):
    def test_no_daemon(self):
        with harness.Instance(image=None) as i:
            i.end_daemon()
            p = i.cli("ls")
            self.assertEqual(p.returncode, 1)
            self.assertIn("carreld", p.err)
            self.assertEqual(len(p.err.splitlines()), 1)

    def test_no_image(self):
        with harness.Instance(image=None) as i:
            p = i.cli("run", "--", "true")
            self.assertEqual(p.returncode, 125)
            self.assertIn("image", p.err)


if __name__ == "__main__":
    harness.main()
