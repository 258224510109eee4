# suite: sanitized
"""The scribe alone, with writers that were taken over: whatever they send, the
log stays a log of entries that came from them, and the scribe stays alive."""

import json
import os
import secrets
import shutil
import signal
import socket
import stat
import struct
import subprocess
import time
import unittest
import zlib

import harness
from harness import SLOW, wait_for

HELLO, POKE, ACK = range(1, 4)
MSG = struct.Struct("<HHIQQQQQ")
HEAD = 32
SYNC = 1


def head(first=1):
    raw = b"spool 1\n" + struct.pack("<Q", first)
    return raw + struct.pack("<I", zlib.crc32(raw)) + bytes(12)


def record(number, body):
    raw = struct.pack("<Q", number) + body
    return struct.pack("<II", len(body), zlib.crc32(raw)) + raw


def body(kind="test.entry", data=None, **more):
    entry = {"time": "2026-01-31T08:15:30.125Z", "type": kind, "sandbox": None,
             "project": None, "who": "uid:0", "request": None,
             "data": data or {}}
    entry.update(more)
    return json.dumps(entry, separators=(",", ":")).encode()


class Scribe:
    """The real carrel-scribe, and what the api has: a spool, a socket."""

    def __init__(self, **conf):
        self.dir = f"/tmp/s{secrets.token_hex(3)}"
        os.mkdir(self.dir, 0o755)
        harness.make_users()
        self.audit = f"{self.dir}/state/audit"
        self.conf = {"state_dir": f"{self.dir}/state",
                     "run_dir": f"{self.dir}/run", **conf}
        self.spool = open(f"{self.dir}/spool", "w+b", buffering=0)
        self.spool.write(head())
        self.start()

    def start(self):
        with open(f"{self.dir}/conf", "w") as f:
            f.writelines(f"{k} = {v}\n" for k, v in self.conf.items())
        self.log = open(f"{self.dir}/log", "ab")
        self.proc = subprocess.Popen(
            [os.path.join(harness.BUILD, "bin/carrel-scribe"), "--config",
             f"{self.dir}/conf"], stderr=self.log, stdout=self.log)
        self.starts = getattr(self, "starts", 0) + 1
        wait_for("the scribe is ready", lambda: harness.read(
            f"{self.dir}/log").count(" ready ") == self.starts, 10 * SLOW)

    def connect(self):
        s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        s.settimeout(5 * SLOW)
        try:
            s.connect(f"{self.dir}/run/roles/scribe.sock")
        except OSError:
            s.close()
            raise
        return s

    def hello(self, fd=None, version=1):
        s = self.connect()
        socket.send_fds(s, [MSG.pack(version, HELLO, 0, 0, 0, 0, 0, 0)],
                        [self.spool.fileno() if fd is None else fd])
        return s

    def poke(self, s, end=None, sync=True):
        if end is None:
            end = os.fstat(self.spool.fileno()).st_size
        s.send(MSG.pack(1, POKE, SYNC if sync else 0, end, 0, 0, 0, 0))

    def until(self, s, number):
        """Acknowledgements until record `number` is on disk."""
        while True:
            raw = s.recv(100)
            if not raw:
                raise EOFError
            _, op, _, _, written, synced, seq, _ = MSG.unpack(raw)
            assert op == ACK and synced <= written
            if synced >= number:
                return written, synced, seq

    def add(self, *records):
        for r in records:
            self.spool.write(r)

    def entries(self):
        found = []
        for name in sorted(os.listdir(self.audit)):
            if name.endswith(".log"):
                with open(f"{self.audit}/{name}") as f:
                    found += [json.loads(line) for line in f]
        return found

    def types(self):
        return [e["type"] for e in self.entries()]

    def verify(self):
        return subprocess.run(
            [os.path.join(harness.BUILD, "bin/carrel-scribe"), "--verify",
             self.audit], capture_output=True, text=True)

    def stop(self, sig=signal.SIGTERM):
        self.proc.send_signal(sig)
        return self.proc.wait(20 * SLOW)

    def done(self):
        code = self.stop() if self.proc.poll() is None else self.proc.returncode
        v = self.verify()
        log = harness.read(f"{self.dir}/log")
        self.spool.close()
        self.log.close()
        shutil.rmtree(self.dir)
        if code != 0 or v.returncode != 0 or "Sanitizer" in log:
            raise AssertionError(f"exit {code}\n{v.stdout}{v.stderr}{log}")


