# suite: both
"""carrel cp: files and directories into a sandbox and out of it."""

import contextlib
import hashlib
import io
import os
import pty
import shutil
import tarfile
import tempfile
import time

import harness
from harness import Case


def tree(top):
    """{path: (mode, content, target or None for a directory)}"""
    found = {}
    for d, dirs, files in os.walk(top):
        for name in dirs + files:
            path = os.path.join(d, name)
            st = os.lstat(path)
            what = None
            if os.path.islink(path):
                what = ("->", os.readlink(path))
            elif os.path.isfile(path):
                with open(path, "rb") as f:
                    what = hashlib.sha256(f.read()).hexdigest()
            mode = None if os.path.islink(path) else st.st_mode & 0o777
            found[os.path.relpath(path, top)] = (mode, what)
    return found


class Copy(Case):
    def setUp(self):
        self.ref = self.i.create(name="work")
        self.dir = tempfile.mkdtemp(prefix="carrel-cp-")
        self.addCleanup(shutil.rmtree, self.dir)
        self.here = os.path.join(self.dir, "here")
        os.mkdir(self.here)

    def put(self, name, data=b"content\n", mode=0o644):
        path = os.path.join(self.here, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as f:
            f.write(data)
        os.chmod(path, mode)
        return path

    def cp(self, *args, code=0, **kw):
        p = self.i.cli("cp", *args, **kw)
        self.assertEqual(p.returncode, code, p.err)
        return p

    def sh(self, script):
        p = self.i.sh("work", script)
        self.assertEqual(p.returncode, 0, p.err)
        return p.out

    def test_file_in(self):
        path = self.put("script", b"#!/bin/sh\necho ran $0\n", 0o755)
        self.cp(path, "work:")
        self.cp(path, "work:other")
        self.cp(path, "work:/tmp/")
        self.cp(path, f"{self.ref[:8]}:/tmp/abs")
        self.assertEqual(self.sh("./script; ./other; /tmp/script; /tmp/abs"),
                         "ran ./script\nran ./other\nran /tmp/script\n"
                         "ran /tmp/abs\n")
        self.assertEqual(self.sh("stat -c '%a %U' script /tmp/abs"),
                         "755 user\n" * 2)
        self.assertIn("nowhere", self.cp(path, "work:nowhere/x", code=1).err)
        self.cp("-p", path, "work:nowhere/x")
        self.cp("-u", "root", path, "work:/root/x")
        self.assertEqual(self.i.cli("exec", "-u", "root", "work", "stat",
                                    "-c", "%U", "/root/x").out, "root\n")
        self.cp(path, "work:/root/y", code=1)

    def test_several_and_directories_to_be(self):
        a, b = self.put("a", b"1"), self.put("b", b"2")
        err = self.cp(a, b, "work:new/", code=1).err
        self.assertIn("new/ does not exist inside", err)
        self.cp(a, "work:new/", code=1)
        self.assertEqual(self.sh("test -e new || echo none"), "none\n")
        self.cp("-p", a, b, "work:new/")
        self.cp("-p", a, "work:deep/er/")
        self.assertEqual(self.sh("cat new/a new/b deep/er/a"), "121")
        self.cp(a, b, "work:new/a", code=1)
        self.assertEqual(self.sh("cat new/a"), "1")
        out = os.path.join(self.dir, "out")
        self.cp("work:new/a", "work:new/b", out, code=1)
        os.mkdir(out)
        self.cp("work:new/a", "work:new/b", out)
        self.assertEqual(sorted(os.listdir(out)), ["a", "b"])
        self.cp("work:new/a", os.path.join(self.dir, "none") + "/", code=1)

    def test_file_out(self):
        self.sh("echo text > f; chmod 640 f; ln -s f link; mkdir d")
        out = os.path.join(self.here, "out")
        self.cp("work:f", out)
        self.assertEqual(harness.read(out), "text\n")
        self.assertEqual(os.stat(out).st_mode & 0o777, 0o640)
        self.cp("work:f", self.here)
        self.assertEqual(harness.read(self.here + "/f"), "text\n")
        self.cp("work:/home/user/link", self.here + "/l")
        self.assertEqual(harness.read(self.here + "/l"), "text\n")
        self.assertEqual(self.cp("work:f", "-").out, "text\n")
        self.cp("work:f", "/dev/null")
        p = self.cp("work:none", out, code=1)
        self.assertIn("there is no none inside", p.err)
        self.assertEqual(harness.read(out), "text\n")  # untouched
        self.cp("work:f", self.here + "/no/such/dir", code=1)
        self.assertEqual(sorted(os.listdir(self.here)), ["f", "l", "out"])

    def test_large(self):
        data = os.urandom(40 << 20)
        path = self.put("large", data)
        self.cp(path, "work:/tmp/large")
        self.assertEqual(self.sh("sha256sum /tmp/large").split()[0],
                         hashlib.sha256(data).hexdigest())
        back = self.i.cli("cp", "work:/tmp/large", "-")
        self.assertEqual(hashlib.sha256(back.stdout).digest(),
                         hashlib.sha256(data).digest())

    def test_standard_input(self):
        self.cp("-", "work:piped", input=b"from a pipe")
        self.assertEqual(self.sh("cat piped"), "from a pipe")
        self.assertIn("is a directory",
                      self.cp("-", "work:/tmp", input=b"x", code=1).err)

    def test_progress(self):
        """On a terminal, for what takes its time; and only there."""
        for quiet in (False, True):
            ours, theirs = pty.openpty()
            p = self.i.popen("cp", *(["-q"] if quiet else []), "-",
                             "work:slow", stderr=theirs)
            os.close(theirs)
            for _ in range(15):
                p.stdin.write(b"x" * 100000)
                p.stdin.flush()
                time.sleep(0.1)
            p.stdin.close()
            self.assertEqual(p.wait(60), 0)
            p.stdout.close()
            seen = b""
            with contextlib.suppress(OSError):
                while data := os.read(ours, 4096):
                    seen += data
            os.close(ours)
            if quiet:
                self.assertEqual(seen, b"")
            else:
                self.assertRegex(seen, rb"copying, \d+(\.\d+)? [KM]iB \[1 s\]")
                self.assertTrue(seen.endswith(b"\r\x1b[K"), seen)

    def make_tree(self):
        self.put("src/a", b"a", 0o600)
        self.put("src/run", b"#!/bin/sh\n", 0o755)
        self.put("src/sub/deep/er/f", b"", 0o444)
        self.put("src/" + "n" * 255, os.urandom(100000))
        self.put("src/ütf-8 ☃", b"snow")
        self.put("src/bytes\udcff", b"not utf-8")
        os.symlink("../a", self.here + "/src/sub/link")
        os.symlink("/etc/passwd", self.here + "/src/absolute")
        os.mkdir(self.here + "/src/empty", 0o700)
        os.mkfifo(self.here + "/src/pipe")
        return self.here + "/src"

    def test_directory_there_and_back(self):
        src = self.make_tree()
        p = self.cp(src, "work:copy")
        self.assertIn("left out: pipe", p.err)
        os.unlink(src + "/pipe")
        self.cp("work:copy", self.here + "/back")
        self.assertEqual(tree(self.here + "/back"), tree(src))
        # Into what is there, and what is in it.
        self.cp(src, "work:copy")
        self.assertEqual(self.sh("cat copy/src/a copy/a"), "aa")
        self.cp(src + "/.", "work:/tmp/")
        self.assertEqual(self.sh("cat /tmp/a; readlink /tmp/sub/link"),
                         "a../a\n")
        self.cp("work:copy/sub", self.here)
        self.assertEqual(sorted(os.listdir(self.here + "/sub")),
                         ["deep", "link"])
        os.mkdir(self.here + "/all")
        self.cp("work:copy/.", self.here + "/all")
        self.assertIn("a", os.listdir(self.here + "/all"))

    def test_directory_as_tar(self):
        self.sh("mkdir d; echo x > d/f")
        p = self.cp("work:d", "-")
        with tarfile.open(fileobj=io.BytesIO(p.stdout)) as t:
            self.assertEqual(t.extractfile("f").read(), b"x\n")

    def test_sandbox_that_lies(self):
        """Links inside lead nowhere here."""
        self.sh("mkdir d; ln -s /etc d/etc; ln -s ../.. d/up; echo x > d/f; "
                "chmod 4755 d/f")
        victim = os.path.join(self.dir, "victim")
        os.mkdir(victim)
        os.mkdir(self.here + "/d")
        os.symlink(victim, self.here + "/d/f")
        self.cp("work:d", self.here)
        self.assertEqual(os.listdir(victim), [])
        self.assertEqual(harness.read(self.here + "/d/f"), "x\n")
        self.assertEqual(os.stat(self.here + "/d/f").st_mode & 0o7777, 0o755)
        self.assertEqual(os.readlink(self.here + "/d/up"), "../..")

    def test_refusals(self):
        path = self.put("f")
        for args in ([path, path], ["work:a", "work:b"], [path]):
            self.cp(*args, code=2)
        self.assertIn("nobody", self.cp(path, "nobody:x", code=1).err)
        self.cp(self.here + "/none", "work:", code=1)
        # With a colon, but not of a sandbox.
        odd = self.put("a:b", b"odd")
        self.cp(odd, "work:c")
        self.assertEqual(self.sh("cat c"), "odd")

    def test_full_disk_inside(self):
        self.i.create(name="small", disk="16M")
        path = self.put("large", os.urandom(40 << 20))
        p = self.i.cli("cp", path, "small:large")
        self.assertEqual(p.returncode, 1)
        self.assertRegex(p.err, r"^carrel: .+\n$")
        self.assertEqual(self.i.cli("exec", "small", "ls").out, "")
        os.mkdir(self.here + "/d")
        os.rename(path, self.here + "/d/large")
        p = self.i.cli("cp", self.here + "/d", "small:")
        self.assertEqual(p.returncode, 1)
        self.assertRegex(p.err, r"^carrel: .+\n$")


if __name__ == "__main__":
    harness.main()
