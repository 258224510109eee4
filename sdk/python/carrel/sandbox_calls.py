"""Requests about sandboxes and their states, as flows."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any, Mapping, Sequence
from urllib.parse import quote

from .data import (Access, Change, DriveFile, HttpAnswer, MergeResult, Node,
                   PortToken, Recording, SandboxInfo, Snapshot)
from .errors import CarrelError, NotFound, from_answer
from .exchange import (Lines, Link, Request, ask, get, once, open_reply, post,
                       segment)
from .spec import Number, Time, spec_json
from .steps import Body, Closing, Flow


@dataclass
class At:
    """A sandbox as requests name it. `own`: nobody else has the client, so
    that its connections end with the sandbox."""
    link: Link
    id: str
    own: bool = False

    @property
    def path(self) -> str:
        return f"/v1/sandboxes/{segment(self.id)}"


# --- of the host


def create(link: Link, spec: Mapping[str, Any]) -> Flow[SandboxInfo]:
    # With a key of its own it may be repeated: it is made once.
    req = post("/v1/sandboxes", spec_json(spec), repeat=True, timeout=None)
    req.headers["Idempotency-Key"] = secrets.token_hex(16)
    return SandboxInfo.of((yield from ask(link, req)))


def show(link: Link, ref: str) -> Flow[SandboxInfo]:
    return SandboxInfo.of((yield from ask(link, get(At(link, ref).path))))


def find(link: Link, *, label: str | None = None, state: str | None = None,
         name: str | None = None, project: str | None = None) \
        -> Flow[list[SandboxInfo]]:
    """All sandboxes, or those that fit."""
    found: list[SandboxInfo] = []
    after = None
    while True:
        j = yield from ask(link, get("/v1/sandboxes", label=label, state=state,
                                     name=name, project=project, after=after))
        found += [SandboxInfo.of(s) for s in j["sandboxes"]]
        after = j.get("next")
        if not after:
            return found


# --- of one


def info(at: At) -> Flow[SandboxInfo]:
    """What it is now."""
    return (yield from show(at.link, at.id))


def kill(at: At) -> Flow[None]:
    """Ends it: no process is left when this returns. No error if it has
    ended already."""
    try:
        yield from ask(at.link, Request("DELETE", at.path, timeout=None))
    except NotFound:
        pass
    finally:
        if at.own:
            at.link.close()


def pause(at: At, *, disk_only: bool = False) -> Flow[SandboxInfo]:
    """Stops it where it is; the next use wakes it. With disk_only its
    processes end and only the disk stays."""
    return SandboxInfo.of((yield from ask(at.link, post(
        f"{at.path}/pause", {"disk_only": disk_only or None}, timeout=None))))


def resume(at: At) -> Flow[SandboxInfo]:
    """Lets it go on."""
    return SandboxInfo.of((yield from ask(at.link, post(
        f"{at.path}/resume", timeout=None))))


def update(at: At, /, **change: Any) -> Flow[SandboxInfo]:
    """Changes what may be changed while it lives: labels, limits, policies.
    A label that is None is removed."""
    return SandboxInfo.of((yield from ask(at.link, post(
        at.path, spec_json(change), method="PATCH"))))


def set_timeout(at: At, timeout: Time) -> Flow[SandboxInfo]:
    """It ends so many seconds from now (or "5m"); 0 is never."""
    return (yield from update(at, timeout=timeout))


def snapshot(at: At, name: str | None = None) -> Flow[Snapshot]:
    """Keeps its disk as it is now; it goes on running."""
    return Snapshot.of((yield from ask(at.link, post(
        f"{at.path}/snapshots", {"name": name}, timeout=None))))


def snapshots(at: At) -> Flow[list[Snapshot]]:
    """Those of this sandbox, the oldest first."""
    j = yield from ask(at.link, get("/v1/snapshots", sandbox=at.id))
    return [Snapshot.of(s) for s in j["snapshots"]]


def rollback(at: At, snapshot: str | Snapshot | None = None, *,
             event: int | None = None) -> Flow[SandboxInfo]:
    """Back to a snapshot, or to the newest at or before an entry of the log.
    Its processes end; its id stays."""
    if isinstance(snapshot, Snapshot):
        snapshot = snapshot.id
    return SandboxInfo.of((yield from ask(at.link, post(
        f"{at.path}/rollback", {"snapshot": snapshot, "event": event},
        timeout=None))))


def move(at: At, tier: str) -> Flow[SandboxInfo]:
    """The same sandbox as a "microvm" or a "container". Its processes end;
    its id, what it is allowed and what is on its disk stay."""
    return SandboxInfo.of((yield from ask(at.link, post(
        f"{at.path}/move", {"tier": tier}, timeout=None))))


def fork(at: At, count: int,
         spec: Mapping[str, Any]) -> Flow[list[SandboxInfo]]:
    more = spec_json(spec)
    j = yield from ask(at.link, post(
        f"{at.path}/fork",
        {"count": count, "name": more.pop("name", None),
         "labels": more.pop("labels", None), "spec": more or None},
        timeout=None))
    return [SandboxInfo.of(s) for s in j["sandboxes"]]


def _state(ref: Any) -> Any:
    """The id of what has one."""
    return getattr(ref, "id", ref)


class Changes(Closing):
    """Differences as they are found."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._over = False

    def open(self) -> Flow[None]:
        return self._lines.open()

    def next(self) -> Flow[Change | None]:
        if self._over:
            return None
        j = yield from self._lines.next()
        if j is None:
            raise CarrelError("the list of differences was cut off")
        if j["type"] == "change":
            return Change.of(j)
        self._over = True
        if j["type"] == "error":
            raise from_answer(j.get("code") or 500, j)
        return None

    def close(self) -> None:
        self._lines.close()


