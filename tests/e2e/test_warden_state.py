# suite: sanitized
"""The warden and the disks of sandboxes: snapshots, what starts from them."""

import contextlib
import os
import random
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time

import harness
from harness import SLOW, wait_for
from warden_link import (ALLOW_MISSING_DISK, KILL_ALL, LAUNCH, PAUSE, PAUSED,
                         PAUSE_USER, PERSIST, SNAPSHOT, SNAPSHOT_NEXT,
                         SNAPSHOT_REMOVE, STAY, VOLUME_NEXT, VOLUME_REMOVE,
                         Link, Refused, cap, new_id)

ENOENT, ESRCH, EBUSY, EEXIST, ENOTDIR, EINVAL = 2, 3, 16, 17, 20, 22

LONG = os.environ.get("STATE_LONG")  # also what takes many seconds


class State(harness.Case):
    CONF = {"max_sandboxes": 220, "spares": 2}

    def setUp(self):
        super().setUp()
        self.image = self.i.api("GET", "/v1/images").json["images"][0]["id"]
        self.link = Link(self.i)

    def tearDown(self):
        for snap in self.link.each(SNAPSHOT_NEXT):
            # The api throws away what it does not know, too.
            self.assertIn(self.link.code(SNAPSHOT_REMOVE, snap), (0, ENOENT))
        self.link.close()
        super().tearDown()

    def sh(self, box, script, **kw):
        code, out = self.link.sh(box, script, **kw)
        self.assertEqual(code, 0, out)
        return out.strip()


    def relink(self):
        def again():
            try:
                self.link = Link(self.i)
                return True
            except OSError:
                return False
        wait_for("a warden", again, 20 * SLOW)
        return self.link

    @contextlib.contextmanager
    def api_asleep(self):
        """It would end sandboxes that are not its own."""
        pid = self.i.pids()["carrel-api"][0]
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            # Spares that it makes afterwards may stay.
            left = set(self.link.boxes())
            os.kill(pid, signal.SIGCONT)
            wait_for("the api has its list",
                     lambda: not left & set(self.link.boxes()), 20 * SLOW)


