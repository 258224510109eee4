"""Requests about the files of a sandbox, as flows. Paths are absolute, or
relative to the user's home."""

from __future__ import annotations

from typing import Any

from .data import Entry, FileEvent, Unpacked, Written
from .errors import BadRequest, CarrelError, from_answer
from .exchange import Bytes, Lines, Request, ask, get, open_reply, post
from .sandbox_calls import At
from .steps import Body, Closing, Flow


def _content(at: At, path: str, user: str | None, start: int | None,
             end: int | None) -> Request:
    req = get(f"{at.path}/files/content", path=path, user=user)
    if start is not None or end is not None:
        last = "" if end is None else str(end - 1)
        req.headers["Range"] = f"bytes={start or 0}-{last}"
    return req


def read_bytes(at: At, path: str, *, start: int | None = None,
               end: int | None = None, user: str | None = None) -> Flow[bytes]:
    """The content of a file, or its bytes from `start` up to `end`."""
    reply = yield from open_reply(at.link, _content(at, path, user, start, end))
    try:
        return (yield from reply.all(1 << 40))
    finally:
        reply.close()


def read(at: At, path: str, *, user: str | None = None) -> Flow[str]:
    """The content of a text file."""
    data = yield from read_bytes(at, path, user=user)
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise BadRequest(f"{path} is no UTF-8 text: use read_bytes()") from None


def stream(at: At, path: str, *, user: str | None = None) -> Bytes:
    """The content of a file, piece by piece."""
    return Bytes(at.link, _content(at, path, user, None, None))


def write(at: At, path: str, data: Body, *, mode: str | None = None,
          parents: bool = True, user: str | None = None) -> Flow[Written]:
    """Makes a file of text, bytes, an open file or an iterator of bytes: all
    at once or not at all. Missing directories are made."""
    return Written.of((yield from ask(at.link, Request(
        "PUT", f"{at.path}/files/content",
        {"path": path, "mode": mode, "parents": parents or None, "user": user},
        data, {"Content-Type": "application/octet-stream"}, timeout=None))))


def list_files(at: At, path: str = ".", *, depth: int = 1,
               user: str | None = None) -> Flow[list[Entry]]:
    """What is in a directory, and so many levels below."""
    found = []
    after: dict[str, Any] = {}
    while True:
        j = yield from ask(at.link, get(f"{at.path}/files/list", path=path,
                                        depth=depth, user=user, **after))
        found += [Entry.of(e) for e in j["entries"]]
        if j.get("next_base64"):
            after = {"after_base64": j["next_base64"]}
        elif j.get("next"):
            after = {"after": j["next"]}
        else:
            return found


def stat(at: At, path: str, *, follow: bool = False,
         user: str | None = None) -> Flow[Entry]:
    """What a path is; of a link, with `follow`, what it leads to."""
    return Entry.of((yield from ask(at.link, get(
        f"{at.path}/files/stat", path=path, follow=follow or None,
        user=user))))


def exists(at: At, path: str, *, user: str | None = None) -> Flow[bool]:
    """Is there anything of this name?"""
    try:
        yield from stat(at, path, user=user)
    except CarrelError as e:
        if e.error not in ("not_found", "not_a_directory"):
            raise
        # The sandbox must be there; then it is the path that is not.
        yield from ask(at.link, get(at.path))
        return False
    return True


def _change(at: At, verb: str, **body: Any) -> Flow[Any]:
    return ask(at.link, post(f"{at.path}/files/{verb}", {
        k: v for k, v in body.items() if v is not None and v is not False},
        timeout=None))


def mkdir(at: At, path: str, *, parents: bool = True, mode: str | None = None,
          user: str | None = None) -> Flow[Entry]:
    """Makes a directory and those above it; without `parents` it must not be
    there yet."""
    return Entry.of((yield from _change(at, "mkdir", path=path, mode=mode,
                                        parents=parents, user=user)))


def move(at: At, path: str, to: str, *, overwrite: bool = False,
         parents: bool = False, user: str | None = None) -> Flow[Entry]:
    """Gives it another name."""
    return Entry.of((yield from _change(
        at, "move", path=path, to=to, overwrite=overwrite, parents=parents,
        user=user)))


def copy(at: At, path: str, to: str, *, recursive: bool = False,
         overwrite: bool = False, parents: bool = False,
         user: str | None = None) -> Flow[Entry]:
    """Copies a file, or with `recursive` a directory."""
    return Entry.of((yield from _change(
        at, "copy", path=path, to=to, recursive=recursive,
        overwrite=overwrite, parents=parents, user=user)))


def remove(at: At, path: str, *, recursive: bool = False,
           user: str | None = None) -> Flow[None]:
    """Removes it; a directory with all that is in it only if `recursive`."""
    yield from _change(at, "remove", path=path, recursive=recursive, user=user)


def chmod(at: At, path: str, mode: str, *, recursive: bool = False,
          user: str | None = None) -> Flow[Entry]:
    """Gives it another mode, as in "0644"."""
    j = yield from _change(at, "chmod", path=path, mode=mode,
                           recursive=recursive, user=user)
    return Entry.of(j)


class Watch(Closing):
    """Changes below a directory. Open when the daemon says that it looks."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._ready = False

    def open(self) -> Flow[None]:
        while not self._ready:
            e = yield from self._event()
            self._ready = e is None or e.type == "ready"

    def next(self) -> Flow[FileEvent | None]:
        yield from self.open()
        return (yield from self._event())

    def _event(self) -> Flow[FileEvent | None]:
        j = yield from self._lines.next()
        if j and j["type"] == "error":
            raise from_answer(500, j)
        return FileEvent.of(j) if j else None

    def close(self) -> None:
        self._lines.close()


def watch(at: At, path: str, *, recursive: bool = False,
          user: str | None = None) -> Watch:
    """Changes as they happen. As a context manager it has begun to look when
    the block begins."""
    return Watch(Lines(at.link, get(f"{at.path}/files/watch", path=path,
                                    recursive=recursive or None, user=user)))


def upload_tar(at: At, path: str, data: Body, *, parents: bool = True,
               user: str | None = None) -> Flow[Unpacked]:
    """Unpacks a tar into a directory."""
    return Unpacked.of((yield from ask(at.link, Request(
        "PUT", f"{at.path}/files/tar",
        {"path": path, "parents": parents or None, "user": user},
        data, {"Content-Type": "application/x-tar"}, timeout=None))))


def download_tar(at: At, path: str, *, user: str | None = None) -> Bytes:
    """A directory as a tar, piece by piece."""
    return Bytes(at.link, get(f"{at.path}/files/tar", path=path, user=user))
