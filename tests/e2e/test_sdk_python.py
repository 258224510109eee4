# suite: both
"""The Python SDK (sdk/python) against the daemon: blocking and asyncio."""

import asyncio
import ctypes
import inspect
import io
import os
import socket
import ssl
import subprocess
import sys
import tarfile
import tempfile
import threading
import unittest

import harness
from harness import SLOW, TOP, wait_for
from tcp import certificate, free_port
from test_gate_life import Case as GateCase

sys.path.insert(0, os.path.join(TOP, "sdk/python"))

import carrel  # noqa: E402
from carrel import (AsyncClient, AsyncSandbox, Client, CommandError,  # noqa: E402
                    Conflict, ConnectionFailed, Ended, MergeConflict, NotFound,
                    NotReached, Sandbox, TimedOut, Unauthorized,
                    VersionMismatch, aio, client as blocking, http, websocket)
from carrel.seal import seal  # noqa: E402
from carrel.transport import TlsConn  # noqa: E402


def tar_of(**files):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as t:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            t.addfile(entry, io.BytesIO(data))
    return out.getvalue()


class Case(harness.Case):
    """One daemon for all of them, and one sandbox for those that leave it as
    it was."""
    i = None

    @classmethod
    def setUpClass(cls):
        if not Case.i:
            Case.i = harness.Instance()
            unittest.addModuleCleanup(cls.end)
            Case.client = Client(socket=cls.i.sock)
            Case.box = Sandbox.create(client=cls.client, name="shared")

    @classmethod
    def tearDownClass(cls):
        pass

    @classmethod
    def end(cls):
        cls.client.close()
        cls.i.stop()

    def tearDown(self):
        for s in Sandbox.list(client=self.client):
            if s.id != self.box.id:
                Sandbox.connect(s.id, client=self.client).kill()

    def make(self, **spec):
        return Sandbox.create(client=self.client, **spec)


