# suite: slow
# suite: sanitized
"""The worker against archives: hostile ones are refused or neutralised, honest
ones are unpacked exactly, and the process that does it is locked in.

No daemon: tests/unit/worker_run.c starts the worker as the warden does.
"""

import bz2
import gzip
import hashlib
import io
import lzma
import os
import re
import shutil
import stat
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest

import harness

sys.path.insert(0, os.path.join(harness.TOP, "tests/unit"))
import tar_corpus

WORKER = os.path.join(harness.BUILD, "bin/carrel-worker")
RUN = os.path.join(harness.BUILD, "unit/worker_run")
SHIM = os.path.join(harness.BUILD, "bin/carrel-sudo")
CAPS_KEPT = 0x1b  # CHOWN DAC_OVERRIDE FOWNER FSETID
MEMORY_MAX_KIB = 400 << 10


def fingerprint(top, but=()):
    """Everything below `top` that a write could change."""
    seen = []
    for where, dirs, files in os.walk(top):
        dirs[:] = [d for d in dirs if os.path.join(where, d) not in but]
        for name in sorted(dirs + files):
            path = os.path.join(where, name)
            st = os.lstat(path)
            data = b""
            if stat.S_ISREG(st.st_mode):
                with open(path, "rb") as f:
                    data = f.read()
            seen.append((path, st.st_mode, st.st_uid, st.st_gid, st.st_nlink,
                         st.st_mtime_ns, st.st_ctime_ns,
                         hashlib.sha256(data).hexdigest()))
    return sorted(seen)


class Root:
    """A directory for one image, with the canary beside it."""
    peak_kib = []  # of each worker so far

    def __init__(self, top):
        self.top = top
        self.path = os.path.join(top, "root")
        os.mkdir(self.path)

    def at(self, path):
        return os.path.join(self.path, path)

    def fill(self, data, *options, timeout=120):
        """Feeds a tar: exit code, status lines, log."""
        with tempfile.TemporaryFile() as err:
            p = subprocess.Popen([RUN, WORKER, self.path, SHIM, *options],
                                 stdin=subprocess.PIPE, stderr=err,
                                 stdout=subprocess.PIPE)
            try:
                out, _ = p.communicate(data, timeout)
            except subprocess.TimeoutExpired:
                p.kill()
                p.wait()
                raise AssertionError("the worker does not end") from None
            err.seek(0)
            log = err.read().decode(errors="replace")
        Root.peak_kib.append(int(re.search(r"peak_kib=(\d+)", log)[1]))
        return p.returncode, out.decode("ascii").splitlines(), log


