# suite: sanitized
"""The gate's processes, alone: who may speak to them, what each of them has and
what not, keys at rest, and what a death of one of them costs."""

import ctypes
import os
import pwd
import re
import secrets
import select
import shutil
import signal
import socket
import stat
import struct
import subprocess
import time
import unittest

import gatewire as gw
import harness
from harness import SANITIZED, SLOW, wait_for

RULES = ("policy test", "allow * https://api.test\n")
STATE_BYTES = 270000  # some; src/gate/state.h


def new_id():
    return "i" + "".join(secrets.choice("abcdefghijklmnopqrstuvwxyz234567")
                         for _ in range(26))


class Gate:
    """The real carrel-gate, started as the supervisor does."""

    def __init__(self, **conf):
        self.dir = f"/tmp/g{secrets.token_hex(3)}"
        os.mkdir(self.dir, 0o755)
        harness.make_users()
        self.files = f"{self.dir}/state/gate"
        self.sock = f"{self.dir}/run/roles/gate.sock"
        self.conf = {"state_dir": f"{self.dir}/state", "user": "carrel",
                     "run_dir": f"{self.dir}/run", "group": "carrel", **conf}
        self.proc = None
        self.start()

    def start(self):
        with open(f"{self.dir}/conf", "w") as f:
            f.writelines(f"{k} = {v}\n" for k, v in self.conf.items())
        env = {"PATH": "/usr/bin:/bin", "SSLKEYLOGFILE": f"{self.dir}/leak"}
        if SANITIZED:
            env["ASAN_OPTIONS"] = "detect_leaks=1:exitcode=99"
        began = self.log().count("gate ready")
        with open(f"{self.dir}/log", "ab") as log:
            self.proc = subprocess.Popen(
                self.argv("carrel-gate"), stdin=subprocess.DEVNULL, stdout=log,
                stderr=log, env=env, start_new_session=True)
        wait_for("the keeper is ready",
                 lambda: self.log().count("gate ready") > began or
                 self.proc.poll() is not None, 20 * SLOW)

    def argv(self, program):
        return [os.path.join(harness.BUILD, "bin", program), "--config",
                f"{self.dir}/conf"]

    def log(self):
        return harness.read(f"{self.dir}/log", "")

    def end(self):
        self.proc.terminate()
        return self.proc.wait(10 * SLOW)

    def restart(self):
        self.end()
        self.start()

    def remove(self):
        if self.proc.poll() is None:
            self.end()
        log = self.log()
        shutil.rmtree(self.dir)
        if "Sanitizer" in log or "runtime error" in log:
            raise AssertionError(log)

    def children(self):
        """{name: [pid]} of the keeper and the doors."""
        found = {}
        for p in filter(str.isdigit, os.listdir("/proc")):
            status = harness.read(f"/proc/{p}/status", " ")
            if re.search(rf"^PPid:\t{self.proc.pid}$", status, re.M) and \
                    "State:\tZ" not in status:
                name = re.search(r"^Name:\t(.*)$", status, re.M)[1]
                found.setdefault(name, []).append(int(p))
        return found

    def client(self, door="", **kw):
        kw.setdefault("timeout", 10 * SLOW)
        return gw.Client(self.sock, door, **kw)

    def ready(self, door):
        """As the api does it: one that is just ending, because nobody needs
        it, is followed by another."""
        for _ in range(20):
            c = self.client(door)
            try:
                return c.ready()
            except (EOFError, ConnectionError):
                c.sock.close()
        raise AssertionError(f"no door {door}")

    def door(self, name):
        """The process of a door that has answered."""
        def living():
            pids = re.findall(rf"door '{name}' pid=(\d+)", self.log())
            doors = self.children().get("carrel-door", [])
            return int(pids[-1]) if pids and int(pids[-1]) in doors else None
        return wait_for(f"door '{name}'", living)

    def state(self, door, id):
        return f"{self.files}/state/gate{'.' if door else ''}{door}/{id}"


