"""One wave alone: what it reads and writes, what it waits for."""

import pytest

from dse.amd.profile.walk import _waits, registers
from dse.amd.text import Instruction


def inst(opcode: str, *operands: str) -> Instruction:
    return Instruction(0, opcode, operands, {}, None)


@pytest.mark.parametrize(
    ("opcode", "operands", "reads", "writes"),
    [
        ("v_add_f32", ("v1", "v2", "s3"), {"v2"}, {"v1"}),
        ("v_fmac_f32", ("v1", "v2", "v3"), {"v1", "v2", "v3"}, {"v1"}),
        ("v_fma_f32", ("v1", "-v2", "|v3|", "v[4:5]"), {"v2", "v3", "v4", "v5"}, {"v1"}),
        ("global_load_dwordx2", ("v[2:3]", "v[4:5]", "off"), {"v4", "v5"}, {"v2", "v3"}),
        ("global_store_dword", ("v0", "v1", "s[2:3]"), {"v0", "v1"}, set()),
        ("v_cmp_gt_u32", ("vcc", "v1", "v2"), {"v1", "v2"}, {"vcc"}),
        ("s_and_saveexec_b64", ("s[4:5]", "vcc"), {"vcc"}, set()),
    ],
)
def test_registers_read_and_written(opcode, operands, reads, writes):
    found = registers(opcode, operands)
    assert (set(found[0]), set(found[1])) == (reads, writes)


@pytest.mark.parametrize(
    ("opcode", "operands", "waits"),
    [
        ("s_waitcnt", ("vmcnt(3) lgkmcnt(0)",), {"vm": 3, "lgkm": 0}),
        ("s_waitcnt_vscnt", ("null", "0x0"), {"vs": 0}),
        ("s_wait_loadcnt", ("0x2",), {"vm": 2}),
        ("s_wait_loadcnt_dscnt", ("0x305",), {"vm": 3, "lgkm": 5}),
        ("s_nop", ("0",), {}),
    ],
)
def test_waits_name_their_counters(opcode, operands, waits):
    assert dict(_waits(inst(opcode, *operands))) == waits
