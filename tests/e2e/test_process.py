# suite: both
# suite: slow
# suite: sanitized
"""Processes over plain HTTP: start, list, connect and come back, input, size,
signals, waiting, running to the end."""

import base64
import hashlib
import http.client
import json
import os
import signal
import socket
import struct
import threading
import time
import unittest
import urllib.parse

import harness
import websocket
from harness import SLOW, wait_for

WINDOW = harness.WINDOW


class Events:
    """A stream of events. Iterates over the objects; pings are left out."""

    def __init__(self, i, method, path, body=None, sse=False, timeout=60):
        self.conn = harness.UnixHTTP(i.sock, timeout * SLOW)
        self.conn.request(method, path,
                          json.dumps(body) if body is not None else None,
                          {"Accept": "text/event-stream"} if sse else {})
        self.r = self.conn.getresponse()
        self.sse = sse
        self.status = self.r.status
        self.out = {"stdout": b"", "stderr": b""}
        self.next = {"stdout": 0, "stderr": 0}
        self.gaps = []
        self.exit = self.error = self.started = None

    def __iter__(self):
        while True:
            line = self.r.readline()
            if not line:
                return
            if self.sse:
                if line == b"\n" or line.startswith(b"id: "):
                    continue
                assert line.startswith(b"data: "), line
                line = line[6:]
            event = json.loads(line)
            if event["type"] != "ping":
                yield event

    def take(self, event):
        kind = event["type"]
        if kind == "started":
            self.started = event
        elif kind == "output":
            data = base64.b64decode(event["base64"]) if "base64" in event \
                else event["data"].encode()
            name = event["stream"]
            assert event["offset"] == self.next[name], (event, self.next)
            self.next[name] += len(data)
            self.out[name] += data
        elif kind == "gap":
            self.gaps.append(event)
            self.next[event["stream"]] = event["offset"]
        elif kind == "exit":
            self.exit = event["exit"]
        elif kind == "error":
            self.error = event
        return event

    def all(self):
        for event in self:
            self.take(event)
        self.close()
        return self

    def until(self, kind):
        for event in self:
            if self.take(event)["type"] == kind:
                return event
        raise AssertionError(f"no {kind} event")

    def until_out(self, n, stream="stdout"):
        for event in self:
            self.take(event)
            if len(self.out[stream]) >= n:
                return

    def close(self):
        # Both directions: the file object keeps the socket open.
        try:
            self.conn.sock.shutdown(socket.SHUT_RDWR)
        except (OSError, AttributeError):
            pass
        self.r.close()
        self.conn.close()


class ProcessCase(harness.Case):
    def setUp(self):
        super().setUp()
        self.box = self.i.create()

    def path(self, rest=""):
        return f"/v1/sandboxes/{self.box}/processes{rest}"

    def start(self, command, status=201, **more):
        body = {"command": command} if isinstance(command, str) else \
            {"argv": command}
        r = self.i.api("POST", self.path(), {**body, **more})
        self.assertEqual(r.status, status, r)
        return r.json

    def stream(self, command, **more):
        body = {"command": command} if isinstance(command, str) else \
            {"argv": command}
        return Events(self.i, "POST", self.path("?stream=true"),
                      {**body, **more})

    def connect(self, ref, **offsets):
        query = "&".join(f"{k}={v}" for k, v in offsets.items())
        return Events(self.i, "GET", self.path(f"/{ref}?{query}"))

    def wait(self, ref, timeout=20):
        r = self.i.api("GET", self.path(f"/{ref}/wait?timeout={timeout}"))
        self.assertEqual(r.status, 200, r)
        return r.json["exit"]

    def listed(self, number):
        r = self.i.api("GET", self.path())
        self.assertEqual(r.status, 200, r)
        return next((p for p in r.json["processes"] if p["number"] == number),
                    None)

    def refused(self, status, word, *request):
        r = self.i.api(*request)
        self.assertEqual((r.status, r.json["error"]), (status, word), r)
        return r.json["message"]


