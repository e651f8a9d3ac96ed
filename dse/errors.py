"""The one exception that a user's mistake raises, and the ends of its line: what is allowed."""

import re
from collections.abc import Iterable
from difflib import get_close_matches

MOST_NAMES = 12  # that a message lists where it knows a near one
MOST_QUOTED = 300  # characters without a space
MOST_CHARACTERS = 2000  # of a message


class DseError(Exception):
    """A mistake in what the user gave: one line that names the place, what was found, what is allowed."""

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


class InputWarning(UserWarning):
    """What the user gave contradicts itself, but can be used: one line."""


def one_of(found: str, allowed: Iterable[str], kind: str = "one of") -> str:
    """Write the end of a message: the names that `found` could have been, and the nearest.

    Of many names only the nearest is shown, if one is near.
    """
    names = list(map(str, allowed))
    near = nearest(found, names)
    listed = ", ".join(names) or "none"
    if not near:
        return f"expected {kind} {listed}"
    listed = listed if len(names) <= MOST_NAMES else f"{len(names)} names"
    return f"expected {kind} {listed}; did you mean {' or '.join(near)}?"


def nearest(found: str, allowed: Iterable[str]) -> list[str]:
    """Find the name spelled most alike, else up to three that begin so; case, - and _ matter little."""
    found, names = found[:100], list(allowed)
    if same_case := get_close_matches(found, names, 1):
        return same_case
    by_key, wanted = {_key(name): name for name in names}, _key(found)
    close = get_close_matches(wanted, by_key, 1)
    close = close or [key for key in by_key if len(wanted) > 1 and key.startswith(wanted)][:3]
    return [by_key[key] for key in close]


def _key(name: str) -> str:
    return name.lower().replace("-", "_")


def one_line(message: str) -> str:
    """Return a message as one line that a terminal shows as it is: what it quotes may be a stranger's.

    Control characters are written out, and what is long is cut in its middle.
    """
    message = printable(" ".join(message.split()) if "\n" in message or "\r" in message else message)
    if len(message) > MOST_QUOTED:
        message = _LONG.sub(lambda word: _cut(word[0], MOST_QUOTED), message)
    return _cut(message, MOST_CHARACTERS)


def printable(text: str) -> str:
    """Write out the characters that steer a terminal or have no shape, as Python writes them."""
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
