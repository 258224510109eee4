# suite: slow
# suite: sanitized
"""The command line against a scripted server: bytes, windows, signals, exit
codes, and what it does when the other side breaks the rules."""

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import pty
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import termios
import threading
import time
import unittest

import harness
from fake import CLI, Server
from harness import ACK, DETACH, INPUT_EOF, RESIZE, SIGNAL, SPAWN_DETACHED, SPAWN_PTY, \
    SPAWN_STDIN, STARTED, WINDOW, wait_for


def process(body):
    """A script for one process that has started."""
    def script(peer, req):
        peer.begin()
        body(peer)
    return script


def scripted(script, *args, **kw):
    with Server(script) as s:
        return s.cli(*args, **kw)


def run(body, *args, **kw):
    return scripted(process(body), "run", *(args or ("--", "cmd")), **kw)


def exits(peer):
    peer.exit(0)


class Requests(unittest.TestCase):
    def spawn_of(self, *args, env=None):
        seen = {}

        def script(peer, req):
            seen["early"], seen["req"] = len(peer.buf), req
            peer.begin()
            seen["spawn"] = peer.spawned
            with contextlib.suppress(BrokenPipeError):
                peer.exit(0)  # a detached client has left by then
        with Server(script) as s:
            code, _, err = s.cli(*args, env={**s.env(), **(env or {})})
        self.assertEqual((code, err), (0, ""))
        return seen

    def test_run(self):
        seen = self.spawn_of(
            "run", "--memory", "512M", "--cpus=0.5", "--no-sudo", "--name",
            'q"\\\x01', "-e", "A=1", "-e", "A=2", "-e", "OWN", "-e", "NOT_SET",
            "-u", "root", "-w", "/tmp", "--", "ls", "-l", "--", "a b",
            env={"OWN": "mine"})
        req = seen["req"]
        self.assertEqual((req.method, req.target), ("POST", "/v1/run"))
        self.assertEqual(json.loads(req.body), {
            "memory": "512M", "cpus": "0.5", "sudo": False,
            "name": 'q"\\\x01'})
        self.assertEqual(seen["spawn"], (
            SPAWN_STDIN, 0, 0, "root", "/tmp", ["ls", "-l", "--", "a b"],
            ["A=2", "OWN=mine"]))
        # Hello and spawn came with the request, before any answer.
        self.assertGreater(seen["early"], 32)

    def test_exec(self):
        seen = self.spawn_of("exec", "-n", "wo rk", "--", "ls", "-l")
        self.assertEqual(seen["req"].target, "/v1/sandboxes/wo%20rk/exec")
        self.assertEqual(seen["req"].body, b"")
        self.assertEqual(seen["spawn"][0], 0)
        self.assertEqual(seen["spawn"][5], ["ls", "-l"])

    def test_options_may_follow_the_sandbox(self):
        seen = self.spawn_of("exec", "work", "-n", "-w", "/", "ls", "-w")
        self.assertEqual(seen["spawn"][4:6], ("/", ["ls", "-w"]))

    def test_detach(self):
        seen = self.spawn_of("exec", "-d", "work", "sleep", "9")
        self.assertEqual(seen["spawn"][0], SPAWN_DETACHED)

    def test_large_argument_list(self):
        seen = self.spawn_of("run", "--", "echo", *["x" * 1000] * 500)
        self.assertEqual(len(seen["spawn"][5]), 501)

    def test_too_large_argument_list(self):
        code, _, err = scripted(lambda *a: None, "run", "--",
                                *["x" * 60000] * 20)
        self.assertEqual(code, 125)
        self.assertIn("larger than 1024 KiB", err)

    def test_create_prints_only_the_id(self):
        def script(peer, req):
            self.assertEqual(json.loads(req.body),
                             {"disk": "2G", "env": {"K": "a=b"}})
            peer.answer(201, b'{"id": "iabc", "name": "x"}')
        self.assertEqual(scripted(script, "create", "--disk", "2G", "--env",
                                  "K=a=b"), (0, b"iabc\n", ""))

    def test_rm_goes_on_after_an_error(self):
        def script(peer, req):
            if req.target.endswith("/b"):
                peer.answer(404, b'{"message": "no sandbox b"}')
            else:
                peer.answer(204)
        with Server(script) as s:
            code, out, err = s.cli("rm", "a", "b", "c")
        self.assertEqual((code, out), (1, b""))
        self.assertEqual(err, "carrel: b: no sandbox b\n")
        self.assertEqual([r.target[-1] for r in s.requests], ["a", "b", "c"])

    def test_kill_switch(self):
        with Server(lambda p, r: p.answer(200, b'{"removed": 3}')) as s:
            code, _, err = s.cli("rm", "--all")
            self.assertEqual(code, 1)
            self.assertIn("--force", err)
            self.assertEqual(s.requests, [])
            code, out, _ = s.cli("rm", "--all", "--force")
        self.assertEqual((code, out), (0, b"3 sandboxes removed\n"))
        self.assertEqual(s.requests[0].target, "/v1/sandboxes?all=true")


class ExitCodes(unittest.TestCase):
    def test_of_the_process(self):
        for code in (0, 1, 77, 124, 255):
            self.assertEqual(run(lambda p: p.exit(code))[0], code)

    def test_signal(self):
        self.assertEqual(run(lambda p: p.exit(9, signaled=1))[0], 137)

    def test_not_started(self):
        for number, code in ((errno.ENOENT, 127), (errno.EACCES, 126),
                             (errno.ENOEXEC, 126)):
            def script(peer, req):
                peer.upgrade_answer()
                peer.take_spawn()
                peer.fail(number, "cmd: \x1b[31mno\n")
            got, _, err = scripted(script, "run", "cmd")
            self.assertEqual((got, err), (code, "carrel: cmd: ?[31mno?\n"))

    def test_refusal(self):
        def script(peer, req):
            peer.answer(409, '{"message": "no \\u001b]0;x\\u0007 \u202e"}'
                        .encode())
        self.assertEqual(scripted(script, "run", "cmd"),
                         (125, b"", "carrel: no ?]0;x? ???\n"))
        self.assertEqual(scripted(script, "create")[0], 1)

    def test_refusal_that_is_not_json(self):
        got = scripted(lambda p, r: p.answer(500, b"<html>"), "run", "cmd")
        self.assertEqual((got[0], got[2]),
                         (125, "carrel: the daemon answered with status 500\n"))

    def test_usage(self):
        for args, code in ((["run"], 125), (["exec", "x"], 125), (["rm"], 2),
                           (["frob"], 2), (["ls", "x"], 2), (["ls", "-x"], 2),
                           (["image", "frob"], 2), (["run", "--frob"], 125)):
            p = subprocess.run([CLI, *args], capture_output=True, text=True)
            self.assertEqual((p.returncode, p.stdout), (code, ""), args)
            self.assertEqual(p.stderr.count("\n"), 1, p.stderr)

    def test_help_of_every_verb(self):
        text = subprocess.run([CLI, "help"], capture_output=True, text=True,
                              check=True).stdout
        verbs = re.findall(r"^  (\w+) ", text, re.M)
        self.assertGreaterEqual(len(verbs), 10)
        for verb in verbs:
            p = subprocess.run([CLI, verb, "--help"], capture_output=True,
                               text=True)
            self.assertEqual((p.returncode, p.stderr), (0, ""), verb)
            self.assertIn("Usage: carrel ", p.stdout)

    def test_no_daemon(self):
        p = subprocess.run([CLI, "--socket", "/nowhere/s", "run", "x"],
                           capture_output=True, text=True)
        self.assertEqual(p.returncode, 125)
        self.assertRegex(p.stderr, "is not running.*start it with: ")
        self.assertEqual(p.stderr.count("\n"), 1)

    def test_no_permission(self):
        with Server(exits) as s, tempfile.TemporaryDirectory() as public:
            os.chmod(s.dir, 0o700)
            # The tree may be where only root can go.
            os.chmod(public, 0o755)
            shutil.copy(f"{harness.BUILD}/bin/carrel", public)
            p = s.popen("ls", user="nobody", group="nogroup", extra_groups=[],
                        executable=f"{public}/carrel")
            _, err = p.communicate()
        self.assertEqual(p.returncode, 1)
        self.assertIn("join the group 'carrel'", err.decode())

    def test_full_disk(self):
        with Server(lambda p, r: p.answer(200, b'{"sandboxes": []}')) as s, \
                open("/dev/full", "wb") as full:
            code, _, err = s.cli("ls", stdout=full)
        self.assertEqual(code, 1)
        self.assertIn("No space left", err)


