"""A proxy between an SDK and a server that can fail: it loses answers, refuses, waits, and counts calls."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Optional

import httpx

Rule = Callable[[str, str], Optional[str]]
"""From method and path to what happens: ``lose`` the answer, ``refuse`` with 429, ``hang``, or nothing."""


class Proxy:
    def __init__(self, target: str):
        self.calls: list[tuple[str, str, Any]] = []
        self.rule: Rule = lambda _method, _path: None
        self._target = httpx.Client(base_url=target, timeout=70)
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"
        threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True).start()

    def once(self, what: str, method: str, path: str) -> None:
        """Does it to the next call of this kind, and to no other."""
        left = [what]
        self.rule = lambda m, p: left.pop() if left and m == method and p.startswith(path) else None

    def always(self, what: str, method: str, path: str) -> None:
        self.rule = lambda m, p: what if m == method and p.startswith(path) else None

    def never(self) -> None:
        self.rule = lambda _method, _path: None

    def count(self, method: str, path: str) -> int:
        return sum(m == method and p.startswith(path) for m, p, _ in self.calls)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _any(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                what = proxy.rule(self.command, self.path)
                proxy.calls.append((self.command, self.path, json.loads(body) if body else None))
                if what == "refuse":
                    problem = {"code": "overload", "title": "The server is busy", "status": 429, "retry_after_ms": 300}
                    return self._answer(429, json.dumps(problem).encode())
                if what == "hang":
                    time.sleep(2)
                    return self._end()
                headers = {name: value for name, value in self.headers.items() if name.lower() != "host"}
                answer = proxy._target.request(self.command, self.path, content=body, headers=headers)
                return self._end() if what == "lose" else self._answer(answer.status_code, answer.content)

            def _answer(self, status: int, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def _end(self) -> None:
                self.close_connection = True

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _any

            def handle(self) -> None:
                try:
                    super().handle()
                except (ConnectionError, httpx.HTTPError):
                    self.close_connection = True

            def log_message(self, *_: Any) -> None:
                return

        return Handler

    def __enter__(self) -> Proxy:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._target.close()
