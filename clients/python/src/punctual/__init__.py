"""Punctual: tasks that fire at their time. See the README of this package.

``Client`` and ``AsyncClient`` call a server; ``App`` and ``Worker`` run tasks; ``punctual.testing`` has an engine for
tests; ``punctual.retry`` has retry policies, and ``punctual.errors`` all errors.
"""

from punctual import errors, retry
from punctual._async.client import AsyncClient
from punctual._batch import BatchError
from punctual._call import Call, Repeat
from punctual._new_task import NewTask, expr
from punctual._sync.client import Client
from punctual._worker.state import Worked
from punctual.app import App, AppTask
from punctual.context import Context, Stopped
from punctual.errors import PunctualError
from punctual.guard import Guard
from punctual.models import (
    BatchItem,
    BulkOperation,
    Executor,
    LeasedTask,
    Outcome,
    Page,
    Queue,
    Schedule,
    ScheduleRun,
    Task,
    Workflow,
)
from punctual.outcomes import Reject, RetryLater, Snooze
from punctual.version import VERSION as __version__
from punctual.worker import Worker

__all__ = [
    "App",
    "AppTask",
    "AsyncClient",
    "BatchError",
    "BatchItem",
    "BulkOperation",
    "Call",
    "Client",
    "Context",
    "Executor",
    "Guard",
    "LeasedTask",
    "NewTask",
    "Outcome",
    "Page",
    "PunctualError",
    "Queue",
    "Reject",
    "Repeat",
    "RetryLater",
    "Schedule",
    "ScheduleRun",
    "Snooze",
    "Stopped",
    "Task",
    "Worked",
    "Worker",
    "Workflow",
    "__version__",
    "errors",
    "expr",
    "retry",
]