class Snapshots(State):
    def test_from_a_snapshot(self):
        box = self.link.launch(self.image)
        self.sh(box, "cd /home/user; echo one >a; mkdir d; echo x >d/f; "
                     "rm -r /usr/share 2>/dev/null; mv d e")
        snap, pause, used = self.link.snapshot(box)
        self.assertGreater(pause, 0)
        self.assertEqual(used > 0, not self.link.flags)  # without quotas: 0
        self.sh(box, "cd /home/user; echo two >a; rm -r e")
        child = self.link.launch(self.image, source=snap)
        self.assertEqual(self.sh(child, "cd /home/user; cat a e/f; ls"),
                         "one\nx\na\ne")
        self.assertEqual(self.sh(box, "cat /home/user/a"), "two")
        self.sh(child, "echo three >/home/user/a")
        # The parent ends, its snapshot stays; so does that of the child.
        self.link.kill(box)
        second = self.link.snapshot(child)[0]
        self.assertEqual(sorted(self.link.each(SNAPSHOT_NEXT)),
                         sorted([snap, second]))
        for source, want in ((snap, "one"), (second, "three")):
            grandchild = self.link.launch(self.image, source=source)
            self.assertEqual(self.sh(grandchild, "cat /home/user/a"), want)

    def test_rolled_back(self):
        """The same id again, from its snapshot."""
        box = self.link.launch(self.image)
        self.sh(box, "echo before >/home/user/a")
        snap = self.link.snapshot(box)[0]
        self.sh(box, "echo after >/home/user/a")
        self.link.kill(box)
        self.link.launch(self.image, box=box, source=snap)
        self.assertEqual(self.sh(box, "cat /home/user/a"), "before")

    @harness.plain_only
    def test_the_limit_holds(self):
        """Across snapshot, change and rollback; then nothing is left."""
        if self.link.flags:
            self.skipTest("this pool has no limits")
        fill = "dd if=/dev/zero of=/home/user/%s bs=1M count=40 2>&1; sync"
        groups = self.groups() if LONG else 0
        box = self.link.launch(self.image)
        self.sh(box, fill % "a")
        snap = self.link.snapshot(box)[0]
        self.sh(box, "rm /home/user/a")
        self.assertIn("uota", self.link.sh(box, fill % "b")[1])
        for _ in range(2):
            self.link.kill(box)
            self.link.launch(self.image, box=box, source=snap)
            self.assertIn("uota", self.link.sh(box, fill % "b")[1])
        # Full to the brim it can be saved and brought back all the same.
        full = self.link.snapshot(box)[0]
        self.link.kill(box)
        self.link.launch(self.image, box=box, source=full)
        self.assertIn("uota", self.link.sh(box, fill % "c")[1])
        self.link.call(SNAPSHOT_REMOVE, full)
        # A fork has a limit of its own.
        child = self.link.launch(self.image, source=snap)
        self.sh(child, fill % "b")
        self.assertIn("uota", self.link.sh(child, fill % "c")[1])
        self.link.call(SNAPSHOT_REMOVE, snap)
        for name in (box, child):
            self.link.kill(name)
        if LONG:
            wait_for("its groups are gone", lambda: self.groups() <= groups,
                     90 * SLOW, step=1)

    def groups(self):
        """Quota groups of the pool, after a commit."""
        pool = self.i.pool()
        subprocess.run(["btrfs", "filesystem", "sync", pool], check=True)
        subprocess.run(["btrfs", "subvolume", "sync", pool], check=True,
                       capture_output=True)
        return len(subprocess.run(["btrfs", "qgroup", "show", pool], text=True,
                                  capture_output=True).stdout.splitlines())

    def test_bad_requests(self):
        box, snap = self.link.launch(self.image), new_id()
        for name, what, flags, copies, code in (
                (box, "", 0, 0, EINVAL), ("", snap, 0, 0, EINVAL),
                (box, "../../box", 0, 0, EINVAL), (box, snap, 4, 0, EINVAL),
                (box, snap, 0, 101, EINVAL), (new_id(), snap, 0, 0, ESRCH)):
            with self.assertRaises(Refused) as r:
                self.link.call(SNAPSHOT, name, cap(what, 28) +
                               flags.to_bytes(4, "little") +
                               copies.to_bytes(4, "little"))
            self.assertEqual(r.exception.code, code, r.exception)
        self.link.snapshot(box, snap)
        with self.assertRaises(Refused) as r:
            self.link.snapshot(box, snap)
        self.assertEqual(r.exception.code, EEXIST)
        self.assertEqual(self.link.code(SNAPSHOT_REMOVE, new_id()), ENOENT)
        with self.assertRaises(Refused) as r:
            self.link.launch(self.image, source=new_id())
        self.assertEqual(r.exception.code, ENOENT)

    def test_one_after_the_other(self):
        """Many requests at once are all served."""
        box, ids = self.link.launch(self.image), [new_id() for _ in range(5)]
        for snap in ids:
            self.link.ask(SNAPSHOT, box, cap(snap, 28) + bytes(8))
        self.assertEqual(set(self.link.answers(5)[0].values()), {0})
        self.assertEqual(self.link.each(SNAPSHOT_NEXT), sorted(ids))

    def test_killed_under_it(self):
        box = self.link.launch(self.image)
        self.link.ask(SNAPSHOT, box, cap(new_id(), 28) + bytes(8))
        self.link.ask(SNAPSHOT, box, cap(new_id(), 28) + bytes(8))
        self.link.kill(box)
        self.link.launch(self.image, box=box)
        wait_for("no snapshot", lambda: not self.link.each(SNAPSHOT_NEXT),
                 10 * SLOW)

    def test_it_stays_still(self):
        box = self.link.launch(self.image)
        snap = self.link.snapshot(box, flags=STAY)[0]
        self.assertTrue(self.link.boxes()[box] & PAUSED)
        self.link.kill(box)
        self.link.launch(self.image, box=box, source=snap)
        self.assertFalse(self.link.boxes()[box] & PAUSED)

    def test_nobody_hears_it(self):
        """Whoever asked has gone: then it never was."""
        box, link = self.link.launch(self.image), Link(self.i)
        link.ask(SNAPSHOT, box, cap(new_id(), 28) + bytes(8))
        link.close()
        self.link.snapshot(box)
        self.assertEqual(len(self.link.each(SNAPSHOT_NEXT)), 1)


