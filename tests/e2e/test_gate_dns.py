# suite: both
"""Names inside a sandbox: answered from its policies, and nobody is asked. And
policies that change under what is open, or are learned from what was done."""

import ctypes
import json
import os
import socket
import ssl
import struct
import threading
import time

import harness
from harness import SLOW, wait_for
from internet import Internet

A, AAAA, HTTPS, OPT = 1, 28, 65, 41
NXDOMAIN = 3
_libc = ctypes.CDLL(None, use_errno=True)


def labels(name):
    return b"".join(bytes([len(x)]) + x for x in name.split(b".") if x) + b"\0"


def question(name, kind=A, edns=True, raw=None):
    """A query; `raw`: the name as it is sent."""
    raw = raw or labels(name.encode())
    out = struct.pack("!HHHHHH", 0x4242, 0x100, 1, 0, 0, edns) + raw
    out += struct.pack("!HH", kind, 1)
    return out + (struct.pack("!BHHIH", 0, OPT, 1232, 0, 0) if edns else b"")


class Answer:
    """Code, address (None: none) and reason of an answer to a question."""

    def __init__(self, query, raw):
        n = query.index(b"\0", 12) + 5
        flags, qd, an, ns, ar = struct.unpack_from("!HHHHH", raw, 2)
        assert raw[:2] == query[:2] and flags & 0x8000, raw
        assert raw[12:n] == query[12:n] and (qd, ns) == (1, 0), raw
        self.code, self.address, self.why = flags & 15, None, None
        if an:
            kind, _, self.ttl, size = struct.unpack_from("!HHIH", raw, n + 2)
            assert (kind, size) == (A, 4), raw
            self.address = socket.inet_ntoa(raw[n + 12:n + 16])
            n += 16
        if ar and len(raw) > n + 11:
            option, size, code = struct.unpack_from("!HHH", raw, n + 11)
            assert (option, code) == (15, 15), raw
            self.why = raw[n + 17:n + 15 + size].decode()

    def __repr__(self):
        return f"<{self.code} {self.address} {self.why}>"


class Case(harness.Case):
    @classmethod
    def setUpClass(cls):
        cls.net = Internet()
        cls.api = cls.net.web("api.test")
        cls.db = cls.net.tcp("db.test", 5432)
        cls.raw = cls.net.tcp("raw.test", 7000)
        cls.CONF = cls.net.conf
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.net.close()

    def tearDown(self):
        super().tearDown()
        for p in self.i.api("GET", "/v1/policies").json["policies"]:
            self.i.api("DELETE", f"/v1/policies/{p['name']}")

    def set(self, name, text):
        r = self.i.api("PUT", f"/v1/policies/{name}", text.encode())
        self.assertEqual(r.status, 200, r)

    def socket(self, *args, timeout=10):
        """A socket of the network of the one sandbox there is."""
        here = os.readlink("/proc/self/ns/net")
        pid = next(p for p in self.i.box_pids()
                   if os.readlink(f"/proc/{p}/ns/net") != here)
        got = []

        def body():
            fd = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
            if _libc.setns(fd, 0) == 0:
                got.append(socket.socket(*args))
            os.close(fd)
        t = threading.Thread(target=body)
        t.start()
        t.join()
        got[0].settimeout(timeout * SLOW)
        self.addCleanup(got[0].close)
        return got[0]

    def ask(self, name, kind=A, to="127.0.0.1", **kw):
        six = ":" in to
        s = self.socket(socket.AF_INET6 if six else socket.AF_INET,
                        socket.SOCK_DGRAM)
        # What does not come from there is not heard.
        s.connect((to, 53))
        q = question(name, kind, **kw)
        s.send(q)
        return Answer(q, s.recv(4096))

    def connect(self, host, port):
        s = self.socket(socket.AF_INET, socket.SOCK_STREAM)
        s.connect((self.ask(host).address, port))
        return s

    def proxy(self, target):
        """The status of a CONNECT."""
        s = self.socket(socket.AF_INET, socket.SOCK_STREAM)
        s.connect(("127.0.0.1", 3128))
        if isinstance(target, str):
            target = target.encode()
        s.sendall(b"CONNECT " + target + b" HTTP/1.1\r\nHost: " + target +
                  b"\r\n\r\n")
        return s, s.recv(4096).decode("latin-1")

    def entries(self, box, kind):
        r = self.i.api("GET", f"/v1/sandboxes/{box}/log?type={kind}")
        return [json.loads(x)["data"] for x in r.body.splitlines()]