class Output(unittest.TestCase):
    def test_raw_and_separate(self):
        every = bytes(range(256)) * 3

        def body(peer):
            peer.output(1, 0, every)
            peer.output(2, 0, b"err\x1b[0m")
            peer.output(1, len(every), b"end")
            peer.eof(1, len(every) + 3)
            peer.eof(2, 7)
            peer.exit(0)
        code, out, err = run(body)
        self.assertEqual((code, out, err), (0, every + b"end", "err\x1b[0m"))

    def send_all(self, peer, total, digest, most=WINDOW):
        """Sends `total` bytes as the window allows; returns the offset."""
        block = os.urandom(60000)
        sent = acked = 0
        while sent < total:
            n = min(len(block), total - sent, acked + most - sent)
            if n > 0:
                peer.output(1, sent, block[:n])
                digest.update(block[:n])
                sent += n
                continue
            kind, _, p = peer.recv()
            if kind == INPUT_EOF:
                continue
            assert kind == ACK, kind
            stream, offset = struct.unpack("<BQ", p)
            assert stream == 1 and acked < offset <= sent, (offset, sent)
            acked = offset
        return sent

    def test_not_short_of_a_byte(self):
        total = 64 << 20
        sent, got = hashlib.sha256(), hashlib.sha256()

        def body(peer):
            peer.eof(1, self.send_all(peer, total, sent))
            peer.exit(0)
        with Server(process(body)) as s:
            p = s.popen("run", "cmd", stdin=subprocess.DEVNULL)
            n = 0
            while data := p.stdout.read(1 << 16):
                got.update(data)
                n += len(data)
            self.assertEqual(p.wait(), 0)
            p.stdout.close()
            p.stderr.close()
        self.assertEqual((n, got.digest()), (total, sent.digest()))

    def test_to_a_file(self):
        sent = hashlib.sha256()

        def body(peer):
            self.send_all(peer, 8 << 20, sent)
            peer.exit(0)
        with Server(process(body)) as s:
            path = os.path.join(s.dir, "out")
            with open(path, "wb") as f:
                f.write(b"before")
                f.flush()
                self.assertEqual(s.cli("run", "cmd", stdout=f)[0], 0)
            with open(path, "rb") as f:
                data = f.read()
        self.assertEqual(data[:6], b"before")
        self.assertEqual(hashlib.sha256(data[6:]).digest(), sent.digest())

    def test_to_a_socket(self):
        ours, theirs = socket.socketpair()
        sent, got = hashlib.sha256(), hashlib.sha256()

        def body(peer):
            peer.eof(1, self.send_all(peer, 4 << 20, sent))
            peer.exit(0)
        with Server(process(body)) as s, ours:
            p = s.popen("run", "cmd", stdout=theirs, stderr=None)
            theirs.close()
            while data := ours.recv(1 << 16):
                got.update(data)
            p.stdin.close()
            self.assertEqual(p.wait(), 0)
        self.assertEqual(got.digest(), sent.digest())

    def test_slow_reader_slows_the_writer(self):
        """Only what was written is acknowledged, and a signal gets through
        while the reader sleeps."""
        seen = {}

        def body(peer):
            peer.sock.settimeout(1)
            sent = acked = 0
            try:
                while True:
                    n = min(60000, acked + WINDOW - sent)
                    if n > 0:
                        peer.output(1, sent, b"x" * n)
                        sent += n
                        continue
                    kind, _, p = peer.recv()
                    acked = struct.unpack("<BQ", p)[1]
            except TimeoutError:
                seen["acked"], seen["sent"] = acked, sent
            peer.sock.settimeout(20)
            seen["signal"] = peer.recv()
            peer.exit(2, signaled=1)
        with Server(process(body)) as s:
            p = s.popen("run", "cmd")
            wait_for("the window to be full", lambda: "sent" in seen, 10)
            capacity = fcntl.fcntl(p.stdout, 1032)  # F_GETPIPE_SZ
            self.assertLessEqual(seen["acked"], capacity)
            self.assertEqual(seen["sent"], seen["acked"] + WINDOW)
            p.send_signal(signal.SIGINT)
            wait_for("the signal", lambda: "signal" in seen, 10)
            out, _ = p.communicate()
        self.assertEqual(seen["signal"], (SIGNAL, 1, bytes([signal.SIGINT])))
        self.assertEqual(len(out), seen["sent"])
        self.assertEqual(p.returncode, 130)

    def test_flags_of_our_stdout_are_left_alone(self):
        r, w = os.pipe()
        before = fcntl.fcntl(w, fcntl.F_GETFL)
        run(lambda p: (p.output(1, 0, b"x"), p.exit(0)), stdout=w)
        self.assertEqual(fcntl.fcntl(w, fcntl.F_GETFL), before)
        os.close(r)
        os.close(w)

    def test_closed_pipe_ends_us_as_it_would_the_process(self):
        def body(peer):
            for n in range(100):
                peer.output(1, n, b"y")
                if select.select([peer.sock], [], [], 0.05)[0]:
                    break
            peer.ended()
        with Server(process(body)) as s:
            p = s.popen("run", "cmd")
            p.stdout.close()
            self.assertEqual(p.wait(60), -signal.SIGPIPE)
            p.stdin.close()
            p.stderr.close()

    def test_end_of_stdout_is_passed_on(self):
        """`carrel run ... | cat`: cat ends when the process closes stdout."""
        def body(peer):
            peer.output(1, 0, b"last")
            peer.eof(1, 4)
            self.assertEqual(peer.recv()[0], SIGNAL)
            peer.output(2, 0, b"still here")
            peer.exit(5)
        with Server(process(body)) as s:
            p = s.popen("run", "cmd")
            self.assertEqual(p.stdout.read(), b"last")  # until the end
            p.send_signal(signal.SIGTERM)
            self.assertEqual(p.communicate()[1], b"still here")
        self.assertEqual(p.returncode, 5)

    def test_write_error(self):
        with open("/dev/full", "wb") as full:
            code, _, err = run(lambda p: (p.output(1, 0, b"x"), p.ended()),
                               stdout=full)
        self.assertEqual(code, 125)
        self.assertIn("No space left", err)


