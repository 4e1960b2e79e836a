"""The calls about queues, schedules, workflows, bulk operations and executors: each group is an attribute of the
client (``client.queues.pause("mail")``)."""

from __future__ import annotations

import time
from asyncio import sleep
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from punctual import _call
from punctual._async.transport import AsyncTransport
from punctual._call import Call, Repeat, as_is, if_match, without_none
from punctual._durations import Duration, Instant, instant_fields, instant_text, to_ms, to_seconds
from punctual._json import encode
from punctual._new_task import NewTask, task_fields
from punctual.errors import WaitTimeout
from punctual.models import BulkOperation, Executor, Page, Queue, Schedule, ScheduleRun, Task, Workflow

T = TypeVar("T")


class _Group:
    def __init__(self, transport: AsyncTransport):
        self._transport = transport

    async def _send(self, call: Call[T]) -> T:
        return await self._transport.send(call)


class AsyncQueues(_Group):
    """Queues: settings, contents, pause."""

    async def list(self, *, prefix: str | None = None, limit: int | None = None) -> Page[Queue]:
        """Those that have tasks or settings."""
        return await self._send(_call.get("/v1/queues", Page.of(Queue.of), prefix=prefix, limit=limit))

    async def get(self, queue: str) -> Queue:
        return await self._send(_call.get(_call.path("queues", queue), Queue.of))

    async def put(self, queue: str, settings: Mapping[str, Any], *, revision: int | None = None) -> Queue:
        """Sets all settings: omitted ones get their default. With a revision, only if it is the present one."""
        return await self._change("PUT", queue, settings, revision)

    async def patch(self, queue: str, *, revision: int | None = None, **settings: Any) -> Queue:
        """Changes the settings that are named: ``patch("mail", concurrency=10)``; ``None``: the default."""
        return await self._change("PATCH", queue, settings, revision)

    async def _change(self, method: str, queue: str, settings: Mapping[str, Any], revision: int | None) -> Queue:
        repeat = Repeat.SAFE if revision is None else Repeat.IF_NOT_DONE
        target, body = _call.path("queues", queue), encode(dict(settings))
        return await self._send(Call(method, target, Queue.of, repeat, body=body, headers=if_match(revision)))

    async def pause(self, queue: str, *, reason: str | None = None) -> Queue:
        """After this returns, no task of the queue starts at any engine."""
        body = without_none(reason=reason)
        return await self._send(_call.post(_call.path("queues", queue, "pause"), Queue.of, body, Repeat.SAFE))

    async def resume(self, queue: str) -> Queue:
        return await self._send(_call.post(_call.path("queues", queue, "resume"), Queue.of, None, Repeat.SAFE))

    async def reset(self, queue: str) -> Queue:
        """All settings get their defaults."""
        return await self._send(Call("DELETE", _call.path("queues", queue), Queue.of, Repeat.SAFE))

    async def stats(self, queue: str) -> dict[str, Any]:
        """Rates and lateness in the last hour, minute by minute."""
        return await self._send(_call.get(_call.path("queues", queue, "stats"), dict))


