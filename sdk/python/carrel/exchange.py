"""Requests and answers as flows: connections that are kept, repeats."""

from __future__ import annotations

import json
import os
import random
import time
from dataclasses import dataclass, field
from typing import Any, Mapping
from urllib.parse import quote, urlencode, urlsplit

from . import http
from .errors import (CarrelError, ConnectionFailed, ProtocolError, Unavailable,
                     from_answer)
from .steps import Body, Closing, Conn, Connect, Flow, Pull, Recv, Send, Sleep

DEFAULT_SOCKET = "/run/carrel/api.sock"
USER_AGENT = "carrel-python/0.1.0"
JSON_MAX = 256 * 1024 * 1024
LINE_MAX = 16 * 1024 * 1024
IDLE_MAX_S = 10.0   # well below what the daemon waits for
IDLE_MAX = 8
PIECE = 256 * 1024


@dataclass(frozen=True)
class Endpoint:
    """Where the daemon is: a unix socket, or a host."""
    socket: str | None
    host: str = "localhost"
    port: int = 0
    tls: bool = False
    ca: str | None = None

    @classmethod
    def of(cls, url: str | None, socket: str | None,
           ca: str | None) -> Endpoint:
        url = url or (None if socket else os.environ.get("CARREL_URL"))
        if not url:
            return cls(socket or os.environ.get("CARREL_SOCKET")
                       or DEFAULT_SOCKET)
        u = urlsplit(url)
        if (u.scheme not in ("http", "https") or not u.hostname
                or u.path not in ("", "/")):
            raise ValueError(f"'{url}' is not http://HOST or https://HOST")
        tls = u.scheme == "https"
        return cls(None, u.hostname, u.port or (443 if tls else 80), tls,
                   ca or os.environ.get("CARREL_CA"))

    @property
    def authority(self) -> str:
        if self.socket:
            return "localhost"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def base(self) -> str | None:
        """The start of URLs; None where there are none."""
        if self.socket:
            return None
        return f"http{'s' if self.tls else ''}://{self.authority}"

    def __str__(self) -> str:
        return self.socket or self.authority


@dataclass
class Link:
    """What all requests of a client share."""
    endpoint: Endpoint
    api_key: str | None = field(default=None, repr=False)
    timeout: float = 60.0
    retries: int = 3
    idle: list[tuple[float, Conn]] = field(default_factory=list)
    pid: int = field(default_factory=os.getpid)

    @classmethod
    def make(cls, url: str | None, api_key: str | None, socket: str | None,
             ca: str | None, timeout: float, retries: int) -> Link:
        return cls(Endpoint.of(url, socket, ca),
                   api_key or os.environ.get("CARREL_API_KEY"), timeout,
                   retries)

    def close(self) -> None:
        while self.idle:
            self.idle.pop()[1].close()

    def reuse(self) -> Conn | None:
        if self.pid != os.getpid():  # those are the parent's
            self.idle, self.pid = [], os.getpid()
        while self.idle:
            try:
                since, conn = self.idle.pop()
            except IndexError:  # another thread was faster
                return None
            if time.monotonic() - since < IDLE_MAX_S and conn.usable():
                return conn
            conn.close()
        return None

    def keep(self, conn: Conn) -> None:
        if len(self.idle) < IDLE_MAX:
            self.idle.append((time.monotonic(), conn))
        else:
            conn.close()

    def delays(self) -> list[float]:
        """Before each repeat: longer each time, and never the same for two
        clients."""
        return [0.1 * 3 ** n * random.uniform(0.7, 1.3)
                for n in range(self.retries)]


@dataclass
class Request:
    method: str
    path: str
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Body | None = None
    headers: dict[str, str] = field(default_factory=dict)
    timeout: float | None = -1.0   # None: as long as it takes; < 0: the usual
    repeat: bool | None = None     # None: if the method says so

    @property
    def repeatable(self) -> bool:
        if self.repeat is None:
            return self.method in ("GET", "HEAD")
        return self.repeat

    @property
    def target(self) -> str:
        pairs = []
        for name, value in self.query.items():
            for v in value if isinstance(value, (list, tuple)) else [value]:
                if v is not None:
                    pairs.append((name, _text(v)))
        return self.path + ("?" + urlencode(pairs) if pairs else "")


