"""Requests about the host: events, images, policies, approvals, secrets, the
drive. As flows."""

from __future__ import annotations

import base64
import json
from typing import Any, Mapping, Sequence
from urllib.parse import quote

from .data import (Approval, DriveFile, Event, Image, Key, Policy, Result,
                   Secret, Snapshot, Verdict, Volume)
from .errors import CarrelError, ConnectionFailed, TimedOut, Unavailable
from .exchange import (Bytes, Lines, Link, Request, ask, get, open_reply, post,
                       segment)
from .seal import seal
from .spec import Number, Size, Time, spec_json
from .steps import Body, Closing, Flow, Sleep


def host(link: Link) -> Flow[dict[str, Any]]:
    """What the host is and offers."""
    return dict((yield from ask(link, get("/v1/host"))))


def run_once(link: Link, cmd: str | Sequence[str], *,
             spec: Mapping[str, Any] | None = None, cwd: str | None = None,
             env: Mapping[str, str] | None = None, user: str | None = None,
             timeout: Number | None = None, input: str | None = None,
             max_output: int | None = None) -> Flow[Result]:
    """A command in a sandbox that is made for it, of this spec, and gone when
    it has ended."""
    what: dict[str, Any] = ({"command": cmd} if isinstance(cmd, str)
                            else {"argv": list(cmd)})
    return Result.of((yield from ask(link, post("/v1/run", {
        **what, "spec": spec_json(spec or {}), "cwd": cwd,
        "env": env and dict(env), "user": user, "timeout": timeout,
        "input": input, "max_output": max_output}, timeout=None))))


def kill_all(link: Link) -> Flow[int]:
    """The kill switch: ends all sandboxes (of the key's project). How many."""
    j = yield from ask(link, Request("DELETE", "/v1/sandboxes",
                                     {"all": True}, timeout=None))
    return int(j["removed"])


def stats(link: Link) -> Flow[dict[str, Any]]:
    """What the host and its sandboxes use now."""
    return dict((yield from ask(link, get("/v1/stats"))))


def usage(link: Link, *, project: str | None = None,
          sandbox: str | None = None, since: str | None = None,
          until: str | None = None) -> Flow[dict[str, Any]]:
    """What sandboxes have used, and the sums of projects."""
    return dict((yield from ask(link, get(
        "/v1/usage", project=project, sandbox=sandbox, since=since,
        until=until))))


# --- keys and volumes


def create_key(link: Link, name: str = "", *, scope: str = "use",
               project: str | None = None) -> Flow[Key]:
    """A key for read, use, approve, policy or admin; this is the only time it
    is shown."""
    return Key.of((yield from ask(link, post("/v1/keys", {
        "name": name or None, "scope": scope, "project": project}))))


def list_keys(link: Link) -> Flow[list[Key]]:
    """All keys, without themselves."""
    j = yield from ask(link, get("/v1/keys"))
    return [Key.of(k) for k in j["keys"]]


def remove_key(link: Link, key: str | Key) -> Flow[None]:
    """From now on it opens nothing."""
    name = key.id if isinstance(key, Key) else key
    yield from ask(link, Request("DELETE", f"/v1/keys/{segment(name)}"))


def create_volume(link: Link, name: str, *, size: Size | None = None,
                  project: str | None = None) -> Flow[Volume]:
    """A disk that sandboxes are launched with: volumes=["NAME:/PATH"]."""
    return Volume.of((yield from ask(link, post("/v1/volumes", {
        "name": name, "size": size, "project": project}, timeout=None))))


def list_volumes(link: Link) -> Flow[list[Volume]]:
    """All volumes."""
    j = yield from ask(link, get("/v1/volumes"))
    return [Volume.of(v) for v in j["volumes"]]


def get_volume(link: Link, ref: str) -> Flow[Volume]:
    """One of them, by id or name."""
    return Volume.of((yield from ask(link, get(
        f"/v1/volumes/{segment(ref)}"))))


