"""The door where several share it, or read the same bytes: connections and
sessions outside (H32), answers that grow when they are unpacked (H36),
placeholders in tunnels (H42), what can be said by choosing (H43), and other
parsers than ours (H44)."""

import collections
import gzip
import http.client
import io
import json
import os
import random
import re
import socket
import subprocess
import urllib.parse

import harness
from harness import TOP, wait_for
from internet import Inside, Internet, answer

RULES = ["allow * https://api.test/x*", "allow * http://api.test/x*",
         "allow * https://tunnel.test"]
TOKEN = "tok-5c21d9e07b3f4a68-secret"


class Shared(harness.Case):
    @classmethod
    def setUpClass(cls):
        cls.net = Internet()
        cls.api = cls.net.web("api.test")
        cls.opaque = cls.net.web("tunnel.test")
        cls.CONF = dict(cls.net.conf)
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.net.close()

    def setUp(self):
        for w in (self.api, self.opaque):
            w.handler = w.raw = None
            w.requests.clear()
            w.accepted.clear()

    def inside(self, **spec):
        w = Inside(self.i, self.i.create(**{"rules": RULES, **spec}))
        self.addCleanup(w.close)
        return w

    def secure(self, w, name="api.test", **kw):
        s, r = w.tunnel(name)
        self.assertEqual(r.status, 200, r)
        return w.tls(s, name, **kw)

    def doors_kib(self):
        """Private memory of all doors and their keeper."""
        total = 0
        for pid in self.i.pids()["carrel-gate"]:
            text = harness.read(f"/proc/{pid}/smaps_rollup", "")
            total += sum(int(n) for n in re.findall(
                r"^Private_(?:Dirty|Clean): +(\d+)", text, re.M))
        return total

    def test_connections_are_of_one_sandbox(self):
        """H32: two that ask the same server, in turn, over connections that
        are kept: outside each has its own, and no session of another's."""
        self.sessions = []

        def serve(c):
            self.sessions.append((c.session_reused, c.getpeername()))
            reader = c.makefile("rb")
            while True:
                head = b""
                while not head.endswith(b"\r\n\r\n"):
                    line = reader.readline()
                    if not line:
                        return
                    head += line
                who = re.search(rb"x-who: (\w+)", head, re.I)[1]
                seen[c.getpeername()].add(who)
                c.sendall(answer(who))
        seen = collections.defaultdict(set)
        self.api.raw = serve
        pair = [self.inside(), self.inside()]
        for _ in range(2):
            kept = [self.secure(w) for w in pair]
            for _ in range(5):
                for k, s in enumerate(kept):
                    r = pair[k].get("/x", fields=[("Host", "api.test"), (
                        "X-Who", f"box{k}")], sock=s)
                    self.assertEqual(r.text, f"box{k}")
            for s in kept:
                s.close()
        self.assertEqual(len(seen), 4, seen)
        self.assertTrue(all(len(who) == 1 for who in seen.values()), seen)
        self.assertEqual([reused for reused, _ in self.sessions], [False] * 4)

    def test_packed_answers_stay_packed(self):
        """H36: 256 MiB of nothing in 256 KiB, twice packed. It passes as it
        is, and nobody here unpacks it, also where answers are looked at for
        credentials."""
        bomb = gzip.compress(gzip.compress(bytes(256 << 20), 9), 9)
        plain = gzip.compress(bytes(64 << 20), 9)
        self.i.cli("secret", "set", "bomb", "--host", "api.test", "--header",
                   "Authorization: Bearer {}", input=TOKEN, check=0)
        self.addCleanup(self.i.cli, "secret", "rm", "bomb")
        w = self.inside(secrets=["bomb"])
        before = None
        for coding, body in (("gzip", b"x"), ("gzip", plain), ("gzip", bomb),
                             ("br", plain), ("zstd", plain),
                             ("deflate, gzip", bomb)):
            self.api.handler = lambda r, c=coding, b=body: answer(
                b, fields=[("Content-Encoding", c)])
            r = self.at(w, "/x")
            # What cannot be looked at is refused, or passes as it is.
            if r.status == 200:
                self.assertEqual(r.body, body, coding)
            else:
                self.assertEqual(r.status, 502, r)
            before = before or self.doors_kib()
        self.assertLess(self.doors_kib() - before, 8 * 1024)

    def at(self, w, path):
        s = self.secure(w)
        try:
            return w.get(path, fields=[("Host", "api.test")], sock=s)
        finally:
            s.close()

    def test_placeholder_in_a_tunnel(self):
        """H42: where nobody looks, a placeholder is only a word."""
        self.i.cli("secret", "set", "held", "--host", "api.test", "--header",
                   "Authorization: Bearer {}", input=TOKEN, check=0)
        self.addCleanup(self.i.cli, "secret", "rm", "held")
        w = self.inside(secrets=["held"])
        box = self.i.ids()[-1]
        env = self.i.sh(box, "env").out
        words = {v for v in re.findall(r"^\w+=(\S{16,})$", env, re.M)}
        sent = " ".join(sorted(words)) + " held"
        with open(self.net.ca.cert) as f:
            s = self.secure(w, "tunnel.test", ca=f.read())
        r = w.get("/x", "POST", [("Host", "tunnel.test")], sent.encode(), s)
        self.assertEqual(r.status, 200, r)
        got, = self.opaque.requests
        self.assertEqual(got.body.decode(), sent)
        self.assertNotIn(TOKEN, got.raw.decode("latin-1"))

    def test_what_can_be_said_by_choosing(self):
        """H43: a sandbox that may ask four hosts says two bits with each
        request, whatever is in it. A rate is what bounds that."""
        names = [f"n{k}.wide.test" for k in range(4)]
        webs = [self.net.web(n) for n in names]
        w = self.inside(rules=["allow * http://*.wide.test",
                               "budget requests 20/h"])
        secret = [random.Random(7).randrange(4) for _ in range(100)]
        for digit in secret:
            w.get(f"http://{names[digit]}/")
        heard = sum(len(web.requests) for web in webs)
        self.assertEqual(heard, 20)
        print(f"# H43: {2 * heard} bits of {2 * len(secret)} got out in an "
              "hour", flush=True)


