"""How long work tells of its progress: what is shown of it is the caller's to say."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

# Opened with a description and the number of steps; what it gives is told of steps that are done.
Progress = Callable[[str, int], AbstractContextManager[Callable[[int], None]]]


def silent(description: str, total: int) -> AbstractContextManager[Callable[[int], None]]:
    """Show no progress."""
    return nullcontext(lambda steps: None)
