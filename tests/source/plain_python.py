"""Numbers of machine instructions in plain Python: what both vendors' tables of opcodes are held against.

A kind is a letter: u, i a word, unsigned or signed; U, I the same of 64 bits; w, s of 16; x, y of 24; f, D, h
floats of 32, 64 and 16 bits; j, k 16 bits in the instruction, signed or not.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

BITS = {"u": 32, "i": 32, "w": 16, "s": 16, "U": 64, "I": 64, "x": 24, "y": 24, "j": 16, "k": 16}
FLOATS = {"f": np.float32, "D": np.float64, "h": np.float16}
SIGNED = "isIyj"
INTEGERS = [0, 1, 2, 31, 32, 33, 0x7FFFFFFF, 1 << 31, (1 << 32) - 1, 0x8000, 0xFFFF]
NUMBERS = [0.0, 1.0, -1.0, 0.5, 2.5, 100.0, -3.75]


def words_of(kind: str, special: list[float] | None = None) -> np.ndarray:
    """Words [64, 8] that hold numbers of a kind, in pairs; some of them special."""
    rng = np.random.default_rng(3)
    if kind not in FLOATS:
        words = rng.integers(0, 1 << 32, (64, 8), np.uint64).astype(np.uint32)
        words[:16] = rng.choice(INTEGERS, (16, 8))
        return words
    numbers = rng.normal(0, 9, (64, 4)).astype(FLOATS[kind])
    numbers[:16] = rng.choice(special or NUMBERS, (16, 4))
    words = rng.integers(0, 60, (64, 8), np.uint64).astype(np.uint32)  # a few for integers beside them
    size = numbers.itemsize
    words.view(np.uint8).reshape(64, 4, 8)[..., :size] = numbers.view(np.uint8).reshape(64, 4, size)
    return words


def value(words: np.ndarray, kind: str) -> Any:
    """Read a number of a kind from two words."""
    pair = int(words[0]) | int(words[1]) << 32
    if kind in FLOATS:
        size = FLOATS[kind]().itemsize
        return float(np.frombuffer(pair.to_bytes(8, "little")[:size], FLOATS[kind])[0])
    return field(pair, 0, BITS[kind], kind in SIGNED)


def assert_result(found: Any, answer: Any, kind: str, rough: bool, what: Any) -> None:
    """A number of a kind, read by `value`, against Python's; `rough`: off by some units of the last place."""
    if kind in FLOATS:
        with np.errstate(all="ignore"):
            wanted = FLOATS[kind](answer)
        np.testing.assert_allclose(
            found, wanted, np.finfo(wanted.dtype).eps * (4 if rough else 0), 0, True, str(what)
        )
    else:
        assert found == field(int(answer), 0, BITS[kind], kind in SIGNED), what


def low(a: int, bits: int = 32) -> int:
    return a & ((1 << bits) - 1)


def field(a: int, at: int, width: int, signed: bool) -> int:
    number = low(a >> at, width)
    return number - (1 << width) if signed and width and number >> width - 1 else number


def signed(a: int, bits: int = 32) -> int:
    return field(a, 0, bits, True)


def high_one(a: int, bits: int) -> int:
    return bits - a.bit_length() if a else -1


def low_one(a: int) -> int:
    return (a & -a).bit_length() - 1


def reversed_bits(a: int) -> int:
    return int(f"{a:032b}"[::-1], 2)


def ieee(function: Callable[..., float]) -> Callable[..., float]:
    """Of floating-point numbers, where Python raises."""

    def run(*values: float) -> float:
        with np.errstate(all="ignore"):
            return float(function(*map(np.float64, values)))

    return run


def to_integer(lowest: int, highest: int, rounded: Callable[[float], float] = math.trunc) -> Any:
    """The nearest integer in a range; 0 of what is no number."""
    return lambda a: (
        0 if a != a else min(max(int(rounded(min(max(a, -(2.0**70)), 2.0**70))), lowest), highest)
    )


def numeric(choose: Callable[..., float]) -> Callable[..., float]:
    """The smallest or largest of those that are numbers."""
    return lambda *values: choose([a for a in values if a == a] or values)


ORDER: dict[str, Callable[[Any, Any], bool]] = {
    "eq": lambda a, b: a == b, "lt": lambda a, b: a < b, "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
}  # fmt: skip
