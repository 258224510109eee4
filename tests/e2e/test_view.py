# suite: sanitized
"""Workers that look at states of disks: what changed, what a merge would do,
tars, files, space; and trees that somebody made to hurt them."""

import io
import os
import struct
import tarfile
import time
import unittest

import harness
from harness import SLOW, wait_for
from view_link import (DIFF, FIFO, LAYER, MERGE, PACK, READ, REGULAR, SPACE,
                       SYMLINK, THEIRS, Failed, Views, question)
from warden_link import (COMMIT, IMPORT, REMOVE, SNAPSHOT_NEXT,
                         SNAPSHOT_REMOVE, Refused, cap, new_id)

ENOENT, EAGAIN, EBUSY, EISDIR, EINVAL, ELOOP = 2, 11, 16, 21, 22, 40


MANY = os.environ.get("VIEW_MANY")  # the long forms


class State(harness.Case):
    def setUp(self):
        super().setUp()
        self.image = self.i.api("GET", "/v1/images").json["images"][0]["id"]
        self.link = Views(self.i)

    def tearDown(self):
        for snap in self.link.each(SNAPSHOT_NEXT):
            self.remove(snap)
        self.link.close()
        super().tearDown()
        if MANY:  # which takes a while
            wait_for("the pool is empty", lambda: not os.listdir(
                self.i.pool() + "/trash"), 120 * SLOW)

    def remove(self, snap):
        """The end of a worker is seen a moment after its last word."""
        wait_for("the snapshot can go", lambda: self.link.code(
            SNAPSHOT_REMOVE, snap) != EBUSY, 10 * SLOW)

    def sh(self, box, script, user="root"):
        code, out = self.link.sh(box, "set -e; cd /home/user; " + script,
                                 user=user)
        self.assertEqual(code, 0, out)
        return out

    def launch(self, source="", **kw):
        kw.setdefault("flags", 1)  # root may be asked for
        return self.link.launch(self.image, source=source, **kw)

    def snap(self, box):
        """A state: its side."""
        return self.image, self.link.snapshot(box)[0]

    def after(self, script, source=""):
        """The state after a script."""
        box = self.launch(source)
        self.sh(box, script)
        side = self.snap(box)
        self.link.kill(box)
        return side

    def base(self):
        return self.image, ""

    def whats(self, before, after, paths=()):
        return {p.removeprefix("/home/user/"): w for p, (w, _, _) in
                self.link.diff(before, after, paths).items()}


