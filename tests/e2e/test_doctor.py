"""Requirements that a host fails: told in one sentence, with the remedy, by
the daemon at its start, by `doctor`, and by refusals of the API."""

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import unittest

import harness
from harness import SLOW, wait_for


def doctor(i, *prefix):
    """The exit code, and the checks of `carrel doctor --json` by name."""
    p = subprocess.run([*prefix, f"{i.bin}/carrel", "--config", i.config,
                        "doctor", "--json"], capture_output=True, text=True,
                       env=i.env(), timeout=60 * SLOW)
    found = json.loads(p.stdout)
    assert found["ok"] == (p.returncode == 0), p.stdout
    return p.returncode, {c["name"]: c for c in found["checks"]}


class Apart(harness.Instance):
    """A daemon in a mount namespace of its own; `script` runs there first."""

    script = ":"

    def start(self, wait=True):
        self.write_conf()
        with open(self.log_path, "ab") as log:
            self.daemon = subprocess.Popen(
                ["unshare", "-m", "--propagation", "private", "sh", "-ec",
                 self.script + '; exec "$@"', "sh",
                 f"{self.bin}/carreld", "--config", self.config],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env=self.env(), start_new_session=True)
        if wait:
            self.wait_ready()


class Host(unittest.TestCase):
    """Hosts on which carreld cannot work. It must say so and end."""

    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="carrel-host-")
        self.addCleanup(shutil.rmtree, self.dir)
        self.config = f"{self.dir}/conf"
        with open(self.config, "w") as f:
            f.write(f"state_dir = {self.dir}/state\nrun_dir = {self.dir}/run\n"
                    f"libexec_dir = {harness.BUILD}/bin\n"
                    f"cgroup = /carrel-test-{os.path.basename(self.dir)}\n")

    def run_program(self, prefix, name, *args):
        return subprocess.run([*prefix, f"{harness.BUILD}/bin/{name}",
                               "--config", self.config, *args],
                              capture_output=True, text=True,
                              timeout=60 * SLOW)

    def refused(self, prefix, check, *words):
        p = self.run_program(prefix, "carreld")
        self.assertEqual(p.returncode, 1, p.stderr)
        line, = p.stderr.splitlines()
        for word in words:
            self.assertIn(word, line)
        self.assertFalse(os.path.exists(f"{self.dir}/state"), "nothing is made")
        p = self.run_program(prefix, "carrel", "doctor", "--json")
        self.assertEqual(p.returncode, 1, p.stdout)
        found, = (c for c in json.loads(p.stdout)["checks"]
                  if c["name"] == check)
        self.assertEqual(found["level"], "fail", found)
        for word in words:
            self.assertIn(word, found["found"] + found["remedy"])
        p = self.run_program(prefix, "carrel", "doctor")
        self.assertIn("this host cannot run sandboxes", p.stdout)

    def test_without_cap_sys_admin(self):
        self.refused(["setpriv", "--bounding-set=-sys_admin",
                      "--inh-caps=-sys_admin"], "capabilities",
                     "CAP_SYS_ADMIN", "privileged")

    def test_in_a_user_namespace(self):
        self.refused(["unshare", "-U", "-r"], "capabilities",
                     "unprivileged container", "virtual machine")

    def test_cgroup_tree_is_read_only(self):
        ro = " && ".join(f"mount -o remount,bind,ro {path}"
                         for path in harness.cgroup_roots())
        self.refused(["unshare", "-m", "--propagation", "private", "sh", "-ec",
                      ro + ' && exec "$@"', "sh"], "cgroup tree",
                     "is not writable", "remount,rw")

    def test_limits_of_namespaces_are_named(self):
        """Each in a user namespace of its own: they are nobody else's."""
        for kind in ("user", "net", "mnt", "cgroup"):
            knob = f"max_{kind}_namespaces"
            p = self.run_program(
                ["unshare", "-U", "-r", "sh", "-ec",
                 f'echo 0 > /proc/sys/user/{knob}; exec "$@"', "sh"],
                "carrel", "doctor", "--json")
            found, = (c for c in json.loads(p.stdout)["checks"]
                      if c["name"] == "namespaces")
            self.assertEqual(found["level"], "fail", found)
            self.assertIn(f"user.{knob} = 0", found["found"])
            self.assertIn(f"sysctl -w user.{knob}=", found["remedy"])

    def test_in_lxc(self):
        """As systemd notes it; without privileges the daemon names it too."""
        lxc = ["unshare", "-m", "--propagation", "private", "sh", "-ec",
               "mount -t tmpfs none /run; mkdir /run/systemd; "
               'echo lxc > /run/systemd/container; exec "$@"', "sh"]
        p = self.run_program(lxc, "carrel", "doctor", "--json")
        found, = (c for c in json.loads(p.stdout)["checks"]
                  if c["name"] == "container")
        self.assertEqual(found["level"], "warning", found)
        self.assertIn("lxc", found["found"])
        self.assertIn("lxc.cap.drop", found["remedy"])
        p = self.run_program([*lxc, "setpriv", "--bounding-set=-sys_admin"],
                             "carreld")
        self.assertEqual(p.returncode, 1, p.stderr)
        self.assertIn("in this lxc container", p.stderr)

    def test_features_of_newer_kernels(self):
        """With a kernel that calls itself 2.6 all of them are named."""
        p = self.run_program(["setarch", "--uname-2.6"], "carrel", "doctor",
                             "--json")
        checks = {c["name"]: c for c in json.loads(p.stdout)["checks"]}
        self.assertEqual(checks["kernel"]["level"], "fail", p.stdout)
        newer = checks["newer kernels"]
        self.assertEqual(newer["level"], "warning", newer)
        for word in ("simple quotas (6.7)", "time slices"):
            self.assertIn(word, newer["found"])


