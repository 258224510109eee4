# suite: slow
"""No failed system call makes a start end a sandbox or delete anything.

A population of all that can be lost is made once. Then the warden, and the
whole daemon, start again and again, each time with one system call that fails:
the first, the second, and so on, of each kind. The role may refuse to start, it
may start, and it may say what it could not do. Afterwards everything is there.
"""

import contextlib
import errno
import http.client
import os
import re
import resource
import signal
import struct
import subprocess
import time

import harness
from harness import SLOW, read, wait_for

FAULT = os.path.join(harness.BUILD, "unit/fault_run")
KINDS = {"open": (errno.EMFILE, errno.EIO), "list": (errno.EIO, errno.ENOMEM),
         "stat": (errno.EIO, errno.ENOMEM), "read": (errno.EIO, errno.ENOMEM),
         "pidfd": (errno.EMFILE, errno.ENOMEM),
         "write": (errno.ENOSPC, errno.EIO),
         "change": (errno.EROFS, errno.EIO), "ask": (errno.EIO, errno.ENOMEM)}
WARDEN_S = 60  # of all starts of the warden alone, and...
DAEMON_S = 30  # ...of the whole daemon
BOXES = 10  # more than the descriptors that a start needs for a moment
PARTS = ("images", "snap", "vol")


def spread(n):
    """1 to n, each once, in an order of which every part covers the whole."""
    step = next(k for k in range(max(1, int(n * 0.618)), n + 2)
                if all(n % p or k % p for p in range(2, k + 1)))
    return [(i * step) % n + 1 for i in range(n)]


