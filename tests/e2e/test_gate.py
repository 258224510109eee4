# suite: both
# suite: sanitized
"""What passes a sandbox's door: HTTP by proxy and without, TLS that is looked
into and TLS that is not, raw TCP, WebSockets; and what is refused, in words.

The servers are those of internet.py, the connections are made in the network
of the sandbox (Inside)."""

import base64
import contextlib
import hashlib
import os
import socket
import ssl
import struct
import threading
import time
import unittest

import harness
from harness import wait_for
from internet import HOST4, Inside, Internet, answer

RULES = [
    "allow * api.test",
    "allow GET,POST http://api.test:8080",
    "allow GET https://deep.test/ok*",
    "deny * https://deep.test/deny*",
    "allow POST http://deep.test/@x/*",
    "deny * evil.test",
    "allow tcp db.test:5432",
    "allow * https://203.0.113.200",
    "allow * gone.test",
]


class Rig:
    """One daemon and one internet for all tests of a file."""

    def __init__(self):
        self.net = Internet()
        try:
            self.i = harness.Instance(**self.net.conf)
        except BaseException:
            self.net.close()
            raise
        self.api = self.net.web("api.test")
        self.deep = self.net.web("deep.test")
        self.evil = self.net.web("evil.test")
        self.db = self.net.tcp("db.test", 5432)

    def close(self):
        try:
            self.i.stop()
        finally:
            self.net.close()


rig = None


def setUpModule():
    global rig
    rig = Rig()


def tearDownModule():
    rig.close()


class GateCase(unittest.TestCase):
    """A class of tests has one sandbox, with these rules."""
    RULES = RULES
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        for name, value in vars(rig).items():
            setattr(cls, name, value)
        cls.box = cls.i.create(rules=cls.RULES)
        cls.inside = Inside(cls.i, cls.box)

    @classmethod
    def tearDownClass(cls):
        cls.inside.close()
        cls.i.rm(cls.box)

    def setUp(self):
        for w in (self.api, self.deep, self.evil):
            w.handler = w.raw = None
            w.requests.clear()
            w.accepted.clear()
        self.net.names.queries.clear()

    def secure(self, name, port=443):
        """TLS by CONNECT, that the gate answers itself."""
        s, r = self.inside.tunnel(name, port)
        self.assertEqual(r.status, 200, r)
        return self.inside.tls(s, name)

    def at(self, name, path, sock, method="GET", fields=(), body=b""):
        return self.inside.get(path, method, [("Host", name), *fields], body,
                               sock)

    def refused(self, r, status, word, *texts):
        self.assertEqual((r.status, r.reason), (status, word), r)
        for t in texts:
            self.assertIn(t, r.text)


