"""What a request does, apart from how bytes move.

A flow is a generator: it yields steps (connect, send, receive, wait) and gets
their results. Everything of the protocol is written once, as flows; blocking
and asynchronous transports (transport.py) only carry out steps. What a flow
holds is closed by close(), which never waits: a flow can be dropped anywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import (Any, AsyncIterable, BinaryIO, Callable, Generator, Iterable,
                    Protocol, TypeVar, Union)

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Conn(Protocol):
    """A connection as a flow sees it; the transport knows what it is."""

    def close(self) -> None: ...

    def usable(self) -> bool: ...


@dataclass
class Connect:
    """-> Conn"""


@dataclass
class Send:
    conn: Conn
    data: bytes


@dataclass
class Recv:
    """-> bytes; none at the end. Raises TimedOut."""
    conn: Conn
    timeout: float | None = None


@dataclass
class Pull:
    """-> the next piece of a body, or None."""
    source: Any


@dataclass
class Sleep:
    seconds: float


@dataclass
class Tell:
    """Calls a function of the user; asynchronous ones are waited for."""
    fn: Callable[[Any], Any]
    value: Any


@dataclass
class Beside:
    """Runs another flow while this one goes on; why it failed is in `error`.
    cancel() is for one that is not wanted any more: where it cannot be ended
    it is left to itself."""
    flow: Generator[Any, Any, None]
    error: BaseException | None = None
    cancel: Callable[[], Any] = lambda: None


Step = Union[Connect, Send, Recv, Pull, Sleep, Tell, Beside]
Flow = Generator[Step, Any, T]
# What may be sent as a body.
Body = Union[bytes, str, BinaryIO, Iterable[bytes], AsyncIterable[bytes]]


class Source(Protocol[T_co]):
    """What is iterated over. leave() is the end of a block."""

    def open(self) -> Flow[None]: ...

    def next(self) -> Flow[T_co | None]: ...

    def leave(self) -> Flow[None]: ...

    def close(self) -> None: ...


class Closing:
    """Of a source that ends with its block."""

    def leave(self) -> Flow[None]:
        self.close()
        yield from ()

    def close(self) -> None:
        raise NotImplementedError
