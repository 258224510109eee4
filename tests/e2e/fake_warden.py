"""A warden in Python with agents in Python, for tests of the api role alone:
what it does when the parts it relies on lie, flood, stall or disappear.

Speaks src/wire/warden.h and src/wire/frame.h. Runs in threads of the test.
"""

import os
import pwd
import secrets
import shutil
import signal
import socket
import struct
import subprocess
import threading
import time

import harness
from harness import (ATTACH, ATTACHED, EXIT, FAILED, GAP, INPUT, INPUT_ACK,
                     INPUT_EOF, MAGIC, OUTPUT, OUTPUT_EOF, PING, PONG, SPAWN,
                     STARTED)

(HELLO, LAUNCH, KILL, KILL_ALL, NEXT, STAT, IMAGE_IMPORT, IMAGE_COMMIT,
 IMAGE_REMOVE, IMAGE_NEXT, HOST, ENDED, CONNECT, RESIZE, SNAPSHOT,
 SNAPSHOT_REMOVE, SNAPSHOT_NEXT, PAUSE, RESUME, VIEW, FETCH, DOOR, VOLUME_NEW,
 VOLUME_REMOVE, VOLUME_NEXT, GIVE_UP, POOL) = range(1, 28)
VERSION = 3
LAUNCH_PAUSED = 1 << 16
LAUNCH_SPEC = "<28s28s28s64sIIIQQQ640s"
REQ = struct.Struct("<HHIQ824s")
REP = struct.Struct("<HHIQi252s824s")
ENOENT, ESRCH, EBUSY, EEXIST, ECONNREFUSED = 2, 3, 16, 17, 111


def text(raw):
    return raw.split(b"\0")[0].decode()


class Agent:
    """One sandbox: a listening socket, and `behave` for each connection."""

    def __init__(self, warden, box_id):
        self.warden, self.id = warden, box_id
        self.dir = f"{warden.run_dir}/box/{box_id}"
        os.makedirs(self.dir)
        self.sock = socket.socket(socket.AF_UNIX)
        path = f"{self.dir}/agent.sock"
        self.sock.bind(path)
        os.chmod(path, 0o666)
        self.sock.listen(8)
        self.conns = []
        self.paused = False
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                conn, _ = self.sock.accept()
            except OSError:
                return
            self.conns.append(conn)
            threading.Thread(target=self.serve, args=(conn,), daemon=True).start()

    def serve(self, conn):
        try:
            self.warden.behave(Peer(conn, self))
        except (OSError, EOFError, ValueError):
            pass
        finally:
            conn.close()

    def end(self):
        for s in [self.sock] + self.conns:
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            s.close()
        shutil.rmtree(self.dir, ignore_errors=True)


class Peer(harness.Wire):
    """An agent's end of a connection."""

    def __init__(self, sock, agent):
        super().__init__(sock)
        self.agent = agent

    def output(self, channel, data, stream=1, offset=0):
        self.send(OUTPUT, channel, struct.pack("<BQ", stream, offset) + data)

    def gap(self, channel, offset, stream=1):
        self.send(GAP, channel, struct.pack("<BQ", stream, offset))

    def attached(self, channel, number=1, pid=2, offset=0, pty=0):
        self.send(ATTACHED, channel, struct.pack("<IIQB", pid, number, offset,
                                                 pty))

    def exit(self, channel, code=0):
        self.send(EXIT, channel, struct.pack("<BIQQQ", 0, code, 0, 0, 0))

    def heard(self):
        """The next frame that is not a ping."""
        while True:
            kind, channel, payload = self.recv()
            if kind != PING:
                return kind, channel, payload
            self.send(PONG, channel, payload)

    def asked(self):
        """The next attach: (channel, number, tag, stdout, stderr)."""
        kind, channel, payload = self.heard()
        if kind != ATTACH:
            raise ValueError(f"frame {kind} before an attach")
        number, n = struct.unpack_from("<II", payload)
        tag = payload[8:8 + n].decode()
        return (channel, number, tag) + struct.unpack_from("<QQ", payload, 9 + n)

    def spawned(self):
        """The next request: (channel, argv, env)."""
        raw, more = b"", True
        while len(self.buf) < 12:
            self._more()
        while self.buf[4] == PING:
            _, channel, payload = self.recv()
            self.send(PONG, channel, payload)
            while len(self.buf) < 12:
                self._more()
        while more:
            while len(self.buf) < 12:
                self._more()
            more = self.buf[5] & 1
            kind, channel, payload = self.recv()
            if kind != SPAWN:
                raise ValueError(f"frame {kind} before a spawn")
            raw += payload
        at = 8

        def word():
            nonlocal at
            n, = struct.unpack_from("<I", raw, at)
            s = raw[at + 4:at + 4 + n]
            at += 5 + n
            return s.decode()

        def words():
            nonlocal at
            n, = struct.unpack_from("<I", raw, at)
            at += 4
            return [word() for _ in range(n)]

        word(), word(), word()
        return channel, words(), words()


