# suite: sanitized
"""Archives of images: OCI layouts and docker archives become one root file
system, layer over layer; hostile ones touch nothing outside; what skopeo and
podman write is read, and what is written here is read by them.

Most of it needs no daemon: tests/unit/worker_run.c starts the worker as the
warden does. OCI_LONG=1 makes the large image a really large one.
"""

import contextlib
import copy
import gzip
import hashlib
import io
import json
import os
import shutil
import stat
import subprocess
import sys
import tarfile
import tempfile
import unittest

import harness
import test_worker
from test_worker import fingerprint

sys.path.insert(0, os.path.join(harness.TOP, "tests/unit"))
import tar_corpus as tc

OCI_WRITE = os.path.join(harness.BUILD, "unit/oci_write")
LONG = bool(os.environ.get("OCI_LONG"))
ARCH = {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine]
MEDIA = "application/vnd.oci.image."
MANIFEST, INDEX = MEDIA + "manifest.v1+json", MEDIA + "index.v1+json"

PACKERS = {"gzip": lambda d: gzip.compress(d, 1), "zstd": tc.zstd,
           "plain": lambda d: d}


def sha(data):
    return hashlib.sha256(data).hexdigest()


def layer(*parts):
    return b"".join(parts) + tc.END


def base(*parts):
    """A lowest layer that would do as an image."""
    return layer(tc.EXE, *parts)


def archive(files):
    """[(name, bytes or (kind, target))] as a tar."""
    out = []
    for name, data in files:
        raw = name.encode()
        if isinstance(data, tuple):
            out.append(tc.head(raw, data[0], link=data[1].encode()))
        elif name.endswith("/"):
            out.append(tc.folder(raw))
        else:
            out.append(tc.file(raw, data))
    return b"".join(out) + tc.END


class Image:
    """Documents and blobs that tests bend before they are packed."""

    def __init__(self, *layers, packed="gzip", run=None):
        self.plain = layers
        self.packed = [PACKERS[packed](d) for d in layers]
        self.config = {"os": "linux", "architecture": ARCH,
                       "config": {"Env": ["A=b c"], "Cmd": ["sh"]} if run is None
                       else run,
                       "rootfs": {"type": "layers",
                                  "diff_ids": ["sha256:" + sha(d) for d in layers]}}
        self.extra = {}  # manifest members that replace ours
        self.drop = ()   # digests of blobs that are left out
        self.swap = {}   # digest: other content
        self.blobs = {}

    def blob(self, data, **more):
        name = sha(data)
        self.blobs[name] = data
        return {"digest": "sha256:" + name, "size": len(data), **more}

    def make(self):
        """Puts the documents into blobs; the manifest's descriptor."""
        config = self.blob(json.dumps(self.config).encode(),
                           mediaType=MEDIA + "config.v1+json")
        layers = [self.blob(d, mediaType=MEDIA + "layer.v1.tar+gzip")
                  for d in self.packed]
        manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": config,
                    "layers": layers, **self.extra}
        self.order = [config["digest"][7:]] + [x["digest"][7:] for x in layers]
        return self.blob(json.dumps(manifest).encode(), mediaType=MANIFEST)

    def pack(self, tops, first):
        blobs = []
        for name in dict.fromkeys(first + sorted(self.blobs)):
            if name not in self.drop:
                blobs.append((f"blobs/sha256/{name}",
                              self.swap.get(name, self.blobs[name])))
        return tops, blobs

    def oci(self, streamed=True, index=None):
        """Documents first, in the order of use; or blobs first, by name."""
        top = self.make()
        index = index(top) if index else {"schemaVersion": 2, "manifests": [top]}
        tops = [("oci-layout", b'{"imageLayoutVersion":"1.0.0"}'),
                ("index.json", json.dumps(index).encode())]
        first = [top["digest"][7:]] + self.order if streamed else []
        tops, blobs = self.pack(tops, first)
        return archive(tops + blobs if streamed else
                       [("blobs/", b""), ("blobs/sha256/", b"")] + blobs + tops)

    def docker(self, streamed=False, links=False):
        self.make()
        names = [f"{sha(d)}.tar" for d in self.packed]
        config = json.dumps(self.config).encode()
        files = list(dict(zip(names, self.packed)).items())
        if links:
            ids = [sha(b"id%d" % i) for i in range(len(names))]
            files += [(f"{i}/layer.tar", (b"2", f"../{n}"))
                      for i, n in zip(ids, names)]
            names = [f"{i}/layer.tar" for i in ids]
        files.append((sha(config) + ".json", config))
        top = ("manifest.json", json.dumps([{
            "Config": sha(config) + ".json", "RepoTags": None,
            "Layers": names}]).encode())
        return archive([top] + files if streamed else files + [top])