class Door:
    """Another writer, with a spool of its own."""

    def __init__(self, scribe, name):
        self.scribe, self.name, self.n, self.s = scribe, name, 0, None
        self.spool = open(f"{scribe.dir}/{name}", "w+b", buffering=0)
        self.spool.write(head())

    def add(self, count=1, kind="egress.request"):
        for _ in range(count):
            self.n += 1
            self.spool.write(record(self.n, body(kind, {"n": self.n})))

    def hello(self, name=None, start=0):
        if self.s:
            self.s.close()
        self.s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.s.settimeout(10 * SLOW)
        self.s.connect(f"{self.scribe.dir}/run/roles/log/scribe.sock")
        msg = MSG.pack(1, HELLO, 0, start, 0, 0, 0, 0)
        socket.send_fds(self.s, [msg + (name or self.name).encode().ljust(
            80, b"\0")], [self.spool.fileno()])

    def poke(self, sync=True):
        self.scribe.poke(self.s, self.spool.tell(), sync)

    def until(self, number=None):
        return self.scribe.until(self.s, number or self.n)

    def numbers(self):
        return [e["spool"] for e in self.scribe.entries()
                if e.get("source") == self.name]

    def done(self):
        self.spool.close()
        if self.s:
            self.s.close()


class Case(unittest.TestCase):
    CONF = {}

    def setUp(self):
        self.s = Scribe(**self.CONF)
        self.addCleanup(self.s.done)


