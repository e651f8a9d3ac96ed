from dataclasses import replace

import pytest
from support.sass_code import program_of

from dse.errors import DseError
from dse.source.machine.products import Mma
from dse.source.nvidia.sass.operands import RZ, UR, operand
from dse.source.nvidia.sass.products import UnknownProductError, described, product, product_words

SCALED = (4, 4, 2, 4, 1, 1, 1)
# As ptxas writes them: what is multiplied, and registers of D, A, B, C (PTX ISA: fragments of each shape).
FORMS = [
    ("HMMA.1688.F32 R8 R4 R6 R8", Mma("mma_fp16", 1024, 0.5, 0), (4, 2, 1, 4)),
    ("HMMA.1688.F16 R4 R2 R6 R4", Mma("mma_fp16_fp16", 1024, 0.5, 0), (2, 2, 1, 2)),
    ("HMMA.16816.F32 R4 R8 R12 R4", Mma("mma_fp16", 2048, 1, 0), (4, 4, 2, 4)),
    ("HMMA.16816.F16 R4 R8 R12 R4", Mma("mma_fp16_fp16", 2048, 1, 0), (2, 4, 2, 2)),
    ("HMMA.16816.F32.BF16 R4 R8 R12 R4", Mma("mma_fp16", 2048, 1, 0), (4, 4, 2, 4)),
    ("HMMA.1684.F32.TF32 R4 R8 R12 R4", Mma("mma_tf32", 512, 0.5, 0), (4, 2, 1, 4)),
    ("HMMA.1688.F32.TF32 R4 R8 R12 R4", Mma("mma_tf32", 1024, 1, 0), (4, 4, 2, 4)),
    ("HMMA.SP.16832.F32 R4 R8 R12 R4 R16 0x0", Mma("mma_fp16", 2048, 4 / 3, 0), (4, 4, 4, 4, 1, 1)),
    ("HMMA.884.F32.F32.STEP0 R12 R4.ROW R6.COL R4", Mma("mma_fp16", 256, 1 / 6, 0), (2, 2, 2, 2)),
    ("HMMA.884.F16.F16.STEP1 R10 R4.ROW R4.COL R6", Mma("mma_fp16_fp16", 512, 1 / 3, 0), (2, 2, 2, 2)),
    ("IMMA.8816.S8.S8 R2 R4.ROW R5.COL R2", Mma("mma_int8", 1024, 1 / 3, 0), (2, 1, 1, 2)),
    ("IMMA.16832.U8.S8 R4 R8.ROW R12.COL R4", Mma("mma_int8", 4096, 1, 0), (4, 4, 2, 4)),
    ("QMMA.16832.F32.E4M3.E5M2 R4 R8.ROW R12.COL R4", Mma("mma_fp8", 4096, 1, 0), (4, 4, 2, 4)),
    ("QMMA.16832.F16.E4M3.E4M3 R6 R8.ROW R12.COL R6", Mma("mma_fp8_fp16", 4096, 1, 0), (2, 4, 2, 2)),
    ("QMMA.16832.F16.E2M1.E3M2 R14 R4 R8 R4", Mma("mma_fp8", 4096, 1, 0), (2, 4, 2, 2)),
    # With block scales: one register for those of A, one for those of B, and which of their bytes count.
    ("QMMA.SF.16832.F32.E4M3.E5M2.E8 R4 R8 R2 R4 R10 R11 URZ", Mma("mma_fp8_fp16", 4096, 1, 0), SCALED),
    ("QMMA.SF.16832.F32.E4M3.E2M1.E8 R4 R8 R2 R4 R10 R11 UR6", Mma("mma_fp8", 4096, 1, 0), SCALED),
    ("OMMA.SF.16864.F32.E2M1.E2M1.E8 R4 R8 R2 R4 R10 R11 URZ", Mma("mma_fp4", 8192, 1, 0), SCALED),
    ("OMMA.SF.SP.168128.E2M1 R0 R4 R8 R0 R12 R11", Mma("mma_fp4", 8192, 4 / 3, 0), (4, 4, 4, 4, 2, 1)),
    ("DMMA.884 R4 R8 R12 R4", Mma("mma_fp64", 256, 2 / 3, 0), (4, 2, 2, 4)),
    ("DMMA.16x8x16 R24 R40 R16 R24", Mma("mma_fp64", 2048, 4, 0), (8, 16, 8, 8)),
    # Of a warp group's 64 x N x K, a warp takes a quarter.
    ("HGMMA.64x128x16.F32 R24 gdesc[UR20].tnspB R24", Mma("mma_fp16", 32768, 0, 1536), (64, 4, 64)),
    ("HGMMA.64x128x16.F32 R24 R4 gdesc[UR20] R24", Mma("mma_fp16", 32768, 0, 1024), (64, 4, 2, 64)),
    ("HGMMA.64x64x16.F16 R24 gdesc[UR20] RZ !UPT", Mma("mma_fp16_fp16", 16384, 0, 1024), (16, 4, 16, 1)),
    ("QGMMA.64x64x32.F32.E4M3.E4M3 R24 gdesc[UR20] R24", Mma("mma_fp8", 32768, 0, 1024), (32, 4, 32)),
    ("IGMMA.64x8x32.S8.S8 R24 gdesc[UR20] R24", Mma("mma_int8", 4096, 0, 576), (4, 4, 4)),
    ("HGMMA.64x256x8.F32.TF32 R24 R4 gdesc[UR20] R24", Mma("mma_tf32", 32768, 0, 2048), (128, 4, 2, 128)),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected", "words"), FORMS, ids=[form[0] for form in FORMS])
def test_what_an_instruction_multiplies_and_its_registers(text, expected, words):
    name, *operands = text.split()
    opcode, *modifiers = name.split(".")
    read = tuple(map(operand, operands))
    actual = product(opcode, modifiers, read)
    assert actual is not None
    assert (actual.kind, actual.multiply_adds) == (expected.kind, expected.multiply_adds)
    assert (actual.from_registers, actual.shared_bytes) == pytest.approx(
        (expected.from_registers, expected.shared_bytes)
    )
    assert product_words(opcode, modifiers, read) == words


# Bits as in the PTX ISA's table: D's type at 4, A's at 7, N / 8 at 17, M / 16 at 24.
DESCRIBED = [
    ("UTCHMMA", 0x8210010, Mma("mma_fp16", 128 * 128 * 16, 0, 8192)),
    ("UTCHMMA", 0x8210000, Mma("mma_fp16_fp16", 128 * 128 * 16, 0, 8192)),
    ("UTCHMMA", 1 << 4 | 1 << 7 | 8 << 17 | 4 << 24, Mma("mma_fp16", 64 * 64 * 16, 0, 4096)),
    ("UTCHMMA", 1 << 4 | 2 << 7 | 32 << 17 | 8 << 24, Mma("mma_tf32", 128 * 256 * 8, 0, 12288)),
    ("UTCQMMA", 1 << 4 | 16 << 17 | 8 << 24, Mma("mma_fp8", 128 * 128 * 32, 0, 8192)),
    ("UTCOMMA", 16 << 17 | 8 << 24, Mma("mma_fp4", 128 * 128 * 64, 0, 8192)),
    ("UTCOMMA", 1 << 31 | 16 << 17 | 8 << 24, Mma("mma_fp4", 128 * 128 * 96, 0, 12288)),
    ("UTCIMMA", 2 << 4 | 1 << 7 | 16 << 17 | 8 << 24, Mma("mma_int8", 128 * 128 * 32, 0, 8192)),
]


@pytest.mark.parametrize(("opcode", "descriptor", "expected"), DESCRIBED)
def test_an_instruction_descriptor_tells_shape_and_types(opcode, descriptor, expected):
    operands = tuple(map(operand, ("gdesc[UR4]", "gdesc[UR12]", "tmem[UR8]", "tmem[UR30]", "idesc[UR31]")))
    assert described(opcode, (), operands, descriptor) == expected
    assert product(opcode, (), operands) is None
    in_tensor_memory = (operand("tmem[UR4]"), *operands[1:])
    m, k_bytes = (descriptor >> 24 & 31) * 16, 48 if descriptor >> 31 else 32
    actual = described(opcode, (), in_tensor_memory, descriptor)
    assert actual.shared_bytes == expected.shared_bytes - m * k_bytes
    share = described(opcode, ("2CTA",), operands, descriptor)
    both = replace(share, multiply_adds=2 * share.multiply_adds, shared_bytes=2 * share.shared_bytes)
    assert both == replace(expected, blocks=2)


@pytest.mark.parametrize(
    ("form", "size"),
    [("", 4096), ("4dp256bit", 128), ("2x64dp128bit_lw02_lw13", 1024), ("4x32dp128bit", 512), ("2CTA", 4096)],
)
def test_copies_to_tensor_memory_read_shared_memory(form: str, size: int):
    step = program_of(f"UTCCP.T.S.{form} tmem[UR4], gdesc[UR6]", "EXIT", arch=100).steps[0]
    assert step.product == Mma("mma_fp16", 0, 0, size, 2 if form == "2CTA" else 1)


def test_unknown_forms_fail_by_name():
    for text in ("BMMA.88128.XOR.POPC", "IMMA.16864.S4.S4", "OMMA.16864.F32.BF16X", "HMMA.16832.F32.BF16X"):
        opcode, *modifiers = text.split(".")
        if text.startswith("HMMA"):
            modifiers = ["17816"]
        with pytest.raises(UnknownProductError):
            product(opcode, modifiers, tuple(map(operand, ("R0", "R4", "R8", "R0"))))
    with pytest.raises(DseError, match=r"instruction 0x0 \(IMMA\.8832\.S4\.S4\): product of matrices: found"):
        program_of("IMMA.8832.S4.S4 R0, R4.ROW, R8.COL, R0", "EXIT", arch=90)
    with pytest.raises(UnknownProductError):
        described("UTCHMMA", (), (operand("gdesc[UR4]"),), 0)


def test_a_step_reads_and_writes_all_registers_of_its_matrices():
    code = ("HGMMA.64x16x16.F32 R24, gdesc[UR20], RZ, !UPT", "HMMA.16816.F32.BF16 R4, R8, R12, RZ", "EXIT")
    group, warp, _ = program_of(*code, arch=90).steps
    assert group.writes == tuple(range(24, 32))
    assert group.reads == tuple(range(UR + 20, UR + 24))
    assert warp.writes == (4, 5, 6, 7)
    assert warp.reads == (8, 9, 10, 11, 12, 13)
    assert all(slot < RZ or slot >= UR for step in (group, warp) for slot in (*step.reads, *step.writes))
