# suite: sanitized
"""Images from registries: what is fetched, checked, resumed and refused."""

import gzip
import io
import json
import os
import re
import shutil
import ssl
import subprocess
import tarfile
import tempfile
import threading
import unittest

import harness
import registry
from harness import wait_for
from registry import Drip, Slow
from tcp import certificate


class RegistryCase(harness.Case):
    """`self.r` is a registry that the operator allows without TLS."""
    IMAGE = None

    @classmethod
    def setUpClass(cls):
        cls.r, cls.other, cls.stranger = (registry.Fake() for _ in range(3))
        cls.CONF = {"registries_insecure": f"{cls.r.host}, {cls.other.host}"}
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        for r in (cls.r, cls.other, cls.stranger):
            r.close()

    def setUp(self):
        for r in (self.r, self.other, self.stranger):
            r.manifests, r.blobs, r.seen = {}, {}, []
            r.auth = r.realm = r.redirect = None
            r.cut = {}
            r.ignore_range, r.fail_next, r.lose = False, 0, 0

    def pull(self, reference, name="pulled", **more):
        return self.i.api("POST", f"/v1/images/{name}/pull",
                          {"reference": reference, **more})

    def pulls(self, reference, name="pulled", **more):
        r = self.pull(reference, name, **more)
        self.assertEqual(r.status, 201, r)
        return r.json

    def fails(self, status, word, reference, **more):
        r = self.pull(reference, **more)
        self.assertEqual((r.status, r.json["error"]), (status, word), r)
        return r.json["message"]

    def image(self, tag="1", **kinds):
        """A new image, which nobody has any blob of, under x:tag."""
        secret = os.urandom(300000)
        image = registry.Image(registry.tiny_layers({"etc/new": secret}), **kinds)
        self.r.add(tag, image)
        return image

    def blobs(self):
        return sorted(os.listdir(self.i.state_dir + "/blobs"))

    def got(self, what="/blobs/", server=None):
        return [path.rpartition("/")[2] for method, path, _ in
                (server or self.r).seen if what in path and method == "GET"]


