"""The one exception that a user's mistake raises, and its line for a file that has another form."""

from collections.abc import Mapping, Sequence
from typing import Any


class DseError(Exception):
    """A mistake in what the user gave: one line that names the place, what was found, what is allowed."""


class Doubt(UserWarning):
    """What the user gave contradicts itself, but can be used: one line."""


def first_mistake(mistakes: Sequence[Mapping[str, Any]]) -> str:
    """Tell the first of the mistakes that pydantic lists as `field: found X, expected Y`."""
    mistake = mistakes[0]
    if mistake["type"] == "json_invalid":
        return mistake["msg"]
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in mistake["loc"])
    field = path.lstrip(".") or "top level"
    if mistake["type"] == "missing":
        return f"{field}: found nothing, expected a value"
    try:
        found = repr(mistake["input"])
    except (ValueError, RecursionError):  # a number of too many digits
        found = "a value too long to show"
    found = found if len(found) <= 60 else found[:60] + "..."
    return f"{field}: found {found}, expected {mistake['msg'].removeprefix('Input should be ')}"
