"""The worker: leases tasks for its free slots, runs their handlers, extends their leases, reports their outcomes. No
error of a server or a handler ends it; only a stop or an operator's drain does."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import signal
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Optional, Union

from punctual._durations import Duration, to_ms, to_seconds
from punctual._execute import failed, hand_back
from punctual._worker import heartbeat, leasing, reporting
from punctual._worker.pools import AsyncioPool, Pool, Running, ThreadPool
from punctual._worker.processes import ProcessPool
from punctual._worker.state import Held, Options, Report, Slots, State, Worked, host_name
from punctual.app import App
from punctual.errors import ConfigurationError
from punctual.models import LeasedTask

if TYPE_CHECKING:
    from punctual.guard import Guard

log = logging.getLogger("punctual.worker")

LAST_WORDS = 5.0
"""How long the last outcomes may take to be reported, in seconds."""
POOLS = ("threads", "processes", "asyncio")

Queues = Union[str, Iterable[Union[str, tuple[str, int]]], Mapping[str, Optional[int]]]


class Worker:
    """Runs an application's handlers for tasks of one or more queues.

    ``Worker(app).run()`` works until SIGTERM or SIGINT; ``with Worker(app).running():`` works beside a test.
    """

    def __init__(
        self,
        app: App,
        *,
        queues: Queues | None = None,
        concurrency: int | None = None,
        pool: str = "threads",
        app_name: str | None = None,
        lease: Duration = 30,
        wait: Duration = 20,
        grace: Duration = 30,
        executor: str | None = None,
        version: str | None = None,
        host: str | None = None,
        labels: Mapping[str, str] | None = None,
        executor_concurrency: int | None = None,
        only_own_kinds: bool = False,
        guard: Guard | None = None,
    ):
        """``queues``: those that the application's tasks name unless given; ``("mail", 4)`` bounds one of them.

        ``concurrency``: tasks that run at the same time; 16, or the number of processors for processes.
        ``app_name``: ``module:app``, by which processes import the application.
        ``lease``: how long a task stays this worker's without a heartbeat. ``grace``: how long running handlers may
        take after a stop. ``executor``: the name in histories. ``executor_concurrency``: the most tasks that all
        workers of this name hold at one time. ``only_own_kinds``: tasks of other kinds stay for other workers.
        """
        self.app = app
        self._queues = _bounds(app.queues if queues is None else queues)
        concurrency = concurrency or ((os.cpu_count() or 1) if pool == "processes" else 16)
        self._pool_kind, self._app_name, self._guard = pool, app_name, guard
        self.options = Options(
            executor=executor or f"worker-{os.getpid()}-{secrets.token_hex(2)}",
            concurrency=concurrency,
            lease_ms=to_ms(lease),
            wait_ms=to_ms(wait),
            grace=to_seconds(grace),
            version=version or app.version,
            host=host or host_name(),
            executor_concurrency=executor_concurrency,
            labels=labels or {},
            only_own_kinds=only_own_kinds,
        )
        self._check()
        self._state: State | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_stopped = threading.Event()
        self._lock = threading.Lock()
        self._attempts: set[asyncio.Task[None]] = set()

    def _check(self) -> None:
        options = self.options
        if not self._queues:
            raise ConfigurationError("a worker needs at least one queue")
        if not self.app.tasks and self.app.any is None:
            raise ConfigurationError("a worker needs at least one handler: @app.task")
        if options.only_own_kinds and not self.app.kinds:
            raise ConfigurationError("a worker with a handler for any kind takes tasks of any kind")
        if options.concurrency < 1 or any(most is not None and most < 1 for most in self._queues.values()):
            raise ConfigurationError("concurrency must be at least 1")
        if not 100 <= options.lease_ms <= 86_400_000:
            raise ConfigurationError("a lease lasts from 100 ms to a day")
        if options.wait_ms > 60_000:
            raise ConfigurationError("a worker waits for tasks at most 60 s at a time")
        if self._pool_kind not in POOLS:
            raise ConfigurationError(f"pool {self._pool_kind!r}: must be one of {', '.join(POOLS)}")
        if self._pool_kind == "processes" and not self._app_name:
            raise ConfigurationError("processes import the application by its name: app_name='module:app'")

    @property
    def name(self) -> str:
        """In the history of tasks."""
        return self.options.executor

    def run(self) -> Worked:
        """Works until SIGTERM, SIGINT, ``stop`` or a drain: then no new leases, running handlers get the grace
        period, and the rest is handed back."""
        return asyncio.run(self._run_with_signals())

    def stop(self) -> None:
        """Ends ``run`` in order. From any thread."""
        with self._lock:
            self._is_stopped.set()
            if self._loop is not None and self._state is not None:
                with suppress(RuntimeError):
                    self._loop.call_soon_threadsafe(self._state.shutdown.set)

    @contextmanager
    def running(self) -> Iterator[Worker]:
        """Works in a thread of its own, until the end of the block."""
        failure: list[BaseException] = []

        def work() -> None:
            try:
                asyncio.run(self.serve())
            except BaseException as error:
                failure.append(error)

        thread = threading.Thread(target=work, name="punctual-worker", daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self.stop()
            thread.join()
        if failure:
            raise failure[0]

    async def _run_with_signals(self) -> Worked:
        loop = asyncio.get_running_loop()
        caught = []
        for number in (signal.SIGTERM, signal.SIGINT):
            # Not in this thread, or not on this system: the caller stops it.
            with suppress(NotImplementedError, RuntimeError, ValueError):
                loop.add_signal_handler(number, self.stop)
                caught.append(number)
        try:
            return await self.serve()
        finally:
            for number in caught:
                loop.remove_signal_handler(number)

    async def serve(self) -> Worked:
        """``run`` in an event loop of the caller's, without signals. Cancel it to end at once: what runs then is
        retried when its lease ends."""
        client = self.app.new_async_client()
        slots = Slots(self.options.concurrency, self._queues)
        state = State(client, self.options, self._queues, self.app.kinds, slots)
        with self._lock:
            self._state, self._loop = state, asyncio.get_running_loop()
            if self._is_stopped.is_set():
                state.shutdown.set()
        self._pool = self._make_pool()
        services = [
            asyncio.ensure_future(heartbeat.run(state)),
            asyncio.ensure_future(_stop_on_shutdown(state)),
        ]
        reporter = asyncio.ensure_future(reporting.run(state))
        log.info("%s works: queues %s", self.name, ", ".join(self._queues))
        try:
            # Without reports no work: it ends then, with the error.
            reporter.add_done_callback(lambda _: state.stop.set())
            await leasing.run(state, lambda tasks: self._start(state, tasks))
            if reporter.done():
                reporter.result()
            await self._wind_down(state, reporter)
            services[0].cancel()
            await heartbeat.farewell(state)
        finally:
            for service in (*services, reporter):
                service.cancel()
            await asyncio.gather(*services, reporter, return_exceptions=True)
            self._pool.close()
            await client.close()
            if self._guard is not None:
                await self._guard.close()
        log.info("%s has ended: %s", self.name, state.worked)
        return state.worked

    def _make_pool(self) -> Pool:
        if self._pool_kind == "threads":
            return ThreadPool(self.app, self.options.concurrency)
        if self._pool_kind == "asyncio":
            return AsyncioPool(self.app, self.options.concurrency)
        return ProcessPool(str(self._app_name))

    async def _start(self, state: State, tasks: list[LeasedTask]) -> None:
        """Begins what the guard grants; a task that another executor runs is left to its lease."""
        if self._guard is not None:
            granted = await asyncio.gather(*(_may_run(self._guard, task) for task in tasks))
            tasks = [task for task, is_granted in zip(tasks, granted) if is_granted]
        for task in tasks:
            held = state.hold(task)
            if state.slots.take(task.queue):
                attempt = asyncio.ensure_future(self._attempt(state, held))
                self._attempts.add(attempt)
                attempt.add_done_callback(self._attempts.discard)
            else:
                # More than was requested.
                state.reports.put_nowait(Report(hand_back(task), held, handed_back=True))

    async def _attempt(self, state: State, held: Held) -> None:
        """Runs the handler until it ends, its time is over, its lease is lost, or the worker must go. Exactly one
        report follows, or none if the lease was lost."""
        task = held.task
        try:
            running = self._pool.begin(task, held.control)
        except Exception as error:
            state.slots.release(task.queue)
            return state.reports.put_nowait(Report(failed(task, f"the handler could not begin: {error}"), held))
        running.ended.add_done_callback(lambda _: state.slots.release(task.queue))
        limit = None if task.timeout_ms is None else task.timeout_ms / 1_000
        ends: set[asyncio.Future[Any]] = {running.outcome, running.ended, held.gone}
        await asyncio.wait(ends, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
        report = self._report(held, running)
        if report is None:
            state.held.discard(held)
            state.worked.lost += 1
            log.warning("the lease of %s was lost while it ran", task.ref)
            return None
        report.outcome.log.extend(held.control.take_news().get("log", ()))
        return state.reports.put_nowait(report)

    def _report(self, held: Held, running: Running) -> Report | None:
        task = held.task
        if held.is_lost:
            _drop(held, running, "lost")
            return None
        if running.outcome.done():
            return Report(running.outcome.result(), held)
        if held.gone.done():
            _drop(held, running, "shutdown")
            return Report(hand_back(task), held, handed_back=True)
        if running.ended.done():
            return Report(failed(task, "the handler ended without an outcome"), held)
        _drop(held, running, "timeout")
        return Report(failed(task, f"ran longer than its timeout of {(task.timeout_ms or 0) / 1_000:g} s"), held)

    async def _wind_down(self, state: State, reporter: asyncio.Future[None]) -> None:
        """Lets handlers finish, hands back what is left, and reports all of it."""
        log.info("%s takes no new tasks; %d still run", self.name, len(self._attempts))
        if self._attempts and not state.shutdown.is_set():
            # Drained: there is time.
            finished = asyncio.ensure_future(_all_of(self._attempts))
            shutdown = asyncio.ensure_future(state.shutdown.wait())
            await asyncio.wait({finished, shutdown}, return_when=asyncio.FIRST_COMPLETED)
            for each in (finished, shutdown):
                each.cancel()
        if self._attempts:
            await asyncio.wait(set(self._attempts), timeout=self.options.grace)
        for held in list(state.held):
            held.leave("shutdown")
        await _all_of(self._attempts)
        state.reports.put_nowait(None)
        await asyncio.wait({reporter}, timeout=LAST_WORDS)
        if not reporter.done():
            log.error("the last outcomes were not all reported; tasks without one run again")
        state.worked.unreported += len(state.held)


async def _all_of(tasks: set[asyncio.Task[None]]) -> None:
    while tasks:
        await asyncio.wait(set(tasks))


async def _stop_on_shutdown(state: State) -> None:
    await state.shutdown.wait()
    state.stop.set()


def _drop(held: Held, running: Running, why: str) -> None:
    held.control.stop(why)
    running.drop()


async def _may_run(guard: Guard, task: LeasedTask) -> bool:
    """A guard that does not answer does not keep the task from running: the fence protects its outcome."""
    try:
        return await guard.take(task)
    except Exception as error:
        log.warning("the guard does not answer about %s, the fence alone decides: %s", task.ref, error)
        return True


def _bounds(queues: Queues) -> dict[str, int | None]:
    if isinstance(queues, str):
        return {queues: None}
    if isinstance(queues, Mapping):
        return dict(queues)
    return dict((queue, None) if isinstance(queue, str) else queue for queue in queues)
