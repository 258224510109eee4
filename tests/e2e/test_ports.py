# suite: both
# suite: debian
"""Ports of real sandboxes: servers in Python inside the Debian image, reached
from outside by path, by host name, with a token, as TCP."""

import base64
import concurrent.futures
import os
import signal
import socket
import struct
import textwrap

import harness
import tcp
from harness import SLOW, wait_for

# A WebSocket echo, by hand: the image has Python's own library only.
ECHO = """
import base64, hashlib, socket, struct, threading
def take(f, n):
    b = f.read(n)
    if len(b) < n: raise EOFError
    return b
def one(s):
    f = s.makefile("rb")
    key = ""
    while (line := f.readline().strip()):
        name, _, value = line.decode().partition(":")
        if name.lower() == "sec-websocket-key": key = value.strip()
    accept = base64.b64encode(hashlib.sha1((key +
        "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()).decode()
    s.sendall(("HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: websocket\\r\\n"
        "Connection: Upgrade\\r\\nSec-WebSocket-Accept: " + accept +
        "\\r\\n\\r\\n").encode())
    while True:
        a, n = take(f, 2)
        n &= 127
        if n == 126: n, = struct.unpack(">H", take(f, 2))
        elif n == 127: n, = struct.unpack(">Q", take(f, 8))
        mask = take(f, 4)
        data = bytes(c ^ mask[i % 4] for i, c in enumerate(take(f, n)))
        head = bytes([a, n]) if n < 126 else struct.pack(">BBH", a, 126, n) \\
            if n < 65536 else struct.pack(">BBQ", a, 127, n)
        s.sendall(head + data)
        if a & 15 == 8: return
l = socket.create_server(("127.0.0.1", 9000))
while True:
    threading.Thread(target=one, args=(l.accept()[0],), daemon=True).start()
"""

# Answers as the path says: /PIECE. The worst neighbours there are.
HOSTILE = """
import socket, threading, time
ANSWERS = {
    "junk": b"\\0\\1\\2\\3" * 100,
    "long": b"HTTP/1.1 200 OK\\r\\nA: " + b"b" * 100000,
    "smuggle": b"HTTP/1.1 200 OK\\r\\nContent-Length: 5\\r\\n"
        b"Transfer-Encoding: chunked\\r\\n\\r\\n0\\r\\n\\r\\n",
    "split": b"HTTP/1.1 200 OK\\nSet-Cookie: a=b\\n\\n",
    "short": b"HTTP/1.1 200 OK\\r\\nContent-Length: 100\\r\\n\\r\\nx",
    "close": b"",
    "more": b"HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\nok" + b"x" * 999,
}
def one(s):
    word = s.recv(65536).split()[1].decode().strip("/")
    if word == "slow":
        for c in b"HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\nok":
            s.send(bytes([c])); time.sleep(0.02)
    elif word == "never":
        time.sleep(60)
    elif word == "endless":
        s.sendall(b"HTTP/1.1 200 OK\\r\\n")
        while True: s.sendall(b"A: b\\r\\n" * 100)
    else:
        s.sendall(ANSWERS[word])
    s.close()
def safe(s):
    try: one(s)
    except Exception: s.close()
l = socket.create_server(("127.0.0.1", 9001))
while True:
    threading.Thread(target=safe, args=(l.accept()[0],), daemon=True).start()
"""


