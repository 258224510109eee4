"""What happens to the host: a table of disturbances. Each is a context: it
begins, lasts for `seconds`, and is over; `why_not` says why it cannot be done on
this host. Whatever died meanwhile, the daemon must come back by itself, except
for the supervisor, which init would start again, and so do we."""

import contextlib
import errno
import os
import resource
import signal
import time

import host
from harness import SLOW, read, wait_for
from witness import insist


def kill(pids, sig=signal.SIGKILL):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, sig)


@contextlib.contextmanager
def role_dies(i, role):
    kill(i.pids().get(role, [])[:1])
    yield


@contextlib.contextmanager
def gate_dies(i, part):
    """One of the gate's processes: its starter, the keeper, or all doors."""
    kill(i.gate_pids(part))
    yield


@contextlib.contextmanager
def supervisor_dies(i, sig):
    i.daemon.send_signal(sig)
    host.start_again(i)
    yield


@contextlib.contextmanager
def all_die(i, _):
    """As when the kernel has to choose and chooses everybody."""
    kill(i.all_pids())
    host.start_again(i)
    yield


@contextlib.contextmanager
def role_hangs(i, role):
    pids = i.pids().get(role, [])
    kill(pids, signal.SIGSTOP)
    try:
        yield
    finally:
        kill(pids, signal.SIGCONT)


