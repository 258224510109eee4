# suite: sanitized
"""Workers that look at disks have read what sandboxes wrote: the api believes
none of their records. With a warden in Python."""

import json
import os
import socket
import struct
import threading
import unittest

import harness
from fake_warden import Api, PAUSE, RESUME
from harness import INPUT, OUTPUT_EOF, SPAWN, STARTED

CHANGE, STEP, DATA, PROGRESS, SPACED, DONE, ERROR = range(1, 8)
DIFF, MERGE, PACK, READ, SPACE = range(1, 6)


def text(s):
    s = s.encode() if isinstance(s, str) else s
    return struct.pack("<I", len(s)) + s + b"\0"


def record(kind, body=b""):
    return struct.pack("<IB", 1 + len(body), kind) + body


def side(kind=1, mode=0o644, size=1, target=""):
    if kind == 0:
        return b"\0"
    return struct.pack("<BIIIQQ", kind, mode, 0, 0, size, 10 ** 12) + \
        text(target)


def change(path, before=0, after=1, what=1):
    return record(CHANGE, bytes([what]) + text(path) + side(before) +
                  side(after))


def step(path, what=0, theirs=1, ours=0):
    return record(STEP, bytes([what]) + text(path) + side(theirs) + side(ours))


done = record(DONE)


class Case(unittest.TestCase):
    def setUp(self):
        self.a = Api()
        self.addCleanup(self.a.stop)
        self.w = self.a.warden
        self.box = self.a.create(name="work")
        self.asked = []

    def say(self, *pieces):
        """What the next workers say."""
        def view(ask_fd, say_fd, work):
            self.asked.append((work, os.read(ask_fd, 1 << 20)))
            for p in pieces:
                while p:
                    p = p[os.write(say_fd, p):]
        self.w.on_view = view

    def lines(self, path):
        r = self.a.api("GET", path)
        return r.status, [json.loads(x) for x in r.body.splitlines()]

    def diff(self, *pieces, query=""):
        self.say(*pieces)
        return self.lines(f"/v1/diff?to=work&from=img{query}")


class Records(Case):
    def test_good_ones(self):
        status, got = self.diff(record(PROGRESS, bytes(16)), change("/a"),
                                change("/b", 1, 1, 4), done,
                                query="&path=/a//x/./&path=/b")
        self.assertEqual(status, 200)
        self.assertEqual([x.get("path") for x in got], ["/a", "/b", None])
        self.assertEqual(got[1]["what"], ["mode"])
        self.assertEqual(got[2], {"type": "done", "added": 1, "removed": 0,
                                  "changed": 1})
        work, ask = self.asked[0]
        self.assertEqual(ask, b"VIW1" + struct.pack("<II", 0, 2) +
                         text("/a/x") + text("/b"))

    def test_bad_ones(self):
        for what, said in (("nothing", b""), ("half", change("/a")[:9]),
                           ("unknown", record(99)), ("no kind", record(0)),
                           ("huge", struct.pack("<IB", 1 << 30, 1)),
                           ("empty", struct.pack("<I", 0)),
                           ("a step", step("/a") + done),
                           ("data", record(DATA, b"x") + done),
                           ("a relative path", change("a") + done),
                           ("a way up", change("/a/../b") + done),
                           ("no error", record(ERROR, struct.pack("<I", 0) +
                                               text("x")))):
            with self.subTest(what):
                status, got = self.diff(said)
                self.assertEqual(status, 500, got)
            with self.subTest(what + ", late"):
                status, got = self.diff(change("/first"), said)
                self.assertEqual(status, 200)
                self.assertEqual([x["type"] for x in got],
                                 ["change", "error"], got)
        # The api is as it was.
        self.assertEqual(self.diff(done)[0], 200)

    def test_its_errors(self):
        bad = record(ERROR, struct.pack("<I", 2) + text("no \x1b[31m such"))
        status, got = self.diff(bad)
        self.assertEqual((status, got[0]["message"]), (404, "no ?[31m such"))
        self.say(bad)
        r = self.a.api("GET", "/v1/states/content?state=img&path=/x")
        self.assertEqual(r.status, 404)

    def test_contents(self):
        """A reader that says more than its file can have."""
        def view(ask_fd, say_fd, work):
            os.read(ask_fd, 65536)
            if work == DIFF:
                os.write(say_fd, change("/a") + done)
                return
            for _ in range(40):
                os.write(say_fd, record(DATA, bytes(60000)))
            os.write(say_fd, done)
        self.w.on_view = view
        status, got = self.lines("/v1/diff?to=work&from=img&content=true")
        self.assertEqual((status, [x["type"] for x in got]), (200, ["error"]))

    def test_space(self):
        snap = self.a.api("POST", "/v1/sandboxes/work/snapshots",
                          {"name": "s"}).json["id"]
        for said, status in ((record(SPACED, struct.pack("<QQQ", 9, 3, 2)) +
                              done, 200), (done, 500), (b"", 500),
                             (record(SPACED, struct.pack("<QQQ", 3, 9, 2)),
                              500)):
            self.say(said)
            r = self.a.api("GET", f"/v1/snapshots/{snap}?space=true")
            self.assertEqual(r.status, status, r)
            if status == 200:
                self.assertEqual(r.json["space"], {"bytes": 9, "shared": 3,
                                                   "entries": 2})

    def test_a_slow_client_stops_the_worker(self):
        wrote = [0]
        stop = threading.Event()

        def view(ask_fd, say_fd, work):
            os.read(ask_fd, 65536)
            piece = b"".join(change("/" + "x" * 200 + str(i))
                             for i in range(200))
            try:
                for _ in range(4000):
                    wrote[0] += os.write(say_fd, piece)
            finally:
                stop.set()
        self.w.on_view = view
        s = socket.socket(socket.AF_UNIX)
        s.connect(self.a.sock)
        s.send(b"GET /v1/diff?to=work&from=img HTTP/1.1\r\nHost: x\r\n\r\n")
        harness.wait_for("something to come", lambda: wrote[0] > 0)
        last = -1

        def still():
            nonlocal last
            was, last = last, wrote[0]
            return was == last
        harness.wait_for("the worker to wait", still, 20, 0.5)
        self.assertLess(wrote[0], 16 << 20)
        # It ends with its client.
        s.close()
        self.assertTrue(stop.wait(60))
        harness.wait_for("its snapshot to go", lambda: not self.w.snapshots)

    def test_only_so_many(self):
        hold = threading.Event()
        self.addCleanup(hold.set)

        def view(ask_fd, say_fd, work):
            hold.wait(30)
            os.write(say_fd, done)
        self.w.on_view = view
        got = []

        def ask():
            got.append(self.a.api("GET", "/v1/diff?to=img&from=img").status)
        threads = [threading.Thread(target=ask) for _ in range(20)]
        for t in threads:
            t.start()
        harness.wait_for("some to be refused", lambda: len(got) >= 14)
        self.assertEqual(set(got), {429})
        hold.set()
        for t in threads:
            t.join()
        self.assertLessEqual(got.count(200), 6)
        self.assertGreaterEqual(got.count(200), 4)


