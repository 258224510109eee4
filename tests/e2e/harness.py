"""Runs the real daemon for a test, apart from every other one on this machine.

An Instance has its own directory, configuration, sockets, pool, control group
and range of ids, and takes all of it away again. An installed instance is out
of its sight (hide_installed). Nothing here looks into the
product: tests talk to the command line (cli), the HTTP API (api) and the frames
of src/wire/frame.h (Wire), and to the kernel about what is really there.
"""

import contextlib
import ctypes
import fcntl
import http.client
import json
import os
import re
import secrets
import shutil
import signal
import socket
import sqlite3
import struct
import subprocess
import sys
import time
import traceback
import unittest
import urllib.parse

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(TOP, os.environ.get("CARREL_BUILD", "build"))
SANITIZED = "-san" in os.path.basename(BUILD)
# Time limits are for a machine that does nothing else. Waiting for something that
# must come costs nothing when it comes: there a busy machine gets PATIENCE.
PATIENCE = 4
SLOW = 4 if SANITIZED else float(os.environ.get("TEST_SLOW", "1"))

# Pools and images are large, and /tmp is in memory on Debian 13: tests and the
# programs that they start keep files on disk.
SCRATCH = os.environ["TMPDIR"] = "/var/tmp"

# "microvm": the sandboxes that tests make without a word about it are of that
# tier (make test-microvm).
TIER = os.environ.get("CARREL_TIER", "container")
# What a pause comes to: what a machine has in memory is kept on disk.
PAUSED = "suspended" if TIER == "microvm" else "paused"
if TIER == "microvm":
    SLOW *= 4
# "kvm": on hosts where KVM works (make test-guest).
MICROVM = os.environ.get("TEST_MICROVM", "emulated")


def plain_only(test):
    """For a test that mostly waits, or fills disks: in the plain build only.
    Sanitizers have nothing to see in it that other tests do not show them."""
    return None if SANITIZED else test


def container_only(why):
    """For a test about how containers are made; with microVMs it is skipped,
    and says why."""
    return unittest.skipIf(TIER == "microvm", f"only for containers: {why}")


# Below the product's default, 1879048192: an installed instance has those ids.
UID_BASE = 0x60000000
UIDS_PER_SLOT = 1 << 24
SLOTS = 16


def wait_for(what, fn, timeout=10.0, step=0.01):
    """Calls fn until it returns something true; that, or AssertionError."""
    timeout *= PATIENCE
    end = time.monotonic() + timeout
    while True:
        got = fn()
        if got:
            return got
        if time.monotonic() > end:
            raise AssertionError(f"timed out after {timeout:g} s: {what}")
        time.sleep(step)


def strain(times=30):
    """How many times longer work takes now than the processors need for it: 1 on
    a machine that does nothing else."""
    began, cpu = time.monotonic(), os.times()
    for _ in range(times):
        os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)
    took = time.monotonic() - began
    return max(1, took / max(sum(os.times()[:4]) - sum(cpu[:4]), took / 50))


def within(limit, timed, tries=5):
    """Asserts that timed() answers with at most `limit` seconds, or with more
    when the machine has other work to do; the best of some tries counts."""
    seen = []
    for _ in range(tries):
        before = strain()
        took = timed()
        seen.append((took, limit * SLOW * max(before, strain())))
        if took <= seen[-1][1]:
            return
    raise AssertionError("too slow: " + ", ".join(
        f"{a:.3f} s, not {b:.3f} s" for a, b in seen))


def read(path, default=None):
    try:
        with open(path) as f:
            return f.read()
    except OSError:
        if default is None:
            raise
        return default


# ---------------------------------------------------------------------------
# An installed instance

# Where `make install` puts things, and where the installed daemon keeps its own.
INSTALLED = ("/etc/carrel", "/run/carrel", "/var/lib/carrel",
             "/usr/local/libexec/carrel", "/usr/local/share/carrel",
             "/usr/local/bin/carrel", "/usr/local/sbin/carreld")
CLONE_NEWNS = 0x20000


def installed():
    """The files of an installed instance that this process can reach."""
    return [p for p in INSTALLED if
            (os.listdir(p) if os.path.isdir(p) else os.path.isfile(p))]


