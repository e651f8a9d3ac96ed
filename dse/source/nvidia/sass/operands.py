"""Operands of machine instructions: registers, predicates, constants, addresses, numbers.

Every register of a thread has a number, its slot: the general registers first, then the uniform ones,
predicates and barriers of both. A slot holds 32 bits; a 64-bit value takes two consecutive slots.
"""

import re
from dataclasses import dataclass
from functools import cache

RZ = 255  # reads as zero, and so does the next slot, for pairs
RPC = 257  # a return address of 64 bits; also used for spills
UR = 264  # first uniform register
URZ = UR + 255
P = URZ + 9  # first predicate
PT = P + 7  # always true
UP = PT + 1
UPT = UP + 7
B = UPT + 1  # first convergence barrier: the mask of threads that meet there
OF_BARRIER = B + 32  # what the threads of a block find out together at a barrier
SLOTS = OF_BARRIER + 1  # of registers; constants and numbers get slots from here on


@dataclass(frozen=True, slots=True)
class Operand:
    """One operand. `kind` decides which of the other fields are set."""

    kind: str  # "register", "predicate", "barrier", "constant", "address", "descriptor", "number", "name"
    text: str  # without reuse hints
    slot: int = -1  # register, predicate, barrier; register of a descriptor, index of a constant; -1: none
    negate: bool = False  # "-R1", and "!P0"
    invert: bool = False  # "~R1"
    absolute: bool = False  # "|R1|"
    part: str = ""  # ".64", ".H0_H0", ".B1", ".X4": part of the register
    bank: int = 0  # constant
    offset: int = 0  # constant, address: bytes
    bases: tuple[
        tuple[int, int, bool], ...
    ] = ()  # address: (slot, factor, whether 32 bits only) of each register


def register_slot(name: str) -> int | None:
    """Return the slot of "R12", "URZ", "UP3", "PT" or "B6"; None if that is no register.

    **Raises:** ValueError for numbers out of range, such as "R300".
    """
    match = _REGISTER.fullmatch(name)
    if not match:
        return None
    file, number = match.groups()
    if number in ("Z", "T"):
        return {"R": RZ, "UR": URZ, "P": PT, "UP": UPT}.get(file)
    first, most = _FILES[file]
    if len(number) > _DIGITS or int(number) >= most:
        raise ValueError(f"found {name[:_SHOWN]}, expected one of {most} registers")
    return first + int(number)


@cache
def operand(text: str) -> Operand:
    """Parse one printed operand.

    **Raises:** ValueError for a register out of range, or a number of over 64 bits.
    """
    text = text.replace(".reuse", "").strip()
    if match := _ADDRESS.fullmatch(text):
        return _address(text, match[1])
    if match := _DESCRIPTOR.fullmatch(text):
        slot = register_slot(match[1])
        return Operand("descriptor", text, -1 if slot is None else slot)
    core = text
    negate = core[:1] == "!" or (core[:1] == "-" and not _NUMBER.fullmatch(core))
    invert = core[:1] == "~"
    core = core[1:] if negate or invert else core
    absolute = core[:1] == "|"
    core = core.replace("|", "")
    if match := _CONSTANT.fullmatch(core):
        slot, offset = -1, 0
        for term in match[2].split("+"):
            index = register_slot(term.split(".")[0])
            if index is None:
                offset += _hexadecimal(term)
            else:
                slot = index
        if offset >= _BANK_BYTES:
            raise ValueError(f"found byte {offset} of a constant bank, expected one below {_BANK_BYTES}")
        return Operand(
            "constant", text, slot, negate, invert, absolute, match[3] or "", _hexadecimal(match[1]), offset
        )
    name, _, part = core.partition(".")
    slot = register_slot(name)
    if name == "Rpc":
        return Operand("register", text, RPC + (part == "HI"))
    if slot is not None:
        kind = "register" if slot < P else "predicate" if slot < B else "barrier"
        return Operand(kind, text, slot, negate, invert, absolute, part)
    if _NUMBER.fullmatch(core):
        _check_number(core)
        return Operand("number", core)
    return Operand("name", text)


def _address(text: str, inside: str) -> Operand:
    """Parse [R2.64+UR4+0x10]: a sum of terms; .X4 multiplies a register, .U32 marks a single register."""
    bases, offset = [], 0
    for term in inside.split("+"):
        name, *parts = term.strip().split(".")
        slot = register_slot(name)
        if slot is None:
            offset += _hexadecimal(term) if term.strip() else 0
        elif slot not in (RZ, URZ):
            factor = next((int(part[1:]) for part in parts if part[:1] == "X"), 1)
            bases.append((slot, factor, "U32" in parts or "S32" in parts))
    return Operand("address", text, offset=offset, bases=tuple(bases))


def _hexadecimal(text: str) -> int:
    number = int(text, 16)
    if abs(number) >= 2**64:
        raise ValueError("found a number of over 64 bits")
    return number


def _check_number(text: str) -> None:
    """Reject malformed numbers: 1.2.3, hexadecimal ones of over 64 bits."""
    if len(text) > _SHOWN:
        raise ValueError("found a number of over 64 bits")
    if "0x" in text.lower():
        _hexadecimal(text)
    elif text[-3:].upper() not in ("INF", "NAN"):
        float(text)


_FILES = {"R": (0, 255), "UR": (UR, 255), "P": (P, 8), "UP": (UP, 8), "B": (B, 32)}  # first slot, registers
_DIGITS, _SHOWN = 3, 40
_BANK_BYTES = 1 << 16
_REGISTER = re.compile(r"(UR|R|UP|P|B)(\d+|Z|T)")
_ADDRESS = re.compile(r"(?:g?desc\[\w+\])?\[([^\]]*)\]")
# Operands of tensor cores: matrices in shared memory, tensor memory, shape and types of a product.
_DESCRIPTOR = re.compile(r"(?:gdesc|tmem|idesc)\[(\w+)(?:\+[^\]]*)?\][.\w]*")
_CONSTANT = re.compile(r"c\[0x(\w+)\]\[([^\]]*)\](?:\.(\w+))?")
_NUMBER = re.compile(r"[-+]?(?:0x[0-9a-f]+|\d[\d.]*(?:e[-+]?\d+)?|INF|QNAN|SNAN)", re.IGNORECASE)
