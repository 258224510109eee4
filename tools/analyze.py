#!/usr/bin/python3
"""Compares what analyzers found with what is known, and why it is none.

	tools/analyze.py DIR KNOWN

DIR has X.gcc (what gcc -fanalyzer printed) and X.plist (clang) for each source
file X.c. A line of KNOWN is "FILE FUNCTION CHECK  why it is none": no numbers
of lines, which move. A finding that is not there fails, and so does a line
whose finding is gone.
"""

import os
import plistlib
import re
import sys


def of_gcc(path):
    function = "-"
    with open(path, errors="replace") as f:
        for line in f:
            m = re.match(r"\S+: In function ['‘](\w+)['’]:", line)
            if m:
                function = m[1]
            m = re.match(r"([^\s:]+):(\d+):\d+: warning: (.*) \[-W(analyzer-\S+)\]",
                         line)
            if m:
                yield (os.path.relpath(m[1]), function, m[4]), m[2], m[3]


def of_clang(path):
    with open(path, "rb") as f:
        p = plistlib.load(f)
    for d in p["diagnostics"]:
        at = d["location"]
        name = os.path.relpath(p["files"][at["file"]])
        yield ((name, d.get("issue_context", "-"), d["check_name"]),
               at["line"], d["description"])


def read_known(path):
    known = {}
    with open(path) as f:
        for i, line in enumerate(f, 1):
            if not line.strip() or line.startswith("#"):
                continue
            words = line.split(None, 3)
            if len(words) < 4:
                sys.exit(f"{path}:{i}: a finding, and why it is none")
            known[tuple(words[:3])] = i
    return known


def main():
    top, known_path = sys.argv[1:]
    known, seen, bad = read_known(known_path), set(), []
    for base, _, names in sorted(os.walk(top)):
        for name in sorted(names):
            path = os.path.join(base, name)
            source = os.path.relpath(os.path.splitext(path)[0] + ".c", top)
            read = {".gcc": of_gcc, ".plist": of_clang}.get(os.path.splitext(name)[1])
            if not read or not os.path.exists(source):
                continue
            for key, line, text in read(path):
                if key not in known and key not in seen:
                    bad.append(f"{key[0]}:{line}: {text}\n\t{' '.join(key)}")
                seen.add(key)
    bad += [f"{known_path}:{known[k]}: nothing finds this any more: {' '.join(k)}"
            for k in known if k not in seen]
    print("\n".join(bad))
    if bad:
        sys.exit(f"analyze: {len(bad)} to look at")
    print(f"analyze: {len(seen)} findings, all known")


if __name__ == "__main__":
    main()
