# suite: sanitized
"""The warden and the disks of sandboxes: snapshots, what starts from them."""

import harness
from harness import SLOW, wait_for
from warden_link import (PAUSED, SNAPSHOT, SNAPSHOT_NEXT, SNAPSHOT_REMOVE, STAY,
                         Link, Refused, cap, new_id)

ENOENT, ESRCH, EEXIST, EINVAL = 2, 3, 17, 22


class State(harness.Case):
    CONF = {"max_sandboxes": 220, "spares": 2}

    def setUp(self):
        super().setUp()
        self.image = self.i.api("GET", "/v1/images").json["images"][0]["id"]
        self.link = Link(self.i)

    def tearDown(self):
        for snap in self.link.each(SNAPSHOT_NEXT):
            self.link.call(SNAPSHOT_REMOVE, snap)
        self.link.close()
        super().tearDown()

    def sh(self, box, script, **kw):
        code, out = self.link.sh(box, script, **kw)
        self.assertEqual(code, 0, out)
        return out.strip()


class Snapshots(State):
    def test_from_a_snapshot(self):
        box = self.link.launch(self.image)
        self.sh(box, "cd /home/user; echo one >a; mkdir d; echo x >d/f; "
                     "rm -r /usr/share 2>/dev/null; mv d e")
        snap, pause, used = self.link.snapshot(box)
        self.assertGreater(pause, 0)
        self.assertGreater(used, 0)
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

    def test_bad_requests(self):
        box, snap = self.link.launch(self.image), new_id()
        for name, what, flags, copies, code in (
                (box, "", 0, 0, EINVAL), ("", snap, 0, 0, EINVAL),
                (box, "../../box", 0, 0, EINVAL), (box, snap, 2, 0, EINVAL),
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


if __name__ == "__main__":
    harness.main()
