# suite: sanitized
"""The door for other hosts: who may come in by which name, TLS, limits."""

import contextlib
import os
import shutil
import socket
import ssl
import struct
import subprocess
import tempfile
import threading
import time
import unittest

import fake_warden
import harness
import tcp
from harness import (EXIT, INPUT, INPUT_ACK, OUTPUT, SLOW, STARTED, WINDOW,
                     Wire, wait_for)

API = os.path.join(harness.BUILD, "bin/carrel-api")


def read_out(peer):
    """A socket that is closed with something unread loses what it sent."""
    with contextlib.suppress(EOFError, OSError):
        while True:
            peer.recv()


class TcpCase(unittest.TestCase):
    CONF = {}
    TLS = False

    def setUp(self):
        tcp.open_door(self, "carrel-tcp-")
        self.w = self.a.warden
        self.key = self.a.api("POST", "/v1/keys", {"name": "t", "scope": "admin", "project": "*"}
                              ).json["key"]

    def tearDown(self):
        self.a.stop()
        shutil.rmtree(self.dir)

    def call(self, method, path, body=None, headers=None, key=True):
        return tcp.call(self.port, method, path, body, headers,
                        self.key if key is True else key, self.context)

    def connect(self):
        return tcp.connect(self.port, self.context)

    def wire(self, target, body=b"", behind=b""):
        """Wire.upgrade() over this door."""
        w = Wire(self.connect())
        w.sock.sendall((f"POST {target} HTTP/1.1\r\nHost: localhost\r\n"
                        f"Authorization: Bearer {self.key}\r\n"
                        "Connection: Upgrade\r\nUpgrade: carrel-wire/1\r\n"
                        f"Content-Length: {len(body)}\r\n\r\n").encode() +
                       body + behind)
        while b"\r\n\r\n" not in w.buf:
            w._more()
        head, _, rest = bytes(w.buf).partition(b"\r\n\r\n")
        w.buf[:] = rest
        self.assertIn(b" 101 ", head.split(b"\r\n")[0], head)
        w.hello()
        return w


class Plain(TcpCase):
    CONF = {"domain": "box.test", "allowed_hosts": "carrel.test",
            "max_peer_connections": 5, "client_timeout": "1s"}

    def test_key_needed(self):
        self.assertEqual(self.call("GET", "/v1/host", key=None).status, 401)
        self.assertEqual(self.call("GET", "/v1/host", key="e2b_" + "0" * 40)
                         .status, 401)
        self.assertEqual(self.call("GET", "/v1/host").status, 200)

    def test_names(self):
        for host in ("localhost", "localhost:1", f"127.0.0.1:{self.port}",
                     "[::1]", "carrel.test", "CARREL.TEST:80", "box.test",
                     "x.box.test"):
            r = self.call("GET", "/metrics", headers={"Host": host})
            self.assertEqual(r.status, 200, host)
        for host in ("evil.test", "localhost.evil.test", "192.0.2.1", "",
                     "carrel.test.evil", "xbox.test"):
            r = self.call("GET", "/metrics", headers={"Host": host})
            self.assertEqual((r.status, r.json["error"]), (421, "misdirected"),
                             host)
        with self.connect() as s:
            got = tcp.raw(s, b"GET /metrics HTTP/1.0\r\n\r\n")
            self.assertIn(b" 400 ", got.split(b"\r\n")[0])

    def test_origins(self):
        ours = f"127.0.0.1:{self.port}"
        for origin in (f"http://{ours}", f"https://{ours}"):
            r = self.call("GET", "/metrics", headers={"Origin": origin})
            self.assertEqual(r.status, 200, origin)
        for origin in ("null", "http://evil.test", "http://127.0.0.1",
                       f"http://{ours}.evil.test", "", "file://"):
            r = self.call("GET", "/metrics", headers={"Origin": origin})
            self.assertEqual((r.status, r.json["error"]),
                             (403, "foreign_origin"), origin)

    def test_unix_socket_takes_any_name(self):
        r = self.a.api("GET", "/metrics", headers={"Host": "x", "Origin": "null"})
        self.assertEqual(r.status, 200)

    def follow(self):
        """A connection with a request under way."""
        s = self.connect()
        s.sendall(("GET /v1/events?follow=true HTTP/1.1\r\nHost: localhost\r\n"
                   f"Authorization: Bearer {self.key}\r\n\r\n").encode())
        self.assertIn(b" 200 ", s.recv(4096))
        return s

    def test_many_of_one_peer(self):
        """Idle connections of an address give way, busy ones do not."""
        idle = [self.connect() for _ in range(5)]
        held = [self.follow() for _ in range(5)]
        for s in idle:
            self.assertEqual(s.recv(1), b"")
            s.close()
        with self.connect() as s:
            self.assertEqual(tcp.raw(s, b"GET /metrics HTTP/1.1\r\n"), b"")
        held.pop().close()
        wait_for("room again",
                 lambda: b" 200 " in tcp.raw(self.connect(), (
                     "GET /metrics HTTP/1.1\r\nHost: localhost\r\n"
                     f"Authorization: Bearer {self.key}\r\n"
                     "Connection: close\r\n\r\n").encode()), 5 * SLOW)
        for s in held:
            s.close()

    def test_upgrade(self):
        box = self.a.create()
        w = self.wire(f"/v1/sandboxes/{box}/exec")
        w.spawn(["echo", "over", "tcp"])
        self.assertEqual(w.finish(), (0, b"over tcp", b""))
        w.close()

    def test_left(self):
        """A client that goes away takes its run with it."""
        w = self.wire("/v1/run", b"{}")
        wait_for("a sandbox", lambda: self.w.boxes, 5 * SLOW)
        w.close()
        wait_for("no sandbox", lambda: not self.w.boxes, 5 * SLOW)


