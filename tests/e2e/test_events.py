# suite: both
# suite: sanitized
"""The event stream and what else is read from the log."""

import hashlib
import json
import os
import queue
import signal
import socket
import threading
import unittest

import harness
from harness import SLOW, wait_for
from test_log import audit_dir, entries, settled, verify


class Stream:
    """GET of a long answer, read by a thread; objects come out of get()."""

    def __init__(self, i, path, sse=False, headers=None):
        self.conn = harness.UnixHTTP(i.sock, 120 * SLOW)
        head = dict(headers or {})
        if sse:
            head["Accept"] = "text/event-stream"
        self.conn.request("GET", path, headers=head)
        self.answer = self.conn.getresponse()
        self.status = self.answer.status
        self.type = self.answer.getheader("Content-Type")
        self.sse, self.q = sse, queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        last_id = None
        try:
            for raw in self.answer:
                line = raw.decode().rstrip("\n")
                if self.sse and line.startswith("id: "):
                    last_id = line[4:]
                elif self.sse and line.startswith("data: "):
                    self.q.put((last_id, json.loads(line[6:])))
                elif not self.sse and line:
                    self.q.put((None, json.loads(line)))
        except (OSError, ValueError, AttributeError):
            pass
        self.q.put((None, None))

    def get(self, timeout=10):
        """The next that is not a ping: (id, object); object None at the end."""
        while True:
            got = self.q.get(timeout=timeout * SLOW)
            if not got[1] or got[1].get("type") != "ping":
                return got

    def until(self, kind, timeout=10):
        while True:
            got = self.get(timeout)
            if got[1] is None:
                raise AssertionError("the stream ended")
            if got[1]["type"] == kind:
                return got

    def rest(self):
        found = []
        while True:
            got = self.get(60)
            if got[1] is None:
                return found
            found.append(got[1])

    def close(self):
        # shutdown() wakes the reading thread; close() alone would wait for it.
        self.conn.sock.shutdown(socket.SHUT_RDWR)
        self.conn.close()


