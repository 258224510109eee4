# suite: both
# suite: sanitized
"""MCP at /mcp and over stdio: the transport, sessions, and their sandboxes.
What the tools do is test_mcp_tools.py's."""

import json
import signal

import harness
import mcp
from harness import SLOW, wait_for

INIT = {"jsonrpc": "2.0", "id": 0, "method": "initialize",
        "params": {"protocolVersion": mcp.VERSION, "capabilities": {},
                   "clientInfo": {"name": "test", "version": "1"}}}


def message(method, id=None, **params):
    m = {"jsonrpc": "2.0", "method": method}
    if id is not None:
        m["id"] = id
    if params:
        m["params"] = params
    return m


class Transport(harness.Case):
    """With the tools of the conformance suite: no sandbox is needed."""
    CONF = {"mcp_fixture": "yes"}

    def session(self, **kw):
        s = mcp.Session(self.i.sock, **kw)
        self.addCleanup(s.end)
        return s

    def refusal(self, reply):
        with reply as r:
            return r.status, r.messages()[0]

    def test_versions(self):
        for v in ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"):
            self.assertEqual(self.session(version=v).version, v)
        self.assertEqual(self.session(version="1999-01-01").version,
                         mcp.VERSION)

    def test_version_field(self):
        s = self.session()
        for v, status in (("2025-06-18", 200), (None, 200), ("2030-01-01", 400),
                          ("", 400)):
            with s.ask("ping", headers={"MCP-Protocol-Version": v}) as r:
                self.assertEqual(r.status, status, v)

    def test_session_field(self):
        s = self.session()
        for id, status in ((None, 400), ("i" + "a" * 26, 404), ("x", 404),
                           ("", 404)):
            with s.ask("ping", headers={"Mcp-Session-Id": id}) as r:
                self.assertEqual(r.status, status, id)

    def test_session_ends(self):
        s = self.session()
        self.assertEqual(s.call("ping"), {})
        self.assertEqual(s.end(), 204)
        self.assertEqual(s.end(), 404)
        self.assertEqual(s.ask("ping").status, 404)

    def test_bad_messages(self):
        s = self.session()
        for body, code in (
                (b"", -32700), (b"{", -32700), (b"nul", -32700),
                (b'"x"', -32700), (b"\xff\xfe", -32700),
                (b"[" * 100, -32700), (b'{"jsonrpc":"2.0"}', -32600),
                (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', -32600),
                (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600),
                (b'{"jsonrpc":"2.0","id":[1],"method":"ping"}', -32600),
                (b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}', -32700),
                (b'{"jsonrpc":"2.0","id":1,"method":1}', -32600),
                (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}',
                 -32600),
                (b'{"jsonrpc":"2.0","id":1,"result":{},"error":{}}', -32600),
                (b'{"jsonrpc":"2.0","id":1,"error":1}', -32600)):
            status, answer = self.refusal(s.send(body))
            self.assertEqual((status, answer["error"]["code"]), (400, code),
                             body)
            self.assertIsNone(answer["id"])
        self.assertEqual(s.call("ping"), {})

    def test_fields_of_http(self):
        s = self.session()
        body = json.dumps(message("ping", 1)).encode()
        for fields, status in (
                ({"Content-Type": "text/plain"}, 415),
                ({"Content-Type": "application/jsonx"}, 415),
                ({"Content-Type": "application/json; charset=utf-8"}, 200),
                ({"Accept": "text/html"}, 406), ({"Accept": None}, 200),
                ({"Accept": "*/*"}, 200),
                ({"Accept": "text/event-stream;q=1"}, 200)):
            with s.send(body, headers=fields) as r:
                self.assertEqual(r.status, status, fields)
        with s.request("GET", headers={"Accept": "application/json"}) as r:
            self.assertEqual(r.status, 406)
        with s.request("PUT", b"{}") as r:
            self.assertEqual(r.status, 405)

    def test_too_large(self):
        conn = harness.UnixHTTP(self.i.sock)
        conn.putrequest("POST", "/mcp")
        conn.putheader("Content-Type", "application/json")
        conn.putheader("Content-Length", str(8 * 1024 * 1024 + 1))
        conn.endheaders()
        self.assertEqual(conn.getresponse().status, 413)
        conn.close()

    def test_methods_and_tools_there_are_not(self):
        s = self.session()
        self.assertEqual(s.call("no/such")["code"], -32601)
        self.assertEqual(s.tool("no_such")["code"], -32602)
        self.assertEqual(s.call("tools/call", {})["code"], -32602)
        self.assertEqual(s.call("tools/list", {"cursor": "x"})["code"], -32602)
        self.assertEqual(s.call("logging/setLevel", {"level": "loud"})["code"],
                         -32602)

    def test_arguments_are_checked(self):
        s = self.session()
        for args, words in (({}, "'prompt' is missing"),
                            ({"prompt": 1}, "string is wanted, this is "
                                            "integer"),
                            ({"prompt": "x", "more": 1}, "no 'more'")):
            r = s.tool("test_sampling", **args)
            self.assertTrue(r["isError"])
            self.assertIn(words, r["content"][0]["text"])
        r = s.call("tools/call", {"name": "test_sampling", "arguments": []})
        self.assertTrue(r["isError"])

    def test_notifications(self):
        s = self.session()
        s.notify("notifications/initialized")
        s.notify("notifications/whatever", x=1)
        s.notify("notifications/cancelled", requestId="unknown")
        with s.send({"jsonrpc": "2.0", "id": 5, "result": {}}) as r:
            self.assertEqual(r.status, 202)

    def test_batches(self):
        batch = [message("ping", 1), message("notifications/x"),
                 message("ping", "two"), message("no/such", 3)]
        s = self.session(version="2025-03-26")
        with s.send(batch) as r:
            found = {m["id"]: m for m in r.messages()}
        self.assertEqual(found[1]["result"], {})
        self.assertEqual(found["two"]["result"], {})
        self.assertEqual(found[3]["error"]["code"], -32601)
        with s.send([message("notifications/x")]) as r:
            self.assertEqual(r.status, 202)
        for bad in ([], [message("ping", 1)] * 33, [INIT, [1]]):
            self.assertEqual(self.refusal(s.send(bad))[0], 400)
        self.assertEqual(self.refusal(self.session().send(batch))[0], 400)

    def test_events_in_a_batch(self):
        s = self.session(version="2025-03-26")
        call = message("tools/call", 1, name="test_tool_with_progress",
                       arguments={}, _meta={"progressToken": 7})
        with s.send([message("ping", 2), call]) as r:
            self.assertTrue(r.is_events)
            found = r.messages()
        self.assertEqual([m["id"] for m in found if "id" in m], [2, 1])
        self.assertEqual([m["params"] for m in found if "method" in m],
                         [{"progressToken": 7, "progress": p, "total": 100}
                          for p in (0, 50, 100)])

    def test_no_events_for_who_takes_none(self):
        s = self.session()
        with s.ask("tools/call", {"name": "test_tool_with_progress",
                                  "_meta": {"progressToken": "t"}},
                   headers={"Accept": "application/json"}) as r:
            self.assertFalse(r.is_events)
            self.assertIn("result", r.messages()[0])
        r = self.session(capabilities={"sampling": {}})
        with r.ask("tools/call", {"name": "test_sampling",
                                  "arguments": {"prompt": "x"}},
                   headers={"Accept": "application/json"}) as r:
            self.assertTrue(r.messages()[0]["result"]["isError"])

    def test_log_level(self):
        s = self.session()
        s.call("logging/setLevel", {"level": "error"})
        with s.ask("tools/call", {"name": "test_tool_with_logging"}) as r:
            self.assertFalse(r.is_events)

    def test_resume(self):
        s = self.session()
        with s.ask("tools/call", {"name": "test_reconnection"}) as r:
            events = list(r.events())
        self.assertEqual([e["data"] for e in events], [""])
        self.assertEqual(events[0]["retry"], "1000")
        with s.listen(last=events[0]["id"]) as r:
            answer = list(r.events())
        self.assertIn("result", json.loads(answer[0]["data"]))
        # What was had is not sent again, and the rest still is.
        with s.listen(last=answer[0]["id"]) as r:
            self.assertEqual(list(r.events()), [])
        with s.listen(last=events[0]["id"]) as r:
            self.assertEqual(list(r.events()), answer)
        for bad in ("x", "1", "99-1", "1-x", "-", "1-1-1", "99999999999-1"):
            with s.listen(last=bad) as r:
                self.assertEqual(r.status, 400, bad)

    def test_a_lost_connection_cancels_nothing(self):
        s = self.session()
        r = s.ask("tools/call", {"name": "test_tool_with_progress",
                                 "_meta": {"progressToken": "t"}})
        first = next(r.events())
        r.close()
        with s.listen(last=first["id"]) as r:
            found = list(r.events())
        self.assertIn("result", json.loads(found[-1]["data"]))
        numbers = [int(e["id"].split("-")[1]) for e in found]
        self.assertEqual(numbers, sorted(set(numbers)))

    def test_what_is_kept_is_bounded(self):
        s = self.session()
        ids = []
        replies = [s.ask("tools/call", {"name": "test_tool_with_progress",
                                        "_meta": {"progressToken": "t"}})
                   for _ in range(10)]
        for r in replies:
            with r:
                ids.append(next(r.events())["id"])
                r.messages()
        statuses = []
        for id in ids:
            with s.listen(last=id) as r:
                statuses.append(r.status)
        self.assertEqual(statuses, [400, 400] + [200] * 8)

    def test_old_clients_get_no_empty_events(self):
        s = self.session(version="2025-06-18")
        with s.ask("tools/call", {"name": "test_tool_with_progress",
                                  "_meta": {"progressToken": "t"}}) as r:
            self.assertNotIn("", [e["data"] for e in r.events()])

    def test_listen(self):
        s = self.session()
        r = s.listen()
        self.assertEqual(r.status, 200)
        first = next(r.events())
        self.assertEqual(first["data"], "")
        # The newest one counts, and the first ends.
        with s.listen(last=first["id"]) as second:
            self.assertEqual(second.status, 200)
            self.assertEqual(list(r.events()), [])
            s.end()
            next(second.events())
            self.assertEqual(list(second.events()), [])
        r.close()

    def test_asking_back(self):
        s = self.session(capabilities={"sampling": {}})
        with s.ask("tools/call", {"name": "test_sampling",
                                  "arguments": {"prompt": "hello"}}) as r:
            events = r.events().messages()
            asked = next(events)
            self.assertEqual(asked["method"], "sampling/createMessage")
            # An answer to nothing, then the right one, then once more.
            for id in ("x", 99, asked["id"], asked["id"]):
                with s.send({"jsonrpc": "2.0", "id": id, "result": {
                        "role": "assistant", "model": "m", "content":
                        {"type": "text", "text": "hi"}}}) as a:
                    self.assertEqual(a.status, 202)
            self.assertEqual(next(events)["result"]["content"][0]["text"],
                             "LLM response: hi")

    def test_cancel(self):
        s = self.session(capabilities={"sampling": {}})
        with s.ask("tools/call", {"name": "test_sampling",
                                  "arguments": {"prompt": "x"}},
                   id="mine") as r:
            events = r.events().messages()
            asked = next(events)
            s.notify("notifications/cancelled", requestId="mine")
            self.assertEqual(next(events)["error"]["code"], -32800)
            self.assertEqual(list(events), [])
        with s.send({"jsonrpc": "2.0", "id": asked["id"], "result": {}}) as r:
            self.assertEqual(r.status, 202)

    def test_the_end_of_a_session_ends_its_calls(self):
        s = self.session(capabilities={"sampling": {}})
        with s.ask("tools/call", {"name": "test_sampling",
                                  "arguments": {"prompt": "x"}}) as r:
            events = r.events()
            next(events), next(events)
            self.assertEqual(s.end(), 204)
            self.assertEqual(list(events), [])

    def test_one_id_at_a_time(self):
        s = self.session(capabilities={"sampling": {}})
        params = {"name": "test_sampling", "arguments": {"prompt": "x"}}
        with s.ask("tools/call", params, id=1) as r:
            next(r.events())
            self.assertEqual(s.call("ping", id=1)["code"], -32600)
            self.assertEqual(s.call("ping", id="1"), {})

    def test_too_many_at_once(self):
        s = self.session(capabilities={"sampling": {}})
        params = {"name": "test_sampling", "arguments": {"prompt": "x"}}
        waiting = [s.ask("tools/call", params) for _ in range(16)]
        self.assertEqual(s.call("tools/call", params)["code"], -32000)
        s.notify("notifications/cancelled", requestId=1)
        self.assertEqual(s.call("ping"), {})
        for r in waiting:
            r.close()

    def test_what_calls_remember_is_bounded(self):
        s = self.session(capabilities={"sampling": {}})
        params = {"name": "test_sampling", "arguments": {"prompt": "x"}}
        bulk = {**params, "_meta": {"bulk": "x" * (8 * 1024 * 1024 - 4096)}}
        waiting = [s.ask("tools/call", bulk) for _ in range(4)]
        self.assertEqual([r.status for r in waiting], [200] * 4)
        with s.ask("tools/call", bulk) as r:
            self.assertEqual(r.status, 503)
            self.assertIn("wait for some to end", r.messages()[0]["message"])
        # Small ones, and those of others, are not kept from anything.
        waiting.append(s.ask("tools/call", params))
        other = self.session(capabilities={"sampling": {}})
        waiting.append(other.ask("tools/call", bulk))
        self.assertEqual([r.status for r in waiting[4:]], [200, 200])
        s.notify("notifications/cancelled", requestId=1)
        waiting.append(s.ask("tools/call", bulk))
        self.assertEqual(waiting[-1].status, 200)
        for r in waiting:
            r.close()

    def test_many_values(self):
        s = self.session()
        many = message("ping", 1, x=[[]] * 70000)
        status, answer = self.refusal(s.send(many))
        self.assertEqual((status, answer["error"]["code"]), (400, -32700))
        self.assertEqual(s.call("ping", {"x": [0] * 60000}), {})
        self.assertEqual(s.call("ping", {"x": ",[{" * 60000}), {})

    def test_tokens_of_progress(self):
        s = self.session()
        for token, code in (("x" * 256, None), (5, None), ([], None),
                            ("x" * 257, -32602)):
            r = s.call("ping", {"_meta": {"progressToken": token}})
            self.assertEqual(r.get("code"), code, token)

    def test_sessions_make_room(self):
        first = self.session()
        busy = self.session()
        listener = busy.listen()
        others = [self.session() for _ in range(255)]
        self.assertEqual(first.ask("ping").status, 404)
        self.assertEqual(busy.call("ping"), {})
        self.assertEqual(others[0].call("ping"), {})
        listener.close()

    def test_wishes(self):
        for query in ("?image=x&image=y", "?sandbox=none", "?keep=maybe",
                      "?foo=1", "?sandbox=a&image=b", "?image=" + "a" * 99):
            s = mcp.Session(self.i.sock, version=None, query=query)
            status, answer = self.refusal(s.send(INIT))
            self.assertEqual((status, answer["error"]["code"]),
                             (400, -32602), query)


