"""What Carrel is compared with, on the same root file system.

Each peer is a command that prints "hi" from the inside of a sandbox. One that
does not work on this machine is reported with the reason, never left out.
"""

import contextlib
import json
import os
import shutil
import subprocess


class Peers:
    def __init__(self, scratch, tar):
        self.dir = scratch
        self.root = f"{scratch}/root"
        self.group = f"/carrel-bench-{os.getpid()}"
        os.makedirs(self.root)
        subprocess.run(["tar", "-xf", tar, "-C", self.root], check=True)
        # The image has none of these; Carrel makes them for itself.
        for name in ("dev", "proc", "sys"):
            os.makedirs(f"{self.root}/{name}", exist_ok=True)
        self.missing = {}

    def _bwrap(self):
        return [["bwrap", "--unshare-all", "--ro-bind", self.root, "/",
                 "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp",
                 "/bin/echo", "hi"]]

    def _runc(self):
        bundle = f"{self.dir}/bundle"
        os.makedirs(bundle)
        subprocess.run(["runc", "spec"], cwd=bundle, check=True,
                       capture_output=True)
        with open(f"{bundle}/config.json") as f:
            conf = json.load(f)
        conf["process"].update(terminal=False, args=["/bin/echo", "hi"])
        # Raising a limit needs a capability that root may lack.
        conf["process"].pop("rlimits", None)
        conf["root"] = {"path": self.root, "readonly": True}
        with open(f"{bundle}/config.json", "w") as f:
            json.dump(conf, f)
        return [["runc", "--root", f"{self.dir}/runc", "run", "--bundle",
                 bundle, f"carrel-runc-{os.getpid()}"]]

    def _podman(self):
        store = ["--root", f"{self.dir}/podman", "--runroot",
                 f"{self.dir}/podman-run", "--tmpdir", f"{self.dir}/podman-tmp",
                 "--storage-driver", "vfs", "--cgroup-manager", "cgroupfs"]
        run = ["run", "--rm", "--network", "none", "--read-only",
               "--cgroup-parent", self.group]
        tail = ["--rootfs", self.root, "/bin/echo", "hi"]
        low = ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=4096:4096"]
        # As it comes; then without raising limits; then with a runtime that
        # accepts cgroups v1.
        return [["podman", *store, *run, *tail],
                ["podman", *store, *run, *low, *tail],
                ["podman", *store, "--runtime", "runc", *run, *low, *tail]]

    def find(self):
        """{name: command} of those that work; the others are in `missing`."""
        have = {}
        for name, variants in (("bwrap", self._bwrap), ("runc", self._runc),
                               ("podman", self._podman)):
            reason = "not installed"
            for argv in variants() if shutil.which(name) else ():
                p = subprocess.run(argv, capture_output=True, text=True,
                                   stdin=subprocess.DEVNULL)
                if p.returncode == 0 and p.stdout == "hi\n":
                    have[name] = argv
                    break
                reason = (p.stderr.strip().splitlines() or
                          [f"exit status {p.returncode}"])[-1]
            else:
                self.missing[name] = reason
        return have

    def remove(self):
        groups = []
        for line in open("/proc/self/mountinfo"):
            kind = line.split(" - ")[1].split()[0]
            if kind in ("cgroup", "cgroup2"):
                groups.append(line.split()[4] + self.group)
            elif line.split()[4].startswith(self.dir + "/"):
                subprocess.run(["umount", "-l", line.split()[4]],
                               capture_output=True)
        for group in groups:
            for path, _, _ in os.walk(group, topdown=False):
                with contextlib.suppress(OSError):
                    os.rmdir(path)
        shutil.rmtree(self.dir, ignore_errors=True)