class Slow(TcpCase):
    """Each kind of slowness ends in a second, and others are served."""
    CONF = {"client_timeout": "1s"}

    def until_closed(self, feed=b"", every=0.2, limit=20):
        """How long a connection lives that is fed slowly, and its answer."""
        s = self.connect()
        s.settimeout(every)
        began, got = time.monotonic(), b""
        while time.monotonic() - began < limit * SLOW:
            try:
                if feed:
                    s.send(feed)
                more = s.recv(65536)
                if not more:
                    break
                got += more
            except socket.timeout:
                continue
            except OSError:
                break
        s.close()
        return time.monotonic() - began, got

    def test_head(self):
        for feed in (b"", b"G", b"\r", b"X: y\r\n"):
            took, got = self.until_closed(feed)
            self.assertLess(took, 6 * SLOW, feed)
            if feed in (b"G", b"X: y\r\n"):
                self.assertRegex(got, b"^HTTP/1.1 40[08] ")

    def test_body(self):
        s = self.connect()
        s.sendall((f"POST /v1/sandboxes HTTP/1.1\r\nHost: localhost\r\n"
                   f"Authorization: Bearer {self.key}\r\n"
                   "Content-Length: 1000\r\n\r\n{").encode())
        began = time.monotonic()
        self.assertIn(b" 408 ", s.recv(65536).split(b"\r\n")[0])
        self.assertLess(time.monotonic() - began, 5 * SLOW)
        s.close()

    def test_reading(self):
        """Answers that nobody reads."""
        idle = self.a.fds()
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.connect(("127.0.0.1", self.port))
        ask = (f"GET /metrics HTTP/1.1\r\nHost: localhost\r\n"
               f"Authorization: Bearer {self.key}\r\n\r\n").encode()
        s.settimeout(0.5)
        with self.assertRaises(OSError):
            for _ in range(100000):
                s.sendall(ask * 100)
        began = time.monotonic()
        wait_for("it was let go", lambda: self.a.fds() <= idle, 10 * SLOW)
        self.assertLess(time.monotonic() - began, 8 * SLOW)
        self.assertEqual(self.call("GET", "/metrics").status, 200)
        s.close()


