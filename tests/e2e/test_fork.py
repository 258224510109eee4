# suite: both
"""What is made of snapshots, in real sandboxes."""

import contextlib
import http.client
import itertools
import os
import random
import signal
import threading
import time
import unittest

import attack
import harness
from harness import wait_for

# Copies of a microVM have its processes; so many of them at once.
VM = harness.TIER == "microvm"
MANY = 8 if VM else 100
KILLS = int(os.environ.get("CHAOS_KILLS", "6"))


class Fork(harness.Case):
    CONF = {"max_sandboxes": MANY * 3 // 2}

    def post(self, path, body=None, status=200):
        r = self.i.api("POST", path, body)
        self.assertEqual(r.status, status, r)
        return r.json

    def snapshot(self, box, name=None):
        return self.post(f"/v1/sandboxes/{box}/snapshots", {"name": name}, 201)

    def out(self, box, script):
        return self.i.sh(box, script).out

    def slept(self, box):
        """Is what ran in the original in its copy, exactly when it should?"""
        self.assertEqual("sleep 1000" in self.out(box, "ps"), VM)

    def test_rollback(self):
        """The files come back; id and name stay; the snapshot did not stop
        what ran."""
        box = self.i.create(name="work")
        self.out(box, "echo one > kept; echo one > gone")
        self.i.cli("exec", "-d", "--tag", "counter", box, "--", "sleep", "1000",
                   check=0)
        snap = self.snapshot("work", "before")
        self.assertLess(snap["pause_us"], 5000000)
        self.assertIn("sleep", self.out(box, "ps"))
        self.out(box, "echo two > kept; rm gone; echo three > new")
        j = self.post("/v1/sandboxes/work/rollback", {"snapshot": "before"})
        self.assertEqual((j["id"], j["name"], j["state"]),
                         (box, "work", "running"))
        self.assertEqual(self.out("work", "cat kept gone; ls"),
                         "one\none\ngone\nkept\n")
        self.slept(box)
        # And again: what was done since is gone.
        self.out(box, "rm kept")
        self.post("/v1/sandboxes/work/rollback", {"snapshot": snap["id"]})
        self.assertEqual(self.out("work", "cat kept"), "one\n")
        self.i.rm(box)
        self.assertEqual(self.i.api("DELETE", "/v1/snapshots/before").status,
                         204)

    def fork(self, ref, status=201, **body):
        j = self.post(f"/v1/sandboxes/{ref}/fork", body, status)
        return [x["id"] for x in j["sandboxes"]] if status == 201 else j

    def test_forks(self):
        box = self.i.create(name="parent", labels={"a": "b"})
        self.out(box, "echo one > kept; sudo sh -c 'echo x > /etc/machine-id'")
        self.i.cli("exec", "-d", box, "--", "sleep", "1000", check=0)
        forks = self.fork("parent", count=3, name="try", labels={"c": "d"})
        self.assertEqual([self.i.api("GET", f"/v1/sandboxes/{x}").json["name"]
                          for x in forks], ["try-1", "try-2", "try-3"])
        ids = set()
        for n, x in enumerate(forks):
            self.assertEqual(self.out(x, "cat kept; hostname"),
                             f"one\ntry-{n + 1}\n")
            self.out(x, f"echo {n} > mine; echo {n} > kept")
            self.slept(x)
        for x in forks + [box]:
            ids.add(self.out(x, "cat /etc/machine-id"))
            if not VM:  # it is their kernel's, which goes on in all of them
                ids.add(self.out(x, "cat /proc/sys/kernel/random/boot_id"))
        self.assertEqual(len(ids), 4 if VM else 8, ids)
        self.assertEqual(self.out(box, "cat kept; ls; ps | grep -c '[s]leep 10'"),
                         "one\nkept\n1\n")
        for x in forks + [box]:
            self.i.rm(x)
        self.nothing_left()

    def test_each_sandbox_has_a_machine_id(self):
        """Also when the file of its image is empty, as Debian's is."""
        box = self.i.create()
        self.out(box, "sudo sh -c ': > /etc/machine-id'")
        self.post("/v1/images/empty-id", {"snapshot": box}, 201)
        boxes = [self.i.create(image="empty-id") for _ in range(2)]
        ids = [self.out(x, "cat /etc/machine-id") for x in boxes]
        self.assertNotEqual(ids[0], ids[1])
        for x in ids:
            self.assertRegex(x, r"\A[0-9a-f]{32}\n\Z")
        r = self.i.api("GET", f"/v1/diff?to={boxes[0]}")
        self.assertNotIn(b"machine-id", r.body)
        for x in boxes + [box]:
            self.i.rm(x)
        # The snapshot that the difference was made with goes on its own.
        wait_for("the image is free", lambda: self.i.api(
            "DELETE", "/v1/images/empty-id").status == 204, 10)
        self.nothing_left()

    def test_asked_for_twice(self):
        """The same Idempotency-Key: the same forks. Of another sandbox, or
        with another body, it is a mistake."""
        box, other = self.i.create(), self.i.create()

        def fork(of, body, key="again-1"):
            return self.i.api("POST", f"/v1/sandboxes/{of}/fork", body,
                              {"Idempotency-Key": key})
        first, again = fork(box, {"count": 2}), fork(box, {"count": 2})
        self.assertEqual((first.status, again.status), (201, 201))
        self.assertEqual(again.headers.get("Idempotent-Replay"), "true")
        ids = [[x["id"] for x in r.json["sandboxes"]] for r in (first, again)]
        self.assertEqual(ids[0], ids[1])
        self.assertEqual(fork(box, {"count": 1}).status, 422)
        self.assertEqual(fork(other, {"count": 2}).status, 422)
        third = fork(box, {"count": 2}, "again-2").json["sandboxes"]
        self.assertFalse({x["id"] for x in third} & set(ids[0]))
        for x in [box, other, *ids[0], *(x["id"] for x in third)]:
            self.i.rm(x)

    def test_many_at_once(self):
        box = self.i.create(name="many", memory="64M")
        self.out(box, "echo one > kept")
        forks = self.fork("many", count=MANY, name="m")
        for x in random.sample(forks, 5):
            self.assertEqual(self.out(x, "cat kept"), "one\n")
        self.fork("many", status=429, count=MANY // 2)
        self.i.api("DELETE", "/v1/sandboxes?all=true")
        self.nothing_left()

    def test_fork_of_a_fork_of_a_fork(self):
        """Each has what was there before it, whoever goes first."""
        boxes = [self.i.create(name="g0")]
        for n in range(1, 4):
            self.out(boxes[-1], f"echo {n} > f{n}")
            boxes += self.fork(boxes[-1], name=f"g{n}")
            self.out(boxes[-2], f"rm f{n}")
        tree = self.i.api("GET", "/v1/sandboxes/g2/tree").json["nodes"]
        self.assertEqual({n["id"]: n["parent"] for n in tree
                          if n["type"] == "sandbox"},
                         {boxes[0]: tree[0]["id"], boxes[1]: boxes[0],
                          boxes[2]: boxes[1], boxes[3]: boxes[2]})
        for n in (1, 0, 2):
            self.i.rm(boxes[n])
            self.assertEqual(self.out(boxes[3], "cat f1 f2 f3"), "1\n2\n3\n")
        self.i.rm(boxes[3])
        self.nothing_left()

    def test_of_a_snapshot(self):
        box = self.i.create(name="orig", env={"A": "b"})
        self.out(box, "echo one > kept")
        snap = self.snapshot(box, "base")
        self.out(box, "echo two > kept")
        self.i.rm(box)
        a = self.i.create(snapshot="base", name="again", memory="300M")
        self.assertEqual(self.out(a, "cat kept; echo $A"), "one\nb\n")
        b, c = self.fork("base", count=2)
        self.assertEqual(self.out(b, "cat kept; echo $A"), "one\nb\n")
        j = self.i.api("GET", f"/v1/sandboxes/{a}").json
        self.assertEqual((j["image"], j["spec"]["memory"]),
                         ("tiny", 300 << 20))
        # Removed while it is needed, it goes later.
        self.assertEqual(self.i.api("DELETE", "/v1/snapshots/base").status, 204)
        self.assertEqual(self.i.api("GET", "/v1/snapshots/base").status, 404)
        for x in (a, b, c):
            self.i.rm(x)
        self.nothing_left()

    def test_port_after_a_rollback(self):
        """The same port of the same sandbox, and the same token."""
        box = self.i.create(name="web", ports={"http": 8080})
        self.out(box, "mkdir www; echo one > www/page")
        self.snapshot(box, "web-one")
        token = self.post(f"/v1/sandboxes/{box}/ports/8080/token", {}, 201)

        def page():
            r = self.i.api("GET", f"/v1/sandboxes/{box}/ports/http/page",
                           headers={"Carrel-Token": token["token"]})
            return r.body if r.status == 200 else b""
        for text in ("two", "three"):
            self.out(box, f"echo {text} > www/page")
            self.i.cli("exec", "-d", box, "--", "httpd", "-f", "-p",
                       "127.0.0.1:8080", "-h", "www", check=0)
            wait_for("the page", lambda: page() == f"{text}\n".encode(),
                     10 * harness.SLOW)
            self.post("/v1/sandboxes/web/rollback", {"snapshot": "web-one"})
            self.assertEqual(page(), b"")   # its server has ended
        self.assertEqual(self.out(box, "cat www/page"), "one\n")
        self.i.api("DELETE", "/v1/snapshots/web-one")
        self.i.rm(box)
        self.nothing_left()

    def test_by_the_command_line(self):
        box = self.i.create(name="cli")
        self.out(box, "echo one > kept")
        snap = self.i.cli("snapshot", "cli", "cli-one", check=0).out.strip()
        self.assertIn(snap, self.i.cli("snapshot", "ls", "-q", check=0).out)
        self.assertIn("cli-one", self.i.cli("snapshot", "ls", "cli", check=0).out)
        self.out(box, "echo two > kept")
        self.i.cli("rollback", "cli", "cli-one", check=0)
        self.assertEqual(self.out(box, "cat kept"), "one\n")
        forks = self.i.cli("fork", "cli", "--count", 2, "--name", "cf",
                           "--label", "a=b", check=0).out.split()
        again = self.i.cli("create", "--snapshot", "cli-one", check=0).out.strip()
        self.assertEqual(self.out("cf-2", "cat kept"), "one\n")
        self.assertEqual(self.out(again, "cat kept"), "one\n")
        lines = self.i.cli("tree", "cf-1", check=0).out.splitlines()
        self.assertRegex(lines[0], "^tiny  image")
        self.assertRegex(lines[1], "^`-- cli  sandbox, running")
        self.assertRegex("\n".join(lines), r"\n    [|`]-- cf-1  .*<--\n")
        self.assertRegex("\n".join(lines), r"\n        `-- " + again[:12])
        event = self.i.api("GET", "/v1/snapshots/cli-one").json["event"]
        self.out(box, "echo three > kept")
        self.i.cli("rollback", "cli", "--at", event, check=0)
        self.assertEqual(self.out(box, "cat kept"), "one\n")
        self.i.cli("rollback", "cli", check=2)
        self.i.cli("snapshot", "rm", "cli-one", check=0)
        for x in [box, again, *forks]:
            self.i.rm(x)
        self.nothing_left()

    def test_suspended(self):
        """Only the disk is left, also over a restart of the daemon."""
        box = self.i.create(name="sleeper")
        self.out(box, "echo one > kept; sudo sh -c 'echo x > /etc/machine-id'")
        self.i.cli("pause", "--disk-only", "sleeper", check=0)
        self.assertEqual(self.i.api("GET", f"/v1/sandboxes/{box}").json["state"],
                         "suspended")
        self.i.restart()
        fork, = self.fork("sleeper", name="dream")
        # Any use wakes it.
        self.assertEqual(self.out("sleeper", "cat kept; hostname"),
                         "one\nsleeper\n")
        self.assertEqual(self.out("dream", "cat kept; hostname"),
                         "one\ndream\n")
        self.assertNotEqual(self.out(box, "cat /etc/machine-id"),
                            self.out(fork, "cat /etc/machine-id"))
        self.i.cli("pause", "--disk-only", "sleeper", "dream", check=0)
        self.i.rm(box)
        self.i.rm(fork)
        self.nothing_left()

    def test_persistent(self):
        """PID 1 dies, or all processes with the host: the disk is kept."""
        box = self.i.cli("create", "--name", "stay", "--persist",
                         check=0).out.strip()
        for n in range(2):
            self.out(box, f"echo {n} >> kept; sync kept")
            before = set(self.i.box_pids())
            if n:
                self.i.end_daemon()
            for p in before:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(p, signal.SIGKILL)
            if n:
                self.i.start()
            wait_for("it is a disk", lambda: self.i.api(
                "GET", f"/v1/sandboxes/{box}").json["state"] == "suspended",
                10 * harness.SLOW)
        self.assertEqual(self.out("stay", "cat kept"), "0\n1\n")
        self.i.rm(box)
        self.nothing_left()

    @unittest.skipIf(VM, "a microVM has a disk of its own")
    def test_persistent_disk_is_written_out(self):
        """An overlay that is volatile ignores sync, and is lost with the host.
        So is that of a sandbox that is not kept, and only that."""
        for persist in (False, True):
            box = self.i.create(persist=persist)
            pid = attack.agent_of(attack.base_of(self.i, box))
            root, = [x for x in harness.read(f"/proc/{pid}/mountinfo")
                     .splitlines() if x.split()[4] == "/"]
            self.assertIn(" overlay ", root)
            self.assertEqual("volatile" in root, not persist, root)
            self.i.rm(box)
        self.nothing_left()

    def test_roles_are_killed(self):
        """Done or not done: whatever is listed works, nothing else is left."""
        box = self.i.create(name="work")
        self.out(box, "echo one > kept")
        self.snapshot(box, "before")
        over = threading.Event()

        def work(n):
            for k in itertools.count():
                if over.is_set():
                    return
                with contextlib.suppress(OSError, http.client.HTTPException):
                    if n == 0:
                        self.i.api("POST", "/v1/sandboxes/work/rollback",
                                   {"snapshot": "before"})
                    elif n == 1:
                        self.i.api("POST", "/v1/sandboxes/before/fork",
                                   {"count": 2, "name": f"f{k}"})
                        for x in (1, 2) if k >= 10 else ():
                            self.i.api("DELETE", f"/v1/sandboxes/f{k}-{x}")
                    else:
                        self.i.api("POST", "/v1/sandboxes/work/snapshots",
                                   {"name": f"s{k}"})
                time.sleep(0.01)
        threads = [threading.Thread(target=work, args=(n,), daemon=True)
                   for n in range(3)]
        for t in threads:
            t.start()
        for n in range(KILLS):
            time.sleep(random.uniform(0.05, 0.4))
            self.i.kill_role(("carrel-api", "carrel-warden")[n % 2])
            self.i.wait_ready()
        over.set()
        for t in threads:
            t.join(60 * harness.SLOW)
        for s in self.i.api("GET", "/v1/sandboxes").json["sandboxes"]:
            p = self.i.sh(s["id"], "cat kept")
            self.assertEqual(p.out, "one\n", (s, p))
        snaps = self.i.api("GET", "/v1/snapshots").json["snapshots"]
        here = os.listdir(f"{self.i.pool()}/snap")
        self.assertLessEqual({s["id"] for s in snaps}, set(here))
        self.i.api("DELETE", "/v1/sandboxes?all=true")
        for s in snaps:
            self.i.api("DELETE", f"/v1/snapshots/{s['id']}")
        # What a child of a killed warden was making goes at the next start.
        self.i.restart()
        self.nothing_left()

    def nothing_left(self):
        """No snapshot and no volume is in the pool."""
        def left():
            pool = self.i.pool()
            return os.listdir(f"{pool}/snap") + os.listdir(f"{pool}/box")
        wait_for("the pool is as it was", lambda: not left(),
                 20 * harness.SLOW)


if __name__ == "__main__":
    harness.main()
