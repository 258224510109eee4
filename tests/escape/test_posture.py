"""Posture: what the kernel says of the agent and of user processes, from the
host, line by line against a record (posture.golden) that people can read."""

import difflib
import fcntl
import os
import re
import time
import unittest

import attack
import harness
from harness import SLOW

GOLDEN = os.path.join(attack.HERE, "posture.golden")
NS_GET_USERNS, NS_GET_PARENT, NS_GET_OWNER_UID = 0xB701, 0xB702, 0xB704
STATUS = ("Uid", "Gid", "Groups", "Threads", "TracerPid", "CapInh", "CapPrm",
          "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp",
          "Seccomp_filters", "SigBlk", "SigIgn", "Umask")
MIB = 1 << 20
CAPPED = {"open files": 65536, "locked memory": 8 * MIB, "msgqueue size": 819200}


# ---------------------------------------------------------------------------
# Reading


class Reader:
    """Turns what is particular to this run into words: ids, groups, paths."""

    def __init__(self, i, box):
        self.i, self.box = i, box
        self.base = attack.base_of(i, box)
        self.agent = attack.agent_of(self.base)
        group = attack.groups(self.agent)[""]
        self.group = group[:-len("/agent")] if group.endswith("/agent") else group
        self.warden = i.pids()["carrel-warden"][0]

    def ids(self, text):
        def one(m):
            n = int(m[0]) - self.base
            return f"base+{n}" if 0 <= n <= 65536 else m[0]
        return re.sub(r"\b\d{7,}\b", one, text)

    def paths(self, text):
        text = text.replace(self.group, "{group}").replace(self.box, "{id}")
        # The launcher binds by a descriptor of the run directory.
        return re.sub(r"/proc/self/fd/\d+/agent.sock.new", "{run}/agent.sock", text)

    def record(self, who, pid):
        """All lines of one process."""
        out = []
        for part in (self.status, self.namespaces, self.rlimits, self.files,
                     self.cgroups, self.others, self.environ):
            out += part(pid)
        return [f"{who} {line}" for line in out]

    def status(self, pid):
        s = attack.status(pid)
        # Without the three that libraries keep for themselves: glibc's
        # posix_spawn ignores them, so whoever started the daemon may have.
        for k in ("SigBlk", "SigIgn"):
            s[k] = f"{int(s[k], 16) & ~(7 << 31):016x}"
        return [f"{k} {self.ids(' '.join(s[k].split()))}".rstrip() for k in STATUS]

    def namespaces(self, pid):
        out = []
        for name in sorted(os.listdir(f"/proc/{pid}/ns")):
            if name.endswith("_for_children"):
                continue
            path = f"/proc/{pid}/ns/{name}"
            if os.readlink(path) == os.readlink(f"/proc/self/ns/{name}"):
                out.append(f"ns {name} the host's")
                continue
            out.append(f"ns {name} own, {self.owner(path, name)}")
        return out

    @staticmethod
    def owner(path, name):
        """Who has power over it: ioctls of nsfs."""
        host = os.stat("/proc/self/ns/user")
        with open(path) as f:
            if name == "user":
                uid = bytearray(4)
                fcntl.ioctl(f, NS_GET_OWNER_UID, uid)
                fd = fcntl.ioctl(f, NS_GET_PARENT)
                made = f"made by uid {int.from_bytes(uid, 'little')}, child of"
            else:
                fd = fcntl.ioctl(f, NS_GET_USERNS)
                made = "owned by"
        st = os.fstat(fd)
        os.close(fd)
        same = (st.st_dev, st.st_ino) == (host.st_dev, host.st_ino)
        return f"{made} {'the initial user namespace' if same else 'ANOTHER'}"

    def rlimits(self, pid):
        """Those of CAPPED are lowered, never raised; what is not set is as the
        warden has it."""
        def table(p):
            lines = harness.read(f"/proc/{p}/limits").splitlines()[1:]
            return {line[4:26].strip(): line[26:68].split() for line in lines}
        mine, warden, out = table(pid), table(self.warden), []
        for name, have in mine.items():
            cap = CAPPED.get(name)
            if cap:
                hard = warden[name][1]
                most = str(cap if hard == "unlimited" else min(cap, int(hard)))
                have = [f"{cap} at most" if n == most else n for n in have]
            elif have == warden[name] and name != "core file size":
                have = ["as the host"]
            out.append(f"rlimit {name}: {' / '.join(have)}")
        return out

    def files(self, pid):
        out = []
        for fd in sorted(os.listdir(f"/proc/{pid}/fd"), key=int):
            to = os.readlink(f"/proc/{pid}/fd/{fd}")
            info = harness.read(f"/proc/{pid}/fdinfo/{fd}")
            flags = int(re.search(r"flags:\s*(\d+)", info)[1], 8)
            mode = ("r", "w", "rw")[flags & 3]
            if flags & os.O_PATH:
                mode = "path"
            m = re.match(r"socket:\[(\d+)\]", to)
            if m:
                to = "socket " + self.socket(pid, m[1])
            to = re.sub(r"^pipe:\[\d+\]$", "pipe", to)
            to = re.sub(r"/sys/fs/cgroup(/\w+)?(?={group})", r"cgroupfs\1:",
                        self.paths(to))
            out.append(f"fd {fd} {mode} {to}")
        return out

    def socket(self, pid, inode):
        # Who connects brings the network: the api has one of its own.
        api = self.i.pids()["carrel-api"][0]
        for where in ("self", pid, api):
            for line in harness.read(f"/proc/{where}/net/unix").splitlines()[1:]:
                f = line.split()
                if f[6] == inode:
                    kind = "listening" if int(f[3], 16) & 0x10000 else "connected"
                    place = {"self": "the host's", pid: "its own"}.get(
                        where, "the api's")
                    name = self.paths(" ".join(f[7:]))
                    return f"unix of {place} network, {kind} {name}".rstrip()
        return "not unix"

    def cgroups(self, pid):
        """Hierarchies that are not used have it where the daemon is."""
        daemon = attack.groups(self.warden)
        used = {k: v for k, v in attack.groups(pid).items()
                if v != daemon[k] or self.group in v}
        return [f"cgroup {k or 'unified'} {self.paths(v)}"
                for k, v in sorted(used.items())]

    def others(self, pid):
        st = os.stat(f"/proc/{pid}/environ")
        exe = os.readlink(f"/proc/{pid}/exe")
        return [f"oom_score_adj {harness.read(f'/proc/{pid}/oom_score_adj').strip()}",
                f"environ belongs to {self.ids(str(st.st_uid))}",
                f"exe {exe}", f"cwd {os.readlink(f'/proc/{pid}/cwd')}",
                f"root {os.readlink(f'/proc/{pid}/root')}",
                "uid_map " + self.ids(" ".join(
                    harness.read(f"/proc/{pid}/uid_map").split())),
                "gid_map " + self.ids(" ".join(
                    harness.read(f"/proc/{pid}/gid_map").split()))]

    @staticmethod
    def environ(pid):
        text = harness.read(f"/proc/{pid}/environ")
        return [f"environ {w}" for w in sorted(filter(None, text.split("\0")))]

    def mounts(self):
        """What all of them see, in the order of paths."""
        out = []
        for line in harness.read(f"/proc/{self.agent}/mountinfo").splitlines():
            left, _, right = line.partition(" - ")
            _, _, _, root, at, flags = left.split()[:6]
            shared = " ".join(left.split()[6:])
            kind, source, options = right.split()
            options = ",".join(o for o in options.split(",") if not re.match(
                # How kernels spell their defaults, sizes, and what the host
                # chose for all of its cgroup2.
                r"(uuid|index|metacopy|nfs_export|xino)=(on|off|auto)$|"
                r"(fsync=)?volatile$|inode64$|(size|mode|nr_inodes)=|"
                r"nsdelegate$|memory_\w+$|favordynmods$", o))
            out.append(f"mount {at} {kind} {flags} from={self.paths(root)} "
                       f"source={source} {self.ids(options)} {shared}".rstrip())
        return sorted(out)

    def limits(self):
        out = []
        for name in (("memory.max", "pids.max", "memory.swap.max", "user/cpu.max")
                     if attack.is_v2() else
                     ("memory/memory.limit_in_bytes", "pids/pids.max",
                      "cpu/user/cpu.cfs_quota_us", "cpu/user/cpu.cfs_period_us")):
            root, name = ("", name) if attack.is_v2() else name.split("/", 1)
            path = f"/sys/fs/cgroup/{root}{self.group}/{name}"
            out.append(f"limit {name} {harness.read(path, 'missing').strip()}")
        return out


