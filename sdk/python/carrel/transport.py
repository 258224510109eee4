"""The two ways to carry out the steps of a flow: blocking, and asyncio."""

from __future__ import annotations

import asyncio
import inspect
import select
import socket
import ssl
import threading
import time
from typing import Any

from .errors import ConnectionFailed, NotReached, TimedOut
from .exchange import Endpoint, Link
from .steps import Beside, Connect, Flow, Pull, Recv, Send, Sleep, Step, T, Tell

CONNECT_S = 10.0
PIECE = 256 * 1024


def _unreached(endpoint: Endpoint, e: OSError) -> NotReached:
    if endpoint.socket and isinstance(e, PermissionError):
        return NotReached(f"no permission to use {endpoint}: be in the group "
                          "of the socket, or root")
    return NotReached(f"nobody answers at {endpoint} ({e.strerror or e}): "
                      "is the daemon running?")


def _context(endpoint: Endpoint) -> ssl.SSLContext | None:
    if not endpoint.tls:
        return None
    return ssl.create_default_context(cafile=endpoint.ca)


def _lost(e: OSError) -> ConnectionFailed:
    return ConnectionFailed(f"the connection broke: {e.strerror or e}")


# --- blocking


def _readable(sock: socket.socket, timeout: float | None) -> bool:
    p = select.poll()  # any number of descriptors; select() has 1024
    p.register(sock, select.POLLIN)
    return bool(p.poll(None if timeout is None else timeout * 1000))


class SocketConn:
    """One thread may send while another receives."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._turn = threading.Lock()  # a frame is sent as a whole

    def close(self) -> None:
        self.sock.close()

    def usable(self) -> bool:
        """Nobody has closed it, and nothing came that was not asked for."""
        try:
            return not _readable(self.sock, 0)
        except (OSError, ValueError):
            return False

    def send(self, data: bytes) -> None:
        with self._turn:
            self.sock.sendall(data)

    def recv(self, timeout: float | None) -> bytes:
        if timeout is not None and not _readable(self.sock, timeout):
            raise TimedOut(f"nothing came in {timeout:g} s")
        return self.sock.recv(PIECE)


class TlsConn(SocketConn):
    """TLS over memory: OpenSSL must not be called by two threads at once, and
    none of them may keep the other from its work while it waits for the
    network. So the lock of the state is never held then; who sends has that of
    the turn around it, for what is encrypted must leave in its order."""

    def __init__(self, sock: socket.socket, context: ssl.SSLContext,
                 name: str) -> None:
        super().__init__(sock)
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out, server_hostname=name)
        self._state = threading.Lock()
        while not self._shake():
            self._fill(CONNECT_S)

    def _shake(self) -> bool:
        try:
            self._tls.do_handshake()
            return True
        except ssl.SSLWantReadError:
            return False
        finally:
            self._flush()

    def _flush(self) -> None:
        """Only with the turn."""
        with self._state:
            data = self._out.read()
        if data:
            self.sock.sendall(data)

    def _flush_if_free(self) -> None:
        """What TLS says by itself; who is sending takes it along."""
        if self._turn.acquire(blocking=False):
            try:
                self._flush()
            finally:
                self._turn.release()

    def _fill(self, timeout: float | None) -> None:
        data = super().recv(timeout)
        with self._state:
            if data:
                self._in.write(data)
            else:
                self._in.write_eof()

    def send(self, data: bytes) -> None:
        with self._turn:
            with self._state:
                self._tls.write(data)
            self._flush()

    def recv(self, timeout: float | None) -> bytes:
        while True:
            with self._state:
                try:
                    return self._tls.read(PIECE)
                except ssl.SSLWantReadError:
                    pending = self._out.pending
                except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                    return b""
            if pending:
                self._flush_if_free()
            self._fill(timeout)


class Blocking:
    """Runs flows in the calling thread; threads may share it."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self._tls = _context(link.endpoint)

    def run(self, flow: Flow[T]) -> T:
        try:
            step = next(flow)
            while True:
                try:
                    got = self._do(step)
                except Exception as e:
                    step = flow.throw(e)
                else:
                    step = flow.send(got)
        except StopIteration as end:
            result: T = end.value
            return result
        finally:
            flow.close()

    def _do(self, step: Step) -> Any:
        if isinstance(step, Recv):
            return self._recv(step)
        if isinstance(step, Send):
            return self._send(step)
        if isinstance(step, Connect):
            return self._connect(self.link.endpoint)
        if isinstance(step, Sleep):
            return time.sleep(step.seconds)
        if isinstance(step, Tell):
            return step.fn(step.value)
        if isinstance(step, Beside):
            return threading.Thread(target=self._beside, args=(step,),
                                    daemon=True).start()
        return _pull(step)

    def _beside(self, step: Beside) -> None:
        try:
            self.run(step.flow)
        except Exception as e:
            step.error = e

    def _connect(self, at: Endpoint) -> SocketConn:
        sock = None
        try:
            if at.socket:
                sock = socket.socket(socket.AF_UNIX)
                sock.connect(at.socket)
                return SocketConn(sock)
            sock = socket.create_connection((at.host, at.port), CONNECT_S)
            sock.settimeout(None)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls:
                return TlsConn(sock, self._tls, at.host)
            return SocketConn(sock)
        except BaseException as e:
            if sock:
                sock.close()
            if isinstance(e, OSError):
                raise _unreached(at, e) from e
            raise

    @staticmethod
    def _send(step: Send) -> None:
        assert isinstance(step.conn, SocketConn)
        try:
            step.conn.send(step.data)
        except OSError as e:
            raise _lost(e) from e

    @staticmethod
    def _recv(step: Recv) -> bytes:
        assert isinstance(step.conn, SocketConn)
        try:
            return step.conn.recv(step.timeout)
        except OSError as e:
            raise _lost(e) from e
        except ValueError as e:  # it was closed meanwhile
            raise ConnectionFailed(f"the connection broke: {e}") from e