class SnapshotsByCopy(Snapshots):
    """The same in a plain directory, where a snapshot is a copy."""
    CONF = {"pool_driver": "dir", "allow_missing": "disk"}

    @classmethod
    def setUpClass(cls):
        """A pool keeps a tenth of its disk free, and the host's may have less:
        the directory is on a file system of its own."""
        top = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, top)
        subprocess.run(["mkfs.ext4", "-q", f"{top}/disk", "2G"], check=True)
        os.mkdir(f"{top}/mnt")
        subprocess.run(["mount", "-o", "loop", f"{top}/disk", f"{top}/mnt"],
                       check=True)
        cls.addClassCleanup(subprocess.run, ["umount", f"{top}/mnt"], check=True)
        cls.CONF = {**cls.CONF, "pool": f"{top}/mnt/pool"}
        super().setUpClass()

    def setUp(self):
        super().setUp()
        self.link.flags = ALLOW_MISSING_DISK


class Forks(State):
    def copies(self):
        return sorted(os.listdir(self.i.pool() + "/copy"))

    def test_made_ahead(self):
        box = self.link.launch(self.image)
        self.sh(box, "echo one >/home/user/a")
        # What another test has left may still be on its way out.
        wait_for("room", lambda: not self.copies(), 10 * SLOW)
        snap = self.link.snapshot(box, copies=8)[0]
        self.assertEqual(self.copies(), [f"{snap}.{n}" for n in range(8)])
        self.sh(box, "echo two >/home/user/a")
        children = [new_id() for _ in range(10)]  # two make their own
        for child in children:
            self.link.ask(LAUNCH, child, self.link.spec(self.image, source=snap))
        codes, _ = self.link.answers(10)
        self.assertEqual(set(codes.values()), {0})
        self.assertEqual(self.copies(), [])
        for n, child in enumerate(children):
            self.sh(child, f"echo {n} >>/home/user/a")
            self.assertEqual(self.sh(child, "cat /home/user/a"), f"one\n{n}")
        # Each has a limit of its own.
        code, _ = self.link.sh(children[3], "dd if=/dev/zero of=/home/user/f "
                                            "bs=1M count=80")
        self.assertNotEqual(code, 0)
        self.sh(children[4], "dd if=/dev/zero of=/home/user/f bs=1M count=40 "
                             "2>/dev/null")

    def test_not_taken(self):
        box = self.link.launch(self.image)
        snap = self.link.snapshot(box, copies=3)[0]
        self.assertEqual(len(self.copies()), 3)
        # Rolled back, a sandbox keeps to its own family: it takes none.
        self.link.kill(box)
        self.link.launch(self.image, box=box, source=snap)
        self.assertEqual(len(self.copies()), 3)
        self.link.call(SNAPSHOT_REMOVE, snap)
        self.assertEqual(self.copies(), [])
        if LONG:
            self.link.snapshot(box, copies=2)
            wait_for("they are dropped", lambda: not self.copies(), 30 * SLOW)

    def test_killed_under_it(self):
        box = self.link.launch(self.image)
        self.link.ask(SNAPSHOT, box, cap(new_id(), 28) +
                      struct.pack("<II", 0, 20))
        self.link.kill(box)
        wait_for("nothing is left", lambda: not self.copies() and
                 not self.link.each(SNAPSHOT_NEXT), 20 * SLOW)


