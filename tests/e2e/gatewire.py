"""The messages of src/wire/gate.h, and a client that speaks them as the api
does: as its user, over run_dir/roles/gate.sock."""

import os
import pwd
import socket
import struct
import subprocess

VERSION = 2
(HELLO, PROJECT, SECRET, SECRET_GONE, BOX, GONE, ANSWER, CODE, HAVE, READY, KEYS,
 ASK, ASK_GONE, PAUSE, USE, SEALED, CODED, SYNC, SYNCED, MOVED, SHOWN, KEPT) = \
    range(1, 23)
FD_PROXY, FD_DNS, FD_TCP, FD_UDP, FD_LINK = 1, 2, 4, 8, 16
MSG_MAX = 160 * 1024

# What the kinds that a door sends consist of; "*": the rest.
FIELDS = {HAVE: ["id"], KEPT: ["id"], READY: [], KEYS: ["project", "text", "*"],
          USE: ["id", "count"], SYNCED: ["number"], PAUSE: ["id", "text"],
          CODED: ["number", "name", "text"]}


def string(s):
    raw = s.encode() if isinstance(s, str) else s
    return struct.pack("<I", len(raw)) + raw + b"\0"


def head(kind, version=VERSION):
    return struct.pack("<HH", version, kind)


def hello(door="", version=VERSION):
    return head(HELLO, version) + string(door)


def project(name):
    return head(PROJECT) + string(name)


def box(id, project, name="", parts=(), fds=0, flags=0, ask_ms=1000, uses=(),
        account=None):
    m = head(BOX) + string(id) + string(project) + string(name)
    m += string(account or id)
    m += struct.pack("<IIQI", flags, fds, ask_ms, len(parts))
    for part, text in parts:
        m += string(part) + string(text)
    m += struct.pack("<I", len(uses))
    for use, placeholder, canary in uses:
        m += string(use) + string(placeholder) + bytes([canary])
    return m


def gone(id, kind=GONE):
    return head(kind) + string(id)


def sync(number):
    return head(SYNC) + struct.pack("<Q", number)


class Message:
    def __init__(self, raw):
        version, self.kind = struct.unpack_from("<HH", raw)
        assert version == VERSION, raw
        at = 4
        for field in FIELDS.get(self.kind, ["*"]):
            if field == "*":
                value, at = raw[at:], len(raw)
            elif field == "number":
                value, at = struct.unpack_from("<Q", raw, at)[0], at + 8
            elif field == "count":
                value, at = struct.unpack_from("<7Q", raw, at), at + 56
            else:
                n = struct.unpack_from("<I", raw, at)[0]
                value = raw[at + 4:at + 4 + n].decode()
                at += n + 5
            setattr(self, "rest" if field == "*" else field, value)
        assert at == len(raw), raw

    def __repr__(self):
        return f"<message {vars(self)}>"


def connect_as(path, user):
    """A connected socket, made by a process of that user: credentials are
    those of who connects."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        who = pwd.getpwnam(user)
        script = ("import socket,sys\n"
                  "s=socket.socket(socket.AF_UNIX,socket.SOCK_SEQPACKET)\n"
                  "s.connect(sys.argv[1])\n"
                  "socket.send_fds(socket.socket(fileno=int(sys.argv[2])),"
                  "[b'x'],[s.fileno()])\n")
        subprocess.run(["/usr/bin/python3", "-c", script, path,
                        str(theirs.fileno())], check=True,
                       pass_fds=[theirs.fileno()], user=who.pw_uid,
                       group=who.pw_gid, extra_groups=[])
        _, fds, _, _ = socket.recv_fds(ours, 1, 1)
    return socket.socket(fileno=fds[0])


class Client:
    """A connection to a door."""

    def __init__(self, path, door="", user="carrel", timeout=20):
        self.sock = connect_as(path, user)
        self.sock.settimeout(timeout)
        self.have = []
        if door is not None:
            self.send(hello(door))

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.sock.close()

    def send(self, raw, fds=()):
        socket.send_fds(self.sock, [raw], list(fds))

    def read(self):
        """The next message, or None at the end of the connection."""
        try:
            raw = self.sock.recv(MSG_MAX)
        except ConnectionResetError:
            return None
        return Message(raw) if raw else None

    def until(self, kind):
        """The next message of that kind; what comes before it is in `seen`."""
        self.seen = []
        while True:
            m = self.read()
            if m is None:
                raise EOFError(f"no message {kind}, only {self.seen}")
            if m.kind == kind:
                return m
            self.seen.append(m)

    def ready(self):
        self.until(READY)
        self.have = [m.id for m in self.seen if m.kind == HAVE]
        return self

    def keys(self, name):
        """(public key, certificate) of a project."""
        self.send(project(name))
        m = self.until(KEYS)
        assert m.project == name, m
        return m.rest, m.text

    def sync(self, number=1):
        self.send(sync(number))
        assert self.until(SYNCED).number == number
