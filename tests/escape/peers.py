#!/usr/bin/python3
"""The same attacks under other sandboxes, side by side with ours.

	peers.py [--only NAME,...] [--json FILE] [--update FILE]
	peers.py --read FILE [--update FILE]	from what --json wrote

Prints Markdown: what the host sees of each, and a verdict for each row. Every
peer gets the same root file system, no network, and new canaries on the host.
What a word means is in LEGEND below. Verdicts are of attempts: our rows were
written against our own walls, and what one of them finds in another product
need not be a way out of it. Whether anything came out, the canaries say.
"""

import argparse
import contextlib
import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import tarfile
import time

import attack
import filters
import harness
import test_escape

ME = {"user": 1000, "root": 0}
HOME = {"user": "/home/user", "root": "/root"}
MIB = 1 << 20
LIMITS = {"pids": 64, "mem_mb": 64, "disk_mb": 32}
LIMITED = {"F1": "pids", "F2": "memory", "F9": "disk", "F24": "memory",
           "F25": "memory", "E17": "disk"}
LEFT_OUT = {"D24": "random calls are not for machines without our walls",
            "E3": "a race with the host's part in Carrel",
            "G11": "the ports of a door that only Carrel has",
            "K6": "an agent that only Carrel has"}
# Rows about things of the host: a breach is one, whatever kernel. Of A11 the ids
# are the kernel's, the signal to a process of the host is not.
OF_THE_HOST = {"A10", "A11", "B8", "B10", "B18", "C5", "D23", "G3", "G4", "G5",
               "G6", "G8", "G10", *LIMITED}
BEGIN, END = "<!-- peers: begin -->", "<!-- peers: end -->"
LEGEND = """\
* **held**: every attempt was refused: of Carrel with the right error and with all that `make escape` asks for, of the others with any error.
* **gap**: nothing was done, but something that stands in Carrel does not stand there (a flag, a limit, a filter, a hidden file).
* **open**: an attempt of the row succeeded (the probe's `breach`). That is more surface than Carrel leaves, not by itself a way out.
* **own**: open or a gap, but in a kernel that the sandbox has to itself (runsc's is a program, a microVM's is Linux): the host's was not asked.
* **-**: the row makes no sense there. Two words are: as an ordinary user / as root inside."""


def output_of(argv, **kw):
    """Of the first line; the empty string if it cannot be run."""
    try:
        p = subprocess.run(argv, capture_output=True, text=True, timeout=30, **kw)
    except OSError:
        return ""
    return (p.stdout.splitlines() or [""])[0].strip()


def processes(*words):
    """Pids of whoever has one of these in its command line, but not us."""
    found = []
    for p in filter(str.isdigit, os.listdir("/proc")):
        line = harness.read(f"/proc/{p}/cmdline", " ")
        if int(p) != os.getpid() and any(w in line for w in words):
            found.append(int(p))
    return found


# ---------------------------------------------------------------------------
# Sandboxes


class Peer:
    """One way to run a command in a sandbox. The probe is /probe inside."""
    name = title = ""
    needs = {}  # program: Debian package
    identities = ("user", "root")
    own_kernel = False
    strict = False  # the error must be the right one, too
    limits_disk = False
    probe = "/probe"

    def __init__(self, scratch, root, tar):
        self.dir, self.root, self.tar = scratch, root, tar
        self.tag = "tag=" + secrets.token_hex(8)
        self.ways = []

    def start(self):
        """Before anything else; OSError or AssertionError if it cannot."""

    def argv(self, who, command, limits):
        raise NotImplementedError

    def version(self):
        return ""

    def run(self, who, command, limits=False, timeout=180):
        """What it printed. Into files: somebody may keep the output open."""
        with open(f"{self.dir}/out", "w+b") as out, \
                open(f"{self.dir}/err", "w+b") as err:
            p = subprocess.Popen(self.argv(who, command, limits), stdout=out,
                                 stderr=err, stdin=subprocess.DEVNULL,
                                 cwd=self.dir, start_new_session=True)
            try:
                code = p.wait(timeout)
            except subprocess.TimeoutExpired:
                code = "no end"
                p.kill()
                p.wait()
            out.seek(0)
            err.seek(0)
            return code, out.read().decode(errors="replace"), \
                err.read().decode(errors="replace")

    def hold(self, who, command):
        return subprocess.Popen(self.argv(who, command, False),
                                stdin=subprocess.DEVNULL,
                                stdout=subprocess.DEVNULL,
                                stderr=subprocess.PIPE, cwd=self.dir,
                                start_new_session=True)

    def seen(self):
        """What of it makes calls of the host's kernel, while the probe holds a
        lock inside: {what it is: pid}."""
        return {"": p for p in processes(self.tag)
                if harness.read(f"/proc/{p}/comm", " ").strip() == "probe"}

    def hostpath(self):
        return os.path.basename(self.dir)

    def disk(self):
        """Where the host keeps what is written inside."""
        return self.dir

    def left(self):
        """Processes that there should be none of after the end."""
        return processes(self.tag)

    def end(self):
        """What runs in it must end now, as its own way of ending has it."""

    def close(self):
        pass


