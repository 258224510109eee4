"""A terminal over a WebSocket, as flows."""

from __future__ import annotations

import json
import time
from typing import Any

from . import websocket
from .errors import CarrelError, ConnectionFailed, ProtocolError
from .exchange import get, open_reply
from .sandbox_calls import At
from .spec import Number
from .steps import Conn, Flow, Recv, Send

PIECE = 64 * 1024


def _left(until: float | None) -> float | None:
    return None if until is None else max(0.0, until - time.monotonic())


class Session:
    """Bytes of a terminal; what is said about it is kept in members."""

    def __init__(self, conn: Conn, early: bytes) -> None:
        self._conn = conn
        self._frames = websocket.Frames()
        self._frames.feed(early)
        self._over = False
        self.number = 0
        self.pid = 0
        self.lost = 0
        self.exit: dict[str, Any] | None = None

    @property
    def exit_code(self) -> int | None:
        if not self.exit:
            return None
        code = self.exit.get("code")
        return int(128 + self.exit["signal"] if code is None else code)

    def _message(self, until: float | None) -> Flow[tuple[int, bytes]]:
        while (got := self._frames.next()) is None:
            data = yield Recv(self._conn, _left(until))
            if not data:
                raise ConnectionFailed("the terminal's connection broke")
            self._frames.feed(data)
        return got

    def open(self) -> Flow[None]:
        """Until it is told which process it is."""
        while not self.number:
            op, data = yield from self._message(None)
            yield from self._control(op, data)

    def next(self, timeout: Number | None = None) -> Flow[bytes | None]:
        """What it shows next; None when its process has exited."""
        until = None if timeout is None else time.monotonic() + timeout
        while not self._over:
            op, data = yield from self._message(until)
            if op == websocket.BINARY:
                return data
            yield from self._control(op, data)
        return None

    def _control(self, op: int, data: bytes) -> Flow[None]:
        if op == websocket.PING:
            yield Send(self._conn, websocket.frame(websocket.PONG, data))
        elif op == websocket.CLOSE:
            self.close()
        elif op == websocket.TEXT:
            self._say(json.loads(data))

    def _say(self, j: dict[str, Any]) -> None:
        if "started" in j:
            self.number, self.pid = j["started"]["number"], j["started"]["pid"]
        elif "gap" in j:
            self.lost += j["gap"]["lost"]
        elif "exit" in j:
            self.exit = j["exit"]
        elif "error" in j:
            self.close()
            raise CarrelError(j["error"].get("message", "the terminal ended"),
                              error=j["error"].get("error"))

    def write(self, data: str | bytes) -> Flow[None]:
        """Types it."""
        raw = data.encode() if isinstance(data, str) else data
        for at in range(0, len(raw), PIECE):
            yield Send(self._conn, websocket.frame(websocket.BINARY,
                                                   raw[at:at + PIECE]))

    def _order(self, **what: Any) -> Flow[None]:
        yield Send(self._conn, websocket.frame(websocket.TEXT,
                                               json.dumps(what).encode()))

    def resize(self, rows: int, cols: int) -> Flow[None]:
        """Another size for it."""
        return self._order(resize={"rows": rows, "cols": cols})

    def signal(self, signal: int | str) -> Flow[None]:
        """A signal for its process ("INT", or a number)."""
        return self._order(signal=signal)

    def read(self, timeout: Number | None = None) -> Flow[bytes]:
        """What it shows next, b"" when its process has exited; TimedOut if
        nothing comes in so many seconds."""
        return (yield from self.next(timeout)) or b""

    def read_until(self, text: str | bytes,
                   timeout: Number | None = 30) -> Flow[bytes]:
        """What it shows up to and with this text."""
        want = text.encode() if isinstance(text, str) else text
        until = None if timeout is None else time.monotonic() + timeout
        seen = bytearray()
        while want not in seen:
            piece = yield from self.next(_left(until))
            if piece is None:
                raise CarrelError("the terminal ended before this was shown")
            seen += piece
        return bytes(seen)

    def read_all(self, timeout: Number | None = None) -> Flow[bytes]:
        """What it shows until its process exits."""
        until = None if timeout is None else time.monotonic() + timeout
        seen = bytearray()
        while (piece := (yield from self.next(_left(until)))) is not None:
            seen += piece
        return bytes(seen)

    def leave(self) -> Flow[None]:
        """The end of a block: nobody looks at it any more."""
        try:
            if not self._over and not self.exit:
                yield from self.signal("HUP")
        finally:
            self.close()

    def close(self) -> None:
        """Leaves; its process runs on, and can be come back to."""
        self._over = True
        self._conn.close()


def terminal(at: At, command: str | None = None, *, rows: int = 24,
             cols: int = 80, cwd: str | None = None, user: str | None = None,
             tag: str | None = None, record: bool = False,
             process: int | None = None) -> Flow[Session]:
    """A terminal with a shell, or with `command`; with `process` back to one
    that was left. Iterate over it for what it shows."""
    key = websocket.new_key()
    req = get(f"{at.path}/terminal", command=command, rows=rows, cols=cols,
              cwd=cwd, user=user, tag=tag, record=record or None,
              process=process)
    req.repeat = False  # each one starts a process
    req.headers = {"Connection": "Upgrade", "Upgrade": "websocket",
                   "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": key}
    reply = yield from open_reply(at.link, req)
    if (reply.status != 101 or reply.headers.get("sec-websocket-accept")
            != websocket.accept_of(key)):
        reply.close()
        raise ProtocolError("no WebSocket is spoken here")
    session = Session(*reply.detach())
    try:
        yield from session.open()
    except BaseException:
        session.close()
        raise
    return session
