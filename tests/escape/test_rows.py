"""The catalogue of attacks is complete: every id is tested or argued (rows.txt),
every test that is named is there, every row can break (matrix.txt), and what
docs/security.md shows is the record. Takes no sandbox."""

import glob
import importlib
import os
import re
import subprocess
import unittest

import attack
import doors
import harness
import matrix

HERE = os.path.dirname(os.path.abspath(__file__))


def catalogue():
    ids = []
    for line in harness.read(f"{HERE}/catalogue.txt").splitlines():
        if not line.startswith("#"):
            group, *numbers = line.split()
            ids += [group + n for n in numbers]
    return ids


def rows():
    """{id: [tests, or "- why there is none"]}"""
    found = {}
    for line in harness.read(f"{HERE}/rows.txt").splitlines():
        if line.startswith("\t"):
            found[at].append(line.strip())
        elif line and not line.startswith("#"):
            at = line.split(" ", 1)[0]
            assert at not in found, f"{at} twice"
            found[at] = []
    return found


class Catalogue(unittest.TestCase):
    maxDiff = None

    def test_every_id_is_tested_or_argued(self):
        self.assertEqual(catalogue(), list(rows()))
        for row, tests in rows().items():
            self.assertTrue(tests, f"{row} has neither a test nor a reason")
            for t in tests:
                if t.startswith("-"):
                    self.assertGreater(len(t), 30, f"{row}: a reason")

    def test_named_tests_are_there(self):
        for row, tests in rows().items():
            for t in tests:
                if not t.startswith("-"):
                    with self.subTest(row=row, test=t):
                        self.exists(*t.split())

    def exists(self, path, name=None):
        self.assertTrue(os.path.exists(f"{HERE}/../{path}"), path)
        if name is None:
            # Whole programs: of C only.
            self.assertRegex(path, r"^(unit|fuzz)/\w+\.c$")
            return
        module = importlib.import_module(os.path.basename(path)[:-3])
        self.assertTrue(module.__file__.endswith(path), module.__file__)
        cls, test = name.split(".")
        self.assertTrue(callable(getattr(getattr(module, cls), test)))

    def test_rows_of_programs_are_in_it(self):
        known = rows()
        for row in attack.rows():
            self.assertIn(row, known)
        for row in doors.ROWS:
            self.assertIn(f"escape/test_doors.py Doors.test_row_{row}",
                          known[row])


class Record(unittest.TestCase):
    """matrix.txt is about what there is now."""
    maxDiff = None

    def test_every_wall_and_guard_is_in_it(self):
        found = matrix.load()
        for kind, sides in (("wall", ("user", "root")), ("guard", ("-",))):
            for name in matrix.names(kind):
                for who in sides:
                    self.assertIn((kind, name, who), found)
                self.assertTrue(any(found[kind, name, w] for w in sides),
                                f"nobody notices that {name} is away")
        for kind, name, _ in found:
            self.assertIn(name, matrix.names(kind))

    def test_every_row_breaks_or_is_argued(self):
        by = matrix.behind(matrix.load())
        tried = {r for r, (_, in_all) in attack.rows().items() if in_all}
        tried |= set(doors.ROWS) | {"F1", "F2", "F9", "F24", "F25", "E17"}
        self.assertEqual(tried - set(by), set(matrix.HELD_BY_OTHERS))

    def test_document_is_up_to_date(self):
        text = harness.read(matrix.DOC)
        self.assertEqual(text, matrix.written(text),
                         "tests/escape/matrix.py --write")


class Normal(unittest.TestCase):
    """What is installed cannot be told to leave anything out."""
    WORDS = (b"wall_off", b"guard_off", b"no wall is called",
             b"no guard is called")

    def words_in(self, build):
        found = {w: [] for w in self.WORDS}
        for path in glob.glob(f"{harness.TOP}/{build}/bin/*"):
            with open(path, "rb") as f:
                data = f.read()
            for w in self.WORDS:
                if w in data:
                    found[w].append(os.path.basename(path))
        return found

    def test_no_trace_in_a_normal_build(self):
        self.assertEqual(self.words_in("build"), {w: [] for w in self.WORDS})

    def test_they_would_be_found(self):
        for word, programs in self.words_in("build-walls").items():
            self.assertIn("carrel-warden", programs, word)


class Linkage(unittest.TestCase):
    def test_no_parser_in_the_root_process(self):
        """K12: the warden has libc and nothing else; the table says so."""
        p = subprocess.run([f"{harness.TOP}/tools/binaries.sh",
                            f"{harness.TOP}/build/bin"], capture_output=True,
                           text=True)
        self.assertEqual((p.returncode, p.stdout), (0, ""))
        table = harness.read(f"{harness.TOP}/tools/binaries.sh")
        self.assertTrue(re.search(r"^check carrel-warden$", table, re.M))


if __name__ == "__main__":
    harness.main()
