"""If a role is taken over: somebody runs code in one of our processes.

The processes are those of the real daemon, and what the attacker does is done by
them (puppet.py). Each test is a claim of docs/security.md, "If a role is taken
over": what it cannot do, and where that is the design, what it can."""

import contextlib
import ctypes
import errno
import fcntl
import os
import re
import signal
import socket
import struct
import subprocess
import time
import unittest

import attack
import gatewire as gw
import harness
import test_roles
import warden_link as wl
from harness import SLOW, wait_for
from puppet import Puppet, libc

VALUE = "value-5d41402abc4b2a76b9719d911017c592"
STREAM, SEQPACKET = 1, 5
SIOCGSKNS = 0x894C
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY
NEWUSER, NEWNS = 0x10000000, 0x20000


def other(i, **spec):
    return test_roles.other(i, **spec)


def taken_fd(pid, fd):
    """A copy of a descriptor of a process: what it connected is its own."""
    pidfd = os.pidfd_open(pid)
    try:
        got = libc.syscall(438, pidfd, fd, 0)
        if got < 0:
            raise OSError(ctypes.get_errno(), "pidfd_getfd")
        return got
    finally:
        os.close(pidfd)


def memory_has(pid, what):
    """Is it anywhere in what the process could read?"""
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as mem:
        for line in harness.read(f"/proc/{pid}/maps").splitlines():
            span, mode = line.split()[:2]
            if mode[0] != "r" or "[v" in line:
                continue
            start, end = (int(x, 16) for x in span.split("-"))
            with contextlib.suppress(OSError):
                mem.seek(start)
                if what in mem.read(end - start):
                    return True
    return False


class WardenLink(wl.Link):
    """Over a connection that a process of ours has made."""

    def __init__(self, pid, fd, run_dir):
        self.sock = socket.socket(fileno=taken_fd(pid, fd))
        self.sock.settimeout(30 * SLOW)
        self.run_dir, self.seq, self.ended = run_dir, 0, []
        self.ask(wl.HELLO)
        self.answers(1)


class Host:
    """One daemon for all of them; what is killed comes back."""

    def __init__(self):
        self.i = harness.Instance(pool_size="512M")
        self.canaries = attack.Canaries()
        self.listener = f"{self.canaries.dir}.sock"
        self.unix = socket.socket(socket.AF_UNIX)
        self.unix.bind(self.listener)
        os.chmod(self.listener, 0o777)
        self.unix.listen()
        self.i.cli("secret", "set", "s", "--host", "a.test", input=VALUE, check=0)

    def close(self):
        self.unix.close()
        os.unlink(self.listener)
        self.canaries.close()
        self.i.stop()


def setUpModule():
    Taken.host = Host()


def tearDownModule():
    Taken.host.close()


