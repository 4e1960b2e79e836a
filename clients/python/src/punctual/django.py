"""A backend for Django's tasks (``django.tasks`` of Django 6, or the package ``django-tasks`` before): a task that is
enqueued is a task of Punctual. Thin: what Django's interface has no word for (keys, labels, schedules) goes through
``punctual.Client``. Imported only where it is used.

``settings.py``::

    TASKS = {"default": {"BACKEND": "punctual.django.PunctualBackend", "QUEUES": ["default", "mail"],
                         "OPTIONS": {"url": "http://127.0.0.1:7450", "max_attempts": 3}}}

The worker: ``DJANGO_SETTINGS_MODULE=site.settings python -m punctual worker punctual.django:app``
"""

from __future__ import annotations

import importlib
from typing import Any

from punctual._durations import from_ms
from punctual._new_task import NewTask
from punctual._sync.client import Client
from punctual.app import App
from punctual.context import Context
from punctual.errors import NotFound
from punctual.models import Task

try:
    _django = importlib.import_module("django.tasks")
except ModuleNotFoundError:
    _django = importlib.import_module("django_tasks")
_base = importlib.import_module(f"{_django.__name__}.base")
_backends = importlib.import_module(f"{_django.__name__}.backends.base")
_exceptions = importlib.import_module(f"{_django.__name__}.exceptions")

_OF_TASKS = ("max_attempts", "retry", "timeout", "deadline", "labels")
_STATUS = {
    "pending": "READY",
    "processing": "RUNNING",
    "success": "SUCCESSFUL",
    "failed": "FAILED",
    "stopped": "FAILED",
}


class PunctualBackend(_backends.BaseTaskBackend):  # type: ignore[name-defined,misc]
    """``OPTIONS``: those of ``punctual.Client``, and ``max_attempts`` (1), ``retry``, ``timeout``, ``deadline``,
    ``labels`` of every task."""

    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: dict[str, Any]):
        super().__init__(alias, params)
        options = dict(self.options)
        self._of_tasks = {"max_attempts": 1, **{name: options.pop(name) for name in _OF_TASKS if name in options}}
        self.client_options = options
        self.client = Client(**options)

    def enqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        """Inserts it; its result's ``id`` is the ``ref``."""
        self.validate_task(task)
        new = NewTask(
            task.queue_name,
            {"args": list(args), "kwargs": dict(kwargs)},
            kind="django",
            name=task.module_path[:256],
            at=task.run_after,
            priority=_priority(task.priority),
        )
        labels = {**self._of_tasks.get("labels", {}), "django_task": task.module_path}
        return self._result(self.client.insert(new, **{**self._of_tasks, "labels": labels}), task)

    def get_result(self, result_id: str) -> Any:
        try:
            found = self.client.get(result_id)
        except NotFound as error:
            raise _exceptions.TaskResultDoesNotExist(result_id) from error
        return self._result(found, resolve(found.labels["django_task"]))

    def _result(self, found: Task, task: Any) -> Any:
        errors = [_base.TaskError(exception_class_path=_class_of(found), traceback=str(found.last_error))]
        attempts = [entry for entry in found.history if entry.get("event") in ("dispatch", "lease")]
        result = _base.TaskResult(
            task=task,
            id=found.ref,
            status=_base.TaskResultStatus[_STATUS[found.phase]],
            enqueued_at=from_ms(found.created_at_ms),
            started_at=None if found.started_at_ms is None else from_ms(found.started_at_ms),
            finished_at=None if found.finished_at_ms is None else from_ms(found.finished_at_ms),
            last_attempted_at=None if found.started_at_ms is None else from_ms(found.started_at_ms),
            args=found.payload["args"],
            kwargs=found.payload["kwargs"],
            backend=self.alias,
            errors=errors if found.last_error is not None and not found.succeeded else [],
            worker_ids=[entry["by"] for entry in attempts],
        )
        object.__setattr__(result, "_return_value", found.result)
        return result


def _priority(of_django: int) -> int:
    """From 100 (first) … -100 (last) to 1 (first) … 5 (last)."""
    return 3 - max(-2, min(2, round(of_django / 50)))


def _class_of(found: Task) -> str:
    """The exception's class, where it is one of Python's own."""
    name = str(found.last_error).split(":", 1)[0]
    return f"builtins.{name}" if name.isidentifier() else "builtins.Exception"


def resolve(module_path: str) -> Any:
    """The task at ``module.function``."""
    module_name, _, name = module_path.rpartition(".")
    return getattr(importlib.import_module(module_name), name)


class _DjangoApp(App):
    """Runs every task of a backend."""

    def __init__(self, backend: PunctualBackend):
        super().__init__(**backend.client_options)
        self._backend = backend
        self.any = self._run

    @property
    def queues(self) -> list[str]:
        return sorted(self._backend.queues)

    def _run(self, context: Context) -> Any:
        from django.db import close_old_connections

        task = resolve(context.task.labels["django_task"])
        payload = context.payload
        first = (_base.TaskContext(task_result=self._backend.get_result(context.ref)),) if task.takes_context else ()
        close_old_connections()
        try:
            return task.call(*first, *payload["args"], **payload["kwargs"])
        finally:
            close_old_connections()


def __getattr__(name: str) -> Any:
    """``punctual.django:app`` for the command line: made when it is asked for, with Django set up."""
    if name != "app":
        raise AttributeError(name)
    import django

    django.setup()
    return _DjangoApp(_django.task_backends["default"])
