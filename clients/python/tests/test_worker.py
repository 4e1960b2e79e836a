"""Workers: behaviours 44 to 52, on every kind of pool where that matters."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

import punctual
from punctual import errors
from punctual.testing import Server
from tests.waiting import until

conformance = pytest.mark.conformance
IN_PROCESS = ["threads", "asyncio"]


@conformance(44)
@pytest.mark.parametrize("pool", IN_PROCESS)
def test_a_handler_gets_its_payload_and_gives_its_result(app: punctual.App, pool: str) -> None:
    @app.task
    def plain(name: str, count: int = 2) -> str:
        return name * count

    @app.task
    async def waits(ctx: punctual.Context, name: str) -> dict[str, Any]:
        await asyncio.sleep(0.001)
        return {"name": name, "attempt": ctx.attempt, "ref": ctx.ref}

    @app.task
    def open_ended(**words: str) -> list[str]:
        return sorted(words)

    @app.handle_any
    def anything(ctx: punctual.Context) -> Any:
        return [ctx.task.kind, ctx.payload]

    client = app.client
    with punctual.Worker(app, pool=pool).running():
        tasks = [plain.delay("a"), plain.delay("a", count=3), waits.delay(name="b"), open_ended.delay(x="", y="")]
        results = [client.wait(task.ref).result for task in tasks]
        assert results == ["aa", "aaa", {"name": "b", "attempt": 1, "ref": tasks[2].ref}, ["x", "y"]]
        assert client.wait(client.insert(app.queue, [1], kind="other").ref).result == ["other", [1]]
    assert plain("c") == "cc"
    assert plain.task("a").payload == {"name": "a"}
    with pytest.raises(TypeError, match="plain: missing a required argument"):
        plain.delay()  # type: ignore[call-arg]


@conformance(45)
def test_an_error_is_retried_by_the_policy(app: punctual.App) -> None:
    @app.task(max_attempts=3, retry=punctual.retry.delays(["10ms", "30ms"]))
    def flaky(ctx: punctual.Context) -> None:
        attempts.append((ctx.attempt, ctx.is_last_attempt))
        raise ValueError(f"attempt {ctx.attempt}: größe")

    attempts: list[tuple[int, bool]] = []
    with punctual.Worker(app).running():
        ended = app.client.wait(flaky.delay().ref)
    assert attempts == [(1, False), (2, False), (3, True)]
    assert (ended.state, ended.phase, ended.attempt) == ("dead", "failed", 3)
    assert ended.last_error is not None
    assert ended.last_error.startswith("ValueError: attempt 3: größe\n")
    assert "in flaky" in ended.last_error
    assert "punctual/_execute.py" not in ended.last_error


@conformance(46)
def test_a_handler_sets_the_time_of_its_next_attempt(app: punctual.App) -> None:
    @app.task(retry=punctual.retry.fixed("1h"))
    def busy(ctx: punctual.Context) -> int:
        if ctx.attempt == 1:
            raise punctual.RetryLater("20ms", "the provider says 429")
        return ctx.attempt

    with punctual.Worker(app).running():
        ended = app.client.wait(busy.delay().ref)
    assert ended.result == 2
    assert "the provider says 429" in str(ended.history)


@conformance(47)
def test_a_rejected_task_is_dead_at_once(app: punctual.App) -> None:
    @app.task(max_attempts=5)
    def never() -> None:
        raise punctual.Reject("no such customer")

    with punctual.Worker(app).running():
        ended = app.client.wait(never.delay().ref)
    assert (ended.state, ended.attempt, ended.last_error) == ("dead", 1, "no such customer")


@conformance(48)
def test_a_snoozed_attempt_does_not_count(app: punctual.App) -> None:
    @app.task(max_attempts=1)
    def later(ctx: punctual.Context) -> int:
        runs.append(ctx.attempt)
        if len(runs) < 3:
            raise punctual.Snooze("10ms")
        return len(runs)

    runs: list[int] = []
    with punctual.Worker(app).running():
        ended = app.client.wait(later.delay().ref)
    assert (ended.state, ended.result) == ("succeeded", 3)


@conformance(49)
@pytest.mark.parametrize("payload", [{"other": 1}, {}, [1], "text", {"number": 1, "more": 2}], ids=repr)
def test_a_payload_that_does_not_fit_is_rejected(app: punctual.App, payload: Any) -> None:
    @app.task
    def double(number: int) -> int:
        return number * 2

    with punctual.Worker(app).running():
        ended = app.client.wait(app.client.insert(app.queue, payload, kind="double", max_attempts=5).ref)
    assert (ended.state, ended.attempt) == ("dead", 1)
    assert ended.last_error is not None
    assert ended.last_error.startswith("the payload does not fit: ")


@conformance(50)
def test_a_task_without_a_handler_fails_or_is_left_to_others(app: punctual.App, server: Server) -> None:
    @app.task
    def known() -> str:
        return "known"

    client = app.client
    with punctual.Worker(app).running():
        ended = client.wait(client.insert(app.queue, kind="unknown", max_attempts=1).ref)
    assert (ended.state, ended.last_error) == ("dead", "no handler for kind unknown")
    other = punctual.App(app.queue, url=server.url, token=None)
    other.task("unknown")(lambda: "the other")
    with punctual.Worker(app, only_own_kinds=True).running():
        left, done = client.insert(app.queue, kind="unknown"), known.delay()
        assert client.wait(done.ref).result == "known"
        assert client.get(left.ref).state == "ready"
        with punctual.Worker(other, only_own_kinds=True).running():
            assert client.wait(left.ref).result == "the other"


@conformance(51)
def test_a_result_that_cannot_be_written_is_rejected(app: punctual.App) -> None:
    @app.task
    def result(kind: str) -> Any:
        deep: Any = None
        for _ in range(200):
            deep = [deep]
        return {"set": {1, 2}, "nan": float("nan"), "deep": deep, "good": "good"}[kind]

    with punctual.Worker(app).running():
        tasks = [result.options(max_attempts=1).delay(kind) for kind in ("set", "nan", "deep", "good")]
        ended = [app.client.wait(task.ref) for task in tasks]
    assert [task.state for task in ended] == ["dead", "dead", "dead", "succeeded"]
    assert "Object of type set is not JSON serializable" in str(ended[0].last_error)
    assert "the server refused the outcome" in str(ended[2].last_error)


@conformance(52)
@pytest.mark.parametrize("pool", IN_PROCESS)
def test_a_handler_that_runs_too_long_has_failed(app: punctual.App, pool: str) -> None:
    @app.task(timeout="150ms", max_attempts=1)
    def slow(ctx: punctual.Context) -> str:
        ctx.wait_for_stop(60)
        reasons.append(ctx.stop_reason)
        return "too late"

    @app.task(timeout="150ms", max_attempts=1)
    async def slow_too() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            reasons.append("cancelled")

    reasons: list[Any] = []
    with punctual.Worker(app, pool="threads").running():
        ended = app.client.wait(slow.delay().ref)
        assert ended.state == "dead"
        assert until(lambda: reasons) == ["timeout"]
    reasons.clear()
    with punctual.Worker(app, pool="asyncio").running():
        ended = app.client.wait(slow_too.delay().ref)
        assert ended.state == "dead"
        assert until(lambda: reasons) == ["cancelled"]


def test_wrong_settings_are_refused_at_once(app: punctual.App) -> None:
    with pytest.raises(errors.ConfigurationError, match="at least one handler"):
        punctual.Worker(app)

    @app.task
    def handler() -> None:
        return

    wrong: dict[str, Any] = {"concurrency": -1, "lease": "50ms", "pool": "fibers", "queues": [], "wait": "2m"}
    for option, value in wrong.items():
        with pytest.raises(errors.ConfigurationError):
            punctual.Worker(app, **{option: value})
    with pytest.raises(errors.ConfigurationError, match="two tasks named handler"):
        app.task(handler.function)
    with pytest.raises(errors.ConfigurationError, match="has no name"):
        app.task("positional")(lambda *args: None)
    with pytest.raises(errors.ConfigurationError, match="no option dely"):
        handler.options(dely="1h")


def test_asynchronous_code_inserts(app: punctual.App) -> None:
    @app.task
    async def handler(name: str) -> str:
        return name

    async def insert() -> list[punctual.Task]:
        tasks = [await handler.adelay("a"), await handler.aafter("10ms", "b"), await handler.aat(time_ms(), name="c")]
        await app.aclose()
        return tasks

    with punctual.Worker(app, pool="asyncio").running():
        assert [app.client.wait(task.ref).result for task in asyncio.run(insert())] == ["a", "b", "c"]


@pytest.mark.parametrize("pool", IN_PROCESS)
def test_an_asynchronous_handler_inserts_again_and_again(app: punctual.App, pool: str) -> None:
    @app.task
    async def countdown(number: int) -> int:
        if number:
            await countdown.adelay(number - 1)
        else:
            done.append(number)
        return number

    done: list[int] = []
    with punctual.Worker(app, pool=pool).running():
        countdown.delay(4)
        until(lambda: done)


def time_ms() -> int:
    return time.time_ns() // 1_000_000
