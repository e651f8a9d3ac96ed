import pytest
from hypothesis import given
from hypothesis import strategies as st

from dse.errors import DseError
from dse.source.nvidia.sass.listing import Control, SassInstruction, parse, resources

NVDISASM = """
	.target	sm_86

//--------------------- .nv.constant3           --------------------------
	.section	.nv.constant3,"a",@progbits
        /*0000*/ 	.byte	0x01, 0x02
//--------------------- .text.first             --------------------------
	.section	.text.first,"ax",@progbits
first:
.text.first:
	//## File "/home/me/k.cu", line 7
        /*0000*/                   MOV R1, c[0x0][0x28] ;
	//## File "/home/me/helper.h", line 3 inlined at "/home/me/k.cu", line 9
	//## File "/home/me/k.cu", line 9
        /*0010*/              @!P0 BRA `(.L_x_1) ;
	//## File "/home/me/helper.h", line 4
        /*0020*/                   MOV R20, 32@lo((first + .L_x_1@srel)) ;
        /*0030*/                   MOV R21, 32@hi((first + .L_x_1@srel)) ;
	//## File "/home/me/k.cu", line 5 inlined at "/home/me/k.cu", line 11
        /*0040*/                   CALL.REL.NOINC `($first$_Z1fi) ;
.L_x_1:
        /*0050*/               @P1 EXIT ;
$first$_Z1fi:
        /*0060*/                   BRX R4 -0x70                  (*"BRANCH_TARGETS .L_x_1,.L_x_2"*);
        /*0070*/                   RET.REL.NODEC R20 `(first) ;
.L_x_2:
//--------------------- .text._Z6secondv        --------------------------
	.section	.text._Z6secondv,"ax",@progbits
	//## File "/home/me/helper.h", line 3 inlined at "/home/me/k.cu", line 20
	//## File "/home/me/k.cu", line 20
        /*0000*/                   EXIT ;
"""


def test_reads_what_nvdisasm_prints():
    first, second = parse(NVDISASM, "k.sass")
    assert (first.kernel, first.arch, second.kernel) == ("first", 86, "_Z6secondv")
    assert first.instructions == (
        SassInstruction(0x00, "", "MOV", ("R1", "c[0x0][0x28]"), 7),
        SassInstruction(0x10, "@!P0", "BRA", ("0x50",), 9),
        SassInstruction(0x20, "", "MOV", ("R20", "0x50"), 9),  # only the other file is named: as before
        SassInstruction(0x30, "", "MOV", ("R21", "0x0"), 9),
        SassInstruction(0x40, "", "CALL.REL.NOINC", ("0x60",), 5),
        SassInstruction(0x50, "@P1", "EXIT", (), 5),
        SassInstruction(0x60, "", "BRX", ("R4", "-0x70"), 5),
        SassInstruction(0x70, "", "RET.REL.NODEC", ("R20", "0x0"), 5),
    )
    assert first.labels == {"first": 0, ".L_x_1": 0x50, "$first$_Z1fi": 0x60, ".L_x_2": 0x80}
    assert second.instructions == (SassInstruction(0, "", "EXIT", (), 20),)


def test_reads_what_cuobjdump_prints():
    (actual,) = parse(
        """
Fatbin elf code:
================
arch = sm_75

	code for sm_75
		Function : _Z1kPf
	.headerflags	@"EF_CUDA_SM75 EF_CUDA_PTX_SM(EF_CUDA_SM75)"
        /*0000*/                   LDG.E.SYS R0, [R2+0x8] ;            /* 0x0000080002007381 */
                                                                       /* 0x000ea200001ee900 */
        /*0010*/              @!PT SHFL.IDX PT, RZ, RZ, RZ, RZ ;       /* 0x000000fffffff389 */
                                                                       /* 0x000fe200000e00ff */
		..........
""",
        "k.sass",
    )
    assert (actual.kernel, actual.arch) == ("_Z1kPf", 75)
    assert actual.instructions == (
        SassInstruction(0x00, "", "LDG.E.SYS", ("R0", "[R2+0x8]"), None, Control(1, 2, ())),
        SassInstruction(0x10, "@!PT", "SHFL.IDX", ("PT", "RZ", "RZ", "RZ", "RZ"), None, Control(1, 7, ())),
    )


