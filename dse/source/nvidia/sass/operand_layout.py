"""Written operands of instructions, and registers of each operand.

Each function here is named by rows of the table in `opcodes`. A register holds 32 bits. Word rules give the
registers of the first destination, then those of each source; the last number represents all sources that
follow.
"""

import re

from dse.source.nvidia.sass.operands import Operand

Modifiers = tuple[str, ...]
Words = tuple[int, ...]  # (destination, source, ..., all further sources)


# Destinations: how many of the first operands are written.


def first_and_tests(operands: tuple[Operand, ...]) -> int:
    """The first operand is written, and so are the predicates beside it.

    A carry or a test goes to predicates before the register (LOP3) or behind it (IADD3), which are plain;
    predicates that are read come after the other sources.
    """
    kinds = [operand.kind for operand in operands]
    if kinds[:2] == ["predicate", "register"]:
        return 2
    count = 1
    while count < len(kinds) and kinds[count] == "predicate" and not operands[count].negate:
        count += 1
    return count


def before_others(operands: tuple[Operand, ...]) -> int:
    """The registers and predicates are written that stand before anything else."""
    kinds = [operand.kind in ("register", "predicate") for operand in operands]
    return kinds.index(False) if False in kinds else len(kinds)


def vote(operands: tuple[Operand, ...]) -> int:
    """A vote writes a predicate, and before it the mask of the threads if a register is named."""
    return 2 if operands[0].kind == "register" else 1


# Words: registers of the destination and of the sources.


def single(modifiers: Modifiers) -> Words:
    """Every operand is one register."""
    return 1, 1


def pairs(modifiers: Modifiers) -> Words:
    """Every operand is a pair: float64, or two float32 at once."""
    return 2, 2


def pairs_if_64(modifiers: Modifiers) -> Words:
    """Every operand is a pair if the instruction is modified by .64."""
    return (2, 2) if "64" in modifiers else (1, 1)


def pairs_compared(modifiers: Modifiers) -> Words:
    """The sources are pairs, the destinations predicates."""
    return 1, 2


def pairs_compared_if_64(modifiers: Modifiers) -> Words:
    """The sources are pairs if their type has 64 bits."""
    return (1, 2) if _has_long(modifiers) else (1, 1)


def wide_product(modifiers: Modifiers) -> Words:
    """Two single factors and an addend: a pair for .WIDE and .HI; of the sum, .HI keeps one register."""
    if "WIDE" in modifiers:
        return 2, 1, 1, 2
    if "HI" in modifiers:
        return 1, 1, 1, 2
    return 1, 1


def float_conversion(modifiers: Modifiers) -> Words:
    """F2F names the type that it makes, then the one that it converts."""
    return (2 if modifiers[:1] == ("F64",) else 1), (2 if "F64" in modifiers[1:] else 1), 1


def float_rounding(modifiers: Modifiers) -> Words:
    """FRND names one type for both."""
    return (2 if modifiers[:1] == ("F64",) else 1), (2 if "F64" in modifiers else 1), 1


def integer_to_float(modifiers: Modifiers) -> Words:
    """I2F names the float type first, the integer's anywhere."""
    return (2 if modifiers[:1] == ("F64",) else 1), (2 if _has_long(modifiers) else 1), 1


def float_to_integer(modifiers: Modifiers) -> Words:
    """F2I names both types anywhere."""
    return (2 if _has_long(modifiers) else 1), (2 if "F64" in modifiers else 1), 1


def pair_unless_32(modifiers: Modifiers) -> Words:
    """CS2R writes a pair if it is not modified by .32."""
    return (1 if "32" in modifiers else 2), 1


def loaded(modifiers: Modifiers) -> Words:
    """Loaded values have the named width; addresses are counted apart."""
    return data_words(modifiers), 1


def loaded_matrices(modifiers: Modifiers) -> Words:
    """One register for each matrix of 8 x 8 halves that is loaded."""
    return _matrices(modifiers), 1


def stored(modifiers: Modifiers) -> Words:
    """Stored values have the named width."""
    return 1, data_words(modifiers)


def mbarrier(modifiers: Modifiers) -> Words:
    """A barrier in shared memory is a pair where it is exchanged."""
    return (1, 1, 2) if "EXCH" in modifiers and "64" in modifiers else (1, 1)


def stored_matrices(modifiers: Modifiers) -> Words:
    """One register for each matrix of 8 x 8 halves that is stored."""
    return 1, _matrices(modifiers)


def tensor_memory(modifiers: Modifiers) -> Words:
    """Moves between registers and tensor memory: .x4 takes 4 registers of each lane's 32 bits."""
    count = next((int(name[1:]) for name in modifiers if re.fullmatch(r"x\d+", name)), 1)
    wide = next((match[1] for name in modifiers if (match := re.match(r"16dp(128|256)bit", name))), "")
    words = count * {"": 1, "128": 2, "256": 4}[wide]
    return words, 1, words


def exchanged(modifiers: Modifiers) -> Words:
    """An atomic operation takes and gives back values of the width that is named."""
    return data_words(modifiers), data_words(modifiers)


# Data: bytes that one thread loads or stores.


def data_words(modifiers: Modifiers) -> int:
    """Registers that one thread loads or stores."""
    return next((int(modifier) // 32 for modifier in modifiers if modifier in ("64", "128", "256")), 1)


def data_bytes(modifiers: Modifiers) -> int:
    """Bytes that one thread loads or stores, of a type or a width that is named; else 4."""
    narrow = {"U8": 1, "S8": 1, "U16": 2, "S16": 2}
    return next((narrow[modifier] for modifier in modifiers if modifier in narrow), 4 * data_words(modifiers))


def nothing(modifiers: Modifiers) -> int:
    """The instruction does not tell the bytes: they are counted one by one."""
    return 1


def matrix_bytes(modifiers: Modifiers) -> int:
    """Bytes of one thread's share of one, two or four matrices of 8 x 8 halves."""
    return 4 * _matrices(modifiers)


def _matrices(modifiers: Modifiers) -> int:
    return next((int(modifier) for modifier in modifiers if modifier in ("2", "4")), 1)


def _has_long(modifiers: Modifiers) -> bool:
    """Whether an integer type of 64 bits is named."""
    return "U64" in modifiers or "S64" in modifiers
