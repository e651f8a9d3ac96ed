"""Single instructions against Python's integers of any size."""

from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dse.source.machine.thread_set import Lanes
from dse.source.nvidia.execute.semantics import RULES, bind
from dse.source.nvidia.sass.listing import parse
from dse.source.nvidia.sass.opcodes import OPCODES
from dse.source.nvidia.sass.operands import PT, SLOTS, P
from dse.source.nvidia.sass.program import program

WORDS = st.one_of(st.integers(0, 2**32 - 1), st.sampled_from([0, 1, 2**31 - 1, 2**31, 2**32 - 1]))
TRUTHS = st.booleans()


def signed(word: int) -> int:
    return word - 2**32 if word >> 31 else word


@cache
def bound(text: str) -> tuple[Any, list[Any]]:
    """The function of an instruction, and registers with the numbers that it reads in place."""
    code = f"\t.target sm_80\n\t.section .text.toy,\n  /*0000*/ {text} ;\n  /*0010*/ EXIT ;"
    made = program(parse(code, "toy.sass")[0])
    slots: dict[tuple[str, Any], int] = {}
    r: list[Any] = [np.zeros((1, 1), np.uint32)] * SLOTS
    r[P : PT + 1] = [np.zeros((1, 1), bool)] * 7 + [np.ones((1, 1), bool)]

    def slot_of(kind: str, key: Any) -> int:
        if (kind, key) not in slots:
            slots[kind, key] = len(r)
            bits, words = key
            r.extend(np.full((1, 1), bits >> 32 * word & 0xFFFFFFFF, np.uint32) for word in range(words))
        return slots[kind, key]

    return bind(made.steps[0], slot_of)[0], r


ONE = Lanes(np.ones((1, 32), bool), (1, 32))


def run(text: str, registers: dict[int, int], predicates: dict[int, bool] | None = None) -> list[int]:
    """What an instruction gives for one thread; R0, R1, ... and P0, P1, ... are given."""
    evaluate, numbers = bound(text)
    r = list(numbers)
    for slot, value in registers.items():
        r[slot] = np.full((1, 1), value, np.uint32)
    for number, value in (predicates or {}).items():
        r[P + number] = np.full((1, 1), value)
    with np.errstate(all="ignore"):
        return [int(found.flat[0]) for found in evaluate(r, ONE)]


def test_each_rule_that_a_row_names_is_there_and_each_rule_has_a_row():
    assert {row.rule for row in OPCODES.values()} - {""} == set(RULES)


@given(a=WORDS, b=WORDS, c=WORDS)
def test_three_sums_with_two_carries(a, b, c):
    total = a + b + c
    expected = [total % 2**32, total >= 2**32, total >= 2**33]
    assert run("IADD3 R9, P0, P1, R0, R1, R2", {0: a, 1: b, 2: c}) == expected


@given(a=st.integers(0, 2**64 - 1), b=st.integers(0, 2**64 - 1))
def test_64_bit_difference_in_two_steps(a, b):
    low, high = a % 2**32, a >> 32
    (difference, borrow) = run("IADD3 R9, P0, R0, -R1, RZ", {0: low, 1: b % 2**32})
    (upper,) = run("IADD3.X R9, R0, ~R1, RZ, P0, !PT", {0: high, 1: b >> 32}, {0: bool(borrow)})
    assert difference | upper << 32 == (a - b) % 2**64


@given(a=WORDS, b=WORDS, c=st.integers(0, 2**64 - 1))
@pytest.mark.parametrize("kind", ["", ".U32"])
def test_wide_products(kind, a, b, c):
    x, y = (a, b) if kind else (signed(a), signed(b))
    low, high = run(f"IMAD.WIDE{kind} R8, R0, R1, R2", {0: a, 1: b, 2: c % 2**32, 3: c >> 32})
    assert low | high << 32 == (x * y + c) % 2**64
    (upper,) = run(f"IMAD.HI{kind} R8, R0, R1, R2", {0: a, 1: b, 2: c % 2**32, 3: c >> 32})
    assert upper == high
    (product,) = run("IMAD R8, R0, R1, -R2", {0: a, 1: b, 2: c % 2**32})
    assert product == (a * b - c) % 2**32


