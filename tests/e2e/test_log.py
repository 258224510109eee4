# suite: both
# suite: slow
# suite: sanitized
"""The log of a whole daemon: what is in it, what is not, and that nothing
of it is lost, whoever dies when."""

import contextlib
import http.client
import json
import os
import random
import signal
import socket
import sqlite3
import stat
import subprocess
import threading
import time
import unittest

import harness
from harness import SLOW, wait_for


def audit_dir(i):
    return f"{i.state_dir}/audit"


def entries(i):
    found = []
    for name in sorted(os.listdir(audit_dir(i))):
        if name.endswith(".log"):
            with open(f"{audit_dir(i)}/{name}") as f:
                text = f.read()
            found += [json.loads(x) for x in text.split("\n")[:-1]]
    return found


def settled(i):
    """Entries, once the log has all that was said."""
    def done():
        log = i.api("GET", "/v1/host").json["log"]
        return log["up"] and log["waiting"] == 0
    wait_for("the log has everything", done, 20 * SLOW)
    return entries(i)


def verify(i, *more):
    return subprocess.run([f"{i.bin}/carrel-scribe", "--verify", audit_dir(i),
                           *more], capture_output=True, text=True,
                          timeout=60 * SLOW)


class Content(harness.Case):
    def test_the_life_of_a_sandbox(self):
        r = self.i.api("POST", "/v1/sandboxes", {"name": "logged"})
        box = r.json["id"]
        self.i.rm(box)
        got = [e for e in settled(self.i) if e["sandbox"] == box]
        self.assertEqual([e["type"] for e in got],
                         ["sandbox.create", "sandbox.ready", "sandbox.end",
                          "api.call"])
        create, ready, end, call = got
        self.assertEqual(create["data"]["name"], "logged")
        self.assertEqual(create["who"], "uid:0")
        self.assertEqual(create["project"], "default")
        self.assertEqual(create["request"], r.headers["Request-Id"])
        self.assertEqual(ready["request"], r.headers["Request-Id"])
        self.assertIn("removed", end["data"]["reason"])
        self.assertEqual(call["data"]["method"], "DELETE")
        self.assertEqual(call["data"]["path"], f"/v1/sandboxes/{box}")
        self.assertEqual(call["data"]["status"], 204)

    def test_images(self):
        self.i.import_image("tiny")
        made = [e for e in settled(self.i) if e["type"] == "image.create"]
        self.assertEqual([e["data"]["name"] for e in made], ["tiny"] * 2)
        self.assertEqual(made[0]["who"], "uid:0")
        tar = harness.tiny_image()
        with open(tar, "rb") as f:
            self.i.api("PUT", "/v1/images/other", f,
                       {"Content-Length": str(os.path.getsize(tar))})
        r = self.i.api("DELETE", "/v1/images/other")
        self.assertEqual(r.status, 204)
        gone = [e for e in settled(self.i) if e["type"] == "image.remove"]
        self.assertEqual(gone[0]["data"]["name"], "other")
        self.assertEqual(gone[0]["request"], r.headers["Request-Id"])

    def test_keys(self):
        """On disk before the answer, without the key itself."""
        r = self.i.api("POST", "/v1/keys", {"name": "ci"})
        self.assertEqual(r.status, 201)
        made = [e for e in entries(self.i) if e["type"] == "key.create"]
        self.assertEqual(made[-1]["data"]["id"], r.json["id"])
        self.assertNotIn(r.json["key"], json.dumps(entries(self.i)))
        pid = self.i.pids()["carrel-scribe"][0]
        os.kill(pid, signal.SIGSTOP)
        try:
            r = self.i.api("POST", "/v1/keys", {"name": "late"})
        finally:
            os.kill(pid, signal.SIGCONT)
        self.assertEqual((r.status, r.json["error"]), (503, "log_unavailable"))

    def test_why_it_ended(self):
        box = self.i.create(timeout="1s")
        wait_for("it ends", lambda: box not in self.i.ids(), 10 * SLOW)
        end, = (e for e in settled(self.i)
                if e["sandbox"] == box and e["type"] == "sandbox.end")
        self.assertIn("time is over", end["data"]["reason"])

    def test_reads_are_left_out(self):
        before = len(settled(self.i))
        for path in ("/v1/host", "/v1/sandboxes", "/metrics", "/v1/images",
                     "/healthz", "/no/such/path"):
            self.i.api("GET", path)
        new = [e for e in settled(self.i)[before:] if e["type"] == "api.call"]
        self.assertEqual(new, [])

    def test_failures_too(self):
        r = self.i.api("POST", "/v1/sandboxes", {"cpus": "many"})
        call = settled(self.i)[-1]
        while call["type"].startswith("log."):
            call = entries(self.i)[-2]
        self.assertEqual(call["request"], r.headers["Request-Id"])
        self.assertEqual(call["data"]["status"], 400)

    def test_a_client_that_leaves(self):
        s = socket.socket(socket.AF_UNIX)
        s.connect(self.i.sock)
        s.sendall(b"POST /v1/sandboxes HTTP/1.1\r\nHost: x\r\n"
                  b"Content-Length: 100\r\n\r\n{")
        time.sleep(0.1)
        s.close()
        wait_for("it is in the log", lambda: any(
            e["type"] == "api.call" and e["data"]["status"] in (0, 400)
            for e in entries(self.i)), 5 * SLOW)

    def test_no_secrets(self):
        words = {k: f"{k}-{random.getrandbits(64):016x}" for k in
                 ("environment", "query", "bearer", "body", "stdin", "output",
                  "file", "header")}
        box = self.i.create(env={"TOKEN": words["environment"]})
        self.i.cli("exec", "--env", f"X={words['environment']}", box, "--",
                   "sh", "-c", "cat > /tmp/f; rev < /tmp/f",
                   input=words["stdin"] + words["output"][::-1], check=0)
        self.i.api("PUT", f"/v1/sandboxes/{box}/files/content?path=/tmp/g",
                   words["file"].encode(),
                   {"Content-Type": "application/octet-stream"})
        self.i.api("POST", f"/v1/sandboxes?key={words['query']}",
                   {"name": "x", "junk": words["body"]},
                   {"Authorization": f"Bearer {words['bearer']}"})
        self.i.api("POST", f"/v1/sandboxes?key={words['query']}",
                   {"name": "x", "junk": words["body"]},
                   {"X-Thing": words["header"]})
        self.i.rm(box)
        settled(self.i)
        files = [f"{audit_dir(self.i)}/{n}" for n in os.listdir(audit_dir(self.i))]
        files.append(f"{self.i.state_dir}/registry/audit.spool")
        for path in files:
            with open(path, "rb") as f:
                raw = f.read()
            for kind, word in words.items():
                self.assertFalse(word.encode() in raw, f"{kind} in {path}")

    def test_who_may_read_it(self):
        for path in (audit_dir(self.i), f"{self.i.state_dir}/registry"):
            self.assertEqual(stat.S_IMODE(os.stat(path).st_mode) & 0o027, 0, path)

    def test_refusals_are_bounded(self):
        """A crowd without a right does not fill the disk: 20 are written, and
        two more each second; the next one tells how many were not."""
        key = self.i.api("POST", "/v1/keys", {"name": "reader", "scope": "read"})

        def refused():
            return self.i.api("POST", "/v1/sandboxes", {}, {
                "Authorization": f"Bearer {key.json['key']}"}).status

        def written():
            return [e["data"] for e in settled(self.i)[before:]
                    if e["type"] == "api.call" and e["data"]["status"] == 403]
        before, began = len(settled(self.i)), time.monotonic()
        self.assertEqual({refused() for _ in range(300)}, {403})
        # A test before this one may have used up some of the 20.
        self.assertGreaterEqual(len(written()), 10)
        self.assertLess(len(written()), 22 + 2 * (time.monotonic() - began))
        more = []

        def one_more():
            more.append(refused())
            had.append(len(written()))
            return had[-1] > had[-2]
        had = [len(written())]
        wait_for("one more is written", one_more, 10 * SLOW, 1)
        self.assertEqual(sum(1 + e.get("left_out", 0) for e in written()),
                         300 + len(more))


