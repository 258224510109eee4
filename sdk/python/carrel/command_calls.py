"""Commands: run to their end, or followed while they run."""

from __future__ import annotations

import base64
import secrets
import time
from typing import Any, Callable, Mapping, Sequence, Union

from .data import Output, ProcessInfo, Result
from .errors import (CarrelError, CommandError, ConnectionFailed, NotFound,
                     NotReached, TimedOut)
from .exchange import Lines, Request, ask, get, post, segment
from .sandbox_calls import At
from .spec import Number
from .steps import Beside, Body, Flow, Sleep, Tell

Command = Union[str, Sequence[str]]  # a line for the shell, or words
Callback = Callable[[str], Any]
INPUT_MAX = 128 * 1024      # that fits into the JSON of a run
KEEP = 4 * 1024 * 1024      # of each output, for the result
SILENCE_S = 60.0            # a ping comes every 15 s


def _body(cmd: Command, **more: Any) -> dict[str, Any]:
    what: dict[str, Any] = ({"command": cmd} if isinstance(cmd, str)
                            else {"argv": list(cmd)})
    return {**what, **{k: v for k, v in more.items() if v is not None}}


def _words(cmd: Command) -> str:
    return cmd if isinstance(cmd, str) else " ".join(cmd)


def check_result(cmd: Command, result: Result) -> Result:
    if result.ok:
        return result
    how = ("did not end in time" if result.timed_out else
           f"was ended by signal {result.signal}" if result.signal else
           f"exited with {result.exit_code}")
    tail = result.stderr.strip().splitlines()[-1:]
    raise CommandError(
        f"'{_words(cmd)[:200]}' {how}{': ' + tail[0][:300] if tail else ''}",
        result)


def run(at: At, cmd: Command, *, check: bool = False,
        cwd: str | None = None, env: Mapping[str, str] | None = None,
        user: str | None = None, timeout: Number | None = None,
        input: str | bytes | None = None, max_output: int | None = None,
        on_stdout: Callback | None = None,
        on_stderr: Callback | None = None) -> Flow[Result]:
    """Runs a command to its end: a line for the shell, or a list of words.
    With `check` a failure raises CommandError. After `timeout` seconds it is
    killed. Callbacks get the output as it comes."""
    text = _as_text(input)
    if on_stdout or on_stderr or (input and text is None):
        result = yield from _run_followed(
            at, _body(cmd, cwd=cwd, env=env, user=user,
                      stdin=input is not None or None),
            timeout, input, on_stdout, on_stderr)
    else:
        result = Result.of((yield from ask(at.link, post(
            f"{at.path}/run", _body(cmd, cwd=cwd, env=env, user=user,
                                    timeout=timeout, input=text,
                                    max_output=max_output), timeout=None))))
    return check_result(cmd, result) if check else result


def _as_text(data: str | bytes | None) -> str | None:
    """As JSON can carry it; None: it cannot."""
    if isinstance(data, bytes):
        try:
            data = data.decode()
        except UnicodeDecodeError:
            return None
    return data if data is None or len(data) <= INPUT_MAX else None


def _run_followed(at: At, body: dict[str, Any], timeout: Number | None,
                  input: str | bytes | None, on_stdout: Callback | None,
                  on_stderr: Callback | None) -> Flow[Result]:
    f = Following(at, body=body)
    f.callbacks = {"stdout": on_stdout, "stderr": on_stderr}
    until = None if timeout is None else time.monotonic() + timeout
    feed = None
    try:
        yield from f.open()
        # It may take no more input before somebody takes its output.
        if input is not None:
            feed = Beside(_feed(at, f.ref, input))
            yield feed
        try:
            result = yield from f.finish(until)
        except TimedOut:
            yield from send_signal(at, f.ref, "KILL")
            result = yield from f.finish(None, timed_out=True)
        if feed and feed.error:
            raise feed.error
        return result
    finally:
        if feed:
            feed.cancel()
        f.close()


def _feed(at: At, ref: int | str, input: str | bytes) -> Flow[None]:
    try:
        yield from write_input(at, ref, input, eof=True)
    except NotFound:
        pass  # it did not want all of it
    except CarrelError:
        # It would wait for the rest for ever.
        yield from send_signal(at, ref, "KILL")
        raise


# --- by number or tag


def _process(at: At, ref: int | str) -> str:
    name = str(ref) if isinstance(ref, int) else f"tag:{ref}"
    return f"{at.path}/processes/{segment(name)}"


