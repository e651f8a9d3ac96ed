"""Products of matrices on tensor cores: shape, types and operands of an instruction.

There are three families. HMMA, IMMA, QMMA, OMMA and DMMA have all operands in a warp's registers. HGMMA,
IGMMA and QGMMA (compute capability 9.0) are executed by a warp group, a quarter by each of its four warps: B,
and A unless it is a register, are in shared memory. UTCHMMA, UTCIMMA, UTCQMMA and UTCOMMA (10.0) are issued
once per block, with sums in tensor memory; shape and types are in a register, the instruction descriptor.
UTCCP copies operands from shared to tensor memory, in turn with these: a product that multiplies nothing.

Sources: PTX ISA 8.8, sections on mma, wgmma and tcgen05.mma ("Instruction descriptor"), compared with the
machine code that ptxas generates for each form. GeForce cards do products with block scales (.SF) at the rate
of sums in half precision, and fp6 at that of fp8 with sums in 32 bits: flashinfer-ai/flashinfer#3628, and the
table of main-horse.github.io/posts/5090-mm-perf.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from dse.source.machine.products import UNIT_BYTES, Mma
from dse.source.nvidia.sass.operands import Operand

_GROUP = 4  # warps of a warp group


class UnknownProductError(Exception):
    """A product of matrices that fits no class of work; the text says why."""


@dataclass(frozen=True)
class _Type:
    """A type of operands: bits of an element, class with sums in 32 bits, and in half precision or scaled."""

    bits: int
    kind: str
    kind_half: str = ""


_HALF = _Type(16, "mma_fp16", "mma_fp16_fp16")
_TYPES = {
    "BF16": _Type(16, "mma_fp16"),
    "TF32": _Type(32, "mma_tf32"),
    "S8": _Type(8, "mma_int8"),
    "U8": _Type(8, "mma_int8"),
    # Narrower floats take a byte, and in any sums the time of fp8 with sums in 32 bits.
    **dict.fromkeys(("E2M3", "E3M2", "E2M1"), _Type(8, "mma_fp8", "mma_fp8")),
    **dict.fromkeys(("E4M3", "E5M2"), _Type(8, "mma_fp8", "mma_fp8_fp16")),
}
_FP4 = _Type(4, "mma_fp4", "mma_fp4")
_DEFAULTS = {"H": _HALF, "D": _Type(64, "mma_fp64")}  # types without modifier
_WARP = re.compile(r"([HIQOD])MMA")
_WARP_GROUP = re.compile(r"([HIQ])GMMA")
_BLOCK = re.compile(r"UTC([HIQO])MMA")
_COPY = re.compile(r"(\d+)dp(\d+)bit")  # lanes of tensor memory that others repeat, and bits of each
_SHAPES = {  # as printed
    "884": (8, 8, 4), "1684": (16, 8, 4), "1688": (16, 8, 8), "8816": (8, 8, 16), "16816": (16, 8, 16),
    "16832": (16, 8, 32), "16864": (16, 8, 64), "168128": (16, 8, 128),
}  # fmt: skip


def is_product(opcode: str) -> bool:
    """Return whether an opcode multiplies matrices."""
    return opcode.endswith("MMA")


def needs_descriptor(opcode: str) -> bool:
    """Return whether shape and types are in a register: see `described`."""
    return opcode.startswith("UTC") and is_product(opcode)


def product(opcode: str, modifiers: Sequence[str], operands: Sequence[Operand]) -> Mma | None:
    """Return the product of an instruction, or its copy; None if it is neither or needs a descriptor.

    Sparse products (.SP) multiply half of the pairs along K, and A has half the size.

    **Raises:** UnknownProductError for types or shapes that fit no class of work.
    """
    if opcode == "UTCCP":
        lanes, bits = next((map(int, of.groups()) for of in map(_COPY.search, modifiers) if of), (128, 256))
        return Mma("mma_fp16", 0.0, 0.0, lanes * bits / 8, 2 if "2CTA" in modifiers else 1)
    if not is_product(opcode) or needs_descriptor(opcode):
        return None
    of = _type(opcode, modifiers)
    kind = of.kind_half if _half_sums(modifiers) or "SF" in modifiers else of.kind
    if not kind:
        raise UnknownProductError("half-precision sums of such operands")
    m, n, k = _shape(modifiers)
    sparse = 2 if "SP" in modifiers else 1
    a_bytes, b_bytes = m * k * of.bits / 8 / sparse, k * n * of.bits / 8
    multiply_adds = m * n * k / sparse
    if _WARP_GROUP.fullmatch(opcode):
        shared = b_bytes + (0.0 if _a_in_registers(operands) else a_bytes)
        return Mma(kind, multiply_adds / _GROUP, 0.0, shared / _GROUP)
    quads = 4 if (opcode, m) == ("HMMA", 8) else 1  # Volta: one product per quad of lanes, in steps
    steps = (2 if _half_sums(modifiers) else 4) if quads == 4 else 1
    share = quads / steps
    return Mma(kind, multiply_adds * share, (a_bytes + b_bytes) * share / UNIT_BYTES, 0.0)


def described(opcode: str, modifiers: Sequence[str], operands: Sequence[Operand], descriptor: int) -> Mma:
    """Return the product of an instruction whose shape and types are in a descriptor of 32 bits.

    **Raises:** UnknownProductError for types that fit no class of work.
    """
    family = _BLOCK.fullmatch(opcode)
    if not family:
        raise UnknownProductError("such a product")
    sparse = 2 if descriptor >> 2 & 1 else 1
    sums, a_type = descriptor >> 4 & 3, descriptor >> 7 & 7
    n, m = (descriptor >> 17 & 63) * 8, (descriptor >> 24 & 31) * 16
    if family[1] == "H":
        of = {0: _HALF, 1: _TYPES["BF16"], 2: _TYPES["TF32"]}.get(a_type)
    else:
        of = {"Q": _TYPES["E4M3"], "O": _FP4}.get(family[1], _TYPES["S8"])
    kind = "" if of is None else of.kind_half if sums == 0 and family[1] != "I" else of.kind
    if of is None or not kind or not m or not n:
        raise UnknownProductError(f"the instruction descriptor 0x{descriptor:x}")
    k = 96 if of is _FP4 and descriptor >> 31 & 1 else 256 // of.bits * sparse  # else 32 bytes
    a_bytes, b_bytes = m * k * of.bits / 8 / sparse, k * n * of.bits / 8
    a_in_shared = operands[0].text.startswith("gdesc")
    blocks = 2 if "2CTA" in modifiers else 1
    shared = b_bytes + (a_bytes if a_in_shared else 0.0)
    return Mma(kind, m * n * k / sparse / blocks, 0.0, shared / blocks, blocks)


def product_words(opcode: str, modifiers: Sequence[str], operands: Sequence[Operand]) -> tuple[int, ...]:
    """Count the registers of the destination and of each source of products without descriptor.

    **Raises:** UnknownProductError as `product`.
    """
    m, n, k = _shape(modifiers)
    of = _type(opcode, modifiers)
    threads = 128 if _WARP_GROUP.fullmatch(opcode) else 32
    sum_bits = 16 if _half_sums(modifiers) else max(32, of.bits if of.bits == 64 else 0)
    sparse = 2 if "SP" in modifiers else 1

    def words(elements: int, bits: int) -> int:
        return max(1, elements * bits // 32 // threads)

    if opcode == "HMMA" and m == 8:  # one step of a product per quad
        d, a, b = 2, 2, 2
    else:
        d, a, b = words(m * n, sum_bits), words(m * k // sparse, of.bits), words(n * k, of.bits)
    sources = list(operands[1:])
    if threads == 32:
        chosen = 2 if sparse == 2 and "SF" in modifiers else 1  # with the scales of A
        return (d, *[a, b, d, chosen, *(1 for _ in sources[4:])][: len(sources)])
    counts: list[int] = []
    for number, source in enumerate(sources):
        if source.kind == "descriptor":  # 64 bits per matrix
            counts.append(2 if _a_in_registers(operands) else 4)
        elif source.kind == "register":
            counts.append(a if number == 0 else d)
        else:
            counts.append(1)
        if len(counts) > 2 + _a_in_registers(operands) and source.kind == "register":
            counts[-1] = 1  # pairs selected by a sparse product
    return (d, *counts)


def _a_in_registers(operands: Sequence[Operand]) -> bool:
    return len(operands) > 1 and operands[1].kind == "register"


def _half_sums(modifiers: Sequence[str]) -> bool:
    """Return whether sums have half precision: the first type modifier is that of the sums."""
    return next((name for name in modifiers if name in ("F16", "F32")), "") == "F16"


def _type(opcode: str, modifiers: Sequence[str]) -> _Type:
    """Return the type of A and B, the slower of two. Where they differ, both have the same width."""
    family = _WARP.fullmatch(opcode) or _WARP_GROUP.fullmatch(opcode)
    if family:
        named = [_TYPES[name] for name in modifiers if name in _TYPES]
        if named:
            slower = next((of for of in named if of.kind == of.kind_half), named[0])  # fp6 beside fp8
            return _FP4 if family[1] == "O" else slower
        if family[1] in _DEFAULTS:
            return _DEFAULTS[family[1]]
    raise UnknownProductError("operands of such types")


def _shape(modifiers: Sequence[str]) -> tuple[int, int, int]:
    """Return (m, n, k) of "16816" or "64x128x16"."""
    for name in modifiers:
        if name in _SHAPES:
            return _SHAPES[name]
        if match := re.fullmatch(r"(\d+)x(\d+)x(\d+)", name):
            return int(match[1]), int(match[2]), int(match[3])
    raise UnknownProductError("such a shape")
