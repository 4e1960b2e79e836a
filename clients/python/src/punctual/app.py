"""An application's tasks: functions that run later, elsewhere. ``App`` collects them, for inserting and running."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING, Any, Callable, Generic, TypeVar, overload
from weakref import WeakKeyDictionary

from punctual._async.client import AsyncClient
from punctual._durations import Duration, Instant
from punctual._new_task import NewTask
from punctual._sync.client import Client
from punctual.context import Context
from punctual.errors import ConfigurationError
from punctual.models import LeasedTask, Task
from punctual.outcomes import Reject
from punctual.retry import Retry

R = TypeVar("R")
if TYPE_CHECKING:
    from typing_extensions import Concatenate, ParamSpec

    P = ParamSpec("P")
else:
    P = TypeVar("P")

Handler = Callable[[Context], Any]
"""Takes an attempt to its result, or to an awaitable of it."""


class AppTask(Generic[P, R]):
    """A function whose calls are tasks: ``welcome.delay("ada@example.org")``. Called itself, it just runs."""

    def __init__(self, app: App, function: Callable[..., R], defaults: NewTask, is_raw: bool):
        self.app = app
        self.function = function
        self.defaults = defaults
        self.is_raw = is_raw
        self.takes_context, self._signature = _parameters(function, is_raw)
        self.__doc__, self.__name__, self.__module__ = (
            function.__doc__,
            function.__name__,
            function.__module__,
        )
        self.__wrapped__ = function

    def __repr__(self) -> str:
        return f"<task {self.kind} of queue {self.defaults.queue}>"

    @property
    def kind(self) -> str:
        return str(self.defaults.kind)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Runs the function here and now, without a server; a context is one of no task."""
        first = (Context(LeasedTask(kind=self.kind, queue=self.defaults.queue)),) if self.takes_context else ()
        return self.function(*first, *args, **kwargs)

    def options(self, **options: Any) -> AppTask[P, R]:
        """The same task with other options: ``welcome.options(key="order-7", priority=1).delay(…)``."""
        return AppTask(self.app, self.function, self.defaults.with_options(**options), self.is_raw)

    def task(self, *args: P.args, **kwargs: P.kwargs) -> NewTask:
        """The task to insert: for ``insert_many``, schedules and workflows."""
        return self.defaults.with_options(payload=self._payload(args, kwargs))

    def delay(self, *args: P.args, **kwargs: P.kwargs) -> Task:
        """Inserts it: due now, or as ``options`` says."""
        return self.app.client.insert(self.task(*args, **kwargs))

    def after(self, delay: Duration, /, *args: P.args, **kwargs: P.kwargs) -> Task:
        """Inserts it: due after this long."""
        return self.app.client.insert(self.task(*args, **kwargs), delay=delay)

    def at(self, instant: Instant, /, *args: P.args, **kwargs: P.kwargs) -> Task:
        """Inserts it: due at this instant."""
        return self.app.client.insert(self.task(*args, **kwargs), at=instant)

    async def adelay(self, *args: P.args, **kwargs: P.kwargs) -> Task:
        """``delay`` for asynchronous code."""
        return await self.app.async_client.insert(self.task(*args, **kwargs))

    async def aafter(self, delay: Duration, /, *args: P.args, **kwargs: P.kwargs) -> Task:
        """``after`` for asynchronous code."""
        return await self.app.async_client.insert(self.task(*args, **kwargs), delay=delay)

    async def aat(self, instant: Instant, /, *args: P.args, **kwargs: P.kwargs) -> Task:
        """``at`` for asynchronous code."""
        return await self.app.async_client.insert(self.task(*args, **kwargs), at=instant)

    def _payload(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """The arguments by name: a payload that any language reads, and a handler of another signature too."""
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{self.kind}: {error}") from None
        if self.is_raw:
            return next(iter(bound.arguments.values()), None)
        named = dict(bound.arguments)
        for parameter in self._signature.parameters.values():
            if parameter.kind is parameter.VAR_KEYWORD:
                named.update(named.pop(parameter.name, {}))
        return named

    def run(self, context: Context) -> R | Awaitable[R]:
        """Runs an attempt. A payload that does not fit is rejected, not retried: it will never fit."""
        first = (context,) if self.takes_context else ()
        payload = context.payload
        if self.is_raw:
            return self.function(*first, *((payload,) if self._signature.parameters else ()))
        named = {} if payload is None else payload
        if not isinstance(named, dict):
            raise Reject(f"the payload does not fit: {self.kind} takes an object of its arguments")
        try:
            self._signature.bind(**named)
        except TypeError as error:
            raise Reject(f"the payload does not fit: {error}") from None
        return self.function(*first, **named)


def _parameters(function: Callable[..., Any], is_raw: bool) -> tuple[bool, inspect.Signature]:
    """Whether the first parameter is the context, and the others."""
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())
    takes_context = bool(parameters) and _is_context(parameters[0])
    rest = parameters[1:] if takes_context else parameters
    for parameter in rest:
        if _is_context(parameter):
            raise ConfigurationError(f"{function.__name__}: the context must be the first parameter")
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL) and not is_raw:
            raise ConfigurationError(
                f"{function.__name__}: parameter {parameter.name} has no name that a payload could use;"
                " @app.task(raw=True) takes the payload whole"
            )
    if is_raw and len(rest) > 1:
        raise ConfigurationError(f"{function.__name__}: raw=True gives one parameter, the payload")
    return takes_context, signature.replace(parameters=rest)


