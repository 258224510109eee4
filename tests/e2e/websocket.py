"""A small WebSocket client over a unix socket, for tests."""

import base64
import json
import os
import socket
import struct

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10


class Refused(Exception):
    """The handshake was answered with something else: (status, body)."""


class WebSocket:
    def __init__(self, path, target, timeout=20):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(timeout)
        self.sock.connect(path)
        self.buf = bytearray()
        key = base64.b64encode(os.urandom(16)).decode()
        self.sock.sendall(
            (f"GET {target} HTTP/1.1\r\nHost: localhost\r\n"
             "Connection: Upgrade\r\nUpgrade: websocket\r\n"
             f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n"
             ).encode())
        while b"\r\n\r\n" not in self.buf:
            self._more()
        head, _, rest = bytes(self.buf).partition(b"\r\n\r\n")
        status = int(head.split()[1])
        self.buf[:] = rest
        if status != 101:
            n = int(next(line.split(b":")[1] for line in head.split(b"\r\n")
                         if line.lower().startswith(b"content-length")))
            while len(self.buf) < n:
                self._more()
            raise Refused(status, json.loads(bytes(self.buf)))

    def _more(self):
        got = self.sock.recv(1 << 18)
        if not got:
            raise EOFError("the connection ended")
        self.buf += got

    def send(self, op, data):
        if isinstance(data, str):
            data = data.encode()
        n = len(data)
        head = bytes([0x80 | op])
        if n < 126:
            head += bytes([0x80 | n])
        elif n < 65536:
            head += bytes([0x80 | 126]) + struct.pack(">H", n)
        else:
            head += bytes([0x80 | 127]) + struct.pack(">Q", n)
        self.sock.sendall(head + bytes(4) + data)  # a mask of zeros

    def order(self, **what):
        self.send(TEXT, json.dumps(what))

    def recv(self):
        """The next frame: (opcode, payload)."""
        def need(n):
            while len(self.buf) < n:
                self._more()
        need(2)
        n, at = self.buf[1] & 127, 2
        if n == 126:
            need(4)
            n, at = struct.unpack_from(">H", self.buf, 2)[0], 4
        elif n == 127:
            need(10)
            n, at = struct.unpack_from(">Q", self.buf, 2)[0], 10
        need(at + n)
        op, data = self.buf[0] & 15, bytes(self.buf[at:at + n])
        del self.buf[:at + n]
        return op, data

    def message(self):
        """The next message: bytes, or the object of a text; pings are
        answered, a close is (code, reason)."""
        while True:
            op, data = self.recv()
            if op == PING:
                self.send(PONG, data)
            elif op == TEXT:
                return json.loads(data)
            elif op == BINARY:
                return data
            elif op == CLOSE:
                return (struct.unpack_from(">H", data)[0] if data else 1005,
                        data[2:].decode())

    def close(self, code=None):
        if code:
            self.send(CLOSE, struct.pack(">H", code))
        self.sock.close()
