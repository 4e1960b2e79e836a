"""One attempt: runs a handler, and says its outcome. Knows no leases and no servers, so that every kind of worker, and
a test engine, runs the same handlers the same way."""

from __future__ import annotations

import asyncio
import inspect
import traceback
from types import TracebackType
from typing import TYPE_CHECKING, Any

from punctual._background import run_in_background
from punctual._json import content_fields, encode
from punctual.context import Context, Control, Stopped
from punctual.models import LeasedTask, Outcome
from punctual.outcomes import Reject, RetryLater, Snooze

if TYPE_CHECKING:
    from punctual.app import App

STATUS_MSG_MAX_CHARS = 262_144


def execute(app: App, task: LeasedTask, control: Control) -> Outcome:
    """In this thread; an ``async`` handler in the one event loop of such handlers."""
    try:
        result = _begin(app, task, control)
        if inspect.isawaitable(result):
            result = run_in_background(result)
        return _succeeded(task, result)
    except BaseException as error:
        return _outcome_of(task, error)


async def execute_async(app: App, task: LeasedTask, control: Control) -> Outcome:
    """In this event loop; a handler that is not ``async`` runs in a thread."""
    try:
        handler = app.tasks.get(task.kind)
        if handler is not None and not inspect.iscoroutinefunction(handler.function):
            result = await asyncio.to_thread(_begin, app, task, control)
        else:
            result = _begin(app, task, control)
        if inspect.isawaitable(result):
            result = await result
        return _succeeded(task, result)
    except (Exception, Stopped, SystemExit) as error:
        return _outcome_of(task, error)


def _begin(app: App, task: LeasedTask, control: Control) -> Any:
    handler = app.handler(task.kind)
    if handler is None:
        raise LookupError(f"no handler for kind {task.kind}")
    return handler(Context(task, control))


def _succeeded(task: LeasedTask, result: Any) -> Outcome:
    try:
        encode(content_fields("result", result))
    except (TypeError, ValueError, RecursionError) as error:
        raise Reject(f"the result cannot be written as JSON: {error}") from error
    return Outcome(task.ref, task.token, "succeeded", result=result)


def failed(task: LeasedTask, message: str) -> Outcome:
    return Outcome(task.ref, task.token, "failed", status_msg=message[:STATUS_MSG_MAX_CHARS])


def hand_back(task: LeasedTask) -> Outcome:
    """Due again immediately, and the attempt does not count."""
    return Outcome(task.ref, task.token, "snooze", retry_after_ms=0)


def _outcome_of(task: LeasedTask, error: BaseException) -> Outcome:
    if isinstance(error, Reject):
        return Outcome(task.ref, task.token, "reject", status_msg=str(error)[:STATUS_MSG_MAX_CHARS])
    if isinstance(error, Snooze):
        return Outcome(task.ref, task.token, "snooze", retry_after_ms=error.after_ms)
    if isinstance(error, RetryLater):
        message = str(error)[:STATUS_MSG_MAX_CHARS]
        return Outcome(task.ref, task.token, "failed", status_msg=message, retry_after_ms=error.after_ms)
    if isinstance(error, Stopped):
        return failed(task, f"stopped by its handler: {error}")
    if isinstance(error, LookupError) and str(error).startswith("no handler for kind"):
        return failed(task, str(error))
    return failed(task, _described(error))


def _described(error: BaseException) -> str:
    """The error, and below it where it arose."""
    summary = "".join(traceback.format_exception_only(type(error), error)).strip()
    place = error.__traceback__
    while place is not None and place.tb_next is not None and _is_ours(place):
        place = place.tb_next
    trace = "".join(traceback.format_exception(type(error), error, place))
    return f"{summary}\n\n{trace}".replace("\0", "\ufffd")


def _is_ours(place: TracebackType) -> bool:
    """A frame of this package, which says nothing about the handler."""
    return str(place.tb_frame.f_globals.get("__name__", "")).startswith("punctual.")
