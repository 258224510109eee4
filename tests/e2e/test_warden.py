# suite: sanitized
"""The warden as an api sees it that was taken over, and one that has much to
do: requests in an order that nobody needs, and many sandboxes at once."""

import os
import signal
import struct

import harness
from harness import SLOW, wait_for
from warden_link import COMMIT, IMPORT, REMOVE, RESIZE, Link

ENOENT, ESRCH, EBUSY, EEXIST, EINVAL, ECONNREFUSED = 2, 3, 16, 17, 22, 111


def other(image):
    return image[:-1] + ("a" if image[-1] != "a" else "b")


class Imports(harness.Case):
    CONF = {"max_sandboxes": 220}

    def setUp(self):
        super().setUp()
        self.image = self.i.api("GET", "/v1/images").json["images"][0]["id"]

    def warden(self):
        """Itself, not a child that sweeps the pool."""
        return [p for p in self.i.pids()["carrel-warden"]
                if f"\nPPid:\t{self.i.daemon.pid}\n" in
                harness.read(f"/proc/{p}/status", " ")]

    def start(self, link, image):
        link.ask(IMPORT, image)
        codes, fds = link.answers(1)
        self.assertEqual(list(codes.values()), [0])
        return fds

    def test_one_commit_only(self):
        before, link, new = self.warden(), Link(self.i), other(self.image)
        tar, words = self.start(link, new)
        asked = [link.ask(COMMIT, new) for _ in range(3)]
        with open(harness.tiny_image(), "rb") as src, os.fdopen(tar, "wb") as f:
            f.write(src.read())
        codes, _ = link.answers(3)
        os.close(words)
        self.assertEqual([codes[x] for x in asked], [0, ENOENT, ENOENT])
        link.ask(REMOVE, new)
        self.assertEqual(list(link.answers(1)[0].values()), [0])
        self.assertEqual(self.warden(), before)

    def test_not_over_an_image(self):
        box, link = self.i.create(), Link(self.i)
        link.ask(IMPORT, self.image)
        self.assertEqual(list(link.answers(1)[0].values()), [EEXIST])
        self.assertEqual(self.i.sh(box, "ls /bin/sh").returncode, 0)
        self.i.rm(box)
        self.i.rm(self.i.create())  # the image is still there

    def test_not_over_an_import(self):
        link, new = Link(self.i), other(self.image)
        fds = self.start(link, new)
        link.ask(IMPORT, new)
        self.assertEqual(list(link.answers(1)[0].values()), [EEXIST])
        link.ask(REMOVE, new)
        self.assertEqual(list(link.answers(1)[0].values()), [0])
        for fd in fds:
            os.close(fd)

    def test_with_many_sandboxes(self):
        """The warden has a descriptor for each."""
        boxes = [self.i.create(memory="32M", disk="32M") for _ in range(200)]
        self.i.import_image("tiny")
        self.assertIn(boxes[-1], self.i.ids())
        self.i.api("DELETE", "/v1/sandboxes?all=true")


