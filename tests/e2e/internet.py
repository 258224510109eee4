"""A small internet for a test: names, web servers and raw TCP servers.

The network namespace of the test (a fresh one, with nothing but lo) is the
host; a pair of virtual links joins it to a second namespace, "outside", which
has every address that a test asks for. The servers are threads of the test
whose sockets were born outside. Nothing here can reach a real host, and
nothing is left when the process ends.

	net = Internet()
	api = net.web("api.test")		# http on 80, https on 443
	db = net.tcp("db.test", 5432)		# echoes
	i = Instance(**net.conf)
	...
	self.assertEqual(api.requests[-1].target, "/x")
	self.assertNotIn("evil.test", net.asked())
	net.close()
"""

import contextlib
import ctypes
import ipaddress
import json
import os
import re
import shutil
import socket
import ssl
import struct
import subprocess
import tempfile
import threading
import unittest

CLONE_NEWNET = 0x40000000
HOST4, HOST6 = "203.0.113.254", "2001:db8:113::fe"
DNS4 = "203.0.113.1"
A, AAAA, CNAME = 1, 28, 5

_libc = ctypes.CDLL(None, use_errno=True)


def _check(r):
    if r < 0:
        n = ctypes.get_errno()
        raise OSError(n, os.strerror(n))


def _thread(fn, *args):
    t = threading.Thread(target=fn, args=args, daemon=True)
    t.start()
    return t


def in_thread(fn):
    """A thread may have another network than its process."""
    got = []

    def body():
        try:
            got.append((fn(), None))
        except BaseException as e:
            got.append((None, e))
    _thread(body).join()
    if got[0][1]:
        raise got[0][1]
    return got[0][0]


def _read(path):
    try:
        with open(path) as f:
            return f.read()
    except OSError:
        return ""


def _link(path):
    with contextlib.suppress(OSError):
        return os.readlink(path)


class Request:
    """A request as a server outside saw it."""

    def __init__(self, raw, head, body, tls, peer):
        self.raw, self.head, self.body = raw, head, body
        self.tls, self.peer = tls, peer
        lines = head.decode("latin-1").split("\r\n")
        self.line = lines[0]
        self.method, self.target = (self.line.split(" ") + [""])[:2]
        self.fields = [(k, v.strip()) for k, _, v in
                       (x.partition(":") for x in lines[1:] if x)]

    def header(self, name, default=None):
        """The one field of that name; twice is an error."""
        got = [v for k, v in self.fields if k.lower() == name.lower()]
        assert len(got) < 2, f"{name} twice: {self.head!r}"
        return got[0] if got else default

    def __repr__(self):
        return f"<{self.head!r} {self.body[:100]!r}>"


def answer(body=b"", status=200, fields=()):
    """The bytes of an ordinary answer."""
    if isinstance(body, str):
        body = body.encode()
    head = f"HTTP/1.1 {status} Status\r\nContent-Length: {len(body)}\r\n"
    for name, value in fields:
        head += f"{name}: {value}\r\n"
    return head.encode() + b"\r\n" + body


def echo(r):
    """What a server answers when it was told nothing else."""
    return answer(json.dumps({
        "method": r.method, "target": r.target, "tls": r.tls,
        "fields": r.fields, "body": r.body.decode("latin-1")}) + "\n",
        fields=[("Content-Type", "application/json")])


class Reader:
    """Bytes of a connection, as far as a message needs them."""

    def __init__(self, sock):
        self.sock, self.buf = sock, b""

    def more(self):
        got = self.sock.recv(65536)
        if not got:
            raise EOFError
        self.buf += got

    def until(self, mark):
        while mark not in self.buf:
            self.more()
        out, self.buf = self.buf.split(mark, 1)
        return out + mark

    def exactly(self, n):
        while len(self.buf) < n:
            self.more()
        out, self.buf = self.buf[:n], self.buf[n:]
        return out

    def request(self, tls, peer):
        head = self.until(b"\r\n\r\n")
        raw, body = head, b""
        fields = {k.strip().lower(): v.strip() for k, _, v in
                  (x.partition(b":") for x in head.split(b"\r\n")[1:])}
        if fields.get(b"expect", b"").lower() == b"100-continue":
            self.sock.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        if fields.get(b"transfer-encoding"):
            while True:
                line = self.until(b"\r\n")
                n = int(line, 16)
                piece = self.exactly(n + 2)
                raw += line + piece
                body += piece[:-2]
                if n == 0:
                    break
        else:
            body = self.exactly(int(fields.get(b"content-length", 0)))
            raw += body
        return Request(raw, head, body, tls, peer)