def fill(path):
    """Every block that there is, down to the last."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    size, step = 0, 1 << 30
    try:
        while step >= 4096:
            try:
                os.posix_fallocate(fd, size, step)
                size += step
            except OSError as e:
                if e.errno != errno.ENOSPC:
                    raise
                step >>= 1
    finally:
        os.close(fd)
    return size


@contextlib.contextmanager
def disk_full(i, _):
    path = f"{i.state_dir}/ballast"
    try:
        fill(path)
        if i.free_bytes() > 1 << 20:
            raise AssertionError("the disk is not full")
        yield
    finally:
        os.unlink(path)


@contextlib.contextmanager
def pool_full(i, _):
    """By one sandbox that may have more than there is."""
    box = insist(i, "POST", "/v1/sandboxes", {"disk": "64G"},
                 (201,)).json["id"]
    try:
        r = insist(i, "POST", f"/v1/sandboxes/{box}/run", {
            "command": "cd /home/user; n=0; for size in 1024 128 16 2; do "
            "while fallocate -l ${size}m f$n 2>/dev/null; do n=$((n+1)); done; "
            "rm -f f$n; done; dd if=/dev/zero of=rest bs=64k 2>&1"}, (200,))
        if "No space left" not in r.json["stdout"]:
            raise AssertionError(f"the pool is not full: {r.json}")
        yield
    finally:
        insist(i, "DELETE", f"/v1/sandboxes/{box}", None, (204, 404))


def no_memory_group():
    if not os.path.exists(f"{host.MEMORY}/memory.limit_in_bytes"):
        return "no v1 memory controller to squeeze the roles with"
    return None


def group_of(pid):
    for line in read(f"/proc/{pid}/cgroup", "").splitlines():
        if ":memory:" in line:
            return line.split(":", 2)[2]
    return "/"


@contextlib.contextmanager
def no_memory(i, role):
    """The role gets no page more; the kernel ends it when it needs one. With
    `carreld` all are ended, and none gets what it needs to start."""
    group = f"{host.MEMORY}/{i.name}-squeeze"
    pids = i.pids().get(role, [])
    home = host.MEMORY + group_of(i.daemon.pid)

    def move(pid, to):
        with contextlib.suppress(OSError):
            with open(f"{to}/cgroup.procs", "w") as f:
                f.write(str(pid))
    os.mkdir(group)
    try:
        with open(f"{group}/memory.limit_in_bytes", "w") as f:
            f.write("4K")
        for pid in pids:
            move(pid, group)
        if role == "carreld":
            kill(set(i.all_pids()) - {i.daemon.pid})
        yield
    finally:
        with open(f"{group}/memory.limit_in_bytes", "w") as f:
            f.write("-1")

        def empty():
            for pid in read(f"{group}/cgroup.procs").split():
                move(pid, home)
            with contextlib.suppress(OSError):
                os.rmdir(group)
            return not os.path.exists(group)
        wait_for("the group is empty", empty, 20 * SLOW)


@contextlib.contextmanager
def no_files(i, role):
    """It can open nothing and accept nobody."""
    kept = {}
    for pid in i.pids().get(role, []):
        with contextlib.suppress(OSError):
            kept[pid] = resource.prlimit(pid, resource.RLIMIT_NOFILE)
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, kept[pid][1]))
    try:
        yield
    finally:
        for pid, was in kept.items():
            with contextlib.suppress(OSError):
                resource.prlimit(pid, resource.RLIMIT_NOFILE, was)


@contextlib.contextmanager
def clock_jumps(i, seconds):
    i.shift(seconds)
    try:
        yield
    finally:
        i.shift(0)


def no_throttle():
    name = f"{host.BLKIO}/blkio.throttle.write_iops_device"
    if not os.path.exists(name):
        return f"no {name} to slow a disk down with"
    return None


@contextlib.contextmanager
def disk_slow(i, iops):
    """Of the state and of the pool, for everybody."""
    def each(value):
        for what in ("read", "write"):
            for dev in i.devices():
                with open(f"{host.BLKIO}/blkio.throttle.{what}_iops_device",
                          "w") as f:
                    f.write(f"{os.major(dev)}:{os.minor(dev)} {value}")
    each(iops)
    try:
        yield
    finally:
        each(0)


class Row:
    def __init__(self, name, what, arg=None, seconds=0.0, why_not=None):
        self.name, self.what, self.arg = name, what, arg
        self.seconds, self.why_not = seconds, why_not or (lambda: None)
        self.times = self.died = self.felt = 0
        self.back = []

    def happen(self, i, felt):
        """It happens, and everybody is there again. `felt` counts what clients
        were refused or not answered."""
        before, had = felt(), i.long_lived()
        with self.what(i, self.arg):
            time.sleep(self.seconds)
            began = time.monotonic()
        if i.daemon.poll() is not None:
            host.start_again(i)
        i.wait_up(120)
        self.back.append(time.monotonic() - began)
        self.times += 1
        self.felt += felt() - before
        self.died += len(had - i.long_lived())


def table():
    return [
        Row("api dies", role_dies, "carrel-api"),
        Row("warden dies", role_dies, "carrel-warden"),
        Row("scribe dies", role_dies, "carrel-scribe"),
        Row("gate's starter dies", gate_dies, "carrel-gate"),
        Row("gate's keeper dies", gate_dies, "carrel-keeper"),
        Row("gate's doors die", gate_dies, "carrel-door"),
        Row("supervisor dies", supervisor_dies, signal.SIGKILL),
        Row("supervisor is restarted", supervisor_dies, signal.SIGTERM),
        Row("everybody dies", all_die),
        Row("api hangs", role_hangs, "carrel-api", 1.5),
        Row("warden hangs", role_hangs, "carrel-warden", 1.5),
        Row("scribe hangs", role_hangs, "carrel-scribe", 1.5),
        Row("gate hangs", role_hangs, "carrel-gate", 1.5),
        Row("disk full", disk_full, None, 3),
        Row("pool full", pool_full, None, 2),
        Row("no memory: api", no_memory, "carrel-api", 1, no_memory_group),
        Row("no memory: warden", no_memory, "carrel-warden", 1,
            no_memory_group),
        Row("no memory: scribe", no_memory, "carrel-scribe", 1,
            no_memory_group),
        Row("no memory: gate", no_memory, "carrel-gate", 1, no_memory_group),
        Row("no memory: for a start", no_memory, "carreld", 1,
            no_memory_group),
        Row("no descriptors: api", no_files, "carrel-api", 1.5),
        Row("no descriptors: warden", no_files, "carrel-warden", 1.5),
        Row("no descriptors: scribe", no_files, "carrel-scribe", 1.5),
        Row("no descriptors: gate", no_files, "carrel-gate", 1.5),
        Row("clock goes forward", clock_jumps, 6 * 3600, 1.5),
        Row("clock goes back", clock_jumps, -6 * 3600, 1.5),
        Row("disk slow", disk_slow, 40, 3, no_throttle),
    ]