class Sandbox:
    """What the warden would have made: a listening socket and one for names."""

    def __init__(self, project="alpha"):
        self.id, self.project = new_id(), project
        self.proxy = socket.create_server(("127.0.0.1", 0))
        self.dns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.dns.bind(("127.0.0.1", 0))
        for s in (self.proxy, self.dns):
            s.setblocking(False)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.proxy.close()
        self.dns.close()

    def give(self, client, parts=(RULES,), **kw):
        client.send(gw.box(self.id, self.project, "box", parts,
                           gw.FD_PROXY | gw.FD_DNS, **kw),
                    [self.proxy.fileno(), self.dns.fileno()])

    def ask(self, name, timeout=10):
        """The address that the resolver inside gives a name, or None."""
        q = struct.pack(">6H", 7, 0x100, 1, 0, 0, 0)
        for label in name.split("."):
            q += bytes([len(label)]) + label.encode()
        q += b"\0" + struct.pack(">HH", 1, 1)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.settimeout(timeout * SLOW)
            s.connect(self.dns.getsockname())
            s.send(q)
            answer = s.recv(2048)
        if struct.unpack(">H", answer[6:8])[0] == 0:
            return None
        at = answer.index(b"\0\1\0\1\0\0", len(q))  # A, IN, time to live
        return socket.inet_ntoa(answer[at + 10:at + 14])


class Case(unittest.TestCase):
    CONF = {}

    @classmethod
    def setUpClass(cls):
        cls.g = Gate(**cls.CONF)

    @classmethod
    def tearDownClass(cls):
        cls.g.remove()

    def assertEnds(self, client):
        """The gate closes the connection; what came before does not matter."""
        while client.read() is not None:
            pass


class Hello(Case):
    def test_a_door_answers(self):
        with self.g.client() as c:
            self.assertEqual(c.ready().have, [])
            c.sync(7)

    def test_another_version(self):
        with self.g.client(door=None) as c:
            c.send(gw.hello("", version=gw.VERSION + 1))
            self.assertEnds(c)

    def test_reset_connection_is_not_a_bad_message(self):
        """Who dies with unread messages resets the connection."""
        said = "read from the api: Connection reset by peer"
        n = self.g.log().count(said)
        bad = self.g.log().count("a message that is not one")
        with self.g.client() as c:
            c.ready()
            c.send(gw.sync(1))
            wait_for("an answer waits", lambda: select.select(
                [c.sock], [], [], 0)[0], 10 * SLOW)
        wait_for("the gate says so", lambda: self.g.log().count(said) > n,
                 10 * SLOW)
        self.assertEqual(self.g.log().count("a message that is not one"), bad)

    def test_no_hello(self):
        for raw in (gw.project("alpha"), b"x", gw.hello("Not a name"),
                    gw.hello("a" * 200), gw.head(99), gw.hello() + b"more"):
            with self.subTest(raw), self.g.client(door=None) as c:
                c.send(raw)
                self.assertEnds(c)

    def test_another_user(self):
        with self.g.client(door=None, user="root") as c:
            self.assertEnds(c)
        self.assertEqual(stat.S_IMODE(os.stat(self.g.sock).st_mode), 0o600)

    def test_the_newest_connection_counts(self):
        with self.g.client() as a, self.g.client() as b:
            b.ready()
            self.assertEnds(a)
            b.sync()

    def test_a_message_that_is_not_one(self):
        with self.g.client() as c:
            c.ready()
        before = self.g.children()
        id = new_id()
        for raw in (b"", b"\1", gw.head(0), gw.head(500), gw.head(gw.READY),
                    gw.hello(), gw.head(gw.GONE) + gw.string("nobody"),
                    gw.head(gw.GONE) + struct.pack("<I", 1 << 31),
                    gw.box(id, "alpha", fds=1), gw.box(id, "alpha", fds=64),
                    gw.box(id, "alpha", parts=[("a", "b")] * 17),
                    gw.box(id, "alpha", parts=[("a" * 100, "b")]),
                    gw.head(gw.SECRET) + gw.string("alpha") + b"\xff" * 50,
                    gw.project("alpha") + b"\0", os.urandom(3000)):
            with self.subTest(raw[:40]), self.g.client() as c:
                c.ready()
                if raw:
                    c.send(raw)
                else:
                    c.sock.shutdown(socket.SHUT_WR)
                self.assertEnds(c)
        self.assertEqual(self.g.children(), before)