class Sandboxes(Case):
    def test_create_connect_list_kill(self):
        with self.make(name="one", labels={"team": "a"}, memory="64M",
                       idle_timeout="1h",
                       files={"/home/user/x": "text", "/home/user/y": b"\xff"}
                       ) as box:
            self.assertEqual(Sandbox.connect("one", client=self.client).id,
                             box.id)
            info = box.info()
            self.assertEqual((info.state, info.labels, info.name),
                             ("running", {"team": "a"}, "one"))
            self.assertEqual(info.spec["idle-timeout"], 3600)
            self.assertEqual(info.created_at.tzinfo.utcoffset(None).seconds, 0)
            self.assertEqual(box.files.read("x"), "text")
            self.assertEqual(box.files.read_bytes("y"), b"\xff")
            found = Sandbox.list(client=self.client, label="team=a")
            self.assertEqual([s.id for s in found], [box.id])
        with self.assertRaises(Ended):
            box.run("true")
        box.kill()  # no error

    def test_errors_say_what_the_daemon_said(self):
        with self.assertRaises(NotFound) as got:
            Sandbox.connect("nobody", client=self.client)
        e = got.exception
        self.assertEqual((e.code, e.error), (404, "not_found"))
        self.assertIn("nobody", e.message)
        self.assertTrue(e.request_id)
        self.assertIn(e.request_id, str(e))
        with self.assertRaises(carrel.BadRequest):
            self.make(cpus=-1)
        self.make(name="taken")
        with self.assertRaises(Conflict):
            self.make(name="taken")

    @harness.container_only("a machine's limits do not change")
    def test_update_and_timeout(self):
        box = self.make()
        info = box.update(labels={"a": "b"}, pids=99)
        self.assertEqual((info.labels, info.spec["pids"]), ({"a": "b"}, 99))
        self.assertIsNone(info.expires_at)
        self.assertTrue(box.set_timeout("1h").expires_at)
        self.assertIsNone(box.set_timeout(0).expires_at)

    def test_pause_and_resume(self):
        box = self.make()
        self.assertEqual(box.pause().state, harness.PAUSED)
        self.assertEqual(box.resume().state, "running")
        box.pause(disk_only=True)
        self.assertEqual(box.info().state, "suspended")
        self.assertEqual(box.run("echo woken").stdout, "woken\n")

    def test_snapshot_and_rollback(self):
        box = self.make()
        box.files.write("f", "1")
        snap = box.snapshot("before")
        box.files.write("f", "2")
        self.assertEqual([s.name for s in box.snapshots()], ["before"])
        box.rollback(snap)
        self.assertEqual(box.files.read("f"), "1")
        other = self.make(snapshot=snap)
        self.assertEqual(other.files.read("f"), "1")
        self.assertEqual(self.client.snapshots.get("before").id, snap.id)
        self.client.snapshots.remove(snap)
        self.assertEqual(self.client.snapshots.list(), [])
        kinds = {n.type for n in box.tree()}
        self.assertLessEqual({"image", "sandbox"}, kinds)

    @harness.container_only("a machine's disk is not looked into")
    def test_fork_diff_merge(self):
        box = self.make()
        box.files.write("base", "0")
        a, b = box.fork(2, name="f", env={"WHO": "fork"})
        self.assertEqual(a.run("echo $WHO").stdout, "fork\n")
        a.files.write("new", "a")
        b.files.write("base", "b")
        with a.diff() as changes:
            paths = {c.path: c.change for c in changes}
        self.assertEqual(paths.get("/home/user/new"), "added", paths)
        self.assertNotIn("/home/user/base", paths)
        dry = box.merge(a, dry_run=True)
        self.assertTrue(dry.dry_run and dry.put)
        self.assertFalse(box.files.exists("new"))
        box.merge(a, paths=["/home/user/new"])
        self.assertEqual(box.files.read("new"), "a")
        box.files.write("base", "mine")
        with self.assertRaises(MergeConflict) as got:
            box.merge(b, paths=["/home/user/base"])
        self.assertEqual(got.exception.conflicts[0]["path"], "/home/user/base")
        box.merge(b, paths=["/home/user/base"], prefer="theirs")
        self.assertEqual(box.files.read("base"), "b")

    def test_ports(self):
        box = self.make(ports={"web": 8000})
        with box.commands.start(
                "mkdir -p w; echo page > w/index.html; "
                "exec busybox httpd -f -p 8000 -h w"):
            def served():
                r = box.fetch("web", "/index.html")
                return r if r.status == 200 else None
            self.assertEqual(wait_for("it serves", served, 20 * SLOW).text,
                             "page\n")
            self.assertEqual(box.fetch(8000, "/no ne/ü?a b").status, 404)
            with self.assertRaises(carrel.CarrelError) as got:
                box.url(8000)
            self.assertIn("listen", str(got.exception))
            self.assertTrue(box.port_token("web", ttl=60).token)

    def test_create_is_made_once(self):
        """Its answer is lost, it is asked for again, and there is one."""
        with Lossy(self.i.sock, lose=1) as at:
            box = Sandbox.create(client=Client(socket=at.path),
                                 labels={"made": "once"})
        self.assertEqual(at.seen, 2)
        found = Sandbox.list(client=self.client, label="made=once")
        self.assertEqual([s.id for s in found], [box.id])

    def test_what_is_not_safe_is_not_repeated(self):
        with Lossy(self.i.sock, lose=1) as at:
            box = Sandbox(Client(socket=at.path), self.box.id)
            with self.assertRaises(ConnectionFailed):
                box.run("echo once >> /home/user/once")
            self.assertEqual(at.seen, 1)
            self.assertEqual(box.files.read("once"), "once\n")
            self.assertEqual(at.seen, 2)

    def test_a_get_is_repeated(self):
        with Lossy(self.i.sock, lose=2) as at:
            self.assertEqual(
                Sandbox.connect("shared", client=Client(socket=at.path)).id,
                self.box.id)
        self.assertEqual(at.seen, 3)

    def test_what_the_daemon_puts_off(self):
        """503: what is safe is asked for again, the rest is not."""
        with Lossy(self.i.sock, lose=2, busy=True) as at:
            c = Client(socket=at.path)
            self.assertTrue(c.host()["version"])
            self.assertEqual(at.seen, 3)
        with Lossy(self.i.sock, lose=9, busy=True) as at:
            box = Sandbox(Client(socket=at.path), self.box.id)
            with self.assertRaises(carrel.Unavailable) as got:
                box.run("true")
            self.assertEqual((at.seen, got.exception.error), (1, "try_again"))
            with self.assertRaises(carrel.Unavailable):
                Client(socket=at.path, retries=1).host()
            self.assertEqual(at.seen, 3)

    def test_nobody_there(self):
        with self.assertRaises(NotReached) as got:
            Client(socket="/nowhere/api.sock", retries=0).host()
        self.assertIn("/nowhere/api.sock", str(got.exception))
        with self.assertRaises(NotReached):
            Client(f"http://127.0.0.1:{free_port()}", retries=1).host()


class Lossy:
    """In front of the daemon: answers of the first `lose` requests are lost,
    or with `busy` are 503 and nothing is done."""
    BUSY = (b"HTTP/1.1 503 Busy\r\nContent-Length: 39\r\n"
            b"Connection: close\r\n\r\n"
            b'{"error":"try_again","message":"later"}')

    def __init__(self, to, lose, busy=False):
        self.to, self.lose, self.busy, self.seen = to, lose, busy, 0
        self.dir = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.dir.name, "s")

    def __enter__(self):
        self.server = socket.socket(socket.AF_UNIX)
        self.server.bind(self.path)
        self.server.listen(8)
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *exc):
        self.server.shutdown(socket.SHUT_RDWR)
        self.thread.join(10)
        self.server.close()
        self.dir.cleanup()

    def _serve(self):
        while True:
            try:
                c, _ = self.server.accept()
            except OSError:
                return
            self.seen += 1
            request = c.recv(1 << 16)
            if self.busy and self.seen <= self.lose:
                c.sendall(self.BUSY)
                c.close()
                continue
            up = socket.socket(socket.AF_UNIX)
            up.connect(self.to)
            up.sendall(request.replace(
                b"\r\n", b"\r\nConnection: close\r\n", 1))
            answer = b""
            while piece := up.recv(1 << 16):
                answer += piece
            up.close()
            if self.seen > self.lose:
                c.sendall(answer)
            c.close()


