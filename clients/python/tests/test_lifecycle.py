"""Servers that go and come back, workers that end: behaviours 64 to 69."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import punctual
from punctual import errors
from punctual.testing import Server
from tests import applications
from tests.waiting import LIMIT, until

conformance = pytest.mark.conformance
ROOT = Path(__file__).parents[1]

StartWorker = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def start_worker(server: Server, queue: str) -> Iterator[StartWorker]:
    """Starts ``python -m punctual worker`` for the queue of the test."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*arguments: str) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "PUNCTUAL_URL": server.url, "TEST_QUEUE": queue}
        environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), str(ROOT / "src")])
        command = [sys.executable, "-m", "punctual", "worker", "tests.applications:app", f"--queue={queue}"]
        process = subprocess.Popen([*command, *arguments], cwd=ROOT, env=environment, stderr=subprocess.PIPE)
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def task(queue: str, handler: punctual.AppTask[Any, Any], *args: Any, **options: Any) -> punctual.NewTask:
    return handler.options(queue=queue, **options).task(*args)


@conformance(64)
def test_the_server_was_gone_and_is_back(own_server: Server) -> None:
    @(app := punctual.App("mail", url=own_server.url, token=None)).task
    def handler(name: str) -> str:
        began.append(name)
        gate.wait(LIMIT)
        return name

    began: list[str] = []
    gate = threading.Event()
    task = handler.delay("meanwhile")
    with punctual.Worker(app, lease="10s").running():
        until(lambda: began)
        own_server.terminate()
        gate.set()
        with pytest.raises(errors.Unreachable):
            punctual.Client(own_server.url, tries=1).get(task.ref)
        own_server.start()
        ended = own_server.client.wait(task.ref, timeout=LIMIT)
        assert (ended.result, ended.attempt, began) == ("meanwhile", 1, ["meanwhile"])
        assert own_server.client.wait(handler.delay("after").ref, timeout=LIMIT).result == "after"
    app.client.close()


@conformance(65)
def test_a_killed_server_loses_no_task(own_server: Server) -> None:
    @(app := punctual.App("mail", url=own_server.url, token=None)).task
    def handler(number: int) -> int:
        return number

    client = app.client
    refs = [item.unwrap().ref for item in client.insert_many(handler.task(n) for n in range(20))]
    with punctual.Worker(app, lease="1s").running():
        until(lambda: client.get(refs[0]).succeeded)
        refs += [item.unwrap().ref for item in client.insert_many(handler.task(n) for n in range(20, 40))]
        refs.append(handler.after("200ms", 40).ref)
        own_server.kill()
        own_server.start()
        assert [client.wait(ref, timeout=LIMIT).result for ref in refs] == list(range(41))
    client.close()


@conformance(66)
def test_sigterm_lets_handlers_finish(
    client: punctual.Client, queue: str, start_worker: StartWorker, tmp_path: Path
) -> None:
    file = tmp_path / "held"
    file.touch()
    running = client.insert(task(queue, applications.held_by, str(file)))
    worker = start_worker("--grace=40s", "--executor=ends-in-order")
    until(Path(f"{file}.begun").exists)
    worker.send_signal(signal.SIGTERM)
    assert worker.stderr is not None
    assert any(b"takes no new tasks; 1 still run" in line for line in worker.stderr)
    later = client.insert(task(queue, applications.double, 4))
    until(lambda: client.get(later.ref).state == "ready")
    file.unlink()
    assert worker.wait(LIMIT) == 0
    ended = client.get(running.ref)
    assert (ended.state, ended.result, ended.attempt) == ("succeeded", "finished", 1)
    assert client.get(later.ref).state == "ready"


@conformance(67)
@pytest.mark.parametrize("pool", ["threads", "processes"])
def test_what_has_not_ended_in_time_is_handed_back(
    client: punctual.Client, queue: str, start_worker: StartWorker, pool: str
) -> None:
    stubborn = client.insert(task(queue, applications.endless, max_attempts=1))
    worker = start_worker("--grace=100ms", "--lease=3s", f"--pool={pool}")
    until(lambda: client.get(stubborn.ref).progress == "begun")
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(LIMIT) == 0
    assert client.get(stubborn.ref).state in ("scheduled", "ready", "retrying")
    again = client.lease({"max": 1, "wait_ms": 20_000, "executor": "heir"}, queue=queue).tasks[0]
    assert again.ref == stubborn.ref
    assert client.report([punctual.Outcome(again.ref, again.token, "succeeded")])[0]["status"] == "accepted"


