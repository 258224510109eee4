"""The scripts of tools/ that read Debian's packages, with stand-ins for apt
and dpkg that answer as Debian 12 and Debian 13 do."""

import gzip
import os
import shutil
import subprocess
import tempfile
import unittest

import harness

INSTALLED = """\
ii  gcc, c-compiler, gcc-x86-64-linux-gnu (= 4:14.2.0-1)
ii  libssl3t64, libssl3 (= 3.5.1-1)
ii  mount,{space}
rc  libcurl4t64, libcurl4 (= 8.14.1-2)
"""
PACKAGES = """\
# comment
run libssl3
run mount
run libcurl4
run@12 only-there
run node sh
"""
PACKAGE = "linux-image-6.99-cloud-amd64"
# NAME: what it needs.
MODULES = {"virtio_console": "", "virtio_blk": "", "erofs": "lib-crc32c",
           "lib-crc32c": "", "overlay": ""}


class Stand(unittest.TestCase):
    """A copy of the tree's scripts with other programs in front of PATH."""

    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="carrel-tools-")
        self.addCleanup(shutil.rmtree, self.dir)
        for name in ("bin", "tools", "packaging"):
            os.mkdir(f"{self.dir}/{name}")

    def program(self, name, script):
        path = f"{self.dir}/bin/{name}"
        self.write(path, "#!/bin/sh\n" + script)
        os.chmod(path, 0o755)

    def write(self, path, text):
        with open(path, "w") as f:
            f.write(text)

    def tool(self, name, *args, **env):
        shutil.copy(os.path.join(harness.TOP, "tools", name), f"{self.dir}/tools/")
        return subprocess.run(
            [f"{self.dir}/tools/{name}", *args], capture_output=True, text=True,
            env={**os.environ, **env, "PATH": f"{self.dir}/bin:{os.environ['PATH']}"})


class Deps(Stand):
    def setUp(self):
        super().setUp()
        self.program("dpkg-query", f"cat {self.dir}/installed")
        self.write(f"{self.dir}/installed", INSTALLED.format(space=" "))
        self.write(f"{self.dir}/packaging/packages.txt", PACKAGES)

    def deps(self, verb, release):
        self.write(f"{self.dir}/os-release", f'ID=debian\nVERSION_ID="{release}"\n')
        return self.tool("deps.sh", verb, "run", OS_RELEASE=f"{self.dir}/os-release")

    def test_provided_package_is_present(self):
        p = self.deps("check", 13)
        self.assertEqual(p.returncode, 1)
        self.assertIn("missing packages: libcurl4\n", p.stderr)

    def test_package_of_one_release(self):
        for release, there in (12, True), (13, False):
            names = self.deps("list", release).stdout.split()
            self.assertEqual("only-there" in names, there, release)
            self.assertEqual(names[:3], ["libssl3", "mount", "libcurl4"])
            self.assertNotIn("node", names)  # a command makes it needless


class Kernel(Stand):
    """vm_kernel.sh with a package in which everything is small."""

    def setUp(self):
        super().setUp()
        self.program("apt-cache", f"case $1 in depends) echo 'Depends: {PACKAGE}' ;; "
                                  "*) echo '  Candidate: 1' ;; esac")
        self.program("apt-get", "touch kernel.deb")
        self.program("dpkg-deb", f"cp -R {self.dir}/package \"$3\"")

    def object(self, path, needs):
        source = f'char m[] __attribute__((section(".modinfo"))) = "depends={needs}";'
        subprocess.run(["gcc", "-c", "-x", "c", "-o", path, "-"], check=True,
                       input=source.encode())

    def package(self, where, modules, builtin=()):
        boot = f"{self.dir}/package/boot"
        tree = f"{self.dir}/package/{where}/6.99"
        os.makedirs(boot)
        os.makedirs(tree + "/kernel")
        with open(f"{boot}/vmlinuz-6.99", "wb") as f:
            f.write(b"start" + gzip.compress(b"\x7fELF kernel"))
        for name, needs in modules.items():
            self.object(f"{tree}/kernel/{name}.ko", needs.replace("-", "_"))
        self.write(tree + "/modules.builtin", "".join(
            f"kernel/drivers/{name}.ko\n" for name in builtin))

    def order(self):
        out = f"{self.dir}/out"
        p = self.tool("vm_kernel.sh", out)
        self.assertEqual(p.returncode, 0, p.stderr)
        self.assertEqual(harness.read(out + "/vmlinux"), "\x7fELF kernel")
        words = harness.read(out + "/m/order").split()
        self.assertEqual(sorted(words + ["order"]), sorted(os.listdir(out + "/m")))
        return words

    def test_builtin_modules_below_usr(self):
        """As Debian 13's package: nothing to load for what is built in."""
        self.package("usr/lib/modules", MODULES, ("virtio-mmio", "virtio_blk_x"))
        self.assertEqual(self.order(), [
            "virtio_console.ko", "virtio_blk.ko", "lib_crc32c.ko", "erofs.ko",
            "overlay.ko"])

    def test_modules_below_lib(self):
        """As Debian 12's."""
        self.package("lib/modules", {**MODULES, "virtio_mmio": "virtio",
                                     "virtio": ""})
        self.assertEqual(self.order()[:2], ["virtio.ko", "virtio_mmio.ko"])

    def test_missing_module_is_named(self):
        self.package("usr/lib/modules", MODULES)
        p = self.tool("vm_kernel.sh", f"{self.dir}/out")
        self.assertEqual(p.returncode, 1)
        self.assertIn("no module virtio_mmio", p.stderr)


if __name__ == "__main__":
    harness.main()
