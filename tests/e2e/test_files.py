# suite: both
# suite: slow
# suite: sanitized
"""Files of a sandbox over HTTP: up and down, whole and in parts, names that
hurt, links that lead out, disks that are full, clients that leave."""

import base64
import contextlib
import hashlib
import http.client
import io
import json
import os
import socket
import struct
import subprocess
import tarfile
import tempfile
import threading
import time
import unittest
from urllib.parse import quote, urlencode

import harness
import test_log
from fake_warden import Api
from harness import (EXIT, OUTPUT, SANITIZED, SLOW, STARTED, UnixHTTP,
                     wait_for)
from test_openapi import Validator

MIB = 1 << 20


def b64(raw):
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


class Files:
    """The routes of one sandbox."""

    def __init__(self, i, box):
        self.i, self.base = i, f"/v1/sandboxes/{box}/files/"

    def url(self, what, path=None, **query):
        if isinstance(path, bytes):
            query["path_base64"] = b64(path)
        elif path is not None:
            query["path"] = path
        return self.base + what + "?" + urlencode(query)

    def call(self, method, what, path=None, body=None, headers=None, **query):
        return self.i.api(method, self.url(what, path, **query), body, headers,
                          timeout=60 * SLOW)

    def get(self, path, range=None, **query):
        return self.call("GET", "content", path, None,
                         {"Range": range} if range else None, **query)

    def put(self, path, data, **query):
        return self.call("PUT", "content", path, data, **query)

    def stat(self, path, **query):
        return self.call("GET", "stat", path, **query)

    def list(self, path, **query):
        return self.call("GET", "list", path, **query)

    def do(self, what, **body):
        return self.i.api("POST", self.base + what, body)


class Case(harness.Case):
    CONF = {"pool_size": "3G"}

    def setUp(self):
        self.box = self.i.create(disk="1G", pids=64)
        self.f = Files(self.i, self.box)

    def sh(self, script):
        p = self.i.sh(self.box, script)
        self.assertEqual(p.returncode, 0, p.err)
        return p.out

    def ok(self, answer, status=200):
        self.assertEqual(answer.status, status, answer)
        return answer

    def refused(self, answer, status, word, text=""):
        self.assertEqual((answer.status, answer.json["error"]), (status, word),
                         answer)
        self.assertIn(text, answer.json["message"])

    def builtins(self):
        """Processes of file work inside, as the host sees them."""
        found = []
        for pid in self.i.box_pids():
            exe = ""
            with contextlib.suppress(OSError):
                exe = os.readlink(f"/proc/{pid}/exe")
            parent = [x.split()[1] for x in
                      harness.read(f"/proc/{pid}/status", "").splitlines()
                      if x.startswith("NSpid:")]
            uid = [x.split()[1] for x in
                   harness.read(f"/proc/{pid}/status", "").splitlines()
                   if x.startswith("Uid:")]
            agent = int(self.i.conf["uid_base"])
            if "memfd:agent" in exe and parent and uid and \
                    (int(uid[0]) - agent) % 0x10100 == 1000:
                found.append(pid)
        return found


