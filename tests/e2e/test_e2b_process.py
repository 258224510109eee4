# suite: both
# suite: npm
"""Commands and terminals over the E2B SDKs, and what these do not show."""

import base64
import json
import struct
import time

import clients
import harness
from harness import SLOW, UnixHTTP, wait_for


@clients.cases("e2b_process.test.mjs", variants=["e2b", "e2b-old"])
class Processes(clients.Case):
    IMAGE = "debian"


class Stream:
    """The answer of Start or Connect, message by message."""

    def __init__(self, sock, method, fields, message):
        body = json.dumps(message).encode()
        self.conn = UnixHTTP(sock)
        self.conn.request("POST", f"/process.Process/{method}",
                          struct.pack(">BI", 0, len(body)) + body,
                          {**fields, "Content-Type": "application/connect+json"})
        self.answer = self.conn.getresponse()
        self.status = self.answer.status

    def next(self):
        """(flags, message)"""
        flags, n = struct.unpack(">BI", self.answer.read(5))
        return flags, json.loads(self.answer.read(n))

    def event(self, kind):
        flags, m = self.next()
        assert flags == 0 and kind in m["event"], m
        return m["event"][kind]

    def close(self):
        self.conn.close()


class Wire(harness.Case):
    def enter(self, **spec):
        """A sandbox of any maker, and the fields that lead into it."""
        box = self.i.create(**spec)
        info = self.i.api("GET", f"/sandboxes/{box}").json
        return box, {"E2b-Sandbox-Id": box,
                     "X-Access-Token": info["envdAccessToken"]}

    def stream(self, method, fields, message):
        s = Stream(self.i.sock, method, fields, message)
        self.addCleanup(s.close)
        return s

    def unary(self, method, fields, message):
        return self.i.api("POST", f"/process.Process/{method}", message,
                          {**fields, "Content-Type": "application/json"})

    def test_outlives_the_api(self):
        """It goes on when what served its client is killed; and is found."""
        box, to = self.enter()
        s = self.stream("Start", to, {"process": {
            "cmd": "sh", "args": ["-c", "read x; echo got $x; exit 8"]}})
        pid = s.event("start")["pid"]
        self.i.kill_role("carrel-api")
        self.i.wait_ready()
        wait_for("the sandbox is back", lambda: self.unary(
            "List", to, {}).status == 200)
        again = self.stream("Connect", to, {"process": {"pid": pid}})
        self.assertEqual(again.event("start")["pid"], pid)
        r = self.unary("SendInput", to, {
            "process": {"pid": pid},
            "input": {"stdin": base64.b64encode(b"it\n").decode()}})
        self.assertEqual((r.status, r.json), (200, {}))
        out = base64.b64decode(again.event("data")["stdout"])
        self.assertEqual(out, b"got it\n")
        self.assertEqual(again.event("end")["exitCode"], 8)
        self.assertEqual(again.next(), (2, {}))

    def test_a_snapshot_comes_first(self):
        box, to = self.enter(**{"auto-snapshot": "exec"})
        s = self.stream("Start", to, {"process": {"cmd": "true"}})
        s.event("start")
        self.assertEqual(s.event("end")["status"], "exit status 0")
        r = self.i.api("GET", f"/v1/snapshots?sandbox={box}")
        self.assertEqual([x["kind"] for x in r.json["snapshots"]], ["auto"])

    @harness.plain_only
    def test_no_time_passes_in_a_pause(self):
        box, to = self.enter()
        ms = int(1500 * SLOW)
        s = self.stream("Start", {**to, "Connect-Timeout-Ms": str(ms)},
                        {"process": {"cmd": "sleep", "args": ["100"]}})
        pid = s.event("start")["pid"]
        s.close()
        self.i.api("POST", f"/v1/sandboxes/{box}/pause")
        time.sleep((ms + 200) / 1000)
        self.i.api("POST", f"/v1/sandboxes/{box}/resume")

        def there():
            r = self.unary("List", to, {})
            return pid in [p["pid"] for p in r.json["processes"]]
        self.assertTrue(there())
        wait_for("its time is up", lambda: not there(), 30 * SLOW)

    def test_silence_is_filled(self):
        _, to = self.enter()
        s = self.stream("Start", {**to, "Keepalive-Ping-Interval": "1"},
                        {"process": {"cmd": "cat"}})
        s.event("start")
        self.assertEqual(s.event("keepalive"), {})

    def test_is_logged_as_any_other(self):
        box, to = self.enter()
        s = self.stream("Start", to, {"process": {
            "cmd": "echo", "args": ["for the log"]}})
        s.event("start")

        def entries():
            r = self.i.api("GET", f"/v1/sandboxes/{box}/log")
            return b"for the log" in r.body
        wait_for("it is in the log", entries)


if __name__ == "__main__":
    harness.main()
