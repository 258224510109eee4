"""The suite itself: what tests/run and .ci/run say, and what a test class that
fails leaves behind."""

import importlib.machinery
import importlib.util
import os
import shutil
import subprocess
import tempfile
import unittest
from unittest import mock

import harness


def runner(path="tests/run"):
    """A script as a module."""
    loader = importlib.machinery.SourceFileLoader(
        "suite", os.path.join(harness.TOP, path))
    module = importlib.util.module_from_spec(
        importlib.util.spec_from_loader("suite", loader))
    loader.exec_module(module)
    return module


class Verdict(unittest.TestCase):
    PASSED = ["a: One.test (0.1 s)", "a: Two.test (0.3 s)"]
    UNSTEADY = ["a: Two.test (9.0 s)", "b: no end after 300 s"]

    def verdict(self, ci, *args):
        with mock.patch.dict(os.environ, {"CI": ci}):
            return runner().verdict(*args)

    def test_unsteady_test_fails_in_ci(self):
        self.assertEqual(self.verdict("true", self.PASSED, [], [], self.UNSTEADY),
                         ("1 passed, 2 failed, 2 unsteady", False))
        self.assertEqual(self.verdict("true", self.PASSED, [], ["x"], []),
                         ("2 passed, 0 failed, 1 skipped", True))

    def test_unsteady_test_passes_elsewhere(self):
        self.assertEqual(self.verdict("", self.PASSED, [], [], self.UNSTEADY),
                         ("2 passed, 0 failed", True))
        self.assertEqual(self.verdict("", self.PASSED, ["c"], [], []),
                         ("2 passed, 1 failed", False))
        self.assertEqual(self.verdict("", [], [], [], []),
                         ("0 passed, 1 failed", False))


class Mutations(unittest.TestCase):
    """tests/mutations/run: which rows it takes."""

    def setUp(self):
        self.m = runner("tests/mutations/run")
        self.dir = tempfile.mkdtemp(prefix="carrel-mutations-test-")
        self.addCleanup(shutil.rmtree, self.dir)
        self.write("f.c", "one\ntwo two\n\tthree\n")

    def write(self, name, text):
        path = os.path.join(self.dir, name)
        with open(path, "w") as f:
            f.write(text)
        return path

    def mutant(self, text):
        row, = self.m.load(self.write("table", f"name f.c unit/x\n{text}"))
        return row.mutant(self.dir)

    def test_text_is_replaced(self):
        self.assertEqual(self.mutant("-one\n+1\n"), "1\ntwo two\n\tthree\n")
        self.assertEqual(self.mutant("-two two\n-\tthree\n+2\n"), "one\n2\n")
        self.assertEqual(self.mutant("-\tthree\n"), "one\ntwo two\n\n")

    def test_rows_that_do_not_apply_are_refused(self):
        for text in ("-four\n+4\n", "-two\n+2\n", "-one\n+one\n", "+1\n"):
            with self.assertRaises(self.m.Bad, msg=text):
                self.mutant(text)

    def test_malformed_tables_are_refused(self):
        for text in ("-one\n", "name f.c\n-one\n", "a f.c u\n-x\na f.c u\n-y\n"):
            with self.assertRaises(self.m.Bad, msg=text):
                self.m.load(self.write("table", text))


class SetUp(unittest.TestCase):
    def test_failed_set_up_leaves_no_daemon(self):
        seen = []

        class Broken(harness.Case):
            IMAGE = None

            @classmethod
            def setUpClass(cls):
                super().setUpClass()
                seen.append(cls.i)
                raise RuntimeError("this set-up fails")

            def test(self):
                pass
        result = unittest.TestResult()
        unittest.TestSuite([Broken("test")]).run(result)
        self.assertEqual(1, len(result.errors), result)
        i, = seen
        self.addCleanup(i.discard)
        self.assertEqual({}, i.pids())
        self.assertFalse(os.path.exists(i.dir))


class Ci(unittest.TestCase):
    """.ci/run with a `make` that only notes its words."""
    MAKE = """#!/bin/sh
echo "$*" >> calls
case $1 in
up) mkdir -p "$FAKE_ETC/carrel" ;;
uninstall) rm -rf "$FAKE_ETC/carrel" ;;
test) mkdir -p build/test-logs; echo "7 passed, 1 failed" > build/test-logs/result ;;
esac
echo "make's own words"
case $FAILS in *"$1"*) exit 2 ;; esac
"""

    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="ci")
        self.addCleanup(shutil.rmtree, self.dir)
        os.makedirs(f"{self.dir}/.ci")
        os.makedirs(f"{self.dir}/bin")
        script = harness.read(os.path.join(harness.TOP, ".ci/run"))
        # Where nothing is installed, whatever the host has.
        for path in ("/etc", "/usr/local", "/var/lib"):
            script = script.replace(f"{path}/", f"{self.dir}{path}/")
        self.write(".ci/run", script)
        self.write("bin/make", self.MAKE)

    def write(self, name, text):
        with open(f"{self.dir}/{name}", "w") as f:
            f.write(text)
        os.chmod(f"{self.dir}/{name}", 0o755)

    def ci(self, fails=""):
        """(exit code, last line, the calls of make)"""
        p = subprocess.run([f"{self.dir}/.ci/run"], capture_output=True, text=True,
                           env={"PATH": f"{self.dir}/bin:/usr/bin:/bin",
                                "FAILS": fails, "FAKE_ETC": f"{self.dir}/etc"})
        return (p.returncode, p.stdout.splitlines()[-1],
                harness.read(f"{self.dir}/calls").splitlines())

    def test_order_and_last_line(self):
        calls = ["up", "lint", "test", "uninstall PURGE=1"]
        self.assertEqual(self.ci(), (0, "7 passed, 1 failed", calls))

    def test_exit_code_is_that_of_the_tests(self):
        self.assertEqual(self.ci("test")[:2], (2, "7 passed, 1 failed"))

    def test_failed_up_is_removed(self):
        code, _, calls = self.ci("up")
        self.assertEqual((code, calls), (2, ["up", "uninstall PURGE=1"]))

    def test_failed_uninstall_fails(self):
        self.assertEqual(self.ci("uninstall")[:2], (1, "7 passed, 1 failed"))

    def test_installed_instance_stays(self):
        os.makedirs(f"{self.dir}/etc/carrel")
        self.assertEqual(self.ci(), (0, "7 passed, 1 failed", ["lint", "test"]))
        self.assertTrue(os.path.exists(f"{self.dir}/etc/carrel"))


if __name__ == "__main__":
    harness.main()
