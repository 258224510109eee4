"""From requests to methods. A request is described once, as a function that
makes a flow (..._calls.py); these make methods of it, with the same arguments
and words: one that blocks, and one to be awaited."""

from __future__ import annotations

import functools
from typing import (Any, AsyncIterator, Callable, Concatenate, Coroutine,
                    Generic, Iterator, ParamSpec, TypeVar)

from .steps import Flow, Source
from .transport import Async, Blocking

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")
C = TypeVar("C")


# --- blocking


class Face:
    """`_at` is what the requests are about."""

    def __init__(self, runner: Blocking, at: Any) -> None:
        self._runner, self._at = runner, at


class Stream(Face, Generic[T]):
    """To be iterated over. As a context manager it is let go of at the end of
    the block."""
    _at: Source[T]

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        got = self._runner.run(self._at.next())
        if got is None:
            raise StopIteration
        return got

    def __enter__(self: S) -> S:
        self._runner.run(self._at.open())  # type: ignore[attr-defined]
        return self

    def __exit__(self, *exc: object) -> None:
        self._runner.run(self._at.leave())

    def close(self) -> None:
        """Lets go of it."""
        self._at.close()


def call(fn: Callable[Concatenate[Any, P], Flow[T]]) \
        -> Callable[Concatenate[Any, P], T]:
    @functools.wraps(fn)
    def method(self: Face, /, *args: P.args, **kw: P.kwargs) -> T:
        return self._runner.run(fn(self._at, *args, **kw))
    return method


def opens(kind: Callable[[Blocking, S], C],
          fn: Callable[Concatenate[Any, P], Flow[S]]) \
        -> Callable[Concatenate[Any, P], C]:
    """What the flow returns becomes an object of this kind."""
    @functools.wraps(fn)
    def method(self: Face, /, *args: P.args, **kw: P.kwargs) -> C:
        return kind(self._runner, self._runner.run(fn(self._at, *args, **kw)))
    return method


def streams(fn: Callable[Concatenate[Any, P], Source[T]]) \
        -> Callable[Concatenate[Any, P], Stream[T]]:
    @functools.wraps(fn)
    def method(self: Face, /, *args: P.args, **kw: P.kwargs) -> Stream[T]:
        return Stream(self._runner, fn(self._at, *args, **kw))
    return method


# --- asyncio


class AsyncFace:
    def __init__(self, runner: Async, at: Any) -> None:
        self._runner, self._at = runner, at


class AsyncStream(AsyncFace, Generic[T]):
    """To be iterated over. As a context manager it is let go of at the end of
    the block."""
    _at: Source[T]

    def __aiter__(self) -> AsyncIterator[T]:
        return self

    async def __anext__(self) -> T:
        got = await self._runner.run(self._at.next())
        if got is None:
            raise StopAsyncIteration
        return got

    async def __aenter__(self: S) -> S:
        await self._runner.run(self._at.open())  # type: ignore[attr-defined]
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._runner.run(self._at.leave())

    def close(self) -> None:
        """Lets go of it."""
        self._at.close()


def acall(fn: Callable[Concatenate[Any, P], Flow[T]]) \
        -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    @functools.wraps(fn)
    async def method(self: AsyncFace, /, *args: P.args, **kw: P.kwargs) -> T:
        return await self._runner.run(fn(self._at, *args, **kw))
    return method


def aopens(kind: Callable[[Async, S], C],
           fn: Callable[Concatenate[Any, P], Flow[S]]) \
        -> Callable[Concatenate[Any, P], Coroutine[Any, Any, C]]:
    """What the flow returns becomes an object of this kind."""
    @functools.wraps(fn)
    async def method(self: AsyncFace, /, *args: P.args, **kw: P.kwargs) -> C:
        return kind(self._runner,
                    await self._runner.run(fn(self._at, *args, **kw)))
    return method


def astreams(fn: Callable[Concatenate[Any, P], Source[T]]) \
        -> Callable[Concatenate[Any, P], AsyncStream[T]]:
    @functools.wraps(fn)
    def method(self: AsyncFace, /, *args: P.args,
               **kw: P.kwargs) -> AsyncStream[T]:
        return AsyncStream(self._runner, fn(self._at, *args, **kw))
    return method
