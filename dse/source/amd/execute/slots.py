"""The registers of a wave as slots of one list, and the parsing of operands.

Scalar registers come first, then vector registers, accumulation registers, and constants. A pair of scalar
registers that holds a mask of lanes begins at an even slot.

Source: LLVM, "AMDGPU Operand Syntax"; AMD, "RDNA3" and "CDNA3 Instruction Set Architecture", Sec. 3.
"""

import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from dse.errors import DseError

VCC, TTMP, M0, NULL, EXEC, SCC, FLAT_SCRATCH, XNACK = 106, 108, 124, 125, 126, 128, 130, 132
V, A, CONSTANTS = 256, 512, 768

_NAMED = {
    "vcc": (VCC, 2), "vcc_lo": (VCC, 1), "vcc_hi": (VCC + 1, 1),
    "exec": (EXEC, 2), "exec_lo": (EXEC, 1), "exec_hi": (EXEC + 1, 1),
    "m0": (M0, 1), "null": (NULL, 1), "scc": (SCC, 1), "src_scc": (SCC, 1),
    "src_vccz": (VCC, 1), "src_execz": (EXEC, 1),
    "flat_scratch": (FLAT_SCRATCH, 2), "flat_scratch_lo": (FLAT_SCRATCH, 1),
    "flat_scratch_hi": (FLAT_SCRATCH + 1, 1),
    "xnack_mask": (XNACK, 2), "xnack_mask_lo": (XNACK, 1), "xnack_mask_hi": (XNACK + 1, 1),
}  # fmt: skip
_FILES = {"s": (0, VCC), "v": (V, 256), "a": (A, 256), "ttmp": (TTMP, 16)}  # first slot, number
_REGISTER = re.compile(r"(ttmp|[sva])(?:(\d{1,4})|\[(\d{1,4}):(\d{1,4})\]|\[(\d{1,4})\])(\.[lh])?$")
_NUMBERED = re.compile(r"(?<![\w.$@])(ttmp|[sva])(\d+(?![\w@$])|\[[^\]]*\]?)")
_SYMBOL = re.compile(r"([A-Za-z_.$][\w.$]*)@rel32@(lo|hi)([+-]\d+)?$")

# The high words of addresses within a block's LDS and a lane's scratch, when flat instructions use them.
SHARED_BASE, PRIVATE_BASE = 0x10000, 0x20000
_BASES = {"src_shared_base": SHARED_BASE, "src_private_base": PRIVATE_BASE}


@dataclass(frozen=True)
class Register:
    """Adjacent registers."""

    slot: int
    count: int
    half: str = ""  # "l", "h": of a register of 32 bits


@dataclass(frozen=True)
class ConstantOperand:
    """A literal number."""

    bits: int  # of 32; a smaller type takes the lower ones
    wide: int  # the number as an integer of 64 bits
    double: int  # as a double's bits
    half: int = 0  # as a half's bits


@dataclass(frozen=True)
class Symbol:
    """The low or the high word of the distance to a variable."""

    name: str
    part: str  # "lo" or "hi"
    offset: int


@dataclass(frozen=True)
class AmdOperand:
    """An operand, with the floating-point modifiers of its value."""

    place: Register | ConstantOperand | Symbol
    negated: bool = False
    absolute: bool = False
    signed: bool = False  # whether the part that SDWA selects is extended by its sign


def register(text: str) -> Register | None:
    """Parse the name of registers; None if it is none."""
    if text in _NAMED:
        return Register(*_NAMED[text])
    match = _REGISTER.match(text)
    if match is None:
        return None
    name, single, first, last, alone, half = match.groups()
    low = int(single or first or alone)
    return Register(_FILES[name][0] + low, int(last) - low + 1 if last else 1, (half or "").strip("."))


@lru_cache(maxsize=10_000)
def beyond(text: str) -> bool:
    """Return whether an operand names registers that no GPU has, or has an unknown form."""
    for name, numbers in _NUMBERED.findall(text):
        after = register(f"{name}{numbers}")
        if after is None or after.count < 1 or after.slot + after.count > sum(_FILES[name]):
            return True
    return False


def registers_of(texts: Sequence[str]) -> list[Register]:
    """Return the registers among operands."""
    places = [operand(text).place for text in texts if text != "off"]
    return [place for place in places if isinstance(place, Register)]


def slots_of(texts: Sequence[str]) -> list[int]:
    """Return the slots of the registers among operands, one per word."""
    return [slot for place in registers_of(texts) for slot in range(place.slot, place.slot + place.count)]


@lru_cache(maxsize=10_000)
def operand(text: str) -> AmdOperand:
    """Parse an operand.

    **Raises:** DseError if it is none.
    """
    negated = absolute = False
    if signed := text.startswith("sext("):
        text = text[5:-1]
    if text.startswith("-") and not text[1:2].isdigit():
        negated, text = True, text[1:]
    if text.startswith("neg("):
        negated, text = True, text[4:-1]
    if text.startswith("|"):
        absolute, text = True, text[1:-1]
    if text.startswith("abs("):
        absolute, text = True, text[4:-1]
    parsed = register(text)
    if parsed is not None:
        return AmdOperand(parsed, negated, absolute, signed)
    if text in _BASES:
        return AmdOperand(ConstantOperand(_BASES[text], _BASES[text] << 32, 0))
    symbol = _SYMBOL.match(text)
    if symbol:
        return AmdOperand(Symbol(symbol[1], symbol[2], int(symbol[3] or 0)))
    return AmdOperand(_constant(text), negated, absolute)


def _constant(text: str) -> ConstantOperand:
    try:
        if text.startswith(("0x", "-0x")):  # a literal; for a double, its high word
            bits = int(text, 16)
            return ConstantOperand(
                bits & 0xFFFFFFFF, bits & (1 << 64) - 1, (bits & 0xFFFFFFFF) << 32, bits & 0xFFFF
            )
        if "." in text or "e" in text or "inf" in text:
            value = float(text)
            double = struct.unpack("<Q", struct.pack("<d", value))[0]
            bits = struct.unpack("<I", struct.pack("<f", value))[0]
            return ConstantOperand(bits, bits, double, struct.unpack("<H", struct.pack("<e", value))[0])
        wide = int(text) & (1 << 64) - 1
        return ConstantOperand(wide & 0xFFFFFFFF, wide, wide, wide & 0xFFFF)
    except (ValueError, OverflowError, struct.error):  # no number, or too large
        raise DseError(f"found operand {text!r}, expected a register or a number") from None