class Proxy(GateCase):
    def test_request_is_made_anew(self):
        r = self.inside.ask(
            "GET http://API.test./a%41%2f?x=%20&y HTTP/1.1\r\n"
            "Host: api.test:80\r\nuser-agent: me\r\nX-One: 1 \r\n"
            "Proxy-Connection: keep-alive\r\nProxy-Authorization: Basic eA==\r\n"
            "Connection: x-drop, keep-alive\r\nX-Drop: 1\r\nTE: trailers\r\n"
            "Via: 1.1 me\r\nForwarded: for=me\r\nX-Forwarded-For: 1.2.3.4\r\n"
            "Accept-Encoding: gzip\r\n\r\n")
        self.assertEqual(r.status, 200, r)
        got, = self.api.requests
        self.assertEqual(got.raw, b"GET /aA%2F?x=%20&y HTTP/1.1\r\n"
                         b"Host: api.test\r\nuser-agent: me\r\nX-One: 1\r\n"
                         b"Accept-Encoding: gzip\r\n\r\n")

    def test_bodies(self):
        big = os.urandom(3_000_000)

        def chunked(r):
            return (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" +
                    b"".join(b"%x\r\n%s\r\n" % (len(r.body[k:k + 70000]),
                                                r.body[k:k + 70000])
                             for k in range(0, len(r.body), 70000)) +
                    b"0\r\n\r\n")
        self.api.handler = lambda r: answer(r.body)
        s = self.inside.connect()
        r = self.inside.get("http://api.test/up", "POST", body=big, sock=s)
        self.assertTrue(r.whole and r.body == big)
        self.api.handler = chunked
        r = self.inside.get("http://api.test/up", "PUT", body=big, sock=s)
        self.assertTrue(r.whole and r.body == big)
        self.assertEqual(r.fields["transfer-encoding"], "chunked")
        r = self.inside.ask(
            b"POST http://api.test/c HTTP/1.1\r\nHost: api.test\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n"
            b"3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n", s)
        self.assertEqual(r.body, b"abcdefg")
        self.assertEqual(self.api.requests[-1].header("transfer-encoding"),
                         "chunked")
        # The server got all of them by one connection.
        self.assertEqual(len(self.api.accepted), 1)

    def test_answers_without_a_body_or_an_end(self):
        s = self.inside.connect()
        self.api.handler = lambda r: \
            b"HTTP/1.1 200 OK\r\nContent-Length: 77\r\n\r\n"
        head = "HEAD http://api.test/ HTTP/1.1\r\nHost: api.test\r\n\r\n"
        s.sendall(head.encode() * 2)
        got = b""
        while got.count(b"\r\n\r\n") < 2:
            got += s.recv(4096)
        self.assertEqual(got.count(b"Content-Length: 77"), 2)
        for status in (204, 304):
            self.api.handler = lambda r: answer(status=status)
            self.assertEqual(
                self.inside.get("http://api.test/", sock=s).status, status)

        def until_close(c):
            c.recv(4096)
            c.sendall(b"HTTP/1.0 200 OK\r\n\r\nall of ")
            c.sendall(b"it")
        self.api.raw = until_close
        r = self.inside.get("http://api.test/")
        self.assertEqual((r.body, r.whole), (b"all of it", True))

    def test_continue(self):
        s = self.inside.connect()
        s.sendall(b"POST http://api.test/ HTTP/1.1\r\nHost: api.test\r\n"
                  b"Expect: 100-continue\r\nContent-Length: 3\r\n\r\n")
        self.assertTrue(s.recv(4096).startswith(b"HTTP/1.1 100 "))
        r = self.inside.ask(b"abc", s)
        self.assertEqual(r.json["body"], "abc")
        # Who is refused is not asked for the body.
        s = self.inside.connect()
        r = self.inside.ask(
            b"POST http://no.test/ HTTP/1.1\r\nHost: no.test\r\n"
            b"Expect: 100-continue\r\nContent-Length: 3\r\n\r\n", s)
        self.refused(r, 403, "policy")

    def test_policy(self):
        self.refused(self.inside.get("http://no.test/x"), 403, "policy",
                     "no rule", "GET http://no.test")
        self.refused(self.inside.get("http://evil.test/"), 403, "policy",
                     "line 6")
        self.refused(self.inside.get("http://api.test:81/"), 403, "policy",
                     "http://api.test:81")
        # An encoded slash: both readings are decided on.
        for path, status in (("/@x%2Fy", 403), ("/@x/y", 200),
                             ("/@x/y%2fz", 200)):
            r = self.inside.get("http://deep.test" + path, "POST")
            self.assertEqual(r.status, status, path)
        self.assertEqual(len(self.deep.requests), 2)
        self.assertEqual(self.evil.accepted, [])
        self.assertNotIn("no.test", self.net.asked())
        self.assertNotIn("evil.test", self.net.asked())
        # A refusal does not end the connection.
        s = self.inside.connect()
        for _ in range(3):
            self.refused(self.inside.get("http://no.test/x", "POST",
                                         body=b"abc", sock=s), 403, "policy")
        self.assertEqual(self.inside.get("http://api.test/", sock=s).status,
                         200)

    def test_pipelined(self):
        """Each is decided on; answers come in order."""
        s = self.inside.connect()
        raw = b""
        for n in range(40):
            host = "no.test" if n % 4 == 3 else "api.test"
            raw += (f"GET http://{host}/{n} HTTP/1.1\r\n"
                    f"Host: {host}\r\n\r\n").encode()
        s.sendall(raw)
        r = self.inside.ask(b"", s)
        for n in range(40):
            self.assertEqual(r.status, 403 if n % 4 == 3 else 200, n)
            if r.status == 200:
                self.assertEqual(r.json["target"], f"/{n}")
            if n < 39:
                more = r.rest.buf
                r = _Next(s, more)
        self.assertEqual(len(self.api.accepted), 1)

    def test_other_ports_and_names(self):
        other = self.net.server("api.test", 8080)
        r = self.inside.get("http://api.test:8080/x")
        self.assertEqual(r.status, 200, r)
        self.assertEqual(other.requests[0].header("host"), "api.test:8080")
        other.close()
        self.refused(self.inside.get("http://api.test:8080/x"), 502,
                     "upstream", "api.test")
        self.refused(self.inside.get("http://gone.test/"), 502, "upstream",
                     "gone.test")

    def test_stale_connection(self):
        """A server that leaves between requests is called again."""
        s = self.inside.connect()
        for n in range(3):
            r = self.inside.get("http://api.test/", sock=s)
            self.assertEqual(r.status, 200, r)
            self.api.hang_up()
        self.assertEqual(len(self.api.requests), 3)

    def test_own_pages(self):
        for url in ("/", "http://gate.carrel/"):
            r = self.inside.get(url)
            self.assertEqual(r.status, 200, r)
            self.assertIn("the door of this sandbox", r.text)
        self.assertEqual(self.inside.get("/x").status, 404)
        self.assertEqual(self.inside.get("/totp/none").status, 404)
        self.assertEqual(self.inside.get("/", "POST").status, 405)

    def test_early_answer(self):
        """A server that does not want the body says so and is heard."""
        def early(c):
            c.recv(1000)
            c.sendall(b"HTTP/1.1 413 No\r\nContent-Length: 3\r\n"
                      b"Connection: close\r\n\r\nno\n")
            c.shutdown(socket.SHUT_WR)
            while c.recv(65536):
                pass
        self.api.raw = early
        r = self.inside.get("http://api.test/", "POST", body=bytes(4_000_000))
        self.assertEqual((r.status, r.body), (413, b"no\n"))


    def test_reset_while_nobody_reads(self):
        """A server that is gone costs no time while its answer waits."""
        gone = threading.Event()

        def serve(c):
            c.recv(65536)
            c.settimeout(0.5)
            with contextlib.suppress(OSError):
                c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 30000000\r\n"
                          b"\r\n" + bytes(30000000))
            c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                         struct.pack("ii", 1, 0))
            c.close()
            gone.set()

        def used():
            return sum(sum(map(int, open(f"/proc/{p}/stat").read()
                               .rsplit(")")[1].split()[11:13]))
                       for p in self.i.pids()["carrel-gate"])
        self.api.raw = serve
        s = self.inside.connect()
        s.sendall(b"GET http://api.test/ HTTP/1.1\r\nHost: api.test\r\n\r\n")
        self.assertTrue(gone.wait(60))
        before = used()
        time.sleep(1)
        self.assertLess((used() - before) / os.sysconf("SC_CLK_TCK"), 0.15)
        # What came of it is there, and no more.
        n = len(s.recv(65536))
        with contextlib.suppress(ConnectionResetError):
            while got := s.recv(1 << 20):
                n += len(got)
        self.assertTrue(65536 < n < 30000000, n)