class Hostile(Case):
    def survives(self):
        self.assertIsNone(self.s.proc.poll(), harness.read(self.s.dir + "/log"))

    def closed(self, s):
        try:
            while s.recv(100):
                pass
        except ConnectionResetError:
            pass
        s.close()
        self.survives()

    def test_entries(self):
        s = self.s.hello()
        self.s.add(record(1, body()), record(2, body("a.b", {"x": [1, "ä"]})))
        self.s.poke(s)
        self.s.until(s, 2)
        got = self.s.entries()
        self.assertEqual([e["type"] for e in got],
                         ["log.start", "test.entry", "a.b"])
        self.assertEqual([e["seq"] for e in got], [1, 2, 3])
        self.assertEqual([e["spool"] for e in got], [0, 1, 2])
        self.assertEqual(got[2]["data"], {"x": [1, "ä"]})
        self.assertEqual(got[2]["prev"], got[1]["hash"])

    def test_bodies_that_are_no_entries(self):
        bad = [b"x", b"{}", body() + b"\n" + body(), body() + b"\n",
               body().replace(b'"data":{}', b'"data":{},"hash":"x"'),
               body("log.head"), body("log.start"), body("nodot"),
               body(who="a\nb"), body(who="a" * 200), body(time="yesterday"),
               b'{"seq":1,' + body()[1:], body()[:-1], b"[" * 10000,
               body().replace(b"{}", b'{"a":' + b"[" * 2000 + b"]" * 2000 + b"}"),
               body().replace(b"uid:0", b"\xff\xfe"), bytes(100), b"\n"]
        s = self.s.hello()
        for i, b in enumerate(bad):
            self.s.add(record(i + 1, b))
        self.s.add(record(len(bad) + 1, body("good.one")))
        self.s.poke(s)
        self.s.until(s, len(bad) + 1)
        types = self.s.types()
        self.assertEqual(types.count("log.refused"), len(bad), types)
        self.assertEqual(types[-1], "good.one")
        self.assertEqual([e["seq"] for e in self.s.entries()],
                         list(range(1, len(types) + 1)))
        self.survives()

    def test_the_largest_body(self):
        s = self.s.hello()
        fill = 16384 - len(body(data={"x": ""}))
        self.s.add(record(1, body(data={"x": "y" * fill})))
        self.s.add(record(2, body("last.one")))
        self.s.poke(s)
        self.s.until(s, 2)
        self.assertEqual(self.s.types()[-2:], ["test.entry", "last.one"])
        self.s.add(struct.pack("<II", 16385, 0) + bytes(16385 + 8))
        self.s.poke(s)
        self.closed(s)

    def test_records_that_are_none(self):
        good = record(2, body("never.seen"))
        for bad in (bytes(16), b"\xff" * 100, struct.pack("<II", 0, 0) + bytes(8),
                    struct.pack("<II", 2**32 - 1, 0) + bytes(100),
                    record(1, body())[:-1] + b"X", record(0, body()),
                    record(2**64 - 1, body()), record(2**53, body())):
            with self.subTest(bad[:20]):
                self.s.spool.truncate(HEAD)
                self.s.spool.seek(HEAD)
                self.s.add(bad, good)
                s = self.s.hello()
                self.s.poke(s)
                self.closed(s)
        self.assertEqual(self.s.types(), ["log.start"])

    def test_messages_that_are_none(self):
        poke = MSG.pack(1, POKE, 0, HEAD, 0, 0, 0, 0)
        for msg in (b"", b"x", poke[:-1], poke + b"x", bytes(48), poke,
                    MSG.pack(1, 77, 0, 0, 0, 0, 0, 0), MSG.pack(1, ACK, 0, 0, 0, 0, 0, 0),
                    MSG.pack(2, HELLO, 0, 0, 0, 0, 0, 0),
                    MSG.pack(1, HELLO, 0, 0, 0, 0, 0, 0)):  # no descriptor
            with self.subTest(msg):
                s = self.s.connect()
                if msg:
                    s.send(msg)
                else:
                    s.shutdown(socket.SHUT_WR)
                self.closed(s)
        s = self.s.hello()
        s.send(MSG.pack(1, POKE, 0, 2**63, 0, 0, 0, 0))
        self.closed(s)
        s = self.s.hello()
        s.send(MSG.pack(1, HELLO, 0, 0, 0, 0, 0, 0))
        self.closed(s)

    def test_spools_that_are_none(self):
        r, w = os.pipe()
        a, b = socket.socketpair()
        for fd in (r, w, a.fileno(), os.open("/dev/zero", os.O_RDONLY),
                   os.open("/tmp", os.O_RDONLY),
                   os.open("/tmp", os.O_PATH),
                   os.open(f"{self.s.dir}/spool", os.O_WRONLY)):
            with self.subTest(fd=os.readlink(f"/proc/self/fd/{fd}")):
                s = self.s.hello(fd)
                try:
                    self.s.poke(s, HEAD + 1000)
                except OSError:
                    pass
                self.closed(s)
        b.close()

    def test_a_spool_that_shrinks(self):
        s = self.s.hello()
        self.s.add(record(1, body()))
        end = os.fstat(self.s.spool.fileno()).st_size
        self.s.spool.truncate(HEAD + 10)
        self.s.poke(s, end)
        self.closed(s)

    def test_numbers(self):
        """Each once; those that are missing are told."""
        s = self.s.hello()
        self.s.add(*(record(n, body(data={"n": n}))
                     for n in (1, 2, 2, 1, 3, 7, 5, 8)))
        self.s.poke(s)
        self.s.until(s, 8)
        got = self.s.entries()
        self.assertEqual([e["data"]["n"] for e in got if e["type"] == "test.entry"],
                         [1, 2, 3, 7, 8])
        gap, = (e["data"] for e in got if e["type"] == "log.gap")
        self.assertEqual((gap["from"], gap["to"]), (4, 6))

    def test_a_new_connection_ends_the_old_one(self):
        old = self.s.hello()
        old.recv(100)
        new = self.s.hello()
        self.closed(old)
        self.s.add(record(1, body()))
        self.s.poke(new)
        self.s.until(new, 1)

    def test_strangers(self):
        """Another user may not even connect; were it let in, it is sent away."""
        path = f"{self.s.dir}/run/roles"
        st = os.stat(f"{path}/scribe.sock")
        self.assertEqual(stat.S_IMODE(st.st_mode), 0o660)
        self.assertEqual((st.st_uid, stat.S_IMODE(os.stat(path).st_mode)),
                         (0, 0o750))
        os.chmod(path, 0o755)
        os.chmod(f"{path}/scribe.sock", 0o666)
        code = ("import socket,sys; s=socket.socket(socket.AF_UNIX,"
                "socket.SOCK_SEQPACKET); s.connect(sys.argv[1]); "
                "s.settimeout(5); sys.exit(len(s.recv(100)))")
        p = subprocess.run(["/usr/bin/python3", "-c", code, f"{path}/scribe.sock"],
                           user=65534, group=65534, capture_output=True,
                           timeout=20 * SLOW)
        self.assertEqual(p.returncode, 0, p.stderr)
        self.survives()

    def test_many_connections(self):
        conns = [self.s.connect() for _ in range(4)]
        extra = self.s.connect()
        self.closed(extra)
        for c in conns:
            c.close()


