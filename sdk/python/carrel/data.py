"""What the daemon tells, as objects. A member that this version does not know
is in `raw`, where everything is as it came."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, Mapping, TypeVar

R = TypeVar("R", bound="Record")


def when(text: str | None) -> datetime | None:
    if not text:
        return None
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


@dataclass
class Record:
    """Members are those of the JSON; times (`..._at`) are datetimes."""
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False,
                                   compare=False, kw_only=True)

    @classmethod
    def of(cls: type[R], j: Mapping[str, Any]) -> R:
        got: dict[str, Any] = {"raw": j}
        for f in fields(cls):
            if f.name != "raw" and j.get(f.name) is not None:
                v = j[f.name]
                got[f.name] = when(v) if f.name.endswith("_at") else v
        return cls(**got)


@dataclass
class SandboxInfo(Record):
    id: str
    project: str
    image: str
    state: str
    name: str | None = None
    labels: dict[str, str] = field(default_factory=dict)
    created_at: datetime | None = None
    expires_at: datetime | None = None
    parent: str | None = None
    base: str | None = None
    spec: dict[str, Any] = field(default_factory=dict)
    usage: dict[str, int] | None = None
    ended: dict[str, Any] | None = None


@dataclass
class Result:
    """What became of a command."""
    stdout: str
    stderr: str
    exit_code: int  # 128 and the signal, if one ended it
    signal: int | None = None
    timed_out: bool = False
    lost: int = 0   # bytes of output that were not kept
    stdout_bytes: bytes = field(default=b"", repr=False)
    stderr_bytes: bytes = field(default=b"", repr=False)

    @property
    def ok(self) -> bool:
        return self.exit_code == 0 and not self.timed_out

    @classmethod
    def make(cls, out: bytes, err: bytes, exit: Mapping[str, Any] | None,
             timed_out: bool = False, lost: int = 0) -> Result:
        x = exit or {}
        signal = x.get("signal") or (None if exit else 9)
        code = x.get("code")
        return cls(out.decode(errors="replace"), err.decode(errors="replace"),
                   code if code is not None else 128 + (signal or 0), signal,
                   timed_out, lost, out, err)

    @classmethod
    def of(cls, j: Mapping[str, Any]) -> Result:
        return cls.make(both(j, "stdout"), both(j, "stderr"), j.get("exit"),
                        bool(j.get("timed_out")),
                        sum((j.get("truncated") or {}).values()))


def both(j: Mapping[str, Any], name: str) -> bytes:
    """A text that is told in base64 when it is none."""
    if j.get(name) is not None:
        return str(j[name]).encode()
    return base64.b64decode(j.get(f"{name}_base64") or "")


@dataclass
class Output:
    """A piece of what a command wrote."""
    stream: str  # "stdout" or "stderr"
    data: bytes

    @property
    def text(self) -> str:
        return self.data.decode(errors="replace")


@dataclass
class ProcessInfo(Record):
    number: int
    pid: int
    argv: list[str]
    state: str
    tag: str | None = None
    user: str = ""
    tty: bool = False
    started_at: datetime | None = None
    exit: dict[str, Any] | None = None
    stdout_end: int = 0
    stderr_end: int = 0


@dataclass
class Entry(Record):
    """A file, a directory, or another entry."""
    path: str
    name: str
    type: str
    size: int
    mode: str
    uid: int = 0
    gid: int = 0
    user: str | None = None
    group: str | None = None
    modified_at: datetime | None = None
    target: str | None = None

    @property
    def is_dir(self) -> bool:
        return self.type == "directory"

    @property
    def is_file(self) -> bool:
        return self.type == "file"


@dataclass
class FileEvent(Record):
    """type: create, write, remove, rename (`to`), chmod, overflow..."""
    type: str
    path: str = ""
    to: str | None = None


@dataclass
class Written(Record):
    size: int
    sha256: str


@dataclass
class Unpacked(Record):
    entries: int
    bytes: int
    notes: list[str] = field(default_factory=list)


@dataclass
class Snapshot(Record):
    id: str
    sandbox: str
    image: str
    kind: str
    name: str | None = None
    base: str | None = None
    bytes: int = 0
    pause_us: int = 0
    event: int = 0
    created_at: datetime | None = None


@dataclass
class Change(Record):
    """A path that is different; change: added, removed, changed."""
    path: str
    change: str
    what: list[str] = field(default_factory=list)
    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None


@dataclass
class MergeResult(Record):
    put: int = 0
    removed: int = 0
    same: int = 0
    kept: int = 0
    conflicts: int = 0
    changes: list[dict[str, Any]] = field(default_factory=list)
    truncated: bool = False
    dry_run: bool = False
    pause_ms: int = 0


@dataclass
class Node(Record):
    """Of the lineage of a sandbox."""
    type: str
    id: str
    name: str | None = None
    parent: str | None = None
    state: str | None = None
    created_at: datetime | None = None


@dataclass
class Policy(Record):
    name: str
    project: str
    sha256: str
    sandboxes: list[str] = field(default_factory=list)
    updated_at: datetime | None = None
    text: str = ""
    policy: dict[str, Any] = field(default_factory=dict)


@dataclass
class Verdict(Record):
    """What a policy says about a request: allow, deny or ask."""
    verdict: str
    part: str | None = None
    line: int | None = None
    rule: str | None = None
    observed: bool = False

    @property
    def allowed(self) -> bool:
        return self.verdict == "allow"


@dataclass
class Approval(Record):
    """A request of a sandbox that waits for a person."""
    number: int
    sandbox: str
    url: str
    host: str
    method: str = ""
    name: str | None = None
    asked_at: datetime | None = None
    expires_at: datetime | None = None


@dataclass
class Access(Record):
    """Whether a place may be reached: allowed, waiting or denied."""
    state: str
    why: str = ""
    number: int | None = None
    expires_at: datetime | None = None

    @property
    def allowed(self) -> bool:
        return self.state == "allowed"


@dataclass
class Secret(Record):
    name: str
    project: str
    kind: str
    hosts: list[str] = field(default_factory=list)
    env: str | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None


@dataclass
class Event(Record):
    """An entry of the log; `seq` is its number."""
    seq: int
    type: str
    time: str = ""
    sandbox: str | None = None
    data: dict[str, Any] = field(default_factory=dict)


@dataclass
class Image(Record):
    name: str
    id: str
    size: int = 0
    entries: int = 0
    created_at: datetime | None = None
    config: dict[str, Any] | None = None


@dataclass
class DriveFile(Record):
    """A version of a file of the drive, or in a list a directory."""
    path: str
    type: str = "file"
    version: int = 0
    removed: bool = False
    size: int = 0
    sha256: str | None = None
    who: str | None = None
    sandbox: str | None = None
    created_at: datetime | None = None


@dataclass
class Volume(Record):
    id: str
    name: str
    project: str
    size: int = 0
    state: str = ""
    sandboxes: list[str] = field(default_factory=list)
    created_at: datetime | None = None


@dataclass
class Key(Record):
    """`key` is there only where it was made."""
    id: str
    name: str
    project: str
    scope: str
    created_at: datetime | None = None
    last_used_at: datetime | None = None
    key: str | None = field(default=None, repr=False)


@dataclass
class Recording(Record):
    """Of a terminal, as an asciicast."""
    id: str
    process: int
    size: int = 0
    created_at: datetime | None = None


@dataclass
class PortToken(Record):
    token: str
    url: str | None = None
    expires_at: datetime | None = None


@dataclass
class HttpAnswer:
    """Of a server inside a sandbox."""
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode(errors="replace")