class AsyncSchedules(_Group):
    """Schedules: tasks that are made again and again."""

    async def list(self, *, limit: int | None = None, cursor: str | None = None) -> Page[Schedule]:
        return await self._send(_call.get("/v1/schedules", Page.of(Schedule.of), limit=limit, cursor=cursor))

    async def get(self, name: str) -> Schedule:
        return await self._send(_call.get(_call.path("schedules", name), Schedule.of))

    async def put(
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

        ``await client.schedules.put("digest", digest.task(), cron="0 9 * * MON-FRI", time_zone="Europe/Berlin")``
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
        return await self._send(Call("PUT", target, Schedule.of, repeat, body=encode(body), headers=headers))

    async def patch(self, name: str, **fields: Any) -> Schedule:
        """Changes what is named, by the fields of the API."""
        target = _call.path("schedules", name)
        return await self._send(Call("PATCH", target, Schedule.of, Repeat.SAFE, body=encode(fields)))

    async def delete(self, name: str) -> Schedule:
        """Revokes runs that were made ahead, and deletes the schedule."""
        return await self._send(Call("DELETE", _call.path("schedules", name), Schedule.of))

    async def pause(self, name: str, *, reason: str | None = None) -> Schedule:
        """After this returns, no further run fires."""
        body = without_none(reason=reason)
        return await self._send(_call.post(_call.path("schedules", name, "pause"), Schedule.of, body, Repeat.SAFE))

    async def resume(self, name: str) -> Schedule:
        target = _call.path("schedules", name, "resume")
        return await self._send(_call.post(target, Schedule.of, None, Repeat.SAFE))

    async def run(self, name: str) -> ScheduleRun:
        """Makes a run now, beside the others."""
        return await self._send(_call.post(_call.path("schedules", name, "run"), ScheduleRun.of))

    async def next_runs(self, name: str, count: int = 10) -> Sequence[int]:
        """The next instants, epoch milliseconds."""
        return await self._send(_call.get(_call.path("schedules", name, "next"), _instants, n=count))

    async def runs(self, name: str, *, limit: int | None = None) -> Page[ScheduleRun]:
        """What became of its instants, the latest first."""
        target = _call.path("schedules", name, "runs")
        return await self._send(_call.get(target, Page.of(ScheduleRun.of), limit=limit))

    async def backfill(self, name: str, start: Instant, end: Instant) -> dict[str, Any]:
        """Makes the runs of a past range."""
        body = {"from": instant_text(start), "to": instant_text(end)}
        target = _call.path("schedules", name, "backfill")
        return await self._send(_call.post(target, dict, body, Repeat.SAFE))


class AsyncWorkflows(_Group):
    """Workflows: tasks that follow each other."""

    async def create(
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
        return await self._begin("/v1/workflows", body)

    async def rerun(self, ref: str, *, input: Any = None) -> Workflow:
        """Begins a copy; with the same input, unless another is given."""
        return await self._begin(_call.path("workflows", ref, "rerun"), without_none(input=input))

    async def _begin(self, path: str, body: Mapping[str, Any]) -> Workflow:
        call = Call("POST", path, Workflow.of, Repeat.SAFE, body=encode(body), headers=_call.new_key())
        return await self._send(call)

    async def get(self, ref: str) -> Workflow:
        return await self._send(_call.get(_call.path("workflows", ref), Workflow.of))

    async def list(
        self,
        *,
        name: str | None = None,
        state: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> Page[Workflow]:
        """Newest first, without their nodes."""
        query = {"name": name, "state": state, "limit": limit, "cursor": cursor}
        return await self._send(_call.get("/v1/workflows", Page.of(Workflow.of), **query))

    async def wait(self, ref: str, *, timeout: Duration = 30) -> Workflow:
        """Waits until a workflow is over; ``WaitTimeout`` after ``timeout``."""
        until, pause = time.monotonic() + to_seconds(timeout), 0.02
        while True:
            workflow = await self.get(ref)
            if workflow.is_finished:
                return workflow
            left = until - time.monotonic()
            if left <= 0:
                raise WaitTimeout(f"workflow {ref} is {workflow.state}, not over, after {timeout}")
            await sleep(min(pause, left))
            pause = min(pause * 2, 2.0)

    async def cancel(self, ref: str, *, reason: str | None = None) -> Workflow:
        """No further node begins; completed work is undone."""
        body = without_none(reason=reason)
        return await self._send(_call.post(_call.path("workflows", ref, "cancel"), Workflow.of, body))

    async def retry(self, ref: str) -> Workflow:
        """Continues from failed nodes."""
        return await self._send(_call.post(_call.path("workflows", ref, "retry"), Workflow.of))

    async def skip(self, ref: str, node: str) -> Workflow:
        """Marks a node as done."""
        return await self._send(_call.post(_call.path("workflows", ref, "nodes", node, "skip"), Workflow.of))

    async def graph(self, ref: str, *, format: str = "mermaid") -> Any:
        """A text that Mermaid or Graphviz (``dot``) draw, or nodes and edges (``json``)."""
        return await self._send(_call.get(_call.path("workflows", ref, "graph"), as_is, format=format))


class AsyncBulk(_Group):
    """Bulk operations: preview, confirm, watch."""

    async def preview(
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
        return await self._send(_call.post("/v1/bulk", BulkOperation.of, body))

    async def confirm(self, operation: BulkOperation) -> BulkOperation:
        """Starts a previewed operation, if nothing has changed it since."""
        target = _call.path("bulk", operation.id, "confirm")
        headers = if_match(f"{operation.id}.{operation.revision}")
        return await self._send(Call("POST", target, BulkOperation.of, Repeat.SAFE, headers=headers))

    async def get(self, id: int) -> BulkOperation:
        return await self._send(_call.get(_call.path("bulk", id), BulkOperation.of))

    async def list(self, *, limit: int | None = None, cursor: str | None = None) -> Page[BulkOperation]:
        """The newest first."""
        return await self._send(_call.get("/v1/bulk", Page.of(BulkOperation.of), limit=limit, cursor=cursor))

    async def wait(self, id: int, *, timeout: Duration = 60) -> BulkOperation:
        """Waits until an operation has ended; ``WaitTimeout`` after ``timeout``."""
        until, pause = time.monotonic() + to_seconds(timeout), 0.02
        while True:
            operation = await self.get(id)
            if operation.is_finished:
                return operation
            left = until - time.monotonic()
            if left <= 0:
                raise WaitTimeout(f"bulk operation {id} is {operation.state}, not over, after {timeout}")
            await sleep(min(pause, left))
            pause = min(pause * 2, 2.0)

    async def pause(self, id: int) -> BulkOperation:
        return await self._send(_call.post(_call.path("bulk", id, "pause"), BulkOperation.of, {}, Repeat.SAFE))

    async def resume(self, id: int) -> BulkOperation:
        return await self._send(_call.post(_call.path("bulk", id, "resume"), BulkOperation.of, None, Repeat.SAFE))

    async def stop(self, id: int) -> BulkOperation:
        """Ends it permanently; completed changes remain."""
        return await self._send(_call.post(_call.path("bulk", id, "stop"), BulkOperation.of, {}, Repeat.SAFE))

    async def tasks(self, id: int, *, limit: int | None = None, cursor: str | None = None) -> Page[Task]:
        """Of an export its result, of others the remaining tasks."""
        target = _call.path("bulk", id, "tasks")
        return await self._send(_call.get(target, Page.of(Task.of), limit=limit, cursor=cursor))


class AsyncExecutors(_Group):
    """Executors: who they are, and what an operator wants of them."""

    async def list(self, *, limit: int | None = None, cursor: str | None = None) -> Page[Executor]:
        return await self._send(_call.get("/v1/executors", Page.of(Executor.of), limit=limit, cursor=cursor))

    async def get(self, name: str) -> Executor:
        return await self._send(_call.get(_call.path("executors", name), Executor.of))

    async def drain(self, name: str) -> Executor:
        """No new tasks; it finishes its tasks, and ends."""
        return await self._wish(name, "drain")

    async def quiet(self, name: str) -> Executor:
        """No new tasks until it is resumed."""
        return await self._wish(name, "quiet")

    async def resume(self, name: str) -> Executor:
        return await self._wish(name, "resume")

    async def _wish(self, name: str, wish: str) -> Executor:
        target = _call.path("executors", name, wish)
        return await self._send(_call.post(target, Executor.of, None, Repeat.SAFE))


def _instants(raw: Any) -> list[int]:
    return [int(run["at_ms"]) for run in raw["items"]]


def _node(fields: Mapping[str, Any]) -> dict[str, Any]:
    node = dict(fields)
    if "task" in node:
        node["task"] = task_fields(node["task"])
    if "compensate" in node and "task" in node["compensate"]:
        node["compensate"] = {**node["compensate"], "task": task_fields(node["compensate"]["task"])}
    return node
