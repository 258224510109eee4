"""carrel image build FILE: steps in a sandbox, each done once, and nothing left
behind however it ends. The same images as archives of others."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import unittest

import harness
import test_oci
import tar_corpus as tc


class Build(harness.Case):
    def setUp(self):
        self.top = tempfile.mkdtemp(prefix="build-")
        self.addCleanup(shutil.rmtree, self.top)

    def put(self, name, text, mode=0o644):
        path = os.path.join(self.top, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as f:
            f.write(text)
        os.chmod(path, mode)
        return path

    def build(self, text, *args, name="made", check=True):
        path = self.put("made.build", text)
        p = self.i.cli("image", "build", path, "--name", name, *args)
        if check:
            self.assertEqual(p.returncode, 0, p.err)
        self.assertEqual(self.i.ids(), [])
        return p

    def inside(self, image, command):
        p = self.i.cli("run", "--image", image, "--", "sh", "-c", command)
        self.assertEqual(p.returncode, 0, p.err)
        return p.out

    def test_steps(self):
        self.put("src/a", "from a\n")
        self.put("src/deep/b", "from b\n", 0o755)
        self.put("one", "single\n")
        text = """# a comment

from tiny
env GREETING=hello there
workdir /work/here
run echo "$GREETING" >said; id -u >who; pwd >where
copy src /data
copy one sub/
copy one /renamed
user user
run id -u >/tmp/who2; echo a \\
    b >/tmp/joined
start echo started >/home/user/started
"""
        p = self.build(text)
        self.assertIn("image made:", p.out)
        self.assertIn("step 4/10: run echo", p.err)
        self.assertNotIn("as before", p.err)
        out = self.inside("made", "cd /work/here; cat said who where /data/a; "
                          "/bin/ls -l /data/deep/b; cat sub/one /renamed /tmp/who2 "
                          "/tmp/joined; echo $GREETING; pwd")
        lines = out.splitlines()
        self.assertEqual(lines[:4], ["hello there", "0", "/work/here", "from a"])
        self.assertTrue(lines[4].startswith("-rwxr-xr-x"), lines)
        self.assertEqual(lines[5:], ["single", "single", "1000", "a b",
                                     "hello there", "/work/here"])
        config = self.i.api("GET", "/v1/images/made").json["config"]
        self.assertEqual(config["User"], "user")
        self.assertEqual(config["Cmd"], ["/bin/sh", "-c",
                                         "echo started >/home/user/started"])
        self.assertIn("GREETING=hello there", config["Env"])
        self.i.cli("create", "--image", "made", "--name", "started", check=0)
        harness.wait_for("the start command", lambda: self.i.sh(
            "started", "cat /home/user/started").out == "started\n")
        self.i.rm("started")
        self.assertNotIn("step:", self.i.cli("image", "ls").out)
        self.assertIn("step:", self.i.cli("image", "ls", "--all").out)
        # Again: nothing is done, and the image is the same.
        p = self.build(text)
        self.assertEqual(p.err.count("(as before)"), 6)
        # A file that changed: what follows its step is done again.
        self.put("src/a", "changed\n")
        p = self.build(text)
        self.assertEqual(p.err.count("(as before)"), 2)
        self.assertEqual(self.inside("made", "cat /data/a"), "changed\n")
        p = self.build(text, "--no-cache", "--json")
        self.assertNotIn("as before", p.err)
        self.assertEqual(json.loads(p.out)["name"], "made")

    def test_a_variable_is_part_of_what_follows(self):
        text = "from tiny\nenv A={}\nrun echo $A >/a\n"
        for value in ("1", "2", "1"):
            self.build(text.format(value), name="var")
            self.assertEqual(self.inside("var", "cat /a"), value + "\n")

    def test_failures_name_the_line(self):
        for text, why in (
                ("run x\n", ":1: the first step is: from IMAGE"),
                ("from tiny\n\nfrom tiny\n", ":3: there is one from"),
                ("from nothing-like-it\n", ":1: there is no image"),
                ("from tiny\njump\n", ":2: a step starts with"),
                ("from tiny\nrun\n", ":2: something is missing"),
                ("from tiny\ncopy a\n", ":2: copy takes"),
                ("from tiny\ncopy ../../etc/passwd /x\n", ":2: what is copied"),
                ("from tiny\ncopy not-there /x\n", ":2: "),
                ("from tiny\nenv 1=2\n", ":2: env takes"),
                ("from tiny\nworkdir x\n", ":2: workdir takes"),
                ("from tiny\nrun true\nrun echo no; exit 7\n",
                 ":3: run failed with exit code 7"),
                ("from tiny\nuser nobody-like-it\nrun true\n", ":3: run failed"),
                ("", "no steps in it"),
                ("from tiny\0", "not a text file")):
            p = self.build(text, name="bad", check=False)
            self.assertEqual(p.returncode, 1, text)
            self.assertIn(why, p.err, text)
        self.assertEqual(self.i.api("GET", "/v1/images/bad").status, 404)
        p = self.i.cli("image", "build", "no-such-recipe")
        self.assertEqual(p.returncode, 1)
        self.assertIn("no-such-recipe", p.err)

    def test_interrupted(self):
        path = self.put("long.build", "from tiny\nrun echo ready; sleep 600\n")
        for number in (signal.SIGINT, signal.SIGTERM):
            p = self.i.popen("image", "build", path, stdout=subprocess.DEVNULL,
                             stderr=subprocess.PIPE, text=True)
            # Either before the command has started, or when it runs.
            word = "step 2" if number == signal.SIGTERM else "ready\n"
            while not p.stderr.readline().startswith(word):
                self.assertIsNone(p.poll())
            p.send_signal(number)
            err = p.communicate(timeout=30)[1]
            self.assertEqual(p.returncode, 128 + number, err)
            self.assertEqual(self.i.ids(), [])
        self.assertEqual(self.i.api("GET", "/v1/images/long").status, 404)

    def test_archives_of_others(self):
        with open(harness.tiny_image(), "rb") as f:
            tiny = f.read()
        image = test_oci.Image(tiny, test_oci.layer(
            tc.file(b"etc/mark", b"second\n"), tc.file(b"etc/.wh.hosts", b"")),
            run={"Env": ["FROM=archive"], "WorkingDir": "/etc"})
        for name, data in (("oci-in", image.oci()), ("docker-in", image.docker())):
            with open(os.path.join(self.top, name + ".tar"), "wb") as f:
                f.write(data)
            p = self.i.cli("image", "import", os.path.join(self.top, name + ".tar"))
            self.assertEqual(p.returncode, 0, p.err)
            self.assertEqual(self.inside(name, "cat mark; echo $FROM"),
                             "second\narchive\n")
        image.config["architecture"] = "mips"
        r = self.i.api("PUT", "/v1/images/alien", image.oci())
        self.assertEqual(r.status, 422)
        self.assertIn("linux/mips", r.json["message"])


if __name__ == "__main__":
    harness.main()
