# suite: both
# suite: sanitized
"""The door against those who want more than they may: smuggled requests, names
and addresses in odd spellings, hosts that do not agree, paths that read in two
ways, servers that answer what they should not, and who is slow on purpose.

Whatever it is: what is not allowed reaches nobody, and what is allowed reaches
its server once, made anew by us."""

import contextlib
import os
import socket
import ssl
import struct
import threading
import time

import harness
from harness import SLOW
from internet import Inside, Reply, answer
import test_gate
from test_gate import GateCase, tearDownModule  # noqa: F401
from test_http_corpus import SMUGGLED, corpus, statuses

RULES = [
    "allow * api.test",
    "allow * *.wild.test",
    "allow GET https://deep.test/ok*",
    "allow GET http://paths.test/public/*",
    "deny * http://paths.test/private*",
    "allow POST http://paths.test",
    "allow GET https://front.test/x*",
    "allow * 127.0.0.1",
]


class Tarry:
    """H35: those who are slow on purpose. They begin before the other tests,
    and are looked at behind them."""

    def __init__(self, rig):
        self.ends = {}
        self.box = rig.i.create(rules=RULES)
        self.inside = Inside(rig.i, self.box)
        web = self.inside.resolve("api.test")
        head = b"POST http://%s/ HTTP/1.1\r\nHost: %s\r\nContent-Length: 5" \
               b"\r\n\r\n"
        self.threads = [
            threading.Thread(target=self.drip, args=row, daemon=True)
            for row in (
                ("nothing", (), b""), ("a head", (), b"GET http://"),
                ("CONNECT", (), b"CONNECT api"), ("raw", (web, 80), b"G"),
                ("a hello", (web, 443), b"\x16\3\1\0\x50\1"),
                ("a body", (), head % (b"no.test", b"no.test")))]
        for t in self.threads:
            t.start()

    def drip(self, name, at, first):
        began = time.monotonic()
        s = self.inside.connect(*at)
        s.settimeout(0.5)
        with contextlib.suppress(OSError):
            s.sendall(first)
            while time.monotonic() - began < 30 * SLOW:
                try:
                    if not s.recv(4096):
                        break
                except TimeoutError:
                    if name != "nothing":
                        s.sendall(b"a")
        self.ends[name] = time.monotonic() - began
        s.close()


tarry = None


def setUpModule():
    global tarry
    test_gate.setUpModule()
    tarry = Tarry(test_gate.rig)


class AttackCase(GateCase):
    RULES = RULES

    def talk(self, s, data):
        """All that comes back until the end."""
        out = b""
        with contextlib.suppress(OSError):
            s.sendall(data)
            s.shutdown(socket.SHUT_WR)
        with contextlib.suppress(OSError, ssl.SSLError):
            while True:
                got = s.recv(65536)
                if not got:
                    break
                out += got
        s.close()
        return out


# Of the corpus: what is fine for a proxy, or is the server's business.
FINE = ("target: an encoded slash", "large: the body",
        "large: a body for ever", "large: chunks")


