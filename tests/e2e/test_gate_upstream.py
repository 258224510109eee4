# suite: both
"""The gate's way to servers outside: which addresses it refuses, whom it asks
for names, whose certificates it believes, and how it passes a proxy."""

import ctypes
import os
import socket
import ssl
import threading

import harness
from harness import SLOW
from internet import HOST4, HOST6, Authority, Internet, answer

CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)

# Names that some rule allows, and what they turn out to be.
FORBIDDEN = {
    "private.test": ["10.1.2.3"], "lan.test": ["192.168.1.1"],
    "loopback.test": ["127.0.0.1"], "zero.test": ["0.0.0.0"],
    "link.test": ["169.254.7.7"], "metadata.test": ["169.254.169.254"],
    "alibaba.test": ["100.100.100.200"], "provider.test": ["100.64.0.1"],
    "multicast.test": ["224.0.0.1"], "broadcast.test": ["255.255.255.255"],
    "synthetic.test": ["198.18.0.7"],
    "host4.test": [HOST4], "host6.test": [HOST6],
    "loopback6.test": ["::1"], "link6.test": ["fe80::1"],
    "private6.test": ["fd00::1"], "metadata6.test": ["fd00:ec2::254"],
    "mapped.test": ["::ffff:127.0.0.1"], "compatible.test": ["::127.0.0.1"],
    "nat64.test": ["64:ff9b::7f00:1"], "sixtofour.test": ["2002:7f00:1::"],
    "teredo.test": ["2001:0:7f00:1::"],
}
GOOD = ["api", "alias", "both", "rebind", "six", "mixed", "none", "named",
        "closed"]
RULES = [f"allow * http://{n}" for n in FORBIDDEN] + \
    [f"allow * http://{n}.test" for n in GOOD] + \
    [f"allow GET https://{n}.test/*" for n in
     ("api", "expired", "wrong", "unknown", "authority", "notls")] + \
    ["allow * http://[2001:db8:113::50]", "allow * http://10.8.8.8",
     "allow * http://host4.test:8099", "private 10.9.9.0/24",
     "allow * http://far.test", "allow GET https://far.test/*"]


class Answer:
    def __init__(self, raw):
        head, _, self.body = raw.partition(b"\r\n\r\n")
        self.raw, lines = raw, head.decode("latin-1").split("\r\n")
        self.status = int(lines[0].split(" ")[1]) if lines[0] else 0
        self.text = self.body.decode("latin-1")


class Base(harness.Case):
    @classmethod
    def setUpClass(cls):
        cls.net = Internet()
        cls.CONF = {**cls.net.conf}
        cls.i = None
        try:
            super().setUpClass()
            cls.servers()
            cls.i.create(name="box", rules=RULES)
            cls.pid = max(cls.i.box_pids())
        except BaseException:
            if cls.i:
                cls.i.stop(check=False)
            cls.net.close()
            raise

    @classmethod
    def tearDownClass(cls):
        try:
            super().tearDownClass()
        finally:
            cls.net.close()

    def tearDown(self):
        pass  # the sandbox is everybody's

    def connect(self, port=3128):
        """A socket of the sandbox's network."""
        got = []

        def make():
            fd = os.open(f"/proc/{self.pid}/ns/net", os.O_RDONLY)
            try:
                if _libc.setns(fd, CLONE_NEWNET) < 0:
                    raise OSError(ctypes.get_errno(), "setns")
                got.append(socket.create_connection(("127.0.0.1", port),
                                                    20 * SLOW))
            finally:
                os.close(fd)
        t = threading.Thread(target=make)
        t.start()
        t.join()
        return got[0]

    def read_all(self, s):
        raw = b""
        while True:
            got = s.recv(65536)
            if not got:
                return Answer(raw)
            raw += got

    def get(self, host, path="/", port=""):
        """A request for http, as a program does that knows the proxy."""
        with self.connect() as s:
            s.sendall(f"GET http://{host}{port}{path} HTTP/1.1\r\n"
                      f"Host: {host}{port}\r\nConnection: close\r\n\r\n".encode())
            return self.read_all(s)

    def get_tls(self, host, path="/"):
        """The same with https, inspected."""
        with self.connect() as s:
            s.sendall(f"CONNECT {host}:443 HTTP/1.1\r\n"
                      f"Host: {host}:443\r\n\r\n".encode())
            head = b""
            while b"\r\n\r\n" not in head:
                got = s.recv(1)
                if not got:
                    break
                head += got
            if b" 200 " not in head:
                return Answer(head)
            ctx = ssl.create_default_context()
            ctx.check_hostname, ctx.verify_mode = False, ssl.CERT_NONE
            with ctx.wrap_socket(s, server_hostname=host) as t:
                t.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\n"
                          "Connection: close\r\n\r\n".encode())
                return self.read_all(t)


