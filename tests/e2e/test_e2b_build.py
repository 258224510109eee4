# suite: sanitized
"""Templates and volumes of E2B's API where no SDK looks: who sees them, what
a restart does, and what is never left behind."""

import hashlib
import io
import tarfile

import e2b_case
import harness
import registry
from harness import wait_for


class Case(e2b_case.Case):
    def build(self, name, steps, key=None, wait=True, **more):
        b = self.ok(202, "POST", "/v3/templates", {"name": name}, key=key)
        at = f"/templates/{b['templateID']}/builds/{b['buildID']}"
        self.ok(202, "POST", "/v2" + at, {"steps": steps, **more}, key=key)
        return self.ended(at, key) if wait else at

    def status(self, at, key=None):
        return self.ok(200, "GET", at + "/status", key=key)

    def ended(self, at, key=None):
        def over():
            s = self.status(at, key)
            return s["status"] in ("ready", "error") and s
        return wait_for("the build is over", over, 60)

    def run_in(self, ref, command):
        r = self.ok(200, "POST", f"/v1/sandboxes/{ref}/run",
                    {"command": command})
        return r["stdout"]


def run(*words):
    return {"type": "RUN", "args": list(words)}


class Builds(Case):
    def test_restart(self):
        done = self.build("old", [run("echo 1 > /tmp/x")])
        self.assertEqual(done["status"], "ready", done)
        at = self.build("young", [run("touch /tmp/began; sleep 600")],
                        wait=False)
        wait_for("its step is there", lambda: "RUN touch" in
                 " ".join(self.status(at)["logs"]))
        box = wait_for("only its sandbox is there", lambda:
                       len(self.i.ids()) == 1 and self.i.ids())[0]
        wait_for("its step runs", lambda: self.run_in(
            box, "ls /tmp/began 2>/dev/null"))
        self.assertEqual(self.ok(200, "GET", "/v2/sandboxes"), [])
        self.i.kill_role("carrel-api")
        self.i.wait_ready()
        s = self.status(at)
        self.assertEqual(s["status"], "error")
        self.assertIn("restarted", s["reason"]["message"])
        wait_for("its sandbox is gone", lambda: not self.i.ids())
        self.assertEqual(self.ok(404, "POST", "/v2/sandboxes",
                                 {"templateID": "young"})["code"], 404)
        # What was ready before still is.
        s = self.ok(201, "POST", "/v2/sandboxes", {"templateID": "old"})
        self.assertEqual(self.run_in(s["sandboxID"], "cat /tmp/x"), "1\n")
        self.i.rm(s["sandboxID"])

    def test_projects(self):
        mine, other, reader = self.key(), self.key(project="b"), \
            self.key("read")
        self.ok(403, "POST", "/v3/templates", {"name": "x"}, key=reader)
        done = self.build("secret", [run("echo mine > /tmp/x")], key=mine)
        tid = done["templateID"]
        self.assertEqual([t["templateID"] for t in
                          self.ok(200, "GET", "/templates", key=reader)
                          if t["aliases"] == ["secret"]], [tid])
        self.assertEqual(self.ok(200, "GET", "/templates", key=other), [])
        for ref in (tid, "secret", "default/secret", done["buildID"]):
            self.ok(404, "POST", "/v2/sandboxes", {"templateID": ref},
                    key=other)
            self.ok(404, "POST", "/v2/templates/%s/builds/%s" %
                    (tid, done["buildID"]), {}, key=other)
        self.ok(404, "GET", "/templates/aliases/secret", key=other)
        self.ok(404, "DELETE", f"/templates/{tid}", key=other)
        self.ok(404, "GET", f"/templates/{tid}/files/{'a' * 64}", key=other)
        self.ok(403, "DELETE", f"/templates/{tid}", key=reader)
        self.ok(403, "POST", "/v3/templates", {"name": "default/y"}, key=other)
        # The same name is another template there.
        again = self.build("secret", [], key=other)
        self.assertEqual(again["status"], "ready", again)
        self.assertNotEqual(again["templateID"], tid)
        self.ok(401, "GET", "/templates", key="e2b_" + "0" * 40)

    def test_busy(self):
        ats = [self.build(f"slow-{i}", [run("sleep 600")], wait=False)
               for i in range(4)]
        b = self.ok(202, "POST", "/v3/templates", {"name": "slow-4"})
        at = f"/templates/{b['templateID']}/builds/{b['buildID']}"
        self.ok(429, "POST", "/v2" + at, {"steps": []})
        tid = ats[0].split("/")[2]
        self.assertIn("under way", self.ok(
            409, "DELETE", f"/templates/{tid}")["message"])
        # The end of its sandbox is the end of a build.
        wait_for("their steps run", lambda: all(
            "RUN sleep 600" in self.status(a)["logs"] for a in ats))
        for box in self.i.ids():
            self.i.api("DELETE", f"/v1/sandboxes/{box}")
        for a in ats:
            self.assertEqual(self.ended(a)["status"], "error")
        self.ok(204, "DELETE", f"/templates/{tid}")

    def archive(self, entries):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w:gz") as tar:
            for name, data, link in entries:
                e = tarfile.TarInfo(name)
                e.size = len(data)
                if link:
                    e.type, e.linkname = tarfile.SYMTYPE, link
                tar.addfile(e, io.BytesIO(data))
        return out.getvalue()

    def copy(self, name, body, src):
        digest = hashlib.sha256(body).hexdigest()
        b = self.ok(202, "POST", "/v3/templates", {"name": name})
        slot = self.ok(201, "GET",
                       f"/templates/{b['templateID']}/files/{digest}")
        target = "/" + slot["url"].split("/", 3)[3]
        self.ok(200, "PUT", target, body)
        at = f"/templates/{b['templateID']}/builds/{b['buildID']}"
        self.ok(202, "POST", "/v2" + at, {"steps": [
            {"type": "COPY", "args": [src, "/opt/x", "", ""],
             "filesHash": digest}]})
        return self.ended(at)

    def test_archives(self):
        """What clients send is unpacked inside, whatever it is."""
        s = self.copy("garbage", b"no archive at all", "x")
        self.assertEqual((s["status"], s["reason"]["step"]), ("error", "1"))
        s = self.copy("climbing", self.archive(
            [("../../../../../../tmp/climbed", b"x", None),
             ("in", b"", "/etc"), ("in/carrel-climbed", b"x", None)]), "in")
        self.assertIn(s["status"], ("error", "ready"))
        for path in ("/tmp/climbed", "/etc/carrel-climbed"):
            self.assertFalse(harness.os.path.exists(path))
        s = self.copy("plain", self.archive([("x", b"hello", None)]), "x")
        self.assertEqual(s["status"], "ready", s)

    def test_missing_archive(self):
        s = self.build("missing", [{"type": "COPY", "args": ["a", "b"],
                                    "filesHash": "f" * 64}])
        self.assertEqual(s["reason"]["step"], "1")
        self.assertIn("not uploaded", s["reason"]["message"])

    def test_log_is_bounded(self):
        s = self.build("loud", [run("yes 0123456789 | head -n 100000; "
                                    "head -c 300000 /dev/zero")])
        self.assertEqual(s["status"], "ready", s)
        at = f"/templates/{s['templateID']}/builds/{s['buildID']}/status"
        n, lines = 0, []
        while True:
            page = self.ok(200, "GET", f"{at}?logsOffset={n}")["logEntries"]
            if not page:
                break
            self.assertLessEqual(len(page), 100)
            n += len(page)
            lines += [e["message"] for e in page]
        self.assertLessEqual(n, 1010)
        self.assertTrue(any("left out" in m for m in lines[-3:]), lines[-3:])
        self.ok(400, "GET", f"{at}?logsOffset=-1")

    def test_snapshot_removed(self):
        s = self.build("hollow", [])
        snap = [x for x in self.ok(200, "GET", "/v1/snapshots")["snapshots"]
                if x["name"] == "template-" + s["buildID"]][0]
        self.ok(204, "DELETE", f"/v1/snapshots/{snap['id']}")
        self.assertIn("build it again", self.ok(
            404, "POST", "/v2/sandboxes", {"templateID": "hollow"})["message"])


