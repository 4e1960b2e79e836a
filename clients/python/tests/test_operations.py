"""Queues, schedules, workflows, bulk operations: behaviours 36 to 43."""

from __future__ import annotations

from typing import Any

import pytest

import punctual
from punctual import NewTask, errors
from tests.waiting import until

conformance = pytest.mark.conformance


@conformance(36)
def test_settings_change_with_a_revision(client: punctual.Client, queue: str) -> None:
    first = client.queues.put(queue, {"concurrency": 5, "max_attempts": 2})
    second = client.queues.patch(queue, revision=first.revision, concurrency=None, max_waiting=10)
    assert "concurrency" not in second.raw
    assert (second.raw["max_attempts"], second.raw["max_waiting"]) == (2, 10)
    with pytest.raises(errors.PreconditionFailed) as refused:
        client.queues.patch(queue, revision=first.revision, concurrency=1)
    assert refused.value.code == "precondition.failed"
    assert client.queues.get(queue).revision == second.revision
    assert queue in {each.queue for each in client.queues.list(prefix=queue)}
    assert "max_waiting" not in client.queues.reset(queue).raw


@conformance(37)
def test_no_task_of_a_paused_queue_starts(app: punctual.App) -> None:
    @app.task
    def handler() -> None:
        return

    client = app.client
    paused = client.queues.pause(app.queue, reason="the provider is down")
    assert paused.pause is not None
    assert paused.pause["reason"] == "the provider is down"
    with punctual.Worker(app).running():
        task = handler.delay()
        until(lambda: client.get(task.ref).state == "ready")
        with pytest.raises(errors.WaitTimeout):
            client.wait(task.ref, timeout="300ms")
        assert client.queues.resume(app.queue).pause is None
        assert client.wait(task.ref).succeeded


@conformance(38)
def test_a_full_queue_refuses(server: Any, queue: str) -> None:
    with punctual.Client(server.url, token=None, tries=1) as client:
        client.queues.patch(queue, max_waiting=2)

        def refused() -> errors.QueueFull | None:
            # Engines apply a change within a second.
            try:
                client.insert(queue, delay="1h")
            except errors.QueueFull as error:
                return error
            return None

        error = until(refused)
    assert error is not None
    assert (error.code, error.may_have_happened) == ("queue.full", False)
    assert error.retry_after is not None


@conformance(39)
def test_the_life_of_a_schedule(client: punctual.Client, queue: str) -> None:
    schedules, task = client.schedules, NewTask(queue, {"at": {"$expr": "scheduled_at"}}, kind="digest")
    stored = schedules.put(queue, task, cron="0 9 * * MON-FRI", time_zone="Europe/Berlin", overlap="skip")
    assert (stored.cron, stored.time_zone, stored.task["kind"]) == (["0 9 * * MON-FRI"], "Europe/Berlin", "digest")
    again = schedules.put(queue, task, cron="0 9 * * MON-FRI", time_zone="Europe/Berlin", overlap="skip")
    assert again.revision == stored.revision
    coming = schedules.next_runs(queue, 3)
    assert len(coming) == 3
    assert coming[0] == again.next_run_at_ms
    run = schedules.run(queue)
    assert run.task_ref is not None
    assert client.get(run.task_ref).kind == "digest"
    assert [each.task_ref for each in schedules.runs(queue)][:1] == [run.task_ref]
    assert schedules.pause(queue, reason="a holiday").pause is not None
    assert schedules.resume(queue).pause is None
    assert queue in {each.name for each in schedules.list(limit=1_000)}
    schedules.delete(queue)
    with pytest.raises(errors.NotFound):
        schedules.get(queue)
    with pytest.raises(errors.ConfigurationError, match="delay"):
        schedules.put(queue, NewTask(queue, delay="1h"), every="1h")


@conformance(40)
def test_a_schedule_makes_its_tasks_by_itself(app: punctual.App) -> None:
    @app.task
    def tick(name: str) -> None:
        seen.append(name)

    seen: list[str] = []
    with punctual.Worker(app).running():
        app.client.schedules.put(app.queue, tick.task("a tick"), every="1s")
        until(lambda: len(seen) >= 2)
        app.client.schedules.delete(app.queue)
    assert set(seen) == {"a tick"}


@conformance(41)
def test_a_workflow_passes_results_on(app: punctual.App) -> None:
    @app.task
    def price(item: str) -> dict[str, Any]:
        return {"item": item, "cents": 2**60}

    @app.task
    def bill(of: dict[str, Any]) -> int:
        return int(of["cents"]) + 1

    nodes = {
        "price": {"task": price.task(item=punctual.expr("input.item"))},
        "bill": {"task": bill.task(of=punctual.expr("nodes.price.result")), "after": ["price"]},
    }
    workflows = app.client.workflows
    with punctual.Worker(app).running():
        workflow = workflows.wait(workflows.create(nodes, name="order", input={"item": "tea"}).ref)
    assert workflow.state == "succeeded"
    assert workflow.nodes["bill"]["result"] == 2**60 + 1
    assert "bill" in workflows.graph(workflow.ref)
    assert {node["name"] for node in workflows.graph(workflow.ref, format="json")["nodes"]} == {"price", "bill"}
    assert workflow.ref in {each.ref for each in workflows.list(name="order")}


@conformance(42)
def test_a_workflow_compensates(app: punctual.App) -> None:
    @app.task
    def step(name: str) -> str:
        seen.append(name)
        if name == "pay":
            raise punctual.Reject("no money")
        return name

    seen: list[str] = []
    nodes = {
        "reserve": {"task": step.task("reserve"), "compensate": {"task": step.task("release")}},
        "pay": {"task": step.task("pay"), "after": ["reserve"]},
    }
    workflows = app.client.workflows
    with punctual.Worker(app).running():
        workflow = workflows.wait(workflows.create(nodes).ref)
        assert workflow.state == "compensated"
        assert seen == ["reserve", "pay", "release"]
        idle = workflows.create({"a": {"task": NewTask(app.queue + "-idle")}})
        workflows.cancel(idle.ref, reason="a test")
        assert workflows.wait(idle.ref).state == "cancelled"


@conformance(43)
def test_a_bulk_operation(client: punctual.Client, queue: str) -> None:
    client.insert_many(NewTask(queue, nth, delay="1h", labels={"campaign": "spring"}) for nth in range(20))
    preview = client.bulk.preview("cancel", filter={"queue": queue, "label": "campaign=spring"}, reason="a test")
    assert (preview.state, preview.count) == ("previewed", 20)
    done = client.bulk.wait(client.bulk.confirm(preview).id)
    assert (done.state, done.done, done.failed) == ("done", 20, 0)
    assert {task.state for task in client.iterate(queue=queue)} == {"cancelled"}
    assert preview.id in {each.id for each in client.bulk.list()}