class Streams(ProcessCase):
    def test_events(self):
        e = self.stream("echo out; echo err >&2; exit 3", tag="ev").all()
        self.assertEqual(e.status, 200)
        self.assertEqual(e.r.getheader("Content-Type"), "application/x-ndjson")
        self.assertEqual(e.out, {"stdout": b"out\n", "stderr": b"err\n"})
        self.assertEqual((e.exit["code"], e.exit["signal"]), (3, None))
        self.assertGreater(e.exit["max_rss_bytes"], 0)
        self.assertEqual(e.started["tag"], "ev")
        self.assertGreater(e.started["pid"], 1)

    def test_server_sent_events(self):
        e = Events(self.i, "POST", self.path(), {"command": "echo hi"},
                   sse=True).all()
        self.assertEqual(e.r.getheader("Content-Type"), "text/event-stream")
        self.assertEqual((e.out["stdout"], e.exit["code"]), (b"hi\n", 0))

    def test_signal_as_exit(self):
        e = self.stream("kill -KILL $$").all()
        self.assertEqual((e.exit["code"], e.exit["signal"]), (None, 9))

    def test_much_output(self):
        e = self.stream("seq 1 300000").all()
        want = "".join(f"{n}\n" for n in range(1, 300001)).encode()
        self.assertEqual(e.out["stdout"], want)

    def test_bytes_that_are_not_text(self):
        kinds = set()
        data = bytes(range(256)) * 1000
        e = self.stream("cat", stdin=True)
        e.until("started")
        self.input(e.started["number"], data, eof=True)
        for event in e:
            e.take(event)
            if event["type"] == "output":
                kinds.add("base64" in event)
        self.assertEqual(e.out["stdout"], data)
        self.assertIn(True, kinds)
        e.close()

    def input(self, number, data, eof=False):
        r = self.i.api("POST", self.path(f"/{number}/input" +
                                         ("?eof=true" if eof else "")), data)
        self.assertEqual(r.status, 204, r)

    def test_characters_cut_between_writes(self):
        """Each byte of a character comes alone: still text."""
        script = ("for i in 1 2 3 4 5; do for b in '\\303' '\\244' '\\360' "
                  "'\\237' '\\231' '\\202'; do printf $b; sleep 0.02; done; "
                  "done")
        e = self.stream(script)
        for event in e:
            self.assertNotIn("base64", event)
            e.take(event)
        self.assertEqual(e.out["stdout"].decode(), "ä🙂" * 5)
        e.close()

    def test_half_a_character_at_the_end(self):
        e = self.stream("printf 'a\\303'").all()
        self.assertEqual(e.out["stdout"], b"a\xc3")

    def test_slow_client_slows_only_its_own(self):
        slow = self.stream("i=0; while :; do echo $i; i=$((i+1)); done")
        slow.until("started")
        number = slow.started["number"]
        ends = []
        for _ in range(int(30 * SLOW)):
            ends.append(self.listed(number)["stdout_end"])
            if ends[-3:-1] == [ends[-1]] * 2 and ends[-1] > 0:
                break
            time.sleep(0.3)
        else:
            self.fail(f"it runs on: {ends}")
        self.assertEqual(self.stream("echo fine").all().out["stdout"],
                         b"fine\n")
        # And goes on where it stopped.
        slow.until_out(2 * WINDOW + len(slow.out["stdout"]))
        want = "".join(f"{n}\n" for n in range(200000)).encode()
        self.assertTrue(want.startswith(slow.out["stdout"]))
        slow.close()
        self.signal(number, "KILL")
        self.assertEqual(self.wait(number)["signal"], 9)

    def signal(self, number, sig):
        r = self.i.api("POST", self.path(f"/{number}/signal"),
                       {"signal": sig})
        self.assertEqual(r.status, 204, r)

    @harness.plain_only
    def test_ping(self):
        e = self.stream("sleep 17")
        kinds = [json.loads(line)["type"] for line in e.r]
        self.assertEqual(kinds, ["started", "ping", "exit"])
        e.close()


class ComingBack(ProcessCase):
    def test_at_an_offset(self):
        e = self.stream("seq 1 1000; cat >/dev/null; seq 1001 2000",
                        stdin=True)
        e.until("started")
        first = "".join(f"{n}\n" for n in range(1, 1001)).encode()
        e.until_out(len(first))
        e.close()
        number = e.started["number"]
        self.assertEqual(
            self.i.api("POST", self.path(f"/{number}/input?eof=true"),
                       b"").status, 204)
        again = self.connect(number, stdout=100)
        again.next["stdout"] = 100
        again.all()
        want = "".join(f"{n}\n" for n in range(1, 2001)).encode()
        self.assertEqual(again.out["stdout"], want[100:])
        self.assertEqual(again.exit["code"], 0)
        # And once more, when it has exited.
        last = self.connect(number).all()
        self.assertEqual((last.out["stdout"], last.exit["code"]), (want, 0))

    def test_as_a_browser_does(self):
        """The id of the last event is where it goes on."""
        e = Events(self.i, "POST", self.path(),
                   {"command": "echo abc; echo de >&2; cat; echo end",
                    "stdin": True}, sse=True)
        last = None
        for line in e.r:
            if line.startswith(b"id: "):
                last = line[4:].strip().decode()
            elif line.startswith(b"data: "):
                e.take(json.loads(line[6:]))
            if e.out == {"stdout": b"abc\n", "stderr": b"de\n"}:
                break
        e.close()
        self.assertEqual(last, "4.3")
        number = e.started["number"]
        self.i.api("POST", self.path(f"/{number}/input?eof=true"), b"x")
        r = self.i.api("GET", self.path(f"/{number}"),
                       headers={"Accept": "text/event-stream",
                                "Last-Event-ID": last})
        events = [json.loads(line[6:]) for line in r.body.splitlines()
                  if line.startswith(b"data: ")]
        self.assertEqual("".join(x.get("data", "") for x in events), "xend\n")
        for bad in ("x", "1", "1.", ".1", "1.2.3", "-1.0", "9" * 60):
            with self.subTest(bad):
                r = self.i.api("GET", self.path(f"/{number}"),
                               headers={"Last-Event-ID": bad})
                self.assertEqual(r.status, 400, r)

    def test_by_tag(self):
        self.start("echo one; sleep 60", tag="a-tag.1")
        e = self.connect("tag:a-tag.1")
        e.until_out(4)
        self.assertEqual(e.out["stdout"], b"one\n")
        e.close()
        self.refused(409, "conflict", "POST", self.path(),
                     {"command": "true", "tag": "a-tag.1"})
        r = self.i.api("POST", self.path("/tag:a-tag.1/signal"),
                       {"signal": "SIGTERM"})
        self.assertEqual(r.status, 204)
        self.assertEqual(self.wait("tag:a-tag.1")["signal"], 15)

    def test_two_at_once(self):
        number = self.start("for i in 1 2 3 4 5; do echo $i; sleep 0.1; done"
                            )["number"]
        a, b = self.connect(number), self.connect(number)
        self.assertEqual(a.all().out["stdout"], b"1\n2\n3\n4\n5\n")
        self.assertEqual(b.all().out["stdout"], b"1\n2\n3\n4\n5\n")

    def test_gap(self):
        """Nobody listened: the oldest is gone, and said to be."""
        number = self.start("seq 1 200000; sleep 60", detach=True)["number"]
        want = "".join(f"{n}\n" for n in range(1, 200001)).encode()
        wait_for("all is written", lambda: self.listed(number)["stdout_end"] ==
                 len(want), 10 * SLOW)
        e = self.connect(number)
        e.until("gap")
        self.assertEqual(e.gaps[0]["stream"], "stdout")
        offset = e.gaps[0]["offset"]
        self.assertGreaterEqual(offset, len(want) - WINDOW)
        e.until_out(len(want) - offset)
        self.assertEqual(e.out["stdout"], want[offset:])
        e.close()
        self.i.api("POST", self.path(f"/{number}/signal"), {"signal": 9})
        self.wait(number)

    def test_bad_offsets(self):
        number = self.start("sleep 60")["number"]
        self.refused(400, "bad_request", "GET",
                     self.path(f"/{number}?stdout=-1"))
        self.refused(400, "bad_request", "GET",
                     self.path(f"/{number}?stdout={2**63}"))
        self.refused(400, "spawn_failed", "GET",
                     self.path(f"/{number}?stdout=5000"))
        self.i.api("POST", self.path(f"/{number}/signal"), {"signal": 9})

    def test_kill_9_of_the_api(self):
        """Not a byte is lost, and none comes twice."""
        total = 300000
        want = "".join(f"{n}\n" for n in range(1, total + 1)).encode()
        e = self.stream(f"seq 1 {total}; echo end >&2; exit 7")
        e.until("started")
        number, got = e.started["number"], dict(e.out)
        kills = 0
        while e.exit is None:
            try:
                for event in e:
                    e.take(event)
                    if kills < 3 and len(e.out["stdout"]) > 200000:
                        self.i.kill_role("carrel-api")
                        kills += 1
                        time.sleep(0.05)
                        # What the kernel has is still read.
                        for event in e:
                            e.take(event)
            except (OSError, http.client.HTTPException, ValueError):
                pass
            for name in got:
                got[name] += e.out[name]
            if e.exit is not None:
                break
            e.close()
            self.i.wait_ready()
            at = {k: len(v) for k, v in got.items()}
            e = self.connect(number, **at)
            e.next = dict(at)
        self.assertEqual(kills, 3)
        self.assertEqual(e.gaps, [])
        self.assertEqual(got["stdout"], want)
        self.assertEqual(got["stderr"], b"end\n")
        self.assertEqual(e.exit["code"], 7)