class Upstream(Base):
    @classmethod
    def servers(cls):
        table = cls.net.names.table
        table.update(FORBIDDEN)
        cls.api = cls.net.web("api.test")
        table["alias.test"] = "api.test"
        table["mixed.test"] = [cls.api.address, "10.1.2.3"]
        table["both.test"] = [cls.api.address, "2001:db8:113::51"]
        table["closed.test"] = [cls.net.address()]
        cls.six = cls.net.server("six.test", 80, "2001:db8:113::50")
        cls.named = cls.net.server("named.test", 80, "10.9.9.9")
        cls.net.server(None, 80, "10.8.8.8")

    # -- addresses

    def test_addresses_that_are_nobodys_business(self):
        canary = socket.create_server((HOST4, 80))
        canary.setblocking(False)
        with canary:
            for name, addresses in FORBIDDEN.items():
                with self.subTest(name):
                    got = self.get(name)
                    self.assertEqual(got.status, 403, got.raw)
                    self.assertIn("private", got.text)
            with self.assertRaises(BlockingIOError):
                canary.accept()

    def test_one_bad_address_spoils_the_name(self):
        before = len(self.api.requests)
        got = self.get("mixed.test")
        self.assertEqual(got.status, 403, got.raw)
        self.assertIn("10.1.2.3", got.text)
        self.assertEqual(len(self.api.requests), before)

    def test_a_name_that_changes_its_mind(self):
        answers = [[self.api.address], ["127.0.0.1"]]
        asked = []

        def lookup(kind):
            if kind == 1:
                asked.append(kind)
            return answers[min(len(asked), 2) - 1] if kind == 1 else []
        self.net.names.table["rebind.test"] = lookup
        self.assertEqual(self.get("rebind.test").status, 200)
        got = self.get("rebind.test")
        self.assertEqual(got.status, 403, got.raw)
        self.assertIn("127.0.0.1", got.text)
        self.assertEqual(len(asked), 2)  # once for each connection

    def test_addresses_in_a_request(self):
        self.assertEqual(self.get("[2001:db8:113::50]").status, 200)
        # A rule that names an address names it as a private one as well.
        self.assertEqual(self.get("10.8.8.8").status, 200)
        for host in ("127.0.0.1", "169.254.169.254", "[::1]",
                     "[::ffff:127.0.0.1]", "0x7f.1", "2130706433"):
            with self.subTest(host):
                self.assertIn(self.get(host).status, (400, 403))

    def test_private_that_a_policy_names(self):
        got = self.get("named.test")
        self.assertEqual(got.status, 200, got.raw)
        self.assertEqual(self.named.requests[-1].header("Host"), "named.test")

    # -- names

    def test_names(self):
        self.assertEqual(self.get("api.test").status, 200)
        self.assertEqual(self.get("alias.test").status, 200)
        self.assertEqual(self.api.requests[-1].header("Host"), "alias.test")
        # Nobody listens on its other address: the first is taken.
        self.assertEqual(self.get("both.test").status, 200)
        self.assertEqual(self.get("six.test").status, 200)
        got = self.get("none.test")
        self.assertEqual(got.status, 502, got.raw)
        self.assertIn("no host none.test", got.text)
        got = self.get("closed.test")
        self.assertEqual(got.status, 502, got.raw)
        self.assertIn("refused", got.text)

    def test_nobody_is_asked_for_denied_names(self):
        before = len(self.net.asked())
        for host in ("secret-data.evil.test", "evil.test", "api.test.evil.test"):
            self.assertEqual(self.get(host).status, 403)
            self.assertEqual(self.get_tls(host).status, 403)
        self.assertEqual(self.net.asked()[before:], [])

    # -- certificates

    def tls_server(self, name, ctx, **kw):
        address = self.net.address()
        self.net.names.table[name] = [address]
        return self.net.server(name, 443, address, tls=ctx, **kw)

    def test_certificates(self):
        other = Authority(self.net.dir, "Somebody Else")
        self.tls_server("expired.test", self.net.ca.context(["expired.test"], -1))
        self.tls_server("wrong.test", self.net.ca.context(["right.test"]))
        self.tls_server("unknown.test", other.context(["unknown.test"]))
        self.tls_server("authority.test", self.net.ca.context(
            ["authority.test"], more="basicConstraints=critical,CA:TRUE\n"))
        self.tls_server("notls.test", None,
                        raw=lambda c: c.sendall(b"SSH-2.0-x\r\n"))
        self.assertEqual(self.get_tls("api.test", "/x").status, 200)
        self.assertTrue(self.api.requests[-1].tls)
        for name, words in (("expired.test", "has expired"),
                            ("wrong.test", "of another name"),
                            ("unknown.test", "unknown issuer"),
                            ("authority.test", "CA:TRUE"),
                            ("notls.test", "no TLS with notls.test")):
            with self.subTest(name):
                got = self.get_tls(name)
                self.assertEqual(got.status, 502, got.raw)
                self.assertIn(words, got.text)


