"""Products of matrices by a wave's MFMA or WMMA, from its name.

`v_mfma_f32_16x16x16_f16`, or `...16x16x16f16` before CDNA3: sums, M x N x K, operands. Small ones multiply
several pairs of matrices at once, as many as fill the operands' registers. Sparse ones (smfmac, swmmac) leave
out half of the pairs along K.

Source: AMD's instruction set guides of CDNA2, CDNA3, CDNA4, RDNA3 and RDNA4, sections on matrix arithmetic.
"""

import re

from dse.errors import DseError
from dse.source.amd.execute.slots import slots_of
from dse.source.amd.text import Instruction
from dse.source.machine.products import UNIT_BYTES, Mma

_NAME = re.compile(
    r"v_(?P<family>mfma|smfmac|wmma|swmmac)_(?:scale_)?(?P<sums>[fi]\d+|bf16)_(?P<m>\d+)x(?P<n>\d+)x(?P<k>\d+)"
    r"(?:_\d+b)?_?(?P<type>[a-z]+\d+(?:f6f4)?)(?:_\w+)?"
)
_KINDS = {  # class and bits of operands
    "f16": ("mma_fp16", 16), "bf16": ("mma_fp16", 16), "xf32": ("mma_tf32", 32), "f32": ("mma_fp32", 32),
    "f64": ("mma_fp64", 64), "i8": ("mma_int8", 8), "iu8": ("mma_int8", 8), "fp8": ("mma_fp8", 8),
    "bf8": ("mma_fp8", 8), "f8f6f4": ("mma_fp8", 8),
}  # fmt: skip
_BITS = (8, 8, 6, 6, 4)  # of f8f6f4, by the modifiers of A and B


def product(step: Instruction, wave_size: int) -> Mma:
    """Return the product of an instruction.

    **Raises:** DseError for types that fit no class of work.
    """
    named = _NAME.fullmatch(step.opcode)
    kind, bits = _KINDS.get(named["type"], ("", 0)) if named else ("", 0)
    if not named or not kind:
        allowed = ", ".join(sorted(_KINDS))
        raise DseError(f"{step}: found a product of matrices of such operands, expected {allowed}")
    m, n, k = int(named["m"]), int(named["n"]), int(named["k"])
    sparse = 2 if named["family"].startswith("s") else 1
    pairs = 1
    if named["family"] == "mfma" and len(step.operands) > 1:
        pairs = max(1, len(slots_of(step.operands[1:2])) * 32 // bits * wave_size // (m * k))
    a_bits, b_bits = bits, bits
    if named["type"] == "f8f6f4":
        a_bits, b_bits = (_BITS[int(step.modifiers.get(name, "0"))] for name in ("cbsz", "blgp"))
        kind = "mma_fp8" if max(a_bits, b_bits) == 8 else "mma_fp4"
    operand_bytes = pairs * (m * k / sparse * a_bits + k * n * b_bits) / 8
    if named["sums"] in ("f16", "bf16"):
        kind = "mma_fp16_fp16"
    return Mma(kind, pairs * m * n * k / sparse, operand_bytes / UNIT_BYTES, 0.0)
