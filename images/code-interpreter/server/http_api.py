"""The requests, each in a thread of its own."""

import http.server
import json
import select
import socket
import threading

import contexts

BODY_MAX = 16 << 20
KEEPALIVE_S = 5


class Refused(Exception):
    """An answer that is not what was asked for."""

    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *args):
        pass

    # --- plumbing ---

    def body(self):
        raw = self.raw_body()
        try:
            value = json.loads(raw) if raw else {}
        except ValueError:
            raise Refused(400, "the body is not JSON") from None
        if not isinstance(value, dict):
            raise Refused(400, "the body is not a JSON object")
        return value

    def raw_body(self):
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            return self.chunked_body()
        try:
            n = int(self.headers.get("Content-Length") or 0)
        except ValueError:
            raise Refused(400, "Content-Length is not a number") from None
        if not 0 <= n <= BODY_MAX:
            raise Refused(413, "the body is too large")
        return self.rfile.read(n)

    def chunked_body(self):
        out = bytearray()
        while True:
            try:
                n = int(self.rfile.readline(32).split(b";")[0], 16)
            except ValueError:
                raise Refused(400, "malformed chunks") from None
            if n < 0 or len(out) + n > BODY_MAX:
                raise Refused(413, "the body is too large")
            out += self.rfile.read(n)
            self.rfile.readline(4)
            if n == 0:
                return bytes(out)

    def answer(self, status, value=None, text=None):
        body, kind = b"", "application/json"
        if text is not None:
            body, kind = text.encode(), "text/plain"
        elif status != 204:
            body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def dispatch(self, method):
        path = self.path.split("?")[0].rstrip("/") or "/"
        try:
            for want, pattern, fn in ROUTES:
                parts = match(pattern, path)
                if want == method and parts is not None:
                    fn(self, *parts)
                    return
            raise Refused(404, "there is no such path")
        except (Refused, contexts.Unknown, contexts.Unusable) as e:
            status = getattr(e, "status", None) or \
                (404 if isinstance(e, contexts.Unknown) else 400)
            self.close_connection = True
            self.answer(status, text=str(e))
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def do_GET(self):
        self.dispatch("GET")

    def do_POST(self):
        self.dispatch("POST")

    def do_DELETE(self):
        self.dispatch("DELETE")

    # --- requests ---

    def health(self):
        self.answer(200, text="OK")

    def list_contexts(self):
        self.raw_body()
        self.answer(200, [c.describe() for c in contexts.all_of_them()])

    def make_context(self):
        ask = self.body()
        self.answer(200, contexts.make(ask.get("language"),
                                       ask.get("cwd")).describe())

    def drop_context(self, name):
        self.raw_body()
        contexts.drop(name)
        self.answer(204)

    def restart_context(self, name):
        self.raw_body()
        context = contexts.find(name)
        context.restart()
        self.answer(200, context.describe())

    def execute(self):
        ask = self.body()
        if not isinstance(ask.get("code"), str):
            raise Refused(400, "code: missing, or not a string")
        context = contexts.choose(ask.get("context_id"), ask.get("language"))
        env = ask.get("env_vars") or {}
        if not isinstance(env, dict) or not all(
                isinstance(v, str) for v in env.values()):
            raise Refused(400, "env_vars: not an object of strings")
        self.stream(context, ask["code"], env)

    def stream(self, context, code, env):
        self.send_response(200)
        self.send_header("Content-Type", "application/x-ndjson")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        out = Lines(self.wfile)
        context.run(code, env, out,
                    lambda interrupt: Leaves(self.connection, interrupt))
        out.send({"type": "end_of_execution"})
        out.end()
        self.close_connection = out.broken


class Lines:
    """One JSON object per line, chunked; one when it is quiet, too."""

    def __init__(self, file):
        self.file, self.lock = file, threading.Lock()
        self.timer, self.over, self.broken = None, False, False
        self.wind()

    def wind(self):
        if self.timer:
            self.timer.cancel()
        if self.over:
            return
        self.timer = threading.Timer(KEEPALIVE_S, self.keepalive)
        self.timer.daemon = True
        self.timer.start()

    def keepalive(self):
        self.send({"type": "keepalive"})

    def write(self, data):
        """What nobody reads any more is dropped."""
        try:
            self.file.write(data)
            self.file.flush()
        except OSError:
            self.over = self.broken = True

    def send(self, value):
        line = json.dumps(value).encode() + b"\n"
        with self.lock:
            if not self.over:
                self.write(b"%x\r\n%s\r\n" % (len(line), line))
                self.wind()

    def end(self):
        with self.lock:
            self.timer.cancel()
            if not self.over:
                self.write(b"0\r\n\r\n")
            self.over = True


class Leaves:
    """Calls `fn` when the client hangs up before we are done."""

    def __init__(self, sock, fn):
        self.sock, self.fn = sock, fn

    def already(self):
        poll = select.poll()
        poll.register(self.sock, select.POLLRDHUP)
        return bool(poll.poll(0))

    def __enter__(self):
        self.ours, theirs = socket.socketpair()
        self.thread = threading.Thread(target=self.watch, args=(theirs,),
                                       daemon=True)
        self.thread.start()

    def watch(self, theirs):
        poll = select.poll()
        poll.register(self.sock, select.POLLRDHUP)
        poll.register(theirs, select.POLLIN)
        with theirs:
            ready = {fd for fd, _ in poll.poll()}
            if theirs.fileno() not in ready:
                self.fn()

    def __exit__(self, *exc):
        self.ours.close()
        self.thread.join()


def match(pattern, path):
    want, got = pattern.split("/"), path.split("/")
    if len(want) != len(got):
        return None
    parts = [g for w, g in zip(want, got) if w == "*"]
    return parts if all(w in ("*", g) for w, g in zip(want, got)) else None


ROUTES = [
    ("GET", "/health", Handler.health),
    ("POST", "/execute", Handler.execute),
    ("GET", "/contexts", Handler.list_contexts),
    ("POST", "/contexts", Handler.make_context),
    ("DELETE", "/contexts/*", Handler.drop_context),
    ("POST", "/contexts/*/restart", Handler.restart_context),
]


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, listener):
        super().__init__(listener.getsockname()[:2], Handler,
                         bind_and_activate=False)
        self.socket.close()
        self.socket = listener

    def handle_error(self, request, client_address):
        pass  # a client that left


def serve(listener):
    contexts.warm()
    Server(listener).serve_forever()
