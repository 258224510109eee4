# suite: both
# suite: sanitized
"""The command line and the real daemon: a command in a sandbox behaves as if
it ran here, and the verbs do what they say."""

import fcntl
import hashlib
import json
import os
import pty
import re
import select
import signal
import socket
import struct
import subprocess
import termios
import threading
import time

import harness
from harness import SANITIZED, SLOW, Case, wait_for
from tcp import free_port

BIG = 64 << 20 if SANITIZED else 1 << 30


def read_until(fd, text, timeout=10):
    """Bytes of a terminal until `text` is among them."""
    got, end = b"", time.monotonic() + timeout * SLOW
    while text not in got:
        if not select.select([fd], [], [], end - time.monotonic())[0]:
            raise AssertionError(f"no {text!r} in {got!r}")
        got += os.read(fd, 4096)
    return got


class Run(Case):
    def run_sh(self, script, *opts, **kw):
        return self.i.cli("run", *opts, "--", "sh", "-c", script, **kw)

    def test_output_and_exit_code(self):
        p = self.run_sh("echo out; echo err >&2; exit 7")
        self.assertEqual((p.returncode, p.out, p.err), (7, "out\n", "err\n"))

    def test_signal_is_128_and_more(self):
        self.assertEqual(self.run_sh("kill -9 $$").returncode, 137)

    def test_not_found_and_not_executable(self):
        p = self.i.cli("run", "no-such-command")
        self.assertEqual(p.returncode, 127, p.err)
        self.assertRegex(p.err, "^carrel: .*no-such-command.*\n$")
        p = self.i.cli("run", "/etc/passwd")
        self.assertEqual(p.returncode, 126, p.err)

    def test_arguments_arrive_as_they_are(self):
        args = ["", "a b", "$HOME", "*", "--", "-x", "'\"\\", "\n", "ü"]
        p = self.i.cli("run", "--", "sh", "-c",
                       'for a in "$@"; do printf "%s|" "$a"; done', "sh", *args)
        self.assertEqual(p.out, "".join(a + "|" for a in args), p.err)

    def test_environment_directory_user(self):
        p = self.run_sh("echo $A-$B; pwd; id -u", "-e", "A=1 2", "--env=B=",
                        "-w", "/tmp")
        self.assertEqual(p.out, "1 2-\n/tmp\n1000\n", p.err)
        self.assertEqual(self.run_sh("id -u", "-u", "root").out, "0\n")

    def test_stdin(self):
        data = os.urandom(5 << 20)
        p = self.i.cli("run", "sha256sum", input=data)
        self.assertEqual(p.out.split()[0], hashlib.sha256(data).hexdigest())
        self.assertEqual(self.i.cli("run", "-n", "wc", "-c",
                                    input="x").out.strip(), "0")

    def test_input_that_nobody_reads(self):
        self.assertEqual(self.i.cli("run", "true", input=b"x" * (4 << 20))
                         .returncode, 0)

    def test_big_output_is_whole_and_not_buffered(self):
        block = 1 << 20
        script = (f"head -c {block} /dev/urandom > f; sha256sum f >&2; n=0; "
                  f"while [ $n -lt {BIG // block} ]; do cat f; "
                  "n=$((n+1)); done")
        p = self.i.popen("run", "--", "sh", "-c", script,
                         stdin=subprocess.DEVNULL)
        first = p.stdout.read(block)
        n, peak = len(first), 0
        while data := p.stdout.read(block):
            self.assertEqual(data, first)
            n += len(data)
            if n % (64 << 20) == 0:
                status = harness.read(f"/proc/{p.pid}/status", " ")
                m = re.search(r"VmHWM:\s+(\d+) kB", status)
                peak = max(peak, int(m[1]) if m else 0)
        digest = p.stderr.read().decode().split()[0]
        self.assertEqual((p.wait(), n), (0, BIG))
        self.assertEqual(digest, hashlib.sha256(first).hexdigest())
        p.stdout.close()
        p.stderr.close()
        if not SANITIZED:
            self.assertTrue(0 < peak < 8 * 1024, peak)

    def test_slow_reader_stops_the_writer(self):
        ref = self.i.create(name="slow")
        p = self.i.popen("exec", ref, "--", "sh", "-c",
                         "dd if=/dev/zero bs=1000 count=5000 2>/dev/null; "
                         "touch /tmp/written", stdin=subprocess.DEVNULL)
        first = os.read(p.stdout.fileno(), 1000)
        time.sleep(1)
        # Less fits into the pipes and windows on the way than it writes.
        self.assertNotEqual(
            self.i.sh(ref, "test -e /tmp/written").returncode, 0)
        self.assertEqual(len(first) + len(p.communicate()[0]), 5000000)
        self.assertEqual(self.i.sh(ref, "test -e /tmp/written").returncode, 0)

    def test_closed_pipe(self):
        p = self.i.popen("run", "yes", stdin=subprocess.DEVNULL)
        p.stdout.read(10)
        p.stdout.close()
        self.assertEqual(p.wait(10 * SLOW), -signal.SIGPIPE)
        p.stderr.close()
        wait_for("the sandbox is gone", lambda: not self.i.ids(), 5)

    def test_signals_reach_the_process(self):
        script = ("trap 'echo got-int; exit 5' INT; echo ready; "
                  "while :; do sleep 0.05; done")
        p = self.i.popen("run", "--", "sh", "-c", script)
        self.assertEqual(p.stdout.readline(), b"ready\n")
        p.send_signal(signal.SIGINT)
        out, _ = p.communicate(timeout=10 * SLOW)
        self.assertEqual((p.returncode, out), (5, b"got-int\n"))
        wait_for("the sandbox is gone", lambda: not self.i.ids(), 5)

    def test_deadly_signal(self):
        p = self.i.popen("run", "--", "sh", "-c", "echo ready; exec sleep 60")
        self.assertEqual(p.stdout.readline(), b"ready\n")
        p.send_signal(signal.SIGTERM)
        p.communicate(timeout=10 * SLOW)
        self.assertEqual(p.returncode, 128 + signal.SIGTERM)

    def test_the_sandbox_is_gone_when_we_are_killed(self):
        p = self.i.popen("run", "--", "sh", "-c", "echo ready; sleep 60")
        self.assertEqual(p.stdout.readline(), b"ready\n")
        self.assertEqual(len(self.i.ids()), 1)
        p.kill()
        p.communicate()
        wait_for("the sandbox is gone", lambda: not self.i.ids(), 5)
        wait_for("its processes are gone", lambda: not self.i.box_pids(), 5)

    def test_terminal(self):
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ,
                    struct.pack("HHHH", 33, 111, 0, 0))
        before = termios.tcgetattr(theirs)
        p = self.i.popen("run", "-t", "--", "sh", "-c",
                         "tty; stty size; exec sh", stdin=theirs,
                         stdout=theirs, stderr=theirs,
                         start_new_session=True)
        self.assertIn(b"/dev/pts/0\r\n", read_until(ours, b"33 111\r\n"))
        fcntl.ioctl(theirs, termios.TIOCSWINSZ,
                    struct.pack("HHHH", 44, 88, 0, 0))
        p.send_signal(signal.SIGWINCH)
        time.sleep(0.3)
        os.write(ours, b"stty size\n")
        read_until(ours, b"44 88\r\n")
        os.write(ours, b"sleep 60\n")
        read_until(ours, b"sleep 60")
        time.sleep(0.3)
        os.write(ours, b"\x03")     # ends the sleep, not the shell
        time.sleep(0.2)
        os.write(ours, b"exit 9\n")
        self.assertEqual(p.wait(10 * SLOW), 9)
        self.assertEqual(termios.tcgetattr(theirs), before)
        os.close(ours)
        os.close(theirs)

    def test_wrong_spec(self):
        for args, word in ((["--memory", "1"], "memory"),
                           (["--cpus", "lots"], "cpus"),
                           (["--image", "nope"], "nope"),
                           (["--name", "No"], "name")):
            p = self.i.cli("run", *args, "true")
            self.assertEqual(p.returncode, 125, args)
            self.assertRegex(p.err, f"^carrel: .*{word}.*\n$")
        self.assertEqual(self.i.ids(), [])


