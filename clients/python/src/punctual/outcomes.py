"""What a handler raises to say how its attempt ended. Any other exception is a failed attempt, which the task's retry
policy treats."""

from __future__ import annotations

from punctual._durations import Duration, to_ms


class HandlerSignal(Exception):
    """A wish of a handler about its task."""


class RetryLater(HandlerSignal):
    """Tried in vain; again after this long, whatever the retry policy says."""

    def __init__(self, after: Duration, message: str = "retried on the handler's wish"):
        super().__init__(message)
        self.after_ms = to_ms(after)


class Reject(HandlerSignal):
    """Will never succeed: dead immediately, whatever attempts are left."""


class Snooze(HandlerSignal):
    """Not now: again after this long, and this attempt does not count."""

    def __init__(self, after: Duration):
        super().__init__(f"snoozed for {after}")
        self.after_ms = to_ms(after)
