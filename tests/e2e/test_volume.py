"""Volumes: disks of a project that outlive the sandboxes which have them."""

import contextlib
import http.client
import json
import threading
import unittest

import harness
from fake_warden import VOLUME_NEW, VOLUME_REMOVE, Api
from harness import SLOW, wait_for
from test_log import settled


class Volumes(harness.Case):
    def make(self, name, headers=None, status=201, **more):
        r = self.i.api("POST", "/v1/volumes", {"name": name, **more}, headers)
        self.assertEqual(r.status, status, r)
        return r.json

    def list(self, headers=None):
        r = self.i.api("GET", "/v1/volumes", headers=headers)
        self.assertEqual(r.status, 200, r)
        return {v["name"]: v for v in r.json["volumes"]}

    def rm(self, name, headers=None, status=204):
        r = self.i.api("DELETE", f"/v1/volumes/{name}", headers=headers)
        self.assertEqual(r.status, status, r)
        return r.json

    def refused(self, status, **spec):
        r = self.i.api("POST", "/v1/sandboxes", spec)
        self.assertEqual(r.status, status, r)
        return r.json["message"]

    def tearDown(self):
        super().tearDown()
        if self.i.daemon.poll() is None:
            for v in self.i.api("GET", "/v1/volumes").json["volumes"]:
                self.rm(v["id"])

    def test_life(self):
        made = self.make("data", size="64M")
        self.assertEqual((made["size"], made["state"], made["sandboxes"]),
                         (64 << 20, "ready", []))
        box = self.i.create(volumes=["data:/srv/data"])
        p = self.i.sh(box, "id -un; echo one > /srv/data/x && cat /srv/data/x")
        self.assertEqual(p.out.split()[-1], "one", p.err)
        self.assertEqual(self.list()["data"]["sandboxes"], [box])
        self.assertIn(box, self.rm("data", status=409)["message"])
        self.i.rm(box)
        other = self.i.create(volumes=["data:/mnt/d:ro"])
        p = self.i.sh(other, "cat /mnt/d/x; echo two > /mnt/d/x")
        self.assertEqual(p.out, "one\n")
        self.assertIn("Read-only", p.err)
        self.i.rm(other)
        seen = [(e["type"], e["sandbox"], e["data"]["read_only"])
                for e in settled(self.i) if e["type"].startswith("volume.")
                and "sandbox" in e and e["sandbox"] in (box, other)]
        self.assertEqual(seen, [("volume.attach", box, False),
                                ("volume.detach", box, False),
                                ("volume.attach", other, True),
                                ("volume.detach", other, True)])
        self.rm("data")
        self.assertEqual(self.list(), {})
        self.rm("data", status=404)
        types = [e["type"] for e in settled(self.i)]
        self.assertIn("volume.create", types)
        self.assertIn("volume.remove", types)

    def test_one_writer(self):
        self.make("data", size="64M")
        box = self.i.create(volumes=["data:/d"])
        self.assertIn(box, self.refused(409, volumes=["data:/d"]))
        self.refused(409, volumes=["data:/d:ro"])
        self.i.rm(box)
        readers = [self.i.create(volumes=["data:/d:ro"]) for _ in range(2)]
        self.refused(409, volumes=["data:/d"])
        for r in readers:
            self.i.rm(r)
        self.i.create(volumes=["data:/d"])

    def test_shared(self):
        self.make("data", size="64M")
        one, two = [self.i.create(volumes=["data:/d:shared"])
                    for _ in range(2)]
        self.refused(409, volumes=["data:/d"])
        self.refused(409, volumes=["data:/d:ro"])
        self.assertEqual(self.i.sh(one, "echo x > /d/one").returncode, 0)
        self.assertEqual(self.i.sh(two, "cat /d/one; echo y > /d/two").out,
                         "x\n")
        self.assertEqual(self.i.sh(one, "cat /d/two").out, "y\n")
        self.i.rm(one)
        self.i.rm(two)

    def test_specs(self):
        self.make("data", size="64M")
        self.make("more", size="64M")
        self.assertIn("volume create", self.refused(404, volumes=["none:/d"]))
        for bad in (["data"], ["data:d"], ["data:/"], ["data:/a/../b"],
                    ["data:/proc/x"], ["data:/dev"], ["data:/sys"], [1], "x",
                    ["DATA:/d"], ["data:/" + "x" * 200], ["data:/a//b"],
                    ["data:/d", "more:/d"], ["data:/d", "more:/d/e"],
                    ["data:/d", "data:/e"], [":/d"]):
            self.refused(400, volumes=bad)
        for bad in ("/etc/passwd", "/bin/sh/x"):
            self.assertIn("not a directory",
                          self.refused(400, volumes=["data:" + bad]))
        for bad in ({"name": "X"}, {"name": "a", "size": "1K"},
                    {"name": "a", "size": -1}, {"name": "a", "size": []},
                    {"size": "1G"}, {"name": "a", "x": 1}):
            r = self.i.api("POST", "/v1/volumes", bad)
            self.assertEqual(r.status, 400, (bad, r))
        self.make("data", status=409)
        box = self.i.create(volumes=["data:/new/deep/d", "more:/d:rw"])
        p = self.i.sh(box, "echo 1 > /new/deep/d/x && echo 2 > /d/x; "
                           "cat /new/deep/d/x /d/x")
        self.assertEqual(p.out, "1\n2\n", p.err)

    def test_owners(self):
        """What is in a volume is its user's, and root's inside."""
        self.make("data", size="64M")
        box = self.i.create(volumes=["data:/d"])
        p = self.i.sh(box, "ln -s /etc /d/link; mkdir /d/dir; "
                           "stat -c %u /d /d/dir; "
                           "sudo chown 0 /d/dir; stat -c %u /d/dir")
        self.assertEqual(p.out.split(), ["1000", "1000", "0"], p.err)
        self.i.rm(box)
        # In another range of ids they are the same.
        self.i.create()
        box = self.i.create(volumes=["data:/d"])
        p = self.i.sh(box, "stat -c %u /d /d/dir; readlink /d/link")
        self.assertEqual(p.out.split(), ["1000", "0", "/etc"], p.err)

    def test_size(self):
        self.make("data", size="32M")
        box = self.i.create(volumes=["data:/d"])
        p = self.i.sh(box, "dd if=/dev/zero of=/d/x bs=1M count=64 "
                           "2>/dev/null; sync; du -m /d/x | cut -f1")
        self.assertLess(int(p.out.split()[0]), 40, p)

    def test_projects(self):
        keys = {}
        for p in ("red", "blue"):
            r = self.i.api("POST", "/v1/keys", {"project": p, "scope": "use"})
            keys[p] = {"Authorization": f"Bearer {r.json['key']}"}
        self.make("data", keys["red"], size="64M")
        self.make("data", keys["blue"], size="64M")
        self.assertEqual(self.list(keys["red"])["data"]["project"], "red")
        red = self.list(keys["red"])["data"]["id"]
        self.rm(red, keys["blue"], 404)
        r = self.i.api("GET", "/v1/volumes/data")
        self.assertEqual(r.status, 409, r)
        self.make("only", keys["red"], size="64M")
        r = self.i.api("POST", "/v1/sandboxes", {"volumes": ["only:/d"]},
                       keys["blue"])
        self.assertEqual(r.status, 404, r)

    def test_roles_die(self):
        self.make("data", size="64M")
        box = self.i.create(volumes=["data:/d"])
        self.i.sh(box, "echo kept > /d/x; sync")
        for role in ("carrel-api", "carrel-warden"):
            self.i.kill_role(role)
            self.i.wait_ready()
            self.assertEqual(self.list()["data"]["sandboxes"], [box])
            self.refused(409, volumes=["data:/d"])
        self.i.rm(box)
        self.i.restart()
        box = self.i.create(volumes=["data:/d"])
        self.assertEqual(self.i.sh(box, "cat /d/x").out, "kept\n")

    def test_suspended(self):
        """One that is suspended has it not, and asks again."""
        self.make("data", size="64M")
        box = self.i.create(name="work", volumes=["data:/d"])
        self.i.sh(box, "echo 1 > /d/x")
        r = self.i.api("POST", f"/v1/sandboxes/{box}/pause",
                       {"disk_only": True})
        self.assertEqual(r.status, 200, r)
        self.rm("data", status=409)
        other = self.i.create(volumes=["data:/d"])
        self.assertEqual(self.i.sh(other, "cat /d/x").out, "1\n")
        r = self.i.api("POST", f"/v1/sandboxes/{box}/resume")
        self.assertEqual(r.status, 409, r)
        self.i.rm(other)
        r = self.i.api("POST", f"/v1/sandboxes/{box}/resume")
        self.assertEqual(r.status, 200, r)
        self.assertEqual(self.i.sh(box, "cat /d/x").out, "1\n")

    def test_forks(self):
        """A fork cannot write what its parent writes."""
        self.make("data", size="64M")
        box = self.i.create(volumes=["data:/d"])
        r = self.i.api("POST", f"/v1/sandboxes/{box}/fork", {})
        self.assertEqual(r.status, 409, r)
        r = self.i.api("POST", f"/v1/sandboxes/{box}/fork",
                       {"spec": {"volumes": []}})
        self.assertEqual(r.status, 201, r)

    def test_command_line(self):
        i = self.i
        i.cli("volume", "create", "data", "--size", "64M", check=0)
        i.cli("create", "--name", "w", "--volume", "data:/d", check=0)
        self.assertIn("data", i.cli("volume", "ls", check=0).out)
        seen = json.loads(i.cli("volume", "ls", "--json", check=0).out)
        self.assertEqual(seen[0]["name"], "data")
        self.assertEqual(len(seen[0]["sandboxes"]), 1)
        self.assertIn("has volume", i.cli("volume", "rm", "data", check=1).err)
        i.cli("rm", "w", check=0)
        i.cli("volume", "rm", "data", check=0)
        self.assertEqual(i.cli("volume", "ls", "-q", check=0).out, "")


