"""The Python SDK against a scripted server: when a connection is used again,
and what is counted of output that is too much. No daemon."""

import os
import socket
import sys
import tempfile
import threading
import unittest

import harness
from harness import TOP, wait_for

sys.path.insert(0, os.path.join(TOP, "sdk/python"))

from carrel import Client  # noqa: E402
from carrel.command_calls import KEEP, Tail  # noqa: E402
from carrel.exchange import IDLE_MAX, Endpoint, Link  # noqa: E402

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n%s\r\n{}"


class Server:
    """Answers every request on every connection; counts connections."""

    def __init__(self, fields=b""):
        self.dir = tempfile.TemporaryDirectory(prefix="carrel-sdk-")
        self.path = os.path.join(self.dir.name, "s")
        self.answer, self.count, self.peers = ANSWER % fields, 0, []
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen(16)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            self.count += 1
            self.peers.append(sock)
            threading.Thread(target=self._serve, args=(sock,),
                             daemon=True).start()

    def _serve(self, sock):
        buf = b""
        try:
            while piece := sock.recv(65536):
                buf += piece
                while b"\r\n\r\n" in buf:
                    buf = buf.partition(b"\r\n\r\n")[2]
                    sock.sendall(self.answer)
        except OSError:
            pass

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for sock in self.peers:
            sock.close()
        self.dir.cleanup()


def in_child(fn):
    """The exit status of a forked process that calls fn()."""
    pid = os.fork()
    if pid == 0:
        try:
            os._exit(fn())
        except BaseException:
            os._exit(99)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


class Conn:
    closed, good = False, True

    def usable(self):
        return self.good

    def close(self):
        self.closed = True


class Connections(unittest.TestCase):
    def test_connection_is_used_again(self):
        with Server() as s, Client(socket=s.path) as c:
            for _ in range(3):
                c.host()
            self.assertEqual(s.count, 1)

    def test_connection_that_closes_is_not_kept(self):
        with Server(b"Connection: close\r\n") as s, Client(socket=s.path) as c:
            for n in range(1, 4):
                c.host()
                self.assertEqual(s.count, n)

    def test_connection_that_the_server_closed_is_not_used(self):
        with Server() as s, Client(socket=s.path, retries=0) as c:
            c.host()
            s.peers[0].shutdown(socket.SHUT_RDWR)
            c.host()
            self.assertEqual(s.count, 2)

    def test_connection_that_broke_is_closed(self):
        link, conn = Link(Endpoint("/none")), Conn()
        link.keep(conn)
        conn.good = False
        self.assertIsNone(link.reuse())
        self.assertTrue(conn.closed)

    def test_forked_process_uses_its_own_connection(self):
        with Server() as s, Client(socket=s.path) as c:
            c.host()

            def child():
                c.host()
                return 0
            self.assertEqual(in_child(child), 0)
            wait_for("the connection of the child", lambda: s.count == 2)
            c.host()  # ours is as it was
            self.assertEqual(s.count, 2)

    def test_idle_connections_are_bounded(self):
        link = Link(Endpoint("/none"))
        conns = [Conn() for _ in range(IDLE_MAX + 2)]
        for conn in conns:
            link.keep(conn)
        self.assertEqual(sum(conn.closed for conn in conns), 2)
        self.assertIs(link.reuse(), conns[IDLE_MAX - 1])


class Output(unittest.TestCase):
    def test_dropped_output_is_counted(self):
        tail, total = Tail(), 0
        for n in range(9):
            tail.add(bytes([n]) * (KEEP // 2 + n))
            total += KEEP // 2 + n
        self.assertLessEqual(len(tail.data), 2 * KEEP)
        self.assertGreater(tail.dropped, 0)
        self.assertEqual(tail.dropped + len(tail.data), total)
        self.assertEqual(tail.data[-1], 8)

    def test_output_that_fits_is_whole(self):
        tail = Tail()
        tail.add(b"a" * KEEP)
        tail.add(b"b" * KEEP)
        self.assertEqual((tail.dropped, len(tail.data)), (0, 2 * KEEP))


if __name__ == "__main__":
    harness.main()