class Reads(harness.Case):
    CONF = {"audit_reads": "yes"}
    IMAGE = None

    def test_they_can_be_written_too(self):
        r = self.i.api("GET", "/v1/images?x=1")
        for path in ("/metrics", "/healthz", "/v1/events?follow=false"):
            self.i.api("GET", path)
        calls = [e for e in settled(self.i) if e["type"] == "api.call"]
        self.assertIn(("/v1/images", r.headers["Request-Id"]),
                      [(e["data"]["path"], e["request"]) for e in calls])
        self.assertFalse({"/metrics", "/healthz", "/v1/events"} &
                         {e["data"]["path"] for e in calls})

    def test_start_and_stop(self):
        self.i.restart()
        got = [e["type"] for e in settled(self.i)
               if e["type"].startswith("daemon.")]
        self.assertEqual(got[-3:], ["daemon.start", "daemon.stop", "daemon.start"])

    def test_memory(self):
        """All roles together, idle."""
        if harness.SANITIZED:
            raise unittest.SkipTest("not with sanitizers")
        settled(self.i)
        total = 0
        for pids in self.i.pids().values():
            for line in harness.read(f"/proc/{pids[0]}/smaps_rollup").splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1])
        self.assertLess(total, 20 << 10, "KiB")


class Late(harness.Case):
    def kill_api(self, meanwhile):
        """It comes back when that is done."""
        supervisor = self.i.kill_role("carreld", signal.SIGSTOP)
        try:
            api = self.i.kill_role("carrel-api")
            wait_for("it has ended", lambda: "State:\tZ" in harness.read(
                f"/proc/{api}/status"), 10 * SLOW)
            meanwhile()
        finally:
            os.kill(supervisor, signal.SIGCONT)
        self.i.wait_ready()

    def test_an_end_that_was_not_written(self):
        """Killed between the registry and the log, it finds that out."""
        def ends():
            return sum(e["sandbox"] == box for e in settled(self.i)
                       if e["type"] == "sandbox.end")

        def forget():
            """As if the last record had not been made."""
            with contextlib.closing(sqlite3.connect(
                    f"{self.i.state_dir}/registry/registry.db")) as db, db:
                self.assertEqual(db.execute(
                    "UPDATE ended SET record = ? WHERE id = ?",
                    (last + 1, box)).rowcount, 1)
        box = self.i.create()
        self.i.rm(box)
        self.assertEqual(ends(), 1)
        last = max(e["spool"] for e in entries(self.i)
                   if not e["type"].startswith("log."))
        self.kill_api(forget)
        self.assertEqual(ends(), 2)
        self.kill_api(lambda: None)
        self.assertEqual(ends(), 2)