class Keys(Case):
    def test_they_stay(self):
        with self.g.client() as c:
            one, two = c.ready().keys("alpha"), c.keys("beta")
        self.assertEqual(len(one[0]), 32)
        self.assertIn("BEGIN CERTIFICATE", one[1])
        self.assertNotEqual(one[0], two[0])
        self.assertNotEqual(one[1], two[1])
        self.g.restart()
        with self.g.client() as c, self.g.client("alpha") as own:
            self.assertEqual(c.ready().keys("alpha"), one)
            self.assertEqual(own.ready().keys("alpha"), one)

    def test_they_are_encrypted(self):
        with self.g.client() as c:
            public, cert = c.ready().keys("alpha")
        with open(f"{self.g.files}/vault/alpha.keys", "rb") as f:
            raw = f.read()
        for plain in (public, b"BEGIN", cert.encode()[40:80], b"alpha"):
            self.assertNotIn(plain, raw)

    def test_nobody_else_reads_them(self):
        with self.g.client() as c, Sandbox() as box:
            box.give(c.ready())
            c.keys("alpha")
            wait_for("its state", lambda: os.path.exists(
                self.g.state("", box.id)))
        uid = pwd.getpwnam("carrel-gate").pw_uid
        for at, _, files in os.walk(self.g.files):
            for path in [at] + [f"{at}/{f}" for f in files]:
                st = os.stat(path)
                self.assertEqual((st.st_uid, st.st_mode & 0o077), (uid, 0), path)

    def test_a_damaged_file_is_no_key(self):
        with self.g.client() as c:
            c.ready().keys("gamma")
        self.g.end()
        path = f"{self.g.files}/vault/gamma.keys"
        with open(path, "r+b") as f:
            f.seek(100)
            f.write(b"damage")
        self.g.start()
        with self.g.client() as c:
            c.ready().send(gw.project("gamma"))
            wait_for("the log says so", lambda: "gamma.keys does not open"
                     in self.g.log())
            c.keys("delta")  # others are served
            self.assertEqual([m for m in c.seen if m.kind == gw.KEYS], [])

    def test_a_project_has_its_own_door(self):
        with self.g.ready("alpha") as c, Sandbox("beta") as box:
            box.give(c)
            self.assertEnds(c)
        with self.g.ready("alpha") as c:
            c.send(gw.project("beta"))
            self.assertEnds(c)
        with self.g.ready("alpha") as c:
            c.keys("alpha")


class VaultKey(unittest.TestCase):
    def test_a_command(self):
        one, two = secrets.token_hex(32), secrets.token_hex(32)
        g = Gate(vault_key_command=f"echo {one}")
        try:
            with g.client() as c:
                keys = c.ready().keys("alpha")
            self.assertFalse(os.path.exists(f"{g.files}/vault/key"))
            g.restart()
            with g.client() as c:
                self.assertEqual(c.ready().keys("alpha"), keys)
            g.conf["vault_key_command"] = f"echo {two}"
            g.restart()
            with g.client() as c:
                c.ready().send(gw.project("alpha"))
                wait_for("the log says so", lambda: "the vault's key is another"
                         in g.log())
            for command in ("echo 1234", "exit 1", "yes"):
                g.end()
                g.conf["vault_key_command"] = command
                g.start()
                g.proc.wait(10 * SLOW)
                self.assertIn("vault_key_command must print 64", g.log())
            # Never a new key beside what the old one closed.
            g.conf["vault_key_command"] = ""
            g.start()
            g.proc.wait(10 * SLOW)
            self.assertIn("the vault's key is gone", g.log())
        finally:
            g.remove()


