"""The calls about queues, schedules, workflows, bulk operations and executors: each group is an attribute of the
client (``client.queues.pause("mail")``)."""

from __future__ import annotations

import time
from time import sleep
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from punctual import _call
from punctual._sync.transport import Transport
from punctual._call import Call, Repeat, as_is, if_match, without_none
from punctual._durations import Duration, Instant, instant_fields, instant_text, to_ms, to_seconds
from punctual._json import encode
from punctual._new_task import NewTask, task_fields
from punctual.errors import WaitTimeout
from punctual.models import BulkOperation, Executor, Page, Queue, Schedule, ScheduleRun, Task, Workflow

T = TypeVar("T")


class _Group:
    def __init__(self, transport: Transport):
        self._transport = transport

    def _send(self, call: Call[T]) -> T:
        return self._transport.send(call)


class Queues(_Group):
    """Queues: settings, contents, pause."""

    def list(self, *, prefix: str | None = None, limit: int | None = None) -> Page[Queue]:
        """Those that have tasks or settings."""
        return self._send(_call.get("/v1/queues", Page.of(Queue.of), prefix=prefix, limit=limit))

    def get(self, queue: str) -> Queue:
        return self._send(_call.get(_call.path("queues", queue), Queue.of))

    def put(self, queue: str, settings: Mapping[str, Any], *, revision: int | None = None) -> Queue:
        """Sets all settings: omitted ones get their default. With a revision, only if it is the present one."""
        return self._change("PUT", queue, settings, revision)

    def patch(self, queue: str, *, revision: int | None = None, **settings: Any) -> Queue:
        """Changes the settings that are named: ``patch("mail", concurrency=10)``; ``None``: the default."""
        return self._change("PATCH", queue, settings, revision)

    def _change(self, method: str, queue: str, settings: Mapping[str, Any], revision: int | None) -> Queue:
        repeat = Repeat.SAFE if revision is None else Repeat.IF_NOT_DONE
        target, body = _call.path("queues", queue), encode(dict(settings))
        return self._send(Call(method, target, Queue.of, repeat, body=body, headers=if_match(revision)))

    def pause(self, queue: str, *, reason: str | None = None) -> Queue:
        """After this returns, no task of the queue starts at any engine."""
        body = without_none(reason=reason)
        return self._send(_call.post(_call.path("queues", queue, "pause"), Queue.of, body, Repeat.SAFE))

    def resume(self, queue: str) -> Queue:
        return self._send(_call.post(_call.path("queues", queue, "resume"), Queue.of, None, Repeat.SAFE))

    def reset(self, queue: str) -> Queue:
        """All settings get their defaults."""
        return self._send(Call("DELETE", _call.path("queues", queue), Queue.of, Repeat.SAFE))

    def stats(self, queue: str) -> dict[str, Any]:
        """Rates and lateness in the last hour, minute by minute."""
        return self._send(_call.get(_call.path("queues", queue, "stats"), dict))