class Server:
    """One listening socket outside; each connection is a thread.

    handler(request): the bytes of the answer (None: the connection ends).
    raw(sock): the whole connection, for servers that speak something else.
    `requests`, `accepted` and `received` say what came."""

    def __init__(self, net, address, port, tls=None, handler=None, raw=None,
                 owner=None):
        self.net, self.address, self.port = net, address, port
        self.tls, self.handler, self.raw = tls, handler, raw
        self.owner = owner or self
        self.requests, self.accepted, self.received = [], [], b""
        self.open = set()
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self.sock = net.socket(family, socket.SOCK_STREAM)
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.sock.bind((address, port))
        self.sock.listen(512)
        _thread(self._serve)

    def _serve(self):
        while True:
            try:
                c, peer = self.sock.accept()
            except OSError:
                return
            self.owner.accepted.append(peer)
            self.open.add(c)
            _thread(self._connection, c, peer)

    def _connection(self, c, peer):
        try:
            if self.tls:
                self.open.discard(c)
                c = self.tls.wrap_socket(c, server_side=True)
                self.open.add(c)
            c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self.owner.raw:
                self.owner.raw(c)
            else:
                self._requests(c, peer)
        except (EOFError, OSError, ValueError):
            pass
        finally:
            self.open.discard(c)
            with contextlib.suppress(OSError):
                c.close()

    def _requests(self, c, peer):
        reader = Reader(c)
        while True:
            r = reader.request(bool(self.tls), peer)
            self.owner.requests.append(r)
            out = (self.owner.handler or echo)(r)
            if out is None:
                return
            c.sendall(out)

    def hang_up(self):
        """Ends all connections that are open."""
        for c in list(self.open):
            with contextlib.suppress(OSError):
                c.shutdown(socket.SHUT_RDWR)

    def close(self):
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()
        self.hang_up()


class Web:
    """A host with http on 80 and https on 443 that share what they saw."""

    def __init__(self, net, name, address, tls, handler):
        self.name, self.address = name, address
        self.handler, self.raw = handler, None
        self.requests, self.accepted = [], []
        self.servers = [Server(net, address, 80, owner=self),
                        Server(net, address, 443, tls=tls, owner=self)]

    def hang_up(self):
        for s in self.servers:
            s.hang_up()

    def close(self):
        for s in self.servers:
            s.close()


class Authority:
    """Makes certificates, with openssl(1)."""

    def __init__(self, directory, name="Test Authority"):
        self.dir = directory
        self.cert = os.path.join(directory, f"{name.replace(' ', '')}.pem")
        self.key = self.cert[:-4] + ".key"
        self.n = 0
        self._openssl("req", "-x509", "-newkey", "ec", "-pkeyopt",
                      "ec_paramgen_curve:P-256", "-nodes", "-days", "30",
                      "-subj", f"/CN={name}", "-keyout", self.key,
                      "-out", self.cert)

    def _openssl(self, *args, **kw):
        return subprocess.run(["openssl", *args], check=True,
                              capture_output=True, **kw).stdout

    def issue(self, names, days=7, more=""):
        """A certificate for names and addresses: (cert, key) as paths. With
        days < 0 it has expired. `more`: lines of extensions."""
        self.n += 1
        base = f"{self.cert[:-4]}-{self.n}"
        alt = ",".join(f"IP:{n}" if _is_address(n) else f"DNS:{n}"
                       for n in names)
        with open(base + ".ext", "w") as f:
            f.write(f"subjectAltName={alt}\nextendedKeyUsage=serverAuth\n{more}")
        req = self._openssl("req", "-newkey", "ec", "-pkeyopt",
                            "ec_paramgen_curve:P-256", "-nodes", "-subj",
                            f"/CN={names[0][:60]}", "-keyout", base + ".key")
        if days < 0:
            self._sign_expired(base, req)
        else:
            self._openssl("x509", "-req", "-CA", self.cert, "-CAkey", self.key,
                          "-days", str(days), "-extfile", base + ".ext",
                          "-set_serial", str(self.n), "-out", base + ".pem",
                          input=req)
        return base + ".pem", base + ".key"

    def _sign_expired(self, base, req):
        """x509 of OpenSSL 3.5 refuses an end before the beginning, and that of
        3.0 does not take a beginning."""
        open(base + ".db", "w").close()
        with open(base + ".conf", "w") as f:
            f.write(f"[ca]\ndefault_ca=d\n[d]\ndatabase={base}.db\n"
                    "rand_serial=yes\ndefault_md=sha256\npolicy=p\n[p]\ncommonName=supplied\n")
        with open(base + ".req", "wb") as f:
            f.write(req)
        self._openssl("ca", "-batch", "-notext", "-config", base + ".conf",
                      "-cert", self.cert, "-keyfile", self.key, "-in",
                      base + ".req", "-out", base + ".pem", "-outdir", self.dir,
                      "-extfile", base + ".ext", "-startdate",
                      "20240101000000Z", "-enddate", "20240102000000Z")

    def context(self, names, days=7, alpn=("http/1.1",), more=""):
        ctx = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        ctx.load_cert_chain(*self.issue(names, days, more))
        if alpn:
            ctx.set_alpn_protocols(list(alpn))
        return ctx


