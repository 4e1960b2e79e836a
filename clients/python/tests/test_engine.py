"""The engine whose time a test moves: behaviour 71."""

from __future__ import annotations

import pytest

import punctual
from punctual import errors
from punctual.testing import Engine, find_binary

pytest_plugins = ["punctual.testing.plugin"]
conformance = pytest.mark.conformance


@conformance(71)
def test_time_moves_when_the_test_moves_it(punctual_engine: Engine) -> None:
    app = punctual.App("mail")

    @app.task(retry=punctual.retry.fixed("10m"), max_attempts=3)
    def remind(ctx: punctual.Context, name: str) -> str:
        ran.append((name, round((punctual_engine.now_ms - began_ms) / 60_000)))
        if name == "flaky" and ctx.attempt < 3:
            raise ValueError("not yet")
        if name == "parent":
            remind.after("30m", "child")
        return name

    ran: list[tuple[str, int]] = []
    engine = punctual_engine.work(app)
    began_ms = engine.now_ms
    week, flaky = remind.after("7d", "week"), remind.after("1h", "flaky")
    remind.after("70m", "parent")
    assert engine.advance("59m") == 0
    assert engine.advance("2m") == 1
    assert engine.client.get(flaky.ref).state == "retrying"
    assert engine.advance("1d") == 4
    assert engine.client.get(flaky.ref).result == "flaky"
    assert engine.client.get(week.ref).state == "scheduled"
    assert engine.advance("6d") == 1
    minutes = [("flaky", 60), ("flaky", 70), ("parent", 70), ("flaky", 80), ("child", 100), ("week", 7 * 24 * 60)]
    assert sorted(ran) == sorted(minutes)
    assert [minute for _, minute in ran] == sorted(minute for _, minute in ran)


@conformance(71)
def test_schedules_and_workflows_follow(punctual_engine: Engine) -> None:
    app = punctual.App("reports", version="1.0.0")

    @app.task(handler_versions=">=1")
    def report(name: str) -> str:
        ran.append(name)
        return name

    @app.task
    async def broken() -> None:
        raise punctual.Reject("never")

    ran: list[str] = []
    engine = punctual_engine.work(app)
    engine.advance("3d")
    engine.client.schedules.put("hourly", report.task("hourly"), every="1h")
    engine.advance("6h")
    assert ran.count("hourly") in (6, 7)
    engine.client.schedules.delete("hourly")
    ran.clear()
    nodes = {"a": {"task": report.task("a")}, "b": {"task": report.task("b"), "after": ["a"]}}
    workflow = engine.client.workflows.create(nodes)
    assert engine.run_due() == 2
    assert engine.client.workflows.get(workflow.ref).state == "succeeded"
    assert ran == ["a", "b"]
    dead = broken.delay()
    assert engine.run_due() == 1
    assert engine.client.get(dead.ref).last_error == "never"


def test_a_program_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PUNCTUAL_BIN", "/no/such/punctual")
    with pytest.raises(errors.ConfigurationError, match="PUNCTUAL_BIN"):
        find_binary()