def _is_context(parameter: inspect.Parameter) -> bool:
    annotation = parameter.annotation
    if annotation is parameter.empty:
        return parameter.name == "ctx"
    # Text, where the module has `from __future__ import annotations`.
    return annotation is Context or annotation in ("Context", "punctual.Context")


class App:
    """The tasks of an application, and the way to the server.

    ``app = punctual.App("mail")``, ``@app.task``, ``python -m punctual worker module:app``
    """

    def __init__(
        self,
        queue: str = "default",
        *,
        url: str | None = None,
        version: str | None = None,
        client: Client | None = None,
        **client_options: Any,
    ):
        """``queue``: of tasks that name none. ``version``: of the handlers, ``major.minor.patch``. The other options
        are those of ``Client``."""
        self.queue = queue
        self.version = version
        self.tasks: dict[str, AppTask[Any, Any]] = {}
        self.any: Handler | None = None
        self._client_options = {"url": url, **client_options}
        self._client = client
        self._async_clients: WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncClient] = WeakKeyDictionary()

    @property
    def client(self) -> Client:
        """Made when it is first used."""
        if self._client is None:
            self._client = Client(**self._client_options)
        return self._client

    def use(self, client: Client) -> None:
        """Calls this server from now on: for tests."""
        self._client = client
        self._async_clients.clear()

    @property
    def async_client(self) -> AsyncClient:
        """Of the event loop that runs: its connections belong to that."""
        loop = asyncio.get_running_loop()
        if loop not in self._async_clients:
            self._async_clients[loop] = self.new_async_client()
        return self._async_clients[loop]

    async def aclose(self) -> None:
        """Closes the asynchronous client of the event loop that runs."""
        client = self._async_clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.close()

    def new_async_client(self) -> AsyncClient:
        """With the settings of this application, for an event loop of the caller's."""
        if self._client is not None:
            return AsyncClient.with_settings(self._client.settings)
        return AsyncClient(**self._client_options)

    @property
    def queues(self) -> list[str]:
        """Those that its tasks name."""
        named = {task.defaults.queue for task in self.tasks.values()}
        return sorted(named | ({self.queue} if self.any or not named else set()))

    @property
    def kinds(self) -> list[str]:
        """Those that have a handler; none if there is one for any."""
        return [] if self.any else sorted(self.tasks)

    def handler(self, kind: str) -> Handler | None:
        """What runs tasks of a kind."""
        task = self.tasks.get(kind)
        return task.run if task else self.any

    if TYPE_CHECKING:

        @overload
        def task(self, function: Callable[Concatenate[Context, P], R], /) -> AppTask[P, R]: ...

        @overload
        def task(self, function: Callable[P, R], /) -> AppTask[P, R]: ...

        @overload
        def task(
            self,
            name: str | None = None,
            *,
            queue: str | None = None,
            raw: bool = False,
            max_attempts: int | None = None,
            retry: Retry | None = None,
            timeout: Duration | None = None,
            deadline: Duration | None = None,
            priority: int | None = None,
            labels: Mapping[str, str] | None = None,
            handler_versions: str | None = None,
        ) -> _Decorator: ...

    def task(self, name: Any = None, *, queue: str | None = None, raw: bool = False, **options: Any) -> Any:
        """Makes a task of a function: ``@app.task`` or ``@app.task("welcome", queue="mail", max_attempts=3)``.

        The function's arguments are the payload, by name; with ``raw`` its one parameter is the payload, whatever it
        is. Return a result (JSON or bytes), or raise; ``RetryLater``, ``Snooze`` and ``Reject`` say more.
        """
        if callable(name):
            return self.task()(name)

        def decorate(function: Callable[..., R]) -> AppTask[Any, R]:
            kind = name or function.__name__
            if kind in self.tasks:
                raise ConfigurationError(f"there are two tasks named {kind}: give one of them another name")
            given = {key: value for key, value in options.items() if value is not None}
            defaults = NewTask(queue or self.queue).with_options(kind=kind, **given)
            task: AppTask[Any, R] = AppTask(self, function, defaults, raw)
            self.tasks[kind] = task
            return task

        return decorate

    def handle_any(self, function: Callable[[Context], R]) -> Callable[[Context], R]:
        """A handler for every kind that has none of its own: it gets the context alone."""
        self.any = function
        return function


if TYPE_CHECKING:

    class _Decorator:
        @overload
        def __call__(self, function: Callable[Concatenate[Context, P], R], /) -> AppTask[P, R]: ...

        @overload
        def __call__(self, function: Callable[P, R], /) -> AppTask[P, R]: ...

        def __call__(self, function: Any, /) -> Any: ...
