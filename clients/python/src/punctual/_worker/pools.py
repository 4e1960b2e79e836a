"""What runs handlers: threads, processes or an event loop. None of them knows the server. ``Running.drop`` ends a
handler as far as the pool can: a coroutine is cancelled and a process killed, but a thread is only asked."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, Callable, Protocol

from punctual._background import is_running, run_in_background
from punctual._execute import execute, execute_async
from punctual.app import App
from punctual.context import Control
from punctual.models import LeasedTask, Outcome


class Running:
    """A handler that runs. Both futures belong to the worker's loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, drop: Callable[[], Any]):
        self.outcome: asyncio.Future[Outcome] = loop.create_future()
        self.ended: asyncio.Future[None] = loop.create_future()
        """Its slot is free: after the outcome, or after it was dropped."""
        self.drop = drop
        self._loop = loop

    def finish(self, outcome: Outcome | None) -> None:
        """From any thread; no outcome: it was dropped."""
        try:
            self._loop.call_soon_threadsafe(self._set, outcome)
        except RuntimeError:
            # The worker is gone; the lease ends by itself.
            return

    def _set(self, outcome: Outcome | None) -> None:
        if outcome is not None and not self.outcome.done():
            self.outcome.set_result(outcome)
        if not self.ended.done():
            self.ended.set_result(None)


class Pool(Protocol):
    def begin(self, task: LeasedTask, control: Control) -> Running:
        """Called in the worker's loop, for a free slot."""

    def close(self) -> None:
        """Ends what still runs, as far as it can."""


class ThreadPool:
    """Daemon threads, which a handler that never ends does not keep from exiting."""

    def __init__(self, app: App, concurrency: int):
        self._app = app
        self._work: SimpleQueue[tuple[LeasedTask, Control, Running] | None] = SimpleQueue()
        self._most, self._threads, self._busy = concurrency, 0, 0
        self._lock = threading.Lock()

    def begin(self, task: LeasedTask, control: Control) -> Running:
        running = Running(asyncio.get_running_loop(), lambda: None)
        with self._lock:
            self._busy += 1
            needs_thread = self._busy > self._threads
            self._threads += needs_thread
        if needs_thread:
            threading.Thread(target=self._run, name="punctual-handler", daemon=True).start()
        self._work.put((task, control, running))
        return running

    def _run(self) -> None:
        while True:
            work = self._work.get()
            if work is None:
                return
            task, control, running = work
            outcome = execute(self._app, task, control)
            with self._lock:
                self._busy -= 1
            running.finish(outcome)

    def close(self) -> None:
        for _ in range(self._threads):
            self._work.put(None)
        if is_running():
            # A handler that blocks that loop does not keep the worker from ending.
            with suppress(FutureTimeoutError):
                run_in_background(self._app.aclose(), timeout=1)


class AsyncioPool:
    """An event loop in a thread of its own: a handler that blocks it delays other handlers, but no heartbeat."""

    def __init__(self, app: App, concurrency: int):
        self._app = app
        self._loop = asyncio.new_event_loop()
        # For handlers that are not asynchronous.
        self._loop.set_default_executor(ThreadPoolExecutor(concurrency, "punctual-handler"))
        self._thread = threading.Thread(target=self._loop.run_forever, name="punctual-handlers", daemon=True)
        self._thread.start()

    def begin(self, task: LeasedTask, control: Control) -> Running:
        async def run() -> None:
            try:
                running.finish(await execute_async(self._app, task, control))
            finally:
                running.finish(None)

        running = Running(asyncio.get_running_loop(), lambda: None)
        future = asyncio.run_coroutine_threadsafe(run(), self._loop)
        running.drop = future.cancel
        return running

    def close(self) -> None:
        async def end() -> None:
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for each in others:
                each.cancel()
            await asyncio.wait(others, timeout=1) if others else None
            await self._app.aclose()

        asyncio.run_coroutine_threadsafe(end(), self._loop).add_done_callback(
            lambda _: self._loop.call_soon_threadsafe(self._loop.stop)
        )
        self._thread.join(5)
        if not self._thread.is_alive():
            self._loop.close()
