"""What can go wrong. Everything that this package raises by itself is a
CarrelError; what the daemon said is in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Mapping

if TYPE_CHECKING:
    from .data import Result


class CarrelError(Exception):
    """`message` is for people. From the daemon, `code` is the HTTP status,
    `error` a stable word and `request_id` names the request in the log."""

    def __init__(self, message: str, *, code: int | None = None,
                 error: str | None = None, request_id: str | None = None,
                 details: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.error = error
        self.request_id = request_id
        self.details = dict(details or {})

    def __str__(self) -> str:
        if self.request_id:
            return f"{self.message} (request {self.request_id})"
        return self.message


class ConnectionFailed(CarrelError):
    """The daemon could not be reached, or the connection broke: what was
    asked for may have been done or not."""


class NotReached(ConnectionFailed):
    """No connection was made: nothing was asked for."""


class TimedOut(CarrelError):
    """It was not done in time."""


class ProtocolError(CarrelError):
    """What came is no answer of the daemon."""


class BadRequest(CarrelError):
    """400, 422: the request makes no sense; the message says why."""


class Unauthorized(CarrelError):
    """401: no key, or a wrong one."""


class Forbidden(CarrelError):
    """403: the key may not do this."""


class NotFound(CarrelError):
    """404: there is no such thing."""


class Ended(NotFound):
    """410: the sandbox has ended; the message has the reason."""


class Conflict(CarrelError):
    """409: taken, busy, or changed meanwhile."""


class MergeConflict(Conflict):
    """Both sides changed the same paths, and nothing was merged."""

    @property
    def conflicts(self) -> list[dict[str, Any]]:
        return list(self.details.get("conflicts", []))


class VersionMismatch(Conflict):
    """412: the file has another version."""


class LimitReached(CarrelError):
    """429: as many as there may be."""


class NoSpace(CarrelError):
    """507: the project or the disk is full."""


class ServerError(CarrelError):
    """Another 5xx."""


class Unavailable(ServerError):
    """503: not now; trying again may help."""


class CommandError(CarrelError):
    """A command that was to succeed did not. Its result is in `result`."""

    def __init__(self, message: str, result: Result) -> None:
        super().__init__(message)
        self.result = result


STATUSES: dict[int, type[CarrelError]] = {
    400: BadRequest, 401: Unauthorized, 403: Forbidden, 404: NotFound,
    409: Conflict, 410: Ended, 412: VersionMismatch, 422: BadRequest,
    429: LimitReached, 503: Unavailable, 507: NoSpace,
}


def from_answer(status: int, body: Mapping[str, Any] | None) -> CarrelError:
    """The exception for an answer that is none of success."""
    j = body or {}
    kind = STATUSES.get(status, ServerError if status >= 500 else CarrelError)
    if j.get("error") == "merge_conflict":
        kind = MergeConflict
    return kind(str(j.get("message") or f"the daemon answered {status}"),
                code=status, error=j.get("error"),
                request_id=j.get("request_id"), details=j)
