"""A process that somebody else has taken over.

Whoever finds a bug that lets them run code in one of our processes can make any
system call as that process, and read and write its memory. A Puppet gives a
test the same power over a process of the real daemon, without a special build:
it is traced (ptrace), and calls that the test names are made by the process
itself, with its ids, its descriptors, its root and its filters. Filters are not
told who wants a call; so what they refuse here, they refuse an attacker.

Between calls the process stands still. The test lets it go on with release(),
which gives it back its registers as they were."""

import ctypes
import errno
import os
import re
import signal
import struct

SEIZE, INTERRUPT, DETACH, SINGLESTEP = 0x4206, 0x4207, 17, 9
GETREGS, SETREGS = 12, 13
O_EXITKILL = 0x100000
REGS = ("r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi orig_rax rip "
        "cs eflags rsp ss fs_base gs_base ds es fs gs").split()
ARGS = ("rdi", "rsi", "rdx", "r10", "r8", "r9")
ROOM = 1 << 20
NR = {"read": 0, "write": 1, "open": 2, "close": 3, "stat": 4,
      "mmap": 9, "munmap": 11, "socket": 41, "connect": 42, "listen": 50, "clone": 56, "fork": 57, "execve": 59,
      "kill": 62, "ftruncate": 77, "rename": 82, "unlink": 87, "fchmod": 91,
      "getuid": 102, "setuid": 105, "mknod": 133, "chroot": 161, "mount": 165,
      "getdents64": 217, "openat": 257, "symlinkat": 266, "unshare": 272,
      "setns": 308, "memfd_create": 319, "bpf": 321, "io_uring_setup": 425,
      "pidfd_open": 434, "clone3": 435, "openat2": 437}

libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.restype = ctypes.c_long
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p,
                        ctypes.c_void_p]
libc.waitpid.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_int]


class Died(Exception):
    """The process was ended by the call: `.signal`."""

    def __init__(self, sig):
        super().__init__(signal.Signals(sig).name)
        self.signal = sig


def ptrace(what, pid, addr=0, data=0):
    r = libc.ptrace(what, pid, addr, data)
    if r < 0:
        e = ctypes.get_errno()
        raise OSError(e, os.strerror(e), f"ptrace {what} {pid}")
    return r


