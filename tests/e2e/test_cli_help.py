"""What is made from the tables of the command line: help, man pages, and
completion in shells."""

import glob
import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest

import harness
from fake import CLI, Server


def carrel(*args, **kw):
    return subprocess.run([CLI, *args], capture_output=True, text=True, **kw)


def pages():
    return [line.split() for line in
            carrel("help", "--pages").stdout.splitlines()]


class Help(unittest.TestCase):
    def test_of_every_verb(self):
        self.assertIn(["image", "import"], pages())
        for verb in pages():
            for argv in ([*verb, "--help"], ["help", *verb]):
                p = carrel(*argv)
                self.assertEqual((p.returncode, p.stderr), (0, ""), argv)
                self.assertTrue(p.stdout.startswith(
                    "Usage: carrel " + " ".join(verb)), p.stdout)

    def test_fits_a_terminal(self):
        for verb in pages():
            for line in carrel(*verb, "--help").stdout.splitlines():
                self.assertLessEqual(len(line), 100, line)

    def test_groups(self):
        p = carrel("image", "--help")
        self.assertEqual(p.returncode, 0)
        self.assertIn("  import ", p.stdout)
        p = carrel("key")
        self.assertEqual((p.returncode, p.stdout), (2, ""))
        self.assertEqual(p.stderr, "carrel: key: create, ls or rm?\n")

    def test_hidden_options_are_hidden(self):
        self.assertNotIn("--pages", carrel("help", "--help").stdout)
        self.assertNotIn("--words", carrel("completion", "--help").stdout)


class Man(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="carrel-man-")
        self.addCleanup(shutil.rmtree, self.dir)
        subprocess.run([os.path.join(harness.TOP, "tools/man.sh"), CLI,
                        self.dir + "/man"], check=True)

    def test_a_page_for_every_verb(self):
        names = {os.path.basename(p) for p in
                 glob.glob(self.dir + "/man/*.1")}
        self.assertEqual(names, {"carrel.1"} | {
            f"carrel-{'-'.join(v)}.1" for v in pages()})

    @unittest.skipUnless(shutil.which("mandoc"), "mandoc is not installed")
    def test_no_warnings(self):
        found = sorted(glob.glob(self.dir + "/man/*.1"))
        p = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", *found],
                           capture_output=True, text=True)
        # Reproducible: a page has no date.
        lines = [x for x in p.stdout.splitlines() if "missing date" not in x]
        self.assertEqual(lines, [])

    def test_installed_and_removed(self):
        env = {**os.environ, "DESTDIR": self.dir + "/root",
               "PREFIX": "/usr/local", "BUILD": self.dir + "/build"}
        os.makedirs(self.dir + "/build")
        os.symlink(os.path.join(harness.BUILD, "bin"), self.dir + "/build/bin")
        os.symlink(self.dir + "/man", self.dir + "/build/man")

        def files():
            return {os.path.relpath(os.path.join(d, f), self.dir + "/root")
                    for d, _, fs in os.walk(self.dir + "/root") for f in fs}
        for script in ("install", "uninstall"):
            subprocess.run([os.path.join(harness.TOP,
                                         f"packaging/{script}.sh")],
                           env={**env, "PURGE": "1"}, check=True,
                           stdout=subprocess.DEVNULL)
            if script == "install":
                for name in ("share/man/man1/carrel.1",
                             "share/man/man1/carrel-image-import.1",
                             "share/zsh/site-functions/_carrel",
                             "share/bash-completion/completions/carrel"):
                    self.assertIn("usr/local/" + name, files())
        self.assertEqual(files(), set())


