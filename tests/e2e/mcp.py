"""A client of /mcp that hides nothing: JSON-RPC over the unix socket."""

import json

from harness import SLOW, UnixHTTP

VERSION = "2025-11-25"
BOTH = "application/json, text/event-stream"


class Events:
    """The events of an answer, as they come."""

    def __init__(self, answer):
        self.answer = answer

    def __iter__(self):
        return self

    def __next__(self):
        """{"id", "event", "data", "retry"} of the next one."""
        event = {}
        while True:
            line = self.answer.readline()
            if not line:
                raise StopIteration
            line = line.decode().rstrip("\n")
            if line.startswith(":"):
                continue
            if line:
                name, _, value = line.partition(": ")
                event[name] = value
            elif event:
                return event

    def messages(self):
        for event in self:
            if event.get("data"):
                yield json.loads(event["data"])


class Reply:
    def __init__(self, conn, answer):
        self.conn, self.answer = conn, answer
        self.status = answer.status
        self.headers = {k.lower(): v for k, v in answer.getheaders()}
        self.is_events = self.headers.get("content-type") == "text/event-stream"

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    def events(self):
        return Events(self.answer)

    def messages(self):
        """All messages until the end."""
        if self.is_events:
            return list(self.events().messages())
        body = self.answer.read()
        found = json.loads(body) if body else []
        return found if isinstance(found, list) else [found]

    def close(self):
        self.conn.close()


class Session:
    """Begins with `initialize`, unless `version` is None."""

    def __init__(self, sock, version=VERSION, query="", capabilities=None,
                 headers=None, name="test"):
        self.sock, self.query, self.id, self.n = sock, query, None, 0
        self.headers = headers or {}
        self.version = version
        if version is None:
            return
        with self.send({"jsonrpc": "2.0", "id": 0, "method": "initialize",
                        "params": {"protocolVersion": version,
                                   "capabilities": capabilities or {},
                                   "clientInfo": {"name": name,
                                                  "version": "1"}}}) as r:
            answer = r.messages()[0]
            if r.status != 200:
                raise AssertionError(f"initialize: {r.status} {answer}")
            self.id = r.headers["mcp-session-id"]
            self.hello = answer["result"]
        self.version = self.hello["protocolVersion"]
        self.notify("notifications/initialized")

    def request(self, method, body=None, headers=None, timeout=60, wait=True):
        """The Reply; without `wait` the connection that it will come on."""
        conn = UnixHTTP(self.sock, timeout * SLOW)
        fields = {"Accept": BOTH, **self.headers}
        if body is not None:
            fields["Content-Type"] = "application/json"
        if self.id:
            fields["Mcp-Session-Id"] = self.id
            fields["MCP-Protocol-Version"] = self.version
        fields.update(headers or {})
        conn.request(method, "/mcp" + self.query, body,
                     {k: v for k, v in fields.items() if v is not None})
        return Reply(conn, conn.getresponse()) if wait else conn

    def send(self, message, headers=None, timeout=60, wait=True):
        if not isinstance(message, bytes):
            message = json.dumps(message).encode()
        return self.request("POST", message, headers, timeout, wait)

    def notify(self, method, **params):
        with self.send({"jsonrpc": "2.0", "method": method,
                        "params": params}) as r:
            assert r.status == 202, (r.status, r.messages())

    def ask(self, method, params=None, id=None, headers=None):
        """Sends a request, and returns the Reply."""
        self.n += 1
        message = {"jsonrpc": "2.0", "id": self.n if id is None else id,
                   "method": method}
        if params is not None:
            message["params"] = params
        return self.send(message, headers)

    def call(self, method, params=None, **kw):
        """... and returns the answer's result, or its error."""
        with self.ask(method, params, **kw) as r:
            last = r.messages()[-1]
        return last.get("result", last.get("error"))

    def tool(self, name, **arguments):
        return self.call("tools/call", {"name": name, "arguments": arguments})

    def listen(self, last=None):
        return self.request("GET", headers={
            "Accept": "text/event-stream", "Last-Event-ID": last})

    def end(self):
        with self.request("DELETE") as r:
            return r.status