class OneByOne(ProcessCase):
    def test_start_list_wait(self):
        p = self.start(["sh", "-c", "echo hi; sleep 60", "ü", ""], tag="l",
                       env={"A": "b"}, user="root", cwd="/")
        self.assertEqual(sorted(p), ["number", "pid", "tag"])
        e = self.connect(p["number"])
        e.until_out(3)
        e.close()
        shown = self.listed(p["number"])
        self.assertEqual(shown["argv"], ["sh", "-c", "echo hi; sleep 60", "ü",
                                         ""])
        self.assertEqual((shown["tag"], shown["user"], shown["tty"],
                          shown["state"], shown["exit"], shown["pid"]),
                         ("l", "root", False, "running", None, p["pid"]))
        self.assertEqual(shown["stdout_end"], 3)
        self.assertRegex(shown["started_at"], r"^\d{4}-.*Z$")
        self.refused(408, "timeout", "GET",
                     self.path(f"/{p['number']}/wait?timeout=200ms"))
        self.i.api("POST", self.path(f"/{p['number']}/signal"),
                   {"signal": "TERM"})
        self.assertEqual(self.wait(p["number"])["signal"], 15)
        # A process that has exited can be asked again, and is listed.
        self.assertEqual(self.wait(p["number"])["signal"], 15)
        shown = self.listed(p["number"])
        self.assertEqual((shown["state"], shown["exit"]["signal"]),
                         ("exited", 15))

    def test_wait_without_a_limit(self):
        number = self.start("sleep 0.5; exit 9")["number"]
        r = self.i.api("GET", self.path(f"/{number}/wait"))
        self.assertEqual(r.json["exit"]["code"], 9)

    def test_environment_and_place(self):
        box = self.i.create(env={"FROM": "spec", "BOTH": "spec"})
        r = self.i.api("POST", f"/v1/sandboxes/{box}/run",
                       {"command": "echo $FROM $BOTH $OWN; pwd; id -u",
                        "env": {"BOTH": "mine", "OWN": "1 2"}, "cwd": "/etc",
                        "user": "0"})
        self.assertEqual(r.json["stdout"], "spec mine 1 2\n/etc\n0\n")
        self.i.rm(box)

    def test_builtins_are_not_listed(self):
        r = self.i.api("GET", self.path())
        self.assertNotIn(["ps"], [p["argv"] for p in r.json["processes"]])

    def test_input(self):
        number = self.start("cat; echo end", stdin=True)["number"]
        data = os.urandom(3 << 20)
        e = self.connect(number)
        t = threading.Thread(target=e.all)
        t.start()
        for i in range(3):
            part = data[i << 20:(i + 1) << 20]
            r = self.i.api("POST", self.path(f"/{number}/input"), part)
            self.assertEqual(r.status, 204, r)
        r = self.i.api("POST", self.path(f"/{number}/input?eof=true"), b"")
        self.assertEqual(r.status, 204, r)
        t.join(30 * SLOW)
        self.assertEqual(e.out["stdout"], data + b"end\n")

    def test_input_that_is_not_read(self):
        """Waits, and holds up nobody."""
        number = self.start("sleep 60", stdin=True)["number"]
        conn = harness.UnixHTTP(self.i.sock, 1)
        with self.assertRaises(TimeoutError):
            conn.request("POST", self.path(f"/{number}/input"), b"x" * (8 << 20))
            conn.getresponse()
        self.assertEqual(self.stream("echo on").all().out["stdout"], b"on\n")
        conn.close()
        self.i.api("POST", self.path(f"/{number}/signal"), {"signal": 9})

    def test_more_terminals_than_there_are_get_429(self):
        box = self.i.create()
        path = f"/v1/sandboxes/{box}/processes"
        body = {"command": "sleep 1000", "tty": True}
        for _ in range(64):
            r = self.i.api("POST", path, body)
            self.assertEqual(r.status, 201, r)
        r = self.i.api("POST", path, body)
        self.assertEqual((r.status, r.json["error"]), (429, "limit_reached"), r)
        self.assertIn("all terminals of this sandbox are in use: close one",
                      r.json["message"])
        self.i.rm(box)

    def test_terminal(self):
        e = self.stream("stty size; read x; stty size; echo got $x; "
                        "echo err >&2", tty=True, rows=40, cols=120)
        e.until_out(len("40 120\r\n"))
        number = e.started["number"]
        r = self.i.api("POST", self.path(f"/{number}/resize"),
                       {"rows": 50, "cols": 130})
        self.assertEqual(r.status, 204, r)
        r = self.i.api("POST", self.path(f"/{number}/input"), b"word\r")
        self.assertEqual(r.status, 204, r)
        e.all()
        self.assertEqual(e.out["stdout"].decode().split("\r\n"),
                         ["40 120", "word", "50 130", "got word", "err", ""])
        self.assertTrue(self.listed(number)["tty"])

    def test_not_found(self):
        self.refused(404, "not_found", "POST", "/v1/sandboxes/none/processes",
                     {"command": "true"})
        for method, rest, body in (
                ("GET", "", None), ("GET", "/wait", None),
                ("POST", "/signal", {"signal": 9}), ("POST", "/input", b"x"),
                ("POST", "/resize", {"rows": 1, "cols": 1})):
            with self.subTest(rest):
                self.refused(404, "not_found", method,
                             self.path(f"/99999{rest}"), body)
                self.refused(404, "not_found", method,
                             self.path(f"/tag:none{rest}"), body)
                self.refused(400, "bad_request", method,
                             self.path(f"/x{rest}"), body)

    def test_what_cannot_run(self):
        for body, words in (({"argv": ["no-such-program"]}, "no-such-program"),
                            ({"argv": ["/etc/passwd"]}, "/etc/passwd"),
                            ({"command": "true", "cwd": "/none"}, "/none"),
                            ({"command": "true", "user": "nobody-there"},
                             "nobody-there")):
            with self.subTest(body=body):
                for path in (self.path(), self.path("?stream=true"),
                             f"/v1/sandboxes/{self.box}/run"):
                    self.assertIn(words, self.refused(400, "spawn_failed",
                                                      "POST", path, body))

    def test_bad_requests(self):
        for body in ({}, {"argv": []}, {"argv": "ls"}, {"argv": [1]},
                     {"command": ""}, {"argv": ["a"], "command": "b"},
                     {"command": "b", "argv": ["a"]},
                     {"command": "x", "env": {"A=": "b"}},
                     {"command": "x", "env": {"": "b"}},
                     {"command": "x", "env": {"A": 1}},
                     {"command": "x", "env": []}, {"command": "x", "cwd": 1},
                     {"command": "x", "tty": "yes"},
                     {"command": "x", "rows": 0},
                     {"command": "x", "cols": 65536},
                     {"command": "x", "tag": "a/b"},
                     {"command": "x", "tag": "t" * 65},
                     {"command": "x", "tag": ""}, {"command": "x", "zzz": 1},
                     {"command": "x", "timeout": 1},
                     {"command": "x", "input": "y"},
                     {"command": "x", "user": 0}):
            with self.subTest(body=body):
                self.refused(400, "bad_request", "POST", self.path(), body)
        for body in ({"command": "x", "timeout": 0},
                     {"command": "x", "timeout": "soon"},
                     {"command": "x", "timeout": 1e9},
                     {"command": "x", "max_output": 4194305},
                     {"command": "x", "max_output": -1},
                     {"command": "x", "input": 5},
                     {"command": "x", "spec": {}},
                     {"command": "x", "detach": True}):
            with self.subTest(body=body):
                self.refused(400, "bad_request", "POST",
                             f"/v1/sandboxes/{self.box}/run", body)
        number = self.start("sleep 60")["number"]
        for verb, body in (("signal", {"signal": 0}), ("signal", {}),
                           ("signal", {"signal": 65}),
                           ("signal", {"signal": "NONE"}),
                           ("signal", {"signal": "SIGSIGTERM"}),
                           ("resize", {"rows": 1}), ("resize", {}),
                           ("resize", {"rows": 0, "cols": 1}),
                           ("resize", {"rows": "1", "cols": 1})):
            with self.subTest(verb, body=body):
                self.refused(400, "bad_request", "POST",
                             self.path(f"/{number}/{verb}"), body)
        self.i.api("POST", self.path(f"/{number}/signal"), {"signal": "9"})
        self.assertEqual(self.wait(number)["signal"], 9)