@given(a=WORDS, b=WORDS, c=WORDS, shift=st.integers(0, 31), carry=TRUTHS)
def test_scaled_sums(a, b, c, shift, carry):
    value, over = run(f"LEA R9, P0, R0, R1, {shift:#x}", {0: a, 1: b})
    total = (a << shift) % 2**32 + b
    assert [value, over] == [total % 2**32, total >> 32]
    (value,) = run(f"LEA.HI.X R9, R0, R1, R2, {shift:#x}, P0", {0: a, 1: b, 2: c}, {0: carry})
    assert value == (((a | c << 32) << shift >> 32) + b + carry) % 2**32
    (value,) = run(f"LEA.HI.SX32 R9, R0, R1, {shift:#x}", {0: a, 1: b})
    assert value == ((signed(a) << shift >> 32) + b) % 2**32


@given(a=WORDS, c=WORDS, by=st.integers(0, 70))
def test_funnel_shifts(a, c, by):
    pair, registers = a | c << 32, {0: a, 1: by, 2: c}
    wide, narrow = min(by, 63), min(by, 32)
    assert run("SHF.L.U32 R9, R0, R1, RZ", registers) == [(a << narrow) % 2**32]
    assert run("SHF.L.U64.HI R9, R0, R1, R2", registers) == [(pair << wide) % 2**64 >> 32]
    assert run("SHF.R.U64 R9, R0, R1, R2", registers) == [(pair >> wide) % 2**32]
    assert run("SHF.R.U32.HI R9, RZ, R1, R2", registers) == [c >> narrow]
    assert run("SHF.R.S32.HI R9, RZ, R1, R2", registers) == [(signed(c) >> narrow) % 2**32]
    assert run("SHF.L.W.U32.HI R9, R0, R1, R2", registers) == [(pair << by % 32) % 2**64 >> 32]


@given(a=WORDS, b=WORDS, c=WORDS, lut=st.integers(0, 255))
def test_truth_tables(a, b, c, lut):
    expected = 0
    for bit in range(32):
        case = (a >> bit & 1) << 2 | (b >> bit & 1) << 1 | (c >> bit & 1)
        expected |= (lut >> case & 1) << bit
    assert run(f"LOP3.LUT P0, R9, R0, R1, R2, {lut:#x}, !PT", {0: a, 1: b, 2: c}) == [expected != 0, expected]


@given(values=st.tuples(TRUTHS, TRUTHS, TRUTHS), luts=st.tuples(st.integers(0, 255), st.integers(0, 255)))
def test_predicate_tables(values, luts):
    case = values[0] << 2 | values[1] << 1 | values[2]
    found = run(f"PLOP3.LUT P4, P5, P0, P1, P2, {luts[0]:#x}, {luts[1]:#x}", {}, dict(enumerate(values)))
    assert found == [luts[0] >> case & 1, luts[1] >> case & 1]


COMPARES = {
    "LT": lambda a, b: a < b,
    "LE": lambda a, b: a <= b,
    "GT": lambda a, b: a > b,
    "GE": lambda a, b: a >= b,
    "EQ": lambda a, b: a == b,
    "NE": lambda a, b: a != b,
}


@given(a=WORDS, b=WORDS, q=TRUTHS)
@pytest.mark.parametrize("name", COMPARES)
def test_compares_combined(name, a, b, q):
    test = COMPARES[name]
    for combine, function in (("AND", bool.__and__), ("OR", bool.__or__), ("XOR", bool.__xor__)):
        holds = test(signed(a), signed(b))
        found = run(f"ISETP.{name}.{combine} P4, P5, R0, R1, P0", {0: a, 1: b}, {0: q})
        assert found == [function(holds, q), function(not holds, q)]
    assert run(f"ISETP.{name}.U32.AND P4, PT, R0, R1, PT", {0: a, 1: b})[0] == test(a, b)


@given(a=st.integers(-(2**63), 2**63 - 1), b=st.integers(-(2**63), 2**63 - 1), same=TRUTHS)
@pytest.mark.parametrize("name", COMPARES)
def test_64_bit_compares_in_two_steps(name, a, b, same):
    b = (b % 2**32 | a >> 32 << 32) if same else b  # the high words decide seldom enough
    low = run(f"ISETP.{name}.U32.AND P4, PT, R0, R1, PT", {0: a % 2**32, 1: b % 2**32})[0]
    registers = {0: a >> 32 & 0xFFFFFFFF, 1: b >> 32 & 0xFFFFFFFF}
    found = run(f"ISETP.{name}.AND.EX P4, PT, R0, R1, PT, P0", registers, {0: bool(low)})[0]
    assert found == COMPARES[name](a, b)