class BoxCase(harness.Case):
    def boxes(self):
        return self.i.api("GET", "/v1/sandboxes").json["sandboxes"]

    def run_in(self, s, command):
        r = s.tool("run_command", command=command)
        self.assertFalse(r.get("isError"), r)
        return r["content"][0]["text"]


class Boxes(BoxCase):
    """The sandbox of a session."""

    def test_made_by_the_first_use_and_removed(self):
        s = mcp.Session(self.i.sock)
        s.call("tools/list")
        self.assertEqual(self.boxes(), [])
        self.run_in(s, "echo kept > /tmp/x")
        self.assertIn("kept", self.run_in(s, "cat /tmp/x"))
        box, = self.boxes()
        self.assertEqual(box["labels"]["mcp"], "test")
        self.assertEqual(s.end(), 204)
        self.assertEqual(self.boxes(), [])

    def test_several_first_uses_make_one(self):
        s = mcp.Session(self.i.sock)
        with s.ask("tools/call", {"name": "run_command",
                                  "arguments": {"command": "true"}}) as a, \
                s.ask("tools/call", {"name": "run_command",
                                     "arguments": {"command": "true"}}) as b:
            for r in a, b:
                self.assertNotIn("isError", r.messages()[-1]["result"])
        self.assertEqual(len(self.boxes()), 1)
        s.end()

    def test_others_do_not_see_it(self):
        def bearer(scope, project):
            key = self.i.api("POST", "/v1/keys", {
                "name": "k", "scope": scope, "project": project}).json["key"]
            return {"Authorization": f"Bearer {key}"}
        mine, same, other = (bearer("use", "a"), bearer("use", "a"),
                             bearer("use", "b"))
        s = mcp.Session(self.i.sock, headers=mine)
        self.assertEqual(s.call("ping"), {})
        for who in (same, other, {}):
            s.headers = who
            self.assertEqual(s.ask("ping").status, 404)
            self.assertEqual(s.end(), 404)
        s.headers = {"Authorization": "Bearer e2b_" + "0" * 40}
        self.assertEqual(s.ask("ping").status, 401)
        s.headers = mine
        self.assertEqual(s.end(), 204)

    def test_names_of_clients(self):
        for name, label in (("", "client"), ("a\nb\t\x7f", "a?b??"),
                            ("\u00e4" * 99, "\u00e4" * 31), (5, "client")):
            s = mcp.Session(self.i.sock, name=name)
            self.run_in(s, "true")
            self.assertEqual(self.boxes()[0]["labels"]["mcp"], label)
            s.end()

    def test_left_while_it_is_made(self):
        call = message("tools/call", 1, name="run_command",
                       arguments={"command": "true"})
        for _ in range(3):
            s = mcp.Session(self.i.sock)
            conn = s.send(call, wait=False)
            self.assertEqual(s.end(), 204)
            conn.close()
        wait_for("all to be gone", lambda: not self.boxes())

    def test_named(self):
        box = self.i.create(name="work")
        s = mcp.Session(self.i.sock, query="?sandbox=work")
        self.run_in(s, "touch /tmp/here")
        self.assertEqual(s.end(), 204)
        self.assertEqual(self.i.ids(), [box])
        self.assertEqual(self.i.sh(box, "ls /tmp/here").returncode, 0)

    def test_kept(self):
        s = mcp.Session(self.i.sock, query="?keep=yes")
        self.run_in(s, "touch /tmp/x")
        s.end()
        box, = self.boxes()
        self.assertEqual(box["state"], "running")
        self.assertEqual(self.i.sh(box["id"], "ls /tmp/x").returncode, 0)

    def test_paused(self):
        s = mcp.Session(self.i.sock, query="?keep=pause")
        self.run_in(s, "true")
        s.end()
        self.assertEqual([b["state"] for b in self.boxes()], [harness.PAUSED])

    def test_wishes_that_cannot_be_had(self):
        s = mcp.Session(self.i.sock, query="?image=no-such")
        r = s.tool("run_command", command="true")
        self.assertTrue(r["isError"])
        self.assertIn("no-such", r["content"][0]["text"])
        s.end()

    def test_scope(self):
        key = self.i.api("POST", "/v1/keys", {"name": "k", "scope": "read",
                                              "project": "a"}).json["key"]
        s = mcp.Session(self.i.sock, headers={"Authorization": f"Bearer {key}"})
        r = s.tool("run_command", command="true")
        self.assertTrue(r["isError"])
        self.assertIn("scope", r["content"][0]["text"])
        self.assertEqual(self.boxes(), [])

    def test_one_that_ended(self):
        s = mcp.Session(self.i.sock)
        self.run_in(s, "true")
        self.i.rm(self.boxes()[0]["id"])
        r = s.tool("run_command", command="true")
        self.assertTrue(r["isError"])
        self.assertIn("ended", r["content"][0]["text"])
        self.run_in(s, "true")
        s.end()
        self.assertEqual(self.boxes(), [])

    def test_copies_end_with_it(self):
        s = mcp.Session(self.i.sock)
        for _ in range(15):
            self.assertNotIn("isError", s.tool("fork"))
        r = s.tool("fork")
        self.assertTrue(r.get("isError"))
        self.assertIn("switch_sandbox", r["content"][0]["text"])
        # Those that have ended do not count.
        for box in self.boxes()[:2]:
            self.i.rm(box["id"])
        s.tool("sandbox_info")
        self.assertNotIn("isError", s.tool("fork"))
        self.assertEqual(s.end(), 204)
        self.assertEqual(self.boxes(), [])

    def test_readers_take_no_session(self):
        def bearer(scope):
            key = self.i.api("POST", "/v1/keys", {
                "name": "k", "scope": scope, "project": "a"}).json["key"]
            return {"Authorization": f"Bearer {key}"}
        mine, reader = bearer("use"), bearer("read")
        s = mcp.Session(self.i.sock, headers=mine)
        self.run_in(s, "true")
        self.i.kill_role("carrel-api")
        self.i.wait_ready()
        s.headers = reader
        self.assertEqual(s.ask("ping").status, 404)
        self.assertEqual(s.end(), 404)
        s.headers = mine
        self.assertEqual(s.end(), 204)
        self.assertEqual(self.boxes(), [])

    def test_found_again_after_a_restart(self):
        s = mcp.Session(self.i.sock)
        self.run_in(s, "echo kept > /tmp/x")
        self.i.kill_role("carrel-api")
        self.i.wait_ready()
        self.assertIn("kept", self.run_in(s, "cat /tmp/x"))
        # A copy of somebody's is not taken for the session's.
        box, = self.boxes()
        self.assertEqual(self.i.api("POST", f"/v1/sandboxes/{box['id']}/fork",
                                    {"name": "copy"}).status, 201)
        self.i.kill_role("carrel-api")
        self.i.wait_ready()
        self.assertEqual(s.end(), 204)
        self.assertEqual([b["name"] for b in self.boxes()], ["copy"])


