"""Group E: files that lead elsewhere, and change while the host works on them.

What the host does with a sandbox's files (reading, writing, packing, removing,
mounting) is tried on trees that a sandbox made for that. A directory of the
host is the canary: nobody may so much as look into it."""

import contextlib
import io
import os
import secrets
import shutil
import subprocess
import tarfile
import threading
import time

import attack
import harness
from harness import SLOW, wait_for
from test_files import Files


class Tree(harness.Case):
    CONF = {"pool_size": "1G"}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.victim = f"/tmp/{secrets.token_hex(8)}"
        os.makedirs(f"{cls.victim}/sub")
        cls.secret = "canary-" + secrets.token_hex(16)
        for name in ("f", "sub/f"):
            with open(f"{cls.victim}/{name}", "w") as f:
                f.write(cls.secret)
        cls.watch = attack.Watch(cls.victim)

    @classmethod
    def tearDownClass(cls):
        cls.watch.close()
        shutil.rmtree(cls.victim)
        super().tearDownClass()

    def setUp(self):
        self.box = self.i.create(disk="128M")
        self.f = Files(self.i, self.box)
        self.watch.events()

    def untouched(self):
        self.assertEqual(self.watch.events(), 0, "somebody was there")

    def everything(self, path, user=None):
        """All that can be asked about a path; the bodies of the answers."""
        who = {"user": user} if user else {}
        out = [self.f.get(path, **who), self.f.stat(path, **who),
               self.f.list(path, **who), self.f.call("GET", "tar", path, **who),
               self.f.put(path, b"written", **who),
               self.f.do("mkdir", path=path + "/new", **who),
               self.f.do("chmod", path=path, mode="777", **who),
               self.f.do("copy", path=path, to="copied", **who),
               self.f.do("move", path=path, to="moved", **who),
               self.f.do("remove", path=path, recursive=True, **who)]
        return b"".join(r.body for r in out)

    # -- names

    def test_E1_names_that_climb(self):
        for path in ("../../../.." + self.victim, "/../.." + self.victim,
                     "//" + self.victim, self.victim + "/.",
                     "%2e%2e/%2e%2e/%2e%2e" + self.victim, "a" * 4096,
                     "x/" * 2000):
            for user in (None, "root"):
                self.assertNotIn(self.secret.encode(), self.everything(path, user))
        r = self.i.api("POST", self.f.base + "mkdir", b'{"path": "a\\u0000b"}')
        self.assertEqual(r.status, 400, r)
        r = self.i.api("GET", self.f.base + "content?path=a%00b")
        self.assertEqual(r.status, 400, r)
        self.untouched()

    def test_E2_links(self):
        """Wherever they lead, it is inside."""
        self.i.sh(self.box, f"""
            ln -s {self.victim} whole; ln -s {self.victim}/f final
            mkdir m; ln -s {self.victim} m/middle; ln -s loop loop
            ln -s /proc/1/root{self.victim} root; ln -s /etc/shadow shadow
            ln -s ../../../../..{self.victim}/f up""")
        for path in ("whole", "whole/f", "final", "m/middle/f", "loop", "root",
                     "root/f", "up"):
            for user in (None, "root"):
                self.assertNotIn(self.secret.encode(), self.everything(path, user))
        self.untouched()

    def test_E4_magic_links(self):
        """Descriptors and roots of processes, whosever they are."""
        for path in [f"/proc/self/fd/{n}" for n in range(3, 10)] + [
                "/dev/fd/3", f"/proc/1/root{self.victim}/f", "/proc/1/cwd",
                f"/proc/self/root{self.victim}", "/proc/1/exe", "/proc/1/mem"]:
            for user in (None, "root"):
                r = self.f.get(path, user=user) if user else self.f.get(path)
                self.assertNotEqual(r.status, 200, path)
        self.untouched()

    # -- races

    @contextlib.contextmanager
    def swapping(self, seconds):
        attack.put_probe(self.i, self.box)
        p = self.i.popen("exec", self.box, "--", attack.INSIDE, "E3",
                         f"target={self.victim}", f"seconds={seconds}",
                         stdin=subprocess.DEVNULL)
        try:
            wait_for("it swaps", lambda: self.f.stat("swap/l").status == 200,
                     10 * SLOW)
            yield p
        finally:
            p.kill()
            p.communicate()

    def test_E3_while_they_change_places(self):
        with self.swapping(60):
            end = time.monotonic() + 3
            tries = 0
            while time.monotonic() < end:
                for path in ("swap/d", "swap/d/f", "swap/l/f"):
                    for r in (self.f.get(path), self.f.put(path, b"x"),
                              self.f.list("swap", depth=3),
                              self.f.call("GET", "tar", path)):
                        self.assertNotIn(self.secret.encode(), r.body)
                    tries += 1
        self.untouched()
        self.assertGreater(tries, 5)
        self.assertEqual(self.i.sh(self.box, "echo alive").out, "alive\n")

    def test_E3_while_it_is_packed_and_unpacked(self):
        raw = io.BytesIO()
        with tarfile.open(fileobj=raw, mode="w") as tar:
            for n in range(50):
                info = tarfile.TarInfo(f"d/{n}")
                info.size = 1
                tar.addfile(info, io.BytesIO(b"x"))
        with self.swapping(60):
            for _ in range(10):
                self.f.call("PUT", "tar", "swap", raw.getvalue())
                self.f.call("GET", "tar", "swap")
                self.i.api("POST", f"/v1/sandboxes/{self.box}/snapshots", {})
        self.untouched()

    def test_E5_places_of_mounts(self):
        """A link where a volume is to be mounted: not followed."""
        self.assertEqual(self.i.api("POST", "/v1/volumes", {
            "name": "v", "size": "32M"}).status, 201)
        self.i.sh(self.box, f"sudo ln -s {self.victim} /link; "
                  f"ln -s {self.victim} link; ls -l /link link")
        snap = self.i.api("POST", f"/v1/sandboxes/{self.box}/snapshots", {}).json
        for path in ("/link", "/link/sub", "/home/user/link/sub"):
            r = self.i.api("POST", "/v1/sandboxes", {
                "snapshot": snap["id"], "volumes": [f"v:{path}"]})
            self.assertGreaterEqual(r.status, 400, r)
        self.assertEqual(os.listdir(f"{self.victim}/sub"), ["f"])

    def test_E13_removed_while_they_change_places(self):
        with self.swapping(60):
            self.i.rm(self.box)
        self.untouched()
        self.assertEqual(sorted(os.listdir(self.victim)), ["f", "sub"])

    # -- what the host could be made to run, or to believe

    def test_E6_programs_of_the_sandbox(self):
        """Trojans in all places where a tool looks for its helpers."""
        script = "#!/bin/sh\ntouch /dev/shm/ran\n"
        self.i.sh(self.box, f"""sudo sh -c '
            for p in gzip gunzip unpigz xz zstd bzip2 tar cp rm file; do
                for d in /usr/local/sbin /usr/local/bin; do
                    mkdir -p $d; printf "{script}" > $d/$p; chmod 755 $d/$p
                done
            done
            echo /tmp/evil.so > /etc/ld.so.preload
            mkdir -p /lib/x86_64-linux-gnu
            cp /bin/busybox /lib/x86_64-linux-gnu/libnss_evil.so.2
            echo "passwd: evil files" > /etc/nsswitch.conf'""")
        raw = io.BytesIO()
        with tarfile.open(fileobj=raw, mode="w:gz") as tar:
            tar.addfile(tarfile.TarInfo("x"))
        self.f.call("PUT", "tar", ".", raw.getvalue())
        for r in (self.f.call("GET", "tar", "/etc"), self.f.put("y", b"z"),
                  self.f.list("."), self.f.stat("/home/user/y", user="root"),
                  self.f.get("y")):
            self.assertEqual(r.status, 200, r)
        snap = self.i.api("POST", f"/v1/sandboxes/{self.box}/snapshots", {})
        self.assertEqual(snap.status, 201, snap)
        self.assertEqual(self.f.get("/dev/shm/ran").status, 404)

    def test_E11_snapshots_are_its_disk(self):
        """What a link leads to, a device, a socket of ours: not in it."""
        self.i.sh(self.box, f"ln -s {self.victim} out; echo mine > own")
        r = self.f.call("GET", "tar", ".")
        with tarfile.open(fileobj=io.BytesIO(r.body)) as tar:
            kinds = {m.name.removeprefix("./"): m.type for m in tar}
        self.assertEqual(kinds["out"], tarfile.SYMTYPE)
        self.assertIn("own", kinds)
        self.assertFalse([n for n in kinds if n.startswith("out/")])
        self.untouched()

    def test_E14_deep_and_wide(self):
        """However deep: listed in pieces, packed or refused, removed."""
        self.i.sh(self.box, "i=0; while [ $i -lt 1500 ]; do mkdir d && cd d || "
                  "break; i=$((i+1)); done")
        self.assertIn(self.f.list(".", depth=64).status, (200, 400))
        self.assertEqual(self.f.do("remove", path="d", recursive=True).status,
                         204)
        self.assertEqual(self.i.sh(self.box, "ls -A").out, "")

    def test_E16_whom_it_runs_as(self):
        """What /etc/passwd says is the sandbox's word about itself."""
        self.i.sh(self.box, """sudo sh -c '
            echo "evil:x:4294967295:0::/:/bin/sh" >> /etc/passwd
            echo "far:x:65536:65536::/:/bin/sh" >> /etc/passwd
            echo "neg:x:-1:-1::/:/bin/sh" >> /etc/passwd
            echo "minus:x:0x0:0::/:/bin/sh" >> /etc/passwd'""")
        base = attack.base_of(self.i, self.box)
        for user in ("evil", "far", "neg", "minus", "4294967295", "65536", "-1",
                     "99999999999999999999", "a\nb"):
            w = self.i.exec_wire(self.box)
            w.spawn(["sleep", "30"], user=user)
            with self.assertRaises(harness.WireError, msg=user):
                w.finish()
            w.close()
        for pid in attack.pids_of(base):
            self.assertLessEqual(int(attack.status(pid)["Uid"].split()[0]),
                                 base + 65536)

    def test_E18_sizes_that_lie(self):
        """Nothing is left of an upload that was not whole."""
        url = self.f.url("content", "f")
        for head, body in (("Content-Length: 100", b"short"),
                           ("Transfer-Encoding: chunked", b"7fffffffffffffff\r\nx"),
                           ("Transfer-Encoding: chunked", b"5\r\nab"),
                           ("Content-Length: -5", b""),
                           ("Content-Length: 18446744073709551617", b"x")):
            c = harness.UnixHTTP(self.i.sock)
            c.connect()
            c.sock.sendall(f"PUT {url} HTTP/1.1\r\nHost: x\r\n{head}\r\n\r\n"
                           .encode() + body)
            c.sock.shutdown(1)
            with contextlib.suppress(OSError):
                while c.sock.recv(4096):
                    pass
            c.close()
            self.assertEqual(self.f.get("f").status, 404, head)
        wait_for("no part of it is left", lambda: self.i.sh(
            self.box, "ls -A").out == "", 10 * SLOW)