@given(a=WORDS, b=WORDS, c=WORDS)
def test_minimum_and_maximum(a, b, c):
    registers = {0: a, 1: b, 2: c}
    assert run("IMNMX R9, R0, R1, PT", registers) == [min(signed(a), signed(b)) % 2**32]
    assert run("VIMNMX.U32 R9, R0, R1, !PT", registers) == [max(a, b)]
    assert run("VIADDMNMX R9, R0, R1, R2, !PT", registers) == [
        max(signed((a + b) % 2**32), signed(c)) % 2**32
    ]


@given(a=WORDS, b=WORDS, selector=st.integers(0, 0xFFFF))
def test_permuted_bytes(a, b, selector):
    octets = [(a | b << 32) >> 8 * place & 0xFF for place in range(8)]
    expected = 0
    for place in range(4):
        nibble = selector >> 4 * place & 15
        octet = octets[nibble & 7]
        expected |= ((0xFF if octet > 127 else 0) if nibble > 7 else octet) << 8 * place
    assert run(f"PRMT R9, R0, {selector:#x}, R1", {0: a, 1: b}) == [expected]


@given(a=WORDS, bits=st.integers(0, 32), place=st.integers(0, 32))
def test_bit_fields(a, bits, place):
    registers = {0: a, 1: bits, 2: place}
    low = a % 2**bits
    extended = low - 2**bits if bits and low >> (bits - 1) else low
    assert run("SGXT R9, R0, R1", registers) == [extended % 2**32]
    assert run("SGXT.U32 R9, R0, R1", registers) == [low]
    assert run("BMSK R9, R2, R1", registers) == [((2**bits - 1) << place) % 2**32]
    assert run("FLO.U32 R9, R0", registers) == [a.bit_length() - 1 if a else 2**32 - 1]
    assert run("FLO.U32.SH R9, R0", registers) == [32 - a.bit_length() if a else 2**32 - 1]
    assert run("POPC R9, R0", registers) == [a.bit_count()]
    assert run("BREV R9, R0", registers) == [int(f"{a:032b}"[::-1], 2)]


@given(value=WORDS, kept=WORDS, predicates=st.lists(TRUTHS, min_size=7, max_size=7))
def test_predicates_packed_into_a_register(value, kept, predicates):
    packed = sum(bit << place for place, bit in enumerate(predicates))
    found = run("P2R R9, PR, R0, 0x7f", {0: kept}, dict(enumerate(predicates)))
    assert found == [kept & ~0x7F | packed]
    assert run("R2P PR, R0, 0x15", {0: value}) == [value & 1, value >> 2 & 1, value >> 4 & 1]


FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False, allow_subnormal=False)


def bits_of(value: Any) -> int:
    return int(np.float32(value).view(np.uint32))


@given(a=FLOATS, b=FLOATS, c=FLOATS)
def test_float32_arithmetic_rounds_once(a, b, c):
    registers = {0: bits_of(a), 1: bits_of(b), 2: bits_of(c)}
    with np.errstate(all="ignore"):
        assert run("FADD R9, R0, -R1", registers) == [bits_of(np.float32(a) - np.float32(b))]
        assert run("FMUL R9, R0, R1", registers) == [bits_of(np.float32(a) * np.float32(b))]
    assert run("FSETP.LT.AND P0, PT, R0, R1, PT", registers)[0] == (a < b)


@given(a=st.floats(1, 2, width=32), b=st.floats(1, 2, width=32))
def test_directed_rounding(a, b):
    registers, exact = {0: bits_of(a), 1: bits_of(b)}, float(a) * float(b)
    results = {
        mode: np.uint32(run(f"FMUL.{mode} R9, R0, R1", registers)[0]).view(np.float32)
        for mode in ("RM", "RP", "RZ")
    }
    assert float(results["RM"]) <= exact <= float(results["RP"])
    assert results["RZ"] == results["RM"]
    assert float(results["RP"]) - float(results["RM"]) <= 2**-22


