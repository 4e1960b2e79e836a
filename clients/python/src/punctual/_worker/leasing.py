"""Leasing: one long poll at a time, for all queues that have free slots."""

from __future__ import annotations

import asyncio
from typing import Any, Callable

from punctual._call import Backoff
from punctual._wire import LeaseAnswer
from punctual._worker.state import State, log
from punctual.errors import PunctualError
from punctual.models import LeasedTask

LEASE_QUEUES_MAX = 16
EMPTY_PAUSE = 0.05
"""The pause after an immediate empty answer to a long poll, in seconds."""
SHORT_WAIT_MS = 500
"""The longest wait of a call that omits a queue: a longer one would delay that queue's turn."""

Start = Callable[[list[LeasedTask]], Any]


async def run(state: State, start: Start) -> None:
    """Until the worker stops. Cutting a running poll is the price of a prompt stop: tasks that the server leases just
    then run again when their lease ends."""
    polling = asyncio.ensure_future(_poll(state, start))
    stopping = asyncio.ensure_future(state.stop.wait())
    try:
        await asyncio.wait({polling, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if polling.done():
            polling.result()
    finally:
        for each in (polling, stopping):
            each.cancel()
        await asyncio.gather(polling, stopping, return_exceptions=True)


async def _poll(state: State, start: Start) -> None:
    backoff = Backoff(0.1, 10)
    turn = list(state.queues)
    while not state.stop.is_set():
        free = await state.slots.of(turn[:LEASE_QUEUES_MAX])
        began = state.now()
        try:
            answer = await _ask(state, free)
        except Exception as error:
            wait = backoff.next()
            is_known = isinstance(error, PunctualError)
            log.warning("cannot lease, trying again in %.1f s: %s", wait, error, exc_info=not is_known)
            await asyncio.sleep(wait)
            continue
        backoff.reset()
        state.hear_wish(answer.wish)
        if answer.tasks:
            await start(answer.tasks)
        else:
            await asyncio.sleep(max(0.0, EMPTY_PAUSE - (state.now() - began)))
        # The queues that were omitted are next.
        turn = turn[LEASE_QUEUES_MAX:] + turn[:LEASE_QUEUES_MAX]


async def _ask(state: State, free: dict[str, int]) -> LeaseAnswer:
    options = state.options
    most = min(max(free.values()) if len(free) == 1 else options.concurrency, sum(free.values()))
    wait_ms = options.wait_ms if len(free) == len(state.queues) else min(options.wait_ms, SHORT_WAIT_MS)
    request = {**state.declared(), "max": most, "wait_ms": wait_ms, "lease_ms": options.lease_ms}
    if options.executor_concurrency is not None:
        request["concurrency"] = options.executor_concurrency
    if options.only_own_kinds:
        request["only_kinds"] = True
    if len(state.queues) == 1:
        return await state.client.lease(request, queue=next(iter(free)))
    request["queues"] = [{"name": name, "max": count} for name, count in free.items()]
    return await state.client.lease(request)