# --- H44 ---

SEEDS = [
    b"GET http://api.test/a HTTP/1.1\r\nHost: api.test\r\n\r\n",
    b"POST http://api.test/b?q=1 HTTP/1.1\r\nHost: api.test\r\n"
    b"Content-Length: 5\r\n\r\nhello",
    b"PUT http://api.test/c%20d HTTP/1.1\r\nHost: api.test\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    b"DELETE http://api.test/x/../y HTTP/1.1\r\nHost: api.test\r\n"
    b"X-A: 1\r\nConnection: keep-alive\r\n\r\n",
    b"HEAD http://api.test/e HTTP/1.1\r\nHost: api.test\r\nAccept: */*\r\n\r\n",
]
PIECES = [
    b"\r\n", b"\n", b"\r", b" ", b"\t", b"\0", b":", b",", b";", b"%", b"%2f",
    b"%00", b"/", b"//", b"/../", b"\\", b"?", b"#", b"@", b"0", b"1", b"-1",
    b"+5", b"0x5", b"5, 5", b"chunked", b"identity", b"Content-Length: 3\r\n",
    b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n",
    b"Transfer-Encoding : chunked\r\n", b"Transfer-Encoding: x\r\n",
    b"Host: evil.test\r\n", b"Host: api.test\r\n", b" HTTP/1.1", b"HTTP/1.0",
    b"HTTP/2.0", b"GET ", b"http://evil.test/", b"http://api.test@evil.test/",
    b"X: y\r\n z\r\n", b"\xff", b"\xc3\xa9", b"Expect: 100-continue\r\n",
    b"Upgrade: x\r\nConnection: upgrade\r\n",
]


def mutants(n, seed=20):
    """Requests that are nearly right, always the same ones."""
    rnd = random.Random(seed)
    for _ in range(n):
        data = bytearray(rnd.choice(SEEDS))
        for _ in range(rnd.choice((0, 1, 1, 1, 2, 2, 3))):
            at = rnd.randrange(len(data) + 1)
            what = rnd.randrange(4)
            if what == 0:
                data[at:at] = rnd.choice(PIECES)
            elif what == 1:
                del data[at:at + rnd.randrange(1, 4)]
            elif what == 2 and at < len(data):
                data[at] ^= 1 << rnd.randrange(8)
            else:
                end = min(len(data), at + rnd.randrange(1, 12))
                data[at:at] = data[at:end]
        yield bytes(data)


