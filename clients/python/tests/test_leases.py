"""Leases, queues, concurrency and the guard: behaviours 53 to 63 and 70."""

from __future__ import annotations

import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import punctual
from punctual.guard import guard_key
from punctual.models import LeasedTask
from punctual.testing import Server
from tests.proxy import Proxy
from tests.waiting import LIMIT, until

conformance = pytest.mark.conformance


@conformance(53)
def test_a_handler_that_outlives_its_lease_keeps_it(app: punctual.App) -> None:
    @app.task
    def long(ctx: punctual.Context) -> bool:
        runs.append(ctx.attempt)
        # It holds the interpreter, too: heartbeats have a thread of their own.
        end = time.monotonic() + 4.5
        while time.monotonic() < end:
            sum(range(1_000))
        return ctx.is_stopping

    runs: list[int] = []
    queues = [f"{app.queue}-{word}" for word in ("threads", "asyncio")]
    threads = punctual.Worker(app, lease="3s", queues=queues[0])
    loop = punctual.Worker(app, lease="3s", queues=queues[1], pool="asyncio")
    with threads.running(), loop.running():
        tasks = [long.options(queue=queue).delay() for queue in queues]
        ended = [app.client.wait(task.ref) for task in tasks]
    assert runs == [1, 1]
    assert [(task.result, task.attempt) for task in ended] == [(False, 1), (False, 1)]


@conformance(54)
def test_a_lost_lease_is_noticed_and_its_outcome_is_not_reported(
    server: Server, app: punctual.App, proxy: Proxy
) -> None:
    @app.task
    def handler(ctx: punctual.Context) -> int:
        began.append(ctx.attempt)
        if ctx.attempt == 1:
            ctx.wait_for_stop(60)
            reasons.append(ctx.stop_reason)
        return ctx.attempt

    began: list[int] = []
    reasons: list[Any] = []
    cut_off = punctual.App(app.queue, url=proxy.url, token=None, tries=1)
    cut_off.tasks = app.tasks
    task = handler.delay()
    worker = punctual.Worker(cut_off, lease="3s", concurrency=1, executor="cut-off")
    with worker.running():
        until(lambda: began)
        proxy.always("refuse", "POST", "/v1/heartbeats")
        with punctual.Worker(app).running():
            assert app.client.wait(task.ref).result == 2
        proxy.never()
        assert until(lambda: reasons) == ["lost"]
    assert proxy.count("POST", "/v1/outcomes") == 0
    assert began == [1, 2]
    cut_off.client.close()


@conformance(55)
def test_an_outcome_that_is_too_late_is_stale(client: punctual.Client, queue: str) -> None:
    task = client.insert(queue)
    until(lambda: client.get(task.ref).state == "ready")
    first = client.lease({"max": 1, "lease_ms": 100, "executor": "late", "wait_ms": 5_000}, queue=queue).tasks[0]
    second = until(lambda: client.lease({"executor": "heir", "wait_ms": 1_000}, queue=queue).tasks)[0]
    late = {"ref": first.ref, "token": first.token, "outcome": "succeeded", "result": "late"}
    assert client.report([late])[0]["status"] == "stale"
    good = punctual.Outcome(second.ref, second.token, "succeeded", result="good")
    assert [client.report([good])[0]["status"] for _ in range(2)] == ["accepted", "stale"]
    assert client.get(task.ref).result == "good"


def test_progress_that_the_server_refuses_ends_no_lease(app: punctual.App) -> None:
    @app.task
    def handler(ctx: punctual.Context) -> str:
        deep: list[Any] = []
        for _ in range(200):
            deep = [deep]
        ctx.progress(deep)
        seen.wait(4)
        ctx.progress("well")
        seen.wait(4)
        return "done"

    seen = threading.Event()
    with punctual.Worker(app, lease="3s").running():
        task = handler.delay()
        until(lambda: app.client.get(task.ref).progress == "well")
        seen.set()
        ended = app.client.wait(task.ref)
    assert (ended.result, ended.attempt) == ("done", 1)