class RunToTheEnd(ProcessCase):
    def run_it(self, command, **more):
        r = self.i.api("POST", f"/v1/sandboxes/{self.box}/run",
                       {"command": command, **more})
        self.assertEqual(r.status, 200, r)
        return r.json

    def test_result(self):
        r = self.run_it("echo out; echo err >&2; exit 4")
        self.assertEqual((r["stdout"], r["stderr"], r["exit"]["code"]),
                         ("out\n", "err\n", 4))
        self.assertEqual(r["truncated"], {"stdout": 0, "stderr": 0})
        self.assertFalse(r["timed_out"])
        self.assertLess(r["duration_ms"], 5000 * SLOW)
        self.assertNotIn("stdout_base64", r)
        self.assertNotIn("sandbox", r)

    def test_progress(self):
        path = f"/v1/sandboxes/{self.box}/run?progress=true"
        body = {"command": "echo one; echo two >&2; sleep 0.8; exit 3"}
        *told, last = map(json.loads, self.i.api(
            "POST", path, body).body.splitlines())
        self.assertEqual((last["type"], last["stdout"], last["exit"]["code"]),
                         ("result", "one\n", 3))
        self.assertGreaterEqual(len(told), 1)
        self.assertEqual(
            {(t["type"], t["line"], t["stdout_bytes"], t["stderr_bytes"])
             for t in told}, {("progress", "one", 4, 4)})
        self.assertGreaterEqual(told[0]["elapsed_ms"], 400)
        # What is soon done is told at once; what cannot run is an error.
        only, = self.i.api("POST", path, {"command": "true"}).body.splitlines()
        self.assertEqual(json.loads(only)["type"], "result")
        r = self.i.api("POST", path, {"argv": ["/none"]})
        self.assertEqual((r.status, r.json["error"]), (400, "spawn_failed"))
        r = self.i.api("POST", path, {"command": "sleep 60", "timeout": 0.7})
        last = json.loads(r.body.splitlines()[-1])
        self.assertTrue(last["timed_out"])

    def test_input(self):
        text = "line ü\n" * 60000
        r = self.run_it("cat", input=text, max_output=1 << 20)
        self.assertEqual(r["stdout"], text)
        self.assertEqual(self.run_it("cat", input="")["stdout"], "")
        self.assertEqual(self.run_it("cat")["stdout"], "")

    def test_head_and_tail(self):
        whole = "".join(f"{n}\n" for n in range(1, 100001))
        for limit in (0, 1, 1000, 262144, len(whole) - 1):
            with self.subTest(limit):
                r = self.run_it("seq 1 100000", max_output=limit)
                half = limit // 2
                dropped = len(whole) - 2 * half
                self.assertEqual(r["truncated"]["stdout"], dropped)
                tail = whole[len(whole) - half:] if half else ""
                self.assertEqual(
                    r["stdout"], whole[:half] +
                    f"\n... {dropped} bytes left out ...\n" + tail)
        r = self.run_it("seq 1 100000", max_output=len(whole) + 1)
        self.assertEqual(r["stdout"], whole)
        self.assertEqual(r["truncated"]["stdout"], 0)

    def test_cut_between_characters(self):
        """Text stays text, wherever it is cut."""
        for limit in range(100, 110):
            r = self.run_it("for i in $(seq 100); do printf 'ä€🙂'; done",
                            max_output=limit)
            self.assertIsNotNone(r["stdout"])
            head, _, rest = r["stdout"].partition("\n... ")
            count, _, tail = rest.partition(" bytes left out ...\n")
            kept = len(head.encode()) + len(tail.encode())
            self.assertEqual(kept + int(count), 900)
            self.assertLessEqual(kept, limit)
            self.assertTrue(("ä€🙂" * 100).startswith(head))
            self.assertTrue(("ä€🙂" * 100).endswith(tail))

    def test_bytes(self):
        r = self.run_it("printf 'a\\377\\000b'; echo text >&2")
        self.assertEqual(r["stdout"], None)
        self.assertEqual(base64.b64decode(r["stdout_base64"]), b"a\xff\0b")
        self.assertEqual(r["stderr"], "text\n")
        r = self.run_it("head -c 3000000 /dev/urandom; "
                        "head -c 3000000 /dev/zero >&2", max_output=4 << 20)
        self.assertEqual(len(base64.b64decode(r["stdout_base64"])), 3000000)
        self.assertEqual(r["stderr"], "\0" * 3000000)

    def test_timeout(self):
        began = time.monotonic()
        r = self.run_it("echo early; sleep 600", timeout=3 * SLOW)
        self.assertLess(time.monotonic() - began, 60 * SLOW)
        self.assertTrue(r["timed_out"])
        self.assertEqual((r["stdout"], r["exit"]["signal"]), ("early\n", 9))

    def test_client_leaves(self):
        """Nobody can hear of the result: it is ended."""
        conn = harness.UnixHTTP(self.i.sock)
        conn.request("POST", f"/v1/sandboxes/{self.box}/run",
                     json.dumps({"command": "sleep 777"}))
        number = wait_for("it runs", lambda: [
            p["number"] for p in self.i.api("GET", self.path()).json["processes"]
            if p["argv"][-1] == "sleep 777"], 5 * SLOW)[0]
        conn.close()
        self.assertEqual(self.wait(number)["signal"], 9)

    def test_in_a_sandbox_of_its_own(self):
        before = self.i.ids()
        r = self.i.api("POST", "/v1/run", {
            "spec": {"env": {"A": "b"}}, "command": "echo $A; hostname"})
        self.assertEqual(r.status, 200, r)
        self.assertEqual(r.json["stdout"].splitlines()[0], "b")
        self.assertTrue(r.json["sandbox"])
        wait_for("it is gone", lambda: self.i.ids() == before, 5 * SLOW)
        said = wait_for("its end is in the log", lambda: [
            t for t in self.said_of(r.json["sandbox"])
            if t == "sandbox.end"] and self.said_of(r.json["sandbox"]),
            5 * SLOW)
        self.assertEqual(said, ["sandbox.create", "sandbox.ready",
                                "process.start", "process.exit",
                                "sandbox.end"])
        self.refused(400, "bad_request", "POST", "/v1/run",
                     {"spec": {"zzz": 1}, "command": "true"})
        self.refused(400, "spawn_failed", "POST", "/v1/run",
                     {"argv": ["none"]})
        self.refused(400, "bad_request", "POST", "/v1/run", {})
        wait_for("nothing is left", lambda: self.i.ids() == before, 5 * SLOW)

    def said_of(self, box):
        """Types of entries in the log, but those of requests."""
        r = self.i.api("GET", f"/v1/sandboxes/{box}/log?limit=1000")
        types = [json.loads(line)["type"] for line in r.body.splitlines()]
        return [t for t in types if t != "api.call"]

    def test_once_and_the_client_leaves(self):
        before = self.i.ids()
        conn = harness.UnixHTTP(self.i.sock)
        conn.request("POST", "/v1/run", json.dumps({"command": "sleep 60"}))
        wait_for("it runs", lambda: self.i.ids() != before, 5 * SLOW)
        conn.close()
        wait_for("it is gone", lambda: self.i.ids() == before, 5 * SLOW)

    def test_sandbox_is_removed(self):
        box = self.i.create()
        got = []
        t = threading.Thread(target=lambda: got.append(self.i.api(
            "POST", f"/v1/sandboxes/{box}/run", {"command": "sleep 60"})))
        t.start()
        wait_for("it runs", lambda: self.i.api(
            "GET", f"/v1/sandboxes/{box}/processes").json["processes"],
            5 * SLOW)
        e = Events(self.i, "POST", f"/v1/sandboxes/{box}/processes?stream=true",
                   {"command": "sleep 60"})
        e.until("started")
        self.i.rm(box)
        t.join(10 * SLOW)
        self.assertEqual((got[0].status, got[0].json["error"]),
                         (503, "agent_unavailable"))
        e.all()
        self.assertEqual(e.error["error"], "agent_unavailable")