class Diff(State):
    BEFORE = """mkdir d e e/f g; echo one >same; echo one >changed; cp changed moded
        cp changed gone; cp changed typed; ln -s a link; ln -s a retarget
        echo x >e/f/x; echo y >d/y; touch empty; mkfifo fifo; echo 1 >'a b'
        chown 1000:1000 same"""
    AFTER = """echo two >changed; chmod 700 moded; rm gone; rm typed; mkdir typed
        ln -sf b retarget; echo y2 >>d/y; mv e e2; echo n >new
        chown 1000:1000 moded; echo o >"$(printf 'n\\nl')"; mkdir -p p/q/r
        rm -r g; chmod 711 d; touch same"""
    WANT = {"changed": "content", "moded": "mode+owner", "gone": "type",
            "typed": "type", "retarget": "content", "d": "mode",
            "d/y": "content", "e": "type", "e/f": "type", "e/f/x": "type",
            "e2": "type", "e2/f": "type", "e2/f/x": "type", "new": "type",
            "n\nl": "type", "p": "type", "p/q": "type", "p/q/r": "type",
            "g": "type"}

    def test_of_one_sandbox(self):
        box = self.launch()
        self.sh(box, self.BEFORE)
        before = self.snap(box)
        self.sh(box, self.AFTER)
        after = self.snap(box)
        self.assertEqual(self.whats(before, after), self.WANT)
        self.assertEqual(self.whats(before, before), {})
        self.assertEqual(self.whats(after, after), {})
        back = self.whats(after, before)
        self.assertEqual(back, self.WANT)

    def test_of_a_fork(self):
        before = self.after(self.BEFORE)
        after = self.after(self.AFTER, before[1])
        self.assertEqual(self.whats(before, after), self.WANT)
        self.assertEqual(self.whats(before, self.after("true", before[1])), {})

    def test_of_strangers(self):
        """The same files, made twice: nothing but content counts."""
        one, two = self.after(self.BEFORE), self.after(self.BEFORE)
        self.assertEqual(self.whats(one, two), {})

    def test_entries(self):
        side = self.after("echo hello >f; chmod 640 f; ln -s t l; mkfifo p; "
                          "chown 7:8 f")
        got = self.link.diff(self.base(), side, ["/home/user"])
        what, was, now = got["/home/user/f"]
        self.assertEqual((what, was), ("type", None))
        self.assertLess(abs(now.pop("mtime") / 1000 - time.time()), 600 * SLOW)
        self.assertEqual(now, {"type": REGULAR, "mode": 0o640, "uid": 7,
                               "gid": 8, "size": 6, "target": ""})
        self.assertEqual(got["/home/user/l"][2]["type"], SYMLINK)
        self.assertEqual(got["/home/user/l"][2]["target"], "t")
        self.assertEqual(got["/home/user/p"][2]["type"], FIFO)
        self.assertEqual(list(got), sorted(got))

    def test_against_the_image(self):
        side = self.after("rm /etc/group; echo x >>/etc/passwd; mv /etc /cte; "
                          "rm -r /var; mkdir /var; echo x >/var/f")
        got = self.whats(self.base(), side)
        self.assertEqual({p: w for p, w in got.items()
                          if not p.startswith("/cte/")}.keys() &
                         {"/etc", "/etc/group", "/etc/passwd", "/cte", "/var/f",
                          "/var/tmp"},
                         {"/etc", "/etc/group", "/etc/passwd", "/cte", "/var/f",
                          "/var/tmp"})
        self.assertIn("/cte/passwd", got)
        self.assertNotIn("/cte/group", got)
        self.assertNotIn("/bin/busybox", got)
        self.assertNotIn("/var", got)  # one directory for another

    def test_paths(self):
        side = self.after("mkdir -p a/b ab; echo 1 >a/b/c; echo 1 >ab/d; "
                          "echo 1 >e; ln -s a l")
        for paths, want in (
                (["/home/user/a"], {"a", "a/b", "a/b/c"}),
                (["/home/user/a/b/c"], {"a/b/c"}),
                (["/home/user/a", "/home/user/a/b", "/home/user/e"],
                 {"a", "a/b", "a/b/c", "e"}),
                (["/home/user/none/at/all"], set()),
                (["/home/user/e/below"], set())):
            self.assertEqual(set(self.whats(self.base(), side, paths)), want)
        with self.assertRaises(Failed) as r:
            self.link.diff(self.base(), side, ["/home/user/l/b"])
        self.assertEqual(r.exception.code, ELOOP)

    def test_in_lockstep(self):
        """Two forks do the same at the same time: same sizes, same inode
        numbers, other content."""
        before = self.after("true")
        boxes = [self.launch(before[1]) for _ in range(2)]
        for n, box in enumerate(boxes):
            self.sh(box, f"for i in $(seq 50); do echo {n} >f$i; done")
        sides = [self.snap(box) for box in boxes]
        self.assertEqual(len(self.whats(*sides)), 50)

    def test_attributes(self):
        box = self.launch()
        self.sh(box, "touch f g; mkdir d")
        before = self.snap(box)
        # As setfattr inside would do, which the image does not have.
        top = f"{self.i.pool()}/box/{box}/tree/upper/home/user/"
        for name, value in (("f", b"1"), ("d", b"two\n")):
            os.setxattr(top + name, "user.x", value)
        after = self.snap(box)
        os.setxattr(top + "f", "user.x", b"2")
        last = self.snap(box)
        self.assertEqual(self.whats(before, after), {"d": "attrs", "f": "attrs"})
        self.assertEqual(self.whats(after, last), {"f": "attrs"})
        tar = tarfile.open(fileobj=io.BytesIO(
            self.link.data(PACK, after, paths=["/home/user"])))
        self.assertEqual({m.name: m.pax_headers["SCHILY.xattr.user.x"]
                          for m in tar if m.pax_headers},
                         {"home/user/f": "1", "home/user/d": "two\n"})

    def test_same_bytes(self):
        """Content decides, where nothing else can."""
        one = self.after("dd if=/dev/zero bs=1M count=2 of=z 2>/dev/null; "
                         "truncate -s 1099511627776 sparse; echo x >>z")
        two = self.after("truncate -s 2M z; echo x >>z; truncate -s 1099511627776 sparse")
        self.assertEqual(self.whats(one, two), {})
        two = self.after("truncate -s 2M z; echo y >>z; truncate -s 1099511627776 sparse; "
                         "echo . | dd of=sparse bs=1 seek=1000000000000 "
                         "conv=notrunc 2>/dev/null")
        self.assertEqual(self.whats(one, two),
                         {"z": "content", "sparse": "content"})

    def test_many_files(self):
        many = 80000 if MANY else 4000
        box = self.launch(disk=512 << 20)
        self.sh(box, "mkdir t; cd t; for d in $(seq 50); do mkdir d$d; cd d$d; "
                f"seq {many // 50} | xargs touch; cd ..; done")
        before = self.snap(box)
        self.sh(box, "echo x >t/d7/7")
        after = self.snap(box)
        began = time.monotonic()
        self.assertEqual(self.whats(before, after), {"t/d7/7": "content"})
        print(f"# {many} files: {time.monotonic() - began:.2f} s")


