"""The suite never meets an instance that is installed on the same host: its
files are hidden, and what is not a file (ids, control groups) differs."""

import os
import re
import socket
import subprocess
import sys
import unittest

import harness
from harness import INSTALLED

CONF_C = os.path.join(harness.TOP, "src/base/conf.c")


# ---------------------------------------------------------------------------
# A false installation, in mount namespaces of this test


def plant():
    """Every path of INSTALLED, with contents that break whoever reads them."""
    harness.hide_installed()
    subprocess.run(["mount", "-t", "tmpfs", "plant", "/mnt"], check=True)
    for n, below in enumerate(("/etc", "/run", "/var/lib", "/usr/local")):
        for part in ("up", "work"):
            os.makedirs(f"/mnt/{n}/{part}")
        subprocess.run(["mount", "-t", "overlay", "-o", f"lowerdir={below},"
                        f"upperdir=/mnt/{n}/up,workdir=/mnt/{n}/work", "plant",
                        below], check=True)
    for path in INSTALLED:
        if path.endswith(("bin/carrel", "sbin/carreld")):
            write(path, "#!/bin/sh\necho planted; exit 99\n", 0o755)
        else:
            write(f"{path}/planted", "planted\n")
    write("/etc/carrel/carrel.conf", "planted = yes\n")
    write("/usr/local/share/carrel/vm/version", "planted\n")


def write(path, text, mode=0o644):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as f:
        f.write(text)
    os.chmod(path, mode)


class Planted(unittest.TestCase):
    """Runs where the false installation is; not by itself."""

    def test_refused_before_it_is_hidden(self):
        plant()
        self.assertEqual(list(INSTALLED), harness.installed())
        with self.assertRaises(RuntimeError):
            harness.Instance()
        with socket.socket(socket.AF_UNIX) as s:
            if os.path.exists("/run/carrel/api.sock"):
                os.unlink("/run/carrel/api.sock")
            s.bind("/run/carrel/api.sock")
            s.listen()
            s.setblocking(False)
            again("Hidden")
            with self.assertRaises(BlockingIOError):
                s.accept()
        # Our mounts stay ours, also where mounts are shared.
        self.assertEqual(list(INSTALLED), harness.installed())


class Hidden(unittest.TestCase):
    """The same, after harness.main() has hidden it."""

    def test_invisible(self):
        harness.hide_installed()
        self.assertEqual([], harness.installed())
        with harness.Instance() as i:
            env = {k: v for k, v in i.env().items() if k != "CARREL_SOCKET"}
            p = subprocess.run([f"{i.bin}/carrel", "ls"], env=env,
                               capture_output=True, text=True)
            self.assertNotEqual(0, p.returncode)
            self.assertNotIn("planted", p.stdout + p.stderr)
            p = i.cli("e2b", "env", "--no-key", check=1)
            self.assertIn("does not listen", p.err)
            i.cli("run", "--", "true", check=0)


def again(case):
    p = subprocess.run([sys.executable, __file__, "--case", case],
                       capture_output=True, text=True)
    if p.returncode:
        raise AssertionError(f"{case}:\n{p.stdout}{p.stderr}")


# ---------------------------------------------------------------------------


def defaults():
    """{key: default} of the product's configuration."""
    text = harness.read(CONF_C).replace('" PRODUCT "', "carrel") \
        .replace('" PRODUCT', 'carrel"')
    return dict(re.findall(r'(?:TEXT_KEY\(|NUM_KEY\("[a-z_]+", \w+, )(\w+),\s*'
                           r'"([^"]*)"', text))


class Installed(unittest.TestCase):
    def test_planted_instance_is_invisible(self):
        again("Planted")

    def test_every_path_of_the_configuration_is_our_own(self):
        shared = [k for k, v in defaults().items() if v.startswith(INSTALLED)]
        self.assertIn("vm_dir", shared)
        with harness.Instance(image=None) as i:
            for key in shared:
                self.assertIn(key, i.conf)
                self.assertFalse(str(i.conf[key]).startswith(INSTALLED), key)

    def test_ids_are_not_those_of_the_default_range(self):
        first = int(defaults()["uid_base"])
        last = first + int(defaults()["uid_count"])
        ours = harness.UID_BASE + harness.SLOTS * harness.UIDS_PER_SLOT
        self.assertTrue(ours <= first or harness.UID_BASE >= last)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--case"]:
        unittest.main(argv=sys.argv[:1] + sys.argv[2:])
    else:
        del Planted, Hidden
        harness.main()