class Registries(Case):
    @classmethod
    def setUpClass(cls):
        cls.r = registry.Fake()
        cls.CONF = {"registries_insecure": cls.r.host}
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.r.close()

    def test_pull(self):
        """An image that is not here comes from a registry, for who may."""
        self.r.add("1", registry.Image(
            registry.tiny_layers({"etc/new": b"news\n"}),
            config={"Env": ["FROM_IMAGE=yes"], "WorkingDir": "/srv"}))
        ref = f"{self.r.host}/x:1"
        s = self.build("pulled", [], key=self.key("admin"), fromImage=ref)
        self.assertEqual(s["reason"]["step"], "base", s)
        self.assertIn("could not be pulled", s["reason"]["message"])
        s = self.build("pulled", [run("cat /etc/new > /tmp/x")], fromImage=ref)
        self.assertEqual(s["status"], "ready", s)
        box = self.ok(201, "POST", "/v2/sandboxes", {"templateID": "pulled"})
        self.assertEqual(self.run_in(box["sandboxID"],
                                     "cat /tmp/x; echo $FROM_IMAGE; pwd"),
                         "news\nyes\n/srv\n")
        self.i.rm(box["sandboxID"])
        # Once it is here, everybody builds on it.
        s = self.build("again", [], key=self.key(), fromImage=ref)
        self.assertEqual(s["status"], "ready", s)
        # One in which somebody else has the number of `user`.
        self.r.add("2", registry.Image(registry.tiny_layers({
            "etc/passwd": b"root:x:0:0::/root:/bin/sh\n"
                          b"node:x:1000:1000::/home/node:/bin/sh\n"})))
        s = self.build("strange", [run("id -u > u; whoami >> u")],
                       fromImage=f"{self.r.host}/x:2")
        self.assertEqual(s["status"], "ready", s)
        box = self.ok(201, "POST", "/v2/sandboxes", {"templateID": "strange"})
        self.assertEqual(self.run_in(box["sandboxID"],
                                     "cat u; whoami; pwd; ls -ld ."
                                     " | cut -d' ' -f1"),
                         "1001\nuser\nuser\n/home/user\ndrwxr-xr-x\n")
        self.i.rm(box["sandboxID"])
        s = self.build("cloud", [], fromImage=f"{self.r.host}/y:1",
                       fromImageRegistry={"type": "aws"})
        self.assertIn("aws", s["reason"]["message"])