class Confined(Case):
    def setUp(self):
        # A project's door that nobody needs ends.
        c = self.g.ready("alpha")
        self.addCleanup(c.sock.close)
        c.keys("alpha")
        self.keeper, = self.g.children()["carrel-keeper"]
        self.door = self.g.door("alpha")
        self.all = [self.g.proc.pid, self.keeper, self.door]

    def status(self, pid):
        return dict(line.split(":\t", 1) for line in
                    harness.read(f"/proc/{pid}/status").splitlines()
                    if ":\t" in line)

    def test_they_have_no_power(self):
        who = pwd.getpwnam("carrel-gate")
        for pid in self.all:
            st = self.status(pid)
            self.assertEqual(set(st["Uid"].split()), {str(who.pw_uid)})
            self.assertEqual(set(st["Gid"].split()), {str(who.pw_gid)})
            self.assertEqual(st["Groups"].strip(), "")
            for caps in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
                self.assertEqual(int(st[caps], 16), 0, caps)
            self.assertEqual((st["NoNewPrivs"], st["Seccomp"]), ("1", "2"))
            self.assertIn("Max core file size        0 ",
                          harness.read(f"/proc/{pid}/limits"))
            if not SANITIZED:  # undumpable: /proc/PID is root's
                self.assertEqual(os.stat(f"/proc/{pid}/mem").st_uid, 0)

    def test_they_have_no_files(self):
        for pid in self.all:
            found = set(os.listdir(f"/proc/{pid}/root/")) - {"proc"}
            self.assertEqual(found, set() if pid == self.keeper else {"log"})
            st = os.statvfs(f"/proc/{pid}/root/")
            self.assertTrue(st.f_flag & os.ST_RDONLY)

    def test_the_keeper_has_no_network(self):
        here = os.readlink("/proc/self/ns/net")
        self.assertEqual(os.readlink(f"/proc/{self.door}/ns/net"), here)
        self.assertNotEqual(os.readlink(f"/proc/{self.keeper}/ns/net"), here)

    def test_a_door_has_what_it_needs(self):
        at = f"/proc/{self.door}/fd"
        fds = {n: os.readlink(f"{at}/{n}") for n in os.listdir(at)}
        files = [x for n, x in fds.items() if n != "2" and x[0] == "/"]
        # Its spool, by its name in a directory that it does not have, and an
        # empty file: while that is open, no second gate starts.
        self.assertEqual(sorted(files), ["/dev/null", "/dev/null", "/gate.alpha",
                                         f"{self.g.files}/lock"])
        self.assertLess(len(fds), 16, fds)
        self.assertNotIn("vault", " ".join(fds.values()))

    @unittest.skipIf(SANITIZED, "a sanitizer's memory is not a page long")
    def test_a_door_never_had_the_vaults_key(self):
        """Not its memory either: it is no fork of who has it."""
        key = bytes.fromhex(harness.read(f"{self.g.files}/vault/key").strip())
        self.assertTrue(self.memory_has(self.keeper, key))
        self.assertFalse(self.memory_has(self.door, key))
        self.assertFalse(self.memory_has(self.g.proc.pid, key))

    @unittest.skipIf(SANITIZED, "a sanitizer's memory is not a page long")
    def test_a_door_has_the_keys_of_its_project(self):
        private = self.private_key("alpha")
        with self.g.client() as c, self.g.ready("beta") as other:
            c.ready().keys("alpha")
            other.keys("beta")
            self.assertTrue(self.memory_has(self.door, private))
            # Wiped by the keeper; the shared door opens nothing.
            for pid in (self.g.door(""), self.g.door("beta"), self.keeper,
                        self.g.proc.pid):
                self.assertFalse(self.memory_has(pid, private), pid)

    def private_key(self, project):
        """As in src/gate/keys.c: the last bytes of what is encrypted."""
        sodium = ctypes.CDLL("libsodium.so.23")
        key = bytes.fromhex(harness.read(f"{self.g.files}/vault/key").strip())
        with open(f"{self.g.files}/vault/{project}.keys", "rb") as f:
            raw = f.read()
        nonce, box = raw[8:32], raw[32:]
        out = ctypes.create_string_buffer(len(box))
        self.assertEqual(sodium.crypto_secretbox_open_easy(
            out, box, ctypes.c_ulonglong(len(box)), nonce, key), 0)
        plain = out.raw[:len(box) - 16]
        self.assertIn(b"PRIVATE KEY", plain)
        return plain[-32:]

    @unittest.skipIf(SANITIZED, "the leak checker looks at itself")
    def test_nobody_looks_into_them(self):
        for user in ("carrel-gate", "carrel", "nobody"):
            for pid in self.all:
                for name in ("mem", "environ", "maps", "fd/0"):
                    p = subprocess.run(
                        ["head", "-c1", f"/proc/{pid}/{name}"], user=user,
                        capture_output=True, text=True)
                    self.assertIn("Permission denied", p.stderr,
                                  (user, pid, name))

    def memory_has(self, pid, what):
        """Mappings that touch are read as one: a locked page is one of its
        own, and what is looked for may reach into it."""
        spans = []
        for line in harness.read(f"/proc/{pid}/maps").splitlines():
            span, mode = line.split()[:2]
            start, end = (int(x, 16) for x in span.split("-"))
            if not mode.startswith("rw") or "[v" in line:
                continue
            if spans and spans[-1][1] == start:
                start = spans.pop()[0]
            spans.append((start, end))
        with open(f"/proc/{pid}/mem", "rb", buffering=0) as mem:
            return any(what in self.memory(mem, *span) for span in spans)

    def memory(self, mem, start, end):
        """A read may be short; a page that cannot be read is passed over."""
        got = bytearray()
        while start < end:
            try:
                mem.seek(start)
                piece = mem.read(end - start)
            except OSError:
                piece = b""
            piece = piece or bytes(4096 - start % 4096)
            got += piece
            start += len(piece)
        return got

    def test_the_environment_is_nobodys(self):
        self.assertFalse(os.path.exists(f"{self.g.dir}/leak"))


