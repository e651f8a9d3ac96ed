"""The exception for user mistakes, its one-line messages, and suggestions of allowed names."""

import re
from collections.abc import Collection, Iterable
from difflib import get_close_matches
from typing import Any

MOST_NAMES = 12  # listed in full beside a suggestion
MOST_QUOTED = 300  # characters of a word
MOST_CHARACTERS = 2000  # of a message


class DseError(Exception):
    """A mistake in the user's input: one line with the place, the value found, and the allowed values."""

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


class InputWarning(UserWarning):
    """Inconsistent but usable input: one line."""


def one_of(found: str, allowed: Iterable[str], kind: str = "one of") -> str:
    """Format the end of a message: the allowed names, or only the nearest if there are many."""
    names = list(map(str, allowed))
    near = nearest(found, names)
    listed = ", ".join(names) or "none"
    if not near:
        return f"expected {kind} {listed}"
    listed = listed if len(names) <= MOST_NAMES else f"{len(names)} names"
    return f"expected {kind} {listed}; did you mean {' or '.join(near)}?"


def check_names(where: str, allowed: Collection[Any], *names: Any, kind: str = "one of") -> None:
    """Check names, in order. **Raises:** DseError that begins with `where` for one that is not allowed."""
    for name in names:
        if name not in allowed:
            raise DseError(f"{where}: found {name!r}, {one_of(str(name), allowed, kind)}")


def nearest(found: str, allowed: Iterable[str]) -> list[str]:
    """Return the most similar name, else up to three with this prefix; case, - and _ count less."""
    found, names = found[:100], list(allowed)
    if same_case := get_close_matches(found, names, 1):
        return same_case
    by_key, prefix = {_key(name): name for name in names}, _key(found)
    close = get_close_matches(prefix, by_key, 1)
    close = close or [key for key in by_key if len(prefix) > 1 and key.startswith(prefix)][:3]
    return [by_key[key] for key in close]


def _key(name: str) -> str:
    return name.lower().replace("-", "_")


def one_line(message: str) -> str:
    """Return a message as one line that is safe to print: it may quote untrusted text.

    Control characters are escaped, and long words and messages are cut in the middle.
    """
    message = printable(" ".join(message.split()) if "\n" in message or "\r" in message else message)
    if len(message) > MOST_QUOTED:
        message = _LONG.sub(lambda word: _cut(word[0], MOST_QUOTED), message)
    return _cut(message, MOST_CHARACTERS)


def printable(text: str) -> str:
    """Escape unprintable characters as Python does."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape", "surrogatepass").decode()
        for character in text
    )


def _cut(text: str, most: int) -> str:
    end = most // 4
    return text if len(text) <= most else f"{text[: most - end - 3]}...{text[-end:]}"


_LONG = re.compile(rf"\S{{{MOST_QUOTED + 1},}}")