class Nothing(Peer):
    name, title = "none", "no sandbox"
    identities = ("user",)

    def start(self):
        self.probe = f"{self.root}/probe"
        self.home = f"{self.dir}/home"
        os.mkdir(self.home)
        os.chown(self.home, 1000, 1000)

    def argv(self, who, command, limits):
        return ["setpriv", "--reuid=1000", "--regid=1000", "--clear-groups",
                "env", "-C", self.home, *command]


class Bwrap(Peer):
    """By an ordinary user, which is how it is meant; root inside is that user."""
    name, title = "bwrap", "bwrap, as it comes"
    needs = {"bwrap": "bubblewrap"}
    extra = ()

    def version(self):
        return output_of(["bwrap", "--version"])

    def argv(self, who, command, limits):
        root = ["--unshare-user", "--uid", "0", "--gid", "0"]
        return ["setpriv", "--reuid=1000", "--regid=1000", "--clear-groups",
                "bwrap", "--ro-bind", self.root, "/", "--proc", "/proc", "--dev",
                "/dev", "--tmpfs", "/tmp", "--chdir", "/tmp", *self.extra,
                *(root if who == "root" else ()), *command]


class BwrapAll(Bwrap):
    name, title = "bwrap-all", "bwrap --unshare-all"
    extra = ("--unshare-all", "--die-with-parent", "--new-session")


class Podman(Peer):
    name, title = "podman", "podman"
    needs = {"podman": "podman", "runc": "runc"}

    def start(self):
        self.group = f"/carrel-peers-{os.getpid()}"
        self.store = ["podman", "--root", f"{self.dir}/store", "--runroot",
                      f"{self.dir}/run", "--tmpdir", f"{self.dir}/tmp",
                      "--storage-driver", "overlay",
                      "--cgroup-manager", "cgroupfs"]
        subprocess.run([*self.store, "import", self.tar, "peers"], check=True,
                       capture_output=True)
        self.names = 0
        low = ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=4096:4096"]
        # As it comes; without raising limits; with a runtime that accepts
        # cgroups v1.
        for store, self.low, how in (
                (self.store, [], "as it comes"),
                (self.store, low, "own ulimits"),
                ([*self.store, "--runtime", "runc"], low,
                 "runc, own ulimits")):
            self.store = store
            code, out, err = self.run("user", ["/bin/echo", "hi"])
            if (code, out) == (0, "hi\n"):
                self.ways.append(how)
                return
        raise AssertionError(err.strip().splitlines()[-1:] or code)

    def version(self):
        return output_of(["podman", "--version"])

    def argv(self, who, command, limits):
        self.names += 1
        most = ["--memory", f"{LIMITS['mem_mb']}m", "--memory-swap",
                f"{LIMITS['mem_mb']}m", "--pids-limit", str(LIMITS["pids"])]
        return [*self.store, "run", "--network", "none", "--name",
                f"peers{self.names}", "--cgroup-parent", self.group,
                "--workdir", HOME[who], "--user", str(ME[who]), *self.low,
                *(most if limits else ()), "peers", *command]

    def end(self):
        subprocess.run([*self.store, "rm", "-f", "-a", "-t", "0"],
                       capture_output=True)

    def close(self):
        self.end()
        for line in harness.read("/proc/self/mountinfo").splitlines():
            at, kind = line.split()[4], line.split(" - ")[1].split()[0]
            if at.startswith(self.dir + "/"):
                subprocess.run(["umount", "-l", at], capture_output=True)
            elif kind in ("cgroup", "cgroup2"):
                for path, _, _ in os.walk(at + self.group, topdown=False):
                    with contextlib.suppress(OSError):
                        os.rmdir(path)