def diff(at: At, since: Any = None, *, paths: Sequence[str] = (),
         content: bool = False) -> Changes:
    """How its disk differs from another state (a sandbox, a snapshot, an
    image); without one from what it started from."""
    req = get("/v1/diff", **{"to": at.id, "from": _state(since),
                             "path": list(paths), "content": content or None})
    req.timeout = None
    return Changes(Lines(at.link, req))


def merge(at: At, source: Any, *, paths: Sequence[str] | None = None,
          prefer: str | None = None, dry_run: bool = False) \
        -> Flow[MergeResult]:
    """Takes over what another sandbox or snapshot has changed since both
    parted. Where both changed something: MergeConflict and nothing is done,
    unless prefer is "ours" or "theirs"."""
    return MergeResult.of((yield from ask(at.link, post(
        f"{at.path}/merge",
        {"from": _state(source), "paths": paths and list(paths),
         "prefer": prefer, "dry_run": dry_run or None}, timeout=None))))


def tree(at: At) -> Flow[list[Node]]:
    """Its family: images, snapshots and sandboxes that it comes from or that
    come from it."""
    j = yield from ask(at.link, get(f"{at.path}/tree"))
    return [Node.of(n) for n in j["nodes"]]


def stats(at: At) -> Flow[dict[str, Any]]:
    """What it uses now: cpu_us, memory_bytes, disk_bytes, pids..."""
    return dict((yield from ask(at.link, get(f"{at.path}/stats"))))


def request_access(at: At, url: str, *, method: str = "GET",
                   reason: str | None = None,
                   wait: Number | None = None) -> Flow[Access]:
    """Asks for a place ahead of any request to it. What no rule allows or
    denies a person decides; `wait` is for how many seconds to wait for it."""
    return Access.of((yield from ask(at.link, post(f"{at.path}/approvals", {
        "url": url, "method": method, "reason": reason, "wait": wait},
        timeout=None))))


def recordings(at: At) -> Flow[list[Recording]]:
    """Of its terminals, the oldest first."""
    j = yield from ask(at.link, get(f"{at.path}/recordings"))
    return [Recording.of(r) for r in j["recordings"]]


def recording(at: At, recording: str | Recording) -> Flow[str]:
    """What a terminal showed, as an asciicast."""
    name = recording.id if isinstance(recording, Recording) else recording
    reply = yield from open_reply(at.link, get(
        f"{at.path}/recordings/{segment(name)}"))
    try:
        return (yield from reply.all()).decode(errors="replace")
    finally:
        reply.close()


def drive_put(at: At, path: str, to: str, *, version: int | None = None,
              user: str | None = None) -> Flow[DriveFile]:
    """Copies a file of the sandbox to the drive; with `version` only in place
    of that one."""
    return DriveFile.of((yield from ask(at.link, post(
        f"{at.path}/drive", {"put": path, "to": to, "version": version,
                             "user": user}, timeout=None))))


def drive_get(at: At, path: str, to: str, *, version: int | None = None,
              mode: str | None = None, parents: bool = True,
              user: str | None = None) -> Flow[DriveFile]:
    """Copies a file of the drive into the sandbox."""
    return DriveFile.of((yield from ask(at.link, post(
        f"{at.path}/drive", {"get": path, "to": to, "version": version,
                             "mode": mode, "parents": parents or None,
                             "user": user}, timeout=None))))


def port_token(at: At, port: int | str, *, ttl: int = 3600) -> Flow[PortToken]:
    """What opens one port for so many seconds."""
    return PortToken.of((yield from ask(at.link, post(
        f"{at.path}/ports/{segment(str(port))}/token", {"ttl": ttl}))))


def url(at: At, port: int | str, *, ttl: int = 3600) -> Flow[str]:
    """A link to what is served on this port inside; it works for ttl
    seconds, for whoever has it."""
    token = yield from port_token(at, port, ttl=ttl)
    if token.url:
        return token.url
    base = at.link.endpoint.base
    if not base:
        raise CarrelError(
            "there is no URL: the daemon listens on its socket only (set "
            "`listen` in its configuration); fetch() works without one")
    return (f"{base}{at.path}/ports/{segment(str(port))}/"
            f"?carrel_token={token.token}")


def fetch(at: At, port: int | str, path: str = "/", *, method: str = "GET",
          headers: Mapping[str, str] | None = None,
          body: Body | None = None) -> Flow[HttpAnswer]:
    """Asks the server on this port inside, whatever it answers."""
    inside = quote(path.lstrip("/"), safe="/?&=%:;,@+$!*'()~[]")
    req = Request(method, f"{at.path}/ports/{segment(str(port))}/{inside}",
                  headers=dict(headers or {}), body=body, timeout=None)
    reply = yield from once(at.link, req)
    try:
        got = yield from reply.all()
    finally:
        reply.close()
    return HttpAnswer(reply.status, dict(reply.headers), got)
