"""Merges: what was changed in one sandbox is taken over into another, by their
common ancestor; and nothing that somebody wrote is lost."""

import base64
import os
import threading
import time

import harness


class Case(harness.Case):
    def box(self, script=":", **spec):
        ref = self.i.create(**spec)
        self.sh(ref, script)
        return ref

    def sh(self, ref, script):
        p = self.i.sh(ref, "cd /home/user; set -e\n" + script)
        self.assertEqual(p.returncode, 0, p.out + p.err)
        return p.out

    def snapshot(self, ref, name=None):
        r = self.i.api("POST", f"/v1/sandboxes/{ref}/snapshots",
                       {"name": name})
        self.assertEqual(r.status, 201, r)
        self.addCleanup(self.i.api, "DELETE", f"/v1/snapshots/{r.json['id']}")
        return r.json["id"]

    def fork(self, ref, script=":", **body):
        r = self.i.api("POST", f"/v1/sandboxes/{ref}/fork",
                       {"count": 1, **body})
        self.assertEqual(r.status, 201, r)
        child = r.json["sandboxes"][0]["id"]
        self.sh(child, script)
        return child

    def merge(self, from_, into, status=200, **body):
        r = self.i.api("POST", f"/v1/sandboxes/{into}/merge",
                       {"from": from_, **body})
        self.assertEqual(r.status, status, r)
        return r.json

    def counts(self, got):
        return tuple(got[k] for k in ("put", "removed", "same", "kept",
                                      "conflicts"))

    def tree(self, ref):
        """All of the home directory: names, modes, owners, contents."""
        return self.sh(ref, """
            find . ! -path './odd/*' | sort | while read f; do
                stat -c '%n %F %a %u:%g' "$f"
                if [ -L "$f" ]; then readlink "$f"
                elif [ -f "$f" ] && [ -r "$f" ]; then cat "$f"; fi
            done""")


BASE = """
    mkdir -p src/sub gone keep; echo 1 > src/a; echo 1 > src/b
    echo 1 > src/sub/c; echo 1 > gone/x; echo 1 > keep/ours; ln -s a src/l
    echo 1 > mode; echo 1 > owner; echo 1 > tolink; mkdir todir; echo 1 > f2d
"""