def remove_volume(link: Link, ref: str | Volume) -> Flow[None]:
    """Removes one that no sandbox has."""
    name = ref.id if isinstance(ref, Volume) else ref
    yield from ask(link, Request("DELETE", f"/v1/volumes/{segment(name)}",
                                 timeout=None))


# --- events


class Events(Closing):
    """Entries of the log. When the connection breaks it goes on behind the
    last one that was seen; before the first, behind those that the log had at
    the start."""

    def __init__(self, link: Link, query: Mapping[str, Any],
                 follow: bool, limit: int | None) -> None:
        self._link, self._query = link, dict(query)
        self._follow, self._left = follow, limit
        self._lines: Lines | None = None
        self._had: int | None = None

    def open(self) -> Flow[None]:
        if self._lines:
            return
        if self._had is not None and self._query.get("after") is None:
            self._query["after"] = self._had
        if self._had is None and self._query.get("after") is None:
            self._had = (yield from host(self._link))["log"]["entries"]
        self._lines = Lines(self._link, get(
            "/v1/events", follow=self._follow, limit=self._left,
            **self._query))
        yield from self._lines.open()

    def next(self) -> Flow[Event | None]:
        if self._left == 0:
            return None
        delays = self._link.delays()
        while True:
            try:
                yield from self.open()
                assert self._lines
                j = yield from self._lines.next()
                if j or not self._follow:
                    return self._seen(j)
            except (ConnectionFailed, TimedOut, Unavailable):
                if not delays:
                    raise
            self.close()
            if not delays:
                raise ConnectionFailed("the events end again and again")
            yield Sleep(delays.pop(0))

    def _seen(self, j: dict[str, Any] | None) -> Event | None:
        if j is None:
            self._left = 0
            return None
        if self._left is not None:
            self._left -= 1
        self._query["after"] = j["seq"]
        return Event.of(j)

    def close(self) -> None:
        if self._lines:
            self._lines.close()
            self._lines = None


def events(link: Link, *, after: int | None = None, sandbox: str | None = None,
           type: str | None = None, follow: bool = True,
           limit: int | None = None) -> Events:
    """Entries of the log: from now on, or behind `after` (0 is from the
    start); without `follow` only those that are there."""
    return Events(link, {"after": after, "sandbox": sandbox, "type": type},
                  follow, limit)


# --- images


def list_images(link: Link) -> Flow[list[Image]]:
    """All images."""
    j = yield from ask(link, get("/v1/images"))
    return [Image.of(i) for i in j["images"]]


def get_image(link: Link, name: str) -> Flow[Image]:
    """One of them, with what it wants of its processes."""
    return Image.of((yield from ask(link, get(f"/v1/images/{segment(name)}"))))


def put_image(link: Link, name: str, tar: Body) -> Flow[Image]:
    """Makes an image of a tar: a root file system, an OCI layout or a docker
    archive."""
    return Image.of((yield from ask(link, Request(
        "PUT", f"/v1/images/{segment(name)}", body=tar,
        headers={"Content-Type": "application/x-tar"}, timeout=None))))


def pull_image(link: Link, name: str, reference: str, *,
               platform: str | None = None, username: str | None = None,
               password: str | None = None) -> Flow[Image]:
    """Makes an image of one in a registry that the operator allows."""
    return Image.of((yield from ask(link, post(
        f"/v1/images/{segment(name)}/pull",
        {"reference": reference, "platform": platform, "username": username,
         "password": password}, timeout=None))))


def export_image(link: Link, name: str, *, format: str = "oci") -> Bytes:
    """An image as a tar, piece by piece: oci, docker or rootfs."""
    return Bytes(link, Request("GET", f"/v1/images/{segment(name)}/export",
                               {"format": format}, timeout=None))


def save_image(link: Link, name: str, state: Any) -> Flow[Image]:
    """Makes an image of a sandbox's or a snapshot's disk."""
    return Image.of((yield from ask(link, post(
        f"/v1/images/{segment(name)}", {"snapshot": getattr(state, "id", state)},
        timeout=None))))


def remove_image(link: Link, name: str) -> Flow[None]:
    """Removes an image that no sandbox uses."""
    yield from ask(link, Request("DELETE", f"/v1/images/{segment(name)}"))