# ---------------------------------------------------------------------------
# Comparing


def golden(path=GOLDEN):
    """The lines that apply to this host: `v1:` and `v2:` are for one kind of
    control groups, `?/path:` for kernels that have this path."""
    out = []
    for line in harness.read(path).splitlines():
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        m = re.match(r"(v1|v2|\?\S+): (.*)$", line)
        if m:
            if m[1] in ("v1", "v2"):
                if (m[1] == "v2") != attack.is_v2():
                    continue
            elif not os.path.exists(m[1][1:]):
                continue
            line = m[2]
        out.append(line)
    return out


def start(i, box, argv):
    w = i.exec_wire(box)
    w.spawn(argv, flags=harness.SPAWN_DETACHED)
    return w


def no_gap(i, box, pid):
    """A descriptor that was made beside others has a number of chance."""
    time.sleep(0.2)
    fds = sorted(int(n) for n in os.listdir(f"/proc/{pid}/fd"))
    if fds == list(range(len(fds))):
        return True
    i.sh(box, "true")
    return False


def take(i):
    """A sandbox, an ordinary process and one of sudo; the record of all."""
    box = i.create(memory=256 * MIB, pids=256, cpus=0.5)
    r = Reader(i, box)
    wires = [start(i, box, ["sleep", "1000"]),
             start(i, box, ["sudo", "sleep", "2000"])]

    def running():
        found = {harness.read(f"/proc/{p}/cmdline", " "): p
                 for p in attack.pids_of(r.base)}
        want = ["sleep\0" + n + "\0" for n in ("1000", "2000")]
        return all(w in found for w in want) and [found[w] for w in want]
    user, root = harness.wait_for("both processes run", running, 20 * SLOW)
    lines = r.mounts() + r.limits()
    lines += r.record("user", user) + r.record("sudo", root)
    for w in wires:
        w.signal(9)
        w.close()
    # An idle agent: no descriptor of a process is left.
    agent = harness.read(f"/proc/{r.agent}/cmdline")
    harness.wait_for("only the agent and its spare are left", lambda: {
        harness.read(f"/proc/{p}/cmdline", " ")
        for p in attack.pids_of(r.base)} == {agent}, 20 * SLOW)
    harness.wait_for("a spare made when nothing else was open",
                     lambda: no_gap(i, box, r.agent), 20 * SLOW)
    for who, pid in zip(("agent", "spare", "another"), attack.pids_of(r.base)):
        lines += r.record(who, pid)
    i.rm(box)
    return lines


