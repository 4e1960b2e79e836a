"""Heartbeats, beside leasing and reporting so that neither delays them: three in the time of a lease. They extend
leases, carry progress and log lines, and report which leases were lost or should stop."""

from __future__ import annotations

import asyncio
from typing import Any

from punctual._worker.state import Held, State, log
from punctual.errors import PunctualError, Refused

IDLE = 10.0
"""An idle worker says this often that it lives, in seconds."""
FAREWELL = 2.0
"""An unavailable server does not delay the end."""
BATCH_MAX = 10_000
_REFUSES_CONTENT = (400, 413)


async def run(state: State) -> None:
    """Until it is cancelled."""
    period = state.options.lease_ms / 1_000 / 3
    following, said_idle = state.now() + period, state.now()
    while True:
        await asyncio.sleep(following - state.now())
        began, leases = state.now(), state.alive()
        if not leases and began - said_idle < min(IDLE, 3 * period):
            following = began + period
            continue
        said_idle = began
        heard = True
        for first in range(0, max(len(leases), 1), BATCH_MAX):
            try:
                heard &= await _beat(state, leases[first : first + BATCH_MAX], period)
            except Exception:
                # An answer of another form: the leases need the next heartbeat all the same.
                log.exception("a heartbeat failed, trying again")
                heard = False
        # After a failure sooner, as the leases run on.
        following = began + (period if heard else period / 4)


async def _beat(state: State, leases: list[Held], patience: float) -> bool:
    """Whether the server received all of it."""
    news = [held.control.take_news() for held in leases]
    try:
        answer = await asyncio.wait_for(state.client.heartbeat(_request(state, leases, news)), patience)
    except Refused as error:
        if error.status not in _REFUSES_CONTENT:
            return _failed(leases, news, error)
        # The same progress and log lines would be refused again, and with them every later heartbeat.
        log.error("progress and log lines of a heartbeat are refused, and dropped: %s", error)
        return False
    except (PunctualError, asyncio.TimeoutError) as error:
        return _failed(leases, news, error)
    state.hear_wish(answer.get("wish"))
    heard = True
    for held, said, unsent in zip(leases, answer["leases"], news):
        if said.get("unavailable"):
            heard = False
            held.control.restore_news(unsent)
        else:
            _hear(state, held, said)
    return heard


def _failed(leases: list[Held], news: list[dict[str, Any]], error: BaseException) -> bool:
    for held, unsent in zip(leases, news):
        held.control.restore_news(unsent)
    log.warning("a heartbeat for %d leases failed, trying again: %s", len(leases), error or "no answer in time")
    return False


def _hear(state: State, held: Held, said: dict[str, Any]) -> None:
    if said["ref"] != held.task.ref:
        # The answer is in the order of the request; otherwise it says nothing about this lease.
        log.error("the heartbeat's answer about %s is about another task", held.task.ref)
    elif said.get("lost"):
        held.leave("lost")
    else:
        held.until = state.now() + state.options.lease_ms / 1_000
        if said.get("cancel_requested"):
            held.control.stop("cancelled")


def _request(state: State, leases: list[Held], news: list[dict[str, Any]]) -> dict[str, Any]:
    beats = [{"ref": held.task.ref, "token": held.task.token, **each} for held, each in zip(leases, news)]
    return {**state.declared(), "queues": sorted(state.queues), "leases": beats}


async def farewell(state: State) -> None:
    """Reports the regular end. Best effort: without it, the worker is found silent."""
    try:
        await asyncio.wait_for(state.client.heartbeat({**_request(state, [], []), "leaving": True}), FAREWELL)
    except (PunctualError, asyncio.TimeoutError) as error:
        log.debug("the farewell was not heard: %s", error)
