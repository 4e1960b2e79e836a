"""Durations and instants as callers write them, and as the wire has them: whole milliseconds."""

from __future__ import annotations

import math
import re
from datetime import datetime, timedelta, timezone
from typing import Union

Duration = Union[str, int, float, timedelta]
"""Seconds as a number, a ``timedelta``, or a text such as ``"90s"``, ``"1h30m"``, ``"250ms"``, ``"7d"``."""

Instant = Union[datetime, int, str]
"""A ``datetime`` with a time zone, epoch milliseconds, or RFC 3339."""

_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhdw])")


def to_ms(duration: Duration) -> int:
    """Whole milliseconds, rounded up: nothing fires earlier than asked for."""
    if isinstance(duration, str):
        return _text_to_ms(duration)
    if isinstance(duration, bool):
        raise TypeError("a duration is seconds, a timedelta or a text such as '90s', not a bool")
    if isinstance(duration, timedelta):
        ms = -(-duration // timedelta(milliseconds=1))
    elif math.isfinite(duration):
        ms = math.ceil(round(duration * 1_000, 6))
    else:
        raise ValueError(f"a duration must be finite, not {duration}")
    if ms < 0:
        raise ValueError(f"a duration must not be negative: {duration}")
    return ms


def _text_to_ms(text: str) -> int:
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text.replace(" ", ""):
        raise ValueError(f"{text!r} is not a duration: write for example '250ms', '90s', '1h30m' or '7d'")
    return math.ceil(round(sum(float(number) * _UNITS_MS[unit] for number, unit in parts), 6))


def to_seconds(duration: Duration) -> float:
    """The same, in seconds."""
    return to_ms(duration) / 1_000


def instant_fields(name: str, at: Instant) -> dict[str, object]:
    """The field of the wire that carries an instant: ``NAME_ms`` for numbers and datetimes, else ``NAME``."""
    if isinstance(at, str):
        return {name: at}
    if isinstance(at, datetime):
        if at.tzinfo is None:
            raise ValueError(f"{name} needs a time zone: a naive datetime means another instant elsewhere")
        since = at.astimezone(timezone.utc) - _EPOCH
        return {f"{name}_ms": -(-since // timedelta(milliseconds=1))}
    return {f"{name}_ms": at}


def instant_text(at: Instant) -> str:
    """RFC 3339, where the wire has no twin in milliseconds."""
    if isinstance(at, str):
        return at
    if isinstance(at, int):
        at = _EPOCH + timedelta(milliseconds=at)
    if at.tzinfo is None:
        raise ValueError("an instant needs a time zone: a naive datetime means another instant elsewhere")
    return at.astimezone(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def from_ms(ms: int) -> datetime:
    """UTC."""
    return _EPOCH + timedelta(milliseconds=ms)


_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