class Pauses(State):
    def ticking(self):
        """A sandbox with a process that counts in a file, and its last word."""
        box = self.link.launch(self.image)
        self.sh(box, "cd /home/user; (i=0; while :; do i=$((i+1)); "
                     "echo $i >n; usleep 1000; done) >/dev/null 2>&1 &")
        return box

    def root(self, box):
        """Of the sandbox, as the host sees it."""
        with open(f"{self.i.run_dir}/box/{box}/record", "rb") as f:
            return f"/proc/{struct.unpack_from('<i', f.read(), 16)[0]}/root"

    def count(self, box):
        return harness.read(self.root(box) + "/home/user/n", "")

    def moves(self, box, seconds=2):
        before = self.count(box)
        try:
            wait_for("it moves", lambda: self.count(box) != before, seconds)
            return True
        except AssertionError:
            return False

    def test_stands_still(self):
        box = self.ticking()
        wait_for("it moves", lambda: self.moves(box), 10 * SLOW)
        for _ in range(2):
            self.link.pause(box)
            self.assertTrue(self.link.boxes()[box] & PAUSED)
            self.assertFalse(self.moves(box, 0.2))
        # A snapshot leaves it as it is.
        self.assertEqual(self.link.snapshot(box)[1], 0)
        self.assertFalse(self.moves(box, 0.2))
        for _ in range(2):
            self.link.resume(box)
            self.assertFalse(self.link.boxes()[box] & PAUSED)
            self.assertTrue(self.moves(box, 10 * SLOW))
        self.link.snapshot(box)
        self.assertTrue(self.moves(box, 10 * SLOW))

    def test_killed_while_paused(self):
        box = self.link.launch(self.image)
        self.link.sh(box, "b() { b | b & }; b >/dev/null 2>&1; sleep 0.3")
        self.link.pause(box)
        began = time.monotonic()
        self.link.kill(box)
        self.assertLess(time.monotonic() - began, 5 * SLOW)
        self.assertNotIn(box, self.link.boxes())

    def test_the_next_warden(self):
        """What is paused stays so; what stood still for a moment goes on."""
        paused, held = self.ticking(), self.ticking()
        self.link.pause(paused)
        self.link.pause(held, PAUSE_USER)
        wait_for("it stands still", lambda: not self.moves(held, 0.2),
                 10 * SLOW)
        with self.api_asleep():
            self.i.kill_role("carrel-warden")
            boxes = self.relink().boxes()
            self.assertTrue(boxes[paused] & PAUSED)
            self.assertFalse(boxes[held] & PAUSED)
            self.assertTrue(self.moves(held, 10 * SLOW))
            self.assertFalse(self.moves(paused, 0.2))
            self.link.resume(paused)
            self.assertTrue(self.moves(paused, 10 * SLOW))

    def test_users_only(self):
        box, other = self.ticking(), Link(self.i)
        other.pause(box, PAUSE_USER)
        self.assertFalse(self.moves(box, 0.2))
        self.assertFalse(self.link.boxes()[box] & PAUSED)
        with self.assertRaises(Refused) as r:
            self.link.pause(box, PAUSE_USER)
        self.assertEqual(r.exception.code, EBUSY)
        # The agent takes connections; its children stand still with the rest.
        wire = harness.Wire(socket.socket(socket.AF_UNIX))
        wire.sock.settimeout(10 * SLOW)
        wire.sock.connect(f"{self.i.run_dir}/box/{box}/agent.sock")
        wire.hello()
        wire.close()
        self.link.snapshot(box)
        self.assertFalse(self.moves(box, 0.2))
        other.close()  # and with it what it asked for
        self.assertTrue(self.moves(box, 10 * SLOW))
        self.link.pause(box, PAUSE_USER)
        self.assertFalse(self.moves(box, 0.2))
        self.link.resume(box, PAUSE_USER)
        self.assertTrue(self.moves(box, 10 * SLOW))

    def test_memory(self):
        """What was read and written is given back."""
        box = self.link.launch(self.image, mem=128 << 20, disk=128 << 20)
        self.sh(box, "dd if=/dev/zero of=/home/user/f bs=1M count=40 "
                     "2>/dev/null; cat /home/user/f >/dev/null")
        self.link.pause(box)
        wait_for("memory is given back",
                 lambda: self.link.use(box)[1] < 20 << 20, 20 * SLOW)

    def test_killed_at_any_moment(self):
        """kill -9 of the warden: done or not done, nothing stands still for
        ever, nothing is left over."""
        box = self.ticking()
        self.assertTrue(self.moves(box, 10 * SLOW))
        first = self.link.snapshot(box)[0]
        began = (
            lambda: self.link.ask(SNAPSHOT, box, cap(new_id(), 28) +
                                  struct.pack("<II", 0, 3)),
            lambda: self.link.ask(SNAPSHOT, box, cap(new_id(), 28) +
                                  struct.pack("<II", STAY, 0)),
            lambda: self.link.ask(LAUNCH, new_id(), self.link.spec(
                self.image, source=first)),
            lambda: self.link.ask(PAUSE, box, bytes(4)))
        with self.api_asleep():
            for n in range(40 if LONG else 4):
                began[n % len(began)]()
                time.sleep(random.random() * 0.012)
                self.i.kill_role("carrel-warden")
                boxes = self.relink().boxes()
                if boxes[box] & PAUSED:
                    self.assertFalse(self.moves(box, 0.05))
                    self.link.resume(box)
                self.assertTrue(self.moves(box, 10 * SLOW), n)
                self.assertEqual(os.listdir(self.i.pool() + "/copy"), [])
                for other in boxes:
                    self.sh(other, "true")
                    if other != box:
                        self.link.kill(other)
                self.assertEqual(os.listdir(self.i.run_dir + "/box"), [box])
            # Whatever is listed as a snapshot is one.
            done = self.link.each(SNAPSHOT_NEXT)
            self.assertIn(first, done)
            for snap in done[:8]:
                child = self.link.launch(self.image, source=snap)
                self.assertRegex(self.sh(child, "cat /home/user/n"), "^[0-9]*$")