class Pull(RegistryCase):
    def test_config_and_content(self):
        image = self.image(config={"Env": ["A=b"], "WorkingDir": "/etc"})
        j = self.pulls(f"{self.r.host}/x:1")
        self.assertEqual(j["config"], {"Env": ["A=b"], "WorkingDir": "/etc"})
        self.assertIn(image.layers[1]["digest"], self.got())
        box = self.i.create(image="pulled")
        out = self.i.cli("exec", box, "--", "sh", "-c",
                         "echo $A; pwd; wc -c < new").stdout
        self.assertEqual(out.split(), [b"b", b"/etc", b"300000"])
        # The same again: nothing is fetched but the manifest.
        self.r.seen = []
        self.pulls(f"{self.r.host}/x@{registry.digest(image.manifest)}", "again")
        self.assertEqual(self.got(), [])
        log = self.i.api("GET", "/v1/events?after=0&follow=false&type=image.pull")
        said = [json.loads(line)["data"] for line in log.body.splitlines()]
        self.assertIn((f"{self.r.host}/x:1", registry.digest(image.manifest)),
                      [(d["reference"], d["digest"]) for d in said])

    def test_platforms(self):
        arm = registry.Image(registry.tiny_layers({"a": b"arm"}), arch="arm64")
        amd = registry.Image(registry.tiny_layers({"a": b"amd"}), arch="amd64")
        self.r.add("multi", arm, amd)
        self.pulls(f"{self.r.host}/x:multi")
        self.assertEqual(self.got("/manifests/"),
                         ["multi", registry.digest(amd.manifest)])
        self.assertNotIn(arm.layers[1]["digest"], self.got())
        self.fails(422, "bad_image", f"{self.r.host}/x:multi",
                   platform="linux/s390x")

    def test_resumes(self):
        """A connection that breaks goes on where it was; also after the death
        of the daemon's part that writes."""
        image = self.image()
        big = image.layers[1]["digest"]
        self.r.cut = {big: 200000}
        self.pulls(f"{self.r.host}/x:1")
        ranges = [f.get("Range") for _, path, f in self.r.seen if big in path]
        self.assertEqual(ranges, [None, "bytes=200000-"])
        # It gives up, and what is there stays.
        image = self.image()
        big = image.layers[1]["digest"]
        part = big.removeprefix("sha256:") + ".part"
        gate = threading.Event()
        whole = self.r.blobs[big]
        self.r.blobs[big] = Slow(whole, 250000, gate)
        done = []
        t = threading.Thread(target=lambda: done.append(
            self.quietly(f"{self.r.host}/x:1")))
        t.start()
        wait_for("a part of the blob", lambda: part in self.blobs() and
                 os.path.getsize(f"{self.i.state_dir}/blobs/{part}") > 100000,
                 30)
        self.i.kill_role("carrel-api")
        t.join(30)
        gate.set()
        self.i.wait_ready()
        self.r.blobs[big], self.r.seen = whole, []
        self.pulls(f"{self.r.host}/x:1")
        ranges = [f.get("Range") for _, path, f in self.r.seen if big in path]
        self.assertEqual(len(ranges), 1)
        self.assertGreater(int(ranges[0][len("bytes="):-1]), 100000)
        self.assertNotIn(part, self.blobs())

    def quietly(self, reference):
        try:
            return self.pull(reference)
        except OSError:
            return None

    def test_server_without_ranges(self):
        image = self.image()
        self.r.cut = {image.layers[1]["digest"]: 100000}
        self.r.ignore_range = True
        self.pulls(f"{self.r.host}/x:1")

    def test_tries_again(self):
        self.image()
        self.r.fail_next = 2
        self.pulls(f"{self.r.host}/x:1")
        if harness.SANITIZED:
            return  # giving up takes seconds
        self.r.fail_next = 1000
        self.fails(502, "registry_failed", f"{self.r.host}/x:1")

    def test_wrong_bytes(self):
        image = self.image()
        config, layer = image.config["digest"], image.layers[1]["digest"]
        for d in (config, layer):
            good = self.r.blobs[d]
            for bad in (b"x" * len(good), good[:-1], good + b"x"):
                self.r.blobs[d] = bad
                r = self.pull(f"{self.r.host}/x:1")
                self.assertIn(r.status, (422, 502), r)
            self.r.blobs[d] = good
        # A manifest that is not the one that was asked for.
        self.r.manifests[registry.digest(b"other")] = (registry.MANIFEST,
                                                       image.manifest)
        self.fails(422, "bad_image",
                   f"{self.r.host}/x@{registry.digest(b'other')}")
        for what in (b"", b"{}", b"[" * 5000, b"x" * (2 << 20),
                     json.dumps({"schemaVersion": 2, "config": image.config,
                                 "layers": image.layers * 200}).encode()):
            self.r.manifests["bad"] = (registry.MANIFEST, what)
            r = self.pull(f"{self.r.host}/x:bad")
            self.assertIn(r.status, (422, 502), r)
        self.pulls(f"{self.r.host}/x:1")

    def test_damaged_on_disk(self):
        image = self.image()
        self.pulls(f"{self.r.host}/x:1")
        blob = f"{self.i.state_dir}/blobs/{image.layers[1]['digest'][7:]}"
        with open(blob, "r+b") as f:
            f.seek(1000)
            f.write(b"damage")
        self.fails(422, "bad_image", f"{self.r.host}/x:1")
        self.assertFalse(os.path.exists(blob))
        self.pulls(f"{self.r.host}/x:1")

    def test_missing(self):
        self.assertIn("manifest", self.fails(404, "not_found",
                                             f"{self.r.host}/x:none"))
        image = self.image()
        del self.r.blobs[image.layers[1]["digest"]]
        self.fails(404, "not_found", f"{self.r.host}/x:1")

    def test_allowed_hosts(self):
        self.assertIn("registries", self.fails(
            403, "forbidden", f"{self.stranger.host}/x:1"))
        self.fails(400, "bad_request", "nohost")
        self.fails(400, "bad_request", f"{self.r.host}/UPPER")
        # A redirect goes where the operator allows it, and without our key.
        image = self.image()
        self.r.auth = "basic"
        self.other.blobs = dict(image.blobs)
        self.r.redirect = f"http://{self.other.host}"
        self.pulls(f"{self.r.host}/x:1", username="me", password="secret")
        self.assertEqual(len(self.got(server=self.other)), len(image.blobs))
        for _, _, fields in self.other.seen:
            self.assertNotIn("Authorization", fields)
        image = self.image("2")
        for to in (f"http://{self.stranger.host}", "file:///etc/passwd",
                   f"http://127.0.0.1:{self.other.host.split(':')[1]}"):
            self.r.redirect = to
            r = self.pull(f"{self.r.host}/x:2", username="me",
                          password="secret")
            self.assertIn(r.status, (403, 502), r)
        self.assertEqual(self.stranger.seen, [])
        self.r.redirect = f"http://{self.r.host}"
        self.assertIn("circles", self.fails(
            502, "registry_failed", f"{self.r.host}/x:2", username="me",
            password="secret"))

    def test_credentials(self):
        self.image()
        for kind in ("basic", "token"):
            self.r.auth = kind
            self.fails(403, "registry_refuses", f"{self.r.host}/x:1")
            self.fails(403, "registry_refuses", f"{self.r.host}/x:1",
                       username="me", password="wrong")
            self.pulls(f"{self.r.host}/x:1", username="me", password="secret")
        # A token server that is not allowed hears nothing.
        self.r.realm = f"http://{self.stranger.host}/token"
        self.fails(403, "forbidden", f"{self.r.host}/x:1", username="me",
                   password="secret")
        self.assertEqual(self.stranger.seen, [])
        self.assertNotIn("secret", self.i.log())

    def test_cli(self):
        self.image()
        self.r.auth = "token"
        word = os.path.join(self.i.dir, "word")
        with open(word, "w") as f:
            f.write("secret\n")
        p = self.i.cli("image", "pull", "-u", "me", "--password-file", word,
                       f"{self.r.host}/a/x:1")
        self.assertEqual(p.returncode, 0, p)
        self.assertIn(b"image x:1: ", p.stdout)
        self.assertIn(b"downloading", p.stderr)
        p = self.i.cli("image", "pull", f"{self.r.host}/x:1")
        self.assertEqual(p.returncode, 1)
        self.assertIn(b"password", p.stderr)
        p = self.i.cli("image", "pull", "x")
        self.assertIn(b"HOST", p.stderr)

    @harness.plain_only
    def test_slow_registry_times_out(self):
        """The pull fails if the registry sends only a byte now and then."""
        image = self.image()
        d = image.layers[1]["digest"]
        self.r.blobs[d] = Drip(self.r.blobs[d])
        r = self.i.api("POST", "/v1/images/drips/pull",
                       {"reference": f"{self.r.host}/x:1"}, timeout=110)
        self.assertIn(b"Timeout was reached", r.body)
        harness.wait_for("the helper has ended",
                         lambda: not self.i.pids().get("carrel-fetch"))

    def test_leaves_when_the_client_does(self):
        image = self.image()
        gate = threading.Event()
        d = image.layers[1]["digest"]
        self.r.blobs[d] = Slow(self.r.blobs[d], 100000, gate)
        c = harness.UnixHTTP(self.i.sock)
        c.request("POST", "/v1/images/left/pull", json.dumps(
            {"reference": f"{self.r.host}/x:1"}),
            {"Content-Type": "application/json"})
        wait_for("the worker", lambda: self.i.pids().get("carrel-fetch"), 20)
        c.close()
        wait_for("no worker", lambda: not self.i.pids().get("carrel-fetch"), 20)
        gate.set()

    def test_the_worker_dies(self):
        image = self.image()
        gate = threading.Event()
        d = image.layers[1]["digest"]
        whole = self.r.blobs[d]
        self.r.blobs[d] = Slow(whole, 100000, gate)
        done = []
        t = threading.Thread(target=lambda: done.append(
            self.pull(f"{self.r.host}/x:1")))
        t.start()
        wait_for("a part", lambda: d[7:] + ".part" in self.blobs(), 20)
        self.i.kill_role("carrel-fetch")
        t.join(30)
        gate.set()
        self.assertEqual((done[0].status, done[0].json["error"]),
                         (502, "registry_failed"))
        self.r.blobs[d] = whole
        self.pulls(f"{self.r.host}/x:1")

    def test_at_once(self):
        """Two that want the same blobs, and four are all that there may be."""
        image = self.image()
        gate = threading.Event()
        d = image.layers[1]["digest"]
        self.r.blobs[d] = Slow(self.r.blobs[d], 100000, gate)
        done = []
        threads = [threading.Thread(target=lambda n=n: done.append(self.pull(
            f"{self.r.host}/x:1", f"once-{n}"))) for n in range(4)]
        for t in threads:
            t.start()
        wait_for("workers", lambda: len(
            self.i.pids().get("carrel-fetch", [])) == 4, 20)
        self.fails(503, "try_again", f"{self.r.host}/x:1")
        gate.set()
        for t in threads:
            t.join(30)
        self.assertEqual([r.status for r in done], [201] * 4, done)
        self.assertLessEqual(self.got().count(d), 2)

    def test_lines(self):
        image = self.image()
        r = self.i.api("POST", "/v1/images/lines/pull",
                       {"reference": f"{self.r.host}/x:1"},
                       {"Accept": "application/x-ndjson"})
        lines = [json.loads(x) for x in r.body.splitlines()]
        self.assertEqual(lines[0], {"progress": {"step": "manifest"}})
        self.assertEqual(lines[-1]["done"]["name"], "lines")
        steps = [x["progress"]["step"] for x in lines[:-1]]
        self.assertIn("fetch", steps)
        last = [x["progress"] for x in lines[:-1]
                if x["progress"]["step"] == "fetch"][-1]
        self.assertEqual((last["blobs"], last["total"]), (
            3, sum(len(b) for b in image.blobs.values())))
        r = self.i.api("POST", "/v1/images/lines/pull",
                       {"reference": f"{self.r.host}/x:none"},
                       {"Accept": "application/x-ndjson"})
        error = json.loads(r.body.splitlines()[-1])["error"]
        self.assertEqual((r.status, error["code"], error["error"]),
                         (200, 404, "not_found"))

    def test_for_the_operator(self):
        """A key of a project neither pulls nor pushes nor saves."""
        key = self.i.api("POST", "/v1/keys", {
            "name": "k", "scope": "admin", "project": "p"}).json["key"]
        for path in ("/v1/images/x/pull", "/v1/images/x/push", "/v1/images/x"):
            r = self.i.api("POST", path, {}, {"Authorization": f"Bearer {key}"})
            self.assertEqual((r.status, r.json["error"]), (403, "forbidden"))

    def test_push_loses_pieces(self):
        """What an upload lost on the way is asked for, and sent again."""
        layers = registry.tiny_layers({"big": os.urandom(9 << 20)})
        r = self.i.api("PUT", "/v1/images/big",
                       registry.layout(registry.Image(layers, zipped=False)))
        self.assertEqual(r.status, 201, r)
        self.r.auth, self.r.lose = "token", 2
        r = self.i.api("POST", "/v1/images/big/push", {
            "reference": f"{self.r.host}/big:1", "username": "me",
            "password": "secret"})
        self.assertEqual(r.status, 200, r)
        self.assertEqual(r.json["digest"],
                         registry.digest(self.r.manifests["1"][1]))
        sent = [path for method, path, _ in self.r.seen if method == "PATCH"]
        self.assertGreaterEqual(len(sent), 4)
        # The layer is packed, and the config knows what is in it.
        manifest = json.loads(self.r.manifests["1"][1])
        config = json.loads(self.r.blobs[manifest["config"]["digest"]])
        layer = self.r.blobs[manifest["layers"][0]["digest"]]
        self.assertTrue(manifest["layers"][0]["mediaType"].endswith("+gzip"))
        self.assertEqual(config["rootfs"]["diff_ids"],
                         [registry.digest(gzip.decompress(layer))])
        self.pulls(f"{self.r.host}/big:1", "big2", username="me",
                   password="secret")

    def test_walls(self):
        """What the worker is while it speaks to a registry."""
        image = self.image()
        gate = threading.Event()
        d = image.layers[1]["digest"]
        self.r.blobs[d] = Slow(self.r.blobs[d], 100000, gate)
        t = threading.Thread(target=self.pull, args=(f"{self.r.host}/x:1",))
        t.start()
        wait_for("a part", lambda: d[7:] + ".part" in self.blobs(), 20)
        pid = self.i.pids()["carrel-fetch"][0]
        status = dict(line.split(":\t", 1) for line in
                      harness.read(f"/proc/{pid}/status").splitlines())
        for caps in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
            self.assertEqual(int(status[caps], 16), 0, caps)
        self.assertEqual((status["NoNewPrivs"], status["Seccomp"],
                          status["Threads"]), ("1", "2", "1"))
        uids = [int(x) for x in status["Uid"].split()]
        self.assertGreaterEqual(min(uids), self.i.conf["uid_base"])
        root = f"/proc/{pid}/root"
        self.assertEqual(os.listdir(root), ["etc"])
        self.assertLessEqual(set(os.listdir(root + "/etc")),
                             {"hosts", "resolv.conf", "nsswitch.conf"})
        with self.assertRaises(OSError):
            open(root + "/etc/new", "w")
        own, ours = (
            {ns: os.readlink(f"/proc/{p}/ns/{ns}") for ns in
             ("user", "mnt", "pid", "ipc", "uts", "net")}
            for p in (pid, self.i.pids()["carrel-warden"][0]))
        self.assertEqual({ns for ns in own if own[ns] == ours[ns]}, {"net"})
        fds = [re.sub(r":\[\d+\]$", "", os.readlink(f"/proc/{pid}/fd/{fd}"))
               for fd in os.listdir(f"/proc/{pid}/fd")]
        # libcurl wakes itself with a pair of sockets or, since 8.9, an eventfd.
        self.assertLessEqual({f for f in fds if not f.startswith("/")},
                             {"pipe", "socket", "anon_inode:[eventfd]"})
        gate.set()
        t.join(30)

    def test_room(self):
        """The cache has a limit: the oldest go, and too much is refused."""
        images = [self.image(str(n)) for n in range(3)]
        for n in range(3):
            self.pulls(f"{self.r.host}/x:{n}")
        self.i.conf["blobs_size"] = sum(
            len(b) for b in images[0].blobs.values()) + 400000
        self.i.restart()
        try:
            self.image("3")
            self.pulls(f"{self.r.host}/x:3")
            left = sum(os.path.getsize(f"{self.i.state_dir}/blobs/{b}")
                       for b in self.blobs())
            self.assertLess(left, self.i.conf["blobs_size"])
            self.i.conf["blobs_size"] = 100000
            self.i.restart()
            self.image("4")
            self.assertIn("blobs_size", self.fails(
                507, "no_space", f"{self.r.host}/x:4"))
        finally:
            del self.i.conf["blobs_size"]
            self.i.restart()