def polite(peer):
    """Knows echo, env, cat, sleep; answers pings."""
    peer.hello()
    while True:
        if not peer.buf:
            peer._more()
        while len(peer.buf) < 12:
            peer._more()
        if peer.buf[4] == PING:
            _, channel, payload = peer.recv()
            peer.send(PONG, channel, payload)
        elif peer.buf[4] == SPAWN:
            channel, argv, env = peer.spawned()
            peer.send(STARTED, channel, struct.pack("<II", 2, 1))
            if argv[0] == "sleep":
                continue
            data = (" ".join(argv[1:]) if argv[0] == "echo" else
                    "\n".join(env)).encode()
            if data:
                peer.output(channel, data)
            peer.send(OUTPUT_EOF, channel, struct.pack("<BQ", 1, len(data)))
            peer.exit(channel)
        else:
            peer.recv()


class FakeWarden:
    def __init__(self, run_dir, behave=polite):
        self.run_dir = run_dir
        self.behave = behave
        self.boxes = {}
        self.images = set()
        self.pool_id = b"", 0
        self.snapshots = {}  # id: of which sandbox
        self.volumes = {}  # id: size
        self.imports = {}
        self.seen = []      # (op, id)
        self.refuse = {}    # op: (errno, message)
        self.silent = set()  # ops that get no answer
        self.freezer = None  # a file that comes with a pause
        self.on_import = None
        self.on_view = None  # (ask_fd, say_fd, work) of a worker that looks
        self.ports = {}     # port: where its server really listens
        self.conn = None
        self.lock = threading.Lock()
        os.makedirs(f"{run_dir}/roles", exist_ok=True)
        os.makedirs(f"{run_dir}/box", exist_ok=True)
        self.listen()

    def listen(self):
        path = f"{self.run_dir}/roles/warden.sock"
        if os.path.exists(path):
            os.unlink(path)
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.sock.bind(path)
        os.chown(path, 0, pwd.getpwnam("carrel").pw_gid)
        os.chmod(path, 0o660)
        self.sock.listen(4)
        threading.Thread(target=self.accept, args=(self.sock,), daemon=True).start()

    def crash(self):
        """Goes away; sandboxes live on. listen() brings it back."""
        for s in (self.sock, self.conn):
            if s:
                try:
                    s.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
                s.close()
        self.conn = None

    def accept(self, sock):
        while True:
            try:
                self.conn, _ = sock.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(self.conn,),
                             daemon=True).start()

    def serve(self, conn):
        try:
            while True:
                raw = conn.recv(4096)
                if not raw:
                    return
                version, op, zero, seq, rest = REQ.unpack(raw)
                assert (version, zero) == (VERSION, 0), raw
                self.seen.append((op, text(rest[:28])))
                if op in self.silent:
                    continue
                self.answer(conn, op, seq, rest)
        except OSError:
            pass

    def reply(self, conn, op, seq, code=0, msg="", body=b"", fds=()):
        rep = REP.pack(VERSION, op, 0, seq, code, msg.encode()[:251], body)
        if fds:
            socket.send_fds(conn, [rep], list(fds))
        else:
            conn.send(rep)

    def notice_ended(self, box_id):
        self.boxes.pop(box_id).end()
        self.reply(self.conn, ENDED, 0, body=box_id.encode())

    def answer(self, conn, op, seq, rest):
        if op in self.refuse:
            self.reply(conn, op, seq, *self.refuse[op])
            return
        box_id = text(rest[:28])
        code, body, fds = 0, b"", ()
        if op == LAUNCH:
            code = self.launch(box_id, rest)
        elif op == KILL:
            box = self.boxes.pop(box_id, None)
            if box:
                box.end()
            else:
                code = ESRCH
        elif op == KILL_ALL:
            while self.boxes:
                self.boxes.popitem()[1].end()
        elif op == NEXT:
            later = sorted(i for i in self.boxes if i > box_id)
            code, body = (0, self.found(later[0])) if later else (ENOENT, b"")
        elif op in (PAUSE, RESUME):
            if box_id in self.boxes:
                self.boxes[box_id].paused = op == PAUSE
                body = struct.pack("<QQ", 0, 2)  # memory
                if op == PAUSE and self.freezer:
                    fds = (os.open(self.freezer, os.O_WRONLY | os.O_APPEND),)
            else:
                code = ESRCH
        elif op == IMAGE_NEXT:
            later = sorted(i for i in self.images if i > box_id)
            code, body = (0, later[0].encode()) if later else (ENOENT, b"")
        elif op == IMAGE_IMPORT:
            fds = self.start_import(box_id)
        elif op == VIEW:
            fds = self.start_view(struct.unpack_from("<I", rest)[0])
        elif op == IMAGE_COMMIT:
            self.imports.pop(box_id)
            self.images.add(box_id)
        elif op == IMAGE_REMOVE:
            if any(text(b.spec[28:56]) == box_id for b in self.boxes.values()):
                code = EBUSY
            elif box_id in self.images:
                self.images.remove(box_id)
            elif not self.imports.pop(box_id, None):
                code = ENOENT
        elif op == SNAPSHOT:
            code, body = self.snapshot(box_id, text(rest[28:56]))
        elif op == SNAPSHOT_REMOVE:
            code = 0 if self.snapshots.pop(box_id, None) else ENOENT
        elif op == SNAPSHOT_NEXT:
            later = sorted(i for i in self.snapshots if i > box_id)
            code, body = (0, later[0].encode()) if later else (ENOENT, b"")
        elif op == VOLUME_NEW:
            self.volumes[box_id] = struct.unpack("<Q", rest[32:40])[0]
        elif op == VOLUME_REMOVE:
            code = ENOENT if self.volumes.pop(box_id, None) is None else 0
        elif op == VOLUME_NEXT:
            later = sorted(i for i in self.volumes if i > box_id)
            code, body = (0, later[0].encode()) if later else (ENOENT, b"")
        elif op == POOL:
            body = self.identity(rest)
        elif op == RESIZE:
            if box_id in self.boxes:
                self.resize(box_id, *struct.unpack("<IQQ", rest[28:48]))
            else:
                code = ESRCH
        elif op == CONNECT:
            code, fds = self.connect(rest)
        elif op == STAT:
            body = struct.pack("<QQQQQ", 1, 2, 3, 4, 5)
        elif op == HOST:
            body = struct.pack("<IIIIQQ16s96s", 1, len(self.boxes), 10, 0,
                               1 << 30, 1 << 29, b"fake", b"/fake")
        self.reply(conn, op, seq, code, "no" if code else "", body, fds)
        for fd in fds:
            os.close(fd)

    def identity(self, rest):
        """The id of the pool, after it was set if the request has one."""
        wanted, _, generation = struct.unpack_from("<33s3xIQ", rest)
        if text(wanted):
            self.pool_id = wanted, generation
        wanted, generation = self.pool_id
        contents = self.images or self.snapshots or self.volumes
        return struct.pack("<33s3xIQ", wanted, 2 if contents else 0, generation)

    def launch(self, box_id, spec):
        source = text(spec[56:84])
        if box_id in self.boxes:
            return EEXIST
        if source and source not in self.snapshots:
            return ENOENT
        self.boxes[box_id] = Agent(self, box_id)
        self.boxes[box_id].spec = spec
        self.boxes[box_id].source = source
        return 0

    def snapshot(self, box_id, snap):
        if box_id not in self.boxes:
            return ESRCH, b""
        self.snapshots[snap] = box_id
        return 0, struct.pack("<QQ", 1000, 4096)

    def found(self, box_id):
        """What NEXT says about it."""
        box = self.boxes[box_id]
        spec = list(struct.unpack(LAUNCH_SPEC, box.spec))
        spec[4] |= LAUNCH_PAUSED if box.paused else 0
        return struct.pack(LAUNCH_SPEC, *spec)

    def resize(self, box_id, pids, cpus, mem):
        box = self.boxes[box_id]
        spec = list(struct.unpack(LAUNCH_SPEC, box.spec))
        spec[5], spec[7], spec[8] = pids, cpus, mem
        box.spec = struct.pack(LAUNCH_SPEC, *spec)

    def connect(self, rest):
        port, flags = struct.unpack_from("<HH", rest, 28)
        if flags or port not in self.ports:
            return ECONNREFUSED, ()
        s = socket.create_connection(("127.0.0.1", self.ports[port]))
        s.setblocking(False)
        return 0, (s.detach(),)

    def start_import(self, image_id):
        tar_r, tar_w = os.pipe()
        say_r, say_w = os.pipe()
        self.imports[image_id] = True
        threading.Thread(target=self.work, args=(tar_r, say_w),
                         daemon=True).start()
        return tar_w, say_r

    def start_view(self, work):
        ask_r, ask_w = os.pipe()
        say_r, say_w = os.pipe()

        def run():
            try:
                self.on_view(ask_r, say_w, work)
            except BrokenPipeError:
                pass
            finally:
                os.close(ask_r)
                os.close(say_w)

        threading.Thread(target=run, daemon=True).start()
        return ask_w, say_r

    def work(self, tar_fd, say_fd):
        """The worker: reads all, then says done; or what on_import says."""
        try:
            if self.on_import:
                self.on_import(tar_fd, say_fd)
                return
            n = 0
            while got := os.read(tar_fd, 1 << 20):
                n += len(got)
            os.write(say_fd, f"progress 1 {n}\ndone 1 {n}\n".encode())
        except BrokenPipeError:
            pass
        finally:
            os.close(tar_fd)
            os.close(say_fd)


