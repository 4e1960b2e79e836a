"""Reporting: gathers outcomes briefly and sends them together. No outcome is dropped while it can still count: the
server may be unavailable for longer than a lease, and accept it nevertheless afterwards."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from punctual._call import Backoff
from punctual._execute import STATUS_MSG_MAX_CHARS
from punctual._worker.state import Report, State, log
from punctual.errors import Refused

REPORT_MAX = 500
HOPELESS_AFTER_LEASES = 10
"""A lease that ended this many lease times ago without a word from the server is hopeless."""
MARK = "the server refused the outcome: "
_COUNTERS = {"succeeded": "succeeded", "failed": "failed", "snooze": "snoozed", "reject": "rejected"}


async def run(state: State) -> None:
    """Until ``None`` comes and all is delivered. An outcome that the server could not accept is sent again
    separately: the others do not wait for it."""
    backoff = Backoff(0.05, 2)
    left: list[Report] = []
    again_at, is_open = state.now(), True
    while is_open or left:
        batch: list[Report] = []
        if is_open:
            first = await _next(state, again_at - state.now() if left else None)
            is_open = first is not _END
            if isinstance(first, Report):
                batch.append(first)
                is_open = await _gather(state, batch)
        if not batch and left:
            await asyncio.sleep(again_at - state.now())
            batch, left = left[:REPORT_MAX], left[REPORT_MAX:]
        unavailable = await _deliver(state, batch)
        if unavailable:
            again_at = state.now() + backoff.next()
            left.extend(unavailable)
        elif not left:
            backoff.reset()


_END = object()


async def _next(state: State, patience: float | None) -> Any:
    """The next report; ``_END`` if none will come; ``None`` when the patience is over."""
    try:
        report = await asyncio.wait_for(state.reports.get(), patience)
    except asyncio.TimeoutError:
        return None
    return _END if report is None else report


async def _gather(state: State, batch: list[Report]) -> bool:
    """Adds what comes in a moment. Returns whether more may come."""
    await asyncio.sleep(state.options.gather)
    while len(batch) < REPORT_MAX and not state.reports.empty():
        report = state.reports.get_nowait()
        if report is None:
            return False
        batch.append(report)
    return True


async def _deliver(state: State, batch: list[Report]) -> list[Report]:
    """Sends until each outcome has its receipt, is hopeless, or cannot be accepted now. Returns the last ones."""
    parts, unavailable = [batch], []
    while parts:
        part = _still_ours(state, parts.pop())
        if not part:
            continue
        try:
            outcomes = [report.outcome for report in part]
            receipts = await state.client.report([*outcomes], executor=state.options.executor)
        except Exception as error:
            if isinstance(error, Refused) and error.status in (400, 413, 422):
                parts.extend(_narrow(state, part, error))
            else:
                log.warning("cannot report %d outcomes, trying again: %s", len(part), error)
                unavailable.extend(part)
        else:
            again = _apply(state, part, receipts, unavailable)
            if again:
                parts.append(again)
    return unavailable


def _still_ours(state: State, part: list[Report]) -> list[Report]:
    """Without those whose lease was lost or ended long ago."""
    hopeless = state.options.lease_ms / 1_000 * HOPELESS_AFTER_LEASES
    ours = []
    for report in part:
        if report.held.is_lost or state.now() - report.held.until >= hopeless:
            _give_up(state, report, "its lease is over")
        else:
            ours.append(report)
    return ours


def _give_up(state: State, report: Report, why: str) -> None:
    state.held.discard(report.held)
    if report.held.is_lost:
        state.worked.lost += 1
    else:
        state.worked.unreported += 1
    log.error("the outcome of %s was given up: %s", report.outcome.ref, why)


def _apply(state: State, part: list[Report], receipts: list[dict[str, Any]], unavailable: list[Report]) -> list[Report]:
    """Applies the receipts; outcomes that the server could not understand are returned in an understandable form."""
    again = []
    for report, receipt in zip(part, receipts):
        status = receipt["status"]
        if status in ("accepted", "accepted_for_later"):
            counter = "handed_back" if report.handed_back else _COUNTERS[report.outcome.outcome]
            setattr(state.worked, counter, getattr(state.worked, counter) + 1)
        elif status == "stale":
            state.worked.stale += 1
        elif status == "invalid":
            again.extend(_reword(state, report, str((receipt.get("error") or {}).get("detail", ""))))
            continue
        else:
            # The database of the task does not answer, or a newer server says something new: repeat.
            unavailable.append(report)
            continue
        state.held.discard(report.held)
    return again


def _narrow(state: State, part: list[Report], error: Refused) -> list[list[Report]]:
    """Halves a report that the server refuses for its content, down to the faulty outcome."""
    if len(part) > 1:
        half = len(part) // 2
        return [part[half:], part[:half]]
    return [_reword(state, part[0], str(error))]


def _reword(state: State, report: Report, why: str) -> list[Report]:
    """An outcome that the server refuses becomes a failed attempt that says so; if it refuses that too, it is given
    up."""
    if (report.outcome.status_msg or "").startswith(MARK):
        _give_up(state, report, why)
        return []
    message = f"{MARK}{why}"[:STATUS_MSG_MAX_CHARS]
    report.outcome = replace(
        report.outcome, outcome="failed", status_msg=message, result=None, retry_after_ms=None, log=[]
    )
    return [report]