class Smuggling(AttackCase):
    """H18, H20, H21: nothing malformed gets through, and nothing behind it."""

    def rows(self, step=1, start=0):
        rows = [(n, d) for n, _, d in corpus() if n not in FINE]
        for name, data in rows[start::step]:
            yield name, (data + SMUGGLED).replace(b"localhost", b"api.test")

    def check(self, name, got):
        found = statuses(got)
        self.assertLessEqual(len(found), 1, (name, got))
        self.assertTrue(all(s >= 400 for s in found), (name, got))
        seen = list(self.api.requests)
        self.api.requests.clear()
        self.assertEqual(seen, [], name)

    def test_transparent(self):
        web = self.inside.resolve("api.test")
        for name, data in self.rows():
            with self.subTest(name):
                self.check(name, self.talk(self.inside.connect(web, 80), data))

    def test_proxy(self):
        for name, data in self.rows(2):
            if name in ("target: absolute", "target: CONNECT"):
                continue
            with self.subTest(name):
                data = data.replace(b" /", b" http://api.test/", 1)
                self.check(name, self.talk(self.inside.connect(), data))

    def test_inspected(self):
        for name, data in self.rows(12, 3):
            with self.subTest(name):
                data = data.replace(b"api.test", b"deep.test")
                s = self.secure("deep.test")
                with contextlib.suppress(OSError, ssl.SSLError):
                    s.sendall(data)
                found = Reply(s)
                s.close()
                self.assertTrue(found.status == 0 or found.status >= 400)
                self.assertEqual(self.deep.requests, [], name)

    def test_bytes_behind_connect(self):
        """They are the tunnel's, and are not read as a request."""
        s = self.inside.connect()
        s.sendall(b"CONNECT api.test:80 HTTP/1.1\r\nHost: api.test:80\r\n\r\n"
                  b"GET /inner HTTP/1.1\r\nHost: api.test\r\n\r\n")
        head = b""
        while b"\r\n\r\n" not in head:
            head += s.recv(1)
        self.assertTrue(head.startswith(b"HTTP/1.1 200"), head)
        self.assertEqual(Reply(s).json["target"], "/inner")
        s = self.inside.connect()
        got = self.talk(s, b"CONNECT no.test:80 HTTP/1.1\r\n"
                        b"Host: no.test:80\r\n\r\n"
                        b"GET http://api.test/x HTTP/1.1\r\n"
                        b"Host: api.test\r\n\r\n")
        self.assertEqual(statuses(got), [403], got)
        self.assertEqual(len(self.api.requests), 1)

    def test_slowly(self):
        """Byte by byte it is the same request."""
        for raw in (b"GET http://api.test/a HTTP/1.1\r\nHost: api.test\r\n\r\n",
                    b"CONNECT api.test:80 HTTP/1.1\r\nHost: api.test\r\n\r\n"):
            s = self.inside.connect()
            with contextlib.suppress(OSError):  # of a machine it is a pipe
                s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for k in range(len(raw)):
                s.sendall(raw[k:k + 1])
            self.assertEqual(Reply(s).status, 200)
        self.assertEqual(len(self.api.requests), 1)

    def test_methods(self):
        """H22."""
        for method, status in (("TRACE", 405), ("TRACK", 405), ("get", 400),
                               ("PROPFIND", 200), ("Post", 400)):
            r = self.inside.get("http://api.test/", method)
            self.assertEqual(r.status, status, method)
        for field in ("X-HTTP-Method-Override", "x-http-method",
                      "X-METHOD-OVERRIDE", "X_HTTP-Method_Override",
                      "X-Original-URL", "X-Rewrite-Url"):
            r = self.inside.get("http://api.test/", "POST",
                                [(field, "DELETE")])
            self.assertEqual(r.status, 400, field)
        s, r = self.inside.tunnel("api.test", 80)
        r = self.inside.ask(b"CONNECT db.test:5432 HTTP/1.1\r\n"
                            b"Host: db.test:5432\r\n\r\n", s)
        self.assertEqual(r.status, 405)
        self.assertEqual([r.method for r in self.api.requests], ["PROPFIND"])