class Api:
    """The real carrel-api and carrel-scribe with a fake warden."""

    api = harness.Instance.api
    create = harness.Instance.create
    rm = harness.Instance.rm
    ids = harness.Instance.ids
    exec_wire = harness.Instance.exec_wire
    run_wire = harness.Instance.run_wire

    def __init__(self, behave=polite, warden=True, image=True, **conf):
        self.dir = f"/tmp/a{secrets.token_hex(3)}"
        self.run_dir, self.state_dir = f"{self.dir}/run", f"{self.dir}/state"
        self.sock = f"{self.run_dir}/api.sock"
        self.log_path = f"{self.dir}/log"
        os.makedirs(self.run_dir, 0o755)
        harness.make_users()
        self.conf = {"state_dir": self.state_dir, "run_dir": self.run_dir,
                     "user": "carrel", "group": "carrel", "spares": 0,
                     "image": "img", "max_sandboxes": 50, "log_level": "debug"}
        self.conf.update(conf)
        self.warden = FakeWarden(self.run_dir, behave) if warden else None
        self.proc = self.scribe = None
        try:
            self.start()
            if warden and image:
                self.put_image("img")
        except BaseException:
            self.end_scribe()
            shutil.rmtree(self.dir)
            raise

    def start(self):
        with open(f"{self.dir}/conf", "w") as f:
            f.writelines(f"{k} = {v}\n" for k, v in self.conf.items())
        with open(self.log_path, "ab") as log:
            if not self.scribe:
                self.scribe = subprocess.Popen(
                    [os.path.join(harness.BUILD, "bin/carrel-scribe"),
                     "--config", f"{self.dir}/conf"], stderr=log, stdout=log)
            self.proc = subprocess.Popen(
                [os.path.join(harness.BUILD, "bin/carrel-api"), "--config",
                 f"{self.dir}/conf"], stderr=log, stdout=log)

        def ready():
            if self.proc.poll() is not None:
                raise AssertionError(f"api ended: {self.log()}")
            try:
                return self.api("GET", "/metrics", timeout=30).status == 200
            except OSError:
                return False
        harness.wait_for("the api answers", ready, 40)

    def put_image(self, name, data=b"x" * 1000):
        r = self.api("PUT", f"/v1/images/{name}", data)
        assert r.status == 201, r
        return r.json

    def log(self):
        return harness.read(self.log_path, "")

    def kill(self, sig=signal.SIGKILL):
        self.proc.send_signal(sig)
        return self.proc.wait(60)

    def fds(self):
        return len(os.listdir(f"/proc/{self.proc.pid}/fd"))

    def rss(self):
        """Resident bytes."""
        for line in harness.read(f"/proc/{self.proc.pid}/status").splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024

    def end_scribe(self):
        if self.scribe and self.scribe.poll() is None:
            self.scribe.terminate()
            self.scribe.wait(60)

    def stop(self):
        if self.proc.poll() is None:
            code = self.kill(signal.SIGTERM)
        else:
            code = self.proc.returncode
        self.end_scribe()
        log = self.log()
        if self.warden:
            self.warden.crash()
            for box in list(self.warden.boxes.values()):
                box.end()
        shutil.rmtree(self.dir, ignore_errors=True)
        bad = [line for line in log.splitlines()
               if "Sanitizer" in line or "runtime error" in line]
        if code != 0 or bad:
            raise AssertionError(f"api ended with {code}: {log[-5000:]}")