class Life(Case):
    def test_names_are_answered(self):
        with self.g.client() as c, Sandbox() as box:
            box.give(c.ready())
            address = box.ask("api.test")
            self.assertTrue(address.startswith("198.1"), address)
            self.assertIsNone(box.ask("other.test"))
            # A change is in force when the door has read it.
            c.send(gw.box(box.id, "alpha", "box",
                          [("policy test", "allow * https://other.test\n")]))
            c.sync()
            self.assertIsNone(box.ask("api.test"))
            self.assertIsNotNone(box.ask("other.test"))
            c.send(gw.gone(box.id))
            c.sync()

    def test_what_cannot_be_read_denies(self):
        with self.g.client() as c, Sandbox() as box:
            box.give(c.ready(), [RULES, ("policy broken", "alow everything\n")],
                     flags=1)
            self.assertIsNone(box.ask("api.test"))
            self.assertIn("policy broken: ", self.g.log())
            c.send(gw.gone(box.id))
            c.sync()

    def test_it_goes_on_without_the_api(self):
        with Sandbox() as box:
            with self.g.client() as c:
                box.give(c.ready())
                c.sync()
            self.assertIsNotNone(box.ask("api.test"))
            with self.g.client() as c:
                self.assertEqual(c.ready().have, [box.id])
                c.send(gw.gone(box.id))
                c.sync()
            with self.g.client() as c:
                self.assertEqual(c.ready().have, [])

    def test_a_door_that_is_killed(self):
        with self.g.client() as c, Sandbox() as box:
            box.give(c.ready())
            address = box.ask("api.test")
            os.kill(self.g.door(""), signal.SIGKILL)
            self.assertEnds(c)
            with self.g.client() as again:
                self.assertEqual(again.ready().have, [])
                box.give(again)
                # The socket is the same, and the state: so is the address.
                self.assertEqual(box.ask("api.test"), address)
                again.send(gw.gone(box.id))
                again.sync()
        self.assertIsNone(self.g.proc.poll())

    def test_a_keeper_that_is_killed(self):
        with self.g.client() as c, Sandbox() as box:
            box.give(c.ready())
            address = box.ask("api.test")
            keeper, = self.g.children()["carrel-keeper"]
            door = self.g.door("")
            os.kill(keeper, signal.SIGKILL)
            self.assertEqual(self.g.proc.wait(10 * SLOW), 1)
            self.assertEnds(c)
            wait_for("its door ends", lambda: not os.path.exists(
                f"/proc/{door}/exe") or "State:\tZ" in
                harness.read(f"/proc/{door}/status", "State:\tZ"))
            self.g.start()
            with self.g.client() as again:
                box.give(again.ready())
                self.assertEqual(box.ask("api.test"), address)
                again.send(gw.gone(box.id))
                again.sync()

    def test_what_is_kept_of_a_sandbox(self):
        with self.g.client() as c, Sandbox() as box:
            box.give(c.ready())
            address = box.ask("api.test")
            path = self.g.state("", box.id)
            self.assertGreater(os.stat(path).st_size, STATE_BYTES)
            # Behind another door it is the same sandbox.
            c.send(gw.gone(box.id, gw.MOVED))
            c.sync()
            self.assertTrue(os.path.exists(path))
            with self.g.client("alpha") as own:
                box.give(own.ready())
                self.assertEqual(box.ask("api.test"), address)
                self.assertFalse(os.path.exists(path))
                own.send(gw.gone(box.id))
                own.sync()
                wait_for("its state goes", lambda: not os.path.exists(
                    self.g.state("alpha", box.id)))

    def test_what_nobody_wants_any_more(self):
        """A door that is new tells what it found, and is told what to drop."""
        with self.g.client() as c, Sandbox() as box:
            box.give(c.ready())
            box.ask("api.test")
        self.g.restart()
        with self.g.client() as c:
            c.ready()
            # Others may be there, of a gate that was killed in another test.
            while c.until(gw.KEPT).id != box.id:
                pass
            c.send(gw.gone(box.id))
            c.sync()
            wait_for("its state goes", lambda: not os.path.exists(
                self.g.state("", box.id)))

    def test_the_end(self):
        with self.g.client() as c, Sandbox() as box:
            box.give(c.ready())
            c.sync()
            self.assertEqual(self.g.end(), 0)
            self.assertEnds(c)
            self.assertEqual(self.g.children(), {})
            self.g.start()