class Names(Case):
    def test_answers(self):
        self.set("research", "allow GET api.test/x\nask * *.ask.test\n")
        box = self.i.create(policy="research", rules=["allow tcp db.test:5432"])
        n = len(self.net.names.queries)
        got = self.ask("api.test")
        self.assertEqual((got.code, got.ttl, got.why), (0, 60, None))
        self.assertIn(got.address.split(".")[:2], (["198", "18"], ["198", "19"]))
        self.assertEqual(self.ask("API.Test", edns=False).address, got.address)
        others = {self.ask(x).address for x in ("db.test", "a.ask.test")}
        self.assertEqual(len(others | {got.address}), 3)
        # Wherever the question goes, the answer comes from there.
        for to in ("198.51.100.9", "127.0.0.1", "2001:db8::9", "10.0.0.1",
                   "169.254.169.254"):
            self.assertEqual(self.ask("api.test", to=to).address, got.address)
        for kind in (AAAA, HTTPS, 16, 255):
            a = self.ask("api.test", kind)
            self.assertEqual((a.code, a.address), (0, None), a)
        a = self.ask("else.test")
        self.assertEqual((a.code, a.address), (NXDOMAIN, None))
        self.assertRegex(a.why, "^no rule of .*, policy research allows it$")
        for name in ("ask.test", "data.attacker.test", "evilapi.test"):
            self.assertEqual(self.ask(name).code, NXDOMAIN, name)
        self.assertEqual(self.ask("localhost").address, "127.0.0.1")
        # A resolver of a real library.
        r = self.i.sh(box, "nslookup api.test; nslookup else.test")
        self.assertIn(f"Address: {got.address}", r.out)
        self.assertIn("NXDOMAIN", r.out + r.err)
        self.assertEqual(self.net.names.queries[n:], [])
        wait_for("it is in the log", lambda: any(
            d.get("host") == "else.test" and d["kind"] == "dns"
            for d in self.entries(box, "egress.denied")), 20)

    def test_only_names(self):
        """G8: nothing but questions passes, and nothing of them leaves."""
        self.i.create(rules=["allow * api.test"])
        n = len(self.net.names.queries)
        self.ask("api.test")  # it is up
        for port in (5353, 123, 443):
            s = self.socket(socket.AF_INET, socket.SOCK_DGRAM)
            s.connect(("203.0.113.1", port))
            with self.assertRaises(ConnectionRefusedError):
                for _ in range(2):
                    s.send(b"x" * 40)
                    s.recv(10)
        # By TCP: taken by the door, which knows no such words.
        s = self.socket(socket.AF_INET, socket.SOCK_STREAM)
        s.connect(("203.0.113.1", 53))
        q = question("api.test")
        s.sendall(struct.pack("!H", len(q)) + q)
        try:
            self.assertNotIn(b"api", s.recv(4096)[:20])
        except ConnectionResetError:
            pass
        # What is no question has no answer, or one that says so.
        s = self.socket(socket.AF_INET, socket.SOCK_DGRAM)
        s.connect(("127.0.0.1", 53))
        s.send(b"\0" * 5)
        s.send(b"\xff" * 600)
        s.send(question("api.test") + b"more")
        self.assertEqual(s.recv(4096)[3] & 15, 1)
        for raw in (b"\3api\xc0\x0c\0", b"\x05a.b.c\4test\0"):
            s.send(question("", raw=raw))
            self.assertIn(s.recv(4096)[3] & 15, (1, 3))
        self.assertEqual(self.net.names.queries[n:], [])

    def test_spellings(self):
        """H11 to H13, G9: one spelling, or refused; nobody is asked."""
        self.i.create(rules=["allow * *.api.test", "allow * api.test"])
        n = len(self.net.names.queries)
        long = "a" * 64
        for name, code in (
                ("API.test", 0), ("api.test.", 0), ("a.b.api.test", 0),
                ("under_score.api.test", 0), ("xn--caf-dma.api.test", 0),
                ("evilapi.test", NXDOMAIN), ("api.test.evil.test", NXDOMAIN),
                ("-.api.test", NXDOMAIN), ("a b.api.test", NXDOMAIN),
                ("caf\u00e9.api.test", NXDOMAIN),
                ("api\u3002test", NXDOMAIN), ("127.0.0.1", NXDOMAIN),
                ("0x7f.1", NXDOMAIN)):
            self.assertEqual(self.ask(name).code, code, name)
        for target, status in (
                ("data.attacker.test:443", 403), ("evilapi.test:443", 403),
                ("api.test.evil.test:443", 403), ("api..test:443", 400),
                (".api.test:443", 400), ("api.test..:443", 400),
                (f"{long}.api.test:443", 400), ("caf\u00e9.api.test:443", 400),
                ("api\uff0etest:443", 400), ("-.api.test:443", 400),
                ("0x7f.1:443", 400), ("127.1:443", 400),
                ("api.test:", 400), ("api.test", 400), ("api.test:0", 400)):
            answer = self.proxy(target)[1]
            self.assertEqual(answer[9:12], str(status), (target, answer))
        self.assertEqual(self.net.names.queries[n:], [])
        s, answer = self.proxy("API.Test.:443")
        self.assertEqual(answer[9:12], "200", answer)

    def test_presets(self):
        self.i.create(allow=["none", "debian"])
        self.assertEqual(self.ask("api.test").why,
                         "no rule of preset none, preset debian allows it")
        self.assertIn("denied by preset none, line 2",
                      self.proxy("api.test:443")[1])

    def test_no_door(self):
        box = self.i.create()
        r = self.i.sh(box, "nslookup api.test 127.0.0.1; "
                      "wget -T 5 -O - http://203.0.113.10/")
        self.assertNotEqual(r.returncode, 0)
        self.assertIn("refused", r.out + r.err)

    def test_addresses_stay(self):
        """A door that is started anew knows the names behind addresses."""
        self.i.create(rules=["allow tcp db.test:5432"])
        before = self.ask("db.test").address
        self.connect("db.test", 5432)
        for pid in self.i.pids()["carrel-gate"]:
            try:
                os.kill(pid, 9)
            except ProcessLookupError:
                pass

        def again():
            s = self.socket(socket.AF_INET, socket.SOCK_STREAM, timeout=5)
            s.connect((before, 5432))
            s.sendall(b"again")
            try:
                return s.recv(5) == b"again"
            except OSError:
                return False
        wait_for("the address means the same", again, 40)
        self.assertEqual(self.ask("db.test").address, before)


