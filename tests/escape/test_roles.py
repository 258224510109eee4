"""Our own processes: what the kernel says of each role of a running daemon, from
outside, line by line against a record (roles.golden) that people can read. What
is more than a role needs would be an attacker's who takes it over; what that is
worth is in test_taken.py."""

import glob
import grp
import os
import pwd
import re
import socket
import unittest

import attack
import filters
import harness
import test_posture
from harness import SLOW, wait_for

GOLDEN = os.path.join(attack.HERE, "roles.golden")
# What the gate's processes may have at most; a host may give less.
MOST = {"open files": (8192, 256 * 1024), "locked memory": (64 << 20,)}
OURS = ("carrel", "carrel-log", "carrel-gate")
CAPS = ("chown dac_override dac_read_search fowner fsetid kill setgid setuid setpcap "
        "linux_immutable net_bind_service net_broadcast net_admin net_raw ipc_lock "
        "ipc_owner sys_module sys_rawio sys_chroot sys_ptrace sys_pacct sys_admin "
        "sys_boot sys_nice sys_resource sys_time sys_tty_config mknod lease "
        "audit_write audit_control setfcap").split()
BIG = 8 << 20


# ---------------------------------------------------------------------------
# Filters, by name


def compiled():
    """The filters of the build: [(instructions, name)]."""
    out = []
    for path in glob.glob(f"{harness.BUILD}/gen/seccomp/*.inc"):
        rows = re.findall(r"^\{ 0x(\w+), (\d+), (\d+), 0x(\w+) \}",
                          harness.read(path), re.M)
        out.append(([(int(c, 16), int(t), int(f), int(k, 16))
                     for c, t, f, k in rows], os.path.basename(path)[:-4]))
    return out


def filters_of(pid):
    """Those that a process has, the first first: as the kernel has them."""
    found = filters.read(pid)
    if not found and attack.status(pid)["Seccomp"].strip() != "0":
        raise unittest.SkipTest("this kernel does not show filters "
                                "(CONFIG_CHECKPOINT_RESTORE)")
    return [next((name for code, name in compiled() if code == program), "UNKNOWN")
            for program in found]


# ---------------------------------------------------------------------------