class Verbs(Case):
    def test_life_of_a_sandbox(self):
        p = self.i.cli("create", "--name", "work", "--cpus", "0.5", "--memory",
                       "128M", "--disk", "1G", "--timeout", "1h", "-e", "X=y",
                       check=0)
        self.assertRegex(p.out, r"^i[a-z2-7]{26}\n$")
        ref = p.out.strip()
        self.i.cli("exec", "work", "--", "sh", "-c", "echo hello > note",
                   check=0)
        # By name, by id, by the beginning of it; variables are there.
        for by in ("work", ref, ref[:8]):
            p = self.i.cli("exec", by, "sh", "-c", "cat note; echo $X")
            self.assertEqual(p.out, "hello\ny\n", p.err)
        head, row = self.i.cli("ls", check=0).out.splitlines()
        self.assertEqual(head.split(), "ID NAME IMAGE STATE ISOLATION CPUS MEMORY "
                                       "DISK AGE EXPIRES".split())
        self.assertRegex(row, rf"^{ref[:12]}  work  tiny +running +"
                              r"(container|emulated|vm) +0\.5 "
                              r"+128 MiB +1 GiB +\d+ m?s +in 59 min$")
        self.assertEqual(row.index("work"), head.index("NAME"))
        self.assertEqual(self.i.cli("ls", "-q").out, ref + "\n")
        listed = json.loads(self.i.cli("ls", "--json").out)
        self.assertEqual([s["id"] for s in listed], [ref])
        one = json.loads(self.i.cli("inspect", "work", "--json").out)
        self.assertEqual((one["id"], one["spec"]["memory"]), (ref, 128 << 20))
        self.assertRegex(self.i.cli("inspect", "work").out,
                         r"(?m)^  memory +128 MiB$")
        self.i.cli("rm", "work", check=0)
        self.assertEqual(self.i.ids(), [])
        self.assertEqual(self.i.box_pids(), [])

    def test_rm_several(self):
        for name in ("one", "two"):
            self.i.cli("create", "--name", name, check=0)
        p = self.i.cli("rm", "one", "other", "two")
        self.assertEqual(p.returncode, 1)
        self.assertRegex(p.err, "^carrel: other: .*\n$")
        self.assertEqual(self.i.ids(), [])

    def test_kill_switch(self):
        for _ in range(3):
            self.i.cli("create", check=0)
        p = self.i.cli("rm", "--all")
        self.assertEqual((p.returncode, len(self.i.ids())), (1, 3))
        p = self.i.cli("rm", "--all", "--force", check=0)
        self.assertEqual(p.out, "3 sandboxes removed\n")
        self.assertEqual(self.i.ids(), [])

    def test_detached(self):
        ref = self.i.create()
        self.i.cli("exec", "-d", ref, "sh", "-c", "echo lost; until [ -e /tmp/go ]; "
                   "do sleep 0.05; done; echo $$ > /tmp/done", check=0)
        self.i.cli("exec", ref, "touch", "/tmp/go", check=0)
        wait_for("it goes on without us", lambda: self.i.sh(
            ref, "cat /tmp/done").returncode == 0, 10)

    def test_exec_of_nothing(self):
        p = self.i.cli("exec", "nobody", "true")
        self.assertEqual(p.returncode, 125)
        self.assertRegex(p.err, "^carrel: .*nobody.*\n$")

    def test_images(self):
        tar = harness.tiny_image()
        with open(tar, "rb") as f:
            data = f.read()
        p = self.i.cli("image", "import", tar, "other", check=0)
        self.assertRegex(p.out, r"^image other: .*MiB in \d+ files")
        self.i.cli("image", "import", "-", "third", input=data, check=0)
        names = self.i.cli("image", "ls", "-q", check=0).out.split()
        self.assertEqual(sorted(names), ["other", "third", "tiny"])
        self.assertEqual(self.i.cli("run", "--image", "other", "echo",
                                    "hi").out, "hi\n")
        # That sandbox may still be on its way out, which is not "in use".
        p = self.i.cli("image", "rm", "other", "nope", "third")
        self.assertEqual(p.returncode, 1)
        self.assertIn("nope", p.err)
        rows = json.loads(self.i.cli("image", "ls", "--json").out)
        self.assertEqual([r["name"] for r in rows], ["tiny"])

    def test_broken_image(self):
        p = self.i.cli("image", "import", "-", "broken",
                       input=os.urandom(100000))
        self.assertEqual(p.returncode, 1)
        self.assertRegex(p.err, "(?m)^carrel: image broken: .+$")
        self.assertNotIn("broken", self.i.cli("image", "ls").out)

    def test_doctor(self):
        p = self.i.cli("--config", self.i.config, "doctor")
        self.assertEqual(p.returncode, 0, p.out)
        self.assertRegex(p.out, r"(?m)^  ok +pool +btrfs, ")
        self.assertNotIn("\x1b", p.out)
        j = json.loads(self.i.cli("--config", self.i.config, "doctor",
                                  "--json").out)
        self.assertTrue(j["ok"])
        self.assertEqual(j["host"]["counts"]["images"], 1)

    @harness.container_only("a machine's memory does not change")
    def test_update(self):
        ref = self.i.create(name="work", labels={"a": "1", "b": "2"})
        self.i.cli("update", "work", "--memory", "300M", "--label", "a=3",
                   "--label", "b-", "--timeout", "1h", check=0)
        one = json.loads(self.i.cli("inspect", "--json", "work").out)
        self.assertEqual((one["labels"], one["spec"]["memory"]),
                         ({"a": "3"}, 300 << 20))
        self.assertEqual(self.i.cli("ls", "-q", "--label", "a=3").out,
                         ref + "\n")
        self.assertEqual(self.i.cli("ls", "-q", "-l", "b").out, "")
        p = self.i.cli("update", "work", "--memory", "1")
        self.assertEqual(p.returncode, 1)
        self.assertIn("memory", p.err)

    def test_what_they_use(self):
        self.i.create(name="busy")
        self.i.create(name="idle")
        self.i.cli("exec", "-d", "busy", "sh", "-c", "while :; do :; done",
                   check=0)
        wait_for("it has used a processor", lambda: json.loads(self.i.cli(
            "stats", "busy", "--json").out)["cpu_us"] > 100000, 30)
        rows = self.i.cli("top", "--once", check=0).out.splitlines()
        self.assertTrue(rows[0].startswith("2 sandboxes, "), rows)
        # The busy one comes first, and uses more.
        busy = float(re.match(r"i\S+ +busy +(\d+\.\d) ", rows[3])[1])
        idle = float(re.match(r"i\S+ +idle +(\d+\.\d) ", rows[4])[1])
        self.assertGreater(busy, idle)
        self.assertRegex(self.i.cli("stats", check=0).out,
                         r"(?m)^i\S+ +busy +(?!0\.0)\d")

    def test_those_that_ended(self):
        ref = self.i.create(name="gone")
        self.i.rm(ref)
        self.assertEqual(self.i.cli("ls", "-q").out, "")
        self.assertRegex(self.i.cli("ls", "-a").out,
                         rf"(?m)^{ref[:12]} +gone +tiny +ended: \S+")

    def test_bundle(self):
        """Everything that helps, nothing that is somebody's secret."""
        secret = "hunter2hunter2"
        key = self.i.api("POST", "/v1/keys", {"name": "x"}).json["key"]
        self.i.create(name="work", env={"INNOCENT": secret},
                      labels={"customer": secret},
                      start=[f"echo {secret} > /dev/null"])
        self.i.cli("exec", "work", "echo", secret, check=0)
        with open(self.i.config, "a") as f:
            f.write(f"# the old password was {secret}\n")
        with open(f"{self.i.state_dir}/daemon.log", "a") as f:
            f.write(f"some line\nAuthorization: Bearer {secret}\nkey {key}\n"
                    f"GET /x?carrel_token={secret}\n")
        path = self.i.dir + "/bundle"
        p = self.i.cli("--config", self.i.config, "debug", "bundle", path,
                       check=0)
        self.assertIn("read it before you pass it on", p.out)
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
        text = harness.read(path)
        for word in (secret, key):
            self.assertNotIn(word, text)
        for word in ("==> carrel doctor --json <==", "==> /v1/host <==",
                     "==> /metrics <==", "max_sandboxes = 120", "some line",
                     '"name": "work"', '"INNOCENT": "(removed)"',
                     '"kernel":', "MemTotal:"):
            self.assertIn(word, text)
        out = self.i.cli("--config", self.i.config, "debug", "bundle", "-",
                         check=0).out
        self.assertTrue(out.startswith("==> bundle <=="))

    def test_bundle_without_a_daemon(self):
        p = self.i.cli("--socket", "/nowhere", "--config", self.i.config,
                       "debug", "bundle", "-", check=0)
        self.assertIn("the daemon is not running", p.out)
        self.assertIn("MemTotal:", p.out)

    def test_version(self):
        self.assertRegex(self.i.cli("version", check=0).out,
                         r"^carrel (\S+)\ndaemon \1\n$")
        self.assertEqual(self.i.cli("--version", check=0).out,
                         self.i.cli("version", check=0).out)

    def test_mistyped_words(self):
        for words, hint in (
                (["creat"], "did you mean create?"),
                (["snapshto", "work"], "did you mean snapshot?"),
                (["image", "bulid"], "did you mean build?"),
                (["create", "--memroy", "1G"], "did you mean --memory?"),
                (["ls", "--jsno"], "did you mean --json?"),
                (["xyzzy"], "see carrel help"),
                (["ls", "--xyzzy"], "see --help")):
            p = self.i.cli(*words)
            self.assertEqual((p.returncode, p.out), (2, ""), words)
            self.assertIn(hint, p.err)

    def test_a_daemon_elsewhere_is_not_silently_ignored(self):
        for name in ("CARREL_URL", "CARREL_API_KEY"):
            env = {**self.i.env(), name: "x"}
            argv = [f"{self.i.bin}/carrel", "ls"]
            p = subprocess.run(argv, env=env, capture_output=True, text=True)
            self.assertEqual((p.returncode, p.stderr), (0, ""))
            del env["CARREL_SOCKET"]
            p = subprocess.run(argv, env=env, capture_output=True, text=True)
            self.assertEqual(p.returncode, 1)
            self.assertIn(f"{name} is set", p.stderr)

    def test_exec_explains_a_command_with_spaces(self):
        self.i.create(name="work")
        p = self.i.cli("exec", "work", "echo hello")
        self.assertEqual(p.returncode, 127)
        self.assertIn("exec work -- sh -c", p.err)

    def test_exec_timeout(self):
        self.i.create(name="work")
        p = self.i.cli("exec", "--timeout", "300ms", "work", "--", "sh", "-c",
                       "echo early; exec sleep 1000")
        self.assertEqual((p.returncode, p.out), (124, "early\n"))
        self.assertIn("time is over", p.err)
        p = self.i.cli("exec", "--timeout", "10m", "work", "--", "sh", "-c",
                       "exit 3")
        self.assertEqual((p.returncode, p.err), (3, ""))
        self.i.cli("exec", "-d", "--timeout", "1s", "work", "true", check=125)
        self.assertNotIn("sleep", self.i.sh("work", "ps").out)

    def test_env_file(self):
        self.i.create(name="work")
        path = self.i.dir + "/variables"
        with open(path, "w") as f:
            f.write("# a comment\n\nA=1\nB=two words\r\nC=\"q\"\nHOME\n")
        p = self.i.cli("exec", "--env-file", path, "-e", "A=own", "work", "--",
                       "sh", "-c", "echo $A,$B,$C")
        self.assertEqual((p.returncode, p.out), (0, 'own,two words,"q"\n'), p.err)
        with open(path, "w") as f:
            f.writelines(f"V{n}=x\n" for n in range(65))
        p = self.i.cli("exec", "--env-file", path, "work", "true", check=125)
        self.assertIn("more than 64 variables", p.err)
        self.i.cli("exec", "--env-file", path + "x", "work", "true", check=125)


