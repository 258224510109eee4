"""What the escape tests share: the probe inside of a sandbox, canaries outside.

The verdicts of the probe are a part of the evidence only: what an attack did
is looked for on the host, at canaries that were planted before.
"""

import collections
import contextlib
import ctypes
import hashlib
import os
import re
import secrets
import socket
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))

import harness  # noqa: E402

PROBE = os.path.join(harness.TOP, "build/probe")
INSIDE = "/dev/shm/probe"
SWITCHES = ("kernel/core_pattern", "kernel/modprobe", "kernel/hostname",
            "kernel/sysrq", "kernel/randomize_va_space", "kernel/domainname",
            "vm/overcommit_memory", "fs/file-max", "user/max_user_namespaces")

libc = ctypes.CDLL(None, use_errno=True)
Verdict = collections.namedtuple("Verdict", "word detail")


def own_network():
    """Starts the program again in a network of its own, if it has none yet.
    Listeners of the tests must meet nobody else, and the machine's stay out."""
    if [name for _, name in socket.if_nameindex()] == ["lo"]:
        return
    os.execvp("unshare", ["unshare", "-n", "--", "sh", "-c",
                          'ip link set lo up && exec "$@"', "sh",
                          sys.executable, *sys.argv])


def is_v2():
    return os.path.exists("/sys/fs/cgroup/cgroup.controllers")


# ---------------------------------------------------------------------------
# The probe


def rows():
    """{id: (what it does, whether `all` has it)}"""
    out = subprocess.run([PROBE, "list"], capture_output=True, text=True,
                         check=True).stdout
    found = {}
    for line in out.splitlines():
        row, what = line.split(None, 1)
        found[row] = (what, "(by name only)" not in what)
    return found


def put_image(i, name, tar):
    with open(tar, "rb") as f:
        return i.api("PUT", f"/v1/images/{name}", f,
                     {"Content-Length": str(os.path.getsize(tar))}, timeout=300)


def put_probe(i, box):
    with open(PROBE, "rb") as f:
        i.cli("exec", box, "--", "sh", "-c",
              f"cat > {INSIDE} && chmod 755 {INSIDE}", input=f.read(), check=0)


def argv(names, sudo, params):
    return (["sudo"] if sudo else []) + [INSIDE, *names] + \
        [f"{k}={v}" for k, v in params.items()]


def probe(i, box, names=("all",), sudo=False, timeout=120, **params):
    """Runs rows; {id: Verdict}. A row without a line is missing in it."""
    if harness.SLOW > 1:
        params["slow"] = max(int(harness.SLOW), params.get("slow", 1))
    p = i.cli("exec", box, "--", *argv(names, sudo, params), timeout=timeout)
    found = {}
    for line in p.out.splitlines():
        m = re.match(r"([A-K]\d+) (HELD|BROKEN|OBSERVED|SKIP)[ (]?(.*)$", line)
        if m:
            detail = m[3][:-1] if m[2] == "SKIP" else m[3]
            found[m[1]] = Verdict(m[2], detail)
    if not found or p.returncode not in (0, 1):
        raise AssertionError(f"the probe ended with {p.returncode}:\n"
                             f"{p.out}{p.err}")
    return found


# ---------------------------------------------------------------------------
# Processes of a sandbox, from outside


def pids_of(base):
    """Every process of one sandbox: whoever has an id of its range, in whatever
    group it is. Init first."""
    found = []
    for p in filter(str.isdigit, os.listdir("/proc")):
        s = status(p)
        uid = s.get("Uid", "").split()
        if uid and base <= int(uid[0]) <= base + 65536 and \
                not s["State"].startswith("Z"):
            found.append(int(p))
    return sorted(found, key=lambda p: (ns_pid(p) != 1, p))


def status(pid):
    text = harness.read(f"/proc/{pid}/status", " ")
    return {k: v.strip() for k, _, v in
            (line.partition(":") for line in text.splitlines())}


def ns_pid(pid):
    return int(status(pid).get("NSpid", "0").split()[-1])


def tasks(pid):
    """The status of each thread."""
    with contextlib.suppress(OSError):
        return [status(f"{pid}/task/{t}") for t in os.listdir(f"/proc/{pid}/task")]
    return []


def base_of(i, box):
    """The first id of a sandbox' range, as the kernel tells it inside."""
    return int(i.sh(box, "cat /proc/self/uid_map").out.split()[1])


def agent_of(base):
    first = pids_of(base)[0]
    assert ns_pid(first) == 1, first
    return first


def groups(pid):
    """{hierarchy: path}"""
    return {k: path for _, k, path in
            (line.split(":", 2) for line in
             harness.read(f"/proc/{pid}/cgroup").splitlines())}


# ---------------------------------------------------------------------------
# Canaries


class Watch:
    """Who opens, reads, changes or removes anything of a directory."""
    EVENTS = 0xFFF & ~0x18  # all of inotify's but the closings

    def __init__(self, path):
        self.fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        for at, _, _ in os.walk(path):
            if libc.inotify_add_watch(self.fd, at.encode(), self.EVENTS) < 0:
                raise OSError(ctypes.get_errno(), "inotify", at)

    def events(self):
        try:
            return len(os.read(self.fd, 65536))
        except BlockingIOError:
            return 0

    def close(self):
        os.close(self.fd)


