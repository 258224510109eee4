"""What a sandbox is asked for as."""

from __future__ import annotations

import base64
from typing import Any, Mapping, Sequence, TypedDict, Union

Number = Union[int, float]
Size = Union[int, str]    # bytes, or "512M"
Time = Union[int, float, str]  # seconds, or "5m"


class Spec(TypedDict, total=False):
    """Members of a spec but for the image, with _ for -: idle_timeout is
    "idle-timeout"."""
    name: str
    labels: Mapping[str, str]
    cpus: Union[int, float, str]
    memory: Size
    disk: Size
    pids: int
    nofile: int
    timeout: Time
    timeout_action: str
    idle_timeout: Time
    idle_action: str
    cpu_budget: Time
    output_limit: Size
    auto_snapshot: str
    snapshot_keep: int
    user: str
    workdir: str
    env: Mapping[str, str]
    ports: Mapping[str, int]
    files: Union[Mapping[str, Union[str, bytes]], Sequence[Mapping[str, Any]]]
    start: Sequence[str]
    volumes: Sequence[str]
    drive: Sequence[str]
    policy: str
    allow: Sequence[str]
    rules: Sequence[str]
    late_rules: Sequence[str]
    secrets: Sequence[str]
    canaries: Sequence[str]
    observe: bool
    sudo: bool
    persist: bool
    allow_missing: str


def _file(path: str, content: str | bytes) -> dict[str, str]:
    if isinstance(content, str):
        return {"path": path, "content": content}
    return {"path": path, "base64": base64.b64encode(content).decode()}


def spec_json(spec: Mapping[str, Any]) -> dict[str, Any]:
    """As the daemon has it: what is None is left out, and files may be given
    as {path: content}."""
    j = {k.replace("_", "-"): v for k, v in spec.items() if v is not None}
    if isinstance(j.get("files"), Mapping):
        j["files"] = [_file(p, c) for p, c in j["files"].items()]
    return j
