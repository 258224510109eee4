"""crypto_box_seal of libsodium, to seal secrets before they leave: an X25519
agreement with a fresh key, XSalsa20-Poly1305. Only whoever has the private key
can open it, not even who sealed it.

In plain Python, so that nothing has to be installed; values are at most some
KiB. It is not constant in time, which matters little here: each run has a key
of its own that is used once.
"""

from __future__ import annotations

import hashlib
import os
import struct

P = 2 ** 255 - 19
M32 = 0xffffffff


def _x25519(k: bytes, u: bytes) -> bytes:
    """RFC 7748."""
    n = int.from_bytes(k, "little")
    n = (n & ~7 & ~(128 << 8 * 31)) | (64 << 8 * 31)
    x1 = int.from_bytes(u, "little") & ((1 << 255) - 1)
    x2, z2, x3, z3, swap = 1, 0, x1, 1, 0
    for t in reversed(range(255)):
        bit = (n >> t) & 1
        if swap ^ bit:
            x2, x3, z2, z3 = x3, x2, z3, z2
        swap = bit
        a, b = x2 + z2, x2 - z2
        aa, bb = a * a % P, b * b % P
        e = aa - bb
        da, cb = (x3 - z3) * a % P, (x3 + z3) * b % P
        x3 = (da + cb) ** 2 % P
        z3 = x1 * (da - cb) ** 2 % P
        x2 = aa * bb % P
        z2 = e * (aa + 121665 * e) % P
    if swap:
        x2, z2 = x3, z3
    return (x2 * pow(z2, P - 2, P) % P).to_bytes(32, "little")


def _rounds(s: list[int]) -> list[int]:
    """Twenty rounds of Salsa20."""
    x = list(s)
    lines = [(0, 4, 8, 12), (5, 9, 13, 1), (10, 14, 2, 6), (15, 3, 7, 11),
             (0, 1, 2, 3), (5, 6, 7, 4), (10, 11, 8, 9), (15, 12, 13, 14)]
    for _ in range(10):
        for a, b, c, d in lines:
            for to, p, q, r in ((b, a, d, 7), (c, b, a, 9), (d, c, b, 13),
                                (a, d, c, 18)):
                v = (x[p] + x[q]) & M32
                x[to] ^= ((v << r) | (v >> (32 - r))) & M32
    return x


def _state(key: bytes, middle: bytes) -> list[int]:
    c = struct.unpack("<4I", b"expand 32-byte k")
    k = struct.unpack("<8I", key)
    n = struct.unpack("<4I", middle)
    return [c[0], *k[:4], c[1], *n, c[2], *k[4:], c[3]]


def _hsalsa20(key: bytes, nonce: bytes) -> bytes:
    x = _rounds(_state(key, nonce))
    return struct.pack("<8I", *(x[i] for i in (0, 5, 10, 15, 6, 7, 8, 9)))


def _xsalsa20(key: bytes, nonce: bytes, n: int) -> bytes:
    """So many bytes of the stream."""
    inner = _hsalsa20(key, nonce[:16])
    out = bytearray()
    for block in range((n + 63) // 64):
        s = _state(inner, nonce[16:] + struct.pack("<Q", block))
        out += struct.pack("<16I", *((a + b) & M32
                                     for a, b in zip(_rounds(s), s)))
    return bytes(out[:n])


def _poly1305(key: bytes, data: bytes) -> bytes:
    r = int.from_bytes(key[:16], "little") & 0x0ffffffc0ffffffc0ffffffc0fffffff
    acc = 0
    for i in range(0, len(data), 16):
        acc = (acc + int.from_bytes(data[i:i + 16] + b"\1", "little")) * r \
            % ((1 << 130) - 5)
    tag = (acc + int.from_bytes(key[16:], "little")) & ((1 << 128) - 1)
    return tag.to_bytes(16, "little")


def seal(data: bytes, public_key: bytes, ephemeral: bytes | None = None) \
        -> bytes:
    """`ephemeral` is for tests: the private key, which is used once."""
    if len(public_key) != 32:
        raise ValueError("the key of the project is no key")
    private = ephemeral or os.urandom(32)
    ours = _x25519(private, (9).to_bytes(32, "little"))
    shared = _x25519(private, public_key)
    if not any(shared):
        raise ValueError("the key of the project is no key")
    nonce = hashlib.blake2b(ours + public_key, digest_size=24).digest()
    stream = _xsalsa20(_hsalsa20(shared, bytes(16)), nonce, 32 + len(data))
    sealed = bytes(a ^ b for a, b in zip(data, stream[32:]))
    return ours + _poly1305(stream[:32], sealed) + sealed