class Canaries:
    """Things of the host that nobody in a sandbox may reach."""

    def __init__(self):
        self.stack = contextlib.ExitStack()
        self.secret = "canary-" + secrets.token_hex(16)
        self.dir = f"/tmp/{secrets.token_hex(8)}"
        self.flag = f"{self.dir}/flag"
        self._files()
        self._sockets()
        self._process()
        self._ipc()
        self.switches = self._switches()

    def _files(self):
        os.mkdir(self.dir, 0o700)
        self.stack.callback(subprocess.run, ["rm", "-rf", self.dir])
        with open(os.open(self.flag, os.O_WRONLY | os.O_CREAT, 0o600), "w") as f:
            f.write(self.secret)
        self.watch = Watch(self.dir)
        self.stack.callback(self.watch.close)

    def _sockets(self):
        """An address and an interface that only the host's network has."""
        subprocess.run(["ip", "address", "replace", "192.0.2.1/32", "dev", "lo"],
                       check=True)
        if "canary0" not in [name for _, name in socket.if_nameindex()]:
            subprocess.run(["ip", "link", "add", "canary0", "type", "veth",
                            "peer", "name", "canary1"], check=True)
        self.listeners = {}
        self.port = 0
        for family, where in ((socket.AF_INET, "127.0.0.1"),
                              (socket.AF_INET6, "::1"),
                              (socket.AF_INET, "192.0.2.1")):
            s = socket.socket(family)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            s.bind((where, self.port))
            self.port = s.getsockname()[1]
            self.listeners[where] = s
        self.abstract = secrets.token_hex(8)
        s = socket.socket(socket.AF_UNIX)
        s.bind("\0" + self.abstract)
        self.listeners["@" + self.abstract] = s
        for s in self.listeners.values():
            s.listen()
            s.setblocking(False)
            self.stack.callback(s.close)

    def _process(self):
        self.process = subprocess.Popen(["sleep", "3600"],
                                        env={"SECRET": self.secret})
        self.stack.callback(self.process.wait)
        self.stack.callback(self.process.kill)

    def _ipc(self):
        """A segment and a file that the modes allow to everyone."""
        self.shmkey = secrets.randbits(30) | 1
        self.shmid = libc.shmget(self.shmkey, 4096, 0o1666)
        assert self.shmid >= 0, "shmget"
        self.stack.callback(libc.shmctl, self.shmid, 0, None)
        self.shm = "canary" + secrets.token_hex(4)
        path = f"/dev/shm/{self.shm}"
        with open(path, "w") as f:
            f.write(self.secret)
        self.stack.callback(os.unlink, path)
        os.chmod(path, 0o666)

    def _switches(self):
        return {s: harness.read(f"/proc/sys/{s}", "-") for s in SWITCHES}

    def params(self, i, box):
        return {"port": self.port, "host": "192.0.2.1",
                "abstract": self.abstract, "hostpid": self.process.pid,
                "shmkey": self.shmkey, "shm": self.shm,
                "hostpath": os.path.basename(i.dir), "flag": self.flag}

    def touched(self):
        """What happened to them; an empty list is what is wanted."""
        found = []
        for where, s in self.listeners.items():
            with contextlib.suppress(BlockingIOError):
                while True:
                    s.accept()[0].close()
                    found.append(f"a connection to {where}")
        if self.watch.events():
            found.append(f"{self.dir} was opened or changed")
        if self.process.poll() is not None:
            found.append("the process was ended")
        elif status(self.process.pid)["TracerPid"] != "0":
            found.append("the process is traced")
        for line in harness.read("/proc/sysvipc/shm").splitlines()[1:]:
            f = line.split()
            if int(f[1]) == self.shmid and (f[6] != "0" or f[5] != "0"):
                found.append("the segment was attached")
        if harness.read(f"/dev/shm/{self.shm}") != self.secret:
            found.append("the file in /dev/shm was changed")
        for name, value in self._switches().items():
            if value != self.switches[name]:
                found.append(f"{name} is now {value}")
        return found

    def close(self):
        self.stack.close()


class KernelLog:
    """Lines of the kernel's log from now on."""

    def __init__(self):
        self.fd = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
        os.lseek(self.fd, 0, os.SEEK_END)

    def lines(self):
        found = []
        while True:
            try:
                raw = os.read(self.fd, 8192)
            except BlockingIOError:
                return found
            except BrokenPipeError:  # some were overwritten before we read
                found.append("(lines were lost)")
                continue
            found.append(raw.decode(errors="replace").partition(";")[2].strip())

    def close(self):
        os.close(self.fd)


ALARMS = re.compile(r"WARNING:|BUG:|Oops|general protection fault|KASAN|"
                    r"UBSAN|refcount_t|INFO: task|lockdep|use-after-free")


# ---------------------------------------------------------------------------
# Files of an image, with and without the page cache


def tree_hash(top, direct):
    """One hash over names and contents. `direct`: past the page cache, where
    the file system can."""
    import mmap
    total = hashlib.sha256()
    buf = mmap.mmap(-1, 1 << 20)
    for at, dirs, files in os.walk(top):
        dirs.sort()
        for name in sorted(files):
            path = os.path.join(at, name)
            if os.path.islink(path) or not os.path.isfile(path):
                continue
            fd = os.open(path, os.O_RDONLY | (os.O_DIRECT if direct else 0))
            total.update(path[len(top):].encode() + b"\0")
            offset = 0
            while (n := os.preadv(fd, [buf], offset)) > 0:
                total.update(buf[:n])
                offset += n
            os.close(fd)
    return total.hexdigest()
