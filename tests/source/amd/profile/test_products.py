"""What MFMA and WMMA multiply, by their names and registers."""

import pytest

from dse.errors import DseError
from dse.source.amd.profile.products import product
from dse.source.amd.text import Instruction


def inst(opcode: str, *operands: str) -> Instruction:
    name, *modifiers = opcode.split()
    return Instruction(0, name, operands, dict(text.split(":") for text in modifiers), None)


@pytest.mark.parametrize(
    ("opcode", "a", "kind", "multiply_adds", "operand_bytes"),
    [
        ("v_mfma_f32_16x16x16f16", "v[2:3]", "mma_fp16", 16 * 16 * 16, 1024),
        ("v_mfma_f32_32x32x8_f16", "v[2:3]", "mma_fp16", 32 * 32 * 8, 1024),
        ("v_mfma_f32_32x32x4f16", "v[2:3]", "mma_fp16", 2 * 32 * 32 * 4, 1024),
        ("v_mfma_f32_4x4x4_16b_f16", "v[2:3]", "mma_fp16", 16 * 4 * 4 * 4, 1024),
        ("v_mfma_f32_16x16x8bf16", "v2", "mma_fp16", 16 * 16 * 8, 512),
        ("v_mfma_f32_16x16x16bf16_1k", "v[2:3]", "mma_fp16", 16 * 16 * 16, 1024),
        ("v_mfma_f32_16x16x4f32", "v2", "mma_fp32", 16 * 16 * 4, 512),
        ("v_mfma_f32_16x16x1f32", "a2", "mma_fp32", 4 * 16 * 16, 512),
        ("v_mfma_f32_16x16x8_xf32", "v[2:3]", "mma_tf32", 16 * 16 * 8, 1024),
        ("v_mfma_f64_16x16x4f64", "v[2:3]", "mma_fp64", 16 * 16 * 4, 1024),
        ("v_mfma_f64_4x4x4_4b_f64", "v[2:3]", "mma_fp64", 4 * 4 * 4 * 4, 1024),
        ("v_mfma_i32_16x16x32_i8", "v[2:3]", "mma_int8", 16 * 16 * 32, 1024),
        ("v_mfma_f32_16x16x32_fp8_bf8", "v[2:3]", "mma_fp8", 16 * 16 * 32, 1024),
        ("v_mfma_scale_f32_16x16x128_f8f6f4 blgp:4", "v[2:9]", "mma_fp8", 16 * 16 * 128, 3072),
        ("v_mfma_scale_f32_16x16x128_f8f6f4 cbsz:2 blgp:4", "v[2:7]", "mma_fp4", 16 * 16 * 128, 2560),
        ("v_smfmac_f32_16x16x32_f16", "v[2:3]", "mma_fp16", 16 * 16 * 16, 1536),
        ("v_wmma_f32_16x16x16_bf16", "v[2:9]", "mma_fp16", 16 * 16 * 16, 1024),
        ("v_wmma_f16_16x16x16_f16", "v[2:9]", "mma_fp16_fp16", 16 * 16 * 16, 1024),
        ("v_wmma_i32_16x16x16_iu8", "v[2:5]", "mma_int8", 16 * 16 * 16, 512),
        ("v_swmmac_f32_16x16x32_fp8_fp8", "v[2:3]", "mma_fp8", 16 * 16 * 16, 768),
    ],
)
def test_shape_and_types_are_in_the_name(opcode, a, kind, multiply_adds, operand_bytes):
    actual = product(inst(opcode, "v[10:13]", a, a, "v[10:13]"), 64)
    assert (actual.kind, actual.multiply_adds) == (kind, multiply_adds)
    assert actual.from_registers == pytest.approx(operand_bytes / 768)


def test_products_that_no_class_of_work_fits_are_named():
    with pytest.raises(DseError, match="v_wmma_i32_16x16x16_iu4"):
        product(inst("v_wmma_i32_16x16x16_iu4", "v[0:7]", "v[8:9]", "v[10:11]", "v[0:7]"), 32)
