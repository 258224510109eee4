# suite: sanitized
"""The drive: files of a project that outlive its sandboxes, with versions."""

import contextlib
import hashlib
import http.client
import json
import os
import struct
import threading
import time
import unittest
import urllib.parse

import harness
from fake_warden import Api
from harness import SLOW, wait_for
from test_log import settled


def sha(data):
    return hashlib.sha256(data).hexdigest()


class DriveCase(harness.Case):
    def put(self, path, data, headers=None, query="", status=200):
        r = self.i.api("PUT", "/v1/drive/files/" + urllib.parse.quote(path)
                       + query, data, headers)
        self.assertEqual(r.status, status, r)
        return r.json

    def get(self, path, query="", headers=None, status=200):
        r = self.i.api("GET", "/v1/drive/files/" + urllib.parse.quote(path)
                       + query, headers=headers)
        self.assertEqual(r.status, status, r)
        return r.body if status < 400 else r.json

    def rm(self, path, query="", headers=None, status=204):
        r = self.i.api("DELETE", "/v1/drive/files/" + urllib.parse.quote(path)
                       + query, headers=headers)
        self.assertEqual(r.status, status, r)

    def list(self, query="", headers=None):
        r = self.i.api("GET", "/v1/drive" + query, headers=headers)
        self.assertEqual(r.status, 200, r)
        return r.json

    def names(self, query=""):
        return [e["path"] for e in self.list(query)["entries"]]

    def versions(self, path):
        r = self.i.api("GET", f"/v1/drive/versions/{path}")
        self.assertEqual(r.status, 200, r)
        return r.json["versions"]

    def key(self, project, scope="use"):
        r = self.i.api("POST", "/v1/keys", {"project": project, "scope": scope})
        self.assertEqual(r.status, 201, r)
        return {"Authorization": f"Bearer {r.json['key']}"}

    def contents(self):
        return sorted(os.listdir(f"{self.i.state_dir}/drive"))

    def purge_all(self):
        for p in ("default", "red", "blue"):
            for e in self.list(f"?recursive=true&removed=true&project={p}")["entries"]:
                self.rm(e["path"], f"?purge=true&project={p}")

    def tearDown(self):
        super().tearDown()
        if self.i.daemon.poll() is None:
            self.purge_all()