class Case(test_worker.Case):
    def unpack(self, data, timeout=120):
        root = self.root()
        code, lines, log = root.fill(data, timeout=timeout)
        self.assertEqual(code, 0, f"{lines} {log}")
        self.assertNotIn("Sanitizer", log)
        root.lines = [x for x in lines if not x.startswith("progress ")]
        return root

    def refused(self, data, why):
        root = self.root()
        before = fingerprint(self.top, (root.path,))
        code, lines, log = root.fill(data)
        self.assertEqual(before, fingerprint(self.top, (root.path,)),
                         "something outside was changed")
        self.assertNotIn("Sanitizer", log)
        self.assertEqual(code, 1, f"not refused: {lines} {log}")
        self.assertTrue(lines[-1].startswith("error "), lines)
        self.assertIn(why, lines[-1])

    def tree(self, root, top):
        """Paths below `top` of the image."""
        found = []
        for where, dirs, files in os.walk(root.at(top)):
            for name in dirs + files:
                found.append(os.path.relpath(os.path.join(where, name),
                                             root.at(top)))
        return sorted(found)


class Forms(Case):
    """The same image in every form it may come in."""

    def image(self, **kw):
        return Image(base(tc.folder(b"d/"), tc.file(b"d/low", b"low"),
                          tc.file(b"d/both", b"old")),
                     layer(tc.file(b"d/both", b"new"), tc.file(b"d/.wh.low", b"")),
                     layer(tc.file(b"d/top", b"top")), **kw)

    def check(self, data):
        root = self.unpack(data)
        self.assertEqual(self.tree(root, "d"), ["both", "top"])
        tc.is_file("d/both", b"new")(root)
        self.assertEqual(root.lines[0], 'config {"Env":["A=b c"],"Cmd":["sh"]}')
        self.assertEqual(root.lines[-1], f"done 7 {10 + 3 + 3 + 3 + 3}")
        self.assertNotIn("spool", os.listdir(root.path))

    def test_layouts(self):
        for packed in PACKERS:
            for streamed in (True, False):
                with self.subTest(packed=packed, streamed=streamed):
                    self.check(self.image(packed=packed).oci(streamed))

    def test_docker_archives(self):
        for packed, streamed, links in (("plain", False, False), ("plain", True, False),
                                        ("plain", False, True), ("gzip", False, False)):
            with self.subTest(packed=packed, streamed=streamed, links=links):
                self.check(self.image(packed=packed).docker(streamed, links))

    def test_both_at_once(self):
        # As newer docker saves: a layout that has a manifest.json.
        image = self.image(packed="plain")
        layout = image.oci(streamed=False)
        names = [f"blobs/sha256/{n}" for n in image.order]
        top = json.dumps([{"Config": names[0], "Layers": names[1:]}]).encode()
        self.check(layout[:-len(tc.END)] + archive([("manifest.json", top)]))
        self.check(archive([("manifest.json", top)])[:-len(tc.END)] + layout)

    def test_compressed_as_a_whole(self):
        for packer in (gzip.compress, tc.zstd):
            self.check(packer(self.image().oci(streamed=False)))
        self.check(gzip.compress(self.image(packed="plain").docker()))

    def test_as_tar_packs_a_directory(self):
        with tempfile.TemporaryDirectory() as top:
            with tarfile.open(fileobj=io.BytesIO(self.image().oci())) as t:
                t.extractall(top)
            out = subprocess.run(["tar", "-C", top, "-cf", "-", "."], check=True,
                                 stdout=subprocess.PIPE).stdout
        self.check(out)

    def test_the_platform_of_this_host(self):
        other = {"os": "linux", "architecture": "mips"}
        own = {"os": "linux", "architecture": ARCH}
        for streamed in (True, False):
            image, alien = self.image(), Image(base(tc.file(b"alien")))
            alien.config["architecture"] = "mips"

            def nested(top):
                inner = json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": [
                    dict(alien.make(), platform=other), dict(top, platform=own),
                    dict(top, digest="sha256:" + "0" * 64,
                         platform={"os": "unknown", "architecture": "unknown"}),
                ]}).encode()
                image.blobs.update(alien.blobs)
                return {"schemaVersion": 2,
                        "manifests": [image.blob(inner, mediaType=INDEX)]}
            with self.subTest(streamed=streamed):
                self.check(image.oci(streamed, nested))

    def test_no_config_to_speak_of(self):
        root = self.unpack(Image(base(), run={"Env": "x", "Labels": None}).oci())
        self.assertEqual(root.lines[0], "config {}")
        root = self.unpack(base())
        self.assertEqual(len(root.lines), 1)

    def test_long_remarks_and_odd_text(self):
        root = self.unpack(Image(base(), run={
            "Env": ["A=\u00e9\n\u2028"], "Labels": {"a": "x" * 40000}}).oci())
        self.assertEqual(root.lines[0], r'config {"Env":["A=\u00E9\n\u2028"]}')
        self.refused(Image(base(), run={"Env": ["A=" + "x" * 40000]}).oci(),
                     "over 32 KiB")