class Input(unittest.TestCase):
    def test_all_of_it(self):
        data = os.urandom(3 << 20)
        got = []
        self.assertEqual(run(lambda p: (got.append(p.take_input()), p.exit(0)),
                             input=data)[0], 0)
        self.assertEqual(hashlib.sha256(got[0]).digest(),
                         hashlib.sha256(data).digest())

    def test_stops_at_the_window(self):
        seen = []

        def body(peer):
            n = 0
            try:
                while True:
                    # At the window we look whether more comes.
                    peer.sock.settimeout(60 if n < WINDOW else 1)
                    n += len(peer.recv()[2]) - 8
            except TimeoutError:
                seen.append(n)
            peer.exit(0)
        # The process ends without having read: so do we.
        self.assertEqual(run(body, input=b"x" * (1 << 20))[0], 0)
        self.assertEqual(seen, [WINDOW])

    def test_nothing_is_read_before_the_process_runs(self):
        r, w = os.pipe()
        os.write(w, b"for the next one")

        def script(peer, req):
            peer.upgrade_answer()
            peer.take_spawn()
            peer.fail(errno.ENOENT, "no such command")
        self.assertEqual(scripted(script, "run", "x", stdin=r,
                                  input=None)[0], 127)
        os.close(w)
        self.assertEqual(os.read(r, 99), b"for the next one")
        os.close(r)

    def test_no_stdin(self):
        def body(peer):
            self.assertEqual(peer.spawned[0], 0)
            self.assertFalse(select.select([peer.sock], [], [], 0.3)[0])
            peer.exit(0)
        self.assertEqual(run(body, "-n", "cmd", input=b"x")[0], 0)

    def test_closed_descriptors(self):
        """Our socket must not become the missing stdin or stdout."""
        def body(peer):
            peer.output(1, 0, b"lost")
            peer.output(2, 0, b"seen")
            self.assertEqual(peer.take_input(), b"")
            peer.exit(4)
        with Server(process(body)) as s:
            p = subprocess.run(["sh", "-c", f"exec {CLI} run cmd <&- >&-"],
                               env=s.env(), stderr=subprocess.PIPE)
        self.assertEqual((p.returncode, p.stderr), (4, b"seen"))


class Signals(unittest.TestCase):
    def test_forwarded(self):
        numbers = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP,
                   signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2,
                   signal.SIGINT]
        seen = []

        def body(peer):
            peer.output(2, 0, b"ready")
            for _ in numbers:
                seen.append(peer.recv())
            peer.exit(0)
        with Server(process(body)) as s:
            p = s.popen("run", "cmd")
            self.assertEqual(os.read(p.stderr.fileno(), 9), b"ready")
            for n, number in enumerate(numbers):
                p.send_signal(number)
                wait_for(f"signal {number}", lambda: len(seen) > n, 10)
            p.communicate()
        self.assertEqual(p.returncode, 0)
        self.assertEqual(seen, [(SIGNAL, 1, bytes([n])) for n in numbers])

    def test_ignored_ones_stay_ignored(self):
        """nohup: a blocked signal must not be forwarded after all."""
        def body(peer):
            peer.output(2, 0, b"ready")
            self.assertEqual(peer.recv()[2], bytes([signal.SIGTERM]))
            peer.exit(0)
        with Server(process(body)) as s:
            p = s.popen("run", "cmd", preexec_fn=lambda: signal.signal(
                signal.SIGHUP, signal.SIG_IGN))
            self.assertEqual(os.read(p.stderr.fileno(), 9), b"ready")
            p.send_signal(signal.SIGHUP)
            p.send_signal(signal.SIGTERM)
            p.communicate()
        self.assertEqual(p.returncode, 0)

    def test_before_the_daemon_answers(self):
        waiting = []

        def script(peer, req):
            waiting.append(1)
            self.assertTrue(peer.ended())
        with Server(script) as s:
            p = s.popen("run", "cmd")
            wait_for("the request", lambda: waiting, 10)
            p.send_signal(signal.SIGINT)
            p.communicate()
        self.assertIn(p.returncode, (-signal.SIGINT, 130))

    def test_before_the_process_runs(self):
        waiting = []

        def script(peer, req):
            peer.upgrade_answer()
            peer.take_spawn()
            waiting.append(1)
            self.assertTrue(peer.ended())
        with Server(script) as s:
            p = s.popen("run", "cmd")
            wait_for("the spawn", lambda: waiting, 10)
            p.send_signal(signal.SIGINT)
            p.communicate()
        self.assertIn(p.returncode, (-signal.SIGINT, 130))


class Terminal(unittest.TestCase):
    def shell(self, server, *args, **kw):
        """A command of ours on a terminal; (process, our end, its modes)."""
        ours, theirs = pty.openpty()
        self.addCleanup(os.close, ours)
        self.addCleanup(os.close, theirs)
        self.size(theirs, 30, 100)
        before = termios.tcgetattr(theirs)
        p = server.popen(*args, stdin=theirs, stdout=theirs, stderr=theirs,
                         start_new_session=True, preexec_fn=lambda:
                         fcntl.ioctl(0, termios.TIOCSCTTY, 0), **kw)
        return p, ours, lambda: termios.tcgetattr(theirs) == before

    def read_until(self, fd, text):
        got = b""
        while text not in got:
            self.assertTrue(select.select([fd], [], [], 20)[0], got)
            got += os.read(fd, 4096)
        return got

    def test_killed(self):
        """Even then the terminal is as it was."""
        with Server(process(lambda p: (p.output(1, 0, b"prompt"),
                                       p.ended()))) as s:
            p, ours, restored = self.shell(s, "exec", "-t", "work", "cmd")
            self.read_until(ours, b"prompt")
            self.assertFalse(restored())
            p.kill()
            p.wait()
            wait_for("the terminal is back", restored, 10)

    def test_lost_and_left(self):
        scripts = [lambda p: (p.begin(), p.output(1, 0, b"prompt"))]
        with Server(lambda p, r: scripts.pop(0)(p) if scripts
                    else p.answer(503, b"{}")) as s:
            p, ours, restored = self.shell(s, "exec", "-t", "work", "cmd")
            self.read_until(ours, b"(Ctrl-C leaves)\r\n")
            os.write(ours, b"\x03")
            self.assertEqual(p.wait(60), 130)
            self.assertTrue(restored())

    def test_lost_and_back(self):
        seen = []

        def again(peer):
            peer.come_back(pty=1)
            while len(seen) < 2:
                seen.append(peer.recv())
            peer.output(1, 6, b" there")
            peer.exit(0)
        scripts = [lambda p: (p.begin(), p.output(1, 0, b"prompt"))] + \
            [lambda p: p.answer(503, b"{}")] * 7 + [again]
        with Server(lambda p, r: scripts.pop(0)(p)) as s:
            p, ours, restored = self.shell(s, "exec", "-t", "work", "cmd")
            self.read_until(ours, b"leaves)")
            os.write(ours, b"typed")
            got = self.read_until(ours, b" there")
            self.assertIn(b"connected again\r\n", got)
            self.assertEqual(p.wait(60), 0)
            self.assertTrue(restored())
        self.assertEqual([x[0] for x in seen], [RESIZE, 3])
        self.assertEqual(seen[1][2][8:], b"typed")

    def test_stopped_and_continued(self):
        with Server(process(lambda p: (p.output(1, 0, b"prompt"),
                                       p.ended()))) as s:
            p, ours, restored = self.shell(s, "exec", "-t", "work", "cmd")
            self.read_until(ours, b"prompt")
            p.send_signal(signal.SIGTSTP)
            wait_for("the terminal is back", restored, 10)
            p.send_signal(signal.SIGCONT)
            wait_for("raw again", lambda: not restored(), 10)
            p.kill()
            p.wait()

    def size(self, fd, rows, cols):
        fcntl.ioctl(fd, termios.TIOCSWINSZ,
                    struct.pack("HHHH", rows, cols, 0, 0))

    def test_raw_resize_and_back(self):
        seen = []

        def body(peer):
            seen.append(peer.spawned)
            seen.append(peer.recv())    # the size when it started
            peer.output(1, 0, b"prompt")
            seen.append(peer.recv())    # Ctrl-C is a byte
            seen.append(peer.recv())    # the size after SIGWINCH
            peer.exit(0)
        ours, theirs = pty.openpty()
        self.size(theirs, 30, 100)
        before = termios.tcgetattr(theirs)
        with Server(process(body)) as s:
            p = s.popen("run", "-t", "cmd", stdin=theirs, stdout=theirs,
                        stderr=theirs, env={**s.env(), "TERM": "vt100"},
                        start_new_session=True)
            self.assertEqual(os.read(ours, 99), b"prompt")
            self.assertFalse(termios.tcgetattr(theirs)[3] & termios.ICANON)
            os.write(ours, b"\x03")
            wait_for("the byte", lambda: len(seen) == 3, 10)
            self.size(theirs, 40, 120)
            p.send_signal(signal.SIGWINCH)
            self.assertEqual(p.wait(60), 0)
        self.assertEqual(termios.tcgetattr(theirs), before)
        os.close(ours)
        os.close(theirs)
        flags, rows, cols, _, _, _, env = seen[0]
        self.assertEqual((flags, rows, cols, env),
                         (SPAWN_PTY | SPAWN_STDIN, 30, 100, ["TERM=vt100"]))
        self.assertEqual(seen[1], (RESIZE, 1, struct.pack("<HH", 30, 100)))
        self.assertEqual(seen[2][2][8:], b"\x03")
        self.assertEqual(seen[3], (RESIZE, 1, struct.pack("<HH", 40, 120)))

    def test_back_when_the_connection_is_lost(self):
        ours, theirs = pty.openpty()
        before = termios.tcgetattr(theirs)

        def body(peer):
            peer.output(1, 0, b"prompt")
            wait_for("raw mode", lambda: not
                     termios.tcgetattr(theirs)[3] & termios.ICANON, 10)
        with Server(process(body)) as s:
            p = s.popen("run", "-t", "cmd", stdin=theirs, stdout=theirs)
            self.assertIn(b"connection", p.communicate()[1])
        self.assertEqual(p.returncode, 125)
        self.assertEqual(termios.tcgetattr(theirs), before)
        os.close(ours)
        os.close(theirs)