@conformance(56)
def test_progress_and_log_lines_are_seen_while_a_handler_runs(app: punctual.App) -> None:
    @app.task
    def handler(ctx: punctual.Context) -> None:
        ctx.progress({"percent": 10})
        ctx.progress({"percent": 50})
        ctx.log("half of it", level="warn")
        ctx.log("größe")
        seen.wait(40)
        ctx.log("the last line")

    seen = threading.Event()
    with punctual.Worker(app, lease="3s").running():
        task = handler.delay()
        until(lambda: app.client.get(task.ref).progress == {"percent": 50})
        assert [line["text"] for line in app.client.get(task.ref).log] == ["half of it", "größe"]
        seen.set()
        ended = app.client.wait(task.ref)
    lines = [(line.get("level"), line["text"]) for line in ended.log]
    assert lines == [("warn", "half of it"), ("info", "größe"), ("info", "the last line")]


@conformance(57)
@pytest.mark.parametrize("pool", ["threads", "asyncio"])
def test_a_cancelled_handler_is_notified(app: punctual.App, pool: str) -> None:
    @app.task
    def polite(ctx: punctual.Context) -> str:
        began.append(1)
        ctx.wait_for_stop(60)
        return f"ended: {ctx.stop_reason}"

    @app.task(max_attempts=1)
    def obedient(ctx: punctual.Context) -> None:
        began.append(1)
        while True:
            ctx.wait_for_stop(60)
            ctx.raise_if_stopping()

    began: list[int] = []
    client = app.client
    with punctual.Worker(app, lease="3s", pool=pool).running():
        tasks = [polite.delay(), obedient.delay()]
        until(lambda: len(began) == 2)
        for task in tasks:
            assert client.cancel(task.ref, stop_if_fired=True) == "stop_requested"
        first, second = (client.wait(task.ref) for task in tasks)
    assert (first.state, first.result) == ("succeeded", "ended: cancelled")
    assert (second.state, second.last_error) == ("cancelled", "stopped by its handler: cancelled")


@conformance(58)
def test_several_queues_each_with_its_bound(app: punctual.App, proxy: Proxy) -> None:
    @app.task
    def handler(name: str) -> None:
        with lock:
            running[name] = running.get(name, 0) + 1
            most[name] = max(most.get(name, 0), running[name])
        gate.wait(40)
        with lock:
            running[name] -= 1

    lock, gate = threading.Lock(), threading.Event()
    running: dict[str, int] = {}
    most: dict[str, int] = {}
    names = [f"{app.queue}-{word}" for word in ("slow", "fast")]
    tasks = [handler.options(queue=name).delay(name) for name in names for _ in range(6)]
    through = punctual.App(app.queue, url=proxy.url, token=None)
    through.tasks = app.tasks
    worker = punctual.Worker(through, queues=[(names[0], 2), names[1]], concurrency=8)
    with worker.running():
        until(lambda: running == {names[0]: 2, names[1]: 6})
        gate.set()
        for task in tasks:
            assert app.client.wait(task.ref).succeeded
    assert most == {names[0]: 2, names[1]: 6}
    assert proxy.count("POST", "/v1/queues") == 0
    assert proxy.count("POST", "/v1/lease") >= 2
    through.client.close()


@conformance(59)
@pytest.mark.parametrize("pool", ["threads", "asyncio"])
def test_as_many_run_as_the_concurrency_and_no_more(app: punctual.App, pool: str) -> None:
    @app.task
    def handler() -> None:
        with lock:
            running.append(1)
            most.append(len(running))
        gate.wait(40)
        with lock:
            running.pop()

    lock, gate = threading.Lock(), threading.Event()
    running: list[int] = []
    most: list[int] = []
    items = app.client.insert_many(handler.task() for _ in range(20))
    with punctual.Worker(app, pool=pool, concurrency=4).running():
        until(lambda: len(running) == 4)
        gate.set()
        for item in items:
            assert app.client.wait(item.unwrap().ref).succeeded
    assert max(most) == 4