class Idle(BoxCase):
    """Sessions and sandboxes that nobody has to do with."""
    CONF = {"mcp_idle": "2s", "mcp_pause": "1s"}

    def state(self, box):
        return self.i.api("GET", f"/v1/sandboxes/{box}").json["state"]

    def test_idle(self):
        s = mcp.Session(self.i.sock)
        self.run_in(s, "true")
        box, = self.i.ids()
        used = mcp.Session(self.i.sock)
        with used.listen(), used.ask("tools/call", {
                "name": "run_command", "arguments": {
                    "command": "sleep 2.2; echo late"}}) as r:
            # Meanwhile: an answer that takes long becomes a stream.
            self.assertTrue(r.is_events)
            self.assertIn("late", json.dumps(r.messages()))
            wait_for("the idle one to end", lambda: box not in self.i.ids(),
                     20 * SLOW)
            self.assertEqual(s.ask("ping").status, 404)
            mine, = self.i.ids()
            # One in use stays, its sandbox sleeps, and is woken.
            wait_for("it to be paused", lambda: self.state(mine) ==
                     harness.PAUSED, 20 * SLOW)
            self.assertEqual(used.call("ping"), {})
            self.assertEqual(self.state(mine), harness.PAUSED)
            self.assertIn("back", self.run_in(used, "echo back"))
        used.end()

    def test_restart_and_nobody_comes_back(self):
        for keep in "no", "yes":
            s = mcp.Session(self.i.sock, query=f"?keep={keep}")
            self.run_in(s, "true")
        kept = next(b["id"] for b in self.boxes()
                    if b["labels"]["mcp-keep"] == "yes")
        self.i.kill_role("carrel-api")
        self.i.wait_ready()
        wait_for("the other to go", lambda: self.i.ids() == [kept], 20 * SLOW)
        self.assertEqual(s.ask("ping").status, 404)


