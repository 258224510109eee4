# suite: slow
# suite: sanitized
"""The proxy to ports of sandboxes, between clients and servers that do as they
like: what passes, what does not, and who is told what. The servers are threads
of the test; the warden hands out connections to them."""

import base64
import contextlib
import hashlib
import os
import re
import shutil
import socket
import ssl
import threading
import time
import unittest

import fake_warden
import harness
import tcp
from harness import SLOW, wait_for

# What waits for slow ends may not be more; the sanitizer keeps what is freed.
ROOM = (6 << 20) * (5 if harness.SANITIZED else 1)
HELLO = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"


class Inside:
    """A server that handles each connection with script(sock, head, body)."""

    def __init__(self, warden, port, script):
        self.script, self.seen = script, []
        self.sock = socket.create_server(("127.0.0.1", 0), backlog=64)
        warden.ports[port] = self.sock.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                s, _ = self.sock.accept()
            except OSError:
                return
            threading.Thread(target=self.one, args=(s,), daemon=True).start()

    def one(self, s):
        s.settimeout(20 * SLOW)
        try:
            got = b""
            while b"\r\n\r\n" not in got:
                more = s.recv(65536)
                if not more:
                    return
                got += more
            head, _, body = got.partition(b"\r\n\r\n")
            self.seen.append(head.decode("latin-1"))
            self.script(s, head.decode("latin-1"), body)
        except OSError:
            pass
        finally:
            s.close()

    def close(self):
        self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()


def says(*parts, pause=0):
    def script(s, head, body):
        for p in parts:
            s.sendall(p)
            time.sleep(pause)
    return script


def fields(head):
    return {k.lower(): v.strip() for k, _, v in
            (x.partition(":") for x in head.split("\r\n")[1:])}


class PortCase(unittest.TestCase):
    CONF = {"domain": "box.test", "port_timeout": "60s", "client_timeout": "60s"}
    TLS = False

    def setUp(self):
        tcp.open_door(self, "carrel-port-")
        self.box = self.a.create(ports={"web": 80})
        self.path = f"/v1/sandboxes/{self.box}/ports/80"
        self.host = f"80-{self.box}.box.test"
        self.key = self.a.api("POST", "/v1/keys", {"name": "t", "scope": "use"}
                              ).json["key"]
        self.servers = []

    def tearDown(self):
        for s in self.servers:
            s.close()
        self.a.stop()
        shutil.rmtree(self.dir)

    def serve(self, script, port=80):
        s = Inside(self.a.warden, port, script)
        self.servers.append(s)
        return s

    def call(self, method="GET", path="/", body=None, headers=None, key=True,
             host=None):
        """By path, or by a preview's host."""
        headers = dict(headers or {})
        if host:
            headers["Host"] = host
        else:
            path = self.path + path
        return tcp.call(self.port, method, path, body, headers,
                        self.key if key else None, self.context)

    def token(self, port=80, **ask):
        r = self.a.api("POST", f"/v1/sandboxes/{self.box}/ports/{port}/token",
                       ask)
        self.assertEqual(r.status, 201, r)
        return r.json["token"]

    def raw(self, data):
        with tcp.connect(self.port, self.context) as s:
            return tcp.raw(s, data)