class Hosts(AttackCase):
    def connect_status(self, authority, host=None):
        raw = b"CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n" % (
            authority, host or authority)
        found = statuses(self.talk(self.inside.connect(), raw))
        return found[0] if found else 0

    def test_connect_places(self):
        """H2, H10, H11, H13, H14, H15: one spelling, or a refusal; and no
        question to a name server."""
        for port in (b"22", b"25", b"6379", b"8443"):
            self.assertEqual(self.connect_status(b"api.test:" + port), 403)
        for place in (
                b"api.test", b"api.test:", b"api.test:0", b"api.test:65536",
                b"api.test:443x", b"api.test:+443", b"api.test:0443",
                b"api.test: 443", b"api.test:443:443", b":443", b"[]:443",
                b"[api.test]:443", b"api.test]:443", b"me@api.test:443",
                b"http://api.test:443", b"api.test:443/", b"api.test/:443",
                b"api..test:443", b".api.test:443", b"api.test..:443",
                b"-api.test:443", b"a" * 64 + b".test:443",
                b"a." * 130 + b"test:443", b"api,test:443", b"api%2etest:443",
                b"api.test%00.evil.test:443", "äpi.test:443".encode(),
                "api。test:443".encode(), "ａpi.test:443".encode(),
                b"api.te\xc3\x9ft:443", b"0177.0.0.1:443", b"0x7f.1:443",
                b"2130706433:443", b"127.1:443", b"0:443", b"1.2.3:443",
                b"1.2.3.4.5:443", b"[::1%25lo]:443", b"[fe80::1%25eth0]:443",
                b"[::1]443", b"::1:443"):
            self.assertEqual(self.connect_status(place, b"api.test"), 400,
                             place)
        for place in (
                b"[::1]:443", b"[::ffff:10.0.0.1]:443", b"[::127.0.0.1]:443",
                b"[64:ff9b::7f00:1]:443", b"[2002:7f00:1::]:443",
                b"[fe80::1]:443", b"[::]:443", b"0.0.0.0:443",
                b"10.0.0.1:443", b"169.254.169.254:80",
                b"[fd00:ec2::254]:80", b"1.2.3.4.nip.test:443"):
            self.assertEqual(self.connect_status(place), 403, place)
        self.assertEqual(self.connect_status(b"API.Test.:80"), 200)
        self.assertEqual(self.connect_status(b"api.test:80", b"evil.test:80"),
                         400)
        for control in (b"api.te\0st:443", b"api.te\x01st:443",
                        b"api.test\x7f:443", b"api.te\tst:443"):
            self.assertEqual(self.connect_status(control, b"x"), 400, control)
        self.assertEqual(set(self.net.asked()) - {"api.test"}, set())

    def test_wildcards(self):
        """H12: below it, at a label's border."""
        self.net.web("a.wild.test")
        self.net.web("a.b.wild.test")
        for name, status in (("a.wild.test", 200), ("a.b.wild.test", 200),
                             ("wild.test", 403), ("evilwild.test", 403),
                             ("wild.test.evil.test", 403),
                             ("a.wild.test.", 200)):
            r = self.inside.get(f"http://{name}/")
            self.assertEqual(r.status, status, name)

    def test_targets_and_host_fields(self):
        """H7, H8."""
        for target, host, status in (
                ("http://api.test/", "evil.test", 400),
                ("http://api.test/", "api.test:81", 400),
                ("http://api.test/", "api.test, evil.test", 400),
                ("http://api.test/", "me@api.test", 400),
                ("http://api.test/", "", 400),
                ("http://api.test/", "api.test:", 400),
                ("http://api.test:80/", "API.TEST", 200),
                ("http://me@api.test/", "api.test", 400),
                ("http://me:pw@api.test/", "api.test", 400),
                ("https://api.test/", "api.test", 400),
                ("http:api.test/", "api.test", 400),
                ("http:/api.test/", "api.test", 400),
                ("http:///api.test/", "api.test", 400),
                ("http://api.test:/", "api.test", 400),
                ("http://api.test?x", "api.test", 400),
                ("http://api.test\\@evil.test/", "api.test", 400),
                ("ftp://api.test/", "api.test", 400),
                ("*", "api.test", 400),
                ("api.test:80", "api.test", 400)):
            r = self.inside.ask(f"GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n")
            self.assertEqual(r.status, status, (target, host))
        self.assertEqual(len(self.api.requests), 1)
        # What is no proxy does not take a host in the target.
        web = self.inside.resolve("api.test")
        for raw in ("GET http://evil.test/ HTTP/1.1\r\nHost: api.test\r\n\r\n",
                    "GET / HTTP/1.1\r\nHost: api.test:81\r\n\r\n",
                    "GET / HTTP/1.0\r\n\r\n"):
            r = self.inside.ask(raw, self.inside.connect(web, 80))
            self.assertEqual(r.status, 400, raw)
        self.assertEqual(len(self.api.requests), 1)

    def test_fronting(self):
        """H3, H4, H6: CONNECT, SNI and Host say the same."""
        for name in ("api.test", "deep.test"):
            s, r = self.inside.tunnel(name)
            self.assertEqual(r.status, 200)
            s = self.inside.tls(s, "evil.test")
            self.refused(self.at("evil.test", "/", s), 403, "host",
                         "evil.test")
            self.assertEqual(s.recv(1), b"")
        s = self.secure("deep.test")
        self.refused(self.at("front.test", "/x", s), 403, "host")
        for first in (b"SSH-2.0-OpenSSH\r\n", b"\0\0\0\0", b"\x16\x02\0\0\0"):
            s, r = self.inside.tunnel("api.test")
            self.assertEqual(r.status, 200)
            self.assertEqual(self.talk(s, first), b"", first)
        self.assertEqual(self.api.requests, [])

    def hello(self, name=b"", more=b""):
        """A ClientHello with these names."""
        ext = b""
        if name:
            names = b"".join(b"\0" + struct.pack("!H", len(n)) + n
                             for n in name.split(b"|"))
            names = struct.pack("!H", len(names)) + names
            ext += b"\0\0" + struct.pack("!H", len(names)) + names
        ext += more
        body = (b"\3\3" + bytes(32) + b"\0" + b"\0\2\x13\1" + b"\1\0" +
                struct.pack("!H", len(ext)) + ext)
        body = b"\1" + struct.pack("!I", len(body))[1:] + body
        return b"\x16\3\1" + struct.pack("!H", len(body)) + body

    def test_hellos(self):
        """H5: no name, two names, odd names, a hidden one: nobody is called."""
        hidden = b"\xfe\x0d\0\1\0"
        for hello in (self.hello(), self.hello(b"api.test|evil.test"),
                      self.hello(b"api.test\0"), self.hello(b"203.0.113.10"),
                      self.hello(b".api.test"), self.hello(b"evil.test"),
                      self.hello(b"api.test", hidden)):
            s, r = self.inside.tunnel("api.test")
            self.assertEqual(r.status, 200)
            # What comes back is ours: an alert, or the beginning of our TLS.
            self.talk(s, hello)
        self.assertEqual(self.api.requests, [])
        # In pieces it is the same.
        s, r = self.inside.tunnel("api.test")
        for c in self.hello(b"API.test"):
            s.sendall(bytes([c]))
        self.assertTrue(s.recv(5))

    def test_addresses(self):
        """A rule that names an address is about that address: the proxy's own
        loopback is not the gate's."""
        r = self.inside.get("http://127.0.0.1/")
        self.assertIn(r.status, (403, 502), r)
        self.assertTrue(self.api.accepted == [])

    def test_identity(self):
        """H38, H39: the socket says who it is, and nothing else does."""
        other = self.i.create(rules=["allow * http://evil.test"])
        with contextlib.closing(Inside(self.i, other)) as them:
            for side, host, status in ((self.inside, "api.test", 200),
                                       (self.inside, "evil.test", 403),
                                       (them, "api.test", 403),
                                       (them, "evil.test", 200)):
                r = side.get(f"http://{host}/", fields=[
                    ("X-Sandbox-Id", other), ("User-Agent", "relay/1")])
                self.assertEqual(r.status, status, (host, r))
        raw = "GET http://api.test/ HTTP/1.0\r\nHost: api.test\r\n\r\n"
        self.assertEqual(self.inside.ask(raw).status, 200)
        self.i.rm(other)