class Plans(Case):
    def merge(self, **body):
        other = self.a.create()
        r = self.a.api("POST", "/v1/sandboxes/work/merge",
                       {"from": other, **body})
        self.a.rm(other)
        return r

    def test_conflicts_and_nothing(self):
        self.say(step("/a", 3, 1, 1) + done)
        r = self.merge()
        self.assertEqual((r.status, r.json["error"]), (409, "merge_conflict"))
        self.assertEqual(r.json["conflicts"][0]["path"], "/a")
        self.say(step("/a", 2, 1, 1) + done)
        r = self.merge()
        self.assertEqual((r.status, r.json["same"]), (200, 1))
        # Whoever stood still goes on.
        self.assertEqual([x for x in self.w.seen if x[0] == RESUME],
                         [(RESUME, self.box)] * 2)

    def test_bad_plans(self):
        bad = (b"", record(99), change("/a"), step("/a", 9), step("a"),
               step("/a")[:-3])
        for said in bad:  # of what theirs changed
            self.say(said)
            self.assertEqual(self.merge().status, 500)
        self.assertNotIn((PAUSE, self.box), self.w.seen)
        for n, said in enumerate(bad):  # of what that means for ours
            first = [step("/a") + done]

            def view(ask_fd, say_fd, work):
                os.read(ask_fd, 65536)
                os.write(say_fd, first.pop() if first else said)
            self.w.on_view = view
            self.assertEqual(self.merge().status, 500)
            self.assertEqual(self.w.seen.count((PAUSE, self.box)), n + 1)
            self.assertEqual(self.w.seen.count((RESUME, self.box)), n + 1)

    def test_too_many_steps(self):
        def view(ask_fd, say_fd, work):
            os.read(ask_fd, 65536)
            i = 0
            while True:
                os.write(say_fd, b"".join(
                    step(f"/{n}") for n in range(i, i + 1000)))
                i += 1000
        self.w.on_view = view
        r = self.merge()
        self.assertEqual((r.status, r.json["error"]), (400, "too_large"))

    def pack(self, ask_fd, say_fd, work):
        os.read(ask_fd, 65536)
        os.write(say_fd, step("/a") + done if work == MERGE
                 else record(DATA, bytes(1024)) + done)

    def names(self):
        return [s["name"] for s in
                self.a.api("GET", "/v1/snapshots").json["snapshots"]]

    def test_an_agent_that_is_done_too_early(self):
        """The fake one says that all went well before it has heard what."""
        self.w.on_view = self.pack
        r = self.merge()
        self.assertEqual((r.status, r.json["error"]), (502, "agent_failed"))
        self.assertEqual(self.names(), [])

    def test_nobody_knows_how_far_it_came(self):
        """It took everything and said nothing: what was before is kept."""
        def lie(peer):
            peer.hello()
            while True:
                kind, channel, payload = peer.heard()
                if kind == SPAWN:
                    peer.send(STARTED, channel, struct.pack("<II", 2, 1))
                elif kind == INPUT and payload.endswith(b"E"):  # MERGE_END
                    for n in (1, 2):
                        peer.send(OUTPUT_EOF, channel,
                                  struct.pack("<BQ", n, 0))
                    peer.exit(channel)
        self.w.behave = lie
        self.w.on_view = self.pack
        self.box = self.a.create(name="liar")
        other = self.a.create()
        r = self.a.api("POST", "/v1/sandboxes/liar/merge", {"from": other})
        self.assertEqual((r.status, r.json["error"]), (502, "agent_failed"))
        self.assertEqual(len(self.names()), 1, r)
        self.assertRegex(r.json["message"],
                         f"the snapshot '{self.names()[0]}' has what was")
        self.assertIn((RESUME, self.box), self.w.seen)
        self.a.kill()
        self.a.start()
        self.assertEqual(len(self.names()), 1)


if __name__ == "__main__":
    harness.main()
