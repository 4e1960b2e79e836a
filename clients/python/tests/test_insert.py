"""Insert: behaviours 1 to 16."""

from __future__ import annotations

import time
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

import punctual
from punctual import NewTask, errors
from tests.proxy import Proxy

conformance = pytest.mark.conformance


def echo(app: punctual.App, payload: Any) -> Any:
    """What a handler returns that returns its payload."""

    @app.task("echo", raw=True)
    def handler(payload: Any) -> Any:
        return payload

    task = app.client.insert(app.queue, payload, kind="echo")
    with punctual.Worker(app).running():
        ended = app.client.wait(task.ref)
    assert ended.succeeded, ended.last_error
    assert ended.payload == payload
    return ended.result


@conformance(1)
def test_a_task_without_a_time_is_due_now(client: punctual.Client, queue: str) -> None:
    task = client.insert(queue, {"to": "ada"}, kind="welcome")
    assert (task.outcome, task.queue, task.kind) == ("created", queue, "welcome")
    assert task.execute_at_ms <= task.created_at_ms
    assert client.get(task.ref).ref == task.ref


@conformance(2)
def test_a_task_with_a_delay_does_not_fire_before_it(app: punctual.App) -> None:
    @app.task
    def handler() -> None:
        return

    began_ms = time.time_ns() // 1_000_000
    with punctual.Worker(app).running():
        ended = app.client.wait(handler.after("150ms").ref)
    assert ended.execute_at_ms >= began_ms + 150
    assert ended.lateness_ms is not None
    assert ended.lateness_ms >= 0
    assert ended.fired_at_ms == ended.execute_at_ms + ended.lateness_ms


@conformance(3)
def test_an_instant_is_the_same_in_every_time_zone(client: punctual.Client, queue: str) -> None:
    at = datetime(2031, 7, 4, 12, 30, 0, 250_000, tzinfo=timezone(timedelta(hours=5, minutes=30)))
    for form in (at, at.astimezone(timezone.utc), int(at.timestamp() * 1_000), "2031-07-04T12:30:00.250+05:30"):
        assert client.insert(queue, at=form).execute_at == at
    with pytest.raises(ValueError, match="time zone"):
        client.insert(queue, at=datetime(2031, 7, 4))


TEXTS = [
    "na\u00efve Z\u00fcrich",
    "\u65e5\u672c\u8a9e",
    "\U0001f600\U0001f469\u200d\U0001f467",
    "e\u0301\u202e\u200b",
    'a\0b\n"\\',
    "\ud7ff\ue000\U0010ffff",
]


@conformance(4)
@pytest.mark.parametrize("text", TEXTS, ids=ascii)
def test_any_text_comes_back_letter_for_letter(app: punctual.App, text: str) -> None:
    assert echo(app, {text: [text]}) == {text: [text]}


@conformance(5)
def test_numbers_are_exact(app: punctual.App) -> None:
    numbers = [2**53 + 1, -(2**63), 2**64 + 1, 10**40 + 7, 0.1, -1.5e-300]
    assert echo(app, numbers) == numbers


@conformance(6)
@pytest.mark.parametrize("payload", [None, {}, [], "", 0, False], ids=repr)
def test_empty_payloads_are_kept_apart(app: punctual.App, payload: Any) -> None:
    result = echo(app, payload)
    assert (type(result), result) == (type(payload), payload)


@conformance(7)
def test_bytes_are_a_payload_and_a_result(app: punctual.App) -> None:
    assert echo(app, bytes(range(256))) == bytes(range(256))


@conformance(8)
def test_long_payloads_come_back_whole(app: punctual.App) -> None:
    long = {"text": "ä" * 100_000, "numbers": list(range(3_000))}
    assert echo(app, long) == long


@conformance(9)
def test_a_task_id_is_exact(client: punctual.Client, queue: str) -> None:
    task_id = 2**63 - 1 - int.from_bytes(queue.encode()[-3:], "big")
    task = client.insert(queue, task_id=task_id, delay="1h")
    assert task.task_id == task_id
    assert [found.ref for found in client.find(task_id=task_id)] == [task.ref]