@harness.container_only("the tier has no part in it")
class Roles(harness.Case):
    """A role that cannot start: clients see its last error."""

    def test_warden_that_does_not_start(self):
        self.i.end_daemon()
        good = self.i.conf["microvm"]
        self.i.conf["microvm"] = "perhaps"
        why = "perhaps is none of auto, kvm, emulated, off"
        try:
            self.i.start(wait=False)

            def answer():
                with contextlib.suppress(OSError):
                    return self.i.api("GET", "/v1/sandboxes")
            r = wait_for("an answer", answer, 60 * SLOW)
            self.assertEqual((r.status, r.json["error"]),
                             (503, "warden_unavailable"), r)
            self.assertIn(why, r.json["message"])
            p = self.i.cli("ls")
            self.assertEqual(p.returncode, 1)
            self.assertIn(why, p.err)
            code, checks = doctor(self.i)
            self.assertEqual(code, 1)
            self.assertIn(why, checks["roles"]["found"])
            r = self.i.api("GET", "/healthz")
            self.assertEqual(r.status, 503, r)
            self.assertIn(why, r.json["problems"][0]["message"])
        finally:
            self.i.end_daemon()
            self.i.conf["microvm"] = good
            self.i.start()
        self.assertEqual(harness.read(f"{self.i.run_dir}/warden.error"), "")
        code, checks = doctor(self.i)
        self.assertEqual((code, checks["roles"]["level"]), (0, "ok"), checks)
        self.assertEqual(self.i.api("GET", "/healthz").json, {"ok": True})

    def test_role_that_cannot_say_why(self):
        """Its program is not there, or is killed: the supervisor tells."""
        for text, why in ((None, "carrel-warden: No such file"),
                          ("#!/bin/sh\nkill -SEGV $$\n", "killed by signal 11")):
            with self.subTest(why):
                self.replaced_warden(text, why)

    def replaced_warden(self, text, why):
        program, real = f"{self.i.bin}/carrel-warden", f"{self.i.bin}/hidden"
        self.i.end_daemon()
        os.rename(program, real)
        try:
            if text:
                with open(program, "w") as f:
                    f.write(text)
                os.chmod(program, 0o755)
            self.i.start(wait=False)
            wait_for("doctor tells", lambda: why in
                     doctor(self.i)[1]["roles"]["found"], 30 * SLOW)
        finally:
            self.i.end_daemon()
            os.rename(real, program)
            self.i.start()