class Back(unittest.TestCase):
    """The connection breaks, the process does not."""

    def connections(self, *scripts, **kw):
        """A server with one script for each connection; (code, out, err) of
        an exec."""
        left = list(scripts)

        def script(peer, req):
            self.assertEqual(req.target, "/v1/sandboxes/work/exec")
            (left.pop(0) if len(left) > 1 else left[0])(peer)
        with Server(script) as s:
            got = s.cli("exec", *kw.pop("args", ("work", "cmd")), **kw)
        self.assertEqual(len(left), 1, "it did not come back")
        return got

    def test_goes_on_where_it_was(self):
        tag = []

        def first(peer):
            peer.begin()
            tag.append(peer.tag)
            peer.output(1, 0, b"one ")
            peer.output(2, 0, b"!")

        def second(peer):
            self.assertEqual(peer.come_back(), (0, tag[0], 4, 1))
            peer.output(1, 4, b"two")

        def third(peer):
            self.assertEqual(peer.come_back(), (0, tag[0], 7, 1))
            peer.output(2, 1, b"?")
            peer.eof(1, 7)
            peer.exit(7)
        self.assertEqual(self.connections(first, second, third),
                         (7, b"one two", "!?"))
        self.assertRegex(tag[0], "^i[a-z2-7]{26}$")

    def test_every_process_has_another_tag(self):
        tags = set()

        def script(peer, req):
            peer.begin()
            tags.add(peer.tag)
            peer.exit(0)
        with Server(script) as s:
            for _ in range(3):
                s.cli("exec", "work", "cmd")
        self.assertEqual(len(tags), 3)

    def test_input_is_sent_once(self):
        data = os.urandom(700000)
        got = bytearray()

        def take(peer, n):
            """At least n bytes in all; only some are acknowledged."""
            while len(got) < n:
                kind, _, p = peer.recv()
                self.assertEqual(kind, 3)  # INPUT
                self.assertEqual(struct.unpack_from("<Q", p)[0], len(got))
                got.extend(p[8:])
                if len(got) < n - 150000:
                    peer.send(69, 1, struct.pack("<Q", len(got) - 1000))

        def first(peer):
            peer.begin()
            take(peer, 300000)

        def second(peer):
            del got[280001:]  # the process was not given the last ones
            peer.come_back(len(got))
            take(peer, 500000)

        def third(peer):
            peer.come_back(len(got))
            take(peer, len(data))
            peer.send(69, 1, struct.pack("<Q", len(got)))
            self.assertEqual(peer.recv()[0], INPUT_EOF)

        def fourth(peer):
            peer.come_back(len(got))  # its end is told again
            self.assertEqual(peer.recv()[0], INPUT_EOF)
            peer.exit(0)
        self.assertEqual(self.connections(first, second, third, fourth,
                                          input=data)[0], 0)
        self.assertEqual(bytes(got), data)

    def test_somebody_else_has_typed(self):
        def second(peer):
            peer.come_back(50)
            self.assertEqual(peer.recv()[0], INPUT_EOF)
            peer.exit(0)

        def first(peer):
            peer.begin()
            self.assertEqual(peer.recv()[2][8:], b"mine")
        self.assertEqual(self.connections(first, second, input=b"mine")[0], 0)

    def test_not_started_yet(self):
        """The request was lost too: it is made again, under the same tag."""
        tags = []

        def first(peer):
            peer.upgrade_answer()
            peer.take_spawn()
            tags.append(peer.tag)

        def second(peer):
            peer.upgrade_answer()
            tags.append(peer.take_attach()[1])
            peer.fail(errno.ESRCH, "no such process")
            self.assertEqual(peer.take_spawn()[5], ["cmd"])
            tags.append(peer.tag)
            # It was under way after all, and is faster.
            peer.fail(errno.EEXIST, "there is a process with this tag")
            tags.append(peer.take_attach()[1])
            peer.attached()
            peer.exit(3)
        self.assertEqual(self.connections(first, second), (3, b"", ""))
        self.assertEqual(len(set(tags)), 1)
        self.assertEqual(len(tags), 4)

    def test_never_started_twice(self):
        def second(peer):
            peer.upgrade_answer()
            peer.take_attach()
            peer.fail(errno.ESRCH, "no such process")
            peer.ended()
        code, out, err = self.connections(
            lambda p: (p.begin(), p.output(1, 0, b"x")), second)
        self.assertEqual((code, out), (125, b"x"))
        self.assertEqual(err, "carrel: the process is gone; how it ended is "
                              "not known\n")

    def test_own_tag(self):
        """Another process may have it: we do not come to that one."""
        def first(peer):
            peer.upgrade_answer()
            peer.take_spawn()
            self.assertEqual(peer.tag, "mine")
        code, _, err = self.connections(
            first, args=("--tag", "mine", "work", "cmd"))
        self.assertEqual(code, 125)
        self.assertIn("connection to the sandbox was lost", err)
        self.assertEqual(self.connections(
            lambda p: p.begin(), lambda p: (p.come_back(), p.exit(4)),
            args=("--tag", "mine", "work", "cmd"))[0], 4)

    def test_gap(self):
        def second(peer):
            peer.come_back()
            peer.gap(1, 100)
            peer.output(1, 100, b"two")
            peer.exit(0)
        self.assertEqual(
            self.connections(lambda p: (p.begin(), p.output(1, 0, b"one")),
                             second),
            (0, b"onetwo", "carrel: 97 bytes of output were lost\n"))

    def test_daemon_that_takes_its_time(self):
        def first(peer):
            peer.begin()
            s.away = 0.7
        scripts = [first] + [lambda p: p.answer(503, b"{}")] * 3 + \
            [lambda p: (p.come_back(), p.exit(5))]
        with Server(lambda p, r: scripts.pop(0)(p)) as s:
            self.assertEqual(s.cli("exec", "work", "cmd"), (5, b"", ""))
        self.assertEqual(scripts, [])

    def test_sandbox_is_gone(self):
        code, _, err = self.connections(
            lambda p: p.begin(),
            lambda p: p.answer(404, b'{"message": "no sandbox work"}'))
        self.assertEqual((code, err), (125, "carrel: the connection to the "
                                       "sandbox was lost: no sandbox work\n"))

    def test_signal_meanwhile(self):
        held, seen = threading.Event(), []

        def second(peer):
            held.wait(60)
            peer.come_back()
            seen.append(peer.recv())
            peer.exit(2, signaled=1)
        scripts = [lambda p: (p.begin(), p.output(2, 0, b"x")), second]
        with Server(lambda p, r: scripts.pop(0)(p)) as s:
            p = s.popen("exec", "-n", "work", "cmd")
            self.assertEqual(p.stderr.read(1), b"x")
            time.sleep(0.1)
            p.send_signal(signal.SIGINT)
            time.sleep(0.2)
            held.set()
            p.communicate(timeout=60)
        self.assertEqual(p.returncode, 130)
        self.assertEqual(seen, [(SIGNAL, 1, bytes([signal.SIGINT]))])

    def test_signal_later_is_for_us(self):
        scripts = [lambda p: (p.begin(), p.output(2, 0, b"x"))]
        with Server(lambda p, r: scripts.pop(0)(p) if scripts
                    else p.answer(503, b"{}")) as s:
            p = s.popen("exec", "work", "cmd")
            self.assertEqual(p.stderr.read(1), b"x")
            began = time.monotonic()
            time.sleep(1.5)
            wait_for("it asks again", lambda: len(s.requests) > 3, 20)
            p.send_signal(signal.SIGTERM)
            p.communicate(timeout=60)
        self.assertEqual(p.returncode, 128 + signal.SIGTERM)
        # It asked now and then, not in a loop.
        self.assertLess(len(s.requests), 10 * (time.monotonic() - began))

    def test_connected_and_lost_again_is_no_loop(self):
        scripts = [lambda p: (p.begin(), p.output(2, 0, b"x"))]
        with Server(lambda p, r: scripts.pop(0)(p) if scripts
                    else p.upgrade_answer()) as s:
            p = s.popen("exec", "work", "cmd")
            self.assertEqual(p.stderr.read(1), b"x")
            began = time.monotonic()
            time.sleep(1.5)
            wait_for("it asks again", lambda: len(s.requests) > 3, 20)
            p.send_signal(signal.SIGTERM)
            p.communicate(timeout=60)
        self.assertLess(len(s.requests), 10 * (time.monotonic() - began))

    @unittest.skipIf(harness.SANITIZED, "takes a minute")
    def test_gives_up(self):
        scripts = [lambda p: p.begin()]
        with Server(lambda p, r: scripts.pop(0)(p) if scripts
                    else p.answer(503, b"{}")) as s:
            began = time.monotonic()
            p = s.popen("exec", "work", "cmd")
            _, err = p.communicate(timeout=180)
        self.assertEqual(p.returncode, 125)
        self.assertIn(b"the connection to the sandbox was lost", err)
        self.assertTrue(55 < time.monotonic() - began < 150)


