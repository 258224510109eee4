"""What works while the host is disturbed, and remembers what it was told: each
witness is a thread (or many) with `stop`, a `check` that is called when all is
quiet again and returns what was lost, and `figures` for the summary."""

import contextlib
import hashlib
import http.client
import random
import secrets
import threading
import time

import harness
from harness import SLOW, WireError, wait_for
from internet import Inside
from test_chaos import Reader
from test_state_chaos import FILE, Model

BROKEN = (OSError, EOFError, WireError, http.client.HTTPException)
# Refusals that leave no doubt: nothing was done.
NOT_DONE = (404, 409, 410, 429)


def ask(i, method, path, body=None, headers=None):
    """The answer, or None when there is none."""
    began = time.monotonic()
    try:
        return i.api(method, path, body, headers, timeout=60 * SLOW)
    except BROKEN:
        return None
    finally:
        took = time.monotonic() - began
        if took > 10 * SLOW:
            print(f"# {method} {path} took {took:.0f} s", flush=True)


def insist(i, method, path, body, wanted, headers=None, seconds=120):
    """Asks until it is answered so: for when all is quiet again."""
    def once():
        r = ask(i, method, path, body, headers)
        return r if r and r.status in wanted else None
    return wait_for(f"{method} {path}", once, seconds * SLOW, 0.1)


class Witness(threading.Thread):
    def __init__(self, i, seed):
        super().__init__(daemon=True)
        self.i, self.rng = i, random.Random(seed)
        self.over = threading.Event()
        self.problem = None
        self.answered = self.refused = self.unanswered = 0

    def run(self):
        try:
            self.prepare()
            while not self.over.is_set():
                self.step()
        except Exception as e:  # shown by who waits for us
            self.problem = e

    def prepare(self):
        pass

    def stop(self):
        self.over.set()

    def count(self, r):
        """Of an answer: True, done; False, not done; None, who knows."""
        if r is None:
            self.unanswered += 1
            self.over.wait(0.05)
            return None
        if r.status < 300:
            self.answered += 1
            return True
        self.refused += 1
        self.over.wait(0.02)
        return False if r.status in NOT_DONE else None

    def figures(self):
        return (f"{self.answered} done, {self.refused} refused, "
                f"{self.unanswered} without an answer")


class Lines:
    """Streams: every line of every process, once and in order."""
    NAME = "streams"

    def __init__(self, i, boxes):
        self.i, self.boxes = i, boxes
        self.readers = [Reader(i, b) for b in boxes]

    def start(self):
        for r in self.readers:
            r.start()
        wait_for("all processes run", lambda: all(
            r.attached for r in self.readers), 120 * SLOW)

    def stop(self):
        pass

    def check(self):
        for box in self.boxes:
            insist(self.i, "POST", f"/v1/sandboxes/{box}/run",
                   {"command": "touch /tmp/stop"}, (200,))
        for r in self.readers:
            r.join(120 * SLOW)
            lines = r.data.decode(errors="replace").splitlines()
            if r.is_alive() or r.problem or r.code != 7:
                yield f"stream of {r.box}: {r.problem or r.code}"
            elif lines != [f"line {n + 1}" for n in range(len(lines))]:
                yield f"stream of {r.box}: lines are missing"

    def figures(self):
        return (f"{sum(len(r.data) for r in self.readers)} bytes of "
                f"{len(self.readers)} processes, "
                f"{sum(r.reconnects for r in self.readers)} connections")


class Files(Witness):
    """Files in sandboxes. What was acknowledged is there as it was sent; what
    was not is whole or absent."""
    NAME = "files in sandboxes"
    KEEP = 40

    def __init__(self, i, seed, boxes):
        super().__init__(i, seed)
        self.boxes, self.kept = boxes, {b: {} for b in boxes}
        self.doubtful, self.n = {}, 0

    def path(self, box, name):
        return f"/v1/sandboxes/{box}/files/content?path=/home/user/{name}"

    def step(self):
        box = self.rng.choice(self.boxes)
        kept = self.kept[box]
        if len(kept) >= self.KEEP:
            self.drop(box, self.rng.choice(sorted(kept)))
        self.n += 1
        name = f"f{self.n}"
        data = self.rng.randbytes(self.rng.randrange(1, 16384))
        done = self.count(ask(self.i, "PUT", self.path(box, name), data))
        if done:
            kept[name] = hashlib.sha256(data).digest()
        elif done is None:
            self.doubtful[box, name] = hashlib.sha256(data).digest()

    def drop(self, box, name):
        """Asked for and perhaps done: nothing can be said of it any more."""
        del self.kept[box][name]
        ask(self.i, "DELETE", f"/v1/sandboxes/{box}/files?path=/home/user/"
            f"{name}")

    def check(self):
        for box, kept in self.kept.items():
            for name, sha in kept.items():
                r = insist(self.i, "GET", self.path(box, name), None,
                           (200, 404, 410))
                if r.status != 200 or hashlib.sha256(r.body).digest() != sha:
                    yield f"file {name} of {box}: {r}"
        for (box, name), sha in list(self.doubtful.items())[-100:]:
            r = insist(self.i, "GET", self.path(box, name), None, (200, 404))
            if r.status == 200 and hashlib.sha256(r.body).digest() != sha:
                yield f"file {name} of {box} is half there"