class _Next:
    """The next of several answers on a connection."""

    def __new__(cls, sock, more):
        from internet import Reader, Reply
        reader = Reader(sock)
        reader.buf = more
        head = reader.until(b"\r\n\r\n")
        out = Reply.__new__(Reply)
        out.sock, out.rest, out.body, out.head = sock, reader, b"", head
        lines = head.decode().split("\r\n")
        out.status = int(lines[0].split()[1])
        out.fields = {k.lower(): v.strip() for k, _, v in
                      (x.partition(":") for x in lines[1:] if x)}
        out._body()
        return out


class Secure(GateCase):
    def test_tunnel(self):
        s, r = self.inside.tunnel("api.test")
        self.assertEqual(r.status, 200)
        # The server's own certificate: nobody looks into it.
        s = self.inside.tls(s, "api.test", ca=open(self.net.ca.cert).read())
        r = self.at("api.test", "/tunnel", s)
        self.assertEqual((r.status, r.json["tls"]), (200, True))
        s, r = self.inside.tunnel("evil.test")
        self.refused(r, 403, "policy", "line 6")
        s, r = self.inside.tunnel("no.test")
        self.refused(r, 403, "policy")
        s, r = self.inside.tunnel("gone.test")
        self.refused(r, 502, "upstream")
        self.assertEqual(self.evil.accepted, [])

    def test_inspected(self):
        s = self.secure("deep.test")
        self.assertEqual(self.at("deep.test", "/ok/1", s).status, 200)
        self.refused(self.at("deep.test", "/other", s), 403, "policy",
                     "GET https://deep.test")
        self.refused(self.at("deep.test", "/ok", s, "POST"), 403, "policy")
        self.assertEqual(self.at("deep.test", "/ok/2", s).status, 200)
        self.assertEqual([(r.target, r.tls) for r in self.deep.requests],
                         [("/ok/1", True), ("/ok/2", True)])
        self.assertEqual(len(self.deep.accepted), 1)
        self.refused(self.at("api.test", "/ok", s), 403, "host")

    def test_transparent(self):
        """Programs that know no proxy: by the address that their resolver
        gives them."""
        web = self.inside.resolve("api.test")
        deep = self.inside.resolve("deep.test")
        self.assertTrue(web.startswith(("198.18.", "198.19.")), web)
        self.assertIsNone(self.inside.resolve("no.test"))
        s = self.inside.connect(web, 80)
        for n in range(2):
            self.assertEqual(self.at("api.test", f"/{n}", s).json["target"],
                             f"/{n}")
        self.refused(self.at("no.test", "/", s), 403, "policy")
        s = self.inside.tls(self.inside.connect(web, 443), "api.test",
                            ca=open(self.net.ca.cert).read())
        self.assertEqual(self.at("api.test", "/", s).status, 200)
        s = self.inside.tls(self.inside.connect(deep, 443), "deep.test")
        self.assertEqual(self.at("deep.test", "/ok", s).status, 200)
        # By any address; who is refused is told so inside TLS.
        s = self.inside.tls(self.inside.connect("192.0.2.1", 443), "no.test")
        self.refused(self.at("no.test", "/", s), 403, "policy", "no.test")
        # By the address itself, where a rule names it.
        w = self.net.web("none", "203.0.113.200")
        s = self.inside.connect("203.0.113.200", 443)
        s = self.inside.tls(s, None, check_hostname=False,
                            ca=open(self.net.ca.cert).read())
        self.assertEqual(self.at("203.0.113.200", "/", s).status, 200)
        self.assertEqual(len(w.requests), 1)

    def test_hello_in_pieces(self):
        """What comes behind a hello may be shorter than the hello."""
        s, r = self.inside.tunnel("deep.test")
        self.assertEqual(r.status, 200, r)
        ctx = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        ctx.load_verify_locations(cadata=self.inside.ca)
        came, goes = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = ctx.wrap_bio(came, goes, server_hostname="deep.test")
        with self.assertRaises(ssl.SSLWantReadError):
            tls.do_handshake()
        hello = goes.read()
        s.sendall(hello[:-1])
        time.sleep(0.2)  # the gate has looked at it, or has not
        s.sendall(hello[-1:])
        s.settimeout(5 * harness.SLOW)

        def do(fn, *args):
            while True:
                try:
                    return fn(*args)
                except ssl.SSLWantReadError:
                    s.sendall(goes.read())
                    came.write(s.recv(65536))
        do(tls.do_handshake)
        tls.write(b"GET /ok HTTP/1.1\r\nHost: deep.test\r\n\r\n")
        s.sendall(goes.read())
        self.assertTrue(do(tls.read, 100).startswith(b"HTTP/1.1 200"))

    def test_raw(self):
        for s in (self.inside.tunnel("db.test", 5432)[0],
                  self.inside.connect(self.inside.resolve("db.test"), 5432)):
            s.sendall(b"hello")
            self.assertEqual(s.recv(99), b"hello")
            s.shutdown(socket.SHUT_WR)
            self.assertEqual(s.recv(99), b"")
        # Not where the policy knows HTTP alone.
        s = self.inside.connect(self.inside.resolve("api.test"), 443)
        s.sendall(b"SSH-2.0-x\r\n")
        self.assertEqual(_read_all(s), b"")
        self.assertEqual(self.api.accepted, [])

    def test_websocket(self):
        def serve(c):
            head = b""
            while b"\r\n\r\n" not in head:
                head += c.recv(4096)
            seen.append(head)
            key = [x.split(b": ")[1] for x in head.split(b"\r\n")
                   if x.lower().startswith(b"sec-websocket-key")][0]
            ok = base64.b64encode(hashlib.sha1(
                key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())
            c.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket"
                      b"\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: " +
                      ok + b"\r\n\r\nfirst")
            while True:
                got = c.recv(4096)
                if not got:
                    return
                c.sendall(got)
        ask = (b"GET %s HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\n"
               b"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
               b"Sec-WebSocket-Key: eHh4eHh4eHh4eHh4eHh4eA==\r\n\r\n")
        for host, web, s, target in (
                (b"deep.test", self.deep, self.secure("deep.test"), b"/ok"),
                (b"api.test", self.api, self.inside.connect(),
                 b"http://api.test/ws")):
            seen = []
            web.raw = serve
            s.sendall(ask % (target, host) + b"early")
            got = b""
            while not got.endswith(b"early"):
                more = s.recv(4096)
                self.assertTrue(more, got)
                got += more
            self.assertTrue(got.startswith(b"HTTP/1.1 101 "), got)
            self.assertIn(b"\r\n\r\nfirst", got)
            s.sendall(bytes(100000))
            n = 0
            while n < 100000:
                n += len(s.recv(65536))
            s.close()
            self.assertIn(b"Upgrade: websocket", seen[0])
        # Other protocols are no offer: the request goes on without.
        self.api.raw = None
        r = self.inside.ask("GET http://api.test/ HTTP/1.1\r\nHost: api.test\r\n"
                            "Connection: Upgrade, HTTP2-Settings\r\n"
                            "Upgrade: h2c\r\nHTTP2-Settings: AAAA\r\n\r\n")
        self.assertEqual(r.status, 200)
        self.assertEqual(self.api.requests[-1].raw,
                         b"GET / HTTP/1.1\r\nHost: api.test\r\n\r\n")


