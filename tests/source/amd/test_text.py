import pytest

from dse.errors import DseError
from dse.source.amd.text import KernelArgument, parse


def test_instructions_labels_and_numbers(written):
    listing = written(
        """
        v_dual_mov_b32 v5, v2 :: v_dual_add_nc_u32 v4, 0x80, v1
.LBB0_1:
        ds_load_2addr_b32 v[3:4], v1 offset0:1 offset1:36
        v_pk_fma_f32 v[4:5], v[0:1], v[16:17], v[102:103] op_sel:[0,1,0]   ; a comment
        s_waitcnt vmcnt(0) lgkmcnt(1)
        s_getreg_b32 s0, hwreg(HW_REG_MODE, 0, 4)
        v_fma_f32 v0, -v1, |v2|, 1.0 clamp
        s_cbranch_scc1 .LBB0_1
        """,
        "gfx1100",
        lanes=32,
        lds=512,
    )
    first, second, third, fourth, fifth, sixth, seventh, last = listing.instructions
    assert (first.opcode, first.operands) == ("v_mov_b32", ("v5", "v2"))
    assert first.second is not None
    assert str(first.second) == "v_add_nc_u32 v4, 0x80, v1"
    assert second.modifiers == {"offset0": "1", "offset1": "36"}
    assert third.operands == ("v[4:5]", "v[0:1]", "v[16:17]", "v[102:103]")
    assert third.modifiers == {"op_sel": "[0,1,0]"}
    assert fourth.operands == ("vmcnt(0) lgkmcnt(1)",)
    assert fifth.operands == ("s0", "hwreg(HW_REG_MODE, 0, 4)")
    assert (sixth.operands, sixth.modifiers) == (("v0", "-v1", "|v2|", "1.0"), {"clamp": ""})
    assert (seventh.opcode, last.opcode) == ("s_cbranch_scc1", "s_endpgm")
    assert listing.labels == {".Lfunc_begin0": 0, ".LBB0_1": 1}
    assert (listing.name, listing.target, listing.wave_size) == ("f", "gfx1100", 32)
    assert (listing.vgprs, listing.sgprs, listing.vgpr_spills, listing.lds_bytes) == (24, 16, 3, 512)
    assert listing.arguments == tuple(KernelArgument(8 * n, 8, "global_buffer") for n in range(2))
    assert listing.occupancy == 8
    assert listing.directives["user_sgpr_count"] == 2


def test_lines_are_those_of_the_kernels_own_file(written):
    listing = written(
        """
        .loc	0 66 26 prologue_end            ; /x/kernel.cu:66:26
        s_nop 0
        .loc	1 10 48                         ; /x/prelude.h:10:48 @[ /x/kernel.cu:89:5 ]
        s_nop 1
        .loc	0 60 12                         ; /x/kernel.cu:60:12 @[ /x/kernel.cu:85:30 ]
        s_nop 2
        .loc	0 0 5 is_stmt 0                 ; /x/kernel.cu:0:5
        s_nop 3
        """
    )
    assert [step.line for step in listing.instructions] == [66, 89, 60, None, None]


def test_variables_keep_the_order_of_the_text(written):
    names = [f"table_{place}" for place in range(8)]  # their places in memory follow from it
    listing = written([f"\t.type\t{name},@object" for name in names])
    assert [*listing.symbols] == names


def test_what_is_no_such_text_is_refused(written):
    with pytest.raises(DseError, match=r"assembly: found no \.amdgcn_target"):
        parse("\t.version 8.0\n")
    text = '\t.amdgcn_target "amdgcn-amd-amdhsa--gfx90a"\namdhsa.kernels:\n\t.amdgpu_metadata\n  - .name: f\n'
    with pytest.raises(DseError, match="found kernels f, expected g"):
        parse(text, "g")
    with pytest.raises(DseError, match="found no label f:"):
        parse(text)


def test_branches_too_far_for_one_instruction_are_branches(written):
    listing = written(
        """
.LBB0_1:
        s_getpc_b64 s[4:5]
.Lpost_getpc0:
        s_add_u32 s4, s4, (.LBB0_1-.Lpost_getpc0)&4294967295
        s_addc_u32 s5, s5, (.LBB0_1-.Lpost_getpc0)>>32
        s_setpc_b64 s[4:5]
        """
    )
    assert [str(step) for step in listing.instructions[1:4]] == [
        "s_add_u32 s4, s4, 0", "s_addc_u32 s5, s5, 0", "s_branch .LBB0_1",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        ({"lanes": 0}, r"\.wavefront_size: found 0, expected 32 to 64"),
        ({"lds": 1 << 40}, r"\.group_segment_fixed_size: found 1099511627776, expected 0 to"),
        ({"target": "9**9"}, r"found no \.amdgcn_target"),
        ({"lanes": "many"}, "assembly: cannot read: ValueError"),
    ],
)
def test_what_no_gpu_has_is_refused(written, stated, message):
    with pytest.raises(DseError, match=message):
        written("s_nop 0", **stated)


def test_a_place_as_long_as_a_file_is_read_at_once(written):
    place = "\t.loc\t1 7 3 ; x.h:7:3 @[ " + "[" * 200_000
    assert written([place, "s_nop 0"]).instructions[0].opcode == "s_nop"


def test_operands_as_long_as_a_file_are_read_at_once(written):
    assert len(written(["v_add_f32_e32 v0" + ", v0" * 200_000]).instructions[0].operands) == 200_001
