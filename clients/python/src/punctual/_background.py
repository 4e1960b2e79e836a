"""One event loop in a thread of its own, for ``async`` handlers of workers that run threads: what such handlers keep
open (connections, pools) belongs to one loop, and is used again by the next attempt."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable
from typing import Any

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None
_process = 0


def run_in_background(awaitable: Awaitable[Any], timeout: float | None = None) -> Any:
    """Waits here for what runs there; for so many seconds at the most."""

    async def run() -> Any:
        return await awaitable

    return asyncio.run_coroutine_threadsafe(run(), _running_loop()).result(timeout)


def is_running() -> bool:
    """Whether any handler has used it."""
    return _loop is not None and _process == os.getpid()


def _running_loop() -> asyncio.AbstractEventLoop:
    global _loop, _process
    with _lock:
        # A forked process has the loop, and not its thread.
        if _loop is None or _process != os.getpid():
            _loop, _process = asyncio.new_event_loop(), os.getpid()
            threading.Thread(target=_loop.run_forever, name="punctual-async", daemon=True).start()
        return _loop
