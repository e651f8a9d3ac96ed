import struct

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


def test_registers():
    assert register("s[4:7]") == Register(4, 4)
    assert register("v12") == Register(V + 12, 1)
    assert register("v7.h") == Register(V + 7, 1, "h")
    assert register("a[0:15]") == Register(2 * V, 16)
    assert register("vcc") == Register(VCC, 2)
    assert register("exec_lo") == Register(EXEC, 1)
    assert register("ttmp9") == Register(108 + 9, 1)
    assert register("off") is None


def test_constants():
    minus_one = operand("-1").place
    assert isinstance(minus_one, ConstantOperand)
    assert (minus_one.bits, minus_one.wide) == (0xFFFFFFFF, (1 << 64) - 1)
    half = operand("0.5").place
    assert isinstance(half, ConstantOperand)
    assert half.bits == struct.unpack("<I", struct.pack("<f", 0.5))[0]
    assert half.double == struct.unpack("<Q", struct.pack("<d", 0.5))[0]
    literal = operand("0x40100000").place  # of a double, the high word: 4.0
    assert isinstance(literal, ConstantOperand)
    assert struct.unpack("<d", struct.pack("<Q", literal.double))[0] == 4.0


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
