# suite: slow
# suite: sanitized
"""Requests to the api role, with a warden that does as it is told."""

import grp
import json
import os
import socket
import struct
import subprocess
import tempfile
import threading
import time
import unittest

import fake_warden
import harness
from fake_warden import (IMAGE_COMMIT, IMAGE_REMOVE, KILL, LAUNCH, LAUNCH_SPEC,
                         Api, text)
from harness import EXIT, SLOW, STARTED, wait_for


class HttpCase(unittest.TestCase):
    CONF = {}

    def setUp(self):
        self.a = Api(**self.CONF)
        self.w = self.a.warden

    def tearDown(self):
        self.a.stop()

    def fails(self, status, word, method, path, body=None, headers=None):
        r = self.a.api(method, path, body, headers)
        self.assertEqual((r.status, r.json["code"], r.json["error"]),
                         (status, status, word), r)
        self.assertEqual(set(r.json), {"code", "error", "message", "request_id"})
        self.assertRegex(r.json["request_id"], r"^[0-9a-f]{16}$")
        self.assertEqual(r.headers["Request-Id"], r.json["request_id"])
        return r.json["message"]

    def launched(self):
        """The launch_spec of each launch, in order of ids."""
        return {i: struct.unpack(LAUNCH_SPEC, b.spec)
                for i, b in self.w.boxes.items()}


