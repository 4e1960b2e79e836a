"""What the services of a worker share: its options, the leases in its hands, its slots and its counts. All of it
belongs to the worker's event loop; no other thread touches it."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from punctual._async.client import AsyncClient
from punctual.context import Control
from punctual.models import LeasedTask, Outcome

log = logging.getLogger("punctual.worker")

LEASE_MAX = 10_000


@dataclass
class Worked:
    """A worker's counts, from its start to its end."""

    succeeded: int = 0
    failed: int = 0
    snoozed: int = 0
    rejected: int = 0
    handed_back: int = 0
    """Handed back unfinished at shutdown."""
    lost: int = 0
    """Leases that ended while a handler ran."""
    stale: int = 0
    """Outcomes that were too late to count."""
    unreported: int = 0
    """Outcomes that could not be reported before their lease was long over, or before the end."""


@dataclass(frozen=True)
class Options:
    """Settings of a worker."""

    executor: str
    concurrency: int
    lease_ms: int
    wait_ms: int
    grace: float
    version: str | None
    host: str | None
    executor_concurrency: int | None
    labels: Mapping[str, str]
    only_own_kinds: bool
    gather: float = 0.002
    """How long the first outcome of a report waits for others, in seconds."""


def host_name() -> str | None:
    """Of this machine, if it says it."""
    return socket.gethostname()[:253] or None


class Held:
    """A lease, from the answer to the receipt of its outcome. Heartbeats extend exactly these."""

    def __init__(self, task: LeasedTask, until: float, gone: asyncio.Future[str]):
        self.task = task
        self.control = Control()
        self.until = until
        """By the loop's monotonic clock, so that the server's wall clock may differ."""
        self.gone = gone
        """Done when its handler must end: ``lost``, or ``shutdown``."""

    @property
    def is_lost(self) -> bool:
        return self.gone.done() and self.gone.result() == "lost"

    def leave(self, why: str) -> None:
        if not self.gone.done():
            self.gone.set_result(why)


@dataclass
class Report:
    """An outcome on its way."""

    outcome: Outcome
    held: Held
    handed_back: bool = False


class Slots:
    """Tasks that run at the same time: a bound for the worker, and one for each of its queues. Leases are requested
    only for free slots, so that no task waits in a worker that cannot run it while another could."""

    def __init__(self, concurrency: int, queues: Mapping[str, int | None]):
        self._free = concurrency
        self._of_queues = dict(queues)
        self._changed = asyncio.Event()

    def free(self, queue: str) -> int:
        most = self._of_queues[queue]
        return min(self._free, self._free if most is None else most, LEASE_MAX)

    def take(self, queue: str) -> bool:
        """False: the server sent more than was requested."""
        if queue not in self._of_queues or self.free(queue) < 1:
            return False
        self._add(queue, -1)
        return True

    def release(self, queue: str) -> None:
        self._add(queue, 1)
        self._changed.set()

    def _add(self, queue: str, count: int) -> None:
        self._free += count
        most = self._of_queues[queue]
        if most is not None:
            self._of_queues[queue] = most + count

    async def of(self, queues: list[str]) -> dict[str, int]:
        """The free slots of those queues that have some; waits until one has."""
        while True:
            free = {queue: self.free(queue) for queue in queues if self.free(queue) > 0}
            if free:
                return free
            self._changed.clear()
            await self._changed.wait()


@dataclass
class State:
    """Shared by the services."""

    client: AsyncClient
    options: Options
    queues: dict[str, int | None]
    kinds: list[str]
    slots: Slots
    reports: asyncio.Queue[Report | None] = field(default_factory=asyncio.Queue)
    held: set[Held] = field(default_factory=set)
    worked: Worked = field(default_factory=Worked)
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    """No new leases: a shutdown, or a drain."""
    shutdown: asyncio.Event = field(default_factory=asyncio.Event)
    wish: str | None = None

    def now(self) -> float:
        return asyncio.get_running_loop().time()

    def hold(self, task: LeasedTask) -> Held:
        gone: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        held = Held(task, self.now() + self.options.lease_ms / 1_000, gone)
        self.held.add(held)
        return held

    def alive(self) -> list[Held]:
        """Those that are still ours as far as is known."""
        return [held for held in self.held if not held.is_lost]

    def hear_wish(self, wish: str | None) -> None:
        """A drain cannot be revoked: the worker is on its way out."""
        if wish != self.wish:
            log.info("an operator wishes of %s: %s", self.options.executor, wish or "to serve")
            self.wish = wish
        if wish == "drain":
            self.stop.set()

    def declared(self) -> dict[str, Any]:
        """What every call of the executor says of it."""
        options = self.options
        said = {
            "executor": options.executor,
            "version": options.version,
            "host": options.host,
            "capacity": options.concurrency,
            "kinds": self.kinds,
            "labels": dict(options.labels) or None,
        }
        return {name: value for name, value in said.items() if value is not None}