class Drive(Witness):
    """Files of the drive, on disk before the answer."""
    NAME = "drive"

    def __init__(self, i, seed):
        super().__init__(i, seed)
        self.kept, self.n = {}, 0

    def step(self):
        self.n += 1
        data = self.rng.randbytes(self.rng.randrange(1, 65536))
        name = f"d/{self.n}"
        if self.count(ask(self.i, "PUT", f"/v1/drive/files/{name}", data)):
            self.kept[name] = hashlib.sha256(data).digest()
        self.over.wait(0.05)

    def check(self):
        for name, sha in self.kept.items():
            r = insist(self.i, "GET", f"/v1/drive/files/{name}", None,
                       (200, 404, 500))
            if r.status != 200 or hashlib.sha256(r.body).digest() != sha:
                yield f"drive {name}: {r}"


class Sure(Model):
    """Also knows what must be there, because it was said to be."""

    def __init__(self, i, rng, count, keep):
        super().__init__(i, rng)
        self.count, self.keep = count, keep
        self.sure_boxes, self.sure_snaps = set(), set()

    def answer(self, method, path, body):
        r = ask(self.i, method, path, body)
        done = self.count(r)
        last = path.split("/")[-1]
        if r and r.status == 404:
            self.forget(path)
        if method == "DELETE" and done is not False:
            self.sure_boxes.discard(last)
            self.sure_snaps.discard(last)
        elif done and last in ("sandboxes", "fork"):
            self.sure_boxes.add(body["name"])
        elif done and last == "snapshots":
            self.sure_snaps.add(body["name"])
        return done

    def forget(self, path):
        """One that nobody was sure of has never been."""
        for name in path.split("/")[3:4]:
            if name not in self.sure_boxes | self.sure_snaps:
                self.boxes.pop(name, None)
                self.snaps.pop(name, None)

    def write(self):
        """The old number or the new one, also when there is no space."""
        box, number = self.any_box(), str(self.rng.randrange(10 ** 9))
        r = ask(self.i, "POST", f"/v1/sandboxes/{box}/run", {
            "command": f"echo {number} > {FILE}.new && mv {FILE}.new {FILE}"})
        done = self.count(r)
        if done and r.json["exit"]["code"] == 0:
            self.boxes[box] = {number}
        elif done is not False:
            self.boxes[box] = self.boxes[box] | {number}

    STEPS = ((write, 6), *Model.STEPS[1:])

    def step(self):
        what = self.rng.choices([s for s, _ in self.STEPS],
                                [w for _, w in self.STEPS])[0]
        what(self)
        if len(self.snaps) > self.keep:
            self.drop_snapshot()
        while not self.boxes:
            self.create()


class State(Witness):
    """Snapshots, forks, rollbacks, pauses: done or not done, never half; and
    what was said to be done is there."""
    NAME = "states"

    def __init__(self, i, seed, keep):
        super().__init__(i, seed)
        self.model = Sure(i, self.rng, self.count, keep)

    def prepare(self):
        while len(self.model.sure_boxes) < 3:
            self.model.create()

    def step(self):
        self.model.step()

    def number(self, box):
        return insist(self.i, "POST", f"/v1/sandboxes/{box}/run",
                      {"command": f"cat {FILE} 2>/dev/null"},
                      (200,)).json["stdout"].strip()

    def wrong(self, name, box, may):
        got = self.number(box)
        if got not in may:
            yield f"{name} holds {got!r}, not one of {sorted(may)}"

    def check(self):
        m = self.model
        boxes = {b["name"]: b["id"] for b in insist(
            self.i, "GET", "/v1/sandboxes?limit=1000", None,
            (200,)).json["sandboxes"] if b["name"]}
        snaps = {s["name"]: s["id"] for s in insist(
            self.i, "GET", "/v1/snapshots", None, (200,)).json["snapshots"]}
        for name in sorted(m.sure_boxes - set(boxes)):
            yield f"sandbox {name} is gone"
        for name in sorted(m.sure_snaps - set(snaps)):
            yield f"snapshot {name} is gone"
        for name in sorted(m.boxes.keys() & boxes.keys()):
            yield from self.wrong(f"sandbox {name}", boxes[name],
                                  m.boxes[name])
        for name in sorted(m.snaps.keys() & snaps.keys()):
            copy = insist(self.i, "POST", "/v1/sandboxes",
                          {"snapshot": snaps[name]}, (201,)).json["id"]
            yield from self.wrong(f"snapshot {name}", copy, m.snaps[name])
            insist(self.i, "DELETE", f"/v1/sandboxes/{copy}", None, (204, 404))