class Attach(unittest.TestCase):
    """To what runs already: attach, logs, ps."""
    LIST = {"processes": [
        {"number": 1, "pid": 7, "tag": "i" + "a" * 26, "user": "user",
         "argv": ["sh", "-c", "x\x1b"], "tty": True, "state": "running",
         "started_at": "2026-01-01T00:00:00.000Z", "exit": None,
         "stdout_end": 300000, "stderr_end": 3},
        {"number": 2, "pid": 9, "tag": "web", "user": "root",
         "argv": ["false"], "tty": False, "state": "exited",
         "started_at": "2026-01-01T00:00:00.000Z",
         "exit": {"code": 1, "signal": None}, "stdout_end": 4,
         "stderr_end": 0}]}

    def script(self, *scripts):
        """Answers lists; other requests get these scripts in turn."""
        left = list(scripts)

        def script(peer, req):
            if req.method == "GET":
                self.assertEqual(req.target, "/v1/sandboxes/work/processes")
                peer.answer(200, json.dumps(self.LIST).encode())
            else:
                left.pop(0)(peer)
        return script

    def test_ps(self):
        with Server(self.script()) as s:
            code, out, _ = s.cli("ps", "work")
            self.assertEqual(code, 0)
            head, row = out.decode().splitlines()
            self.assertEqual(head.split(), "NUMBER PID USER TTY STATE AGE TAG "
                                           "COMMAND".split())
            self.assertRegex(row, r"^1 +7 +user +yes +running +\d+ d +- +"
                                  r"sh -c x\?$")
            out = s.cli("ps", "-a", "work")[1].decode().splitlines()
            self.assertRegex(out[2], r"^2 +9 +root +- +exit 1 .* web +false$")
            got = json.loads(s.cli("ps", "--json", "work")[1])
            self.assertEqual(got, self.LIST["processes"][:1])

    def test_attach(self):
        def body(peer):
            self.assertEqual(peer.come_back(10),
                             (3, "", (1 << 64) - 1, (1 << 64) - 1))
            peer.gap(1, 500)  # what was before is no loss
            peer.output(1, 500, b"now")
            self.assertEqual(peer.recv()[2], struct.pack("<Q", 10) + b"in")
            peer.exit(9)
        with Server(self.script(body)) as s:
            self.assertEqual(s.cli("attach", "work", "3", input=b"in"),
                             (9, b"now", ""))

    def test_by_tag_with_replay(self):
        def body(peer):
            self.assertEqual(peer.come_back(), (0, "web", 0, 0))
            peer.gap(2, 7)
            peer.output(2, 7, b"x\n")
            peer.exit(0)
        with Server(self.script(body)) as s:
            self.assertEqual(s.cli("attach", "-rn", "work", "tag:web"),
                             (0, b"", "carrel: the first 7 bytes of error "
                                      "output are no longer kept\nx\n"))

    def test_no_such_process(self):
        def body(peer):
            peer.upgrade_answer()
            peer.take_attach()
            peer.fail(errno.ESRCH, "no process 3")
        with Server(self.script(body)) as s:
            self.assertEqual(s.cli("attach", "work", "3"),
                             (125, b"", "carrel: no process 3\n"))
            for word in ("0", "x", "tag:", "tag:" + "x" * 65, "4294967296"):
                code, _, err = s.cli("attach", "work", word)
                self.assertEqual(code, 125)
                self.assertIn("is no process", err)

    def test_only_look(self):
        """Our signals are our own then."""
        def body(peer):
            peer.come_back()
            peer.output(1, 0, b"x")
            self.assertTrue(peer.ended())
        with Server(self.script(body)) as s:
            p = s.popen("attach", "-n", "work", "3")
            self.assertEqual(p.stdout.read(1), b"x")
            p.send_signal(signal.SIGINT)
            p.communicate(timeout=60)
        self.assertEqual(p.returncode, -signal.SIGINT)

    def test_keys(self):
        seen = []

        def body(peer):
            peer.come_back(pty=1)
            peer.output(1, 0, b"prompt")
            while not seen or seen[-1][0] != DETACH:
                seen.append(peer.recv())
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ,
                    struct.pack("HHHH", 30, 100, 0, 0))
        before = termios.tcgetattr(theirs)
        with Server(self.script(body)) as s:
            p = s.popen("attach", "work", "3", stdin=theirs)
            self.assertEqual(p.stdout.read(6), b"prompt")
            for keys in (b"a\x10", b"b\x10\x10", b"\x11c"):
                os.write(ours, keys)
                time.sleep(0.2)
            out, err = p.communicate(timeout=60)
        self.assertEqual((p.returncode, out, err), (0, b"", b""))
        self.assertEqual(termios.tcgetattr(theirs), before)
        # One row less and back: programs draw their screen then.
        self.assertEqual([x[2] for x in seen[:2]],
                         [struct.pack("<HH", 29, 100),
                          struct.pack("<HH", 30, 100)])
        typed = b"".join(x[2][8:] for x in seen[2:-1])
        self.assertEqual(typed, b"a\x10b\x10")
        self.assertEqual(seen[-1], (DETACH, 1, b"\0"))
        os.close(ours)
        os.close(theirs)

    def test_logs_of_one_that_runs(self):
        """What there was when we asked, not what comes."""
        def body(peer):
            self.assertEqual(peer.come_back(), (1, "", 0, 0))
            peer.gap(1, 40000)
            peer.output(1, 40000, b"a" * 60000)
            for n in range(100000, 300000, 50000):
                peer.output(1, n, b"b" * 50000)
            self.assertFalse(select.select([peer.sock], [], [], 0.2)[0] and
                             peer.recv()[0] == DETACH)
            peer.output(2, 0, b"err\n")
            while peer.recv()[0] != DETACH:
                pass
        with Server(self.script(body)) as s:
            code, out, err = s.cli("logs", "work", "1")
        self.assertEqual((code, out), (0, b"a" * 60000 + b"b" * 200000))
        self.assertEqual(err, "carrel: the first 40000 bytes of output are no "
                              "longer kept\nerr\n")

    def test_logs_of_one_that_ended(self):
        def body(peer):
            self.assertEqual(peer.come_back(), (2, "", 0, 0))
            peer.output(1, 0, b"done")
            peer.exit(1)
        with Server(self.script(body, body)) as s:
            self.assertEqual(s.cli("logs", "work"), (0, b"done", ""))
            self.assertEqual(s.cli("logs", "work", "tag:web"),
                             (0, b"done", ""))
            code, _, err = s.cli("logs", "work", "5")
            self.assertEqual(code, 1)
            self.assertIn("no process 5 in work", err)

    def test_logs_follow(self):
        def first(peer):
            peer.come_back()
            peer.output(1, 0, b"x" * 4)

        def second(peer):
            self.assertEqual(peer.come_back(), (1, "", 4, 0))
            peer.output(1, 4, b"y")
            peer.exit(3)
        with Server(self.script(first, second)) as s:
            self.assertEqual(s.cli("logs", "-f", "work", "1"),
                             (0, b"xxxxy", ""))


