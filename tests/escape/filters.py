"""Seccomp filters of running processes: read from the kernel, and followed.

How many system calls of a process reach the kernel is what its filters say, not
what a configuration claims. A call counts as reachable if there are arguments
with which every filter lets it through.
"""

import ctypes
import errno
import os
import re
import struct

import harness

SEIZE, INTERRUPT, DETACH, GET_FILTER = 0x4206, 0x4207, 17, 0x420c
WALL = 0x40000000
ARCH = 0xc000003e
ALLOW, LOG = 0x7fff0000, 0x7ffc0000

libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.restype = ctypes.c_long
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p,
                        ctypes.c_void_p]


def syscalls():
    """{number: name} of x86_64."""
    text = harness.read(f"{harness.TOP}/tools/syscalls_x86_64.h")
    return {int(n): name for n, name in re.findall(r"X\((\d+), (\w+)\)", text)}


def _ptrace(request, pid, addr=0, data=0):
    rc = libc.ptrace(request, pid, addr, data)
    if rc < 0:
        raise OSError(ctypes.get_errno(), f"ptrace {request:x} of {pid}")
    return rc


def read(pid):
    """The programs of a process: lists of (code, jt, jf, k)."""
    programs = []
    _ptrace(SEIZE, pid)
    try:
        _ptrace(INTERRUPT, pid)
        os.waitpid(pid, WALL)
        while True:
            try:
                n = _ptrace(GET_FILTER, pid, len(programs))
            except OSError as e:
                if e.errno in (errno.ENOENT, errno.EINVAL):
                    return programs  # no more of them; no filter at all
                raise
            buf = ctypes.create_string_buffer(8 * n)
            _ptrace(GET_FILTER, pid, len(programs), ctypes.addressof(buf))
            programs.append(list(struct.iter_unpack("=HBBI", buf.raw)))
    finally:
        _ptrace(DETACH, pid)


class Walk:
    """Every way that one call can take through one program. What depends on
    arguments is None, and takes both ways."""

    def __init__(self, program, number):
        self.program, self.number = program, number
        self.seen, self.actions = set(), set()
        self.step(0, 0, 0, (None,) * 16)

    def load(self, offset):
        return {0: self.number, 4: ARCH}.get(offset)

    @staticmethod
    def alu(op, a, b):
        if a is None or b is None:
            return None
        return {0x00: lambda: a + b, 0x10: lambda: a - b, 0x20: lambda: a * b,
                0x40: lambda: a | b, 0x50: lambda: a & b,
                0x60: lambda: a << b if b < 32 else 0, 0x70: lambda: a >> b,
                0xa0: lambda: a ^ b}[op]() & 0xffffffff

    @staticmethod
    def compare(op, a, b):
        """Which ways are open: (true, false)."""
        if a is None or b is None:
            return True, True
        yes = {0x10: a == b, 0x20: a > b, 0x30: a >= b, 0x40: bool(a & b)}[op]
        return yes, not yes

    def step(self, pc, a, x, memory):
        while (pc, a, x, memory) not in self.seen:
            self.seen.add((pc, a, x, memory))
            code, jt, jf, k = self.program[pc]
            kind, op, other = code & 7, code & 0xf0, x if code & 8 else k
            pc += 1
            if kind == 6:  # return
                self.actions.add(a if code & 0x18 == 0x10 else k)
                return
            if kind == 5 and op == 0:
                pc += k
            elif kind == 5:
                yes, no = self.compare(op, a, other)
                if yes and no:
                    self.step(pc + jt, a, x, memory)
                pc += jf if no else jt
            elif kind in (0, 1):  # ld, ldx: a word, a constant, memory
                value = {0x20: self.load(k), 0x00: k, 0x60: memory[k & 15],
                         0x80: 64}[code & 0xe0]
                a, x = (a, value) if kind else (value, x)
            elif kind in (2, 3):
                memory = memory[:k] + (x if kind == 3 else a,) + memory[k + 1:]
            elif kind == 4:
                a = (None if a is None else -a & 0xffffffff) if op == 0x80 \
                    else self.alu(op, a, other)
            else:
                a, x = (x, x) if code & 0x80 else (a, a)


def reachable(programs, number):
    return all(Walk(p, number).actions & {ALLOW, LOG, None} for p in programs)


def surface(pid):
    """Names of the calls of a process that reach the kernel."""
    programs = read(pid)
    return {name for n, name in syscalls().items() if reachable(programs, n)}
