# suite: slow
# suite: sanitized
"""The api role between hostile ends: agents that lie, flood and break their
windows, clients that do the same, a warden that goes away."""

import http.client
import json
import os
import random
import select
import signal
import socket
import struct
import threading
import time
import unittest

import fake_warden
import harness
import websocket
from fake_warden import (IMAGE_REMOVE, KILL, LAUNCH, LAUNCH_SPEC, Api, polite)
from harness import (ACK, ATTACH, ATTACHED, DETACH, EXIT, FAILED, GAP, INPUT,
                     INPUT_ACK, INPUT_EOF, OUTPUT, OUTPUT_EOF, PING, PONG,
                     SIGNAL, SLOW, SPAWN, STARTED, WINDOW, Wire, WireError,
                     wait_for)

EPROTO, ENOTCONN = 71, 107
OFFSET_NOW, OFFSET_NONE, OFFSET_MAX = 2**64 - 1, 2**64 - 2, 2**63 - 1
CHANNELS = 1024


def hostile(action):
    """An agent that starts the process and then does `action`."""
    def behave(peer):
        peer.hello()
        channel, argv, env = peer.spawned()
        peer.send(STARTED, channel, struct.pack("<II", 2, 1))
        action(peer, channel)
        while True:
            peer.recv()
    return behave


def hostile_attach(action):
    """The same for one that is asked to attach."""
    def behave(peer):
        peer.hello()
        channel = peer.asked()[0]
        peer.attached(channel)
        action(peer, channel)
        while True:
            peer.recv()
    return behave


def raw_frame(n, kind, channel, flags=0, zero=0):
    return struct.pack("<IBBHI", n, kind, flags, zero, channel)


def flood(peer, ch):
    """A byte more than the window."""
    for offset in range(0, WINDOW, 32768):
        peer.output(ch, b"x" * 32768, 1, offset)
    peer.output(ch, b"x", 1, WINDOW)


LIES = {
    "a byte over the window": flood,
    "a gap": lambda p, ch: p.output(ch, b"x", 1, 1),
    "an offset near the end of numbers":
        lambda p, ch: p.output(ch, b"xx", 1, 2**64 - 1),
    "stream 3": lambda p, ch: p.output(ch, b"x", 3),
    "stream 0": lambda p, ch: p.output(ch, b"x", 0),
    "empty output": lambda p, ch: p.output(ch, b""),
    "short output": lambda p, ch: p.send(OUTPUT, ch, b"\1"),
    "another channel": lambda p, ch: p.output(ch + 1, b"x"),
    "channel 0": lambda p, ch: p.output(0, b"x"),
    "a frame that is too long":
        lambda p, ch: p.sock.sendall(raw_frame(65537, OUTPUT, ch)),
    "the longest frame":
        lambda p, ch: p.sock.sendall(raw_frame(2**32 - 1, OUTPUT, ch)),
    "bits that must be zero":
        lambda p, ch: p.sock.sendall(raw_frame(0, OUTPUT, ch, zero=1)),
    "flags": lambda p, ch: p.send(EXIT, ch, bytes(29), flags=1),
    "a client's frame": lambda p, ch: p.send(INPUT, ch, bytes(9)),
    "a spawn": lambda p, ch: p.send(SPAWN, ch, bytes(9)),
    "an unknown frame": lambda p, ch: p.send(200, ch),
    "a pong that nobody asked for": lambda p, ch: p.send(PONG, 0, b"x"),
    "an acknowledgement of nothing":
        lambda p, ch: p.send(INPUT_ACK, ch, struct.pack("<Q", 1)),
    "started twice": lambda p, ch: p.send(STARTED, ch, struct.pack("<II", 3, 1)),
    "a short exit": lambda p, ch: p.send(EXIT, ch, b"\0"),
    "an exit with a signal of 2": lambda p, ch: p.send(EXIT, ch, b"\2" + bytes(28)),
    "output after its end": lambda p, ch: (
        p.send(OUTPUT_EOF, ch, struct.pack("<BQ", 1, 0)), p.output(ch, b"x")),
    "a message without an end":
        lambda p, ch: p.send(FAILED, ch, struct.pack("<II", 1, 5) + b"abc"),
    "a message that is a book": lambda p, ch: p.send(
        FAILED, ch, struct.pack("<II", 1, 5000) + b"a" * 5000 + b"\0"),
    "a second hello": lambda p, ch: p.sock.sendall(
        harness.MAGIC + struct.pack("<HHI", 1, 1, 0) + bytes(16)),
    "a gap for a new process": lambda p, ch: p.gap(ch, 1),
    "attached to a new process": lambda p, ch: p.attached(ch),
    "exit and more": lambda p, ch: (p.exit(ch), p.output(ch, b"x")),
}

# The client attached with the offsets 1000 and OFFSET_NOW.
ATTACH_LIES = {
    "attached twice": lambda p, ch: p.attached(ch),
    "started": lambda p, ch: p.send(STARTED, ch, struct.pack("<II", 2, 1)),
    "a gap backwards": lambda p, ch: p.gap(ch, 999),
    "a gap of nothing": lambda p, ch: p.gap(ch, 1000),
    "a gap out of the world": lambda p, ch: p.gap(ch, OFFSET_MAX + 1),
    "a gap to never": lambda p, ch: p.gap(ch, OFFSET_NOW, 2),
    "a gap of stream 0": lambda p, ch: p.gap(ch, 2000, 0),
    "a gap of stream 3": lambda p, ch: p.gap(ch, 2000, 3),
    "a short gap": lambda p, ch: p.send(GAP, ch, b"\1"),
    "a gap over what was not acknowledged": lambda p, ch: (
        p.output(ch, b"x", 1, 1000), p.gap(ch, 2000)),
    "a gap after the end": lambda p, ch: (
        p.send(OUTPUT_EOF, ch, struct.pack("<BQ", 1, 1000)), p.gap(ch, 2000)),
    "a second gap": lambda p, ch: (p.gap(ch, 2000), p.gap(ch, 3000)),
    "output from before": lambda p, ch: p.output(ch, b"x", 1, 0),
    "output from elsewhere after a gap": lambda p, ch: (
        p.gap(ch, 2000), p.output(ch, b"x", 1, 1000)),
    "output without the gap that says where":
        lambda p, ch: p.output(ch, b"x", 2, 1),
    "output from never": lambda p, ch: p.output(ch, b"x", 2, OFFSET_NOW),
    "an end at never":
        lambda p, ch: p.send(OUTPUT_EOF, ch, struct.pack("<BQ", 2, OFFSET_NOW)),
    "past the end of numbers": lambda p, ch: (
        p.gap(ch, OFFSET_MAX), p.output(ch, b"xx", 1, OFFSET_MAX),
        p.output(ch, b"x", 1, OFFSET_MAX + 2)),
}


