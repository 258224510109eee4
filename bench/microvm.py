"""How fast machines of the tier microvm start: booted, cloned, cloned ahead,
restored; what a snapshot stops them for, and what an idle one costs."""

import array
import json
import os
import socket
import statistics
import tempfile
import threading
import time

import harness

TIMES = 7
BOOTS = 3
FORKS = 10
DIRTY = 50 << 20
SPEC = {"tier": "microvm", "cpus": 2, "memory": "256M", "disk": "256M"}


class Log:
    """When which line of the daemon's log was there."""

    def __init__(self, i):
        self.path, self.seen, self.on = i.log_path, [], True
        self.thread = threading.Thread(target=self.watch, daemon=True)
        self.thread.start()

    def watch(self):
        with open(self.path) as f:
            f.seek(0, os.SEEK_END)
            while self.on:
                line = f.readline()
                if line:
                    self.seen.append((time.monotonic(), line))
                else:
                    time.sleep(0.002)

    def between(self, first, last):
        a = [t for t, line in self.seen if first in line]
        b = [t for t, line in self.seen if last in line]
        return [y - x for x, y in zip(a, b)]

    def end(self):
        self.on = False
        self.thread.join()


def first_output(i, box, argv=("echo", "hi")):
    w = i.exec_wire(box)
    w.spawn(list(argv))
    code, out, err = w.finish()
    w.close()
    if code:
        raise RuntimeError(f"{argv}: {code} {err!r}")
    return out


def start(i, body, path="/v1/sandboxes"):
    """(until it answers, until its first output, id), in seconds."""
    began = time.monotonic()
    r = i.api("POST", path, body, timeout=300)
    if r.status != 201:
        raise RuntimeError(f"{path}: {r}")
    pong = time.monotonic() - began
    box = r.json["id"]
    first_output(i, box)
    return pong, time.monotonic() - began, box


def many(i, times, body=SPEC, settle=0):
    rows = []
    for _ in range(times):
        time.sleep(settle)
        pong, out, box = start(i, body)
        rows.append((pong, out))
        i.rm(box)
    return [statistics.median(column) for column in zip(*rows)]


def cold(i, log):
    """Boots of machines that nobody has booted: each of another shape."""
    for n in range(BOOTS):
        _, _, box = start(i, dict(SPEC, pids=300 + n))
        i.rm(box)
    boots = log.between("event=template_boots", "event=template_made")
    if len(boots) != BOOTS:
        raise RuntimeError(f"{len(boots)} boots in the log, not {BOOTS}")
    return statistics.median(boots)


def qemu_of(i, box):
    """There are other machines, and each has a relay beside it."""
    for pid in i.box_pids():
        words = harness.read(f"/proc/{pid}/cmdline", "").split("\0")
        if "qemu" in words[0] and box in words:
            return pid
    raise RuntimeError(f"{box} has no QEMU")


def anonymous_of(pid):
    with open(f"/proc/{pid}/smaps_rollup") as f:
        kib = next(int(x.split()[1]) for x in f if x.startswith("Anonymous:"))
    return kib / 1024


def anonymous(i):
    """(of one QEMU whose guest answers, and was asked for nothing yet; of the
    same one after a command), both idle."""
    r = i.api("POST", "/v1/sandboxes", SPEC, timeout=300)
    if r.status != 201:
        raise RuntimeError(f"create: {r}")
    box = r.json["id"]
    found = []
    for done in (False, True):
        if done:
            first_output(i, box)
        time.sleep(2)
        found.append(anonymous_of(qemu_of(i, box)))
    i.rm(box)
    return found


class Monitor:
    """QEMU's own, spoken to as the warden does."""

    def __init__(self, i, box):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(120)
        self.sock.connect(f"{i.run_dir}/box/{box}/qmp.sock")
        self.lines = self.sock.makefile()
        self.lines.readline()
        self.run("qmp_capabilities")

    def run(self, command, fd=None, **arguments):
        rights = [] if fd is None else [
            (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))]
        self.sock.sendmsg([json.dumps({"execute": command,
                                       "arguments": arguments}).encode()], rights)
        while True:
            answer = json.loads(self.lines.readline())
            if "error" in answer:
                raise RuntimeError(f"{command}: {answer['error']}")
            if "return" in answer:
                return answer["return"]

    def close(self):
        self.lines.close()
        self.sock.close()


def full_save(i, box):
    """As long as QEMU takes to write all of the machine into a file."""
    q = Monitor(i, box)
    with tempfile.TemporaryFile(dir=i.dir) as f:
        q.run("migrate-set-parameters", **{"max-bandwidth": 8 << 30})
        q.run("stop")
        began = time.monotonic()
        q.run("getfd", fd=f.fileno(), fdname="all")
        q.run("migrate", uri="fd:all")
        while (status := q.run("query-migrate")["status"]) != "completed":
            if status in ("failed", "cancelled"):
                raise RuntimeError(f"full save: {status}")
            time.sleep(0.001)
        took = time.monotonic() - began
    q.close()
    return took


