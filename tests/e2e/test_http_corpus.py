# suite: sanitized
"""Requests that nobody may understand in two ways: malformed, ambiguous and
oversized ones by RFC 9112, each with the refusal it must get.

Every one goes to the real api over a unix socket and over TCP, with a good
request right behind it: a refusal is one answer and the end of the connection,
so what is behind never counts as a request of its own (smuggling).
"""

import re
import socket
import time
import unittest

import fake_warden
import harness
import tcp
from harness import SLOW

HOST = b"Host: localhost\r\n"
GET = b"GET /metrics HTTP/1.1\r\n" + HOST
POST = b"POST /v1/sandboxes HTTP/1.1\r\n" + HOST
SMUGGLED = b"GET /smuggled HTTP/1.1\r\n" + HOST + b"\r\n"


def line(text):
    """A head with this request line."""
    return text + b"\r\n" + HOST + b"\r\n"


def target(text):
    return line(b"GET " + text + b" HTTP/1.1")


def field(text):
    """A head with this line among its fields."""
    return GET + text + b"\r\n\r\n"


def length(text, body=b"{}"):
    return POST + b"Content-Length:" + text + b"\r\n\r\n" + body


def coding(*lines, body=b"2\r\n{}\r\n0\r\n\r\n"):
    return POST + b"".join(x + b"\r\n" for x in lines) + b"\r\n" + body


def chunks(body):
    return coding(b"Transfer-Encoding: chunked", body=body)