class ApiCase(unittest.TestCase):
    conf = {}

    def setUp(self):
        self.a = Api(**self.conf)
        self.w = self.a.warden

    def tearDown(self):
        self.a.stop()

    def fds_settle(self, want):
        wait_for(f"{want} descriptors, not {self.a.fds()}",
                 lambda: self.a.fds() <= want, 7 * SLOW)


class HostileAgent(ApiCase):
    def test_lies(self):
        """Each ends its channels with an error, and nothing else."""
        other = self.a.create()
        for name, lie in LIES.items():
            with self.subTest(name):
                self.w.behave = hostile(lie)
                box = self.a.create()
                x = self.a.exec_wire(box)
                x.spawn(["x"])
                if name == "exit and more":
                    self.assertEqual(x.finish()[0], 0)
                    # The next channel meets the consequence.
                    wait_for("degraded", lambda: self.a.api(
                        "GET", f"/v1/sandboxes/{box}").json["degraded"], 3)
                else:
                    with self.assertRaises(WireError) as failed:
                        x.finish(ack=False)
                    self.assertEqual(failed.exception.args,
                                     (EPROTO, "agent broke the protocol"))
                    shown = self.a.api("GET", f"/v1/sandboxes/{box}").json
                    self.assertTrue(shown["degraded"])
                # The client is innocent: it can go on with a new connection.
                self.w.behave = polite
                x.spawn(["echo", "again"], channel=7)
                self.assertEqual(x.finish(channel=7)[1], b"again")
                x.close()
                self.a.rm(box)
        self.assertEqual(self.a.ids(), [other])

    def test_attach_lies(self):
        for name, lie in ATTACH_LIES.items():
            with self.subTest(name):
                self.w.behave = hostile_attach(lie)
                box = self.a.create()
                x = self.a.exec_wire(box)
                x.attach(1, out=(1000, OFFSET_NOW))
                kind = None
                while kind != FAILED:
                    kind, channel, payload = x.recv()
                    self.assertEqual(channel, 1)
                self.assertEqual(struct.unpack_from("<I", payload)[0], EPROTO)
                x.close()
                self.a.rm(box)

    def test_before_the_start(self):
        """Nothing comes in front of STARTED but its failure."""
        cases = {
            "output": lambda p, ch: p.output(ch, b"x"),
            "an end": lambda p, ch: p.send(OUTPUT_EOF, ch,
                                           struct.pack("<BQ", 1, 0)),
            "an exit": lambda p, ch: p.exit(ch),
        }
        for name, lie in cases.items():
            with self.subTest(name):
                def behave(peer):
                    peer.hello()
                    lie(peer, peer.spawned()[0])
                    peer.recv()
                self.w.behave = behave
                box = self.a.create()
                x = self.a.exec_wire(box)
                x.spawn(["x"])
                kind, _, payload = x.recv()
                self.assertEqual((kind, struct.unpack_from("<I", payload)[0]),
                                 (FAILED, EPROTO))
                x.close()
                r = self.a.api("POST", f"/v1/sandboxes/{box}/run",
                               {"argv": ["x"]})
                self.assertEqual((r.status, r.json["error"]),
                                 (502, "agent_failed"))

    def test_bad_attached(self):
        cases = {
            "no number": struct.pack("<IIQB", 2, 0, 0, 0),
            "a terminal and a half": struct.pack("<IIQB", 2, 1, 0, 2),
            "input out of the world":
                struct.pack("<IIQB", 2, 1, OFFSET_MAX + 1, 0),
            "as a start": struct.pack("<II", 2, 1),
        }
        for name, payload in cases.items():
            with self.subTest(name):
                def behave(peer):
                    peer.hello()
                    peer.send(ATTACHED, peer.asked()[0], payload)
                    peer.recv()
                self.w.behave = behave
                x = self.a.exec_wire(self.a.create())
                x.attach(1)
                self.assertEqual(x.recv()[0], FAILED)
                x.close()

    def test_no_hello(self):
        def behave(peer):
            peer.sock.sendall(b"SSH-2.0-OpenSSH\r\n" + bytes(64))
            peer._more()
        self.w.behave = behave
        box = self.a.create()
        x = self.a.exec_wire(box)
        x.spawn(["x"])
        with self.assertRaises(WireError):
            x.finish()

    def test_a_newer_hello(self):
        def behave(peer):
            peer.sock.sendall(harness.MAGIC + struct.pack("<HHI", 2, 3, 0) +
                              bytes(16))
            peer._more()
        self.w.behave = behave
        box = self.a.create()
        x = self.a.exec_wire(box)
        x.spawn(["x"])
        with self.assertRaises(WireError):
            x.finish()

    def test_silent_agent_stops_only_its_clients(self):
        """Requests pile up to a limit, then the client has to wait."""
        self.w.behave = lambda peer: time.sleep(30)
        box = self.a.create()
        before = self.a.rss()
        x = self.a.exec_wire(box)
        x.sock.settimeout(1)
        sent = 0
        with self.assertRaises(TimeoutError):
            for n in range(200):
                x.spawn(["x", "y" * 900000], channel=n + 1)
                sent += 900000
        self.assertLess(sent, 12 << 20)
        self.assertLess(self.a.rss() - before, (32 << 20) * SLOW)
        self.w.behave = polite
        other = self.a.create()
        y = self.a.exec_wire(other)
        y.spawn(["echo", "fine"])
        self.assertEqual(y.finish()[1], b"fine")

    def test_tiny_frames_to_a_slow_client(self):
        """A window of single bytes on two streams is 22 times as large in
        frames: it must not all be kept."""
        sent = threading.Event()

        def tiny(peer, ch):
            one = []
            for offset in range(WINDOW):
                for stream in (1, 2):
                    one.append(raw_frame(10, OUTPUT, ch) +
                               struct.pack("<BQ", stream, offset) + b"z")
            peer.sock.sendall(b"".join(one))
            sent.set()

        self.w.behave = hostile(tiny)
        box = self.a.create()
        before = self.a.rss()
        x = self.a.exec_wire(box)
        x.spawn(["x"])
        self.assertFalse(sent.wait(2), "all of it was taken")
        self.assertLess(self.a.rss() - before, (6 << 20) * SLOW)
        # And nothing is lost when the client reads after all.
        seen = {1: 0, 2: 0}
        while seen != {1: WINDOW, 2: WINDOW}:
            kind, _, p = x.recv()
            if kind == OUTPUT:
                stream, offset = struct.unpack_from("<BQ", p)
                self.assertEqual(offset, seen[stream])
                self.assertEqual(p[9:].strip(b"z"), b"")
                seen[stream] += len(p) - 9
        self.assertTrue(sent.wait(60))

    def test_small_frames_are_joined(self):
        def one_stream(peer, ch):
            peer.sock.sendall(b"".join(
                raw_frame(10, OUTPUT, ch) + struct.pack("<BQ", 1, n) + b"z"
                for n in range(WINDOW)))
            done.set()
        done = threading.Event()
        self.w.behave = hostile(one_stream)
        box = self.a.create()
        x = self.a.exec_wire(box)
        x.spawn(["x"])
        self.assertTrue(done.wait(60), "a slow client held up its agent")
        frames = got = 0
        while got < WINDOW:
            kind, _, p = x.recv()
            if kind == OUTPUT:
                frames += 1
                self.assertEqual(struct.unpack_from("<BQ", p)[1], got)
                got += len(p) - 9
        self.assertLess(frames, WINDOW)

    def test_agent_dies(self):
        self.w.behave = hostile(lambda peer, ch: peer.sock.shutdown(2))
        box = self.a.create()
        x = self.a.exec_wire(box)
        x.spawn(["x"])
        with self.assertRaises(WireError) as failed:
            x.finish()
        self.assertEqual(failed.exception.args[0], ENOTCONN)
        self.assertFalse(self.a.api("GET", f"/v1/sandboxes/{box}").json["degraded"])

    def test_sandbox_ends_by_itself(self):
        self.w.behave = polite
        box = self.a.create(name="gone")
        fds = self.a.fds()
        x = self.a.exec_wire(box)
        x.spawn(["sleep"])
        self.assertEqual(x.recv()[0], STARTED)
        self.w.notice_ended(box)
        with self.assertRaises(WireError):
            x.finish()
        with self.assertRaises(EOFError):
            x.recv()
        x.close()
        self.assertEqual(self.a.ids(), [])
        self.a.create(name="gone")
        self.fds_settle(fds)