class Layers(Case):
    def over(self, *layers, **kw):
        return self.unpack(Image(*layers, **kw).oci())

    def test_whiteouts(self):
        root = self.over(
            base(tc.file(b"a/file"), tc.file(b"a/d/x"), tc.file(b"a/d/y/z"),
                 tc.symlink(b"a/link", b"d"), tc.file(b"a/kept")),
            layer(tc.file(b"a/.wh.file", b""), tc.file(b"a/.wh.d", b""),
                  tc.file(b"a/.wh.link", b""), tc.file(b"a/.wh.never-there", b"")))
        self.assertEqual(self.tree(root, "a"), ["kept"])

    def test_opaque_in_any_order(self):
        low = base(tc.file(b"a/old"), tc.file(b"a/d/old"), tc.file(b"a/e/old"))
        opaque = tc.file(b"a/.wh..wh..opq", b"")
        new = tc.folder(b"a/") + tc.folder(b"a/d/") + tc.file(b"a/d/new")
        for top in (layer(opaque, new), layer(new, opaque),
                    layer(new, opaque, opaque)):
            root = self.over(low, top)
            self.assertEqual(self.tree(root, "a"), ["d", "d/new"])

    def test_opaque_root(self):
        root = self.over(layer(tc.file(b"old"), tc.file(b"d/old")),
                         layer(tc.file(b".wh..wh..opq", b""), tc.EXE))
        self.assertFalse(os.path.exists(root.at("old")))
        self.assertFalse(os.path.exists(root.at("d")))

    def test_a_layer_hides_nothing_of_its_own(self):
        low = base(tc.file(b"f", b"old"), tc.file(b"d/old"))
        for top in (
                layer(tc.file(b"f", b"new"), tc.file(b".wh.f", b""),
                      tc.file(b"d/new", b"new"), tc.file(b".wh.d", b"")),
                layer(tc.file(b".wh.f", b""), tc.file(b"f", b"new"),
                      tc.file(b".wh.d", b""), tc.file(b"d/new", b"new"))):
            root = self.over(low, top)
            tc.is_file("f", b"new")(root)
            self.assertEqual(self.tree(root, "d"), ["new"])

    def test_hidden_and_back(self):
        root = self.over(base(tc.file(b"f", b"1")), layer(tc.file(b".wh.f", b"")),
                         layer(tc.file(b"f", b"3")))
        tc.is_file("f", b"3")(root)

    def test_notes_of_old_file_systems(self):
        root = self.over(base(), layer(tc.folder(b".wh..wh.plnk/"),
                                       tc.file(b".wh..wh.plnk/1.2"),
                                       tc.file(b".wh..wh.aufs", b""),
                                       tc.file(b"ok")))
        self.assertFalse([n for n in os.listdir(root.path) if n.startswith(".wh")])
        tc.is_file("ok")(root)

    def test_kinds_replace_each_other(self):
        root = self.over(
            base(tc.file(b"dir/x"), tc.file(b"file"), tc.symlink(b"link", b"dir")),
            layer(tc.file(b"dir", b"file now"), tc.folder(b"file/"),
                  tc.file(b"file/in"), tc.folder(b"link/"), tc.file(b"link/own")))
        tc.is_file("dir", b"file now")(root)
        tc.is_file("file/in")(root)
        tc.is_dir("link")(root)

    def test_hard_links_to_lower_files(self):
        root = self.over(base(tc.file(b"low", b"same")),
                         layer(tc.hardlink(b"high", b"low"),
                               tc.hardlink(b"high2", b"high")))
        self.assertEqual(len({os.stat(root.at(n)).st_ino
                              for n in ("low", "high", "high2")}), 1)
        # The other name of a file that is replaced stays as it was.
        root = self.over(base(tc.file(b"a", b"same"), tc.hardlink(b"b", b"a")),
                         layer(tc.file(b"a", b"new")))
        tc.is_file("b", b"same")(root)
        self.refused(Image(base(tc.file(b"a")), layer(
            tc.file(b".wh.a", b""), tc.hardlink(b"b", b"a"))).oci(),
            "no earlier file of this image")

    def test_a_directory_that_is_a_link_below(self):
        root = self.over(base(tc.folder(b"usr/lib/"), tc.symlink(b"lib", b"usr/lib"),
                              tc.symlink(b"abs", b"/usr/lib"),
                              tc.file(b"usr/lib/old")),
                         layer(tc.file(b"lib/a/b/new"), tc.file(b"abs/second"),
                               tc.file(b"lib/.wh.old", b"")))
        tc.is_link("lib")(root)
        self.assertEqual(self.tree(root, "usr/lib"),
                         ["a", "a/b", "a/b/new", "second"])

    def test_what_is_dropped_and_kept(self):
        root = self.over(base(), layer(
            tc.file(b"su", mode=0o6755), tc.head(b"sda", b"4", dev=(8, 0)),
            tc.head(b"null", b"3", dev=(0, 0)), tc.head(b"pipe", b"6"),
            tc.pax([(b"SCHILY.xattr.user.note", b"x"),
                    (b"SCHILY.xattr.security.capability", b"\1\0\0\2" + b"\0" * 16)]),
            tc.file(b"noted"), tc.file(b"id", uid=70000, gid=12)))
        tc.mode_is("su", 0o755)(root)
        tc.missing("sda")(root)
        tc.missing("null")(root)
        self.assertTrue(stat.S_ISFIFO(os.lstat(root.at("pipe")).st_mode))
        tc.xattrs_are("noted", ["user.note"])(root)
        tc.owner_is("id", 65534, 12)(root)

    def test_sparse_and_long_names(self):
        path = b"/".join(b"p" * 200 for _ in range(15)) + b"/" + b"n" * 255
        root = self.over(base(), layer(
            tc.sparse_old(64 << 20, [(32 << 20, 512)]),
            tc.pax([(b"path", path)]), tc.file(b"x", b"long")))
        self.assertEqual(os.stat(root.at("sparse")).st_size, 64 << 20)
        self.assertLess(os.stat(root.at("sparse")).st_blocks, 1024)
        tc.is_file(path.decode(), b"long")(root)

    def test_one_layer_twice(self):
        first = base(tc.file(b"f", b"1"))
        for image in (Image(first, layer(tc.file(b".wh.f", b"")), first),
                      Image(first, first)):
            for data in (image.oci(), image.oci(False), image.docker()):
                tc.is_file("f", b"1")(self.unpack(data))

    def test_an_empty_layer(self):
        tc.is_file("bin/true", None)(self.over(base(), tc.END))

    def test_times_of_directories(self):
        root = self.over(base(tc.folder(b"d/", mtime=1234567890)),
                         layer(tc.file(b"d/later")))
        self.assertEqual(os.stat(root.at("d")).st_mtime, 1234567890)

    def test_many_files(self):
        n = 50000 if LONG else 4000
        parts = [b"".join(tc.file(b"f/%d/%d" % (i % 100, i), b"")
                          for i in range(k * n, (k + 1) * n)) for k in range(2)]
        root = self.unpack(Image(base(parts[0]), layer(parts[1])).oci(), 600)
        self.assertEqual(sum(len(f) for _, _, f in os.walk(root.at("f"))), 2 * n)


