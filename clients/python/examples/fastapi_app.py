"""An API that answers at once, and lets tasks do the work: reminders that can be withdrawn, and what became of them.

pip install punctual fastapi uvicorn
uvicorn fastapi_app:api                          # the API
python -m punctual worker fastapi_app:app        # the worker
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

from fastapi import FastAPI, HTTPException

import punctual

app = punctual.App("reminders")


@app.task(max_attempts=3, retry=punctual.retry.exponential("1s"), timeout="30s")
async def remind(ctx: punctual.Context, to: str, text: str) -> str:
    ctx.log(f"reminding {to}")
    return f"{to}: {text}"


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    yield
    await app.aclose()


api = FastAPI(lifespan=lifespan)


@api.post("/reminders/{name}", status_code=202)
async def create(name: str, to: str, text: str, at: datetime) -> dict[str, Any]:
    """Said again under the same name, it moves the reminder."""
    task = await remind.options(key=f"reminder:{name}").aat(at, to, text)
    return {"name": name, "due": task.execute_at, "was": task.outcome}


@api.get("/reminders/{name}")
async def read(name: str) -> dict[str, Any]:
    try:
        task = await app.async_client.get(f"key:reminder:{name}")
    except punctual.errors.NotFound as error:
        raise HTTPException(404, error.detail) from error
    return {"name": name, "due": task.execute_at, "state": task.phase, "result": task.result}


@api.delete("/reminders/{name}", status_code=204)
async def withdraw(name: str) -> None:
    try:
        await app.async_client.cancel(f"key:reminder:{name}")
    except punctual.errors.AlreadyFired as error:
        raise HTTPException(409, "it was sent already") from error