@conformance(68)
def test_a_drained_worker_finishes_and_ends(app: punctual.App) -> None:
    @app.task
    def handler() -> str:
        began.set()
        gate.wait(LIMIT)
        return "finished"

    began, gate = threading.Event(), threading.Event()
    executors = app.client.executors
    worker = punctual.Worker(app, lease="3s", executor=f"drained-{app.queue[-6:]}")
    ended: list[Any] = []
    thread = threading.Thread(target=lambda: ended.append(worker.run()))
    thread.start()
    first = handler.delay()
    assert began.wait(LIMIT)
    executors.drain(worker.name)
    until(lambda: worker._state is not None and worker._state.stop.is_set())
    left = handler.delay()
    gate.set()
    thread.join(LIMIT)
    assert ended[0].succeeded == 1
    assert app.client.get(first.ref).result == "finished"
    assert app.client.get(left.ref).state in ("scheduled", "ready")


@conformance(69)
def test_a_worker_is_known_and_is_gone_when_it_has_ended(app: punctual.App) -> None:
    @app.task
    def handler() -> None:
        return

    client, name = app.client, f"known-{app.queue[-6:]}"
    options: dict[str, Any] = {"version": "2.1.0", "host": "a.example.org", "labels": {"zone": "a"}, "concurrency": 3}
    with punctual.Worker(app, lease="3s", executor=name, **options).running():
        assert client.wait(handler.delay().ref).succeeded

        until(lambda: name in {executor.name for executor in client.executors.list(limit=1_000)})
        said = client.executors.get(name).raw
        assert said["queues"] == [app.queue]
        assert (said["version"], said["host"], said["labels"]) == ("2.1.0", "a.example.org", {"zone": "a"})
        assert (said["capacity"], said["kinds"]) == (3, ["handler"])
    until(lambda: name not in {executor.name for executor in client.executors.list(limit=1_000)})


@conformance(44, 52, 57)
def test_handlers_in_processes(client: punctual.Client, queue: str, start_worker: StartWorker) -> None:
    worker = start_worker("--pool=processes", "--concurrency=3", "--lease=3s")
    stopped = client.insert(task(queue, applications.patient))
    until(lambda: client.get(stopped.ref).progress == "begun")
    assert client.cancel(stopped.ref, stop_if_fired=True) == "stop_requested"
    ended = client.wait(stopped.ref, timeout=LIMIT)
    assert ended.result == "cancelled"
    assert [line["text"] for line in ended.log] == ["waiting for the wish to stop"]
    assert client.wait(client.insert(task(queue, applications.double, 2**60)).ref).result == 2**61
    assert client.wait(client.insert(task(queue, applications.process_id)).ref).result != worker.pid
    crashed = client.wait(client.insert(task(queue, applications.crash, max_attempts=1)).ref, timeout=LIMIT)
    assert crashed.last_error == "the process of the handler ended (exit code 7)"
    endless = client.insert(task(queue, applications.endless, max_attempts=1, timeout="300ms"))
    # The worker's word or the server's: whichever is first.
    said = str(client.wait(endless.ref, timeout=LIMIT).last_error)
    assert "ran longer than its timeout of 0.3 s" in said or "did not finish within 300 ms" in said
    assert client.wait(client.insert(task(queue, applications.double, 3)).ref).result == 6
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(LIMIT) == 0


def test_the_command_line_says_what_is_wrong() -> None:
    def run(*arguments: str) -> tuple[int, str]:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])}
        command = [sys.executable, "-m", "punctual", *arguments]
        ended = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, check=False)
        return ended.returncode, ended.stderr

    assert run("worker", "tests.applications:none") == (
        1,
        "punctual: tests.applications:none: module tests.applications has no none\n",
    )
    code, said = run("worker", "no_such_module:app")
    assert code == 1
    assert "no_such_module" in said
    assert run("worker")[0] == 2
