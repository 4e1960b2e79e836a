"""The calls about tasks."""

from __future__ import annotations

import time
from time import sleep
from collections.abc import Iterator, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from punctual import _call
from punctual._sync.transport import Transport
from punctual._batch import BatchError, parts
from punctual._call import Call, Repeat, without_none
from punctual._durations import Duration, Instant, instant_fields, instant_text, to_ms, to_seconds
from punctual._json import content_fields, encode
from punctual._new_task import NewTask, new_task
from punctual.errors import ConfigurationError, Indeterminate, PunctualError, WaitTimeout
from punctual.models import BatchItem, Page, Task
from punctual.retry import Retry

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from punctual._new_task import TaskOptions

T = TypeVar("T")


BATCH_PATIENCE = 50.0
"""A part of 10,000 tasks may take so much longer than other calls, in seconds."""


class Tasks:
    """Calls about tasks; a part of ``Client``."""

    _transport: Transport

    def send(self, call: Call[T]) -> T:
        """Sends a call that was made by hand (``punctual.Call``); the other methods use it."""
        return self._transport.send(call)

    def insert(self, queue: str | NewTask, payload: Any = None, **options: Unpack[TaskOptions]) -> Task:
        """Inserts a task. The answer's ``outcome`` says whether it is new.

        ``client.insert("mail", {"to": "ada@example.org"}, kind="welcome", delay="1h")``
        """
        task = queue.with_options(**options) if isinstance(queue, NewTask) else new_task(queue, payload, options)
        headers = _call.new_key() if task.needs_key() else {}
        call = Call("POST", "/v1/tasks", Task.of, Repeat.SAFE, body=encode(task.to_wire()), headers=headers)
        return self.send(call)

    def insert_many(self, tasks: Iterable[NewTask]) -> list[BatchItem]:
        """Inserts any number of tasks, in parts of up to 10,000. The results are in the order of the tasks; one that
        is refused does not spoil the others."""
        done: list[BatchItem] = []
        try:
            for part, is_keyed in parts(tasks):
                headers = _call.new_key() if is_keyed else {}
                body = b'{"tasks":[' + b",".join(part) + b"]}"
                call = Call(
                    "POST",
                    "/v1/tasks/batch",
                    _results,
                    Repeat.SAFE,
                    body=body,
                    headers=headers,
                    waits=BATCH_PATIENCE,
                )
                results = self.send(call)
                if len(results) != len(part):
                    raise Indeterminate(f"{len(results)} results for {len(part)} tasks")
                done.extend(results)
        except PunctualError as error:
            raise BatchError(done, error) from error
        return done

    def get(self, ref: str) -> Task:
        """One task, with its history. By its ``ref``, or by ``key:`` and its key."""
        return self.send(_call.get(_call.path("tasks", ref), Task.of))

    def find(
        self, *, task_id: int | None = None, key: str | None = None, task_version: int | None = None
    ) -> list[Task]:
        """The tasks of a caller's id or key: all versions, or the one that is named."""
        query = {"task_id": task_id, "key": key, "task_version": task_version}
        return (self.send(_call.get("/v1/tasks", Page.of(Task.of), **query))).items

    def search(
        self,
        *,
        queue: str | None = None,
        state: str | None = None,
        phase: str | None = None,
        kind: str | None = None,
        label: str | None = None,
        due_after: Instant | None = None,
        due_before: Instant | None = None,
        sort: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> Page[Task]:
        """A page of the tasks that match; ``label`` is ``key=value``."""
        query = {
            "queue": queue,
            "state": state,
            "phase": phase,
            "kind": kind,
            "label": label,
            "due_after": None if due_after is None else instant_text(due_after),
            "due_before": None if due_before is None else instant_text(due_before),
            "sort": sort,
            "limit": limit,
            "cursor": cursor,
        }
        return self.send(_call.get("/v1/tasks", Page.of(Task.of), **query))

    def iterate(self, **filters: Any) -> Iterator[Task]:
        """All tasks that match, page by page; the parameters are those of ``search``."""
        cursor: str | None = None
        while True:
            page = self.search(**{**filters, "cursor": cursor})
            for task in page:
                yield task
            cursor = page.next_cursor
            if cursor is None:
                return

    def wait(self, ref: str, *, timeout: Duration = 30) -> Task:
        """Waits until a task is over; ``WaitTimeout`` after ``timeout``. The task is not affected."""
        until, pause = time.monotonic() + to_seconds(timeout), 0.02
        while True:
            task = self.get(ref)
            if task.is_finished:
                return task
            left = until - time.monotonic()
            if left <= 0:
                raise WaitTimeout(f"task {ref} is {task.state}, not over, after {timeout}")
            sleep(min(pause, left))
            pause = min(pause * 2, 2.0)

    def cancel(self, ref: str, *, stop_if_fired: bool = False) -> str:
        """Withdraws a task: ``cancelled``. One that has fired is refused (``AlreadyFired``), unless it should be
        stopped: then it is ``cancelled``, or ``stop_requested`` of the executor that runs it."""
        return self._act(ref, "cancel", {"stop_if_fired": True} if stop_if_fired else None)

    def reschedule(
        self,
        ref: str,
        *,
        delay: Duration | None = None,
        at: Instant | None = None,
        priority: int | None = None,
        payload: Any = None,
        queue: str | None = None,
        max_attempts: int | None = None,
        retry: Retry | None = None,
        timeout: Duration | None = None,
    ) -> Task:
        """Changes a task that has not fired; ``AlreadyFired`` otherwise."""
        if delay is not None and at is not None:
            raise ConfigurationError("a task has a delay or an instant (at), not both")
        body = without_none(
            delay_ms=None if delay is None else to_ms(delay),
            priority=priority,
            queue=queue,
            max_attempts=max_attempts,
            retry=retry,
            timeout_ms=None if timeout is None else to_ms(timeout),
            **content_fields("payload", payload),
            **({} if at is None else instant_fields("execute_at", at)),
        )
        # A delay counts from the server's now: sent twice it is not the same change.
        repeat = Repeat.SAFE if delay is None else Repeat.IF_NOT_DONE
        return self.send(Call("PATCH", _call.path("tasks", ref), Task.of, repeat, body=encode(body)))

    def run_now(self, ref: str) -> str:
        """Makes a task due now."""
        return self._act(ref, "run-now")

    def redrive(self, ref: str) -> str:
        """Gives a dead task its attempts again."""
        return self._act(ref, "redrive")

    def bury(self, ref: str, *, reason: str | None = None) -> str:
        """Puts a task that no executor has among the dead."""
        return self._act(ref, "bury", without_none(reason=reason))

    def delete(self, ref: str) -> str:
        """Deletes a finished task with its history and its payload."""
        return self.send(Call("DELETE", _call.path("tasks", ref), _outcome))

    def why(self, ref: str) -> dict[str, Any]:
        """Why a task has not run: its state, what it waits for, and when it is expected."""
        return self.send(_call.get(_call.path("tasks", ref, "why"), dict))

    def dead_letters(
        self,
        *,
        queue: str | None = None,
        kind: str | None = None,
        error: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> Page[Task]:
        """A page of the tasks that are dead; ``error`` is a part of their last error."""
        query = {"queue": queue, "kind": kind, "error": error, "limit": limit, "cursor": cursor}
        return self.send(_call.get("/v1/dead-letters", Page.of(Task.of), **query))

    def _act(self, ref: str, action: str, body: dict[str, Any] | None = None) -> str:
        return self.send(_call.post(_call.path("tasks", ref, action), _outcome, body))


def _results(raw: Any) -> list[BatchItem]:
    return [BatchItem.of(item) for item in raw["results"]]


def _outcome(raw: Any) -> str:
    return str(raw["outcome"])