class Bridge(harness.Case):
    """carrel mcp"""
    CONF = {"mcp_fixture": "yes"}

    def start(self, *args):
        p = self.i.popen("mcp", *args)
        self.addCleanup(p.stdout.close)
        self.addCleanup(p.stderr.close)
        self.addCleanup(p.wait)
        self.addCleanup(p.kill)
        return p

    def say(self, p, *messages):
        for m in messages:
            p.stdin.write((m if isinstance(m, bytes) else
                           json.dumps(m).encode()) + b"\n")
        p.stdin.flush()

    def hear(self, p):
        return json.loads(p.stdout.readline())

    def begin(self, *args):
        p = self.start(*args)
        self.say(p, INIT)
        self.assertEqual(self.hear(p)["result"]["serverInfo"]["name"],
                         "carrel")
        self.say(p, message("notifications/initialized"))
        return p

    def end(self, p):
        p.stdin.close()
        self.assertEqual(p.wait(20 * SLOW), 0)

    def kill_api(self):
        self.addCleanup(self.i.wait_ready)
        self.i.kill_role("carrel-api")

    def test_talk(self):
        p = self.begin()
        self.say(p, message("ping", 1), b"", b"  ",
                 message("tools/list", "two"))
        got = {m["id"]: m for m in (self.hear(p), self.hear(p))}
        self.assertEqual(got[1]["result"], {})
        self.assertEqual(len(got["two"]["result"]["tools"]), 14)
        self.end(p)
        self.assertEqual(p.stderr.read(), b"")

    def test_all_at_once(self):
        """A pipe that ends: everything is answered first."""
        lines = [INIT, message("notifications/initialized")] + [
            message("tools/call", n, name="test_tool_with_progress")
            for n in range(1, 41)]
        p = self.i.cli("mcp", input="\n".join(map(json.dumps, lines)), check=0)
        self.assertEqual({json.loads(x)["id"] for x in p.out.splitlines()},
                         set(range(0, 41)))

    def test_events(self):
        p = self.begin()
        self.say(p, message("tools/call", 1, name="test_tool_with_progress",
                            _meta={"progressToken": "t"}))
        got = [self.hear(p) for _ in range(4)]
        self.assertEqual([m.get("method") for m in got],
                         ["notifications/progress"] * 3 + [None])
        self.end(p)

    def test_bad_lines(self):
        p = self.begin()
        self.say(p, b"{")
        self.assertEqual(self.hear(p)["error"]["code"], -32700)
        self.say(p, b'{"jsonrpc":"2.0","id":{},"method":"ping"}')
        self.assertEqual(self.hear(p)["error"]["code"], -32600)
        self.say(p, b'"' + b"x" * (8 << 20) + b'"')
        self.assertEqual(self.hear(p)["error"]["code"], -32600)
        self.say(p, message("ping", 1))
        self.assertEqual(self.hear(p), {"jsonrpc": "2.0", "id": 1,
                                        "result": {}})
        self.end(p)

    def test_before_initialize(self):
        p = self.start()
        self.say(p, message("ping", 1))
        self.assertIn("initialize", self.hear(p)["error"]["message"])
        self.end(p)

    def test_cancel_passes_what_waits(self):
        """16 that wait for the client, more behind them: a cancellation of
        one gets through."""
        p = self.start()
        init = json.loads(json.dumps(INIT))
        init["params"]["capabilities"] = {"sampling": {}}
        self.say(p, init)
        self.hear(p)
        self.say(p, *[message("tools/call", n, name="test_sampling",
                              arguments={"prompt": "x"})
                      for n in range(1, 17)])
        asked = [self.hear(p) for _ in range(16)]
        self.assertEqual({m["method"] for m in asked},
                         {"sampling/createMessage"})
        self.say(p, message("ping", 99),
                 message("notifications/cancelled", requestId=5))
        got = {m["id"]: m for m in (self.hear(p), self.hear(p))}
        self.assertEqual(got[5]["error"]["code"], -32800)
        self.assertEqual(got[99]["result"], {})
        self.end_now(p)

    def end_now(self, p):
        """Calls are still under way: as programs end theirs."""
        p.stdin.close()
        p.send_signal(signal.SIGTERM)
        self.assertEqual(p.wait(20 * SLOW), 0)

    def test_answers_of_the_client(self):
        p = self.start()
        init = json.loads(json.dumps(INIT))
        init["params"]["capabilities"] = {"elicitation": {}}
        self.say(p, init)
        self.hear(p)
        self.say(p, message("tools/call", 1, name="test_elicitation",
                            arguments={"message": "who?"}))
        asked = self.hear(p)
        self.say(p, {"jsonrpc": "2.0", "id": asked["id"], "result": {
            "action": "accept", "content": {"username": "u"}}})
        self.assertIn("accept", self.hear(p)["result"]["content"][0]["text"])
        self.end(p)

    def test_streams_that_are_closed_go_on(self):
        p = self.begin()
        self.say(p, message("tools/call", 1, name="test_reconnection"))
        self.assertEqual(self.hear(p)["id"], 1)
        self.end(p)

    def test_the_daemon_is_restarted(self):
        p = self.begin()
        self.say(p, message("ping", 1))
        self.hear(p)
        self.kill_api()
        self.say(p, message("ping", 2), message("ping", 3))
        self.assertEqual({self.hear(p)["id"], self.hear(p)["id"]}, {2, 3})
        self.end(p)

    def test_the_daemon_goes_in_the_middle(self):
        p = self.start()
        init = json.loads(json.dumps(INIT))
        init["params"]["capabilities"] = {"sampling": {}}
        self.say(p, init)
        self.hear(p)
        self.say(p, message("tools/call", 1, name="test_sampling",
                            arguments={"prompt": "x"}))
        self.hear(p)
        self.kill_api()
        self.assertIn("error", self.hear(p))
        self.end(p)

    def test_no_daemon(self):
        p = self.i.cli("--socket", "/nonexistent", "mcp", check=1)
        self.assertIn("not running", p.err)

    def test_bad_wish(self):
        p = self.start("--sandbox", "nobody")
        self.say(p, INIT)
        self.assertIn("nobody", self.hear(p)["error"]["message"])
        self.end(p)


if __name__ == "__main__":
    harness.main()