class Merge(State):
    """Ancestor, theirs, ours: three states."""

    def plan(self, before, theirs, ours, paths=()):
        a = self.after(before)
        sides = a, self.after(theirs, a[1]), self.after(ours, a[1])
        self.sides = sides
        return [(p.removeprefix("/home/user/"), s) for p, s in
                self.link.merge(*sides, paths)]

    def test_files(self):
        got = self.plan(
            "for i in 1 2 3 4 5 6 7 8 9; do echo $i >f$i; done",
            "echo t >f1; rm f2; echo t >f3; echo t >f4; echo n >n1; echo s >f6;"
            "rm f7; rm f8; chmod 700 f9; echo t >n2; echo t >n3",
            "echo o >f3; echo t >f4; echo o >f5; echo s >f6; rm f7; echo o >f8;"
            "echo t >n2; echo o >n3")
        self.assertEqual(dict(got), {
            "f1": "put", "f2": "remove", "f3": "conflict", "f4": "same",
            "f6": "same", "f7": "same", "f8": "conflict", "f9": "put",
            "n1": "put", "n2": "same", "n3": "conflict"})

    def test_directories(self):
        got = self.plan(
            "mkdir a b c d e; for i in a b c d e; do echo 1 >$i/f; echo 2 >$i/g;"
            "done",
            # removed; removed; removed; new content; replaced by a file
            "rm -r a b c; echo t >d/f; echo t >d/n; rm -r e; echo e >e; "
            "mkdir -p m/n; echo t >m/n/o",
            # untouched; changed in it; added to it; removed; untouched
            "echo o >b/f; echo o >c/n; rm -r d")
        self.assertEqual(got, [
            ("a/f", "remove"), ("a/g", "remove"), ("a", "remove"),
            ("b/f", "conflict"), ("b/g", "remove"), ("b", "conflict"),
            ("c/f", "remove"), ("c/g", "remove"), ("c/n", "conflict"),
            ("c", "conflict"),
            ("d/f", "conflict"), ("d/n", "conflict"),
            ("e/f", "remove"), ("e/g", "remove"), ("e", "put"),
            ("m", "put"), ("m/n", "put"), ("m/n/o", "put")])

    def test_types(self):
        got = self.plan(
            "echo 1 >a; echo 1 >b; mkdir c d; echo 1 >c/f; echo 1 >d/f; "
            "echo 1 >e",
            "rm a b; mkdir a b; echo t >a/x; echo t >b/x; rm -r c; echo t >c; "
            "rm -r d; mkdir g; echo t >g/x",
            "echo o >b; echo o >c/f; rm -r d; echo o >g; rm e; mkdir e")
        self.assertEqual(got, [
            ("a", "put"), ("a/x", "put"), ("b", "conflict"),
            ("b/x", "conflict"), ("c/f", "conflict"), ("c", "conflict"),
            ("d/f", "same"), ("d", "same"),
            ("g", "conflict"), ("g/x", "conflict")])

    def test_only_ours_changed(self):
        self.assertEqual(self.plan("mkdir a; echo 1 >a/f; echo 1 >g", "true",
                                   "rm -r a; echo 2 >g; echo 3 >h"), [])

    def test_its_tar(self):
        self.plan("mkdir d; echo 1 >d/mine; echo 1 >d/f; echo 1 >c",
                  "chmod 711 d; echo t >d/f; echo t >c; mkdir n; echo t >n/x",
                  "echo o >d/mine; echo o >c")
        names = lambda flags: [
            m.name.removeprefix("home/user/") for m in
            tarfile.open(fileobj=io.BytesIO(self.link.data(
                PACK, *self.sides, flags=flags)))]
        self.assertEqual(names(0), ["d", "d/f", "n", "n/x"])
        self.assertEqual(names(THEIRS), ["c", "d", "d/f", "n", "n/x"])