def _pull(step: Pull) -> bytes | None:
    source = step.source
    if hasattr(source, "read"):
        data = source.read(PIECE)
        return (data.encode() if isinstance(data, str) else data) or None
    if not hasattr(source, "__next__"):
        source = step.source = iter(source)
    data = next(source, None)
    return data.encode() if isinstance(data, str) else data


# --- asyncio


class StreamConn:
    def __init__(self, reader: asyncio.StreamReader,
                 writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.loop = asyncio.get_running_loop()

    def close(self) -> None:
        try:
            self.writer.close()
        except RuntimeError:  # its loop is closed, and so is it
            pass

    def usable(self) -> bool:
        return (self.loop is asyncio.get_running_loop()
                and not self.writer.is_closing()
                and not self.reader.at_eof())


class Async:
    """Runs flows in the running loop."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self._tls = _context(link.endpoint)

    async def run(self, flow: Flow[T]) -> T:
        try:
            step = next(flow)
            while True:
                try:
                    got = await self._do(step)
                except Exception as e:
                    step = flow.throw(e)
                else:
                    step = flow.send(got)
        except StopIteration as end:
            result: T = end.value
            return result
        finally:
            flow.close()

    async def _do(self, step: Step) -> Any:
        if isinstance(step, Recv):
            return await self._recv(step)
        if isinstance(step, Send):
            return await self._send(step)
        if isinstance(step, Connect):
            return await self._connect(self.link.endpoint)
        if isinstance(step, Sleep):
            return await asyncio.sleep(step.seconds)
        if isinstance(step, Tell):
            got = step.fn(step.value)
            return await got if inspect.isawaitable(got) else got
        if isinstance(step, Beside):
            step.cancel = asyncio.create_task(self._beside(step)).cancel
            return None
        return await self._pull(step)

    async def _beside(self, step: Beside) -> None:
        try:
            await self.run(step.flow)
        except Exception as e:
            step.error = e

    async def _connect(self, at: Endpoint) -> StreamConn:
        try:
            if at.socket:
                return StreamConn(*await asyncio.open_unix_connection(
                    at.socket, limit=PIECE))
            return StreamConn(*await asyncio.wait_for(
                asyncio.open_connection(at.host, at.port, ssl=self._tls,
                                        limit=PIECE), CONNECT_S))
        except asyncio.TimeoutError:
            raise NotReached(f"nobody answers at {at}") from None
        except OSError as e:
            raise _unreached(at, e) from e

    @staticmethod
    async def _send(step: Send) -> None:
        assert isinstance(step.conn, StreamConn)
        try:
            step.conn.writer.write(step.data)
            await step.conn.writer.drain()
        except OSError as e:
            raise _lost(e) from e

    @staticmethod
    async def _recv(step: Recv) -> bytes:
        assert isinstance(step.conn, StreamConn)
        try:
            return await asyncio.wait_for(step.conn.reader.read(PIECE),
                                          step.timeout)
        except asyncio.TimeoutError:
            raise TimedOut(f"nothing came in {step.timeout:g} s") from None
        except OSError as e:
            raise _lost(e) from e

    @staticmethod
    async def _pull(step: Pull) -> bytes | None:
        source = step.source
        if hasattr(source, "__aiter__"):
            step.source = source = source.__aiter__()
            try:
                return bytes(await source.__anext__())
            except StopAsyncIteration:
                return None
        if hasattr(source, "read"):
            return await asyncio.to_thread(_pull, step)
        return _pull(step)