def _text(v: Any) -> str:
    if isinstance(v, bool):
        return "true" if v else "false"
    return str(v)


def get(path: str, /, **query: Any) -> Request:
    return Request("GET", path, query)


def post(path: str, body: Mapping[str, Any] | None = None,
         method: str = "POST", **more: Any) -> Request:
    """A request with JSON; what is None is left out."""
    text = json.dumps({k: v for k, v in (body or {}).items()
                       if v is not None})
    return Request(method, path, body=text.encode(),
                   headers={"Content-Type": "application/json"}, **more)


def segment(word: str) -> str:
    """A name or id as a part of a path."""
    if not word or word in (".", ".."):
        raise ValueError(f"'{word}' is no name or id")
    return quote(word, safe="")


# --- one request


class Reply:
    """An answer whose head is there. Read it to its end, or close() it."""

    def __init__(self, link: Link, conn: Conn, answer: http.Answer,
                 timeout: float | None) -> None:
        self._link, self._conn, self._answer = link, conn, answer
        self.timeout = timeout  # for each piece
        self._open = True
        self.status = answer.status
        self.headers = answer.headers

    def some(self) -> Flow[bytes]:
        """The next bytes; none at the end."""
        while self._open:
            got = self._answer.take()
            if self._answer.done:
                self._finish()
            if got:
                return got
            if self._open:
                data = yield Recv(self._conn, self.timeout)
                if data:
                    self._answer.feed(data)
                else:
                    self._cut()
        return b""

    def _cut(self) -> None:
        try:
            self._answer.eof()
        except ProtocolError as e:
            raise ConnectionFailed(e.message) from None

    def all(self, most: int = JSON_MAX) -> Flow[bytes]:
        parts, size = [], 0
        while piece := (yield from self.some()):
            parts.append(piece)
            size += len(piece)
            if size > most:
                raise ProtocolError("the answer is too large")
        return b"".join(parts)

    def json(self) -> Flow[Any]:
        text = yield from self.all()
        if not text:
            return None
        try:
            return json.loads(text)
        except ValueError:
            raise ProtocolError("the answer is not JSON") from None

    def detach(self) -> tuple[Conn, bytes]:
        """The connection of an upgrade, and what came already."""
        self._open = False
        return self._conn, self._answer.rest()

    def _finish(self) -> None:
        self._open = False
        if self._answer.keep_alive and self.status != 101:
            self._link.keep(self._conn)
        else:
            self._conn.close()

    def close(self) -> None:
        if self._open:
            self._open = False
            self._conn.close()


def _fields(link: Link, req: Request) -> list[tuple[str, str]]:
    fields = {"Host": link.endpoint.authority, "User-Agent": USER_AGENT}
    if link.api_key:
        fields["Authorization"] = f"Bearer {link.api_key}"
    if isinstance(req.body, bytes):
        fields["Content-Length"] = str(len(req.body))
    elif req.body is not None:
        fields["Transfer-Encoding"] = "chunked"
    elif req.method not in ("GET", "HEAD"):
        fields["Content-Length"] = "0"
    return list({**fields, **req.headers}.items())


def _send(conn: Conn, head: bytes, body: Body | None) -> Flow[None]:
    if body is None or isinstance(body, bytes):
        first = head + (body or b"")
        if len(first) <= PIECE:
            yield Send(conn, first)
            return
        yield Send(conn, head)
        view = memoryview(body or b"")
        for at in range(0, len(view), PIECE):
            yield Send(conn, bytes(view[at:at + PIECE]))
        return
    yield Send(conn, head)
    pull = Pull(body)
    while (piece := (yield pull)) is not None:
        if piece:
            yield Send(conn, http.chunk(piece))
    yield Send(conn, http.LAST_CHUNK)