class Pack(State):
    def tar(self, *sides, **kw):
        return tarfile.open(fileobj=io.BytesIO(
            self.link.data(PACK, *sides, **kw)))

    def test_whole(self):
        side = self.after(
            "mkdir d; echo hello >d/f; ln d/f d/g; ln -s f d/l; mkfifo d/p; "
            "chmod 4751 d/f; chown 7:8 d/f; touch -d @1700000000 d/f; "
            f"mkdir -p {'x' * 120}/{'y' * 120}; echo 1 >{'x' * 120}/"
            f"{'y' * 120}/{'z' * 120}; echo 1 >'n\nl'")
        tar = self.tar(side)
        t = {m.name: m for m in tar}
        f, g = t["home/user/d/f"], t["home/user/d/g"]
        self.assertEqual((f.mode & 0o777, f.uid, f.gid, f.size, f.mtime),
                         (0o751, 7, 8, 6, 1700000000))
        self.assertEqual(tar.extractfile(f).read(), b"hello\n")
        self.assertTrue(g.islnk() and g.linkname == "home/user/d/f")
        self.assertEqual(t["home/user/d/l"].linkname, "f")
        self.assertTrue(t["home/user/d/p"].isfifo())
        self.assertIn("home/user/n\nl", t)
        self.assertIn(f"home/user/{'x' * 120}/{'y' * 120}/{'z' * 120}", t)
        self.assertTrue(t["bin/busybox"].size > 100000)
        image = self.tar(self.base())
        self.assertEqual({m.name for m in image} - set(t), set())

    def test_paths(self):
        side = self.after("mkdir -p a/b; echo 1 >a/b/c; echo 2 >d; echo 3 >e")
        tar = self.tar(side, paths=["/home/user/a", "/home/user/e"])
        self.assertEqual(tar.getnames(), ["home/user/a", "home/user/a/b",
                                          "home/user/a/b/c", "home/user/e"])
        with self.assertRaises(Failed) as r:
            self.tar(side, paths=["/home/user/none"])
        self.assertEqual(r.exception.code, ENOENT)

    def test_layer(self):
        before = self.after("mkdir d e; echo 1 >d/f; echo 1 >d/g; echo 1 >e/f; "
                            "echo 1 >t")
        after = self.after("echo 2 >d/f; rm d/g; rm -r e; echo n >n; rm t; "
                           "mkdir t; echo 1 >t/x", before[1])
        tar = self.tar(before, after, flags=LAYER)
        names = [n.removeprefix("home/user/") for n in tar.getnames()]
        self.assertEqual(names, ["d/f", "d/.wh.g", ".wh.e", "n", "t", "t/x"])
        self.assertEqual(tar.extractfile("home/user/d/f").read(), b"2\n")
        bad = self.after("echo 1 >.wh.x", before[1])
        with self.assertRaises(Failed) as r:
            self.tar(before, bad, flags=LAYER)
        self.assertEqual(r.exception.code, EINVAL)