def hide_installed():
    """Moves this process into a mount namespace in which nothing is installed.
    Call it before the first thread starts: only the calling thread moves."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS) < 0:
        raise OSError(ctypes.get_errno(), "cannot make a mount namespace")

    def mount(*args):
        subprocess.run(["mount", *args], check=True)
    # Private first, because our mounts must not reach the host; then shared
    # among ourselves, because hosts with systemd have shared mounts.
    mount("--make-rprivate", "/")
    mount("--make-rshared", "/")
    for line in reversed(read("/proc/self/mountinfo").splitlines()):
        where = line.split()[4]
        if where.startswith(tuple(p + "/" for p in INSTALLED)):
            subprocess.run(["umount", "-l", where], check=True)
    for path in installed():
        if os.path.isdir(path):
            mount("-t", "tmpfs", "-o", "mode=755", "hidden", path)
        else:
            mount("--bind", "/dev/null", path)


# ---------------------------------------------------------------------------
# Images


def tiny_image():
    """A small root file system: a tar of busybox, made once."""
    tar = os.path.join(TOP, "build/images/tiny.tar")
    make = os.path.join(TOP, "tests/fixtures/mkrootfs.sh")
    with once(tar) as missing:
        if missing or os.path.getmtime(tar) < os.path.getmtime(make):
            subprocess.run([make, tar + ".new"], check=True,
                           stdout=subprocess.DEVNULL)
            os.rename(tar + ".new", tar)
    return tar


def debian_image():
    """The image of `carrel image build debian`, made once (needs apt)."""
    tar = os.path.join(TOP, "build/images/debian.tar")
    with once(tar) as missing:
        if missing:
            subprocess.run([os.path.join(TOP, "images/debian/build"), tar + ".new"],
                           check=True)
            os.rename(tar + ".new", tar)
    return tar


def workbench_image():
    """Debian with databases and network clients, made once (needs apt)."""
    tar = os.path.join(TOP, "build/images/workbench.tar")
    with once(tar) as missing:
        if missing:
            subprocess.run([os.path.join(TOP, "tests/fixtures/mkworkbench.sh"),
                            tar + ".new"], check=True)
            os.rename(tar + ".new", tar)
    return tar


def interpreter_image():
    """`carrel image build code-interpreter`, made once (needs apt)."""
    tar = os.path.join(TOP, "build/images/code-interpreter.tar")
    recipe = os.path.join(TOP, "images/code-interpreter")
    with once(tar) as missing:
        if missing:
            subprocess.run([recipe + "/build", tar + ".new"], check=True)
            os.rename(tar + ".new", tar)
    return tar


def vm_dir():
    """What microVMs start from, for the key vm_dir; made once (needs apt)."""
    path = os.path.join(TOP, "build/vm")
    with once(path):
        subprocess.run(["make", "-s", "vm"], cwd=TOP, check=True,
                       stdout=subprocess.DEVNULL)
    return path


@contextlib.contextmanager
def once(path):
    """Only one process at a time makes `path`; yields whether it is missing."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield not os.path.exists(path)


# ---------------------------------------------------------------------------
# HTTP over the unix socket


class UnixHTTP(http.client.HTTPConnection):
    def __init__(self, path, timeout=60):
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self):
        return json.loads(self.body) if self.body else None

    def __repr__(self):
        return f"<{self.status} {self.body[:300]!r}>"


# ---------------------------------------------------------------------------
# Frames (src/wire/frame.h)

PING, SPAWN, INPUT, INPUT_EOF, RESIZE, SIGNAL, ACK, DETACH, ATTACH = \
    range(1, 10)
PONG, STARTED, FAILED, OUTPUT, OUTPUT_EOF, INPUT_ACK, EXIT, ATTACHED, GAP = \
    range(64, 73)
SPAWN_PTY, SPAWN_STDIN, SPAWN_DETACHED, SPAWN_BUILTIN = 1, 2, 4, 8
WINDOW = 256 * 1024
PAYLOAD_MAX = 64 * 1024
MAGIC = b"\xff\xff\xff\xffwire"


class WireError(Exception):
    pass


def pack_str(s):
    raw = os.fsencode(s)
    return struct.pack("<I", len(raw)) + raw + b"\0"


