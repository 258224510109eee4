"""The documents: links lead somewhere, and the tests that they speak of exist."""

import functools
import glob
import os
import re
import unittest

import harness
from harness import TOP

DOCS = ["README.md", *sorted(os.path.relpath(p, TOP)
                             for p in glob.glob(f"{TOP}/docs/*.md"))]


@functools.cache
def text(path):
    return harness.read(os.path.join(TOP, path))


@functools.cache
def anchors(path):
    """As they are made of headings: small, without signs, dashes for spaces."""
    heads = re.findall(r"^#+ (.*)$", text(path), re.M)
    return {re.sub(r"[^\w -]", "", h.lower()).replace(" ", "-") for h in heads}


def column(title, which):
    """Cells of the last column of the first table below a heading."""
    part = text("docs/security.md").partition(f"\n## {title}\n")[2]
    part = part.partition("\n## ")[0]
    rows = re.findall(r"^\|(.*)\|$", part, re.M)
    head = [c.strip() for c in rows[0].split("|")]
    at = head.index(which)
    return [r.split("|")[at] for r in rows[2:] if r.count("|") == len(head) - 1]


def exists(name):
    """A test, called by its name or its path."""
    places = (name, f"tests/e2e/test_{name}.py", f"tests/escape/test_{name}.py",
              f"tests/escape/{name}", f"tests/unit/{name}.c",
              f"src/*/{name}")  # "unit and fuzz of hello.c"
    return any(glob.glob(os.path.join(TOP, p)) for p in places)


class Docs(unittest.TestCase):
    def test_links(self):
        wrong = []
        for doc in DOCS:
            for to in re.findall(r"\]\(([^)\s]+)\)", text(doc)):
                if re.match(r"\w+:", to):
                    continue
                path, _, anchor = to.partition("#")
                path = os.path.normpath(os.path.join(os.path.dirname(doc), path)) \
                    if path else doc
                if not os.path.exists(os.path.join(TOP, path)):
                    wrong.append(f"{doc}: no {to}")
                elif anchor and anchor not in anchors(path):
                    wrong.append(f"{doc}: no heading for {to}")
        self.assertEqual(wrong, [])

    def test_tests_of_the_security_page_exist(self):
        names = []
        for title in ("The door", "Where each claim is tested"):
            for cell in column(title, "test"):
                names += re.findall(r"`([^`]+)`", cell)
        names = [n for n in names if not n.startswith("make ")]
        self.assertGreater(len(names), 60)
        self.assertEqual([n for n in names if not exists(n)], [])

    def test_make_targets_exist(self):
        """Those that documents tell people to call."""
        targets = set(re.findall(r"^([a-z-]+):", text("Makefile"), re.M))
        for doc in DOCS:
            said = set(re.findall(r"`(?:sudo )?make ([a-z-]+)[` ]", text(doc)))
            self.assertEqual(said - targets, set(), doc)


if __name__ == "__main__":
    harness.main()