class Read(State):
    def read(self, side, path):
        return self.link.data(READ, side, paths=[path])

    def code(self, side, path):
        with self.assertRaises(Failed) as r:
            self.read(side, path)
        return r.exception.code

    def test_files(self):
        side = self.after("seq 100000 >f; touch e; mkdir d; mkfifo p; ln -s f l;"
                          "ln -s d k; echo 1 >d/x; ln -s / r; ln -s ../../.. u; "
                          "chmod 0 f")
        want = "".join(f"{n}\n" for n in range(1, 100001)).encode()
        self.assertEqual(self.read(side, "/home/user/f"), want)
        self.assertEqual(self.read(side, "/home/user/e"), b"")
        self.assertEqual(self.read(side, "/home/user/k/x"), b"1\n")
        for path in ("/home/user/r/etc/passwd", "/home/user/u/etc/passwd"):
            self.assertEqual(self.read(side, path),
                             self.read(self.base(), "/etc/passwd"))
        self.assertEqual(self.code(side, "/home/user/d"), EISDIR)
        self.assertEqual(self.code(side, "/home/user/p"), EINVAL)
        self.assertEqual(self.code(side, "/home/user/l"), EINVAL)
        self.assertEqual(self.code(side, "/home/user/x"), ENOENT)

    def test_space(self):
        box = self.launch()
        self.sh(box, "dd if=/dev/urandom of=f bs=1M count=4 2>/dev/null; "
                     "ln f g; mkdir d; rm /etc/group")
        side = self.snap(box)
        used, shared, entries = self.link.space(side)
        self.assertTrue(4 << 20 <= used < 5 << 20, used)
        if self.i.api("GET", "/v1/host").json["pool"]["driver"] == "btrfs":
            self.assertGreaterEqual(shared, 4 << 20)  # the sandbox has it too
        self.assertGreaterEqual(entries, 6)


class Save(State):
    """Snapshots that become images."""

    def save(self, side, image=None):
        """The last line of the worker, and the image."""
        image = image or new_id()
        self.link.ask(IMPORT, image, cap(side[0], 28) + cap(side[1], 28) +
                      struct.pack("<I", 1))
        codes, fds = self.link.answers(1)
        self.assertEqual(set(codes.values()), {0})
        os.close(fds[0])
        with os.fdopen(fds[1]) as f:
            return f.read().splitlines()[-1], image

    def commit(self, side):
        line, image = self.save(side)
        self.assertRegex(line, r"^done \d+ \d+$")
        _, entries, size = line.split()
        self.assertGreater(int(entries), 250)  # all, not only what is new
        self.assertGreater(int(size), 1 << 20)
        self.link.call(COMMIT, image)
        self.addCleanup(lambda: wait_for("the image can go", lambda:
                                         Views(self.i).code(REMOVE, image)
                                         != EBUSY, 10 * SLOW))
        return image, ""

    def test_becomes_what_it_was(self):
        side = self.after(
            Diff.BEFORE + "; dd if=/dev/urandom of=big bs=1M count=3 "
            "2>/dev/null; ln big big2; ln /bin/busybox bb; rm /etc/group; "
            "mv /usr /rsu; rm -r /var; mkdir /var; echo x >/var/f; "
            "rm -r /root; echo file >/root; mkdir -p p/q; rmdir p/q; "
            "truncate -s 10000000 hole; echo x >>hole; touch -d @1600000000 d")
        image = self.commit(side)
        # What every image must have is made again.
        self.assertEqual({p for p in self.whats(image, side) if not
                          p.startswith("/usr")} -
                         {"/etc/group", "/root", "/var/tmp"}, set())
        box = self.link.launch(image[0], flags=1)
        self.assertEqual(
            self.sh(box, "cat same e/f/x; readlink link; stat -c %h big bb; "
                    "stat -c %u same; cmp big big2; cat /var/f").split(),
            ["one", "x", "a", "2", "2", "1000", "x"])
        self.assertLess(int(self.sh(box, "stat -c %b hole")), 1000)
        self.assertEqual(self.sh(box, "stat -c %Y d"), "1600000000\n")
        self.link.kill(box)
        if self.i.api("GET", "/v1/host").json["pool"]["driver"] == "btrfs":
            # It shares what the snapshot has on disk.
            self.assertGreater(self.link.space(side)[1], 3 << 20)

    def test_nothing_changed(self):
        image = self.commit(self.after("true"))
        self.assertEqual(self.whats(self.base(), image), {})

    def test_attributes(self):
        box = self.launch()
        self.sh(box, "touch f; mkdir d")
        top = f"{self.i.pool()}/box/{box}/tree/upper/home/user/"
        for name in ("f", "d"):
            os.setxattr(top + name, "user.x", b"1")
        side = self.snap(box)
        self.assertEqual(self.whats(side, self.commit(side), ["/home/user"]), {})

    def test_rules_of_imports(self):
        side = self.after("cp /bin/busybox s; chmod 6755 s; mkdir g; chmod 2775 "
                          "g; mkfifo p")
        image = self.commit(side)
        got = self.link.diff(side, image, ["/home/user"])
        self.assertEqual(list(got), ["/home/user/s"])
        self.assertEqual(got["/home/user/s"][2]["mode"], 0o755)

    def test_cannot_start(self):
        """What nothing could start from is refused, and leaves nothing."""
        side = self.after("rm -r /tmp; ln -s /etc /tmp")
        line, image = self.save(side)
        self.assertRegex(line, "^error .*tmp")
        self.assertEqual(self.link.code(COMMIT, image), 74)  # EBADMSG
        self.link.call(REMOVE, image)
        self.assertEqual(self.link.code(REMOVE, image), ENOENT)

    def test_bad_requests(self):
        side = self.after("true")
        for kind, base, snap, code in (
                (1, "", side[1], EINVAL), (1, self.image, "", EINVAL),
                (0, self.image, "", EINVAL), (2, self.image, side[1], EINVAL),
                (1, self.image, "../x", EINVAL),
                (1, new_id(), side[1], ENOENT), (1, self.image, new_id(), ENOENT)):
            self.assertEqual(self.link.code(
                IMPORT, new_id(), cap(base, 28) + cap(snap, 28) +
                struct.pack("<I", kind)), code, (kind, base, snap))

    def test_who_asked_leaves(self):
        side, other = self.after("true"), Views(self.i)
        other.ask(IMPORT, new_id(), cap(side[0], 28) + cap(side[1], 28) +
                  struct.pack("<I", 1))
        other.close()
        wait_for("it ends", lambda: not self.i.pids().get("carrel-worker"),
                 10 * SLOW)
        self.remove(side[1])
        wait_for("nothing is left", lambda: not os.listdir(
            self.i.pool() + "/stage"), 10 * SLOW)


