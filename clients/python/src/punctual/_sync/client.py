"""The client: calls a Punctual server, and retries where that is safe."""

from __future__ import annotations

import ssl
from types import TracebackType
from typing import Any

from punctual import _call
from punctual._sync.operations import Bulk, Executors, Queues, Schedules, Workflows
from punctual._sync.tasks import Tasks
from punctual._sync.transport import Transport
from punctual._call import Call, Repeat
from punctual._durations import Duration
from punctual._json import encode
from punctual._settings import MISSING, Settings, settings
from punctual._wire import LeaseAnswer, lease_answer, outcome_fields, receipts
from punctual.models import Outcome


class Client(Tasks):
    """Calls a Punctual server. Parameters that are not given come from the environment: ``PUNCTUAL_URL``,
    ``PUNCTUAL_TOKEN``, ``PUNCTUAL_CA_FILE``, ``PUNCTUAL_CLIENT_CERT`` and ``PUNCTUAL_CLIENT_KEY``.

    A call that may have happened is sent again only if the server recognizes it. Errors are in
    ``punctual.errors``; ``may_have_happened`` says whether the call can have had its effect.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        token: str | None = MISSING,
        namespace: str | None = None,
        connect_timeout: Duration = 2,
        request_timeout: Duration = 10,
        tries: int = 5,
        ca_file: str | None = MISSING,
        client_certificate: tuple[str, str] | None = None,
        ssl_context: ssl.SSLContext | None = None,
    ):
        """``url``: of one engine, or of several with commas between. ``ca_file``, ``client_certificate``
        (certificate, key): PEM files. ``tries``: how often a call is sent that may be repeated."""
        self._open(
            settings(
                url,
                token=token,
                namespace=namespace,
                connect_timeout=connect_timeout,
                request_timeout=request_timeout,
                tries=tries,
                ca_file=ca_file,
                client_certificate=client_certificate,
                ssl_context=ssl_context,
            )
        )

    @classmethod
    def with_settings(cls, settings: Settings) -> Client:
        """A client with the settings of another."""
        client = cls.__new__(cls)
        client._open(settings)
        return client

    def _open(self, settings: Settings) -> None:
        self.settings = settings
        self._transport = Transport(settings)
        self.queues = Queues(self._transport)
        self.schedules = Schedules(self._transport)
        self.workflows = Workflows(self._transport)
        self.bulk = Bulk(self._transport)
        self.executors = Executors(self._transport)

    def close(self) -> None:
        """Closes its connections."""
        self._transport.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def ready(self) -> bool:
        """Whether the server answers, and takes tasks."""
        return bool(self.send(Call("GET", "/readyz", lambda _: True, Repeat.NEVER)))

    def stats(self) -> dict[str, Any]:
        """Rates, lateness and backlog of the whole cluster."""
        return self.send(_call.get("/v1/stats", dict))

    # The calls of an executor: each is sent once, because the meaning of a failure differs from call to call.

    def lease(self, request: dict[str, Any], *, queue: str | None = None) -> LeaseAnswer:
        """Waits for tasks of a queue, or of the ``queues`` in the request. Most programs use ``Worker`` instead.
        After an ``Indeterminate`` error tasks may be leased that no executor has; they come again."""
        target = "/v1/lease" if queue is None else _call.path("queues", queue, "lease")
        waits = request.get("wait_ms", 0) / 1_000
        call = Call("POST", target, lease_answer, Repeat.NEVER, body=encode(request), waits=waits)
        return self.send(call)

    def heartbeat(self, request: dict[str, Any]) -> dict[str, Any]:
        """Extends leases, and learns which were lost or should stop."""
        return self.send(_call.post("/v1/heartbeats", dict, request, Repeat.NEVER))

    def report(
        self, outcomes: list[Outcome | dict[str, Any]], *, executor: str | None = None
    ) -> list[dict[str, Any]]:
        """Reports outcomes; the receipts are in their order. Sending them again is safe: a lease accepts one."""
        body: dict[str, Any] = {"outcomes": [outcome_fields(each) for each in outcomes]}
        if executor is not None:
            body["executor"] = executor
        return self.send(_call.post("/v1/outcomes", receipts(len(outcomes)), body, Repeat.NEVER))