class Change(Case):
    def ends(self, s):
        """Within a second, says G14; machines are shared."""
        began = time.monotonic()
        try:
            self.assertEqual(s.recv(100), b"")
        except ConnectionResetError:
            pass
        self.assertLess(time.monotonic() - began, 15 * SLOW)

    def test_hot(self):
        """G14: what was allowed when it was opened ends when it is not."""
        self.set("p", "allow tcp db.test:5432\nallow * https://api.test")
        self.i.create(policy="p")
        raw = self.connect("db.test", 5432)
        tunnel, answer = self.proxy("api.test:443")
        self.assertEqual(answer[9:12], "200", answer)
        raw.sendall(b"hello")
        self.assertEqual(raw.recv(5), b"hello")
        # A change that leaves it alone.
        self.set("p", "# the same\nallow tcp db.test:5432\n"
                 "allow * https://api.test\nallow * other.test")
        wait_for("it is in force", lambda: self.ask("other.test").code == 0, 10)
        raw.sendall(b"still")
        self.assertEqual(raw.recv(5), b"still")
        self.set("p", "allow * https://api.test")
        self.ends(raw)
        self.assertEqual(self.ask("db.test").code, NXDOMAIN)
        self.set("p", "deny *")
        self.ends(tunnel)
        self.assertEqual(self.proxy("api.test:443")[1][9:12], "403")
        self.assertEqual(self.proxy("api.test:443")[1].count(
            "policy p, line 1"), 1)

    def test_in_use(self):
        self.set("p", "deny *")
        box = self.i.create(policy="p")
        r = self.i.api("DELETE", "/v1/policies/p")
        self.assertEqual((r.status, r.json["error"]), (409, "busy"), r)
        self.assertIn(box, r.json["message"])
        r = self.i.api("PATCH", f"/v1/sandboxes/{box}",
                       json.dumps({"policy": "q"}))
        self.assertEqual(r.status, 400, r)
        self.assertIn("no policy 'q'", r.json["message"])
        self.i.rm(box)
        self.assertEqual(self.i.api("DELETE", "/v1/policies/p").status, 204)

    def test_learn(self):
        """What a sandbox did while it was observed is a policy."""
        box = self.i.create(observe=True, rules=["allow tcp db.test:5432"])
        r = self.i.sh(box, "wget -q -O - http://api.test/a; "
                      "unset http_proxy; "
                      "wget -q -O - --post-data x http://api.test/b%20c?d")
        self.assertIn('"target": "/a"', r.out)
        self.connect("db.test", 5432)
        raw = self.connect("raw.test", 7000)
        raw.sendall(b"neither\nnor\n")
        self.assertEqual(raw.recv(12), b"neither\nnor\n")
        ctx = ssl.create_default_context()
        ctx.check_hostname, ctx.verify_mode = False, ssl.CERT_NONE
        with ctx.wrap_socket(self.connect("api.test", 443),
                             server_hostname="api.test") as tls:
            tls.sendall(b"PUT /s HTTP/1.1\r\nHost: api.test\r\n"
                        b"Content-Length: 1\r\n\r\nx")
            self.assertIn(b"200", tls.recv(4096))
        wait_for("it is in the log", lambda: len(
            self.entries(box, "egress.observed")) >= 4 and
            self.entries(box, "egress.request"), 20)
        text = self.i.cli("policy", "learn", box, check=0).out
        self.assertEqual(text.splitlines(), [
            "allow tcp db.test:5432", "allow GET http://api.test/a",
            "allow POST http://api.test/b*c", "allow PUT https://api.test/s",
            "allow tcp raw.test:7000"])
        short = self.i.cli("policy", "learn", "--any-path", box, check=0).out
        self.assertIn("allow GET,POST http://api.test\n", short)
        # It is one, and allows just that.
        self.set("learned", text)
        again = self.i.create(policy="learned", allow=["debian"])
        for url, code, says in (
                ("http://api.test/a", 0, "allow: policy learned, line 2: "
                 "allow GET http://api.test/a"),
                ("http://a.debian.org/", 0, "allow: preset debian, line 2: "
                 "allow GET,HEAD *.debian.org"),
                ("http://api.test/z", 1, "deny: no rule matches")):
            r = self.i.cli("policy", "test", "--sandbox", again, url)
            self.assertEqual((r.returncode, r.out), (code, says + "\n"), r.err)
        r = self.i.sh(again, "wget -q -O - http://api.test/a; "
                      "wget -O - http://api.test/z")
        self.assertIn('"target": "/a"', r.out)
        self.assertIn("403", r.err)


if __name__ == "__main__":
    harness.main()
