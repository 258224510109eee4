"""HTTP/1.1 as bytes: heads are made, answers are taken apart. No sockets."""

from __future__ import annotations

from .errors import ProtocolError

HEAD_MAX = 64 * 1024
LINE_MAX = 4096


def head(method: str, target: str, fields: list[tuple[str, str]]) -> bytes:
    """ValueError for what would be more than one head."""
    lines = [f"{method} {target} HTTP/1.1"]
    if not all("!" <= c <= "~" for c in method + target):
        raise ValueError("a request has no spaces and no line breaks in it")
    for name, value in fields:
        if not name or any(c in value or c in name for c in "\r\n\0"):
            raise ValueError(f"{name!r}: a line break has no place here")
        lines.append(f"{name}: {value}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


LAST_CHUNK = b"0\r\n\r\n"


class Answer:
    """Feed it what comes. When it is `ready` the head is there; take() gives
    bytes of the body, `done` says that there are no more."""

    def __init__(self, method: str) -> None:
        self._method = method
        self._buf = bytearray()
        self._left = 0        # of the body, or of a chunk
        self._mode = "head"   # length, size, data, tail, trailer, eof, done
        self.status = 0
        self.headers: dict[str, str] = {}
        self.keep_alive = False

    @property
    def ready(self) -> bool:
        return self._mode != "head"

    @property
    def done(self) -> bool:
        return self._mode == "done"

    def rest(self) -> bytes:
        """What came behind the answer: of an upgraded connection."""
        got, self._buf = bytes(self._buf), bytearray()
        return got

    def feed(self, data: bytes) -> None:
        self._buf += data
        if self._mode == "head":
            self._head()

    def eof(self) -> None:
        """Nothing comes any more."""
        if self._mode == "eof" and not self._buf:
            self._mode = "done"
        elif self._mode not in ("eof", "done"):
            raise ProtocolError("the answer was cut off")

    def _head(self) -> None:
        while self._mode == "head":
            end = self._buf.find(b"\r\n\r\n")
            if end < 0:
                if len(self._buf) > HEAD_MAX:
                    raise ProtocolError("the head of the answer has no end")
                return
            text = bytes(self._buf[:end]).decode("latin-1")
            del self._buf[:end + 4]
            self._parse(text)

    def _parse(self, text: str) -> None:
        first, *lines = text.split("\r\n")
        words = first.split(" ", 2)
        if (len(words) < 2 or not words[0].startswith("HTTP/1.")
                or len(words[1]) != 3 or not words[1].isdigit()):
            raise ProtocolError("what answers does not speak HTTP")
        self.status = int(words[1])
        self.headers = {}
        for line in lines:
            name, colon, value = line.partition(":")
            if not colon:
                raise ProtocolError("a line of the head is no field")
            self.headers[name.lower()] = value.strip()
        if 100 <= self.status < 200 and self.status != 101:
            return  # a word in between; the answer follows
        self._frame()

    def _frame(self) -> None:
        length = self.headers.get("content-length")
        connection = self.headers.get("connection", "").lower()
        self.keep_alive = "close" not in connection
        if (self.status in (101, 204, 304) or self._method == "HEAD"):
            self._mode = "done"
        elif self.headers.get("transfer-encoding", "").lower() == "chunked":
            self._mode = "size"
        elif length is not None:
            if not length.isdigit():
                raise ProtocolError("the length of the answer is no number")
            self._left = int(length)
            self._mode = "length" if self._left else "done"
        else:
            self.keep_alive = False
            self._mode = "eof"

    def take(self) -> bytes:
        """What there is of the body now."""
        out = bytearray()
        while self._step(out):
            pass
        return bytes(out)

    def _step(self, out: bytearray) -> bool:
        """One move of the state; False: it needs more bytes, or none."""
        if self._mode == "eof":
            out += self._buf
            self._buf.clear()
            return False
        if self._mode in ("length", "data"):
            n = min(self._left, len(self._buf))
            out += self._buf[:n]
            del self._buf[:n]
            self._left -= n
            if self._left == 0:
                self._mode = "done" if self._mode == "length" else "tail"
            return self._left == 0 and not self.done
        if self._mode in ("size", "tail", "trailer"):
            line = self._line()
            return line is not None and self._control(line)
        return False

    def _line(self) -> bytes | None:
        end = self._buf.find(b"\r\n")
        if end < 0 and len(self._buf) <= LINE_MAX:
            return None
        if end < 0 or end > LINE_MAX:
            raise ProtocolError("a chunk of the answer has no size")
        line = bytes(self._buf[:end])
        del self._buf[:end + 2]
        return line

    def _control(self, line: bytes) -> bool:
        if self._mode == "size":
            try:
                self._left = int(line.split(b";")[0], 16)
            except ValueError:
                raise ProtocolError("a chunk of the answer has no size") \
                    from None
            self._mode = "data" if self._left else "trailer"
        elif self._mode == "tail":
            if line:
                raise ProtocolError("a chunk of the answer is too long")
            self._mode = "size"
        elif not line:
            self._mode = "done"
        return not self.done
