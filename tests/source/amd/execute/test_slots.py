import pytest

from dse.errors import DseError
from dse.source.amd.execute.memory_names import memory_access
from dse.source.amd.execute.slots import (
    EXEC,
    VCC,
    ConstantOperand,
    Register,
    Symbol,
    V,
    beyond,
    operand,
    register,
)

REGISTERS = {
    "s[4:7]": Register(4, 4), "v12": Register(V + 12, 1), "v7.h": Register(V + 7, 1, "h"), "off": None,
    "a[0:15]": Register(2 * V, 16), "vcc": Register(VCC, 2), "exec_lo": Register(EXEC, 1),
    "ttmp9": Register(108 + 9, 1),
}  # fmt: skip


def test_registers():
    assert {text: register(text) for text in REGISTERS} == REGISTERS


@pytest.mark.parametrize(
    ("text", "field", "expected"),
    [
        ("-1", "bits", 0xFFFFFFFF),
        ("-1", "wide", (1 << 64) - 1),
        ("0.5", "bits", 0x3F000000),
        ("0.5", "double", 0x3FE0000000000000),
        ("0x40100000", "double", 0x4010000000000000),  # 4.0: a literal is the high word
    ],
)
def test_constants(text: str, field: str, expected: int):
    place = operand(text).place
    assert isinstance(place, ConstantOperand)
    assert getattr(place, field) == expected


def test_signs_and_symbols():
    assert operand("-|v3|").negated
    assert operand("-|v3|").absolute
    assert operand("filter@rel32@lo+68").place == Symbol("filter", "lo", 68)
    with pytest.raises(DseError, match="found operand 'w1'"):
        operand("w1")


def test_registers_that_no_gpu_has():
    there = ("v255", "v[0:3]", "v1.l", "-v7", "neg(v[0:1])", "ttmp9", "vcc", "v300@rel32@lo+4", "vmcnt(0)")
    assert not any(map(beyond, there))
    assert all(map(beyond, ("v256", "s[104:107]", "v[3:0]", "v[[2:3]", f"a{'9' * 5000}")))


@pytest.mark.parametrize(
    ("name", "space", "kind", "size", "elements"),
    [
        ("global_load_dwordx4", "vmem", "load", 16, 1),
        ("global_store_b64", "vmem", "store", 8, 1),
        ("flat_load_ubyte", "flat", "load", 1, 1),
        ("scratch_buffer_store_dword", "scratch", "store", 4, 1),
        ("buffer_load_ushort", "vmem", "load", 2, 1),
        ("buffer_load_lds_dwordx4", "vmem", "load", 16, 1),
        ("ds_read_b64_tr_b16", "lds", "load", 8, 1),
        ("global_load_tr_b128", "vmem", "load", 16, 1),
        ("scratch_load_b96", "scratch", "load", 12, 1),
        ("ds_read2st64_b32", "lds", "load", 4, 2),
        ("ds_store_2addr_b64", "lds", "store", 8, 2),
        ("ds_add_rtn_u32", "lds", "atomic", 4, 1),
        ("global_atomic_add_u32", "vmem", "atomic", 4, 1),
        ("s_load_dwordx16", "smem", "load", 64, 1),
        ("global_load_short_d16_hi", "vmem", "load", 2, 1),
    ],
)
def test_names(name: str, space: str, kind: str, size: int, elements: int):
    accessed = memory_access(name)
    assert accessed is not None
    assert (accessed.space, accessed.kind, accessed.bytes, accessed.elements) == (space, kind, size, elements)