class Doors(Witness):
    """Requests that leave sandboxes: what a server outside saw is in the log."""
    NAME = "doors"

    def __init__(self, i, seed, boxes, web):
        super().__init__(i, seed)
        self.boxes, self.web, self.n = boxes, web, 0
        self.inside = [Inside(i, b) for b in boxes]

    def get(self, inside, path):
        try:
            sock = inside.connect(timeout=20 * SLOW)
            with contextlib.closing(sock):
                return inside.get(f"http://api.test{path}", sock=sock)
        except (*BROKEN, ValueError, IndexError):
            return None

    def step(self):
        self.n += 1
        self.count(self.get(self.rng.choice(self.inside), f"/n{self.n}"))
        self.over.wait(0.02)

    def check(self):
        for k, inside in enumerate(self.inside):
            wait_for(f"the door of {self.boxes[k]} is open", lambda: getattr(
                self.get(inside, f"/last{k}"), "status", 0) == 200, 60 * SLOW)

        def logged():
            return {e["data"].get("path") for e in self.i.entries()
                    if e["type"] == "egress.request"}
        wait_for("the last one is in the log",
                 lambda: f"/last{len(self.boxes) - 1}" in logged(), 60 * SLOW)
        seen = {r.target for r in self.web.requests}
        for path in sorted(seen - logged()):
            yield f"{path} left and is not in the log"
        for inside in self.inside:
            inside.close()


class Churn(Witness):
    """Sandboxes come and go. An answer that got lost is asked for again with
    the same key: there is one sandbox and not two."""
    NAME = "creates and removals"

    def insist(self, method, path, body, headers, wanted):
        while True:
            r = ask(self.i, method, path, body, headers)
            self.count(r)
            if r and r.status in wanted:
                return r.json
            if self.over.wait(0.05):
                return None

    def step(self):
        key = {"Idempotency-Key": secrets.token_hex(8)}
        box = self.insist("POST", "/v1/sandboxes", {}, key, (201,))
        if box:
            self.insist("DELETE", f"/v1/sandboxes/{box['id']}", None, None,
                        (204, 404, 410))

    def check(self):
        return []


class Pulse(Witness):
    """How long nobody answers: one small request after the other."""
    NAME = "pulse"

    def __init__(self, i, seed, box):
        super().__init__(i, seed)
        self.box, self.took, self.gaps = box, [], []

    def prepare(self):
        self.last = time.monotonic()

    def step(self):
        began = time.monotonic()
        r = ask(self.i, "POST", f"/v1/sandboxes/{self.box}/run",
                {"command": "true"})
        if self.count(r):
            now = time.monotonic()
            self.took.append(now - began)
            self.gaps.append(now - self.last)
            self.last = now
        self.over.wait(0.05)

    def check(self):
        return [] if self.took else ["nothing was ever answered"]

    def figures(self):
        t = sorted(self.took) or [0]
        return (f"{super().figures()}; an exec took "
                f"{t[len(t) // 2] * 1e3:.1f} ms, the slowest "
                f"{t[-1] * 1e3:.0f} ms; longest silence "
                f"{max(self.gaps or [0]):.1f} s")


def check_log(i):
    """Everything that was acknowledged is in the log, once; and it verifies."""
    p = i.cli("--config", i.config, "log", "verify", timeout=300)
    if p.returncode:
        yield f"the log does not verify: {p.out}{p.err}"
    wanted = set(i.acknowledged)

    def missing():
        seen = {}
        for e in i.entries():
            if e["type"] == "api.call":
                seen[e["request"]] = seen.get(e["request"], 0) + 1
        return wanted - set(seen), [r for r in wanted if seen.get(r, 0) > 1]
    deadline = time.monotonic() + 30 * SLOW
    lost, twice = missing()
    while lost and time.monotonic() < deadline:
        time.sleep(0.2)
        lost, twice = missing()
    for r in sorted(lost):
        yield f"request {r} was acknowledged and is not in the log"
    for r in twice:
        yield f"request {r} is in the log twice"