class Wire:
    """A connection of frames: an upgraded request, or an agent's own socket."""

    def __init__(self, sock):
        self.sock = sock
        self.buf = bytearray()
        self.headers = {}

    @classmethod
    def upgrade(cls, path, target, body=b"", timeout=60, headers=None):
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(timeout)
        sock.connect(path)
        w = cls(sock)
        head = (f"POST {target} HTTP/1.1\r\nHost: localhost\r\n"
                "Connection: Upgrade\r\nUpgrade: carrel-wire/1\r\n")
        for name, value in (headers or {}).items():
            head += f"{name}: {value}\r\n"
        if body:
            head += "Content-Type: application/json\r\n"
        head += f"Content-Length: {len(body)}\r\n\r\n"
        sock.sendall(head.encode() + body)
        while b"\r\n\r\n" not in w.buf:
            w._more()
        head, _, rest = bytes(w.buf).partition(b"\r\n\r\n")
        w.buf[:] = rest
        lines = head.decode().split("\r\n")
        status = int(lines[0].split()[1])
        w.headers = {k.lower(): v.strip() for k, _, v in
                     (line.partition(":") for line in lines[1:])}
        if status != 101:
            n = int(w.headers.get("content-length", 0))
            while len(w.buf) < n:
                w._more()
            raise WireError(status, bytes(w.buf).decode(errors="replace"))
        w.hello()
        return w

    def hello(self):
        self.sock.sendall(MAGIC + struct.pack("<HHI", 1, 1, 0) +
                          secrets.token_bytes(16))
        while len(self.buf) < 32:
            self._more()
        if bytes(self.buf[:8]) != MAGIC:
            raise WireError("no hello", bytes(self.buf[:32]))
        del self.buf[:32]

    def _more(self):
        got = self.sock.recv(1 << 18)
        if not got:
            raise EOFError("the connection ended")
        self.buf += got

    def send(self, kind, channel, payload=b"", flags=0):
        self.sock.sendall(struct.pack("<IBBHI", len(payload), kind, flags, 0,
                                      channel) + payload)

    def recv(self):
        """The next frame: (type, channel, payload)."""
        while len(self.buf) < 12:
            self._more()
        n, kind, _, zero, channel = struct.unpack_from("<IBBHI", self.buf)
        if zero or n > PAYLOAD_MAX:
            raise WireError("bad frame", n, zero)
        while len(self.buf) < 12 + n:
            self._more()
        payload = bytes(self.buf[12:12 + n])
        del self.buf[:12 + n]
        return kind, channel, payload

    def spawn(self, argv, channel=1, flags=0, env=(), cwd="", user="",
              rows=0, cols=0, tag=""):
        body = struct.pack("<IHH", flags, rows, cols)
        body += pack_str(user) + pack_str(cwd) + pack_str(tag)
        for words in (argv, env):
            body += struct.pack("<I", len(words))
            body += b"".join(pack_str(w) for w in words)
        while True:
            part, body = body[:PAYLOAD_MAX], body[PAYLOAD_MAX:]
            self.send(SPAWN, channel, part, 1 if body else 0)
            if not body:
                return

    def attach(self, number=0, tag="", out=(0, 0), channel=1):
        self.send(ATTACH, channel, struct.pack("<I", number) + pack_str(tag) +
                  struct.pack("<QQ", *out))

    def signal(self, number, channel=1):
        self.send(SIGNAL, channel, struct.pack("<B", number))

    def finish(self, channel=1, sink=None, ack=True):
        """Reads a channel to its end: (code, stdout, stderr); code < 0 is a
        signal. `sink` gets the bytes of stdout instead of a buffer."""
        out = {1: bytearray(), 2: bytearray()}
        seen = {1: 0, 2: 0}
        while True:
            kind, chan, p = self.recv()
            if chan != channel:
                continue
            if kind == OUTPUT:
                stream, offset = struct.unpack_from("<BQ", p)
                data = p[9:]
                if offset != seen[stream]:
                    raise WireError("gap", stream, offset, seen[stream])
                seen[stream] += len(data)
                if sink and stream == 1:
                    sink(data)
                else:
                    out[stream] += data
                if ack:
                    self.send(ACK, channel,
                              struct.pack("<BQ", stream, seen[stream]))
            elif kind == FAILED:
                raise WireError(struct.unpack_from("<I", p)[0],
                                p[8:-1].decode(errors="replace"))
            elif kind == EXIT:
                signaled, code = struct.unpack_from("<BI", p)
                return (-code if signaled else code, bytes(out[1]),
                        bytes(out[2]))

    def close(self):
        self.sock.close()


