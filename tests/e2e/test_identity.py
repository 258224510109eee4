# suite: sanitized
"""The database and the pool belong together: when one of them is lost, new,
older or another one's, a start removes nothing, says so, and what has no row
can be adopted or pruned."""

import contextlib
import glob
import json
import os
import shutil
import signal
import sqlite3
import subprocess

import harness
from harness import SLOW, Instance, wait_for


class Identity(harness.Case):
    @classmethod
    def setUpClass(cls):
        pass

    @classmethod
    def tearDownClass(cls):
        pass

    def setUp(self):
        self.stack = contextlib.ExitStack()
        self.addCleanup(self.stack.close)
        self.i = self.stack.enter_context(Instance())

    # -- what is there

    def ok(self, method, path, body=None, status=200):
        r = self.i.api(method, path, body)
        self.assertEqual(r.status, status, r)
        return r.json if r.body else None

    def populate(self, tag=""):
        """A sandbox that runs, a persistent one, a suspended one, an image, a
        snapshot, a volume, a file of the drive."""
        i = self.i
        self.ok("POST", "/v1/volumes", {"name": "data" + tag, "size": "32M"}, 201)
        runs = i.create(name="runs" + tag, volumes=[f"data{tag}:/data"])
        i.cli("exec", runs, "--", "sh", "-c",
              "echo runs > /home/user/f; echo vol > /data/f", check=0)
        i.cli("exec", "-d", runs, "--", "sleep", "1000000", check=0)
        kept = i.create(name="kept" + tag, persist=True)
        i.cli("exec", kept, "--", "sh", "-c", "echo kept > /home/user/f; sync",
              check=0)
        slept = i.create(name="slept" + tag)
        i.cli("exec", slept, "--", "sh", "-c", "echo slept > /home/user/f",
              check=0)
        self.ok("POST", f"/v1/sandboxes/{slept}/snapshots",
                {"name": "snap" + tag}, 201)
        i.cli("pause", "--disk-only", slept, check=0)
        self.ok("POST", f"/v1/images/saved{tag}", {"snapshot": "snap" + tag}, 201)
        r = i.api("PUT", f"/v1/drive/files/file{tag}", b"drive" + tag.encode())
        self.assertEqual(r.status, 200, r)
        return runs, kept, slept

    def check(self, boxes, tag=""):
        """All of that works."""
        i = self.i
        runs, kept, slept = boxes
        self.assertEqual(i.sh(runs, "cat /home/user/f /data/f").out,
                         "runs\nvol\n")
        self.assertIn("sleep", i.cli("ps", runs).out)
        self.assertEqual(i.sh(kept, "cat /home/user/f").out, "kept\n")
        self.assertEqual(i.sh(slept, "cat /home/user/f").out, "slept\n")
        fork = self.ok("POST", "/v1/sandboxes", {"snapshot": "snap" + tag}, 201)
        self.assertEqual(i.sh(fork["id"], "cat /home/user/f").out, "slept\n")
        i.rm(fork["id"])
        other = i.create(image="saved" + tag)
        self.assertEqual(i.sh(other, "cat /home/user/f").out, "slept\n")
        i.rm(other)
        r = i.api("GET", f"/v1/drive/files/file{tag}")
        self.assertEqual(r.body, b"drive" + tag.encode())

    def state(self):
        return self.ok("GET", "/v1/host")["state"]

    def strays(self):
        return sorted((s["kind"], s["id"])
                      for s in self.ok("GET", "/v1/strays")["strays"])

    # -- what happens to it

    def files(self):
        return glob.glob(self.i.state_dir + "/registry/registry.db*")

    def put_away(self, name="aside"):
        """Moves the database away, as it is."""
        os.mkdir(f"{self.i.dir}/{name}")
        for path in self.files():
            shutil.move(path, f"{self.i.dir}/{name}/")

    def put_back(self, name="aside", wal=True):
        for path in self.files():
            os.unlink(path)
        for path in glob.glob(f"{self.i.dir}/{name}/registry.db*"):
            if wal or not path.endswith("-wal"):
                subprocess.run(["cp", "-p", path, self.i.state_dir +
                                "/registry/"], check=True)

    def copy_hot(self, name):
        """A copy of the files of a database that is in use."""
        os.mkdir(f"{self.i.dir}/{name}")
        for path in self.files():
            subprocess.run(["cp", "-p", path, f"{self.i.dir}/{name}/"],
                           check=True)

    def crash(self):
        """The whole daemon at once, as the kernel or a power switch does it."""
        # Its roles get SIGTERM with its end, so it is stopped until they have
        # been killed.
        self.i.kill_role("carreld", signal.SIGSTOP)
        found = self.i.pids()
        for program in sorted(found, key="carreld".__eq__):
            for pid in found[program]:
                comm = harness.read(f"/proc/{pid}/comm", "")
                if comm.startswith("carrel") and "agent" not in comm:
                    with contextlib.suppress(OSError):
                        os.kill(pid, signal.SIGKILL)
        self.i.daemon.wait()
        wait_for("the roles have ended", lambda: not self.i.pids().keys() &
                 set(Instance.ROLES), 10 * SLOW)

    def sealed(self):
        """The pool has the generation of the database."""
        pool = os.readlink(self.i.pool() + "/identity").split()
        return int(pool[1]) == self.state()["generation"]

    def settled(self):
        """What was done so far is part of both halves' generation."""
        before = os.readlink(self.i.pool() + "/identity")
        self.i.rm(self.i.create())
        wait_for("a generation more", lambda: os.readlink(
            self.i.pool() + "/identity") != before and self.sealed(), 10 * SLOW)

    def held(self, word):
        """Nothing is served, nothing is removed, and people are told."""
        state = self.state()
        self.assertIn(word, state["held"])
        r = self.i.api("GET", "/v1/sandboxes")
        self.assertEqual((r.status, r.json["error"]), (503, "state_mismatch"), r)
        self.assertIn("carrel adopt --all", r.json["message"])
        p = self.i.cli("doctor")
        self.assertIn("nothing is served", p.out)
        self.assertIn(word, self.i.cli("adopt", check=0).out)

    # -- the database is lost

    def lose_database(self, lose):
        boxes = self.populate()
        pids = set(self.i.box_pids())
        self.i.end_daemon()
        self.put_away()
        lose()
        self.i.start()
        self.held("the database is new")
        self.assertLessEqual(pids, set(self.i.box_pids()) | {0})
        self.i.restart()
        self.held("the database is new")
        self.i.end_daemon()
        self.put_back()
        self.i.start()
        self.check(boxes)
        self.assertEqual((self.strays(), self.state()["held"]), ([], None))

    def test_deleted_database_removes_nothing(self):
        self.lose_database(lambda: None)

    def test_empty_database_removes_nothing(self):
        def lose():
            path = self.i.state_dir + "/registry/registry.db"
            with open(path, "w"):
                pass
            shutil.chown(path, "carrel", "carrel")
        self.lose_database(lose)

    def test_adopt_all_recovers_with_a_new_database(self):
        runs, kept, slept = self.populate()
        self.i.end_daemon()
        self.put_away()
        self.i.start()
        self.held("the database is new")
        p = self.i.cli("adopt", "--all", check=0)
        self.assertIn(f"sandbox:{runs} is runs", p.out)
        self.assertEqual((self.strays(), self.state()["strays"]), ([], 0))
        self.assertEqual(sorted(self.i.ids()), sorted([runs, kept, slept]))
        self.assertEqual(self.i.sh(runs, "cat /home/user/f /data/f").out,
                         "runs\nvol\n")
        self.assertIn("sleep", self.i.cli("ps", runs).out)
        self.assertEqual(self.i.sh(kept, "cat /home/user/f").out, "kept\n")
        self.assertEqual(self.i.sh("slept", "cat /home/user/f").out, "slept\n")
        snaps = self.ok("GET", "/v1/snapshots")["snapshots"]
        self.assertEqual([s["sandbox"] for s in snaps], [slept])
        fork = self.ok("POST", "/v1/sandboxes", {"snapshot": snaps[0]["id"]}, 201)
        self.assertEqual(self.i.sh(fork["id"], "cat /home/user/f").out, "slept\n")
        self.assertEqual(len(self.ok("GET", "/v1/images")["images"]), 2)
        self.assertEqual(len(self.ok("GET", "/v1/volumes")["volumes"]), 1)
        entry, = self.ok("GET", "/v1/drive?recursive=true")["entries"]
        r = self.i.api("GET", "/v1/drive/files/" + entry["path"])
        self.assertEqual(r.body, b"drive")
        # All of it is there after the next start, too.
        self.i.restart()
        self.assertIn(runs, self.i.ids())
        self.assertEqual(self.strays(), [])
        self.assertEqual(len(self.ok("GET", "/v1/images")["images"]), 2)

    def test_strays_are_kept_until_they_are_pruned(self):
        self.populate()
        self.i.end_daemon()
        self.put_away()
        self.i.start()
        self.i.cli("adopt", "--pool", check=0)
        kinds = [k for k, _ in self.strays()]
        self.assertEqual({k: kinds.count(k) for k in kinds},
                         {"image": 2, "sandbox": 2, "snapshot": 2, "volume": 1,
                          "drive": 1})
        before = self.strays()
        self.i.restart()
        self.assertEqual(self.strays(), before)
        self.assertIn("strays", self.i.cli("doctor").out)
        p = self.i.cli("prune", "--strays", "--dry-run", "--json", check=0)
        self.assertEqual(len(json.loads(p.out)["removed"]), len(before))
        self.assertEqual(self.strays(), before)
        p = self.i.cli("prune", "--strays", check=0)
        self.assertEqual((len(p.out.splitlines()), p.err), (len(before), ""))
        for part in ("images", "snap", "vol", "box"):
            wait_for(f"{part}/ is empty", lambda part=part: not os.listdir(
                f"{self.i.pool()}/{part}"), 20 * SLOW)
        wait_for("no stray is left", lambda: not self.strays(), 20 * SLOW)
        self.assertEqual(self.i.box_pids(), [])
        self.assertEqual(os.listdir(self.i.state_dir + "/drive"), [])

    # -- the database is older

    def older(self, wal, stop):
        first = self.populate()
        self.i.restart()  # folds the log into the file
        self.settled()
        self.copy_hot("old")
        second = self.populate("-2")
        self.settled()
        stop()
        self.put_away("new")
        self.put_back("old", wal)
        self.i.start()
        self.assertIsNone(self.state()["held"])
        self.check(first)
        for box in second[:2]:
            self.assertIn(("sandbox", box), self.strays())
        self.assertEqual(len(self.strays()), 7)
        # The right one again: everything is as it was.
        self.i.end_daemon()
        self.put_back("new")
        self.i.start()
        self.check(second, "-2")
        self.assertEqual(self.strays(), [])

    def test_older_copy_with_its_log_removes_nothing(self):
        self.older(True, self.crash)

    def test_older_copy_without_its_log_removes_nothing(self):
        self.older(False, self.i.end_daemon)

    def test_lost_write_ahead_log_removes_nothing(self):
        first = self.populate()
        self.i.restart()  # folds the log into the file
        self.check(first)
        second = self.populate("-2")
        self.settled()
        self.crash()
        for path in self.files():
            if not path.endswith(".db"):
                os.unlink(path)
        self.i.start()
        self.check(first)
        # Some of it may have been folded into the file before.
        known = self.i.ids() + [i for _, i in self.strays()]
        self.assertLessEqual(set(second[:2]), set(known))
        self.assertTrue(self.strays())
        self.i.cli("adopt", "--all", check=0)
        self.assertEqual(self.strays(), [])
        self.assertEqual(self.i.sh("runs-2", "cat /home/user/f /data/f").out,
                         "runs\nvol\n")
        self.assertEqual(self.i.sh(second[1], "cat /home/user/f").out, "kept\n")
        self.assertEqual(self.i.sh("slept-2", "cat /home/user/f").out, "slept\n")

    def test_restore_keeps_objects_newer_than_the_backup(self):
        first = self.populate()
        path = self.i.dir + "/backup.tar"
        self.i.cli("--config", self.i.config, "backup", path, check=0)
        second = self.populate("-2")
        self.i.end_daemon()
        self.i.cli("--config", self.i.config, "restore", "--force", path, check=0)
        self.i.start()
        self.check(first)
        self.assertEqual(len(self.strays()), 7)
        image, = [i for kind, i in self.strays() if kind == "image"]
        p = self.i.cli("adopt", f"image:{image}", "saved")
        self.assertIn("is taken", p.err)
        self.i.cli("adopt", f"image:{image}", "saved-2", check=0)
        box = self.i.create(image="saved-2")
        self.assertEqual(self.i.sh(box, "cat /home/user/f").out, "slept\n")
        self.assertEqual(len(self.strays()), 6)
        self.assertIn("no stray", self.i.cli("adopt", "image:" + image).err)
        self.i.cli("adopt", "--all", check=0)
        self.assertEqual(self.i.sh("runs-2", "cat /home/user/f /data/f").out,
                         "runs\nvol\n")
        self.assertEqual(self.i.sh(second[1], "cat /home/user/f").out, "kept\n")

    # -- the pool is lost

    def unmount_pool(self):
        subprocess.run(["umount", "-l", self.i.pool()], check=True)

    def test_pool_that_is_away_at_one_start_loses_nothing(self):
        boxes = self.populate()
        img, away = self.i.state_dir + "/pool.img", self.i.dir + "/away.img"
        self.i.end_daemon()
        self.unmount_pool()
        os.rename(img, away)
        self.i.start()
        self.held("the pool is empty")
        self.i.end_daemon()
        self.unmount_pool()
        os.rename(away, img)
        self.i.start()
        self.check(boxes)
        self.assertEqual(self.strays(), [])

    def test_rows_of_a_pool_that_is_gone_for_good_are_kept(self):
        runs, kept, slept = self.populate()
        self.i.end_daemon()
        self.unmount_pool()
        os.unlink(self.i.state_dir + "/pool.img")
        self.i.start()
        self.i.cli("adopt", "--pool", check=0)
        names = [x["name"] for x in self.ok("GET", "/v1/images")["images"]]
        self.assertEqual(sorted(names), ["saved", "tiny"])
        self.assertIn(slept, self.i.ids())
        self.i.restart()
        names = [x["name"] for x in self.ok("GET", "/v1/images")["images"]]
        self.assertEqual(sorted(names), ["saved", "tiny"])
        self.assertGreaterEqual(self.state()["missing"], 3)
        r = self.i.api("POST", "/v1/sandboxes", {"image": "tiny"})
        self.assertEqual(r.status, 404, r)
        self.assertIn("missing in the pool", r.json["message"])
        # People remove them, as they remove anything.
        for box in (runs, kept, slept):
            self.i.cli("rm", box, "--snapshots", check=0)
        self.i.cli("volume", "rm", "data", check=0)
        for name in names:
            self.i.cli("image", "rm", name, check=0)
        self.i.restart()
        self.assertEqual(self.state()["missing"], 0)

    def test_first_start_after_an_upgrade_goes_on(self):
        boxes = self.populate()
        self.i.end_daemon()
        with sqlite3.connect(self.i.state_dir + "/registry/registry.db") as db:
            db.execute("DELETE FROM pool")
        db.close()
        os.unlink(self.i.pool() + "/identity")
        self.i.start()
        self.check(boxes)
        self.assertEqual((self.strays(), self.state()["held"]), ([], None))
        wait_for("both have an id", self.sealed, 10 * SLOW)

    # -- what must still be removed

    def test_spares_of_a_killed_daemon_are_not_strays(self):
        self.i.conf["spares"] = 2
        self.i.restart()
        box = self.i.create(name="box")
        wait_for("two spares", lambda: len(os.listdir(self.i.run_dir + "/box"))
                 == 3, 20 * SLOW)
        before = set(os.listdir(self.i.run_dir + "/box"))
        self.crash()
        self.i.conf["spares"] = 0
        self.i.start()
        self.assertEqual((self.i.ids(), self.strays()), ([box], []))
        wait_for("the spares have ended", lambda: os.listdir(
            self.i.run_dir + "/box") == [box], 10 * SLOW)
        self.assertEqual(len(before), 3)


if __name__ == "__main__":
    harness.main()