class Runsc(Peer):
    """As Docker would call it: a bundle of `runsc spec`, its root an overlay."""
    name, title = "runsc", "runsc (gVisor)"
    needs = {"runsc": "runsc"}
    own_kernel = True

    def start(self):
        self.count, self.mounts = 0, []
        self.group = f"/carrel-peers-{os.getpid()}-runsc"
        self.call = ["runsc", "--root", f"{self.dir}/state", "--network=none",
                     "--platform=ptrace"]
        for self.flags, how in (([], ""), (["--ignore-cgroups"], "no cgroups")):
            code, out, err = self.run("user", ["/bin/echo", "hi"])
            if (code, out) == (0, "hi\n"):
                self.ways.append("ptrace" + (", " + how if how else ""))
                return
        raise AssertionError(err.strip().splitlines()[-1:] or code)

    def version(self):
        return output_of(["runsc", "--version"])

    def bundle(self, who, command, limits):
        self.count += 1
        at = f"{self.dir}/b{self.count}"
        for name in ("upper", "work", "rootfs"):
            os.makedirs(f"{at}/{name}")
        subprocess.run(["mount", "-t", "overlay", "overlay", "-o",
                        f"lowerdir={self.root},upperdir={at}/upper,"
                        f"workdir={at}/work", f"{at}/rootfs"], check=True)
        self.mounts.append(f"{at}/rootfs")
        subprocess.run(["runsc", "spec"], cwd=at, check=True,
                       capture_output=True)
        with open(f"{at}/config.json") as f:
            conf = json.load(f)
        conf["process"].update(args=command, cwd=HOME[who], terminal=False,
                               user={"uid": ME[who], "gid": ME[who]})
        if who == "user":
            conf["process"]["capabilities"] = {}
        conf["root"]["readonly"] = False
        conf["linux"]["cgroupsPath"] = f"{self.group}/{self.count}"
        if limits:
            conf["linux"]["resources"] = {
                "memory": {"limit": LIMITS["mem_mb"] * MIB},
                "pids": {"limit": LIMITS["pids"]}}
        with open(f"{at}/config.json", "w") as f:
            json.dump(conf, f)
        return at

    def argv(self, who, command, limits):
        return [*self.call, *self.flags, "run", "--bundle",
                self.bundle(who, command, limits), f"peers{self.count}"]

    def seen(self):
        found = {}
        for p in processes(self.dir + "/state"):
            word = harness.read(f"/proc/{p}/cmdline", " ").split("\0")[0]
            if word in ("runsc-sandbox", "runsc-gofer"):
                found[word.removeprefix("runsc-")] = p
        return found

    def left(self):
        return processes(self.tag, self.dir)

    def end(self):
        for n in range(1, self.count + 1):
            subprocess.run([*self.call, "delete", "-force", f"peers{n}"],
                           capture_output=True)

    def close(self):
        self.end()
        for at in self.mounts:
            subprocess.run(["umount", "-l", at], capture_output=True)
        for top in harness.cgroup_roots():
            for path, _, _ in os.walk(top + self.group, topdown=False):
                with contextlib.suppress(OSError):
                    os.rmdir(path)


class Carrel(Peer):
    """Ours."""
    name, title = "carrel", "Carrel"
    strict = limits_disk = True
    probe = attack.INSIDE
    conf, spec = {}, {}

    def start(self):
        self.i = harness.Instance(image=None, pool_size="1G", **self.conf)
        r = attack.put_image(self.i, "attack", self.tar)
        assert r.status == 201, r
        self.boxes = {}  # limits or none: sandbox

    def make(self, limits):
        spec = {"memory": LIMITS["mem_mb"] * MIB, "pids": LIMITS["pids"],
                "disk": LIMITS["disk_mb"] * MIB} if limits else {}
        box = self.i.create(image="attack", **self.spec, **spec)
        attack.put_probe(self.i, box)
        return box

    def version(self):
        return output_of([f"{self.i.bin}/carrel", "version"])

    def argv(self, who, command, limits):
        if limits not in self.boxes:
            self.boxes[limits] = self.make(limits)
        return ["env", f"CARREL_SOCKET={self.i.sock}", f"{self.i.bin}/carrel",
                "exec", self.boxes[limits], "--",
                *(["sudo"] if who == "root" else ()), *command]

    def hold(self, who, command):
        """In a sandbox of its own: what runs next is its neighbour."""
        p = super().hold(who, command)
        del self.boxes[False]
        return p

    def hostpath(self):
        return os.path.basename(self.i.dir)

    def disk(self):
        return self.i.pool()

    def left(self):
        return processes(self.tag) + self.i.box_pids()

    def end(self):
        for box in self.i.ids():
            self.i.rm(box)
        self.boxes = {}

    def close(self):
        self.i.stop()