class Neighbour(harness.Case):
    """Of a sandbox that uses up what it can: the daemon and others go on."""

    def test_F14_denials_without_end(self):
        """Requests of nobody fill neither the log nor the disk."""
        def size():
            return sum(os.path.getsize(os.path.join(at, n))
                       for at, _, names in os.walk(f"{self.i.state_dir}/audit")
                       for n in names)
        before = size()
        threads = [threading.Thread(target=self.flood) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertLess(size() - before, 4 << 20)
        self.assertEqual(self.i.api("GET", "/v1/host").status, 200)

    def flood(self):
        for n in range(500):
            self.i.api("GET", f"/v1/sandboxes/nobody{n}", headers={
                "Authorization": f"Bearer e2b_{n:040x}"})

    def test_F16_many_at_once(self):
        """More than there may be: the rest is told so, and those live."""
        found = []

        def create():
            found.append(self.i.api("POST", "/v1/sandboxes", {
                "memory": 16 << 20, "disk": 16 << 20}).status)
        limit = self.i.conf["max_sandboxes"]
        self.i.conf["max_sandboxes"] = 6
        self.i.restart()
        try:
            threads = [threading.Thread(target=create) for _ in range(24)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
            self.assertEqual(sorted(set(found)), [201, 429], found)
            self.assertEqual(found.count(201), 6)
        finally:
            self.i.conf["max_sandboxes"] = limit
            self.i.api("DELETE", "/v1/sandboxes?all=true")
            self.i.restart()


if __name__ == "__main__":
    attack.own_network()
    harness.main()