@harness.container_only("the pool is the same")
class Pool(harness.Case):
    """A pool that went read-only, as after an I/O error."""

    def test_read_only_pool_is_unhealthy(self):
        self.assertEqual(self.i.api("GET", "/healthz").json, {"ok": True})
        subprocess.run(["mount", "-o", "remount,ro", self.i.pool()], check=True)
        try:
            r = self.i.api("GET", "/healthz")
            self.assertEqual((r.status, r.json["error"]), (503, "unhealthy"), r)
            problem, = r.json["problems"]
            self.assertEqual(problem["part"], "pool")
            self.assertIn("the pool is read-only", problem["message"])
            code, checks = doctor(self.i)
            self.assertEqual((code, checks["pool"]["level"]), (1, "fail"))
            self.assertIn("read-only", checks["pool"]["found"])
            self.assertIn("dmesg", checks["pool"]["remedy"])
        finally:
            subprocess.run(["mount", "-o", "remount,rw", self.i.pool()],
                           check=True)
        self.assertEqual(self.i.api("GET", "/healthz").json, {"ok": True})
        self.assertEqual(doctor(self.i)[1]["pool"]["level"], "ok")


    def test_full_pool_is_unhealthy(self):
        fill, v = f"{self.i.pool()}/fill", os.statvfs(self.i.pool())
        with open(fill, "wb") as f:
            os.posix_fallocate(f.fileno(), 0,
                               (v.f_bavail - v.f_blocks // 20) * v.f_frsize)
        subprocess.run(["sync", "-f", fill], check=True)  # or it is not counted
        try:
            def full():
                r = self.i.api("GET", "/healthz")
                return r if r.status == 503 else None
            r = wait_for("it is seen", full, 30 * SLOW)
            self.assertIn("the pool is full", r.json["message"])
            self.assertEqual(doctor(self.i)[1]["pool"]["level"], "fail")
        finally:
            os.unlink(fill)
        subprocess.run(["sync", "-f", self.i.pool()], check=True)
        wait_for("it is well again", lambda: not full(), 30 * SLOW)


class OnExt4(harness.Instance):
    """Its state is on a file system that can be made to fail."""

    def start(self, wait=True):
        if not os.path.isdir(self.state_dir):
            image = f"{self.dir}/disk"
            with open(image, "wb") as f:
                f.truncate(8 << 30)
            subprocess.run(["mkfs.ext4", "-q", image], check=True)
            os.mkdir(self.state_dir)
            subprocess.run(["mount", "-o", "loop,errors=remount-ro", image,
                            self.state_dir], check=True)
        super().start(wait)

    def leftovers(self):
        return [x for x in super().leftovers() if x != f"mount {self.state_dir}"]


@harness.container_only("machines need a pool with snapshots")
class Limits(unittest.TestCase):
    """A pool without disk limits, on which every create is refused."""

    def test_disk_limits_that_cannot_be_enforced(self):
        with OnExt4(pool_driver="dir") as i:  # without project quotas
            self.assertNotEqual(i.api("POST", "/v1/sandboxes", {}).status, 201)
            code, checks = doctor(i)
            self.assertEqual((code, checks["disk limits"]["level"]),
                             (1, "fail"), checks)
            self.assertIn("this host cannot run sandboxes",
                          i.cli("--config", i.config, "doctor").out)
            i.conf["allow_missing"] = "disk"
            i.restart()
            i.create()
            code, checks = doctor(i)
            self.assertEqual((code, checks["disk limits"]["level"]),
                             (0, "warning"), checks)


@harness.container_only("the log is the same")
class StateDisk(unittest.TestCase):
    """No record, no action."""

    def refused(self, r):
        self.assertEqual((r.status, r.json["error"]), (503, "log_unavailable"),
                         r)
        self.assertIn("read-only", r.json["message"])

    def test_read_only_state_disk(self):
        with OnExt4(pool_size="1G") as i:
            box = i.create()
            mark = i.sh(box, "echo kept > note; cat note").out
            self.assertEqual(mark, "kept\n")
            # As ext4 does it by itself after an error of its disk.
            subprocess.run(["mount", "-o", "remount,abort", i.state_dir],
                           check=True)
            self.refused(i.api("POST", "/v1/run", {"command": "true"}))
            self.refused(i.api("DELETE", f"/v1/sandboxes/{box}"))
            self.refused(i.api("POST", "/v1/sandboxes", {}))
            self.refused(i.api("POST", f"/v1/sandboxes/{box}/run",
                               {"command": "true"}))
            self.assertEqual(i.ids(), [box])
            self.assertTrue(i.box_pids())
            r = i.api("GET", "/healthz")
            self.assertEqual(r.status, 503, r)
            self.assertIn("log", [p["part"] for p in r.json["problems"]])
            code, checks = doctor(i)
            self.assertEqual(code, 1)
            for name in ("log", "space"):
                self.assertEqual(checks[name]["level"], "fail", checks[name])
                self.assertIn("read-only", checks[name]["found"])
            # The kill switch works all the same: see stop().


    def test_full_state_disk(self):
        with OnExt4(pool_size="1G") as i:
            self.assertEqual(i.api("GET", "/healthz").json, {"ok": True})
            fill, v = f"{i.state_dir}/fill", os.statvfs(i.state_dir)
            with open(fill, "wb") as f:
                os.posix_fallocate(f.fileno(), 0,
                                   v.f_bavail * v.f_frsize - (32 << 20))
            r = i.api("GET", "/healthz")
            self.assertEqual((r.status, [p["part"] for p in r.json["problems"]]),
                             (503, ["disk"]), r)
            self.assertIn("is full", r.json["message"])
            code, checks = doctor(i)
            self.assertEqual((code, checks["space"]["level"]), (1, "fail"))
            os.unlink(fill)
            self.assertEqual(i.api("GET", "/healthz").json, {"ok": True})


QEMU = ("/usr/bin/qemu-system-x86_64", "/usr/bin/qemu-system-x86_64-microvm")

SAYS = r"""
static long call(long nr, long a, long b, long c)
{
	long r;
	__asm__ volatile("syscall" : "=a"(r) : "a"(nr), "D"(a), "S"(b), "d"(c)
			 : "rcx", "r11", "memory");
	return r;
}
void _start(void)
{
	static const char said[] = "first\nqemu: no KVM for you\n";
	call(1, 2, (long)said, sizeof(said) - 1);
	call(231, 1, 0, 0);
}
"""


@unittest.skipUnless(os.path.exists("/dev/kvm") and os.path.exists(QEMU[0]),
                     "there is no /dev/kvm or no QEMU")
class KvmProbe(unittest.TestCase):
    """Why KVM is not used: the launch's own error, or QEMU's last line."""

    def probe(self, fake, why):
        class Faked(Apart):
            script = "; ".join(f"mount --bind {fake} {q}" for q in QEMU
                               if os.path.exists(q))
        with Faked(vm_dir=harness.vm_dir(), microvm="kvm") as i:
            wait_for("the answer", lambda: "info warden kvm: not used" in i.log(),
                     60 * SLOW)
            self.assertRegex(i.log(), f"kvm: not used, .*{why}")
            host = i.api("GET", "/v1/host").json["microvm"]
            self.assertRegex(host["why"], why)
            r = i.api("POST", "/v1/sandboxes", {"tier": "microvm"})
            self.assertEqual(r.status, 501, r)
            self.assertRegex(r.json["message"], why)
            self.assertRegex(doctor(i)[1]["microVMs"]["found"], why)

    def test_launch_that_fails(self):
        with tempfile.NamedTemporaryFile(mode="w", delete=False) as f:
            f.write("#!/no/such/program\n")
        self.addCleanup(os.unlink, f.name)
        os.chmod(f.name, 0o755)
        self.probe(f.name, "start QEMU: execute .*: No such file")

    def test_qemu_that_ends(self):
        d = tempfile.mkdtemp(prefix="carrel-qemu-")
        self.addCleanup(shutil.rmtree, d)
        subprocess.run(["cc", "-x", "c", "-static", "-nostdlib", "-O1", "-",
                        "-o", f"{d}/qemu"], input=SAYS, text=True, check=True)
        self.probe(f"{d}/qemu", "QEMU ended: qemu: no KVM for you")


if __name__ == "__main__":
    harness.main()
