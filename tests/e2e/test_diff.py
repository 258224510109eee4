"""Differences of sandboxes, snapshots and images, and files of each."""

import base64
import json
import os
from urllib.parse import quote

import harness


def lines(answer):
    return [json.loads(x) for x in answer.body.splitlines()]


class Case(harness.Case):
    def box(self, script=":", **spec):
        ref = self.i.create(**spec)
        self.sh(ref, script)
        return ref

    def sh(self, ref, script):
        p = self.i.sh(ref, "cd /home/user; set -e\n" + script)
        self.assertEqual(p.returncode, 0, p.out + p.err)

    def snapshot(self, ref, name=None):
        r = self.i.api("POST", f"/v1/sandboxes/{ref}/snapshots",
                       {"name": name})
        self.assertEqual(r.status, 201, r)
        self.addCleanup(self.i.api, "DELETE", f"/v1/snapshots/{r.json['id']}")
        return r.json["id"]

    def raw(self, **query):
        path = query.pop("path", [])
        q = [f"{k.rstrip('_')}={quote(v, safe='')}" for k, v in query.items()]
        q += [f"path={quote(p, safe='')}" for p in path]
        return self.i.api("GET", "/v1/diff?" + "&".join(q))

    def diff(self, to, from_=None, status=200, **query):
        """The changes by path, and the counts."""
        if from_:
            query["from_"] = from_
        r = self.raw(to=to, **query)
        self.assertEqual(r.status, status, r)
        if status != 200:
            return r.json
        found = [x for x in lines(r) if x["type"] != "ping"]
        self.assertEqual(found[-1]["type"], "done", found[-1])
        got = [x for x in found if x["type"] == "change"]
        self.assertEqual(len(got) + 1, len(found))
        words = [x["change"] for x in got]
        for word in ("added", "removed", "changed"):
            self.assertEqual(found[-1][word], words.count(word))
        return {x["path"]: x for x in got}

    def home(self, *args, **kw):
        """The same of the home directory, without it in front; its own
        entry (a new time is none of it) left out."""
        return {p[len("/home/user/"):]: x for p, x in
                self.diff(*args, **kw).items() if p.startswith("/home/user/")}


