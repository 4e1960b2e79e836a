"""The executor's guard: of all executors that were handed one attempt of a task, one executes it within the window
(``SET key holder NX``). The key is never deleted, because an attempt that has ended must not run again either. It only
saves work and decides nothing: the server's fence does. Needs the package ``redis``."""

from __future__ import annotations

import importlib.util
import logging
import os
from typing import Any

from punctual._durations import Duration, to_ms
from punctual.errors import ConfigurationError
from punctual.models import LeasedTask

log = logging.getLogger("punctual.guard")

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_SYMBOLS = 26


class Guard:
    """Shared with executors in other languages that use the same Redis and prefix."""

    def __init__(
        self,
        url: str,
        *,
        window: Duration = 60,
        prefix: str = "punctual",
        holder: str | None = None,
        timeout: Duration = 5,
    ):
        """``window``: how long an attempt is guarded after it was taken. ``holder``: the executor's name."""
        self._window_ms = to_ms(window)
        if self._window_ms < 1:
            raise ConfigurationError("the window of a guard must be at least 1 ms")
        self._prefix = prefix
        self._holder = holder or f"executor-{os.getpid()}"
        self._url, self._timeout = url, to_ms(timeout) / 1_000
        _check_package()
        # Made in the event loop that uses it.
        self._redis: Any = None

    async def take(self, task: LeasedTask) -> bool:
        """Whether to execute it here. An exception of Redis: it is not known."""
        if self._redis is None:
            self._redis = _connect(self._url, self._timeout)
        by = await self._redis.set(guard_key(self._prefix, task), self._holder, nx=True, get=True, px=self._window_ms)
        if by is None:
            log.info("task %s attempt %d execution %s: the guard is taken", task.ref, task.attempt, task.token)
            return True
        holder = by.decode(errors="replace") if isinstance(by, bytes) else by
        log.info("task %s attempt %d: the guard is held by %s, not executed again", task.ref, task.attempt, holder)
        return False

    async def close(self) -> None:
        client, self._redis = self._redis, None
        if client is not None:
            await (getattr(client, "aclose", None) or client.close)()


def _check_package() -> None:
    if importlib.util.find_spec("redis") is None:
        raise ConfigurationError("a guard needs the redis package: pip install redis")


def _connect(url: str, timeout: float) -> Any:
    import redis.asyncio
    import redis.asyncio.cluster

    options = {"socket_timeout": timeout, "socket_connect_timeout": timeout}
    if url.startswith("redis+cluster://"):
        return redis.asyncio.cluster.RedisCluster.from_url(url.replace("redis+cluster", "redis", 1), **options)
    return redis.asyncio.from_url(url, **options)


def guard_key(prefix: str, task: LeasedTask) -> str:
    """As the executors in Rust write it: by the id in the reference, which a reschedule does not change."""
    fence = task.token.split("-", 1)[0]
    return f"{prefix}:{{g:{_id_of(task.ref)}}}:{fence}:guard"


def _id_of(ref: str) -> str:
    symbols = ref[1:]
    if not ref.startswith("t") or len(symbols) != _SYMBOLS or not set(symbols) <= set(_ALPHABET):
        # A newer form of references: any stable word serves, among executors of one kind.
        return ref
    bits = 0
    for symbol in symbols:
        bits = bits << 5 | _ALPHABET.index(symbol)
    low = bits & (1 << 64) - 1
    return str(low - (1 << 64) if low >> 63 else low)