class Proxy(Base):
    """Through the operator's own proxy."""

    @classmethod
    def servers(cls):
        cls.heard = []
        cls.proxy = cls.net.server(None, 3128, raw=cls.serve)
        cls.tls = cls.net.ca.context(["far.test"])
        cls.i.conf["upstream_proxy"] = \
            f"http://me:word@{cls.proxy.address}:3128"
        cls.i.restart()

    @classmethod
    def serve(cls, c):
        head = b""
        while b"\r\n\r\n" not in head:
            head += c.recv(1)
        cls.heard.append(head.decode())
        if b"closed.test" in head:
            c.sendall(b"HTTP/1.1 407 No\r\nContent-Length: 0\r\n\r\n")
            return
        c.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        if b":443" in head:
            c = cls.tls.wrap_socket(c, server_side=True)
        c.recv(65536)
        c.sendall(answer("from afar"))
        c.close()

    def test_through_it(self):
        got = self.get("far.test")
        self.assertEqual((got.status, got.text), (200, "from afar"), got.raw)
        self.assertEqual(self.heard[-1], "CONNECT far.test:80 HTTP/1.1\r\n"
                         "Host: far.test:80\r\n"
                         "Proxy-Authorization: Basic bWU6d29yZA==\r\n\r\n")
        got = self.get_tls("far.test")
        self.assertEqual((got.status, got.text), (200, "from afar"), got.raw)
        got = self.get("closed.test")
        self.assertEqual(got.status, 502, got.raw)
        self.assertIn("407", got.text)
        self.assertEqual(self.net.asked(), [])  # the proxy knows names
        # It is not asked for what is denied, nor for what is nobody's business.
        before = len(self.heard)
        for host in ("evil.test", "127.0.0.1", "169.254.169.254"):
            self.assertEqual(self.get(host).status, 403)
        self.assertEqual(len(self.heard), before)


if __name__ == "__main__":
    harness.main()