class Deaths(harness.Case):
    CONF = {"audit_segment_size": "64K", "max_sandboxes": 100}

    def load(self, stop, made, removed):
        """Creates and removes; what was answered is noted."""
        while not stop.is_set():
            try:
                r = self.i.api("POST", "/v1/sandboxes", {}, timeout=20)
                if r.status != 201:
                    time.sleep(0.02)
                    continue
                box = r.json["id"]
                made.append(box)
                if self.i.api("DELETE", f"/v1/sandboxes/{box}",
                              timeout=20).status == 204:
                    removed.append(box)
            except (OSError, http.client.HTTPException, ValueError):
                time.sleep(0.02)

    def check(self, made, removed):
        got = settled(self.i)
        v = verify(self.i)
        self.assertEqual(v.returncode, 0, v.stdout)
        self.assertEqual([e["seq"] for e in got], list(range(1, len(got) + 1)))
        numbers = [e["spool"] for e in got if not e["type"].startswith("log.")]
        self.assertEqual(numbers, list(range(1, len(numbers) + 1)),
                         "a record is missing or twice")
        self.assertFalse({"log.gap", "log.refused"} & {e["type"] for e in got})
        for kind, boxes in (("sandbox.ready", made), ("sandbox.end", removed)):
            have = [e["sandbox"] for e in got if e["type"] == kind]
            self.assertEqual(set(boxes) - set(have), set(), kind)
            self.assertEqual(len(have), len(set(have)), f"{kind} twice")

    @harness.container_only("it needs dozens of sandboxes within seconds")
    def test_killed_under_load(self):
        stop, made, removed = threading.Event(), [], []
        threads = [threading.Thread(target=self.load, args=(stop, made, removed))
                   for _ in range(3)]
        for t in threads:
            t.start()
        rounds = 12 if harness.SANITIZED else 30
        kinds = (["carrel-scribe"], ["carrel-api"],
                 ["carrel-scribe", "carrel-api"], ["carrel-api", "carrel-scribe"])
        try:
            for n in range(rounds):
                had = len(made)
                wait_for(f"a sandbox after {n} kills",
                         lambda: len(made) > had, 60 * SLOW)
                time.sleep(random.uniform(0, 0.1))
                for role in kinds[n % len(kinds)]:
                    with contextlib.suppress(KeyError, ProcessLookupError):
                        self.i.kill_role(role)
        finally:
            stop.set()
            for t in threads:
                t.join(60 * SLOW)
        self.i.wait_ready()
        self.check(made, removed)

    @harness.container_only("it needs dozens of sandboxes within seconds")
    def test_killed_while_all_are_removed(self):
        """...as soon as the first end is written."""
        def remove_all():
            with contextlib.suppress(OSError, http.client.HTTPException):
                self.i.api("DELETE", "/v1/sandboxes?all=true", timeout=20)
        spool = f"{self.i.state_dir}/registry/audit.spool"
        made = []
        for _ in range(3):
            made += [self.i.create() for _ in range(40)]
            settled(self.i)
            api = self.i.pids()["carrel-api"][0]
            size, end = os.stat(spool).st_size, time.monotonic() + 20 * SLOW
            t = threading.Thread(target=remove_all)
            t.start()
            with open(spool, "rb") as f:
                while b'"sandbox.end"' not in os.pread(f.fileno(), 4096, size):
                    self.assertLess(time.monotonic(), end)
            os.kill(api, signal.SIGKILL)
            t.join()
            self.i.wait_ready()
            remove_all()
        self.check(made, made)

    def test_the_supervisor(self):
        made = [self.i.create() for _ in range(3)]
        self.i.kill_role("carreld")
        self.i.daemon.wait()
        wait_for("the roles have ended", lambda: not self.i.pids(), 10 * SLOW)
        self.i.start()
        self.check(made, [])

    def test_a_torn_end(self):
        """As after a loss of power: half a line in the log. The spool has it."""
        box = self.i.create()
        self.i.end_daemon()
        last = f"{audit_dir(self.i)}/" + sorted(
            n for n in os.listdir(audit_dir(self.i)) if n.endswith(".log"))[-1]
        signed = os.path.getsize(last)
        with open(last, "a") as f:
            f.write('{"seq":123,"time":"2026')
        self.i.start()
        got = settled(self.i)
        self.assertIn("log.cut", [e["type"] for e in got])
        self.assertGreater(os.path.getsize(last), signed)
        self.assertEqual(verify(self.i).returncode, 0)
        self.assertIn(box, self.i.ids())