def list_processes(at: At) -> Flow[list[ProcessInfo]]:
    """Those that run, and those that exited lately."""
    j = yield from ask(at.link, get(f"{at.path}/processes"))
    return [ProcessInfo.of(p) for p in j["processes"]]


def send_signal(at: At, ref: int | str,
                signal: int | str = "KILL") -> Flow[None]:
    """Sends a signal ("TERM", or its number) to a process, by number or tag,
    and its group. No error if it has exited already."""
    try:
        yield from ask(at.link, post(f"{_process(at, ref)}/signal",
                                     {"signal": signal}))
    except NotFound:
        yield from ask(at.link, get(at.path))


def write_input(at: At, ref: int | str, data: Body, *,
                eof: bool = False) -> Flow[None]:
    """Bytes for its standard input; with eof none follow."""
    yield from ask(at.link, Request(
        "POST", f"{_process(at, ref)}/input", {"eof": eof or None}, data,
        {"Content-Type": "application/octet-stream"}, timeout=None))


def resize(at: At, ref: int | str, rows: int, cols: int) -> Flow[None]:
    """Another size for its terminal."""
    yield from ask(at.link, post(f"{_process(at, ref)}/resize",
                                 {"rows": rows, "cols": cols}))


# --- followed


class Tail:
    """The end of an output, so that no output is too much."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.dropped = 0

    def add(self, piece: bytes) -> None:
        self.data += piece
        if len(self.data) > 2 * KEEP:
            self.dropped += len(self.data) - KEEP
            del self.data[:-KEEP]


class Following:
    """A process whose events are read. When the connection breaks it comes
    back with the offsets that it has: no byte is missed or seen twice."""

    def __init__(self, at: At, *, body: dict[str, Any] | None = None,
                 ref: int | str | None = None) -> None:
        self.at = at
        self._body = body
        self._ref = ref
        self._own_tag = False
        self._lines: Lines | None = None
        self._offset = {"stdout": 0, "stderr": 0}
        self._kept = {"stdout": Tail(), "stderr": Tail()}
        self.callbacks: dict[str, Callback | None] = {}
        self.number = 0
        self.pid = 0
        self.tag: str | None = None
        self.lost = 0
        self.exit: dict[str, Any] | None = None

    @property
    def ref(self) -> int | str:
        return self.number or self._ref or ""

    def open(self) -> Flow[None]:
        if self._lines or self.number:
            return
        if self._body is None:
            yield from self._attach()
            return
        body = dict(self._body)
        if not body.get("tag"):
            body["tag"] = self._ref = "sdk-" + secrets.token_hex(12)
            self._own_tag = True
        try:
            yield from self._start(body)
        except NotReached:
            raise
        except ConnectionFailed:
            if not self._own_tag:
                raise
            yield from self._start_again(body)

    def _start(self, body: dict[str, Any]) -> Flow[None]:
        req = post(f"{self.at.path}/processes", body, timeout=None)
        if body.get("detach"):
            self._started((yield from ask(self.at.link, req)))
            return
        req.query = {"stream": True}
        yield from self._begin(Lines(self.at.link, req))

    def _start_again(self, body: dict[str, Any]) -> Flow[None]:
        """It may have been started: then it has our tag."""
        self.close()
        try:
            yield from self._attach()
        except NotFound:
            yield from self._start(body)

    def _attach(self) -> Flow[None]:
        yield from self._begin(Lines(self.at.link, get(
            _process(self.at, self.ref), **self._offset)))

    def _begin(self, lines: Lines) -> Flow[None]:
        try:
            yield from lines.open()
            first = yield from lines.next()
        except BaseException:
            lines.close()
            raise
        if not first or first["type"] != "started":
            lines.close()
            raise ConnectionFailed("the connection broke at the start")
        self._started(first)
        self._lines = lines

    def _started(self, j: dict[str, Any]) -> None:
        self.number, self.pid = j["number"], j["pid"]
        self.tag = None if self._own_tag else j.get("tag")

    def _event(self, until: float | None) -> Flow[dict[str, Any]]:
        delays = self.at.link.delays()
        while True:
            try:
                yield from self.open() if not self.number else self._again()
                assert self._lines
                self._lines.patience(self._patience(until))
                event = yield from self._lines.next()
                if event:
                    return event
            except TimedOut:
                if until is not None and time.monotonic() >= until:
                    raise TimedOut("it still runs") from None
                # Not even a ping came: the connection is dead.
            except ConnectionFailed:
                if not delays:
                    raise
            self.close()
            if not delays:
                raise ConnectionFailed("the output ends again and again")
            yield Sleep(delays.pop(0))

    @staticmethod
    def _patience(until: float | None) -> float:
        if until is None:
            return SILENCE_S
        return min(SILENCE_S, max(0.0, until - time.monotonic()))

    def _again(self) -> Flow[None]:
        if not self._lines:
            yield from self._attach()

    def next(self, until: float | None = None) -> Flow[Output | None]:
        """The next piece of output; None when it has exited."""
        while not self.exit:
            e = yield from self._event(until)
            if e["type"] == "output":
                return (yield from self._output(e))
            if e["type"] == "gap":
                self.lost += e["lost"]
                self._offset[e["stream"]] = e["offset"]
            elif e["type"] == "exit":
                self.exit = e["exit"]
                self.close()
            elif e["type"] == "error":
                self.close()
                raise CarrelError(e.get("message") or "the command was lost",
                                  error=e.get("error"))
        return None

    def _output(self, e: dict[str, Any]) -> Flow[Output]:
        data = (e["data"].encode() if "data" in e
                else base64.b64decode(e["base64"]))
        out = Output(e["stream"], data)
        self._offset[out.stream] = e["offset"] + len(data)
        self._kept[out.stream].add(data)
        fn = self.callbacks.get(out.stream)
        if fn:
            yield Tell(fn, out.text)
        return out

    def finish(self, until: float | None,
               timed_out: bool = False) -> Flow[Result]:
        while (yield from self.next(until)) is not None:
            pass
        out, err = self._kept["stdout"], self._kept["stderr"]
        return Result.make(bytes(out.data), bytes(err.data), self.exit,
                           timed_out, self.lost + out.dropped + err.dropped)

    def wait(self, timeout: Number | None = None, *,
             check: bool = False) -> Flow[Result]:
        """Waits for its end; TimedOut if it still runs after so many
        seconds."""
        result = yield from self.finish(
            None if timeout is None else time.monotonic() + timeout)
        if check:
            check_result(f"process {self.number}", result)
        return result

    def write(self, data: Body, *, eof: bool = False) -> Flow[None]:
        """Bytes for its standard input; with eof none follow."""
        return write_input(self.at, self.ref, data, eof=eof)

    def close_stdin(self) -> Flow[None]:
        """No more input."""
        return write_input(self.at, self.ref, b"", eof=True)

    def kill(self, signal: int | str = "KILL") -> Flow[None]:
        """Sends a signal; no error if it has exited."""
        return send_signal(self.at, self.ref, signal)

    def resize(self, rows: int, cols: int) -> Flow[None]:
        """Another size for its terminal."""
        return resize(self.at, self.ref, rows, cols)

    def leave(self) -> Flow[None]:
        """The end of a block: it is killed."""
        try:
            if not self.exit:
                yield from self.kill()
        finally:
            self.close()

    def close(self) -> None:
        """Leaves; the process runs on."""
        if self._lines:
            self._lines.close()
            self._lines = None


def start(at: At, cmd: Command, *, cwd: str | None = None,
          env: Mapping[str, str] | None = None, user: str | None = None,
          stdin: bool = False, tty: bool = False, rows: int | None = None,
          cols: int | None = None, tag: str | None = None,
          detach: bool = False, on_stdout: Callback | None = None,
          on_stderr: Callback | None = None) -> Flow[Following]:
    """Starts a command and goes on. Iterate over it for its output, or wait()
    for its end; callbacks are called while one of the two is done. A `tag` is
    a name to find it by. A command that writes much waits until it is read,
    unless it is `detach`ed: then the oldest output is dropped."""
    f = Following(at, body=_body(
        cmd, cwd=cwd, env=env, user=user, stdin=stdin or None, tty=tty or None,
        rows=rows, cols=cols, tag=tag, detach=detach or None))
    f.callbacks = {"stdout": on_stdout, "stderr": on_stderr}
    yield from f.open()
    return f


def attach(at: At, ref: int | str, *, on_stdout: Callback | None = None,
           on_stderr: Callback | None = None) -> Flow[Following]:
    """A command that was started before, by its number or tag; its output
    from the oldest that was kept."""
    f = Following(at, ref=ref)
    f.callbacks = {"stdout": on_stdout, "stderr": on_stderr}
    yield from f.open()
    return f
