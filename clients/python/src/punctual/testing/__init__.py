"""For tests of applications: ``Engine``, a real server whose time a test moves, and the pytest fixture
``punctual_engine``. Needs the program ``punctual``: in the ``PATH``, or named by ``PUNCTUAL_BIN``."""

from punctual.testing.engine import Engine
from punctual.testing.server import Server, find_binary

__all__ = ["Engine", "Server", "find_binary"]