# ---------------------------------------------------------------------------
# The daemon


def _slot():
    """A free range of ids, held by a lock until this process ends."""
    os.makedirs("/tmp/carrel-test-slots", exist_ok=True)
    for n in range(SLOTS):
        f = open(f"/tmp/carrel-test-slots/{n}", "w")
        try:
            fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return n, f
        except BlockingIOError:
            f.close()
    raise RuntimeError("all test slots are taken: is another suite running?")


def make_users():
    """The accounts of the roles; the first tests of a machine start together."""
    with once("/tmp/carrel-test-slots/users"):
        subprocess.run([os.path.join(TOP, "packaging/users.sh")], check=True)


def cgroup_roots():
    """Every mounted hierarchy."""
    return [line.split()[4] for line in read("/proc/self/mountinfo").splitlines()
            if line.split(" - ")[1].split()[0] in ("cgroup", "cgroup2")]


def cli_result(p):
    p.out = p.stdout.decode(errors="replace")
    p.err = p.stderr.decode(errors="replace")
    return p


class Instance:
    ROLES = ("carreld", "carrel-api", "carrel-warden", "carrel-scribe")
    RUN = None  # a directory in memory, as /run is on a server; or on disk

    def __init__(self, image="tiny", **conf):
        if installed():
            raise RuntimeError(f"an installed instance is in sight: {installed()}; "
                               "call harness.hide_installed() first")
        self.slot, self._slot_lock = _slot()
        self.name = "c" + secrets.token_hex(2)
        self.dir = f"{SCRATCH}/{self.name}"
        self.run_dir = f"{self.RUN or self.dir}/{self.name if self.RUN else 'run'}"
        self.state_dir = f"{self.dir}/state"
        self.bin = f"{self.dir}/bin"
        self.sock = f"{self.run_dir}/api.sock"
        self.config = f"{self.dir}/conf"
        self.log_path = f"{self.dir}/log"
        self.cgroup = f"/carrel-test-{self.name}"
        self.daemon = None
        self.image = image
        os.mkdir(self.dir, 0o755)
        shutil.copytree(os.path.join(BUILD, "bin"), self.bin)
        self.conf = {
            "state_dir": self.state_dir, "run_dir": self.run_dir,
            "presets_dir": os.path.join(TOP, "packaging/presets"),
            # No microVMs and no prices unless a test asks for them.
            "vm_dir": f"{self.dir}/vm", "models": f"{self.dir}/models.conf",
            "libexec_dir": self.bin, "user": "carrel", "group": "carrel",
            "pool_size": "2G", "cgroup": self.cgroup,
            "uid_base": UID_BASE + self.slot * UIDS_PER_SLOT,
            "uid_count": UIDS_PER_SLOT, "max_sandboxes": 120, "spares": 0,
            "image": image or "tiny", "cpus": 1, "memory": "256M",
            "disk": "256M", "pids": 256, "log_level": "debug",
            "microvm": MICROVM,
        }
        if TIER == "microvm":
            self.conf.update(tier=TIER, vm_dir=vm_dir())
        if MICROVM == "kvm":
            self.conf.update(microvm_patience=20)
        self.conf.update(conf)
        make_users()
        try:
            self.start()
            if image:
                self.import_image(image)
        except BaseException:
            self._complain()
            self.stop(check=False)
            raise

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        if exc[0]:
            self._complain()
        self.stop(check=exc[0] is None)

    def _complain(self):
        print(f"# log of the daemon ({self.dir}):", file=sys.stderr)
        print(self.log()[-6000:], file=sys.stderr)

    # -- life of the daemon

    def write_conf(self):
        with open(self.config, "w") as f:
            f.writelines(f"{k} = {v}\n" for k, v in self.conf.items())

    def env(self):
        env = {k: v for k, v in os.environ.items() if not k.startswith("CARREL_")}
        env["CARREL_SOCKET"] = self.sock
        env["PATH"] = f"{self.bin}:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin"
        if SANITIZED:
            env["ASAN_OPTIONS"] = ("detect_leaks=1:abort_on_error=0:"
                                   "exitcode=99:log_to_syslog=0")
            env["UBSAN_OPTIONS"] = "print_stacktrace=1:halt_on_error=1"
        return env

    def start(self, wait=True):
        self.write_conf()
        with open(self.log_path, "ab") as log:
            self.daemon = subprocess.Popen(
                [f"{self.bin}/carreld", "--config", self.config],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env=self.env(), start_new_session=True)
        if wait:
            self.wait_ready()

    def wait_ready(self, timeout=30):
        def ready():
            if self.daemon.poll() is not None:
                raise AssertionError(
                    f"carreld ended with {self.daemon.returncode}:\n{self.log()}")
            try:
                r = self.api("GET", "/v1/host", timeout=5)
            except OSError:
                return False
            return r.status == 200 and self._kvm_answered(r.json["microvm"])
        wait_for(f"the daemon answers\n{self.log()[-2000:]}", ready,
                 timeout * SLOW)

    def _kvm_answered(self, microvm):
        """Where tests are to use KVM: has its test boot ended?"""
        return MICROVM != "kvm" or self.conf["microvm"] != "kvm" or \
            not os.path.exists(f"{self.conf.get('vm_dir')}/initrd") or \
            microvm["available"] or "being tried" not in (microvm["why"] or "")

    def restart(self):
        """As `systemctl restart` does: SIGTERM, then a new one."""
        self.end_daemon()
        self.start()

    def end_daemon(self, timeout=60):
        if self.daemon and self.daemon.poll() is None:
            self.daemon.send_signal(signal.SIGTERM)
            self.daemon.wait(timeout)

    def sql(self, statement):
        """On the registry, while no daemon has it."""
        db = sqlite3.connect(f"{self.state_dir}/registry/registry.db")
        with db:
            db.execute(statement)
        db.close()

    def log(self):
        return read(self.log_path, "")

    def pids(self):
        """Our processes: {program: [pid]}; sandboxes' are in box_pids(). The
        first of each is the role itself, whatever children it has: the oldest,
        as numbers begin anew every now and then."""
        found = {}
        for p in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                exe = os.readlink(f"/proc/{p}/exe")
                if exe.startswith(self.bin + "/"):
                    stat = read(f"/proc/{p}/stat").rpartition(")")[2].split()
                    found.setdefault(os.path.basename(exe), []).append(
                        (int(stat[19]), int(p)))
        return {name: [p for _, p in sorted(rows)]
                for name, rows in found.items()}

    def box_pids(self):
        """Every process in the control groups of this instance. Not the dead
        that wait for a slow init after their parent was killed."""
        found = []
        for p in filter(str.isdigit, os.listdir("/proc")):
            if self.cgroup + "/" in read(f"/proc/{p}/cgroup", " ") and \
                    "State:\tZ" not in read(f"/proc/{p}/status", " "):
                found.append(int(p))
        return found

    def kill_role(self, role, sig=signal.SIGKILL):
        """Returns the pid that was killed."""
        pid = self.pids()[role][0]
        os.kill(pid, sig)
        return pid

    def stop(self, check=True):
        """Ends and removes everything; `check` says that the daemon must have
        left nothing behind that is not the pool."""
        problems = []
        if self.daemon and self.daemon.poll() is None:
            if check:
                problems += self._kill_switch()
            try:
                self.end_daemon()
            except subprocess.TimeoutExpired:
                problems.append("carreld does not stop on SIGTERM")
                self.daemon.kill()
                self.daemon.wait()
        if check:
            problems += self.sanitizer_reports()
            self._settle(2)
            problems += [f"left: {x}" for x in self.leftovers()]
        self._force_away()
        if check and problems:
            raise AssertionError("\n".join(problems) + "\n" + self._last_log)

    def discard(self):
        """Removes an instance that nobody has stopped."""
        if not self._slot_lock.closed:
            self.stop(check=False)

    def _kill_switch(self):
        try:
            self.api("DELETE", "/v1/sandboxes?all=true", timeout=20)
        except (OSError, http.client.HTTPException) as e:
            return [f"kill switch: {e!r}"]
        # Processes are gone when it is answered; groups and directories
        # follow, and a daemon that is stopped before leaves them to its next
        # start.
        self._settle(5)
        return []

    def _settle(self, seconds):
        """Waits until no sandbox is left, or for so long. Its directory goes
        last; groups may be those of parts made ahead."""
        deadline = time.monotonic() + seconds * SLOW
        while time.monotonic() < deadline and any(
                x.startswith("run directory") or "in a sandbox" in x
                for x in self.leftovers()):
            time.sleep(0.02)

    def sanitizer_reports(self):
        return [line for line in self.log().splitlines()
                if "Sanitizer" in line or "runtime error:" in line]

    def _force_away(self):
        for pids in list(self.pids().values()) + [self.box_pids()]:
            for pid in pids:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
        deadline = time.monotonic() + 5
        while (self.box_pids() or self.pids()) and time.monotonic() < deadline:
            time.sleep(0.02)
        for where in reversed(self.mounts()):
            subprocess.run(["umount", "-l", where], capture_output=True)
        for dev in self.loops():
            subprocess.run(["losetup", "-d", dev], capture_output=True)
        for path in self.cgroups(with_parent=True):
            with contextlib.suppress(OSError):
                os.rmdir(path)
        self._last_log = self.log()[-4000:]
        keep = os.environ.get("TEST_KEEP_LOGS")
        if keep and os.path.exists(self.log_path):
            os.makedirs(keep, exist_ok=True)
            shutil.copy(self.log_path, f"{keep}/{self.name}.daemon.log")
        for path in (self.run_dir, self.dir):
            shutil.rmtree(path, ignore_errors=True)
        self._slot_lock.close()

    # -- what the kernel has of us

    def mounts(self):
        return [line.split()[4] for line in
                read("/proc/self/mountinfo").splitlines()
                if line.split()[4].startswith(self.dir + "/")]

    def pool(self):
        """Where the pool is mounted."""
        return [m for m in self.mounts()
                if m.startswith(self.state_dir + "/pool")][-1]

    def loops(self):
        out = subprocess.run(["losetup", "-nl", "-O", "NAME,BACK-FILE"],
                             capture_output=True, text=True).stdout
        return [line.split()[0] for line in out.splitlines()
                if self.dir + "/" in line]

    def cgroups(self, with_parent=False):
        """Directories of the sandboxes, deepest first."""
        found = []
        for root in cgroup_roots():
            for path, _, _ in os.walk(root + self.cgroup, topdown=False):
                if with_parent or path != root + self.cgroup:
                    found.append(path)
        return found

    def leftovers(self):
        """What is there although no sandbox and no daemon is. The pool may
        stay mounted, the parent groups may stay."""
        found = [f"process {p} {n}" for n, ps in self.pids().items() for p in ps]
        found += [f"process {p} in a sandbox: {read(f'/proc/{p}/comm', '').strip()}"
                  for p in self.box_pids()]
        found += [f"mount {m}" for m in self.mounts()
                  if not m.startswith(self.state_dir + "/pool")]
        keep = {os.path.basename(g) for g in ("daemon", "spare", "ahead")}
        found += [f"cgroup {g}" for g in self.cgroups()
                  if os.path.basename(g) not in keep]
        box = f"{self.run_dir}/box"
        if os.path.isdir(box):
            found += [f"run directory {x}" for x in os.listdir(box)]
        return found

    # -- talking to it

    def api(self, method, path, body=None, headers=None, timeout=60):
        conn = UnixHTTP(self.sock, timeout)
        try:
            if isinstance(body, (dict, list)):
                body = json.dumps(body).encode()
            conn.request(method, path, body, headers or {})
            r = conn.getresponse()
            return Answer(r.status, dict(r.getheaders()), r.read())
        finally:
            conn.close()

    def cli_argv(self, *args):
        return [f"{self.bin}/carrel", *map(str, args)]

    def cli(self, *args, input=None, timeout=60, check=None):
        """Runs the command line: .returncode, .out, .err (text), .stdout."""
        if isinstance(input, str):
            input = input.encode()
        p = cli_result(subprocess.run(
            self.cli_argv(*args), env=self.env(), timeout=timeout * SLOW,
            capture_output=True,
            **({"input": input} if input is not None
               else {"stdin": subprocess.DEVNULL})))
        if check is not None and p.returncode != check:
            raise AssertionError(f"carrel {' '.join(map(str, args))}: exit "
                                 f"{p.returncode}, not {check}\n{p.out}{p.err}")
        return p

    def popen(self, *args, **kw):
        kw.setdefault("stdin", subprocess.PIPE)
        kw.setdefault("stdout", subprocess.PIPE)
        kw.setdefault("stderr", subprocess.PIPE)
        return subprocess.Popen(self.cli_argv(*args), env=self.env(), **kw)

    def sh(self, ref, script, timeout=60):
        """A shell script in a sandbox, through the command line."""
        return self.cli("exec", ref, "--", "sh", "-c", script, timeout=timeout)

    def create(self, **spec):
        r = self.api("POST", "/v1/sandboxes", spec)
        if r.status != 201:
            raise AssertionError(f"create {spec}: {r}")
        return r.json["id"]

    def rm(self, ref):
        r = self.api("DELETE", f"/v1/sandboxes/{ref}")
        if r.status != 204:
            raise AssertionError(f"rm {ref}: {r}")

    def ids(self):
        return [s["id"] for s in self.api("GET", "/v1/sandboxes?limit=1000")
                .json["sandboxes"]]

    def exec_wire(self, ref, timeout=60):
        return Wire.upgrade(self.sock, f"/v1/sandboxes/{ref}/exec",
                            timeout=timeout * SLOW)

    def run_wire(self, timeout=60, **spec):
        return Wire.upgrade(self.sock, "/v1/run", json.dumps(spec).encode(),
                            timeout=timeout * SLOW)

    def import_image(self, name):
        tar = {"tiny": tiny_image, "debian": debian_image,
               "workbench": workbench_image,
               "code-interpreter": interpreter_image}[name]()
        start = os.path.join(TOP, "images", name, "start")
        query = "?" + urllib.parse.urlencode({"start": read(start).strip()}) \
            if os.path.exists(start) else ""
        with open(tar, "rb") as f:
            r = self.api("PUT", f"/v1/images/{name}{query}", f,
                         {"Content-Length": str(os.path.getsize(tar))},
                         timeout=300)
        if r.status != 201:
            raise AssertionError(f"import {name}: {r}")
        return r.json