@conformance(60)
def test_several_tasks_are_leased_with_one_call(app: punctual.App, proxy: Proxy) -> None:
    @app.task
    def handler() -> None:
        return

    items = [item.unwrap() for item in app.client.insert_many(handler.task() for _ in range(50))]
    until(lambda: all(app.client.get(task.ref).state == "ready" for task in items))
    through = punctual.App(app.queue, url=proxy.url, token=None)
    through.tasks = app.tasks
    with punctual.Worker(through, concurrency=100).running():
        for task in items:
            assert app.client.wait(task.ref).succeeded
    leases = [body for _, path, body in proxy.calls if path.endswith("/lease")]
    assert (leases[0]["max"], leases[0]["wait_ms"]) == (100, 20_000)
    assert len(leases) < 10
    assert proxy.count("POST", "/v1/outcomes") < 25
    through.client.close()


@conformance(61)
def test_versions_of_handlers(server: Server, app: punctual.App) -> None:
    @app.task(handler_versions=">=2.1, <3")
    def handler() -> None:
        return

    client, task = app.client, handler.delay()
    with punctual.Worker(app, version="1.9.0", executor="old").running():
        plain = handler.options(handler_versions=None).delay()
        assert client.wait(plain.ref).succeeded
        assert client.get(task.ref).state == "ready"
        with punctual.Worker(app, version="2.1.0", executor="new").running():
            ended = client.wait(task.ref)
    assert "new" in {entry["by"] for entry in ended.history}


@conformance(70)
def test_the_trace_context_is_handed_over(app: punctual.App) -> None:
    @app.task
    def handler(ctx: punctual.Context) -> str | None:
        return ctx.task.traceparent

    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    with punctual.Worker(app).running():
        result = app.client.wait(handler.options(traceparent=trace).delay().ref).result
    assert result.split("-")[1] == trace.split("-")[1]


@pytest.fixture(scope="module")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    program = shutil.which("redis-server")
    assert program, "the guard is tested with Redis: scripts/install-servers installs it"
    socket = tmp_path_factory.mktemp("redis") / "socket"
    command = [program, "--port", "0", "--unixsocket", str(socket), "--save", "", "--dir", str(socket.parent)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    until(socket.exists)
    yield f"unix://{socket}"
    process.terminate()
    process.wait(30)


@conformance(62)
def test_of_two_workers_the_guard_lets_one_execute(
    app: punctual.App, redis_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    other = punctual.Guard(redis_url, holder="the-other")

    class Overtaken(punctual.Guard):
        async def take(self, task: LeasedTask) -> bool:
            """Another worker has the first attempt too, and is faster."""
            if task.attempt == 1:
                assert await other.take(task)
            return await super().take(task)

        async def close(self) -> None:
            await other.close()
            await super().close()

    @app.task
    def handler(ctx: punctual.Context) -> int:
        runs.append(ctx.attempt)
        return ctx.attempt

    runs: list[int] = []
    task = handler.delay()
    caplog.set_level("INFO", "punctual.guard")
    with punctual.Worker(app, lease="3s", guard=Overtaken(redis_url, holder="this-one")).running():
        assert app.client.wait(task.ref, timeout=LIMIT).result == 2
    assert runs == [2]
    assert f"task {task.ref} attempt 1: the guard is held by the-other, not executed again" in caplog.text


def test_the_key_of_a_guard_is_that_of_executors_in_rust() -> None:
    leased = LeasedTask.of({"ref": "t" + "0" * 25 + "z", "token": "12-30000h-w7"})
    assert guard_key("punctual", leased) == "punctual:{g:31}:12:guard"
    negative = LeasedTask.of({"ref": "t" + "0" * 13 + "f" + "z" * 12, "token": "1-100"})
    assert guard_key("p", negative) == "p:{g:-1}:1:guard"


@conformance(63)
def test_a_guard_that_does_not_answer_keeps_no_task_from_running(app: punctual.App, tmp_path: Path) -> None:
    @app.task
    def handler() -> str:
        return "ran"

    with punctual.Worker(app, guard=punctual.Guard(f"unix://{tmp_path}/none")).running():
        assert app.client.wait(handler.delay().ref).result == "ran"
