"""Semantics of the instructions that addresses and branches depend on.

A rule is a function of one instruction. Rows of the table of opcodes (`dse.source.nvidia.sass.opcodes`) name
theirs; several opcodes may have the same.
"""

from collections.abc import Callable
from typing import Any

from dse.source.nvidia.execute.semantics import floats, integers, logic, moves, waits, warp  # noqa: F401 they hold the rules
from dse.source.nvidia.execute.semantics.binding import RULES, Binder, Evaluate, Unsupported
from dse.source.nvidia.sass.opcodes import OPCODES
from dse.source.nvidia.sass.program import Step


def bind(step: Step, slot_of: Callable[[str, Any], int]) -> tuple[Evaluate, tuple[int, ...]]:
    """The function that computes what `step` writes, and the slots that it reads, constants included.

    **Raises:** Unsupported if there is no rule for the opcode, or for this form of it.
    """
    name = OPCODES[step.opcode].rule
    if not name:
        raise Unsupported("this opcode")
    binder = Binder(step, slot_of)
    try:
        evaluate = RULES[name](binder)
    except (ValueError, IndexError, KeyError, TypeError, OverflowError) as error:
        raise Unsupported(f"operands of this form ({error})") from None
    return evaluate, tuple(sorted(binder.reads))


__all__ = ["RULES", "Evaluate", "Unsupported", "bind"]