@conformance(10)
def test_a_key_is_an_identity(client: punctual.Client, queue: str) -> None:
    first = client.insert(queue, 1, key=queue, delay="1h")
    second = client.insert(queue, 2, key=queue, delay="2h")
    kept = client.insert(queue, 3, key=queue, on_conflict="keep")
    assert [first.outcome, second.outcome, kept.outcome] == ["created", "replaced", "existing"]
    assert client.get(f"key:{queue}").payload == 2
    with pytest.raises(errors.TaskExists) as refused:
        client.insert(queue, 4, key=queue, on_conflict="fail")
    assert refused.value.code == "task.exists"
    assert refused.value.existing is not None
    assert refused.value.existing["payload"] == 2


@conformance(11)
def test_a_higher_version_supersedes_a_lower_one(client: punctual.Client, queue: str) -> None:
    client.insert(queue, "old", key=queue, task_version=1, delay="1h")
    client.insert(queue, "new", key=queue, task_version=2, delay="1h")
    with pytest.raises(errors.VersionSuperseded) as refused:
        client.insert(queue, "old", key=queue, task_version=1)
    assert refused.value.existing is not None
    assert refused.value.existing["task_version"] == 2
    assert {task.task_version for task in client.find(key=queue)} >= {2}


@conformance(12)
def test_all_settings_of_a_task_arrive(client: punctual.Client, queue: str) -> None:
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    task = client.insert(
        queue,
        delay="1h",
        name="Ada's welcome",
        labels={"team": "growth", "größe": "klein"},
        priority=1,
        timeout="1.5s",
        deadline=timedelta(hours=2),
        max_attempts=7,
        retry=punctual.retry.exponential("1s", factor=3, max_delay="1m", jitter=0.1),
        concurrency_key="customer-7",
        handler_versions=">=2.1, <3",
        traceparent=trace,
    )
    task = client.get(task.ref)
    assert (task.name, task.priority, task.timeout_ms, task.deadline_ms) == ("Ada's welcome", 1, 1_500, 7_200_000)
    assert task.labels == {"team": "growth", "größe": "klein"}
    assert (task.max_attempts, task.concurrency_key, task.handler_versions) == (7, "customer-7", ">=2.1, <3")
    retry = {"strategy": "exponential", "delay_ms": 1_000, "factor": 3, "max_delay_ms": 60_000, "jitter": 0.1}
    assert task.raw["retry"] == retry
    assert task.traceparent is not None
    assert task.traceparent.split("-")[1] == trace.split("-")[1]


@conformance(13)
def test_a_field_that_is_not_valid_is_named(server: Any, proxy: Proxy) -> None:
    client = punctual.Client(proxy.url, token=None)
    with pytest.raises(errors.InvalidRequest) as refused:
        client.insert("no spaces", priority=9)
    assert {error.pointer for error in refused.value.errors} == {"/queue", "/priority"}
    assert refused.value.code == "request.invalid"
    assert not refused.value.may_have_happened
    assert proxy.count("POST", "/v1/tasks") == 1
    with pytest.raises(ValueError, match="not JSON compliant"):
        client.insert("mail", float("nan"))
    assert proxy.count("POST", "/v1/tasks") == 1
    client.close()


@conformance(14)
def test_a_faulty_task_does_not_spoil_its_batch(client: punctual.Client, queue: str) -> None:
    tasks = [NewTask(queue, 0), NewTask("no spaces", 1), NewTask(queue, 2, priority=9), NewTask(queue, 3)]
    items = client.insert_many(tasks)
    assert [item.status for item in items] == [201, 400, 400, 201]
    assert [item.task and item.task.payload for item in items] == [0, None, None, 3]
    assert items[2].error is not None
    assert (items[2].error.code, items[2].error.field) == ("request.invalid", "/tasks/2/priority")
    with pytest.raises(errors.InvalidRequest):
        items[1].unwrap()


@conformance(15)
def test_a_batch_of_any_length_is_sent_in_parts(proxy: Proxy, queue: str) -> None:
    with punctual.Client(proxy.url, token=None) as client:
        items = client.insert_many(NewTask(queue, nth, delay="1d") for nth in range(10_003))
    assert [item.task and item.task.payload for item in items] == list(range(10_003))
    assert [len(body["tasks"]) for _, _, body in proxy.calls] == [10_000, 3]


@conformance(16)
def test_an_empty_batch_sends_nothing(proxy: Proxy) -> None:
    with punctual.Client(proxy.url, token=None) as client:
        assert client.insert_many([]) == []
    assert proxy.calls == []
