# suite: both
# suite: debian
"""sudo without setuid: root's work inside, in the real Debian image."""

import os
import subprocess
import tempfile
import unittest

import harness


def make_deb(path):
    """A package whose scripts add a user and change owners."""
    with tempfile.TemporaryDirectory() as d:
        def put(name, text, mode=0o644):
            full = os.path.join(d, name)
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "w") as f:
                f.write(text)
            os.chmod(full, mode)
        put("DEBIAN/control", "Package: carrel-test-tool\nVersion: 1.0\n"
            "Architecture: all\nMaintainer: Test <test@localhost>\n"
            "Description: adds a user, changes owners\n")
        put("DEBIAN/postinst", "#!/bin/sh\nset -e\n"
            "groupadd --system tool\n"
            "useradd --system --gid tool --no-create-home tool\n"
            "mkdir -p /var/lib/tool\n"
            "echo made by postinst > /var/lib/tool/data\n"
            "chown -R tool:tool /var/lib/tool\n"
            "chmod 750 /var/lib/tool\n"
            "chown root:tool /usr/bin/tool\nchmod 2755 /usr/bin/tool\n", 0o755)
        put("DEBIAN/prerm", "#!/bin/sh\nset -e\nuserdel tool\n", 0o755)
        put("usr/bin/tool", "#!/bin/sh\necho tool runs\n", 0o755)
        os.chmod(d, 0o755)
        subprocess.run(["dpkg-deb", "--root-owner-group", "-b", d, path],
                       check=True, stdout=subprocess.DEVNULL)


class Sudo(harness.Case):
    IMAGE = "debian"
    CONF = {"disk": "512M", "memory": "512M"}

    def test_install_a_package(self):
        box = self.i.create(name="work")
        with tempfile.NamedTemporaryFile(suffix=".deb") as f:
            make_deb(f.name)
            with open(f.name, "rb") as deb:
                self.i.cli("exec", box, "--", "sh", "-c", "cat > tool.deb",
                           input=deb.read(), check=0)
        p = self.i.sh(box, "sudo dpkg -i tool.deb")
        self.assertEqual(p.returncode, 0, p.out + p.err)
        self.assertEqual(self.i.sh(box, "tool").out, "tool runs\n")
        p = self.i.sh(box, "stat -c '%U:%G %a' /var/lib/tool /var/lib/tool/data "
                      "/usr/bin/tool; getent passwd tool | cut -d: -f1")
        lines = p.out.splitlines()
        self.assertEqual(lines[0].split()[0], "tool:tool")
        self.assertEqual(lines[0].split()[1], "750")
        p = self.i.sh(box, "sudo stat -c '%U:%G' /var/lib/tool/data")
        self.assertEqual(p.out, "tool:tool\n")
        self.assertEqual(self.i.sh(box, "cat /var/lib/tool/data").returncode, 1)
        self.assertEqual(self.i.sh(box, "dpkg --audit").out, "")
        p = self.i.sh(box, "sudo dpkg -r carrel-test-tool && ! getent passwd tool")
        self.assertEqual(p.returncode, 0, p.out + p.err)

    def test_who_one_is(self):
        box = self.i.create()
        self.assertEqual(self.i.sh(box, "sudo id -u").out, "0\n")
        p = self.i.sh(box, "sudo sh -c 'echo out; echo err >&2; exit 7'")
        self.assertEqual((p.returncode, p.out, p.err), (7, "out\n", "err\n"))
        p = self.i.cli("exec", box, "--", "sudo", "cat", input="through\n")
        self.assertEqual(p.out, "through\n")

    def test_root_inside_is_weak(self):
        box = self.i.create()
        for script in ("mount -t tmpfs x /mnt", "hostname other",
                       "mknod /tmp/d b 7 0", "chroot / true",
                       "echo 1 > /proc/sys/kernel/panic", "unshare -m true"):
            with self.subTest(script):
                p = self.i.sh(box, f"sudo sh -c '{script}'")
                self.assertNotEqual(p.returncode, 0, script)
        caps = self.i.sh(box, "sudo grep CapEff /proc/self/status").out
        self.assertEqual(int(caps.split()[1], 16), 0xfb)

    def test_no_setuid(self):
        box = self.i.create()
        p = self.i.sh(box, "sudo cp /bin/sh /tmp/rootsh; sudo chmod 4755 /tmp/rootsh;"
                      "/tmp/rootsh -p -c 'id -u'")
        self.assertEqual(p.out, "1000\n")

    def test_spec_turns_it_off(self):
        box = self.i.create(sudo=False)
        p = self.i.sh(box, "sudo id")
        self.assertNotEqual(p.returncode, 0)
        self.assertNotIn("uid=0", p.out)
        self.assertTrue(p.err)

    def test_useful_set(self):
        box = self.i.create()
        p = self.i.sh(box, "python3 -c 'print(6*7)' && bash --version && "
                      "git --version && curl --version && ps aux && less --version")
        self.assertEqual(p.returncode, 0, p.err)
        self.assertTrue(p.out.startswith("42\n"))


if __name__ == "__main__":
    harness.main()