class Sandboxes(HttpCase):
    def test_create_get_list_delete(self):
        r = self.a.api("POST", "/v1/sandboxes", {
            "name": "work", "cpus": 0.5, "memory": "512M", "disk": 1 << 30,
            "pids": 99, "nofile": 64, "timeout": "1h", "sudo": False,
            "env": {"K": "V"}})
        self.assertEqual(r.status, 201)
        j = r.json
        self.assertEqual((j["name"], j["image"], j["state"]),
                         ("work", "img", "running"))
        # Fields of other areas have tests of their own.
        asked = {k: j["spec"][k] for k in (
            "image", "name", "cpus", "memory", "disk", "pids", "nofile",
            "timeout", "idle-timeout", "idle-action", "cpu-budget",
            "output-limit", "user", "workdir", "sudo", "allow-missing", "env")}
        self.assertEqual(asked, {
            "image": "img", "name": "work", "cpus": 0.5, "memory": 512 << 20,
            "disk": 1 << 30, "pids": 99, "nofile": 64, "timeout": 3600,
            "idle-timeout": 0, "idle-action": "remove", "cpu-budget": 0,
            "output-limit": 0, "user": "", "workdir": "", "sudo": False,
            "allow-missing": "", "env": {"K": "V"}})
        self.assertRegex(j["created_at"], r"^\d{4}-\d\d-\d\dT[\d:]{8}\.\d{3}Z$")
        self.assertRegex(j["expires_at"], r"^\d{4}-\d\d-\d\dT[\d:]{8}\.\d{3}Z$")
        spec = self.launched()[j["id"]]
        self.assertEqual([text(x) for x in spec[:4]],
                         [j["id"], j["image_id"], "", "work"])
        self.assertEqual(spec[4:10], (0, 99, 64, 500, 512 << 20, 1 << 30))
        for ref in (j["id"], "work", j["id"][:4], j["id"][:20]):
            got = self.a.api("GET", f"/v1/sandboxes/{ref}").json
            self.assertEqual(got.pop("usage"), {
                "cpu_us": 1, "memory_bytes": 2, "disk_bytes": 3, "pids": 4,
                "oom_kills": 5})
            self.assertEqual(got, j)
        self.assertEqual(self.a.api("GET", "/v1/sandboxes").json,
                         {"sandboxes": [j], "next": None})
        self.assertEqual(self.a.api("DELETE", "/v1/sandboxes/work").status, 204)
        self.assertEqual(self.w.boxes, {})
        self.fails(404, "not_found", "GET", "/v1/sandboxes/work")
        self.assertIn("removed by uid:0", self.fails(
            410, "ended", "DELETE", f"/v1/sandboxes/{j['id']}"))

    def test_defaults(self):
        box = self.a.create()
        spec = self.launched()[box]
        self.assertEqual(text(spec[3]), box[:12])
        self.assertEqual(spec[4:10], (1, 1024, 0, 2000, 2 << 30, 16 << 30))
        j = self.a.api("GET", f"/v1/sandboxes/{box}").json
        self.assertEqual((j["name"], j["expires_at"]), (None, None))

    def test_bad_requests(self):
        for body, words in (
                (b"{", "not JSON"), (b"[]", "object"), (b'"x"', "not JSON"),
                (b'{"cpus": 1, "cpus": 2}', "duplicate"),
                (b'{"cpu": 1}', "'cpu'"), (b'{"cpus": "many"}', "cpus"),
                (b'{"cpus": 0}', "cpus"), (b'{"memory": "1K"}', "memory"),
                (b'{"name": "No"}', "name"), (b'{"name": 5}', "name"),
                (b'{"name": "' + b"a" * 64 + b'"}', "name"),
                (b'{"env": {"A=B": "c"}}', "env"), (b'{"env": {"A": 1}}', "env"),
                (b'{"a": ' + b"[" * 1000, "deep"),
                (b"\xff\xfe{}", "not JSON")):
            with self.subTest(body[:40]):
                r = self.a.api("POST", "/v1/sandboxes", body)
                self.assertEqual(r.status, 400, r)
                self.assertIn(words, r.json["message"])
        self.assertEqual(self.w.boxes, {})
        big = b'{"name": "' + b"x" * (256 << 10) + b'"}'
        self.fails(413, "too_large", "POST", "/v1/sandboxes", big)
        self.fails(404, "not_found", "POST", "/v1/sandboxes", {"image": "nope"})
        self.fails(400, "bad_request", "DELETE", "/v1/sandboxes")
        self.fails(400, "bad_request", "DELETE", "/v1/sandboxes?all=yes")
        self.fails(404, "not_found", "GET", "/v9/sandboxes")
        self.fails(404, "not_found", "GET", "/v1/sandboxes/" + "x" * 500)
        self.assertIn("GET, PATCH, DELETE", self.fails(
            405, "method_not_allowed", "PUT", "/v1/sandboxes/x"))
        self.fails(400, "bad_request", "POST", "/v1/run", {})
        self.fails(426, "upgrade_required", "POST", "/v1/sandboxes/x/exec")
        upgrade = {"Connection": "Upgrade", "Upgrade": "carrel-wire/1"}
        self.fails(404, "not_found", "POST", "/v1/sandboxes/x/exec", None, upgrade)
        self.fails(400, "bad_request", "POST", "/v1/run", b"{", upgrade)

    def test_names(self):
        box = self.a.create(name="one")
        self.fails(409, "conflict", "POST", "/v1/sandboxes", {"name": "one"})
        # Also while the other is still starting, and still ending.
        self.w.silent = {KILL}
        s = socket.socket(socket.AF_UNIX)
        s.connect(self.a.sock)
        s.sendall(b"DELETE /v1/sandboxes/one HTTP/1.1\r\nHost: x\r\n\r\n")
        wait_for("the kill", lambda: (KILL, box) in self.w.seen, 3)
        self.fails(409, "conflict", "POST", "/v1/sandboxes", {"name": "one"})
        self.assertEqual(self.a.api("GET", f"/v1/sandboxes/{box}").json["state"],
                         "removing")
        self.fails(409, "busy", "POST", "/v1/sandboxes/one/exec", None,
                   {"Connection": "Upgrade", "Upgrade": "carrel-wire/1"})

    def test_prefix(self):
        ids = [self.a.create() for _ in range(40)]
        self.fails(404, "not_found", "GET", "/v1/sandboxes/" + ids[0][:3])
        self.assertEqual(self.a.api("GET", "/v1/sandboxes/" + ids[0][:9]).json["id"],
                         ids[0])

    def test_deadline(self):
        box = self.a.create(timeout="3s")
        x = self.a.exec_wire(box)
        x.spawn(["sleep"])
        self.assertEqual(x.recv()[0], STARTED)
        with self.assertRaisesRegex(harness.WireError, "time is over"):
            x.finish()
        wait_for("it is gone", lambda: not self.a.ids(), 1)

    def test_run(self):
        x = self.a.run_wire(env={"A": "b"})
        x.spawn(["env"])
        self.assertEqual(x.finish(), (0, b"A=b", b""))
        self.assertEqual(self.a.ids(), [])
        with self.assertRaises(EOFError):
            x.recv()
        wait_for("its sandbox is gone", lambda: not self.w.boxes, 3)

    def test_run_ends_with_channel_1_only(self):
        x = self.a.run_wire()
        x.spawn(["echo", "two"], channel=2)
        self.assertEqual(x.finish(channel=2)[1], b"two")
        x.spawn(["echo", "one"], channel=1)
        self.assertEqual(x.finish()[1], b"one")
        with self.assertRaises(EOFError):
            x.recv()

    def test_frames_right_behind_the_request(self):
        s = socket.socket(socket.AF_UNIX)
        s.connect(self.a.sock)
        w = harness.Wire(s)
        later = harness.Wire(s)
        frames = bytearray()
        w.sock = type("Sink", (), {"sendall": frames.extend})()
        w.spawn(["echo", "at once"])
        s.sendall(b"POST /v1/run HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\n"
                  b"Upgrade: carrel-wire/1\r\nContent-Length: 2\r\n\r\n{}" +
                  harness.MAGIC + struct.pack("<HHI", 1, 1, 0) + bytes(16) +
                  frames)
        while b"\r\n\r\n" not in later.buf:
            later._more()
        head, _, rest = bytes(later.buf).partition(b"\r\n\r\n")
        self.assertTrue(head.startswith(b"HTTP/1.1 101 "))
        later.buf[:] = rest
        while len(later.buf) < 32:
            later._more()
        del later.buf[:32]
        self.assertEqual(later.finish()[1], b"at once")

    def test_kill_switch(self):
        for n in range(5):
            self.a.create(name=f"n{n}")
        x = self.a.exec_wire("n0")
        x.spawn(["sleep"])
        self.assertEqual(x.recv()[0], STARTED)
        r = self.a.api("DELETE", "/v1/sandboxes?all=true")
        self.assertEqual((r.status, r.json), (200, {"removed": 5}))
        self.assertEqual((self.a.ids(), self.w.boxes), ([], {}))
        with self.assertRaises(harness.WireError):
            x.finish()
        self.a.kill()
        self.a.start()
        self.assertEqual(self.a.ids(), [])
        self.a.create(name="n0")

    def test_kill_switch_while_one_starts(self):
        self.w.silent = {LAUNCH}
        got = []
        t = threading.Thread(target=lambda: got.append(
            self.a.api("POST", "/v1/sandboxes", {})))
        t.start()
        box = wait_for("the launch", lambda: [x for x in self.w.seen
                                              if x[0] == LAUNCH], 3)[0][1]
        self.assertEqual(self.a.api("DELETE", "/v1/sandboxes?all=true").json,
                         {"removed": 0})
        t.join(60)
        self.assertEqual(got[0].status, 503)
        # Its launch is answered after all.
        self.w.boxes[box] = fake_warden.Agent(self.w, box)
        for seq in range(1, 20):
            self.w.reply(self.w.conn, LAUNCH, seq)
        wait_for("it is killed", lambda: not self.w.boxes, 3)

    def test_limit(self):
        for _ in range(50):
            self.a.create()
        self.assertIn("max_sandboxes", self.fails(
            429, "limit_reached", "POST", "/v1/sandboxes", {}))

    def test_many_at_once(self):
        errors = []

        def one(n):
            try:
                x = self.a.run_wire()
                x.spawn(["echo", str(n)])
                assert x.finish()[1] == str(n).encode()
                x.close()
            except Exception as e:
                errors.append(e)
        threads = [threading.Thread(target=one, args=(n,)) for n in range(40)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(errors, [])
        wait_for("all are gone", lambda: not self.w.boxes, 5)

    def test_nothing_grows(self):
        def cycle():
            box = self.a.create(name="c", env={"A": "b"})
            x = self.a.exec_wire(box)
            x.spawn(["echo", "hi"])
            x.finish()
            x.close()
            self.a.rm(box)
        for _ in range(20):
            cycle()
        wait_for("connections end", lambda: self.a.fds() < 25, 7)
        fds, rss = self.a.fds(), self.a.rss()
        for _ in range(300):
            cycle()
        wait_for("connections end", lambda: self.a.fds() <= fds, 7)
        if not harness.SANITIZED:  # which keeps what was freed
            self.assertLess(self.a.rss() - rss, 2 << 20)

    def test_owners_and_modes(self):
        def look(path):
            st = os.stat(path)
            return oct(st.st_mode & 0o7777), st.st_uid, st.st_gid
        uid, gid = os.stat(f"{self.a.state_dir}/registry/registry.db").st_uid, \
            os.stat(self.a.sock).st_gid
        self.assertNotEqual(uid, 0)
        self.assertEqual(look(self.a.sock), ("0o660", 0, gid))
        self.assertEqual(look(self.a.state_dir), ("0o755", 0, 0))
        self.assertEqual(look(f"{self.a.state_dir}/registry"), ("0o700", uid, gid))
        self.assertEqual(look(f"{self.a.state_dir}/registry/registry.db")[0],
                         "0o600")

    def test_posture(self):
        status = dict(line.split(":\t", 1) for line in harness.read(
            f"/proc/{self.a.proc.pid}/status").splitlines() if ":\t" in line)
        for caps in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
            self.assertEqual(int(status[caps], 16), 0, caps)
        self.assertEqual((status["NoNewPrivs"], status["Seccomp"]), ("1", "2"))
        self.assertNotIn("0", status["Uid"].split())
        self.assertNotIn("0", status["Gid"].split())
        # To read the log, and nothing else.
        self.assertEqual(status["Groups"].split(),
                         [str(grp.getgrnam("carrel-log").gr_gid)])
        limits = harness.read(f"/proc/{self.a.proc.pid}/limits")
        self.assertRegex(limits, r"Max core file size +0 +0 ")


class Spares(HttpCase):
    CONF = {"spares": 2}

    def settled(self, n=2):
        wait_for(f"{n} spares", lambda: len(self.w.boxes) -
                 len(self.a.ids()) == n, 3)

    def test_a_create_takes_one(self):
        self.settled()
        ahead = set(self.w.boxes)
        self.assertEqual(self.a.ids(), [])
        launches = len(self.w.seen)
        box = self.a.create(timeout=60, env={"A": "b"})
        self.assertIn(box, ahead)
        self.assertEqual(self.a.ids(), [box])
        x = self.a.exec_wire(box)
        x.spawn(["env"])
        self.assertEqual(x.finish()[1], b"A=b")
        self.settled()
        self.assertEqual(len([s for s in self.w.seen[launches:]
                              if s[0] == LAUNCH]), 1)
        # Nobody can name one.
        other = next(iter(ahead - {box}))
        self.fails(404, "not_found", "GET", f"/v1/sandboxes/{other}")
        self.fails(404, "not_found", "DELETE", f"/v1/sandboxes/{other}")

    def test_only_one_that_fits(self):
        self.settled()
        ahead = set(self.w.boxes)
        for spec in ({"name": "n"}, {"cpus": 1}, {"memory": "1G"}, {"disk": "1G"},
                     {"pids": 100}, {"nofile": 99}, {"sudo": False},
                     {"allow-missing": "disk"}):
            self.assertNotIn(self.a.create(**spec), ahead, spec)
        self.a.put_image("other")
        self.assertNotIn(self.a.create(image="other"), ahead)
        self.assertTrue(ahead <= set(self.w.boxes))
        self.assertIn(self.a.create(image="img", cpus=2), ahead)

    def test_they_go_with_their_image(self):
        self.settled()
        old = self.a.api("GET", "/v1/images").json["images"][0]["id"]
        new = self.a.put_image("img")["id"]
        wait_for("spares of the new image", lambda: len(self.w.boxes) == 2 and all(
            text(b.spec[28:56]) == new for b in list(self.w.boxes.values())), 5)
        wait_for("the old image is gone", lambda: old not in self.w.images, 3)
        self.assertEqual(self.a.api("DELETE", "/v1/images/img").status, 204)
        self.assertEqual((self.w.boxes, self.w.images), ({}, set()))

    def test_after_a_crash_they_are_leftovers(self):
        self.settled()
        old = set(self.w.boxes)
        self.a.kill()
        self.a.start()
        wait_for("they are gone", lambda: not old & set(self.w.boxes), 5 * SLOW)
        self.settled()

    def test_after_a_stop_none_is_left(self):
        self.settled()
        box = self.a.create()
        self.settled()
        self.assertEqual(self.a.kill(15), 0)
        self.assertEqual(list(self.w.boxes), [box])
        self.a.start()
        self.assertEqual(self.a.ids(), [box])

    def test_the_kill_switch_takes_them(self):
        self.settled()
        self.assertEqual(self.a.api("DELETE", "/v1/sandboxes?all=true").json,
                         {"removed": 0})
        time.sleep(0.1)
        self.assertEqual(self.w.boxes, {})
        self.a.create()
        self.settled()

    def test_users_come_first(self):
        for _ in range(50):
            self.a.create(pids=100)
        wait_for("spares gave way", lambda: len(self.w.boxes) == 50, 3)


class FullDisk(unittest.TestCase):
    def setUp(self):
        self.top = tempfile.mkdtemp(prefix="carrel-full-")
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=96m", "full",
                        self.top], check=True)
        self.addCleanup(os.rmdir, self.top)
        self.addCleanup(subprocess.run, ["umount", "-l", self.top], check=True)
        self.a = fake_warden.Api(state_dir=f"{self.top}/state")
        self.addCleanup(self.a.stop)

    def fill(self):
        with open(f"{self.top}/fill", "wb", buffering=0) as f:
            try:
                while True:
                    f.write(bytes(1 << 16))
            except OSError:
                pass

    def ends(self, box):
        """How often the log says that it has ended, once it has everything."""
        def settled():
            log = self.a.api("GET", "/v1/host").json["log"]
            return log["up"] and log["waiting"] == 0
        wait_for("the log has everything", settled, 20 * SLOW)
        lines = self.a.api("GET", "/v1/events?follow=false").body.decode().splitlines()
        return sum(e["type"] == "sandbox.end" and e["sandbox"] == box
                   for e in map(json.loads, lines))

    def test_removed_sandbox_ends_once_in_the_log(self):
        """Its row cannot go while the disk is full. Starts meanwhile do not
        write down another end."""
        box = self.a.create()
        self.fill()
        self.assertEqual(self.a.api("DELETE", f"/v1/sandboxes/{box}").status, 204)
        wait_for("the row stays", lambda: "trying again" in self.a.log(),
                 10 * SLOW)
        for _ in range(2):
            self.a.kill()
            self.a.start()
        os.unlink(f"{self.top}/fill")
        wait_for("its end is in the log", lambda: self.ends(box), 20 * SLOW)
        self.a.kill()
        self.a.start()
        self.assertEqual(self.ends(box), 1)
        self.assertEqual(self.a.ids(), [])