def snapshots(i):
    """(pause, full save, restore until first output) of a machine with memory
    that was written."""
    _, _, box = start(i, SPEC)
    first_output(i, box, ["sh", "-c", f"head -c {DIRTY} /dev/urandom > /dev/shm/x"])
    pauses, restores = [], []
    for _ in range(TIMES):
        r = i.api("POST", f"/v1/sandboxes/{box}/snapshots", {}, timeout=300)
        if r.status != 201:
            raise RuntimeError(f"snapshot: {r}")
        pauses.append(r.json["pause_us"] / 1e6)
        began = time.monotonic()
        r = i.api("POST", f"/v1/sandboxes/{r.json['id']}/fork", {}, timeout=300)
        if r.status != 201:
            raise RuntimeError(f"fork of a snapshot: {r}")
        again = r.json["sandboxes"][0]["id"]
        first_output(i, again)
        restores.append(time.monotonic() - began)
        i.rm(again)
    whole = full_save(i, box)
    i.rm(box)
    return statistics.median(pauses), whole, statistics.median(restores)


def resumed(i):
    """Resume until first output of a machine that has run a command."""
    _, _, box = start(i, SPEC)
    first_output(i, box)
    took = []
    for _ in range(TIMES):
        for what in ("pause", "resume"):
            began = time.monotonic()
            r = i.api("POST", f"/v1/sandboxes/{box}/{what}", {}, timeout=300)
            if r.status != 200:
                raise RuntimeError(f"{what}: {r}")
        first_output(i, box)
        took.append(time.monotonic() - began)
    i.rm(box)
    return statistics.median(took)


def forks(i):
    _, _, box = start(i, SPEC)
    began = time.monotonic()
    r = i.api("POST", f"/v1/sandboxes/{box}/fork", {"count": FORKS}, timeout=300)
    if r.status not in (200, 201):
        raise RuntimeError(f"fork: {r}")
    for one in r.json["sandboxes"]:
        first_output(i, one["id"])
    took = time.monotonic() - began
    i.api("DELETE", "/v1/sandboxes?all=true", timeout=60)
    return took


def tried(say, what, fn, *args):
    """Its result; what cannot be measured is said, and a missed target."""
    try:
        return fn(*args)
    except (RuntimeError, OSError, EOFError, KeyError,
            harness.WireError, StopIteration) as e:
        say(f"  {what}: not measured: {e}")
        return None


def ratio(a, b):
    return None if a is None or b is None else a / b


def part(say, judge):
    say("\nmicroVMs (emulated: read ratios)")
    conf = {"vm_dir": harness.vm_dir(), "pool_size": "4G"}
    with harness.Instance(**conf) as i:
        log = Log(i)
        boot = tried(say, "cold boot", cold, i, log)
        log.end()
        start(i, SPEC)  # its template
        clone = tried(say, "clone", many, i, TIMES) or (None, None)
        anon, later = tried(say, "memory", anonymous, i) or (None, None)
        pause, whole, restore = tried(say, "snapshot", snapshots, i) or \
            (None, None, None)
        resume = tried(say, "resume", resumed, i)
        fork = tried(say, "fork", forks, i)
    with harness.Instance(**conf, microvm_spares=2, cpus=2) as i:
        start(i, SPEC)
        ahead = tried(say, "made ahead", many, i, TIMES, SPEC, 3) or (None, None)
    for name, value in (("cold boot", boot), ("clone, answers", clone[0]),
                        ("clone, first output", clone[1]),
                        ("made ahead, answers", ahead[0]),
                        ("made ahead, first output", ahead[1]),
                        ("snapshot, pause", pause),
                        ("full save by QEMU", whole),
                        ("resumed, first output", resume),
                        ("restored with 50 MB, first output", restore),
                        (f"fork of {FORKS}, all answer", fork)):
        if value is not None:
            say(f"  {name:34}{value * 1000:9.1f} ms")
    if anon is not None:
        say(f"  {'idle clone, anonymous memory':34}{anon:9.1f} MiB")
        say(f"  {'the same after a command':34}{later:9.1f} MiB")
    judge("clone until it answers, of a cold boot", ratio(clone[0], boot), 0.06)
    judge("made ahead until it answers, of a cold boot", ratio(ahead[0], boot), 0.03)
    judge("clone until first output, of a cold boot", ratio(clone[1], boot), 0.12)
    judge("made ahead until first output, of a cold boot",
          ratio(ahead[1], boot), 0.08)
    judge("pause of a snapshot, of a full save", ratio(pause, whole), 0.1)
    judge("resumed until first output, of a cold boot", ratio(resume, boot), 0.15)
    judge("restored with 50 MB until first output, of a cold boot",
          ratio(restore, boot), 0.15)
    judge("anonymous memory of an idle clone, emulated", anon, 25, "MiB")