# --- snapshots


def list_snapshots(link: Link, *, sandbox: str | None = None,
                   name: str | None = None) -> Flow[list[Snapshot]]:
    """All snapshots, the oldest first; also of sandboxes that have ended."""
    j = yield from ask(link, get("/v1/snapshots", sandbox=sandbox, name=name))
    return [Snapshot.of(s) for s in j["snapshots"]]


def get_snapshot(link: Link, ref: str) -> Flow[Snapshot]:
    """One of them, by id or name."""
    return Snapshot.of((yield from ask(link, get(
        f"/v1/snapshots/{segment(ref)}"))))


def remove_snapshot(link: Link, ref: str | Snapshot) -> Flow[None]:
    """Removes one; what started from it stays."""
    name = ref.id if isinstance(ref, Snapshot) else ref
    yield from ask(link, Request("DELETE", f"/v1/snapshots/{segment(name)}"))


# --- policies


def _policy(name: str) -> str:
    return f"/v1/policies/{segment(name)}"


def set_policy(link: Link, name: str, policy: str | Mapping[str, Any], *,
               project: str | None = None) -> Flow[Policy]:
    """Makes or changes a policy, as text or JSON: in force at once for all
    sandboxes that have it."""
    text = policy if isinstance(policy, str) else json.dumps(policy)
    return Policy.of((yield from ask(link, Request(
        "PUT", _policy(name), {"project": project}, text.encode(),
        {"Content-Type": "text/plain"}))))


def get_policy(link: Link, name: str, *,
               project: str | None = None) -> Flow[Policy]:
    """A policy, as text and as JSON."""
    return Policy.of((yield from ask(link, get(_policy(name),
                                               project=project))))


def list_policies(link: Link) -> Flow[list[Policy]]:
    """All policies, without what they say."""
    j = yield from ask(link, get("/v1/policies"))
    return [Policy.of(p) for p in j["policies"]]


def remove_policy(link: Link, name: str, *,
                  project: str | None = None) -> Flow[None]:
    """Removes a policy that no sandbox has."""
    yield from ask(link, Request("DELETE", _policy(name),
                                 {"project": project}))


def test_policy(link: Link, url: str, *, method: str = "GET",
                sandbox: Any = None, policy: str | None = None,
                text: str | None = None) -> Flow[Verdict]:
    """What becomes of a request: under all policies of a sandbox, a policy
    by its name, or a text. Nothing is sent anywhere."""
    return Verdict.of((yield from ask(link, post("/v1/policy-test", {
        "url": url, "method": method, "sandbox": getattr(sandbox, "id", sandbox),
        "policy": policy, "text": text}, repeat=True))))


# --- approvals


def list_approvals(link: Link) -> Flow[list[Approval]]:
    """Requests of sandboxes that wait for a person."""
    j = yield from ask(link, get("/v1/approvals"))
    return [Approval.of(a) for a in j["approvals"]]


def _decide(link: Link, ref: int | Approval, **body: Any) -> Flow[None]:
    number = ref.number if isinstance(ref, Approval) else ref
    yield from ask(link, post(f"/v1/approvals/{number}", body))


def approve(link: Link, approval: int | Approval, *,
            duration: Time | None = None) -> Flow[None]:
    """Lets it pass; with `duration` ("1h", seconds, "always") all of its host
    for so long."""
    return _decide(link, approval, allow=True, **{
        "for": None if duration is None else str(duration)})


def deny(link: Link, approval: int | Approval) -> Flow[None]:
    """Refuses it."""
    return _decide(link, approval, allow=False)


# --- secrets


def _spelled(host: str) -> str:
    return host.removeprefix("https://").lower()