class Puppet:
    def __init__(self, pid):
        self.pid = pid
        self.room = None
        ptrace(SEIZE, pid, 0, O_EXITKILL)
        try:
            ptrace(INTERRUPT, pid)
            self._wait()
            self.mem = open(f"/proc/{pid}/mem", "r+b", buffering=0)
            self.saved = self._get()
            self.at = self._gadget()
            self.room = self.call("mmap", 0, ROOM, 3, 0x22, -1, 0)
            self.used = 0
        except BaseException:
            self.release()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.release()

    # -- tracing

    def _wait(self):
        status = ctypes.c_int()
        if libc.waitpid(self.pid, ctypes.byref(status), 0x40000000) < 0:
            raise OSError(ctypes.get_errno(), "waitpid")
        status = status.value
        if os.WIFSIGNALED(status):
            self.pid = None
            raise Died(os.WTERMSIG(status))
        if os.WIFEXITED(status):
            self.pid = None
            raise Died(0)
        return os.WSTOPSIG(status)

    def _get(self):
        raw = ctypes.create_string_buffer(8 * len(REGS))
        ptrace(GETREGS, self.pid, 0, ctypes.addressof(raw))
        return dict(zip(REGS, struct.unpack(f"<{len(REGS)}Q", raw.raw)))

    def _set(self, regs):
        raw = ctypes.create_string_buffer(
            struct.pack(f"<{len(REGS)}Q", *(regs[n] for n in REGS)), 8 * len(REGS))
        ptrace(SETREGS, self.pid, 0, ctypes.addressof(raw))

    def _gadget(self):
        """Where there is a `syscall` instruction in what it may execute."""
        with open(f"/proc/{self.pid}/maps") as f:
            maps = f.read()
        for line in maps.splitlines():
            m = re.match(r"(\w+)-(\w+) r-xp", line)
            if not m or "vsyscall" in line:
                continue
            start, end = int(m[1], 16), int(m[2], 16)
            at = self.peek(start, end - start).find(b"\x0f\x05")
            if at >= 0:
                return start + at
        raise AssertionError("no syscall instruction")

    def release(self):
        """It goes on as if nothing had happened, where that is possible."""
        if self.pid is None:
            return
        try:
            if self.room:
                self.call("munmap", self.room, ROOM)
            if hasattr(self, "saved"):
                self._set(self.saved)
            ptrace(DETACH, self.pid)
        except (OSError, Died):
            pass
        self.pid = None
        if hasattr(self, "mem"):
            self.mem.close()

    # -- what an attacker can do

    def peek(self, at, n):
        self.mem.seek(at)
        return self.mem.read(n)

    def poke(self, at, data):
        self.mem.seek(at)
        self.mem.write(data)

    def put(self, data):
        """Bytes in its memory, until the next call() is over: the address."""
        at = self.room + self.used
        self.used += (len(data) + 15) & ~15
        assert self.used <= ROOM
        self.poke(at, data)
        return at

    def raw(self, call, *args):
        """What the kernel returns. Text and bytes are put into its memory."""
        words = []
        for a in args:
            if isinstance(a, str):
                a = a.encode() + b"\0"
            if isinstance(a, (bytes, bytearray)):
                a = self.put(bytes(a))
            words.append(a & (1 << 64) - 1)
        words += [0] * (6 - len(words))
        regs = dict(self.saved, rip=self.at, orig_rax=(1 << 64) - 1,
                    rax=NR[call] if isinstance(call, str) else call,
                    **dict(zip(ARGS, words)))
        self._set(regs)
        ptrace(SINGLESTEP, self.pid)
        while self._wait() not in (signal.SIGTRAP, signal.SIGTRAP | 0x80):
            ptrace(SINGLESTEP, self.pid)
        r = self._get()["rax"]
        return r - (1 << 64) if r >= 1 << 63 else r

    def call(self, call, *args):
        """The same; an error is an OSError. What was put before is forgotten."""
        r = self.raw(call, *args)
        if self.room:
            self.used = 0
        if -4096 < r < 0:
            raise OSError(-r, os.strerror(-r), str(call))
        return r

    def error(self, call, *args):
        """The name of the error, "" without one, "SIGSYS" if that ends it."""
        try:
            self.call(call, *args)
            return ""
        except OSError as e:
            return errno.errorcode[e.errno]
        except Died as e:
            return signal.Signals(e.signal).name

    # -- a little more than that

    def read_file(self, path, n=65536):
        fd = self.call("openat", -100, path, os.O_RDONLY)
        try:
            at = self.put(bytes(n))
            got = self.raw("read", fd, at, n)
            self.used = 0
            if got < 0:
                raise OSError(-got, os.strerror(-got), path)
            return self.peek(at, got)
        finally:
            self.call("close", fd)

    def connect(self, path, kind):
        """A unix socket of its own; a name that begins with @ is abstract."""
        fd = self.call("socket", 1, kind | os.O_NONBLOCK, 0)
        name = path.encode()
        name = b"\0" + name[1:] if name[:1] == b"@" else name + b"\0"
        address = struct.pack("<H", 1) + name
        try:
            self.call("connect", fd, address, len(address))
        except BaseException:
            if self.pid:
                self.call("close", fd)
            raise
        return fd

    def names(self, path):
        """Entries of a directory."""
        fd = self.call("openat", -100, path, os.O_RDONLY | os.O_DIRECTORY)
        at = self.put(bytes(65536))
        out = []
        while True:
            got = self.raw("getdents64", fd, at, 65536)
            if got <= 0:
                break
            data = self.peek(at, got)
            while data:
                n, = struct.unpack_from("<H", data, 16)
                out.append(data[19:n].split(b"\0")[0].decode())
                data = data[n:]
        self.used = 0
        self.call("close", fd)
        return sorted(set(out) - {".", ".."})
