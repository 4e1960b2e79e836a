"""A batch of any length as parts that the server takes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from punctual._json import encode
from punctual._new_task import NewTask
from punctual.errors import PunctualError
from punctual.models import BatchItem

BATCH_MAX = 10_000
PART_BYTES = 8 << 20
"""A part of a batch is sent at this size, well below the server's limit."""


class BatchError(PunctualError):
    """A batch that stopped half-way. ``done`` has the results of the first tasks, in order; those of the following
    ones are unknown, or they were not sent. The cause says why."""

    def __init__(self, done: list[BatchItem], cause: PunctualError):
        super().__init__(f"a batch stopped after {len(done)} tasks: {cause}")
        self.done = done
        self.may_have_happened = True


def parts(tasks: Iterable[NewTask]) -> Iterator[tuple[list[bytes], bool]]:
    """Parts below the limits of the server, and whether a repetition could double one of their tasks."""
    part: list[bytes] = []
    size, is_keyed = 0, False
    for task in tasks:
        item = encode(task.to_wire())
        if part and (len(part) == BATCH_MAX or size + len(item) > PART_BYTES):
            yield part, is_keyed
            part, size, is_keyed = [], 0, False
        part.append(item)
        size += len(item) + 1
        is_keyed = is_keyed or task.needs_key()
    if part:
        yield part, is_keyed