def _is_address(s):
    try:
        ipaddress.ip_address(s)
    except ValueError:
        return False
    return True


class Names:
    """A name server. `table`: name -> addresses; a str: an alias; a callable:
    called with the type of each query, returns addresses; None: no answer at
    all. Names that it does not have do not exist."""

    def __init__(self, net, address):
        self.table, self.queries, self.ttl = {}, [], 0
        self.udp = net.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind((address, 53))
        _thread(self._serve)

    def _serve(self):
        while True:
            try:
                data, peer = self.udp.recvfrom(4096)
            except OSError:
                return
            with contextlib.suppress(IndexError, struct.error, OSError):
                out = self.reply(data)
                if out:
                    self.udp.sendto(out, peer)

    @staticmethod
    def _name(labels):
        return b"".join(bytes([len(x)]) + x.encode()
                        for x in labels.split(".") if x) + b"\0"

    def reply(self, data):
        at, labels = 12, []
        while data[at]:
            labels.append(data[at + 1:at + 1 + data[at]].decode("latin-1"))
            at += 1 + data[at]
        kind, = struct.unpack_from("!H", data, at + 1)
        question = data[12:at + 5]
        name = ".".join(labels).lower()
        self.queries.append((name, kind))
        code, records = 0, b""
        n = 0
        for _ in range(8):
            if name not in self.table:
                code = 0 if n else 3
                break
            found = self.table[name]
            if callable(found):
                found = found(kind)
            if found is None:
                return None
            if not isinstance(found, str):
                for a in found:
                    raw = ipaddress.ip_address(a).packed
                    if (kind, len(raw)) in ((A, 4), (AAAA, 16)):
                        n += 1
                        records += self._name(name) + struct.pack(
                            "!HHIH", kind, 1, self.ttl, len(raw)) + raw
                break
            raw = self._name(found)
            n += 1
            records += self._name(name) + struct.pack(
                "!HHIH", CNAME, 1, self.ttl, len(raw)) + raw
            name = found
        return data[:2] + struct.pack("!HHHHH", 0x8180 | code, 1, n, 0, 0) + \
            question + records

    def close(self):
        with contextlib.suppress(OSError):
            self.udp.shutdown(socket.SHUT_RDWR)
        self.udp.close()


