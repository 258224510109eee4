# suite: both
# suite: debian
"""`carrel shell` on a terminal, as a person uses it: an editor, job control,
resizing, letters of all kinds, and a daemon that is killed in between."""

import fcntl
import hashlib
import os
import pty
import re
import select
import signal
import struct
import termios
import threading
import time
import unittest

import harness
from harness import SLOW, Case, wait_for


class Screen:
    """The other end of a terminal that the command line runs on."""

    def __init__(self, instance, *args, rows=30, cols=100, term="xterm"):
        self.ours, self.theirs = pty.openpty()
        self.resize(rows, cols)
        self.modes = termios.tcgetattr(self.theirs)
        self.seen = b""
        env = {**instance.env(), "TERM": term}
        self.p = harness.subprocess.Popen(
            instance.cli_argv(*args), env=env, stdin=self.theirs,
            stdout=self.theirs, stderr=self.theirs, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.p.kill()
        self.p.wait()
        os.close(self.ours)
        os.close(self.theirs)

    def resize(self, rows, cols):
        fcntl.ioctl(self.ours, termios.TIOCSWINSZ,
                    struct.pack("HHHH", rows, cols, 0, 0))

    def type(self, text):
        data = text.encode() if isinstance(text, str) else text
        while data:
            data = data[os.write(self.ours, data[:512]):]

    def _more(self, timeout):
        if not select.select([self.ours], [], [], max(timeout, 0))[0]:
            return False
        try:
            self.seen += os.read(self.ours, 1 << 16)
        except OSError:  # the last one has closed it
            return False
        return True

    def until(self, pattern, timeout=20):
        """Reads until the pattern is there; returns what was up to it."""
        end = time.monotonic() + timeout * SLOW
        want = re.compile(pattern if isinstance(pattern, bytes)
                          else pattern.encode())
        at = 0
        while not (m := want.search(self.seen, at)):
            at = max(0, len(self.seen) - 1000)
            if not self._more(end - time.monotonic()):
                raise AssertionError(f"no {pattern!r} in {self.seen[-2000:]!r}")
        before, self.seen = self.seen[:m.end()], self.seen[m.end():]
        return before

    def run(self, command, timeout=20):
        """A command of the shell inside, and its output as text."""
        self.count = getattr(self, "count", 0) + 1
        # Written in two parts: the echo is not taken for the answer.
        self.type(f"echo 'be''gin'{self.count}; {command}; "
                  f"echo 'en''d'{self.count}\r")
        self.until(rf"begin{self.count}\r*\n", timeout)
        return self.until(rf"end{self.count}\r*\n", timeout).decode() \
            .replace("\r", "").rpartition(f"end{self.count}")[0]

    def end(self, timeout=10):
        """The exit code; the terminal must be as it was."""
        deadline = time.monotonic() + timeout * SLOW
        while self.p.poll() is None and time.monotonic() < deadline:
            self._more(0.1)
        assert termios.tcgetattr(self.theirs) == self.modes, "left raw"
        return self.p.wait(0.1)


class Terminal(Case):
    IMAGE = "debian"
    CONF = {"pool_size": "3G", "memory": "512M"}

    def setUp(self):
        self.ref = self.i.create(name="work")

    def shell(self, *args, **kw):
        s = Screen(self.i, "shell", *(args or ("work",)), **kw)
        self.addCleanup(s.__exit__)
        # No prompt to mistake for output, no bracketed paste.
        s.type("PS1='$ '; bind 'set enable-bracketed-paste off'\r")
        s.run("true")
        return s

    def test_login_shell(self):
        s = self.shell()
        self.assertEqual(s.run("echo $0; shopt -q login_shell && echo login; "
                               "echo $SHELL; id -un; pwd; tty; echo $TERM"),
                         "/bin/bash\nlogin\n/bin/bash\nuser\n/home/user\n"
                         "/dev/pts/0\nxterm\n")
        s.type("exit 7\r")
        self.assertEqual(s.end(), 7)

    def test_new_sandbox(self):
        s = self.shell("--memory", "300M", "-u", "root")
        self.assertEqual(s.run("id -u").strip(), "0")
        self.assertEqual(len(self.i.ids()), 2)
        s.until(r"\$ ")  # it listens again
        s.type("\x04")  # Ctrl-D
        self.assertEqual(s.end(), 0)
        wait_for("the sandbox is gone", lambda: len(self.i.ids()) == 1, 10)

    def test_resize(self):
        s = self.shell()
        self.assertEqual(s.run("stty size"), "30 100\n")
        s.type("python3 -c 'import os, signal; signal.signal(signal.SIGWINCH, "
               "lambda *a: print(\"now\", *os.get_terminal_size())); "
               "print(\"re\" + \"ady\"); signal.pause()'\r")
        s.until(r"ready\r\n")
        time.sleep(0.3)
        s.resize(41, 132)
        s.until(r"now 132 41\r\n")
        self.assertEqual(s.run("stty size"), "41 132\n")

    def test_interrupt(self):
        s = self.shell()
        s.type("sleep 60\r")
        s.until("sleep 60\r+\n")
        time.sleep(0.3)
        s.type("\x03")
        s.until(r"\^C")
        s.type("echo code $?\r")
        s.until(r"code 130\r\n")

    def test_job_control(self):
        s = self.shell()
        s.type("sleep 300\r")
        s.until("sleep 300\r+\n")
        time.sleep(0.3)
        s.type("\x1a")  # Ctrl-Z
        s.until(r"\[1\]\+ +Stopped +sleep 300")
        self.assertRegex(s.run("bg"), r"\[1\]\+ sleep 300 &")
        self.assertRegex(s.run("jobs"), r"\[1\]\+ +Running +sleep 300 &")
        s.type("fg\r")
        s.until(r"sleep 300\r\n")
        time.sleep(0.3)
        s.type("\x03")
        s.type("echo code $?\r")
        s.until(r"code 130\r\n")
        self.assertEqual(s.run("jobs"), "")

    def test_quit_signal(self):
        s = self.shell()
        s.type("sleep 60\r")
        s.until("sleep 60\r+\n")
        time.sleep(0.3)
        s.type("\x1c")  # Ctrl-\
        s.type("echo code $?\r")
        s.until(r"code 131\r\n")

    def test_letters(self):
        text = "Grüße, 世界 🦀 e\u0301 عربى"
        s = self.shell()
        self.assertEqual(s.run(f"printf '%s\\n' '{text}'"), text + "\n")
        # Before that the shell may still have the terminal for itself, to
        # which Ctrl-D is a letter.
        s.type("echo rea''dy; cat > letters\r")
        s.until("ready\r+\n")
        s.type(text + "\r\x04")
        self.assertEqual(s.run("sha256sum < letters").split()[0],
                         hashlib.sha256((text + "\n").encode()).hexdigest())

    def test_editor(self):
        """nano draws a screen, follows a resize, saves what was typed."""
        s = self.shell()
        s.type("nano story\r")
        s.until(r"\x1b\[\?1049h")   # the other screen
        s.until("Exit")
        for n in range(40):
            s.type(f"line {n} äöü\r")
        s.until("line 39 äöü")
        time.sleep(0.5 * SLOW)     # it hears of sizes while it waits for keys
        s.resize(24, 70)
        s.until("line 30")         # drawn anew
        s.type("the end\x0f")      # Ctrl-O
        s.until("File Name to Write")
        s.type("\r")
        s.until("Wrote")
        s.type("\x18")             # Ctrl-X
        s.until(r"\x1b\[\?1049l")
        expect = "".join(f"line {n} äöü\n" for n in range(40)) + "the end\n"
        self.assertEqual(s.run("sha256sum < story").split()[0],
                         hashlib.sha256(expect.encode()).hexdigest())
        self.assertEqual(s.run("stty size"), "24 70\n")

    def test_pager(self):
        s = self.shell()
        s.type("seq 1000 | less\r")
        s.until(r"\r\n28\r\n")
        s.type("G")
        s.until(r"1000\r\n")
        s.type("q")
        self.assertEqual(s.run("echo there"), "there\n")

    def test_much_output(self):
        """10 MB through the terminal, byte for byte."""
        s = self.shell()
        s.type("stty -onlcr; head -c 8000000 /dev/urandom | base64 -w 99 > f; "
               "clear\r")
        s.run("true")
        digest = s.run("sha256sum < f | cut -c1-64").strip()
        size = int(s.run("stat -c %s f"))
        s.type("echo 'be''gin'; cat f; echo '<en''d>'\r")
        s.until(r"begin\n")
        got = s.until(r"<end>\n", 120)[:-6]
        self.assertEqual(len(got), size)
        self.assertGreater(size, 10 << 20)
        self.assertEqual(hashlib.sha256(got).hexdigest(), digest)

    def test_paste(self):
        """A large paste arrives whole, although a terminal takes lines."""
        s = self.shell()
        lines = "".join(f"{n:04} {'x' * 60}\n" for n in range(2000))
        s.type("stty -echo; cat > pasted; stty echo\r")
        s.until("echo\r+\n")
        time.sleep(0.3)
        s.type(lines.replace("\n", "\r") + "\x04")
        self.assertEqual(s.run("sha256sum < pasted", 60).split()[0],
                         hashlib.sha256(lines.encode()).hexdigest())

    def test_exit_codes(self):
        for command, code in (("exit 0", 0), ("exit 42", 42),
                              ("kill -9 $$", 137), ("kill -HUP $$", 129)):
            s = self.shell()
            s.type(command + "\r")
            self.assertEqual(s.end(), code, command)

    def test_the_sandbox_is_removed(self):
        s = self.shell()
        self.i.rm("work")
        self.assertNotEqual(s.end(), 0)
        self.ref = None

    def kill_daemon(self, away=0.0):
        """All of it at once; a new one comes after a while."""
        for name, pids in self.i.pids().items():
            for pid in pids:
                if name in ("carreld", "carrel-api", "carrel-warden",
                            "carrel-scribe"):
                    os.kill(pid, signal.SIGKILL)
        self.i.daemon.wait()
        time.sleep(away)
        self.i.start()

    def test_daemon_killed(self):
        """The shell, its variables, its jobs and its editor go on."""
        s = self.shell()
        s.run("x=remembered; (sleep 6; echo 'wo''ken') & true")
        self.kill_daemon()
        self.assertEqual(s.run("echo $x; stty size"), "remembered\n30 100\n")
        s.until("woken", 20)
        s.type("nano story\r")
        s.until("Exit")
        s.type("before")
        s.until("before")
        self.kill_daemon()
        s.type(" and after\x0f")
        s.until("File Name to Write")
        s.type("\r")
        s.until("Wrote")
        s.type("\x18")
        s.until(r"\x1b\[\?1049l")
        self.assertEqual(s.run("cat story"), "before and after\n")
        s.type("exit 5\r")
        self.assertEqual(s.end(), 5)

    def test_daemon_away_for_a_while(self):
        s = self.shell()
        s.run("x=remembered")
        t = threading.Thread(target=self.kill_daemon, args=(3,))
        t.start()
        s.until("trying to come back")
        s.type("echo $x and more\r")  # kept, and typed when it can be
        s.until("connected again")
        s.until("remembered and more\r\n")
        t.join()
        s.type("exit\r")
        self.assertEqual(s.end(), 0)

    def test_attach_and_leave(self):
        """Ctrl-P Ctrl-Q leaves a shell, and another terminal finds it."""
        s = self.shell()
        s.run("x=remembered")
        rows = [r.split() for r in
                self.i.cli("ps", "work").out.splitlines()[1:]]
        number = rows[0][0]
        other = Screen(self.i, "attach", "work", number, rows=20, cols=60)
        self.addCleanup(other.__exit__)
        time.sleep(0.5)
        self.assertEqual(other.run("echo $x; stty size"),
                         "remembered\n20 60\n")
        s.until("remembered")  # both see it
        other.type("\x10\x11")
        self.assertEqual(other.end(), 0)
        self.assertEqual(s.run("echo still $x"), "still remembered\n")
        s.type("exit 3\r")
        self.assertEqual(s.end(), 3)

    def test_killed(self):
        s = self.shell()
        self.assertNotEqual(termios.tcgetattr(s.theirs), s.modes)
        s.p.kill()
        s.p.wait()
        wait_for("the terminal is back", lambda:
                 termios.tcgetattr(s.theirs) == s.modes, 10)

    def test_hang_up(self):
        """SIGTERM to us is SIGTERM to the shell; SIGHUP ends it."""
        s = self.shell()
        s.run("trap 'echo got it' TERM")
        s.p.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        s.type("\r")  # bash does it when the line is entered
        s.until("got it\r\n")
        time.sleep(0.3)  # in its trap, bash may miss it
        s.p.send_signal(signal.SIGHUP)
        self.assertIn(s.end(), (0, 129))  # bash: as if its input had ended


if __name__ == "__main__":
    harness.main()
