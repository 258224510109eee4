"""What an installation knows, saved and brought back: registry, keys, log,
configuration."""

import io
import json
import os
import re
import shutil
import sqlite3
import subprocess
import tarfile

import harness
from harness import Case, Instance, wait_for


class Backup(Case):
    def cli(self, *args, **kw):
        return self.i.cli("--config", self.i.config, *args, **kw)

    def verify_log(self):
        return subprocess.run([f"{self.i.bin}/carrel-scribe", "--verify",
                               self.i.state_dir + "/audit"],
                              capture_output=True, text=True)

    def test_there_and_back(self):
        key = self.i.api("POST", "/v1/keys", {"name": "mine",
                                              "scope": "admin"}).json
        ref = self.i.create(name="work", env={"A": "b"})
        path = self.i.dir + "/backup.tar"
        p = self.cli("backup", path, check=0)
        self.assertRegex(p.out, r"backup.tar: .*iB; the log in \d+ files")
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
        with tarfile.open(path) as tar:
            names = tar.getnames()
            db = tar.extractfile("registry/registry.db").read()
        self.assertEqual((names[0], names[-2:]),
                         ("FORMAT", ["carrel.conf", "SHA256SUMS"]))
        self.assertIn("audit/key.pub", names)
        self.assertNotIn("audit/key", names)
        with open(self.i.dir + "/copy.db", "wb") as f:
            f.write(db)
        with sqlite3.connect(self.i.dir + "/copy.db") as con:
            self.assertEqual(con.execute("pragma integrity_check").fetchone(),
                             ("ok",))
            self.assertEqual(con.execute("select name from sandboxes")
                             .fetchall(), [("work",)])
        # Everything else happens after it.
        self.i.api("DELETE", f"/v1/keys/{key['id']}")
        self.i.rm(ref)
        later = len(self.i.cli("log", "export").out.splitlines())

        p = self.cli("restore", path)
        self.assertEqual(p.returncode, 1)
        self.assertIn("the daemon runs", p.err)
        self.i.end_daemon()
        p = self.cli("restore", path)
        self.assertEqual(p.returncode, 1)
        self.assertIn("--force", p.err)
        p = self.cli("restore", "--force", path, check=0)
        old = re.findall(r"kept: (\S+)", p.out)
        self.assertEqual(len(old), 3)
        self.assertTrue(all(os.path.exists(x) for x in old))
        self.assertNotIn("restore.", " ".join(os.listdir(self.i.state_dir)))
        self.assertFalse(os.path.exists(self.i.config + ".restored"))

        self.i.start()
        keys = self.i.api("GET", "/v1/keys").json["keys"]
        self.assertEqual([k["id"] for k in keys], [key["id"]])
        # The log goes on, signed by the key that this host still has.
        lines = self.i.cli("log", "export").out.splitlines()
        self.assertLess(len(lines), later + 3)
        self.assertIn(key["id"], "".join(lines))
        wait_for("a signed end",
                 lambda: self.verify_log().returncode == 0, 10)
        self.assertEqual(self.i.ids(), [])  # that one is no more
        for x in old:
            shutil.rmtree(x, ignore_errors=True)

    def damaged(self, change):
        """The backup with its members changed by change(name, data)."""
        raw = self.cli("backup", "-", check=0).stdout
        out = io.BytesIO()
        with tarfile.open(fileobj=io.BytesIO(raw)) as old, \
                tarfile.open(fileobj=out, mode="w") as new:
            for m in old.getmembers():
                data = change(m.name, old.extractfile(m).read())
                if data is not None:
                    m.size = len(data)
                    new.addfile(m, io.BytesIO(data))
        return out.getvalue()

    def with_link(self, data, to):
        """The same with a link in it, which restoring must not follow."""
        out = io.BytesIO()
        with tarfile.open(fileobj=io.BytesIO(data)) as old, \
                tarfile.open(fileobj=out, mode="w") as new:
            m = tarfile.TarInfo("audit/link")
            m.type, m.linkname = tarfile.SYMTYPE, to
            new.addfile(m)
            for m in old:
                new.addfile(m, old.extractfile(m) if m.isfile() else None)
        return out.getvalue()

    def test_damaged(self):
        def sums(names):
            return lambda n, d: None if n in names else d
        cases = {
            "was changed": (lambda n, d: d + b"x" if n.endswith(".db") else d,
                            "registry/registry.db is not what was backed up"),
            "lacks a file": (sums(["audit/key.pub"]), "lacks audit/key.pub"),
            "lacks its sums": (sums(["SHA256SUMS"]), "no SHA256SUMS"),
            "of the future": (lambda n, d: b"99\n" if n == "FORMAT" else
                              re.sub(rb"(?m)^.*FORMAT\n", b"", d)
                              if n == "SHA256SUMS" else d, "format 99"),
        }
        bad = {name: (self.damaged(change), word)
               for name, (change, word) in cases.items()}
        whole = self.cli("backup", "-", check=0).stdout
        bad["is cut"] = whole[:len(whole) // 2], "cut short"
        bad["is something else"] = b"x" * 4096, "restore"
        bad["leads elsewhere"] = (self.with_link(whole, "/etc"),
                                  "link is not a file")
        self.i.end_daemon()
        before = sorted(os.listdir(self.i.state_dir))
        for name, (data, word) in bad.items():
            with self.subTest(name):
                p = self.cli("restore", "--force", "-", input=data)
                self.assertEqual(p.returncode, 1)
                if word != "restore":
                    self.assertIn(word, p.err)
                self.assertEqual(sorted(os.listdir(self.i.state_dir)), before)
        self.i.start()

    def test_to_another_host(self):
        key = self.i.api("POST", "/v1/keys", {"name": "moved"}).json
        data = self.cli("backup", "-", check=0).stdout
        with Instance(image=None) as other:
            other.end_daemon()
            shutil.rmtree(other.state_dir + "/registry")
            shutil.rmtree(other.state_dir + "/audit")
            p = other.cli("--config", other.config, "restore", "-",
                          input=data, check=0)
            self.assertIn("carrel.conf", data.decode(errors="replace"))
            self.assertTrue(os.path.exists(other.config + ".restored"), p.out)
            other.start()
            ids = [k["id"] for k in other.api("GET", "/v1/keys").json["keys"]]
            self.assertIn(key["id"], ids)
            # Another key signs from now on; the old one's is kept.
            self.assertTrue(os.path.exists(other.state_dir +
                                           "/audit/key.pub.old"))

    def test_only_for_all_projects(self):
        p = self.i.cli("backup", "/nowhere/x")
        self.assertEqual(p.returncode, 1)
        r = self.i.api("POST", "/v1/backup")
        self.assertEqual(r.status, 200)
        self.assertTrue(r.body.startswith(b"SQLite format 3\0"))
        self.assertEqual(r.headers["Content-Type"], "application/vnd.sqlite3")
        self.assertEqual([n for n in os.listdir(self.i.state_dir + "/registry")
                          if "backup" in n], [])
        types = [json.loads(x)["type"] for x in
                 self.i.cli("log", "export").out.splitlines()]
        self.assertIn("backup.create", types)


if __name__ == "__main__":
    harness.main()