class Hostile(State):
    def test_bad_requests(self):
        side = self.after("true")
        for work, sides in (
                (0, [side]), (6, [side]), (DIFF, [side]), (DIFF, []),
                (DIFF, [side] * 3), (MERGE, [side] * 2), (READ, [side] * 2),
                (SPACE, [self.base()]), (READ, [("../../etc", "")]),
                (READ, [(self.image, "x/../..")]), (READ, [("", side[1])])):
            with self.assertRaises(Refused) as r:
                self.link.start(work, *sides)
            self.assertEqual(r.exception.code, EINVAL, (work, sides))
        for sides in ([(new_id(), "")], [(self.image, new_id())]):
            with self.assertRaises(Refused) as r:
                self.link.start(READ, *sides)
            self.assertEqual(r.exception.code, ENOENT)
        for raw in (b"", b"x" * 100, question(["/a/../b"]), question(["a"]),
                    question([], 16), question() + b"x", b"\0" * (1 << 20)):
            ask, out = self.link.start(DIFF, side, side)
            with os.fdopen(ask, "wb", 0) as f, os.fdopen(out, "rb") as g:
                try:
                    f.write(raw)
                except BrokenPipeError:
                    pass
                f.close()
                self.assertEqual(g.read()[4], 7)  # VIEW_ERROR, and no more

    def test_its_reader_leaves(self):
        side = self.after("truncate -s 1099511627776 f; echo x >>f")
        for _ in range(4):
            ask, out = self.link.start(READ, side)
            os.write(ask, question(["/home/user/f"]))
            os.close(ask)
            os.read(out, 100)
            self.assertEqual(self.link.code(SNAPSHOT_REMOVE, side[1]), EBUSY)
            self.assertEqual(self.link.code(REMOVE, self.image), EBUSY)
            os.close(out)
            wait_for("it ends", lambda: not self.i.pids().get("carrel-worker"),
                     10 * SLOW)
        self.remove(side[1])

    def test_who_asked_leaves(self):
        side = self.after("true")
        other = Views(self.i)
        fds, code = [], 0
        while not code and len(fds) < 100:
            try:
                fds.append(other.start(DIFF, side, side))
            except Refused as e:
                code = e.code
        self.assertEqual(code, EAGAIN)
        self.assertGreaterEqual(len(fds), 8)
        other.close()
        wait_for("they end", lambda: not self.i.pids().get("carrel-worker"),
                 10 * SLOW)
        for pair in fds:
            for fd in pair:
                os.close(fd)
        self.remove(side[1])

    def test_the_warden_dies(self):
        """Its workers end with it, and hold nothing any more."""
        side = self.after("truncate -s 1099511627776 f; echo x >>f")
        ask, out = self.link.start(READ, side)
        os.write(ask, question(["/home/user/f"]))
        os.close(ask)
        os.read(out, 100)
        self.i.kill_role("carrel-warden")
        wait_for("the worker ends", lambda: not
                 self.i.pids().get("carrel-worker"), 10 * SLOW)
        os.close(out)
        self.i.wait_ready()
        self.link = Views(self.i)
        self.assertNotEqual(self.link.code(SNAPSHOT_REMOVE, side[1]), EBUSY)
        wait_for("its group is gone", lambda: not [
            g for g in self.i.cgroups() if os.path.basename(g)[:1] == "b"],
            20 * SLOW)

    def test_trees(self):
        """Deep, in circles, with fifos, unreadable."""
        script = """mkdir deep; cd deep; i=0
            while [ $i -lt 1200 ]; do mkdir -p d/d/d/d/d; cd d/d/d/d/d
            i=$((i + 5)); done; echo bottom >f; cd /home/user
            ln -s . loop; ln -s /proc proc; ln -s ../../../../etc etc
            mkfifo fifo; mkdir closed; echo 1 >closed/f; chmod 0 closed"""
        one = self.after(script)
        two = self.after("chmod 7 closed; echo 2 >closed/f; chmod 0 closed; "
                         "i=0; cd deep; while [ $i -lt 240 ]; do cd d/d/d/d/d; "
                         "i=$((i + 1)); done; echo top >f", one[1])
        bottom = "deep/" + "d/" * 1200 + "f"
        self.assertEqual(self.whats(one, two),
                         {"closed/f": "content", bottom: "content"})
        self.assertEqual(self.link.merge(one, two, one), [
            ("/home/user/closed/f", "put"), (f"/home/user/{bottom}", "put")])
        names = tarfile.open(fileobj=io.BytesIO(self.link.data(
            PACK, two, paths=["/home/user"]))).getnames()
        self.assertIn(f"home/user/{bottom}", names)
        self.assertFalse([n for n in names if n.startswith("home/user/proc/")])

    @unittest.skipUnless(MANY, "VIEW_MANY is not set")
    def test_a_million_names(self):
        """In one directory, on both sides."""
        box = self.launch(disk=1536 << 20, mem=1 << 30)
        self.sh(box, "mkdir m")
        for n in range(1, 1000001, 50000):
            self.sh(box, f"cd m; seq {n} {n + 49999} | xargs touch")
        one = self.snap(box)
        self.sh(box, "touch m/0; rm m/7")
        two = self.snap(box)
        began = time.monotonic()
        self.assertEqual(self.whats(one, two), {"m/0": "type", "m/7": "type"})
        print(f"# a million names: {time.monotonic() - began:.1f} s")

    def test_too_deep(self):
        """Deeper than a path can say: refused, and said."""
        dirs = "/".join(["x" * 250] * 10)
        side = self.after(f"mkdir a b; cd a; mkdir -p {dirs}; cd ../b; "
                          f"mkdir -p {dirs}; cd {dirs}; mv /home/user/a .")
        with self.assertRaises(Failed) as r:
            self.link.diff(self.base(), side)
        self.assertEqual(r.exception.code, 36)  # ENAMETOOLONG


if __name__ == "__main__":
    harness.main()