class Reader(test_posture.Reader):
    """Of processes that are no sandbox's."""

    def __init__(self, i):
        self.i = i
        self.base, self.group, self.box = 0, "{no group}", "{no box}"
        self.warden = i.pids()["carrel-warden"][0]

    def paths(self, text):
        i = self.i
        for path, word in ((harness.TOP, "{top}"), (i.state_dir, "{state}"), (i.run_dir, "{run}"),
                           (i.bin, "{bin}"), (i.log_path, "{log}"),
                           (i.cgroup, "{cgroup}")):
            text = text.replace(path, word)
        # Sockets are bound by a descriptor of their directory.
        text = re.sub(r"/proc/self/fd/\d+/(\w+\.sock)\.new", r"\1", text)
        text = re.sub(r"^/sys/fs/(cgroup|btrfs)/.*", r"\1", text)
        text = re.sub(r"\b(mnt|net):\[\d+\]", r"\1 namespace", text)
        return re.sub(r"^({cgroup}|/user|/agent)$", "cgroup", text)

    def ids(self, text):
        i = self.i
        first, count = int(i.conf["uid_base"]), int(i.conf["uid_count"])

        def one(m):
            if first <= int(m[0]) < first + count:
                return f"range+{(int(m[0]) - first) % 0x10100}"
            return m[0]
        return re.sub(r"\b\d+\b", one, text)

    def owners(self, key, text):
        """Ids of users, or of groups, by their names."""
        known = {pwd.getpwnam(n).pw_uid if key == "Uid" else grp.getgrnam(n).gr_gid:
                 n for n in OURS}
        return " ".join(known.get(int(n), self.ids(n)) for n in text.split())

    def record(self, who, pid):
        out = []
        for part in (self.status, self.filters, self.namespaces, self.rlimits,
                     self.files, self.others, self.environ, self.root):
            out += part(pid)
        return [f"{who} {line}" for line in out]

    def status(self, pid):
        s = attack.status(pid)
        out = []
        for k in ("Uid", "Gid", "Groups", "Threads", "TracerPid", "CapInh",
                  "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp",
                  "SigIgn", "Umask"):
            v = " ".join(s[k].split())
            if k in ("Uid", "Gid", "Groups"):
                v = self.owners(k, v)
            if k.startswith("Cap"):
                v = self.caps(int(v, 16))
            if k == "SigIgn":
                v = f"{int(v, 16) & ~(7 << 31):x}"
            out.append(f"{k} {v}".rstrip())
        return out

    @staticmethod
    def caps(have):
        """By name: a number says nothing to who reads the record."""
        return " ".join(n for k, n in enumerate(CAPS) if have >> k & 1) + \
            (f" {have >> len(CAPS):x} more" if have >> len(CAPS) else "") or "none"

    @staticmethod
    def filters(pid):
        return [f"filter {n} {name}" for n, name in enumerate(filters_of(pid), 1)]

    def rlimits(self, pid):
        """What a role sets; the rest is as whoever started the daemon has it."""
        def table(p):
            return {line[4:26].strip(): line[26:68].split() for line in
                    harness.read(f"/proc/{p}/limits").splitlines()[1:]}
        host, out = table(os.getpid()), []
        if pid == self.i.daemon.pid:
            return out
        gate = os.readlink(f"/proc/{pid}/exe").endswith("/carrel-gate")
        for name, have in table(pid).items():
            hard = host[name][1]
            for most in (MOST.get(name, ()) if gate else ()):
                if have == [str(most) if hard == "unlimited" else
                            str(min(most, int(hard)))] * 2:
                    have = [f"{most} at most"]
            if have == [hard, hard] and name == "open files":
                have = ["as many as may be"]
            if have != host[name] or name == "core file size":
                out.append(f"rlimit {name}: {' / '.join(have)}")
        return out

    def files(self, pid):
        """Without their numbers, those of a kind together."""
        kinds = {}
        for line in super().files(pid):
            kind = re.sub(r"^fd \d+ ", "", line)
            kind = re.sub(r"^(r|w|rw|path) (\S*/)?000000000\d+\.log", r"\1 \2N.log",
                          kind)
            kinds[kind] = kinds.get(kind, 0) + 1
        # Of control groups a host has one hierarchy, or several.
        return [f"fd {n} x {kind}" if n > 1 and kind != "r cgroup" else f"fd {kind}"
                for kind, n in sorted(kinds.items())]

    def socket(self, pid, inode):
        for who, p in self.i.pids().items():
            if p[0] != pid and os.readlink(f"/proc/{p[0]}/ns/net") != \
                    os.readlink("/proc/self/ns/net"):
                for line in harness.read(f"/proc/{p[0]}/net/unix").splitlines()[1:]:
                    if line.split()[6] == inode:
                        return f"unix of the network of {who}, connected"
        for name in ("tcp", "udp", "tcp6", "udp6"):
            if any(line.split()[9] == inode for line in harness.read(
                    f"/proc/self/net/{name}").splitlines()[1:]):
                return name
        return super().socket(pid, inode).replace("not unix", "of a sandbox")

    def others(self, pid):
        st = os.stat(f"/proc/{pid}/environ")
        maps = self.ids(" ".join(harness.read(f"/proc/{pid}/uid_map").split()))
        whole = "0 0 4294967295"
        # Root's, of who may not be looked at; in a user namespace its root's.
        return [f"proc belongs to {self.ids(str(st.st_uid))}",
                f"exe {self.paths(os.readlink(f'/proc/{pid}/exe'))}",
                f"cwd {os.readlink(f'/proc/{pid}/cwd').replace(harness.TOP, '{top}')}",
                f"uid_map {'the host' if maps == whole else maps}"]

    @staticmethod
    def environ(pid):
        """Names; a daemon's are those of who started it."""
        text = harness.read(f"/proc/{pid}/environ")
        names = {w.partition("=")[0] for w in text.split("\0") if w}
        return [f"environ {'as who started it' if names else 'empty'}"]

    def root(self, pid):
        """What is in its root, as far as the mounts."""
        if os.path.samestat(os.stat(f"/proc/{pid}/root"), os.stat("/")):
            return ["root the host's"]
        out = []
        for line in harness.read(f"/proc/{pid}/mountinfo").splitlines():
            left, _, right = line.partition(" - ")
            _, _, _, _, at, flags = left.split()[:6]
            flags = ",".join(f for f in flags.split(",") if f != "relatime")
            kind = right.split()[0]
            kind = kind if kind in ("tmpfs", "proc", "overlay") and \
                at.count("/") < 2 else ""
            out.append(f"root {self.paths(at)} {kind} {flags}".replace("  ", " "))
        mounts = {line.split()[4].split("/")[1] for line in
                  harness.read(f"/proc/{pid}/mountinfo").splitlines()}
        files = sorted(set(os.listdir(f"/proc/{pid}/root/")) - mounts)
        return sorted(out) + [f"root else {' '.join(files) or 'empty'}"]