class Passing(PortCase):
    def test_request_and_answer(self):
        def script(s, head, body):
            s.sendall(b"HTTP/1.1 418 Teapot\r\nX-Own: 1\r\n"
                      b"Content-Type: text/x\r\nContent-Length: 2\r\n\r\nhi")
        server = self.serve(script)
        r = self.call("GET", "/a%20b/c?d=e", headers={"X-Mine": "2",
                                                      "Cookie": "a=b"})
        self.assertEqual((r.status, r.body), (418, b"hi"))
        self.assertEqual((r.headers["X-Own"], r.headers["Content-Type"]),
                         ("1", "text/x"))
        self.assertIn("sandbox", r.headers["Content-Security-Policy"])
        self.assertRegex(r.headers["Request-Id"], "^[0-9a-f]{16}$")
        head = server.seen[0]
        self.assertTrue(head.startswith("GET /a%20b/c?d=e HTTP/1.1\r\n"), head)
        f = fields(head)
        self.assertEqual((f["host"], f["x-mine"], f["cookie"], f["connection"]),
                         ("localhost:80", "2", "a=b", "close"))
        self.assertEqual((f["x-forwarded-for"], f["x-forwarded-proto"],
                          f["x-forwarded-host"], f["x-forwarded-prefix"]),
                         ("127.0.0.1", "http", f"127.0.0.1:{self.port}",
                          self.path))
        self.assertNotIn("authorization", f)
        self.assertNotIn("e2b_", head)

    def test_by_host(self):
        server = self.serve(says(HELLO))
        r = self.call("GET", "/x", host=self.host)
        self.assertEqual((r.status, r.body), (200, b"hello"))
        self.assertNotIn("Content-Security-Policy", r.headers)
        f = fields(server.seen[0])
        self.assertEqual((f["host"], f["x-forwarded-host"]),
                         (self.host, self.host))
        self.assertNotIn("x-forwarded-prefix", f)
        # Pages of other servers may ask: it is for the server to judge.
        r = self.call("GET", "/", host=self.host,
                      headers={"Origin": "http://evil.test"})
        self.assertEqual(r.status, 200)
        for host in (f"81-{self.box}.box.test", f"80-{'i' + 'a' * 26}.box.test",
                     "80-x.box.test"):
            self.assertIn(self.call(host=host).status, (404, 502), host)

    def test_over_the_unix_socket(self):
        self.serve(says(HELLO))
        r = self.a.api("GET", self.path + "/")
        self.assertEqual((r.status, r.body), (200, b"hello"))
        r = self.a.api("GET", "/", headers={"Host": self.host})
        self.assertEqual((r.status, r.body), (200, b"hello"))

    def test_names_and_numbers(self):
        self.serve(says(HELLO))
        for port in ("80", "web"):
            r = self.a.api("GET", f"/v1/sandboxes/{self.box}/ports/{port}/")
            self.assertEqual((r.status, r.body), (200, b"hello"))
        for port in ("0", "65536", "-1", "nope", "8 0", "99999999999999999999"):
            r = self.a.api("GET", f"/v1/sandboxes/{self.box}/ports/" +
                           port.replace(" ", "%20") + "/")
            self.assertEqual(r.status, 400, port)
        r = self.a.api("GET", f"/v1/sandboxes/nope/ports/80/")
        self.assertEqual(r.status, 404)
        r = self.a.api("GET", self.path + "?a=b")
        self.assertEqual((r.status, r.headers["Location"]), (308, "80/?a=b"))

    def test_bodies(self):
        def script(s, head, body):
            f = fields(head)
            if f.get("transfer-encoding") == "chunked":
                while not body.endswith(b"0\r\n\r\n"):
                    body += s.recv(1 << 20)
                got = b""
                while body:
                    n, _, body = body.partition(b"\r\n")
                    got, body = got + body[:int(n, 16)], body[int(n, 16) + 2:]
            else:
                while len(body) < int(f.get("content-length", 0)):
                    body += s.recv(1 << 20)
                got = body
            s.sendall(b"HTTP/1.1 200 OK\r\n\r\n" +
                      hashlib.sha256(got).hexdigest().encode())
        server = self.serve(script)
        data = os.urandom(5 << 20)
        want = hashlib.sha256(data).hexdigest().encode()
        self.assertEqual(self.call("PUT", "/", data).body, want)
        self.assertEqual(fields(server.seen[-1])["content-length"],
                         str(len(data)))
        pieces = (data[:100], data[100:70000], data[70000:])
        got = self.raw((f"POST {self.path}/ HTTP/1.1\r\nHost: localhost\r\n"
                        f"Authorization: Bearer {self.key}\r\nTransfer-Encoding"
                        ": chunked\r\nConnection: close\r\n\r\n").encode() +
                       b"".join(b"%x\r\n%b\r\n" % (len(p), p)
                                for p in pieces) + b"0\r\n\r\n")
        self.assertIn(want, got)
        self.assertNotIn("content-length", fields(server.seen[-1]))
        self.assertEqual(self.call("DELETE", "/").body,
                         hashlib.sha256(b"").hexdigest().encode())
        got = self.raw((f"POST {self.path}/ HTTP/1.1\r\nHost: localhost\r\n"
                        f"Authorization: Bearer {self.key}\r\nExpect: "
                        "100-continue\r\nContent-Length: 1\r\nConnection: close"
                        "\r\n\r\nx").encode())
        self.assertIn(hashlib.sha256(b"x").hexdigest().encode(), got)
        self.assertNotIn("expect", fields(server.seen[-1]))

    def test_framings(self):
        big = b"z" * 300000
        for answer, body, sized in (
                (b"Content-Length: 300000\r\n\r\n" + big, big, True),
                (b"Transfer-Encoding: chunked\r\n\r\n493e0\r\n" + big +
                 b"\r\n0\r\n\r\n", big, False),
                (b"\r\n" + big, big, False),
                (b"Content-Length: 0\r\n\r\n", b"", True)):
            self.serve(says(b"HTTP/1.1 200 OK\r\n" + answer))
            r = self.call()
            self.assertEqual((r.status, r.body == body), (200, True))
            self.assertEqual("Content-Length" in r.headers, sized)
            # An HTTP/1.0 client gets it, too.
            got = self.raw((f"GET {self.path}/ HTTP/1.0\r\nHost: localhost\r\n"
                            f"Authorization: Bearer {self.key}\r\n\r\n").encode())
            self.assertEqual(got.partition(b"\r\n\r\n")[2] == body, True)

    def test_no_bodies(self):
        self.serve(says(b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n"))
        r = self.call("HEAD")
        self.assertEqual((r.status, r.headers["Content-Length"]), (200, "500"))
        for status in (204, 304):
            self.serve(says(b"HTTP/1.1 %d x\r\nETag: a\r\n\r\n" % status))
            r = self.call()
            self.assertEqual((r.status, r.body, r.headers["ETag"]),
                             (status, b"", "a"))
            self.assertNotIn("Content-Length", r.headers)

    def test_interim(self):
        early = b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
        self.serve(says(b"HTTP/1.1 100 Continue\r\n\r\n" + early + HELLO))
        r = self.call()
        self.assertEqual((r.status, r.body), (200, b"hello"))

    def test_pipelined(self):
        """Two requests of a client are two connections inside, in order."""
        n = iter(range(10))
        self.serve(lambda s, h, b: s.sendall(
            b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n%d" % next(n)))
        ask = (f"GET {self.path}/ HTTP/1.1\r\nHost: localhost\r\n"
               f"Authorization: Bearer {self.key}\r\n").encode()
        got = self.raw((ask + b"\r\n") * 3 + ask + b"Connection: close\r\n\r\n")
        self.assertEqual(re.findall(rb"\r\n\r\n(\d)", got),
                         [b"0", b"1", b"2", b"3"])

    def test_server_on_the_other_loopback(self):
        """Refused on 127.0.0.1: asked for on ::1 before it is an error."""
        r = self.call()
        self.assertEqual((r.status, r.json["error"]), (502, "nothing_listens"))
        self.assertIn("port 80", r.json["message"])
        self.assertEqual([op for op, _ in self.a.warden.seen].count(
            fake_warden.CONNECT), 2)


class Hostile(PortCase):
    CONF = {"domain": "box.test", "port_timeout": "2s", "client_timeout": "5s"}

    def check(self, answer, status, word):
        self.serve(answer if callable(answer) else says(answer))
        r = self.call()
        self.assertEqual((r.status, r.json["error"]), (status, word), answer)
        self.assertIn("port 80", r.json["message"])

    def test_bad_heads(self):
        for answer in (
                b"", b"hello\r\n\r\n", b"\r\n\r\n", b"HTTP/1.1\r\n\r\n",
                b"HTTP/1.1 99 x\r\n\r\n", b"HTTP/1.1 600 x\r\n\r\n",
                b"HTTP/1.1 2000 x\r\n\r\n", b"HTTP/2.0 200 OK\r\n\r\n",
                b"ICY 200 OK\r\n\r\n", b"HTTP/1.1 200 OK\n\n",
                b"HTTP/1.1 200 OK\r\nA : b\r\n\r\n",
                b"HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n",
                b"HTTP/1.1 200 OK\r\nA: b\0c\r\n\r\n",
                b"HTTP/1.1 200 OK\r\nA: b\rc\r\n\r\n",
                b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n"
                b"Content-Length: 2\r\n\r\nx",
                b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
                b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n"
                b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
                b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 101 + b"\r\n",
                b"HTTP/1.1 200 OK\r\nA: " + b"b" * 9000 + b"\r\n\r\n",
                b"HTTP/1.1 200 OK\r\n" + b"A" * 40000,
                b"HTTP/1.1 100 x\r\n\r\n" * 50,
                b"HTTP/1.1 101 x\r\nUpgrade: x\r\n\r\n",
                b"HTTP/1.1 200 OK\r\nA: b"):
            with self.subTest(answer[:60]):
                self.check(answer, 502, "bad_answer")

    def test_endless_head(self):
        def script(s, head, body):
            s.sendall(b"HTTP/1.1 200 OK\r\n")
            while True:
                s.sendall(b"A: b\r\n" * 1000)
        self.check(script, 502, "bad_answer")

    def test_silence(self):
        self.check(lambda s, h, b: time.sleep(10 * SLOW), 504, "timeout")
        self.check(says(b"HTTP/1.1 200 OK\r\n", b"", pause=10 * SLOW), 504,
                   "timeout")

    def test_drip(self):
        """A byte now and then is not silence."""
        self.serve(says(*[bytes([c]) for c in HELLO[:20]], HELLO[20:],
                        pause=0.1))
        self.assertEqual(self.call().body, b"hello")

    def cut(self, answer):
        """The client must see that the answer is not whole."""
        self.serve(answer if callable(answer) else says(answer))
        with self.assertRaises((http_error, OSError)):
            r = self.call()
            raise AssertionError(f"a whole answer: {r}")

    def test_cut_answers(self):
        head = b"HTTP/1.1 200 OK\r\n"
        for answer in (
                head + b"Content-Length: 10\r\n\r\nhello",
                head + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
                head + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhel",
                head + b"Transfer-Encoding: chunked\r\n\r\nx\r\n",
                head + b"Transfer-Encoding: chunked\r\n\r\n"
                b"5\r\nhello\r\n0\r\nA: b\r\n\r\n",
                lambda s, h, b: (s.sendall(head + b"Content-Length: 9\r\n\r\nx"),
                                 time.sleep(3 * SLOW))):
            with self.subTest(answer):
                self.cut(answer)

    def test_more_than_it_said(self):
        """What comes behind an answer is nobody's."""
        self.serve(says(HELLO + b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n"
                        b"evil"))
        ask = (f"GET {self.path}/ HTTP/1.1\r\nHost: localhost\r\n"
               f"Authorization: Bearer {self.key}\r\n").encode()
        got = self.raw(ask + b"\r\n" + ask + b"Connection: close\r\n\r\n")
        self.assertEqual((got.count(b"hello"), got.count(b"evil")), (2, 0))

    def test_deaf(self):
        """An answer before the end of a body that nobody reads."""
        def script(s, head, body):
            s.sendall(HELLO)
            s.shutdown(socket.SHUT_WR)
            time.sleep(0.2)
        self.serve(script)
        try:
            r = self.call("POST", "/", bytes(20 << 20))
            self.assertEqual((r.status, r.body), (200, b"hello"))
        except OSError:
            pass  # this client saw the connection end while it was sending
        self.assertIsNone(self.a.proc.poll())

    def test_pressure(self):
        """A client that reads nothing, a server that reads nothing."""
        def endless(s, head, body):
            s.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            while True:
                s.sendall(bytes(1 << 20))
        self.serve(endless)
        before = self.a.rss()
        s = tcp.connect(self.port)
        s.sendall((f"GET {self.path}/ HTTP/1.1\r\nHost: localhost\r\n"
                   f"Authorization: Bearer {self.key}\r\n\r\n").encode())
        time.sleep(0.5)
        self.assertLess(self.a.rss() - before, ROOM)
        s.close()
        self.serve(lambda s, h, b: time.sleep(3 * SLOW))
        s = tcp.connect(self.port)
        s.sendall((f"POST {self.path}/ HTTP/1.1\r\nHost: localhost\r\n"
                   f"Authorization: Bearer {self.key}\r\n"
                   "Content-Length: 100000000\r\n\r\n").encode())
        s.settimeout(0.5)
        with self.assertRaises(OSError):
            for _ in range(1000):
                s.sendall(bytes(1 << 20))
        self.assertLess(self.a.rss() - before, ROOM)
        s.close()

    def test_client_leaves(self):
        gone = threading.Event()

        def script(s, head, body):
            s.sendall(b"HTTP/1.1 200 OK\r\n\r\nx")
            while s.recv(1):
                pass
            gone.set()
        self.serve(script)
        fds = self.a.fds()
        s = tcp.connect(self.port)
        s.sendall((f"GET {self.path}/ HTTP/1.1\r\nHost: localhost\r\n"
                   f"Authorization: Bearer {self.key}\r\n\r\n").encode())
        s.recv(100)
        s.close()
        self.assertTrue(gone.wait(5 * SLOW))
        wait_for("nothing left", lambda: self.a.fds() <= fds, 5 * SLOW)

    def test_cookies_of_ours(self):
        self.serve(says(b"HTTP/1.1 200 OK\r\nSet-Cookie: carrel_token=x\r\n"
                        b"Set-Cookie: a=b\r\nContent-Length: 0\r\n\r\n"))
        self.assertEqual(self.call().headers["Set-Cookie"],
                         f"a=b; Path={self.path}")
        self.assertEqual(self.call(host=self.host).headers["Set-Cookie"], "a=b")

    def test_cookies_stay_in_their_preview(self):
        """By path all previews are on one host, by host in one domain."""
        p = self.path
        for sent, by_path, by_host in (
                ("a=b; Path=/", f"a=b; Path={p}", "a=b; Path=/"),
                ("a=b; path=/x; HttpOnly; SameSite=Lax",
                 f"a=b; HttpOnly; SameSite=Lax; Path={p}/x",
                 "a=b; HttpOnly; SameSite=Lax; Path=/x"),
                ("a=b;Domain=box.test;Secure", f"a=b; Secure; Path={p}",
                 "a=b; Secure"),
                ("a=b; DOMAIN = .box.test ; Path=x; Path = /y",
                 f"a=b; Path={p}/y", "a=b; Path=/y"),
                ("a=b; Path=/v1/sandboxes",
                 f"a=b; Path={p}/v1/sandboxes", "a=b; Path=/v1/sandboxes"),
                ("a=path=/; Max-Age=1;", f"a=path=/; Max-Age=1; ; Path={p}",
                 "a=path=/; Max-Age=1; ")):
            with self.subTest(sent):
                server = self.serve(says(
                    b"HTTP/1.1 200 OK\r\nSet-Cookie: c=d\r\nLocation: /z\r\n"
                    b"Set-Cookie: " + sent.encode() +
                    b"\r\nContent-Length: 0\r\n\r\n"))
                for host, first, want in ((None, f"c=d; Path={p}", by_path),
                                          (self.host, "c=d", by_host)):
                    head = self.raw((
                        f"GET {'' if host else p}/ HTTP/1.1\r\n"
                        f"Host: {host or 'localhost'}\r\nConnection: close\r\n"
                        f"Authorization: Bearer {self.key}\r\n\r\n").encode())
                    head = head.decode().split("\r\n")
                    self.assertEqual([x[12:].strip() for x in head if
                                      x.startswith("Set-Cookie: ")],
                                     [first, want.strip()])
                    self.assertIn("Location: " + ("/z" if host else f"{p}/z"),
                                  head)
                self.servers.remove(server)
                server.close()


class Limits(PortCase):
    CONF = {"port_timeout": "60s"}

    def test_limit(self):
        """One sandbox cannot have all connections there are."""
        full = self.serve(lambda s, h, b: s.recv(1))
        ask = (f"GET {self.path}/ HTTP/1.1\r\nHost: localhost\r\n\r\n").encode()
        held = []
        for _ in range(256):
            s = socket.socket(socket.AF_UNIX)
            s.connect(self.a.sock)
            s.sendall(ask)
            held.append(s)
        wait_for("all are there", lambda: len(full.seen) == 256, 20 * SLOW)
        r = self.a.api("GET", self.path + "/")
        self.assertEqual((r.status, r.json["error"]), (429, "limit_reached"))
        for s in held:
            s.close()
        self.serve(says(HELLO))
        wait_for("room again", lambda: self.a.api("GET", self.path + "/")
                 .status == 200, 10 * SLOW)


class Tokens(PortCase):
    CONF = {"domain": "box.test", "port_timeout": "60s"}

    def test_making(self):
        r = self.a.api("POST", self.path + "/token", {"ttl": 60})
        self.assertEqual(r.status, 201)
        self.assertEqual(r.json["url"], f"http://80-{self.box}.box.test:"
                         f"{self.port}/?carrel_token={r.json['token']}")
        r = self.call("POST", "/token", {})
        self.assertIn("/?carrel_token=", r.json["url"])
        for body, status in ((b"[]", 400), (b"x", 400), (b'{"ttl": 0}', 400),
                             (b'{"ttl": "x"}', 400), (b'{"x": 1}', 400),
                             (b'{"ttl": 99999999}', 400)):
            self.assertEqual(self.a.api("POST", self.path + "/token",
                                        body).status, status, body)
        r = self.a.api("POST", f"/v1/sandboxes/{self.box}/ports/0/token", {})
        self.assertEqual(r.status, 400)
        r = self.a.api("POST", "/v1/sandboxes/nope/ports/80/token", {})
        self.assertEqual(r.status, 404)
        self.assertEqual(self.call("POST", "/token", {}, key=False).status, 401)

    def test_what_it_opens(self):
        server = self.serve(says(HELLO))
        self.serve(says(HELLO), 81)
        token = self.token()
        other = self.a.create()
        for host in (None, self.host):
            self.assertEqual(self.call(key=False, host=host).status, 401)
            for headers in ({"Carrel-Token": token},
                            {"Cookie": f"a=b; carrel_token={token}"}):
                r = self.call(key=False, headers=headers, host=host)
                self.assertEqual((r.status, r.body), (200, b"hello"), r)
                self.assertNotIn(token, server.seen[-1])
        self.assertEqual(fields(server.seen[-1])["cookie"], "a=b")
        h = {"Carrel-Token": token}
        for path in (f"/v1/sandboxes/{self.box}/ports/81/",
                     f"/v1/sandboxes/{other}/ports/80/",
                     f"/v1/sandboxes/{self.box}", "/v1/sandboxes",
                     f"/v1/sandboxes/{self.box}/ports/80/token"):
            r = tcp.call(self.port, "POST" if path.endswith("/token") else "GET",
                         path, None, h)
            self.assertEqual(r.status, 401, path)
        # The server's own Authorization passes, as long as it is no key.
        r = self.call(key=False, headers={**h, "Authorization": "Basic eA=="})
        self.assertEqual(fields(server.seen[-1])["authorization"], "Basic eA==")
        r = self.call(key=False, headers={**h, "Authorization":
                                          f"Bearer {self.key}"})
        self.assertNotIn("authorization", fields(server.seen[-1]))

    def test_forgery(self):
        self.serve(says(HELLO))
        token = self.token()
        box, port, until, mac = token.split(".")
        for bad in ("", ".", "...", "x" * 500, token[:-1], token + "0",
                    token[:-1] + ("0" if token[-1] != "0" else "1"),
                    f"{box}.81.{until}.{mac}", f"{box}.80.{int(until) + 1}.{mac}",
                    f"{box}.80.{until}.", f"{box}.80.+{until}.{mac}",
                    f"{box}.80.0{until}.{mac}", f"{box}.080.{until}.{mac}",
                    f"i{'a' * 26}.80.{until}.{mac}", token.upper(),
                    f"{box}.80.99999999999999999999.{mac}"):
            r = self.call(key=False, headers={"Carrel-Token": bad})
            self.assertEqual(r.status, 401, bad)

    def test_time(self):
        self.serve(says(HELLO))
        h = {"Carrel-Token": self.token(ttl=1)}
        self.assertEqual(self.call(key=False, headers=h).status, 200)
        wait_for("it ends", lambda: self.call(key=False, headers=h).status == 401,
                 5 * SLOW)

    def test_restart(self):
        """Tokens are signed, not kept; the key is nobody's to read."""
        self.serve(says(HELLO))
        h = {"Carrel-Token": self.token()}
        self.a.kill()
        self.a.start()
        wait_for("the sandbox again", lambda: self.call(
            key=False, headers=h).status == 200, 10 * SLOW)
        path = f"{self.a.state_dir}/registry/port.key"
        self.assertEqual((os.stat(path).st_mode & 0o777, os.path.getsize(path)),
                         (0o600, 32))

    def test_link(self):
        """A link with a token: the token becomes a cookie, the URL is clean."""
        server = self.serve(says(HELLO))
        token = self.token()
        for host, where in ((None, self.path), (self.host, "")):
            r = self.call("GET", f"/x?a=1&carrel_token={token}&b=2", key=False,
                          host=host, headers={"Accept": "text/html,*/*"})
            self.assertEqual((r.status, r.headers["Location"]),
                             (303, f"{where}/x?a=1&b=2"))
            cookie = r.headers["Set-Cookie"]
            self.assertTrue(cookie.startswith(f"carrel_token={token}; "))
            for part in ("HttpOnly", "SameSite=Lax", f"Path={where}/;"):
                self.assertIn(part, cookie)
            self.assertNotIn("Secure", cookie)
            self.assertEqual(r.headers["Cache-Control"], "no-store")
        self.assertEqual(server.seen, [])
        # A program has no cookies: its request is passed on, without the token.
        r = self.call("GET", f"/x?carrel_token={token}&b=2", key=False,
                      headers={"Accept": "*/*"})
        self.assertEqual((r.status, r.body), (200, b"hello"))
        self.assertTrue(server.seen.pop().startswith("GET /x?b=2 HTTP/1.1\r\n"))
        r = self.call("POST", f"/x?carrel_token={token}&b=2", b"x", key=False)
        self.assertEqual(r.body, b"hello")
        self.assertTrue(server.seen[0].startswith("POST /x?b=2 HTTP/1.1\r\n"))
        r = self.call("GET", "/?carrel_token=wrong", key=False)
        self.assertEqual(r.status, 401)

    def test_cookie_of_another_site(self):
        self.serve(says(HELLO))
        cookie = {"Cookie": f"carrel_token={self.token()}"}
        for more, status in (
                ({"Origin": f"http://{self.host}"}, 200),
                ({"Origin": f"http://81-{self.box}.box.test"}, 401),
                ({"Sec-Fetch-Site": "same-site"}, 401),
                ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"},
                 200), ({"Sec-Fetch-Site": "same-origin"}, 200)):
            r = self.call(key=False, host=self.host, headers={**cookie, **more})
            self.assertEqual(r.status, status, more)

    def test_sandbox_gone(self):
        self.serve(says(HELLO))
        h = {"Carrel-Token": self.token()}
        self.a.rm(self.box)
        self.assertEqual(self.call(key=False, headers=h).status, 401)
        self.assertIn(self.call(headers=h).status, (404, 410))


def websocket_frame(op, data, mask=b"abcd"):
    head = bytes([0x80 | op, (0x80 if mask else 0) | len(data)])
    if mask:
        data = bytes(c ^ mask[i % 4] for i, c in enumerate(data))
    return head + mask + data


class Upgrades(PortCase):
    CONF = {"domain": "box.test", "port_timeout": "1s", "client_timeout": "5s"}

    def echo(self, s, head, body):
        """A WebSocket server that answers one message in capitals."""
        key = fields(head)["sec-websocket-key"]
        accept = base64.b64encode(hashlib.sha1((
            key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest())
        s.sendall(b"HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\n"
                  b"Upgrade: websocket\r\nSec-WebSocket-Accept: " + accept +
                  b"\r\nSet-Cookie: carrel_x=1\r\n\r\n" +
                  websocket_frame(1, b"first", b""))
        while len(body) < 6:
            body += s.recv(100)
        n = body[1] & 127
        while len(body) < 6 + n:
            body += s.recv(100)
        text = bytes(c ^ body[2 + i % 4] for i, c in enumerate(body[6:6 + n]))
        s.sendall(websocket_frame(1, text.upper(), b""))
        s.recv(100)

    def ask(self, more=b"", target=None, host=None, behind=b""):
        s = tcp.connect(self.port, self.context)
        s.sendall((f"GET {target or self.path + '/'} HTTP/1.1\r\n"
                   f"Host: {host or 'localhost'}\r\n"
                   f"Authorization: Bearer {self.key}\r\n"
                   "Connection: Upgrade\r\nUpgrade: websocket\r\n"
                   "Sec-WebSocket-Version: 13\r\n"
                   "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n").encode() +
                  more + b"\r\n" + behind)
        return s

    def test_websocket(self):
        server = self.serve(self.echo)
        for host, target in ((None, None), (self.host, "/chat?x=1")):
            s = self.ask(host=host, target=target,
                         behind=websocket_frame(1, b"hello"))
            got = b""
            while b"HELLO" not in got:
                more = s.recv(1000)
                self.assertTrue(more, got)
                got += more
            head, _, rest = got.partition(b"\r\n\r\n")
            self.assertIn(b" 101 ", head)
            self.assertIn(b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo=", head)
            self.assertNotIn(b"carrel_x", head)
            self.assertEqual(rest, b"\x81\x05first\x81\x05HELLO")
            s.close()
        f = fields(server.seen[-1])
        self.assertEqual((f["connection"].lower(), f["upgrade"]),
                         ("upgrade", "websocket"))

    def test_refused_inside(self):
        self.serve(says(b"HTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\nno"))
        with self.ask(b"Connection: close\r\n") as s:
            got = tcp.raw(s, b"")
        self.assertTrue(got.startswith(b"HTTP/1.1 403 ") and
                        got.endswith(b"\r\n\r\nno"), got)

    def test_body_refused(self):
        with self.ask(b"Content-Length: 1\r\n", behind=b"x") as s:
            self.assertTrue(s.recv(100).startswith(b"HTTP/1.1 400 "))

    def tcp_ask(self, port=80, key=True, upgrade="carrel-tcp/1", behind=b""):
        s = tcp.connect(self.port, self.context)
        auth = f"Authorization: Bearer {self.key}\r\n" if key else ""
        s.sendall((f"POST /v1/sandboxes/{self.box}/tcp/{port} HTTP/1.1\r\n"
                   f"Host: localhost\r\n{auth}Connection: Upgrade\r\n"
                   f"Upgrade: {upgrade}\r\n\r\n").encode() + behind)
        return s

    def head_of(self, s):
        got = b""
        while not got.endswith(b"\r\n\r\n"):
            c = s.recv(1)
            if not c:
                break
            got += c
        return got

    def raw_server(self, script, port=80):
        server = socket.create_server(("127.0.0.1", 0))
        self.a.warden.ports[port] = server.getsockname()[1]
        self.servers.append(server)

        def serve():
            s, _ = server.accept()
            s.settimeout(20 * SLOW)
            try:
                script(s)
            finally:
                s.close()
        threading.Thread(target=serve, daemon=True).start()

    def test_tcp(self):
        """Both directions, much of it, and the end of each by itself."""
        data = os.urandom(3 << 20)
        result = {}

        def script(s):
            s.sendall(b"220 hello\r\n")
            got = b""
            while more := s.recv(1 << 20):
                got += more
            result["in"] = got
            s.sendall(data[::-1])
        self.raw_server(script)
        s = self.tcp_ask(behind=b"early ")
        self.assertIn(b"101 Switching", self.head_of(s))
        self.assertEqual(s.recv(11), b"220 hello\r\n")
        s.sendall(data)
        if self.context:
            with contextlib.suppress(ssl.SSLError):
                s.unwrap()  # Python cannot hear more when its side has ended
            wait_for("all inside", lambda: "in" in result, 10 * SLOW)
        else:
            s.shutdown(socket.SHUT_WR)
            got = b""
            while more := s.recv(1 << 20):
                got += more
            self.assertEqual(got == data[::-1], True)
        self.assertEqual(result["in"] == b"early " + data, True)
        s.close()

    def test_tcp_refusals(self):
        for kw, status in (({"port": 81}, 502), ({"key": False}, 401),
                           ({"upgrade": "carrel-wire/1"}, 426),
                           ({"port": 0}, 400), ({"port": "x"}, 400)):
            with self.tcp_ask(**kw) as s:
                self.assertIn(f" {status} ".encode(), self.head_of(s), kw)

    def test_tcp_slow_reader(self):
        def script(s):
            for i in range(20):
                s.sendall(bytes([i]) * (1 << 20))
        self.raw_server(script)
        before = self.a.rss()
        s = self.tcp_ask()
        self.head_of(s)
        time.sleep(0.5)
        self.assertLess(self.a.rss() - before, ROOM)
        n = 0
        while more := s.recv(1 << 20):
            n += len(more)
        self.assertEqual(n, 20 << 20)
        s.close()

    def test_tcp_end(self):
        """A server that ends takes its client along, and the other way."""
        fds = self.a.fds()
        self.raw_server(lambda s: s.sendall(b"bye"))
        s = self.tcp_ask()
        self.head_of(s)
        self.assertEqual(tcp.raw(s, b""), b"bye")
        s.close()
        ended = threading.Event()

        def script(s):
            while s.recv(10):
                pass
            ended.set()
        self.raw_server(script)
        s = self.tcp_ask()
        self.head_of(s)
        s.close()
        self.assertTrue(ended.wait(5 * SLOW))
        wait_for("nothing left", lambda: self.a.fds() <= fds, 10 * SLOW)


    def test_a_client_is_not_idleness(self):
        """A sandbox with an idle timeout stays while a tunnel is open."""
        self.box = self.a.create(**{"idle-timeout": "3s"})
        done = threading.Event()
        self.raw_server(lambda s: done.wait(60 * SLOW))
        s = self.tcp_ask()
        self.assertIn(b" 101 ", self.head_of(s))
        time.sleep(5)
        self.assertIn(self.box, self.a.warden.boxes)
        done.set()
        s.close()
        wait_for("its end", lambda: self.box not in self.a.warden.boxes,
                 10 * SLOW)


class UpgradesTls(Upgrades):
    TLS = True


class PassingTls(PortCase):
    TLS = True

    def test_https(self):
        server = self.serve(says(HELLO))
        r = self.call()
        self.assertEqual(r.body, b"hello")
        self.assertEqual(fields(server.seen[0])["x-forwarded-proto"], "https")
        r = self.call("GET", f"/?carrel_token={self.token()}", key=False,
                      headers={"Accept": "text/html"})
        self.assertIn("; Secure", r.headers["Set-Cookie"])
        r = self.call("POST", "/token", {})
        self.assertTrue(r.json["url"].startswith("https://80-"))

    def test_large(self):
        data = os.urandom(4 << 20)
        self.serve(says(b"HTTP/1.1 200 OK\r\n\r\n" + data))
        self.assertEqual(self.call().body == data, True)


if __name__ == "__main__":
    import http.client
    http_error = http.client.HTTPException
    harness.main()