class Drive(DriveCase):
    CONF = {"drive_size": "4M", "drive_versions": 3}

    def test_put_get_versions(self):
        one = self.put("reports/räk.txt", b"one")
        self.assertEqual((one["version"], one["size"], one["sha256"]),
                         (1, 3, sha(b"one")))
        two = self.put("reports/räk.txt", b"two!")
        self.assertEqual(two["version"], 2)
        self.assertEqual(self.get("reports/räk.txt"), b"two!")
        self.assertEqual(self.get("reports/räk.txt", "?version=1"), b"one")
        self.get("reports/räk.txt", "?version=7", status=404)
        self.rm("reports/räk.txt")
        self.get("reports/räk.txt", status=404)
        self.rm("reports/räk.txt", status=404)
        self.assertEqual(self.get("reports/räk.txt", "?version=2"), b"two!")
        self.assertEqual(self.put("reports/räk.txt", b"four")["version"], 4)
        seen = self.versions(urllib.parse.quote("reports/räk.txt"))
        self.assertEqual([(v["version"], v["removed"]) for v in seen],
                         [(4, False), (3, True), (2, False)])
        entries = {e["type"]: e for e in settled(self.i)}
        self.assertEqual(entries["drive.put"]["data"]["sha256"], sha(b"four"))
        self.assertEqual(entries["drive.remove"]["data"]["version"], 3)
        self.assertTrue(entries["drive.put"]["who"])

    def test_old_versions_go(self):
        for n in range(5):
            self.put("f", b"content %d" % n)
        self.assertEqual([v["version"] for v in self.versions("f")], [5, 4, 3])
        self.assertEqual(len(self.contents()), 3)
        self.put("f", b"content 4")
        self.put("g", b"content 4")
        self.put("f", b"x")
        self.put("f", b"y")
        self.rm("f", "?purge=true")
        self.assertEqual(self.contents(), ["default_" + sha(b"content 4")])
        self.assertEqual(self.get("g"), b"content 4")
        self.assertEqual(self.list()["used_bytes"], 9)

    def test_no_lost_update(self):
        self.put("f", b"1", {"If-None-Match": "*"})
        self.put("f", b"2", {"If-None-Match": "*"}, status=412)
        self.put("f", b"2", {"If-Match": '"1"'})
        r = self.put("f", b"3", {"If-Match": "1"}, status=412)
        self.assertEqual(r["error"], "version_mismatch")
        self.put("f", b"3", {"If-Match": "*"})
        self.rm("f")
        self.put("f", b"5", {"If-Match": "*"}, status=412)
        self.put("f", b"5", {"If-Match": "4"})
        self.put("f", b"x", {"If-Match": "five"}, status=400)
        # Of many at once, one is first.
        seen = []

        def race(n):
            r = self.i.api("PUT", "/v1/drive/files/f", b"r%d" % n,
                           {"If-Match": "5"})
            seen.append(r.status)
        threads = [threading.Thread(target=race, args=(n,)) for n in range(6)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(sorted(seen), [200] + [412] * 5)

    def test_paths(self):
        long = "/".join(["a" * 255] * 4)
        self.put(long, b"x")
        self.assertEqual(self.names("?recursive=true"), [long])
        for bad in ("a" * 256, "/".join(["a" * 255] * 5), "a//b", "a/./b",
                    "a/../b", "a/", "", "a\x01b", "a%ff", "a%00b", "a%2fb"):
            r = self.i.api("PUT", "/v1/drive/files/" + (
                bad if "%" in bad else urllib.parse.quote(bad)), b"x")
            self.assertEqual(r.status, 400, (bad, r))
        self.assertEqual(len(self.contents()), 1)

    def test_list(self):
        for p in ("a", "b/1", "b/2", "b/c/3", "b0", "d/x"):
            self.put(p, b"")
        self.assertEqual(self.names(), ["a", "b", "b0", "d"])
        self.assertEqual(self.names("?prefix=b/"), ["b/1", "b/2", "b/c"])
        self.assertEqual(self.names("?prefix=b&recursive=true"),
                         ["b/1", "b/2", "b/c/3", "b0"])
        seen, after = [], ""
        while True:
            page = self.list("?limit=2" + after)
            seen += [e["path"] for e in page["entries"]]
            if not page["next"]:
                break
            after = "&after=" + urllib.parse.quote(page["next"])
        self.assertEqual(seen, ["a", "b", "b0", "d"])
        self.rm("b/1")
        self.assertEqual(self.names("?prefix=b/"), ["b/2", "b/c"])
        self.assertEqual(self.names("?prefix=b/&removed=true"),
                         ["b/1", "b/2", "b/c"])

    def test_range(self):
        self.put("f", bytes(range(100)))
        for want, status, body in (
                ("bytes=10-19", 206, bytes(range(10, 20))),
                ("bytes=90-", 206, bytes(range(90, 100))),
                ("bytes=-5", 206, bytes(range(95, 100))),
                ("bytes=0-999", 206, bytes(range(100))),
                ("bytes=5-2", 200, bytes(range(100))),
                ("lines=1-2", 200, bytes(range(100)))):
            r = self.i.api("GET", "/v1/drive/files/f",
                           headers={"Range": want})
            self.assertEqual((r.status, r.body), (status, body), want)
        r = self.i.api("GET", "/v1/drive/files/f",
                       headers={"Range": "bytes=100-"})
        self.assertEqual((r.status, r.headers["Content-Range"]),
                         (416, "bytes */100"))

    def test_share(self):
        data = os.urandom(3 << 19)
        self.put("big", data)
        self.assertEqual(self.put("again", data)["sha256"], sha(data))
        self.assertEqual(self.list()["used_bytes"], 3 << 19)
        r = self.put("more", os.urandom(3 << 20), status=507)
        self.assertIn("drive_size", r["message"])
        # One that does not say how long it is.
        body = (os.urandom(1 << 18) for _ in range(12))
        r = self.i.api("PUT", "/v1/drive/files/more", body)
        self.assertEqual(r.status, 507, r)
        # Others have their own share.
        self.put("big", data, self.key("red"))
        self.rm("again")
        self.rm("again", "?purge=true")
        self.put("more", os.urandom(3 << 20), status=507)
        self.rm("big", "?purge=true")
        self.put("more", os.urandom(3 << 20))
        self.assertFalse([n for n in self.contents() if n.startswith("new-")])

    def test_projects(self):
        red, blue = self.key("red", "admin"), self.key("blue")
        self.put("f", b"red", red)
        self.get("f", headers=blue, status=404)
        self.assertEqual(self.list(headers=blue)["entries"], [])
        self.get("f", "?project=red", blue, 404)
        self.assertEqual(self.get("f", "?project=red"), b"red")
        self.put("f", b"blue", blue)
        self.rm("f", "?purge=true", blue, 403)
        self.rm("f", "?purge=true", red)
        self.assertEqual(self.get("f", headers=blue), b"blue")
        reader = self.key("blue", "read")
        self.assertEqual(self.get("f", headers=reader), b"blue")
        self.put("f", b"x", reader, status=403)

    def test_cut_off(self):
        conn = harness.UnixHTTP(self.i.sock)
        conn.putrequest("PUT", "/v1/drive/files/cut")
        conn.putheader("Content-Length", "1000")
        conn.endheaders()
        conn.send(b"x" * 500)
        wait_for("it comes in", lambda: self.contents(), 10 * SLOW)
        conn.close()
        wait_for("what came is removed", lambda: not self.contents(),
                 10 * SLOW)
        self.get("cut", status=404)

    def test_crash(self):
        """What was answered is there; what was not leaves nothing."""
        self.put("kept", b"kept")
        conn = harness.UnixHTTP(self.i.sock)
        conn.putrequest("PUT", "/v1/drive/files/cut")
        conn.putheader("Content-Length", "1000")
        conn.endheaders()
        conn.send(b"x" * 500)
        wait_for("it comes in", lambda: len(self.contents()) == 2, 10 * SLOW)
        with open(f"{self.i.state_dir}/drive/default_{'0' * 64}", "w"):
            pass  # renamed, and no row yet
        self.i.kill_role("carrel-api")
        conn.close()
        self.i.wait_ready()
        wait_for("the rest goes", lambda: len(self.contents()) == 1, 10 * SLOW)
        self.assertEqual(self.get("kept"), b"kept")
        self.assertEqual(self.list()["used_bytes"], 4)

    def test_crashes_under_load(self):
        """Whenever the role dies: what was answered is there, and whole."""
        answered, stop = {}, threading.Event()

        def put_on(who):
            n = 0
            while not stop.is_set():
                n += 1
                data = b"%d %d " % (who, n) * 500
                with contextlib.suppress(OSError, http.client.HTTPException):
                    r = self.i.api("PUT", f"/v1/drive/files/{who}/{n}", data)
                    if r.status == 200:
                        answered[f"{who}/{n}"] = data
        threads = [threading.Thread(target=put_on, args=(w,))
                   for w in range(3)]
        for t in threads:
            t.start()
        for _ in range(5):
            before = len(answered)
            wait_for("some are answered", lambda: len(answered) > before + 3,
                     20 * SLOW)
            self.i.kill_role("carrel-api")
        stop.set()
        for t in threads:
            t.join()
        self.i.wait_ready()
        for path, data in answered.items():
            self.assertEqual(self.get(path), data)
        # Of what was not answered, all is there or nothing.
        rows = self.list("?recursive=true")
        self.assertIsNone(rows["next"])
        self.assertEqual(self.contents(), sorted(
            "default_" + e["sha256"] for e in rows["entries"]))
        self.assertEqual(rows["used_bytes"],
                         sum(e["size"] for e in rows["entries"]))

    def test_lost_content(self):
        self.put("f", b"gone")
        os.unlink(f"{self.i.state_dir}/drive/default_{sha(b'gone')}")
        self.assertIn("lost", self.get("f", status=404)["message"])

    def test_sandbox(self):
        box = self.i.create(name="work")
        self.i.sh(box, "seq 1000 > out; ln -s out link; mkdir dir; "
                       "sudo sh -c 'mkdir -m 700 /closed; echo > /closed/x'")
        want = "".join(f"{n}\n" for n in range(1, 1001)).encode()
        ask = f"/v1/sandboxes/{box}/drive"
        r = self.i.api("POST", ask, {"put": "out", "to": "reports/"})
        self.assertEqual((r.status, r.json["path"], r.json["sandbox"]),
                         (200, "reports/out", box), r)
        self.assertEqual(self.get("reports/out"), want)
        r = self.i.api("POST", ask, {"get": "reports/out", "to": "/tmp/new/",
                                     "parents": True, "mode": "0600"})
        self.assertEqual((r.status, r.json["sha256"]), (200, sha(want)), r)
        p = self.i.sh(box, "sha256sum < /tmp/new/out; stat -c %a /tmp/new/out")
        self.assertEqual(p.out.split(), [sha(want), "-", "600"])
        for body, status in (
                ({"put": "nothing", "to": "x"}, 404),
                ({"put": "dir", "to": "x"}, 400),
                ({"put": "/closed/x", "to": "x"}, 403),
                ({"put": "out", "to": "../x"}, 400),
                ({"put": "out", "to": "reports/out", "version": 9}, 412),
                ({"get": "nothing", "to": "x"}, 404),
                ({"get": "reports/out", "to": "/proc/x"}, None),
                ({"get": "reports/out", "put": "x", "to": "x"}, 400),
                ({"to": "x"}, 400), ({"put": "out"}, 400)):
            r = self.i.api("POST", ask, body)
            self.assertEqual(r.status, status or r.status, (body, r))
            self.assertGreaterEqual(r.status, 400)
        # A blue key cannot reach it.
        r = self.i.api("POST", ask, {"put": "out", "to": "x"},
                       self.key("blue"))
        self.assertEqual(r.status, 404)

    def test_command_line(self):
        i = self.i
        here = os.path.join(i.dir, "here")
        with open(here, "wb") as f:
            f.write(b"local")
        i.cli("drive", "put", here, "docs/", check=0)
        p = i.cli("drive", "put", "-", "docs/two", input="two", check=0)
        self.assertIn("version 1", p.out)
        self.assertEqual(i.cli("drive", "get", "docs/here", "-").out, "local")
        i.cli("drive", "get", "docs/two", i.dir, check=0)
        self.assertEqual(harness.read(os.path.join(i.dir, "two")), "two")
        p = i.cli("drive", "ls", "docs", check=0)
        self.assertIn("docs/two", p.out)
        self.assertIn("docs/", i.cli("drive", "ls", check=0).out)
        seen = json.loads(i.cli("drive", "ls", "-r", "--json", check=0).out)
        self.assertEqual([e["path"] for e in seen], ["docs/here", "docs/two"])
        i.cli("drive", "put", "--if-version", "4", here, "docs/two", check=1)
        i.cli("drive", "rm", "docs/two", check=0)
        self.assertIn("removed", i.cli("drive", "versions", "docs/two").out)
        self.assertIn("no file",
                      i.cli("drive", "get", "docs/two", "-", check=1).err)
        i.cli("create", "--name", "w", check=0)
        i.sh("w", "echo inside > x")
        i.cli("drive", "put", "w", "x", "docs/", check=0)
        i.cli("drive", "get", "docs/x", "w", "/home/user/y", check=0)
        self.assertEqual(i.sh("w", "cat y").out, "inside\n")
        i.cli("drive", "put", i.dir, "x", check=1)


class Inside(DriveCase):
    CONF = {"drive_size": "8M", "drive_versions": 3, "spares": 1}

    def box(self, *grants, **spec):
        box = self.i.create(drive=list(grants), **spec)
        wait_for("the door is open", lambda: "carrel-drive" in
                 self.i.sh(box, "cat /proc/net/unix").out, 20 * SLOW)
        return box

    def test_round(self):
        box = self.box("shared:rw", "docs")
        p = self.i.sh(box, "echo hello > x; drive put x shared/ && "
                           "drive get shared/x y && cmp x y && "
                           "seq 300000 | drive put - shared/big && "
                           "seq 300000 | sha256sum; "
                           "drive get shared/big - | sha256sum; drive ls; "
                           "drive rm shared/x; drive get shared/x z; ls")
        out = p.out.splitlines()
        self.assertEqual(out[0], "shared/x: version 1, 6 bytes")
        self.assertEqual(out[2], out[3], p.out + p.err)
        self.assertEqual([x.split()[-1] for x in out[4:6]],
                         ["shared/big", "shared/x"])
        self.assertIn("no file shared/x", p.err)
        self.assertEqual(out[6:], ["x", "y"])
        self.assertEqual(self.get("shared/x", "?version=1"), b"hello\n")
        seen = self.versions("shared/x")[0]
        self.assertEqual((seen["removed"], seen["sandbox"], seen["who"]),
                         (True, box, f"sandbox:{box}"))
        put = [e for e in settled(self.i) if e["type"] == "drive.put"][-1]
        self.assertEqual((put["sandbox"], put["who"], put["data"]["path"]),
                         (box, f"sandbox:{box}", "shared/big"))

    def test_grants(self):
        self.put("docs/a", b"a")
        self.put("docs-2/b", b"b")
        self.put("docs.txt", b"c")
        self.put("secret/c", b"c")
        self.put("one", b"one")
        box = self.box("docs:ro", "one")
        sh = lambda text: self.i.sh(box, text)
        self.assertEqual(sh("drive get docs/a -; drive get one -").out, "aone")
        self.assertEqual([x.split()[-1] for x in
                          sh("drive ls").out.splitlines()], ["docs/a", "one"])
        self.assertEqual(sh("drive ls secret").out, "")
        for bad in ("get secret/c -", "get docs-2/b -", "get docs.txt -",
                    "get docs/../secret/c -", "get /docs/a -", "rm docs/a",
                    "put /etc/passwd docs/a", "put /etc/passwd one",
                    "put /etc/passwd secret/c", "get docs/nothing -"):
            p = sh("drive " + bad)
            self.assertEqual((p.returncode, p.out), (1, ""), (bad, p.err))
            self.assertRegex(p.err, "may not|is no path|no file")
        self.assertEqual(self.get("docs/a"), b"a")
        # One without a grant has no drive at all.
        p = self.i.sh(self.i.create(), "drive ls")
        self.assertEqual(p.returncode, 1)
        self.assertIn("create --drive", p.err)
        for bad in (["../x"], [":rw"], [""], ["a//b"], [1], "x", ["a"] * 17):
            r = self.i.api("POST", "/v1/sandboxes", {"drive": bad})
            self.assertEqual(r.status, 400, (bad, r))

    def test_other_projects(self):
        red = self.key("red")
        self.put("shared/x", b"default")
        self.put("shared/x", b"red", red)
        r = self.i.api("POST", "/v1/sandboxes", {"drive": ["/:rw"]}, red)
        box = r.json["id"]
        wait_for("the door is open", lambda: self.i.sh(
            box, "drive get shared/x -").out == "red", 20 * SLOW)
        self.i.sh(box, "echo new | drive put - shared/x")
        self.assertEqual(self.get("shared/x"), b"default")
        self.assertEqual(self.get("shared/x", headers=red), b"new\n")

    def test_full_and_conditions(self):
        box = self.box("/:rw")
        p = self.i.sh(box, "head -c 9000000 /dev/urandom | drive put - big")
        self.assertEqual(p.returncode, 1)
        self.assertIn("full", p.err)
        self.i.sh(box, "echo 1 | drive put - f")
        self.assertEqual(self.i.sh(
            box, "echo 2 | drive put --if-version 1 - f").returncode, 0)
        p = self.i.sh(box, "echo 3 | drive put --if-version 1 - f")
        self.assertIn("version 2", p.err)
        self.assertEqual(self.i.sh(
            box, "drive get --version 1 f -").out, "1\n")
        self.assertFalse([n for n in self.contents() if n.startswith("new-")])

    def test_clients_that_leave(self):
        box = self.box("/:rw")
        self.i.sh(box, "head -c 4000000 /dev/urandom | drive put - big")
        p = self.i.sh(box, "(echo x; sleep 100) | drive put - cut & "
                           "sleep 0.2; kill $!; drive get big - | head -c 10 "
                           "| wc -c; drive ls")
        self.assertIn("10\n", p.out, p.err)
        self.assertNotIn("cut", p.out)
        # Many at once wait for each other.
        p = self.i.sh(box, "for n in 1 2 3 4 5 6 7 8; do (echo $n | "
                           "drive put - many/$n >/dev/null || echo bad) & "
                           "done; wait; drive ls many | wc -l")
        self.assertEqual(p.out, "8\n", p.err)

    def test_survives(self):
        """The api role and the door may die; the next one is there soon."""
        box = self.box("/:rw")
        self.i.kill_role("carrel-api")
        self.i.wait_ready()
        wait_for("it is back", lambda: self.i.sh(
            box, "echo 1 | drive put - f").returncode == 0, 30 * SLOW)
        self.assertEqual(self.get("f"), b"1\n")

    def test_other_lives(self):
        """One that was rolled back or resumed, and forks, have a door."""
        box = self.box("/:rw")
        r = self.i.api("POST", f"/v1/sandboxes/{box}/snapshots", {"name": "s"})
        self.assertEqual(r.status, 201, r)
        for path, body in (("rollback", {"snapshot": "s"}),
                           ("pause", {"disk_only": True}), ("resume", {}),
                           ("pause", {}), ("resume", {})):
            r = self.i.api("POST", f"/v1/sandboxes/{box}/{path}", body)
            self.assertEqual(r.status, 200, (path, r))
        r = self.i.api("POST", f"/v1/sandboxes/{box}/fork", {"count": 2})
        self.assertEqual(r.status, 201, r)
        for one in [box] + [s["id"] for s in r.json["sandboxes"]]:
            wait_for("its door is open", lambda: self.i.sh(
                one, "echo 1 | drive put - f").returncode == 0, 30 * SLOW)
            self.assertEqual(self.versions("f")[0]["sandbox"], one)

    def test_idle(self):
        """A door is no client: it does not keep a sandbox awake."""
        box = self.box("/:rw", **{"idle-timeout": "1s"})
        wait_for("it is idle", lambda: self.i.api(
            "GET", f"/v1/sandboxes/{box}").json["state"] == "ended", 30 * SLOW)


def pack_str(text):
    raw = text if isinstance(text, bytes) else text.encode()
    return struct.pack("<I", len(raw)) + raw + b"\0"


def record(kind, body=b""):
    return struct.pack("<IB", 1 + len(body), kind) + body


def request(op, path, after="", version=None):
    return record(1, struct.pack("<BBQ", op, version is not None,
                                 version or 0) + pack_str(path)
                  + pack_str(after))


PUT, GET, LS, RM = 1, 2, 3, 4
DATA, END, GONE, FILE, ERROR, DONE = 2, 3, 4, 5, 6, 7


class Door:
    """An agent that is the sandbox's own: it says what it likes."""

    def __init__(self, *says):
        self.says, self.heard, self.killed = says, b"", False

    def __call__(self, peer):
        peer.hello()
        channel, self.argv, _ = peer.spawned()
        peer.send(harness.STARTED, channel, struct.pack("<II", 2, 1))
        at = 0
        for data in self.says:
            peer.output(channel, data, 1, at)
            at += len(data)
        while True:
            kind, _, payload = peer.recv()[:3]
            if kind == harness.INPUT:
                self.heard += payload[8:]
            elif kind == harness.SIGNAL:
                self.killed = True
                peer.exit(channel, 1)
                return

    def answers(self):
        """Kinds, and the codes of errors."""
        at, out = 0, []
        while len(self.heard) - at >= 5:
            n, kind = struct.unpack_from("<IB", self.heard, at)
            if len(self.heard) - at < 4 + n:
                break
            out.append((kind, struct.unpack_from("<I", self.heard, at + 5)[0])
                       if kind == ERROR else kind)
            at += 4 + n
        return out


class HostileDoor(unittest.TestCase):
    def setUp(self):
        self.a = Api()
        self.addCleanup(self.a.stop)

    def put(self, path, data):
        r = self.a.api("PUT", f"/v1/drive/files/{path}", data)
        self.assertEqual(r.status, 200, r)

    def open(self, *says, grants=("mine:rw", "docs")):
        door = Door(*says)
        self.a.warden.behave = door
        r = self.a.api("POST", "/v1/sandboxes", {"drive": list(grants)})
        self.assertEqual(r.status, 201, r)
        return door

    def test_what_it_may_not(self):
        """The spec counts, whatever the agent says."""
        self.put("secret", b"s")
        self.put("docs/a", b"a")
        asks = [request(GET, "secret"), request(GET, "../secret"),
                request(GET, "docs/../secret"), request(GET, "/secret"),
                request(GET, ""), request(RM, "docs/a"),
                request(PUT, "docs/a"), request(PUT, "mine"[:3]),
                request(PUT, "mine/\x01"), request(LS, "../"),
                request(GET, "docs/a")]
        door = self.open(*asks)
        wait_for("all are answered", lambda: DONE in door.answers(), 20 * SLOW)
        got = door.answers()
        self.assertEqual([g[1] for g in got[:10]],
                         [13, 22, 22, 22, 22, 13, 13, 13, 22, 22], got)
        self.assertEqual(got[10:], [FILE, DATA, DONE])
        self.assertEqual(door.argv, ["drive.door"])

    def test_out_of_turn(self):
        """Words that come too late are dropped."""
        door = self.open(record(DATA, b"x"), record(END), record(GONE),
                         request(PUT, "mine/cut"), record(DATA, b"x"),
                         record(GONE), record(DATA, b"y"), record(END),
                         request(PUT, "mine/whole"), record(DATA, b"x"),
                         record(END), request(LS, ""))
        wait_for("all are answered", lambda: door.answers().count(DONE) == 3,
                 20 * SLOW)
        self.assertEqual(door.answers(), [DONE, FILE, DONE, FILE, DONE])
        r = self.a.api("GET", "/v1/drive?recursive=true")
        self.assertEqual([e["path"] for e in r.json["entries"]],
                         ["mine/whole"])

    def test_nonsense(self):
        for bad in (b"\xff\xff\xff\xff", record(FILE), record(99),
                    record(ERROR, struct.pack("<I", 1) + pack_str("x")),
                    record(DONE, b"\0"), record(DATA), bytes(100),
                    request(PUT, "mine/x") + request(PUT, "mine/y"),
                    request(9, "x"), request(GET, "a" * 1025),
                    request(GET, "a\0b")):
            door = self.open(bad)
            wait_for(f"{bad[:20]} ends it", lambda: door.killed, 20 * SLOW)
        self.assertEqual(os.listdir(f"{self.a.state_dir}/drive"), [])

    def test_pace(self):
        """It cannot ask faster than a person would like to wait."""
        start = time.monotonic()
        door = self.open(*[request(LS, "")] * 60)
        wait_for("all are answered", lambda: len(door.answers()) == 60,
                 60 * SLOW)
        self.assertGreater(time.monotonic() - start, 0.8)


if __name__ == "__main__":
    harness.main()