class Taken(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.i, cls.canaries = cls.host.i, cls.host.canaries
        cls.listener = cls.host.listener

    def setUp(self):
        self.mine = self.i.create(rules=["allow * http://a.test"], secrets=["s"])
        self.theirs = other(self.i, rules=["allow * http://b.test"])
        self.both_doors()

    def tearDown(self):
        self.assertEqual(self.canaries.touched(), [])
        self.i.wait_ready()
        self.i.api("DELETE", "/v1/sandboxes?all=true")
        # Whatever was tried, the log is whole.
        v = subprocess.run([f"{self.i.bin}/carrel-scribe", "--verify",
                            f"{self.i.state_dir}/audit"], capture_output=True)
        self.assertEqual(v.returncode, 0, v)

    def doors(self):
        """{spool: pid}"""
        found = {}
        for pid in test_roles.by_name(self.i, "carrel-door"):
            with contextlib.suppress(OSError):
                for fd in os.listdir(f"/proc/{pid}/fd"):
                    m = re.match(r"/gate(\.\w+)?$",
                                 os.readlink(f"/proc/{pid}/fd/{fd}"))
                    if m:
                        found[m[0]] = pid
        return found

    def both_doors(self):
        wait_for("both doors", lambda: set(self.doors()) >= {"/gate", "/gate.default"},
                 30 * SLOW)

    def pid(self, comm):
        return wait_for(comm, lambda: test_roles.by_name(self.i, comm), 10 * SLOW)[0]

    def fds(self, pid):
        """{what it leads to: number}"""
        at = f"/proc/{pid}/fd"
        return {os.readlink(f"{at}/{n}"): int(n) for n in os.listdir(at)}

    def refused(self, p, rows):
        for want, call, *args in rows:
            got = p.error(call, *args)
            self.assertIn(got, want.split("|"), (call, args))

    def ends(self, pid, call, *args):
        """The filter kills for this, and nobody is left."""
        p = Puppet(pid)
        self.assertEqual(p.error(call, *args), "SIGSYS", call)
        wait_for("its end", lambda: not os.path.exists(f"/proc/{pid}/exe") or
                 "Z" in attack.status(pid)["State"], 10 * SLOW)

    def files_of_others(self):
        i = self.i
        key = f"{i.state_dir}/gate/vault/key"
        self.assertTrue(os.path.exists(key))
        return ["/etc/passwd", "/etc/shadow", "/proc/1/environ", "/proc/self/maps",
                f"/proc/{self.canaries.process.pid}/environ", self.canaries.flag,
                f"/dev/shm/{self.canaries.shm}", key, f"{i.state_dir}/pool.img",
                f"{i.state_dir}/gate/vault", f"{i.state_dir}/pool", i.config,
                f"{i.bin}/carrel-warden", "/dev/kmsg", "/sys/kernel"]

    def network_of(self, fd):
        """The inode of the network that a socket of ours belongs to."""
        ns = fcntl.ioctl(fd, SIOCGSKNS)
        try:
            return os.fstat(ns).st_ino
        finally:
            os.close(ns)

    def networks(self, pid):
        """Those that the process has sockets of the internet in."""
        found = set()
        for to, n in self.fds(pid).items():
            if to.startswith("socket:"):
                s = socket.socket(fileno=taken_fd(pid, n))
                with s:
                    if s.family != socket.AF_UNIX:
                        found.add(self.network_of(s.fileno()))
        return found

    def network_inside(self, box):
        agent = attack.agent_of(attack.base_of(self.i, box))
        return os.stat(f"/proc/{agent}/ns/net").st_ino


class Api(Taken):
    """It hears every client, and asks the warden for everything."""

    def setUp(self):
        super().setUp()
        self.api = self.pid("carrel-api")

    def test_files_of_the_host(self):
        own = self.i.state_dir
        with Puppet(self.api) as p:
            self.assertEqual(p.call("getuid"), test_roles.pwd.getpwnam(
                "carrel").pw_uid)
            for path in self.files_of_others():
                self.refused(p, [("ENOENT", "openat", -100, path, os.O_RDONLY),
                                 ("ENOENT", "stat", path, bytes(144)),
                                 ("ENOENT|EROFS", "openat", -100, path,
                                  os.O_WRONLY | os.O_CREAT, 0o600)])
            # Nor upwards from what it has.
            for path in (own + "/drive", own + "/blobs", own + "/audit",
                         self.i.run_dir, "/"):
                fd = p.call("openat", -100, path, DIRECTORY)
                self.refused(p, [("ENOENT", "openat", fd, "../" * 12 + "etc/passwd",
                                  os.O_RDONLY)])
                self.refused(p, [("ENOENT", "openat", fd, f"../gate/{x}",
                                  os.O_RDONLY) for x in ("vault", "vault/key")])
                p.call("close", fd)
            for fd in (self.fds(self.api)[f"{own}/drive"],
                       self.fds(self.api)[f"{own}/blobs"]):
                self.refused(p, [("ENOENT", "openat", fd, "../" * 12 + "etc/passwd",
                                  os.O_RDONLY)])
            self.assertEqual(p.names(own), ["audit", "blobs", "casts", "drive",
                                            "registry"])

    def test_links_that_it_makes_lead_nowhere(self):
        """It may write to its own directories, and cannot make a link there."""
        self.ends(self.api, "symlinkat", "/etc/shadow", -100,
                  f"{self.i.state_dir}/drive/x")

    def test_the_logs_past(self):
        log = f"{self.i.state_dir}/audit"
        name = sorted(n for n in os.listdir(log) if n.endswith(".log"))[-1]
        with Puppet(self.api) as p:
            # It may read the log, that is what it shows to people; no key.
            self.assertIn(b"sandbox.", p.read_file(f"{log}/{name}"))
            self.refused(p, [
                ("EACCES", "openat", -100, f"{log}/key", os.O_RDONLY),
                ("EROFS|EACCES", "openat", -100, f"{log}/{name}", os.O_WRONLY),
                ("EROFS|EACCES", "openat", -100, f"{log}/{name}",
                 os.O_WRONLY | os.O_APPEND),
                ("EROFS|EACCES", "openat", -100, f"{log}/new",
                 os.O_WRONLY | os.O_CREAT, 0o600),
                ("EROFS|EACCES", "unlink", f"{log}/{name}"),
                ("EROFS|EACCES", "rename", f"{log}/{name}", f"{log}/x"),
                ("EROFS|EACCES", "rename", log, log + "2")])
            fd = p.call("openat", -100, f"{log}/{name}", os.O_RDONLY)
            self.refused(p, [("EROFS|EPERM", "fchmod", fd, 0o666),
                             ("EBADF|EINVAL", "ftruncate", fd, 0),
                             ("EBADF", "write", fd, "x", 1)])
            p.call("close", fd)

    def test_sockets(self):
        with Puppet(self.api) as p:
            for family in (2, 10, 16, 17, 38, 40):
                self.refused(p, [("EAFNOSUPPORT", "socket", family, 1, 0),
                                 ("EAFNOSUPPORT", "socket", family, 3, 0)])
            for name, want in ((f"@{self.canaries.abstract}", errno.ECONNREFUSED),
                               (self.listener, errno.ENOENT),
                               ("/run/systemd/private", errno.ENOENT),
                               (f"{self.i.run_dir}/roles/log/scribe.sock",
                                errno.EACCES)):
                with self.assertRaises(OSError) as e:
                    p.connect(name, STREAM)
                self.assertEqual(e.exception.errno, want, name)

    def test_secrets_are_closed_to_it(self):
        """It has them as they were sealed: not the value, and no key."""
        vault = bytes.fromhex(harness.read(
            f"{self.i.state_dir}/gate/vault/key").strip())
        with Puppet(self.api) as p:
            self.assertTrue(memory_has(self.api, self.mine.encode()))
            for what in (VALUE.encode(), vault, vault.hex().encode()):
                self.assertFalse(memory_has(self.api, what))
            for name in p.names(f"{self.i.state_dir}/registry"):
                data = p.read_file(f"{self.i.state_dir}/registry/{name}", 1 << 19)
                self.assertNotIn(VALUE.encode(), data)
            # What it can ask the gate for is for everybody to know.
            fd = p.connect(f"{self.i.run_dir}/roles/gate.sock", SEQPACKET)
            s = socket.socket(fileno=taken_fd(self.api, fd))
        with s:
            s.settimeout(20 * SLOW)
            s.send(gw.hello("default"))
            s.send(gw.project("default"))
            raw = b""
            while True:
                got = s.recv(gw.MSG_MAX)
                self.assertTrue(got)
                raw += got
                if struct.unpack_from("<H", got, 2)[0] == gw.KEYS:
                    break
        self.assertIn(b"BEGIN CERTIFICATE", raw)
        self.assertNotIn(b"PRIVATE", raw)
        self.assertNotIn(VALUE.encode(), raw)

    def test_what_the_warden_does_for_it(self):
        """Everything that the api may ask for, of any project: this is the
        design. Nothing else: no path, no id of the host's, no launch without
        walls."""
        with Puppet(self.api) as p:
            fd = p.connect(f"{self.i.run_dir}/roles/warden.sock", SEQPACKET)
            link = WardenLink(self.api, fd, self.i.run_dir)
        with link.sock:
            found, at = set(), ""
            with contextlib.suppress(wl.Refused):
                while True:
                    at = link.call(wl.NEXT, at)[:27].decode()
                    found.add(at)
            self.assertEqual(found, {self.mine, self.theirs})
            image = self.i.api("GET", "/v1/images/tiny").json["id"]
            vol = wl.new_id()
            EINVAL = errno.EINVAL
            for path in ("/proc/x", "/../x", "/a/../b", "relative", "//x", "/dev",
                         "/sys/fs/cgroup"):
                self.assertEqual(link.code(wl.LAUNCH, wl.new_id(), link.spec(
                    image, volumes=[(vol, path, 0)])), EINVAL, path)
            for name in ("../../etc", "/etc/shadow", "", "i" + "a" * 27, "i..%2f"):
                for op in (wl.KILL, wl.STAT, wl.PAUSE, wl.SNAPSHOT_REMOVE, wl.REMOVE,
                           wl.VOLUME_REMOVE):
                    self.assertEqual(link.code(op, name), EINVAL, (op, name))
            for bad in ({"flags": 1 << 16}, {"flags": 0xfffffff0}, {"mem": 1},
                        {"mem": 1 << 60}, {"disk": 1}, {"host": "a b"},
                        {"source": "../x"}):
                self.assertEqual(link.code(wl.LAUNCH, wl.new_id(), link.spec(
                    image, **bad)), EINVAL, bad)
            # One that it launches is a sandbox like any other.
            before = set(self.i.box_pids())
            box = link.launch(image)
            new = set(self.i.box_pids()) - before
            self.assertTrue(new)
            # (One that is made ahead may be among them, and not be ready.)
            for pid in new:
                harness.wait_for(f"{pid} is behind walls", lambda: (
                    lambda s: s["NoNewPrivs"].strip() == "1" and
                    s["Seccomp"].strip() == "2" and int(s["Uid"].split()[0]) >=
                    int(self.i.conf["uid_base"]))(attack.status(pid)))
            # And it may end anybody's.
            self.assertEqual(link.code(wl.KILL, box), 0)
            self.assertEqual(link.code(wl.KILL, self.theirs), 0)

    def test_code_of_its_own(self):
        """No memory that is written to can be executed."""
        with Puppet(self.api) as p:
            at = p.call("mmap", 0, 4096, 3, 0x22, -1, 0)
            p.poke(at, b"\xcc" * 16)
            p.call("munmap", at, 4096)
        self.ends(self.api, "mmap", 0, 4096, 7, 0x22, -1, 0)

    def test_root(self):
        self.ends(self.api, "setuid", 0)

    def test_another_program(self):
        self.ends(self.api, "execve", "/bin/sh", 0, 0)

    def test_other_processes(self):
        self.ends(self.api, "kill", self.canaries.process.pid, signal.SIGKILL)


class Door(Taken):
    """It hears sandboxes, and servers outside."""

    def test_files(self):
        for pid in self.doors().values():
            with Puppet(pid) as p:
                for path in self.files_of_others() + ["/", "/log"]:
                    self.refused(p, [("EACCES", "openat", -100, path, os.O_RDONLY),
                                     ("EACCES", "open", path, os.O_RDONLY),
                                     ("EACCES", "stat", path, bytes(144))])

    def test_sockets(self):
        """The network is what it is for: whatever this host can reach, a door
        that is taken over can. But no program of the host by a unix socket."""
        for pid in self.doors().values():
            with Puppet(pid) as p:
                self.refused(p, [("EAFNOSUPPORT", "socket", 1, STREAM, 0),
                                 ("EAFNOSUPPORT", "socket", 1, 2, 0),
                                 ("EAFNOSUPPORT", "socket", 16, 3, 0),
                                 ("EAFNOSUPPORT", "socket", 17, 3, 0),
                                 ("EAFNOSUPPORT", "socket", 2, 3, 1)])
                for path in (f"{self.i.run_dir}/roles/warden.sock", self.i.sock,
                             f"{self.i.run_dir}/roles/gate.sock", self.listener):
                    with self.assertRaises(OSError) as e:
                        p.connect(path, SEQPACKET)
                    self.assertEqual(e.exception.errno, errno.ENOENT, path)
                # The log's writer it may speak to, which knows who it is.
                p.call("close", p.connect("/log/scribe.sock", SEQPACKET))

    def test_the_log(self):
        """What is no entry ends the connection; the log is as it was."""
        with Puppet(self.doors()["/gate"]) as p:
            fd = p.connect("/log/scribe.sock", SEQPACKET)
            s = socket.socket(fileno=taken_fd(p.pid, fd))
        with s:
            s.settimeout(10 * SLOW)
            s.send(bytes(64))
            with contextlib.suppress(ConnectionError):
                self.assertEqual(s.recv(64), b"")

    def test_other_sandboxes(self):
        """It has sockets in the networks of its own, and of nobody else."""
        mine, theirs = (self.network_inside(b) for b in (self.mine, self.theirs))
        host = os.stat("/proc/self/ns/net").st_ino
        doors = self.doors()
        own, shared = (self.networks(doors[n]) for n in ("/gate.default", "/gate"))
        self.assertEqual(own - {host}, {mine})
        self.assertEqual(shared - {host}, {theirs})

    def test_other_projects_secrets(self):
        vault = bytes.fromhex(harness.read(
            f"{self.i.state_dir}/gate/vault/key").strip())
        doors = self.doors()
        for what in (vault, vault.hex().encode()):
            for pid in doors.values():
                self.assertFalse(memory_has(pid, what))
        self.assertFalse(memory_has(doors["/gate"], VALUE.encode()))

    def test_another_program(self):
        self.ends(self.doors()["/gate.default"], "execve", "/bin/sh", 0, 0)

    def test_a_listener(self):
        with Puppet(self.doors()["/gate"]) as p:
            fd = p.call("socket", 2, 1, 0)
            pid = p.pid
            p.call("close", fd)
        self.ends(pid, "listen", 3, 1)


class Keeper(Taken):
    """It has the vault: who takes it over has all secrets. It hears nobody but
    the api's hellos and its own doors, and has no way to tell anybody."""

    def test_files(self):
        pid = self.pid("carrel-keeper")
        with Puppet(pid) as p:
            for path in self.files_of_others():
                self.refused(p, [("ENOENT", "openat", -100, path, os.O_RDONLY)])
            for to, fd in self.fds(pid).items():
                if to == "/":
                    self.refused(p, [("ENOENT", "openat", fd,
                                      "../" * 12 + "etc/passwd", os.O_RDONLY),
                                     ("ENOENT", "openat", fd,
                                      f"..{self.i.state_dir}", os.O_RDONLY)])

    def test_the_network(self):
        self.ends(self.pid("carrel-keeper"), "socket", 2, 1, 0)
        self.both_doors()

    def test_a_process(self):
        self.ends(self.pid("carrel-keeper"), "fork")
        self.both_doors()



class Starter(Taken):
    """It may fork, and nothing else that a door may not."""

    def test_files_and_namespaces(self):
        pid = self.pid("carrel-gate")
        with Puppet(pid) as p:
            for path in self.files_of_others():
                self.refused(p, [("EACCES", "openat", -100, path, os.O_RDONLY)])
            self.refused(p, [("EAFNOSUPPORT", "socket", 1, STREAM, 0)])
        self.ends(pid, "clone", NEWUSER | signal.SIGCHLD, 0, 0, 0, 0)
        self.both_doors()


class Scribe(Taken):
    """It has the log and its key: what it writes from then on is its own. What
    was written, and signed, is in the hands of whoever kept a head."""

    def test_files(self):
        pid = self.pid("carrel-scribe")
        with Puppet(pid) as p:
            for path in self.files_of_others():
                self.refused(p, [("ENOENT", "openat", -100, path, os.O_RDONLY)])
            fd = self.fds(pid)["/"]
            self.refused(p, [("ENOENT", "openat", fd, "../" * 12 + "etc/passwd",
                              os.O_RDONLY),
                             ("ENOENT", "openat", fd, "../gate/vault/key",
                              os.O_RDONLY),
                             ("ENOENT", "openat", fd, "../registry/registry.db",
                              os.O_RDONLY)])
            up = p.call("openat", fd, "..", DIRECTORY)
            self.assertTrue(p.call("openat", up, "key", os.O_RDONLY) > 0)

    def test_sockets(self):
        self.ends(self.pid("carrel-scribe"), "socket", 1, 1, 0)

    def test_a_process(self):
        self.ends(self.pid("carrel-scribe"), "fork")


class Worker(Taken):
    """It unpacks what somebody sent."""

    def importer(self):
        pending = test_roles.Pending(
            self.i, "PUT /v1/images/half HTTP/1.1\nHost: x\nContent-Length: 99999",
            bytes(10240))
        self.addCleanup(pending.sock.close)
        return wait_for("a worker", lambda: [
            p for p in self.i.pids().get("carrel-worker", [])
            if attack.status(p)["Seccomp_filters"].strip() == "2"], 20 * SLOW)[0]

    def test_files(self):
        pid = self.importer()
        how = struct.pack("<QQQ", os.O_RDONLY, 0, 0)
        with Puppet(pid) as p:
            for path in self.files_of_others():
                self.refused(p, [
                    ("EACCES", "openat", -100, path, os.O_RDONLY),
                    ("ENOENT", "openat2", -100, path, how, 24)])
            for to, fd in self.fds(pid).items():
                if to == "/":
                    self.refused(p, [("ENOENT", "openat2", fd,
                                      "../" * 12 + "etc/passwd", how, 24)])
            # Root of its own ids, with no power over anybody else's.
            self.assertEqual(p.call("getuid"), 0)

    def test_what_ends_it(self):
        for call, *args in (("socket", 1, 1, 0), ("setns", 3, 0),
                            ("execve", "/bin/sh", 0, 0), ("mount", "a", "/", "b")):
            self.ends(self.importer(), call, *args)
            wait_for("no worker", lambda: not self.i.pids().get("carrel-worker"),
                     20 * SLOW)


class Agent(Taken):
    """PID 1 of a sandbox, which everybody in there attacks."""

    def test_it_is_no_way_out(self):
        pid = attack.agent_of(attack.base_of(self.i, self.mine))
        clone3 = struct.pack("<8Q", NEWUSER, 0, 0, 0, signal.SIGCHLD, 0, 0, 0)
        clone3_ns = struct.pack("<8Q", NEWNS, 0, 0, 0, signal.SIGCHLD, 0, 0, 0)
        with Puppet(pid) as p:
            self.refused(p, [
                ("EPERM|ENOSPC|EUSERS", "clone3", clone3, 64),
                ("EPERM", "clone3", clone3_ns, 64),
                ("EPERM", "clone", NEWUSER | signal.SIGCHLD, 0, 0, 0, 0),
                ("EPERM", "unshare", NEWUSER), ("EPERM", "setns", 3, 0),
                ("EPERM", "mount", "a", "/tmp", "tmpfs"), ("EPERM", "chroot", "/"),
                ("EPERM", "bpf", 0, bytes(64), 64),
                ("EPERM", "io_uring_setup", 1, bytes(120)),
                ("EPERM", "mknod", "/tmp/disk", 0o60600, 0x700),
                ("EAFNOSUPPORT", "socket", 40, 1, 0)])
            # Its capabilities count for its own ids, and there is no other.
            self.refused(p, [("EINVAL|EPERM", "setuid", 0x7fffffff)])
            for path in (self.canaries.flag, f"/dev/shm/{self.canaries.shm}",
                         self.i.config, self.i.state_dir):
                self.refused(p, [("ENOENT", "openat", -100, path, os.O_RDONLY)])
            for name in (f"@{self.canaries.abstract}",):
                with self.assertRaises(OSError) as e:
                    p.connect(name, STREAM)
                self.assertEqual(e.exception.errno, errno.ECONNREFUSED)


class Powers(unittest.TestCase):
    def test_the_puppet_is_not_just_refused_everything(self):
        """The same calls, made by a process that nothing confines, work: what
        is refused above is refused by the walls."""
        child = os.fork()
        if child == 0:
            while True:
                time.sleep(1)
        try:
            with Puppet(child) as p:
                self.assertIn(b"root:", p.read_file("/etc/passwd"))
                self.assertEqual(p.call("getuid"), 0)
                for call, *args in (("socket", 2, 1, 0), ("socket", 16, 3, 0),
                                    ("unshare", NEWNS), ("setuid", 0),
                                    ("mmap", 0, 4096, 7, 0x22, -1, 0),
                                    ("memfd_create", "x", 0),
                                    ("pidfd_open", os.getpid(), 0)):
                    self.assertEqual(p.error(call, *args), "", call)
                self.assertEqual(p.error("kill", child, 0), "")
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


if __name__ == "__main__":
    attack.own_network()
    harness.main()
