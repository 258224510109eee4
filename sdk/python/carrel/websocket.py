"""WebSocket frames as bytes: the client's end. No sockets."""

from __future__ import annotations

import base64
import hashlib
import os
import struct

from .errors import ProtocolError

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
MESSAGE_MAX = 16 * 1024 * 1024
GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


def new_key() -> str:
    return base64.b64encode(os.urandom(16)).decode()


def accept_of(key: str) -> str:
    digest = hashlib.sha1(key.encode() + GUID, usedforsecurity=False).digest()
    return base64.b64encode(digest).decode()


def frame(op: int, data: bytes) -> bytes:
    n, mask = len(data), os.urandom(4)
    if n < 126:
        size = bytes([0x80 | n])
    elif n < 65536:
        size = bytes([0x80 | 126]) + struct.pack(">H", n)
    else:
        size = bytes([0x80 | 127]) + struct.pack(">Q", n)
    # As two large numbers: a loop over bytes would be slow.
    pad = int.from_bytes((mask * (n // 4 + 1))[:n], "big")
    masked = (int.from_bytes(data, "big") ^ pad).to_bytes(n, "big")
    return bytes([0x80 | op]) + size + mask + masked


class Frames:
    """Feed it what comes; next() gives (op, payload) of whole messages."""

    def __init__(self) -> None:
        self._buf = bytearray()
        self._op = 0
        self._parts = bytearray()

    def feed(self, data: bytes) -> None:
        self._buf += data

    def next(self) -> tuple[int, bytes] | None:
        while True:
            got = self._frame()
            if got is None:
                return None
            fin, op, data = got
            if op >= CLOSE:
                return op, data
            if (op == 0) != bool(self._op):
                raise ProtocolError("a message inside another")
            self._op = self._op or op
            self._parts += data
            if len(self._parts) > MESSAGE_MAX:
                raise ProtocolError("a message is too large")
            if fin:
                op, whole = self._op, bytes(self._parts)
                self._op, self._parts = 0, bytearray()
                return op, whole

    def _frame(self) -> tuple[bool, int, bytes] | None:
        b = self._buf
        if len(b) < 2:
            return None
        if b[0] & 0x70 or b[1] & 0x80:
            raise ProtocolError("a frame that no server sends")
        n, at = b[1] & 127, 2
        if n == 126:
            at = 4
        elif n == 127:
            at = 10
        if len(b) < at:
            return None
        if at > 2:
            n = int.from_bytes(b[2:at], "big")
        if n > MESSAGE_MAX:
            raise ProtocolError("a message is too large")
        if len(b) < at + n:
            return None
        got = bool(b[0] & 0x80), b[0] & 15, bytes(b[at:at + n])
        del b[:at + n]
        return got