class Completion(unittest.TestCase):
    BOXES = [{"id": "i" + "a" * 26, "name": "work"},
             {"id": "i" + "b" * 26, "name": None},
             {"id": "i" + "c" * 26, "name": "$(touch /tmp/pwned)"}]

    def script(self, peer, req):
        key = req.target.rsplit("/")[-1].partition("?")[0]
        rows = {"sandboxes": self.BOXES, "images": [{"name": "debian"}],
                "processes": [{"number": 3, "argv": ["sh\x1b", "-c"]}]}[key]
        peer.answer(200, json.dumps({key: rows}).encode())

    def words(self, *typed):
        """What is offered for the last of `typed`."""
        with Server(self.script) as s:
            code, out, err = s.cli("completion", "--words", "--", *typed)
        self.assertEqual((code, err), (0, ""))
        return [x.split("\t")[0] for x in out.decode().splitlines()]

    def test_verbs(self):
        self.assertIn("exec", self.words(""))
        self.assertIn("exec", self.words("--socket", "/x", ""))
        self.assertEqual(self.words("--so"), ["--config", "--socket", "--version",
                                              "--help"])
        self.assertEqual(self.words("key", ""), ["create", "ls", "rm"])
        self.assertIn("exec", self.words("help", ""))

    def test_options(self):
        self.assertIn("--memory", self.words("run", "--me"))
        self.assertIn("--json", self.words("image", "ls", "-"))
        self.assertNotIn("--words", self.words("completion", "-"))

    def test_operands(self):
        boxes = ["work", "i" + "b" * 26]
        self.assertEqual(self.words("exec", ""), boxes)
        self.assertEqual(self.words("exec", "-t", "--user", "root", ""), boxes)
        self.assertEqual(self.words("exec", "work", ""), [])
        self.assertEqual(self.words("rm", "a", "b", ""), boxes)
        self.assertEqual(self.words("attach", "work", ""), ["3"])
        self.assertEqual(self.words("image", "rm", ""), ["debian"])
        self.assertEqual(self.words("image", "import", ""), [":files"])
        self.assertEqual(self.words("completion", ""), ["bash", "zsh"])

    def test_values_of_options(self):
        self.assertEqual(self.words("run", "--image", ""), ["debian"])
        self.assertEqual(self.words("run", "--memory", ""), [])

    def test_nobody_answers(self):
        """Quiet and at once, whatever the daemon does."""
        def silent(peer, req):
            peer.ended()
        with Server(silent) as s:
            self.assertEqual(s.cli("completion", "--words", "--", "exec", ""),
                             (0, b"", ""))
        p = carrel("--socket", "/nowhere", "completion", "--words", "--",
                   "exec", "")
        self.assertEqual((p.returncode, p.stdout, p.stderr), (0, "", ""))

    def in_bash(self, typed):
        with Server(self.script) as s:
            script = (f'source <("{CLI}" completion bash); '
                      f'COMP_WORDS=({typed}); '
                      'COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _carrel; '
                      'printf "%s\\n" "${COMPREPLY[@]}"')
            p = subprocess.run(["bash", "-c", script], env=s.env(),
                               capture_output=True, text=True)
        self.assertEqual(p.stderr, "")
        return sorted(p.stdout.split())

    def test_bash(self):
        self.assertEqual(self.in_bash(f"{CLI} in"), ["inspect"])
        self.assertEqual(self.in_bash(f"{CLI} rm w"), ["work"])
        self.assertEqual(self.in_bash(f"{CLI} image import /etc/passw"),
                         sorted(glob.glob("/etc/passw*")))

    @unittest.skipUnless(shutil.which("zsh"), "zsh is not installed")
    def test_zsh_understands_the_script(self):
        script = carrel("completion", "zsh").stdout
        self.assertTrue(script.startswith("#compdef carrel\n"))
        subprocess.run(["zsh", "-n"], input=script, text=True, check=True)
        # The lines as _describe gets them.
        with Server(self.script) as s:
            p = subprocess.run(
                ["zsh", "-fc", f"compdef() {{ : }}; _files() {{ echo files }};"
                 "_describe() { print -l -- ${(P)4} };"
                 f"{script}\nwords=({CLI} image l); CURRENT=3; _carrel"],
                env=s.env(), capture_output=True, text=True)
        self.assertRegex(p.stdout, r"(?m)^ls:list the images$", p.stderr)


if __name__ == "__main__":
    harness.main()