class Merge(Case):
    def test_everything_that_can_change(self):
        parent = self.box(BASE, name="parent")
        child = self.fork(parent, """
            echo 2 > src/a; echo new > src/new; rm src/b; ln -sfn b src/l
            rm -r gone; mkdir -p fresh/deep; echo 1 > fresh/deep/f
            chmod 4750 mode; sudo chown 7:8 owner; rm tolink; ln -s x tolink
            rmdir todir; echo 1 > todir; rm f2d; mkdir f2d; echo 1 > f2d/in
            mkfifo pipe; echo 1 > h1; ln h1 h2; chmod 700 fresh
            sudo touch -d @1000000000 src/new; echo 1 > src/.wh.a; mkdir odd; echo odd > 'odd/two
lines'""")
        self.sh(parent, "echo mine > keep/ours; echo mine > src/own")
        want = self.tree(child).replace("./keep/ours regular file 644 "
                                        "1000:1000\n1\n", "")
        got = self.merge(child, parent)
        self.assertEqual((got["conflicts"], got["kept"], got["dry_run"]),
                         (0, 0, False))
        now = self.tree(parent).replace("./keep/ours regular file 644 "
                                        "1000:1000\nmine\n", "")
        now = now.replace("./src/own regular file 644 1000:1000\nmine\n", "")
        self.assertEqual(now, want)
        self.assertEqual(self.sh(parent, "cat keep/ours src/own"),
                         "mine\nmine\n")
        self.assertEqual(self.sh(parent, "cat 'odd/two\nlines'"), "odd\n")
        self.assertEqual(self.sh(parent, "stat -c %Y src/new").strip(),
                         "1000000000")
        self.assertEqual(len(set(self.sh(
            parent, "stat -c %i h1 h2").split())), 1)
        by_path = {c["path"]: c for c in got["changes"]}
        self.assertEqual(by_path["/home/user/src/b"]["action"], "remove")
        self.assertEqual(by_path["/home/user/src/new"]["action"], "put")
        self.assertIsNone(by_path["/home/user/src/new"]["ours"])
        # Once more: both are the same now, and nothing is to do.
        again = self.merge(child, parent)
        self.assertEqual((again["put"], again["removed"],
                          again["conflicts"]), (0, 0, 0))
        self.assertNotIn(".merge", self.i.sh(parent, "ls -a /").out)
        harness.wait_for("its entries in the log", lambda: self.i.api(
            "GET", f"/v1/sandboxes/{parent}/log?type=sandbox.merge").body
            .count(b'"type":"sandbox.merge"') == 2)

    def test_paths(self):
        parent = self.box(BASE)
        child = self.fork(parent, "echo 2 > src/a; echo 2 > mode; rm src/b")
        got = self.merge(child, parent, paths=["/home/user/src"])
        self.assertEqual(self.counts(got)[:2], (2, 0) if got["removed"] == 0
                         else (1, 1))
        self.assertEqual(self.sh(parent, "cat src/a mode; ls src"),
                         "2\n1\na\nl\nsub\n")
        self.assertEqual(self.merge(child, parent,
                                    paths=["/nothing"])["put"], 0)
        odd = base64.b64encode(b"/home/user/mode").decode()
        self.merge(child, parent, paths_base64=[odd])
        self.assertEqual(self.sh(parent, "cat mode"), "2\n")

    def test_many_in_many_places(self):
        """More than a worker is asked for by their names."""
        parent = self.box("for d in $(seq 40); do mkdir -p m/$d/x; done; "
                          "echo 1 > m/other")
        child = self.fork(parent, "for d in $(seq 40); do for f in $(seq 10);"
                                  " do echo $f > m/$d/x/$f; done; done")
        self.sh(child, "echo 2 > m/other; echo 2 > beside")
        self.sh(parent, "echo mine > m/7/own; echo mine > m/7/x/own")
        got = self.merge(child, parent, paths=[f"/home/user/m/{d}"
                                               for d in range(1, 41)])
        self.assertEqual(self.counts(got), (400, 0, 0, 0, 0))
        self.assertEqual(self.sh(parent, "find m -type f | wc -l; cat m/other;"
                                         "ls; cat m/7/own m/7/x/own m/40/x/9"),
                         "403\n1\nm\nmine\nmine\n9\n")
        got = self.merge(child, parent)
        self.assertEqual(self.counts(got), (2, 0, 400, 0, 0))
        self.assertEqual(self.sh(parent, "cat m/other beside"), "2\n2\n")

    def test_dry_run_changes_nothing(self):
        parent = self.box(BASE)
        child = self.fork(parent, "echo 2 > src/a; echo 2 > mode")
        self.sh(parent, "echo 3 > mode")
        before = self.tree(parent)
        got = self.merge(child, parent, dry_run=True)
        self.assertEqual((got["put"], got["conflicts"], got["kept"]),
                         (1, 1, 1))
        self.assertTrue(got["dry_run"])
        self.assertEqual(self.tree(parent), before)
        got = self.merge(child, parent, dry_run=True, prefer="theirs")
        self.assertEqual((got["put"], got["kept"]), (2, 0))
        self.assertEqual(self.tree(parent), before)

    def test_ancestors(self):
        """A fork of a fork, snapshots, and two of the same image."""
        top = self.box("echo 1 > a; echo 1 > b; echo 1 > c")
        mid = self.fork(top, "echo mid > b")
        low = self.fork(mid, "echo low > c")
        self.sh(top, "echo top > a")
        self.sh(mid, "echo later > b")
        # The grandparent gets what both generations did, as of the fork.
        got = self.merge(low, top)
        self.assertEqual(got["conflicts"], 0)
        self.assertEqual(self.sh(top, "cat a b c"), "top\nmid\nlow\n")
        # The other way down.
        self.merge(top, low)
        self.assertEqual(self.sh(low, "cat a b c"), "top\nmid\nlow\n")
        # Siblings.
        sib = self.fork(mid, "echo sib > d")
        self.merge(sib, low)
        self.assertEqual(self.sh(low, "cat d"), "sib\n")
        # A snapshot of the fork, when the fork has gone on.
        self.snapshot(mid, "then")
        self.sh(mid, "echo no > e")
        self.merge("then", top, prefer="theirs")
        self.assertEqual(self.sh(top, "cat b; ls"), "later\na\nb\nc\n")
        # Strangers of one image.
        other = self.box("echo other > z")
        self.merge(other, top, paths=["/home/user/z"])
        self.assertEqual(self.sh(top, "cat z"), "other\n")

    def test_the_fork_is_gone_or_paused(self):
        parent = self.box(BASE)
        child = self.fork(parent, "echo 2 > src/a")
        self.snapshot(child, "saved")
        self.i.api("POST", f"/v1/sandboxes/{child}/pause", {})
        self.merge(child, parent)
        self.assertEqual(self.sh(parent, "cat src/a"), "2\n")
        self.i.rm(child)
        self.merge("saved", parent, status=200)
        # The target wakes up for it.
        child = self.fork(parent, "echo 3 > src/a")
        self.i.api("POST", f"/v1/sandboxes/{parent}/pause", {})
        self.merge(child, parent)
        self.assertEqual(self.sh(parent, "cat src/a"), "3\n")

    def test_without_sudo(self):
        parent = self.box("echo 1 > a", sudo=False)
        child = self.fork(parent, "echo 2 > a; echo 1 > b")
        self.merge(child, parent)
        self.assertEqual(self.sh(parent, "cat a b; stat -c %u a b"),
                         "2\n1\n1000\n1000\n")
        # It opened no door for those inside.
        p = self.i.cli("exec", "--user", "root", parent, "--", "true")
        self.assertNotEqual(p.returncode, 0)

    def test_not_for_clients(self):
        box = self.box()
        w = self.i.exec_wire(box)
        self.addCleanup(w.close)
        w.spawn(["host.merge", "/"], flags=8 | 2)
        kind, _, payload = w.recv()
        self.assertEqual(kind, harness.FAILED)
        self.assertIn(b"not for clients", payload)

    def test_bad_requests(self):
        box = self.box()
        other = self.box()
        for body, status in (({}, 400), ({"from": 1}, 400),
                             ({"from": "nope"}, 404),
                             ({"from": other, "prefer": "mine"}, 400),
                             ({"from": other, "paths": "/x"}, 400),
                             ({"from": other, "paths": ["x"]}, 400),
                             ({"from": other, "paths": ["/.."]}, 400),
                             ({"from": other, "dry_run": 1}, 400),
                             ({"from": other, "what": 1}, 400)):
            r = self.i.api("POST", f"/v1/sandboxes/{box}/merge", body)
            self.assertEqual(r.status, status, (body, r))
        r = self.i.api("POST", "/v1/sandboxes/nope/merge", {"from": box})
        self.assertEqual(r.status, 404)


