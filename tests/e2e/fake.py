"""A server that a test scripts: HTTP and frames on a unix socket, no daemon.

It is for what a well-behaved daemon never does (breaking rules, answering
late, going away) and for what only the other end sees: which bytes the command
line sends, and when.
"""

import contextlib
import os
import shutil
import socket
import struct
import subprocess
import tempfile
import threading

import harness
from harness import ACK, ATTACH, ATTACHED, GAP, INPUT, INPUT_ACK, INPUT_EOF, \
    OUTPUT, OUTPUT_EOF, EXIT, FAILED, SPAWN, STARTED, WINDOW, Wire, pack_str

CLI = os.path.join(harness.BUILD, "bin/carrel")


class Request:
    def __init__(self, method, target, fields, body, whole):
        self.method, self.target, self.fields = method, target, fields
        self.body = body
        self.whole = whole  # the body came to its end


class Peer(Wire):
    """One connection, from the server's side."""

    def request(self):
        while b"\r\n\r\n" not in self.buf:
            self._more()
        head, _, rest = bytes(self.buf).partition(b"\r\n\r\n")
        self.buf[:] = rest
        first, *lines = head.decode().split("\r\n")
        method, target, _ = first.split()
        fields = {k.lower(): v.strip() for k, _, v in
                  (line.partition(":") for line in lines)}
        body, whole = b"", True
        try:
            if fields.get("transfer-encoding") == "chunked":
                while n := int(self._line(), 16):
                    body += self._take(n + 2)[:-2]
            else:
                body = self._take(int(fields.get("content-length", 0)))
        except EOFError:
            whole = False
        return Request(method, target, fields, body, whole)

    def _take(self, n):
        while len(self.buf) < n:
            self._more()
        got = bytes(self.buf[:n])
        del self.buf[:n]
        return got

    def _line(self):
        while b"\r\n" not in self.buf:
            self._more()
        return self._take(self.buf.index(b"\r\n") + 2)[:-2]

    def answer(self, status, body=b""):
        head = f"HTTP/1.1 {status} Word\r\nContent-Length: {len(body)}\r\n\r\n"
        self.sock.sendall(head.encode() + body)

    def upgrade_answer(self, hello=True):
        self.sock.sendall(b"HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\n"
                          b"Upgrade: carrel-wire/1\r\n"
                          b"Sandbox-Id: i" + b"a" * 26 + b"\r\n\r\n")
        if hello:
            self.hello()

    def take_spawn(self):
        """(flags, rows, cols, user, cwd, argv, env) of FRAME_SPAWN."""
        raw, more = b"", 1
        while more:
            while len(self.buf) < 12:
                self._more()
            more = self.buf[5]
            kind, channel, p = self.recv()
            assert (kind, channel) == (SPAWN, 1), (kind, channel)
            raw += p
        flags, rows, cols = struct.unpack_from("<IHH", raw)
        at = 8

        def word():
            nonlocal at
            n, = struct.unpack_from("<I", raw, at)
            at += 4 + n + 1
            return os.fsdecode(raw[at - n - 1:at - 1])

        def words():
            nonlocal at
            n, = struct.unpack_from("<I", raw, at)
            at += 4
            return [word() for _ in range(n)]
        user, cwd, self.tag = word(), word(), word()
        return flags, rows, cols, user, cwd, words(), words()

    def begin(self):
        """Upgrade, hello, spawn, started: what every process has."""
        self.upgrade_answer()
        self.spawned = self.take_spawn()
        self.send(STARTED, 1, struct.pack("<II", 7, 1))

    def take_attach(self):
        """(number, tag, offset of stdout, of stderr) of FRAME_ATTACH."""
        kind, channel, p = self.recv()
        assert (kind, channel) == (ATTACH, 1), (kind, channel)
        number, n = struct.unpack_from("<II", p)
        tag = p[8:8 + n].decode()
        return number, tag, *struct.unpack_from("<QQ", p, 8 + n + 1)

    def attached(self, given=0, pty=0, number=1):
        """Says that the process is there and was given `given` bytes."""
        self.send(ATTACHED, 1, struct.pack("<IIQB", 7, number, given, pty))

    def come_back(self, given=0, pty=0):
        """Upgrade, hello, attach, attached; what it asked for."""
        self.upgrade_answer()
        asked = self.take_attach()
        self.attached(given, pty)
        return asked

    def gap(self, stream, offset):
        self.send(GAP, 1, struct.pack("<BQ", stream, offset))

    def output(self, stream, offset, data):
        self.send(OUTPUT, 1, struct.pack("<BQ", stream, offset) + data)

    def eof(self, stream, offset):
        self.send(OUTPUT_EOF, 1, struct.pack("<BQ", stream, offset))

    def exit(self, code=0, signaled=0):
        self.send(EXIT, 1, struct.pack("<BIQQQ", signaled, code, 0, 0, 0))

    def fail(self, code, message):
        self.send(FAILED, 1, struct.pack("<I", code) + pack_str(message))

    def take_input(self, ack=True):
        """All of the client's stdin; checks offsets and the window."""
        got, acked = bytearray(), 0
        while True:
            kind, _, p = self.recv()
            if kind == INPUT_EOF:
                return bytes(got)
            assert kind == INPUT, kind
            offset, = struct.unpack_from("<Q", p)
            assert offset == len(got), (offset, len(got))
            got += p[8:]
            assert len(got) <= acked + WINDOW, "beyond the window"
            if ack:
                acked = len(got)
                self.send(INPUT_ACK, 1, struct.pack("<Q", acked))

    def ended(self):
        """Waits for the client to go; whatever it still sends is dropped."""
        try:
            while True:
                self._more()
        except (EOFError, ConnectionResetError):
            return True