class Diff(Case):
    def test_every_kind_of_change(self):
        box = self.box("""
            echo same > same; echo 1 > content; echo 1 > mode; echo 1 > owner
            echo 1 > gone; ln -s a link; mkdir dir dir2; echo 1 > dir/in
            echo 1 > type; mkdir todir; echo 1 > tofile
            ln same hard; mkfifo pipe""")
        self.snapshot(box, "before")
        self.assertEqual(self.diff(box, "before"), {})
        self.sh(box, """
            echo 22 > content; chmod 600 mode; sudo chown 7:8 owner
            rm gone; ln -sfn b link; rm -r dir; mkdir new; echo 1 > new/file
            rm type; ln -s x type; rm tofile; mkdir tofile; rmdir todir
            echo 1 > todir; touch same; mkfifo pipe2
            echo 1 > 'a name
of two lines, with	a tab'""")
        got = self.home(box, "before")
        self.assertEqual(
            {p: (x["change"], x["what"]) for p, x in got.items()}, {
                "content": ("changed", ["content"]),
                "mode": ("changed", ["mode"]),
                "owner": ("changed", ["owner"]),
                "gone": ("removed", ["type"]),
                "link": ("changed", ["content"]),
                "dir": ("removed", ["type"]),
                "dir/in": ("removed", ["type"]),
                "new": ("added", ["type"]),
                "new/file": ("added", ["type"]),
                "type": ("changed", ["type"]),
                "tofile": ("changed", ["type"]),
                "todir": ("changed", ["type"]),
                "pipe2": ("added", ["type"]),
                "a name\nof two lines, with\ta tab": ("added", ["type"]),
            })
        self.assertEqual(got["mode"]["before"]["mode"], "0644")
        self.assertEqual(got["mode"]["after"]["mode"], "0600")
        self.assertEqual((got["owner"]["after"]["uid"],
                          got["owner"]["after"]["gid"]), (7, 8))
        self.assertEqual((got["link"]["before"]["target"],
                          got["link"]["after"]["target"]), ("a", "b"))
        self.assertEqual((got["content"]["before"]["size"],
                          got["content"]["after"]["size"]), (2, 3))
        self.assertIsNone(got["gone"]["after"])
        self.assertEqual(got["gone"]["before"]["type"], "file")
        # The other way round.
        back = self.home("before", box)
        self.assertEqual(set(back), set(got))
        self.assertEqual(back["gone"]["change"], "added")
        # What it started from is its image.
        self.assertEqual(set(self.home(box)), set(self.home(box, "tiny")))
        self.assertIn("same", self.home(box))
        # Paths: one and what is below, several, one that is not there.
        some = self.diff(box, "before", path=["/home/user/new",
                                              "/home/user/mode", "/nothing"])
        self.assertEqual(set(some), {"/home/user/new", "/home/user/new/file",
                                     "/home/user/mode"})
        self.assertEqual(self.diff(box, "before", path=["/etc"]), {})

    def test_directories_that_were_moved_or_made_anew(self):
        """What the file system stores as a redirect or as opaque."""
        box = self.box("""
            mkdir -p deep/a/b; echo 1 > deep/a/b/file; echo 1 > deep/a/other
            mkdir again; echo 1 > again/old""")
        self.snapshot(box, "before")
        # Of the image's own directories, too: those are below.
        self.sh(box, """
            mv deep moved; rm -r again; mkdir again; echo 1 > again/new
            sudo mv /etc /etc2; sudo mkdir /etc
            sudo cp /etc2/passwd /etc2/group /etc/""")
        got = self.home(box, "before")
        self.assertEqual({p: x["change"] for p, x in got.items()}, {
            "deep": "removed", "deep/a": "removed", "deep/a/b": "removed",
            "deep/a/b/file": "removed", "deep/a/other": "removed",
            "moved": "added", "moved/a": "added", "moved/a/b": "added",
            "moved/a/b/file": "added", "moved/a/other": "added",
            "again/old": "removed", "again/new": "added"})
        etc = self.diff(box, "before", path=["/etc", "/etc2"])
        self.assertEqual(etc["/etc2"]["change"], "added")
        self.assertIn("/etc2/passwd", etc)
        self.assertNotIn("/etc/passwd", {p for p, x in etc.items()
                                         if x["change"] == "removed"})

    def test_names_that_are_not_text(self):
        box = self.box("mkdir d; echo 1 > \"d/$(printf 'a\\377b')\"")
        got = self.diff(box, "tiny", path=["/home/user/d"])
        odd = [x for x in got.values() if "path_base64" in x]
        self.assertEqual([base64.b64decode(x["path_base64"]) for x in odd],
                         [b"/home/user/d/a\xffb"])
        code = base64.urlsafe_b64encode(b"/home/user/d/a\xffb").decode()
        r = self.i.api("GET", f"/v1/diff?to={box}&path_base64={code}")
        self.assertEqual(len(lines(r)), 2, r)
        r = self.i.api("GET",
                       f"/v1/states/content?state={box}&path_base64={code}")
        self.assertEqual((r.status, r.body), (200, b"1\n"))

    def test_contents(self):
        box = self.box("""
            printf 'one\\ntwo\\n' > text; printf 'a\\0b' > zero
            head -c 1048577 /dev/zero > large; echo 1 > mode""")
        self.snapshot(box, "before")
        self.sh(box, """
            printf 'one\\nTWO\\n' > text; printf 'a\\377b' > zero
            echo >> large; chmod 600 mode; printf hi > new; : > empty
            rm -f large2; ln -s x link""")
        got = self.home(box, "before", content="true")
        self.assertEqual(got["text"]["before"]["content"], "one\ntwo\n")
        self.assertEqual(got["text"]["after"]["content"], "one\nTWO\n")
        self.assertEqual(got["zero"]["before"]["content"], "a\0b")
        self.assertEqual(base64.b64decode(
            got["zero"]["after"]["content_base64"]), b"a\xffb")
        self.assertEqual(got["new"]["after"]["content"], "hi")
        self.assertEqual(got["empty"]["after"]["content"], "")
        for name in ("large", "mode", "link"):
            for side in ("before", "after"):
                self.assertNotIn("content", got[name][side] or {})

    def test_bad_requests(self):
        box = self.box()
        for query, status in (("", 400), ("to=nope", 404),
                              (f"to={box}&from=nope", 404),
                              (f"to={box}&path=relative", 400),
                              (f"to={box}&path=/a/../b", 400),
                              (f"to={box}&content=perhaps", 400),
                              (f"to={box}&to={box}", 400),
                              (f"to={box}&" + "&".join(["path=/a"] * 257),
                               400)):
            r = self.i.api("GET", f"/v1/diff?{query}")
            self.assertEqual(r.status, status, (query, r))

    def test_of_another_project(self):
        r = self.i.api("POST", "/v1/keys", {"name": "k", "scope": "admin",
                                            "project": "other"})
        key = {"Authorization": f"Bearer {r.json['key']}"}
        box = self.box(name="mine")
        snap = self.snapshot(box, "secret")
        for ref in ("mine", box, "secret", snap, f"snapshot:{snap}"):
            for path in (f"/v1/diff?to={ref}", f"/v1/diff?to=tiny&from={ref}",
                         f"/v1/states/content?state={ref}&path=/etc/passwd"):
                r = self.i.api("GET", path, headers=key)
                self.assertEqual(r.status, 404, (path, r))


