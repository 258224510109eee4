"""A daemon whose host can be disturbed: its state has a file system of its own
that can be filled and slowed down, its roles a time of day that can be set."""

import fcntl
import json
import os
import struct
import subprocess
import threading

import harness
from harness import SLOW, Instance, read, wait_for

ROLES = ("carreld", "carrel-api", "carrel-warden", "carrel-scribe",
         "carrel-gate")
BLKIO = "/sys/fs/cgroup/blkio"
MEMORY = "/sys/fs/cgroup/memory"


def run(*argv):
    return subprocess.run(argv, check=True, capture_output=True,
                          text=True).stdout.strip()


class Host(Instance):
    """`state_size` is that of the file system at state_dir."""

    def __init__(self, state_size="8G", **conf):
        self.state_size, self.disk_dev = state_size, None
        self.acknowledged = []  # Request-Ids of what was done and said so
        self.lock = threading.Lock()
        super().__init__(**conf)

    # -- set up

    def make_disk(self):
        image = f"{self.dir}/disk.img"
        run("truncate", "-s", self.state_size, image)
        # No blocks for root alone: what is full is full for everybody.
        run("mkfs.ext4", "-q", "-m", "0", "-E",
            "lazy_itable_init=0,lazy_journal_init=0", image)
        os.mkdir(self.state_dir)
        self.disk_dev = run("losetup", "-f", "--show", image)
        run("mount", "-o", "noatime", self.disk_dev, self.state_dir)

    def make_clock(self):
        self.clock = f"{self.dir}/clock"
        self.shift(0)
        lib = f"{self.dir}/clock.so"
        run("cc", "-O2", "-D_GNU_SOURCE", "-shared", "-fPIC", "-o", lib,
            os.path.join(os.path.dirname(__file__), "clock.c"))
        self.preload = lib

    def start(self, wait=True):
        """The roles alone have the clock that jumps."""
        if not self.disk_dev:
            self.make_disk()
            self.make_clock()
        self.write_conf()
        with open(self.log_path, "ab") as log:
            self.daemon = subprocess.Popen(
                [f"{self.bin}/carreld", "--config", self.config],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env={**self.env(), "LD_PRELOAD": self.preload,
                     "CHAOS_CLOCK": self.clock}, start_new_session=True)
        if wait:
            self.wait_ready()

    def leftovers(self):
        return [x for x in super().leftovers()
                if x != f"mount {self.state_dir}"]

    # -- what is disturbed

    def shift(self, seconds):
        """Sets the roles' time of day off by so much."""
        with open(self.clock, "r+b" if os.path.exists(self.clock)
                  else "wb") as f:
            f.write(struct.pack("<q", int(seconds * 1e6)))

    def free_bytes(self):
        s = os.statvfs(self.state_dir)
        return s.f_bavail * s.f_frsize

    def devices(self):
        """major:minor of the disks of this instance, the pool's included."""
        return [os.stat(d).st_rdev for d in self.loops()]

    def gate_pids(self, comm):
        return [p for p in self.pids().get("carrel-gate", [])
                if read(f"/proc/{p}/comm", "").strip() == comm]

    def all_pids(self):
        return [p for ps in self.pids().values() for p in ps]

    def long_lived(self):
        """The daemon's processes without those that do one thing and end."""
        def parent(pid):
            stat = read(f"/proc/{pid}/stat", ") Z 0").rpartition(") ")[2]
            return read(f"/proc/{stat.split()[1]}/comm", "").strip()
        return {p for p in self.all_pids() if p == self.daemon.pid or
                parent(p) in ("carreld", "carrel-gate")}

    # -- how it is

    def up(self):
        """All roles run and a request that needs all of them is answered."""
        pids = self.pids()
        if not all(r in pids for r in ROLES):
            return False
        try:
            return Instance.api(self, "GET", "/v1/host",
                                timeout=20).status == 200 and \
                Instance.api(self, "GET", "/v1/sandboxes?limit=1",
                             timeout=20).status == 200
        except OSError:
            return False

    def wait_up(self, seconds=60):
        wait_for("all roles are back", self.up, seconds * SLOW, 0.02)

    # -- what it said

    def api(self, method, path, *args, **kw):
        r = super().api(method, path, *args, **kw)
        if method != "GET" and r.status < 300:
            with self.lock:
                self.acknowledged.append(r.headers.get("Request-Id"))
        return r

    def entries(self):
        """The log's entries as they are in its files."""
        top = f"{self.state_dir}/audit"
        for name in sorted(os.listdir(top)):
            if name.endswith(".log"):
                with open(f"{top}/{name}", "rb") as f:
                    for line in f:
                        yield json.loads(line)


def start_again(i):
    """As init does. Two wardens must not be: the roles end with their
    supervisor."""
    i.daemon.wait(60 * SLOW)
    wait_for("the roles are gone", lambda: not i.pids(), 30 * SLOW)
    i.start(wait=False)


def crowd_ids(sandboxes):
    """Several of the tests' ranges of ids as one: (conf, locks)."""
    each = harness.UIDS_PER_SLOT // 0x10100
    need = -(-sandboxes // each)
    if need > harness.SLOTS // 2:
        raise RuntimeError(f"no ids for {sandboxes} sandboxes")
    first = harness.SLOTS - need
    os.makedirs("/tmp/carrel-test-slots", exist_ok=True)
    locks = [open(f"/tmp/carrel-test-slots/{n}", "w")
             for n in range(first, harness.SLOTS)]
    for lock in locks:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return {"uid_base": harness.UID_BASE + first * harness.UIDS_PER_SLOT,
            "uid_count": need * harness.UIDS_PER_SLOT}, locks