class Case(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.top = tempfile.mkdtemp(prefix="worker-")
        os.chmod(self.top, 0o755)
        self.canary = os.path.join(self.top, "canary")
        os.mkdir(self.canary)
        os.chmod(self.canary, 0o777)
        with open(os.path.join(self.canary, "file"), "w") as f:
            f.write("alive\n")
        os.chmod(os.path.join(self.canary, "file"), 0o666)

    def tearDown(self):
        shutil.rmtree(self.top)

    def root(self):
        shutil.rmtree(os.path.join(self.top, "root"), ignore_errors=True)
        return Root(self.top)


class Hostile(Case):
    def judge(self, case):
        root = self.root()
        before = fingerprint(self.top, (root.path,))
        code, lines, log = root.fill(case.data())
        after = fingerprint(self.top, (root.path,))
        self.assertEqual(before, after, "something outside was changed")
        self.assertNotIn("Sanitizer", log)
        if case.refused is not None:
            self.assertEqual(code, 1, f"not refused: {lines} {log}")
            self.assertTrue(lines[-1].startswith("error "), lines)
            self.assertIn(case.refused, lines[-1])
        else:
            self.assertEqual(code, 0, f"{lines} {log}")
            self.assertTrue(lines[-1].startswith("done "), lines)
            case.check(root)
        for where, dirs, files in os.walk(root.path):
            for name in dirs + files:
                self.sane(os.path.join(where, name))

    def sane(self, path):
        """What no archive may bring about."""
        st = os.lstat(path)
        kind = stat.S_IFMT(st.st_mode)
        self.assertIn(kind, (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK,
                             stat.S_IFIFO), path)
        self.assertLess(max(st.st_uid, st.st_gid), 65536, path)
        if kind == stat.S_IFREG:
            self.assertFalse(st.st_mode & 0o6000, path)
        for name in os.listxattr(path, follow_symlinks=False):
            self.assertTrue(name.startswith("user."), path)


def hostile_test(index):
    def test(self):
        case = tar_corpus.cases(self.canary)[index]
        if harness.SANITIZED and case.name == "xz-dictionary-4g":
            self.skipTest("ASan excludes the limit on addresses")
        self.judge(case)
    return test


for i, case_ in enumerate(tar_corpus.cases("/canary")):
    setattr(Hostile, "test_" + case_.name.replace("-", "_").replace(".", "_"),
            hostile_test(i))


def entry(name, kind=tarfile.REGTYPE, data=b"", **kw):
    t = tarfile.TarInfo(name)
    t.type, t.size, t.mode, t.mtime = kind, len(data), 0o644, 1500000000
    for key, value in kw.items():
        setattr(t, key, value)
    return t, data


def honest():
    """Entries that any format holds, in order."""
    deep = "/".join(f"level{i:02}" for i in range(14))
    return [
        entry("bin", tarfile.DIRTYPE, mode=0o755, mtime=1111111111),
        entry("bin/tool", data=b"#!/bin/sh\n", mode=0o755),
        entry("bin/again", tarfile.LNKTYPE, linkname="bin/tool", mode=0o755),
        entry("bin/link", tarfile.SYMTYPE, linkname="../no/such/../target"),
        entry("bin/abs", tarfile.SYMTYPE, linkname="/bin/tool", uid=7, gid=8),
        entry("data/big", data=os.urandom(3 << 20), mode=0o600, uid=1000, gid=1000),
        entry("data/empty", mode=0o000, uid=65535, gid=12),
        entry("data/sticky", tarfile.DIRTYPE, mode=0o1777, uid=33),
        entry("data/setgid", tarfile.DIRTYPE, mode=0o2755, gid=50),
        entry("data/closed", tarfile.DIRTYPE, mode=0o000, uid=1000),
        entry("data/closed/in", data=b"inside"),
        entry("data/pipe", tarfile.FIFOTYPE, mode=0o620),
        entry("data/.wh.file", data=b"a name like any other"),
        entry("data/.wh..wh..opq", data=b""),
        entry("-rf *", data=b"odd"),
        entry("with space\tand\ttab", data=b"odd"),
        entry("data/" + "n" * 90, data=b"long"),
        entry(f"{deep}/file", data=b"deep"),
        entry("old", data=b"x", mtime=0),
    ]


def unicode_names():
    return [
        entry("caf\u00e9", data=b"composed"),
        entry("cafe\u0301", data=b"decomposed"),
        entry("\u65e5\u672c/\U0001f4e6", data=b"wide"),
        entry("\u03b1-link", tarfile.SYMTYPE, linkname="\u65e5\u672c"),
    ]


def long_names():
    path = "/".join("p" * 200 for _ in range(15))
    return [
        entry("n" * 255, data=b"longest name"),
        entry(path + "/file", data=b"long path"),
        entry("l" * 180, tarfile.SYMTYPE, linkname="t" * 1000),
        entry("hard", tarfile.LNKTYPE, linkname=path + "/file"),
    ]


def pack(entries, form, encoding="utf-8"):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form,
                      encoding=encoding, errors="surrogateescape") as t:
        for info, data in entries:
            t.addfile(info, io.BytesIO(data))
    return out.getvalue()