class Ports(Case):
    CONF = {"listen": f"127.0.0.1:{free_port()}"}

    def setUp(self):
        self.ref = self.i.create(name="work", ports={"web": 8000})

    def tunnel(self, *args):
        p = self.i.popen("port", "work", *args)
        for end in (p.stdin, p.stdout, p.stderr):
            self.addCleanup(end.close)
        self.addCleanup(p.wait)
        self.addCleanup(p.kill)
        host, port = p.stdout.readline().decode().split(":")
        return p, (host, int(port))

    def test_tunnel(self):
        self.i.cli("exec", "-d", "work", "nc", "-ll", "-p", "9000", "-e",
                   "cat", check=0)
        p, where = self.tunnel("9000", "0")

        def open_one():
            try:
                c = socket.create_connection(where)
                c.sendall(b"first")
                return c.recv(5) and c
            except OSError:
                return None
        first = wait_for("the server inside", open_one, 10)
        others = [socket.create_connection(where) for _ in range(20)]
        for n, c in enumerate(others):
            c.sendall(b"%02d" % n)
        for n, c in enumerate(others):
            self.assertEqual(c.recv(2), b"%02d" % n)
        data = os.urandom(1 << 20)
        got, sender = b"", threading.Thread(target=first.sendall, args=(data,))
        sender.start()
        while len(got) < len(data):
            got += first.recv(1 << 16)
        sender.join()
        self.assertEqual(got, data)
        p.terminate()
        self.assertEqual(first.recv(9), b"")  # tunnels end with us
        for c in [first, *others]:
            c.close()

    def test_tunnel_in_the_background(self):
        self.i.cli("exec", "-d", "work", "nc", "-ll", "-p", "9000", "-e",
                   "cat", check=0)
        p = self.i.cli("port", "-d", "work", "9000", "0", check=0)
        pid = int(re.search(r"`kill (\d+)`", p.err)[1])
        try:
            host, port = p.out.split(":")

            def echo():
                with socket.create_connection((host, int(port))) as c:
                    c.sendall(b"x")
                    return c.recv(1) == b"x"
            wait_for("the server inside", echo, 10)
        finally:
            os.kill(pid, signal.SIGTERM)
        wait_for("the process ends", lambda: harness.read(
            f"/proc/{pid}/stat", "x Z").rpartition(")")[2].split()[:1] in (
                ["Z"], ["x"]), 10)

    def test_nobody_inside(self):
        p, where = self.tunnel("web", "0")
        with socket.create_connection(where) as c:
            self.assertEqual(c.recv(9), b"")
        self.assertIn(b"nothing listens on port 8000", p.stderr.readline())

    def test_url(self):
        self.i.cli("exec", "-d", "work", "sh", "-c", "mkdir /tmp/w; echo hi > "
                   "/tmp/w/index.html; exec httpd -f -p 8000 -h /tmp/w",
                   check=0)
        url = self.i.cli("port", "--url", "work", "web", check=0).out.strip()
        self.assertIn("carrel_token=", url)

        def fetch():
            # Not every resolver knows names below localhost, as curl does.
            p = subprocess.run(["curl", "-sf", url], capture_output=True)
            return p.stdout
        self.assertEqual(wait_for("the server inside", fetch, 10), b"hi\n")


if __name__ == "__main__":
    harness.main()