class Tls(harness.Case):
    IMAGE = None

    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.mkdtemp(prefix="registry-tls-")
        cert, key = certificate(cls.dir)
        os.chmod(cls.dir, 0o755)
        os.chmod(cert, 0o644)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(cert, key)
        cls.r = registry.Fake(context)
        cls.CONF = {"registries": cls.r.host, "registries_ca": cert}
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.r.close()
        shutil.rmtree(cls.dir)

    def test_certificates(self):
        self.r.add("1", registry.Image(registry.tiny_layers()))

        def pull():
            return self.i.api("POST", "/v1/images/x/pull",
                              {"reference": f"{self.r.host}/x:1"})
        self.assertEqual(pull().status, 201)
        # Who is not known to vouch for it does not.
        self.i.conf["registries_ca"] = "/etc/ssl/certs/ca-certificates.crt"
        self.i.restart()
        r = pull()
        self.assertEqual((r.status, r.json["error"]), (502, "registry_failed"))
        self.assertIn("certificate", r.json["message"])
        # Without TLS it is not spoken to: it is not listed as insecure.
        self.i.conf["registries_ca"] = "/nonexistent"
        self.i.restart()
        self.assertIn("registries_ca", pull().json["message"])


@unittest.skipUnless(registry.Real.PROGRAM, "docker-registry is not installed")
class Real(harness.Case):
    IMAGE = None

    @classmethod
    def setUpClass(cls):
        cls.open = registry.Real()
        cls.closed = registry.Real("me", "secret")
        cls.CONF = {"registries_insecure":
                    f"{cls.open.host}, {cls.closed.host}"}
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.open.close()
        cls.closed.close()

    def test_pull(self):
        image = registry.Image(registry.tiny_layers(), {"Env": ["X=1"]})
        for r, who in ((self.open, {}),
                       (self.closed, {"username": "me", "password": "secret"})):
            r.push("tools/tiny", "v1", image)
            got = self.i.api("POST", "/v1/images/tiny/pull",
                             {"reference": f"{r.host}/tools/tiny:v1", **who})
            self.assertEqual(got.status, 201, got)
            self.assertEqual(got.json["config"], {"Env": ["X=1"]})
        got = self.i.api("POST", "/v1/images/no/pull",
                         {"reference": f"{self.closed.host}/tools/tiny:v1"})
        self.assertEqual((got.status, got.json["error"]),
                         (403, "registry_refuses"))

    def tiny(self, name, **config):
        """An image of which nobody has the layer."""
        image = registry.Image(registry.tiny_layers(
            {"etc/new": os.urandom(100000)}), config)
        r = self.i.api("PUT", f"/v1/images/{name}", registry.layout(image))
        self.assertEqual(r.status, 201, r)
        return image

    def test_push(self):
        """What is pushed is what is pulled; what is there is not sent again."""
        self.tiny("mine", Env=["X=2"], Labels={"a": "b"})
        word = os.path.join(self.i.dir, "word")
        with open(word, "w") as f:
            f.write("secret\n")
        for r, who in ((self.open, []), (self.closed, [
                "-u", "me", "--password-file", word])):
            to = f"{r.host}/team/mine:2"
            for _ in range(2):
                p = self.i.cli("image", "push", *who, "mine", to)
                self.assertEqual(p.returncode, 0, p)
                self.assertIn(b"sha256:", p.stdout)
            status, fields, manifest = r.ask(
                "GET", "/v2/team/mine/manifests/2", None,
                {"Accept": registry.MANIFEST})
            self.assertEqual(status, 200)
            self.assertIn(registry.digest(manifest).encode(), p.stdout)
            p = self.i.cli("image", "pull", *who, to, "back")
            self.assertEqual(p.returncode, 0, p)
            got = self.i.api("GET", "/v1/images/back").json
            self.assertEqual(got["config"], {"Env": ["X=2"],
                                             "Labels": {"a": "b"}})
        box = self.i.create(image="back")
        out = self.i.cli("exec", box, "--", "sh", "-c",
                         "echo $X; wc -c < /etc/new").stdout
        self.assertEqual(out.split(), [b"2", b"100000"])
        p = self.i.cli("image", "push", "mine", f"{self.closed.host}/x:1")
        self.assertEqual(p.returncode, 1)
        self.assertIn(b"password", p.stderr)

    def test_push_in_pieces(self):
        """More than one piece of an upload."""
        layers = registry.tiny_layers({"big": os.urandom(9 << 20)})
        r = self.i.api("PUT", "/v1/images/big",
                       registry.layout(registry.Image(layers, zipped=False)))
        self.assertEqual(r.status, 201, r)
        p = self.i.cli("image", "push", "big", f"{self.open.host}/big")
        self.assertEqual(p.returncode, 0, p)
        p = self.i.cli("image", "pull", f"{self.open.host}/big", "big2")
        self.assertEqual(p.returncode, 0, p)

    @unittest.skipUnless(shutil.which("skopeo"), "skopeo is not installed")
    def test_export(self):
        """Others read what is exported, and so do we."""
        self.tiny("out", Env=["X=3"], WorkingDir="/etc")
        for form, kind in (("oci", "oci-archive"), ("docker", "docker-archive")):
            path = os.path.join(self.i.dir, f"{form}.tar")
            p = self.i.cli("image", "export", "--format", form, "out", path)
            self.assertEqual(p.returncode, 0, p)
            said = subprocess.run(["skopeo", "inspect", "--config",
                                   f"{kind}:{path}"], capture_output=True)
            self.assertEqual(said.returncode, 0, said.stderr)
            config = json.loads(said.stdout)["config"]
            self.assertEqual((config["Env"], config["WorkingDir"]),
                             (["X=3"], "/etc"))
            subprocess.run(["skopeo", "--insecure-policy", "copy", "-q",
                            f"{kind}:{path}", f"dir:{path}.dir"], check=True)
            p = self.i.cli("image", "import", path, "again-" + form)
            self.assertEqual(p.returncode, 0, p)
            got = self.i.api("GET", f"/v1/images/again-{form}").json
            self.assertEqual(got["config"], {"Env": ["X=3"],
                                             "WorkingDir": "/etc"})
        p = self.i.cli("image", "export", "--format", "rootfs", "out", "-")
        with tarfile.open(fileobj=io.BytesIO(p.stdout)) as t:
            self.assertTrue(any(n.rstrip("/").endswith("etc/new")
                                for n in t.getnames()))
        r = self.i.api("GET", "/v1/images/out/export?format=zip")
        self.assertEqual((r.status, r.json["error"]), (400, "bad_request"))
        p = self.i.cli("image", "export", "none", "/tmp/none.tar")
        self.assertEqual(p.returncode, 1)
        self.assertFalse(os.path.exists("/tmp/none.tar"))

    def test_save(self):
        """A snapshot, and a sandbox that runs, become images."""
        self.tiny("base", Env=["A=1", "B=1"])
        box = self.i.create(image="base", name="work")
        self.i.cli("exec", "-u", "root", box, "--", "sh", "-c",
                   "echo one > /etc/f; rm /etc/new")
        r = self.i.api("POST", f"/v1/sandboxes/{box}/snapshots",
                       {"name": "before"})
        self.assertEqual(r.status, 201, r)
        self.i.cli("exec", "-u", "root", box, "--", "sh", "-c",
                   "echo two > /etc/f")
        p = self.i.cli("image", "save", "before", "one")
        self.assertEqual(p.returncode, 0, p)
        r = self.i.api("POST", "/v1/images/two", {
            "snapshot": "work", "cache": "key", "config": {"Env": ["B=2"]}})
        self.assertEqual(r.status, 201, r)
        self.assertEqual((r.json["cache"], r.json["config"]),
                         ("key", {"Env": ["B=2"]}))
        for image, want in (("one", b"one\n11\n"), ("two", b"two\n2\n")):
            new = self.i.create(image=image)
            out = self.i.cli("exec", new, "--", "sh", "-c",
                             "cat /etc/f; echo $A$B; test ! -e /etc/new")
            self.assertEqual((out.returncode, out.stdout), (0, want))
        for body, status in (({"snapshot": "none"}, 404), ({}, 400),
                             ({"snapshot": "image:base"}, 400),
                             ({"snapshot": "work", "config": []}, 400),
                             ({"snapshot": "work", "config": {"Env": 1}}, 400),
                             ({"snapshot": "work", "more": 1}, 400)):
            r = self.i.api("POST", "/v1/images/three", body)
            self.assertEqual(r.status, status, (body, r))


if __name__ == "__main__":
    harness.main()