class OtherEtc(Gate):
    """A gate whose /etc is a directory of the test."""

    FILES = ("passwd", "group", "nsswitch.conf", "ld.so.cache")

    def argv(self, program):
        argv = super().argv(program)
        if program != "carrel-gate":
            return argv
        etc = f"{self.dir}/etc"
        if not os.path.exists(etc):
            os.mkdir(etc)
            for name in self.FILES:
                shutil.copy(f"/etc/{name}", f"{etc}/{name}")
            self.put("hosts", "")
            self.put("resolv.conf", "nameserver 127.0.0.71\n")
        return ["unshare", "-m", "--propagation", "private", "sh", "-c",
                f'mount --bind {etc} /etc && exec "$@"', "sh", *argv]

    def put(self, name, text):
        """As programs do it: a new file of the same name."""
        with open(f"{self.dir}/etc/new", "w") as f:
            f.write(text)
        os.rename(f"{self.dir}/etc/new", f"{self.dir}/etc/{name}")


class Names(unittest.TestCase):
    @unittest.skipIf(SANITIZED, "it waits for a timer, and once is enough")
    def test_the_hosts_files_may_change(self):
        """Doors have no files; the keeper looks for them."""
        g = OtherEtc()
        with open(f"{g.dir}/scribe.log", "wb") as log:
            scribe = subprocess.Popen(g.argv("carrel-scribe"), stderr=log)
        servers = []
        try:
            for address in ("127.0.0.71", "127.0.0.72"):
                s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                s.bind((address, 53))
                s.setblocking(False)
                servers.append(s)
            with g.client() as c, Sandbox() as box:
                box.give(c.ready(), [("policy test", "allow * http://*.test\n")])
                wait_for("a question to the first",
                         lambda: self.asks(box, servers[0]), 30 * SLOW)
                g.put("resolv.conf", "nameserver 127.0.0.72\n")
                wait_for("a question to the second",
                         lambda: self.asks(box, servers[1]), 30 * SLOW)
        finally:
            for s in servers:
                s.close()
            scribe.terminate()
            scribe.wait()
            g.remove()

    def asks(self, box, server):
        """A request inside; is this server asked for the name?"""
        name = f"n{secrets.token_hex(4)}"
        with socket.create_connection(box.proxy.getsockname(), 10) as s:
            s.sendall(f"GET http://{name}.test/ HTTP/1.1\r\n"
                      f"Host: {name}.test\r\n\r\n".encode())
            end = time.monotonic() + 0.5 * SLOW
            while time.monotonic() < end:
                try:
                    if name.encode() in server.recv(2048):
                        return True
                except BlockingIOError:
                    time.sleep(0.02)
        return False


class Supervised(harness.Case):
    IMAGE = None

    def test_it_comes_back(self):
        def pids():
            found = {}
            for p in self.i.pids().get("carrel-gate", []):
                name = harness.read(f"/proc/{p}/comm", "").strip()
                found.setdefault(name, set()).add(p)
            return found
        wait_for("the gate", lambda: len(pids()) >= 2)
        self.assertEqual(self.i.api("GET", "/v1/host").json["gate"],
                         {"doors": 0, "up": 0})
        self.assertIn("no sandbox has a way out", self.i.cli("doctor").out)
        for name in ("carrel-keeper", "carrel-gate"):
            before, = pids()[name]
            os.kill(before, signal.SIGKILL)
            wait_for(f"a new {name}", lambda: (pids().get(name) or {before})
                     - {before} and len(pids()) >= 2, 20 * SLOW)


if __name__ == "__main__":
    harness.main()