def _read_all(s):
    out = b""
    try:
        while True:
            got = s.recv(65536)
            if not got:
                return out
            out += got
    except ConnectionResetError:
        return out


class Changes(GateCase):
    def test_policy_changes_under_way(self):
        """What is not allowed any more ends within a second."""
        held = threading.Event()

        def slow(r):
            held.wait(60 * harness.SLOW)
            return answer("late")
        s, r = self.inside.tunnel("api.test")
        tunnel = self.inside.tls(s, "api.test",
                                 ca=open(self.net.ca.cert).read())
        self.assertEqual(self.at("api.test", "/", tunnel).status, 200)
        raw, _ = self.inside.tunnel("db.test", 5432)
        raw.sendall(b"x")
        raw.recv(1)
        self.deep.handler = slow
        deep = self.secure("deep.test")
        deep.sendall(b"GET /ok HTTP/1.1\r\nHost: deep.test\r\n\r\n")
        wait_for("the server has it", lambda: self.deep.requests)
        began = time.monotonic()
        r = self.i.api("PATCH", f"/v1/sandboxes/{self.box}",
                       {"rules": ["allow * http://api.test"]})
        self.assertEqual(r.status, 200, r)
        self.assertEqual(tunnel.recv(1), b"")
        self.assertEqual(_read_all(raw), b"")
        r = self.inside.ask(b"", deep)
        self.refused(r, 403, "policy")
        self.assertLess(time.monotonic() - began, 20 * harness.SLOW)
        held.set()
        self.assertEqual(self.inside.get("http://api.test/").status, 200)
        self.assertEqual(self.inside.tunnel("api.test")[1].status, 403)
        self.i.api("PATCH", f"/v1/sandboxes/{self.box}", {"rules": RULES})
        self.assertEqual(self.inside.tunnel("api.test")[1].status, 200)

    def test_denied_web_ends_raw_tunnels(self):
        """A rule about everything lets raw bytes pass only where the rules
        of the web agree: also those of later."""
        box = self.i.create(rules=["allow *"])
        inside = Inside(self.i, box)
        raw, r = inside.tunnel("db.test", 5432)
        self.assertEqual(r.status, 200, r)
        raw.sendall(b"x")
        self.assertEqual(raw.recv(1), b"x")
        r = self.i.api("PATCH", f"/v1/sandboxes/{box}",
                       {"rules": ["deny * db.test:5432", "allow *"]})
        self.assertEqual(r.status, 200, r)
        raw.settimeout(60)
        self.assertEqual(_read_all(raw), b"")
        inside.close()
        self.i.rm(box)

    def test_private_no_more(self):
        """A connection ends with the line that its address needed."""
        echo = self.net.tcp("in.test", 5433, "10.99.0.1")
        self.addCleanup(echo.close)
        rules = ["allow tcp in.test:5433"]
        box = self.i.create(rules=[*rules, "private 10.99.0.0/16"])
        inside = Inside(self.i, box)
        raw, r = inside.tunnel("in.test", 5433)
        self.assertEqual(r.status, 200, r)
        raw.sendall(b"x")
        self.assertEqual(raw.recv(1), b"x")
        r = self.i.api("PATCH", f"/v1/sandboxes/{box}", {"rules": rules})
        self.assertEqual(r.status, 200, r)
        raw.settimeout(60)
        self.assertEqual(_read_all(raw), b"")
        inside.close()
        self.i.rm(box)

    def test_written_down(self):
        self.inside.get("http://api.test/log?secret=1", "POST", body=b"abc")
        self.inside.get("http://no.test/log2")

        def entries():
            out = self.i.cli("log", "show", self.box, "--json", check=0).out
            return out if "/log2" in out and "egress.done" in out else None
        out = wait_for("the log has it", entries)
        self.assertIn("egress.request", out)
        self.assertIn('"/log"', out)
        self.assertIn("egress.denied", out)
        self.assertNotIn("secret=1", out)

    def test_without_a_door(self):
        box = self.i.create()
        other = Inside(self.i, box)
        for port in (3128, 80):
            self.assertTrue(other.refused(port=port))
        self.assertTrue(other.refused(HOST4, 80))
        other.close()
        self.i.rm(box)


if __name__ == "__main__":
    harness.main()