class CarrelVm(Carrel):
    """Ours, with a kernel of its own. What calls the host's is QEMU."""
    name, title = "carrel-vm", "Carrel, microvm"
    needs = {"qemu-system-x86_64": "qemu-system-x86"}
    own_kernel = True
    spec = {"tier": "microvm"}

    def start(self):
        self.conf = {"vm_dir": harness.vm_dir()}
        super().start()

    def seen(self):
        return {harness.read(f"/proc/{p}/comm", " ").strip()[:4]: p
                for p in self.i.box_pids()}


PEERS = (Carrel, CarrelVm, Runsc, Podman, BwrapAll, Bwrap, Nothing)


# ---------------------------------------------------------------------------
# Verdicts


def fact(pid):
    """One process, as the host sees it."""
    s = attack.status(pid)
    own = os.readlink(f"/proc/{pid}/ns/user") != \
        os.readlink("/proc/self/ns/user")
    return {"uid": int(s["Uid"].split()[1]), "capabilities": s["CapEff"],
            "no_new_privs": s["NoNewPrivs"] == "1", "user_namespace": own,
            "calls": len(filters.surface(pid))}


class Judge:
    """All rows under one peer."""

    def __init__(self, peer):
        self.peer = peer
        self.rows, self.facts = {}, {}
        self.touched = []

    def argv(self, names, params):
        return [self.peer.probe, *names, self.peer.tag, "slow=4",
                *(() if self.peer.strict else ("peer=1",)),
                *(f"{k}={v}" for k, v in params.items())]

    def parse(self, who, names, result):
        code, out, err = result
        found = {}
        for line in out.splitlines():
            m = re.match(r"([A-Z]\d+) (HELD|BROKEN breach:|BROKEN gap:|OBSERVED|"
                         r"SKIP)[ (]?(.*)$", line)
            if m:
                word = m[2].removeprefix("BROKEN ").rstrip(":").lower()
                found[m[1]] = {"verdict": {"skip": "-"}.get(word, word),
                               "detail": m[3].rstrip(")") if word == "skip"
                               else m[3]}
        if not found:
            raise AssertionError(f"{self.peer.title}, {who}: {' '.join(names)} "
                                 f"said nothing, status {code}: {err[-500:]}")
        return found

    def probe(self, who, names, limits=False, **params):
        result = self.peer.run(who, self.argv(names, params), limits)
        self.rows.setdefault(who, {}).update(self.parse(who, names, result))

    def set(self, who, row, verdict, detail):
        self.rows[who][row] = {"verdict": verdict, "detail": detail}

    def run(self):
        for who in self.peer.identities:
            canaries, log = attack.Canaries(), attack.KernelLog()
            try:
                self.attack(who, canaries)
                self.crashes(who, log)
                self.touched += [f"{who}: {t}" for t in canaries.touched()]
            finally:
                canaries.close()
                log.close()
            for row, v in self.rows[who].items():
                mine = row not in OF_THE_HOST and v["verdict"] == "breach" or \
                    row not in OF_THE_HOST - {"A11"} and v["verdict"] == "gap"
                if self.peer.own_kernel and mine:
                    v["verdict"] = "own"

    def attack(self, who, canaries):
        params = {"port": canaries.port, "host": "192.0.2.1",
                  "abstract": canaries.abstract,
                  "hostpid": canaries.process.pid, "shmkey": canaries.shmkey,
                  "shm": canaries.shm, "hostpath": self.peer.hostpath(),
                  "flag": canaries.flag,
                  "suid": "/usr/local/bin/suid-probe",
                  "capfile": "/usr/local/bin/cap-probe"}
        if self.peer.name == "none":
            params.update(suid=f"{self.peer.root}/usr/local/bin/suid-probe",
                          capfile=f"{self.peer.root}/usr/local/bin/cap-probe")
        self.probe(who, ["all"], **params)
        self.left_for_the_host(who)
        for row in LIMITED:
            self.limit(who, row)
        self.locks(who)
        self.survivors(who)

    def limit(self, who, row):
        """One that is given no limit says so; one may end as a whole."""
        limits = LIMITED[row] != "disk" or self.peer.limits_disk
        if limits:
            code, out, err = self.peer.run(who, ["/bin/echo", "hi"], True)
            assert (code, out) == (0, "hi\n"), f"{self.peer.title}: {err}"
        code, out, err = self.peer.run(who, self.argv([row], LIMITS), limits)
        if limits and code not in (0, 1) and not out:
            self.set(who, row, "held", f"the sandbox ended, status {code}")
        else:
            self.rows[who].update(self.parse(who, [row], (code, out, err)))

    def crashes(self, who, log):
        n = len([x for x in log.lines() if "probe" in x])
        self.set(who, "D23", "held" if n < 100 else "breach",
                 f"{n} lines of the kernel's log")

    def left_for_the_host(self, who):
        """A10: a setuid file that another user of the host can start."""
        paths = subprocess.run(
            ["find", self.peer.disk(), "-name", "a10-suid"],
            capture_output=True, text=True).stdout.splitlines()
        if os.path.exists("/tmp/a10-suid"):
            paths.append("/tmp/a10-suid")
        detail = f"{len(paths)} on disk, out of reach"
        for path in paths:
            p = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534",
                                "--clear-groups", "test", "-x", path])
            if p.returncode == 0 and \
                    not os.statvfs(path).f_flag & os.ST_NOSUID:
                detail = f"{path} can be started"
        self.set(who, "A10", "breach" if "started" in detail else "held", detail)
        with contextlib.suppress(FileNotFoundError):
            os.unlink("/tmp/a10-suid")

    def locks(self, who):
        """B18, of two sandboxes."""
        first = self.peer.hold(who, [self.peer.probe, "B18", "lock=hold",
                                     "seconds=300", self.peer.tag])
        try:
            line = first.stderr.readline().decode()
            assert line == "holding\n", f"{self.peer.title}: B18: {line}"
            self.facts[who] = {what: fact(pid) for what, pid in
                               self.peer.seen().items()}
            self.probe(who, ["B18"], lock="try")
        finally:
            first.kill()
            first.wait()
            first.stderr.close()
            self.peer.end()

    def survivors(self, who):
        """C5: nothing of it runs when it has ended."""
        self.probe(who, ["C5"], hold=1)
        self.peer.end()
        until = time.monotonic() + 2 * harness.SLOW
        while (left := self.peer.left()) and time.monotonic() < until:
            time.sleep(0.05)
        self.set(who, "C5", "breach" if left else "held",
                 f"{len(left)} processes are left")
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, 9)