class Ports(harness.Case):
    IMAGE = "debian"
    PORT = tcp.free_port()
    CONF = {"listen": f"127.0.0.1:{PORT}", "domain": "localhost",
            "port_timeout": f"{2 * SLOW:g}s"}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.key = cls.i.api("POST", "/v1/keys", {"name": "t", "scope": "use"}
                            ).json["key"]

    def setUp(self):
        self.box = self.i.create(ports={"web": 8080})

    def start(self, script, port, host="127.0.0.1", user_script=True):
        """A Python program inside, which listens when this returns."""
        code = base64.b64encode(textwrap.dedent(script).encode()).decode()
        p = self.i.sh(self.box, f"echo {code} | base64 -d > /tmp/{port}.py; "
                      f"mkdir -p /tmp/www && cd /tmp/www && "
                      f"(python3 /tmp/{port}.py >/tmp/{port}.log 2>&1 "
                      "</dev/null &)")
        self.assertEqual(p.returncode, 0, p.err)
        check = (f"python3 -c 'import socket; socket.create_connection("
                 f"(\"{host}\", {port}), 1)'")
        wait_for("the server", lambda: self.i.sh(self.box, check).returncode == 0,
                 20 * SLOW, 0.1)

    def web(self, host="127.0.0.1", port=8080):
        self.start(f"""
            import http.server, socket, sys
            class S(http.server.ThreadingHTTPServer):
                address_family = socket.AF_INET6 if ":" in "{host}" else \\
                    socket.AF_INET
            S(("{host}", {port}), http.server.SimpleHTTPRequestHandler
              ).serve_forever()""", port, host)

    def call(self, port, path, host=None, **kw):
        if host:
            kw.setdefault("headers", {})["Host"] = host
        else:
            path = f"/v1/sandboxes/{self.box}/ports/{port}{path}"
        return tcp.call(self.PORT, kw.pop("method", "GET"), path,
                        key=kw.pop("key", self.key), **kw)

    def test_http_server(self):
        self.web()
        data = os.urandom(1 << 20).hex()
        self.i.cli("exec", self.box, "--", "sh", "-c",
                   "cat > '/tmp/www/a b.txt'; mkdir /tmp/www/dir", input=data,
                   check=0)
        for port in (8080, "web"):
            r = self.call(port, "/a%20b.txt")
            self.assertEqual((r.status, r.body == data.encode()), (200, True))
        r = self.call(8080, "/a%20b.txt", f"8080-{self.box}.localhost")
        self.assertEqual((r.status, r.body == data.encode()), (200, True))
        self.assertIn(b"a%20b.txt", self.call(8080, "/").body)
        r = self.call(8080, "/dir")
        self.assertEqual((r.status, r.headers["Location"]),
                         (301, f"/v1/sandboxes/{self.box}/ports/8080/dir/"))
        self.assertEqual(self.call(8080, "/none").status, 404)
        r = self.call(8080, "/a%20b.txt", method="HEAD")
        self.assertEqual((r.headers["Content-Length"], r.body),
                         (str(len(data)), b""))
        self.assertEqual(self.call(8080, "/", method="POST", body=b"x" * 99999)
                         .status, 501)
        self.assertEqual(self.call(8080, "/", key=None).status, 401)
        # Many at once.
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            got = list(pool.map(lambda _: self.call(8080, "/a%20b.txt").body,
                                range(64)))
        self.assertEqual(set(got), {data.encode()})

    def test_other_loopback(self):
        """Only on ::1, as what listens on "localhost" may do."""
        self.web("::1")
        self.assertEqual(self.call(8080, "/").status, 200)

    def test_nothing_there(self):
        r = self.call(8080, "/")
        self.assertEqual((r.status, r.json["error"]), (502, "nothing_listens"))
        self.assertIn("nothing listens on port 8080", r.json["message"])

    def test_neighbours_and_the_host(self):
        """A port of a sandbox is that sandbox's, and never the host's."""
        self.web()
        other = self.i.create()
        r = tcp.call(self.PORT, "GET", f"/v1/sandboxes/{other}/ports/8080/",
                     key=self.key)
        self.assertEqual((r.status, r.json["error"]), (502, "nothing_listens"))
        r = self.call(self.PORT, "/metrics")
        self.assertEqual((r.status, r.json["error"]), (502, "nothing_listens"))

    def test_token(self):
        self.web()
        r = self.i.api("POST", f"/v1/sandboxes/{self.box}/ports/8080/token",
                       {"ttl": 600})
        self.assertEqual(r.status, 201, r)
        url = r.json["url"]
        start = f"http://8080-{self.box}.localhost:{self.PORT}/?carrel_token="
        self.assertTrue(url.startswith(start), url)
        host = url.split("/")[2]
        r = self.call(8080, "/" + url.split("/")[3], host, key=None,
                      headers={"Accept": "text/html"})
        self.assertEqual((r.status, r.headers["Location"]), (303, "/"))
        cookie = r.headers["Set-Cookie"].split(";")[0]
        r = self.call(8080, "/", host, key=None, headers={"Cookie": cookie})
        self.assertEqual(r.status, 200)
        self.assertEqual(self.call(8080, "/", host, key=None).status, 401)
        self.i.kill_role("carrel-api")
        wait_for("it still opens", lambda: self.again(host, cookie), 20 * SLOW)

    def again(self, host, cookie):
        try:
            return self.call(8080, "/", host, key=None,
                             headers={"Cookie": cookie}).status == 200
        except OSError:
            return False

    def test_websocket(self):
        self.start(ECHO, 9000)
        s = tcp.connect(self.PORT)
        s.sendall((f"GET /v1/sandboxes/{self.box}/ports/9000/chat HTTP/1.1\r\n"
                   f"Host: localhost\r\nAuthorization: Bearer {self.key}\r\n"
                   "Connection: Upgrade\r\nUpgrade: websocket\r\n"
                   "Sec-WebSocket-Version: 13\r\n"
                   "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
                   ).encode())
        f = s.makefile("rb")
        self.assertIn(b" 101 ", f.readline())
        while f.readline().strip():
            pass
        for n in (1, 125, 126, 65535, 65536, 1 << 20):
            data = os.urandom(n)
            head = bytes([0x82, 0x80 | n]) if n < 126 else \
                struct.pack(">BBH", 0x82, 0xfe, n) if n < 65536 else \
                struct.pack(">BBQ", 0x82, 0xff, n)
            s.sendall(head + bytes(4) + data)
            got = f.read(len(head) + n)
            self.assertEqual(got[len(head):] == data, True)
        s.sendall(b"\x88\x80" + bytes(4))
        self.assertEqual(f.read(2), b"\x88\x00")
        self.assertEqual(f.read(), b"")
        s.close()

    def test_tcp(self):
        self.start("""
            import socketserver
            class H(socketserver.StreamRequestHandler):
                def handle(self):
                    for line in self.rfile:
                        self.wfile.write(line.upper())
                    self.wfile.write(b"end")
            socketserver.ThreadingTCPServer(("127.0.0.1", 7), H).serve_forever()
            """, 7)
        s = socket.socket(socket.AF_UNIX)
        s.connect(self.i.sock)
        s.sendall((f"POST /v1/sandboxes/{self.box}/tcp/7 HTTP/1.1\r\n"
                   "Host: localhost\r\nConnection: Upgrade\r\n"
                   "Upgrade: carrel-tcp/1\r\n\r\n").encode() + b"hello\n")
        f = s.makefile("rb")
        self.assertIn(b" 101 ", f.readline())
        while f.readline().strip():
            pass
        self.assertEqual(f.readline(), b"HELLO\n")
        s.sendall(b"more\n")
        s.shutdown(socket.SHUT_WR)
        self.assertEqual(f.read(), b"MORE\nend")
        s.close()

    def test_hostile_server(self):
        self.start(HOSTILE, 9001)
        for word in ("junk", "long", "smuggle", "split", "close", "endless"):
            r = self.call(9001, f"/{word}")
            self.assertEqual((r.status, r.json["error"]), (502, "bad_answer"),
                             word)
        with self.assertRaises((OSError, harness.http.client.HTTPException)):
            self.call(9001, "/short")
        for word in ("slow", "more"):
            self.assertEqual(self.call(9001, f"/{word}").body, b"ok", word)
        r = self.call(9001, "/never")
        self.assertEqual((r.status, r.json["error"]), (504, "timeout"))

    def test_sandbox_ends(self):
        """Connections end with the sandbox, and hold nothing of it."""
        self.start(ECHO, 9000)
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(20 * SLOW)
        s.connect(self.i.sock)
        s.sendall((f"POST /v1/sandboxes/{self.box}/tcp/9000 HTTP/1.1\r\n"
                   "Host: localhost\r\nConnection: Upgrade\r\n"
                   "Upgrade: carrel-tcp/1\r\n\r\n").encode())
        self.assertIn(b" 101 ", s.recv(1000))
        self.i.rm(self.box)
        while s.recv(1000):
            pass
        s.close()

    def test_warden_comes_back(self):
        self.web()
        self.assertEqual(self.call(8080, "/").status, 200)
        self.i.kill_role("carrel-warden", signal.SIGKILL)
        self.assertEqual(self.call(8080, "/").status, 200)


if __name__ == "__main__":
    harness.main()
