# suite: both
"""How much a sandbox may do: requests, bytes, connections, tokens of models;
what happens at the end of it, and that no crash gives anything back."""

import json
import os
import signal
import socket
import struct
import threading
import time

import harness
from harness import SLOW, wait_for
from internet import Inside, InsideMachine, Internet, answer

MODELS = """
host openai.test openai
host anthropic.test anthropic
model small-* in 100 out 200
model dear in 500 out 1000
"""


def openai(r):
    """Three tokens in, five out, whole or streamed."""
    asked = json.loads(r.body or b"{}")
    usage = {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8}
    if not asked.get("stream"):
        return answer(json.dumps({"choices": [{"message": {"content": "hi"}}],
                                  "usage": usage}))
    lines = [{"choices": [{"delta": {"content": x}}]} for x in "hello"]
    if asked.get("stream_options", {}).get("include_usage"):
        lines.append({"choices": [], "usage": usage})
    return sse([json.dumps(x) for x in lines] + ["[DONE]"])


def anthropic(r):
    if not json.loads(r.body).get("stream"):
        return answer(json.dumps({"usage": {
            "input_tokens": 10, "cache_read_input_tokens": 4,
            "output_tokens": 6}}))
    return sse([json.dumps(x) for x in (
        {"type": "message_start", "message": {"usage": {
            "input_tokens": 10, "output_tokens": 1}}},
        {"type": "content_block_delta", "delta": {"text": "hi"}},
        {"type": "message_delta", "usage": {"output_tokens": 6}})])


