"""Handlers in processes of their own: for work that needs the processor, and for handlers that must be ended by force.
A process imports the application by its name (``module:app``), runs one handler at a time, and is used again."""

from __future__ import annotations

import asyncio
import importlib
import multiprocessing
import os
import signal
import threading
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from queue import SimpleQueue
from typing import Any

from punctual._execute import execute, failed
from punctual._worker.pools import Running
from punctual.app import App
from punctual.context import Control
from punctual.errors import ConfigurationError
from punctual.models import LeasedTask, Outcome


def load_app(name: str) -> App:
    """The application at ``module:attribute``."""
    module_name, _, attribute = name.partition(":")
    target: Any = importlib.import_module(module_name)
    for part in (attribute or "app").split("."):
        try:
            target = getattr(target, part)
        except AttributeError:
            raise ConfigurationError(f"{name}: module {module_name} has no {attribute or 'app'}") from None
    if not isinstance(target, App):
        raise ConfigurationError(f"{name} is no punctual.App, but a {type(target).__name__}")
    return target


class ProcessPool:
    """One thread for each process speaks with it."""

    def __init__(self, app_name: str):
        self._app_name = app_name
        self._context = multiprocessing.get_context("spawn")
        self._idle: list[_Child] = []
        self._all: set[_Child] = set()
        self._lock = threading.Lock()

    def begin(self, task: LeasedTask, control: Control) -> Running:
        running = Running(asyncio.get_running_loop(), lambda: None)
        with self._lock:
            child = self._idle.pop() if self._idle else _Child(self._context, self._app_name)
            self._all.add(child)
        running.drop = child.kill
        threading.Thread(
            target=self._run, args=(child, task, control, running), name="punctual-process", daemon=True
        ).start()
        return running

    def _run(self, child: _Child, task: LeasedTask, control: Control, running: Running) -> None:
        outcome = child.run(task, control)
        with self._lock:
            if child.is_usable:
                self._idle.append(child)
            else:
                self._all.discard(child)
        running.finish(outcome)

    def close(self) -> None:
        with self._lock:
            children = list(self._all)
        for child in children:
            child.kill()
        for child in children:
            child.join()


class _Child:
    def __init__(self, context: Any, app_name: str):
        self._connection: Connection
        self._connection, other = context.Pipe()
        self._process: BaseProcess = context.Process(target=_serve, args=(app_name, other), daemon=True)
        self._is_started, self._other, self._is_dropped = False, other, False
        self.is_usable = True

    def run(self, task: LeasedTask, control: Control) -> Outcome | None:
        """None: it was dropped."""
        try:
            if not self._is_started:
                self._process.start()
                self._other.close()
                self._is_started = True
            self._connection.send(dict(task.raw))
            return self._listen(control)
        except (EOFError, OSError):
            self.is_usable = False
            self._process.join(5)
            if self._is_dropped:
                return None
            return failed(task, f"the process of the handler ended (exit code {self._process.exitcode})")

    def _listen(self, control: Control) -> Outcome:
        is_notified = False
        while True:
            if control.is_stopping and not is_notified:
                is_notified = True
                self._connection.send(control.why)
            if not self._connection.poll(0.1):
                continue
            kind, value = self._connection.recv()
            if kind == "outcome":
                return Outcome(**value)
            if kind == "progress":
                control.set_progress(value)
            else:
                control.say(*value)

    def kill(self) -> None:
        self._is_dropped, self.is_usable = True, False
        if self._is_started:
            self._process.kill()

    def join(self) -> None:
        if self._is_started:
            self._process.join(5)


class _FarControl(Control):
    """In the process of the handler: what it says is said to the worker at once."""

    def __init__(self, connection: Connection, lock: threading.Lock):
        super().__init__()
        self._connection, self._sending = connection, lock

    def set_progress(self, value: Any) -> None:
        self._send("progress", value)

    def say(self, level: str, text: str) -> None:
        self._send("log", (level, text))

    def _send(self, kind: str, value: Any) -> None:
        with self._sending:
            self._connection.send((kind, value))


def _serve(app_name: str, connection: Connection) -> None:
    """The life of a process: the worker, not the terminal, ends it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sending = threading.Lock()
    work: SimpleQueue[tuple[LeasedTask, Control]] = SimpleQueue()
    threading.Thread(target=_read, args=(connection, sending, work), daemon=True).start()
    app = load_app(app_name)
    while True:
        outcome = execute(app, *work.get())
        with sending:
            connection.send(("outcome", vars(outcome)))


def _read(connection: Connection, sending: threading.Lock, work: SimpleQueue[tuple[LeasedTask, Control]]) -> None:
    """Tasks, and wishes to stop: they are about the task that came last."""
    control: Control | None = None
    while True:
        try:
            said = connection.recv()
        except (EOFError, OSError):
            # The worker is gone: the outcome of the handler would reach no one.
            os._exit(0)
        if isinstance(said, dict):
            control = _FarControl(connection, sending)
            work.put((LeasedTask.of(said), control))
        elif control is not None:
            control.stop(str(said))