class Limits(unittest.TestCase):
    """What the registry and the pool disagree about; no real warden."""

    def setUp(self):
        self.a = Api(project_disk="1G")
        self.addCleanup(self.a.stop)

    def make(self, name, **more):
        return self.a.api("POST", "/v1/volumes", {"name": name, **more})

    def states(self):
        r = self.a.api("GET", "/v1/volumes")
        return {v["name"]: v["state"] for v in r.json["volumes"]}

    def restart(self):
        self.a.kill()
        self.a.start()

    def test_share(self):
        self.assertEqual(self.make("a", size="600M").status, 201)
        r = self.make("b", size="600M")
        self.assertIn("project_disk", r.json["message"])
        self.assertEqual(self.states(), {"a": "ready"})

    def test_lost(self):
        self.assertEqual(self.make("a", size="64M").status, 201)
        one = self.a.api("GET", "/v1/volumes/a").json["id"]
        size = self.a.warden.volumes.pop(one)
        self.restart()
        self.assertEqual(self.states(), {"a": "missing"})
        r = self.a.api("POST", "/v1/sandboxes", {"volumes": ["a:/d"]})
        self.assertEqual(r.status, 409, r)
        self.a.warden.volumes[one] = size
        self.restart()
        self.assertEqual(self.states(), {"a": "ready"})

    def test_volume_without_a_row_is_kept_as_a_stray(self):
        self.a.warden.volumes["i" + "a" * 26] = 1
        self.restart()
        wait_for("it is told", lambda: "has no row" in self.a.log(), 10 * SLOW)
        self.assertEqual(len(self.a.warden.volumes), 1)
        strays = self.a.api("GET", "/v1/strays").json["strays"]
        self.assertEqual([s["id"] for s in strays], ["i" + "a" * 26])

    def test_half(self):
        """The daemon dies while one is made, and while one is removed."""
        self.assertEqual(self.make("b", size="64M").status, 201)
        w = self.a.warden
        for op, method, path, body in (
                (VOLUME_NEW, "POST", "/v1/volumes",
                 {"name": "a", "size": "64M"}),
                (VOLUME_REMOVE, "DELETE", "/v1/volumes/b", None)):
            w.silent = {op}
            w.seen.clear()
            t = threading.Thread(target=self.quietly,
                                 args=(method, path, body))
            t.start()
            volume = wait_for("the warden was asked", lambda: [
                id for o, id in w.seen if o == op], 10 * SLOW)[0]
            if op == VOLUME_NEW:
                w.volumes[volume] = 1  # it did, before we died
            self.a.kill()
            t.join()
            w.silent = set()
            self.a.start()
            # Before the next one: its end is not that of another.
            wait_for("it is not in the pool", lambda: volume not in w.volumes,
                     10 * SLOW)
        self.assertEqual(self.states(), {})
        self.assertEqual(w.volumes, {})

    def test_half_made_volume_keeps_its_row_until_it_is_removed(self):
        """The daemon dies again, before the warden has removed it."""
        w = self.a.warden
        w.silent = {VOLUME_NEW, VOLUME_REMOVE}
        t = threading.Thread(target=self.quietly, args=(
            "POST", "/v1/volumes", {"name": "a", "size": "64M"}))
        t.start()
        volume = wait_for("the warden was asked", lambda: [
            id for op, id in w.seen if op == VOLUME_NEW], 10 * SLOW)[0]
        w.volumes[volume] = 1
        for _ in range(2):
            self.a.kill()
            w.seen.clear()
            self.a.start()
            wait_for("the removal was asked for",
                     lambda: (VOLUME_REMOVE, volume) in w.seen, 10 * SLOW)
            self.assertEqual(self.states(), {})
        t.join()
        self.a.kill()
        w.silent = set()
        self.a.start()
        wait_for("it is removed", lambda: volume not in w.volumes, 10 * SLOW)
        self.assertEqual(self.a.api("GET", "/v1/strays").json["strays"], [])
        wait_for("the name is free", lambda: self.make(
            "a", size="64M").status == 201, 10 * SLOW)

    def test_half_made_volume_is_removed_when_the_warden_can(self):
        w = self.a.warden
        w.refuse = {VOLUME_NEW: (5, "I/O error"), VOLUME_REMOVE: (5, "I/O error")}
        self.assertEqual(self.make("a", size="64M").status, 500)
        volume = next(id for op, id in w.seen if op == VOLUME_NEW)
        w.volumes[volume] = 1
        wait_for("the removal failed", lambda: "is not removed yet" in self.a.log(),
                 10 * SLOW)
        self.assertEqual(self.states(), {})
        w.refuse = {}
        w.crash()
        w.listen()
        wait_for("it is removed", lambda: volume not in w.volumes, 10 * SLOW)
        self.assertEqual(self.a.api("GET", "/v1/strays").json["strays"], [])

    def quietly(self, method, path, body):
        with contextlib.suppress(OSError, http.client.HTTPException):
            self.a.api(method, path, body)


if __name__ == "__main__":
    harness.main()
