# suite: sanitized
"""One client must not starve the others: a hog takes all that it can get of
each pool of the api, and a victim with a key of another project is served as
before."""

import contextlib
import multiprocessing
import os
import resource
import shutil
import socket
import subprocess
import time
import unittest

import fake_warden
import harness
import tcp
from harness import SLOW, wait_for

MIB = 1 << 20


def head(method, path, key=None, **fields):
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost"]
    if key:
        lines.append(f"Authorization: Bearer {key}")
    lines += [f"{k.replace('_', '-')}: {v}" for k, v in fields.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def answered(sock):
    """The head of the answer, when one has come within a moment; or b""."""
    try:
        return sock.recv(65536)
    except TimeoutError:
        return b""


def percentile(times, part):
    return sorted(times)[min(len(times) - 1, int(len(times) * part))]


class StarveCase(unittest.TestCase):
    CONF = {"max_peer_connections": 0}
    TLS = False

    def setUp(self):
        tcp.open_door(self, "carrel-starve-")
        self.stack = contextlib.ExitStack()
        self.hog, self.victim = self.key("hog"), self.key("victim")

    def tearDown(self):
        self.stack.close()
        self.a.stop()
        shutil.rmtree(self.dir)

    def key(self, project):
        r = self.a.api("POST", "/v1/keys", {"name": project, "scope": "use",
                                            "project": project})
        self.assertEqual(r.status, 201, r)
        return r.json["key"]

    def connect(self, source="127.0.0.1"):
        s = socket.create_connection(("127.0.0.1", self.port), 60 * SLOW,
                                     source_address=(source, 0))
        self.stack.enter_context(s)
        return s

    def call(self, method, path, body=None, headers=None, key=None):
        return tcp.call(self.port, method, path, body, headers,
                        key or self.victim)

    def metric(self, name):
        for line in self.a.api("GET", "/metrics").body.decode().splitlines():
            if line.startswith(f"carrel_{name} "):
                return int(line.split()[1])
        raise AssertionError(f"no metric {name}")

    def hold_all(self, request, n):
        """Sends requests that stay, more than a project may have: the last of
        them is refused."""
        for _ in range(n):
            s = self.connect()
            s.sendall(request)
        got = s.recv(65536)
        self.assertIn(b" 429 ", got.split(b"\r\n")[0])
        self.assertIn(b"project hog has its share", got)

    def measure(self, fn, n):
        times = []
        for _ in range(n):
            start = time.monotonic()
            fn()
            times.append(time.monotonic() - start)
        return times


class Strangers(StarveCase):
    def limit(self):
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
        return min(files // 8 * 5, 16384)

    def stranger(self):
        s = socket.create_connection(("127.0.0.1", self.port), 60 * SLOW)
        with s:
            s.sendall(head("GET", "/healthz", Connection="close"))
            got = b""
            while more := s.recv(65536):
                got += more
        self.assertIn(b" 200 ", got.split(b"\r\n")[0])

    def test_idle_strangers_lock_nobody_out(self):
        limit = self.limit()
        known = self.connect()
        request = head("GET", "/v1/host", self.victim)
        known.sendall(request)
        self.assertIn(b" 200 ", known.recv(65536))
        alone = percentile(self.measure(self.stranger, 200), 0.99)
        crowd = [self.connect(f"127.0.0.{2 + i % 3}")
                 for i in range(limit + 100)]
        crowded = percentile(self.measure(self.stranger, 200), 0.99)
        self.assertEqual(self.call("GET", "/v1/host").status, 200)
        # The oldest of them have gone, the newest and a known client have not.
        self.assertEqual(crowd[0].recv(1), b"")
        crowd[-1].sendall(head("GET", "/healthz"))
        self.assertIn(b" 200 ", crowd[-1].recv(65536))
        known.sendall(request)
        self.assertIn(b" 200 ", known.recv(65536))
        self.assertLess(crowded, max(20 * alone, 0.5 * SLOW))

    def test_address_makes_room_among_its_own(self):
        self.a.kill()
        self.a.conf["max_peer_connections"] = 8
        self.a.start()
        other = self.connect("127.0.0.2")
        crowd = [self.connect() for _ in range(20)]
        self.assertEqual(self.call("GET", "/v1/host").status, 200)
        self.assertEqual(crowd[0].recv(1), b"")
        other.sendall(head("GET", "/healthz"))
        self.assertIn(b" 200 ", other.recv(65536))


class Pools(StarveCase):
    def test_drive_puts(self):
        self.hold_all(head("PUT", "/v1/drive/files/f", self.hog,
                           Content_Length=10, Expect="100-continue"), 128)
        r = self.call("PUT", "/v1/drive/files/mine", b"whole")
        self.assertIn(r.status, (200, 201), r)

    def test_mcp_bodies(self):
        fields = {"Content_Type": "application/json",
                  "Accept": "application/json, text/event-stream"}
        self.hold_all(head("POST", "/mcp", self.hog,
                           Content_Length=8 * MIB - 1, **fields) + b"{", 32)
        self.session(self.victim)

    def session(self, key):
        r = self.call("POST", "/mcp", {
            "jsonrpc": "2.0", "id": 1, "method": "initialize",
            "params": {"protocolVersion": "2025-11-25", "capabilities": {},
                       "clientInfo": {"name": "t", "version": "1"}}},
            {"Content-Type": "application/json",
             "Accept": "application/json, text/event-stream"}, key)
        self.assertEqual(r.status, 200, r)
        return {k.lower(): v for k, v in r.headers.items()}["mcp-session-id"]

    def test_mcp_sessions(self):
        mine = self.session(self.victim)
        for i in range(6):
            key = self.key(f"hog{i}")
            for _ in range(258):
                self.session(key)
        r = self.call("POST", "/mcp",
                      {"jsonrpc": "2.0", "id": 2, "method": "ping"},
                      {"Content-Type": "application/json",
                       "Accept": "application/json", "Mcp-Session-Id": mine})
        self.assertEqual(r.status, 200, r)
        self.session(self.key("newcomer"))

    def test_readers_of_the_log(self):
        for i in range(5):
            key = self.key(f"hog{i}")
            for _ in range(17):
                s = self.connect()
                s.sendall(head("GET", "/v1/events?follow=true", key))
                s.recv(4096)
        s = self.connect()
        s.sendall(head("GET", "/v1/events?follow=true", self.victim))
        self.assertIn(b" 200 ", s.recv(4096).split(b"\r\n")[0])

    def test_requests_for_figures(self):
        w = self.a.warden
        r = self.call("POST", "/v1/sandboxes", {}, key=self.hog)
        self.assertEqual(r.status, 201, r)
        slow, real = r.json["id"], w.answer

        def answer(conn, op, seq, rest):
            if (op, fake_warden.text(rest[:28])) != (fake_warden.STAT, slow):
                real(conn, op, seq, rest)
        w.answer = answer
        self.hold_all(head("GET", "/v1/stats", self.hog), 16)
        self.assertEqual(self.call("POST", "/v1/sandboxes", {}).status, 201)
        self.assertEqual(self.call("GET", "/v1/stats").status, 200)

    def test_volumes(self):
        for n in range(513):
            r = self.call("POST", "/v1/volumes", {"name": f"v{n}"}, key=self.hog)
            self.assertEqual(r.status, 201 if n < 512 else 429, r)
        self.assertIn("project hog has its share", r.json["message"])
        r = self.call("POST", "/v1/volumes", {"name": "mine"})
        self.assertEqual(r.status, 201, r)

    def paused(self, key):
        r = self.call("POST", "/v1/sandboxes", {}, key=key)
        self.assertEqual(r.status, 201, r)
        box = r.json["id"]
        r = self.call("POST", f"/v1/sandboxes/{box}/pause", {}, key=key)
        self.assertEqual(r.status // 100, 2, r)
        return box

    def test_requests_that_wait_for_sandboxes(self):
        w, real = self.a.warden, self.a.warden.answer
        boxes = [self.paused(self.hog) for _ in range(5)]
        mine = self.paused(self.victim)

        def answer(conn, op, seq, rest):
            if op != fake_warden.RESUME or \
                    fake_warden.text(rest[:28]) not in boxes:
                real(conn, op, seq, rest)
        w.answer = answer
        waiting = [self.connect() for _ in range(1200)]
        for i, s in enumerate(waiting):
            s.sendall(head("GET", f"/v1/sandboxes/{boxes[i % 5]}/processes",
                           self.hog))
        wait_for("the hog has its share",
                 lambda: self.metric("held_requests") == 512, 30 * SLOW)
        r = self.call("GET", f"/v1/sandboxes/{mine}/processes")
        self.assertEqual(r.status, 200, r)


def list_for_ever(port, key, connections, begun):
    socks = [socket.create_connection(("127.0.0.1", port))
             for _ in range(connections)]
    request = head("GET", "/v1/sandboxes", key)
    while True:
        for s in socks:
            s.sendall(request)
        for s in socks:
            got = s.recv(4096)
            fields, _, rest = got.partition(b"\r\n\r\n")
            length = fields.lower().split(b"content-length: ")[1].split(b"\r")[0]
            left = int(length) - len(rest)
            while left > 0:
                left -= len(s.recv(1 << 20))
        begun.set()


class Lists(StarveCase):
    CONF = {"max_peer_connections": 0, "max_sandboxes": 600}

    def test_listers_do_not_delay_others(self):
        for _ in range(400):
            r = self.call("POST", "/v1/sandboxes", {}, key=self.hog)
            self.assertEqual(r.status, 201, r)

        def one():
            self.assertEqual(self.call("GET", "/v1/sandboxes").status, 200)
        alone = percentile(self.measure(one, 100), 0.5)
        begun = multiprocessing.Event()
        hog = multiprocessing.Process(target=list_for_ever, daemon=True,
                                      args=(self.port, self.hog, 20, begun))
        hog.start()
        try:
            self.assertTrue(begun.wait(30 * SLOW))
            crowded = percentile(self.measure(one, 100), 0.5)
        finally:
            hog.terminate()
            hog.join()
        self.assertLess(crowded, max(10 * alone, 0.1 * SLOW))

    def test_pages_have_a_default_size(self):
        for _ in range(120):
            self.a.create()
        r = self.a.api("GET", "/v1/sandboxes").json
        self.assertEqual(len(r["sandboxes"]), 100)
        rest = self.a.api("GET", f"/v1/sandboxes?after={r['next']}").json
        self.assertEqual((len(rest["sandboxes"]), rest["next"]), (20, None))
        p = subprocess.run([os.path.join(harness.BUILD, "bin/carrel"), "ls", "-q"],
                           env={**os.environ, "CARREL_SOCKET": self.a.sock},
                           capture_output=True, text=True, check=True)
        self.assertEqual(len(p.stdout.splitlines()), 120)


class Drips(StarveCase):
    CONF = {"max_peer_connections": 0, "client_timeout": "2s"}

    def test_body_in_drops_gets_408(self):
        s = self.connect()
        s.sendall(head("PUT", "/v1/drive/files/f", self.hog, Content_Length=100000))
        s.settimeout(0.1)
        deadline = time.monotonic() + 20 * SLOW
        got = b""
        while not got and time.monotonic() < deadline:
            s.sendall(b"x")
            got = answered(s)
        self.assertIn(b" 408 ", got.split(b"\r\n")[0])
        self.assertIn(b"1 KiB a second", got)

    def test_slow_body_above_the_minimum_rate_is_whole(self):
        s = self.connect()
        s.sendall(head("PUT", "/v1/drive/files/f", self.hog, Content_Length=60000))
        start = time.monotonic()
        for _ in range(30):
            s.sendall(b"x" * 2000)
            time.sleep(0.1)
        self.assertGreater(time.monotonic() - start, 2)
        got = s.recv(65536)
        self.assertIn(got.split(b"\r\n")[0].split()[1], (b"200", b"201"))


if __name__ == "__main__":
    harness.main()