@given(word=WORDS, value=st.floats(-(2.0**40), 2.0**40, width=32))
def test_conversions(word, value):
    assert run("I2F.U32.RP R9, R0", {0: word})[0] == bits_of(_rounded_up(word))
    assert run("I2F R9, R0", {0: word})[0] == bits_of(np.float32(signed(word)))
    truncated = min(max(int(value), -(2**31)), 2**31 - 1)
    assert run("F2I.TRUNC.NTZ R9, R0", {0: bits_of(value)}) == [truncated % 2**32]
    assert run("F2I.U32.TRUNC.NTZ R9, R0", {0: bits_of(value)}) == [min(max(int(value), 0), 2**32 - 1)]


DOUBLES = st.floats(-1e200, 1e200)
WHOLE = st.integers(-(2**26), 2**26).map(float)  # whose products and sums are exact


def pair_of(value: float) -> tuple[int, int]:
    """The two registers that hold a float64."""
    bits = int(np.float64(value).view(np.uint64))
    return bits % 2**32, bits >> 32


def pairs_of(*values: float) -> dict[int, int]:
    """R0 and R1 hold the first value, R2 and R3 the second, and so on."""
    return dict(enumerate(word for value in values for word in pair_of(value)))


@given(a=WHOLE, b=WHOLE, c=WHOLE)
def test_float64_arithmetic(a, b, c):
    registers = pairs_of(a, b, c)
    assert run("DADD R8, R0, -R2", registers) == [*pair_of(a - b)]
    assert run("DMUL R8, R0, R2", registers) == [*pair_of(a * b)]
    assert run("DFMA R8, R0, R2, R4", registers) == [*pair_of(a * b + c)]


@given(a=st.one_of(DOUBLES, WHOLE), b=st.one_of(DOUBLES, WHOLE), q=TRUTHS)
def test_float64_compares(a, b, q):
    assert run("DSETP.GT.OR P0, P1, R0, R2, P2", pairs_of(a, b), {2: q}) == [a > b or q, a <= b or q]


@given(value=st.floats(-(2.0**40), 2.0**40, width=32))
@pytest.mark.parametrize(
    ("mode", "function"), [("", np.rint), (".FLOOR", np.floor), (".CEIL", np.ceil), (".TRUNC", np.trunc)]
)
def test_rounding_to_whole_numbers(mode, function, value):
    assert run(f"FRND{mode} R9, R0", {0: bits_of(value)}) == [bits_of(function(np.float32(value)))]
    assert run(f"FRND.F64{mode} R8, R0", pairs_of(value)) == [*pair_of(function(value))]
    assert run("F2F.F64.F32 R8, R0", {0: bits_of(value)}) == [*pair_of(value)]
    assert run("F2F.F32.F64 R9, R0", pairs_of(value)) == [bits_of(value)]


def test_the_special_register_that_is_zero():
    assert run("CS2R R8, SRZ", {}) == [0, 0]
    assert run("CS2R.32 R9, SRZ", {}) == [0]
    assert run("S2R R9, SRZ", {}) == [0]


EDGES = [0.0, -0.5, 0.5, 2.5, 2.0**31, -(2.0**31), 2.0**32, 2.0**63, -(2.0**63), 2.0**64, np.inf, -np.inf]


@given(value=st.one_of(st.floats(width=32), st.sampled_from(EDGES)))
@pytest.mark.parametrize("kind", ["S32", "U32", "S64", "U64"])
def test_conversion_to_integers_saturates(kind, value):
    bits = int(kind[1:])
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if kind[0] == "S" else (0, 2**bits - 1)
    nearest = 0 if np.isnan(value) else round(min(max(value, -(2.0**70)), 2.0**70))
    expected = min(max(nearest, low), high) % 2**64
    words = run(f"F2I.{kind}.NTZ R8, R0", {0: bits_of(value)})
    assert words == [expected % 2**32, expected >> 32][: len(words)]


def _rounded_up(word: int) -> np.float32:
    value = np.float32(word)
    return value if int(value) >= word else np.nextafter(value, np.float32(np.inf))


def test_constants_written_in_half_precision():
    assert run("HFMA2.MMA R9, -RZ, RZ, 0, 2.384185791015625e-07", {}) == [4]
    assert run("HFMA2 R9, -RZ, RZ, 0.771484375, 0.21533203125", {}) == [0x3A2C32E4]