class Commands(Case):
    def test_much_in_and_out(self):
        """What it writes is read while it is given what it reads."""
        data = os.urandom(12 << 20)
        r = self.box.run("cat", input=data, timeout=60 * SLOW)
        self.assertEqual((r.ok, r.timed_out), (True, False))
        self.assertTrue(r.stdout_bytes == data[-len(r.stdout_bytes):])

        async def both():
            async with AsyncClient(socket=self.i.sock) as c:
                box = await AsyncSandbox.connect(self.box.id, client=c)
                return await box.run("cat", input=data, timeout=60 * SLOW)
        self.assertTrue(asyncio.run(both()).ok)
        # Nor is it waited for who wants nothing of it.
        self.assertTrue(self.box.run("true", input=data, timeout=60 * SLOW).ok)
        r = self.box.run("sleep 99", input=data, timeout=1)
        self.assertTrue(r.timed_out)

    def test_run(self):
        r = self.box.run("cat; echo err >&2; exit 3", input="in")
        self.assertEqual((r.stdout, r.stderr, r.exit_code, r.ok),
                         ("in", "err\n", 3, False))
        r = self.box.run(["printf", "%s|", "a b", "$x"], cwd="/tmp",
                         env={"x": "1"})
        self.assertEqual(r.stdout, "a b|$x|")
        self.assertEqual(self.box.run("id -u; pwd", user="root",
                                      cwd="/etc").stdout, "0\n/etc\n")

    def test_check(self):
        with self.assertRaises(CommandError) as got:
            self.box.run("echo why >&2; exit 7", check=True)
        self.assertEqual(got.exception.result.exit_code, 7)
        self.assertIn("exited with 7: why", str(got.exception))
        r = self.box.run("kill -9 $$")
        self.assertEqual((r.exit_code, r.signal), (137, 9))

    def test_timeout(self):
        r = self.box.run("echo begun; sleep 600", timeout=3 * SLOW)
        self.assertTrue(r.timed_out)
        self.assertEqual((r.stdout, r.ok), ("begun\n", False))
        seen = []
        r = self.box.run("echo begun; sleep 600", timeout=3 * SLOW,
                         on_stdout=seen.append)
        self.assertEqual((r.timed_out, seen), (True, ["begun\n"]))

    def test_callbacks_and_bytes(self):
        out, err = [], []
        data = bytes(range(256)) * 600
        r = self.box.run("cat; echo e >&2", input=data, on_stdout=out.append,
                         on_stderr=err.append)
        self.assertEqual((r.stdout_bytes, "".join(err)), (data, "e\n"))
        self.assertEqual(self.box.run("cat", input=b"\xff\0").stdout_bytes,
                         b"\xff\0")

    def test_iteration(self):
        with self.box.commands.start(
                "for i in 1 2 3; do echo $i; done; echo e >&2; exit 4") as c:
            pieces = list(c)
            self.assertEqual("".join(p.text for p in pieces
                                     if p.stream == "stdout"), "1\n2\n3\n")
            r = c.wait()
        self.assertEqual((r.exit_code, r.stdout, r.stderr),
                         (4, "1\n2\n3\n", "e\n"))

    def test_input(self):
        with self.box.commands.start("cat", stdin=True) as c:
            c.write("one\n")
            self.assertEqual(next(iter(c)).text, "one\n")
            c.write(b"two\n")
            c.close_stdin()
            self.assertEqual(c.wait(check=True).stdout, "one\ntwo\n")

    def test_list_attach_kill(self):
        c = self.box.commands.start("echo hello; sleep 600", tag="long")
        self.assertEqual(next(iter(c)).text, "hello\n")
        c.close()
        p, = [p for p in self.box.commands.list() if p.tag == "long"]
        self.assertEqual((p.state, p.number), ("running", c.number))
        again = self.box.commands.attach("long")
        self.assertEqual(next(iter(again)).text, "hello\n")
        with self.assertRaises(TimedOut):
            again.wait(timeout=0.2)
        self.box.commands.kill("long", "TERM")
        self.assertEqual(again.wait(20 * SLOW).signal, 15)
        again.kill()  # no error
        with self.assertRaises(NotFound):
            self.box.commands.attach("nobody")

    def test_output_over_a_restart(self):
        """The api role is killed under it; not a byte is lost or doubled."""
        c = self.box.commands.start(
            "for i in $(seq 120); do echo line $i; sleep 0.01; done")
        seen, killed = "", False
        for out in c:
            seen += out.text
            if not killed and "line 20\n" in seen:
                self.i.kill_role("carrel-api")
                killed = True
        self.assertEqual(seen, "".join(f"line {i}\n" for i in range(1, 121)))

    def test_detached(self):
        """Nobody reads it, and it goes on."""
        c = self.box.commands.start(
            "head -c 2000000 /dev/zero; echo end; exit 3", detach=True)
        wait_for("it has exited", lambda: [
            p for p in self.box.commands.list()
            if p.number == c.number and p.exit], 20 * SLOW)
        r = c.wait()
        self.assertEqual((r.exit_code, r.stdout[-4:]), (3, "end\n"))
        self.assertEqual(r.lost + len(r.stdout_bytes), 2000004)
        self.assertGreater(r.lost, 1000000)

    def test_threads_share_a_client(self):
        got = [None] * 16

        def one(i):
            got[i] = self.box.run(f"echo {i}").stdout
        threads = [threading.Thread(target=one, args=(i,)) for i in range(16)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(got, [f"{i}\n" for i in range(16)])

    def test_missing_program(self):
        with self.assertRaises(carrel.BadRequest) as got:
            self.box.run(["/no/such"])
        self.assertEqual(got.exception.error, "spawn_failed")

    def test_terminal(self):
        with self.box.terminal("sh", rows=31, cols=99) as t:
            t.write("stty size\n")
            t.read_until("31 99")
            t.resize(10, 20)
            t.write("stty size\n")
            t.read_until("10 20")
            t.write("exit 6\n")
            t.read_all(20 * SLOW)
            self.assertEqual(t.exit_code, 6)

    def test_terminal_comes_back(self):
        t = self.box.terminal("sh")
        t.write("echo a''b\n")
        t.read_until("ab")
        t.close()
        with self.box.terminal(process=t.number) as again:
            self.assertEqual(again.number, t.number)
            again.read_until("ab")
            again.write("echo c''d\n")
            again.read_until("cd")
            with self.assertRaises(TimedOut):
                while again.read(0.2):
                    pass


class Files(Case):
    def setUp(self):
        self.files = self.box.files
        self.files.mkdir("/tmp/t")

    def tearDown(self):
        self.files.remove("/tmp/t", recursive=True)

    def test_read_and_write(self):
        w = self.files.write("/tmp/t/deep/er/f", "grün", mode="0600")
        self.assertEqual(w.size, 5)
        self.assertEqual(self.files.read("/tmp/t/deep/er/f"), "grün")
        self.assertEqual(self.files.stat("/tmp/t/deep/er/f").mode, "0600")
        big = os.urandom(1 << 20)
        self.files.write("/tmp/t/big", io.BytesIO(big))
        self.assertEqual(b"".join(self.files.stream("/tmp/t/big")), big)
        self.files.write("/tmp/t/parts", (bytes([i]) * 10 for i in range(9)))
        self.assertEqual(self.files.read_bytes("/tmp/t/parts", start=5, end=15),
                         b"\0" * 5 + b"\1" * 5)
        with self.assertRaises(carrel.BadRequest):
            self.files.read("/tmp/t/big")
        with self.assertRaises(NotFound):
            self.files.read("/tmp/t/none")
        with self.assertRaises(NotFound):
            self.files.write("/tmp/t/no/f", "x", parents=False)

    def test_list_stat_exists(self):
        self.files.write("/tmp/t/a", "1")
        self.files.write("/tmp/t/d/b", "22")
        found = self.files.list("/tmp/t")
        self.assertEqual([(e.name, e.is_dir) for e in found],
                         [("a", False), ("d", True)])
        self.assertEqual([e.path for e in self.files.list("/tmp/t", depth=2)],
                         ["/tmp/t/a", "/tmp/t/d", "/tmp/t/d/b"])
        self.assertEqual(self.files.stat("/tmp/t/d/b").size, 2)
        self.assertEqual([self.files.exists(f"/tmp/t/{x}")
                          for x in ("a", "d", "x", "a/x")],
                         [True, True, False, False])
        self.box.run("ln -s a /tmp/t/l", check=True)
        self.assertEqual(self.files.stat("/tmp/t/l").target, "a")
        self.assertTrue(self.files.stat("/tmp/t/l", follow=True).is_file)
        with self.assertRaises(NotFound):
            Sandbox(self.client, "nobody").files.exists("/")

    def test_change(self):
        self.files.write("/tmp/t/a", "1")
        self.files.copy("/tmp/t/a", "/tmp/t/b")
        self.files.move("/tmp/t/b", "/tmp/t/n/c", parents=True)
        self.assertEqual(self.files.read("/tmp/t/n/c"), "1")
        self.files.copy("/tmp/t/n", "/tmp/t/m", recursive=True)
        self.assertEqual(self.files.read("/tmp/t/m/c"), "1")
        self.assertEqual(self.files.chmod("/tmp/t/a", "0640").mode, "0640")
        with self.assertRaises(Conflict):
            self.files.move("/tmp/t/a", "/tmp/t/m/c")
        self.files.move("/tmp/t/a", "/tmp/t/m/c", overwrite=True)
        with self.assertRaises(carrel.CarrelError):
            self.files.remove("/tmp/t/m")
        self.files.remove("/tmp/t/m", recursive=True)
        self.assertFalse(self.files.exists("/tmp/t/m"))
        with self.assertRaises(Conflict):
            self.files.mkdir("/tmp/t/n", parents=False)

    def test_watch(self):
        with self.files.watch("/tmp/t") as events:
            self.files.write("/tmp/t/seen", "x")
            for e in events:
                if e.path == "/tmp/t/seen":
                    break
            self.assertIn(e.type, ("create", "write", "rename"))

    def test_tars(self):
        done = self.files.upload_tar("/tmp/t/in", tar_of(a=b"1", b=b"22"))
        self.assertEqual((done.entries, done.bytes), (2, 3))
        back = io.BytesIO(b"".join(self.files.download_tar("/tmp/t/in")))
        with tarfile.open(fileobj=back) as t:
            self.assertEqual(t.extractfile("b").read(), b"22")


class Host(Case):
    @harness.container_only("a machine's disk is not looked into")
    def test_host_and_images(self):
        self.assertTrue(self.client.host()["version"])
        self.assertEqual([i.name for i in self.client.images.list()], ["tiny"])
        self.box.files.write("/home/user/mark", "saved")
        self.client.images.save("mine", self.box)
        box = self.make(image="mine")
        self.assertEqual(box.files.read("mark"), "saved")
        self.assertTrue(self.client.images.get("mine").id)
        box.kill()
        self.client.images.remove("mine")

    def test_drive(self):
        drive = self.client.drive
        first = drive.put("dir/a b.txt", "one")
        self.assertEqual((first.path, first.version), ("dir/a b.txt", 1))
        drive.put("dir/a b.txt", b"two", version=1)
        with self.assertRaises(VersionMismatch):
            drive.put("dir/a b.txt", b"x", version=1)
        with self.assertRaises(VersionMismatch):
            drive.put("dir/a b.txt", b"x", new=True)
        self.assertEqual(drive.get("dir/a b.txt"), b"two")
        self.assertEqual(drive.get("dir/a b.txt", version=1), b"one")
        self.assertEqual([f.path for f in drive.list("dir/")],
                         ["dir/a b.txt"])
        self.assertEqual([v.version for v in drive.versions("dir/a b.txt")],
                         [2, 1])
        drive.remove("dir/a b.txt")
        self.assertEqual(drive.list(), [])

    def test_run_once(self):
        r = self.client.run("cat; hostname", input="in\n",
                            spec={"memory": "64M"})
        self.assertEqual((r.ok, r.stdout[:3]), (True, "in\n"))
        wait_for("its sandbox is gone", lambda: len(
            Sandbox.list(client=self.client)) == 1, 20 * SLOW)

    def test_usage(self):
        self.assertGreaterEqual(self.box.stats()["pids"], 1)
        self.assertGreaterEqual(self.client.stats()["host"]["sandboxes"], 1)
        self.assertIn(self.box.id, [u["sandbox"] for u in
                                    self.client.usage()["usage"]])

    def test_keys(self):
        key = self.client.keys.create("mine", scope="read")
        self.assertNotIn(key.key, repr(key))
        self.assertIn(key.id, [k.id for k in self.client.keys.list()])
        reader = Client(api_key=key.key, socket=self.i.sock)
        self.assertEqual(Sandbox.list(client=reader, name="shared")[0].id,
                         self.box.id)
        with self.assertRaises(carrel.Forbidden):
            Sandbox(reader, self.box.id).run("true")
        self.client.keys.remove(key)
        with self.assertRaises(Unauthorized):
            reader.host()
        reader.close()

    @harness.container_only("a machine has none")
    def test_volumes(self):
        volume = self.client.volumes.create("data", size="16M")
        with self.make(volumes=["data:/data"]) as box:
            self.assertEqual(self.client.volumes.get("data").sandboxes,
                             [box.id])
            with self.assertRaises(Conflict):
                self.client.volumes.remove(volume)
        self.assertEqual([v.id for v in self.client.volumes.list()],
                         [volume.id])
        self.client.volumes.remove(volume)

    def test_image_as_a_tar(self):
        tar = b"".join(self.client.images.export("tiny", format="rootfs"))
        self.assertEqual(self.client.images.put("copy", tar).name, "copy")
        self.client.images.remove("copy")

    def test_drive_of_a_sandbox(self):
        self.box.files.write("/tmp/out", "from inside")
        put = self.box.drive_put("/tmp/out", "kept/out")
        self.assertEqual(self.client.drive.get("kept/out"), b"from inside")
        got = self.box.drive_get("kept/out", "/tmp/new/back")
        self.assertEqual((got.version, put.sandbox), (put.version, self.box.id))
        self.assertEqual(self.box.files.read("/tmp/new/back"), "from inside")
        self.client.drive.remove("kept/out", purge=True)

    def test_recording(self):
        with self.box.terminal("echo to be kept", record=True) as t:
            t.read_all(20 * SLOW)
        kept, = self.box.recordings()
        self.assertEqual(kept.process, t.number)
        self.assertIn("to be kept", self.box.recording(kept))

    def test_kill_all(self):
        key = self.client.keys.create("other", scope="admin", project="other")
        other = Client(api_key=key.key, socket=self.i.sock)
        box = Sandbox.create(client=other)
        self.assertEqual(other.kill_all(), 1)
        with self.assertRaises(Ended):
            box.run("true")
        self.client.keys.remove(key)
        other.close()

    def test_events(self):
        wait_for("its start is in the log", lambda: "sandbox.create" in [
            e.type for e in self.box.events(after=0, follow=False)], 10 * SLOW)
        with self.client.events(type="sandbox.") as live:
            box = self.make(name="live")
            e = next(e for e in live if e.sandbox == box.id)
            # From where it was, also after a restart of the daemon.
            self.i.restart()
            box = Sandbox.connect("live", client=self.client)
            box.kill()
            end = next(e for e in live if e.type == "sandbox.end")
            self.assertEqual(end.sandbox, box.id)
            self.assertGreater(end.seq, e.seq)
        # Also what came while nobody listened, before anything was seen.
        with self.client.events(type="sandbox.end") as live:
            self.i.restart()
            box = self.make()
            box.kill()
            self.assertEqual(next(live).sandbox, box.id)
        some = list(self.client.events(after=0, limit=3))
        self.assertEqual(len(some), 3)


class Together(Case):
    """asyncio: the same requests, many at once."""

    def go(self, fn):
        async def main():
            async with AsyncClient(socket=self.i.sock) as c:
                return await asyncio.wait_for(
                    fn(c, AsyncSandbox(c, self.box.id)), 60 * SLOW)
        return asyncio.run(main())

    @harness.container_only("a machine's disk is not looked into")
    def test_life(self):
        async def life(c, _):
            async with await AsyncSandbox.create(client=c, name="aio") as box:
                self.assertEqual((await box.run("echo hi")).stdout, "hi\n")
                a, b = await box.fork(2)
                await a.files.write("f", "a")
                changes = [x.path async for x in a.diff()]
                self.assertIn("/home/user/f", changes)
                await box.merge(a)
                self.assertEqual(await box.files.read("f"), "a")
                same = await AsyncSandbox.connect("aio", client=c)
                self.assertEqual(same.id, box.id)
                listed = await AsyncSandbox.list(client=c)
                self.assertLessEqual({a.id, b.id}, {s.id for s in listed})
            with self.assertRaises(NotFound):
                await box.run("true")
        self.go(life)

    def test_many_at_once(self):
        async def many(_, box):
            got = await asyncio.gather(*(box.run(f"echo {i}")
                                         for i in range(20)))
            self.assertEqual([r.stdout for r in got],
                             [f"{i}\n" for i in range(20)])
        self.go(many)

    def test_commands(self):
        async def commands(_, box):
            seen = []

            async def slow(text):
                await asyncio.sleep(0)
                seen.append(text)
            r = await box.run("echo a; echo b >&2", on_stdout=slow,
                              on_stderr=seen.append)
            self.assertEqual((r.ok, sorted(seen)), (True, ["a\n", "b\n"]))
            async with await box.commands.start("cat", stdin=True) as c:
                await c.write("x")
                async for out in c:
                    self.assertEqual(out.text, "x")
                    break
                await c.close_stdin()
                self.assertEqual((await c.wait(check=True)).stdout, "x")
            with self.assertRaises(CommandError):
                await box.run("exit 1", check=True)
            c = await box.commands.start("sleep 600")
            with self.assertRaises(TimedOut):
                await c.wait(0.1)
            await c.kill()
            self.assertEqual((await c.wait()).signal, 9)
        self.go(commands)

    def test_files(self):
        async def files(_, box):
            async def pieces():
                for i in range(3):
                    yield bytes([65 + i]) * 1000
            await box.files.write("/tmp/a", pieces())
            self.assertEqual(len(await box.files.read("/tmp/a")), 3000)
            got = [p async for p in box.files.stream("/tmp/a")]
            self.assertEqual(sum(map(len, got)), 3000)
            with tempfile.TemporaryFile() as f:
                f.write(b"file")
                f.seek(0)
                await box.files.write("/tmp/b", f)
            async with box.files.watch("/tmp") as events:
                await box.files.remove("/tmp/b")
                async for e in events:
                    if (e.path, e.type) == ("/tmp/b", "remove"):
                        break
        self.go(files)

    def test_terminal(self):
        async def terminal(_, box):
            async with await box.terminal("sh", rows=12, cols=34) as t:
                await t.write("stty size; exit 5\n")
                shown = b"".join([p async for p in t])
                self.assertIn(b"12 34", shown)
                self.assertEqual(t.exit_code, 5)
        self.go(terminal)

    def test_what_is_cancelled_is_let_go_of(self):
        async def cancel(c, box):
            task = asyncio.create_task(box.run("sleep 600"))
            await asyncio.sleep(0.3)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task

            async def gone():
                return not [p for p in await box.commands.list()
                            if p.state == "running" and "600" in p.argv[-1]]
            while not await gone():
                await asyncio.sleep(0.05)
        self.go(cancel)

    def test_events(self):
        async def events(c, box):
            async with c.events(sandbox=box.id) as live:
                await box.run("true")
                async for e in live:
                    if e.type.startswith("process."):
                        return
        self.go(events)


class Tcp(harness.Case):
    """Over TLS with a key, as another host would come."""

    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.TemporaryDirectory()
        cls.port = free_port()
        cert, key = certificate(cls.dir.name)
        cls.cert = cert
        cls.CONF = {"listen": f"127.0.0.1:{cls.port}", "tls_cert": cert,
                    "tls_key": key}
        super().setUpClass()
        cls.url = f"https://127.0.0.1:{cls.port}"
        cls.key = cls.i.cli("key", "create", "--name", "sdk",
                            check=0).out.strip()
        cls.client = Client(cls.url, cls.key, ca=cert)
        cls.box = Sandbox.create(client=cls.client)

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        super().tearDownClass()
        cls.dir.cleanup()

    def tearDown(self):
        pass

    def test_run_and_files(self):
        data = os.urandom(1 << 19)
        self.box.files.write("f", data)
        self.assertEqual(self.box.files.read_bytes("f"), data)
        self.assertEqual(self.box.run("wc -c < f").stdout.strip(),
                         str(len(data)))

    def test_terminal_from_two_threads(self):
        with self.box.terminal("cat") as t:
            def type_much():
                for i in range(50):
                    t.write(f"line {i}\n")
            typist = threading.Thread(target=type_much)
            typist.start()
            shown = t.read_until("line 49", 60 * SLOW)
            typist.join()
            self.assertIn(b"line 0", shown)

    def test_url(self):
        with self.box.commands.start(
                "mkdir -p w; echo page > w/index.html; "
                "exec busybox httpd -f -p 8000 -h w"):
            wait_for("it serves",
                     lambda: self.box.fetch(8000).status == 200, 20 * SLOW)
            url = self.box.url(8000)
            self.assertIn("carrel_token=", url)
            self.assertTrue(url.startswith("https://"), url)

    def test_asyncio(self):
        async def main():
            async with AsyncClient(self.url, self.key, ca=self.cert) as c:
                box = AsyncSandbox(c, self.box.id)
                return await asyncio.gather(*(box.run(f"echo {i}")
                                              for i in range(5)))
        got = asyncio.run(main())
        self.assertEqual([r.stdout for r in got], [f"{i}\n" for i in range(5)])

    def test_wrong_key(self):
        with self.assertRaises(Unauthorized):
            Client(self.url, "e2b_" + "0" * 40, ca=self.cert).host()
        with self.assertRaises(NotReached):
            Client(self.url, self.key, retries=0).host()  # not our authority

    def test_environment(self):
        """As a program finds its way: nothing is said but in the
        environment."""
        p = subprocess.run(
            ["/usr/bin/python3", "-c",
             "from carrel import Sandbox\n"
             "with Sandbox.create() as box: print(box.run('echo $((6*7))')"
             ".stdout, end='')"],
            env={"PYTHONPATH": os.path.join(TOP, "sdk/python"),
                 "CARREL_URL": self.url, "CARREL_API_KEY": self.key,
                 "CARREL_CA": self.cert}, capture_output=True, text=True,
            timeout=60 * SLOW)
        self.assertEqual((p.returncode, p.stdout), (0, "42\n"), p.stderr)


class Egress(GateCase):
    """What leaves a sandbox: policies, approvals, secrets."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.client = Client(socket=cls.i.sock)

    def test_policies(self):
        policies = self.client.policies
        text = "allow GET http://api.test/a*\nask * http://api.test\n"
        p = policies.set("mine", text)
        self.assertEqual((p.name, p.text), ("mine", text))
        self.assertEqual(policies.get("mine").policy["rules"][0]["effect"],
                         "allow")
        box = Sandbox.create(client=self.client, policy="mine",
                             rules=["deny * http://evil.test"])
        self.assertEqual(policies.list()[0].sandboxes, [box.id])
        for url, method, verdict, part in (
                ("http://api.test/a1", "GET", "allow", "policy mine"),
                ("http://api.test/a1", "POST", "ask", "policy mine"),
                ("http://evil.test/", "GET", "deny", "the sandbox's rules"),
                ("http://else.test/", "GET", "deny", None)):
            v = policies.test(url, method=method, sandbox=box)
            self.assertEqual((v.verdict, v.part, v.observed),
                             (verdict, part, False), url)
        self.assertEqual(policies.test("http://api.test/b", policy="mine").line,
                         2)
        self.assertTrue(policies.test("http://x.test/", text="allow *").allowed)
        box.update(observe=True)
        self.assertTrue(policies.test("http://else.test/",
                                      sandbox=box).observed)
        for bad in ({}, {"policy": "mine", "text": ""}, {"text": "no rule"}):
            with self.assertRaises(carrel.BadRequest):
                policies.test("http://x.test/", **bad)
        with self.assertRaises(NotFound):
            policies.test("http://x.test/", policy="none")
        policies.set("mine", {"rules": []})
        box.kill()
        policies.remove("mine")
        self.assertEqual(policies.list(), [])

    def test_approvals(self):
        box = Sandbox.create(client=self.client, rules=["ask * http://api.test"])
        for allow in (True, False):
            got = []
            t = threading.Thread(target=lambda: got.append(
                self.get(box.id, "http://api.test/x", 60 * SLOW).status))
            t.start()
            a, = wait_for("it waits", self.client.approvals.list, 20 * SLOW)
            self.assertEqual((a.sandbox, a.host), (box.id, "api.test"))
            if allow:
                self.client.approvals.approve(a)
            else:
                self.client.approvals.deny(a.number)
            t.join()
            self.assertEqual(got, [200 if allow else 403])

    def test_access(self):
        box = Sandbox.create(client=self.client, rules=[
            "allow * http://api.test", "deny * http://no.test"])
        self.assertTrue(box.request_access("http://api.test/").allowed)
        self.assertEqual(box.request_access("http://no.test/").state, "denied")
        a = box.request_access("http://other.test/", reason="for the test")
        self.assertEqual(a.state, "waiting")
        self.client.approvals.approve(a.number)
        self.assertTrue(box.request_access("http://other.test/",
                                           wait=10).allowed)

    def test_secrets(self):
        secrets = self.client.secrets
        s = secrets.set("token", "very-secret-value",
                        hosts=["http://API.test"], env="API_TOKEN")
        self.assertEqual((s.hosts, s.kind), (["http://api.test"], "header"))
        box = Sandbox.create(client=self.client, secrets=["token"],
                             rules=["allow * http://api.test"])
        self.assertTrue(box.run("echo $API_TOKEN").stdout.startswith(
            "carrel-placeholder-"))
        n = len(self.web.requests)
        self.assertEqual(self.get(box.id).status, 200)
        self.assertEqual(self.web.requests[n].header("authorization"),
                         "Bearer very-secret-value")
        self.assertEqual([x.name for x in secrets.list()], ["token"])
        box.kill()
        secrets.remove("token")


class Alone(unittest.TestCase):
    """Without a daemon."""

    def test_seal(self):
        """What is sealed can be opened by libsodium, and by nobody without
        the key."""
        sodium = ctypes.CDLL("libsodium.so.23")
        public, private = (ctypes.create_string_buffer(32) for _ in "12")
        sodium.crypto_box_keypair(public, private)
        for n in (0, 1, 15, 16, 17, 63, 64, 65, 1000):
            message = os.urandom(n)
            sealed = seal(message, public.raw)
            out = ctypes.create_string_buffer(n + 1)
            self.assertEqual((sodium.crypto_box_seal_open(
                out, sealed, ctypes.c_ulonglong(len(sealed)), public, private),
                out.raw[:n]), (0, message))
        with self.assertRaises(ValueError):
            seal(b"x", bytes(32))

    def test_answers_in_any_pieces(self):
        chunked = (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                   b"3;x=y\r\nabc\r\nA\r\n0123456789\r\n0\r\nT: x\r\n\r\n")
        for raw, body, keep in (
                (chunked, b"abc0123456789", True),
                (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 Not Found\r\n"
                 b"Content-Length: 2\r\n\r\nno", b"no", True),
                (b"HTTP/1.1 204 No Content\r\n\r\n", b"", True),
                (b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nto the end",
                 b"to the end", False)):
            for step in (1, 2, 7, len(raw)):
                a, got = http.Answer("GET"), b""
                for i in range(0, len(raw), step):
                    a.feed(raw[i:i + step])
                    if a.ready:
                        got += a.take()
                if not a.done:
                    a.eof()
                self.assertEqual((got, a.done, a.keep_alive),
                                 (body, True, keep), raw)

    def test_answers_that_are_none(self):
        ok = b"HTTP/1.1 200 OK\r\n"
        for raw in (b"SSH-2.0\r\n\r\n", b"HTTP/1.1 abc\r\n\r\n",
                    ok + b"no colon\r\n\r\n",
                    ok + b"Content-Length: -1\r\n\r\n",
                    ok + b"Content-Length: 5\r\n\r\nabc",
                    ok + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n",
                    ok + b"Transfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n",
                    ok + b"Transfer-Encoding: chunked\r\n\r\n" + b"1" * 5000,
                    ok + b"X: " + b"y" * 70000):
            with self.assertRaises(carrel.ProtocolError, msg=raw[:60]):
                a = http.Answer("GET")
                a.feed(raw)
                a.take()
                a.eof()

    def test_tls_sends_and_receives_at_once(self):
        """Who sends does not keep from receiving what the other must get rid
        of before it reads on."""
        with tempfile.TemporaryDirectory() as where:
            cert, key = certificate(where)
            there = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            there.load_cert_chain(cert, key)
            here = ssl.create_default_context(cafile=cert)
        ours, theirs = socket.socketpair()
        data, seen = os.urandom(8 << 20), bytearray()

        def echo():
            with there.wrap_socket(theirs, server_side=True) as s:
                while piece := s.recv(65536):
                    s.sendall(piece)

        def send():
            for at in range(0, len(data), 65536):
                conn.send(data[at:at + 65536])

        def receive():
            while len(seen) < len(data):
                seen.extend(conn.recv(None))

        threads = [threading.Thread(target=fn, daemon=True)
                   for fn in (echo, send, receive)]
        threads[0].start()
        conn = TlsConn(ours, here, "localhost")
        self.addCleanup(conn.close)
        for t in threads[1:]:
            t.start()
        threads[2].join(30 * SLOW)
        self.assertTrue(bytes(seen) == data, len(seen))

    def test_requests_that_are_two(self):
        for method, target, fields in (
                ("GET", "/a b", []), ("GET", "/\r\nX: y", []),
                ("G\nET", "/", []), ("GET", "/", [("X", "a\r\nY: b")]),
                ("GET", "/", [("X\r\nY", "a")])):
            with self.assertRaises(ValueError):
                http.head(method, target, fields)

    def test_frames(self):
        data = os.urandom(70000)
        for n in (0, 1, 125, 126, 65535, 65536, 70000):
            sent = websocket.frame(websocket.BINARY, data[:n])
            head = len(sent) - n
            mask = sent[head - 4:head]
            self.assertEqual(bytes(b ^ mask[i % 4] for i, b in
                                   enumerate(sent[head:])), data[:n])
            # As a server sends it: without a mask, in two parts.
            half = n // 2
            parts = [(0x02, data[:half]), (0x80, data[half:n])]
            raw = b"".join(
                bytes([op, 127]) + len(d).to_bytes(8, "big") + d
                for op, d in parts)
            f = websocket.Frames()
            for i in range(0, len(raw), 9001):
                f.feed(raw[i:i + 9001])
            self.assertEqual(f.next(), (websocket.BINARY, data[:n]))
        for raw in (b"\xf2\0", b"\x82\x80", b"\x00\x00",
                    b"\x82\x7f" + b"\xff" * 8):
            f = websocket.Frames()
            f.feed(raw)
            with self.assertRaises(carrel.ProtocolError):
                f.next()

    def test_urls_that_are_none(self):
        for url in ("ftp://x", "http://", "127.0.0.1:80", "http://x/path"):
            with self.assertRaises(ValueError):
                Client(url)

    def test_a_key_is_not_shown(self):
        c = Client("http://127.0.0.1:1", "e2b_hidden")
        self.assertNotIn("hidden", repr(c) + repr(c._at) +
                         repr(Sandbox(c, "x")._at))

    def test_both_clients_have_the_same_names(self):
        def public(cls):
            return {n: inspect.getdoc(v) for n, v in vars(cls).items()
                    if not n.startswith("_")}
        for name, cls in vars(blocking).items():
            if inspect.isclass(cls) and cls.__module__ == blocking.__name__:
                other = getattr(aio, "Async" + name)
                self.assertEqual(public(cls), public(other), name)


if __name__ == "__main__":
    harness.main()
