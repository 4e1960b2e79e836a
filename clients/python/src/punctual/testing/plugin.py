"""The pytest plugin: loaded by pytest itself where this package is installed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from punctual.testing.engine import Engine


@pytest.fixture
def punctual_engine() -> Iterator[Engine]:
    """An empty engine of its own for each test; ``punctual_engine.advance("1h")`` moves its time."""
    from punctual.testing.engine import Engine

    with Engine() as engine:
        yield engine
