"""How fast state moves: snapshots, rollbacks, forks, pauses, wakes; on an empty
sandbox and on one with 80,000 files, against the bare kernel and podman."""

import contextlib
import fcntl
import io
import json
import os
import shutil
import socket
import statistics
import struct
import subprocess
import tarfile
import tempfile
import time

import harness
from streams import in_turns

FILES, BYTES = 80_000, 1 << 30
TIMES = 15
FORKS = 100
SNAP_CREATE_V2 = 0x50009417
SNAP_DESTROY = 0x5000940f


def big_tar(path):
    """80,000 files in 400 directories, 1 GiB in all."""
    size = BYTES // FILES
    noise = os.urandom(size + FILES)
    with tarfile.open(path, "w") as tar:
        for d in range(FILES // 200):
            for f in range(200):
                n = d * 200 + f
                info = tarfile.TarInfo(f"big/{d:03}/{f:03}")
                info.size = size
                tar.addfile(info, io.BytesIO(noise[n:n + size]))


def upload(i, box, tar):
    with open(tar, "rb") as f:
        r = i.api("PUT", f"/v1/sandboxes/{box}/files/tar?path=/home/user", f,
                  {"Content-Length": str(os.path.getsize(tar))}, timeout=600)
    if r.status != 200:
        raise RuntimeError(f"upload: {r}")
    subprocess.run(["btrfs", "filesystem", "sync", i.pool()], check=True)


class Client:
    """One connection that is kept."""

    def __init__(self, i):
        self.i = i
        self.conn = harness.UnixHTTP(i.sock, 300)

    def ask(self, method, path, body=None, status=(200, 201, 204)):
        self.conn.request(method, path, None if body is None else
                          json.dumps(body),
                          {"Content-Type": "application/json"})
        r = self.conn.getresponse()
        raw = r.read()
        if r.status not in status:
            raise RuntimeError(f"{method} {path}: {r.status} {raw}")
        return json.loads(raw) if raw else None

    def run(self, box):
        self.ask("POST", f"/v1/sandboxes/{box}/run", {"argv": ["echo", "hi"]})


class Lean:
    """The same without Python's HTTP library, which takes longer for a request
    than the kernel for a freeze: what is measured is the daemon."""

    def __init__(self, i):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(i.sock)

    def post(self, path):
        self.sock.sendall(f"POST {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"
                          .encode())
        got = self.sock.recv(1 << 16)
        while not got.endswith(b"}"):
            got += self.sock.recv(1 << 16)
        if b" 200 " not in got[:16]:
            raise RuntimeError(f"POST {path}: {got}")


def timed(fn, *args):
    began = time.monotonic()
    got = fn(*args)
    return time.monotonic() - began, got


def bare_snapshot(i, box):
    """The ioctl alone, on the volume of a sandbox."""
    pool = i.pool()
    src = os.open(f"{pool}/box/{box}/tree", os.O_RDONLY)
    dst = os.open(pool, os.O_RDONLY)
    args = bytearray(struct.pack("=qQQ32x4040s", src, 0, 0, b"bench-bare"))
    destroy = bytearray(struct.pack("=q4088s", 0, b"bench-bare"))
    try:
        t, _ = timed(fcntl.ioctl, dst, SNAP_CREATE_V2, args)
        fcntl.ioctl(dst, SNAP_DESTROY, destroy)
    finally:
        os.close(src)
        os.close(dst)
    return t


class State:
    def __init__(self, i, tar):
        self.i, self.c = i, Client(i)
        self.box = {"empty": i.create(name="empty"), "big": i.create(name="big")}
        upload(i, self.box["big"], tar)
        self.point = {k: self.c.ask("POST", f"/v1/sandboxes/{b}/snapshots",
                                    {"name": f"point-{k}"})["id"]
                      for k, b in self.box.items()}

    def snapshot(self, which):
        t, got = timed(self.c.ask, "POST",
                       f"/v1/sandboxes/{self.box[which]}/snapshots",
                       {"name": "again"})
        self.c.ask("DELETE", f"/v1/snapshots/{got['id']}")
        return t

    def rollback(self, which):
        return timed(self.c.ask, "POST",
                     f"/v1/sandboxes/{self.box[which]}/rollback",
                     {"snapshot": self.point[which]})[0]

    def fork(self, which):
        def to_first_output():
            got = self.c.ask("POST", f"/v1/sandboxes/{self.box[which]}/fork", {})
            child = got["sandboxes"][0]["id"]
            self.c.run(child)
            return child
        t, child = timed(to_first_output)
        self.c.ask("DELETE", f"/v1/sandboxes/{child}")
        return t

    def create(self):
        def to_first_output():
            box = self.c.ask("POST", "/v1/sandboxes", {})["id"]
            self.c.run(box)
            return box
        t, box = timed(to_first_output)
        self.c.ask("DELETE", f"/v1/sandboxes/{box}")
        return t


def instant(say, judge, s):
    cases = {}
    for which in ("empty", "big"):
        for what in ("snapshot", "rollback", "fork"):
            cases[f"{what} {which}"] = \
                lambda f=getattr(s, what), w=which: f(w)
        cases[f"ioctl {which}"] = lambda w=which: bare_snapshot(s.i, s.box[w])
    cases["create"] = s.create
    got = in_turns(cases, TIMES)
    say(f"\nState of a sandbox, empty and with {FILES} files / 1 GiB, "
        "milliseconds:")
    for name, t in got.items():
        say(f"  {name:18} {t * 1e3:8.2f}")
    for what in ("snapshot", "rollback", "fork"):
        judge(f"{what} of the big one, of the empty one",
              got[f"{what} big"] / got[f"{what} empty"], 2)
    for which in ("empty", "big"):
        judge(f"fork to first output, {which}, of create to first output and "
              "the ioctl alone", got[f"fork {which}"] /
              (got["create"] + got[f"ioctl {which}"]), 1.3)
    return got


def subvolumes(pool):
    return len(subprocess.run(["btrfs", "subvolume", "list", pool], check=True,
                              capture_output=True, text=True).stdout.splitlines())


def settled(i, count):
    """Removed disks go in the background: what is measured meanwhile is measured
    together with that."""
    harness.wait_for("the disks of the forks are gone",
                     lambda: subvolumes(i.pool()) <= count, 120)
    subprocess.run(["btrfs", "subvolume", "sync", i.pool()], check=True,
                   stdout=subprocess.DEVNULL, timeout=300)


def many_forks(say, judge, s):
    before = subvolumes(s.i.pool())
    t, got = timed(s.c.ask, "POST", f"/v1/sandboxes/{s.box['big']}/fork",
                   {"count": FORKS, "name": "many"}, (201, 400, 409, 500, 503,
                                                      507))
    made = got.get("sandboxes", [])
    say(f"\n{FORKS} forks of the big one at once: {t * 1e3:.0f} ms")
    judge("forks that failed", FORKS - len(made), 0, "")
    for box in made:
        s.c.ask("DELETE", f"/v1/sandboxes/{box['id']}")
    settled(s.i, before)


@contextlib.contextmanager
def frozen_group(i):
    """A group of our own with two sleeping processes, as a sandbox has."""
    root = [r for r in harness.cgroup_roots()
            if os.path.exists(f"{r}/cgroup.procs") and
            os.path.exists(f"{r}{i.cgroup}/cgroup.freeze")][0]
    group = f"{root}/carrel-bench-freeze"
    os.mkdir(group)
    procs = [subprocess.Popen(["sleep", "1000"]) for _ in range(2)]
    try:
        for p in procs:
            with open(f"{group}/cgroup.procs", "w") as f:
                f.write(str(p.pid))
        yield group
    finally:
        for p in procs:
            p.kill()
            p.wait()
        os.rmdir(group)


def bare_freeze(group, word):
    """Until it is so, as the kernel says."""
    began = time.monotonic()
    with open(f"{group}/cgroup.freeze", "w") as f:
        f.write(word)
    while f"frozen {word}" not in harness.read(f"{group}/cgroup.events"):
        pass
    return time.monotonic() - began


def pauses(say, judge, s):
    box = f"/v1/sandboxes/{s.box['empty']}"
    lean = Lean(s.i)

    def waking():
        s.c.ask("POST", f"{box}/pause", {})
        return timed(s.c.run, s.box["empty"])[0]

    with frozen_group(s.i) as group:
        got = in_turns({
            "pause": lambda: timed(lean.post, f"{box}/pause")[0],
            "resume": lambda: timed(lean.post, f"{box}/resume")[0],
            "bare freeze": lambda: bare_freeze(group, "1"),
            "bare thaw": lambda: bare_freeze(group, "0"),
            "request": lambda: timed(s.c.run, s.box["empty"])[0],
            "request that wakes": waking,
        }, 40)
    say("\nPause and wake, microseconds:")
    for name, t in got.items():
        say(f"  {name:18} {t * 1e6:8.0f}")
    judge("pause over HTTP, of a bare freeze", got["pause"] /
          got["bare freeze"], 3)
    judge("resume over HTTP, of a bare thaw", got["resume"] /
          got["bare thaw"], 3)
    judge("a request that wakes, of a plain one",
          got["request that wakes"] / got["request"], 3)


def podman(say, tar, ours):
    """`commit` of a container with the same content, and `run` of it."""
    where = tempfile.mkdtemp(prefix="carrel-podman-")
    base = ["podman", "--root", f"{where}/root", "--runroot", f"{where}/run",
            "--tmpdir", f"{where}/tmp", "--storage-driver", "vfs",
            "--cgroup-manager", "cgroupfs", "--runtime", "runc"]
    low = ["--network", "none", "--ulimit", "nofile=1024:1024", "--ulimit",
           "nproc=4096:4096"]

    def call(*args):
        p = subprocess.run([*base, *args], capture_output=True, text=True,
                           stdin=subprocess.DEVNULL)
        if p.returncode != 0:
            raise RuntimeError((p.stderr.strip().splitlines() or ["?"])[-1])
        return p.stdout.strip()
    try:
        call("import", harness.tiny_image(), "tiny")
        box = call("create", *low, "tiny", "/bin/true")
        call("cp", tar, f"{box}:/big.tar")
        root = call("mount", box)
        subprocess.run(["tar", "-xf", tar, "-C", root], check=True)
        os.unlink(f"{root}/big.tar")
        t, _ = timed(lambda: (call("commit", box, "saved"),
                              call("run", "--rm", *low, "saved", "/bin/echo",
                                   "hi")))
        say(f"\n`podman commit` and `run` of the same content: {t:.1f} s, "
            f"{t / ours['fork big']:.0f} x a fork here")
    except (OSError, RuntimeError, subprocess.CalledProcessError) as e:
        say(f"\n`podman commit` and `run`: *** not available: {e}")
    finally:
        for line in harness.read("/proc/self/mountinfo").splitlines():
            if line.split()[4].startswith(where + "/"):
                subprocess.run(["umount", "-l", line.split()[4]],
                               capture_output=True)
        shutil.rmtree(where, ignore_errors=True)


def part(say, judge):
    scratch = tempfile.mkdtemp(prefix="carrel-bench-")
    try:
        tar = f"{scratch}/big.tar"
        big_tar(tar)
        with harness.Instance(spares=0, log_level="info", pool_size="12G",
                              disk="4G", max_sandboxes=FORKS + 20) as i:
            s = State(i, tar)
            got = instant(say, judge, s)
            many_forks(say, judge, s)
            pauses(say, judge, s)
        podman(say, tar, got)
    finally:
        shutil.rmtree(scratch)