class Volumes(Case):
    def content(self, status, method, volume, rest, body=None, token=None):
        return self.ok(status, method,
                       f"/volumecontent/{volume['volumeID']}/{rest}", body,
                       headers={"Authorization":
                                f"Bearer {token or volume['token']}"})

    def test_projects(self):
        mine, other = self.key(), self.key(project="b")
        v = self.ok(201, "POST", "/volumes", {"name": "data"}, key=mine)
        self.assertEqual(self.ok(200, "GET", "/volumes", key=other), [])
        for method in ("GET", "DELETE"):
            self.ok(404, method, f"/volumes/{v['volumeID']}", key=other)
        w = self.ok(201, "POST", "/volumes", {"name": "data"}, key=other)
        self.content(401, "GET", v, "dir?path=/", token=w["token"])
        self.content(401, "GET", v, "dir?path=/", token=mine)
        self.ok(401, "GET", f"/volumecontent/{v['volumeID']}/dir?path=/")
        self.assertEqual(self.content(200, "GET", v, "dir?path=/"), [])
        # The sandbox it is looked at through belongs to no list of theirs,
        # and to the volume's project.
        self.assertEqual(self.ok(200, "GET", "/v2/sandboxes"), [])
        box = self.ok(200, "GET", f"/v1/sandboxes/{self.i.ids()[0]}")
        self.assertEqual(box["project"], "default")
        self.ok(204, "DELETE", f"/volumes/{v['volumeID']}", key=mine)
        self.ok(204, "DELETE", f"/volumes/{w['volumeID']}", key=other)
        self.assertEqual(self.i.ids(), [])

    def test_its_sandbox_is_made_again(self):
        v = self.ok(201, "POST", "/volumes", {"name": "again"})
        self.content(201, "POST", v, "dir?path=/d")
        for box in self.i.ids():
            self.i.rm(box)
        listed = self.content(200, "GET", v, "dir?path=/")
        self.assertEqual([e["path"] for e in listed], ["/d"])
        self.i.kill_role("carrel-api")
        self.i.wait_ready()
        self.content(200, "GET", v, "path?path=/d")
        for box in self.i.ids():
            self.i.rm(box)
        self.ok(204, "DELETE", f"/volumes/{v['volumeID']}")

    def test_links_lead_nowhere(self):
        """Who writes a volume says nothing about ours."""
        v = self.ok(201, "POST", "/volumes", {"name": "links"})
        box = self.i.create(volumes=["links:/v:shared"])
        self.run_in(box, "ln -s /etc/passwd /v/a; ln -s / /v/b")
        entry = self.content(200, "GET", v, "path?path=/a")
        self.assertEqual((entry["type"], entry["target"]),
                         ("symlink", "/etc/passwd"))
        for bad in ("path?path=/../x", "path?path=x/../../y", "file?path=..",
                    "dir?path=/&depth=-1", "path?path=" + "x" * 3000):
            self.content(400, "GET", v, bad)
        self.content(404, "GET", v, "file?path=/nothing")
        self.content(400, "POST", v, "dir?path=/x&mode=99999")
        self.content(400, "PATCH", v, "path?path=/a", {"uid": -1})
        self.i.rm(box)
        self.ok(204, "DELETE", f"/volumes/{v['volumeID']}")

    def test_links_do_not_lead_out_of_the_volume(self):
        v = self.ok(201, "POST", "/volumes", {"name": "beneath"})
        box = self.i.create(volumes=["beneath:/v:shared"])
        self.run_in(box, "mkdir -p /v/d; echo kept > /v/d/f; ln -s d /v/in; "
                         "ln -s d/f /v/file; ln -s /tmp /v/out; ln -s ../tmp /v/up; "
                         "ln -s /etc/hostname /v/name; ln -s ../../v /v/d/back")
        for link in ("out", "up", "d/back"):
            for method, rest, body in (
                    ("PUT", f"file?path=/{link}/x", b"lost"),
                    ("PUT", f"file?path=/{link}/new/x&uid=0", b"lost"),
                    ("POST", f"dir?path=/{link}/y", None),
                    ("POST", f"dir?path=/{link}/y/z&force=true", None),
                    ("PATCH", f"path?path=/{link}", {"mode": 0o700}),
                    ("PATCH", f"path?path=/{link}", {"uid": 1000}),
                    ("DELETE", f"path?path=/{link}/x", None),
                    ("GET", f"path?path=/{link}/x", None),
                    ("GET", f"dir?path=/{link}", None)):
                self.content(403, method, v, rest, body)
        self.content(403, "GET", v, "file?path=/name")
        self.content(403, "PUT", v, "file?path=/name", b"lost")
        # Links that stay in the volume are followed.
        self.assertEqual(self.bytes(v, "/file"), b"kept\n")
        self.assertEqual(self.bytes(v, "/in/f"), b"kept\n")
        self.content(201, "PUT", v, "file?path=/in/new/g&uid=7&gid=8&mode=420", b"made")
        entry = self.content(200, "GET", v, "path?path=/d/new/g")
        self.assertEqual((entry["uid"], entry["gid"], entry["mode"]), (7, 8, 0o644))
        self.assertEqual(self.run_in(box, "cat /v/d/new/g"), "made")
        self.assertEqual(self.content(200, "GET", v, "path?path=/")["type"], "directory")
        self.content(204, "DELETE", v, "path?path=/out")
        self.i.rm(box)
        self.ok(204, "DELETE", f"/volumes/{v['volumeID']}")

    def bytes(self, v, path):
        r = self.i.api("GET", f"/volumecontent/{v['volumeID']}/file?path={path}",
                       headers={"Authorization": f"Bearer {v['token']}"})
        self.assertEqual(r.status, 200, r)
        return r.body


if __name__ == "__main__":
    harness.main()