# ---------------------------------------------------------------------------
# Running a file of tests: TAP on stdout


class TapResult(unittest.TestResult):
    def __init__(self):
        super().__init__()
        self.n = 0
        self.began = 0

    def startTest(self, test):
        super().startTest(test)
        self.began = time.monotonic()

    def _line(self, ok, test, note=""):
        self.n += 1
        took = time.monotonic() - self.began if self.began else 0
        name = re.sub(r"^__main__\.", "", test.id())
        print(f"{'ok' if ok else 'not ok'} {self.n} - {name} ({took:.1f} s){note}",
              flush=True)

    def addSuccess(self, test):
        self._line(True, test)

    def addSkip(self, test, reason):
        self._line(True, test, f" # SKIP {reason}")

    def _bad(self, test, err):
        self._line(False, test)
        for line in "".join(traceback.format_exception(*err)).splitlines():
            print(f"# {line}", flush=True)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._bad(test, err)

    def addError(self, test, err):
        super().addError(test, err)
        self._bad(test, err)

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err:
            self._bad(subtest, err)

    def addExpectedFailure(self, test, err):
        self._line(False, test)

    def addUnexpectedSuccess(self, test):
        self._line(False, test)


class Case(unittest.TestCase):
    """Tests that share one instance; CONF and IMAGE may be set."""
    CONF = {}
    IMAGE = "tiny"
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.i = Instance(image=cls.IMAGE, **cls.CONF)
        # unittest calls no tearDownClass when the rest of a setUpClass fails.
        cls.addClassCleanup(cls.i.discard)

    @classmethod
    def tearDownClass(cls):
        cls.i.stop()

    def tearDown(self):
        # One test's sandboxes are not the next one's.
        if self.i.daemon.poll() is None:
            with contextlib.suppress(OSError, http.client.HTTPException):
                self.i.api("DELETE", "/v1/sandboxes?all=true")


def main():
    """`python3 test_x.py [PATTERN]`"""
    hide_installed()
    names = sys.argv[1:]
    loader = unittest.TestLoader()
    if names:
        loader.testNamePatterns = [f"*{n}*" for n in names]
    suite = loader.loadTestsFromModule(sys.modules["__main__"])
    result = TapResult()
    suite.run(result)
    print(f"1..{result.n}", flush=True)
    sys.exit(not result.wasSuccessful())
