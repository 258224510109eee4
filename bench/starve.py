"""What a client feels of others that take all they can get: 10,000 idle
connections of strangers, and a hog of another project on each pool.

The api is the real one and the warden a fake, because only the api decides who
waits for whom. Figures are p99 of requests one after the other, each on a
connection of its own, of what they are without the hog.
"""

import contextlib
import multiprocessing
import resource
import shutil
import socket
import time

import tcp
from test_starve import head, list_for_ever, percentile

STRANGERS = 10000
ROUNDS = 500
BOXES = 400
MIB = 1 << 20
MCP = {"Content-Type": "application/json",
       "Accept": "application/json, text/event-stream"}
HELLO = {"jsonrpc": "2.0", "id": 1, "method": "initialize",
         "params": {"protocolVersion": "2025-11-25", "capabilities": {},
                    "clientInfo": {"name": "bench", "version": "1"}}}


class Door:
    CONF = {"max_peer_connections": 0, "max_sandboxes": 2 * BOXES,
            "log_level": "info"}
    TLS = False

    def __enter__(self):
        tcp.open_door(self, "carrel-bench-")
        self.held = contextlib.ExitStack()
        self.hog, self.victim = self.key("hog"), self.key("victim")
        return self

    def __exit__(self, *exc):
        self.held.close()
        self.a.stop()
        shutil.rmtree(self.dir)

    def key(self, project):
        return self.a.api("POST", "/v1/keys", {
            "name": project, "scope": "use", "project": project}).json["key"]

    def connect(self, source="127.0.0.1"):
        return self.held.enter_context(socket.create_connection(
            ("127.0.0.1", self.port), 60, source_address=(source, 0)))

    def ask(self, method, path, body=None, headers=None, key=None):
        r = tcp.call(self.port, method, path, body, headers, key or self.victim)
        if r.status // 100 != 2:
            raise AssertionError(f"{method} {path}: {r}")

    def p99(self, *request):
        """Seconds; a request that fails ends the bench."""
        times = []
        for _ in range(ROUNDS):
            start = time.monotonic()
            self.ask(*request)
            times.append(time.monotonic() - start)
        return percentile(times, 0.99)

    def hold(self, request, n):
        for _ in range(n):
            self.connect().sendall(request)


def strangers(d):
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    for i in range(STRANGERS):
        d.connect(f"127.0.0.{2 + i % 20}")


def puts(d):
    d.hold(head("PUT", "/v1/drive/files/f", d.hog, Content_Length=10,
                Expect="100-continue"), 128)


def bodies(d):
    d.hold(head("POST", "/mcp", d.hog, Content_Length=8 * MIB - 1,
                Content_Type="application/json", Accept="application/json")
           + b"{", 32)


def boxes(d):
    for _ in range(BOXES):
        d.ask("POST", "/v1/sandboxes", {}, None, d.hog)


def listers(d):
    begun = multiprocessing.Event()
    hog = multiprocessing.Process(target=list_for_ever, daemon=True,
                                  args=(d.port, d.hog, 20, begun))
    hog.start()
    d.held.callback(hog.join)
    d.held.callback(hog.terminate)
    begun.wait(60)


# (what, before the first figure, the hog, the victim's request, most)
CASES = (
    (f"stranger's GET beside {STRANGERS} idle strangers", None, strangers,
     ("GET", "/healthz"), 5),
    ("drive put beside a hog that holds puts", None, puts,
     ("PUT", "/v1/drive/files/mine", b"x"), 3),
    ("MCP initialize beside a hog that stalls bodies", None, bodies,
     ("POST", "/mcp", HELLO, MCP), 3),
    (f"list beside 20 listers of {BOXES} sandboxes", boxes, listers,
     ("GET", "/v1/sandboxes"), 3),
)


def part(say, judge):
    say("\nother clients that take all they can get (p99, of alone):")
    for what, prepare, hog, request, most in CASES:
        with Door() as d:
            if prepare:
                prepare(d)
            alone = d.p99(*request)
            hog(d)
            beside = d.p99(*request)
        say(f"  {what}: {alone * 1e3:.2f} ms alone, {beside * 1e3:.2f} ms")
        judge(what, beside / alone, most)