def differences(lines):
    want = golden()
    return [d for d in difflib.unified_diff(sorted(want), sorted(lines),
                                            "posture.golden", "this host",
                                            lineterm="", n=0)]


class Posture(harness.Case):
    CONF = {"pool_size": "512M"}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.lines = take(cls.i)
        cls.want = golden()

    def part(self, pattern):
        """The lines of both that match must be the same."""
        have = sorted(x for x in self.lines if re.match(pattern, x))
        want = sorted(x for x in self.want if re.match(pattern, x))
        self.assertEqual("\n".join(want), "\n".join(have))
        self.assertTrue(have, "nothing was compared")

    def test_agent_environment_is_empty(self):
        self.assertEqual([], [x for x in self.lines
                              if re.match("agent environ [^b]", x)])

    def test_ids_are_of_the_configured_range(self):
        box = self.i.create()
        base = attack.base_of(self.i, box)
        first = int(self.i.conf["uid_base"])
        self.assertGreaterEqual(base, first)
        self.assertLess(base + 65536, first + int(self.i.conf["uid_count"]))


PARTS = {
    "ids_and_groups": r"{} (Uid|Gid|Groups|uid_map|gid_map) ?",
    "capabilities": r"{} Cap",
    "no_new_privs_and_filters": r"{} (NoNewPrivs|Seccomp)",
    "namespaces_and_their_owners": r"{} ns ",
    "descriptors": r"{} fd ",
    "rlimits": r"{} rlimit ",
    "control_groups": r"{} cgroup ",
    "oom_score": r"{} oom",
    "program_directory_and_memory": r"{} (exe|cwd|root|environ belongs)",
    "signals_and_the_rest": r"{} (Sig|Umask|Threads|TracerPid)",
}


def add(name, pattern):
    setattr(Posture, f"test_{name}", lambda self: self.part(pattern))


for _who in ("agent", "spare", "user", "sudo"):
    for _name, _pattern in PARTS.items():
        add(f"{_who}_{_name}", _pattern.format(_who))
add("user_environment", r"user environ [^b]")
add("sudo_environment", r"sudo environ [^b]")
add("mounts", "mount ")
add("limits_of_the_group", "limit ")


class Whole(unittest.TestCase):
    def test_no_line_of_the_record_is_left_out(self):
        """Every line of the golden record belongs to a test above."""
        known = [p.format(w) for p in PARTS.values()
                 for w in ("agent", "spare", "user", "sudo")]
        known += ["mount ", "limit ", r"\w+ environ [^b]"]
        self.assertEqual([], [x for x in golden()
                              if not any(re.match(k, x) for k in known)])


if __name__ == "__main__":
    import sys
    attack.own_network()
    if sys.argv[1:] == ["--show"]:
        harness.hide_installed()
        with harness.Instance(pool_size="512M") as one:
            print("\n".join(take(one)))
    else:
        harness.main()
