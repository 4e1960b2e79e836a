"""Errors between a client and the server. Their types answer the one important question after an error: may it
have happened nevertheless? Decide further by ``code``, which the server never renames."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


class PunctualError(Exception):
    """Any error of this package."""

    may_have_happened = False
    """Whether the call may have had its effect in spite of the error."""


class ConfigurationError(PunctualError, ValueError):
    """A client, task or worker is set up in a way that cannot work. Nothing was sent."""


class Unreachable(PunctualError):
    """The request never reached the server. It did not happen."""


class Indeterminate(PunctualError):
    """The request was sent, and no answer has its result. It may have happened."""

    may_have_happened = True

    def __init__(self, message: str, problem: dict[str, Any] | None = None, status: int | None = None):
        super().__init__(message)
        self.problem = problem or {}
        self.status = status

    @property
    def code(self) -> str | None:
        """The server's code, if it sent one: ``store.unavailable`` for example."""
        return self.problem.get("code")


class WaitTimeout(PunctualError, TimeoutError):
    """A task or workflow was not over in time. It continues."""


@dataclass(frozen=True)
class FieldError:
    """A field that is not valid."""

    pointer: str
    """JSON pointer, ``/tasks/3/queue`` for example."""
    detail: str


class Refused(PunctualError):
    """The server refused it. It did not happen."""

    def __init__(self, problem: dict[str, Any], status: int):
        self.problem = problem
        self.status = status
        self.code: str = problem.get("code", "foreign")
        self.title: str = problem.get("title", "")
        self.detail: str = problem.get("detail", "")
        self.errors = [FieldError(e.get("pointer", ""), e.get("detail", "")) for e in problem.get("errors", [])]
        super().__init__(str(self))

    def __reduce__(self) -> Any:
        return type(self), (self.problem, self.status)

    def __str__(self) -> str:
        text = f"{self.title} ({self.code}, {self.status})"
        return f"{text}: {self.detail}" if self.detail else text

    @property
    def help(self) -> str:
        """The page of the server about this code, with the way out: a path such as ``/docs/errors/task.exists``."""
        return str(self.problem.get("type", ""))

    @property
    def retry_after(self) -> float | None:
        """Seconds after which the same call may succeed."""
        ms = self.problem.get("retry_after_ms")
        return None if ms is None else ms / 1_000

    @property
    def field(self) -> str | None:
        """The first field that is not valid, as a JSON pointer."""
        return self.errors[0].pointer if self.errors else None

    @property
    def existing(self) -> dict[str, Any] | None:
        """The task that is the obstacle, as the server has it."""
        return self.problem.get("existing")


class InvalidRequest(Refused):
    """The request is not valid; ``errors`` names each field. Sending it again cannot succeed."""


class AccessDenied(Refused):
    """No token, a bad one, or one that does not allow this."""


class NotFound(Refused):
    """No such task, queue, schedule, workflow …"""


class Conflict(Refused):
    """The present state does not allow it."""


class AlreadyFired(Conflict):
    """``task.already_fired``: the change came too late. ``cancel(ref, stop_if_fired=True)`` asks it to stop."""


class TaskExists(Conflict):
    """``task.exists``: see ``existing``."""


class VersionSuperseded(Conflict):
    """``task.version_superseded``: a newer version of the task is known, see ``existing``."""


class PreconditionFailed(Refused):
    """``precondition.failed``: it has changed since it was read. Read it again, and decide again."""


class Busy(Refused):
    """Refused for now (408, 429, a server that stops): the same call can succeed after ``retry_after``."""


class QueueFull(Busy):
    """``queue.full``: as many tasks wait as its ``max_waiting`` allows."""


_BY_CODE: dict[str, type[Refused]] = {
    "task.already_fired": AlreadyFired,
    "task.exists": TaskExists,
    "task.version_superseded": VersionSuperseded,
    "precondition.failed": PreconditionFailed,
    "queue.full": QueueFull,
    "stopping": Busy,
    "connections.full": Busy,
    "idempotency.in_progress": Busy,
}
_BY_STATUS: dict[int, type[Refused]] = {
    400: InvalidRequest,
    401: AccessDenied,
    403: AccessDenied,
    404: NotFound,
    408: Busy,
    409: Conflict,
    412: PreconditionFailed,
    413: InvalidRequest,
    422: InvalidRequest,
    429: Busy,
}
_NOTHING_WAS_DONE = {"stopping", "connections.full"}


def from_problem(problem: dict[str, Any], status: int) -> PunctualError:
    """The error of an answer that is not 2xx."""
    code = problem.get("code", "foreign")
    if status >= 500 and code not in _NOTHING_WAS_DONE:
        said = problem.get("detail") or problem.get("title") or f"status {status}"
        return Indeterminate(f"it is not known whether the server has done it: {said}", problem, status)
    kind = _BY_CODE.get(code) or _BY_STATUS.get(status, Refused)
    return kind(problem, status)


def refusal(problem: dict[str, Any]) -> Refused:
    """The error of one item of a batch, which has no status of its own."""
    status = int(problem.get("status", 400))
    code = problem.get("code", "foreign")
    return (_BY_CODE.get(code) or _BY_STATUS.get(status, Refused))(problem, status)


def may_pass(error: PunctualError) -> bool:
    """Whether the very same call can succeed later."""
    return isinstance(error, (Unreachable, Indeterminate, Busy))