class Faults(harness.Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        i = cls.i
        cls.boxes = [i.create(name=f"s{n}") for n in range(BOXES)]
        for box in cls.boxes:
            i.cli("exec", "-d", box, "--", "sleep", "100000", check=0)
        cls.ended = i.create(name="ended", persist=True)
        os.kill(cls.pid_of(cls.ended), signal.SIGKILL)
        wait_for("its disk is kept", lambda: cls.ended in cls.part("snap"),
                 10 * SLOW)
        cls.snap = i.api("POST", f"/v1/sandboxes/{cls.boxes[0]}/snapshots",
                         {"name": "point"}).json["id"]
        cls.volume = i.api("POST", "/v1/volumes",
                           {"name": "data", "size": "64M"}).json["id"]
        i.api("PUT", "/v1/drive/files/kept?project=default", b"kept")
        cls.wanted = cls.seen()
        i.end_daemon()
        cls.disks = {p: cls.part(p) for p in PARTS}
        cls.pids = wait_for("all sleep", cls.sleepers, 10 * SLOW)

    @classmethod
    def tearDownClass(cls):
        cls.i.end_daemon()
        cls.i.start()
        super().tearDownClass()

    def tearDown(self):
        pass  # the population is for all tests

    @classmethod
    def pid_of(cls, box):
        with open(f"{cls.i.run_dir}/box/{box}/record", "rb") as f:
            return struct.unpack_from("<i", f.read(20), 16)[0]

    @classmethod
    def sleepers(cls):
        """A process of each sandbox, with its start time; or None yet."""
        pids = [p for p in cls.i.box_pids()
                if read(f"/proc/{p}/comm", "") == "sleep\n"]
        return {p: cls.started(p) for p in pids} if len(pids) == BOXES else None

    @classmethod
    def part(cls, name):
        return sorted(x for x in os.listdir(f"{cls.i.pool()}/{name}"))

    @staticmethod
    def started(pid):
        return read(f"/proc/{pid}/stat", ") ").rpartition(")")[2].split()[19:20]

    @classmethod
    def get(cls, path):
        """The fault may hit the request itself; it comes only once."""
        def asked():
            with contextlib.suppress(OSError, http.client.HTTPException):
                r = cls.i.api("GET", path)
                return r if r.status == 200 else None
        return wait_for(f"GET {path}", asked, 20 * SLOW)

    @classmethod
    def seen(cls):
        """All that the API has, in what a start must not change."""
        got = {}
        for what, keys in (("sandboxes", ("id", "name", "state")),
                           ("snapshots", ("id", "name")),
                           ("images", ("name", "id")),
                           ("volumes", ("id", "name", "state"))):
            rows = cls.get(f"/v1/{what}").json[what]
            got[what] = sorted([r[k] for k in keys] for r in rows)
        got["drive"] = cls.get("/v1/drive/files/kept?project=default").body
        return got

    def put_back(self):
        """The disk of the persistent sandbox, as that of one that ended while
        no warden ran."""
        pool = self.i.pool()
        with contextlib.suppress(FileNotFoundError):
            os.rename(f"{pool}/snap/{self.ended}", f"{pool}/box/{self.ended}")

    def check_host(self, what):
        lost = [p for p, t in self.pids.items() if self.started(p) != t]
        self.assertEqual(lost, [], f"{what}: processes were killed")
        have = {p: set(self.part(p)) for p in PARTS + ("box",)}
        have["snap"] |= have["box"] & {self.ended}
        for part, ids in self.disks.items():
            self.assertEqual(sorted(have[part]), ids, f"{what}: {part}/")
        self.assertLessEqual(set(self.boxes), have["box"], what)
        self.assertLessEqual(set(self.boxes),
                             set(os.listdir(f"{self.i.run_dir}/box")), what)

    # -- the warden alone

    def start_warden(self, kind, nth, code):
        """Until it is ready or has ended. The calls that it made."""
        log = self.warden_log([FAULT, "carrel-warden", kind, nth, code])
        return int(re.search(rf"^{kind}: (\d+) calls", log, re.M)[1])

    def warden_log(self, before=(), look=None, **kw):
        """Starts the warden, `look`s when it is ready, ends it: its log."""
        path = f"{self.i.dir}/fault.log"
        self.i.write_conf()
        with open(path, "wb") as f:
            p = subprocess.Popen(
                [*map(str, before), f"{self.i.bin}/carrel-warden", "--config",
                 self.i.config], stdin=subprocess.DEVNULL, stdout=f, stderr=f,
                env=self.i.env(), start_new_session=True, **kw)
        wait_for(f"{before} is ready or has ended",
                 lambda: p.poll() is not None or " ready " in read(path),
                 20 * SLOW, step=0.002)
        if look:
            look(p.pid)
        p.terminate()
        p.wait(20 * SLOW)
        return read(path)

    def refuses(self, what, *words, **kw):
        """A start of the warden that ends with these words and loses nothing;
        once they do not hold any more, it starts."""
        log = self.warden_log(**kw)
        self.assertNotIn(" ready ", log)
        for word in words:
            self.assertIn(word, log)
        self.check_host(what)

    def test_warden_start_loses_nothing(self):
        calls = {k: self.start_warden(k, 0, 0) for k in KINDS}
        self.assertGreater(min(calls.values()), 2, calls)
        rounds = [(k, n, codes[n % 2]) for k, codes in KINDS.items()
                  for n in range(1, calls[k] + 1)]
        until, done = time.monotonic() + WARDEN_S * SLOW, 0
        for at in spread(len(rounds)):
            if time.monotonic() > until:
                break
            self.put_back()
            self.start_warden(*rounds[at - 1])
            self.check_host("warden: {} {}, errno {}".format(*rounds[at - 1]))
            done += 1
        print(f"# {done} of {len(rounds)} starts", flush=True)
        self.assertGreater(done, 50)

    def test_warden_short_of_descriptors_refuses_to_start(self):
        """At whichever descriptor it is: all are adopted, or none is ended."""
        highest, refused = [], 0
        self.warden_log(look=lambda pid: highest.append(
            max(map(int, os.listdir(f"/proc/{pid}/fd")))))
        for limit in range(highest[0] - 12, highest[0] + 2):
            log = self.warden_log(preexec_fn=lambda: resource.setrlimit(
                resource.RLIMIT_NOFILE, (limit, limit)))
            self.check_host(f"{limit} descriptors")
            if f"ready sandboxes={BOXES}" not in log:
                self.assertIn("Too many open files", log)
                refused += 1
        self.assertGreater(refused, 5)
        self.assertIn(f"ready sandboxes={BOXES}", self.warden_log())

    def test_damaged_record_of_a_living_sandbox_is_refused(self):
        path = f"{self.i.run_dir}/box/{self.boxes[1]}/record"
        with open(path, "rb") as f:
            good = f.read()
        self.assertEqual(good[:4], b"BOX\n")
        try:
            for name, bad in (("magic", b"XOB\n" + good[4:]),
                              ("version", good[:4] + b"\xff" + good[5:]),
                              ("cut", good[:100])):
                with open(path, "wb") as f:
                    f.write(bad)
                self.refuses(name, self.boxes[1], "damaged",
                             "remove its directory")
        finally:
            with open(path, "wb") as f:
                f.write(good)
        self.assertIn(f"ready sandboxes={BOXES}", self.warden_log())

    def test_changed_uid_base_is_refused(self):
        base = self.i.conf["uid_base"]
        self.i.conf["uid_base"] = base + 0x10100
        try:
            self.refuses("uid_base", "uid_base", "uid_count")
        finally:
            self.i.conf["uid_base"] = base
        self.assertIn(f"ready sandboxes={BOXES}", self.warden_log())

    def test_changed_run_dir_is_refused(self):
        """Where there are no records of what runs."""
        run_dir, self.i.conf["run_dir"] = self.i.run_dir, f"{self.i.dir}/other"
        try:
            for _ in range(2):
                self.refuses("run_dir", run_dir, "run_dir back")
        finally:
            self.i.conf["run_dir"] = run_dir
        self.assertIn(f"ready sandboxes={BOXES}", self.warden_log())

    # -- the whole daemon

    def start_daemon(self, role, kind, nth, code):
        """Until it answers: a role that has refused is started again, without
        a fault. The calls that the role made until then and in a moment more."""
        self.i.write_conf()
        log = f"{self.i.dir}/fault.log"
        with open(log, "wb") as f:
            self.i.daemon = subprocess.Popen(
                [FAULT, role, kind, str(nth), str(code),
                 f"{self.i.bin}/carreld", "--config", self.i.config],
                stdin=subprocess.DEVNULL, stdout=f, stderr=f,
                env=self.i.env(), start_new_session=True)
        try:
            self.i.wait_ready()
            return self.seen()
        finally:
            self.i.end_daemon(20 * SLOW)
            self.calls = int(re.search(rf"^{kind}: (\d+) calls", read(log),
                                       re.M)[1])

    def check_api(self, got, what):
        """A list that could not be read may hide a state, and no row."""
        for name, rows in self.wanted.items():
            if name != "drive":
                rows, got[name] = ([r[:2] for r in x]
                                   for x in (rows, got[name]))
            self.assertEqual(got[name], rows, f"{what}: {name}")

    def daemon_rounds(self, role, seconds):
        rounds = []
        for kind, codes in KINDS.items():
            self.start_daemon(role, kind, 0, 0)
            rounds += [(role, kind, n, codes[n % 2])
                       for n in range(1, self.calls + 1)]
        until, done = time.monotonic() + seconds * SLOW, 0
        for at in spread(len(rounds)):
            if time.monotonic() > until:
                break
            self.put_back()
            what = "{}: {} {}, errno {}".format(*rounds[at - 1])
            self.check_api(self.start_daemon(*rounds[at - 1]), what)
            self.check_host(what)
            done += 1
        print(f"# {role}: {done} of {len(rounds)} starts", flush=True)
        self.assertGreater(done, 5)
        self.i.start()
        self.assertEqual(self.seen(), self.wanted)
        self.i.end_daemon()

    def test_missing_pool_directory_is_not_an_empty_one(self):
        """As after an I/O error: the list cannot be read. Rows and files stay,
        also when it can be read again."""
        self.i.start()
        try:
            for n, part in enumerate(PARTS, 1):
                where = f"{self.i.pool()}/{part}"
                os.rename(where, where + ".away")
                try:
                    self.i.kill_role("carrel-api")
                    self.i.wait_ready()
                    self.check_api(self.seen(), f"{part}/ is missing")
                finally:
                    os.rename(where + ".away", where)
                self.assertEqual(
                    self.i.log().count("keeping what we know"), n)
            self.i.kill_role("carrel-api")
            self.i.wait_ready()
            self.assertEqual(self.seen(), self.wanted)
        finally:
            self.i.end_daemon()
        self.check_host("a missing part")

    def test_kept_disk_survives_a_failed_row_write(self):
        """A persistent sandbox ended while no daemon ran, and the api cannot
        write that down. The disk stays, and the next start has the sandbox."""
        self.start_daemon("carrel-api", "write", 0, 0)
        for nth in spread(self.calls + 8)[:10]:
            self.i.start()
            box = self.i.create(persist=True)
            pid = self.pid_of(box)
            self.i.end_daemon()
            os.kill(pid, signal.SIGKILL)
            wait_for("it is dead", lambda: not self.started(pid), 10 * SLOW)
            self.start_daemon("carrel-api", "write", nth, errno.ENOSPC)
            self.assertIn(box, self.part("snap"), f"write {nth}")
            self.i.start()
            self.assertEqual(self.get(f"/v1/sandboxes/{box}").json["state"],
                             "suspended", f"write {nth}")
            self.i.rm(box)
            self.i.end_daemon()

    def test_daemon_start_loses_nothing(self):
        for role, share in (("carrel-warden", 0.5), ("carrel-api", 0.5)):
            with self.subTest(role=role):
                self.daemon_rounds(role, DAEMON_S * share)


if __name__ == "__main__":
    harness.main()
