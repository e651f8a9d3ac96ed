"""Parse NAME=VALUE, and units."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dse.errors import DseError, check_names

if TYPE_CHECKING:
    from dse.kernels.counts import Number

MOST = 2**53  # exact as a float
UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


def settings(texts: Sequence[str] | None, option: str = "--set") -> dict[str, "Number"]:
    """Parse the `NAME=VALUE` of each --set. **Raises:** DseError for another form or no number."""
    values: dict[str, Number] = {}
    for text in texts or ():
        name, equals, value = (part.strip() for part in text.partition("="))
        if not (name and equals and value):
            raise DseError(f"{option}: found {text!r}, expected NAME=VALUE")
        values[name] = _number(value, f"{option}: {name}")
    return values


def _number(text: str, where: str) -> "Number":
    for kind in (int, float):
        try:
            number = kind(text)
        except ValueError:  # also for too many digits
            continue
        if isinstance(number, int) and abs(number) > MOST:
            raise DseError(f"{where}: found {text}, expected at most {MOST:,}")
        return number
    raise DseError(f"{where}: found {text!r}, expected a number")


def lists(texts: Sequence[str] | None, option: str = "--set") -> dict[str, tuple["Number", ...]]:
    """Parse the `NAME=V1,V2,...` of each --set. **Raises:** DseError for another form."""
    values: dict[str, tuple[Number, ...]] = {}
    for text in texts or ():
        name, equals, words = text.partition("=")
        if not equals:
            raise DseError(f"{option}: found {text!r}, expected NAME=V1,V2,...")
        parts = [settings([f"{name}={word}"], option) for word in words.split(",")]
        values[name.strip()] = tuple(number for parsed in parts for number in parsed.values())
    return values


def in_seconds(unit: str) -> float:
    """Return the seconds of a --unit. **Raises:** DseError for an unknown one."""
    check_names("--unit", UNITS, unit)
    return UNITS[unit]