class HostileAgentOfHandlers(ApiCase):
    """The same lies to those who speak HTTP."""

    def tell(self, lie, path, method="POST", body=None, behave=hostile,
             again=True):
        self.w.behave = behave(lie)
        box = self.a.create()
        r = self.a.api(method, f"/v1/sandboxes/{box}/{path}", body)
        self.w.behave = polite
        if again:
            ok = self.a.api("POST", f"/v1/sandboxes/{box}/run",
                            {"argv": ["echo", "again"]})
            self.assertEqual((ok.status, ok.json["stdout"]), (200, "again"))
        self.a.rm(box)
        return r

    def test_streams(self):
        for name, lie in LIES.items():
            if name == "a byte over the window":
                continue  # was acknowledged
            with self.subTest(name):
                r = self.tell(lie, "processes?stream=true",
                              body={"argv": ["x"]},
                              again=name != "exit and more")
                self.assertEqual(r.status, 200, r)
                last = json.loads(r.body.splitlines()[-1])
                if name == "exit and more":
                    self.assertEqual(last["type"], "exit")
                else:
                    self.assertEqual((last["type"], last["error"]),
                                     ("error", "agent_failed"))

    def test_runs(self):
        for name, lie in LIES.items():
            if name in ("exit and more", "a byte over the window"):
                continue  # is over, and was acknowledged
            with self.subTest(name):
                r = self.tell(lie, "run", body={"argv": ["x"]})
                self.assertEqual((r.status, r.json["error"]),
                                 (502, "agent_failed"))

    def test_attached(self):
        for name, lie in ATTACH_LIES.items():
            if "now" in name or "never" in name or "where" in name or \
                    "not acknowledged" in name:
                continue  # needs what handlers do not ask for
            with self.subTest(name):
                r = self.tell(lie, "processes/1?stdout=1000&stderr=5", "GET",
                              behave=hostile_attach)
                self.assertEqual(r.status, 200, r)
                last = json.loads(r.body.splitlines()[-1])
                self.assertEqual((last["type"], last["error"]),
                                 ("error", "agent_failed"))

    def test_words_of_an_agent(self):
        """A message of any bytes, a number that is none."""
        def behave(peer):
            peer.hello()
            while True:
                channel = peer.spawned()[0]
                peer.send(FAILED, channel,
                          struct.pack("<II", code, len(text)) + text + b"\0")
        for code, text, status, word in (
                (2, b"none \xff\x01\"<", 400, "spawn_failed"),
                (0, b"", 400, "spawn_failed"),
                (2**32 - 1, b"x" * 1024, 400, "spawn_failed"),
                (17, b"tag", 409, "conflict")):
            with self.subTest(code=code):
                self.w.behave = behave
                box = self.a.create()
                for path in ("run", "processes", "processes?stream=true"):
                    r = self.a.api("POST", f"/v1/sandboxes/{box}/{path}",
                                   {"argv": ["x"]})
                    self.assertEqual((r.status, r.json["error"]),
                                     (status, word))

    def test_lists(self):
        """What `ps` writes is the sandbox's word only."""
        def record(args=b"x\0", number=1, state=1, user=b"u", tag=b"t",
                   kind=1, when=1, cut=0):
            body = struct.pack("<BIIBB", kind, number, 2, state, 0)
            for s in (user, tag):
                body += struct.pack("<I", len(s)) + s + b"\0"
            body += struct.pack("<QQQBIQQQB", when, 3, 4, 0, 0, 5, 6, 7, cut)
            body += args
            return struct.pack("<I", len(body)) + body

        def writes(data):
            def act(peer, ch):
                acked = 0
                for at in range(0, len(data), 60000):
                    part = data[at:at + 60000]
                    while at + len(part) - acked > WINDOW:
                        kind, _, p = peer.recv()
                        if kind == ACK:
                            acked = struct.unpack("<BQ", p)[1]
                    peer.output(ch, part, 1, at)
                peer.exit(ch)
            return act

        good = record(b"\xff\0\0ok\0", user=b"\xfe", tag=b"\xfd",
                      when=2**64 - 1)
        r = self.tell(writes(good), "processes", "GET", again=False)
        self.assertEqual(r.status, 200, r)
        shown = r.json["processes"][0]
        self.assertEqual((shown["argv"], shown["user"], shown["tag"]),
                         (["\ufffd", "", "ok"], "\ufffd", "\ufffd"))
        for name, data in {
                "half a record": good[:-1], "a long one": b"\xff" * 8,
                "number 0": record(number=0), "state 9": record(state=9),
                "kind 7": record(kind=7), "cut 2": record(cut=2),
                "no end": record(b"x"), "a long tag": record(tag=b"t" * 65),
                "too many": record() * 2561,
                "too many words": record(bytes(4096)) * 17,
                "without an end": record() * 40000}.items():
            with self.subTest(name):
                r = self.tell(writes(data), "processes", "GET",
                              again=False)
                self.assertEqual((r.status, r.json["error"]),
                                 (502, "agent_failed"), r)
        r = self.tell(lambda peer, ch: peer.exit(ch, 1), "processes", "GET",
                      again=False)
        self.assertEqual(r.status, 502)

    def test_many_long_lists(self):
        """What is put together for all who ask has a limit."""
        body = struct.pack("<BIIBB", 1, 1, 2, 1, 0) + b"\1\0\0\0u\0" + bytes(5)
        body += struct.pack("<QQQBIQQQB", 1, 3, 4, 0, 0, 5, 6, 7, 0)
        body += b"z" * 4000 + b"\0"
        part = (struct.pack("<I", len(body)) + body) * 15

        def long_list(peer):
            peer.hello()
            at = {}
            while True:
                kind, channel, p = peer.heard()
                if kind == SPAWN:
                    at[channel] = 0
                    peer.send(STARTED, channel, struct.pack("<II", 2, 1))
                elif kind != ACK or channel not in at:
                    continue
                acked = struct.unpack("<BQ", p)[1] if kind == ACK else 0
                while at[channel] + len(part) <= min(acked + WINDOW, 9 << 20):
                    peer.output(channel, part, 1, at[channel])
                    at[channel] += len(part)
        self.w.behave = long_list
        box = self.a.create()
        before = self.a.rss()
        conns = [harness.UnixHTTP(self.a.sock, 8 * SLOW) for _ in range(30)]
        for conn in conns:
            conn.request("GET", f"/v1/sandboxes/{box}/processes")
        words, waiting = set(), list(conns)

        def refused():
            for conn in list(waiting):
                if select.select([conn.sock], [], [], 0)[0]:
                    words.add(json.load(conn.getresponse()).get("error"))
                    waiting.remove(conn)
            return "limit_reached" in words
        wait_for("one is refused", refused, 30 * SLOW)
        self.assertLess(self.a.rss() - before, (110 << 20) * SLOW)
        for conn in conns:
            conn.close()

    def test_tiny_frames_to_a_slow_reader(self):
        """Each byte as an event would be 70 times as large."""
        def tiny(peer, ch):
            peer.sock.sendall(b"".join(
                raw_frame(10, OUTPUT, ch) + struct.pack("<BQ", stream, n) + b"z"
                for n in range(WINDOW) for stream in (1, 2)))
            sent.set()
        sent = threading.Event()
        self.w.behave = hostile(tiny)
        box = self.a.create()
        before = self.a.rss()
        conn = harness.UnixHTTP(self.a.sock, 20 * SLOW)
        conn.request("POST", f"/v1/sandboxes/{box}/processes?stream=true",
                     json.dumps({"argv": ["x"]}))
        self.assertTrue(sent.wait(10 * SLOW))
        time.sleep(0.5)
        self.assertLess(self.a.rss() - before, (6 << 20) * SLOW)
        r = conn.getresponse()
        got = {"stdout": 0, "stderr": 0}
        while got != {"stdout": WINDOW, "stderr": WINDOW}:
            event = json.loads(r.readline())
            if event["type"] == "output":
                self.assertEqual(event["offset"], got[event["stream"]])
                got[event["stream"]] += len(event["data"])
        conn.close()

    def test_gaps_without_end(self):
        """Each would be an event for a client that reads none of them."""
        def gaps(peer, ch):
            for n in range(200):
                peer.sock.sendall(b"".join(
                    raw_frame(9, GAP, ch) +
                    struct.pack("<BQ", 1, 1 + n * 1000 + i)
                    for i in range(1000)))
        self.w.behave = hostile_attach(gaps)
        box = self.a.create()
        before = self.a.rss()
        conn = harness.UnixHTTP(self.a.sock, 20 * SLOW)
        conn.request("GET", f"/v1/sandboxes/{box}/processes/1")
        wait_for("degraded", lambda: self.a.api(
            "GET", f"/v1/sandboxes/{box}").json["degraded"], 5 * SLOW)
        self.assertLess(self.a.rss() - before, (6 << 20) * SLOW)
        conn.close()

    def test_large_requests_to_a_silent_agent(self):
        """Their clients leave, they stay queued: up to a limit."""
        self.w.behave = lambda peer: time.sleep(60)
        box = self.a.create()
        before = self.a.rss()
        body = json.dumps({"argv": ["x", "y" * 900000]})
        for n in range(60):
            conn = harness.UnixHTTP(self.a.sock, max(2, 0.5 * SLOW))
            conn.request("POST", f"/v1/sandboxes/{box}/run", body)
            try:
                r = conn.getresponse()
                self.assertEqual((r.status, json.load(r)["error"]),
                                 (503, "try_again"))
            except TimeoutError:
                self.assertLess(n, 10)
            conn.close()
        if not harness.SANITIZED:  # there, what was freed is kept a while
            self.assertLess(self.a.rss() - before, 24 << 20)

    def test_silent_agent(self):
        """Requests wait, and go with their clients."""
        self.w.behave = lambda peer: time.sleep(60)
        box = self.a.create()
        fds = self.a.fds()
        conns = []
        for method, path, body in (
                ("POST", "run", b'{"argv":["x"]}'),
                ("POST", "processes?stream=true", b'{"argv":["x"]}'),
                ("POST", "processes", b'{"argv":["x"]}'),
                ("GET", "processes/1", None), ("GET", "processes/1/wait", None),
                ("POST", "processes/1/input", b"x" * 100000),
                ("POST", "processes/1/signal", b'{"signal":9}'),
                ("GET", "processes", None)):
            conn = harness.UnixHTTP(self.a.sock, 5)
            conn.request(method, f"/v1/sandboxes/{box}/{path}", body)
            conns.append(conn)
        time.sleep(0.5)
        for conn in conns:
            conn.close()
        self.fds_settle(fds)
        r = self.a.api("POST", f"/v1/sandboxes/{box}/run",
                       {"argv": ["x"], "timeout": 0.2})
        self.assertEqual((r.status, r.json["exit"], r.json["timed_out"]),
                         (200, None, True))