class Several(Case):
    CONF = {"audit_segment_size": "64K"}

    def door(self, name):
        d = Door(self.s, name)
        self.addCleanup(d.done)
        return d

    def test_each_has_its_numbers(self):
        api = self.s.hello()
        a, b = self.door("gate"), self.door("gate.one")
        for d in (a, b):
            d.hello()
            d.add(3)
            d.poke()
            d.until()
        self.s.add(record(1, body()))
        self.s.poke(api)
        self.s.until(api, 1)
        got = [(e.get("source"), e["spool"]) for e in self.s.entries()]
        self.assertEqual(got[1:], [("gate", 1), ("gate", 2), ("gate", 3),
                                   ("gate.one", 1), ("gate.one", 2),
                                   ("gate.one", 3), (None, 1)])
        api.close()

    def test_names(self):
        """Who a writer may be, and that another of the same name replaces it."""
        for name in ("log", "gatekeeper", "gate.", "gate.A", "gate.a.b", "x" * 80):
            d = self.door("gate")
            d.hello(name)
            self.assertEqual(d.s.recv(100), b"", name)
        code = ("import socket,sys,os; s=socket.socket(socket.AF_UNIX,"
                "socket.SOCK_SEQPACKET); s.settimeout(5); s.connect('scribe.sock');"
                "socket.send_fds(s, [bytes.fromhex(sys.argv[1])], [0]);"
                "sys.exit(len(s.recv(100)) != int(sys.argv[2]))")
        for user, name, size in (("carrel-gate", b"api", 0), ("carrel", b"gate", 0),
                                 ("carrel-gate", b"gate", 48), ("carrel", b"api", 48)):
            where = "roles/log" if user == "carrel-gate" else "roles"
            msg = MSG.pack(1, HELLO, 0, 0, 0, 0, 0, 0) + name.ljust(80, b"\0")
            with open(f"{self.s.dir}/spool", "rb") as f:
                p = subprocess.run(
                    ["/usr/bin/python3", "-c", code, msg.hex(), str(size)],
                    cwd=f"{self.s.dir}/run/{where}", stdin=f, user=user, group=user,
                    extra_groups=[], capture_output=True, timeout=20 * SLOW)
            self.assertEqual(p.returncode, 0, (user, name, p.stderr))
        old, new = self.door("gate"), self.door("gate")
        old.hello()
        old.s.recv(100)
        new.hello()
        self.assertEqual(old.s.recv(100), b"")

    def test_types(self):
        """A door cannot speak as the api, nor as the log."""
        d = self.door("gate.one")
        d.hello()
        kinds = ["egress.request", "api.call", "log.head", "sandbox.create",
                 "policy.set", "approval.ask", "secret.use", "egressx.y",
                 "budget.over", "canary.found"]
        for kind in kinds:
            d.add(1, kind)
        d.poke()
        d.until()
        got = self.s.entries()
        self.assertEqual([e["type"] for e in got if e.get("source")],
                         [kinds[i] for i in (0, 5, 6, 8, 9)])
        bad = [e["data"] for e in got if e["type"] == "log.refused"]
        self.assertEqual([b["number"] for b in bad], [2, 3, 4, 5, 8])
        self.assertEqual({b["source"] for b in bad}, {"gate.one"})

    def test_a_silent_one_is_remembered(self):
        """Its numbers are known though no entry of it is in the last files."""
        d, loud = self.door("gate.silent"), self.door("gate.loud")
        d.hello()
        d.add(5)
        d.poke()
        d.until()
        loud.hello()
        for _ in range(4):
            loud.add(400)
            loud.poke()
            loud.until()
        names = sorted(n for n in os.listdir(self.s.audit) if n.endswith(".log"))
        self.assertGreater(len(names), 3)
        self.s.stop(signal.SIGKILL)
        self.s.start()
        d.hello()
        d.add(1)
        d.poke()
        d.until()
        self.assertEqual(d.numbers(), [1, 2, 3, 4, 5, 6])
        self.assertNotIn("log.gap", self.s.types())

    def test_one_that_floods(self):
        """The others do not wait until it is through."""
        d, flood = self.door("gate"), self.door("gate.flood")
        flood.hello()
        d.hello()
        flood.add(20000)
        d.add(1)
        flood.poke(False)
        d.poke()
        seq = d.until()[2]
        self.assertLess(seq, 20000)
        flood.poke()
        flood.until()

    def test_records_that_are_gone(self):
        """A hole in front of the first record that counts."""
        d = self.door("gate")
        d.hello()
        d.add(10)
        d.poke()
        d.until()
        start = d.spool.tell()
        d.add(2)
        with open(f"{self.s.dir}/gate", "r+b") as f:
            f.seek(HEAD)
            f.write(bytes(start - HEAD))
        d.hello(start=start)
        d.poke()
        d.until()
        self.assertEqual(d.numbers(), list(range(1, 13)))
        for wrong in (1, HEAD - 1, 2**63):
            d.hello(start=wrong)
            self.assertEqual(d.s.recv(100), b"")

    def test_killed_while_they_write(self):
        doors = [self.door(n) for n in ("gate", "gate.one", "gate.two")]
        for _ in range(6):
            for d in doors:
                d.hello()
                d.add(150)
                d.poke(False)
            time.sleep(secrets.randbelow(20) / 1000)
            self.s.stop(signal.SIGKILL)
            self.s.start()
        for d in doors:
            d.hello()
            d.poke()
            d.until()
            self.assertEqual(d.numbers(), list(range(1, d.n + 1)))
        self.assertNotIn("log.gap", self.s.types())


