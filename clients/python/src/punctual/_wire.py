"""The forms of an executor's calls: lease answers, outcomes, receipts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable

from punctual._call import without_none
from punctual._json import content_fields
from punctual.models import LeasedTask, Outcome


@dataclass(frozen=True)
class LeaseAnswer:
    """Tasks, and the executor's desired state: ``quiet``, ``drain``, or none to serve."""

    tasks: list[LeasedTask]
    wish: str | None = None


def lease_answer(raw: Any) -> LeaseAnswer:
    return LeaseAnswer([LeasedTask.of(task) for task in raw["tasks"]], raw.get("wish"))


def outcome_fields(outcome: Outcome | dict[str, Any]) -> dict[str, Any]:
    """One outcome of a report."""
    if isinstance(outcome, dict):
        return outcome
    return without_none(
        ref=outcome.ref,
        token=outcome.token,
        outcome=outcome.outcome,
        status_msg=outcome.status_msg,
        retry_after_ms=outcome.retry_after_ms,
        log=outcome.log or None,
        **content_fields("result", outcome.result),
    )


def receipts(count: int) -> Callable[[Any], list[dict[str, Any]]]:
    """Reads the receipts for this many outcomes."""

    def read(raw: Any) -> list[dict[str, Any]]:
        results = list(raw["results"])
        if len(results) != count:
            raise KeyError(f"{len(results)} receipts for {count} outcomes")
        return results

    return read