class Content(Case):
    def content(self, state, path, status=200):
        r = self.i.api("GET", f"/v1/states/content?state={quote(state)}"
                              f"&path={quote(path, safe='')}")
        self.assertEqual(r.status, status, r)
        return r.body if status == 200 else r.json["error"]

    def test_a_file_of_any_state(self):
        box = self.box("echo one > f; : > empty; mkdir d; ln -s f link; "
                       "mkfifo pipe; head -c 3000000 /dev/urandom > big")
        self.snapshot(box, "then")
        self.sh(box, "echo two > f")
        self.assertEqual(self.content("then", "/home/user/f"), b"one\n")
        self.assertEqual(self.content(box, "/home/user/f"), b"two\n")
        self.assertEqual(self.content(f"sandbox:{box}", "/home/user/./f"),
                         b"two\n")
        self.assertIn(b"root:", self.content("image:tiny", "/etc/passwd"))
        self.assertEqual(self.content(box, "/home/user/empty"), b"")
        big = self.i.api("GET", f"/v1/sandboxes/{box}/files/content"
                                "?path=big").body
        self.assertEqual(self.content("then", "/home/user/big"), big)
        for path, status, word in (("/nothing", 404, "not_found"),
                                   ("/home/user/f/x", None, None),
                                   ("/home/user/d", None, None),
                                   ("/home/user/link", None, None),
                                   ("/home/user/pipe", None, None)):
            r = self.i.api("GET", f"/v1/states/content?state={box}"
                                  f"&path={quote(path)}")
            self.assertIn(r.status, [status] if status else [400, 404, 422],
                          (path, r))
        self.content(box, "relative", 400)
        self.assertEqual(self.i.api(
            "GET", "/v1/states/content?path=/x").status, 400)

    def test_a_client_that_leaves(self):
        """Nothing of what was made for it is left."""
        box = self.box("head -c 20000000 /dev/zero > big")
        for _ in range(3):
            conn = harness.UnixHTTP(self.i.sock, 20)
            conn.request("GET", f"/v1/states/content?state={box}"
                                "&path=/home/user/big")
            r = conn.getresponse()
            self.assertEqual(r.status, 200)
            r.close()
            conn.close()
        snaps = f"{self.i.pool()}/snap"
        harness.wait_for("its snapshots to go", lambda: not (
            os.path.isdir(snaps) and os.listdir(snaps)), 30)


class Space(Case):
    def test_of_a_snapshot(self):
        box = self.box("head -c 1000000 /dev/urandom > f; mkdir d; sync f",
                       name="work")
        snap = self.snapshot(box, "one")
        r = self.i.api("GET", f"/v1/snapshots/{snap}?space=true")
        self.assertEqual(r.status, 200, r)
        space = r.json["space"]
        self.assertGreaterEqual(space["bytes"], 1000000)
        # The sandbox still has it.
        self.assertGreaterEqual(space["shared"], 1000000)
        self.assertGreaterEqual(space["entries"], 2)
        self.assertNotIn("space", self.i.api(
            "GET", f"/v1/snapshots/{snap}").json)
        self.sh(box, "rm f")
        self.snapshot(box, "two")
        p = self.i.cli("snapshot", "ls", "--space", check=0)
        head, *rows = p.out.splitlines()
        self.assertEqual(head.split()[-2:], ["USED", "SHARED"])
        self.assertEqual(len(rows), 2)
        self.assertNotIn("USED", self.i.cli("snapshot", "ls").out)


class Cli(Case):
    def test_names(self):
        box = self.box("echo 1 > a; echo 1 > b; echo 1 > c", name="work")
        self.snapshot(box, "before")
        p = self.i.cli("diff", "before", "work", check=0)
        self.assertEqual(p.out, "")
        self.sh(box, "echo 2 > a; rm b; echo 1 > d; chmod 700 c")
        p = self.i.cli("diff", "before", "work", check=1)
        self.assertEqual([x for x in p.out.splitlines()
                          if "/home/user/" in x],
                         ["M /home/user/a", "D /home/user/b",
                          "M /home/user/c  (mode 0644 -> 0700)",
                          "A /home/user/d"])
        p = self.i.cli("diff", "before", "work", "/home/user/b", check=1)
        self.assertEqual(p.out, "D /home/user/b\n")
        p = self.i.cli("diff", "work", "/home/user/d", check=1)
        self.assertEqual(p.out, "A /home/user/d\n")
        self.i.cli("diff", "work", "/etc", check=0)
        p = self.i.cli("diff", "--json", "before", "work", "/home/user/b",
                       check=1)
        got = [json.loads(x) for x in p.out.splitlines()]
        self.assertEqual([x["type"] for x in got], ["change", "done"])
        p = self.i.cli("diff", "nothing", "work", check=2)
        self.assertIn("no snapshot, sandbox or image 'nothing'", p.err)
        self.i.cli("diff", check=2)

    def test_texts(self):
        box = self.box("seq 1 20 > text; printf 'a\\0' > zero", name="work")
        self.snapshot(box, "before")
        self.sh(box, "sed -i s/^10$/ten/ text; printf 'b\\0' > zero; "
                     "echo hi > new; rm -f x")
        p = self.i.cli("diff", "-c", "before", "work", "/home/user/text",
                       "/home/user/zero", "/home/user/new", check=1)
        self.assertEqual(p.out, """\
--- /dev/null
+++ b/home/user/new
@@ -0,0 +1 @@
+hi
--- a/home/user/text
+++ b/home/user/text
@@ -7,7 +7,7 @@
 7
 8
 9
-10
+ten
 11
 12
 13
M /home/user/zero
""")


if __name__ == "__main__":
    harness.main()