class SlowTls(TcpCase):
    TLS = True
    CONF = {"client_timeout": "1s"}

    def test_handshake(self):
        """One that never comes to its end, at any point of it."""
        for hello in (b"", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"):
            with tcp.connect(self.port) as s:
                s.sendall(hello)
                began = time.monotonic()
                tcp.raw(s, b"")
                self.assertLess(time.monotonic() - began, 6 * SLOW)

    def test_head(self):
        with self.connect() as s:
            began = time.monotonic()
            self.assertIn(b" 408 ", tcp.raw(s, b"GET /metrics HT"))
            self.assertLess(time.monotonic() - began, 6 * SLOW)


class Tls(TcpCase):
    TLS = True

    def test_requests(self):
        self.assertEqual(self.call("GET", "/v1/host", key=None).status, 401)
        r = self.call("GET", "/v1/host")
        self.assertEqual((r.status, r.json["counts"]["sandboxes"]), (200, 0))
        with self.connect() as s:
            self.assertIn(s.version(), ("TLSv1.3", "TLSv1.2"))

    def test_not_tls(self):
        with tcp.connect(self.port) as s:
            self.assertNotIn(b"HTTP/1.1 200", tcp.raw(
                s, b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"))
        self.assertEqual(self.call("GET", "/v1/host").status, 200)

    def test_old_versions(self):
        for version in (ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1):
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            context.set_ciphers("ALL:@SECLEVEL=0")
            try:
                context.minimum_version = context.maximum_version = version
                with self.assertRaises((ssl.SSLError, OSError)):
                    tcp.connect(self.port, context)
            except ValueError:
                pass  # this Python cannot

    def test_upgrade(self):
        """Frames over TLS: much output, a slow reader, input, the end."""
        def behave(peer):
            peer.hello()
            channel, argv, _ = peer.spawned()
            peer.send(STARTED, channel, struct.pack("<II", 2, 1))
            sent = acked = 0
            while sent < 3 << 20:
                while sent + 32768 > acked + WINDOW:
                    kind, _, p = peer.recv()
                    acked, = struct.unpack_from("<Q", p, 1)
                peer.output(channel, bytes([sent >> 15 & 255]) * 32768, 1, sent)
                sent += 32768
            peer.exit(channel, 5)
            read_out(peer)
        self.w.behave = behave
        box = self.a.create()
        w = self.wire(f"/v1/sandboxes/{box}/exec")
        w.spawn(["flood"])
        time.sleep(0.3)
        code, out, _ = w.finish()
        self.assertEqual((code, len(out)), (5, 3 << 20))
        self.assertEqual(out, b"".join(bytes([i & 255]) * 32768
                                       for i in range(96)))
        w.close()

    def test_tiny_frames(self):
        """Many small frames that a slow client takes late."""
        def behave(peer):
            peer.hello()
            channel, _, _ = peer.spawned()
            peer.send(STARTED, channel, struct.pack("<II", 2, 1))
            for i in range(40000):
                peer.output(channel, b"abcde", 1, 5 * i)
            peer.exit(channel)
            read_out(peer)
        self.w.behave = behave
        w = self.wire(f"/v1/sandboxes/{self.a.create()}/exec")
        w.spawn(["drip"])
        time.sleep(0.5)
        self.assertEqual(w.finish(), (0, b"abcde" * 40000, b""))
        w.close()

    def test_cut(self):
        """Connections that end in the middle of a handshake or a record."""
        for n in (0, 1, 5, 100):
            s = tcp.connect(self.port)
            s.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[:n])
            s.close()
        s = self.connect()
        s.send(b"GET /v1/ho")
        os.close(s.detach())
        self.assertEqual(self.call("GET", "/v1/host").status, 200)

    def test_key_is_not_readable_later(self):
        fds = f"/proc/{self.a.proc.pid}/fd"
        seen = []
        for fd in os.listdir(fds):
            # Connections of other tests end while we look.
            with contextlib.suppress(FileNotFoundError):
                seen.append(os.readlink(f"{fds}/{fd}"))
        self.assertTrue(any(s.startswith("socket:") for s in seen), seen)
        self.assertNotIn("key.pem", " ".join(seen))


class Refusals(unittest.TestCase):
    """Configurations that do not start."""

    def start(self, **conf):
        where = tempfile.mkdtemp(prefix="carrel-tcp-")
        try:
            cert, key = tcp.certificate(where)
            conf = {"state_dir": f"{where}/state", "run_dir": f"{where}/run",
                    **{k: v.format(cert=cert, key=key, dir=where)
                       for k, v in conf.items()}}
            with open(f"{where}/conf", "w") as f:
                f.writelines(f"{k} = {v}\n" for k, v in conf.items())
            p = subprocess.run([API, "--config", f"{where}/conf"],
                               capture_output=True, timeout=30 * SLOW)
            self.assertNotEqual(p.returncode, 0)
            return p.stderr.decode()
        finally:
            shutil.rmtree(where)

    def test_open_to_others(self):
        for address in ("0.0.0.0:7070", "192.0.2.1:7070", "[::]:7070",
                        "[2001:db8::1]:7070"):
            self.assertIn("without TLS", self.start(listen=address))

    def test_bad_values(self):
        for address in ("7070", "localhost:7070", "127.0.0.1", "127.0.0.1:0",
                        "127.0.0.1:65536", "[::1:7070", "::1:7070", ":7070",
                        "127.0.0.1:70x", "[127.0.0.1]:7070", "[]:1", "*:7070"):
            self.assertIn("not an address", self.start(listen=address), address)
        here = "127.0.0.1:7070"
        self.assertIn("together", self.start(listen=here, tls_cert="{cert}"))
        self.assertIn("together", self.start(listen=here, tls_key="{key}"))
        self.assertIn("read the certificate",
                      self.start(listen=here, tls_cert="{key}", tls_key="{key}"))
        self.assertIn("read the key",
                      self.start(listen=here, tls_cert="{cert}",
                                 tls_key="{dir}/none"))
        self.assertIn("listen_insecure",
                      self.start(listen=here, listen_insecure="true"))
        for domain in (".box.test", "box.test.", "a..b", "a b", "a_b"):
            self.assertIn("not a host name",
                          self.start(listen=here, domain=domain))

    def test_taken(self):
        with socket.create_server(("127.0.0.1", 0)) as s:
            port = s.getsockname()[1]
            self.assertIn("in use", self.start(listen=f"127.0.0.1:{port}"))

    def test_never_by_default(self):
        a = fake_warden.Api()
        try:
            with open(f"/proc/{a.proc.pid}/net/tcp") as f:
                mine = {os.readlink(f"/proc/{a.proc.pid}/fd/{n}")
                        for n in os.listdir(f"/proc/{a.proc.pid}/fd")}
                inodes = [line.split()[9] for line in f.readlines()[1:]]
            self.assertFalse([i for i in inodes if f"socket:[{i}]" in mine])
        finally:
            a.stop()


if __name__ == "__main__":
    harness.main()