OPERANDS = [
    "R1",
    "-R2.reuse",
    "|R3|",
    "!P0",
    "c[0x0][0x28]",
    "[R2.64+0x80]",
    "desc[UR4][R2.64]",
    "0x1p-3",
    "RZ",
]


PREDICATES = ["", "@P0", "@!P6", "@UP1", "@!UPT"]
OPCODES = ["IMAD.WIDE.U32", "LDG.E.128.CONSTANT", "BAR.SYNC.DEFER_BLOCKING"]
LINES = st.tuples(
    st.sampled_from(PREDICATES),
    st.sampled_from(OPCODES),
    st.lists(st.sampled_from(OPERANDS), max_size=4),
    st.none() | st.integers(0, 6),  # a branch to this instruction, or the end
)


@given(program=st.lists(LINES, min_size=6, max_size=6))
def test_reads_back_what_is_printed(program: list[tuple[str, str, list[str], int | None]]):
    expected = []
    lines = [".target sm_80", '\t.section\t.text.k,"ax",@progbits']
    for index, (predicate, opcode, operands, target) in enumerate(program):
        printed = ", ".join(operands)
        if target is not None:
            opcode, operands, printed = "BRA", [hex(16 * target)], f"`(.L_{target})"
        expected.append(SassInstruction(16 * index, predicate, opcode, tuple(operands), None))
        lines += [f".L_{index}:", f"        /*{16 * index:04x}*/ {predicate:>18} {opcode} {printed} ;"]
    lines.append(".L_6:")
    (actual,) = parse("\n".join(lines), "k.sass")
    assert actual.instructions == tuple(expected)


BEGIN = '.target sm_80\n.section .text.k,"ax"'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", ": code: found no kernel, expected the text of nvdisasm or cuobjdump -sass"),
        ('.section .text.k,"ax"', ":1: architecture: found none, expected .target sm_.. before the code"),
        (BEGIN, ": k: found no instructions, expected some"),
        (
            f"{BEGIN}\n /*0000*/ what is this",
            ":3: instruction: found '/*0000*/ what is this', expected '/*address*/ OPCODE operands ;'",
        ),
        (f"{BEGIN}\n /*0000*/ BRA `(.L_9) ;", ":3: label: found no .L_9 in k, expected one"),
    ],
)
def test_says_in_one_line_what_it_cannot_read(text: str, message: str):
    with pytest.raises(DseError) as error:
        parse(text, "k.sass")
    assert str(error.value) == f"k.sass{message}"


@pytest.mark.parametrize(("arch", "shared_bytes"), [(80, 2224), (90, 1200)])
def test_resources_by_the_lines_around_the_code(arch: int, shared_bytes: int):
    code = f"""
	.target	sm_{arch}
	//----- nvinfo : EIATTR_REGCOUNT
	.align		4
        /*0000*/ 	.byte	0x04, 0x2f
.L_0:
        /*0004*/ 	.word	index@(other)
        /*0008*/ 	.word	0x00000063
	//----- nvinfo : EIATTR_REGCOUNT
	.align		4
        /*000c*/ 	.byte	0x04, 0x2f
.L_2:
        /*0010*/ 	.word	index@(k)
        /*0014*/ 	.word	0x00000018
	.section	.text.k,"ax",@progbits
	.sectioninfo	@"SHI_REGISTERS=20"
        /*0000*/                   IADD3 R7, R12, c[0x0][0x28], RZ ;
        /*0010*/                   EXIT ;
	.section	.nv.shared.k,"aw",@nobits
	.sectionflags	@""
	.align	4
.nv.shared.k:
	.zero		2224
"""
    [kernel] = parse(code, "k.sass")
    assert resources(code, kernel) == (0x18, shared_bytes)
    without = "\n".join(line for line in code.splitlines() if "index@" not in line and ".zero" not in line)
    assert resources(without, kernel) == (20, 0)
    assert resources(without.replace("SHI_", ""), kernel) == (13, 0)
