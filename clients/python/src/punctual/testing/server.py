"""A Punctual server for tests: the real program, on a free port, with a data directory of its own that goes with it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
from collections import deque
from collections.abc import Mapping
from types import TracebackType
from typing import IO, Any, TypeVar

from punctual._sync.client import Client
from punctual.errors import ConfigurationError, PunctualError

S = TypeVar("S", bound="Server")
STOP_PATIENCE = 30


def find_binary(binary: str | None = None) -> str:
    """The program: as given, or ``PUNCTUAL_BIN``, or ``punctual`` in the ``PATH``."""
    wanted = binary or os.environ.get("PUNCTUAL_BIN") or "punctual"
    found = shutil.which(wanted)
    if found is None:
        raise ConfigurationError(
            f"there is no program {wanted}: install punctual, or name it in the variable PUNCTUAL_BIN"
        )
    return found


class Server:
    """Started when it is made; ``with Server() as server:`` stops it at the end of the block."""

    def __init__(
        self,
        *,
        binary: str | None = None,
        listen: str = "127.0.0.1:0",
        environment: Mapping[str, str] | None = None,
        settings: Mapping[str, Any] | None = None,
        log_filter: str = "warn",
    ):
        """``environment``: variables such as ``PUNCTUAL_STORE_URL``; those of the caller's process that begin with
        ``PUNCTUAL_`` are not passed on. ``settings``: by key, as ``--set`` takes them."""
        self._binary = find_binary(binary)
        self._data = tempfile.mkdtemp(prefix="punctual-test-")
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PUNCTUAL_")}
        self._environment = {**kept, **(environment or {})}
        self._options = [f"--set={key}={value}" for key, value in (settings or {}).items()]
        self._options.append(f"--log-filter={log_filter}")
        self._listen = listen
        self.log: deque[str] = deque(maxlen=1_000)
        """The last lines that it wrote."""
        self._client: Client | None = None
        self.start()

    def start(self) -> None:
        """Starts it, or starts it again with the data and the port that it had."""
        command = [self._binary, "serve", "--json", "--listen", self._listen, "--data", self._data, *self._options]
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self._environment, text=True
        )
        # Read all the while, so that it never waits for a full pipe.
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        errors = self._read_in_background(self._process.stderr)
        first = self._process.stdout.readline()
        if not first:
            errors.join(5)
            self.stop()
            raise PunctualError("the server did not start: " + "\n".join(self.log))
        self._read_in_background(self._process.stdout)
        said = json.loads(first)
        self.url: str = said["api"].rstrip("/").rsplit("/v1", 1)[0]
        self._listen = self.url.rsplit("//", 1)[1]

    def _read_in_background(self, stream: IO[str]) -> threading.Thread:
        def read() -> None:
            with contextlib.suppress(ValueError):
                self.log.extend(line.rstrip() for line in stream)

        thread = threading.Thread(target=read, daemon=True)
        thread.start()
        return thread

    @property
    def client(self) -> Client:
        """For the namespace ``default``."""
        if self._client is None:
            self._client = Client(self.url, token=None)
        return self._client

    def kill(self) -> None:
        """As a crash: nothing is finished. ``start`` starts it again."""
        self._end(signal.SIGKILL)

    def terminate(self) -> None:
        """In order, with its data kept. ``start`` starts it again."""
        self._end(signal.SIGTERM)

    def _end(self, number: int) -> None:
        if self._process.poll() is None:
            self._process.send_signal(number)
        try:
            self._process.wait(STOP_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()

    def stop(self) -> None:
        """Ends it, and removes its data."""
        self._end(signal.SIGTERM)
        if self._client is not None:
            self._client.close()
            self._client = None
        shutil.rmtree(self._data, ignore_errors=True)

    def __enter__(self: S) -> S:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
