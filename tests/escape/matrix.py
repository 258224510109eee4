#!/usr/bin/python3
"""What breaks without each wall and each guard: the record of it (matrix.txt),
and the tables of docs/security.md that are made of it.

	matrix.py		prints the tables
	matrix.py --write	puts them into docs/security.md

`make escape-mutations` compares a run with the record; with RECORD=1 it is
written anew. A line: "wall seccomp user A1 A2~", "guard policy - G9 H2"; "~": it was
seen to be missing, and something else refused the attack.
"""

import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
RECORD = os.path.join(HERE, "matrix.txt")
DOC = os.path.join(TOP, "docs/security.md")
SOURCES = {"wall": "src/sandbox/walls.h", "guard": "src/base/guards.h"}

# Rows that hold without any single wall or guard, and why.
HELD_BY_OTHERS = {
    "A10": "directory 0700, pool mounted nosuid, nodev: looked at on the host",
    "B8": "the root was entered by `pivot_root`; breaks on the host",
    "B11": "no sysfs is ever mounted; breaks on the host",
    "B17": "the kernel: hard links do not cross mounts",
    "B20": "the kernel",
    "C2": "the devices hierarchy is not in the view",
    "C5": "`cgroup.kill` and the end of PID 1: looked at on the host",
    "D23": "the kernel limits its log: looked at on the host",
    "F4": "RLIMIT_NOFILE, which nobody inside may raise",
    "F6": "an instance of devpts with 64 terminals",
    "F7": "limits of the kernel by user, and users are a sandbox's own",
    "F11": "the kernel: none of it without a capability of the host",
    "F18": "the agent takes away the dead",
    "G12": "the warden connects inside the sandbox's own network",
    "H34": "the key is in the keeper's vault, inside is the certificate alone",
    "I1": "no program inside is ever given a secret",
    "I2": "no program inside is ever given a secret",
    "I3": "values are sealed for the door before they are sent to the API",
    "I4": "the log's entries have no query, no fields and no bodies",
    "I9": "of a key only its hash is kept",
    "I11": "the door's connections are in the host's network",
    "J3": "130 random bits",
    "J22": "directories of the state are 0700",
}


def sort_key(row):
    return row[0], int(row[1:].rstrip("~"))


def names(kind):
    """{name: what it is}, in their order."""
    with open(os.path.join(TOP, SOURCES[kind])) as f:
        return dict(re.findall(r'X\(\w+, "(\w+)"\) +/\* (.*?) \*/', f.read()))


def load():
    """{(kind, name, who): rows}, with their marks"""
    found = {}
    with open(RECORD) as f:
        for line in f:
            if not line.startswith("#"):
                kind, name, who, *rows = line.split()
                found[kind, name, who] = rows
    return found


def record(kind, name, who, rows):
    """Notes what broke, where a record is being made."""
    if "RECORD" not in os.environ:
        return
    found = load() if os.path.exists(RECORD) else {}
    found[kind, name, who] = sorted(rows, key=sort_key)
    with open(RECORD + ".new", "w") as f:
        f.write("# What breaks without it. Made by: "
                "make escape-mutations RECORD=1\n")
        for k in ("wall", "guard"):
            for n in names(k):
                for w in ("user", "root", "-"):
                    if (k, n, w) in found:
                        f.write(" ".join((k, n, w, *found[k, n, w])) + "\n")
    os.rename(RECORD + ".new", RECORD)


def plain(rows):
    return {row.rstrip("~") for row in rows}


def behind(found):
    """{row: {wall or guard whose absence it notices: does an attack work?}}"""
    out = {}
    for (_, name, _), rows in found.items():
        for row in rows:
            seen = out.setdefault(row.rstrip("~"), {})
            seen[name] = seen.get(name, False) or not row.endswith("~")
    return out


def shown(rows):
    """Of a table: what works is in bold."""
    return " ".join(r[:-1] if r.endswith("~") else f"**{r}**" for r in rows) \
        or "-"


def titles():
    """{row: what the attack is}, of rows.txt"""
    with open(os.path.join(HERE, "rows.txt")) as f:
        return dict(re.findall(r"^([A-L]\d+) (.+)$", f.read(), re.M))


def tables():
    """{name: the lines of a table}"""
    found = load()
    walls = ["| without | broken as the user | broken by sudo |", "|---|---|---|"]
    for name in names("wall"):
        sides = [shown(found.get(("wall", name, who), ()))
                 for who in ("user", "root")]
        if sides[0] == sides[1]:
            sides[1] = "the same"
        walls.append(f"| `{name}` | {sides[0]} | {sides[1]} |")
    guards = ["| without | which says that | broken |", "|---|---|---|"]
    for name, what in names("guard").items():
        guards.append(f"| `{name}` | {what} | "
                      f"{' '.join(found.get(('guard', name, '-'), ()))} |")
    rows = ["| row | attack | held by | n |", "|---|---|---|---|"]
    title, by = titles(), behind(found)
    for row in sorted({*by, *HELD_BY_OTHERS}, key=sort_key):
        held = " ".join(f"**`{n}`**" if works else f"`{n}`"
                        for n, works in by.get(row, {}).items())
        held = held or HELD_BY_OTHERS[row]
        rows.append(f"| {row} | {title[row]} | {held} | "
                    f"{len(by.get(row, ())) or '-'} |")
    return {"walls": walls, "guards": guards, "rows": rows}


def written(text):
    """The document with the tables of now."""
    for name, lines in tables().items():
        mark = re.compile(rf"(<!-- matrix: {name} -->\n).*?(<!-- end -->)", re.S)
        assert len(mark.findall(text)) == 1, name
        new = "\n".join(lines) + "\n"
        text = mark.sub(lambda m: m[1] + new + m[2], text)
    return text


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        with open(DOC) as f:
            was = f.read()
        with open(DOC, "w") as f:
            f.write(written(was))
    else:
        for n, t in tables().items():
            print(f"\n## {n}\n")
            print("\n".join(t))
