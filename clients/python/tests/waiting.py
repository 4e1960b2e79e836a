"""Tests wait for what must come, with one generous limit, and never ask how fast the machine is."""

from __future__ import annotations

import time
from typing import Callable, TypeVar

T = TypeVar("T")
LIMIT = 40.0


def until(condition: Callable[[], T]) -> T:
    """The first answer that is true."""
    end = time.monotonic() + LIMIT
    while True:
        answer = condition()
        if answer:
            return answer
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.01)
