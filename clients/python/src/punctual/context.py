"""A task as its handler has it (``Context``), and its other end (``Control``), by which the worker asks the handler to
stop and reads its progress and its log lines. Both are used from several threads."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from typing import Any

from punctual.models import LeasedTask

LOG_LINES_MAX = 100
LOG_TEXT_MAX_CHARS = 4_096
LOG_LEVEL_MAX_CHARS = 16
_NOTHING = object()


class Control:
    """The worker's end of a running task."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self.why: str | None = None
        self._progress: Any = _NOTHING
        self._log: deque[dict[str, Any]] = deque()

    def stop(self, why: str) -> None:
        """Asks the handler to stop; the first reason stays."""
        with self._lock:
            self.why = self.why or why
        self._stop.set()

    @property
    def is_stopping(self) -> bool:
        return self._stop.is_set()

    def wait_for_stop(self, timeout: float | None) -> bool:
        return self._stop.wait(timeout)

    def set_progress(self, value: Any) -> None:
        with self._lock:
            self._progress = value

    def say(self, level: str, text: str) -> None:
        """Adds a log line; of too many, the oldest are dropped."""
        line = {"text": text[:LOG_TEXT_MAX_CHARS]}
        if level:
            line["level"] = level[:LOG_LEVEL_MAX_CHARS]
        with self._lock:
            self._log.append(line)
            while len(self._log) > LOG_LINES_MAX:
                self._log.popleft()

    def take_news(self) -> dict[str, Any]:
        """What a heartbeat carries since the last one: progress and log lines, each once."""
        news: dict[str, Any] = {}
        with self._lock:
            if self._progress is not _NOTHING:
                news["progress"], self._progress = self._progress, _NOTHING
            if self._log:
                news["log"] = list(self._log)
                self._log.clear()
        return news

    def restore_news(self, unsent: Mapping[str, Any]) -> None:
        """Puts back what was not sent, unless there is newer."""
        with self._lock:
            if "progress" in unsent and self._progress is _NOTHING:
                self._progress = unsent["progress"]
            room = LOG_LINES_MAX - len(self._log)
            lines = list(unsent.get("log", ()))
            self._log.extendleft(reversed(lines[max(0, len(lines) - room) :]))


class Stopped(BaseException):
    """Raised by ``Context.raise_if_stopping``: the handler ends, and its task is handled as its worker decided (a
    cancelled one is reported as failed). No ``Exception``, so that ``except Exception`` does not swallow it."""


class Context:
    """A running attempt. A handler gets it as its first parameter, if that is annotated with this type or named
    ``ctx``."""

    def __init__(self, task: LeasedTask, control: Control | None = None):
        self.task = task
        self._control = control or Control()

    @property
    def ref(self) -> str:
        return self.task.ref

    @property
    def attempt(self) -> int:
        """Number of this attempt, from 1."""
        return self.task.attempt

    @property
    def is_last_attempt(self) -> bool:
        return self.task.attempt >= self.task.max_attempts

    @property
    def payload(self) -> Any:
        """Any JSON value, or bytes."""
        return self.task.payload

    def progress(self, value: Any) -> None:
        """Sets the task's progress, any JSON value; the newest is sent with the next heartbeat."""
        self._control.set_progress(value)

    def log(self, text: str, level: str = "info") -> None:
        """Adds a log line that is kept with the task (``punctual task get``, console)."""
        self._control.say(level, text)

    @property
    def is_stopping(self) -> bool:
        """Whether the handler should end: see ``stop_reason``. Its result still counts if it was ``cancelled``."""
        return self._control.is_stopping

    @property
    def stop_reason(self) -> str | None:
        """``cancelled`` by an operator or caller, ``lost`` lease, ``timeout``, or ``shutdown`` of the worker."""
        return self._control.why

    def wait_for_stop(self, timeout: float | None = None) -> bool:
        """Sleeps, and ends early (``True``) when the handler should end: use it in place of ``time.sleep``."""
        return self._control.wait_for_stop(timeout)

    def raise_if_stopping(self) -> None:
        """Ends the handler here if it should end."""
        if self._control.is_stopping:
            raise Stopped(self._control.why)