def sse(pieces):
    body = "".join(f"event: x\ndata: {x}\n\n" for x in pieces).encode()
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(body[i:i + 7]), body[i:i + 7])
                      for i in range(0, len(body), 7))
    return (b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n")


class Budget(harness.Case):
    @classmethod
    def setUpClass(cls):
        cls.net = Internet()
        cls.api = cls.net.web("api.test")
        cls.other = cls.net.web("other.test")
        cls.openai = cls.net.web("openai.test", handler=openai)
        cls.anthropic = cls.net.web("anthropic.test", handler=anthropic)
        models = os.path.join(cls.net.dir, "models.conf")
        with open(models, "w") as f:
            f.write(MODELS)
        cls.CONF = {**cls.net.conf, "models": models, "ask_timeout": "60s"}
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.net.close()

    def box(self, *rules):
        """A sandbox with these lines: its id, and connections from inside."""
        box = self.i.create(rules=["allow * *", *rules])
        inside = Inside(self.i, box)
        self.addCleanup(inside.close)
        return box, inside

    def events(self, box, kind="budget.over"):
        """Of the log, once they are there."""
        def look():
            found = []
            top = f"{self.i.state_dir}/audit"
            for name in sorted(os.listdir(top)):
                if name.endswith(".log"):
                    with open(f"{top}/{name}") as f:
                        found += [json.loads(x) for x in f.read().split("\n")[:-1]]
            return [e["data"] for e in found
                    if e["type"] == kind and e["sandbox"] == box]
        return wait_for(f"{kind} is in the log", look, 10 * SLOW)

    def statuses(self, inside, n, url="http://api.test/x", **kw):
        return [inside.get(url, **kw).status for _ in range(n)]

    def post(self, inside, host, **body):
        """To a model, through inspection."""
        sock, r = inside.tunnel(host)
        self.assertEqual(r.status, 200, r)
        tls = inside.tls(sock, host)
        self.addCleanup(tls.close)
        return inside.get("/v1/x", "POST", fields=[("Host", host)],
                          body=json.dumps(body).encode(), sock=tls)

    def used(self, box):
        return self.i.api("GET", f"/v1/sandboxes/{box}").json["door"].get("egress")

    # -- requests

    def test_requests(self):
        box, inside = self.box("budget requests 3/h")
        n = len(self.api.requests)
        self.assertEqual(self.statuses(inside, 6), [200] * 3 + [429] * 3)
        self.assertEqual(len(self.api.requests), n + 3)
        r = inside.get("http://api.test/x")
        self.assertEqual(r.reason, "budget")
        self.assertIn("3 requests in 1 h", r.text)
        over = self.events(box)
        self.assertEqual([(e["limit"], e["host"]) for e in over],
                         [("requests", None)])
        # More of it, at run time: what was counted stays.
        self.i.api("PATCH", f"/v1/sandboxes/{box}", json.dumps(
            {"rules": ["allow * *", "budget requests 5/h"]}))
        self.assertEqual(self.statuses(inside, 3), [200, 200, 429])

    def test_a_race_at_the_limit(self):
        """However many come at once, so many pass and not one more."""
        _, inside = self.box("budget requests 20")
        got = []

        def ask():
            got.extend(self.statuses(inside, 5))
        n = len(self.api.requests)
        threads = [threading.Thread(target=ask) for _ in range(10)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual((got.count(200), got.count(429)), (20, 30))
        self.assertEqual(len(self.api.requests), n + 20)

    def test_one_host(self):
        _, inside = self.box("budget api.test requests 2")
        self.assertEqual(self.statuses(inside, 3), [200, 200, 429])
        self.assertEqual(self.statuses(inside, 2, "http://other.test/"),
                         [200, 200])

    def test_connections_at_once(self):
        _, inside = self.box("budget connections 2")
        first = [inside.tunnel("api.test") for _ in range(2)]
        self.assertEqual([r.status for _, r in first], [200, 200])
        self.assertEqual(inside.tunnel("api.test")[1].status, 429)
        first[0][0].close()
        wait_for("a place is free", lambda: inside.get(
            "http://api.test/").status == 200, 10 * SLOW)
        first[1][0].close()

    # -- bytes

    def test_bytes(self):
        _, inside = self.box("budget up 4KB")
        body = b"x" * 2000
        self.assertEqual(self.statuses(inside, 3, method="POST", body=body),
                         [200, 429, 429])
        _, inside = self.box("budget down 3KB")
        self.api.handler = lambda r: answer(b"y" * 2000)
        try:
            r = [inside.get("http://api.test/") for _ in range(3)]
        finally:
            self.api.handler = None
        self.assertEqual(len(r[0].body), 2000)
        self.assertLess(len(r[1].body), 2000)
        self.assertEqual(r[2].status, 429)

    def test_a_tunnel_ends(self):
        _, inside = self.box("allow tcp api.test:7", "budget up 10KB")
        server = self.net.tcp("api.test", 7)
        s = inside.connect(inside.resolve("api.test"), 7)
        passed = 0
        try:
            while passed < 20:
                s.sendall(b"x" * 1000)
                n = 0
                while n < 1000:
                    n += len(s.recv(1000 - n)) or 10000
                passed += n == 1000
                if n > 1000:
                    break
        except ConnectionError:
            pass
        s.close()
        self.assertEqual(passed, 10)
        self.assertEqual(len(server.received), 10000)

    # -- at the end of it

    def test_ask(self):
        box, inside = self.box("budget requests 1", "over ask")
        self.assertEqual(self.statuses(inside, 1), [200])
        got = []
        for decision in (True, False):
            t = threading.Thread(target=lambda: got.append(
                inside.get("http://api.test/asked")))
            t.start()
            number = wait_for("somebody is asked", lambda: [
                x["number"] for x in self.i.api(
                    "GET", "/v1/approvals").json["approvals"]
                if x["sandbox"] == box], 10 * SLOW)[0]
            self.i.cli("approve" if decision else "deny", str(number), check=0)
            t.join()
        self.assertEqual([r.status for r in got], [200, 403])

    def test_asked_for_each(self):
        """An approval lifts the limit that it is about and no other; who
        decides is told that it is a budget."""
        box, inside = self.box("budget requests 1", "budget up 2KB", "over ask")
        self.assertEqual(self.statuses(inside, 1), [200])
        got = []
        t = threading.Thread(target=lambda: got.append(
            inside.get("http://api.test/asked", "POST",
                       body=b"x" * 4000)))
        t.start()
        p = wait_for("somebody is asked", lambda: [
            x for x in self.i.api("GET", "/v1/approvals").json["approvals"]
            if x["sandbox"] == box], 10 * SLOW)[0]
        self.assertEqual((p["about"], p["part"]), ("budget", "budget"))
        self.assertIn("1 requests in all", p["rule"])
        self.assertIn("1 requests in all", self.i.cli("approvals", check=0).out)
        r = self.i.api("POST", f"/v1/approvals/{p['number']}",
                       {"allow": True, "for": "1h"})
        self.assertEqual(r.status, 400, r)
        self.i.cli("approve", str(p["number"]), check=0)
        t.join()
        self.assertEqual([r.status for r in got], [429])

    def test_pause(self):
        box, inside = self.box("budget requests 1", "over pause")
        self.assertEqual(self.statuses(inside, 1), [200])
        got = []
        t = threading.Thread(target=lambda: got.append(
            inside.get("http://api.test/later")))
        t.start()

        def state():
            return self.i.api("GET", f"/v1/sandboxes/{box}").json["state"]
        wait_for("it is paused", lambda: state() == "paused", 20 * SLOW)
        self.i.api("PATCH", f"/v1/sandboxes/{box}", json.dumps(
            {"rules": ["allow * *", "budget requests 2", "over pause"]}))
        self.i.cli("resume", box, check=0)
        t.join()
        self.assertEqual([r.status for r in got], [200])

    def test_killed(self):
        """Nothing is given back by a door that dies."""
        _, inside = self.box("budget requests 4", "budget api.test up 1MB")
        self.assertEqual(self.statuses(inside, 3), [200] * 3)
        for pid in self.i.pids()["carrel-gate"]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.assertEqual(self.statuses(inside, 2), [200, 429])

    # -- models

    def test_tokens(self):
        box, inside = self.box("budget tokens 300")
        r = self.post(inside, "openai.test", model="small-1", max_tokens=100)
        self.assertEqual((r.status, r.json["usage"]["total_tokens"]), (200, 8))
        r = self.post(inside, "openai.test", model="small-1", max_tokens=100,
                      stream=True, stream_options={"include_usage": True})
        self.assertEqual(r.status, 200)
        r = self.post(inside, "anthropic.test", model="small-2", max_tokens=50)
        self.assertEqual(r.status, 200)
        r = self.post(inside, "anthropic.test", model="small-2", max_tokens=50,
                      stream=True)
        self.assertEqual(r.status, 200)
        # 8 and 8, 20 and 16 are used; one that may use more does not leave.
        used = wait_for("its use is told", lambda: (
            self.used(box) or {}).get("tokens_out") == 22 and self.used(box),
            10 * SLOW)
        self.assertEqual(used["tokens_in"], 30)
        n = len(self.openai.requests)
        r = self.post(inside, "openai.test", model="small-1", max_tokens=250)
        self.assertEqual((r.status, r.reason), (429, "budget"))
        self.assertIn("300 tokens of models", r.text)
        self.assertEqual(len(self.openai.requests), n)
        self.assertEqual(self.events(box)[0]["limit"], "tokens")
        r = self.post(inside, "openai.test", model="small-1", max_tokens=100)
        self.assertEqual(r.status, 200)

    def test_a_stream_that_does_not_say(self):
        """As many tokens as its bytes may be."""
        box, inside = self.box("budget tokens 10000")
        r = self.post(inside, "openai.test", model="small-1", stream=True)
        self.assertEqual(r.status, 200)
        used = wait_for("its use is told", lambda: (
            self.used(box) or {}).get("tokens_out") and self.used(box),
            10 * SLOW)
        self.assertIn(used["tokens_out"], range(6, 200))

    def test_the_dearer_model(self):
        """... of those that a request names, and of the answer's."""
        cost = {}
        for name, body, says in (
                ("cheap", {"model": "small-1"}, "small-1"),
                ("torn", {"model": "dear", "Model": "small-1"}, None),
                ("twice", {"Model": "small-1", "model": "dear"}, None),
                ("answered", {"model": "small-1"}, "dear")):
            box, inside = self.box("budget cost 1000")
            usage = {"prompt_tokens": 1000, "completion_tokens": 1000}
            text = {"usage": usage, **({"model": says} if says else {})}
            self.openai.handler = lambda r: answer(json.dumps(text))
            try:
                r = self.post(inside, "openai.test", max_tokens=1000, **body)
            finally:
                self.openai.handler = openai
            self.assertEqual(r.status, 200, r)
            cost[name] = wait_for("its use is told", lambda: (
                self.used(box) or {}).get("cost_micro"), 10 * SLOW)
        self.assertEqual(cost["torn"], cost["twice"])
        self.assertEqual(cost["torn"], cost["answered"])
        self.assertEqual(cost["torn"], 5 * cost["cheap"])

    def test_batches_and_background_calls_get_429(self):
        """The gate cannot count their tokens, so a token budget refuses them."""
        box, inside = self.box("budget tokens 10000")
        n = len(self.openai.requests)
        r = self.post(inside, "openai.test", model="small-1", background=True)
        self.assertEqual(r.status, 429, r)
        self.assertIn("in the background", r.body.decode())
        sock, r = inside.tunnel("openai.test")
        tls = inside.tls(sock, "openai.test")
        self.addCleanup(tls.close)
        r = inside.get("/v1/batches", "POST", fields=[("Host", "openai.test")],
                       body=b"{}", sock=tls)
        self.assertEqual(r.status, 429, r)
        self.assertIn("a batch", r.body.decode())
        self.assertEqual(len(self.openai.requests), n)

    def test_an_answer_without_usage(self):
        box, inside = self.box("budget tokens 10000")
        self.openai.handler = lambda r: answer(b'{"usage":null}')
        try:
            self.post(inside, "openai.test", model="small-1", max_tokens=321)
        finally:
            self.openai.handler = openai
        wait_for("what it might have used counts", lambda: (
            self.used(box) or {}).get("tokens_out") == 321, 10 * SLOW)

    def test_who_leaves_before_the_answer(self):
        """... has used what it might have used."""
        box, inside = self.box("budget tokens 300")
        if isinstance(inside, InsideMachine):
            self.skipTest("who carries bytes out of a machine cannot break off")
        asked = threading.Event()

        def silent(r):
            asked.set()
            time.sleep(2)
        self.openai.handler = silent
        try:
            body = b'{"model":"small-1","max_tokens":250}'
            s = inside.connect()
            s.sendall(b"POST http://openai.test/v1/x HTTP/1.1\r\n"
                      b"Host: openai.test\r\nContent-Length: %d\r\n\r\n%s"
                      % (len(body), body))
            self.assertTrue(asked.wait(60))
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                         struct.pack("ii", 1, 0))
            s.close()
            wait_for("its use is told", lambda: (
                self.used(box) or {}).get("tokens_out") == 250, 10 * SLOW)
        finally:
            self.openai.handler = openai
        r = self.post(inside, "openai.test", model="small-1", max_tokens=100)
        self.assertEqual(r.status, 429)

    def test_no_websocket_to_a_model(self):
        """Nobody can count what is said in it."""
        fields = [("Connection", "Upgrade"), ("Upgrade", "websocket"),
                  ("Sec-WebSocket-Version", "13"),
                  ("Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA==")]
        _, inside = self.box("budget tokens 300")
        r = inside.get("http://openai.test/ws", fields=fields)
        self.assertEqual((r.status, r.reason), (429, "budget"))
        self.assertIn("WebSocket", r.text)

    def test_money(self):
        box, inside = self.box("budget cost 0.03")
        r = self.post(inside, "openai.test", model="small-1", max_tokens=100)
        self.assertEqual(r.status, 200)
        r = self.post(inside, "openai.test", model="small-1", max_tokens=200)
        self.assertEqual(r.status, 429)
        self.assertIn("0.03 for models", r.text)
        r = self.post(inside, "openai.test", model="unheard-of")
        self.assertEqual(r.status, 429)
        self.assertIn("no price is known for the model 'unheard-of'", r.text)
        wait_for("what it cost is told", lambda: (
            self.used(box) or {}).get("cost_micro") == 3 * 100 + 5 * 200,
            10 * SLOW)


if __name__ == "__main__":
    harness.main()