class Server:
    """Serves connections one after the other with script(peer, request)."""

    def __init__(self, script):
        self.dir = tempfile.mkdtemp(prefix="carrel-fake-")
        self.path = os.path.join(self.dir, "s")
        self.script, self.error, self.requests = script, None, []
        # Set by a script: seconds for which nobody listens after it.
        self.away = 0
        # Coming back and ending exclude each other.
        self.turn, self.over = threading.Lock(), threading.Event()
        self._listen()
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _listen(self):
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen(16)

    def _come_back(self):
        self.listener.close()
        self.over.wait(self.away)
        with self.turn:
            if self.over.is_set():
                return
            os.unlink(self.path)
            self._listen()
            self.away = 0

    def _serve(self):
        while not self.over.is_set():
            if self.away:
                self._come_back()
                continue
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            sock.settimeout(30 * harness.SLOW)
            peer = Peer(sock)
            try:
                req = peer.request()
                self.requests.append(req)
                self.script(peer, req)
            except Exception as e:  # shown by the test, in its own thread
                self.error = self.error or e
            finally:
                sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        with self.turn:
            self.over.set()
            with contextlib.suppress(OSError):  # it is away
                self.listener.shutdown(socket.SHUT_RDWR)
            self.listener.close()
        self.thread.join(35 * harness.SLOW)
        shutil.rmtree(self.dir)
        if self.error and not exc[0]:
            raise self.error

    def env(self):
        env = {k: v for k, v in os.environ.items()
               if not k.startswith("CARREL_")}
        env["CARREL_SOCKET"] = self.path
        if harness.SANITIZED:
            env["ASAN_OPTIONS"] = "detect_leaks=1:exitcode=99"
            env["UBSAN_OPTIONS"] = "print_stacktrace=1:halt_on_error=1"
        return env

    def popen(self, *args, **kw):
        kw = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE,
              "stderr": subprocess.PIPE, "env": self.env(), **kw}
        return subprocess.Popen([CLI, *args], **kw)

    def cli(self, *args, input=b"", **kw):
        p = self.popen(*args, **kw)
        out, err = p.communicate(input, timeout=60 * harness.SLOW)
        return p.returncode, out, err.decode(errors="replace")
