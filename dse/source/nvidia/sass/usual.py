"""Comparisons of usual numbers: finite, not close to zero, not equal to a constant by chance.

Correctly rounded functions (division, sqrtf, rsqrtf, logf, powf) have separate code for numbers at the edges
of their format. Unknown data hardly ever needs it.

Source: the machine code that NVRTC 13 generates for these functions for compute capability 7.5 to 12.0.
"""

import struct
from math import inf

from dse.source.nvidia.sass.operands import PT
from dse.source.nvidia.sass.program import BasicBlock, Step

# Constants in comparisons, and the side of usual numbers: 1 above, -1 below.
_SIDES = {2.0**-126: 1, 2.0**126: -1, -126.0: 1, 126.0: -1, 128.0: -1, inf: -1, -inf: 1}
_SIDES[105615.0] = -1  # from here on the argument reduction of sines needs more digits
# Upper words of doubles, read as floats: the smallest, also of dividends, that of a reciprocal and what is
# added to it, and where exp overflows.
_SIDES |= {
    2.0**-129: 1,
    7 * 2.0**-123: 1,
    5.8789094863358348022e-39: 1,
    4.1917929649353027344: -1,
    4.2275390625: -1,
}
# Words as integers: infinity, a square root's exponent less that of the smallest, a reciprocal's.
_SIDES_OF_BITS = {"0x7f800000": -1, "0x727fffff": -1, "0x1ffffff": 1}
# In double precision a square root's, a reciprocal root's, and three of a logarithm's.
_SIDES_OF_BITS |= {"0x7ca00000": -1, "0x7fe00000": -1, "0xfffff": 1, "0x7fefffff": -1, "0x7feffffe": -1}
_HOLDS = {"LT": -1, "LE": -1, "GT": 1, "GE": 1}  # side on which each comparison holds


def usual_test(step: Step) -> bool | None:
    """Return the result of a comparison for usual numbers, before it is combined with a predicate.

    None if unknown, and for other instructions.
    """
    if step.opcode == "FCHK":  # whether a division needs more than Newton steps
        return False
    if step.opcode not in ("FSETP", "DSETP", "ISETP") or len(step.sources) < 3 or not step.modifiers:
        return None
    floats, limit = step.opcode != "ISETP", step.sources[1]
    name = step.modifiers[0].removesuffix("U") if floats else step.modifiers[0]
    if floats and name in ("EQ", "NE"):
        return name == "NE"
    if limit.kind != "number" or name not in _HOLDS:
        return None
    side = _SIDES.get(_single(limit.text)) if floats else _SIDES_OF_BITS.get(limit.text.lower())
    return None if side is None else _HOLDS[name] == side


def usual_guards(block: BasicBlock) -> dict[int, bool]:
    """Return whether steps under a predicate that is not evaluated usually execute, by index.

    Only steps whose predicate is set by such a comparison alone, earlier in their basic block.
    """
    usually: dict[int, bool] = {}
    values: dict[int, bool | None] = {}  # predicates by slot
    for step in block.steps:
        holds = values.get(step.guard)
        if holds is not None and not step.guard_known:
            usually[step.index] = holds != step.guard_negated
        values |= dict.fromkeys(step.writes)
        alone = all(operand.slot == PT and not operand.negate for operand in step.sources[2:])
        if step.targets and step.guard < 0 and alone and (step.opcode == "FCHK" or step.has("AND")):
            values[step.targets[0].slot] = usual_test(step)
    return usually


def _single(text: str) -> float:
    """Round the number to single precision."""
    return struct.unpack("f", struct.pack("f", float(text)))[0]