class Conflicts(Case):
    def test_each_kind_is_refused_and_solved(self):
        parent = self.box("""
            mkdir d1 d2 d3 d4 d5; for d in d1 d2 d3 d4 d5; do
                echo 1 > $d/x; echo 1 > $d/y; done
            for f in both rm_mod mod_rm mode type same; do echo 1 > $f; done
            """)
        child = self.fork(parent, """
            echo t > both; rm rm_mod; echo t > mod_rm; chmod 600 mode
            rm type; mkdir type; echo t > type/in; echo s > same
            echo t > added; rm -r d1; echo t > d2/x; rm -r d3; echo t > d3
            echo t > d4/new; rm -r d5""")
        self.sh(parent, """
            echo o > both; echo o > rm_mod; rm mod_rm; chmod 640 mode
            echo o > type; echo s > same; echo o > added
            echo o > d1/x; rm -r d2; echo o > d3/own; rm -r d4; echo o > d4
            """)
        before = self.tree(parent)
        got = self.merge(child, parent, status=409)
        self.assertEqual(got["error"], "merge_conflict")
        clashes = {c["path"][len("/home/user/"):] for c in got["conflicts"]}
        must = {"both", "rm_mod", "mod_rm", "mode", "type", "added", "d1/x",
                "d2/x", "d3", "d4/new"}
        self.assertLessEqual(must, clashes)
        self.assertFalse(clashes & {"same", "d5", "d5/x", "d1/y"}, clashes)
        self.assertEqual(got["counts"]["conflicts"], len(got["conflicts"]))
        self.assertEqual(self.tree(parent), before)
        # The same by their paths alone.
        for path in must:
            got = self.merge(child, parent, status=409,
                             paths=[f"/home/user/{path}"])
            self.assertIn(f"/home/user/{path}",
                          {c["path"] for c in got["conflicts"]})
        self.assertEqual(self.tree(parent), before)
        # Ours: what they did without us is taken, the rest stays.
        two = self.fork(parent)
        got = self.merge(child, parent, prefer="ours")
        self.assertEqual(got["kept"], got["conflicts"])
        self.assertEqual(self.sh(parent, """
            cat both rm_mod type same added d1/x d3/own d4; ls
            stat -c %a mode"""),
            "o\no\no\ns\no\no\no\no\n" + "added\nboth\nd1\nd3\nd4\nmode\n"
            "rm_mod\nsame\ntype\n" + "640\n")
        # Theirs.
        got = self.merge(child, two, prefer="theirs")
        self.assertEqual(got["kept"], 0)
        self.assertEqual(self.sh(two, """
            cat both mod_rm type/in same added d2/x d3 d4/new
            ls; stat -c %a mode; ls d2 d4"""),
            "t\nt\nt\ns\nt\nt\nt\nt\n"
            "added\nboth\nd2\nd3\nd4\nmod_rm\nmode\nsame\ntype\n600\n"
            "d2:\nx\n\nd4:\nnew\n")
        # What came back belongs to whom it did.
        self.sh(two, "echo 1 > d4/mine; echo 1 > d2/mine; echo 1 > d4/new")

    def test_no_ancestor(self):
        self.i.import_image("tiny")  # another one, of the same name
        # ... which sandboxes made before do not have.
        old = self.box("echo 1 > a", name="old")
        self.i.import_image("tiny")
        new = self.box("echo 2 > a", name="new")
        got = self.merge(old, new, status=409)
        self.assertEqual(got["error"], "no_ancestor")


