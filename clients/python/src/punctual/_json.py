"""JSON as the wire has it: compact, without NaN, integers beyond 2^53 too; bytes travel as base64."""

from __future__ import annotations

import base64
import json
from typing import Any


def encode(value: Any) -> bytes:
    """One JSON document. ``TypeError`` or ``ValueError`` for what JSON has no form for."""
    return json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode()


def decode(text: bytes) -> Any:
    """The document in an answer."""
    return json.loads(text)


def content_fields(name: str, value: Any) -> dict[str, Any]:
    """The field that carries a payload or result: ``NAME``, or ``NAME_base64`` for bytes; none for ``None``."""
    if value is None:
        return {}
    if isinstance(value, (bytes, bytearray, memoryview)):
        return {f"{name}_base64": base64.b64encode(value).decode()}
    return {name: value}


def content_of(name: str, fields: dict[str, Any]) -> Any:
    """The other way round."""
    text = fields.get(f"{name}_base64")
    return fields.get(name) if text is None else base64.b64decode(text)