class Honest(Case):
    def unpack(self, data):
        root = self.root()
        code, lines, log = root.fill(data)
        self.assertEqual(code, 0, f"{lines} {log}")
        self.assertNotIn("Sanitizer", log)
        return root, lines

    def compare(self, root, entries):
        first = {}
        for info, data in entries:
            path = os.fsencode(root.at(info.name))
            st = os.lstat(path)
            if info.type == tarfile.LNKTYPE:
                self.assertEqual(st.st_ino, os.lstat(root.at(info.linkname)).st_ino)
                continue
            first[info.name] = st.st_ino
            kind = {tarfile.REGTYPE: stat.S_IFREG, tarfile.DIRTYPE: stat.S_IFDIR,
                    tarfile.SYMTYPE: stat.S_IFLNK, tarfile.FIFOTYPE: stat.S_IFIFO}
            self.assertEqual(stat.S_IFMT(st.st_mode), kind[info.type], info.name)
            self.assertEqual((st.st_uid, st.st_gid), (info.uid, info.gid), info.name)
            self.assertEqual(st.st_mtime, info.mtime, info.name)
            if info.type == tarfile.SYMTYPE:
                self.assertEqual(os.readlink(path), os.fsencode(info.linkname))
                continue
            self.assertEqual(stat.S_IMODE(st.st_mode), info.mode, info.name)
            if info.type == tarfile.REGTYPE:
                with open(path, "rb") as f:
                    self.assertEqual(f.read(), data, info.name)

    def test_formats_and_compressions(self):
        entries = honest()
        forms = {"ustar": tarfile.USTAR_FORMAT, "gnu": tarfile.GNU_FORMAT,
                 "pax": tarfile.PAX_FORMAT}
        packers = {"plain": lambda d: d, "gzip": gzip.compress,
                   "bzip2": bz2.compress, "xz": lzma.compress,
                   "zstd": tar_corpus.zstd}
        for form, number in forms.items():
            data = pack(entries, number)
            for name, packer in packers.items():
                with self.subTest(form=form, packed=name):
                    root, lines = self.unpack(packer(data))
                    self.compare(root, entries)
                    total = sum(len(d) for _, d in entries)
                    self.assertEqual(lines[-1], f"done {len(entries)} {total}")

    def test_unicode_and_long_names(self):
        tool = honest()[:2]
        for form in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
            entries = tool + unicode_names() + long_names()
            with self.subTest(form=form):
                root, _ = self.unpack(pack(entries, form))
                self.compare(root, entries)

    def test_names_that_are_no_text(self):
        name = os.fsdecode(b"latin-\xe9-\xff")
        entries = honest()[:2] + [entry(name, data=b"bytes")]
        for form in (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT):
            with self.subTest(form=form):
                root, _ = self.unpack(pack(entries, form))
                self.compare(root, entries)
        # pax says UTF-8, and some tars break that promise.
        raw = tar_corpus.tar(
            tar_corpus.pax([(b"path", b"latin-\xe9-\xff")]),
            tar_corpus.file(b"x", b"bytes"))()
        root, _ = self.unpack(raw)
        tar_corpus.is_file(name, b"bytes")(root)

    def test_fractions_of_seconds(self):
        info, data = entry("exact", data=b"x", mtime=1234567890.25)
        root, _ = self.unpack(pack(honest()[:2] + [(info, data)],
                                   tarfile.PAX_FORMAT))
        self.assertEqual(os.lstat(root.at("exact")).st_mtime_ns,
                         1234567890250000000)

    def test_sparse_files(self):
        source = os.path.join(self.top, "source")
        os.makedirs(source + "/bin")
        shutil.copy("/bin/true", source + "/bin/true")
        with open(source + "/holes", "wb") as f:
            for i in range(20):
                f.seek(i * (1 << 20) + 4096 * i)
                f.write(b"%d" % i * 3000)
            f.truncate(128 << 20)
        want = hashlib.sha256(open(source + "/holes", "rb").read()).digest()
        for form in ("oldgnu", "pax --sparse-version=0.0",
                     "pax --sparse-version=0.1", "pax --sparse-version=1.0"):
            with self.subTest(form=form):
                tar = subprocess.run(
                    f"tar -C {source} --sparse --format={form} -cf - .",
                    shell=True, check=True, stdout=subprocess.PIPE).stdout
                self.assertLess(len(tar), 4 << 20)
                root, _ = self.unpack(tar)
                with open(root.at("holes"), "rb") as f:
                    got = hashlib.sha256(f.read()).digest()
                self.assertEqual(got, want)
                self.assertLess(os.stat(root.at("holes")).st_blocks * 512, 8 << 20)

    def test_prepared_root(self):
        root, _ = self.unpack(pack(honest()[:2], tarfile.PAX_FORMAT))
        for path, mode in (("proc", 0o755), ("sys", 0o755), ("dev", 0o755),
                           ("tmp", 0o1777), ("run", 0o755), ("home", 0o755),
                           ("etc", 0o755), ("", 0o755)):
            tar_corpus.every(tar_corpus.is_dir(path), tar_corpus.mode_is(path, mode),
                             tar_corpus.owner_is(path, 0, 0))(root)
        tar_corpus.owner_is("home/user", 1000, 1000)(root)
        with open(root.at("etc/passwd")) as f:
            self.assertEqual(f.read(), "root:x:0:0:root:/root:/bin/sh\n"
                             "user:x:1000:1000::/home/user:/bin/sh\n")
        with open(root.at("etc/group")) as f:
            self.assertEqual(f.read(), "root:x:0:\nuser:x:1000:\n")
        with open(root.at("usr/local/bin/sudo"), "rb") as f, open(SHIM, "rb") as g:
            self.assertEqual(f.read(), g.read())
        tar_corpus.mode_is("usr/local/bin/sudo", 0o755)(root)
        with open(root.at("etc/hosts")) as f:
            self.assertIn("localhost", f.read())

    def test_an_image_keeps_its_own_user(self):
        passwd, group = b"node:x:1000:1000::/home/node:/bin/sh\n", b"node:x:1000:\n"
        root, _ = self.unpack(pack(honest()[:2] + [
            entry("etc/passwd", data=passwd), entry("etc/group", data=group),
            entry("etc/hosts", data=b"own\n"),
            entry("usr/bin/sudo", data=b"own\n")], tarfile.PAX_FORMAT))
        for path, want in (("etc/passwd", passwd), ("etc/group", group),
                           ("etc/hosts", b"own\n"), ("usr/bin/sudo", b"own\n")):
            tar_corpus.is_file(path, want)(root)
        self.assertFalse(os.path.exists(root.at("home/user")))

    def test_bash_and_a_line_without_end(self):
        root, _ = self.unpack(pack(honest()[:2] + [
            entry("bin/bash", data=b"x", mode=0o755), entry("usr/bin/env", data=b"x"),
            entry("etc/passwd", data=b"root:x:0:0::/:/bin/sh"),
            entry("etc/group", data=b"user:x:50:")], tarfile.PAX_FORMAT))
        with open(root.at("etc/passwd")) as f:
            self.assertEqual(f.read(), "root:x:0:0::/:/bin/sh\n"
                             "sandbox:x:1000:1000::/home/sandbox:/bin/bash\n")
        with open(root.at("etc/group")) as f:
            self.assertEqual(f.read(), "user:x:50:\nsandbox:x:1000:\n")
        self.assertEqual(os.readlink(root.at("usr/bin/sudo")),
                         "/usr/local/bin/sudo")

    def test_progress_is_rare(self):
        began = time.monotonic()
        _, lines = self.unpack(pack(honest()[:2] + [
            entry(f"f/{i}", data=b"x") for i in range(5000)], tarfile.USTAR_FORMAT))
        took = time.monotonic() - began
        self.assertLessEqual(len(lines), 10 * took + 3)
        for line in lines[:-1]:
            self.assertRegex(line, r"^progress \d+ \d+$")
        self.assertEqual(lines[-1], f"done 5002 {5000 + 10}")


