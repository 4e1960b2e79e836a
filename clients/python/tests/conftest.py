"""The server that all tests share, a queue for each test, and what the tests must not do without."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import punctual
from punctual.testing import Server
from tests.proxy import Proxy

CONFORMANCE = Path(__file__).parents[2] / "conformance.md"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "conformance(*numbers): behaviours of clients/conformance.md")


def behaviours() -> set[int]:
    """The numbers of the list."""
    return {int(number) for number in re.findall(r"^(\d+)\. ", CONFORMANCE.read_text(encoding="utf-8"), re.MULTILINE)}


def _environment() -> dict[str, str]:
    """The back ends that the caller names; the embedded ones otherwise."""
    return {name: os.environ[name] for name in ("PUNCTUAL_STORE_URL", "PUNCTUAL_HOT_URL") if os.environ.get(name)}


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    with Server(environment=_environment()) as server:
        yield server


@pytest.fixture
def own_server() -> Iterator[Server]:
    """One that a test may kill: with its own data, and so embedded."""
    with Server() as server:
        yield server


@pytest.fixture
def client(server: Server) -> Iterator[punctual.Client]:
    with punctual.Client(server.url, token=None) as client:
        yield client


@pytest.fixture
def queue(request: pytest.FixtureRequest) -> str:
    """A name that no other test has."""
    return re.sub(r"[^A-Za-z0-9._:-]", "-", f"{request.node.name}-{os.urandom(3).hex()}")[-100:]


@pytest.fixture
def app(server: Server, queue: str) -> Iterator[punctual.App]:
    app = punctual.App(queue, url=server.url, token=None)
    yield app
    app.client.close()


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    with Proxy(server.url) as proxy:
        yield proxy
