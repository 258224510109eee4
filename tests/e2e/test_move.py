# suite: microvm
"""The same sandbox in the other tier: there and back with all that is on its
disk, or not at all."""

import http.client
import json
import os
import subprocess
import unittest

import harness
from harness import SLOW, wait_for

BOOT = 60 * SLOW  # emulated, beside other tests
WHOLE = os.environ.get("CARREL_TIER") == "microvm"  # make test-microvm
SMALL = {"cpus": 1, "memory": "64M", "disk": "64M"}

# One of each kind that a disk can have, over an image and instead of its files.
MAKE = r"""set -e
cd /home/user
echo text > file; ln file other; ln -s file link; ln -s /nowhere broken
mkdir -p deep/er/still; echo x > deep/er/still/f; chmod 2751 deep
printf '#!/bin/sh\n' > run; chmod 4755 run; chown 12:34 run
mkfifo pipe; chmod 600 pipe; : > empty; chown 65534:0 empty
echo "odd name" > "$(printf 'a b\nc\xff')"
printf x | dd of=sparse bs=1 seek=33554431 2>/dev/null
dd if=/dev/urandom of=noise bs=1000 count=300 2>/dev/null
touch -d '2001-02-03 04:05:06' file link deep/er
rm /bin/acpid; rm /bin/ar; mkdir /bin/ar; echo inside > /bin/ar/f
rm /bin/arp; ln -s busybox /bin/arp
chmod 640 /etc/group; chown 5:6 /var; chown 7:8 /; chmod 1715 /
cd /usr/local; mv bin moved; mkdir bin; echo new > bin/only
"""
# What can be seen of it; sizes of directories are each file system's own.
LOOK = r"""find / -xdev ! -type d -exec stat -c '%n %f %u %g %s %h %Y' {} + | sort
find / -xdev -type d -exec stat -c '%n %f %u %g' {} + | sort
stat -c '%n %Y' /home/user/deep/er /
find /home /usr /etc -xdev -type f -exec md5sum {} + | sort
readlink /home/user/link /home/user/broken /bin/arp
cat /etc/machine-id; hostname
"""


