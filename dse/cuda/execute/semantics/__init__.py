"""What the instructions that addresses and branches depend on compute. One rule an opcode, in RULES."""

from collections.abc import Callable
from typing import Any

from dse.cuda.execute.semantics import floats, integers, logic, moves, warp
from dse.cuda.execute.semantics.binding import Binder, Evaluate, Rule, Unsupported
from dse.cuda.sass.program import Step

RULES: dict[str, Rule] = moves.RULES | integers.RULES | logic.RULES | floats.RULES | warp.RULES


def bind(step: Step, slot_of: Callable[[str, Any], int]) -> tuple[Evaluate, tuple[int, ...]]:
    """The function that computes what `step` writes, and the slots that it reads, constants included.

    **Raises:** Unsupported if there is no rule for the opcode, or for this form of it.
    """
    rule = RULES.get(step.opcode)
    if rule is None:
        raise Unsupported("this opcode")
    binder = Binder(step, slot_of)
    evaluate = rule(binder)
    return evaluate, tuple(sorted(binder.reads))


__all__ = ["RULES", "Evaluate", "Unsupported", "bind"]