class DescriptorLimit(HttpCase):
    def test_429_names_the_limit(self):
        for code, text, word in ((24, "Too many open files", "LimitNOFILE"),
                                 (23, "Too many open files in system",
                                  "fs.file-max")):
            self.w.refuse[fake_warden.LAUNCH] = code, f"make a pipe: {text}"
            r = self.a.api("POST", "/v1/sandboxes", {})
            self.assertEqual((r.status, r.json["error"]), (429, "limit_reached"), r)
            self.assertIn(word, r.json["message"])


class Images(HttpCase):
    def test_config(self):
        """What an image wants of its processes fills what a spec leaves open."""
        config = {"Env": ["A=image", "B=image"], "User": "root:root",
                  "WorkingDir": "/srv", "Cmd": ["/bin/sh"], "Labels": {"a": "b"}}

        def worker(tar_fd, say_fd):
            while os.read(tar_fd, 1 << 16):
                pass
            os.write(say_fd, b"config " + json.dumps(config).encode() +
                     b"\ndone 17 4096\n")
        self.w.on_import = worker
        r = self.a.api("PUT", "/v1/images/wants", b"tar")
        self.assertEqual((r.status, r.json["config"]), (201, config))
        self.a.kill()
        self.a.start()
        self.assertEqual(self.a.api("GET", "/v1/images/wants").json, r.json)

        def spec(**asked):
            box = self.a.create(image="wants", **asked)
            got = self.a.api("GET", f"/v1/sandboxes/{box}").json["spec"]
            return got["env"], got["workdir"], got.get("user", "")
        self.assertEqual(spec(), ({"A": "image", "B": "image"}, "/srv", "root"))
        self.assertEqual(spec(env={"A": "mine"}, workdir="/", sudo=False),
                         ({"A": "mine", "B": "image"}, "/", ""))
        self.assertEqual(spec(user="bin")[2], "bin")
        # What no config is, is not taken; nor a second one.
        for bad in (b"config []\n", b"config {\"Env\": [1]}\n", b"config \n",
                    b"config {\"Evil\": 1}\n", b"config {}\nconfig {}\n",
                    b"config " + b"x" * 40000):
            self.w.on_import = lambda tar_fd, say_fd, bad=bad: (
                os.write(say_fd, bad + b"done 1 1\n"), os.read(tar_fd, 1))
            self.fails(422, "bad_image", "PUT", "/v1/images/bad", b"tar")

    def test_image_is_not_bad_when_the_warden_was_killed(self):
        """Its worker ends with it, and says nothing."""
        def worker(tar_fd, say_fd):
            os.read(tar_fd, 1)  # it has begun
            self.w.crash()
            self.w.listen()
        self.w.on_import = worker
        message = self.fails(503, "warden_unavailable", "PUT",
                             "/v1/images/cut", b"tar")
        self.assertIn("the warden", message)
        self.w.on_import = lambda tar_fd, say_fd: None
        self.fails(422, "bad_image", "PUT", "/v1/images/cut", b"tar")

    def test_put_list_delete(self):
        data = os.urandom(5 << 20)
        got = bytearray()

        def worker(tar_fd, say_fd):
            while more := os.read(tar_fd, 1 << 16):
                got.extend(more)
            os.write(say_fd, b"progress 3 4\ndone 17 4096\n")
        self.w.on_import = worker
        r = self.a.api("PUT", "/v1/images/my.image:1", data)
        self.assertEqual(r.status, 201)
        self.assertEqual(bytes(got), data)
        self.assertEqual({k: r.json[k] for k in ("name", "size", "entries")},
                         {"name": "my.image:1", "size": 4096, "entries": 17})
        short = {k: v for k, v in r.json.items()
                 if k not in ("config", "cache")}
        self.assertIn(short, self.a.api("GET", "/v1/images").json["images"])
        self.assertEqual(self.a.api("GET", "/v1/images/my.image:1").json, r.json)
        self.fails(404, "not_found", "GET", "/v1/images/none")
        # Chunked, by a slow client; then a restart.
        self.w.on_import = None

        def slow():
            for _ in range(5):
                yield b"y" * 70000
                time.sleep(0.02)
        r = self.a.api("PUT", "/v1/images/two", slow())
        self.assertEqual((r.status, r.json["size"]), (201, 350000))
        before = self.a.api("GET", "/v1/images").json
        self.a.kill()
        self.a.start()
        after = self.a.api("GET", "/v1/images").json
        self.assertEqual(sorted(before["images"], key=lambda i: i["id"]),
                         sorted(after["images"], key=lambda i: i["id"]))
        self.assertEqual(self.a.api("DELETE", "/v1/images/two").status, 204)
        self.assertNotIn(r.json["id"], self.w.images)
        self.fails(404, "not_found", "DELETE", "/v1/images/two")

    def test_in_use(self):
        box = self.a.create()
        self.assertIn("img", self.fails(409, "busy", "DELETE", "/v1/images/img"))
        old = self.a.api("GET", "/v1/images").json["images"][0]["id"]
        new = self.a.put_image("img")["id"]
        self.assertIn(old, self.w.images)
        second = self.a.create()
        self.assertEqual(self.a.api("GET", f"/v1/sandboxes/{second}").json["image_id"],
                         new)
        self.a.rm(box)
        wait_for("the old one is removed", lambda: old not in self.w.images, 3)
        self.assertIn(new, self.w.images)

    def test_retired_before_a_crash(self):
        box = self.a.create()
        old = self.a.api("GET", "/v1/images").json["images"][0]["id"]
        self.a.put_image("img")
        self.a.kill()
        self.a.start()
        self.assertIn(old, self.w.images)
        self.a.rm(box)
        wait_for("the old one is removed", lambda: old not in self.w.images, 3)

    def test_bad_names(self):
        for name in ("No", "-x", "a%20b", ".x", "x" * 64, "i" + "a" * 26):
            r = self.a.api("PUT", f"/v1/images/{name}", b"x")
            self.assertEqual(r.status, 400, name)
        self.fails(400, "bad_request", "PUT", "/v1/images/x")

    def bad_worker(self, *words, read_all=True):
        def worker(tar_fd, say_fd):
            while read_all and os.read(tar_fd, 1 << 20):
                pass
            for w in words:
                os.write(say_fd, w)
        self.w.on_import = worker
        msg = self.fails(422, "bad_image", "PUT", "/v1/images/bad", b"z" * 100000)
        # Its volume goes, the name was never taken.
        wait_for("it is removed", lambda: not self.w.imports and
                 len(self.w.images) == 1, 3)
        self.assertEqual(len(self.a.api("GET", "/v1/images").json["images"]), 1)
        return msg

    def test_hostile_worker(self):
        self.assertEqual(self.bad_worker(b"error entry 'a\x1b[31m\xff' is bad\n"),
                         "entry 'a?[31m?' is bad")
        self.bad_worker()
        self.bad_worker(b"progress 1 2\n")
        self.bad_worker(b"hello\n")
        self.bad_worker(b"done 1\n")
        self.bad_worker(b"done 1 2 3\n")
        self.bad_worker(b"done -1 2\n")
        self.bad_worker(b"done 99999999999999999999 2\n")
        self.bad_worker(b"progress x y\n")
        self.bad_worker(b"x" * 600)
        self.bad_worker(b"done 1 2")
        self.bad_worker(b"error early\n", read_all=False)
        self.bad_worker(b"done 1 2\ndone 1 2\n")

    def test_worker_stops_reading(self):
        """Ends before the client has sent everything."""
        def worker(tar_fd, say_fd):
            os.read(tar_fd, 10)
            os.write(say_fd, b"done 1 2\n")
        self.w.on_import = worker
        r = self.a.api("PUT", "/v1/images/short", b"t" * (3 << 20))
        self.assertEqual(r.status, 201)

    def test_client_leaves(self):
        fds = self.a.fds()
        s = socket.socket(socket.AF_UNIX)
        s.connect(self.a.sock)
        s.sendall(b"PUT /v1/images/half HTTP/1.1\r\nHost: x\r\n"
                  b"Content-Length: 1000000\r\n\r\nabc")
        image = wait_for("the import", lambda: list(self.w.imports), 3)[0]
        s.close()
        wait_for("it is removed", lambda: (IMAGE_REMOVE, image) in self.w.seen, 3)
        wait_for("nothing is left open", lambda: self.a.fds() <= fds, 3)

    def test_at_most_four_at_once(self):
        socks = []
        for n in range(4):
            s = socket.socket(socket.AF_UNIX)
            s.connect(self.a.sock)
            s.sendall(f"PUT /v1/images/h{n} HTTP/1.1\r\nHost: x\r\n"
                      "Content-Length: 1000\r\n\r\nabc".encode())
            socks.append(s)
        wait_for("four imports", lambda: len(self.w.imports) == 4, 3)
        self.fails(429, "limit_reached", "PUT", "/v1/images/fifth", b"x")
        socks[0].close()
        wait_for("one went", lambda: len(self.w.imports) == 3, 3)
        self.a.put_image("fifth")

    def test_commit_fails(self):
        self.w.refuse = {IMAGE_COMMIT: (28, "pool is full")}
        self.assertEqual(self.fails(507, "no_space", "PUT", "/v1/images/x", b"x"),
                         "pool is full")
        self.w.refuse = {IMAGE_COMMIT: (74, "was not unpacked")}
        self.fails(422, "bad_image", "PUT", "/v1/images/x", b"x")

    def test_no_image(self):
        self.a.api("DELETE", "/v1/images/img")
        self.assertIn("image build", self.fails(404, "not_found", "POST",
                                                "/v1/sandboxes", {}))