# ---------------------------------------------------------------------------


class Silent:
    """A registry that takes connections, and says nothing."""

    def __init__(self):
        self.sock = socket.create_server(("127.0.0.1", 0))
        self.host = "127.0.0.1:%d" % self.sock.getsockname()[1]


class Pending:
    """A request whose answer nobody reads, or that is not complete."""

    def __init__(self, i, head, body=b""):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(i.sock)
        self.sock.sendall(head.replace("\n", "\r\n").encode() + b"\r\n\r\n" + body)


def by_name(i, comm):
    return [p for ps in i.pids().values() for p in ps
            if harness.read(f"/proc/{p}/comm", "").strip() == comm]


def other(i, **spec):
    """A sandbox of another project, which has no secret and no door of its own."""
    key = i.api("POST", "/v1/keys", {"name": "k", "project": "other",
                                     "scope": "admin"}).json["key"]
    r = i.api("POST", "/v1/sandboxes", spec, {"Authorization": f"Bearer {key}"})
    assert r.status == 201, r
    return r.json["id"]


def steady(r, who, pid):
    """Its record when it has nothing to do: twice the same."""
    last = []

    def again():
        last.append(r.record(who, pid))
        return last[-1:] == last[-2:-1] and last[-1]
    return wait_for(f"{who} is at rest", again, 20 * SLOW, 0.1)


def take(i, registry):
    """All roles at work: the record."""
    r = Reader(i)
    lines = []
    i.cli("secret", "set", "s", "--host", "a.test", input="value", check=0)
    i.create(rules=["allow * http://a.test"], secrets=["s"])
    other(i, rules=["allow * http://a.test"])
    doors = wait_for("two doors", lambda: len(by_name(i, "carrel-door")) == 2 and
                     by_name(i, "carrel-door"), 20 * SLOW)
    for who, comm in (("supervisor", "carreld"), ("scribe", "carrel-scribe"),
                      ("warden", "carrel-warden"), ("starter", "carrel-gate"),
                      ("keeper", "carrel-keeper"), ("api", "carrel-api")):
        pid, = by_name(i, comm)
        lines += steady(r, who, pid)
    for pid in doors:
        named = ".default" in " ".join(r.files(pid))
        lines += steady(r, "own-door" if named else "shared-door", pid)
    lines += workers(i, r, registry)
    return lines