class Log(ProcessCase):
    """process.start and process.exit, whoever is attached."""

    def entries(self, kind):
        r = self.i.api("GET", f"/v1/sandboxes/{self.box}/log?limit=1000")
        self.assertEqual(r.status, 200, r)
        lines = [json.loads(line) for line in r.body.splitlines()]
        return [e for e in lines if e["type"] == f"process.{kind}"]

    def starts(self, n):
        """The log is written by another process, a little later."""
        wait_for(f"{n} starts", lambda: len(self.entries("start")) >= n,
                 10 * SLOW)
        return self.entries("start")

    def exit_of(self, number):
        found = [e["data"] for e in self.entries("exit")
                 if e["data"]["number"] == number]
        self.assertLessEqual(len(found), 1)
        return found[0] if found else None

    def logged(self, number):
        return wait_for(f"the exit of {number} is in the log",
                        lambda: self.exit_of(number), 10 * SLOW)

    def test_run_and_stream(self):
        self.i.api("POST", f"/v1/sandboxes/{self.box}/run",
                   {"command": "exit 3", "user": "root"})
        start = self.starts(1)[0]
        self.assertEqual(start["who"], "uid:0")
        self.assertRegex(start["request"], "^[0-9a-f]{16}$")
        data = start["data"]
        self.assertEqual((data["argv"], data["user"], data["tty"],
                          data["tag"]),
                         (["/bin/sh", "-c", "exit 3"], "root", False, None))
        self.assertEqual(self.logged(data["number"])["code"], 3)
        e = self.stream("echo hi", tag="t").all()
        self.assertEqual(self.logged(e.started["number"])["code"], 0)
        self.assertEqual(self.starts(2)[1]["data"]["tag"], "t")

    def test_frames(self):
        x = self.i.exec_wire(self.box)
        x.spawn(["sh", "-c", "exit 6"], flags=harness.SPAWN_PTY)
        self.assertEqual(x.finish()[0], 6)
        x.close()
        data = self.starts(1)[0]["data"]
        self.assertEqual((data["argv"], data["tty"]),
                         (["sh", "-c", "exit 6"], True))
        self.assertEqual(self.logged(data["number"])["code"], 6)

    def test_no_client_at_the_exit(self):
        """Of each way to leave, and of each to have none."""
        numbers = []
        for more in ({}, {"detach": True}):
            numbers.append(self.start("sleep 0.5; exit 4", **more)["number"])
        e = self.stream("sleep 0.5; exit 4")
        e.until("started")
        numbers.append(e.started["number"])
        e.close()
        for lost in (b"\0", b"\1", None):
            x = self.i.exec_wire(self.box)
            x.spawn(["sh", "-c", "sleep 0.5; exit 4"])
            _, _, payload = x.recv()
            numbers.append(struct.unpack("<II", payload)[1])
            if lost:
                x.send(harness.DETACH, 1, lost)
            x.close()
        # Gone before it has started, too.
        x = self.i.exec_wire(self.box)
        x.spawn(["sh", "-c", "sleep 0.5; exit 5"])
        x.close()
        for number in numbers:
            self.assertEqual(self.logged(number)["code"], 4)
        wait_for("the last one", lambda: [
            d for d in self.entries("exit") if d["data"]["code"] == 5],
            10 * SLOW)
        self.assertEqual(len(self.entries("start")), len(numbers) + 1)

    def test_long_arguments(self):
        self.start(["true", "x" * 5000, "y"])
        self.start(["true"] + ["z"] * 1000)
        self.start(["true", "ä" * 3000])
        a, b, c = (e["data"] for e in self.starts(3))
        self.assertTrue(a["argv_cut"] and b["argv_cut"] and c["argv_cut"])
        self.assertLess(len(a["argv"][1]), 4097)
        self.assertEqual(len(b["argv"]), 256)
        self.assertEqual(set(c["argv"][1]), {"ä"})

    def test_builtins_are_not_in_it(self):
        self.i.api("GET", self.path())
        self.start("true")
        self.assertEqual(self.starts(1)[0]["data"]["argv"][0], "/bin/sh")

    def test_many_in_the_background(self):
        """Those who wait for exits leave room for clients."""
        for _ in range(230):
            self.start("exec sleep 100", detach=True)
        r = self.i.api("POST", f"/v1/sandboxes/{self.box}/run",
                       {"command": "echo on"})
        self.assertEqual((r.status, r.json["stdout"]), (200, "on\n"), r)

    def test_api_was_away(self):
        """What exited meanwhile is in the log once; so is what exits later."""
        early = self.start("exit 1")["number"]
        self.logged(early)
        meanwhile = self.start("sleep 0.3; exit 2")["number"]
        later = self.start("sleep 4; exit 3")["number"]
        # Stopped before it can be started again: it sees nothing.
        pid = self.i.daemon.pid
        os.kill(pid, signal.SIGSTOP)
        try:
            self.i.kill_role("carrel-api")
            time.sleep(1)
        finally:
            os.kill(pid, signal.SIGCONT)
        self.i.wait_ready()
        self.assertEqual(self.logged(meanwhile)["code"], 2)
        self.assertEqual(self.logged(later)["code"], 3)
        self.assertEqual(self.exit_of(early)["code"], 1)
        self.i.kill_role("carrel-api")
        self.i.wait_ready()
        time.sleep(0.5)
        self.assertEqual(len(self.entries("exit")), 3)


