"""A task to insert. Holds what the caller wants; the wire's fields are made here and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from punctual._durations import Duration, Instant, instant_fields, to_ms
from punctual._json import content_fields
from punctual.errors import ConfigurationError
from punctual.retry import Retry

if TYPE_CHECKING:
    from typing_extensions import TypedDict

    class TaskOptions(TypedDict, total=False):
        """The fields of ``NewTask`` beside queue and payload."""

        kind: str | None
        delay: Duration | None
        at: Instant | None
        key: str | None
        task_id: int | None
        task_version: int | None
        on_conflict: str | None
        name: str | None
        priority: int | None
        max_attempts: int | None
        retry: Retry | None
        timeout: Duration | None
        deadline: Duration | None
        labels: Mapping[str, str]
        concurrency_key: str | None
        handler_versions: str | None
        traceparent: str | None


@dataclass(frozen=True)
class NewTask:
    """A task to insert: due now, unless it has ``delay`` or ``at``."""

    queue: str
    payload: Any = None
    """Any JSON value, or bytes."""
    kind: str | None = None
    """Selects the handler; ``default`` unless given."""
    delay: Duration | None = None
    at: Instant | None = None
    key: str | None = None
    """The identity: a second insert with it replaces a task that has not begun, and is otherwise answered by it."""
    task_id: int | None = None
    """The identity as a number, instead of ``key``."""
    task_version: int | None = None
    """A higher version supersedes a lower one."""
    on_conflict: str | None = None
    """``replace`` (unless given), ``keep`` or ``fail``."""
    name: str | None = None
    """For people."""
    priority: int | None = None
    """1 (first) to 5 (last)."""
    max_attempts: int | None = None
    retry: Retry | None = None
    timeout: Duration | None = None
    """How long one attempt may run."""
    deadline: Duration | None = None
    """How long after its time an attempt may still begin."""
    labels: Mapping[str, str] = field(default_factory=dict)
    concurrency_key: str | None = None
    handler_versions: str | None = None
    """Versions of the worker that may run it: ``>=2.1, <3``."""
    traceparent: str | None = None

    def to_wire(self) -> dict[str, Any]:
        """The body of ``POST /v1/tasks``."""
        if self.delay is not None and self.at is not None:
            raise ConfigurationError("a task has a delay or an instant (at), not both")
        body: dict[str, Any] = {"queue": self.queue, **content_fields("payload", self.payload)}
        if self.delay is not None:
            body["delay_ms"] = to_ms(self.delay)
        if self.at is not None:
            body.update(instant_fields("execute_at", self.at))
        for name in ("timeout", "deadline"):
            duration = getattr(self, name)
            if duration is not None:
                body[f"{name}_ms"] = to_ms(duration)
        for name in _AS_THEY_ARE:
            value = getattr(self, name)
            if value is not None:
                body[name] = value
        if self.labels:
            body["labels"] = dict(self.labels)
        return body

    def to_schedule(self) -> dict[str, Any]:
        """The ``task`` of a schedule or of a workflow's node, which have no time and no identity of their own."""
        given = [name for name in _ONLY_OF_INSERTS if getattr(self, name) is not None]
        if given:
            raise ConfigurationError(f"the task of a schedule or node has no {', '.join(given)}")
        return self.to_wire()

    def needs_key(self) -> bool:
        """Sent again it could double a task, or be refused because of its own first try."""
        return (self.task_id is None and self.key is None) or self.on_conflict == "fail"

    def with_options(self, **options: Any) -> NewTask:
        """A copy with other fields; a new time replaces the old."""
        if "delay" in options or "at" in options:
            options = {"delay": None, "at": None, **options}
        try:
            return replace(self, **options)
        except TypeError:
            unknown = sorted(set(options) - set(NewTask.__dataclass_fields__))
            raise ConfigurationError(f"a task has no option {', '.join(unknown)}") from None


def expr(cel: str) -> Any:
    """A part of a payload that the server computes, in schedules and workflows: ``expr("nodes.a.result")``."""
    return {"$expr": cel}


_ONLY_OF_INSERTS = ("delay", "at", "key", "task_id", "task_version", "on_conflict", "name", "traceparent")
_AS_THEY_ARE = (
    "kind",
    "key",
    "task_id",
    "task_version",
    "on_conflict",
    "name",
    "priority",
    "max_attempts",
    "retry",
    "concurrency_key",
    "handler_versions",
    "traceparent",
)


def new_task(queue: str, payload: Any, options: Mapping[str, Any]) -> NewTask:
    """From the arguments of an insert."""
    return NewTask(queue, payload).with_options(**options)


def task_fields(task: NewTask | Mapping[str, Any]) -> dict[str, Any]:
    """The task of a schedule or node, from either form."""
    return task.to_schedule() if isinstance(task, NewTask) else dict(task)