class Volumes(State):
    def tearDown(self):
        self.link.call(KILL_ALL)
        for vol in self.link.each(VOLUME_NEXT):
            self.link.call(VOLUME_REMOVE, vol)
        super().tearDown()

    def test_it_outlives_sandboxes(self):
        vol = self.link.volume()
        for n, read_only in enumerate((0, 0, 1)):
            box = self.link.launch(self.image,
                                   volumes=[(vol, "/data/in", read_only)])
            self.assertEqual(self.sh(box, "cat /data/in/f 2>/dev/null | wc -l"),
                             str(n))
            code, _ = self.link.sh(box, "echo x >>/data/in/f")
            self.assertEqual(code, read_only)
            self.assertEqual(self.sh(box, "stat -c %u:%g /data/in/f"),
                             "1000:1000")
            # It can be run from, as the root; nothing else.
            if not read_only:
                self.sh(box, "cp /bin/busybox /data/in/; "
                             "/data/in/busybox true; rm /data/in/busybox")
            self.assertEqual(self.link.code(VOLUME_REMOVE, vol), EBUSY)
            self.link.kill(box)
        self.assertEqual(self.link.each(VOLUME_NEXT), [vol])
        body = self.link.call(VOLUME_NEXT, "")
        self.assertEqual(struct.unpack_from("<Q", body, 32)[0], 32 << 20)
        self.assertEqual(self.link.code(VOLUME_REMOVE, vol), 0)
        self.assertEqual(self.link.code(VOLUME_REMOVE, vol), ENOENT)
        with self.assertRaises(Refused) as r:
            self.link.launch(self.image, volumes=[(vol, "/data", 0)])
        self.assertEqual(r.exception.code, ENOENT)

    def test_shared_and_limited(self):
        vol, second = self.link.volume(), self.link.volume()
        a = self.link.launch(self.image, volumes=[(vol, "/v", 0),
                                                  (second, "/w", 0)])
        b = self.link.launch(self.image, volumes=[(vol, "/home/user/v", 1)])
        self.sh(a, "echo shared >/v/f")
        self.assertEqual(self.sh(b, "cat /home/user/v/f"), "shared")
        code, out = self.link.sh(a, "dd if=/dev/zero of=/v/big bs=1M count=64")
        self.assertNotEqual(code, 0)
        self.assertIn("uota", out)
        self.sh(a, "dd if=/dev/zero of=/w/f bs=1M count=20 2>/dev/null; "
                   "dd if=/dev/zero of=/home/user/f bs=1M count=20 2>/dev/null")

    def test_bad_places(self):
        vol = self.link.volume()
        for path in ("/", "data", "/a/../b", "/proc/x", "/dev", "/sys/fs",
                     "/a//b", "/a/", "/./a"):
            with self.assertRaises(Refused) as r:
                self.link.launch(self.image, volumes=[(vol, path, 0)])
            self.assertEqual(r.exception.code, EINVAL, path)
        # What is a link in the image, or in a snapshot, is not followed.
        box = self.link.launch(self.image)
        self.sh(box, "ln -s /etc /home/user/link; touch /home/user/file")
        snap = self.link.snapshot(box)[0]
        for path in ("/home/user/link/x", "/home/user/link", "/home/user/file"):
            with self.assertRaises(Refused) as r:
                self.link.launch(self.image, source=snap,
                                 volumes=[(vol, path, 0)])
            self.assertEqual(r.exception.code, ENOTDIR, path)
        with self.assertRaises(Refused) as r:
            self.link.launch(self.image, volumes=[(vol, "/a", 0),
                                                  (vol, "/a/b", 0)])
        self.assertEqual(r.exception.code, ENOTDIR)
        for size in (0, 1 << 20, 1 << 51):
            with self.assertRaises(Refused) as r:
                self.link.volume(size)
            self.assertEqual(r.exception.code, EINVAL)