class Plain(Case):
    def test_up_and_down(self):
        w = self.ok(self.f.put("a", b"abc")).json
        self.assertEqual(w, {"size": 3,
                             "sha256": hashlib.sha256(b"abc").hexdigest()})
        r = self.ok(self.f.get("a"))
        self.assertEqual(r.body, b"abc")
        self.assertEqual(r.headers["Content-Length"], "3")
        self.assertEqual(r.headers["Content-Type"], "application/octet-stream")
        self.assertEqual(self.sh("ls -l a | cut -c1-10; cat a"),
                         "-rw-r--r--\nabc")
        self.assertEqual(self.ok(self.f.put("e", b"")).json["size"], 0)
        self.assertEqual(self.ok(self.f.get("e")).body, b"")

    def test_large_round_trip(self):
        data = os.urandom(64 * MIB)
        w = self.ok(self.f.put("/tmp/large", data)).json
        self.assertEqual(w["sha256"], hashlib.sha256(data).hexdigest())
        self.assertEqual(self.sh("sha256sum /tmp/large").split()[0], w["sha256"])
        self.assertTrue(self.ok(self.f.get("/tmp/large")).body == data)
        # A part in the middle, and chunked without a length.
        part = self.ok(self.f.get("/tmp/large", "bytes=1000000-40000000"), 206)
        self.assertTrue(part.body == data[1000000:40000001])
        pieces = (data[n:n + 100000] for n in range(0, len(data), 100000))
        self.assertEqual(self.ok(self.f.put("/tmp/large", pieces)).json, w)

    def test_ranges(self):
        self.ok(self.f.put("r", b"0123456789"))
        for spec, want, shown in (
                ("bytes=0-0", b"0", "bytes 0-0/10"),
                ("bytes=2-4", b"234", "bytes 2-4/10"),
                ("bytes=7-", b"789", "bytes 7-9/10"),
                ("bytes=7-99", b"789", "bytes 7-9/10"),
                ("bytes=-3", b"789", "bytes 7-9/10"),
                ("bytes=-99", b"0123456789", "bytes 0-9/10")):
            r = self.ok(self.f.get("r", spec), 206)
            self.assertEqual((r.body, r.headers["Content-Range"]), (want, shown))
        for spec in ("bytes=10-", "bytes=99-100", "bytes=-0"):
            r = self.f.get("r", spec)
            self.refused(r, 416, "no_range")
            self.assertEqual(r.headers["Content-Range"], "bytes */10")
        # What makes no sense is not a range; several are too many.
        for spec in ("bytes=", "bytes=-", "bytes=5-2", "lines=1-2", "bytes=a-b",
                     "bytes=0-1,3-4", "bytes=0x1-2", "bytes= 1-2", "bytes=1--2",
                     "bytes=-9999999999999999999", "bytes=+1-2"):
            self.assertEqual(self.ok(self.f.get("r", spec)).body, b"0123456789")
        r = self.f.call("GET", "content", "r", None,
                        {"Range": "bytes=1-2", "If-Range": '"x"'})
        self.ok(r)

    def test_modes_and_parents(self):
        self.refused(self.f.put("x/y/z", b""), 404, "not_found", "x/y/z")
        self.ok(self.f.put("x/y/z", b"#!", mode="0755", parents="true"))
        self.assertEqual(self.ok(self.f.stat("x/y/z")).json["mode"], "0755")
        self.ok(self.f.put("x/y/z", b"new"))
        self.assertEqual(self.ok(self.f.stat("x/y/z")).json["mode"], "0755")
        for mode in ("9", "rwx", "", "777777", "-1", "0x1"):
            self.refused(self.f.put("m", b"", mode=mode), 400, "bad_request")
        self.refused(self.f.put("m", b"", mode="17777"), 400, "bad_request")
        self.refused(self.f.put("m", b"", parents="maybe"), 400, "bad_request")

    def test_special_files(self):
        """Nothing waits for what does not come."""
        self.sh("mkfifo fifo; mkdir dir; ln -s fifo to-fifo")
        self.refused(self.f.get("fifo"), 400, "bad_request", "regular")
        self.refused(self.f.get("to-fifo"), 400, "bad_request", "regular")
        self.refused(self.f.put("fifo", b"x"), 400, "bad_request", "regular")
        self.refused(self.f.get("/dev/zero"), 400, "bad_request", "regular")
        self.refused(self.f.get("/dev/tty"), 400, "bad_request", "regular")
        self.refused(self.f.put("/dev/tty", b"x"), 400, "bad_request", "regular")
        self.refused(self.f.get("dir"), 400, "is_a_directory")
        self.refused(self.f.put("dir", b""), 400, "is_a_directory")
        self.refused(self.f.get("fifo/x"), 400, "not_a_directory")
        self.assertIn(b"Name:", self.ok(self.f.get("/proc/self/status")).body)
        self.assertEqual(self.ok(self.f.stat("fifo")).json["type"], "fifo")

    def test_links(self):
        self.sh("echo text > real; ln -s real link; ln -s nowhere dangling")
        link = self.ok(self.f.stat("link")).json
        self.assertEqual((link["type"], link["target"], link["target_type"]),
                         ("symlink", "real", "file"))
        self.assertEqual(self.ok(self.f.stat("link", follow="true")).json["type"],
                         "file")
        self.ok(self.f.put("link", b"through"))
        self.assertEqual(self.sh("cat real; readlink link"), "throughreal\n")
        self.refused(self.f.put("dangling", b""), 404, "not_found")
        self.assertIsNone(self.ok(self.f.stat("dangling")).json["target_type"])

    def test_stat(self):
        e = self.ok(self.f.stat("/etc/passwd")).json
        self.assertEqual(
            (e["path"], e["name"], e["type"], e["uid"], e["user"], e["group"],
             e["mode"], e["target"]),
            ("/etc/passwd", "passwd", "file", 0, "root", "root", "0644", None))
        self.assertEqual(self.ok(self.f.stat(".")).json["path"], "/home/user")
        self.assertEqual(self.ok(self.f.stat("/")).json["name"], "/")
        self.sh("touch -d @0 epoch; touch -d '2021-02-03 04:05:06' dated")
        self.assertIsNone(self.ok(self.f.stat("epoch")).json["modified_at"])
        self.assertEqual(self.ok(self.f.stat("dated")).json["modified_at"],
                         "2021-02-03T04:05:06.000Z")

    def test_attributes_and_details(self):
        r = self.ok(self.f.call(
            "PUT", "content", "a", b"x",
            {"X-Attribute": "user.note=\u00e4=1".encode()}, detail="true"))
        self.assertEqual(r.json["entry"]["path"], "/home/user/a")
        self.assertEqual(r.json["entry"]["attributes"],
                         {"user.note": "\u00e4=1"})
        self.sh("mkdir d; ln -s ../a d/l; ln -s l d/m; ln -s none d/n")
        e = self.ok(self.f.list("d", detail="true")).json["entries"]
        self.assertEqual([x.get("real_path") for x in e],
                         ["/home/user/a", "/home/user/a", None])
        self.assertEqual(e[0]["real_mode"], "0644")
        self.assertEqual(e[0]["attributes"], {"user.note": "\u00e4=1"})
        self.assertNotIn("attributes", self.ok(self.f.stat("a")).json)
        self.refused(self.f.call("PUT", "content", "a", b"x",
                                 {"X-Attribute": "trusted.x=1"}),
                     400, "bad_request", "X-Attribute")

    def test_for_another(self):
        """Root works for a user, whose all of it is."""
        e = self.ok(self.f.do("mkdir", path="/top/sub", parents=True,
                              user="root", owner=""), 201).json
        self.assertEqual((e["user"], e["path"]), ("user", "/top/sub"))
        self.ok(self.f.put("own", b"x", user="root", owner="user"))
        self.assertEqual(self.sh("stat -c %U /top own"), "user\nuser\n")
        self.refused(self.f.stat("x", user="root", owner="nope"), 400,
                     "no_user", "nope")
        self.refused(self.f.stat("x", owner="root"), 403, "forbidden")

    def test_requests_that_make_no_sense(self):
        self.refused(self.f.call("GET", "stat"), 400, "bad_request", "missing")
        self.refused(self.f.stat(""), 400, "bad_request", "empty")
        self.refused(self.f.stat("a\nb"), 400, "bad_request", "path_base64")
        self.refused(self.f.stat("x", path_base64=b64(b"x")), 400,
                     "bad_request", "one of them")
        self.refused(self.f.call("GET", "stat", path_base64="!!"), 400,
                     "bad_request", "base64")
        self.refused(self.f.stat(b"a\0b"), 400, "bad_request", "NUL")
        self.refused(self.f.stat("x", user="u" * 65), 400, "bad_request")
        self.refused(self.f.stat("x", user="nobody-here"), 400, "bad_request")
        self.refused(self.f.do("mkdir"), 400, "bad_request", "path")
        self.refused(self.f.do("mkdir", path=1), 400, "bad_request")
        self.refused(self.f.do("mkdir", path="x", to="y"), 400, "bad_request",
                     "'to'")
        self.refused(self.f.do("move", path="x"), 400, "bad_request", "to")
        self.refused(self.f.do("remove", path="x", recursive="yes"), 400,
                     "bad_request")
        self.refused(self.f.do("chmod", path="x"), 400, "bad_request", "mode")
        self.refused(self.i.api("POST", self.f.base + "mkdir", b"[]"), 400,
                     "bad_request")
        self.refused(Files(self.i, "nobody").stat("x"), 404, "not_found")
        long = "x" * 300
        self.refused(self.f.put(long, b""), 400, "too_large")

    def test_real_answers_are_described(self):
        doc = self.i.api("GET", "/openapi.json").json
        v = Validator(doc)

        def see(name, answer):
            v.check({"$ref": f"#/components/schemas/{name}"}, answer.json)
        self.sh("ln -s x link; mkdir d; touch \"$(printf 'd/\\377')\"")
        see("FileEntry", self.f.stat("/etc"))
        see("FileEntry", self.f.stat("link"))
        see("FileList", self.f.list(".", depth=3))
        see("FileList", self.f.list("/etc", limit=1))
        see("FileWritten", self.f.put("x", b""))
        see("FileEntry", self.f.do("copy", path="d", to="e", recursive=True))
        see("Error", self.f.get("/etc", "bytes=1-"))
        self.f.put("x", b"1")
        see("Error", self.f.get("x", "bytes=1-"))