class Move(harness.Case):
    @classmethod
    def setUpClass(cls):
        cls.CONF = {"vm_dir": harness.vm_dir()}
        super().setUpClass()

    def sh(self, box, script, user="root"):
        return self.i.cli("exec", "--user", user, box, "--", "sh", "-c",
                          script, timeout=BOOT)

    def out(self, box, script):
        p = self.sh(box, script)
        self.assertEqual(p.returncode, 0, p.err)
        return p.stdout

    def move(self, box, tier, status=200):
        r = self.i.api("POST", f"/v1/sandboxes/{box}/move", {"tier": tier},
                       timeout=BOOT)
        self.assertEqual(r.status, status, r)
        return r.json

    def show(self, box):
        return self.i.api("GET", f"/v1/sandboxes/{box}").json

    def attribute(self, box, value=None):
        path = f"/v1/sandboxes/{box}/files/"
        if value:
            r = self.i.api("PUT", path + "content?path=tagged", b"x",
                           {"X-Attribute": f"user.tag={value}"})
            self.assertEqual(r.status, 200, r)
        return self.i.api("GET", path + "stat?path=tagged&detail=true").json

    def test_there_and_back(self):
        box = self.i.create(tier="container", name="work", labels={"k": "v"},
                            timeout="1h", rules=["allow GET a.test"],
                            **SMALL)
        self.attribute(box, "kept")
        self.out(box, MAKE)
        before, was = self.out(box, LOOK), self.show(box)
        attrs = self.attribute(box)
        client = subprocess.Popen(
            self.i.cli_argv("exec", box, "--", "sleep", "1000"),
            env=self.i.env(), stderr=subprocess.PIPE)
        wait_for("it sleeps", lambda: b"sleep 1000" in self.out(box, "ps"))
        # With a word of how far it is.
        p = self.i.cli("move", "work", "--tier", "microvm", "--json",
                       timeout=BOOT)
        self.assertEqual(p.returncode, 0, p.err)
        self.assertIn("copying its disk", p.err)
        now = json.loads(p.out)
        self.assertEqual(now["spec"], {**was["spec"], "tier": "microvm"})
        for k in ("id", "name", "project", "labels", "image_id", "created_at",
                  "state"):
            self.assertEqual(now[k], was[k], k)
        self.assertIn(now["isolation"], ("emulated", "vm"))
        # Its processes have ended, and who looked at one heard why.
        self.assertIn(b"moves to the other tier",
                      client.communicate(timeout=BOOT)[1])
        self.assertNotIn(b"sleep 1000", self.out(box, "ps"))
        self.assertEqual(self.out(box, LOOK), before)
        self.assertEqual(self.attribute(box), attrs)
        self.assertLess(int(self.out(box, "du -k /home/user/sparse")
                            .split()[0]), 1024)
        # A removed file of the image may come back, a new one may go.
        self.out(box, "cd /home/user; echo again > /bin/acpid; rm other;"
                      "mv deep shallow; echo more >> file")
        before = self.out(box, LOOK)
        back = self.move(box, "container")
        self.assertEqual(back["spec"], was["spec"])
        self.assertEqual(back["isolation"], "container")
        self.assertEqual(self.out(box, LOOK), before)
        self.assertEqual(self.attribute(box), attrs)
        self.assertLess(int(self.out(box, "du -k /home/user/sparse")
                            .split()[0]), 1024)
        types = [(e["type"], e["data"]["to"]) for e in self.log(box)
                 if e["type"].startswith("sandbox.move")]
        self.assertEqual(types, [("sandbox.move", "microvm"),
                                 ("sandbox.moved", "microvm"),
                                 ("sandbox.move", "container"),
                                 ("sandbox.moved", "container")])

    def log(self, box):
        r = self.i.api("GET", f"/v1/sandboxes/{box}/log")
        return [json.loads(l) for l in r.body.splitlines()]

    @unittest.skipUnless(WHOLE, "with make test-microvm")
    def test_too_many(self):
        """A project has two moves at once, and the next one is not touched."""
        boxes = [self.i.create(tier="container", **SMALL) for _ in range(3)]
        clients = [subprocess.Popen(
            self.i.cli_argv("move", box, "--tier", "microvm"),
            env=self.i.env()) for box in boxes[:2]]
        wait_for("both are under way", lambda: all(
            self.show(box)["state"] != "running" for box in boxes[:2]))
        r = self.move(boxes[2], "microvm", 429)
        self.assertIn("2 moves are under way", r["message"])
        self.assertEqual(self.show(boxes[2])["state"], "running")
        for box, client in zip(boxes, clients):
            self.assertEqual(client.wait(BOOT), 0)
            self.assertEqual(self.show(box)["spec"]["tier"], "microvm")
        self.move(boxes[2], "microvm")

    @unittest.skipUnless(WHOLE, "with make test-microvm")
    def test_what_does_not_fit(self):
        """It goes on as what it was, where it was stopped."""
        box = self.i.create(tier="container", **SMALL)
        self.out(box, "dd if=/dev/urandom of=/home/user/f bs=1M count=57 "
                      "2>/dev/null")
        r = self.move(box, "microvm", 507)
        self.assertIn("does not fit", r["message"])
        self.assertIn("stays in tier container", r["message"])
        self.assertEqual(self.show(box)["spec"]["tier"], "container")
        self.assertEqual(int(self.out(box, "stat -c %s /home/user/f")),
                         57 << 20)

    def test_snapshots_keep_their_tier(self):
        box = self.i.create(tier="container", **SMALL)
        self.out(box, "echo one > /home/user/n")
        path = f"/v1/sandboxes/{box}"
        r = self.i.api("POST", path + "/snapshots", {"name": "before"})
        self.assertEqual(r.status, 201, r)
        self.out(box, "echo two > /home/user/n")
        # Also one that sleeps: it is moved, and runs then.
        self.i.api("POST", path + "/pause", {"disk_only": True})
        self.assertEqual(self.move(box, "microvm")["state"], "running")
        self.assertEqual(self.out(box, "cat /home/user/n"), b"two\n")
        r = self.i.api("POST", path + "/rollback", {"snapshot": "before"})
        self.assertEqual(r.status, 400, r)
        self.assertIn("move it there first, or fork", r.json["message"])
        r = self.i.api("POST", "/v1/sandboxes/before/fork", {})
        self.assertEqual(r.status, 201, r)
        fork = r.json["sandboxes"][0]
        self.assertEqual(fork["spec"]["tier"], "container")
        self.assertEqual(self.out(fork["id"], "cat /home/user/n"), b"one\n")

    @unittest.skipUnless(WHOLE, "with make test-microvm")
    def test_what_it_started_from(self):
        """A machine's disk is nobody's ancestor on the host."""
        box = self.i.create(tier="microvm", **SMALL)
        r = self.i.api("POST", f"/v1/sandboxes/{box}/fork", {}, timeout=BOOT)
        self.assertEqual(r.status, 201, r)
        fork = r.json["sandboxes"][0]["id"]
        self.move(fork, "container")
        r = self.i.api("GET", f"/v1/diff?to=sandbox:{fork}")
        self.assertIn("which the host does not open", r.body.decode())
        r = self.i.api("GET", f"/v1/diff?to=sandbox:{fork}&from=image:tiny")
        self.assertIn('"done"', r.body.decode())

    def test_refused(self):
        box = self.i.create(tier="container", **SMALL)
        self.move(box, "mainframe", 400)
        self.move("nosuch", "microvm", 404)
        r = self.i.api("POST", f"/v1/sandboxes/{box}/move", {})
        self.assertEqual(r.status, 400, r)
        self.assertEqual(self.move(box, "container")["state"], "running")
        r = self.i.api("POST", "/v1/volumes", {"name": "v", "size": "16M"})
        self.assertEqual(r.status, 201, r)
        box = self.i.create(tier="container", volumes=["v:/v"], **SMALL)
        self.assertIn("volumes", self.move(box, "microvm", 501)["message"])
        r = self.i.api("PUT", "/v1/policies/strict",
                       b"allow * a.test\nrequire tier microvm\n")
        self.assertIn(r.status, (200, 201), r)
        box = self.i.create(tier="microvm", policy="strict", **SMALL)
        r = self.move(box, "container", 403)
        self.assertIn("'strict' is for microvms", r["message"])
        self.assertEqual(self.show(box)["state"], "running")

    @unittest.skipUnless(WHOLE, "with make test-microvm")
    def test_killed_in_the_middle(self):
        """Whoever dies: it is the old one, or the new one, with all."""
        box = self.i.create(tier="container", persist=True, **SMALL)
        self.out(box, "dd if=/dev/urandom of=/home/user/f bs=1M count=20 "
                      "2>/dev/null; md5sum /home/user/f > /home/user/sum")
        for role in ("carrel-api", "carrel-warden") * 2:
            for step in ("stop", "launch", "read", "copy"):
                tier = self.show(box)["spec"]["tier"]
                self.break_at(box, step, role, "container"
                              if tier == "microvm" else "microvm")
                self.out(box, "md5sum -c /home/user/sum")
                self.alone(box)

    def break_at(self, box, step, role, tier):
        conn = harness.UnixHTTP(self.i.sock, BOOT)
        try:
            conn.request("POST", f"/v1/sandboxes/{box}/move",
                         json.dumps({"tier": tier}),
                         {"Accept": "application/x-ndjson"})
            r = conn.getresponse()
            for line in r:
                if json.loads(line).get("progress", {}).get("step") == step:
                    self.i.kill_role(role)
                    break
            for line in r:
                pass
        except (OSError, http.client.HTTPException, ValueError):
            pass
        finally:
            conn.close()
        self.i.wait_ready()
        wait_for("it is settled", lambda: self.show(box)["state"] in
                 ("running", "paused", "suspended"), BOOT)

    def alone(self, box):
        """Nothing else is left: no machine, no volume, no snapshot."""
        pool = self.i.pool()

        def rest():
            return [d for d in os.listdir(pool + "/box") if d != box] + \
                os.listdir(pool + "/snap")
        wait_for("only its own disk is left", lambda: not rest(), BOOT)


class Without(harness.Case):
    CONF = {"microvm": "off"}

    def test_no_machines(self):
        box = self.i.create(tier="container")
        self.i.sh(box, "sleep 1000 > /dev/null 2>&1 &")
        r = self.i.api("POST", f"/v1/sandboxes/{box}/move", {"tier": "microvm"})
        self.assertEqual(r.status, 501, r)
        self.assertIn("switched off", r.json["message"])
        # Nothing was done to it.
        self.assertIn("sleep 1000", self.i.sh(box, "ps").out)


if __name__ == "__main__":
    harness.main()