def workers(i, r, registry):
    """Those that live as long as somebody waits for them."""
    lines = []
    box = i.create()
    i.sh(box, f"head -c {BIG} /dev/urandom > /home/user/big")
    snap = i.api("POST", f"/v1/sandboxes/{box}/snapshots", {"name": "s"}).json["id"]
    body = far(registry)
    for who, program, head, body in (
            ("importer", "carrel-worker", "PUT /v1/images/half HTTP/1.1\nHost: x\n"
             "Content-Length: 99999", bytes(10240)),
            ("viewer", "carrel-worker", f"GET /v1/states/content?state={snap}"
             "&path=/home/user/big HTTP/1.1\nHost: x", b""),
            ("fetch", "carrel-fetch", "POST /v1/images/far/pull HTTP/1.1\nHost: x\n"
             f"Content-Type: application/json\nContent-Length: {len(body)}", body)):
        pending = Pending(i, head, body)

        def confined():
            """At work: its filters are the last that it puts on."""
            pids = i.pids().get(program, [])
            return [p for p in pids
                    if attack.status(p)["Seccomp_filters"].strip() == "2"]
        pid, = wait_for(who, confined, 20 * SLOW)
        lines += steady(r, who, pid)
        pending.sock.close()
        wait_for("its end", lambda: not i.pids().get(program), 20 * SLOW)
    return lines


def far(registry):
    return ('{"reference": "%s/a/b:c"}' % registry.host).encode()


def golden():
    """Nobody has a capability that is not on this machine."""
    lines = test_posture.golden(GOLDEN)
    if int(attack.status(os.getpid())["CapBnd"], 16) >> \
            CAPS.index("sys_resource") & 1:
        return lines
    return [x.replace(" sys_resource", "") for x in lines]


class Roles(harness.Case):
    CONF = {"pool_size": "512M"}

    @classmethod
    def setUpClass(cls):
        cls.registry = Silent()
        cls.CONF = dict(cls.CONF, registries_insecure=cls.registry.host)
        super().setUpClass()
        cls.lines = take(cls.i, cls.registry)
        cls.want = golden()

    @classmethod
    def tearDownClass(cls):
        cls.registry.sock.close()
        super().tearDownClass()

    def role(self, who):
        have = sorted(x for x in self.lines if x.startswith(who + " "))
        want = sorted(x for x in self.want if x.startswith(who + " "))
        self.assertEqual("\n".join(want), "\n".join(have))
        self.assertTrue(have, "nothing was compared")

    def test_nobody_is_left_out(self):
        """Every process of ours is in the record, and has its own test."""
        known = {x.split()[0] for x in self.want}
        self.assertEqual(known, set(WHO))
        self.assertEqual(known, {x.split()[0] for x in self.lines})

    def test_the_record_says_what_is_meant(self):
        """What must hold for each, whatever is written into the record."""
        for who in set(WHO) - {"supervisor", "warden"}:
            mine = [x[len(who) + 1:] for x in self.want if x.startswith(who + " ")]
            for line in ("NoNewPrivs 1", "Seccomp 2", "Threads 1", "CapInh none",
                         "CapAmb none", "CapBnd none", "environ empty",
                         "rlimit core file size: 0 / 0"):
                self.assertIn(line, mine, who)
            text = "\n".join(mine)
            self.assertNotIn("root the host's", text, who)
            self.assertIn("ns mnt own, owned by", text, who)
            self.assertNotIn("Uid 0", text)
            self.assertIn("filter 1 ", text)
            self.assertNotIn("UNKNOWN", text)
            if "ns user the host's" in mine:
                self.assertIn("CapPrm none", mine)
                self.assertIn("proc belongs to 0", mine)


WHO = ("supervisor", "scribe", "warden", "starter", "keeper", "api", "own-door",
       "shared-door", "importer", "viewer", "fetch")
for _who in WHO:
    setattr(Roles, "test_" + _who.replace("-", "_"),
            lambda self, who=_who: self.role(who))


if __name__ == "__main__":
    import sys
    attack.own_network()
    if sys.argv[1:] == ["--show"]:
        harness.hide_installed()
        try:
            Roles.setUpClass()
            print("\n".join(Roles.lines))
        finally:
            Roles.tearDownClass()
    else:
        harness.main()
