"""Progress callbacks for long work; the caller decides how to show them."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

# Opened with a description and the number of steps; the function it gives takes the steps done.
Progress = Callable[[str, int], AbstractContextManager[Callable[[int], None]]]


def silent(description: str, total: int) -> AbstractContextManager[Callable[[int], None]]:
    """Show no progress."""
    return nullcontext(lambda steps: None)