class CommandLine(harness.Case):
    def verify(self, *more):
        return self.i.cli("--config", self.i.config, "log", "verify", *more)

    def test_show(self):
        box = self.i.create(name="shown")
        settled(self.i)
        out = self.i.cli("log", "show", "shown", check=0).out
        self.assertEqual([line.split()[1] for line in out.splitlines()],
                         ["sandbox.create", "sandbox.ready"])
        self.assertIn('name="shown"', out)
        self.i.rm(box)
        settled(self.i)
        lines = self.i.cli("log", "show", box, "--json", check=0).out.splitlines()
        self.assertEqual([json.loads(x)["type"] for x in lines],
                         ["sandbox.create", "sandbox.ready", "sandbox.end",
                          "api.call"])
        last = self.i.cli("log", "show", "-n", "2", "--json", box).out.splitlines()
        self.assertEqual(last, lines[-2:])
        some = self.i.cli("log", "show", "--type", "sandbox.rea").out
        self.assertEqual({x.split()[1] for x in some.splitlines()},
                         {"sandbox.ready"})
        p = self.i.cli("log", "show", "nobody")
        self.assertEqual((p.returncode, p.out), (1, ""))

    def test_verify_with_a_socket_is_about_that_daemon(self):
        """CARREL_SOCKET alone: not the log of the installed instance."""
        self.i.rm(self.i.create())
        settled(self.i)
        other = f"{self.i.dir}/other.conf"
        with open(other, "w") as f:
            f.write(f"libexec_dir = {self.i.conf['libexec_dir']}\n"
                    f"state_dir = {self.i.dir}/nowhere\n")
        p = self.i.cli("--config", other, "log", "verify")
        self.assertEqual(p.returncode, 0, p.out + p.err)
        self.assertEqual(p.out, self.verify().out)
        key = self.i.api("POST", "/v1/keys", {"scope": "read"}).json["key"]
        r = self.i.api("GET", "/v1/log/head", headers={
            "Authorization": f"Bearer {key}"})
        self.assertEqual((r.status, "directory" in r.json), (200, False))

    def test_export_and_verify(self):
        self.i.rm(self.i.create())
        settled(self.i)
        out = self.i.cli("log", "export", check=0).out
        self.assertEqual([json.loads(x)["seq"] for x in out.splitlines()],
                         list(range(1, len(out.splitlines()) + 1)))
        head = self.i.cli("log", "head", check=0).out
        self.assertEqual(head, out.splitlines()[json.loads(head)["seq"] - 1] + "\n")
        copy = f"{self.i.dir}/copy"
        subprocess.run(["cp", "-r", audit_dir(self.i), copy], check=True)
        anchor = f"{self.i.dir}/anchor"
        with open(anchor, "w") as f:
            f.write(head)
        p = self.verify(copy, "--key", f"{audit_dir(self.i)}/key.pub", "--head",
                        anchor)
        self.assertEqual(p.returncode, 0, p.out + p.err)
        self.assertEqual(self.verify().returncode, 0)
        first = f"{copy}/000000000001.log"
        text = harness.read(first).replace('"daemon.start"', '"daemon.stars"')
        with open(first, "w") as f:
            f.write(text)
        p = self.verify(copy)
        self.assertEqual(p.returncode, 1)
        self.assertIn("000000000001.log line 2: entry 2 was changed", p.out)
        self.assertEqual(self.verify("/nowhere").returncode, 2)

    def test_events(self):
        p = self.i.popen("events", "--type", "sandbox.")
        try:
            time.sleep(0.2)
            box = self.i.create()
            line = p.stdout.readline().decode()
            while box[:12] not in line:
                self.assertTrue(line, "the stream has ended")
                line = p.stdout.readline().decode()
            self.assertEqual(line.split()[1], "sandbox.create")
            # The stream goes on over a restart of the daemon, and misses
            # nothing, also when the daemon is away for several tries.
            self.i.end_daemon()
            time.sleep(1)
            self.assertIsNone(p.poll(), "events waits for the daemon")
            self.i.start()
            self.i.rm(box)
            got = [p.stdout.readline().decode().split()[1] for _ in range(2)]
            self.assertEqual(got, ["sandbox.ready", "sandbox.end"])
        finally:
            p.kill()
            p.communicate()

    def test_doctor(self):
        checks = json.loads(self.i.cli("doctor", "--json").out)["checks"]
        log, = (c for c in checks if c["name"] == "log")
        self.assertEqual(log["level"], "ok")