class Persist(State):
    def end(self, box):
        """It ends by itself."""
        with open(f"{self.i.run_dir}/box/{box}/record", "rb") as f:
            os.kill(struct.unpack_from("<i", f.read(), 16)[0], signal.SIGKILL)
        wait_for("its end", lambda: box not in self.link.boxes(), 10 * SLOW)

    def test_it_ends_by_itself(self):
        box = self.link.launch(self.image, flags=PERSIST)
        self.sh(box, "echo 1 >/home/user/f; sync")
        self.end(box)
        self.assertEqual(self.link.each(SNAPSHOT_NEXT), [box])
        for n in range(2):  # also in place of what it was launched from
            self.link.launch(self.image, box=box, source=box, flags=PERSIST)
            self.assertEqual(self.sh(box, "wc -l </home/user/f"), str(n + 1))
            self.sh(box, "echo 2 >>/home/user/f")
            self.end(box)
            self.assertEqual(self.link.each(SNAPSHOT_NEXT), [box])
        # Without the flag, or killed, nothing is kept.
        self.link.call(SNAPSHOT_REMOVE, box)
        box = self.link.launch(self.image)
        self.end(box)
        box = self.link.launch(self.image, flags=PERSIST)
        self.link.kill(box)
        self.assertEqual(self.link.each(SNAPSHOT_NEXT), [])

    def test_the_host_goes_down(self):
        """Everything is gone at once, the records too."""
        box = self.link.launch(self.image, flags=PERSIST)
        self.sh(box, "echo kept >/home/user/f")
        with self.api_asleep():
            warden = self.i.pids()["carrel-warden"][0]
            os.kill(warden, signal.SIGSTOP)
            for pid in self.i.box_pids():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            os.unlink(f"{self.i.run_dir}/box/{box}/record")
            os.kill(warden, signal.SIGKILL)
            self.assertEqual(self.relink().each(SNAPSHOT_NEXT), [box])
            self.link.launch(self.image, box=box, source=box)
            self.assertEqual(self.sh(box, "cat /home/user/f"), "kept")


if __name__ == "__main__":
    harness.main()