class Schedules(_Group):
    """Schedules: tasks that are made again and again."""

    def list(self, *, limit: int | None = None, cursor: str | None = None) -> Page[Schedule]:
        return self._send(_call.get("/v1/schedules", Page.of(Schedule.of), limit=limit, cursor=cursor))

    def get(self, name: str) -> Schedule:
        return self._send(_call.get(_call.path("schedules", name), Schedule.of))

    def put(
        self,
        name: str,
        task: NewTask | Mapping[str, Any],
        *,
        cron: str | Sequence[str] | None = None,
        every: Duration | None = None,
        at: Sequence[Instant] | None = None,
        time_zone: str | None = None,
        start_at: Instant | None = None,
        end_at: Instant | None = None,
        jitter: Duration | None = None,
        revision: int | None = None,
        **more: Any,
    ) -> Schedule:
        """Creates or replaces a schedule; other settings (``overlap``, ``missed``, ``max_runs``, ``owner`` …) go by
        their names. With a revision, only if it is the present one (0: only a new one).

        ``client.schedules.put("digest", digest.task(), cron="0 9 * * MON-FRI", time_zone="Europe/Berlin")``
        """
        body = without_none(
            task=task_fields(task),
            cron=cron,
            every_ms=None if every is None else to_ms(every),
            at=None if at is None else [instant_text(instant) for instant in at],
            time_zone=time_zone,
            jitter_ms=None if jitter is None else to_ms(jitter),
            **({} if start_at is None else instant_fields("start_at", start_at)),
            **({} if end_at is None else instant_fields("end_at", end_at)),
            **more,
        )
        repeat = Repeat.SAFE if revision is None else Repeat.IF_NOT_DONE
        target, headers = _call.path("schedules", name), if_match(revision)
        return self._send(Call("PUT", target, Schedule.of, repeat, body=encode(body), headers=headers))

    def patch(self, name: str, **fields: Any) -> Schedule:
        """Changes what is named, by the fields of the API."""
        target = _call.path("schedules", name)
        return self._send(Call("PATCH", target, Schedule.of, Repeat.SAFE, body=encode(fields)))

    def delete(self, name: str) -> Schedule:
        """Revokes runs that were made ahead, and deletes the schedule."""
        return self._send(Call("DELETE", _call.path("schedules", name), Schedule.of))

    def pause(self, name: str, *, reason: str | None = None) -> Schedule:
        """After this returns, no further run fires."""
        body = without_none(reason=reason)
        return self._send(_call.post(_call.path("schedules", name, "pause"), Schedule.of, body, Repeat.SAFE))

    def resume(self, name: str) -> Schedule:
        target = _call.path("schedules", name, "resume")
        return self._send(_call.post(target, Schedule.of, None, Repeat.SAFE))

    def run(self, name: str) -> ScheduleRun:
        """Makes a run now, beside the others."""
        return self._send(_call.post(_call.path("schedules", name, "run"), ScheduleRun.of))

    def next_runs(self, name: str, count: int = 10) -> Sequence[int]:
        """The next instants, epoch milliseconds."""
        return self._send(_call.get(_call.path("schedules", name, "next"), _instants, n=count))

    def runs(self, name: str, *, limit: int | None = None) -> Page[ScheduleRun]:
        """What became of its instants, the latest first."""
        target = _call.path("schedules", name, "runs")
        return self._send(_call.get(target, Page.of(ScheduleRun.of), limit=limit))

    def backfill(self, name: str, start: Instant, end: Instant) -> dict[str, Any]:
        """Makes the runs of a past range."""
        body = {"from": instant_text(start), "to": instant_text(end)}
        target = _call.path("schedules", name, "backfill")
        return self._send(_call.post(target, dict, body, Repeat.SAFE))