class Away(harness.Case):
    CONF = {"audit_spool_size": "64K"}

    def test_the_scribe_is_away(self):
        box = self.i.create()
        snap = self.i.api("POST", f"/v1/sandboxes/{box}/snapshots", {}).json
        volume = self.i.api("POST", "/v1/volumes", {"name": "v"}).json
        room = [f"/v1/snapshots/{snap['id']}", f"/v1/volumes/{volume['id']}"]
        pid = self.i.pids()["carrel-scribe"][0]
        os.kill(pid, signal.SIGSTOP)
        try:
            def refused():
                r = self.i.api("POST", "/v1/sandboxes", {"cpus": "x" * 50})
                return r if r.status == 503 else None
            r = wait_for("the spool is full", refused, 30 * SLOW, step=0)
            self.assertEqual(r.json["error"], "log_unavailable")
            self.assertEqual(self.i.api("GET", "/v1/sandboxes").status, 200)
            for _ in range(300):  # refused ones do not make it grow for ever
                self.assertTrue(refused())
            size = os.path.getsize(f"{self.i.state_dir}/registry/audit.spool")
            self.assertLess(size, 100 << 10)
            self.i.rm(box)  # ending things works, and so does making room
            for path in room:
                self.assertEqual(self.i.api("DELETE", path).status, 204, path)
        finally:
            os.kill(pid, signal.SIGCONT)

        def works():
            return self.i.api("POST", "/v1/sandboxes", {}).status == 201
        wait_for("it works again", works, 10 * SLOW)
        got = settled(self.i)
        types = [e["type"] for e in got]
        missed = sum(e["data"]["entries"] for e in got
                     if e["type"] == "api.missed")
        self.assertGreater(missed, 0)
        self.assertNotIn("log.gap", types)
        self.assertEqual(verify(self.i).returncode, 0)


class SmallSpool(harness.Case):
    IMAGE = None

    def test_it_shrinks_under_load(self):
        path = f"{self.i.state_dir}/registry/audit.spool"
        conn = harness.UnixHTTP(self.i.sock, 60)
        top = 0
        for n in range(40):
            for _ in range(200):
                conn.request("POST", "/v1/sandboxes", b"no JSON")
                conn.getresponse().read()
            size = os.path.getsize(path)
            if size < top:
                break
            top = size
        conn.close()
        wait_for("it is small", lambda: os.path.getsize(path) < 1 << 20,
                 10 * SLOW)
        self.assertGreater(top, 500 << 10)
        self.i.kill_role("carrel-api")
        self.i.wait_ready()
        got = settled(self.i)
        numbers = [e["spool"] for e in got if not e["type"].startswith("log.")]
        self.assertEqual(numbers, list(range(1, len(numbers) + 1)))
        self.assertEqual(verify(self.i).returncode, 0)


if __name__ == "__main__":
    harness.main()
