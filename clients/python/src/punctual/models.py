"""What the server answers. Fields that a newer server adds are in ``raw`` and are otherwise ignored; unknown values
are ``None``. Instants are epoch milliseconds (``…_ms``), with a ``datetime`` in UTC beside the important ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, Callable, Generic, TypeVar

from punctual import errors
from punctual._durations import from_ms
from punctual._json import content_of

T = TypeVar("T")
M = TypeVar("M", bound="Model")

FINISHED = frozenset({"succeeded", "dead", "cancelled", "stopped"})
"""States of a task that is over."""


_NAMES: dict[type, frozenset[str]] = {}
"""Fields of each model, beside ``raw``."""


@dataclass(frozen=True)
class Model:
    """An object of an answer."""

    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """All of it, as the server sent it."""

    @classmethod
    def of(cls: type[M], raw: Mapping[str, Any]) -> M:
        if cls not in _NAMES:
            _NAMES[cls] = frozenset(each.name for each in fields(cls)) - {"raw"}
        known = {name: raw[name] for name in _NAMES[cls] & raw.keys()}
        return cls(raw=raw, **known)


@dataclass(frozen=True)
class Task(Model):
    """A task."""

    ref: str = ""
    namespace: str = "default"
    task_id: int = 0
    key: str | None = None
    name: str | None = None
    task_version: int = 0
    queue: str = ""
    kind: str = ""
    priority: int = 3
    state: str = ""
    """In the machine's word: scheduled, ready, dispatched, running, retrying, succeeded, dead, cancelled …"""
    phase: str = ""
    """In the general word: pending, processing, success, failed, stopped."""
    outcome: str | None = None
    """Of an insert: created, replaced, existing."""
    execute_at_ms: int = 0
    fired_at_ms: int | None = None
    lateness_ms: int | None = None
    started_at_ms: int | None = None
    finished_at_ms: int | None = None
    attempt: int = 0
    max_attempts: int = 0
    created_at_ms: int = 0
    updated_at_ms: int = 0
    last_error: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    timeout_ms: int | None = None
    deadline_ms: int | None = None
    concurrency_key: str | None = None
    handler_versions: str | None = None
    traceparent: str | None = None
    progress: Any = None
    log: list[Mapping[str, Any]] = field(default_factory=list)
    history: list[Mapping[str, Any]] = field(default_factory=list)

    @property
    def payload(self) -> Any:
        """Any JSON value, or bytes."""
        return content_of("payload", dict(self.raw))

    @property
    def result(self) -> Any:
        """What the handler returned: any JSON value, or bytes; ``None`` before, and without a result."""
        return content_of("result", self.raw.get("result") or {})

    @property
    def is_finished(self) -> bool:
        return self.state in FINISHED

    @property
    def succeeded(self) -> bool:
        return self.state == "succeeded"

    @property
    def execute_at(self) -> datetime:
        return from_ms(self.execute_at_ms)

    @property
    def fired_at(self) -> datetime | None:
        return None if self.fired_at_ms is None else from_ms(self.fired_at_ms)


@dataclass(frozen=True)
class LeasedTask(Model):
    """A task in an executor's hands."""

    ref: str = ""
    task_id: int = 0
    task_version: int = 0
    queue: str = ""
    kind: str = ""
    priority: int = 3
    attempt: int = 1
    max_attempts: int = 1
    token: str = ""
    execute_at_ms: int = 0
    fired_at_ms: int = 0
    lease_until_ms: int = 0
    timeout_ms: int | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    traceparent: str | None = None

    @property
    def payload(self) -> Any:
        """Any JSON value, or bytes."""
        return content_of("payload", dict(self.raw))

    @property
    def execute_at(self) -> datetime:
        return from_ms(self.execute_at_ms)


@dataclass(frozen=True)
class BatchItem:
    """The result of one task of a batch: the task, or why it was refused."""

    status: int
    task: Task | None = None
    error: errors.Refused | None = None

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> BatchItem:
        task, problem = raw.get("task"), raw.get("error")
        return cls(raw["status"], task and Task.of(task), problem and errors.refusal(problem))

    def unwrap(self) -> Task:
        """The task, or the error raised."""
        if self.task is None:
            raise self.error or errors.PunctualError(f"no task, and no error: status {self.status}")
        return self.task


@dataclass(frozen=True)
class Page(Generic[T]):
    """A page of a list; ``next_cursor`` continues."""

    items: list[T]
    next_cursor: str | None = None

    @classmethod
    def of(cls, each: Callable[[Mapping[str, Any]], T]) -> Callable[[Mapping[str, Any]], Page[T]]:
        """Reads pages whose items are read by ``each``."""
        return lambda raw: cls([each(item) for item in raw["items"]], raw.get("next_cursor"))

    def __iter__(self) -> Iterator[T]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)


@dataclass(frozen=True)
class Queue(Model):
    """A queue: settings and counts; settings that are not set are absent in ``raw`` too."""

    queue: str = ""
    namespace: str = "default"
    revision: int = 0
    pause: Mapping[str, Any] | None = None
    tasks: Mapping[str, int] = field(default_factory=dict)
    waiting: int = 0
    ready: int = 0


@dataclass(frozen=True)
class Schedule(Model):
    """A schedule."""

    name: str = ""
    namespace: str = "default"
    description: str | None = None
    owner: str | None = None
    enabled: bool = True
    cron: list[str] = field(default_factory=list)
    every_ms: int | None = None
    time_zone: str = "UTC"
    task: Mapping[str, Any] = field(default_factory=dict)
    pause: Mapping[str, Any] | None = None
    revision: int = 0
    next_run_at_ms: int | None = None
    last_run_at_ms: int | None = None
    runs: int = 0


@dataclass(frozen=True)
class ScheduleRun(Model):
    """What became of one instant of a schedule."""

    at_ms: int = 0
    outcome: str = ""
    reason: str | None = None
    task_ref: str | None = None
    run: int = 0


@dataclass(frozen=True)
class Workflow(Model):
    """A workflow with its nodes."""

    ref: str = ""
    namespace: str = "default"
    name: str | None = None
    state: str = ""
    """running, succeeded, failed, compensating, compensated, cancelled."""
    reason: str | None = None
    input: Any = None
    nodes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    created_at_ms: int = 0
    finished_at_ms: int | None = None

    @property
    def is_finished(self) -> bool:
        return self.state not in ("", "running", "compensating")


@dataclass(frozen=True)
class BulkOperation(Model):
    """A bulk operation and its progress."""

    id: int = 0
    revision: int = 0
    action: str = ""
    state: str = ""
    """previewed, running, paused, done, stopped."""
    count: int = 0
    done: int = 0
    skipped: int = 0
    failed: int = 0

    @property
    def is_finished(self) -> bool:
        return self.state in ("done", "stopped")


@dataclass(frozen=True)
class Executor(Model):
    """An executor, as the cluster knows it."""

    name: str = ""
    state: str = ""


@dataclass(frozen=True)
class Outcome:
    """The report about one attempt."""

    ref: str
    token: str
    outcome: str
    """succeeded, failed, snooze, reject."""
    status_msg: str | None = None
    result: Any = None
    retry_after_ms: int | None = None
    log: list[Mapping[str, Any]] = field(default_factory=list)