class Terminal(ProcessCase):
    def open(self, **query):
        ws = websocket.WebSocket(
            self.i.sock, f"/v1/sandboxes/{self.box}/terminal?" +
            urllib.parse.urlencode(query), 20 * SLOW)
        self.started = ws.message()["started"]
        return ws

    def read_until(self, ws, text):
        got = b""
        while text not in got:
            m = ws.message()
            self.assertIsInstance(m, bytes, m)
            got += m
        return got

    def rest(self, ws):
        """Output, then what was said at the end."""
        got, said = b"", []
        while not said or not isinstance(said[-1], tuple):
            m = ws.message()
            if isinstance(m, bytes):
                got += m
            else:
                said.append(m)
        return got, said

    def test_shell(self):
        ws = self.open(rows=30, cols=100, user="root", cwd="/tmp", tag="term")
        self.assertEqual(self.started["tag"], "term")
        ws.send(websocket.BINARY, b"stty size; pwd; id -u\r")
        self.read_until(ws, b"30 100\r\n/tmp\r\n0\r\n")
        ws.order(resize={"rows": 31, "cols": 101})
        ws.send(websocket.BINARY, b"stty size\r")
        self.read_until(ws, b"31 101\r\n")
        shown = self.listed(self.started["number"])
        self.assertEqual((shown["tty"], shown["tag"]), (True, "term"))
        ws.send(websocket.BINARY, b"exit 5\r")
        _, said = self.rest(ws)
        self.assertEqual(said[0]["exit"]["code"], 5)
        self.assertEqual(said[1][0], 1000)

    def test_command_and_signal(self):
        ws = self.open(command="trap 'echo caught; exit 3' TERM; echo on; "
                               "while :; do sleep 0.1; done")
        self.read_until(ws, b"on\r\n")
        ws.order(signal="TERM")
        got, said = self.rest(ws)
        self.assertTrue(got.endswith(b"caught\r\n"), got)
        self.assertEqual(said[0]["exit"]["code"], 3)

    def test_much_of_everything(self):
        """Both ways, more than any window."""
        ws = self.open(command="stty raw -echo; echo go; "
                               f"head -c {2 << 20} | sha256sum; seq 1 200000")
        self.read_until(ws, b"go")
        data = os.urandom(2 << 20)
        for at in range(0, len(data), 100000):
            ws.send(websocket.BINARY, data[at:at + 100000])
        got, said = self.rest(ws)
        want = "".join(f"{n}\n" for n in range(1, 200001)).encode()
        self.assertIn(hashlib.sha256(data).hexdigest().encode(), got)
        self.assertTrue(got.endswith(want))
        self.assertEqual(said[0]["exit"]["code"], 0)

    def test_slow_client(self):
        """What it does not read waits; others do not."""
        ws = self.open(command="seq 1 400000")
        number = self.started["number"]
        ends = [0]
        wait_for("it waits", lambda: ends.append(
            self.listed(number)["stdout_end"]) or ends[-1] > 0 and
            ends[-1] == ends[-2], 10 * SLOW, 0.3)
        self.assertLess(ends[-1], 2 << 20)
        got, said = self.rest(ws)
        self.assertEqual(got.count(b"\n"), 400000)
        self.assertEqual(said[0]["exit"]["code"], 0)

    def test_refused(self):
        def refused(status, word, **query):
            with self.assertRaises(websocket.Refused) as r:
                self.open(**query)
            self.assertEqual((r.exception.args[0],
                              r.exception.args[1]["error"]), (status, word))
        refused(400, "bad_request", rows="x")
        refused(400, "bad_request", rows=65536)
        refused(400, "bad_request", tag="a/b")
        refused(400, "bad_request", stdout=-1)
        refused(400, "bad_request", command="x" * 2048)
        refused(400, "spawn_failed", user="nobody-there")
        refused(400, "spawn_failed", cwd="/none")
        r = self.i.api("GET", f"/v1/sandboxes/{self.box}/terminal")
        self.assertEqual(r.status, 426)

    def test_bad_orders(self):
        for text, code in (("{}", 1008), ("", 1008), ("[]", 1008),
                           ("null", 1008), ("{", 1008),
                           ('{"resize":1}', 1008),
                           ('{"resize":{"rows":0,"cols":1}}', 1008),
                           ('{"signal":0}', 1008), ('{"signal":[]}', 1008),
                           ('{"signal":9,"resize":{}}', 1008),
                           ('{"other":1}', 1008), ("[" * 3000, 1008),
                           ("x" * 5000, 1009)):
            with self.subTest(text[:40]):
                ws = self.open(command="sleep 60")
                ws.send(websocket.TEXT, text)
                m = ws.message()
                self.assertEqual(m[0], code, m)
                ws.close()

    def test_coming_back(self):
        ws = self.open(command="stty -echo; echo first; read x; echo $x; "
                               "read x; exit 4")
        first = self.read_until(ws, b"first\r\n")
        ws.close()
        ws = self.open(process=self.started["number"], stdout=len(first))
        ws.send(websocket.BINARY, b"second\r")
        self.read_until(ws, b"second\r\n")
        ws.close(1000)
        ws = self.open(process=self.started["number"])
        ws.send(websocket.BINARY, b"\r")
        got, said = self.rest(ws)
        self.assertEqual(got, b"first\r\nsecond\r\n")
        self.assertEqual(said[0]["exit"]["code"], 4)
        number = self.start("sleep 60")["number"]
        with self.assertRaises(websocket.Refused) as r:
            self.open(process=number)
        self.assertEqual(r.exception.args[1]["error"], "no_terminal")
        with self.assertRaises(websocket.Refused) as r:
            self.open(process=99999)
        self.assertEqual(r.exception.args[0], 404)