class Paths(AttackCase):
    """H23: what is matched is what is sent."""

    def test_paths(self):
        paths = self.net.web("paths.test")
        for path, status in (
                ("/public/a", 200), ("/public/a;b=c", 200),
                ("/public/%61%2D", 200), ("/public/a?../../private", 200),
                ("/public/%C3%A4", 200), ("/public/a%20b", 200),
                ("/public", 403), ("/private", 403), ("/%70rivate", 403),
                ("/PUBLIC/a", 403), ("/public/../private", 400),
                ("/public/%2e%2e/private", 400), ("/public/.%2E/private", 400),
                ("/public/..%2fprivate", 400), ("/public/%2e%2e%2fprivate", 400),
                ("/public/..;/private", 400), ("/public/..%3b/private", 400),
                ("/public/..;x=1/private", 400), ("/public/.;/x", 400),
                ("/public/%252e%252e/private", 400),
                ("/public/..%255cprivate", 400), ("/public/..%5cprivate", 400),
                ("/public//a", 400), ("/public/./a", 400), ("//private", 400),
                ("/public/a%00", 400), ("/public/a%0d%0aX:%20y", 400),
                ("/public/%ff", 400), ("/public/%c0%ae%c0%ae/private", 400),
                ("/public/a#b", 400), ("/public/%", 400),
                ("/public/" + "a" * 4200, 414)):
            r = self.inside.get("http://paths.test" + path)
            self.assertEqual(r.status, status, path)
        # Deny rules hold for both readings of an encoded slash.
        for path, status in (("/private/x", 403), ("/private%2Fx", 403),
                             ("/other%2Fprivate", 200)):
            r = self.inside.get("http://paths.test" + path, "POST")
            self.assertEqual(r.status, status, path)
        self.assertEqual([r.target for r in paths.requests], [
            "/public/a", "/public/a;b=c", "/public/a-",
            "/public/a?../../private", "/public/%C3%A4", "/public/a%20b",
            "/other%2Fprivate"])