class Events(harness.Case):
    CONF = {"audit_segment_size": "16K"}

    def stream(self, path="/v1/events", **kw):
        s = Stream(self.i, path, **kw)
        self.addCleanup(s.close)
        self.assertEqual(s.status, 200)
        return s

    def test_as_they_happen(self):
        s = self.stream()
        self.assertEqual(s.type, "application/x-ndjson")
        box = self.i.create()
        got = s.until("sandbox.ready")[1]
        self.assertEqual(got["sandbox"], box)
        self.i.rm(box)
        self.assertEqual(s.until("sandbox.end")[1]["sandbox"], box)

    def test_server_sent(self):
        s = self.stream(sse=True)
        self.assertEqual(s.type, "text/event-stream")
        self.i.create()
        seq, got = s.until("sandbox.create")
        self.assertEqual(int(seq), got["seq"])

    def test_resume(self):
        """Left and come back, at any place: each entry once, none missing."""
        for _ in range(10):
            self.i.rm(self.i.create())
        all_seqs = [e["seq"] for e in settled(self.i)
                    if not e["type"].startswith("log.")]
        names = [n for n in os.listdir(audit_dir(self.i)) if n.endswith(".log")]
        self.assertGreater(len(names), 1)
        for cut in (0, 1, all_seqs[0], all_seqs[7], all_seqs[-2], all_seqs[-1]):
            want = [n for n in all_seqs if n > cut]
            with self.subTest(after=cut):
                s = self.stream(f"/v1/events?after={cut}&follow=false")
                got = [e["seq"] for e in s.rest()]
                self.assertEqual(got[:len(want)], want)
                s = self.stream("/v1/events?after=3", sse=True,
                                headers={"Last-Event-ID": str(cut)})
                if want:
                    self.assertEqual(s.get()[1]["seq"], want[0])

    def test_follows_into_new_files(self):
        s = self.stream()
        boxes = []
        for _ in range(25):
            boxes.append(self.i.create())
            self.i.rm(boxes[-1])
        seen, seqs = [], []
        while len(seen) < len(boxes):
            got = s.get()[1]
            seqs.append(got["seq"])
            if got["type"] == "sandbox.end":
                seen.append(got["sandbox"])
        self.assertEqual(seen, boxes)
        self.assertEqual(seqs, sorted(set(seqs)))

    def test_filters(self):
        a, b = self.i.create(name="one"), self.i.create(name="two")
        self.i.rm(a)
        self.i.rm(b)
        settled(self.i)

        def types(query):
            s = self.stream(f"/v1/events?after=0&follow=false&{query}")
            return [e["type"] for e in s.rest()]
        got = set(types("type=sandbox."))
        self.assertLessEqual({"sandbox.create", "sandbox.ready", "sandbox.end"}, got)
        self.assertEqual({t.split(".")[0] for t in got}, {"sandbox"})
        self.assertEqual(types(f"sandbox={a}&type=sandbox.e"), ["sandbox.end"])
        self.assertEqual(len(types("type=sandbox.&limit=2")), 2)
        self.assertEqual(set(types("type=log.st")), {"log.start"})
        self.assertFalse([t for t in types("") if t.startswith("log.")])
        for bad in ("after=x", "after=-1", "follow=maybe", "limit=1e9",
                    "type=" + "x" * 100, "after=1&after=2", "sandbox=nobody"):
            self.assertIn(self.i.api("GET", f"/v1/events?{bad}").status,
                          (400, 404), bad)
        r = self.i.api("GET", "/v1/events", headers={"Last-Event-ID": "x"})
        self.assertEqual(r.status, 400)

    def test_the_log_of_a_sandbox(self):
        box = self.i.create(name="logged")
        by_name = self.stream("/v1/sandboxes/logged/log").rest()
        self.i.rm(box)
        settled(self.i)
        got = self.stream(f"/v1/sandboxes/{box}/log").rest()
        self.assertEqual([e["type"] for e in got],
                         ["sandbox.create", "sandbox.ready", "sandbox.end",
                          "api.call"])
        self.assertEqual([e["seq"] for e in by_name],
                         [e["seq"] for e in got[:len(by_name)]])
        part = self.stream(f"/v1/sandboxes/{box}/log?after={got[0]['seq']}"
                           "&limit=1").rest()
        self.assertEqual(part, got[1:2])
        self.assertEqual(self.i.api("GET", "/v1/sandboxes/nobody/log").status, 404)

    def test_projects_see_their_own(self):
        keys = {}
        for p in ("red", "blue"):
            r = self.i.api("POST", "/v1/keys", {"name": p, "project": p,
                                                "scope": "admin"})
            self.assertEqual(r.status, 201, r)
            keys[p] = {"Authorization": f"Bearer {r.json['key']}"}
        boxes = {}
        live = {p: self.stream(headers=h) for p, h in keys.items()}
        for p, h in keys.items():
            boxes[p] = self.i.api("POST", "/v1/sandboxes", {}, h).json["id"]
        mine = self.i.create()
        settled(self.i)
        for p, h in keys.items():
            got = live[p].until("sandbox.ready")[1]
            self.assertEqual((got["sandbox"], got["project"]), (boxes[p], p))
            past = self.stream("/v1/events?after=0&follow=false", headers=h).rest()
            self.assertEqual({e["project"] for e in past}, {p})
            self.assertNotIn(mine, {e["sandbox"] for e in past})
            other = boxes["blue" if p == "red" else "red"]
            for path in (f"/v1/sandboxes/{other}/log",
                         f"/v1/events?after=0&follow=false&sandbox={other}"):
                s = Stream(self.i, path, headers=h)
                got = s.rest() if s.status == 200 else []
                self.assertEqual(got, [])
                s.close()
            self.assertEqual(self.i.api("GET", "/v1/log/export",
                                        headers=h).status, 403)
            self.assertEqual(self.i.api("GET", "/v1/log/head",
                                        headers=h).status, 200)

    def test_export(self):
        self.i.rm(self.i.create())
        settled(self.i)
        r = self.i.api("GET", "/v1/log/export")
        want = b""
        for name in sorted(os.listdir(audit_dir(self.i))):
            if name.endswith(".log"):
                with open(f"{audit_dir(self.i)}/{name}", "rb") as f:
                    want += f.read()
        self.assertTrue(want.startswith(r.body[:len(want)]))
        self.assertGreater(len(r.body), len(want) - 5000)

    def test_head(self):
        self.i.create()
        settled(self.i)
        head = self.i.api("GET", "/v1/log/head").json
        line = head["entry"]
        text, _, rest = line.rpartition(',"hash":"')
        self.assertEqual(hashlib.sha256((text + "}").encode()).hexdigest(),
                         head["hash"])
        self.assertEqual(rest, head["hash"] + '"}')
        self.assertEqual(json.loads(line)["seq"], head["seq"])
        # Kept elsewhere, it finds a log that was cut behind our backs.
        path = f"{self.i.dir}/anchor"
        with open(path, "w") as f:
            f.write(line)
        self.assertEqual(verify(self.i, "--head", path).returncode, 0)

    def test_slow_readers(self):
        """One that reads nothing costs nobody anything."""
        lazy = socket.socket(socket.AF_UNIX)
        lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        lazy.connect(self.i.sock)
        lazy.sendall(b"GET /v1/events?after=0 HTTP/1.1\r\nHost: x\r\n\r\n")
        s = self.stream()
        for _ in range(10):
            box = self.i.create()
            self.assertEqual(s.until("sandbox.ready", 3)[1]["sandbox"], box)
            self.i.rm(box)
        lazy.close()

    def test_there_is_an_end_to_readers(self):
        streams = []
        try:
            for _ in range(64):
                streams.append(Stream(self.i, "/v1/events"))
                if streams[-1].status != 200:
                    break
            self.assertEqual(self.i.api("GET", "/v1/events").status, 429)
        finally:
            for s in streams:
                s.close()
        wait_for("there is room again", lambda: self.free(), 5 * SLOW)

    def free(self):
        s = Stream(self.i, "/v1/events?follow=false&after=0")
        s.close()
        return s.status == 200

    def test_come_back_after_a_crash(self):
        """A client that reconnects with the last id misses nothing."""
        seen, last, boxes = [], None, []
        for role in ("carrel-scribe", "carrel-api", "carrel-scribe"):
            head = {"Last-Event-ID": str(last)} if last else {}
            s = Stream(self.i, "/v1/events" if last else "/v1/events?after=0",
                       headers=head, sse=True)
            boxes.append(self.i.create())
            while True:
                seq, got = s.until("sandbox.ready")
                seen.append(got["sandbox"])
                last = seq
                if got["sandbox"] == boxes[-1]:
                    break
            self.i.kill_role(role)
            s.close()
            self.i.wait_ready()
            boxes.append(self.i.create())
        s = self.stream(headers={"Last-Event-ID": last})
        while boxes[-1] not in seen:
            seen.append(s.until("sandbox.ready")[1]["sandbox"])
        mine = [b for b in seen if b in boxes]
        self.assertEqual(mine, boxes)

    def test_while_the_scribe_is_away(self):
        """What is there can be read."""
        box = self.i.create()
        settled(self.i)
        pid = self.i.pids()["carrel-scribe"][0]
        os.kill(pid, signal.SIGSTOP)
        try:
            got = self.stream(f"/v1/sandboxes/{box}/log").rest()
            self.assertIn("sandbox.ready", [e["type"] for e in got])
        finally:
            os.kill(pid, signal.SIGCONT)


if __name__ == "__main__":
    harness.main()