# ---------------------------------------------------------------------------
# Tables


ORDER = ("breach", "gap", "own", "held", "-")


def cell(found, row):
    words = [found[who].get(row, {"verdict": "-"})["verdict"]
             .replace("breach", "open") for who in found]
    return words[0] if len(set(words)) == 1 else " / ".join(words)


def count(found, word):
    """Rows whose worst verdict is this one."""
    n = 0
    for row in set(found["user"]) - set(LEFT_OUT):
        n += word == min((found[who][row]["verdict"] for who in found
                          if row in found[who]), key=ORDER.index)
    return n


def table(head, lines):
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for line in lines:
        yield "| " + " | ".join(map(str, line)) + " |"
    yield ""


def seen_table(results):
    """What the host's kernel is asked by, as the user and as root inside."""
    total = len(filters.syscalls())
    lines = []
    for r in results:
        for who, parts in r["facts"].items():
            for what, f in parts.items():
                lines.append((
                    f"{r['title']}{', ' + what if what else ''}", who,
                    f["uid"] if f["uid"] < 65536 else "nobody else's",
                    f"`{int(f['capabilities'], 16):x}`",
                    "own" if f["user_namespace"] else "the host's",
                    "yes" if f["no_new_privs"] else "no", f["calls"]))
    return table(("process", "inside it is", "uid on the host", "capabilities",
                  "user namespace", "no_new_privs",
                  f"system calls of {total} that reach the host's kernel"), lines)


def by_number(item):
    return item[0][0], int(item[0][1:])


