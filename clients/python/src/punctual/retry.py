"""When the next attempt follows a failed one: policies for tasks and queues."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from punctual._durations import Duration, to_ms

Retry = Mapping[str, Any]
"""As the wire has it; made by the functions of this module."""


def immediate() -> Retry:
    """Immediately."""
    return {"strategy": "immediate"}


def fixed(delay: Duration) -> Retry:
    """After the same delay each time."""
    return {"strategy": "fixed", "delay_ms": to_ms(delay)}


def exponential(delay: Duration, *, factor: float = 2.0, max_delay: Duration = "10m", jitter: float = 0.2) -> Retry:
    """``factor`` times as long each time, up to ``max_delay``, varied at random by the share ``jitter``."""
    delay_ms = to_ms(delay)
    max_delay_ms = max(to_ms(max_delay), delay_ms)
    return {
        "strategy": "exponential",
        "delay_ms": delay_ms,
        "factor": factor,
        "max_delay_ms": max_delay_ms,
        "jitter": jitter,
    }


def delays(each: Iterable[Duration]) -> Retry:
    """After the first of these, then the second; the last one repeats."""
    return {"strategy": "list", "delays_ms": [to_ms(delay) for delay in each]}