class Changes(Case):
    def test_mkdir(self):
        e = self.ok(self.f.do("mkdir", path="d", mode="0700"), 201).json
        self.assertEqual((e["path"], e["mode"]), ("/home/user/d", "0700"))
        self.refused(self.f.do("mkdir", path="d"), 409, "conflict")
        self.refused(self.f.do("mkdir", path="a/b"), 404, "not_found")
        self.ok(self.f.do("mkdir", path="a/b", parents=True), 201)
        self.ok(self.f.do("mkdir", path="a/b", parents=True), 201)

    def test_move(self):
        self.ok(self.f.put("a", b"a"))
        self.ok(self.f.put("b", b"b"))
        self.refused(self.f.do("move", path="a", to="b"), 409, "conflict")
        self.ok(self.f.do("move", path="a", to="b", overwrite=True))
        self.assertEqual(self.ok(self.f.get("b")).body, b"a")
        e = self.ok(self.f.do("move", path="b", to="x/y", parents=True)).json
        self.assertEqual(e["path"], "/home/user/x/y")
        # To another file system and back.
        self.ok(self.f.do("move", path="x", to="/dev/shm/x"))
        self.assertEqual(self.sh("ls; cat /dev/shm/x/y"), "a")
        self.ok(self.f.do("move", path="/dev/shm/x", to="z"))
        self.assertEqual(self.ok(self.f.get("z/y")).body, b"a")

    def test_copy(self):
        self.sh("mkdir -p d/e; echo 1 > d/f; chmod 750 d/f; ln -s f d/l; "
                "mkfifo d/p; ln d/f d/e/h")
        self.refused(self.f.do("copy", path="d", to="c"), 400, "is_a_directory")
        self.ok(self.f.do("copy", path="d", to="c", recursive=True))
        self.assertEqual(self.sh("cd c; find . | sort; stat -c %a f; cat l"),
                         ".\n./e\n./e/h\n./f\n./l\n./p\n750\n1\n")
        self.refused(self.f.do("copy", path="d", to="d/e/x", recursive=True),
                     400, "bad_request", "itself")
        self.ok(self.f.do("copy", path="d/f", to="g"))
        self.refused(self.f.do("copy", path="d/f", to="g"), 409, "conflict")

    def test_remove(self):
        self.sh("mkdir -p d/e keep; touch d/e/f keep/me; ln -s ../keep d/l")
        self.refused(self.f.do("remove", path="d"), 409, "not_empty")
        self.ok(self.f.do("remove", path="d", recursive=True), 204)
        self.assertEqual(self.sh("ls; ls keep"), "keep\nme\n")
        self.refused(self.f.do("remove", path="d"), 404, "not_found")
        self.refused(self.f.do("remove", path="/", recursive=True), 400,
                     "bad_request")
        self.refused(self.f.do("remove", path="/etc", recursive=True), 403,
                     "forbidden")

    def test_chmod(self):
        self.sh("mkdir -p d/e; touch d/e/f")
        e = self.ok(self.f.do("chmod", path="d", mode="0750",
                              recursive=True)).json
        self.assertEqual(e["mode"], "0750")
        self.assertEqual(self.sh("stat -c %a d/e/f"), "750\n")
        self.refused(self.f.do("chmod", path="/etc", mode="777"), 403,
                     "forbidden")

    def test_who(self):
        """As the user, or as root if the sandbox has a sudo."""
        self.refused(self.f.put("/etc/x", b""), 403, "forbidden", "/etc/x")
        self.ok(self.f.put("/etc/x", b"root's", user="root"))
        self.assertEqual(self.sh("stat -c %U /etc/x"), "root\n")
        self.ok(self.f.do("mkdir", path="mine"), 201)
        self.assertEqual(self.sh("stat -c %u mine"), "1000\n")
        # One in a place that is ours, which is not ours to write.
        self.ok(self.f.put("/home/user/theirs", b"1", user="root"))
        self.refused(self.f.put("theirs", b"2"), 403, "forbidden")
        self.ok(self.f.put("theirs", b"3", user="0"))
        self.ok(self.f.put("mine/f", b"1"))
        self.ok(self.f.put("/home/user/mine/f", b"2", user="root"))
        self.assertEqual(self.sh("stat -c %u mine/f"), "1000\n")
        no_root = Files(self.i, self.i.create(sudo=False))
        self.refused(no_root.put("/etc/x", b"x" * (20 * MIB), user="root"),
                     403, "forbidden", "sudo")
        self.refused(no_root.get("/etc/shadow", user="root"), 403, "forbidden")

    def test_log(self):
        """What was changed is written down, with what and by whom."""
        w = self.ok(self.f.put("up", b"data", mode="600")).json
        self.ok(self.f.do("move", path="up", to="there"))
        self.ok(self.f.do("remove", path="there"), 204)
        self.ok(self.f.do("mkdir", path_base64=b64(b"\xff")), 201)
        self.f.get("/etc/passwd")
        self.refused(self.f.put("/etc/x", b""), 403, "forbidden")
        got = [(e["type"], e["data"]) for e in test_log.settled(self.i)
               if e["sandbox"] == self.box and e["type"].startswith("file.")]
        self.assertEqual(got, [
            ("file.write", {"path": "up", **w}),
            ("file.move", {"path": "up", "to": "there"}),
            ("file.remove", {"path": "there"}),
            ("file.mkdir", {"path": "\ufffd", "path_base64": "/w=="})])


