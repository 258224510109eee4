"""Workers that look at states of disks (src/wire/view.h), as the api role
asks them."""

import os
import struct

from warden_link import REQUEST, VERSION, VIEW, Link, Refused, cap

DIFF, MERGE, PACK, READ, SPACE = range(1, 6)
CHANGE, STEP, DATA, PROGRESS, SPACED, DONE, ERROR = range(1, 8)
LAYER, THEIRS = 1, 2
NONE, REGULAR, DIRECTORY, SYMLINK, FIFO, SOCKET = range(6)
WHATS = {1: "type", 2: "content", 4: "mode", 8: "owner", 16: "attrs"}
STEPS = ["put", "remove", "same", "conflict"]
MAGIC = 0x31574956


class Failed(Exception):
    """VIEW_ERROR: `code` is an errno."""

    def __init__(self, code, text):
        super().__init__(f"{code}: {text}")
        self.code = code


def text(raw, at):
    n = struct.unpack_from("<I", raw, at)[0]
    assert raw[at + 4 + n] == 0
    return os.fsdecode(raw[at + 4:at + 4 + n]), at + 5 + n


def entry(raw, at):
    kind = raw[at]
    if kind == NONE:
        return None, at + 1
    mode, uid, gid, size, mtime = struct.unpack_from("<IIIQq", raw, at + 1)
    target, at = text(raw, at + 29)
    return {"type": kind, "mode": mode, "uid": uid, "gid": gid, "size": size,
            "mtime": mtime, "target": target}, at


def entries(raw, at):
    path, at = text(raw, at)
    first, at = entry(raw, at)
    second, at = entry(raw, at)
    assert at == len(raw)
    return path, first, second


def question(paths=(), flags=0):
    raw = struct.pack("<III", MAGIC, flags, len(paths))
    for path in paths:
        path = os.fsencode(path)
        raw += struct.pack("<I", len(path)) + path + b"\0"
    return raw


class Views(Link):
    def start(self, work, *sides):
        """Descriptors: to ask, to read. A side is (image, snapshot or "")."""
        self.seq += 1
        body = struct.pack("<II", work, 0)
        for image, snap in sides:
            body += cap(image, 28) + cap(snap, 28)
        head = struct.pack("<HHIQ", VERSION, VIEW, 0, self.seq)
        self.sock.send((head + body).ljust(REQUEST, b"\0"))
        while True:
            seq, code, why, _, fds = self._recv()
            if seq == self.seq:
                break
        if code:
            raise Refused(code, why)
        return fds

    def records(self, work, sides, paths=(), flags=0):
        """(kind, body) of each; Failed. The last one was VIEW_DONE."""
        ask, out = self.start(work, *sides)
        with os.fdopen(ask, "wb") as f:
            f.write(question(paths, flags))
        with os.fdopen(out, "rb") as f:
            while True:
                head = f.read(5)
                if len(head) < 5:
                    raise EOFError(f"no last word, but {head!r}")
                n, kind = struct.unpack("<IB", head)
                raw = f.read(n - 1)
                if kind == ERROR:
                    raise Failed(struct.unpack_from("<I", raw)[0],
                                 text(raw, 4)[0])
                if kind == DONE:
                    assert f.read() == b""
                    return
                if kind != PROGRESS:
                    yield kind, raw

    def diff(self, before, after, paths=()):
        """{path: (what, before, after)}, in the order it came."""
        found = {}
        for kind, raw in self.records(DIFF, (before, after), paths):
            assert kind == CHANGE
            path, was, now = entries(raw, 1)
            assert path not in found
            what = "+".join(v for k, v in WHATS.items() if raw[0] & k)
            found[path] = (what, was, now)
        return found

    def merge(self, ancestor, theirs, ours, paths=()):
        """[(path, step)], in the order it came."""
        found = []
        for kind, raw in self.records(MERGE, (ancestor, theirs, ours), paths):
            assert kind == STEP
            found.append((entries(raw, 1)[0], STEPS[raw[0]]))
        assert len(dict(found)) == len(found)
        return found

    def data(self, work, *sides, paths=(), flags=0):
        """Bytes of a file or tar."""
        return b"".join(raw for _, raw in
                        self.records(work, sides, paths, flags))

    def space(self, side):
        """bytes, shared, entries"""
        (_, raw), = self.records(SPACE, (side,))
        return struct.unpack("<QQQ", raw)
