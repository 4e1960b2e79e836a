"""The applications of processes that tests start: they know their server and queue from the environment."""

from __future__ import annotations

import os
import time
from pathlib import Path

import punctual

app = punctual.App(os.environ.get("TEST_QUEUE", "default"), version="2.1.0")


@app.task
def double(number: int) -> int:
    return number * 2


@app.task
def process_id() -> int:
    return os.getpid()


@app.task
def crash() -> None:
    os._exit(7)


@app.task
def endless(ctx: punctual.Context) -> None:
    ctx.progress("begun")
    while True:
        time.sleep(0.05)


@app.task
def patient(ctx: punctual.Context) -> str:
    ctx.log("waiting for the wish to stop")
    ctx.progress("begun")
    ctx.wait_for_stop(60)
    return str(ctx.stop_reason)


@app.task
def held_by(file: str) -> str:
    """Runs while the file is there."""
    Path(file + ".begun").touch()
    while Path(file).exists():
        time.sleep(0.01)
    return "finished"
