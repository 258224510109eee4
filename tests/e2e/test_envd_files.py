# suite: both
# suite: sanitized
"""Files over E2B's wire, where no SDK goes: clients that leave, that are slow
or lie, sandboxes without a sudo or without space."""

import gzip
import json
import os
import socket
import time
from urllib.parse import urlencode

import harness
import test_log
from harness import SANITIZED, SLOW, wait_for

MIB = 1 << 20


class EnvdFiles(harness.Case):
    CONF = {"pool_size": "3G"}

    def setUp(self):
        self.use(self.i.create(disk="1G", pids=64))

    def use(self, box):
        self.box = box
        r = self.i.api("POST", f"/v2/sandboxes/{box}/connect", {"timeout": 600})
        self.assertIn(r.status, (200, 201), r)
        self.fields = {"E2b-Sandbox-Id": box,
                       "X-Access-Token": r.json["envdAccessToken"]}

    def call(self, method, to, body=None, headers=None, **query):
        return self.i.api(method, f"{to}?{urlencode(query)}", body,
                          {**self.fields, **(headers or {})},
                          timeout=60 * SLOW)

    def rpc(self, name, message):
        return self.call("POST", f"/filesystem.Filesystem/{name}", message,
                         {"Content-Type": "application/json"})

    def post(self, body, path=None, **headers):
        return self.call("POST", "/files", body,
                         {k.replace("_", "-"): v for k, v in headers.items()},
                         **({"path": path} if path else {}))

    def form(self, parts):
        out = b""
        for name, data in parts:
            out += (b'--X\r\nContent-Disposition: form-data; name="file"; '
                    b'filename="%s"\r\n\r\n%s\r\n' % (name, data))
        return self.post(out + b"--X--\r\n",
                         Content_Type="multipart/form-data; boundary=X")

    def sh(self, script):
        p = self.i.sh(self.box, script)
        self.assertEqual(p.returncode, 0, p.err)
        return p.out

    def start(self, head):
        """A request that is made by hand."""
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(60 * SLOW)
        s.connect(self.i.sock)
        fields = "".join(f"{k}: {v}\r\n" for k, v in self.fields.items())
        s.sendall(f"{head}\r\nHost: x\r\n{fields}".encode())
        return s

    def workers(self):
        """Processes of file work inside."""
        found = []
        for pid in self.i.box_pids():
            status = harness.read(f"/proc/{pid}/status", "")
            if "\nName:" in "\n" + status and "memfd:agent" in self.exe(pid) \
                    and self.uid(status) in (0, 1000):
                found.append(pid)
        return found

    @staticmethod
    def exe(pid):
        try:
            return os.readlink(f"/proc/{pid}/exe")
        except OSError:
            return ""

    def uid(self, status):
        uids = [x.split()[1] for x in status.splitlines()
                if x.startswith("Uid:")]
        base = int(self.i.conf["uid_base"])
        return (int(uids[0]) - base) % 0x10100 if uids else -1

    # --- uploads ---

    def test_many_parts(self):
        parts = [(b"p/%d" % i, b"x" * i) for i in range(150)]
        r = self.form(parts)
        self.assertEqual(r.status, 200, r)
        self.assertEqual([e["name"] for e in r.json],
                         [str(i) for i in range(150)])
        self.assertEqual(self.sh("ls p | wc -l; wc -c < p/149"), "150\n149\n")

    def test_names_as_they_are(self):
        r = self.form([(b"a\\\"b", b"1"), (b"%22", b"2"), (b"\xff", b"3"),
                       (b"", b"4")])
        self.assertEqual(r.status, 400, r)  # the last one is the home itself
        self.assertEqual(self.sh("cat 'a\"b' '\"' $(printf '\\377')"), "123")

    def test_empty_bodies(self):
        self.assertEqual(self.post(b"", "f").json[0]["name"], "f")
        self.assertEqual(self.post(b"", "f", Content_Encoding="gzip").status,
                         400)
        r = self.form([])
        self.assertEqual((r.status, r.json), (200, []), r)
        s = self.start("POST /files?path=g HTTP/1.1")
        s.sendall(b"\r\n")
        self.assertTrue(s.recv(1000).startswith(b"HTTP/1.1 200"))
        s.close()
        self.assertEqual(self.sh("wc -c < f; wc -c < g"), "0\n0\n")

    def test_part_that_fails(self):
        """Those in front of it stay, those behind are not written."""
        self.sh("mkdir d")
        r = self.form([(b"one", b"1"), (b"d", b"2"), (b"three", b"3")])
        self.assertEqual((r.status, r.json["code"]), (400, 400), r)
        self.assertEqual(self.sh("ls"), "d\none\n")

    @harness.container_only("it looks at the agent's processes")
    def test_given_up(self):
        self.sh("echo old > f")
        s = self.start("POST /files?path=f HTTP/1.1")
        s.sendall(b"Content-Length: %d\r\n\r\n" % (64 * MIB) + b"x" * 4 * MIB)
        wait_for("it is being written", self.workers, 10 * SLOW)
        s.close()
        wait_for("all of it is gone", lambda: not self.workers(), 10 * SLOW)
        self.assertEqual(self.sh("ls -A; cat f"), "f\nold\n")

    def test_refused_before_it_comes(self):
        s = self.start("POST /files?path=/proc HTTP/1.1")
        s.sendall(b"Content-Encoding: br\r\nExpect: 100-continue\r\n"
                  b"Content-Length: 5\r\n\r\n")
        self.assertTrue(s.recv(1000).startswith(b"HTTP/1.1 415"))
        s.close()

    def test_no_space(self):
        box = self.i.create(disk="64M")
        self.use(box)
        r = self.post(os.urandom(80 * MIB), "f")
        self.assertEqual((r.status, r.json["code"]), (507, 507), r)
        self.assertEqual(self.rpc("Stat", {"path": "f"}).status, 404)

    def test_bomb(self):
        """A hundred megabytes in a tenth of one: it fills its own disk at most, and
        never our memory."""
        api = self.i.pids()["carrel-api"][0]

        def peak():
            return int([x for x in harness.read(f"/proc/{api}/status")
                        .splitlines() if x.startswith("VmHWM:")][0].split()[1])
        self.use(self.i.create(disk="64M"))
        before = peak()
        r = self.post(gzip.compress(bytes(100 * MIB), 9), "f",
                      Content_Encoding="gzip")
        self.assertEqual(r.status, 507, r)
        if not SANITIZED:  # which keeps what was freed
            self.assertLess(peak() - before, 8 * 1024)

    def test_metadata_is_checked(self):
        r = self.post(b"x", "f", **{f"X_Metadata_k{i}": "v" for i in range(70)})
        self.assertEqual(r.status, 400, r)
        r = self.post(b"x", "f", X_Metadata_="v")
        self.assertEqual(r.status, 400, r)

    # --- downloads ---

    def test_slow_readers_hold_no_memory(self):
        self.sh("dd if=/dev/zero of=f bs=1M count=64 2>&1")
        api = self.i.pids()["carrel-api"][0]

        def rss():
            return int(harness.read(f"/proc/{api}/statm").split()[1]) * 4096
        before = rss()
        socks = [self.start("GET /files?path=f HTTP/1.1") for _ in range(8)]
        for s in socks:
            s.sendall(b"\r\n")
            self.assertTrue(s.recv(10))
        time.sleep(0.5)
        self.assertLess(rss() - before, 8 * 3 * MIB * (4 if SANITIZED else 1))
        for s in socks:
            s.close()
        wait_for("all are gone", lambda: not self.workers(), 10 * SLOW)

    def test_sandbox_ends_in_the_middle(self):
        self.sh("dd if=/dev/zero of=f bs=1M count=64 2>&1")
        s = self.start("GET /files?path=f HTTP/1.1")
        s.sendall(b"\r\n")
        s.recv(1000)
        self.i.rm(self.box)
        n = 0
        while got := s.recv(1 << 20):
            n += len(got)
        self.assertLess(n, 64 * MIB)
        s.close()

    # --- rights ---

    def test_without_sudo(self):
        """The user does what the user may."""
        self.use(self.i.create(sudo=False))
        self.assertEqual(self.post(b"x", "f").json[0]["path"], "/home/user/f")
        r = self.post(b"x", "/etc/f")
        self.assertEqual(r.status, 403, r)
        r = self.rpc("MakeDir", {"path": "/top"})
        self.assertEqual((r.status, r.json["code"]),
                         (403, "permission_denied"), r)
        r = self.call("GET", "/files", path="f", username="root")
        self.assertEqual(r.status, 403, r)
        r = self.call("GET", "/files", path="f", username="who")
        self.assertEqual((r.status, r.json["message"]),
                         (401, "invalid username: 'who'"), r)

    def test_log(self):
        """What was changed is written down, as any native change."""
        self.post(b"x", "f")
        self.rpc("Remove", {"path": "f"})
        got = [(e["type"], e["data"]["path"], e["data"]["owner"], e["who"])
               for e in test_log.settled(self.i)
               if e["sandbox"] == self.box and e["type"].startswith("file.")]
        self.assertEqual(got, [("file.write", "f", "", "token"),
                               ("file.remove", "f", "", "token")])

    # --- watchers ---

    def watch(self, path):
        return self.rpc("CreateWatcher", {"path": path}).json["watcherId"]

    def test_of_another_sandbox(self):
        id = self.watch("/home/user")
        self.use(self.i.create())
        r = self.rpc("GetWatcherEvents", {"watcherId": id})
        self.assertEqual((r.status, r.json["code"]), (404, "not_found"), r)
        self.assertEqual(self.rpc("RemoveWatcher", {"watcherId": id}).status,
                         404)

    def test_more_than_is_kept(self):
        """What is not fetched is held back, and comes later."""
        self.sh("mkdir w")
        id = self.watch("w")
        self.sh("cd w; seq 3000 | xargs touch")
        seen = set()

        def all_seen():
            r = self.rpc("GetWatcherEvents", {"watcherId": id})
            # A line of the stream has more than one, so a few more may come.
            self.assertLess(len(r.json["events"]), 2000)
            seen.update(e["name"] for e in r.json["events"])
            return len(seen) == 3000
        wait_for("all are told", all_seen, 20 * SLOW)

    @harness.plain_only
    @harness.container_only("it looks at the agent's processes")
    def test_ends_with_its_sandbox(self):
        """A host has at most 1024 watchers, a sandbox 32: those of sandboxes
        that were removed do not count."""
        for _ in range(1024 // 32 + 1):
            for _ in range(32):
                self.watch("/home/user")
            self.assertEqual(len(self.workers()), 32)
            self.i.rm(self.box)
            self.assertEqual(self.workers(), [])
            self.use(self.i.create(pids=64))

    def test_stream_by_hand(self):
        """Errors are in the last envelope, whatever they are."""
        def stream(body, kind="application/connect+json"):
            r = self.call("POST", "/filesystem.Filesystem/WatchDir", body,
                          {"Content-Type": kind})
            self.assertEqual(r.status, 200, r)
            self.assertEqual(r.body[0], 2)
            n = int.from_bytes(r.body[1:5], "big")
            self.assertEqual(len(r.body), 5 + n)
            return json.loads(r.body[5:])["error"]["code"]

        def envelope(text):
            return b"\0" + len(text).to_bytes(4, "big") + text
        self.assertEqual(stream(envelope(b'{"path": "none"}')), "not_found")
        self.assertEqual(stream(envelope(b'{"path": "/etc/passwd"}')),
                         "invalid_argument")
        self.assertEqual(stream(envelope(b'{"path": "~x"}')),
                         "invalid_argument")
        self.assertEqual(stream(b"\0\0\0"), "invalid_argument")
        self.assertEqual(stream(envelope(b"[]")), "invalid_argument")

    def test_deadline(self):
        text = b'{"path": "."}'
        r = self.call("POST", "/filesystem.Filesystem/WatchDir",
                      b"\0" + len(text).to_bytes(4, "big") + text,
                      {"Content-Type": "application/connect+json",
                       "Connect-Timeout-Ms": "300"})
        self.assertIn(b'"start"', r.body)
        self.assertIn(b"deadline_exceeded", r.body)
        wait_for("nobody watches", lambda: not self.workers(), 10 * SLOW)

    @harness.container_only("it looks at the agent's processes")
    def test_client_leaves(self):
        text = b'{"path": "."}'
        s = self.start("POST /filesystem.Filesystem/WatchDir HTTP/1.1")
        s.sendall(b"Content-Type: application/connect+json\r\n"
                  b"Content-Length: %d\r\n\r\n\0" % (5 + len(text)) +
                  len(text).to_bytes(4, "big") + text)
        got = b""
        while b'"start"' not in got:
            got += s.recv(1000)
        self.assertTrue(self.workers())
        s.close()
        wait_for("nobody watches", lambda: not self.workers(), 10 * SLOW)

    # --- messages ---

    def test_nonsense(self):
        for body in (b"[]", b"{", b'{"path": 1}', b'{"path": "~x"}',
                     json.dumps({"path": "x" * 5000}).encode()):
            r = self.call("POST", "/filesystem.Filesystem/Stat", body,
                          {"Content-Type": "application/json"})
            self.assertEqual((r.status, r.json["code"]),
                             (400, "invalid_argument"), (body[:40], r))
        r = self.rpc("ListDir", {"path": "/", "depth": "x"})
        self.assertEqual(r.status, 400)
        r = self.rpc("ListDir", {"path": "/", "depth": -1})
        self.assertEqual(r.status, 400)
        r = self.rpc("Nothing", {})
        self.assertEqual(r.status, 404)
        r = self.call("GET", "/files", path="a\0b")
        self.assertEqual(r.status, 400)


if __name__ == "__main__":
    harness.main()