class Other(HttpCase):
    def test_host(self):
        self.a.create()
        j = self.a.api("GET", "/v1/host").json
        self.assertEqual(j["kernel"], os.uname().release)
        self.assertEqual(j["pool"], {"driver": "fake", "bytes": 1 << 30,
                                     "free_bytes": 1 << 29, "read_only": False,
                                     "disk_limit": False,
                                     "simple_quota": False})
        self.assertEqual(j["cgroup"]["path"], "/fake")
        self.assertEqual(j["counts"], {"sandboxes": 1, "spares": 0, "images": 1})
        self.assertEqual(j["limits"]["max_sandboxes"], 50)

    def test_metrics(self):
        x = self.a.run_wire()
        x.spawn(["echo", "x" * 1000])
        x.finish()
        x.close()
        self.a.api("GET", "/v1/sandboxes/none")
        r = self.a.api("GET", "/metrics")
        self.assertEqual(r.headers["Content-Type"], "text/plain; version=0.0.4")
        m = {}
        for line in r.body.decode().splitlines():
            if not line.startswith("#"):
                name, value = line.rsplit(" ", 1)
                m[name] = float(value)
        self.assertEqual(m["carrel_creates_total"], 1)
        self.assertEqual(m["carrel_create_seconds_count"], 1)
        self.assertEqual(m['carrel_create_seconds_bucket{le="+Inf"}'], 1)
        self.assertEqual(m['carrel_http_requests_total{class="4xx"}'], 1)
        self.assertGreater(m["carrel_relayed_output_bytes_total"], 1000)
        self.assertEqual(m["carrel_warden_up"], 1)