def markdown(results):
    names = attack.rows()
    yield LEGEND
    yield ""
    yield from seen_table(results)
    yield from table(("rows", *(r["title"] for r in results)), [
        *((word.replace("breach", "open"),
           *(count(r["rows"], word) for r in results)) for word in ORDER),
        ("canaries of the host touched",
         *(len({re.sub("^.*: |@.*", "", t) for t in r["touched"]}) or "none"
           for r in results))])
    yield from table(("row", "attack", *(r["title"] for r in results)), [
        (row, what.removesuffix(" (by name only)"),
         *(cell(r["rows"], row) for r in results))
        for row, (what, _) in sorted(names.items(), key=by_number)
        if row not in LEFT_OUT])
    yield "Left out: " + "; ".join(f"{row} ({why})" for row, why in
                                   LEFT_OUT.items()) + "."
    yield "Versions: " + "; ".join(
        f"{r['title']}: {', '.join(filter(None, [r['version'], *r['ways']]))}"
        for r in results if r["version"]) + f"; kernel {os.uname().release.split('-')[0]}" + \
        ("" if os.path.exists("/sys/module/apparmor") else
         ", without AppArmor, which would be one more wall of podman") + "."


def update(path, lines):
    text = harness.read(path)
    head, _, rest = text.partition(BEGIN)
    _, mark, tail = rest.partition(END)
    if not mark:
        sys.exit(f"{path} has no lines {BEGIN} and {END}")
    with open(path, "w") as f:
        f.write(head + BEGIN + "\n" + "\n".join(lines) + "\n" + END + tail)


# ---------------------------------------------------------------------------


def make_root(scratch):
    """The tiny image with the probe, as a tar and as a directory."""
    tar, root = f"{scratch}/root.tar", f"{scratch}/root"
    test_escape.attack_image(tar)
    with tarfile.open(tar, "a", format=tarfile.PAX_FORMAT) as t:
        info = t.gettarinfo(attack.PROBE, "./probe")
        info.uid = info.gid = 0
        with open(attack.PROBE, "rb") as f:
            t.addfile(info, f)
    os.mkdir(root)
    subprocess.run(["tar", "--xattrs", "--xattrs-include=*", "-xf", tar, "-C",
                    root], check=True)
    for name in ("dev", "proc", "sys"):
        os.makedirs(f"{root}/{name}", exist_ok=True)
    return root, tar


def judge(kind, scratch, root, tar):
    at = f"{scratch}/{kind.name}"
    os.mkdir(at)
    peer = kind(at, root, tar)
    j = Judge(peer)
    try:
        peer.start()
        version = peer.version()
        j.run()
    finally:
        peer.close()
    return {"name": kind.name, "title": kind.title, "version": version,
            "ways": peer.ways, "rows": j.rows, "facts": j.facts,
            "touched": j.touched}


def missing(kinds):
    return sorted({package for k in kinds for program, package in
                   k.needs.items() if not shutil.which(program)})


def run(kinds):
    scratch = f"{harness.SCRATCH}/peers-{secrets.token_hex(4)}"
    os.mkdir(scratch, 0o755)
    results = []
    try:
        root, tar = make_root(scratch)
        for kind in kinds:
            print(f"# {kind.title}", file=sys.stderr, flush=True)
            results.append(judge(kind, scratch, root, tar))
    finally:
        subprocess.run(["rm", "-rf", "--one-file-system", scratch])
    return results


def show(results, args):
    if args.json:
        with open(args.json, "w") as f:
            json.dump(results, f, indent=1)
    lines = list(markdown(results))
    print("\n".join(lines))
    if args.update:
        update(args.update, lines)


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--only", default="", help="names, with commas: " +
                   ",".join(k.name for k in PEERS))
    p.add_argument("--json", metavar="FILE")
    p.add_argument("--update", metavar="FILE")
    p.add_argument("--read", metavar="FILE")
    args = p.parse_args()
    if args.read:
        show(json.loads(harness.read(args.read)), args)
        return
    kinds = [k for k in PEERS if not args.only or k.name in args.only.split(",")]
    if missing(kinds):
        sys.exit(f"missing: {' '.join(missing(kinds))}; install them with "
                 f"apt-get install {' '.join(missing(kinds))}, or name others "
                 "with --only")
    show(run(kinds), args)


if __name__ == "__main__":
    attack.own_network()
    harness.hide_installed()
    main()