class Servers(AttackCase):
    """H30, H31: what a server says is not believed either."""

    def serve(self, raw):
        def fn(c):
            c.recv(65536)
            c.sendall(raw)
            with contextlib.suppress(OSError):
                c.shutdown(socket.SHUT_WR)
                c.recv(1)
        self.api.raw = fn

    def test_bad_answers(self):
        ok = b"HTTP/1.1 200 OK\r\n"
        many = b"".join(b"A%d: b\r\n" % n for n in range(120))
        for raw in (
                b"", b"\r\n", b"hello\r\n\r\n", b"HTTP/1.1 200\n\n",
                b"HTTP/1.1 99 x\r\n\r\n", b"HTTP/1.1 abc x\r\n\r\n",
                b"HTTP/2.0 200 OK\r\n\r\n", b"ICY 200 OK\r\n\r\n",
                b"HTTP/1.1 200 O\x01K\r\n\r\n",
                ok + b"A: b\nC: d\r\n\r\n", ok + b"A: b\r\n c\r\n\r\n",
                ok + b"A : b\r\n\r\n", ok + b"A: b\0\r\n\r\n", ok + b"nothing",
                ok + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
                ok + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"
                     b"0\r\n\r\n",
                ok + b"Content-Length: +5\r\n\r\nabcde",
                ok + b"Content-Length: -1\r\n\r\n",
                ok + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
                ok + many + b"\r\n",
                ok + b"A: " + b"b" * 20000 + b"\r\n\r\n",
                ok + b"A: b\r\n" * 100000,
                b"HTTP/1.1 100 Continue\r\n\r\n" * 1000 + ok + b"\r\n",
                b"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\n"
                b"Connection: Upgrade\r\n\r\n"):
            with self.subTest(raw[:60]):
                self.serve(raw)
                s = self.inside.connect()
                self.refused(self.inside.get("http://api.test/1", sock=s), 502,
                             "upstream", "api.test")
                # And the next answer on this connection is the next answer.
                self.api.raw = None
                self.assertEqual(self.inside.get("http://api.test/2", sock=s)
                                 .json["target"], "/2")
                s.close()

    def test_bodies_of_another_length(self):
        for raw, whole in (
                (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", False),
                (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                 b"3\r\nabc\r\n", False),
                (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                 b"3\r\nabc\r\n0\r\nX: y\r\n\r\n", False),
                (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                 b"3\r\nabcd\r\n0\r\n\r\n", False),
                (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"
                 b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil", True),
                (b"HTTP/1.1 204 No\r\nContent-Length: 3\r\n\r\nabc", True)):
            with self.subTest(raw):
                self.serve(raw)
                s = self.inside.connect()
                r = self.inside.get("http://api.test/1", sock=s)
                self.assertEqual((r.whole, b"evil" in r.body), (whole, False))
                self.api.raw = None
                if whole:
                    self.assertEqual(
                        self.inside.get("http://api.test/2", sock=s)
                        .json["target"], "/2")
                s.close()

    def test_heads_are_made_anew(self):
        self.serve(b"HTTP/1.1 302 Go there\r\nLocation: http://evil.test/\r\n"
                   b"Connection: close, x-hop\r\nX-Hop: 1\r\nKeep-Alive: x\r\n"
                   b"Proxy-Authenticate: Basic\r\nAlt-Svc: h3=\":443\"\r\n"
                   b"Set-Cookie: a=b\r\nSet-Cookie: c=d\r\n"
                   b"Content-Length: 0\r\n\r\n")
        r = self.inside.get("http://api.test/")
        self.assertEqual(r.head, b"HTTP/1.1 302 Go there\r\n"
                         b"Location: http://evil.test/\r\nSet-Cookie: a=b\r\n"
                         b"Set-Cookie: c=d\r\nContent-Length: 0\r\n\r\n")
        # Nobody followed it.
        self.assertEqual(self.evil.accepted, [])


class Limits(AttackCase):
    """Who is many."""

    def test_many(self):
        """More connections than a sandbox may have wait; others go on."""
        other = self.i.create(rules=["allow * http://evil.test"])
        with contextlib.ExitStack() as stack:
            them = stack.enter_context(contextlib.closing(
                Inside(self.i, other)))
            flood = []
            for _ in range(1100):
                s = self.inside.socket(socket.AF_INET, socket.SOCK_STREAM)
                s.setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    s.connect(("127.0.0.1", 3128))
                flood.append(s)
            self.assertEqual(them.get("http://evil.test/").status, 200)
            for s in flood:
                s.close()
        self.assertEqual(self.inside.get("http://api.test/").status, 200)
        self.i.rm(other)

    def test_noise(self):
        """Bytes of chance, all ways in; the door is there afterwards."""
        web = self.inside.resolve("api.test")
        for n in range(60):
            at = ((), (web, 80), (web, 443))[n % 3]
            start = (b"", b"GET ", b"CONNECT ", b"\x16\3\1")[n % 4]
            self.talk(self.inside.connect(*at), start + os.urandom(n * 40))
        s = self.inside.connect()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                     struct.pack("ii", 1, 0))
        s.sendall(b"POST http://api.test/ HTTP/1.1\r\nHost: api.test\r\n"
                  b"Content-Length: 100000\r\n\r\nx")
        s.close()
        self.assertEqual(self.inside.get("http://api.test/").status, 200)
        self.assertEqual([r.method for r in self.api.requests], ["GET"])


class Those(AttackCase):
    def test_slow(self):
        """All of them are gone, in time."""
        for t in tarry.threads:
            t.join()
        self.assertEqual(len(tarry.ends), 6)
        for name, took in tarry.ends.items():
            self.assertLess(took, 12 * SLOW + 5, (name, tarry.ends))


if __name__ == "__main__":
    harness.main()