class Workflows(_Group):
    """Workflows: tasks that follow each other."""

    def create(
        self,
        nodes: Mapping[str, Any],
        *,
        name: str | None = None,
        input: Any = None,
        deadline: Duration | None = None,
    ) -> Workflow:
        """Begins a workflow. A node is ``{"task": NewTask(…), "after": ["a"], …}``, as in the API."""
        body = without_none(
            nodes={node: _node(fields) for node, fields in nodes.items()},
            name=name,
            input=input,
            deadline_ms=None if deadline is None else to_ms(deadline),
        )
        return self._begin("/v1/workflows", body)

    def rerun(self, ref: str, *, input: Any = None) -> Workflow:
        """Begins a copy; with the same input, unless another is given."""
        return self._begin(_call.path("workflows", ref, "rerun"), without_none(input=input))

    def _begin(self, path: str, body: Mapping[str, Any]) -> Workflow:
        call = Call("POST", path, Workflow.of, Repeat.SAFE, body=encode(body), headers=_call.new_key())
        return self._send(call)

    def get(self, ref: str) -> Workflow:
        return self._send(_call.get(_call.path("workflows", ref), Workflow.of))

    def list(
        self,
        *,
        name: str | None = None,
        state: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> Page[Workflow]:
        """Newest first, without their nodes."""
        query = {"name": name, "state": state, "limit": limit, "cursor": cursor}
        return self._send(_call.get("/v1/workflows", Page.of(Workflow.of), **query))

    def wait(self, ref: str, *, timeout: Duration = 30) -> Workflow:
        """Waits until a workflow is over; ``WaitTimeout`` after ``timeout``."""
        until, pause = time.monotonic() + to_seconds(timeout), 0.02
        while True:
            workflow = self.get(ref)
            if workflow.is_finished:
                return workflow
            left = until - time.monotonic()
            if left <= 0:
                raise WaitTimeout(f"workflow {ref} is {workflow.state}, not over, after {timeout}")
            sleep(min(pause, left))
            pause = min(pause * 2, 2.0)

    def cancel(self, ref: str, *, reason: str | None = None) -> Workflow:
        """No further node begins; completed work is undone."""
        body = without_none(reason=reason)
        return self._send(_call.post(_call.path("workflows", ref, "cancel"), Workflow.of, body))

    def retry(self, ref: str) -> Workflow:
        """Continues from failed nodes."""
        return self._send(_call.post(_call.path("workflows", ref, "retry"), Workflow.of))

    def skip(self, ref: str, node: str) -> Workflow:
        """Marks a node as done."""
        return self._send(_call.post(_call.path("workflows", ref, "nodes", node, "skip"), Workflow.of))

    def graph(self, ref: str, *, format: str = "mermaid") -> Any:
        """A text that Mermaid or Graphviz (``dot``) draw, or nodes and edges (``json``)."""
        return self._send(_call.get(_call.path("workflows", ref, "graph"), as_is, format=format))


class Bulk(_Group):
    """Bulk operations: preview, confirm, watch."""

    def preview(
        self,
        action: str,
        *,
        filter: Mapping[str, Any] | None = None,
        args: Mapping[str, Any] | None = None,
        rate: int | None = None,
        reason: str | None = None,
        all: bool | None = None,
    ) -> BulkOperation:
        """Counts matching tasks. Nothing else happens before it is confirmed."""
        body = without_none(action=action, filter=filter, args=args, rate=rate, reason=reason, all=all)
        return self._send(_call.post("/v1/bulk", BulkOperation.of, body))

    def confirm(self, operation: BulkOperation) -> BulkOperation:
        """Starts a previewed operation, if nothing has changed it since."""
        target = _call.path("bulk", operation.id, "confirm")
        headers = if_match(f"{operation.id}.{operation.revision}")
        return self._send(Call("POST", target, BulkOperation.of, Repeat.SAFE, headers=headers))

    def get(self, id: int) -> BulkOperation:
        return self._send(_call.get(_call.path("bulk", id), BulkOperation.of))

    def list(self, *, limit: int | None = None, cursor: str | None = None) -> Page[BulkOperation]:
        """The newest first."""
        return self._send(_call.get("/v1/bulk", Page.of(BulkOperation.of), limit=limit, cursor=cursor))

    def wait(self, id: int, *, timeout: Duration = 60) -> BulkOperation:
        """Waits until an operation has ended; ``WaitTimeout`` after ``timeout``."""
        until, pause = time.monotonic() + to_seconds(timeout), 0.02
        while True:
            operation = self.get(id)
            if operation.is_finished:
                return operation
            left = until - time.monotonic()
            if left <= 0:
                raise WaitTimeout(f"bulk operation {id} is {operation.state}, not over, after {timeout}")
            sleep(min(pause, left))
            pause = min(pause * 2, 2.0)

    def pause(self, id: int) -> BulkOperation:
        return self._send(_call.post(_call.path("bulk", id, "pause"), BulkOperation.of, {}, Repeat.SAFE))

    def resume(self, id: int) -> BulkOperation:
        return self._send(_call.post(_call.path("bulk", id, "resume"), BulkOperation.of, None, Repeat.SAFE))

    def stop(self, id: int) -> BulkOperation:
        """Ends it permanently; completed changes remain."""
        return self._send(_call.post(_call.path("bulk", id, "stop"), BulkOperation.of, {}, Repeat.SAFE))

    def tasks(self, id: int, *, limit: int | None = None, cursor: str | None = None) -> Page[Task]:
        """Of an export its result, of others the remaining tasks."""
        target = _call.path("bulk", id, "tasks")
        return self._send(_call.get(target, Page.of(Task.of), limit=limit, cursor=cursor))


class Executors(_Group):
    """Executors: who they are, and what an operator wants of them."""

    def list(self, *, limit: int | None = None, cursor: str | None = None) -> Page[Executor]:
        return self._send(_call.get("/v1/executors", Page.of(Executor.of), limit=limit, cursor=cursor))

    def get(self, name: str) -> Executor:
        return self._send(_call.get(_call.path("executors", name), Executor.of))

    def drain(self, name: str) -> Executor:
        """No new tasks; it finishes its tasks, and ends."""
        return self._wish(name, "drain")

    def quiet(self, name: str) -> Executor:
        """No new tasks until it is resumed."""
        return self._wish(name, "quiet")

    def resume(self, name: str) -> Executor:
        return self._wish(name, "resume")

    def _wish(self, name: str, wish: str) -> Executor:
        target = _call.path("executors", name, wish)
        return self._send(_call.post(target, Executor.of, None, Repeat.SAFE))


def _instants(raw: Any) -> list[int]:
    return [int(run["at_ms"]) for run in raw["items"]]


def _node(fields: Mapping[str, Any]) -> dict[str, Any]:
    node = dict(fields)
    if "task" in node:
        node["task"] = task_fields(node["task"])
    if "compensate" in node and "task" in node["compensate"]:
        node["compensate"] = {**node["compensate"], "task": task_fields(node["compensate"]["task"])}
    return node
