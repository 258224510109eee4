"""Another build of the same programs, for tests of an upgrade.

	next_build.py FROM TO		copies the programs of FROM to TO

The version in them is another one, of the same length: a build that the kernel,
the agents and `carrel version` can tell from the first.
"""

import os
import re
import shutil
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def version():
    with open(os.path.join(TOP, "src/base/product.h")) as f:
        return re.search(r'PRODUCT_VERSION "([^"]*)"', f.read())[1]


def next_version():
    return "9" + version()[1:]


def copy_program(src, dst):
    with open(src, "rb") as f:
        data = f.read()
    old, new = (b"%s\0" % v.encode() for v in (version(), next_version()))
    # Renamed into place, as a package manager does it: the old one may run.
    with open(dst + ".new", "wb") as f:
        f.write(data.replace(old, new))
    shutil.copymode(src, dst + ".new")
    os.rename(dst + ".new", dst)
    return old in data


def upgrade(src, dst):
    """True when at least one of the programs shows the other version."""
    os.makedirs(dst, exist_ok=True)
    return any([copy_program(os.path.join(src, n), os.path.join(dst, n))
                for n in os.listdir(src)])


if __name__ == "__main__":
    if not upgrade(sys.argv[1], sys.argv[2]):
        sys.exit("no program has the version in it")
