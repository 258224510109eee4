"""A connection to a warden (src/wire/warden.h), as the api role has one, and
what runs inside of a sandbox that was launched through it."""

import secrets
import socket
import struct

import harness
from harness import SLOW

(HELLO, LAUNCH, KILL, KILL_ALL, NEXT, STAT, IMPORT, COMMIT, REMOVE, IMAGE_NEXT,
 HOST, ENDED, CONNECT, RESIZE, SNAPSHOT, SNAPSHOT_REMOVE, SNAPSHOT_NEXT, PAUSE,
 RESUME, VIEW, FETCH, DOOR, VOLUME_NEW, VOLUME_REMOVE, VOLUME_NEXT) = range(1, 26)
SUDO, ALLOW_MISSING_DISK, EARLY, PERSIST, PAUSED = 1, 2, 4, 8, 1 << 16
STAY = 1
PAUSE_USER = 1
VERSION = 3
REQUEST = 840  # sizeof(struct warden_req)
BODY = 272  # offset of the union in struct warden_rep
LETTERS = "abcdefghijklmnopqrstuvwxyz234567"


def new_id():
    return "i" + "".join(secrets.choice(LETTERS) for _ in range(26))


def cap(text, n):
    return text.encode().ljust(n, b"\0")


class Refused(Exception):
    """`code` is an errno."""

    def __init__(self, code, text):
        super().__init__(f"{code}: {text}")
        self.code = code


class Link:
    def __init__(self, instance):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.sock.settimeout(30 * SLOW)
        self.sock.connect(instance.run_dir + "/roles/warden.sock")
        self.run_dir = instance.run_dir
        self.seq = 0
        self.ended = []  # ids of notices
        self.ask(HELLO)
        self.answers(1)

    def ask(self, op, image="", more=b""):
        self.seq += 1
        head = struct.pack("<HHIQ", VERSION, op, 0, self.seq)
        body = cap(image, 28) + more
        self.sock.send((head + body).ljust(REQUEST, b"\0"))
        return self.seq

    def _recv(self):
        """One answer: (seq, errno, text, body, descriptors)."""
        while True:
            msg, fds, _, _ = socket.recv_fds(self.sock, 4096, 8)
            if not msg:
                raise EOFError("the warden is gone")
            op = struct.unpack_from("<H", msg, 2)[0]
            seq, code = struct.unpack_from("<Qi", msg, 8)
            if op == ENDED and seq == 0:
                self.ended.append(msg[BODY:BODY + 27].decode())
                continue
            text = msg[20:BODY].split(b"\0")[0].decode(errors="replace")
            return seq, code, text, msg[BODY:], fds

    def answers(self, n):
        """{seq: errno}, and the descriptors that came along."""
        codes, fds = {}, []
        while len(codes) < n:
            seq, code, _, _, got = self._recv()
            fds += got
            codes[seq] = code
        return codes, fds

    def call(self, op, name="", more=b""):
        """The body of the answer; Refused."""
        want = self.ask(op, name, more)
        while True:
            seq, code, text, body, _ = self._recv()
            if seq == want:
                break
        if code:
            raise Refused(code, text)
        return body

    def code(self, op, name="", more=b""):
        try:
            self.call(op, name, more)
            return 0
        except Refused as e:
            return e.code

    def connect(self, box, port, flags=0):
        """(errno, socket)"""
        self.ask(CONNECT, box, struct.pack("<HH", port, flags))
        codes, fds = self.answers(1)
        return codes[self.seq], socket.socket(fileno=fds[0]) if fds else None

    def door(self, box):
        """[proxy, dns, tcp, udp], sockets, and a descriptor: the link; Refused."""
        want = self.ask(DOOR, box)
        while True:
            seq, code, text, body, fds = self._recv()
            if seq == want:
                break
        if code:
            raise Refused(code, text)
        which = struct.unpack_from("<I", body)[0]
        assert which == 31 and len(fds) == 5, (which, fds)
        return [socket.socket(fileno=fd) for fd in fds[:4]], fds[4]

    def resize(self, box, pids=64, cpus=500, mem=64 << 20):
        """errno"""
        self.ask(RESIZE, box, struct.pack("<IQQ", pids, cpus, mem))
        return self.answers(1)[0][self.seq]

    # -- sandboxes

    flags = 0  # of every launch

    def spec(self, image, source="", flags=0, disk=64 << 20, volumes=(), host="box",
             mem=64 << 20):
        """What comes behind the id in struct launch_spec."""
        raw = cap(image, 28) + cap(source, 28) + cap(host, 64)
        raw += struct.pack("<III", flags | self.flags, 64, 0)
        raw += struct.pack("<QQQ", 1000, mem, disk)
        for vol, path, read_only in volumes:
            raw += cap(vol, 28) + cap(path, 128) + struct.pack("<I", read_only)
        return raw

    def launch(self, image, box=None, **spec):
        box = box or new_id()
        self.call(LAUNCH, box, self.spec(image, **spec))
        return box

    def kill(self, box):
        self.call(KILL, box)

    def snapshot(self, box, snap=None, flags=0, copies=0):
        """(id, pause in microseconds, bytes)"""
        snap = snap or new_id()
        body = self.call(SNAPSHOT, box, cap(snap, 28) +
                         struct.pack("<II", flags, copies))
        return (snap, *struct.unpack_from("<QQ", body))

    def volume(self, size=32 << 20, vol=None):
        vol = vol or new_id()
        self.call(VOLUME_NEW, vol, struct.pack("<IQ", 0, size))
        return vol

    def pause(self, box, flags=0):
        self.call(PAUSE, box, struct.pack("<I", flags))

    def resume(self, box, flags=0):
        self.call(RESUME, box, struct.pack("<I", flags))

    def each(self, op):
        """Ids of a list."""
        found, after = [], ""
        while True:
            try:
                after = self.call(op, after)[:27].decode()
            except Refused as e:
                if e.code != 2:
                    raise
                return found
            found.append(after)

    def boxes(self):
        """{id: flags}"""
        found, after = {}, ""
        while True:
            try:
                body = self.call(NEXT, after)
            except Refused:
                return found
            after = body[:27].decode()
            found[after] = struct.unpack_from("<I", body, 148)[0]

    def use(self, box):
        """cpu_us, mem_bytes, disk_bytes, pids, oom_kills"""
        return struct.unpack_from("<QQQQQ", self.call(STAT, box))

    def sh(self, box, script, user=""):
        """(code, output) of a shell inside: the agent is asked directly."""
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(30 * SLOW)
        sock.connect(f"{self.run_dir}/box/{box}/agent.sock")
        wire = harness.Wire(sock)
        try:
            wire.hello()
            wire.spawn(["/bin/sh", "-c", script], user=user)
            code, out, err = wire.finish()
            return code, (out + err).decode(errors="replace")
        finally:
            wire.close()

    def close(self):
        self.sock.close()