def _ask(link: Link, conn: Conn, req: Request) -> Flow[Reply]:
    answer = http.Answer(req.method)
    timeout = link.timeout if (req.timeout or 0) < 0 else req.timeout
    try:
        yield from _send(conn, http.head(req.method, req.target,
                                         _fields(link, req)), req.body)
    except ConnectionFailed:
        # It may have been refused before all of it was sent.
        timeout = min(timeout or 5.0, 5.0)
    while not answer.ready:
        data = yield Recv(conn, timeout)
        if not data:
            raise ConnectionFailed(
                f"{link.endpoint} closed the connection without an answer")
        answer.feed(data)
    return Reply(link, conn, answer, timeout)


def once(link: Link, req: Request) -> Flow[Reply]:
    """One try, whatever comes of it."""
    if isinstance(req.body, str):
        req.body = req.body.encode()
    conn = link.reuse()
    kept = conn is not None
    while True:
        if conn is None:
            conn = yield Connect()
        try:
            return (yield from _ask(link, conn, req))
        except ConnectionFailed:
            conn.close()
            # The daemon may have let go of it just now.
            if not (kept and req.repeatable):
                raise
            conn, kept = None, False
        except BaseException:
            conn.close()
            raise


def refusal(reply: Reply) -> Flow[CarrelError]:
    try:
        body = yield from reply.json()
    except CarrelError:
        body = None
    return from_answer(reply.status, body if isinstance(body, dict) else None)


def open_reply(link: Link, req: Request) -> Flow[Reply]:
    """An answer of success, its body unread. Repeats what may be repeated."""
    delays = link.delays() if req.repeatable else []
    while True:
        try:
            reply = yield from once(link, req)
            if 200 <= reply.status < 300 or reply.status == 101:
                return reply
            why = yield from refusal(reply)
        except ConnectionFailed as e:
            why = e
        if not delays or not isinstance(why, (ConnectionFailed, Unavailable)):
            raise why
        yield Sleep(delays.pop(0))


def ask(link: Link, req: Request) -> Flow[Any]:
    """The JSON of an answer; None when it has none."""
    delays = link.delays() if req.repeatable else []
    while True:
        reply = yield from open_reply(link, req)
        try:
            return (yield from reply.json())
        except ConnectionFailed:
            if not delays:
                raise
        finally:
            reply.close()
        yield Sleep(delays.pop(0))


# --- streams


def _object(line: bytes) -> dict[str, Any]:
    try:
        return dict(json.loads(line))
    except (ValueError, TypeError):
        raise ProtocolError("a line of the answer is not JSON") from None


class Bytes(Closing):
    """The body of an answer, piece by piece."""

    def __init__(self, link: Link, req: Request) -> None:
        self._link, self._req = link, req
        self.reply: Reply | None = None

    def open(self) -> Flow[None]:
        if self.reply is None:
            self.reply = yield from open_reply(self._link, self._req)

    def next(self) -> Flow[bytes | None]:
        yield from self.open()
        assert self.reply
        return (yield from self.reply.some()) or None

    def close(self) -> None:
        if self.reply:
            self.reply.close()


class Lines(Closing):
    """JSON, a line each; pings are left out."""

    def __init__(self, link: Link, req: Request) -> None:
        self._body = Bytes(link, req)
        self._buf = b""
        self._lines: list[bytes] = []

    def open(self) -> Flow[None]:
        return self._body.open()

    def patience(self, seconds: float | None) -> None:
        """How long the next line may take."""
        if self._body.reply:
            self._body.reply.timeout = seconds

    def next(self) -> Flow[dict[str, Any] | None]:
        while True:
            while self._lines:
                line = self._lines.pop()
                event = _object(line) if line else {"type": "ping"}
                if event.get("type") != "ping":
                    return event
            piece = yield from self._body.next()
            if piece is None:
                return None
            *whole, self._buf = (self._buf + piece).split(b"\n")
            self._lines = whole[::-1]
            if len(self._buf) > LINE_MAX:
                raise ProtocolError("a line of the answer has no end")

    def close(self) -> None:
        self._body.close()