class Races(Case):
    def test_a_writer_loses_nothing(self):
        """It counts up in files between those that are merged: each number
        stays, in order."""
        parent = self.box("mkdir d; echo 0 > d/n; echo 0 > d/other")
        child = self.fork(parent, "for i in $(seq 200); do "
                                  "echo $i > d/f$i; done; echo t > d/other")
        p = self.i.popen("exec", parent, "--", "sh", "-c", """
            cd /home/user/d; i=0
            while [ ! -e stop ]; do
                i=$((i+1)); echo $i >> log; echo $i > n.new
                mv n.new n; [ "$(cat n)" = $i ] || { echo lost $i; exit 1; }
                [ "$(tail -n 1 log)" = $i ] || { echo lost $i; exit 1; }
            done; echo $i""")
        try:
            harness.wait_for("it to write", lambda: self.i.sh(
                parent, "[ -s /home/user/d/log ]").returncode == 0)
            for _ in range(3):
                # What was merged before is a change of both sides now.
                got = self.merge(child, parent, prefer="theirs")
                self.assertEqual(got["put"] + got["same"], 201)
                self.sh(child, "for i in $(seq 200); do "
                               "echo x >> d/f$i; done")
            self.sh(parent, "touch d/stop")
            out, err = p.communicate(timeout=60)
        finally:
            p.kill()
        self.assertEqual(p.returncode, 0, out + err)
        last = int(out)
        log = self.sh(parent, "cat d/log").split()
        self.assertEqual(log, [str(n) for n in range(1, last + 1)])
        self.assertEqual(self.sh(parent, "cat d/other"), "t\n")

    def test_a_spawn_in_the_middle(self):
        """A process that is born while all stand still has a part of the
        merge's pipe: nobody waits for it."""
        parent = self.box("mkdir d; for i in $(seq 1500); do echo 0 > d/f$i; "
                          "done")
        child = self.fork(parent, "for i in $(seq 1500); do echo 1 > d/f$i; "
                                  "done")
        over, errors, asked = threading.Event(), [], []

        def look():
            r = self.i.api("GET", f"/v1/sandboxes/{parent}/files/stat"
                           "?path=/home/user/d")
            if r.status != 200:
                errors.append(r)

        def spawn():
            """One after the other, whether those before have ended or not."""
            while not over.wait(0.02):
                if sum(t.is_alive() for t in asked) < 100:
                    asked.append(threading.Thread(target=look))
                    asked[-1].start()
        spawner = threading.Thread(target=spawn)
        spawner.start()
        began = time.monotonic()
        try:
            got = self.merge(child, parent, prefer="theirs")
        finally:
            took = time.monotonic() - began
            over.set()
            for t in [spawner, *asked]:
                t.join()
        self.assertEqual((got["put"], errors), (1500, []))
        self.assertLess(took, 60)
        kept = self.i.api("GET", "/v1/snapshots").json["snapshots"]
        self.assertEqual([x["name"] for x in kept], [])

    def test_holes_and_times(self):
        parent = self.box("echo 1 > a", disk="64MiB")
        child = self.fork(parent, "truncate -s 200M hole; printf abc | dd "
                                  "of=hole bs=1 seek=150000000 conv=notrunc "
                                  "2>/dev/null; echo 2 > a")
        self.merge(child, parent)
        look = ("stat -c '%s %y' hole a; "
                "dd if=hole bs=1 skip=150000000 count=3 2>/dev/null")
        self.assertEqual(self.sh(parent, look), self.sh(child, look))
        self.assertLess(int(self.sh(parent, "du -k hole").split()[0]), 1000)

    def test_one_at_a_time(self):
        parent = self.box("echo 1 > a")
        child = self.fork(parent, "for i in $(seq 300); do "
                                  "echo $i > f$i; done")
        got = []

        def go():
            got.append(self.i.api("POST", f"/v1/sandboxes/{parent}/merge",
                                  {"from": child}).status)

        threads = [threading.Thread(target=go) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertLessEqual(set(got), {200, 409, 429})
        self.assertIn(200, got)
        self.assertEqual(self.sh(parent, "ls f* | wc -l").strip(), "300")

    def test_too_large_for_its_disk(self):
        """Found out before anything was changed, and it goes on."""
        parent = self.box("echo 1 > a; echo 1 > gone", disk="64M")
        child = self.fork(parent, "rm gone; echo 2 > a",
                          spec={"disk": "256M"})
        self.sh(child, "head -c 100000000 /dev/urandom > big")
        r = self.i.api("POST", f"/v1/sandboxes/{parent}/merge",
                       {"from": child})
        self.assertEqual(r.status, 507, r)
        self.assertEqual(self.sh(parent, "cat a gone; ls -A /home/user; "
                                         "ls -a / | grep merge || true"),
                         "1\n1\na\ngone\n")

    def test_killed_in_the_middle(self):
        """A role: nothing or all of it, nobody stands still for ever, and
        nothing is left."""
        parent = self.box("echo 1 > a")
        child = self.fork(parent, "mkdir d; for i in $(seq 400); do "
                                  "echo $i > d/f$i; done")
        for role, wait in (("carrel-api", 0.0), ("carrel-api", 0.03),
                           ("carrel-api", 0.08), ("carrel-api", 0.2),
                           ("carrel-warden", 0.03), ("carrel-warden", 0.1)):
            t = threading.Thread(target=self.quiet_merge,
                                 args=(child, parent))
            t.start()
            time.sleep(wait)
            self.i.kill_role(role)
            t.join()
            self.i.wait_ready()
            harness.wait_for("it to go on", lambda: self.i.sh(
                parent, "true").returncode == 0, 30)

            def settled():
                return ".merge" not in self.i.sh(parent, "ls -a /").out
            harness.wait_for("its stage to go", settled, 30)
            n = int(self.sh(parent, "ls d 2>/dev/null | wc -l"))
            self.assertIn(n, (0, 400))
            self.sh(parent, "rm -rf d")
        self.merge(child, parent, prefer="theirs")
        self.assertEqual(int(self.sh(parent, "ls d | wc -l")), 400)

    def quiet_merge(self, child, parent):
        try:
            self.i.api("POST", f"/v1/sandboxes/{parent}/merge",
                       {"from": child, "prefer": "theirs"})
        except (OSError, harness.http.client.HTTPException):
            pass

    def test_a_client_that_leaves(self):
        parent = self.box("echo 1 > a")
        child = self.fork(parent, "head -c 30000000 /dev/urandom > big")
        conn = harness.UnixHTTP(self.i.sock, 20)
        conn.request("POST", f"/v1/sandboxes/{parent}/merge",
                     b'{"from": "%s"}' % child.encode())
        conn.close()
        self.sh(parent, "true")
        snaps = f"{self.i.pool()}/snap"

        def few():
            return len(os.listdir(snaps)) <= 1  # where the fork began
        harness.wait_for("its snapshots to go", few, 30)
        self.merge(child, parent, prefer="theirs")


class Cli(Case):
    def test_merge(self):
        parent = self.box(BASE, name="work")
        self.fork(parent, "echo 2 > src/a; rm src/b; echo 1 > n; echo t > mode",
                  name="try")
        # A fork alone is compared with where it began.
        p = self.i.cli("diff", "try", check=1)
        self.assertEqual(p.out, "M /home/user/mode\nA /home/user/n\n"
                                "M /home/user/src/a\nD /home/user/src/b\n")
        p = self.i.cli("merge", "try", "work", "--dry-run",
                       "--path", "/home/user/src", check=0)
        self.assertEqual(p.out, "M /home/user/src/a\nD /home/user/src/b\n"
                                "1 would be taken over, 1 would be removed\n")
        p = self.i.cli("merge", "try", "work", "--path", "/home/user/src",
                       check=0)
        self.assertIn("1 taken over, 1 removed; it stood still for", p.out)
        self.sh(parent, "echo o > mode")
        p = self.i.cli("merge", "try", "work", check=1)
        self.assertIn("C /home/user/mode\n", p.out)
        self.assertIn("nothing was merged", p.err)
        p = self.i.cli("merge", "try", "work", "--theirs", "--json", check=0)
        self.assertIn('"pause_ms"', p.out)
        self.assertEqual(self.sh(parent, "cat mode n"), "t\n1\n")
        self.i.cli("merge", "try", check=2)
        self.i.cli("merge", "--ours", "--theirs", "a", "b", check=2)
        self.i.cli("merge", "nothing", "work", check=1)


if __name__ == "__main__":
    harness.main()
