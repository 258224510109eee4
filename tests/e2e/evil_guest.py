"""MicroVMs whose first process does what a test tells it to.

What runs in the sandbox is not root of its kernel, so a guest that was taken
over has to be made: one with the real first process beside a shell. The shell
runs, as root of the guest's kernel, the file ~/evil as soon as it is there;
$1 is the process id of the real first process, and ports are found below
/d/ in the order of GUEST_PORT_NAMES: /d/vport0p1...
"""

import os
import shutil
import subprocess
import tempfile

import harness

INIT = """#!/busybox sh
/busybox mknod /dev/null c 1 3
/busybox mkdir /d
/busybox mount -t devtmpfs d /d
/real-init "$@" &
real=$!
while :; do
	for f in /proc/$real/root/pool/box/*/tree/upper/home/user/evil; do
		[ ! -e $f ] || /busybox sh $f $real
	done
	/busybox sleep 0.3
done
"""


def fill(to):
    """Makes `to` a directory for the key vm_dir."""
    vm = harness.vm_dir()
    os.chmod(to, 0o755)
    for name in ("vmlinux", "disk.ext4"):
        shutil.copy(f"{vm}/{name}", f"{to}/{name}")
    with tempfile.TemporaryDirectory() as d:
        for name, path in (("busybox", "/bin/busybox"),
                           ("real-init", f"{harness.BUILD}/bin/carrel-guest")):
            shutil.copy(path, f"{d}/{name}")
        with open(f"{d}/init", "w") as f:
            f.write(INIT)
        os.chmod(f"{d}/init", 0o755)
        more = subprocess.run(["cpio", "--quiet", "-o", "-H", "newc"], cwd=d,
                              input=b"busybox\ninit\nreal-init\n",
                              stdout=subprocess.PIPE, check=True).stdout
    # Archives behind each other: the last one's files count.
    with open(f"{vm}/initrd", "rb") as f:
        initrd = f.read()
    with open(f"{to}/initrd", "wb") as f:
        f.write(initrd + more)


class Case(harness.Case):
    """An instance whose microVMs have such guests."""

    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.mkdtemp(prefix="vm")
        try:
            fill(cls.dir)
            cls.CONF = {**cls.CONF, "vm_dir": cls.dir}
            super().setUpClass()
        except BaseException:
            shutil.rmtree(cls.dir)
            raise

    @classmethod
    def tearDownClass(cls):
        try:
            super().tearDownClass()
        finally:
            shutil.rmtree(cls.dir)

    def turn_evil(self, box, script):
        """The guest's kernel is the test's from now on."""
        path = f"/v1/sandboxes/{box}/files/content?path=/home/user/"
        r = self.i.api("PUT", path + "new", script.encode())
        self.assertIn(r.status, (200, 201, 204), r)
        p = self.i.sh(box, "mv new evil")
        self.assertEqual(p.returncode, 0, p.err)