class Connect(harness.Case):
    """Sockets inside a sandbox's network."""

    def setUp(self):
        super().setUp()
        self.box, self.link = self.i.create(), Link(self.i)
        self.pid = self.i.pids()["carrel-warden"][0]

    def listen(self, port, word):
        self.i.sh(self.box, f"nc -ll -p {port} -e echo {word} >/dev/null 2>&1 "
                  "</dev/null &")

    def answer(self, box, port=8080, link=None):
        code, s = (link or self.link).connect(box, port)
        if code:
            return code
        with s:
            s.settimeout(10 * SLOW)
            try:
                return s.recv(100)
            except OSError as e:
                return e.errno

    def test_it_reaches_this_sandbox_only(self):
        second = self.i.create()
        self.listen(8080, "here")
        wait_for("a server", lambda: self.answer(self.box) == b"here\n",
                 10 * SLOW)
        self.assertEqual(self.answer(second), ECONNREFUSED)
        self.assertEqual(self.answer(self.box, 8081), ECONNREFUSED)
        self.i.rm(second)
        self.assertEqual(self.link.connect(second, 8080)[0], ESRCH)

    def test_bad_requests(self):
        for box, port, flags, code in (
                (self.box, 0, 0, EINVAL), (self.box, 80, 2, EINVAL),
                ("", 80, 0, EINVAL), ("x" * 27, 80, 0, EINVAL),
                ("../../etc", 80, 0, EINVAL), (other(self.box), 80, 0, ESRCH)):
            self.assertEqual(self.link.connect(box, port, flags), (code, None))

    def test_many_that_hang(self):
        """Nobody accepts: the warden neither waits nor keeps anything."""
        net = os.readlink(f"/proc/{self.pid}/ns/net")
        fds = len(os.listdir(f"/proc/{self.pid}/fd"))
        self.listen(8080, "x")
        wait_for("a server", lambda: self.answer(self.box) == b"x\n", 10 * SLOW)
        self.assertEqual(self.i.sh(self.box, "killall -STOP nc").returncode, 0)
        held = [self.link.connect(self.box, 8080)[1] for _ in range(300)]
        self.assertEqual(os.readlink(f"/proc/{self.pid}/ns/net"), net)
        self.assertLessEqual(len(os.listdir(f"/proc/{self.pid}/fd")), fds + 1)
        for s in held:
            s.close()

    def test_after_a_restart(self):
        self.listen(8080, "again")
        self.i.kill_role("carrel-warden")

        def reached():
            try:
                return self.answer(self.box, link=Link(self.i)) == b"again\n"
            except OSError:
                return False
        wait_for("the adopted sandbox", reached, 20 * SLOW)


class Limits(harness.Case):
    def limits(self, box):
        """What the kernel says, as seen inside."""
        out = self.i.sh(box, "cd /sys/fs/cgroup; cat memory.max user/memory.max "
                             "memory/memory.limit_in_bytes 2>/dev/null; "
                             "cat user/cpu.max cpu/user/cpu.cfs_quota_us "
                             "cpu/cpu.cfs_quota_us 2>/dev/null").out
        return out.split()

    def test_bad_requests(self):
        link, box = Link(self.i), self.i.create()
        for bad in ({"pids": 7}, {"pids": 65537}, {"cpus": 49}, {"cpus": 1000001},
                    {"mem": (16 << 20) - 1}, {"mem": (1 << 46) + 1}):
            self.assertEqual(link.resize(box, **bad), EINVAL, bad)
        self.assertEqual(link.resize("x" * 27), EINVAL)
        self.assertEqual(link.resize("i" + "a" * 26), ESRCH)
        self.assertEqual(link.resize(box), 0)
        self.assertIn(str(64 << 20), self.limits(box))
        self.i.rm(box)

    def test_while_it_is_done(self):
        """Two at once, and an end in between."""
        link, box = Link(self.i), self.i.create(memory="256M")
        self.i.sh(box, "head -c 200000000 /dev/zero > /tmp/x")
        for mem in (64, 65):
            link.ask(RESIZE, box, struct.pack("<IQQ", 64, 500, mem << 20))
        self.i.api("DELETE", f"/v1/sandboxes/{box}")
        codes = list(link.answers(2)[0].values())
        self.assertTrue(set(codes) <= {0, EBUSY, ESRCH}, codes)
        self.i.rm(self.i.create())


class Host(harness.Case):
    FILE_MAX = "/proc/sys/fs/file-max"

    @classmethod
    def setUpClass(cls):
        cls.was = harness.read(cls.FILE_MAX)
        # What the kernel makes of a host's memory, or a large part of it.
        with open(cls.FILE_MAX, "w") as f:
            f.write("2000000")
        cls.addClassCleanup(cls.put_back)
        super().setUpClass()

    @classmethod
    def put_back(cls):
        with open(cls.FILE_MAX, "w") as f:
            f.write(cls.was)

    def test_open_files_have_no_limit_of_the_whole_host(self):
        """They count as memory of their sandbox (row F25)."""
        self.assertEqual(int(harness.read(self.FILE_MAX)), (1 << 63) - 1)


class Stop(harness.Case):
    CONF = {"spares": 2}

    def test_spares_go(self):
        self.i.rm(self.i.create())
        wait_for("spares", lambda: len(self.i.box_pids()) >= 2, 10 * SLOW)
        self.i.daemon.send_signal(signal.SIGTERM)
        self.i.daemon.wait(15 * SLOW)
        self.assertEqual(self.i.box_pids(), [])
        self.i.start()


if __name__ == "__main__":
    harness.main()
