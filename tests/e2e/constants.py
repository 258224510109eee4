"""Numbers of the product, read from where it defines them.

	src/http/parse.h:HTTP_HEAD_MAX	a constant of a file (enum, #define)
	src/x/confine.c:RLIMIT_AS	the value that a limit of the kernel is given
	src/x/view.c:"max"		an option of a mount
	conf:memory			the default of a key of the configuration
	spec:memory, spec:memory:min	what a field of a spec may be

Times are in milliseconds, sizes in bytes.
"""

import functools
import glob
import os
import re

from harness import TOP, read

SIZES = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "": 1}
TIMES = {"ms": 1, "s": 1000, "m": 60000, "h": 3600000, "d": 86400000, "": 1000}


@functools.cache
def source(path):
    """A file without its comments."""
    text = read(os.path.join(TOP, path))
    return re.sub(r"/\*.*?\*/", " ", text, flags=re.S)


@functools.cache
def everything():
    """{name: (file, expression)} of all constants; the last one counts."""
    found = {}
    for path in sorted(glob.glob(f"{TOP}/src/**/*.h", recursive=True)):
        path = os.path.relpath(path, TOP)
        found.update({n: (path, e) for n, e in constants(path).items()})
    return found


@functools.cache
def constants(path):
    """{name: expression} of one file."""
    text = source(path)
    found = dict(re.findall(r"^#define\s+([A-Z]\w*)[ \t]+(\S.*?)\s*$", text, re.M))
    for body in re.findall(r"\benum\b[^{;]*\{(.*?)\}", text, re.S):
        found.update(re.findall(r"\b([A-Z]\w*)\s*=\s*([^,]+?)\s*(?:,|$)",
                                body.strip()))
    return found


def evaluate(path, text):
    """C's arithmetic of numbers and constants."""
    text = re.sub(r"\bU?INT64_C\((\w+)\)", r"\1", text)
    text = re.sub(r"\b(0x[0-9a-fA-F]+|\d+)[uUlL]+\b", r"\1", text)
    text = re.sub(r"\b0([0-7]+)\b", r"0o\1", text)

    def number(m):
        name = m[0]
        if name in constants(path):
            return f"({evaluate(path, constants(path)[name])})"
        where, value = everything()[name]
        return f"({evaluate(where, value)})"
    text = re.sub(r"\b[A-Z][A-Z0-9_]*\b", number, text)
    if not re.fullmatch(r"[0-9a-fox()+*/<>| \t\n-]+", text):
        raise ValueError(f"{path}: {text}")
    return eval(text.replace("/", "//"))  # digits and operators alone


def of_conf(key):
    m = re.search(rf'NUM_KEY\("{key}", (\w+), \w+, "([\d.]+)(\w*)"\)',
                  source("src/base/conf.c"))
    unit = {"SIZE": SIZES, "DURATION": TIMES}.get(m[1], {"": 1})
    return float(m[2]) * unit[m[3]]


def of_spec(field, bound):
    text = source("src/spec/spec.c")
    block = re.search(rf'\{{ \.name = "{field}",(.*?)\}},', text, re.S)[1]
    value = evaluate("src/spec/spec.c",
                     re.search(rf"\.{bound} = ([^,]+),", block)[1])
    return value / 1000 if "SPEC_MILLI" in block else value


def value(ref):
    kind, _, name = ref.partition(":")
    if kind == "conf":
        return of_conf(name)
    if kind == "spec":
        field, _, bound = name.partition(":")
        return of_spec(field, bound or "max")
    if name.startswith("RLIMIT_"):
        text = re.search(rf"\b{name}, ([^,}}]+)", source(kind))[1]
        return evaluate(kind, text)
    number = evaluate(kind, constants(kind)[name])
    if name.endswith(("_S", "_SECONDS")):
        number *= 1000
    return number


def said(text):
    """The number of a cell of a table: 16 KiB, 2,000, 10 s, 1/1000."""
    m = re.match(r"([\d,.]+)(?: (KiB|MiB|GiB|TiB|ms|s|min|h|days?)\b)?", text)
    unit = {None: 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30,
            "TiB": 1 << 40, "ms": 1, "s": 1000, "min": 60000, "h": 3600000,
            "day": 86400000, "days": 86400000}
    return float(m[1].replace(",", "")) * unit[m[2]]
