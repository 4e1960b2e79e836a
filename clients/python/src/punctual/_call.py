"""One call of the API, before it is sent: what it says, and whether it may be said twice. Knows no transport."""

from __future__ import annotations

import random
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Callable, Generic, TypeVar
from urllib.parse import quote

from punctual._json import encode
from punctual.errors import Indeterminate, PunctualError, may_pass

T = TypeVar("T")


class Repeat(Enum):
    """Whether a call with an unknown result may be sent again."""

    SAFE = "the server recognizes it, or the call changes nothing"
    IF_NOT_DONE = "only after an answer that nothing was done"
    NEVER = "the caller has a patience of its own"

    def allows(self, error: PunctualError) -> bool:
        if self is Repeat.NEVER or not may_pass(error):
            return False
        return self is Repeat.SAFE or not isinstance(error, Indeterminate)


@dataclass(frozen=True)
class Call(Generic[T]):
    """A request, and how its answer is read."""

    method: str
    path: str
    read: Callable[[Any], T]
    repeat: Repeat = Repeat.IF_NOT_DONE
    query: Mapping[str, Any] = field(default_factory=dict)
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    waits: float = 0.0
    """Seconds that it may take longer than other calls: a long poll, a large batch."""

    @property
    def target(self) -> str:
        """Path and query."""
        pairs = [f"{name}={quote(_text(value), safe='')}" for name, value in self.query.items() if value is not None]
        return self.path + ("?" + "&".join(pairs) if pairs else "")


def _text(value: Any) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def as_is(raw: Any) -> Any:
    """The answer as it is."""
    return raw


def get(path: str, read: Callable[[Any], T], **query: Any) -> Call[T]:
    return Call("GET", path, read, Repeat.SAFE, query)


def post(path: str, read: Callable[[Any], T], body: Any = None, repeat: Repeat = Repeat.IF_NOT_DONE) -> Call[T]:
    return Call("POST", path, read, repeat, body=None if body is None else encode(body))


def path(*segments: Any) -> str:
    """``/v1/`` and these segments, percent-encoded: a name cannot leave its place in the path."""
    return "/v1/" + "/".join(_segment(str(segment)) for segment in segments)


def _segment(text: str) -> str:
    # A segment of dots alone would be read as a step in the path.
    return text.replace(".", "%2E") if set(text) == {"."} else quote(text, safe=":~")


def without_none(**values: Any) -> dict[str, Any]:
    """Absent fields are left out; null is never sent."""
    return {name: value for name, value in values.items() if value is not None}


def new_key() -> dict[str, str]:
    """A header by which the server recognizes a call that comes twice."""
    return {"Idempotency-Key": secrets.token_hex(16)}


def if_match(revision: object | None) -> dict[str, str]:
    """Only if it is at this revision."""
    return {} if revision is None else {"If-Match": f'"{revision}"'}


class Backoff:
    """Waits between tries: exponential, with jitter, so that the clients of a restarted server do not return in
    step. Knows no clock; the caller sleeps."""

    def __init__(self, first: float, longest: float):
        self._first, self._longest = first, longest
        self.tries = 0

    def next(self) -> float:
        """Between half of the full wait and all of it, in seconds."""
        full = min(self._first * (1 << min(self.tries, 20)), self._longest)
        self.tries += 1
        return full * (0.5 + random.random() / 2)

    def reset(self) -> None:
        self.tries = 0
