"""An engine whose time a test moves. The server keeps the machine's clock: instead of the clock, due tasks are moved.
``advance`` goes from one instant to the next at which a task, a retry or a schedule is due, makes it due now
(``run-now``), and runs its handler. What follows only from the server's own clock does not move: deadlines, timeouts,
retention, and the instants in histories."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from punctual._durations import Duration, from_ms, to_ms
from punctual._execute import execute
from punctual.app import App
from punctual.context import Control
from punctual.errors import NotFound, PunctualError, Refused
from punctual.models import Schedule, Task
from punctual.testing.server import Server

STEPS_MAX = 100_000
"""Attempts at one instant; more is a handler that never lets go."""
SETTLED_AFTER = 30.0
"""How long the server may take for what it does by itself, in seconds."""
LEASE_MS = 3_600_000
WORKFLOW_WAIT_MS = 300
"""The server begins the next nodes of a workflow a moment after an outcome."""
_WAITING = ("scheduled", "retrying")


class Engine(Server):
    """``with Engine() as engine:``, ``engine.work(app)``, then ``engine.advance("7d")``."""

    def __init__(self, **options: Any):
        super().__init__(**options)
        self._apps: list[App] = []
        self._queues: dict[str, App] = {}
        self._moved_at = [0]
        """By the machine's clock; and by how much time was moved since then, in all."""
        self._moved_by = [0]
        self._runs: dict[str, int] = {}
        """Of each schedule the instant up to which its runs were made."""

    @property
    def now_ms(self) -> int:
        """The engine's time, epoch milliseconds: the machine's, and what it was moved by."""
        return _machine_ms() + self._moved_by[-1]

    @property
    def now(self) -> datetime:
        return from_ms(self.now_ms)

    def work(self, app: App, *, queues: Iterable[str] | None = None) -> Engine:
        """Runs the tasks of an application, in the thread of the test, whenever time is moved. The application
        inserts into this engine from then on."""
        app.use(self.client)
        self._apps.append(app)
        for queue in app.queues if queues is None else queues:
            self._queues[queue] = app
        return self

    def advance(self, by: Duration) -> int:
        """Moves time, and stops at each instant at which something is due. Answers how many attempts ran."""
        target = self.now_ms + to_ms(by)
        ran = self.run_due()
        while True:
            due_at = self._next_due_ms()
            if due_at is None or due_at > target:
                self._move_to(target)
                return ran + self._fire()
            self._move_to(due_at)
            ran += self._fire()

    def run_due(self) -> int:
        """Runs what is due, without moving time. Answers how many attempts ran."""
        ran = 0
        while True:
            progressed = self._run_ready()
            ran += progressed
            if ran > STEPS_MAX:
                raise PunctualError(f"{ran} attempts at one instant: does a handler snooze for no time at all?")
            if not progressed:
                return ran

    def _move_to(self, instant_ms: int) -> None:
        by = instant_ms - _machine_ms()
        if by > self._moved_by[-1]:
            self._moved_at.append(_machine_ms())
            self._moved_by.append(by)

    def _due_ms(self, task: Task) -> int:
        """In the engine's time: its instant was set when time had been moved by less than now."""
        return task.execute_at_ms + self._moved_until(task.updated_at_ms)

    def _moved_until(self, machine_ms: int) -> int:
        return self._moved_by[bisect_right(self._moved_at, machine_ms) - 1]

    def _waiting(self) -> Iterator[Task]:
        for state in _WAITING:
            yield from self.client.iterate(state=state, limit=1_000)

    def _next_due_ms(self) -> int | None:
        instants = [self._due_ms(task) for task in self._waiting()]
        instants += [instant for schedule in self._schedules() for instant in self._instants(schedule)[:1]]
        return min(instants, default=None)

    def _fire(self) -> int:
        """Makes due what is due by now, and runs it."""
        now_ms = self.now_ms
        due = [task.ref for task in self._waiting() if self._due_ms(task) <= now_ms]
        for schedule in self._schedules():
            due += self._make_runs(schedule, now_ms)
        for ref in due:
            try:
                self.client.run_now(ref)
            except Refused:
                # It fired by itself, or was withdrawn.
                continue
        self._wait_until_fired(due)
        return self.run_due()

    def _wait_until_fired(self, refs: list[str]) -> None:
        until = time.monotonic() + SETTLED_AFTER
        for ref in refs:
            while self._is_waiting(ref):
                if time.monotonic() > until:
                    raise PunctualError(f"task {ref} did not fire: {self.client.why(ref)}")
                time.sleep(0.002)

    def _is_waiting(self, ref: str) -> bool:
        try:
            return self.client.get(ref).state in _WAITING
        except NotFound:
            return False

    def _schedules(self) -> list[Schedule]:
        return [each for each in self.client.schedules.list(limit=1_000) if each.enabled and not each.pause]

    def _instants(self, schedule: Schedule) -> list[int]:
        """Those whose runs were not made yet."""
        stored_ms = int(schedule.raw["updated_at_ms"])
        made = self._runs.setdefault(schedule.name, stored_ms + self._moved_until(stored_ms))
        coming = self.client.schedules.next_runs(schedule.name, 1_000)
        return [instant for instant in coming if instant > made]

    def _make_runs(self, schedule: Schedule, now_ms: int) -> list[str]:
        """Makes the runs up to now; those that the server made ahead are tasks already."""
        refs = []
        due = [instant for instant in self._instants(schedule) if instant <= now_ms]
        ahead = {run.at_ms for run in self.client.schedules.runs(schedule.name, limit=1_000)} if due else set()
        for instant in due:
            self._runs[schedule.name] = instant
            if instant not in ahead:
                run = self.client.schedules.run(schedule.name)
                refs += [run.task_ref] if run.task_ref else []
        return refs

    def _run_ready(self) -> int:
        """One call to the server, and the handlers of what it gave."""
        if not self._queues:
            return 0
        is_in_workflow = bool(self.client.workflows.list(state="running", limit=1).items)
        request = {
            "queues": [{"name": queue} for queue in sorted(self._queues)][:16],
            "max": 100,
            "lease_ms": LEASE_MS,
            "wait_ms": WORKFLOW_WAIT_MS if is_in_workflow else 0,
            "executor": "test",
            **({"version": self._apps[0].version} if self._apps[0].version else {}),
        }
        tasks = self.client.lease(request).tasks
        outcomes = []
        for task in tasks:
            control = Control()
            outcome = execute(self._queues[task.queue], task, control)
            outcome.log.extend(control.take_news().get("log", ()))
            outcomes.append(outcome)
        if outcomes:
            self.client.report([*outcomes], executor="test")
        return len(outcomes)


def _machine_ms() -> int:
    return time.time_ns() // 1_000_000