class Parsers(harness.Case):
    """H44: what the gate decides about is what a server reads. Mutated
    requests go through the gate; what it sends on is given to Node's parser and
    to Python's, and both must have read what the log says was allowed."""
    N = int(os.environ.get("GATE_MUTANTS", "5000"))

    @classmethod
    def setUpClass(cls):
        cls.net = Internet()
        cls.api = cls.net.web("api.test")
        cls.CONF = dict(cls.net.conf)
        super().setUpClass()
        cls.node_sock = f"{cls.i.dir}/parse.sock"
        cls.node = subprocess.Popen(
            ["node", f"{TOP}/tests/clients/parse.js", cls.node_sock])
        wait_for("node", lambda: os.path.exists(cls.node_sock), 30)

    @classmethod
    def tearDownClass(cls):
        cls.node.kill()
        cls.node.wait()
        super().tearDownClass()
        cls.net.close()

    def node_reads(self, raw):
        """All requests that Node's server sees in these bytes."""
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(20)
        s.connect(self.node_sock)
        s.sendall(raw)
        s.shutdown(socket.SHUT_WR)
        out = b""
        while got := s.recv(65536):
            out += got
        s.close()
        return [json.loads(x) for x in re.findall(rb'X-Read: (.*)\r\n', out)]

    @staticmethod
    def python_reads(raw):
        """One request, by the parser of Python's library."""
        head, _, body = raw.partition(b"\r\n\r\n")
        line, _, fields = head.partition(b"\r\n")
        method, target, _ = line.decode("latin-1").split(" ")
        parsed = http.client.parse_headers(io.BytesIO(
            fields + b"\r\n\r\n"))
        n = len(body)
        if parsed.get("Transfer-Encoding"):
            n = sum(int(x, 16) for x in re.findall(
                rb"(?:^|\r\n)([0-9a-f]+)\r\n", body))
        return {"method": method, "target": target, "host": parsed["Host"],
                "body": n}

    def decided(self, box):
        """(method, host, path) of all that was allowed."""
        top = f"{self.i.state_dir}/audit"
        lines = b"".join(open(f"{top}/{name}", "rb").read()
                         for name in sorted(os.listdir(top))
                         if name.endswith(".log")).split(b"\n")[:-1]
        found = [json.loads(x) for x in lines if box.encode() in x]
        found = [e for e in found if e["type"] == "egress.request"]
        return [(e["data"]["method"], e["data"]["host"], e["data"]["path"])
                for e in found]

    def test_same_request_for_all(self):
        box = self.i.create(rules=["allow * http://api.test/*"])
        w = Inside(self.i, box)
        self.addCleanup(w.close)
        for data in mutants(self.N):
            s = w.connect()
            try:
                s.sendall(data)
                s.shutdown(socket.SHUT_WR)
                while s.recv(65536):
                    pass
            except OSError:
                pass
            s.close()
        seen = list(self.api.requests)
        passed = len(seen)
        self.assertGreater(passed, self.N // 10)
        both, read = 0, collections.Counter()
        for r in seen:
            python, node = self.python_reads(r.raw), self.node_reads(r.raw)
            path = urllib.parse.unquote(python["target"].split("?")[0])
            read[python["method"], python["host"], path] += 1
            self.assertEqual(python["body"], len(r.body), r.raw)
            # Node knows a list of methods, and refuses all others.
            if node:
                self.assertEqual(node, [python], r.raw)
                both += 1
        # Those whose body was cut are decided about, and become no request.
        wait_for("all that was read was decided about", lambda: not (
            read - collections.Counter(self.decided(box))), 20)
        self.assertGreater(both, passed * 3 // 4)
        print(f"# H44: {passed} of {self.N} mutants passed, {both} were read by "
              "both, all as they were decided about", flush=True)


if __name__ == "__main__":
    harness.main()
