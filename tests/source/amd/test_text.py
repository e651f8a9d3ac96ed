import pytest

from dse.errors import DseError
from dse.source.amd.text import parse


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