class Internet:
    """`conf` is what the daemon must be told."""

    def __init__(self):
        links = [x["ifname"] for x in json.loads(
            self._run("ip", "-j", "link") or "[]")]
        if links != ["lo"]:
            raise RuntimeError("run this in a network of its own: "
                               "unshare -n sh -c 'ip link set lo up; ...'")
        self.dir = tempfile.mkdtemp(prefix="cnet")
        self.ns_fd = self._new_namespace()
        self.links, self.servers, self.last = [], [], 9
        self.known = set()
        self._join()
        self.ca = Authority(self.dir)
        self.names = Names(self, DNS4)
        self.conf = {"resolver": DNS4, "gate_ca": self.ca.cert}

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    # -- namespaces

    @staticmethod
    def _run(*argv):
        return subprocess.run(argv, check=True, capture_output=True,
                              text=True).stdout

    def _outside(self, *argv):
        return self._run("nsenter", f"--net=/proc/{os.getpid()}/fd/{self.ns_fd}",
                         *argv)

    def _new_namespace(self):
        def make():
            _check(_libc.unshare(CLONE_NEWNET))
            return os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        return in_thread(make)

    def socket(self, *args):
        """A socket that was born outside."""
        def make():
            _check(_libc.setns(self.ns_fd, CLONE_NEWNET))
            return socket.socket(*args)
        return in_thread(make)

    def _join(self):
        self._run("ip", "link", "add", "out0", "type", "veth", "peer", "name",
                  "in0", "netns", f"/proc/{os.getpid()}/fd/{self.ns_fd}")
        self._outside("ip", "link", "set", "lo", "up")
        self._outside("ip", "link", "set", "in0", "up")
        self._run("ip", "link", "set", "out0", "up")
        self._run("ip", "addr", "add", HOST4 + "/24", "dev", "out0")
        self._run("ip", "addr", "add", HOST6 + "/64", "dev", "out0", "nodad")
        self._run("ip", "route", "add", "default", "via", DNS4)
        self._outside("ip", "addr", "add", DNS4 + "/24", "dev", "in0")
        self._outside("ip", "addr", "add", "2001:db8:113::1/64", "dev", "in0",
                      "nodad")
        self._run("ip", "-6", "route", "add", "default", "via",
                  "2001:db8:113::1")
        self._outside("ip", "route", "add", "default", "via", HOST4)
        self._outside("ip", "-6", "route", "add", "default", "via", HOST6)

    def address(self, address=None):
        """Gives an address to the outside: the next free one, or this."""
        if address is None:
            self.last += 1
            address = f"203.0.113.{self.last}"
        if address not in self.known:
            self.known.add(address)
            six = ":" in address
            self._outside("ip", "addr", "add",
                          address + ("/128" if six else "/32"), "dev", "in0",
                          *(["nodad"] if six else []))
        return address

    # -- servers

    def web(self, name, address=None, handler=None, tls=None):
        """A host of that name with http and https. `tls`: another context
        than one of a good certificate."""
        address = self.address(address)
        self.names.table.setdefault(name, [address])
        w = Web(self, name, address,
                tls or self.ca.context([name, address]), handler)
        self.servers.append(w)
        return w

    def server(self, name, port, address=None, **kw):
        """One port of a host; see Server."""
        if address is None and isinstance(self.names.table.get(name), list):
            address = self.names.table[name][0]
        address = self.address(address)
        if name:
            self.names.table.setdefault(name, [address])
        s = Server(self, address, port, **kw)
        self.servers.append(s)
        return s

    def tcp(self, name, port, address=None):
        """Echoes what comes, and keeps it in `received`."""
        def serve(c):
            while True:
                got = c.recv(65536)
                if not got:
                    return
                s.received += got
                c.sendall(got)
        s = self.server(name, port, address, raw=serve)
        return s

    def asked(self):
        """The names that somebody asked for, so far."""
        return [name for name, _ in self.names.queries]

    def close(self):
        for s in self.servers:
            s.close()
        self.names.close()
        subprocess.run(["ip", "link", "del", "out0"], capture_output=True)
        os.close(self.ns_fd)
        shutil.rmtree(self.dir, ignore_errors=True)


class Inside:
    """Connections as a process of a sandbox makes them: the sockets are born
    in its network. Of a microVM it is an InsideMachine."""

    def __new__(cls, instance, box):
        r = instance.api("GET", f"/v1/sandboxes/{box}").json
        machine = r.get("spec", {}).get("tier") == "microvm"
        return super().__new__(InsideMachine if machine else cls)

    def __init__(self, instance, box):
        mine = instance.sh(box, "readlink /proc/self/ns/net").out.strip()
        pid = next(p for p in instance.box_pids()
                   if _link(f"/proc/{p}/ns/net") == mine)
        self.ns_fd = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
        self.ca = _read(f"/proc/{pid}/root/usr/local/share/ca-certificates/"
                        "carrel.crt")

    def socket(self, *args):
        def make():
            _check(_libc.setns(self.ns_fd, CLONE_NEWNET))
            return socket.socket(*args)
        return in_thread(make)

    def connect(self, host="127.0.0.1", port=3128, timeout=20):
        """By default to the proxy."""
        s = self.socket(socket.AF_INET6 if ":" in host else socket.AF_INET,
                        socket.SOCK_STREAM)
        s.settimeout(timeout)
        s.connect((host, port))
        return s

    def refused(self, host="127.0.0.1", port=3128):
        try:
            self.connect(host, port).close()
        except OSError:
            return True
        return False

    def resolve(self, name):
        """The address that the sandbox's own resolver gives, or None."""
        s = self.socket(socket.AF_INET, socket.SOCK_DGRAM)
        s.settimeout(60)
        s.sendto(b"\x12\x34\1\0\0\1\0\0\0\0\0\0" + Names._name(name) +
                 b"\0\1\0\1", ("127.0.0.1", 53))
        out = s.recv(4096)
        s.close()
        return socket.inet_ntoa(out[-4:]) if out[7] else None

    def tls(self, sock, name, **kw):
        """TLS that trusts what the sandbox trusts."""
        ctx = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        ctx.load_verify_locations(cadata=kw.pop("ca", None) or self.ca)
        for key, value in kw.items():
            setattr(ctx, key, value)
        return ctx.wrap_socket(sock, server_hostname=name)

    def tunnel(self, host, port=443):
        """CONNECT: (the socket, the answer)."""
        s = self.connect()
        s.sendall(f"CONNECT {host}:{port} HTTP/1.1\r\n"
                  f"Host: {host}:{port}\r\n\r\n".encode())
        head = b""
        while b"\r\n\r\n" not in head:
            got = s.recv(1)
            if not got:
                break
            head += got
        return s, Reply(s, head)

    def ask(self, raw, sock=None):
        """Sends bytes (to the proxy), returns the Reply."""
        s = sock or self.connect()
        if isinstance(raw, str):
            raw = raw.encode("latin-1")
        with contextlib.suppress(OSError):
            s.sendall(raw)
        return Reply(s)

    def get(self, url, method="GET", fields=(), body=b"", sock=None):
        """A request to the proxy, or on a connection to a server."""
        host = url.split("/")[2] if "//" in url else "x"
        head = f"{method} {url} HTTP/1.1\r\n"
        if not any(k.lower() == "host" for k, _ in fields):
            head += f"Host: {host}\r\n"
        for k, v in fields:
            head += f"{k}: {v}\r\n"
        if body:
            head += f"Content-Length: {len(body)}\r\n"
        return self.ask(head.encode() + b"\r\n" + body, sock)

    def close(self):
        os.close(self.ns_fd)


