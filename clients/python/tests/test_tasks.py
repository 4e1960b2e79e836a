"""Tasks that exist: behaviours 29 to 35. Through the asynchronous client, which the synchronous one is made of."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta, timezone

import pytest

import punctual
from punctual import NewTask, errors
from punctual.testing import Server
from tests.waiting import until

conformance = pytest.mark.conformance


def asynchronously(server: Server, test: Callable[[punctual.AsyncClient], Awaitable[None]]) -> None:
    async def run() -> None:
        async with punctual.AsyncClient(server.url, token=None) as client:
            await test(client)

    asyncio.run(run())


@conformance(29)
def test_a_task_is_cancelled_before_its_time(server: Server, queue: str) -> None:
    async def test(client: punctual.AsyncClient) -> None:
        task = await client.insert(queue, delay="1h")
        assert await client.cancel(task.ref) == "cancelled"
        assert (await client.get(task.ref)).state == "cancelled"
        fired = await client.insert(queue)
        while (await client.get(fired.ref)).state == "scheduled":
            await asyncio.sleep(0.01)
        with pytest.raises(errors.AlreadyFired) as refused:
            await client.cancel(fired.ref)
        assert refused.value.code == "task.already_fired"
        assert await client.cancel(fired.ref, stop_if_fired=True) == "cancelled"

    asynchronously(server, test)


@conformance(30)
def test_a_task_is_rescheduled(server: Server, queue: str) -> None:
    async def test(client: punctual.AsyncClient) -> None:
        task = await client.insert(queue, 1, delay="1h")
        at = datetime.now(timezone.utc).replace(microsecond=0) + timedelta(days=3)
        changed = await client.reschedule(task.ref, at=at, priority=1, payload={"new": True})
        assert (changed.execute_at, changed.priority, changed.payload) == (at, 1, {"new": True})
        later = await client.reschedule(task.ref, delay="4d")
        assert later.execute_at > at
        assert (await client.get(task.ref)).execute_at == later.execute_at

    asynchronously(server, test)


@conformance(31)
def test_a_task_is_made_due_now(client: punctual.Client, queue: str) -> None:
    task = client.insert(queue, delay="1h")
    assert client.run_now(task.ref) == "scheduled"
    until(lambda: client.get(task.ref).state == "ready")


@conformance(32)
def test_a_search_goes_through_all_pages(server: Server, queue: str) -> None:
    async def test(client: punctual.AsyncClient) -> None:
        await client.insert_many(NewTask(queue, nth, delay="1h", labels={"odd": str(nth % 2)}) for nth in range(25))
        page = await client.search(queue=queue, limit=10)
        assert len(page) == 10
        assert page.next_cursor is not None
        found = [task.payload async for task in client.iterate(queue=queue, limit=10)]
        assert sorted(found) == list(range(25))
        odd = await client.search(queue=queue, label="odd=1", limit=1_000)
        assert {task.payload % 2 for task in odd} == {1}
        soon = datetime.now(timezone.utc) + timedelta(minutes=30)
        assert len(await client.search(queue=queue, due_before=soon)) == 0
        assert len(await client.search(queue=queue, due_after=soon)) == 25

    asynchronously(server, test)


@conformance(33)
def test_a_wait_ends_with_the_task_or_with_its_time(app: punctual.App) -> None:
    @app.task
    def handler() -> str:
        return "done"

    waiting = handler.after("1h")
    with pytest.raises(errors.WaitTimeout, match="scheduled"):
        app.client.wait(waiting.ref, timeout="50ms")
    assert app.client.get(waiting.ref).state == "scheduled"
    with punctual.Worker(app).running():
        assert app.client.wait(handler.delay().ref).result == "done"


@conformance(34)
def test_a_dead_task_is_found_redriven_and_deleted(app: punctual.App) -> None:
    @app.task
    def handler(ctx: punctual.Context) -> str:
        if "fixed" not in seen:
            raise punctual.Reject("the mailbox is full")
        return "sent"

    seen: list[str] = []
    client = app.client
    with punctual.Worker(app).running():
        task = client.wait(handler.delay().ref)
        assert task.state == "dead"
        assert [dead.ref for dead in client.dead_letters(queue=app.queue, error="mailbox")] == [task.ref]
        seen.append("fixed")
        assert client.redrive(task.ref) == "redriven"
        assert client.wait(task.ref).result == "sent"
    assert client.delete(task.ref) == "deleted"
    with pytest.raises(errors.NotFound):
        client.get(task.ref)


@conformance(35)
def test_a_task_says_what_it_waits_for(client: punctual.Client, queue: str) -> None:
    why = client.why(client.insert(queue, delay="1h").ref)
    assert why["state"] == "scheduled"
    assert client.bury(client.insert(queue, delay="1h").ref, reason="a test") == "buried"
