"""How a call reaches a server: over HTTP, to one server or to several of one cluster. A failure says whether the
request can have been sent, because retries rest on it; when in doubt, it was."""

from __future__ import annotations

from asyncio import sleep
from typing import Any, TypeVar

import httpx

from punctual._call import Backoff, Call
from punctual._json import decode
from punctual._settings import Settings
from punctual.errors import Indeterminate, PunctualError, Refused, Unreachable, from_problem

T = TypeVar("T")

_NOT_SENT = (
    httpx.ConnectError,
    httpx.ConnectTimeout,
    httpx.PoolTimeout,
    httpx.UnsupportedProtocol,
    httpx.LocalProtocolError,
)
_ASK_ANOTHER = (502, 503, 504)


class AsyncTransport:
    """A pool of connections that are kept open."""

    def __init__(self, settings: Settings):
        self.settings = settings
        self._current = 0
        """Which server is asked first: the one that answered last."""
        # Below the server's own 75 s, so that no call is sent on a connection that it just closes.
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=64, keepalive_expiry=60)
        self._http = httpx.AsyncClient(headers=settings.headers, verify=settings.verify, limits=limits)

    async def close(self) -> None:
        await self._http.aclose()

    async def send(self, call: Call[T]) -> T:
        """Sends a call, again where that is safe, and reads its answer."""
        backoff = Backoff(0.05, 2)
        while True:
            try:
                return await self._once(call)
            except PunctualError as error:
                wait = backoff.next()
                if backoff.tries >= self.settings.tries or not call.repeat.allows(error):
                    raise
                after = error.retry_after if isinstance(error, Refused) else None
                await sleep(max(wait, after or 0))

    async def _once(self, call: Call[T]) -> T:
        answer = await self._send_to_any(call)
        try:
            document = decode(answer.content) if answer.content else None
        except ValueError:
            document = None
        if not answer.is_success:
            raise _error(answer, document)
        if call.path.endswith("/graph") and call.query.get("format") != "json":
            document = answer.text
        try:
            return call.read(document)
        except (KeyError, TypeError, AttributeError) as error:
            raise Indeterminate(f"the answer to {call.method} {call.path} cannot be read: {error!r}") from error

    async def _send_to_any(self, call: Call[Any]) -> httpx.Response:
        """Tries each server until one accepts the call: one that was not sent may be sent to the next."""
        bases = self.settings.bases
        first, not_sent = self._current, None
        for step in range(len(bases)):
            nth = (first + step) % len(bases)
            try:
                answer = await self._exchange(bases[nth], call)
            except _NOT_SENT as error:
                self._leave(nth)
                not_sent = not_sent or error
            except httpx.HTTPError as error:
                self._leave(nth)
                raise Indeterminate(f"no answer from {bases[nth]}: {_said(error)}") from error
            else:
                if answer.status_code in _ASK_ANOTHER:
                    self._leave(nth)
                return answer
        raise Unreachable(f"{', '.join(bases)} cannot be reached: {_said(not_sent)}") from not_sent

    async def _exchange(self, base: str, call: Call[Any]) -> httpx.Response:
        settings = self.settings
        timeout = httpx.Timeout(settings.request_timeout + call.waits, connect=settings.connect_timeout)
        headers = dict(call.headers)
        if call.body is not None:
            headers["Content-Type"] = "application/json"
        return await self._http.request(
            call.method, base + call.target, content=call.body, headers=headers, timeout=timeout
        )

    def _leave(self, nth: int) -> None:
        """The next call uses the next server; of many calls that fail at one server, only the first changes it."""
        if self._current == nth:
            self._current = (nth + 1) % len(self.settings.bases)


def _error(answer: httpx.Response, document: Any) -> PunctualError:
    if isinstance(document, dict) and "code" in document:
        problem = document
    else:
        # Something on the way answered that does not speak problem documents, a proxy for example.
        title = "The answer is not a problem document"
        problem = {"code": "foreign", "title": title, "detail": answer.text[:200]}
    after = _seconds(answer.headers.get("Retry-After"))
    if after is not None:
        problem.setdefault("retry_after_ms", after * 1_000)
    return from_problem(problem, answer.status_code)


def _seconds(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdigit() else None


def _said(error: BaseException | None) -> str:
    return str(error) or type(error).__name__