class Usage(unittest.TestCase):
    """top, stats, update."""

    def script(self, peer, req):
        n = len(self.server.requests)
        rows = [{"id": "i" + c * 26, "name": name, "cpu_us": cpu * n,
                 "memory_bytes": 1 << 20, "disk_bytes": 0, "pids": 3,
                 "output_bytes": 9} for c, name, cpu in
                (("a", "idle", 0), ("b", "busy\x1b", 500000), ("c", None, 9))]
        peer.answer(200, json.dumps({"host": {}, "sandboxes": rows}).encode())

    def test_top_once(self):
        with Server(self.script) as self.server:
            code, out, err = self.server.cli("top", "--once")
        self.assertEqual((code, err), (0, ""))
        lines = out.decode().splitlines()
        self.assertRegex(lines[0], r"^3 sandboxes, \d+\.\d % of a processor, "
                                   r"3 MiB of memory$")
        self.assertRegex(lines[3], r"^ib+ +busy\? +\d\d+\.\d +1 MiB +0 B")
        self.assertEqual(len(lines), 6)

    def test_top_refreshes_and_quits(self):
        for end in (b"q", b"\x03", signal.SIGTERM):
            ours, theirs = pty.openpty()
            fcntl.ioctl(theirs, termios.TIOCSWINSZ,
                        struct.pack("HHHH", 7, 60, 0, 0))
            before = termios.tcgetattr(theirs)
            with Server(self.script) as self.server:
                p = self.server.popen(
                    "top", "-i", "100ms", stdin=theirs, stdout=theirs,
                    stderr=theirs, start_new_session=True,
                    preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
                got = b""
                while got.count(b"q quits") < 3:
                    got += os.read(ours, 4096)
                if isinstance(end, bytes):
                    os.write(ours, end)
                else:
                    p.send_signal(end)
                while b"\x1b[?1049l" not in got:
                    got += os.read(ours, 4096)
                self.assertEqual(p.wait(60), 0)
            last = got.split(b"q quits")[2]
            self.assertIn(b"busy?", last)
            self.assertNotIn(b"idle", last)  # the terminal has no room for it
            self.assertEqual(termios.tcgetattr(theirs), before)
            os.close(ours)
            os.close(theirs)

    def test_stats(self):
        with Server(self.script) as self.server:
            out = self.server.cli("stats")[1].decode()
            self.assertRegex(out, r"(?m)^ib+ +busy\? +0\.50 s +1 MiB +0 B +3")
            code, out, _ = self.server.cli("stats", "--json", "work")
            self.assertEqual(json.loads(out)["host"], {})
        self.assertEqual([r.target for r in self.server.requests],
                         ["/v1/stats", "/v1/sandboxes/work/stats"])

    def test_update(self):
        with Server(lambda p, r: p.answer(200, b"{}")) as s:
            self.assertEqual(
                s.cli("update", "work", "--memory", "1G", "--timeout=2h",
                      "--label", "a=b", "--label", "c-"), (0, b"", ""))
            req = s.requests[0]
            self.assertEqual((req.method, req.target),
                             ("PATCH", "/v1/sandboxes/work"))
            self.assertEqual(json.loads(req.body), {
                "memory": "1G", "timeout": "2h",
                "labels": {"a": "b", "c": None}})
            self.assertEqual(s.cli("update", "work")[0], 2)
            self.assertEqual(s.cli("update", "work", "--image", "x")[0], 2)


class Port(unittest.TestCase):
    def serve(self, body, *args):
        """A server whose tunnels are body(sock); (server, process, port)."""
        def script(peer, req):
            if req.method == "GET":
                peer.answer(200, b'{"spec": {"ports": {"web": 80}}}')
                return
            if req.fields.get("upgrade") != "carrel-tcp/1":
                peer.answer(200, b'{"url": "http://x/?carrel_token=\\u001b"}')
                return
            peer.sock.sendall(b"HTTP/1.1 101 Switching\r\nConnection: "
                              b"Upgrade\r\nUpgrade: carrel-tcp/1\r\n\r\n")
            body(peer.sock)
        return Server(script)

    def start(self, s, *args):
        p = s.popen("port", *args)
        self.addCleanup(p.stdin.close)
        self.addCleanup(p.stdout.close)
        self.addCleanup(p.stderr.close)
        self.addCleanup(p.wait)
        self.addCleanup(p.kill)
        host, port = p.stdout.readline().decode().split(":")
        self.assertEqual(host, "127.0.0.1")
        return int(port)

    def test_bytes_and_ends(self):
        """Each side's end is passed on, and the other may still talk."""
        data = os.urandom(3 << 20)

        def body(sock):
            got = b""
            while piece := sock.recv(1 << 16):
                got += piece
            sock.sendall(hashlib.sha256(got).digest() + got[:1 << 20])
        with self.serve(body) as s:
            port = self.start(s, "work", "8000", "0")
            c = socket.create_connection(("127.0.0.1", port))
            c.sendall(data)
            c.shutdown(socket.SHUT_WR)
            got = b""
            while piece := c.recv(1 << 16):
                got += piece
            c.close()
        self.assertEqual(got, hashlib.sha256(data).digest() + data[:1 << 20])
        self.assertEqual(s.requests[-1].target, "/v1/sandboxes/work/tcp/8000")

    def test_several(self):
        with self.serve(lambda sock: sock.sendall(sock.recv(9))) as s:
            port = self.start(s, "work", "web", "0")
            for n in range(5):
                with socket.create_connection(("127.0.0.1", port)) as c:
                    c.sendall(b"%d" % n)
                    self.assertEqual(c.recv(9), b"%d" % n)
            self.assertTrue(s.requests[-1].target.endswith("/tcp/80"))

    def test_nobody_listens_inside(self):
        def script(peer, req):
            if req.method == "GET":
                peer.answer(200, b"{}")
            else:
                peer.answer(502, b'{"message": "nobody listens on 81"}')
        with Server(script) as s:
            p = s.popen("port", "work", "81", "0")
            port = int(p.stdout.readline().decode().split(":")[1])
            with socket.create_connection(("127.0.0.1", port)) as c:
                self.assertEqual(c.recv(9), b"")
            self.assertEqual(p.stderr.readline(),
                             b"carrel: nobody listens on 81\n")
            p.terminate()
            p.communicate()

    def test_refusals(self):
        with self.serve(None) as s, socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            for args, word in ((["work", "0"], "not a port"),
                               (["work", "65536"], "not a port"),
                               (["work", "other"], "not a port"),
                               (["work", "1", str(taken.getsockname()[1])],
                                "Address already in use")):
                code, _, err = s.cli("port", *args)
                self.assertEqual(code, 1, args)
                self.assertIn(word, err)

    def test_url(self):
        with self.serve(None) as s:
            code, out, _ = s.cli("port", "--url", "--ttl", "5m", "work", "web")
        self.assertEqual((code, out), (0, b"http://x/?carrel_token=?\n"))
        self.assertEqual(s.requests[-1].target,
                         "/v1/sandboxes/work/ports/80/token")
        self.assertEqual(json.loads(s.requests[-1].body), {"ttl": 300})


class Shell(unittest.TestCase):
    def test_in_a_sandbox(self):
        seen = {}

        def script(peer, req):
            seen["target"] = req.target
            peer.begin()
            seen["spawn"] = peer.spawned
            peer.exit(4)
        with Server(script) as s:
            self.assertEqual(s.cli("shell", "work", "-u", "root")[0], 4)
            self.assertEqual(seen["target"], "/v1/sandboxes/work/exec")
            flags, _, _, user, _, argv, _ = seen["spawn"]
            self.assertEqual((flags, user, argv[:2]),
                             (SPAWN_STDIN, "root", ["/bin/sh", "-c"]))
            self.assertEqual(s.cli("shell", "--memory", "1G")[0], 4)
            self.assertEqual(seen["target"], "/v1/run")
            self.assertEqual(json.loads(s.requests[-1].body),
                             {"memory": "1G"})
            code, _, err = s.cli("shell", "work", "--memory", "1G")
            self.assertEqual(code, 125)
            self.assertIn("when it is made", err)

    def test_the_shell_that_is_taken(self):
        """The script, run here: $SHELL, else bash, else sh."""
        seen = {}

        def script(peer, req):
            peer.begin()
            seen["argv"] = peer.spawned[5]
            peer.exit(0)
        with Server(script) as s:
            s.cli("shell", "work")
        for own, expect in (("/bin/dash", "/bin/dash"),
                            ("/no/such", "/bin/bash")):
            p = subprocess.run(seen["argv"], env={"SHELL": own, "HOME": "/"},
                               input="readlink /proc/$$/exe; echo $SHELL\n",
                               capture_output=True, text=True)
            exe, env = p.stdout.split()
            self.assertEqual((os.path.basename(exe), env),
                             (os.path.basename(expect), expect))


class BrokenRules(unittest.TestCase):
    def test_each_ends_the_connection(self):
        def frame(n, kind, channel=1, zero=0):
            return struct.pack("<IBBHI", n, kind, 0, zero, channel)
        breaks = {
            "a gap": lambda p: p.output(1, 5, b"x"),
            "beyond the window": lambda p: [
                p.output(1, n, b"x" * 60000) for n in range(0, 600000, 60000)],
            "no such stream": lambda p: p.output(3, 0, b"x"),
            "a short frame": lambda p: p.send(70, 1, b"xx"),
            "an unknown type": lambda p: p.send(99, 1),
            "another channel": lambda p: p.send(70, 2, bytes(29)),
            "a huge frame": lambda p: p.sock.sendall(frame(1 << 30, 67)),
            "bits that are zero": lambda p: p.sock.sendall(frame(0, 67, 1, 9)),
            "input that was not sent": lambda p: p.send(
                69, 1, struct.pack("<Q", 1)),
            "started twice": lambda p: p.send(STARTED, 1, struct.pack("<II", 1, 1)),
            "output after its end": lambda p: (p.eof(1, 0),
                                               p.output(1, 0, b"x")),
            "attached without asking": lambda p: p.attached(),
            "a gap without coming back": lambda p: p.gap(1, 5),
        }
        for name, act in breaks.items():
            def body(peer):
                try:
                    act(peer)
                except (BrokenPipeError, ConnectionResetError):
                    pass
                peer.ended()
            r, w = os.pipe()  # never read: what is beyond the window stays
            try:
                with self.subTest(name):
                    with Server(process(body)) as s:
                        p = s.popen("run", "cmd", stdout=w)
                        _, err = p.communicate(timeout=60)
                    self.assertEqual(p.returncode, 125)
                    self.assertIn(b"protocol", err)
            finally:
                os.close(r)
                os.close(w)

    def test_when_we_come_back(self):
        breaks = {
            "backwards": lambda p: (p.attached(), p.gap(1, 3)),
            "no gap": lambda p: (p.attached(), p.gap(1, 4)),
            "a gap beyond all": lambda p: (p.attached(), p.gap(1, 1 << 63)),
            "a gap of nothing": lambda p: (p.attached(), p.gap(3, 9)),
            "gap and output": lambda p: (p.attached(), p.gap(1, 9),
                                         p.output(1, 4, b"x")),
            "output before the answer": lambda p: p.output(1, 4, b"x"),
            "exit before the answer": lambda p: p.exit(0),
            "started instead": lambda p: p.send(STARTED, 1, struct.pack(
                "<II", 1, 1)),
            "given less than it had": lambda p: p.attached(given=1),
            "given more than there is": lambda p: p.attached(given=1 << 63),
            "attached twice": lambda p: (p.attached(), p.attached()),
            "the whole output again": lambda p: (p.attached(),
                                                 p.output(1, 0, b"some")),
        }
        for name, act in breaks.items():
            def script(peer, req):
                if len(s.requests) == 1:
                    peer.begin()
                    peer.output(1, 0, b"some")
                    while len(peer.recv()[2]) != 8 + 6:
                        pass
                    peer.send(69, 1, struct.pack("<Q", 2))
                    return
                peer.upgrade_answer()
                peer.take_attach()
                with contextlib.suppress(BrokenPipeError, ConnectionError):
                    act(peer)
                peer.ended()
            with self.subTest(name), Server(script) as s:
                p = s.popen("exec", "work", "cmd")
                p.stdin.write(b"abcdef")
                p.stdin.flush()
                _, err = p.communicate(timeout=60)
                self.assertEqual(p.returncode, 125)
                self.assertIn(b"protocol", err)

    def test_no_hello(self):
        def script(peer, req):
            peer.upgrade_answer(hello=False)
            peer.sock.sendall(b"GET / HTTP/1.1\r\n\r\n" * 4)
            peer.ended()
        code, _, err = scripted(script, "run", "cmd")
        self.assertEqual(code, 125)
        self.assertIn("protocol", err)

    def test_lost_connection(self):
        code, out, err = run(lambda p: p.output(1, 0, b"some"))
        self.assertEqual((code, out), (125, b"some"))
        self.assertEqual(err, "carrel: the connection to the sandbox was "
                              "lost\n")

    def test_exit_is_heard_although_nobody_listens_any_more(self):
        """The server closes while we are still sending input."""
        def body(peer):
            peer.exit(6)
        self.assertEqual(run(body, input=b"x" * 200000)[0], 6)


class Images(unittest.TestCase):
    def tool(self, directory, script):
        path = os.path.join(directory, "mmdebstrap")
        with open(path, "w") as f:
            f.write("#!/bin/sh\n" + script)
        os.chmod(path, 0o755)

    def build(self, tool, status=201, answer=None, without=()):
        answer = answer or b'{"name": "x", "size": 1048576, "entries": 7}'

        def script(peer, req):
            if req.method == "GET":
                peer.answer(200, b'{"version": "0"}')
            elif req.whole:
                peer.answer(status, answer)
        with Server(script) as s:
            self.tool(s.dir, tool)
            share = os.path.join(s.dir, "share/images/some")
            os.makedirs(share)
            with open(share + "/packages", "w") as f:
                f.write("# comment\nbash\n\n python3 # why\n")
            with open(share + "/customize.sh", "w") as f:
                f.write("#!/bin/sh\n")
            env = {**s.env(), "PATH": s.dir + ":/usr/bin:/bin",
                   "TMPDIR": s.dir, "CARREL_SHARE": s.dir + "/share"}
            for name in without:
                del env[name]
            code, out, err = s.cli("image", "build", "some", "--name", "mine",
                                   "--include", "git,curl", env=env)
            logs = [n for n in os.listdir(s.dir) if n.startswith("carrel-")]
            return code, out.decode(), err, s, logs

    def test_build(self):
        code, out, err, s, logs = self.build(
            'echo "I: downloading packages with apt..." >&2\n'
            'echo "I: installing remaining packages inside..." >&2\n'
            'sleep 0.5; echo "$@"; printf tar')
        self.assertEqual(code, 0, err)
        self.assertRegex(out, "^image mine: 1 MiB in 7 files, made in ")
        self.assertRegex(err, r"(?s)downloading packages \[0 s\]\n"
                              r"installing packages \[0 s\]\n")
        put = s.requests[-1]
        self.assertEqual((put.method, put.target), ("PUT", "/v1/images/mine"))
        args, _, tar = put.body.decode().partition("\n")
        self.assertEqual(tar, "tar")
        self.assertIn("--include=bash,python3,git,curl ", args)
        self.assertIn("/share/images/some/customize.sh bookworm -", args)
        self.assertEqual(logs, [])

    def test_builder_unpacks_on_disk(self):
        """/tmp may be in memory, so TMPDIR has another default."""
        for without, want in (("TMPDIR",), "/var/tmp"), ((), None):
            code, _, err, s, _ = self.build('echo "$TMPDIR"', without=without)
            self.assertEqual(code, 0, err)
            self.assertEqual(s.requests[-1].body.decode(),
                             (want or s.dir) + "\n")

    def test_failure_in_the_middle_is_no_image(self):
        code, out, err, s, logs = self.build(
            'printf tar; echo "E: apt \x1b[1m broke" >&2; exit 25')
        self.assertEqual((code, out), (1, ""))
        self.assertFalse(s.requests[-1].whole)
        self.assertIn("E: apt ?[1m broke", err)
        self.assertIn(logs[0], err)

    def test_refusal_ends_the_builder(self):
        code, out, err, s, logs = self.build(
            "printf tar", 507, b'{"message": "the pool is full"}')
        self.assertEqual((code, out), (1, ""))
        self.assertIn("image mine: the pool is full", err)

    def test_interrupted(self):
        """The builder is ended and waited for, the log goes away."""
        with Server(lambda p, r: p.answer(200, b"{}")) as s:
            self.tool(s.dir, f"echo $$ > {s.dir}/pid; exec sleep 60")
            os.makedirs(s.dir + "/images/some")
            with open(s.dir + "/images/some/packages", "w") as f:
                f.write("bash\n")
            p = s.popen("image", "build", "some",
                        env={**s.env(), "PATH": s.dir + ":/usr/bin:/bin",
                             "TMPDIR": s.dir, "CARREL_SHARE": s.dir})
            pid = int(wait_for("the builder", lambda: harness.read(
                s.dir + "/pid", " ").strip(), 10))
            p.send_signal(signal.SIGINT)
            _, err = p.communicate(timeout=60)
            self.assertEqual(p.returncode, 130)
            self.assertTrue(err.endswith(b"carrel: interrupted\n"), err)
            self.assertFalse(os.path.exists(f"/proc/{pid}"))
            self.assertEqual([n for n in os.listdir(s.dir)
                              if n.startswith("carrel-")], [])

    def test_no_such_recipe(self):
        code, _, err = scripted(lambda p, r: p.answer(200, b"{}"), "image",
                                "build", "../no-such-file")
        self.assertEqual(code, 1)
        self.assertIn("no recipe and no build file", err)

    def test_import(self):
        data = os.urandom(300000)

        def script(peer, req):
            self.assertTrue(req.whole)
            self.assertEqual(req.body, data)
            self.assertEqual(req.target, "/v1/images/rootfs")
            peer.answer(201, b'{"size": 1, "entries": 2}')
        with Server(script) as s:
            path = os.path.join(s.dir, "rootfs.tar.xz")
            with open(path, "wb") as f:
                f.write(data)
            code, out, err = s.cli("image", "import", path)
            self.assertEqual(code, 0, err)
            code, out, err = s.cli("image", "import", "-", "rootfs",
                                   input=data)
            self.assertEqual(code, 0, err)
            self.assertEqual(s.cli("image", "import", "-")[0], 2)


class States(unittest.TestCase):
    """merge and diff: exit codes that scripts rely on."""

    CONFLICTS = {"put": 1, "removed": 0, "conflicts": 2, "pause_ms": 3,
                 "changes": [{"path": "/a", "action": "keep", "conflict": True}]}

    def merge(self, *args, status=200, body=None):
        text = json.dumps(self.CONFLICTS if body is None else body).encode()
        return scripted(lambda peer, req: peer.answer(status, text),
                        "merge", *args, "from", "into")

    def test_merge_with_conflicts_left_fails(self):
        code, out, err = self.merge()
        self.assertEqual(code, 1, err)
        self.assertIn(b"C /a\n", out)
        self.assertIn(b"2 conflicts", out)
        self.assertEqual(self.merge("--json")[0], 1)
        self.assertEqual(self.merge("--dry-run")[0], 1)

    def test_merge_that_decides_conflicts_succeeds(self):
        for option in ("--ours", "--theirs"):
            self.assertEqual(self.merge(option)[0], 0)
        none = {**self.CONFLICTS, "conflicts": 0}
        self.assertEqual(self.merge(body=none)[0], 0)

    def test_refused_merge_fails(self):
        code, out, err = self.merge(status=409, body={
            "error": {"code": "conflict", "message": "both sides changed"},
            "conflicts": [{"path": "/b", "conflict": True}]})
        self.assertEqual(code, 1)
        self.assertIn(b"C /b\n", out)

    def diff(self, *lines):
        text = b"".join(json.dumps(x).encode() + b"\n" for x in lines)
        return scripted(lambda peer, req: peer.answer(200, text), "diff", "box")

    def test_diff_that_is_cut_off_is_trouble(self):
        change = {"type": "change", "change": "added", "path": "/a"}
        code, _, err = self.diff(change)
        self.assertEqual(code, 2)
        self.assertIn("cut off", err)
        self.assertEqual(self.diff()[0], 2)
        self.assertEqual(self.diff(change, {"type": "done"})[0], 1)
        self.assertEqual(self.diff({"type": "done"})[0], 0)
        self.assertEqual(self.diff({"type": "error", "message": "x"})[0], 2)


class Cost(unittest.TestCase):
    @unittest.skipIf(harness.SANITIZED, "the sanitizer makes calls of its own")
    @unittest.skipUnless(shutil.which("strace"), "strace is not installed")
    def test_few_system_calls(self):
        with Server(process(exits)) as s:
            trace = os.path.join(s.dir, "trace")
            subprocess.run(["strace", "-o", trace, CLI, "run", "--", "true"],
                           env=s.env(), stdin=subprocess.DEVNULL, check=True)
            with open(trace) as f:
                lines = [x for x in f if re.match(r"\w+\(", x)]
        self.assertLess(len(lines), 60, "".join(lines))


if __name__ == "__main__":
    harness.main()