class Life(Case):
    CONF = {"audit_segment_size": "64K", "audit_keep": "256K"}

    def test_files_come_and_go(self):
        s = self.s.hello()
        for n in range(1, 2001):
            self.s.add(record(n, body(data={"x": "y" * 300})))
        self.s.poke(s)
        self.s.until(s, 2000)
        names = [n for n in os.listdir(self.s.audit) if n.endswith(".log")]
        self.assertGreater(len(names), 1)
        size = sum(os.path.getsize(f"{self.s.audit}/{n}") for n in names)
        self.assertLess(size, 800 << 10)
        types = self.s.types()
        self.assertIn("log.prune", types)
        self.assertEqual(types[0], "log.start")
        v = self.s.verify()
        self.assertEqual(v.returncode, 0, v.stdout)

    def test_another_spool(self):
        s = self.s.hello()
        self.s.add(record(1, body()), record(2, body()))
        self.s.poke(s)
        self.s.until(s, 2)
        with open(f"{self.s.dir}/other", "w+b", buffering=0) as f:
            f.write(head(2) + record(2, body()) + record(3, body("after.it")))
            socket.send_fds(s, [MSG.pack(1, HELLO, 0, 0, 0, 0, 0, 0)], [f.fileno()])
            self.s.poke(s, f.tell())
        self.s.until(s, 3)
        self.assertEqual(self.s.types()[1:], ["test.entry"] * 2 + ["after.it"])

    def test_signed_soon(self):
        s = self.s.hello()
        self.s.add(record(1, body()))
        self.s.poke(s, sync=False)
        self.s.until(s, 1)
        wait_for("a signed entry",
                 lambda: self.s.types()[-1] == "log.head", 10 * SLOW)

    def test_killed_while_it_writes(self):
        """Whenever it dies, the next one has each record once."""
        n = 0
        for _ in range(12):
            s = self.s.hello()
            for _ in range(300):
                n += 1
                self.s.add(record(n, body(data={"n": n})))
            self.s.poke(s, sync=False)
            time.sleep(secrets.randbelow(20) / 1000)
            self.s.stop(signal.SIGKILL)
            s.close()
            self.s.start()
        s = self.s.hello()
        self.s.poke(s)
        self.s.until(s, n)
        got = [e["data"]["n"] for e in self.s.entries()
               if e["type"] == "test.entry"]
        self.assertEqual(got, list(range(got[0], n + 1)))
        self.assertNotIn("log.gap", self.s.types())

    def test_posture(self):
        import pwd
        log = pwd.getpwnam("carrel-log")
        pid = self.s.proc.pid
        status = dict(line.split(":\t", 1) for line in harness.read(
            f"/proc/{pid}/status").splitlines() if ":\t" in line)
        for caps in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
            self.assertEqual(int(status[caps], 16), 0, caps)
        self.assertEqual((status["NoNewPrivs"], status["Seccomp"]), ("1", "2"))
        self.assertEqual(set(status["Uid"].split()), {str(log.pw_uid)})
        self.assertEqual(set(status["Gid"].split()), {str(log.pw_gid)})
        self.assertEqual(status["Groups"].strip(), "")
        limits = harness.read(f"/proc/{pid}/limits")
        self.assertRegex(limits, r"Max core file size +0 +0 ")
        if not harness.SANITIZED:
            self.assertEqual(os.stat(f"/proc/{pid}/mem").st_uid, 0)

        def look(name):
            st = os.stat(f"{self.s.audit}/{name}")
            return oct(stat.S_IMODE(st.st_mode)), st.st_uid, st.st_gid
        ids = log.pw_uid, log.pw_gid
        self.assertEqual(look("."), ("0o750", *ids))
        self.assertEqual(look("key"), ("0o600", *ids))
        for name in ("key.pub", "000000000001.log"):
            self.assertEqual(look(name), ("0o640", *ids))

    def test_a_key_that_was_lost(self):
        s = self.s.hello()
        self.s.add(record(1, body()))
        self.s.poke(s)
        self.s.until(s, 1)
        self.s.stop()
        old = harness.read(f"{self.s.audit}/key.pub")
        os.unlink(f"{self.s.audit}/key")
        self.s.start()
        wait_for("a new key", lambda: harness.read(
            f"{self.s.audit}/key.pub", "") not in ("", old), 5 * SLOW)
        self.assertEqual(harness.read(f"{self.s.audit}/key.pub.old"), old)
        s = self.s.hello()
        self.s.add(record(2, body()))
        self.s.poke(s)
        self.s.until(s, 2)
        self.s.stop()
        v = self.s.verify()
        self.assertEqual(v.returncode, 1)
        self.assertIn("not signed by the log's key", v.stdout)
        both = subprocess.run(
            [os.path.join(harness.BUILD, "bin/carrel-scribe"), "--verify",
             self.s.audit, "--key", f"{self.s.audit}/key.pub", "--key",
             f"{self.s.audit}/key.pub.old"], capture_output=True, text=True)
        self.assertEqual(both.returncode, 0, both.stdout)
        # What done() verifies is the new key's.
        for name in os.listdir(self.s.audit):
            if name.endswith(".log") or name == "head":
                os.unlink(f"{self.s.audit}/{name}")
        self.s.start()
        self.s.stop()


if __name__ == "__main__":
    harness.main()