def corpus():
    """(name, status, bytes)"""
    # --- the request line
    for name, text in (
            ("empty", b""), ("a space", b" "), ("method only", b"GET"),
            ("no target", b"GET HTTP/1.1"), ("no version", b"GET /"),
            ("no version, space", b"GET / "),
            ("HTTP/0.9", b"GET /metrics"),
            ("two spaces", b"GET  / HTTP/1.1"),
            ("two spaces behind", b"GET /  HTTP/1.1"),
            ("space in front", b" GET / HTTP/1.1"),
            ("space at the end", b"GET / HTTP/1.1 "),
            ("tabs", b"GET\t/\tHTTP/1.1"),
            ("tab in front of the version", b"GET /\tHTTP/1.1"),
            ("four words", b"GET / / HTTP/1.1"),
            ("lower case version", b"GET / http/1.1"),
            ("no digits", b"GET / HTTP/x.y"),
            ("version without minor", b"GET / HTTP/1"),
            ("long minor", b"GET / HTTP/1.10"),
            ("long major", b"GET / HTTP/01.1"),
            ("junk behind the version", b"GET / HTTP/1.1x"),
            ("another protocol", b"GET / ICY/1.1"),
            ("a colon in the method", b"GE:T / HTTP/1.1"),
            ("a control byte in the method", b"G\x01ET / HTTP/1.1"),
            ("a high byte in the method", b"G\xc3\xa4T / HTTP/1.1"),
            ("a quote in the method", b"\"GET\" / HTTP/1.1"),
            ("a long method", b"A" * 17 + b" / HTTP/1.1"),
            ("a very long method", b"A" * 4000 + b" / HTTP/1.1")):
        yield f"line: {name}", 400, line(text)
    for text in (b"HTTP/0.9", b"HTTP/1.2", b"HTTP/1.9", b"HTTP/2.0",
                 b"HTTP/3.0", b"HTTP/9.9"):
        yield f"line: {text.decode()}", 505, line(b"GET / " + text)
    yield "line: empty lines in front", 400, b"\r\n\r\n" + GET + b"\r\n"
    yield "line: one empty line in front", 400, b"\r\n" + GET + b"\r\n"
    yield "line: LF in front", 400, b"\n" + GET + b"\r\n"

    # --- line ends
    yield "ends: LF only", 400, GET.replace(b"\r\n", b"\n") + b"\n"
    yield "ends: LF behind the request line", 400, \
        b"GET / HTTP/1.1\n" + HOST + b"\r\n"
    yield "ends: LF behind a field", 400, field(b"A: b\nC: d")
    yield "ends: CR only", 400, GET.replace(b"\r\n", b"\r") + b"\r"
    yield "ends: CR CR LF", 400, field(b"A: b\r")
    yield "ends: LF CR", 400, GET + b"A: b\n\r\n"
    yield "ends: CR in the request line", 400, line(b"GET /\r HTTP/1.1")
    yield "ends: LF at the end of the head", 400, GET + b"\n"
    yield "ends: CR and a space", 400, field(b"A: b\r c")
    yield "ends: CR in the middle of a name", 400, field(b"Con\rtent-Length: 5")

    # --- targets
    for name, text in (
            ("absolute", b"http://localhost/metrics"),
            ("absolute, another host", b"http://evil.test/"),
            ("absolute, odd scheme", b"x://localhost/"),
            ("authority", b"localhost:80"), ("asterisk", b"*"),
            ("no slash", b"metrics"), ("a query only", b"?x"),
            ("a fragment", b"/metrics#x"), ("a fragment only", b"#"),
            ("a backslash", b"/a\\b"), ("dots", b"/a/../b"),
            ("a dot", b"/./b"), ("dots at the end", b"/v1/.."),
            ("encoded dots", b"/v1/%2e%2e/b"),
            ("half encoded dots", b"/v1/.%2E/b"),
            ("two slashes", b"//metrics"), ("two slashes later", b"/v1//host"),
            ("an encoded slash", b"/v1%2fhost"),
            ("an encoded backslash", b"/v1%5chost"),
            ("an encoded NUL", b"/metrics%00"),
            ("an encoded CR LF", b"/metrics%0d%0aX:y"),
            ("half an escape", b"/metrics%"), ("two thirds of one", b"/m%4"),
            ("no hex", b"/%zz"), ("overlong UTF-8", b"/%c0%af"),
            ("a surrogate", b"/%ed%a0%80"), ("cut UTF-8", b"/%c3"),
            ("raw UTF-8", "/ä".encode()), ("a high byte", b"/\xff"),
            ("DEL", b"/\x7f"), ("a NUL", b"/\0"), ("a tab", b"/a\tb"),
            ("a quote", b"/\"x"), ("angle brackets", b"/<x>"),
            ("a bad query", b"/metrics?%"), ("a space in the query", b"/m?a b"),
            ("a fragment behind the query", b"/m?a#b")):
        yield f"target: {name}", 400, target(text)
    yield "target: CONNECT", 400, line(b"CONNECT localhost:80 HTTP/1.1")
    yield "target: OPTIONS *", 400, line(b"OPTIONS * HTTP/1.1")

    # --- fields
    for name, text in (
            ("no colon", b"Abc"), ("no name", b": x"),
            ("space before the colon", b"A : b"),
            ("tab before the colon", b"A\t: b"),
            ("a space inside", b"A B: c"), ("a fold", b"A: b\r\n c"),
            ("a fold by tab", b"A: b\r\n\tc"),
            ("a fold of nothing", b"A: b\r\n \r\nC: d"),
            ("a space in front", b" A: b"), ("a tab in front", b"\tA: b"),
            ("a high byte in a name", b"\xc3\xa4: b"),
            ("HTTP in a field", b"GET / HTTP/1.1")):
        yield f"field: {name}", 400, field(text)
    yield "field: a fold behind the request line", 400, \
        b"GET / HTTP/1.1\r\n " + HOST + b"\r\n"
    for c in b"\"(),/;<=>?@[\\]{}":
        yield f"field: '{c:c}' in a name", 400, field(b"A%cB: c" % c)
    for c in [*range(0x00, 0x09), *range(0x0b, 0x0d), *range(0x0e, 0x20), 0x7f]:
        yield f"field: byte {c:#04x} in a value", 400, field(b"A: b%cc" % c)
    for c in (0x00, 0x01, 0x0b, 0x0c, 0x1f, 0x7f):
        yield f"field: byte {c:#04x} in a name", 400, field(b"A%cB: c" % c)

    # --- Host, and what else may come once only
    yield "host: none", 400, b"GET /metrics HTTP/1.1\r\n\r\n"
    yield "host: twice", 400, GET + HOST + b"\r\n"
    yield "host: twice in another case", 400, GET + b"HOST: localhost\r\n\r\n"
    yield "host: two different", 400, GET + b"Host: evil.test\r\n\r\n"
    for name, text in (("a list", b"a b"), ("a path", b"localhost/x"),
                       ("user", b"me@localhost"), ("a quote", b"\"localhost\""),
                       ("a high byte", b"\xff"), ("a backslash", b"a\\b")):
        yield f"host: {name}", 400, \
            b"GET /metrics HTTP/1.1\r\nHost: " + text + b"\r\n\r\n"
    for name in (b"Authorization", b"Content-Type", b"Origin",
                 b"Sec-WebSocket-Key"):
        yield f"twice: {name.decode()}", 400, \
            GET + name + b": a\r\n" + name + b": a\r\n\r\n"

    # --- Content-Length
    for text in (b"", b" ", b" +2", b" -2", b" 2 2", b" 2,2", b" 2, 2", b" 0x2",
                 b" 2.0", b" 2e0", b" 2;", b" \"2\"", b" two", b" 2\xc2\xa0",
                 b" 99999999999999999999", b" 18446744073709551618",
                 b" 9223372036854775808", b" -0", b" 2_", b" ,2", b" 2,"):
        yield f"length: '{text.decode('latin-1')}'", 400, length(text)
    yield "length: twice", 400, length(b" 2\r\nContent-Length: 2")
    yield "length: two different", 400, length(b" 2\r\nContent-Length: 3")
    yield "length: another case", 400, length(b" 2\r\ncontent-length: 2")
    yield "length: folded", 400, length(b"\r\n 2")
    yield "length: space before the colon", 400, \
        POST + b"Content-Length : 2\r\n\r\n{}"

    # --- Transfer-Encoding
    for text in (b"gzip", b"identity", b"xchunked", b"chunked, chunked",
                 b"gzip, chunked", b"chunked, gzip", b"chunked, identity",
                 b"chunked;q=1", b"\"chunked\"", b"chunked,", b",chunked",
                 b"chun ked", b"", b"chunked\xa0", b"trailers"):
        yield f"coding: '{text.decode('latin-1')}'", 501, \
            coding(b"Transfer-Encoding: " + text)
    yield "coding: with a length", 400, \
        coding(b"Transfer-Encoding: chunked", b"Content-Length: 2")
    yield "coding: a length in front", 400, \
        coding(b"Content-Length: 2", b"Transfer-Encoding: chunked")
    yield "coding: unknown, with a length", 400, \
        coding(b"Transfer-Encoding: x", b"Content-Length: 2")
    yield "coding: twice", 400, \
        coding(b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked")
    yield "coding: twice, hidden", 400, \
        coding(b"Transfer-Encoding: chunked", b"transfer-encoding: identity")
    yield "coding: folded", 400, coding(b"Transfer-Encoding:", b" chunked")
    yield "coding: space before the colon", 400, \
        coding(b"Transfer-Encoding : chunked")
    yield "coding: a vertical tab", 400, coding(b"Transfer-Encoding: \x0bchunked")
    yield "coding: HTTP/1.0", 400, \
        coding(b"Transfer-Encoding: chunked").replace(b"HTTP/1.1", b"HTTP/1.0")

    # --- chunks
    for name, body in (
            ("no size", b"\r\n{}\r\n0\r\n\r\n"),
            ("no hex", b"x\r\n{}\r\n0\r\n\r\n"),
            ("0x", b"0x2\r\n{}\r\n0\r\n\r\n"),
            ("a sign", b"+2\r\n{}\r\n0\r\n\r\n"),
            ("negative", b"-2\r\n{}\r\n0\r\n\r\n"),
            ("a space in front", b" 2\r\n{}\r\n0\r\n\r\n"),
            ("a space behind", b"2 \r\n{}\r\n0\r\n\r\n"),
            ("an extension", b"2;a=b\r\n{}\r\n0\r\n\r\n"),
            ("an empty extension", b"2;\r\n{}\r\n0\r\n\r\n"),
            ("an extension with LF", b"2;a\n{}\r\n0\r\n\r\n"),
            ("LF behind the size", b"2\n{}\r\n0\r\n\r\n"),
            ("CR behind the size", b"2\r{}\r\n0\r\n\r\n"),
            ("LF behind the data", b"2\r\n{}\n0\r\n\r\n"),
            ("nothing behind the data", b"2\r\n{}0\r\n\r\n"),
            ("more data", b"2\r\n{} \r\n0\r\n\r\n"),
            ("a huge size", b"ffffffffffffffff2\r\n{}\r\n0\r\n\r\n"),
            ("2 to the 64", b"10000000000000002\r\n{}\r\n0\r\n\r\n"),
            ("many zeros", b"0" * 30 + b"2\r\n{}\r\n0\r\n\r\n"),
            ("a trailer", b"2\r\n{}\r\n0\r\nA: b\r\n\r\n"),
            ("LF at the end", b"2\r\n{}\r\n0\r\n\n"),
            ("LFs at the end", b"2\r\n{}\r\n0\n\n"),
            ("a request in a trailer", b"0\r\nGET / HTTP/1.1\r\n\r\n"),
            ("underscore", b"1_0\r\n{}\r\n0\r\n\r\n")):
        yield f"chunk: {name}", 400, chunks(body)

    # --- Expect
    yield "expect: unknown", 417, field(b"Expect: magic")
    yield "expect: a list", 417, field(b"Expect: 100-continue, x")
    yield "expect: twice", 400, \
        field(b"Expect: 100-continue\r\nExpect: 100-continue")

    # --- too large
    yield "large: the target", 414, target(b"/" + b"a" * 4096)
    yield "large: the query", 414, target(b"/metrics?" + b"a" * 4096)
    yield "large: the request line", 414, target(b"/" + b"a" * 9000)
    yield "large: a request line without end", 414, b"GET /" + b"a" * 20000
    yield "large: a field", 431, field(b"A: " + b"b" * 8192)
    yield "large: a name", 431, field(b"A" * 8192 + b": b")
    yield "large: the head", 431, field((b"A: " + b"b" * 4000 + b"\r\n") * 5)
    yield "large: fields", 431, field(b"\r\n".join(
        b"A%d: b" % i for i in range(100)))
    yield "large: empty fields", 431, field(b"\r\n".join([b"A:"] * 4000))
    yield "large: the body", 413, length(b" 262145", b"{}")
    yield "large: a body for ever", 413, length(b" 922337203685477579", b"{}")
    yield "large: chunks", 413, chunks(
        (b"10000\r\n" + b" " * 65536 + b"\r\n") * 5)

    # --- other protocols
    yield "other: HTTP/2", 505, \
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"
    yield "other: TLS", 400, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
    yield "other: SSH", 400, b"SSH-2.0-OpenSSH_9.2\r\n\r\n"
    yield "other: SOCKS", 400, b"\x05\x01\x00"
    yield "other: PROXY", 400, \
        b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n" + GET + b"\r\n"
    yield "other: JSON", 400, b'{"a": "b"}\r\n\r\n'
    yield "other: noise", 400, bytes(range(256)) * 8


class Server:
    """One api for all tests of this file."""

    def __init__(self):
        self.port = tcp.free_port()
        self.api = fake_warden.Api(listen=f"127.0.0.1:{self.port}")
        key = self.api.api("POST", "/v1/keys", {"name": "x", "scope": "admin",
                                                 "project": "*"})
        self.auth = f"Authorization: Bearer {key.json['key']}\r\n".encode()

    def connect(self, kind):
        if kind == "tcp":
            return tcp.connect(self.port)
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(30 * SLOW)
        s.connect(self.api.sock)
        return s


def statuses(answer):
    return [int(x) for x in re.findall(rb"^HTTP/1\.1 (\d{3}) ", answer, re.M)]


class CorpusCase(unittest.TestCase):
    def setUp(self):
        self.server = server
        self.addCleanup(self.check_alive)

    def check_alive(self):
        self.assertIsNone(server.api.proc.poll())

    def talk(self, kind, data):
        with self.server.connect(kind) as s:
            return tcp.raw(s, data)

    def with_key(self, data):
        """The body of these is looked at: over TCP they need a key."""
        return data.replace(b"POST /v1/sandboxes HTTP/1.1\r\n",
                            b"POST /v1/sandboxes HTTP/1.1\r\n" +
                            self.server.auth, 1)


class Refusals(CorpusCase):
    def check(self, kind):
        n = 0
        for name, status, data in corpus():
            n += 1
            with self.subTest(name):
                if kind == "tcp" and (b"Transfer" in data or b"Length" in data):
                    data = self.with_key(data)
                got = self.talk(kind, data + SMUGGLED)
                self.assertEqual(statuses(got), [status], (data[:300], got))
                self.assertIn(b"\r\nConnection: close\r\n", got)
                self.assertIn(b'"request_id"', got)
        self.assertGreaterEqual(n, 150)
        self.assertEqual(self.server.api.warden.boxes, {})

    def test_unix(self):
        self.check("unix")

    def test_tcp(self):
        self.check("tcp")

    def test_byte_by_byte(self):
        """The same verdict when the bytes do not come at once."""
        for name, status, data in list(corpus())[::7]:
            if len(data) > 600:
                continue
            with self.subTest(name), self.server.connect("tcp") as s:
                if b"Transfer" in data or b"Length" in data:
                    data = self.with_key(data)
                try:
                    for c in data:
                        s.send(bytes([c]))
                except OSError:
                    pass
                self.assertEqual(statuses(tcp.raw(s, SMUGGLED)), [status], data)


class Accepted(CorpusCase):
    """What looks odd and is fine, so that the rules above are not too many."""

    def check(self, kind, data, status):
        got = self.talk(kind, data)
        self.assertEqual(statuses(got), status, (data[:300], got))

    def test_accepted(self):
        close = b"Connection: close\r\n\r\n"
        for kind in ("unix", "tcp"):
            ok = GET + self.server.auth
            post = POST + self.server.auth
            for data, status in (
                    (ok + close, 200),
                    (ok + b"A:\r\n" + close, 200),
                    (ok + b"A:b\r\nA: b\t\r\nA:\t b \r\n" + close, 200),
                    (ok + b"!#$%&'*+-.^_`|~09azAZ: x\r\n" + close, 200),
                    (ok + b"A: \xc3\xa4\xff\tb\r\n" + close, 200),
                    (ok + b"A: " + b"b" * 8000 + b"\r\n" + close, 200),
                    (ok.replace(b"/metrics", b"/metrics?a=%20&b=[x]") + close, 200),
                    (ok.replace(b"/metrics", b"/%6detrics") + close, 200),
                    (ok.replace(b"HTTP/1.1", b"HTTP/1.0") + b"\r\n", 200),
                    (ok + b"Content-Length: 0\r\n" + close, 200),
                    (ok + b"Content-Length: 0000\r\n" + close, 200),
                    (ok + b"Expect: 100-Continue\r\n" + close, 200),
                    (post + b"Transfer-Encoding: Chunked\r\n" + close +
                     b"00002\r\n{\"\r\n1\r\nx\r\n0\r\n\r\n", 400),
                    (post + b"transfer-encoding:chunked\t\r\n" + close +
                     b"4\r\n{\"a\"\r\n0\r\n\r\n", 400),
                    (post + b"Content-Length: 2\r\n" + close + b"[]", 400)):
                with self.subTest(kind=kind, data=data[:200]):
                    self.check(kind, data, [status])


class Pipelines(CorpusCase):
    def test_in_order(self):
        for kind in ("unix", "tcp"):
            ok = GET + self.server.auth + b"\r\n"
            missing = ok.replace(b"/metrics", b"/nothing")
            last = ok[:-2] + b"Connection: close\r\n\r\n"
            got = self.talk(kind, ok + missing + ok + missing + last)
            self.assertEqual(statuses(got), [200, 404, 200, 404, 200])

    def test_bodies_between(self):
        """A body that nobody wants is not taken for a request."""
        for kind in ("unix", "tcp"):
            inner = GET + self.server.auth + b"\r\n"
            outer = (b"GET /nothing HTTP/1.1\r\n" + HOST + self.server.auth +
                     b"Content-Length: %d\r\n\r\n" % len(inner) + inner)
            last = inner[:-2] + b"Connection: close\r\n\r\n"
            got = self.talk(kind, outer + outer + last)
            self.assertEqual(statuses(got), [404, 404, 200])
            chunked = (b"GET /nothing HTTP/1.1\r\n" + HOST + self.server.auth +
                       b"Transfer-Encoding: chunked\r\n\r\n%x\r\n" % len(inner) +
                       inner + b"\r\n0\r\n\r\n")
            # Its end is not looked for: the connection ends instead.
            self.assertEqual(statuses(self.talk(kind, chunked + last)), [404])

    def test_bad_second(self):
        bad = {400: b"GET / HTTP/1.1\r\n\r\n", 505: line(b"GET / HTTP/2.0"),
               501: coding(b"Transfer-Encoding: gzip"),
               431: field(b"A: " + b"b" * 9000), 414: target(b"/" + b"a" * 5000)}
        for kind in ("unix", "tcp"):
            ok = GET + self.server.auth + b"\r\n"
            for status, second in bad.items():
                got = self.talk(kind, ok + second + ok)
                self.assertEqual(statuses(got), [200, status])

    def test_behind_the_last(self):
        """After "close", and after an HTTP/1.0 request, nothing counts."""
        for kind in ("unix", "tcp"):
            ok = GET + self.server.auth
            for first in (ok + b"Connection: close\r\n\r\n",
                          ok + b"Connection: x, Close\r\n\r\n",
                          ok.replace(b"1.1", b"1.0") + b"\r\n"):
                self.assertEqual(statuses(self.talk(kind, first + SMUGGLED)),
                                 [200])

    def test_many(self):
        """Thousands in one write: bounded memory, every answer in order."""
        ok = GET + self.server.auth + b"\r\n"
        last = ok[:-2] + b"Connection: close\r\n\r\n"
        before = self.server.api.rss()
        got = self.talk("tcp", ok * 300 + last)
        self.assertEqual(statuses(got), [200] * 301)
        # A sanitizer keeps what was freed for a while.
        most = (4 << 20) * (8 if harness.SANITIZED else 1)
        self.assertLess(self.server.api.rss() - before, most)

    def test_in_pieces(self):
        """Heads that are cut anywhere."""
        ok = GET + self.server.auth + b"\r\n"
        with self.server.connect("tcp") as s:
            data = ok * 3 + ok[:-2] + b"Connection: close\r\n\r\n"
            for at in range(0, len(data), 23):
                s.sendall(data[at:at + 23])
                time.sleep(0.001)
            self.assertEqual(statuses(tcp.raw(s, b"")), [200] * 4)


if __name__ == "__main__":
    server = Server()
    try:
        harness.main()
    finally:
        server.api.stop()