class Cage(Case):
    def test_refuses_to_run_unconfined(self):
        p = subprocess.run([WORKER, "unpack"], stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.assertEqual(p.returncode, 1)
        self.assertIn(b"error confine the worker", p.stdout)

    def test_refuses_a_directory_with_a_way_up(self):
        code, lines, _ = self.root().fill(b"", "plain")
        self.assertEqual(code, 1)
        self.assertIn("not a mount of its own", lines[-1])

    def test_posture(self):
        root = self.root()
        p = subprocess.Popen([RUN, WORKER, root.path, SHIM], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE)
        try:
            # Unfinished: it is in the middle of its work, and waits.
            p.stdin.write(tar_corpus.EXE + tar_corpus.head(b"x", size=1 << 20))
            p.stdin.flush()
            harness.wait_for("the first entry", lambda: os.path.exists(root.at("x")))
            kids = f"/proc/{p.pid}/task/{p.pid}/children"
            pid = int(harness.read(kids).split()[0])
            self.look_at(pid)
        finally:
            p.kill()
            p.communicate()

    def look_at(self, pid):
        proc = f"/proc/{pid}"
        status = dict(line.split(":\t", 1) for line in
                      harness.read(proc + "/status").splitlines() if ":\t" in line)
        for name in ("CapPrm", "CapEff"):
            self.assertEqual(int(status[name], 16), CAPS_KEPT, name)
        for name in ("CapInh", "CapAmb", "CapBnd"):
            self.assertEqual(int(status[name], 16), 0, name)
        self.assertEqual(status["NoNewPrivs"].strip(), "1")
        self.assertEqual(status["Seccomp"].strip(), "2")
        self.assertEqual(status["NSpid"].split()[1:], ["1"])
        self.assertGreaterEqual(int(status["Uid"].split()[0]), 65536)
        for ns in ("user", "mnt", "pid", "net", "ipc", "uts"):
            self.assertNotEqual(os.readlink(f"{proc}/ns/{ns}"),
                                os.readlink(f"/proc/self/ns/{ns}"), ns)
        self.assertEqual(os.listdir(proc + "/root/"), [])
        mounts = harness.read(proc + "/mountinfo").splitlines()
        self.assertEqual(len(mounts), 1, mounts)
        self.assertRegex(mounts[0], r" / / ro,.*tmpfs")
        # 3 and its copy for reading; and the file that is being written.
        fds = sorted(int(fd) for fd in os.listdir(proc + "/fd"))
        self.assertLessEqual(len(fds), 8, fds)
        limits = harness.read(proc + "/limits")
        self.assertRegex(limits, r"Max processes +0 +0 ")
        self.assertRegex(limits, r"Max open files +64 +64 ")
        self.assertRegex(limits, r"Max core file size +0 +0 ")
        if not harness.SANITIZED:
            self.assertRegex(limits, r"Max address space +1073741824 +1073741824 ")

    def test_ends_when_nobody_listens(self):
        root = self.root()
        p = subprocess.Popen([RUN, WORKER, root.path, SHIM], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        p.stdout.close()
        try:
            for _ in range(4096):
                p.stdin.write(tar_corpus.file(b"bin/x", b"y" * 65536))
        except BrokenPipeError:
            pass
        try:
            p.stdin.close()
        except BrokenPipeError:
            pass
        self.assertEqual(p.wait(30), 1)


class Many(Case):
    @harness.plain_only
    def test_two_million_entries(self):
        root = self.root()
        with tempfile.TemporaryFile() as log:
            p = subprocess.Popen([RUN, WORKER, root.path, SHIM],
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                 stderr=log)
            try:
                p.stdin.write(tar_corpus.EXE)
                thousand = tar_corpus.folder(b"d" * 90 + b"/") * 1000
                for _ in range(2001):
                    p.stdin.write(thousand)
            except BrokenPipeError:
                pass
            out, _ = p.communicate(timeout=120)
            log.seek(0)
            peak = int(re.search(rb"peak_kib=(\d+)", log.read())[1])
        self.assertEqual(p.returncode, 1)
        self.assertIn(b"error over 2000000 entries", out)
        Root.peak_kib.append(peak)


class Zz(unittest.TestCase):
    """Runs last: the largest worker of all of the above."""

    def test_memory_was_bounded(self):
        if harness.SANITIZED:
            self.skipTest("the sanitizers' own memory is counted, too")
        self.assertLess(max(Root.peak_kib), MEMORY_MAX_KIB)


class Base(Case):
    def test_tree_becomes_a_file_system(self):
        """Locked in as it is, it reads what its owner closed; owners are as
        on disk."""
        root = self.root()
        os.mkdir(root.at("closed"), 0o700)
        os.chown(root.at("closed"), 1000, 1000)
        with open(root.at("closed/secret"), "w") as f:
            f.write("s" * 100000)
        os.chmod(root.at("closed/secret"), 0)
        os.chown(root.at("closed/secret"), 1000, 65534)
        os.link(root.at("closed/secret"), root.at("twin"))
        os.symlink("/etc/passwd", root.at("link"))
        out = os.path.join(self.top, "base")
        with open(out, "wb"):
            pass
        before = fingerprint(self.top, (out,))
        p = subprocess.run([RUN, WORKER, root.path, out, "base"],
                           stdin=subprocess.DEVNULL, capture_output=True,
                           timeout=120)
        self.assertEqual((p.returncode, p.stdout), (0, b"done 4 100000\n"),
                         p.stderr)
        tool = subprocess.run(["dump.erofs", "--path=/closed/secret", out],
                              capture_output=True, text=True, timeout=60)
        self.assertRegex(tool.stdout, r"Uid: 1000 +Gid: 65534")
        self.assertRegex(tool.stdout, r"Links: 2")
        subprocess.run(["fsck.erofs", out], check=True, timeout=60,
                       stdout=subprocess.DEVNULL)
        os.unlink(out)
        after = fingerprint(self.top)
        self.assertEqual([f for f in before if f[0] != out], after)


if __name__ == "__main__":
    harness.main()