class Chance(ApiCase):
    """Agents that are nearly right, and clients of every kind: by chance."""

    def agent(self, rng):
        def number():
            return rng.choice((0, 0, 1, 5, 1000, WINDOW, OFFSET_MAX,
                               OFFSET_NOW, rng.randrange(2**64)))

        def words():
            n = rng.randrange(40)
            return struct.pack("<II", rng.choice((0, 2, 17, 2**32 - 1)), n) + \
                rng.randbytes(n) + b"\0"

        def lie(peer, state, ch):
            """One frame; what was said before makes most of them fit."""
            kind = rng.choice((STARTED, ATTACHED, OUTPUT, OUTPUT, OUTPUT,
                               OUTPUT_EOF, GAP, EXIT, FAILED, INPUT_ACK, PONG))
            stream = rng.choice((1, 1, 1, 2, 2, 3))
            at = state.setdefault((ch, stream), 0)
            if rng.random() < 0.02:
                at = number()
            data = rng.randbytes(rng.choice((1, 3, 100, 9000)))
            if kind == OUTPUT:
                peer.output(ch, data, stream, at)
                state[ch, stream] = (at + len(data)) % 2**64
            elif kind in (GAP, OUTPUT_EOF):
                to = at + rng.choice((0, 1, 5000)) if kind == GAP else at
                peer.send(kind, ch, struct.pack("<BQ", stream, to % 2**64))
                state[ch, stream] = to % 2**64
            elif kind == STARTED:
                peer.send(kind, ch, struct.pack("<II", 2, rng.randrange(9)))
            elif kind == ATTACHED:
                peer.attached(ch, rng.randrange(9), offset=number())
            elif kind == EXIT:
                peer.exit(ch, rng.randrange(300))
            elif kind == FAILED:
                peer.send(kind, ch, words())
            elif kind == INPUT_ACK:
                peer.send(kind, ch, struct.pack("<Q", number()))
            else:
                peer.send(kind, ch, rng.randbytes(rng.randrange(70)))

        def behave(peer):
            peer.hello()
            state, known = {}, [1]
            while True:
                kind, ch, payload = peer.recv()
                if kind == PING and rng.random() < 0.9:
                    peer.send(PONG, ch, payload)
                if kind in (SPAWN, ATTACH):
                    known.append(ch)
                    if rng.random() < 0.9:
                        if kind == SPAWN:
                            peer.send(STARTED, ch, struct.pack("<II", 2, 1))
                        else:
                            peer.attached(ch)
                for _ in range(rng.randrange(6)):
                    lie(peer, state, rng.choice(known[-4:]))
        return behave

    def client(self, rng, box):
        path = f"/v1/sandboxes/{box}/processes"
        what = rng.randrange(8)
        if what == 0:
            x = self.a.exec_wire(box)
            x.sock.settimeout(0.3)
            for n in range(1, 4):
                if rng.random() < 0.5:
                    x.spawn(["x"], channel=n)
                else:
                    x.attach(1, channel=n)
            for _ in range(rng.randrange(20)):
                kind, ch, p = x.recv()
                if kind == OUTPUT and rng.random() < 0.7:
                    stream, offset = struct.unpack_from("<BQ", p)
                    x.send(ACK, ch, struct.pack("<BQ", stream,
                                                offset + len(p) - 9))
                if rng.random() < 0.1:
                    x.send(DETACH, ch, b"\1")
            x.close()
            return
        if what == 1:
            ws = websocket.WebSocket(self.a.sock, f"/v1/sandboxes/{box}/terminal"
                                     + rng.choice(("", "?process=1")), 0.3)
            for _ in range(rng.randrange(10)):
                ws.send(rng.choice((websocket.BINARY, websocket.TEXT)),
                        rng.choice((b'{"resize":{"rows":1,"cols":2}}', b"x",
                                    b'{"signal":9}', b'{"', b"\xff",
                                    rng.randbytes(9000))))
                ws.recv()
            ws.close(rng.choice((None, 1000)))
            return
        method, where, body = rng.choice((
            ("POST", path, b'{"argv":["x"]}'),
            ("POST", path + "?stream=true", b'{"argv":["x"]}'),
            ("GET", path + "/1", None), ("GET", path, None),
            ("GET", path + "/1/wait", None),
            ("POST", path + "/1/input?eof=true", b"x" * 300000),
            ("POST", path + "/1/signal", b'{"signal":9}'),
            ("POST", f"/v1/sandboxes/{box}/run",
             b'{"argv":["x"],"input":"in","timeout":0.05}')))
        self.a.api(method, where, body, timeout=rng.choice((0.05, 0.3)))

    def test_chance(self):
        seed = int(os.environ.get("CHANCE_SEED", time.time_ns() % 10**6))
        print(f"# seed {seed}")
        end = time.monotonic() + float(os.environ.get("CHANCE_SECONDS", 6))
        self.w.behave = self.agent(random.Random(seed))
        boxes = [self.a.create() for _ in range(3)]

        def crowd(rng):
            while time.monotonic() < end:
                try:
                    self.client(rng, rng.choice(boxes))
                except (OSError, EOFError, WireError, websocket.Refused,
                        http.client.HTTPException):
                    pass
                except (struct.error, ValueError) as e:
                    failures.append(repr(e))
        failures = []
        threads = [threading.Thread(target=crowd, args=(random.Random(seed + n),))
                   for n in range(1, 5)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(failures, [])
        self.assertIsNone(self.a.proc.poll(), self.a.log()[-3000:])
        self.w.behave = polite
        for box in boxes:
            self.a.rm(box)
        box = self.a.create()
        r = self.a.api("POST", f"/v1/sandboxes/{box}/run",
                       {"argv": ["echo", "fine"]})
        self.assertEqual(r.json["stdout"], "fine")


class HostileClient(ApiCase):
    def bad_client(self, *frames, spawn=True):
        """Sends frames; the connection must be cut."""
        x = self.a.exec_wire(self.box)
        if spawn:
            x.spawn(["sleep"])
            self.assertEqual(x.recv()[0], STARTED)
        x.sock.settimeout(30 * SLOW)
        with self.assertRaises((EOFError, ConnectionResetError,
                                BrokenPipeError)):
            for f in frames:
                x.sock.sendall(f)
            while True:
                x.recv()

    def test_violations(self):
        def frame(kind, channel, payload=b"", flags=0):
            return raw_frame(len(payload), kind, channel, flags) + payload
        self.box = self.a.create()
        part = struct.pack("<I", 0) + b"x" * 60000
        cases = {
            "an agent's frame": [frame(OUTPUT, 1, bytes(10))],
            "an exit": [frame(EXIT, 1, bytes(29))],
            "unknown": [frame(33, 1)],
            "too long": [raw_frame(65537, INPUT, 1)],
            "flags": [frame(INPUT_EOF, 1, flags=1)],
            "other flags": [frame(SPAWN, 2, bytes(20), flags=2)],
            "input over the window": [
                frame(INPUT, 1, struct.pack("<Q", n * 60000) + b"x" * 60000)
                for n in range(5)],
            "input with a gap": [frame(INPUT, 1, struct.pack("<Q", 1) + b"x")],
            "input after its end": [frame(INPUT_EOF, 1),
                                    frame(INPUT, 1, struct.pack("<Q", 0) + b"x")],
            "short input": [frame(INPUT, 1, b"1234")],
            "ack of what was not sent":
                [frame(ACK, 1, struct.pack("<BQ", 1, 1))],
            "ack of stream 3": [frame(ACK, 1, struct.pack("<BQ", 3, 0))],
            "resize of 3 bytes": [frame(harness.RESIZE, 1, b"123")],
            "signal of 2 bytes": [frame(SIGNAL, 1, b"12")],
            "signal 0": [frame(SIGNAL, 1, b"\0")],
            "signal 65": [frame(SIGNAL, 1, b"A")],
            "detach with words": [frame(DETACH, 1, b"12")],
            "a long ping": [frame(PING, 0, bytes(65))],
            "the same channel twice": [frame(SPAWN, 1, spawn_body(["x"]))],
            "channel 0": [frame(SPAWN, 0, spawn_body(["x"]))],
            "garbage in a spawn": [frame(SPAWN, 2, b"\xff" * 50)],
            "a spawn without a program": [frame(SPAWN, 2, spawn_body([]))],
            "a spawn without an end":
                [frame(SPAWN, 2, part, flags=1) for _ in range(20)],
            "an interrupted spawn": [frame(SPAWN, 2, part, flags=1),
                                     frame(SIGNAL, 1, b"\x0f")],
            "two half spawns": [frame(SPAWN, 2, part, flags=1),
                                frame(SPAWN, 3, part, flags=1)],
            "an attach to nothing": [frame(ATTACH, 2, attach_body(0, ""))],
            "an attach to two": [frame(ATTACH, 2, attach_body(1, "t"))],
            "an attach with a long tag":
                [frame(ATTACH, 2, attach_body(0, "t" * 65))],
            "an attach past the end of numbers":
                [frame(ATTACH, 2, attach_body(1, "", OFFSET_MAX + 1))],
            "an attach to one half":
                [frame(ATTACH, 2, attach_body(1, "", OFFSET_NONE, 0))],
            "an attach on a channel in use":
                [frame(ATTACH, 1, attach_body(1, ""))],
            "an attach on channel 0": [frame(ATTACH, 0, attach_body(1, ""))],
            "a short attach": [frame(ATTACH, 2, b"\1\0\0\0")],
            "input before it is attached": [
                frame(ATTACH, 2, attach_body(1, "")),
                frame(INPUT, 2, struct.pack("<Q", 0) + b"x")],
            "an ack of never": [
                frame(ATTACH, 2, attach_body(1, "", OFFSET_NOW)),
                frame(ACK, 2, struct.pack("<BQ", 1, OFFSET_NOW))],
            "detach of 2": [frame(DETACH, 1, b"\2")],
            "a request": [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"],
        }
        fds = None
        for name, frames in cases.items():
            with self.subTest(name):
                self.bad_client(*frames)
            # The sandbox and the others are not affected.
            x = self.a.exec_wire(self.box)
            x.spawn(["echo", name])
            self.assertEqual(x.finish()[1].decode(), name)
            x.close()
            fds = fds or self.a.fds()
        self.fds_settle(fds)
        shown = self.a.api("GET", f"/v1/sandboxes/{self.box}").json
        self.assertFalse(shown["degraded"])

    def test_no_hello(self):
        box = self.a.create()
        s = socket.socket(socket.AF_UNIX)
        s.connect(self.a.sock)
        s.settimeout(30 * SLOW)
        s.sendall(f"POST /v1/sandboxes/{box}/exec HTTP/1.1\r\nHost: x\r\n"
                  "Connection: Upgrade\r\nUpgrade: carrel-wire/1\r\n\r\n"
                  "GET / HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        got = b""
        while True:
            try:
                more = s.recv(4096)
            except ConnectionResetError:
                break
            if not more:
                break
            got += more
        # Nothing of it was taken for a second request.
        self.assertLessEqual(got.count(b"HTTP/1.1"), 1)
        self.assertNotIn(b"Content-Length", got)

    def test_late_frames_for_an_ended_channel_are_fine(self):
        box = self.a.create()
        x = self.a.exec_wire(box)
        x.spawn(["echo", "hi"])
        self.assertEqual(x.finish()[0], 0)
        x.send(SIGNAL, 1, b"\x0f")
        x.send(ACK, 1, struct.pack("<BQ", 1, 2))
        x.send(INPUT, 1, struct.pack("<Q", 0) + b"x")
        x.spawn(["echo", "again"])
        self.assertEqual(x.finish()[1], b"again")

    def test_too_many_processes(self):
        box = self.a.create()
        x = self.a.exec_wire(box)
        for n in range(CHANNELS):
            x.spawn(["sleep"], channel=n + 1)
            self.assertEqual(x.recv()[:2], (STARTED, n + 1))
        x.spawn(["sleep"], channel=9999)
        self.assertEqual(x.recv()[:2], (FAILED, 9999))

    def test_client_that_reads_nothing(self):
        """What it did not take of processes that ended is kept, up to a
        limit, and is not to the cost of others."""
        size = 200000

        def behave(peer):
            peer.hello()
            while True:
                channel, argv, _ = peer.spawned()
                n = int(argv[1])
                peer.send(STARTED, channel, struct.pack("<II", 2, 1))
                for at in range(0, n, 50000):
                    peer.output(channel, b"z" * min(50000, n - at), 1, at)
                peer.exit(channel)
        self.w.behave = behave
        box = self.a.create()
        before = self.a.rss()
        x = self.a.exec_wire(box)
        # Who takes nothing is not read from, either. With a timeout, send()
        # waits for more room than it needs.
        timeout = x.sock.gettimeout()
        x.sock.settimeout(None)
        for n in range(8):
            x.spawn(["write", str(size)], channel=n + 1)
        y = self.a.exec_wire(box, timeout=3 * SLOW)
        for n in range(8, 80):
            x.spawn(["write", str(size)], channel=n + 1)
            y.spawn(["write", "10"])
            self.assertEqual(y.finish(ack=False)[1], b"z" * 10)
        self.assertLess(self.a.rss() - before, (8 << 20) * SLOW)
        x.sock.settimeout(timeout)
        got = ended = 0
        while ended < 80:
            kind, _, p = x.recv()
            got += len(p) - 9 if kind == OUTPUT else 0
            ended += kind == EXIT
        self.assertEqual(got, 80 * size)

    def test_client_leaves(self):
        """Its processes are told: nobody listens any more."""
        frames = []

        def listen(peer):
            peer.hello()
            channel, _, _ = peer.spawned()
            peer.send(STARTED, channel, struct.pack("<II", 2, 1))
            frames.append(peer.recv())
            # Under way when the client left: dropped. The exit is not.
            peer.output(channel, b"too late")
            peer.exit(channel)
            _, argv, _ = peer.spawned()
            frames.append(argv)
        self.w.behave = listen
        box = self.a.create()
        fds = self.a.fds()
        x = self.a.exec_wire(box)
        x.spawn(["x"], channel=5)
        self.assertEqual(x.recv()[:2], (STARTED, 5))
        x.close()
        wait_for("a detach", lambda: frames, 3)
        self.assertEqual(frames[0][::2], (DETACH, b"\3"))
        self.fds_settle(fds)
        y = self.a.exec_wire(box)
        y.spawn(["second"])
        wait_for("the next request", lambda: frames[1:], 3)
        self.assertEqual(frames[1], ["second"])
        self.assertFalse(self.a.api("GET", f"/v1/sandboxes/{box}").json["degraded"])

    def test_client_attaches(self):
        """Frames of an attach go through; a detach frees the number."""
        heard = []

        def behave(peer):
            peer.hello()
            for _ in range(2):
                channel, number, tag, out, err = peer.asked()
                heard.append((number, tag, out, err))
                peer.attached(channel, 7, offset=50)
                peer.gap(channel, 2000)
                peer.gap(channel, 10, 2)
                peer.output(channel, b"now", 1, 2000)
                while heard[-1][0] != DETACH:
                    heard.append(peer.heard()[::2])
            peer.heard()
        self.w.behave = behave
        box = self.a.create()
        x = self.a.exec_wire(box)
        for tag, number in (("", 7), ("web", 0)):
            heard.clear()
            x.attach(number, tag, (1000, OFFSET_NOW), channel=3)
            self.assertEqual(x.recv(), (ATTACHED, 3,
                                        struct.pack("<IIQB", 2, 7, 50, 0)))
            self.assertEqual(x.recv(), (GAP, 3, struct.pack("<BQ", 1, 2000)))
            self.assertEqual(x.recv(), (GAP, 3, struct.pack("<BQ", 2, 10)))
            self.assertEqual(x.recv()[2][9:], b"now")
            x.send(ACK, 3, struct.pack("<BQ", 1, 2003))
            x.send(INPUT, 3, struct.pack("<Q", 50) + b"in")
            x.send(DETACH, 3, b"\0")
            wait_for("a detach", lambda: heard[-1:] == [(DETACH, b"\0")], 3)
            self.assertEqual(heard, [
                (number, tag, 1000, OFFSET_NOW),
                (ACK, struct.pack("<BQ", 1, 2003)),
                (INPUT, struct.pack("<Q", 50) + b"in"), (DETACH, b"\0")])

    def test_frames_under_way_to_one_who_left(self):
        """Dropped, whatever they are; until the ping behind the detach."""
        heard = []

        def behave(peer):
            peer.hello()
            channel = peer.asked()[0]
            peer.attached(channel)
            heard.append(peer.recv()[::2])
            peer.output(channel, b"x", offset=77)
            peer.attached(channel)
            peer.exit(channel)
            peer.gap(channel, 0)
            _, at, payload = peer.recv()
            peer.send(PONG, at, payload)
            heard.append(peer.spawned()[1])
            if lies:
                peer.output(channel, b"x")
            peer.recv()
        self.w.behave = behave
        for lies in (False, True):
            heard.clear()
            box = self.a.create()
            x = self.a.exec_wire(box)
            x.attach(1)
            self.assertEqual(x.recv()[0], ATTACHED)
            x.send(DETACH, 1, b"\0")
            wait_for("the detach", lambda: heard == [(DETACH, b"\0")], 3)
            x.spawn(["next"])
            wait_for("the next request", lambda: heard[1:] == [["next"]], 3)
            shown = lambda: self.a.api("GET", f"/v1/sandboxes/{box}").json
            if lies:
                wait_for("degraded", lambda: shown()["degraded"], 3)
            else:
                self.assertFalse(shown()["degraded"])
            x.close()

    def test_lies_to_a_watcher(self):
        """Nobody listens but the log: the rules are the same."""
        for name, lie in LIES.items():
            if name == "exit and more":
                continue

            def behave(peer):
                peer.hello()
                channel = peer.spawned()[0]
                peer.send(STARTED, channel, struct.pack("<II", 2, 1))
                peer.recv()
                lie(peer, channel)
                peer.recv()
            with self.subTest(name):
                self.w.behave = behave
                box = self.a.create()
                r = self.a.api("POST", f"/v1/sandboxes/{box}/processes",
                               {"argv": ["x"]})
                self.assertEqual(r.status, 201)
                wait_for("degraded", lambda: self.a.api(
                    "GET", f"/v1/sandboxes/{box}").json["degraded"], 3)
                self.a.rm(box)

    def test_clients_come_and_go(self):
        """More often than there are channels; all are free again."""
        def behave(peer):
            peer.hello()
            while True:
                kind, channel, _ = peer.heard()
                if kind == ATTACH:
                    peer.attached(channel)
        self.w.behave = behave
        x = self.a.exec_wire(self.a.create())
        for n in range(2 * CHANNELS):
            x.attach(1, channel=1)
            self.assertEqual(x.recv()[:2], (ATTACHED, 1))
            x.send(DETACH, 1, b"\1")

    def test_agent_that_does_not_answer_pings(self):
        """Those who left are remembered, up to the limit of channels."""
        def behave(peer):
            peer.hello()
            while True:
                kind, channel, _ = peer.recv()
                if kind == ATTACH:
                    peer.attached(channel)
                elif kind == DETACH:
                    peer.exit(channel)
        self.w.behave = behave
        x = self.a.exec_wire(self.a.create())
        for n in range(CHANNELS):
            x.attach(1, channel=n + 1)
            x.send(DETACH, n + 1, b"\1")
        x.attach(1, channel=9999)
        while True:
            kind, channel, payload = x.recv()
            if channel == 9999:
                break
        self.assertEqual((kind, struct.unpack_from("<I", payload)[0]),
                         (FAILED, 24))

    def test_run_client_leaves(self):
        x = self.a.run_wire()
        x.spawn(["sleep"])
        self.assertEqual(x.recv()[0], STARTED)
        self.assertEqual(self.a.ids(), [x.headers["sandbox-id"]])
        x.close()
        wait_for("its sandbox is gone", lambda: not self.w.boxes, 3)
        self.assertEqual(self.a.ids(), [])

    def test_create_client_leaves(self):
        """The answer never arrived: what it made goes away."""
        self.w.silent = {LAUNCH}
        s = socket.socket(socket.AF_UNIX)
        s.connect(self.a.sock)
        s.sendall(b"POST /v1/sandboxes HTTP/1.1\r\nHost: x\r\n"
                  b"Content-Length: 16\r\n\r\n{\"name\":\"taken\"}")
        op = wait_for("a launch", lambda: [x for x in self.w.seen
                                           if x[0] == LAUNCH], 3)[0]
        s.close()
        time.sleep(0.1)
        # The answer comes late, and finds nobody.
        self.w.boxes[op[1]] = fake_warden.Agent(self.w, op[1])
        for seq in range(1, 20):
            self.w.reply(self.w.conn, LAUNCH, seq)
        wait_for("it was killed", lambda: (KILL, op[1]) in self.w.seen, 3)

    def test_pings(self):
        box = self.a.create()
        x = self.a.exec_wire(box)
        y = self.a.exec_wire(box)
        for n in range(10):
            x.send(PING, n, b"x%d" % n)
            y.send(PING, 3, b"y%d" % n)
        for n in range(10):
            self.assertEqual(x.recv(), (PONG, n, b"x%d" % n))
            self.assertEqual(y.recv(), (PONG, 3, b"y%d" % n))

    def test_env_of_the_spec(self):
        box = self.a.create(env={"A": "spec", "B": "spec"})
        x = self.a.exec_wire(box)
        x.spawn(["env"], env=["B=mine", "C=mine"])
        self.assertEqual(sorted(x.finish()[1].decode().split("\n")),
                         ["A=spec", "B=mine", "C=mine"])
        # A request of many frames, too.
        x.spawn(["env", "z" * 200000], env=["B=mine"])
        self.assertEqual(sorted(x.finish()[1].decode().split("\n")),
                         ["A=spec", "B=mine"])

    def test_env_that_makes_it_too_large(self):
        box = self.a.create(env={"A": "v" * 30000})
        x = self.a.exec_wire(box)
        x.spawn(["env", "z" * ((1 << 20) - 1000)])
        with self.assertRaises(WireError) as failed:
            x.finish()
        self.assertEqual(failed.exception.args[0], 7)  # E2BIG
        x.spawn(["echo", "fine"])
        self.assertEqual(x.finish()[1], b"fine")


def spawn_body(argv):
    body = struct.pack("<IHH", 0, 0, 0) + harness.pack_str("") * 3
    body += struct.pack("<I", len(argv))
    body += b"".join(harness.pack_str(w) for w in argv)
    return body + struct.pack("<I", 0)


def attach_body(number, tag, out=0, err=0):
    return (struct.pack("<I", number) + harness.pack_str(tag) +
            struct.pack("<QQ", out, err))


class NoWarden(ApiCase):
    def test_requests_wait_for_it(self):
        box = self.a.create()
        self.w.crash()
        later = threading.Timer(0.7, self.w.listen)
        later.start()
        began = time.monotonic()
        other = self.a.create()
        self.assertGreater(time.monotonic() - began, 0.5)
        self.assertEqual(sorted(self.a.ids()), sorted([box, other]))

    def test_then_they_are_told(self):
        box = self.a.create()
        x = self.a.exec_wire(box)
        x.spawn(["sleep"])
        self.assertEqual(x.recv()[0], STARTED)
        self.w.crash()
        began = time.monotonic()
        r = self.a.api("POST", "/v1/sandboxes", {})
        self.assertEqual((r.status, r.json["error"]), (503, "warden_unavailable"))
        self.assertLess(4, time.monotonic() - began)
        self.assertLess(time.monotonic() - began, 14 * SLOW)
        # What does not need it goes on.
        self.assertEqual(self.a.ids(), [box])
        x.send(PING, 0, b"still there")
        self.assertEqual(x.recv(), (PONG, 0, b"still there"))
        y = self.a.exec_wire(box)
        y.spawn(["echo", "fine"])
        self.assertEqual(y.finish()[1], b"fine")
        # Back again, without the sandbox.
        self.w.boxes.pop(box).end()
        self.w.listen()
        wait_for("it is forgotten", lambda: not self.a.ids(), 3)

    def test_a_kill_is_asked_for_again(self):
        box = self.a.create()
        self.w.silent = {KILL}
        got = []
        t = threading.Thread(target=lambda: got.append(
            self.a.api("DELETE", f"/v1/sandboxes/{box}")))
        t.start()
        wait_for("the kill", lambda: (KILL, box) in self.w.seen, 3)
        self.w.crash()
        self.w.silent = set()
        self.w.listen()
        t.join(60)
        self.assertEqual(got[0].status, 204)
        self.assertEqual(self.a.ids(), [])
        self.assertEqual(self.w.boxes, {})

    def test_a_launch_that_was_cut_off_leaves_nothing(self):
        self.w.silent = {LAUNCH}
        got = []
        t = threading.Thread(target=lambda: got.append(
            self.a.api("POST", "/v1/sandboxes", {"name": "n"})))
        t.start()
        op = wait_for("the launch", lambda: [x for x in self.w.seen
                                             if x[0] == LAUNCH], 3)[0]
        # It was launched, but nobody could say so.
        self.w.boxes[op[1]] = fake_warden.Agent(self.w, op[1])
        self.w.boxes[op[1]].spec = struct.pack(
            LAUNCH_SPEC, op[1].encode(), b"", b"", b"", 0, 0, 0, 0, 0, 0, b"")
        self.w.crash()
        t.join(60)
        self.assertEqual(got[0].json["error"], "warden_unavailable")
        self.w.silent = set()
        self.w.listen()
        wait_for("it is killed", lambda: not self.w.boxes, 3)
        self.a.create(name="n")

    def test_launch_errors(self):
        for code, status, word in ((28, 507, "no_space"), (95, 501, "not_supported"),
                                   (2, 500, "internal"), (11, 503, "try_again")):
            self.w.refuse = {LAUNCH: (code, "because")}
            r = self.a.api("POST", "/v1/sandboxes", {"name": "again"})
            self.assertEqual((r.status, r.json["error"], r.json["message"]),
                             (status, word, "because"))
            self.assertEqual(self.a.ids(), [])
        self.w.refuse = {}
        self.a.create(name="again")


class Restart(ApiCase):
    def test_reconcile(self):
        """kill -9: rows stay, what has no row is killed."""
        kept = self.a.create(name="kept", timeout=3600, env={"A": "b"})
        lost = self.a.create(name="lost")
        x = self.a.run_wire()
        x.spawn(["sleep"])
        self.assertEqual(x.recv()[0], STARTED)
        before = self.a.api("GET", f"/v1/sandboxes/{kept}").json
        self.a.kill()
        self.w.boxes.pop(lost).end()
        gone = "i" + "z" * 26
        self.w.images.add(gone)
        self.a.start()
        self.assertEqual(self.a.ids(), [kept])
        wait_for("the run's sandbox is killed",
                 lambda: list(self.w.boxes) == [kept], 3)
        wait_for("the image without a name is removed",
                 lambda: gone not in self.w.images, 3)
        self.assertEqual(self.a.api("GET", f"/v1/sandboxes/{kept}").json, before)
        y = self.a.exec_wire("kept")
        y.spawn(["env"])
        self.assertEqual(y.finish()[1], b"A=b")
        self.a.create(name="lost")
        r = self.a.api("POST", "/v1/sandboxes", {"name": "kept"})
        self.assertEqual((r.status, r.json["error"]), (409, "conflict"))

    def test_deadlines_go_on(self):
        box = self.a.create(timeout=6)
        self.a.kill()
        self.a.start()
        self.assertEqual(self.a.ids(), [box])
        wait_for("it is removed", lambda: not self.a.ids(), 8)
        self.assertEqual(self.w.boxes, {})

    def test_deadline_passes_while_away(self):
        self.a.create(timeout=1)
        self.a.kill()
        time.sleep(1.2)
        self.a.start()
        wait_for("it is removed", lambda: not self.a.ids() and not self.w.boxes, 2)

    def test_an_image_that_is_not_there_any_more(self):
        self.a.put_image("other")
        self.a.kill()
        self.w.images.clear()
        self.a.start()
        self.assertEqual(self.a.api("GET", "/v1/images").json, {"images": []})
        r = self.a.api("POST", "/v1/sandboxes", {})
        self.assertEqual(r.status, 404)
        self.assertIn("image build", r.json["message"])

    def test_newer_state_is_refused(self):
        self.a.kill()
        with open(f"{self.a.state_dir}/FORMAT", "w") as f:
            f.write("2\n")
        with self.assertRaisesRegex(AssertionError, "format 2.*newer"):
            self.a.start()
        with open(f"{self.a.state_dir}/FORMAT", "w") as f:
            f.write("1\n")
        self.a.start()


if __name__ == "__main__":
    harness.main()