class Many(harness.Case):
    """As many streams at once as a sandbox of some size needs."""
    COUNT, SIZE = 500, 65536

    def setUp(self):
        self.box = self.i.create(pids=2 * self.COUNT)

    def tearDown(self):
        self.i.rm(self.box)
        super().tearDown()

    def test_connections(self):
        wires = [self.i.exec_wire(self.box, 60 * SLOW)
                 for _ in range(self.COUNT)]
        for x in wires:
            x.spawn(["head", "-c", str(self.SIZE), "/dev/zero"])
        for x in wires:
            code, out, _ = x.finish()[:3]
            self.assertEqual((code, len(out)), (0, self.SIZE))
            x.close()

    def test_small_pieces_go_together(self):
        """Of 100,000 writes not each is a frame: after the first ones there
        is about one in a millisecond."""
        x = self.i.exec_wire(self.box, 60 * SLOW)
        pieces = []
        began = time.monotonic()
        x.spawn(["dd", "if=/dev/zero", "bs=16", "count=100000"])
        code, _, _ = x.finish(sink=pieces.append)
        took_ms = (time.monotonic() - began) * 1e3
        x.close()
        self.assertEqual((code, sum(map(len, pieces))), (0, 1600000))
        self.assertLess(len(pieces), 50 + 3 * took_ms)

    def test_channels(self):
        """All on one connection; none ends before all have started."""
        x = self.i.exec_wire(self.box, 60 * SLOW)
        left = {n + 1: self.SIZE for n in range(self.COUNT)}
        for n in left:
            x.spawn(["sh", "-c", f"read x; head -c {self.SIZE} /dev/zero"],
                    channel=n, flags=2)
        for _ in left:
            self.assertEqual(x.recv()[0], harness.STARTED)
        for n in left:
            x.send(harness.INPUT, n, struct.pack("<Q", 0) + b"\n")
        ended = 0
        while ended < self.COUNT:
            kind, n, p = x.recv()
            self.assertNotEqual(kind, harness.FAILED, p)
            if kind == harness.OUTPUT:
                left[n] -= len(p) - 9
            elif kind == harness.EXIT:
                self.assertEqual((p[:5], left[n]), (bytes(5), 0))
                ended += 1
        x.close()


if __name__ == "__main__":
    harness.main()