class NotStarted(unittest.TestCase):
    def start(self, **conf):
        argv = [os.path.join(harness.BUILD, "bin/carrel-api")]
        path = f"/tmp/apiconf{os.getpid()}"
        with open(path, "w") as f:
            f.writelines(f"{k} = {v}\n" for k, v in conf.items())
        try:
            import subprocess
            return subprocess.run(argv + ["--config", path], timeout=20,
                                  capture_output=True, text=True)
        finally:
            os.unlink(path)

    def test_one_line_and_the_remedy(self):
        for conf, words in (({"user": "nobody-such"}, "make install"),
                            ({"user": "root"}, "without privileges"),
                            ({"group": "nobody-such"}, "make install"),
                            ({"wrong": "x"}, "unknown key 'wrong'")):
            p = self.start(state_dir="/tmp/never", run_dir="/tmp/never", **conf)
            # 78: the supervisor need not try again.
            self.assertEqual(p.returncode, 78 if conf == {"user": "root"} else 1)
            self.assertEqual(p.stderr.count("\n"), 1, p.stderr)
            self.assertIn(words, p.stderr)
            self.assertFalse(os.path.exists("/tmp/never"))

    @harness.plain_only
    def test_no_warden(self):
        a = Api(warden=False)
        try:
            r = a.api("GET", "/v1/sandboxes")
            self.assertEqual((r.status, r.json["error"]),
                             (503, "warden_unavailable"))
            # It comes late, but it comes.
            a.warden = fake_warden.FakeWarden(a.run_dir)
            wait_for("served", lambda: a.api("GET", "/v1/sandboxes").status == 200, 3)
        finally:
            a.stop()


if __name__ == "__main__":
    harness.main()