class Lies(Case):
    """Documents and blobs that are not what they say."""

    def setUp(self):
        super().setUp()
        self.image = Image(base(tc.file(b"one")), layer(tc.file(b"two")))
        self.image.make()
        self.config, self.low, self.high = self.image.order

    def both(self, why, **kw):
        for streamed in (True, False):
            with self.subTest(streamed=streamed):
                self.refused(copy.deepcopy(self.image).oci(streamed, **kw), why)

    def test_missing_parts(self):
        for name, why in ((self.low, "layer 1 of 2"), (self.high, "layer 2 of 2"),
                          (self.config, "the config")):
            self.image.drop = (name,)
            self.both(why)
        self.image.drop = (self.image.make()["digest"][7:],)
        self.both("the manifest sha256:")

    def test_other_content(self):
        for name in (self.low, self.high, self.config):
            self.image.swap = {name: gzip.compress(base(tc.file(b"evil")))}
            self.both("")
        # Of the same size, and fine as a layer.
        evil = gzip.compress(base(tc.file(b"0ne")), 1)
        if len(evil) == len(self.image.blobs[self.low]):
            self.image.swap = {self.low: evil}
            self.both("digest")

    def test_sizes(self):
        for delta in (-1, 1, 1 << 40):
            self.image.extra = {"layers": [
                {"digest": f"sha256:{n}", "size": len(self.image.blobs[n]) + delta}
                for n in (self.low, self.high)]}
            self.both("where its descriptor says" if delta < 1 << 40 else "size")

    def test_digests_of_the_tars(self):
        self.image.config["rootfs"]["diff_ids"].reverse()
        self.both("another digest than the config says")
        self.image.config["rootfs"]["diff_ids"].pop()
        self.both("about 1 layers")
        docker = Image(base(), packed="plain")
        docker.config["rootfs"]["diff_ids"] = ["sha256:" + "0" * 64]
        self.refused(docker.docker(), "another digest")

    def test_digests_that_are_paths(self):
        for digest in ("sha256:../../../etc/passwd", "sha512:" + "0" * 128,
                       "../" * 20 + "canary/file", "sha256:" + "A" * 64, 5, None):
            self.image.extra = {"config": {"digest": digest, "size": 1}}
            self.both("64 hex digits")

    def test_other_platforms(self):
        self.image.config["architecture"] = "mips"
        self.both("an image for linux/mips")
        self.both("no image for linux", index=lambda top: {"manifests": [
            dict(top, platform={"os": "windows", "architecture": "amd64"})]})

    def test_more_than_one(self):
        other = Image(base(tc.file(b"other")))
        self.both("more than one image", index=lambda top: {
            "manifests": [top, other.make()]})
        top = json.dumps([{"Config": "a", "Layers": ["b"]}] * 2).encode()
        self.refused(archive([("manifest.json", top)]), "2 images")

    def test_index_and_manifest_at_once(self):
        self.image.extra = {"manifests": []}
        self.both("at once")

    def test_indexes_in_indexes(self):
        def nest(top):
            for _ in range(6):
                doc = json.dumps({"manifests": [top]}).encode()
                top = self.image.blob(doc)
            return {"manifests": [top]}
        data = self.image.oci(True, nest)
        self.refused(data, "indexes in indexes")

    def test_bombs_of_documents(self):
        for text, why in (("[" * 100000, "not JSON"), ('{"a":' * 100000, "not JSON"),
                          ("[" + "{}," * 300000 + "{}]", "without manifests"),
                          ('{"manifests":[' + "{}," * 300000 + "{}]}", "hex digits"),
                          (" " * (1 << 21), "over 1 MiB"), ("", "not JSON"),
                          ('{"manifests":[],"manifests":[]}', "not JSON"),
                          ('{"manifests":[]}', "there is: nothing"),
                          ("\0" * 100, "not JSON"), ('"\udcff"', "not JSON")):
            self.refused(archive([("index.json", text.encode(
                "utf-8", "surrogateescape"))]), why)

    def test_too_many_layers(self):
        one = self.image.blob(self.image.packed[1])
        self.image.extra = {"layers": [one] * 300}
        self.both("over 256 layers")

    def test_too_many_files(self):
        self.refused(archive([("index.json", b"{}")] * 2), "")
        self.refused(archive([("manifest.json", b"")] + [
            (f"f{i}", b"") for i in range(5000)]), "")
        self.refused(archive([(f"{sha(b'%d' % i)}.tar", b"") for i in range(5000)]),
                     "over 4096 files")
        self.refused(archive([("blobs/", b"")] + [("d/", b"")] * 66000),
                     "over 65536 files")

    def test_names_that_come_twice(self):
        data = self.image.oci(False)[:-len(tc.END)]
        self.refused(archive([("index.json", b"[]")])[:-len(tc.END)] + data, "")
        self.refused(archive([("repositories", b""), ("repositories", b"")]), "twice")
        # A blob is its digest: the second is the first.
        blob = (f"blobs/sha256/{self.low}", self.image.blobs[self.low])
        self.unpack(archive([blob])[:-len(tc.END)] + data + archive([blob]))

    def test_not_a_layer(self):
        for data in (b"", b"x" * 10000, gzip.compress(b"y" * 10000), b"\x1f\x8b\x08",
                     gzip.compress(base())[:-100] + b"z" * 100):
            image = Image(base(), base())
            image.packed[1] = data
            for streamed in (True, False):
                self.refused(image.oci(streamed), "layer 2 of 2")

    def test_cut_off(self):
        data = self.image.oci(False)
        for n in (len(data) // 3, len(data) // 2, len(data) - 2048):
            self.refused(data[:n], "")
        self.refused(archive([("oci-layout", b"{}")]), "without index.json")
        self.refused(archive([("blobs/", b"")]), "without index.json")

    def test_holes(self):
        name = b"blobs/sha256/" + sha(b"x").encode()
        sparse = tc.sparse_old(1 << 40, [(1 << 30, 512)])
        self.assertIn(b"sparse", sparse)
        for data in (tc.file(b"oci-layout", b"{}") + tc.pax([(b"path", name)]) + sparse,):
            self.refused(data + tc.END, "")

    def test_links_of_docker_archives(self):
        canary = os.path.join(self.canary, "file")
        for target in (canary, "../" * 30 + canary, "layer.tar", "../x/layer.tar",
                       "", "."):
            for kind in (b"1", b"2"):
                data = archive([
                    ("manifest.json", json.dumps([{
                        "Config": "x/json", "Layers": ["x/layer.tar"]}]).encode()),
                    ("x/json", json.dumps(self.image.config).encode()),
                    ("x/layer.tar", (kind, target[:99]))])
                self.refused(data, "")

    def test_names_in_manifest_json(self):
        for name in ("../../canary/file", "/etc/passwd", "", ".", "a" * 300):
            data = archive([("manifest.json", json.dumps([{
                "Config": "c.json", "Layers": [name]}]).encode())])
            self.refused(data, "")


class Hostile(Case):
    """Layers that aim at what is outside."""

    def attack(self, *layers):
        root = self.root()
        before = fingerprint(self.top, (root.path,))
        code, lines, log = root.fill(Image(*layers, packed="plain").docker())
        self.assertEqual(before, fingerprint(self.top, (root.path,)),
                         "something outside was changed")
        self.assertNotIn("Sanitizer", log)
        self.assertIn(code, (0, 1), f"{lines} {log}")
        for where, dirs, files in os.walk(root.path):
            for name in dirs + files:
                st = os.lstat(os.path.join(where, name))
                self.assertFalse(stat.S_ISBLK(st.st_mode) or stat.S_ISCHR(st.st_mode))
                if stat.S_ISREG(st.st_mode):
                    self.assertFalse(st.st_mode & 0o6000)
        return root, code, lines

    def test_whiteouts_through_links(self):
        canary = self.canary.encode()
        up = b"../" * 20 + canary[1:]
        names = (b"l/.wh.file", b"l/.wh..wh..opq", b"l/.wh.canary")
        for target in (canary, up, b"/", b"..", b"/proc/self/root"):
            link = tc.symlink(b"l", target[:99])
            for name in names:
                self.attack(base(link), layer(tc.file(name, b"")))
            # All in one layer, the link its own.
            self.attack(layer(tc.EXE, link, *(tc.file(n, b"") for n in names)))

    def test_whiteouts_of_nothing(self):
        for name in (b".wh.", b".wh..", b".wh...", b"d/.wh..", b"d/.wh..."):
            root, code, lines = self.attack(base(tc.file(b"d/x")),
                                            layer(tc.file(name, b"")))
            self.assertEqual(code, 1)
            self.assertIn("takes away nothing", lines[-1])

    def test_opaque_link(self):
        canary = self.canary.encode()
        self.attack(base(tc.symlink(b"d", canary)),
                    layer(tc.file(b".wh.d", b""), tc.file(b"d/.wh..wh..opq", b"")))
        self.attack(base(tc.symlink(b"d", canary)),
                    layer(tc.symlink(b"d", canary), tc.file(b".wh.d", b"")))

    def test_writing_through_links(self):
        canary = self.canary.encode()
        for target in (canary, b"../" * 20 + canary[1:], b"/proc/self/root" + canary):
            root, code, _ = self.attack(base(tc.symlink(b"l", target[:99])),
                                        layer(tc.file(b"l/file", b"evil"),
                                              tc.file(b"l/new", b"evil"),
                                              tc.hardlink(b"h", b"l/file")))
            self.assertIn(code, (0, 1))

    def test_deep_over_links(self):
        # Each link leads 45 directories further down.
        deep = b"/".join([b"d"] * 45)
        parts = [tc.EXE, tc.folder(deep + b"/"), tc.symlink(b"l0", deep)]
        for i in range(20):
            parts += [tc.folder(b"l%d/%s/" % (i, deep)),
                      tc.symlink(b"l%d" % (i + 1), b"l%d/%s" % (i, deep))]
        _, code, lines = self.attack(layer(*parts))
        self.assertEqual(code, 1)
        self.assertIn("128 directories deep", lines[-1])

    def test_bombs(self):
        zeros = tc.zstd(tc.EXE + tc.head(b"zeros", size=100 << 20) +
                        b"\0" * (100 << 20) + tc.END)
        image = Image(base(), packed="plain")
        image.packed.append(zeros)
        for data in (image.oci(), image.oci(False), image.docker(),
                     tc.zstd(image.oci(False))):
            self.refused(data, "bomb")

    # Once is enough, where most is noticed.
    if harness.SANITIZED or LONG:
        def test_the_corpus_as_layers(self):
            # Those that are about places; the others are no different in a layer.
            about = ("dotdot", "absolute", "link", "becomes", "device", "setuid", "slash",
                     "proc", "dev-", "below", "pax-path", "longname")
            tried = 0
            for case in tc.cases(self.canary):
                data = case.data() if any(w in case.name for w in about) else None
                if not data or len(data) > 1 << 16:
                    continue
                tried += 1
                with self.subTest(case=case.name):
                    self.attack(base(tc.file(b"d/x"), tc.file(b"l/x")), data)
            self.assertGreater(tried, 30)


def needs(*tools):
    for name in tools:
        if not shutil.which(name):
            raise unittest.SkipTest(f"{name} is not installed: run make deps")


class Others(Case):
    """skopeo and podman: what they write, and what they read."""

    def setUp(self):
        super().setUp()
        self.image = Image(base(tc.folder(b"d/"), tc.file(b"d/low", b"low"),
                                tc.file(b"d/gone")),
                           layer(tc.file(b"d/.wh.gone", b""), tc.file(b"d/top", b"top")))
        self.layout = os.path.join(self.top, "layout")
        with tarfile.open(fileobj=io.BytesIO(self.image.oci())) as t:
            t.extractall(self.layout)

    def at(self, name):
        return os.path.join(self.top, name)

    def run_tool(self, *argv):
        p = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                           timeout=120, env=dict(os.environ, HOME=self.top,
                                                 TMPDIR=self.top))
        self.assertEqual(p.returncode, 0, f"{argv}: {p.stdout.decode()}")
        return p.stdout

    def copy(self, *args):
        self.run_tool("skopeo", "--insecure-policy", "copy", "-q", *args)

    def check(self, path):
        with open(path, "rb") as f:
            root = self.unpack(f.read())
        self.assertEqual(self.tree(root, "d"), ["low", "top"])
        self.assertIn('"Env":["A=b c"]', root.lines[0])

    def test_skopeo_writes(self):
        needs("skopeo")
        for kind, more in (("oci-archive", ()), ("docker-archive", ()),
                           ("oci-archive", ("--dest-compress-format", "zstd",
                                            "--dest-compress"))):
            with self.subTest(kind=kind, more=more):
                out = self.at("out.tar")
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(out)
                self.copy(*more, f"oci:{self.layout}", f"{kind}:{out}")
                self.check(out)

    def test_podman_writes(self):
        needs("skopeo", "podman")
        podman = ["podman", "--root", self.at("storage"), "--runroot",
                  self.at("run"), "--storage-driver", "vfs"]
        self.copy(f"oci:{self.layout}", f"docker-archive:{self.at('in.tar')}:made:1")
        try:
            self.run_tool(*podman, "load", "-i", self.at("in.tar"))
            for kind in ("oci-archive", "docker-archive"):
                out = self.at(kind + ".tar")
                self.run_tool(*podman, "save", "--format", kind, "-o", out, "made:1")
                self.check(out)
        finally:
            subprocess.run([*podman, "rmi", "-af"], stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL, timeout=60)

    def written(self):
        """What src/image writes: a layout and a docker archive."""
        out, names = self.at("written"), []
        os.mkdir(out)
        for i, data in enumerate(self.image.plain):
            names.append(self.at(f"layer{i}"))
            with open(names[-1], "wb") as f:
                f.write(data)
        self.run_tool(OCI_WRITE, out, *names)
        docker = []
        for data in self.image.plain:
            docker.append((sha(data) + ".tar", data))
            with open(f"{out}/blobs/sha256/{sha(data)}", "wb") as f:
                f.write(data)
        for name in os.listdir(out):
            if name.endswith(".json") and name != "index.json":
                with open(f"{out}/{name}", "rb") as f:
                    docker.append((name, f.read()))
        with open(self.at("docker.tar"), "wb") as f:
            f.write(archive(docker))
        return out

    def test_skopeo_and_podman_read(self):
        needs("skopeo", "podman")
        out = self.written()
        self.copy(f"oci:{out}:latest", f"docker-archive:{self.at('a.tar')}")
        self.copy(f"docker-archive:{self.at('docker.tar')}", f"dir:{self.at('dir')}")
        seen = json.loads(self.run_tool("skopeo", "inspect", "--config",
                                        f"docker-archive:{self.at('docker.tar')}"))
        self.assertEqual(seen["config"], {"Env": ["FROM=here"], "Cmd": ["/bin/sh"],
                                          "WorkingDir": "/work"})
        self.assertEqual(seen["architecture"], ARCH)
        podman = ["podman", "--root", self.at("storage"), "--runroot",
                  self.at("run"), "--storage-driver", "vfs"]
        try:
            said = self.run_tool(*podman, "load", "-i", self.at("docker.tar"))
            self.assertIn(b"made/here:latest", said)
        finally:
            subprocess.run([*podman, "rmi", "-af"], stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL, timeout=60)

    def test_we_read_it_ourselves(self):
        out = self.written()
        tar = subprocess.run(["tar", "-C", out, "-cf", "-", "oci-layout", "index.json",
                              "blobs"], check=True, stdout=subprocess.PIPE).stdout
        with open(self.at("docker.tar"), "rb") as f:
            docker = f.read()
        for data in (tar, docker):
            root = self.unpack(data)
            self.assertEqual(self.tree(root, "d"), ["low", "top"])
            self.assertEqual(root.lines[0], 'config {"Env":["FROM=here"],'
                             '"Cmd":["/bin/sh"],"WorkingDir":"/work"}')


if __name__ == "__main__":
    harness.main()
