"""Reads texts of the form NAME=VALUE."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dse.errors import DseError

if TYPE_CHECKING:
    from dse.kernels.counts import Number


def settings(texts: Sequence[str] | None, option: str = "--set") -> dict[str, "Number"]:
    """Read the `NAME=VALUE` of each --set. DseError for another form or a value that is no number."""
    values: dict[str, Number] = {}
    for text in texts or ():
        name, equals, value = (part.strip() for part in text.partition("="))
        if not (name and equals and value):
            raise DseError(f"{option}: found {text!r}, expected NAME=VALUE")
        try:
            values[name] = int(value)
        except ValueError:
            try:
                values[name] = float(value)
            except ValueError:
                raise DseError(f"{option}: {name}: found {value!r}, expected a number") from None
    return values


def lists(texts: Sequence[str] | None, option: str = "--set") -> dict[str, tuple["Number", ...]]:
    """Read the `NAME=V1,V2,...` of each --set. **Raises:** DseError for another form."""
    values: dict[str, tuple[Number, ...]] = {}
    for text in texts or ():
        name, equals, words = text.partition("=")
        if not equals:
            raise DseError(f"{option}: found {text!r}, expected NAME=V1,V2,...")
        each = [settings([f"{name}={word}"], option) for word in words.split(",")]
        values[name.strip()] = tuple(number for one in each for number in one.values())
    return values