def set_secret(link: Link, name: str, value: str | bytes, *,
               hosts: Sequence[str], kind: str = "header",
               env: str | None = None, field: str | None = None,
               template: str | None = None, user: str | None = None,
               methods: Sequence[str] | None = None, path: str | None = None,
               region: str | None = None, service: str | None = None,
               token_url: str | None = None, scope: str | None = None,
               project: str | None = None) -> Flow[Secret]:
    """Sets a secret that the gate adds to requests to these hosts. It is
    sealed before it leaves: nobody on the way can read it. Without `field`
    and `template` it is sent as "Authorization: Bearer VALUE"."""
    if kind == "header" and not field:
        field, template = "Authorization", template or "Bearer {}"
    about = {"kind": kind, "env": env, "field": field, "template": template,
             "user": user, "methods": methods and list(methods), "path": path,
             "region": region, "service": service, "token_url": token_url,
             "scope": scope}
    spelled = [_spelled(h) for h in hosts]
    raw = value.encode() if isinstance(value, str) else value
    key = yield from ask(link, get("/v1/vault/key", project=project))
    for _ in range(2):
        places = " ".join([name, *spelled, *([token_url] if token_url else [])])
        sealed = seal(places.encode() + b"\n" + raw,
                      base64.b64decode(key["public_key"]))
        req = post(f"/v1/secrets/{segment(name)}",
                   {**about, "hosts": spelled,
                    "sealed": base64.b64encode(sealed).decode()},
                   method="PUT")
        req.query = {"project": project}
        secret = Secret.of((yield from ask(link, req)))
        # Hosts have one spelling, and it is what they must be sealed with.
        if secret.hosts == spelled:
            return secret
        spelled = secret.hosts
    raise CarrelError(f"the hosts of secret {name} change their spelling")


def list_secrets(link: Link) -> Flow[list[Secret]]:
    """All secrets, without their values."""
    j = yield from ask(link, get("/v1/secrets"))
    return [Secret.of(s) for s in j["secrets"]]


def remove_secret(link: Link, name: str, *,
                  project: str | None = None) -> Flow[None]:
    """Removes one: it leaves no more from now on."""
    yield from ask(link, Request("DELETE", f"/v1/secrets/{segment(name)}",
                                 {"project": project}))


# --- the drive


def _drive(path: str, what: str = "files") -> str:
    return f"/v1/drive/{what}/{quote(path.lstrip('/'))}"


def drive_put(link: Link, path: str, data: Body, *,
              version: int | None = None, new: bool = False,
              project: str | None = None) -> Flow[DriveFile]:
    """Writes a new version of a file. With `version` only in place of that
    one, with `new` only if there is none: else VersionMismatch."""
    headers = {"Content-Type": "application/octet-stream"}
    if version is not None:
        headers["If-Match"] = f'"{version}"'
    if new:
        headers["If-None-Match"] = "*"
    return DriveFile.of((yield from ask(link, Request(
        "PUT", _drive(path), {"project": project}, data, headers,
        timeout=None))))


def drive_get(link: Link, path: str, *, version: int | None = None,
              project: str | None = None) -> Flow[bytes]:
    """The bytes of a file."""
    reply = yield from open_reply(link, get(_drive(path), version=version,
                                            project=project))
    try:
        return (yield from reply.all(1 << 40))
    finally:
        reply.close()


def drive_list(link: Link, prefix: str | None = None, *,
               recursive: bool = True,
               project: str | None = None) -> Flow[list[DriveFile]]:
    """Files whose path starts so."""
    found: list[DriveFile] = []
    after = None
    while True:
        j = yield from ask(link, get("/v1/drive", prefix=prefix,
                                     recursive=recursive, after=after,
                                     project=project))
        found += [DriveFile.of(e) for e in j["entries"]]
        after = j.get("next")
        if not after:
            return found


def drive_versions(link: Link, path: str, *,
                   project: str | None = None) -> Flow[list[DriveFile]]:
    """Versions of a file, the newest first."""
    j = yield from ask(link, get(_drive(path, "versions"), project=project))
    return [DriveFile.of(v) for v in j["versions"]]


def drive_remove(link: Link, path: str, *, purge: bool = False,
                 project: str | None = None) -> Flow[None]:
    """Removes a file; its versions stay until they are purged."""
    yield from ask(link, Request("DELETE", _drive(path), {
        "purge": purge or None, "project": project}))