class Names(Case):
    HOSTILE = [b"new\nline", b"\xff\xfe", b"quote\"'\\", b"\x01\x1b[31m",
               "ü€𝄞".encode(), b"cut\xe2\x82", b"sp ace", b"%2e%2e", b"-rf",
               b"a" * 255, b"\xc3" * 255]

    def test_hostile_names(self):
        for name in self.HOSTILE:
            self.ok(self.f.put(name, name))
        got = {}
        r = self.ok(self.f.list("."))
        r.body.decode()  # UTF-8, whatever the names are
        for e in r.json["entries"]:
            raw = base64.b64decode(e["name_base64"]) if "name_base64" in e \
                else e["name"].encode()
            full = base64.b64decode(e["path_base64"]) if "path_base64" in e \
                else e["path"].encode()
            self.assertEqual(full, b"/home/user/" + raw)
            got[raw] = e
        self.assertEqual(set(got), set(self.HOSTILE))
        for name in self.HOSTILE:
            self.assertEqual(self.ok(self.f.get(name)).body, name)
            self.ok(self.f.do("copy", path_base64=b64(name), to="copy"))
            self.ok(self.f.do("remove", path="copy"), 204)
            missing = self.f.get(name + b"/x")
            self.assertIn(missing.status, (400, 404))
            missing.json  # valid, too
            self.ok(self.f.do("remove", path_base64=b64(name)), 204)
        self.assertEqual(self.ok(self.f.list(".")).json["entries"], [])

    def test_json_paths(self):
        """In a body any character may be said but NUL."""
        self.ok(self.f.do("mkdir", path="new\nline\x7f"), 201)
        r = self.i.api("POST", self.f.base + "mkdir", b'{"path":"a\\u0000b"}')
        self.refused(r, 400, "bad_request")

    @harness.plain_only
    def test_large_directory(self):
        """However many entries: one answer is bounded, and all can be had."""
        n = 20000 if harness.TIER == "microvm" else 100000
        self.sh(f"mkdir many; cd many; seq -w {n} | sed 's/$/-\"&\"/' | "
                "xargs touch")
        before = time.monotonic()
        seen, after, pages = [], None, 0
        while True:
            query = {"after": after} if after else {}
            r = self.ok(self.f.list("many", **query))
            page = [e["name"] for e in r.json["entries"]]
            self.assertLessEqual(len(page), 10000)
            self.assertLess(len(r.body), 8 * MIB)
            seen += page
            pages += 1
            after = r.json["next"]
            if not after:
                break
        self.assertEqual(pages, n // 10000)
        self.assertEqual(len(seen), n)
        self.assertEqual(seen, sorted(set(seen)))
        self.assertLess(time.monotonic() - before, 60 * SLOW)
        self.ok(self.f.do("remove", path="many", recursive=True), 204)

    def test_depth(self):
        self.sh("mkdir -p a/b/c d; touch a/x a/b/y; ln -s / root; "
                "chmod 000 a/b/c")
        r = self.ok(self.f.list(".", depth=3)).json
        self.assertEqual([e["path"].removeprefix("/home/user/")
                          for e in r["entries"]],
                         ["a", "a/b", "a/b/c", "a/b/y", "a/x", "d", "root"])
        r = self.ok(self.f.list(".", depth=4, limit=3)).json
        self.assertTrue(r["entries"][2]["unreadable"])
        self.assertEqual(r["next"], "/home/user/a/b/c")
        r = self.ok(self.f.list(".", depth=4, after=r["next"])).json
        self.assertEqual(r["entries"][0]["name"], "y")
        self.refused(self.f.list(".", depth=65), 400, "bad_request")
        self.refused(self.f.list(".", limit=10001), 400, "bad_request")
        self.refused(self.f.list(".", after="/etc"), 400, "bad_request")
        self.refused(self.f.list("a/x"), 400, "not_a_directory")
        self.ok(self.f.list("/", depth=64, limit=10000))


class Tars(Case):
    TREE = ("mkdir -p t/d/e t/ro; echo one > t/f; ln t/f t/d/hard; "
            "ln -s ../f t/d/link; mkfifo t/p; chmod 4750 t/f; "
            "echo $(seq 5000) > t/d/e/$(printf 'n%.0s' $(seq 200)); "
            "touch -d '2001-02-03 04:05:06' t/d; echo x > t/ro/x; chmod 555 t/ro")

    def test_down(self):
        self.sh(self.TREE)
        r = self.ok(self.f.call("GET", "tar", "t"))
        self.assertEqual(r.headers["Content-Type"], "application/x-tar")
        with tarfile.open(fileobj=io.BytesIO(r.body)) as t:
            m = {x.name: x for x in t.getmembers()}
        self.assertEqual(len(m), 10)
        links = [x for x in (m["f"], m["d/hard"]) if x.islnk()]
        self.assertEqual(len(links), 1)
        self.assertEqual(m["d/link"].linkname, "../f")
        self.assertTrue(m["p"].isfifo())
        self.assertEqual((m["ro"].mode, m["f"].uname), (0o555, "user"))
        self.assertEqual(m["d/e/" + "n" * 200].size, 23893)
        with tempfile.TemporaryDirectory() as d:
            subprocess.run(["tar", "-xC", d], input=r.body, check=True)
            self.assertEqual(sorted(os.listdir(d)), ["d", "f", "p", "ro"])

    def test_round(self):
        self.sh(self.TREE)
        r = self.ok(self.f.call("GET", "tar", "t"))
        u = self.ok(self.f.call("PUT", "tar", "u/v", r.body, parents="true"))
        self.assertEqual(u.json["entries"], 9)
        look = "find . | sort | xargs stat -c '%n %F %s %Y %h' | grep -v '^\\. '"
        self.assertEqual(self.sh(f"cd t; {look}; cat d/link"),
                         self.sh(f"cd u/v; {look}; cat d/link"))
        self.assertEqual(self.sh("cd u/v; stat -c %a f ro"), "750\n555\n")

    def test_from_others(self):
        """Archives of Python and of GNU tar, in every format they have."""
        with tempfile.TemporaryDirectory() as d:
            os.makedirs(f"{d}/a/b")
            with open(f"{d}/a/b/f", "w") as f:
                f.write("text")
            os.symlink("b/f", f"{d}/a/link")
            for fmt in (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT,
                        tarfile.PAX_FORMAT):
                b = io.BytesIO()
                with tarfile.open(fileobj=b, mode="w", format=fmt) as t:
                    t.add(f"{d}/a", "x")
                self.ok(self.f.call("PUT", "tar", ".", b.getvalue()))
                self.assertEqual(self.sh("cat x/link; rm -r x"), "text")
            for fmt in ("v7", "oldgnu", "gnu", "ustar", "posix"):
                raw = subprocess.run(["tar", f"--format={fmt}", "-cC", d, "a"],
                                     check=True, stdout=subprocess.PIPE).stdout
                self.ok(self.f.call("PUT", "tar", ".", raw))
                self.assertEqual(self.sh("cat a/link; rm -r a"), "text")

    def tar(self, *members):
        b = io.BytesIO()
        with tarfile.open(fileobj=b, mode="w") as t:
            for name, kind, more in members:
                m = tarfile.TarInfo(name)
                m.type = kind
                if kind == tarfile.REGTYPE:
                    m.size = len(more)
                    t.addfile(m, io.BytesIO(more))
                else:
                    m.linkname = more
                    t.addfile(m)
        return b.getvalue()

    def test_escapes(self):
        reg, sym, lnk = tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE
        self.sh("mkdir in out; echo safe > out/f")
        for members in (
                [("../out/f", reg, b"x")], [("/home/user/out/f", reg, b"x")],
                [("l", sym, "../out"), ("l/f", reg, b"x")],
                [("l", sym, "/home/user/out"), ("l/f", reg, b"x")],
                [("l", sym, "/home/user/out"), ("l/new/f", reg, b"x")],
                [("h", lnk, "../out/f")], [("h", lnk, "/etc/passwd")],
                [("l", sym, "../out"), ("h", lnk, "l/f")]):
            r = self.f.call("PUT", "tar", "in", self.tar(*members))
            self.assertIn((r.status, r.json["error"]),
                          ((422, "bad_archive"), (400, "crosses_devices")), r)
            self.assertEqual(self.sh("cat out/*; rm -rf in/*"), "safe\n")
        r = self.f.call("PUT", "tar", "in", self.tar(
            ("dev", tarfile.CHRTYPE, ""), ("ok", reg, b"x")))
        self.assertEqual(self.ok(r).json["entries"], 1)
        self.assertIn("dev", r.json["notes"][0])

    def test_not_a_tar(self):
        for raw, text in ((b"", "not a tar"), (b"x" * 2000, "checksum"),
                          (b"\x1f\x8b" + b"x" * 600, "gzip"),
                          (self.tar(("f", tarfile.REGTYPE, b"x" * 3000))[:2000],
                           "cut off")):
            self.refused(self.f.call("PUT", "tar", ".", raw), 422,
                         "bad_archive", text)
        self.refused(self.f.call("PUT", "tar", "none", b""), 404, "not_found")
        self.refused(self.f.call("GET", "tar", "none"), 404, "not_found")

    def test_unreadable(self):
        """An archive that lacks something is cut off, not complete."""
        self.sh("mkdir t; dd if=/dev/zero of=t/a bs=1M count=2 2>&1; "
                "touch t/b; chmod 0 t/b")
        self.ok(self.f.put("/home/user/t/z", b"", user="root", mode="000"))
        # In front of the rest, where a directory is read in that order.
        with contextlib.suppress(http.client.IncompleteRead):
            self.refused(self.f.call("GET", "tar", "t"), 403, "forbidden")
        self.ok(self.f.call("GET", "tar", "/home/user/t", user="root"))


class Full(Case):
    def test_full_disk(self):
        """The old file stays, the new one leaves nothing, and it is said."""
        small = Files(self.i, self.i.create(disk="32M", name="small"))
        self.ok(small.put("f", b"old"))
        for _ in range(3):
            r = small.put("f", os.urandom(64 * MIB))
            self.refused(r, 507, "no_space", "f")
            self.assertEqual(self.ok(small.get("f")).body, b"old")
        self.assertEqual(self.i.sh("small", "ls -A").out, "f\n")
        self.assertEqual(self.ok(small.put("g", b"fits")).json["size"], 4)
        tar = io.BytesIO()
        with tarfile.open(fileobj=tar, mode="w") as t:
            m = tarfile.TarInfo("big")
            m.size = 48 * MIB
            t.addfile(m, io.BytesIO(os.urandom(m.size)))
        self.refused(small.call("PUT", "tar", ".", tar.getvalue()), 507,
                     "no_space", "big")


class Leaving(Case):
    def start(self, head):
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(30 * SLOW)
        s.connect(self.i.sock)
        s.sendall(head.encode())
        return s

    @harness.container_only("it looks at the agent's processes")
    def test_upload_given_up(self):
        self.ok(self.f.put("f", b"old"))
        s = self.start(f"PUT {self.f.url('content', 'f')} HTTP/1.1\r\n"
                       f"Host: x\r\nContent-Length: {64 * MIB}\r\n\r\n")
        s.sendall(b"x" * (8 * MIB))
        wait_for("it is being written", self.builtins, 10 * SLOW)
        s.close()
        wait_for("the builtin is gone", lambda: not self.builtins(), 10 * SLOW)
        self.assertEqual(self.sh("ls -A; cat f"), "f\nold")

    @harness.container_only("it looks at the agent's processes")
    def test_download_given_up(self):
        self.sh("dd if=/dev/zero of=f bs=1M count=64 2>&1")
        s = self.start(f"GET {self.f.url('content', 'f')} HTTP/1.1\r\n"
                       "Host: x\r\n\r\n")
        s.recv(100000)
        self.assertTrue(self.builtins())
        s.close()
        wait_for("the builtin is gone", lambda: not self.builtins(), 10 * SLOW)

    def test_slow_reader_holds_no_memory(self):
        self.sh("dd if=/dev/zero of=f bs=1M count=256 2>&1")
        api = self.i.pids()["carrel-api"][0]

        def rss():
            return int(harness.read(f"/proc/{api}/statm").split()[1]) * 4096
        before = rss()
        socks = [self.start(f"GET {self.f.url('content', 'f')} HTTP/1.1\r\n"
                            "Host: x\r\n\r\n") for _ in range(8)]
        time.sleep(1)
        grown = rss() - before
        self.assertLess(grown, 8 * 2 * MIB * (4 if SANITIZED else 1))
        for s in socks:
            s.close()
        wait_for("all are gone", lambda: not self.builtins(), 10 * SLOW)

    @harness.container_only("it looks at the agent's processes")
    def test_api_dies(self):
        """What nobody waits for any more does not stay."""
        s = self.start(f"GET {self.f.url('watch', '.')} HTTP/1.1\r\n"
                       "Host: x\r\n\r\n")
        s.recv(10000)
        self.assertTrue(self.builtins())
        self.i.kill_role("carrel-api")
        s.close()
        self.i.wait_ready()
        wait_for("the builtin is gone", lambda: not self.builtins(), 60 * SLOW)

    def test_continue_and_refused_upload(self):
        s = self.start(f"PUT {self.f.url('content', 'f')} HTTP/1.1\r\nHost: x\r\n"
                       "Expect: 100-continue\r\nContent-Length: 3\r\n\r\n")
        self.assertTrue(s.recv(1000).startswith(b"HTTP/1.1 100"))
        s.sendall(b"abc")
        self.assertTrue(s.recv(1000).startswith(b"HTTP/1.1 200"))
        s.close()
        s = self.start(f"PUT {self.f.url('content', '/etc/f')} HTTP/1.1\r\n"
                       f"Host: x\r\nContent-Length: {1 << 40}\r\n\r\n")
        answer = b""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            for _ in range(2000):
                s.sendall(b"x" * 65536)
        with contextlib.suppress(ConnectionResetError):
            while got := s.recv(10000):
                answer += got
        self.assertTrue(answer.startswith(b"HTTP/1.1 403"), answer)


class Stream:
    """Lines of an answer as they come."""

    def __init__(self, i, url, accept=None):
        self.conn = UnixHTTP(i.sock, 30 * SLOW)
        self.conn.request("GET", url, headers={"Accept": accept} if accept else {})
        self.answer = self.conn.getresponse()

    def next(self):
        line = self.answer.readline()
        return json.loads(line) if line else None

    def until(self, **want):
        """The next event that has these values; others pass by."""
        end = time.monotonic() + 30 * SLOW
        while True:
            e = self.next()
            assert e is not None and time.monotonic() < end, want
            if all(e.get(k) == v for k, v in want.items()):
                return e

    def close(self):
        self.conn.close()


class Watching(Case):
    def test_events(self):
        self.sh("mkdir -p w/sub")
        s = Stream(self.i, self.f.url("watch", "w", recursive="true"))
        self.assertEqual(s.answer.status, 200)
        self.assertEqual(s.answer.headers["Content-Type"], "application/x-ndjson")
        self.assertEqual(s.next(), {"type": "ready", "path": "/home/user/w",
                                    "entry": "directory"})
        self.ok(self.f.put("w/sub/f", b"text"))
        e = s.next()  # whatever name it had before
        self.assertEqual((e["type"], e["path"]), ("create", "/home/user/w/sub/f"))
        self.sh("echo more >> w/sub/f; chmod 600 w/sub/f; mv w/sub/f w/g; rm w/g")
        s.until(type="write", path="/home/user/w/sub/f")
        s.until(type="chmod", path="/home/user/w/sub/f")
        s.until(type="rename", path="/home/user/w/sub/f", to="/home/user/w/g")
        s.until(type="remove", path="/home/user/w/g")
        self.sh("mkdir w/new; sleep 0.2; touch \"$(printf 'w/new/\\377\\nx')\"")
        e = s.until(type="create", path="/home/user/w/new/\ufffd\nx")
        self.assertEqual(base64.b64decode(e["path_base64"]),
                         b"/home/user/w/new/\xff\nx")
        self.sh("rm -r w")
        s.until(type="remove", path="/home/user/w")
        self.assertIsNone(s.next())
        wait_for("it has ended", lambda: not self.builtins(), 10 * SLOW)

    def test_server_sent(self):
        s = Stream(self.i, self.f.url("watch", "."), "text/event-stream")
        self.assertEqual(s.answer.headers["Content-Type"], "text/event-stream")
        self.assertTrue(s.answer.readline().startswith(b'data: {"type":"ready"'))
        s.close()
        wait_for("it has ended", lambda: not self.builtins(), 10 * SLOW)

    def test_too_many(self):
        """Directories beyond what is watched, and events beyond the queue."""
        self.sh("mkdir w; cd w; for i in $(seq 90); do mkdir $i; "
                "(cd $i; seq 100 | xargs mkdir); done")
        s = Stream(self.i, self.f.url("watch", "w", recursive="true"))
        first = s.next()
        self.assertEqual(first["type"], "unwatched")
        s.until(type="ready")
        s.close()

    @harness.container_only("emulation fills no queue in time")
    def test_overflow(self):
        self.sh("mkdir w")
        s = Stream(self.i, self.f.url("watch", "w"))
        s.until(type="ready")
        # Nobody reads: the client's socket fills, then ours, then the queue.
        self.sh("set -e; cd w; for k in $(seq 24); do seq 4000 | xargs touch; "
                "seq 4000 | xargs rm; done")
        s.until(type="overflow")
        s.close()

    def test_refused(self):
        self.refused(self.f.call("GET", "watch", "none"), 404, "not_found")


class HostileAgent(unittest.TestCase):
    """The sandbox has taken its agent over."""

    def record(self, kind, body):
        return struct.pack("<IB", len(body) + 1, kind) + body

    def word(self, raw):
        return struct.pack("<I", len(raw)) + raw + b"\0"

    def entry(self, path=b"/x", user=b""):
        return self.record(1, struct.pack("<BBBIIIQQ", 1, 0, 0, 0o644, 0, 0, 1,
                                          2**63 + 5) +
                           self.word(path) + self.word(b"") + self.word(user) +
                           self.word(b"\xff\"\n"))

    def answers(self, what, script, method="GET", body=None, more=""):
        """The answer to a request whose builtin writes what `script` does:
        pieces of stdout, and at the end the exit code."""
        def behave(peer):
            peer.hello()
            while True:
                channel, argv, env = peer.spawned()
                peer.send(STARTED, channel, struct.pack("<II", 2, 1))
                offset = 0
                for piece in script:
                    if isinstance(piece, int):
                        peer.exit(channel, piece)
                        break
                    for n in range(0, len(piece), 32768):
                        peer.output(channel, piece[n:n + 32768], 1, offset)
                        offset += len(piece[n:n + 32768])
                while True:
                    peer.recv()
        a = Api(behave)
        try:
            box = a.create()
            url = f"/v1/sandboxes/{box}/files/{what}?path=x{more}"
            try:
                return a.api(method, url, body, timeout=20 * SLOW)
            except (http.client.IncompleteRead, http.client.RemoteDisconnected):
                return "cut"
            finally:
                self.assertEqual(a.api("GET", "/v1/host").status, 200)
        finally:
            a.stop()

    def broken(self, answer):
        self.assertEqual((answer.status, answer.json["error"]),
                         (502, "agent_failed"), answer)

    def test_nonsense(self):
        good = self.entry()
        for script in ([b"\xff" * 100], [b"\0\0\0\0"], [0],
                       [self.record(9, b"")], [good, good, 0],
                       [self.record(2, b"\1"), 0],
                       [self.entry(path=b"/" + b"x" * 4095), 0]):
            self.broken(self.answers("stat", script))
        r = self.answers("stat", [good[:10], good[10:], 0])
        self.assertEqual(r.status, 200)
        self.assertEqual((r.json["modified_at"], r.json["group"]),
                         (None, "\ufffd\"\n"))
        r = self.answers("stat", [1])
        self.assertEqual((r.status, r.json["error"]), (500, "internal"), r)
        self.broken(self.answers("tar", [0]))
        self.broken(self.answers("watch", [self.entry()]))
        self.broken(self.answers("content", [self.entry()], "PUT", b"x"))

    def test_details(self):
        detail = self.record(8, struct.pack("<I", 0) + self.word(b"/r") +
                             struct.pack("<I", 2) + self.word(b"user.a") +
                             self.word(b"1") + self.word(b"user.\xff") +
                             self.word(b"2"))
        good, asked = self.entry(), {"more": "&detail=true"}
        self.broken(self.answers("stat", [detail, good, 0]))
        r = self.answers("stat", [detail, good, 0], **asked)
        self.assertEqual(r.json["attributes"], {"user.a": "1"})
        for script in ([detail, detail, good, 0], [detail, 0],
                       [good, detail, 0], [detail[:-9], 0],
                       [self.record(8, struct.pack("<I", 0) + self.word(b"") +
                                    struct.pack("<I", 65)), good, 0]):
            self.broken(self.answers("stat", script, **asked))
        self.broken(self.answers("content", [good, good], "PUT", b"x", **asked))

    def test_content(self):
        def head(size, first, length):
            return self.record(3, struct.pack("<QQQ", size, first, length))
        self.broken(self.answers("content", [head(5, 0, 6)]))
        self.broken(self.answers("content", [head(5, 6, 0)]))
        r = self.answers("content", [head(5, 0, 5) + b"ab", b"cde", 0])
        self.assertEqual(r.body, b"abcde")
        self.assertEqual(self.answers("content", [head(5, 0, 5), b"abc", 0]),
                         "cut")
        self.assertEqual(self.answers("content", [head(5, 0, 5), b"abcdef"]),
                         "cut")
        self.assertEqual(self.answers("content", [head(5, 0, 5) + b"abcdef"]),
                         "cut")
        self.assertEqual(self.answers("content", [head(5, 0, 5), b"ab", 1]),
                         "cut")

    def test_list(self):
        end = self.record(2, b"\0")
        r = self.answers("list", [self.entry() * 3 + end, 0])
        self.assertEqual(len(r.json["entries"]), 3)
        self.assertEqual(self.answers("list", [self.entry() * 3, 0]), "cut")
        self.assertEqual(self.answers("list", [self.entry() + end * 2, 0]),
                         "cut")
        self.assertEqual(
            self.answers("list", [self.entry(), self.record(4, b"")]), "cut")

    def test_notes(self):
        note = self.record(6, self.word(b"n" * 400))
        done = self.record(7, struct.pack("<QQ", 1, 1))
        r = self.answers("tar", [note * 100 + done, 0], "PUT", b"")
        self.assertEqual(len(r.json["notes"]), 100)
        self.broken(self.answers("tar", [note * 101 + done, 0], "PUT", b""))


if __name__ == "__main__":
    harness.main()
