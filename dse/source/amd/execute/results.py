"""Apply an instruction's function to its operands, and write its results."""

from collections.abc import Callable
from typing import Any

import numpy as np

from dse.source.amd.execute.contents import MemoryMachine
from dse.source.amd.execute.operands import U64, Pair, Reader
from dse.source.amd.execute.slots import V
from dse.source.amd.execute.state import U32
from dse.source.amd.text import Instruction

Action = Callable[[MemoryMachine], None]


def one_result(function: Callable[..., Any], readers: list[Reader], write: Any) -> Action:
    """Compute one result, unknown if an operand is."""
    if len(readers) == 1:
        (read,) = readers

        def of_one(machine: MemoryMachine) -> None:
            value = read(machine)
            write(machine, None if value is None else function(value))

        return of_one
    if len(readers) == 2:
        first, second = readers

        def of_two(machine: MemoryMachine) -> None:
            a = first(machine)
            if a is None:
                write(machine, None)
                return
            b = second(machine)
            write(machine, None if b is None else _applied(function, a, b))

        return of_two
    return results_of(lambda *values: [_applied(function, *values)], readers, [write])


def results_of(function: Callable[..., Any], readers: list[Reader], writers: list[Any]) -> Action:
    """Compute several results, all unknown if an operand is."""

    def compute(machine: MemoryMachine) -> None:
        values = []
        for read in readers:
            value = read(machine)
            if value is None:
                for write in writers:
                    write(machine, None)
                return
            values.append(value)
        for write, result in zip(writers, function(*values), strict=True):
            write(machine, result)

    return compute


def _applied(function: Callable[..., Any], *values: Any) -> Any:
    if values and values[0].__class__ is Pair:
        return Pair(function(*(v.low for v in values)), function(*(v.high for v in values)))
    return function(*values)


def or_ordinary(action: Action, readers: list[Reader], write: Any, holds: bool) -> Action:
    """Extend a comparison: unknown numbers count as ordinary ones, for which it `holds` or does not."""

    def act(machine: MemoryMachine) -> None:
        if any(read(machine) is None for read in readers):
            write(machine, np.full((1, 1, 1), holds))
        else:
            action(machine)

    return act


def or_low_word(
    action: Action,
    function: Callable[..., Any],
    readers: list[Reader],
    lows: list[Reader],
    writers: list[Any],
    target: Any,
) -> Action:
    """Extend an action: if only high words are unknown, the low word of the result is known."""

    def act(machine: MemoryMachine) -> None:
        values = [read(machine) for read in readers]
        if all(value is not None for value in values):
            result = function(*values)
            for write, word in zip(writers, [result] if len(writers) == 1 else result, strict=True):
                write(machine, word)
            return
        words = [read(machine) for read in lows]
        if any(word is None for word in words):
            action(machine)
            return
        result = function(
            *(
                word if value is not None and low is read else word.astype(U64)
                for word, value, low, read in zip(words, values, lows, readers, strict=True)
            )
        )
        result = result[0] if isinstance(result, tuple) else result
        for write in writers:
            write(machine, None)
        write_word = MemoryMachine.write_vector if target.slot >= V else MemoryMachine.write_scalar
        write_word(machine, target.slot, result.view(U64).astype(U32))

    return act


def without_lanes(action: Action, kept: np.ndarray) -> Action:
    """Restrict an action: some lanes are not written."""

    def act(machine: MemoryMachine) -> None:
        with machine.only(machine.lanes() & ~kept):
            action(machine)

    return act


def finisher(step: Instruction, kind: str) -> Callable[[Any], Any] | None:
    """Return the function of an instruction's output modifiers."""
    if kind not in "fDh" or not step.modifiers:
        return None
    factor = {"2": 2, "4": 4}.get(step.modifiers.get("mul", ""), 1)
    factor = 0.5 if step.modifiers.get("div") == "2" else factor
    clamp = "clamp" in step.modifiers
    if factor == 1 and not clamp:
        return None

    def finish(value: Any) -> Any:
        value = value * value.dtype.type(factor)
        return np.clip(value, 0, 1) if clamp else value

    return finish


def then(function: Callable[..., Any], finish: Callable[[Any], Any], several: bool) -> Callable[..., Any]:
    """Compose a function with one of its result, or the first of several."""
    if not several:
        return lambda *values: finish(function(*values))

    def both(*values: Any) -> Any:
        first, *rest = function(*values)
        return (finish(first), *rest)

    return both