class InsideMachine(Inside):
    """The same for a microVM, whose network is in another kernel: there a
    process connects, and its bytes are carried by `exec`. An error is an end."""

    def __init__(self, instance, box):
        self.i, self.box = instance, box
        self.carriers = []
        self.ca = instance.sh(box, "cat /usr/local/share/ca-certificates/"
                              "carrel.crt").out

    def socket(self, *args):
        raise unittest.SkipTest("no socket is born in another kernel from here")

    def connect(self, host="127.0.0.1", port=3128, timeout=60):
        ours, theirs = socket.socketpair()
        self.carriers.append(self.i.popen(
            "exec", "-i", self.box, "--", "nc", host, port,
            stdin=theirs, stdout=theirs, stderr=subprocess.DEVNULL))
        theirs.close()
        ours.settimeout(timeout)
        return ours

    def refused(self, host="127.0.0.1", port=3128):
        return self.i.sh(self.box, f"nc -w 5 {host} {port} </dev/null"
                         ).returncode == 1

    def resolve(self, name, server=""):
        out = self.i.sh(self.box, f"nslookup {name} {server}").out
        found = re.findall(r"Name:.*\nAddress: (\S+)", out)
        return found[0] if found else None

    def close(self):
        for p in self.carriers:
            p.kill()
            p.wait()


class Reply:
    """An answer, read from a connection: `status` 0 when there is none."""

    def __init__(self, sock, head=None):
        self.sock, self.status, self.body, self.fields = sock, 0, b"", {}
        self.whole, self.head = False, b""
        self.rest = Reader(sock)
        try:
            head = head or self.rest.until(b"\r\n\r\n")
            while head.startswith(b"HTTP/1.1 100"):
                head = self.rest.until(b"\r\n\r\n")
        except (EOFError, OSError):
            self.rest.buf = b""
            return
        self.head = head
        lines = head.decode("latin-1").split("\r\n")
        self.status = int(lines[0].split()[1]) if " " in lines[0] else 0
        self.fields = {k.lower(): v.strip() for k, _, v in
                       (x.partition(":") for x in lines[1:] if x)}
        self.whole = True
        try:
            self._body()
        except (EOFError, OSError):
            self.whole = False
            self.body += self.rest.buf

    def _body(self):
        if self.status in (101, 204, 304):
            return
        if "transfer-encoding" in self.fields:
            while True:
                n = int(self.rest.until(b"\r\n"), 16)
                self.body += self.rest.exactly(n + 2)[:-2]
                if n == 0:
                    return
        if "content-length" in self.fields:
            self.body = self.rest.exactly(int(self.fields["content-length"]))

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def text(self):
        return self.body.decode(errors="replace")

    @property
    def reason(self):
        return self.fields.get("carrel-denied")

    def __repr__(self):
        return f"<{self.status} {self.fields} {self.body[:300]!r}>"
