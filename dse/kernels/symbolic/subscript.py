"""Subscripts as in a kernel's source: `A[(by * 16 + ty) * n + k * 16 + tx]`."""

import re
from collections.abc import Collection
from dataclasses import dataclass

from dse.core.space.expression import Expression, parse
from dse.errors import DseError

THREAD_NAMES = ("tx", "ty", "tz")
BLOCK_NAMES = ("bx", "by", "bz")
SIZE_NAMES = ("ntx", "nty", "ntz")  # threads of a block, along x, y, z
INDEX_NAMES = (*THREAD_NAMES, *BLOCK_NAMES, *SIZE_NAMES)


@dataclass(frozen=True)
class Subscript:
    """An array element, indexed by thread and block."""

    array: str
    index: Expression


def parse_subscript(text: str, where: str, allowed: Collection[str] | None = None) -> Subscript:
    """Parse `array[index]`; the index may use INDEX_NAMES and `allowed` (None: any name).

    **Errors:** DseError, as `parse`.
    """
    match = re.fullmatch(r"\s*([A-Za-z_]\w*)\s*\[(.*)\]\s*", str(text), re.DOTALL)
    if not match:
        raise DseError(f"{where}: found {text!r}, expected an element of an array, as in 'A[bx * ntx + tx]'")
    names = None if allowed is None else {*allowed, *INDEX_NAMES}
    return Subscript(match[1], parse(match[2], where, names))
